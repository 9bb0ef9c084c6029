"""Metrics of attacks against plain counting, and intervals that count models."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from miaudit.synthesis.retraining_attack.attack_metrics import METRICS, Judged, chance, measure


def judged(
    seed: int = 0, models: int = 24, k: int = 5, strata: int = 3, effect: float = 0.5, shared: float = 1.0
) -> Judged:
    rng = np.random.default_rng(seed)
    model = np.repeat(np.arange(models), k)
    member, stratum = model % 2 == 0, (model // 2) % strata
    score = shared * rng.normal(size=models)[model] + rng.normal(size=models * k) + effect * (2 * member - 1)
    return Judged(score.round(1), member, model, stratum)


def test_values_are_means_over_strata() -> None:
    given = judged()
    found = measure(given, 0.95)
    rows = [given.stratum == g for g in range(3)]
    assert found["auc"].value == pytest.approx(np.mean([roc_auc_score(given.member[r], given.score[r]) for r in rows]))
    called = given.score >= 0
    tpr = np.mean([called[r & given.member].mean() for r in rows])
    fpr = np.mean([called[r & ~given.member].mean() for r in rows])
    assert found["tpr"].value == pytest.approx(tpr)
    assert found["fpr"].value == pytest.approx(fpr)
    assert found["advantage"].value == pytest.approx(tpr - fpr)
    assert found["balanced_accuracy"].value == pytest.approx((1 + tpr - fpr) / 2)
    assert found["accuracy"].value == pytest.approx((called == given.member).mean())
    whole = given.of_models()
    assert len(whole.score) == 24
    mean = [roc_auc_score(whole.member[whole.stratum == g], whole.score[whole.stratum == g]) for g in range(3)]
    assert found["auc_of_models"].value == pytest.approx(np.mean(mean))
    assert tuple(found) == METRICS


def test_shifting_a_stratum_changes_no_area() -> None:
    """Scores of different classifiers have no common zero, so strata are never mixed."""
    given = judged()
    moved = Judged(given.score + 100.0 * given.stratum, given.member, given.model, given.stratum)
    assert measure(moved, 0.95)["auc"].value == measure(given, 0.95)["auc"].value


def test_the_interval_counts_models_and_not_sets() -> None:
    """Ten times the sets of the same models say nothing new where all sets of a model say the same."""
    few = judged(k=2, shared=5.0)
    many = Judged(*(np.repeat(getattr(few, name), 10) for name in ("score", "member", "model", "stratum")))
    for name in ("auc", "balanced_accuracy", "accuracy"):
        a, b = measure(few, 0.95)[name], measure(many, 0.95)[name]
        assert (a.low, a.high) == pytest.approx((b.low, b.high), abs=1e-9)
    independent, shared = (measure(judged(k=200, shared=s, effect=0.0), 0.95)["auc"] for s in (0.0, 5.0))
    assert independent.high - independent.low < 0.1 < 0.3 < shared.high - shared.low


def test_perfect_constant_and_reversed_attacks() -> None:
    given = judged()
    perfect = measure(Judged(given.member - 0.5, given.member, given.model, given.stratum), 0.95)
    assert perfect["auc"].value == perfect["accuracy"].value == 1
    assert perfect["auc"].low > 0.6 and perfect["accuracy"].low < 1  # 12 and 12 models are not certainty
    constant = Judged(np.ones(len(given.score)), given.member, given.model, given.stratum)
    found = measure(constant, 0.95)
    assert (found["tpr"].value, found["fpr"].value, found["advantage"].value, found["auc"].value) == (1, 1, 0, 0.5)
    assert found["advantage"].low < 0 < found["advantage"].high
    assert constant.constant == 1
    assert given.constant == 0
    backwards = measure(Judged(0.5 - given.member, given.member, given.model, given.stratum), 0.95)
    assert (backwards["auc"].value, backwards["advantage"].value) == (0, -1)


def test_the_mean_of_placebos() -> None:
    arms = [judged(seed, effect=0.0) for seed in range(4)]
    found = measure(arms, 0.95)["auc"]
    values = [measure(arm, 0.95)["auc"].value for arm in arms]
    assert found.value == pytest.approx(np.mean(values))
    widths = [measure(arm, 0.95)["auc"].high - measure(arm, 0.95)["auc"].low for arm in arms]
    assert found.high - found.low < min(widths)


def test_chance() -> None:
    assert (chance("auc"), chance("advantage")) == (0.5, 0.0)
    assert np.isnan(chance("tpr"))

"""A refuted propensity matters where it moves a metric of the verdict, and not where it moves nothing."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from scipy import special

from miaudit import Evidence, Nuisance, Plan, audit
from miaudit.auditing import material
from miaudit.auditing.corrected_score import CorrectedScore
from miaudit.auditing.material import Moves, known_error, outweighs
from miaudit.causal.disagreement import Disagreement
from miaudit.causal.propensity import Propensity
from miaudit.metrics.classical import Estimate

NAMES = ("auc", "tpr_at_fpr_0.1")
PLAN = Plan(fpr_targets=(0.1,), estimator="hajek", bounds=None)


def score(along: float, seed: int = 0, n: int = 4000) -> tuple[CorrectedScore, Propensity]:
    """A score that goes with a covariate ``along`` so far, weights that miss it, and weights that do not."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, 1))
    member = rng.random(n) < special.expit(0.5 * x[:, 0])
    evidence = Evidence(score=along * x[:, 0] + rng.normal(size=n), member=member, covariates=x, design="zero-run")
    flat, right = (Propensity.given(special.expit(slope * x[:, 0])) for slope in (0.0, 0.5))
    return CorrectedScore.of(evidence, flat, PLAN, Nuisance(), rng=rng), right


def moves(along: float) -> Moves:
    one, right = score(along)
    return Moves.of([one], [right], NAMES, 0.95, rng=np.random.default_rng(0))


def test_what_the_score_has_nothing_to_do_with_moves_nothing() -> None:
    assert moves(0.0).errors < 1
    assert moves(1.0).errors > 5
    assert moves(1.0).matter


def test_a_move_is_in_standard_errors_of_the_metric() -> None:
    one, right = score(0.5)
    rng = np.random.default_rng(0)
    before, after = (s.metrics(["auc"], 0.95, rng=rng)["auc"][1] for s in (one, one.weighted_by(right)))
    only = Moves.of([one], [right], ["auc"], 0.95, rng=rng)
    assert only.metric == "auc"
    assert only.errors == pytest.approx(abs(after.value - before.value) / before.standard_error)
    assert Moves.of([one], [one.propensity], ["auc"], 0.95, rng=rng).errors == 0


def test_the_largest_of_all_scores_metrics_and_directions_counts() -> None:
    (quiet, right), (loud, _) = score(0.0), score(1.0)
    rng = np.random.default_rng(0)
    alone = Moves.of([loud], [right], NAMES, 0.95, rng=rng)
    assert Moves.of([quiet, loud], [quiet.propensity, right], NAMES, 0.95, rng=rng) == alone


def fixed(**values: Estimate) -> SimpleNamespace:
    """A score whose metrics are given, and the same moved by a tenth of its width."""
    moved = {name: ("hajek", Estimate(one.value + 0.004, one.low, one.high, 0.95)) for name, one in values.items()}
    return SimpleNamespace(
        metrics=lambda *_, **__: {name: ("hajek", one) for name, one in values.items()},
        weighted_by=lambda _: SimpleNamespace(metrics=lambda *_, **__: moved),
        disagreement=lambda *_, **__: None,
    )


def test_without_a_standard_error_the_width_of_the_interval_counts() -> None:
    half = 1.959964 * 0.05
    score = fixed(advantage=Estimate(0.2, 0.2 - half, 0.2 + half, 0.95))
    only = Moves.of([score], [None], ["advantage"], 0.95, rng=None)
    assert only.errors == pytest.approx(0.08, rel=1e-5)
    assert not only.matter
    assert "It moves Advantage, largest TPR − FPR by 0.08 standard errors (limit 0.1)" in only.sentence


@pytest.mark.parametrize(("errors", "gap", "matter"), [(0.1, 1.0, False), (0.11, 0.0, True), (0.0, 1.01, True)])
def test_both_limits_refuse(errors: float, gap: float, matter: bool) -> None:
    assert Moves(errors, "auc", gap).matter == matter
    if gap > 1:
        assert "differs by 1.0 standard errors" in Moves(errors, "auc", gap).sentence


def test_the_gap_is_the_largest_of_all_scores_and_counts_for_a_forest_only() -> None:
    half = SimpleNamespace(metrics=lambda *_, **__: {}, disagreement=lambda *_, **__: Disagreement(0.5, 0.6, 1.5))
    rng = np.random.default_rng(0)
    assert Moves.of([fixed(), half], [], NAMES, 0.95, rng=rng).gap == 1.5
    assert Moves.of([fixed(), half], [], NAMES, 0.95, learned=False, rng=rng).gap == 0


@pytest.mark.thorough
@pytest.mark.parametrize("moved", [Moves(0.04, "auc", 0.2), Moves(0.7, "auc", 0.2), Moves(0.0, "auc", 1.3)])
def test_a_misfit_refuses_or_warns_by_what_it_moves(moved: Moves, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(1500, 3))
    wave = np.sin(3 * np.sqrt((x**2).sum(axis=1)))
    member = rng.random(1500) < special.expit(2 * wave)
    evidence = Evidence(score=wave + rng.normal(size=1500), member=member, covariates=x, design="zero-run")
    monkeypatch.setattr(Moves, "of", classmethod(lambda *_, **__: moved))
    monkeypatch.setattr(material, "known_error", lambda *_: 1.0)
    result = audit(evidence, plan=Plan(bounds=None), rng=np.random.default_rng(1))
    assert result.overlap is not None and result.overlap.fit is not None and result.overlap.fit.rejected
    assert (result.verdict.status == "refused") == moved.matter
    told_in = result.overlap.reasons if moved.matter else result.overlap.warnings
    assert told_in[-1].endswith(moved.sentence)
    assert result.overlap.status == ("refused" if moved.matter else "warned")
    if not moved.matter:
        assert told_in[-1].startswith("The propensity misses something that matters little: a forest foresees")
        assert any(metric.estimator == "tilted" for metric in result.metrics)
    else:
        assert "the model of how they differ is not good enough" in result.in_words.said


# -- what is known to be wrong, beside what would change the conclusion ---------------------------------------------


def given(logit: np.ndarray) -> Propensity:
    return Propensity.given(special.expit(logit))


def test_the_known_error_is_the_factor_of_nine_records_in_ten() -> None:
    logit = np.linspace(-1, 1, 1001)
    assert known_error(given(logit), []) == 1
    assert known_error(given(logit), [given(logit)]) == 1
    # log-odds that move by up to 0.5 either way, evenly: nine in ten by at most 0.45
    moved = given(logit + np.random.default_rng(0).permutation(np.linspace(-0.5, 0.5, 1001)))
    assert known_error(given(logit), [moved]) == pytest.approx(np.exp(0.45), rel=1e-3)
    assert known_error(given(logit), [given(logit), moved]) == known_error(given(logit), [moved])
    # odds count up to a factor, so that one factor for all records is no error
    assert known_error(given(logit), [given(logit + 0.7)]) == pytest.approx(1)


@pytest.mark.parametrize(("known", "needed", "refused"), [(1.3, 1.2, True), (1.2, 1.2, True), (1.1, 1.2, False)])
def test_a_conclusion_must_survive_what_is_known_to_be_wrong(known: float, needed: float, refused: bool) -> None:
    sentence = outweighs(known, needed)
    assert bool(sentence) == refused
    if refused:
        assert f"up to {known:.2f}" in sentence
        assert f"{needed:.2f}" in sentence


def test_without_a_misfit_or_with_a_conclusion_that_nothing_changes_all_stays() -> None:
    assert outweighs(1.0, 1.0) == ""
    assert outweighs(5.0, None) == ""


def waves(leak: float, seed: int, n: int = 1500) -> Evidence:
    """Members lie on rings of the covariates, which a forest sees in part; the score knows membership alone."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, 3))
    member = rng.random(n) < special.expit(2 * np.sin(3 * np.sqrt((x**2).sum(axis=1))))
    return Evidence(score=leak * member + rng.normal(size=n), member=member, covariates=x, design="zero-run")


@pytest.mark.thorough
def test_a_refuted_stack_answers_only_what_would_survive_its_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Moves, "of", classmethod(lambda *_, **__: Moves(0.01, "auc", 0.1)))
    plan = Plan(primary_metric="auc", bounds=None)
    weak, strong = (audit(waves(leak, 0), plan=plan, rng=np.random.default_rng(1)) for leak in (0.3, 3.0))
    for one in (weak, strong):
        assert one.overlap is not None and one.overlap.fit is not None and one.overlap.fit.rejected
    assert weak.verdict.status == "refused"
    assert "would already change what this audit concludes" in weak.overlap.reasons[-1]
    assert weak.sensitivity is None
    assert not any(one.estimator == "aipw" for one in weak.metrics)
    assert "the model of how they differ is not good enough" in weak.in_words.said
    assert strong.verdict.status == "flagged"
    assert strong.sensitivity is not None
    assert "matters little" in strong.overlap.warnings[-1]

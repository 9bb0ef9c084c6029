"""One score with what corrects it: the same numbers as the estimators themselves, fitted once."""

from __future__ import annotations

from dataclasses import replace
from unittest import mock

import numpy as np
import pytest

from miaudit import Evidence, Nuisance, Plan
from miaudit.auditing.corrected_score import TILTED, WEIGHTS, CorrectedScore
from miaudit.causal import effects, prognostic_tilt, propensity, stack
from miaudit.causal.outcome import Regression

NAMES = ("auc", "tpr_at_fpr_0.1", "advantage", "ate")
PLAN = Plan(fpr_targets=(0.1,), bounds=None)


def evidence(n: int = 800, seed: int = 0) -> Evidence:
    rng = np.random.default_rng(seed)
    x = rng.uniform(-2, 2, size=(n, 2))
    shift = np.sin(2 * x[:, 0])
    member = rng.random(n) < 1 / (1 + np.exp(-shift))
    return Evidence(score=shift + rng.normal(size=n), member=member, covariates=x, design="zero-run")


@pytest.fixture(scope="module")
def learned() -> propensity.Propensity:
    return propensity.stacked(evidence(), rng=np.random.default_rng(1))


def scored(learned: propensity.Propensity, plan: Plan = PLAN, outcome: object = Regression()) -> CorrectedScore:
    rng = np.random.default_rng(2)
    return CorrectedScore.of(evidence(), learned, plan, Nuisance(outcome=outcome), rng=rng)


@pytest.mark.long
def test_metrics_are_those_of_the_estimators(learned: propensity.Propensity) -> None:
    rng, score = np.random.default_rng(0), scored(learned)
    measured = score.metrics(NAMES, 0.9, rng=rng)
    assert {name: method for name, (method, _) in measured.items()} == {
        "auc": "aipw",
        "tpr_at_fpr_0.1": TILTED,
        "advantage": TILTED,
        "ate": "aipw",
    }
    law = Regression().fit(evidence(), learned, rng)
    options = {"method": "aipw", "outcome": law, "confidence": 0.9, "rng": rng}
    assert measured["auc"][1] == effects.auc(evidence(), learned, **options)
    assert measured["ate"][1] == effects.ate(evidence(), learned, **options)
    tilt = prognostic_tilt.tilted(evidence(), learned, law, (0.1,))
    assert tilt is not None
    each = [effects.tpr_at_fpr(evidence(), w, fpr=0.1, confidence=0.9, rng=rng) for w in (*tilt, learned)]
    rate = measured["tpr_at_fpr_0.1"][1]
    assert rate.value == each[0].value != each[1].value
    assert (rate.low, rate.high) == (min(one.low for one in each), max(one.high for one in each))


@pytest.mark.long
def test_limits_hold_the_untilted_weights_only_where_regressions_do_not_contradict_them(
    learned: propensity.Propensity,
) -> None:
    right, wrong = scored(learned), scored(learned).weighted_by(propensity.Propensity.given(np.full(800, 0.5)))
    assert right.weights[2:] == (learned,)
    assert wrong.tilt is not None
    assert wrong.weights == wrong.tilt  # the control: flat weights say that a shift is a leak


@pytest.mark.long
def test_rows_show_what_the_weights_alone_say_after_each_metric(learned: propensity.Propensity) -> None:
    rng, score = np.random.default_rng(0), scored(learned)
    rows = list(score.rows(NAMES, 0.95, rng=rng))
    pairs = [(name, alone) for name in NAMES for alone in (False, True)]
    assert [(name, method == WEIGHTS) for name, method, _ in rows] == pairs
    alone = {name: estimate for name, method, estimate in rows if method == WEIGHTS}
    assert alone["advantage"] == effects.advantage(evidence(), learned, rng=rng)
    assert alone["auc"] == effects.auc(evidence(), learned, rng=rng)


@pytest.mark.long
def test_the_band_holds_the_limits_of_both_weights(learned: propensity.Propensity) -> None:
    score = scored(learned)
    curve, low, high = score.tpr_band(np.array([0.1, 0.3]), 0.95)
    rate = score.metrics(["tpr_at_fpr_0.1"], 0.95, rng=np.random.default_rng(0))["tpr_at_fpr_0.1"][1]
    assert curve.tpr_at(np.array([0.1])) == pytest.approx(rate.value)
    assert (low[0], high[0]) == pytest.approx((rate.low, rate.high), abs=2e-3)  # of fewer nodes
    each = [effects.effective_nonmembers(evidence(), w) for w in score.weights]
    assert score.effective_nonmembers(0.95) == min(each)


@pytest.mark.parametrize("plan", [replace(PLAN, estimator="hajek"), replace(PLAN, estimator="aipw")])
def test_weights_stand_alone_where_no_regressions_are_read(learned: propensity.Propensity, plan: Plan) -> None:
    """By the plan, or since too few non-members are there for regressions."""
    few = evidence().take(np.r_[np.flatnonzero(~evidence().member)[:15], np.flatnonzero(evidence().member)])
    here = evidence() if plan.estimator == "hajek" else few
    known = propensity.Propensity.given(np.full(here.n, 0.5))
    score = CorrectedScore.of(here, known, plan, Nuisance(outcome=Regression()), rng=np.random.default_rng(0))
    assert score.weights == (known,)
    measured = score.metrics(NAMES, 0.95, rng=np.random.default_rng(0))
    assert {method for method, _ in measured.values()} == {WEIGHTS}
    assert measured["auc"][1] == effects.auc(here, known, rng=np.random.default_rng(0))


@pytest.mark.long
def test_regressions_are_fitted_once_for_every_confidence_and_all_weights(learned: propensity.Propensity) -> None:
    score, rng = scored(learned), np.random.default_rng(0)
    regression = stack.Regressed._regression
    with mock.patch.object(stack.Regressed, "_regression", autospec=True, side_effect=regression) as fit:
        score.metrics(NAMES, 0.95, rng=rng)
        first = fit.call_count
        score.metrics(NAMES, 0.99, rng=rng)
        score.disagreement(0.95, rng=rng)
        list(score.rows(NAMES, 0.9, rng=rng))
        assert fit.call_count == first
        targets = [call.args[1].tobytes() for call in fit.call_args_list]
    assert len(set(targets)) == len(targets) <= 4  # the AUC, the mean, and the thresholds before and after the tilt


@pytest.mark.long
def test_the_disagreement_is_the_same_whatever_the_plan_reads(learned: propensity.Propensity) -> None:
    rng = np.random.default_rng(0)
    both = [scored(learned, replace(PLAN, estimator=one)).disagreement(0.95, rng=rng) for one in ("aipw", "hajek")]
    assert both[0] == both[1]
    assert both[0] is not None and both[0].modelled != both[0].weighted
    assert scored(learned, replace(PLAN, estimator="hajek"), None).disagreement(0.95, rng=rng) is None

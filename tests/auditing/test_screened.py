"""Bounds that rest on a screened line, in a whole audit."""

from __future__ import annotations

from typing import Any
from unittest import mock

import numpy as np
import pytest
from scipy import special

import miaudit as ma
from miaudit import Evidence, Plan
from miaudit.auditing import learned_propensity
from miaudit.auditing.plan import BOUNDS_MODELS, Bounds
from miaudit.bundle import written_plan
from miaudit.causal import lack_of_fit

PRODUCT = "a line in the covariates and a product of age and hours,"


def audited(leak: float, product: float = 0.8, linear: float = 0.4, **options: Any) -> ma.Findings:
    """Audit where membership goes with a product of two covariates, which the attack knows."""
    rng = np.random.default_rng(3)
    x = rng.normal(size=(2000, 3))
    pull = linear * x[:, 0] + product * x[:, 0] * x[:, 1]
    member = rng.random(2000) < special.expit(pull)
    evidence = Evidence(
        score=pull + rng.normal(size=2000) + leak * member,
        member=member,
        covariates=x,
        covariate_names=["age", "hours", "pay"],
        design="zero-run",
    )
    plan = Plan(primary_metric="auc", estimator="hajek", **{"propensity_model": "line", **options})
    return ma.audit(evidence, plan=plan, rng=np.random.default_rng(0))


@pytest.mark.thorough
@pytest.mark.long
def test_a_product_that_voids_the_bounds_of_a_line_enters_a_screened_one() -> None:
    line, screened = (audited(2.0, bounds_model=model) for model in ("line", "screened"))
    assert not line.bounds
    assert line.no_bound
    assert screened.bounds[0].value > 0.3
    said = "log-odds of a line in the covariates, a product of age and hours (splines and products screened at 5%)"
    assert all(said in bound.corrections for bound in screened.bounds)
    assert screened.challenge is not None
    assert f"Bounds rest on {PRODUCT}" in screened.challenge.text
    # the metrics are those of the plan's propensity, whatever bounds rest on
    assert screened.metrics == line.metrics


@pytest.mark.thorough
def test_nothing_is_shown_where_nothing_leaks() -> None:
    assert [bound.value for bound in audited(0.0, bounds_model="screened").bounds] == [0.0] * 3


@pytest.mark.thorough
@pytest.mark.long
def test_beside_a_stack() -> None:
    found = audited(2.0, propensity_model="stack", bounds_model="screened")
    assert found.verdict.status == "flagged"
    assert found.bounds[0].value > 0.3


@pytest.mark.long
def test_without_options_a_refuted_line_is_enlarged_and_the_answer_says_so() -> None:
    by_default = audited(2.0, propensity_model="stack")
    screened = audited(2.0, propensity_model="stack", bounds_model="screened")
    assert by_default.bounds == screened.bounds
    assert by_default.bounds[0].value > 0.3
    assert by_default.challenge is not None
    assert PRODUCT in by_default.challenge.text
    assert "The line alone is refuted: a forest foresees membership better" in by_default.challenge.text


@pytest.mark.long
def test_a_line_that_nothing_refutes_is_not_learned_again() -> None:
    """Nor where no bound is possible: the fit of the screened line, and its 100 resamples, would be for nothing."""
    with mock.patch.object(learned_propensity, "_screened", side_effect=AssertionError):
        by_default, line = audited(2.0, product=0.0), audited(2.0, product=0.0, bounds_model="line")
        assert not audited(2.0, bounds=None).bounds
        assert not audited(2.0, product=3.0, linear=8.0).bounds  # covariates identify nearly all members: no overlap
    assert by_default.bounds == line.bounds
    assert by_default.metrics == line.metrics


def corner(n: int, rng: np.random.Generator) -> Evidence:
    """Nothing leaks; in a corner of two covariates, 5% of the records, most records are members and scores are high."""
    x = rng.normal(size=(n, 4))
    inside = (x[:, 0] > 0.76) & (x[:, 1] > 0.76)
    member = rng.random(n) < np.where(inside, 0.92, 0.48)
    return Evidence(score=4.0 * inside + rng.normal(size=n), member=member, covariates=x, design="zero-run")


@pytest.mark.long
def test_a_margin_does_not_save_a_line_whose_misfit_it_does_not_cover() -> None:
    """The challenge passes at the margin, and the bound on mu would be false: the test for lack of fit voids it."""
    evidence = corner(6000, np.random.default_rng(5))
    plan = Plan(primary_metric="auc", bounds=Bounds(margin=0.1))
    findings = ma.audit(evidence, plan=plan, rng=np.random.default_rng(0))
    assert findings.challenge is not None
    assert not findings.challenge.rejected
    assert not findings.bounds
    assert "The propensity is refuted: a forest foresees membership better" in findings.no_bound[0]
    with mock.patch.object(lack_of_fit, "LIMIT", 1e9):
        untested = ma.audit(evidence, plan=plan, rng=np.random.default_rng(0))
    assert untested.bounds[0].value > 0


@pytest.mark.parametrize("model", BOUNDS_MODELS)
def test_a_plan_keeps_it(model: str) -> None:
    assert written_plan.decode(written_plan.encode(Plan(bounds_model=model))).bounds_model == model

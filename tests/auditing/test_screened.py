"""Bounds that rest on a screened line, in a whole audit."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import special

import miaudit as ma
from miaudit import Evidence, Plan
from miaudit.bundle import written_plan


def audited(leak: float, **options: str) -> ma.Findings:
    """Audit where membership goes with a product of two covariates, which the attack knows."""
    rng = np.random.default_rng(3)
    x = rng.normal(size=(2000, 3))
    pull = 0.4 * x[:, 0] + 0.8 * x[:, 0] * x[:, 1]
    member = rng.random(2000) < special.expit(pull)
    evidence = Evidence(
        score=pull + rng.normal(size=2000) + leak * member,
        member=member,
        covariates=x,
        covariate_names=["age", "hours", "pay"],
        design="zero-run",
    )
    plan = Plan(primary_metric="auc", estimator="hajek", **{"propensity_model": "line", **options})  # type: ignore[arg-type]
    return ma.audit(evidence, plan=plan, rng=np.random.default_rng(0))


@pytest.mark.thorough
@pytest.mark.long
def test_a_product_that_voids_the_bounds_of_a_line_enters_a_screened_one() -> None:
    line, screened = audited(2.0), audited(2.0, bounds_model="screened")
    assert not line.bounds
    assert line.no_bound
    assert screened.bounds[0].value > 0.3
    said = "log-odds of a line in the covariates, a product of age and hours (splines and products screened at 5%)"
    assert all(said in bound.corrections for bound in screened.bounds)
    assert screened.challenge is not None
    assert "Bounds rest on a line in the covariates and a product of age and hours," in screened.challenge.text
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


@pytest.mark.parametrize("model", ["line", "screened"])
def test_a_plan_keeps_it(model: str) -> None:
    assert written_plan.decode(written_plan.encode(Plan(bounds_model=model))).bounds_model == model

"""What an audit says of traits that nobody measured."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import miaudit as ma
from miaudit.auditing.plan import Bounds, Plan
from miaudit.auditing.sensitivity import _largest
from miaudit.causal.propensity import Nuisance, Propensity
from miaudit.findings.audit import Findings


def documents(leak: float, *, n: int = 3000, seed: int = 0, design: str = "zero-run") -> ma.Evidence:
    """Years decide membership and, a little, the score; ages decide membership only."""
    rng = np.random.default_rng(seed)
    age, year = rng.normal(55, 15, n), rng.integers(2016, 2025, n)
    member = rng.random(n) < 1 / (1 + np.exp(-0.02 * (age - 55) + 0.25 * (year - 2020)))
    score = 0.15 * (2024 - year) - 1.2 - rng.gamma(2.0, 0.5, n) + leak * member
    covariates = np.column_stack([age, year]) if design == "zero-run" else None
    names = ("age", "year") if design == "zero-run" else ()
    return ma.Evidence(score=score, member=member, covariates=covariates, covariate_names=names, design=design)


PLAN = Plan(bounds=None)


@pytest.mark.thorough
def test_limits_that_are_exceeded_could_be_explained_and_the_firmest_comes_first() -> None:
    found = ma.audit(documents(1.2), plan=PLAN, rng=0)
    sensitivity = found.sensitivity
    assert sensitivity is not None
    assert {one.limit for one in sensitivity.limits} == {one.limit for one in found.verdict.exceeded}
    assert {one.side for one in sensitivity.limits} == {"low"}
    sizes = [one.size for one in sensitivity.limits]
    assert sizes == sorted(sizes, reverse=True) and sizes[0] > 3
    assert [one.covariate for one in sensitivity.covariates] == ["year", "age"]
    assert sensitivity.covariates[0].odds == pytest.approx(np.exp(0.25 * 4), rel=0.15)  # 9 in 10 within four years
    assert sensitivity.covariates[1].odds == pytest.approx(np.exp(0.02 * 15 * 1.645), rel=0.15)
    assert abs(sensitivity.covariates[1].moved or 0) < 0.02 < abs(sensitivity.covariates[0].moved or 0)
    assert "matter more than year does" in sensitivity.text
    assert Findings.from_dict(found.to_dict()) == found


@pytest.mark.thorough
def test_a_smaller_leak_is_explained_by_a_weaker_trait() -> None:
    sizes = []
    for leak in (0.5, 0.8, 1.2):
        found = ma.audit(documents(leak), plan=Plan(bounds=None, limits={"auc": 0.6}), rng=0)
        assert found.sensitivity is not None
        sizes.append(found.sensitivity.limits[0].size)
    assert 1 < sizes[0] < sizes[1] < sizes[2]


@pytest.mark.thorough
@pytest.mark.parametrize("name", ["auc", "advantage", "balanced_accuracy", "ate", "tpr_at_fpr_0.1"])
def test_each_limit_on_a_metric_has_its_factor_on_both_sides(name: str) -> None:
    """Just below what was measured a limit is exceeded, just above it is not; a wider gap needs a stronger trait."""
    evidence = documents(0.8, n=1500)
    line: dict[str, Any] = {"bounds": None, "propensity_model": "line", "estimator": "hajek"}
    measured = ma.audit(evidence, plan=Plan(**line, limits={name: 0.9 if name != "ate" else 5.0}), rng=0)
    low, high = measured.metric(name).low, measured.metric(name).high
    assert low is not None and high is not None
    factors = []
    for gap in (0.02, 0.06):
        for side, threshold in (("low", low - gap), ("high", high + gap)):
            found = ma.audit(evidence, plan=Plan(**line, limits={name: threshold}), rng=0).sensitivity
            assert found is not None
            assert (found.limits[0].limit, found.limits[0].side) == (name, side)
            assert [one.covariate for one in found.covariates] == ["year", "age"]
            factors.append(found.limits[0].size)
    assert 1 < factors[0] < factors[2]
    assert 1 < factors[1] < factors[3]


@pytest.mark.thorough
def test_within_the_limits_it_is_what_a_trait_could_hide() -> None:
    found = ma.audit(documents(0.0), plan=PLAN, rng=0)
    assert found.verdict.status == "clear"
    assert found.sensitivity is not None
    assert {one.side for one in found.sensitivity.limits} == {"high"}
    assert len(found.sensitivity.limits) == 3
    assert "could hide" in found.sensitivity.text


@pytest.mark.long
def test_an_open_verdict_has_the_auc_where_it_is_above_chance() -> None:
    found = ma.audit(documents(0.3, n=1200), plan=Plan(bounds=None, limits={"auc": 0.62}), rng=0)
    assert found.verdict.status == "inconclusive"
    assert found.sensitivity is not None
    (one,) = found.sensitivity.limits
    assert (one.limit, one.side, one.threshold) == ("auc", "low", 0.5)
    assert (found.metric("auc").low or 0) > 0.5


@pytest.mark.thorough
def test_the_bound_on_mu_has_its_factor() -> None:
    found = ma.audit(documents(1.2), plan=Plan(bounds=Bounds()), rng=0)
    assert found.bounds[0].parameter == "mu" and found.bounds[0].value > 0
    assert found.sensitivity is not None
    of_mu = found.sensitivity.limits[-1]
    assert (of_mu.limit, of_mu.threshold) == ("mu", 0.0)
    assert "The lower bound on mu stays above 0 up to a factor of" in found.sensitivity.text
    # Twin: the bound at that margin, and beyond it.
    inside, outside = (
        ma.audit(documents(1.2), plan=Plan(bounds=Bounds(margin=float(np.log(factor)))), rng=0)
        for factor in (0.98 * of_mu.size, 1.3 * of_mu.size)
    )
    assert inside.bounds[0].value > 0
    assert not outside.bounds or outside.bounds[0].value == 0


@pytest.mark.thorough
def test_a_limit_on_mu_decides_alone() -> None:
    found = ma.audit(documents(2.0, n=1500), plan=Plan(bounds=Bounds(), limits={"mu": 0.1}), rng=0)
    assert found.verdict.status == "flagged"
    assert found.sensitivity is not None
    (one,) = found.sensitivity.limits
    assert (one.limit, one.threshold) == ("mu", 0.1)
    assert one.size > 2


@pytest.mark.long
def test_a_covariate_and_the_mark_of_its_gaps_are_left_out_together() -> None:
    evidence = documents(1.2, n=1500)
    assert evidence.covariates is not None
    age, year = evidence.covariates.T
    gap = np.random.default_rng(4).random(1500) < np.where(evidence.member, 0.3, 0.1)
    columns = np.column_stack([np.where(gap, np.median(age), age), gap, year])
    marked = evidence.replace(covariates=columns, covariate_names=("age", "age missing", "year"))
    found = ma.audit(marked, plan=PLAN, rng=0).sensitivity
    assert found is not None
    odds = {one.covariate: one.odds for one in found.covariates}
    assert set(odds) == {"age", "year"}
    assert odds["age"] > 1.8  # the gaps alone: 3, for a fifth of the records


@pytest.mark.long
def test_without_covariates_there_is_no_yardstick() -> None:
    evidence = documents(1.2, n=1500)
    assert evidence.covariates is not None
    age, year = evidence.covariates.T
    known = Propensity.given(1 / (1 + np.exp(-0.02 * (age - 55) + 0.25 * (year - 2020))))
    bare = evidence.replace(covariates=None, covariate_names=())
    found = ma.audit(bare, plan=PLAN, nuisance=Nuisance(propensity=known), rng=0)
    assert found.sensitivity is not None
    assert found.sensitivity.covariates == ()


def test_where_nothing_was_corrected_nothing_is_said() -> None:
    assert ma.audit(documents(1.2, design="one-run"), plan=PLAN, rng=0).sensitivity is None
    unlike = documents(1.2)
    assert unlike.covariates is not None
    apart = unlike.replace(
        covariates=np.column_stack([unlike.covariates, unlike.member]), covariate_names=("a", "b", "c")
    )
    refused = ma.audit(apart, plan=PLAN, rng=0)
    assert refused.verdict.status == "refused"
    assert refused.sensitivity is None


@pytest.mark.parametrize("end", [1.0, 1.3, 7.0, 99.0])
def test_the_largest_factor_that_holds(end: float) -> None:
    assert _largest(lambda factor: factor <= end) == pytest.approx(end, rel=0.005)
    assert _largest(lambda factor: False) == 0
    assert _largest(lambda factor: True) == np.inf

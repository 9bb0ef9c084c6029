"""The distance of AIPW and weights in standard errors, against the interval that it is read off, and at the ends."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import special

from miaudit import Evidence
from miaudit.causal import effects
from miaudit.causal.disagreement import Disagreement
from miaudit.causal.propensity import Propensity
from miaudit.metrics.classical import Estimate


def estimate(value: float, error: float | None) -> Estimate:
    return Estimate(value, 0.0, 1.0, 0.95, standard_error=error)


@pytest.mark.long
def test_the_error_is_that_of_the_interval() -> None:
    """The narrower half of AIPW's interval on the logit scale, whose other half may reach one step further."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(1500, 2))
    member = rng.random(1500) < special.expit(x[:, 0])
    evidence = Evidence(score=x[:, 0] + rng.normal(size=1500), member=member, covariates=x, design="zero-run")
    known = Propensity.given(special.expit(0.4 * x[:, 0]))  # wrong: the weights leave a part of the shift
    modelled = effects.auc(evidence, known, method="aipw", rng=rng)
    weighted = effects.auc(evidence, known, method="hajek", rng=rng)
    found = Disagreement.of(modelled, weighted)
    assert modelled.value is not None
    assert weighted.value is not None
    halves = [
        min(special.logit(e.value) - special.logit(e.low), special.logit(e.high) - special.logit(e.value)) / 1.959964
        for e in (modelled, weighted)
    ]
    errors = [half * e.value * (1 - e.value) for half, e in zip(halves, (modelled, weighted), strict=True)]
    at = modelled.value * (1 - modelled.value)
    expected = abs(special.logit(modelled.value) - special.logit(weighted.value)) / (max(errors) / at)
    assert found.errors == pytest.approx(expected, rel=1e-6)
    assert found.exceeds
    right = Propensity.given(special.expit(x[:, 0]))
    both = [effects.auc(evidence, right, method=method, rng=rng) for method in ("aipw", "hajek")]
    assert not Disagreement.of(*both).exceeds


def test_the_larger_error_counts() -> None:
    assert Disagreement.of(estimate(0.5, 0.01), estimate(0.53, 0.02)).errors == pytest.approx(1.5, abs=0.01)
    assert Disagreement.of(estimate(0.5, 0.02), estimate(0.53, None)).errors == pytest.approx(1.5, abs=0.01)


@pytest.mark.parametrize("end", [0.0, 1.0])
def test_at_the_ends_the_distance_is_that_of_the_areas(end: float) -> None:
    assert Disagreement.of(estimate(end, 0.02), estimate(0.7, 0.02)).errors == pytest.approx(abs(end - 0.7) / 0.02)
    assert Disagreement.of(estimate(end, 0.0), estimate(end, 0.0)).errors == 0.0


def test_without_an_error_every_distance_is_too_large() -> None:
    found = Disagreement.of(estimate(0.5, 0.0), estimate(0.6, 0.0))
    assert math.isinf(found.errors)
    assert found.exceeds
    assert "more than any standard error" in found.sentence


@pytest.mark.thorough
@pytest.mark.long
def test_of_a_known_propensity_one_audit_in_twenty_is_contradicted_at_most() -> None:
    """The two differ by at most the larger error where both are right; the control halves the log-odds."""
    exceeded = {1.0: 0, 0.4: 0}
    for seed in range(25):
        rng = np.random.default_rng(seed)
        x = rng.exponential(size=(1000, 2)) - 1
        member = rng.random(1000) < special.expit(x[:, 0])
        score = 2 * x[:, 0] + rng.standard_t(3, size=1000)
        evidence = Evidence(score=score, member=member, covariates=x, design="zero-run")
        for share in exceeded:
            known = Propensity.given(special.expit(share * x[:, 0]))
            both = [effects.auc(evidence, known, method=method, rng=rng) for method in ("aipw", "hajek")]
            exceeded[share] += Disagreement.of(*both).exceeds
    assert exceeded[1.0] <= 5  # a rate of .05 gives more in 1 of 1,000 runs
    assert exceeded[0.4] >= 20

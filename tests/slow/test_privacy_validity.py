"""Bounds of zero-run audits without any algorithm, propensities cross-fitted on the audited records themselves."""

from __future__ import annotations

from math import sqrt

import numpy as np
import pytest

from miaudit import Evidence
from miaudit.causal import propensity
from miaudit.dp import zero_run
from validity.claims import Claims

pytestmark = [pytest.mark.slow, pytest.mark.validity]

LEVEL, N = 0.05, 2000


def false_alarms(d: int, half_width: float | None, rng: np.random.Generator) -> dict[str, bool]:
    """Whether mu > 0, epsilon > 0, and epsilon > 0 by a pilot, was claimed of what covariates give away.

    The attacker knows the true log-odds and guesses by them alone; the pilot is offered them as they are, an exact line
    in the covariates, and also tries what is left of them beyond the covariates.
    """
    x = rng.normal(size=(N, d))
    logit = x.sum(axis=1) / sqrt(d)
    member = rng.random(N) < 1 / (1 + np.exp(-logit))
    ev = Evidence(score=logit + np.tanh(3 * logit), member=member, covariates=x, design="zero-run")
    learned = propensity.fit(ev, rng=rng)
    way = zero_run.Thinning(half_width=half_width)
    mu = zero_run.mu_lower_bound(ev, learned, guesses=200, confidence=1 - LEVEL, correction=way, rng=rng)
    drawn = propensity.bootstrap(ev, replicates=100, folds=learned.folds, rng=rng)
    pure = zero_run.epsilon_lower_bound(ev, learned, guesses=200, confidence=1 - LEVEL, replicates=drawn, rng=rng)
    line = ev.replace(score=logit)
    piloted = zero_run.epsilon_lower_bound(line, learned, confidence=1 - LEVEL, replicates=drawn, rng=rng)
    return {"mu > 0": mu.value > 0, "epsilon > 0": pure.value > 0, "epsilon > 0, pilot": piloted.value > 0}


@pytest.mark.parametrize("d", [5, 50])
def test_cross_fitted_propensities_claim_nothing_where_nothing_leaks(claim: Claims, d: int) -> None:
    names = ("mu > 0", "epsilon > 0", "epsilon > 0, pilot")
    claim(lambda rng: false_alarms(d, None, rng), holds=dict.fromkeys(names, LEVEL))
    claim(lambda rng: false_alarms(50, 0.0, rng), fails={"mu > 0": LEVEL})


def test_cross_fitted_propensities_taken_as_known_do_claim(claim: Claims) -> None:
    claim(lambda rng: false_alarms(50, 0.0, rng), fails={"mu > 0": LEVEL})

"""Bounds of zero-run audits without any algorithm, propensities cross-fitted on the audited records themselves."""

from __future__ import annotations

from concurrent.futures import Executor
from math import sqrt

import numpy as np
import pytest

from miaudit import Evidence
from miaudit.causal import propensity
from miaudit.dp import zero_run

pytestmark = pytest.mark.slow

LEVEL, N = 0.05, 2000


def false_alarms(d: int, audits: int, seed: int, half_width: float | None) -> list[tuple[bool, ...]]:
    """Whether mu > 0, epsilon > 0, and epsilon > 0 by a pilot, was claimed of what covariates give away.

    The attacker knows the true log-odds and guesses by them alone; the pilot is offered them as they are, an exact line
    in the covariates, and also tries what is left of them beyond the covariates.
    """
    found = []
    for rng in np.random.default_rng(seed).spawn(audits):
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
        found.append((mu.value > 0, pure.value > 0, piloted.value > 0))
    return found


@pytest.mark.parametrize("d", [5, 50])
def test_cross_fitted_propensities_claim_nothing_where_nothing_leaks(pool: Executor, d: int) -> None:
    parts = pool.map(false_alarms, [d] * 2, [60] * 2, [1, 2], [None] * 2)
    rates = np.mean([alarm for part in parts for alarm in part], axis=0)
    print(f"\nd {d}: mu {rates[0]:.3f}, pure epsilon {rates[1]:.3f}, by a pilot {rates[2]:.3f} of 120 audits")
    assert (rates <= LEVEL + 3 * sqrt(LEVEL * (1 - LEVEL) / 120)).all()


def test_cross_fitted_propensities_taken_as_known_do_claim(pool: Executor) -> None:
    parts = pool.map(false_alarms, [50] * 2, [20] * 2, [3, 4], [0.0] * 2)
    rate = np.mean([mu for part in parts for mu, *_ in part])
    assert rate > LEVEL + 3 * sqrt(LEVEL * (1 - LEVEL) / 40)

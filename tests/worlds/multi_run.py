"""Mechanisms whose privacy is known, audited by many runs: scores of one record in and out of the data."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import optimize, stats

from miaudit import Evidence
from miaudit.dp import multi_run

FloatArray = NDArray[np.float64]
Draw = Callable[[int, np.random.Generator], FloatArray]


@dataclass(frozen=True)
class World:
    """Scores of members and non-members, and the smallest parameters that the mechanism has."""

    inside: Draw
    outside: Draw
    epsilon: float  # at delta
    delta: float
    mu: float  # infinite where no Gaussian DP holds
    best: float  # a good threshold

    def evidence(self, n1: int, n0: int, rng: np.random.Generator) -> Evidence:
        score = np.concatenate([self.inside(n1, rng), self.outside(n0, rng)])
        return Evidence(score=score, member=np.arange(n1 + n0) < n1, design="multi-run")

    def truth(self, parameter: str) -> float:
        return self.mu if parameter == "mu" else self.epsilon


def randomised_response(epsilon: float) -> World:
    honest = 1 / (1 + math.exp(-epsilon))
    return World(
        inside=lambda n, rng: (rng.random(n) < honest).astype(float),
        outside=lambda n, rng: (rng.random(n) >= honest).astype(float),
        epsilon=epsilon,
        delta=0.0,
        mu=2 * float(stats.norm.ppf(honest)),  # the only corner of its curve
        best=1.0,
    )


def laplace(epsilon: float) -> World:
    a = np.linspace(0.5 * math.exp(-epsilon), 0.5, 20_001)
    tpr = 1 - np.exp(-epsilon) / (4 * a)  # the middle piece of its curve, where it bends
    return World(
        inside=lambda n, rng: 1 + rng.laplace(scale=1 / epsilon, size=n),
        outside=lambda n, rng: rng.laplace(scale=1 / epsilon, size=n),
        epsilon=epsilon,
        delta=0.0,
        mu=float(np.max(stats.norm.ppf(tpr) - stats.norm.ppf(a))),
        best=1.0,
    )


def gaussian(mu: float, delta: float) -> World:
    return World(
        inside=lambda n, rng: rng.normal(size=n) + mu,
        outside=lambda n, rng: rng.normal(size=n),
        epsilon=smallest_epsilon(lambda x: stats.norm.pdf(x - mu), stats.norm.pdf, delta),
        delta=delta,
        mu=mu,
        best=mu / 2,
    )


def subsampled(mu: float, rate: float, delta: float) -> World:
    return World(
        inside=lambda n, rng: rng.normal(size=n) + mu * (rng.random(n) < rate),
        outside=lambda n, rng: rng.normal(size=n),
        epsilon=smallest_epsilon(
            lambda x: rate * stats.norm.pdf(x - mu) + (1 - rate) * stats.norm.pdf(x), stats.norm.pdf, delta
        ),
        delta=delta,
        mu=mu,  # only at an FPR of 0, in the limit; at every other its curve lies below
        best=1.5,
    )


def failing(rate: float) -> World:
    """Reveals everything with probability ``rate``, nothing else: (0, rate)-DP (erratum B17's mechanism)."""
    return World(
        inside=lambda n, rng: np.where(rng.random(n) < rate, 10.0, rng.normal(size=n)),
        outside=lambda n, rng: rng.normal(size=n),
        epsilon=0.0,
        delta=rate,
        mu=math.inf,
        best=8.0,
    )


def smallest_epsilon(p: Callable[[Any], Any], q: Callable[[Any], Any], delta: float) -> float:
    """Return the epsilon at delta of two densities, by their hockey-stick divergences on a grid, both directions."""
    x = np.linspace(-12, 14, 400_001)
    dx, px, qx = x[1] - x[0], p(x), q(x)

    def excess(epsilon: float) -> float:
        one = np.maximum(px - math.exp(epsilon) * qx, 0).sum() * dx
        other = np.maximum(qx - math.exp(epsilon) * px, 0).sum() * dx
        return float(max(one, other)) - delta

    return 0.0 if excess(0.0) <= 0 else float(optimize.brentq(excess, 0.0, 30.0))


WORLDS = {
    "randomised response": randomised_response(1.0),
    "Laplace": laplace(1.0),
    "nothing leaks": gaussian(0.0, 0.0),
    "Gaussian": gaussian(1.0, 0.1),
    "subsampled Gaussian": subsampled(2.0, 0.3, 0.1),
    "fails altogether": failing(0.05),
}


def rules(world: World) -> dict[str, multi_run.ThresholdRule]:
    return {
        "threshold": multi_run.Threshold(world.best),
        "split": multi_run.Split(),
        "Bonferroni": multi_run.Bonferroni(),
        "exploratory": multi_run.Exploratory(),
    }


def audits(
    world: World,
    parameter: str,
    rule: multi_run.ThresholdRule,
    method: multi_run.Method,
    *,
    n: int,
    replicates: int,
    seed: int,
    confidence: float = 0.95,
) -> FloatArray:
    """Return the bounds (replicates,) of audits with n trials of each kind."""
    rng = np.random.default_rng(seed)
    found = np.empty(replicates)
    for i in range(replicates):
        evidence = world.evidence(n, n, rng)
        if parameter == "mu":
            bound = multi_run.mu_lower_bound(evidence, confidence=confidence, threshold=rule, method=method, rng=rng)
        else:
            bound = multi_run.epsilon_lower_bound(
                evidence, delta=world.delta, confidence=confidence, threshold=rule, method=method, rng=rng
            )
        found[i] = bound.value
    return found

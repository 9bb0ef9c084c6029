"""Shifts that weights of a stack miss at the sizes of these tests; what is memorised is known.

The score moves with the very function of the covariates that membership goes with, so that weights which miss it leave
the shift in every metric that no regression corrects.
"""

from __future__ import annotations

import numpy as np
from scipy import special

from miaudit import Evidence

COLUMNS, FIRST, SECOND = 50, 7, 23  # both behind the first twelve in sum: products of the first twelve never see them
LEAK = 2.5  # in standard deviations of the noise
LEVELS = 200


def late_product(n: int, rng: np.random.Generator, *, slope: float = 2.0, leak: float = 0.0) -> Evidence:
    """Membership goes with one product among 1,225; the score moves with it by ``slope``.

    With ``slope`` 2 nothing is memorised, and the shift looks like a leak. With ``slope`` -2 and the leak ``LEAK`` the
    shift hides the leak.
    """
    x = rng.normal(size=(n, COLUMNS))
    both = x[:, FIRST] * x[:, SECOND]
    member = rng.random(n) < special.expit(both)
    return _evidence(x, member, slope * both + rng.normal(size=n) + leak * member)


def many_levels(n: int, rng: np.random.Generator) -> Evidence:
    """Membership and score go with each of 200 declared levels; nothing is memorised."""
    level, site = 1.2 * rng.normal(size=LEVELS), rng.integers(0, LEVELS, n)
    member = rng.random(n) < special.expit(level[site])
    return _evidence(np.c_[site, rng.normal(size=n)], member, 2 * level[site] + rng.normal(size=n))


def smooth(n: int, rng: np.random.Generator) -> Evidence:
    """A line that a stack learns well; nothing is memorised."""
    x = rng.normal(size=(n, 4))
    member = rng.random(n) < special.expit(x[:, 0])
    return _evidence(x, member, x[:, 1] + 0.3 * x[:, 0] + rng.normal(size=n))


def heavy(n: int, rng: np.random.Generator) -> Evidence:
    """A shift along columns with the tails of t(2); nothing is memorised."""
    x = rng.standard_t(2, size=(n, 5))
    pull = np.tanh(x[:, 0] * x[:, 1]) + np.tanh(x[:, 2])
    return _evidence(x, rng.random(n) < special.expit(pull), pull + rng.normal(size=n))


def spread_out(n: int, rng: np.random.Generator) -> Evidence:
    """The spread of the score goes with what membership goes with, its mean does not; nothing is memorised."""
    x = rng.normal(size=(n, 4))
    member = rng.random(n) < special.expit(1.2 * x[:, 0])
    return _evidence(x, member, np.exp(0.6 * x[:, 0]) * rng.normal(size=n))


SOUND = {"line": smooth, "heavy tails": heavy, "spread": spread_out}


def rates(fpr: float, *, slope: float = -2.0, leak: float = LEAK, n: int = 2_000_000) -> float:
    """TPR of :func:`late_product` at an FPR among the members, by simulation of both potential scores."""
    rng = np.random.default_rng(0)
    both = rng.normal(size=n) * rng.normal(size=n)
    both = both[rng.random(n) < special.expit(both)]
    absent = slope * both + rng.normal(size=len(both))
    return float(np.mean(absent + leak > np.quantile(absent, 1 - fpr)))


def _evidence(x: np.ndarray, member: np.ndarray, score: np.ndarray) -> Evidence:
    names = tuple(f"x{i}" for i in range(x.shape[1]))
    return Evidence(score=score, member=member, covariates=x, covariate_names=names, design="zero-run")

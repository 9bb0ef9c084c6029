"""Populations that differ in what no line in the covariates sees; nothing, or a known amount, is memorised.

The score knows the very thing that membership goes with, so that a propensity which misses it leaves the whole shift
standing as if it were memorisation.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import special

from miaudit import Evidence

NAMES = ("age", "hours", "income", "tenure")
SITES = 30


def product(n: int, effect: float, rng: np.random.Generator) -> Evidence:
    """Membership is driven by the product of the first two covariates, and so is the score."""
    x = rng.normal(size=(n, 4))
    both = x[:, 0] * x[:, 1]
    return _evidence(x, rng.random(n) < special.expit(both), both, effect, rng)


def product_among_many(n: int, effect: float, rng: np.random.Generator) -> Evidence:
    """The same among thirty covariates."""
    x = rng.normal(size=(n, 30))
    both = x[:, 0] * x[:, 1]
    return _evidence(x, rng.random(n) < special.expit(both), both, effect, rng)


def opposite_correlations(n: int, effect: float, rng: np.random.Generator, sign: float = 1.0) -> Evidence:
    """Two covariates go together among members, and against each other among non-members, single laws being equal."""
    member = rng.random(n) < 0.5
    x = rng.normal(size=(n, 4))
    correlation = np.where(member, 0.6, -0.6)
    x[:, 1] = correlation * x[:, 0] + np.sqrt(1 - correlation**2) * x[:, 1]
    return _evidence(x, member, sign * x[:, 0] * x[:, 1], effect, rng)


def leak_behind_opposite_correlations(n: int, effect: float, rng: np.random.Generator) -> Evidence:
    """The same shift with its sign turned, so that it takes away what a leak adds."""
    return opposite_correlations(n, effect, rng, sign=-1.0)


def sites(n: int, effect: float, rng: np.random.Generator) -> Evidence:
    """The first covariate is a code: each of 30 sites has its own share of members, and its own level of the score."""
    level = rng.normal(size=SITES)
    site = rng.integers(0, SITES, n)
    x = np.c_[site, rng.normal(size=(n, 3))]
    return _evidence(x, rng.random(n) < special.expit(level[site]), level[site], effect, rng)


def step(n: int, effect: float, rng: np.random.Generator) -> Evidence:
    """Membership jumps where the first covariate passes one."""
    x = rng.normal(size=(n, 4))
    jump = np.where(x[:, 0] > 1, 1.5, -0.5)
    return _evidence(x, rng.random(n) < special.expit(jump), jump, effect, rng)


def line(n: int, effect: float, rng: np.random.Generator) -> Evidence:
    """The control: a shift that the default propensity describes."""
    x = rng.normal(size=(n, 4))
    pull = 0.8 * x[:, 0] - 0.5 * x[:, 1]
    return _evidence(x, rng.random(n) < special.expit(pull), pull, effect, rng)


WORLDS = {
    "product": product,
    "product among 30 covariates": product_among_many,
    "opposite correlations": opposite_correlations,
    "sites as codes": sites,
    "step": step,
    "line": line,
    "leak behind opposite correlations": leak_behind_opposite_correlations,
}


def draw(name: str, n: int, rng: np.random.Generator, *, effect: float = 0.0) -> Evidence:
    """A sample of one of these worlds; membership adds ``effect`` to the score, whose noise has sd 1."""
    return WORLDS[name](n, effect, rng)


def _evidence(x: Any, member: Any, signal: Any, effect: float, rng: np.random.Generator) -> Evidence:
    score = signal + rng.normal(size=len(member)) + effect * member
    names = (*NAMES, *(f"column {i}" for i in range(len(NAMES), x.shape[1])))
    return Evidence(score=score, member=member, covariates=x, covariate_names=names, design="zero-run")

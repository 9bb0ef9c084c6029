"""Worlds of scores whose ROC curve is known: what an interval must contain."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray
from scipy import integrate, optimize, special, stats

FloatArray = NDArray[np.float64]
Draw = Callable[[int, np.random.Generator], FloatArray]


@dataclass(frozen=True)
class World:
    """A pair of score distributions.

    Attributes
    ----------
    members, nonmembers : draw (n,) scores
    tpr : the true TPR at each FPR, inside ties with a randomised threshold
    auc, advantage : their true values
    difference : true mean of members less that of non-members
    continuous : whether scores have a density
    vertices : FPR and TPR at each distinct score, from the highest, where scores are tied
    """

    name: str
    members: Draw
    nonmembers: Draw
    tpr: Callable[[float], float]
    auc: float
    advantage: float
    difference: float
    continuous: bool = True
    vertices: tuple[FloatArray, FloatArray] | None = None

    def step_tpr(self, alpha: float) -> float:
        """Return the true TPR of the lowest threshold that keeps the FPR, without randomisation."""
        if self.vertices is None:
            return self.tpr(alpha)
        fpr, tpr = self.vertices
        return float(tpr[np.searchsorted(fpr, alpha, side="right") - 1])

    def draw(self, n1: int, n0: int, rng: np.random.Generator) -> tuple[FloatArray, NDArray[np.bool_]]:
        """Return scores and membership, members first."""
        score = np.concatenate([self.members(n1, rng), self.nonmembers(n0, rng)])
        return score, np.arange(n1 + n0) < n1


@cache
def gaussian(d: float, sigma: float = 1.0, name: str = "") -> World:
    """Members N(d, sigma^2), non-members N(0, 1)."""

    def tpr(alpha: float) -> float:
        return float(special.ndtr((special.ndtri(alpha) + d) / sigma))

    return World(
        name or f"gaussian_{d:g}",
        lambda n, rng: rng.normal(d, sigma, n),
        lambda n, rng: rng.normal(size=n),
        tpr,
        float(stats.norm.cdf(d / math.hypot(1, sigma))),
        _largest_gap(tpr),
        d,
    )


def student(degrees: int, shift: float, name: str) -> World:
    """Student's t, members shifted."""

    def tpr(alpha: float) -> float:
        return float(stats.t.sf(stats.t.isf(alpha, degrees) - shift, degrees))

    return World(
        name,
        lambda n, rng: rng.standard_t(degrees, n) + shift,
        lambda n, rng: rng.standard_t(degrees, n),
        tpr,
        float(integrate.quad(tpr, 0, 1, limit=400)[0]),
        float(2 * stats.t.cdf(shift / 2, degrees) - 1),
        shift,
    )


def rounded(d: float, grid: float, name: str) -> World:
    """Gaussian scores rounded to a grid: every value is shared by many records."""
    edges = (np.arange(math.floor(-9 / grid), math.ceil((9 + d) / grid) + 1)[::-1] - 0.5) * grid
    fpr, tpr = np.r_[0, stats.norm.sf(edges), 1], np.r_[0, stats.norm.sf(edges - d), 1]

    def draw(shift: float) -> Draw:
        return lambda n, rng: np.round((rng.normal(size=n) + shift) / grid) * grid

    return World(
        name,
        draw(d),
        draw(0.0),
        lambda alpha: float(np.interp(alpha, fpr, tpr)),
        float(np.trapezoid(tpr, fpr)),
        float(np.max(tpr - fpr)),
        d,
        continuous=False,
        vertices=(fpr, tpr),
    )


def _largest_gap(tpr: Callable[[float], float]) -> float:
    grid = np.linspace(1e-9, 1 - 1e-9, 2001)
    best = float(grid[np.argmax([tpr(a) - a for a in grid])])
    found = optimize.minimize_scalar(
        lambda a: a - tpr(a), bounds=(max(best - 1e-3, 1e-12), min(best + 1e-3, 1 - 1e-12)), method="bounded"
    )
    return max(0.0, -float(found.fun), float(tpr(best) - best))


NULL = gaussian(0.0, name="null")
WORLDS: dict[str, World] = {
    world.name: world
    for world in (
        NULL,
        gaussian(1.0, name="gaussian"),
        student(3, 1.0, "t3"),
        gaussian(0.5, 2.0, name="unequal_variance"),
        rounded(1.0, 0.5, "rounded"),
        gaussian(5.0, name="near_perfect"),
        World(
            "perfect",
            lambda n, rng: 1 + rng.random(n),
            lambda n, rng: rng.random(n),
            lambda _: 1.0,
            1.0,
            1.0,
            1.0,
        ),
        World(
            "constant",
            lambda n, _: np.zeros(n),
            lambda n, _: np.zeros(n),
            lambda alpha: alpha,
            0.5,
            0.0,
            0.0,
            continuous=False,
        ),
    )
}

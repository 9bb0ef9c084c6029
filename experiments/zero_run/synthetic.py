"""The noisy sum of Appendix F of zero-run, with the sizes of erratum B11, and the propensities it implies.

A record is a Gaussian vector around gamma times a fixed direction, projected onto the unit sphere. Members lean toward
the direction with gamma, non-members with rho gamma. What is released is the sum of the members plus Gaussian noise
of standard deviation sigma: exactly (1 / sigma)-Gaussian DP. The attack's score is the inner product with the release.

Nothing depends on the direction, so it is the first axis. Members are drawn in full. Of a non-member, which the sum
does not contain, three numbers matter and are drawn with their exact law: its part along the direction, its part along
the rest of the sum, and the length of what is left.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

_BLOCK = 1_000_000


@dataclass(frozen=True)
class NoisySum:
    """Sizes of the world: ``d`` dimensions, ``m`` records, half of them members, ``gamma`` and ``mu`` = 1 / sigma."""

    d: int
    m: int
    gamma: float
    mu: float


@dataclass(frozen=True, eq=False)
class Drawn:
    """One data set: attack scores, membership, and the exact log-odds of membership given the covariates, all (m,).

    ``x`` holds covariates: all of them (m, d), or the part along the direction (m, 1), which alone differs in law.
    """

    score: np.ndarray
    member: np.ndarray
    logit: np.ndarray
    x: np.ndarray

    @property
    def propensity(self) -> np.ndarray:
        return 1 / (1 + np.exp(-self.logit))


def draw(world: NoisySum, rhos: tuple[float, ...], rng: np.random.Generator) -> Iterator[Drawn]:
    """Release one sum and compare its members with the non-members of each rho."""
    half = world.m // 2
    members = _cloud(half, world.d, world.gamma, rng)
    released = members.sum(axis=0, dtype=np.float64) + rng.normal(size=world.d) / world.mu
    inside, along = (members @ released.astype(np.float32)).astype(float), members[:, 0].astype(float)
    rest = float(np.linalg.norm(released[1:]))
    for rho in rhos:
        first = rho * world.gamma + rng.normal(size=half)
        second = rng.normal(size=half)
        length = np.sqrt(first**2 + second**2 + rng.chisquare(world.d - 2, half))
        outside, away = (first * released[0] + second * rest) / length, first / length
        t = np.r_[along, away]
        logit = log_odds(t, world.d, world.gamma, rho * world.gamma)
        yield Drawn(np.r_[inside, outside], np.arange(world.m) < half, logit, t[:, None])


def draw_with_covariates(world: NoisySum, rho: float, extra: int, rng: np.random.Generator) -> tuple[Drawn, Drawn]:
    """One data set with covariates, and ``extra`` more records of each class that the sum knows nothing of."""
    half = world.m // 2
    members, others = _cloud(half, world.d, world.gamma, rng), _cloud(half, world.d, rho * world.gamma, rng)
    released = members.sum(axis=0, dtype=np.float64) + rng.normal(size=world.d) / world.mu
    more = np.vstack([_cloud(extra, world.d, world.gamma, rng), _cloud(extra, world.d, rho * world.gamma, rng)])

    def of(x: np.ndarray) -> Drawn:
        member = np.arange(len(x)) < len(x) // 2
        return Drawn(x @ released, member, log_odds(x[:, 0], world.d, world.gamma, rho * world.gamma), x)

    return of(np.vstack([members, others]).astype(float)), of(more.astype(float))


def draw_with_few(world: NoisySum, rho: float, extra: int, few: int, rng: np.random.Generator) -> tuple[Drawn, Drawn]:
    """One data set whose covariates are the part along the direction and ``few`` - 1 of noise, and more records.

    They suffice: given the part along the direction the laws of members and non-members are equal. The ``extra``
    records of each class have no score; the propensity is learned from them.
    """
    (data,) = draw(world, (rho,), rng)
    half = np.repeat([world.gamma, rho * world.gamma], extra)
    first = half + rng.normal(size=2 * extra)
    t = first / np.sqrt(first**2 + rng.chisquare(world.d - 1, 2 * extra))
    more = log_odds(t, world.d, world.gamma, rho * world.gamma)

    def beside(part: np.ndarray) -> np.ndarray:
        return np.column_stack([part, rng.normal(size=(len(part), few - 1))])

    others = Drawn(np.zeros(2 * extra), np.arange(2 * extra) < extra, more, beside(t))
    return Drawn(data.score, data.member, data.logit, beside(data.x)), others


def covariates_only(world: NoisySum, rho: float, n: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Exact log-odds (n,) and membership (n,) of n fresh records, half of each class, without any attack."""
    half = n // 2
    lean = np.repeat([world.gamma, rho * world.gamma], half)
    first = lean + rng.normal(size=2 * half)
    t = first / np.sqrt(first**2 + rng.chisquare(world.d - 1, 2 * half))
    return log_odds(t, world.d, world.gamma, rho * world.gamma), np.arange(2 * half) < half


def log_odds(t: np.ndarray, d: int, gamma: float, other: float) -> np.ndarray:
    """Log density ratio at a point of the sphere with first coordinate t (n,), of leaning ``gamma`` against ``other``.

    A Gaussian vector around gamma e_1 has direction u with density proportional to
    e^(-gamma^2/2) times the integral of r^(d-1) e^(-r^2/2 + r gamma t) over r > 0.
    """
    if gamma == other:
        return np.zeros_like(t)
    largest = max(gamma, other) * float(np.abs(t).max())
    grid = np.linspace(-largest, largest, 4001)
    tilt = _log_integral(grid, d)
    found = np.interp(gamma * t, grid, tilt) - np.interp(other * t, grid, tilt)
    return found - (gamma**2 - other**2) / 2


def _log_integral(b: np.ndarray, d: int) -> np.ndarray:
    """Log of the integral of r^(d-1) e^(-r^2/2 + r b) over r > 0, up to a constant, by the trapezoid round its peak."""
    peak = (b + np.sqrt(b**2 + 4 * (d - 1))) / 2
    width = 12 / np.sqrt(1 + (d - 1) / peak**2)
    r = np.maximum(peak[:, None] + width[:, None] * np.linspace(-1, 1, 601), 1e-12)
    inner = (d - 1) * np.log(r) - r**2 / 2 + r * b[:, None]
    top = inner.max(axis=1, keepdims=True)
    return top[:, 0] + np.log(np.exp(inner - top).sum(axis=1) * width)


def _cloud(n: int, d: int, lean: float, rng: np.random.Generator) -> np.ndarray:
    """Draw n points (n, d) of the unit sphere that lean toward the first axis, in single precision."""
    x = np.empty((n, d), np.float32)
    step = max(1, _BLOCK // d)
    for start in range(0, n, step):
        block = x[start : start + step]
        rng.standard_normal(out=block, dtype=np.float32)
        block[:, 0] += lean
        block /= np.linalg.norm(block, axis=1, keepdims=True)
    return x

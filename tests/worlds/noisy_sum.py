"""The noisy sum of the zero-run paper (Appendix F) with the sizes of erratum B11, drawn exactly but not all of it.

A released vector theta is the sum of the members' unit vectors plus Gaussian noise of scale sigma, so it is
(1 / sigma)-GDP, and the attack scores a record by its inner product with theta. Members have to be drawn in full (in
single precision, one block at a time, twice from the same seeds), since theta contains them. A non-member does not
stand in theta: given theta it is enough to know its part along the shift, its part along the rest of theta, and
the length of what remains, which are a normal, a normal and a chi; that reduction is exact in law. The non-members of
all shifts share these, as the paper's code does with one seed.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from miaudit import Evidence
from miaudit.causal.propensity import Propensity

FloatArray = NDArray[np.float64]

D, GAMMA, MU, M = 10_000, 2.0, 0.66, 10_000
_BLOCK = 500


@dataclass(frozen=True, eq=False)
class NoisySum:
    """One released sum, and the two classes as far as they matter.

    Attributes
    ----------
    scores : members' inner products with theta (m / 2,)
    along : members' parts along the shift before projection (m / 2,), normal about gamma
    lengths : members' squared lengths beside that (m / 2,)
    theta : part of theta along the shift, and the length of the rest
    noise : non-members' standard normals along the shift and along the rest of theta (2, m / 2), and
        squared lengths of what remains (m / 2,)
    """

    scores: FloatArray
    along: FloatArray
    lengths: FloatArray
    theta: tuple[float, float]
    noise: tuple[FloatArray, FloatArray, FloatArray]
    gamma: float

    @classmethod
    def draw(cls, seed: int, *, d: int = D, m: int = M, gamma: float = GAMMA, mu: float = MU) -> NoisySum:
        half = m // 2
        children = np.random.SeedSequence(seed).spawn(math.ceil(half / _BLOCK))
        rng = np.random.default_rng(seed + 10**6)
        theta = rng.normal(size=d) / mu
        along, lengths = np.empty(half), np.empty(half)
        for rows, x in _blocks(children, half, d):
            x[:, 0] += gamma
            along[rows] = x[:, 0]
            squares = np.einsum("ij,ij->i", x, x, dtype=np.float64)
            lengths[rows] = squares - along[rows] ** 2
            theta += (1 / np.sqrt(squares)).astype(np.float32) @ x
        scores = np.empty(half)
        single = theta.astype(np.float32)
        for rows, x in _blocks(children, half, d):
            x[:, 0] += gamma
            scores[rows] = (x @ single) / np.sqrt(along[rows] ** 2 + lengths[rows])
        rest = float(np.linalg.norm(theta[1:]))
        noise = rng.normal(size=half), rng.normal(size=half), rng.chisquare(d - 2, half)
        return cls(scores, along, lengths, (float(theta[0]), rest), noise, gamma)

    def evidence(self, rho: float) -> tuple[Evidence, Propensity]:
        """Return evidence at a shift (rho = 1 is none) and its oracle propensities.

        A record is seen after projection: its part along the shift over the length of the rest, t, and the log-odds of
        membership are those of t. A normal of mean g over an independent chi with d - 1 degrees of freedom has a
        non-central t law; with d = 10,000 its log-ratio is that of normals up to terms of 1 / d, which are kept.
        """
        first, second, remaining = self.noise
        shifted = first + rho * self.gamma
        squares = shifted**2 + second**2 + remaining
        outside = (shifted * self.theta[0] + second * self.theta[1]) / np.sqrt(squares)
        score = np.concatenate([self.scores, outside])
        t = np.concatenate([self.along / np.sqrt(self.lengths), shifted / np.sqrt(second**2 + remaining)])
        member = np.arange(len(score)) < len(self.scores)
        logit = log_ratio(t, self.gamma, rho * self.gamma, len(self.lengths) and self.degrees)
        ev = Evidence(score=score, member=member, covariates=t * math.sqrt(self.degrees), design="zero-run")
        return ev, Propensity.given(1 / (1 + np.exp(-logit)))

    @property
    def degrees(self) -> int:
        """Degrees of freedom of the chi."""
        return D - 1


def _blocks(children: list[np.random.SeedSequence], half: int, d: int):
    """Yield slices and standard normals (rows, d) in single precision; the same ones each time."""
    for k, child in enumerate(children):
        rows = slice(k * _BLOCK, min((k + 1) * _BLOCK, half))
        yield rows, np.random.default_rng(child).standard_normal((rows.stop - rows.start, d), dtype=np.float32)


def log_ratio(t: FloatArray, one: float, zero: float, degrees: int) -> FloatArray:
    """Log-ratio of the densities of (g + N(0, 1)) / chi_degrees at t, for g = one against g = zero.

    Given t, the radius r of (part along, rest) has density proportional to r^degrees exp(-r^2/2 + g r c), with
    c = t / sqrt(1 + t^2), times exp(-g^2/2). The integral is taken by Laplace's method about r^2 - g c r = degrees, to
    the order 1 / degrees.
    """
    c = t / np.sqrt(1 + t * t)

    def log_integral(g: float) -> FloatArray:
        a = g * c
        r = (a + np.sqrt(a * a + 4 * degrees)) / 2
        return degrees * np.log(r) - r * r / 2 + a * r - 0.5 * np.log(degrees / (r * r) + 1) - g * g / 2

    return log_integral(one) - log_integral(zero)

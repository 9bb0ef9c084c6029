"""Privacy losses of a claim in one order of the neighbours, as finitely many values with their probabilities.

A pair of laws P and Q is described by delta(epsilon) = sup over events of P(E) - e^epsilon Q(E), or by the law of its
loss log dP/dQ under P. Straight lines in e^epsilon between upper bounds of delta belong to finitely many losses that
give away at least as much (Doroshenko, Ghazi, Kamath, Kumar and Manurangsi, "Connect the dots", 2022).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from miaudit.arrays import FloatArray

__all__ = ["LARGEST_LOSS", "PrivacyLosses"]

LARGEST_LOSS = 700.0  # whose exponential is a number
_SLACK = 1e-13  # relative, upwards: what sums of as many terms round away


@dataclass(frozen=True, eq=False)
class PrivacyLosses:
    """Losses log dP/dQ of a pair of laws, with their probabilities under P.

    Attributes
    ----------
    at : array (k,), rising, finite
    p : array (k,), probabilities under P; with ``failing`` they add up to 1
    failing : probability under P of outputs that are impossible under Q
    """

    at: FloatArray
    p: FloatArray
    failing: float

    @classmethod
    def between(cls, epsilons: ArrayLike, deltas: ArrayLike, reverse: ArrayLike) -> PrivacyLosses:
        """Connect upper bounds of delta by straight lines in e^epsilon, in one order of P and Q.

        A true delta falls with epsilon and is convex in e^epsilon. So where bounds are neither, the largest falling and
        convex function below them is still an upper bound, and it takes their place.

        Parameters
        ----------
        epsilons : array (k,), rising, from 0 up
        deltas : array (k,), upper bounds of delta at them, of P against Q
        reverse : array (k,), the same of Q against P, which are those of P against Q at the negative epsilons

        Examples
        --------
        >>> pure = PrivacyLosses.between([1.0], [0.0], [0.0])  # randomised response at epsilon 1
        >>> pure.at.tolist(), pure.p.round(3).tolist(), pure.failing
        ([-1.0, 1.0], [0.269, 0.731], 0.0)
        """
        eps, delta, other = (np.asarray(x, dtype=np.float64) for x in (epsilons, deltas, reverse))
        if eps[0] == 0:  # where both orders have one delta
            delta = np.concatenate([[min(delta[0], other[0])], delta[1:]])
        below = eps > 0
        at = np.concatenate([-eps[below][::-1], eps])
        odds = np.exp(at)
        # 1 - delta, without cancellation at negative epsilons
        left = np.concatenate([odds[: below.sum()] * (1 - other[below][::-1]), 1 - delta])
        left = np.maximum.accumulate(left)
        delta = np.minimum.accumulate(np.concatenate([1 - left[: below.sum()], delta]))
        corners, slopes = _convex(odds, left, delta)
        steps = np.diff(np.append(slopes, 0.0))
        return cls(at[corners], np.maximum(steps * odds[corners], 0.0), float(delta[-1]))

    def deltas(self, epsilons: ArrayLike) -> FloatArray:
        """Return delta (k,) at any epsilons (k,), negative ones too, not below what exact arithmetic gives."""
        eps = np.asarray(epsilons, dtype=np.float64)
        above = np.append(np.cumsum(self.p[::-1])[::-1], 0.0)
        without = np.append(np.cumsum((self.p * np.exp(-self.at))[::-1])[::-1], 0.0)
        first = np.searchsorted(self.at, eps, side="right")
        inside = above[first] - np.exp(np.clip(eps, -LARGEST_LOSS, LARGEST_LOSS)) * without[first]
        return np.asarray(np.clip(inside, 0.0, 1.0) + _SLACK * above[first] + self.failing)


def _convex(odds: FloatArray, left: FloatArray, delta: FloatArray) -> tuple[list[int], list[float]]:
    """Return the corners of the largest convex function below points, and the slope that ends in each.

    The first slope is that from (0, 1). ``left`` is 1 - delta, which has the digits where delta is near 1.
    """

    def slope(i: int, j: int) -> float:
        rise = left[i] - left[j] if odds[j] <= 1 else delta[j] - delta[i]
        return float(rise / (odds[j] - odds[i]))

    corners: list[int] = []
    slopes: list[float] = []
    for j in range(len(odds)):
        last = -left[j] / odds[j]
        while corners:
            last = slope(corners[-1], j)
            if last > slopes[-1]:
                break
            corners.pop()
            slopes.pop()
            last = -left[j] / odds[j]
        corners.append(j)
        slopes.append(float(last))
    return corners, slopes

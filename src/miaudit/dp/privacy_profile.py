"""The trade-off function of a mechanism that an accountant describes by pairs of epsilon and delta."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from miaudit.arrays import FloatArray
from miaudit.dp.tradeoff import TradeOff, check_epsilon
from miaudit.errors import InputError
from miaudit.errors.checks import check_delta

__all__ = ["PrivacyProfile"]


@dataclass(frozen=True)
class PrivacyProfile(TradeOff):
    """All that a list of (epsilon, delta) guarantees of one mechanism promises together.

    f(alpha) = max over the pairs of max(0, 1 - delta - e^eps alpha, e^-eps (1 - delta - alpha)) (Dong, Roth and Su,
    Proposition 2.5). With upper bounds of delta it lies below the mechanism's own f, and touches it at each pair.

    Parameters
    ----------
    epsilons : rising, 0 or more, the first of them 0
    deltas : falling, in [0, 1), of the same length

    Raises
    ------
    InputError
        For pairs that are not in this order.

    Examples
    --------
    >>> from miaudit.dp.tradeoff import EpsilonDelta
    >>> both = PrivacyProfile((0.0, 1.0), (0.2, 0.01))
    >>> round(both(0.1), 4), round(EpsilonDelta(1.0, 0.01)(0.1), 4), round(EpsilonDelta(0.0, 0.2)(0.1), 4)
    (0.7182, 0.7182, 0.7)
    """

    epsilons: tuple[float, ...]
    deltas: tuple[float, ...]
    _lines: tuple[FloatArray, FloatArray, FloatArray] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        eps, delta = np.array(self.epsilons, dtype=float), np.array(self.deltas, dtype=float)
        fits = eps.ndim == 1 and eps.shape == delta.shape and len(eps) > 0 and bool(np.isfinite(eps).all())
        if not fits or eps[0] != 0 or (np.diff(eps) <= 0).any():
            allowed = "rising numbers from 0, one for each delta"
            raise InputError("epsilons", allowed, f"{len(eps):,} for {len(delta):,} deltas", "ask an accountant")
        if not ((delta >= 0) & (delta < 1)).all() or (np.diff(delta) > 0).any():
            raise InputError("deltas", "falling numbers in [0, 1)", "others", "a delta belongs to each epsilon")
        tops = np.concatenate([1 - delta, np.exp(-eps) * (1 - delta)])
        slopes = np.concatenate([np.exp(eps), np.exp(-eps)])
        object.__setattr__(self, "_lines", (tops, slopes, delta))

    def delta_at(self, epsilon: float) -> float:
        """Smallest delta that the pairs imply: linear in e^epsilon between two of them."""
        slope = math.exp(min(check_epsilon(epsilon), 700.0))
        return float(np.interp(slope, np.exp(self.epsilons), self.deltas))

    def epsilon_at(self, delta: float) -> float:
        """Smallest epsilon that the pairs imply; infinite below the last delta."""
        checked_delta = check_delta(delta)
        deltas = np.array(self.deltas)
        if checked_delta < deltas[-1]:
            return math.inf
        first = int(np.argmax(deltas <= checked_delta))
        if first == 0:
            return 0.0
        high, low = deltas[first - 1], deltas[first]
        left, right = math.exp(self.epsilons[first - 1]), math.exp(self.epsilons[first])
        return math.log(left + (right - left) * (high - checked_delta) / (high - low))

    def _fnr(self, fpr: FloatArray) -> FloatArray:
        tops, slopes, _ = self._lines
        return np.asarray(np.maximum(0.0, (tops - slopes * np.asarray(fpr)[..., None]).max(-1)))

    def _fpr(self, tpr: FloatArray) -> FloatArray:
        # Each line solved for the rate of false positives, so that the digits of small powers are kept.
        _, slopes, deltas = self._lines
        rising, falling = slopes[: len(deltas)], slopes[len(deltas) :]
        power = np.asarray(tpr)[..., None]
        low, high = falling * (power - deltas), 1 - deltas - rising * (1 - power)
        return np.asarray(np.maximum(0.0, np.maximum(low, high).max(-1)))

    def scalar_fpr_at_tpr(self) -> Callable[[float], float]:
        """Return :meth:`fpr_at_tpr` for one unchecked power in [0, 1] at a time, fifty times as fast.

        Examples
        --------
        >>> profile = PrivacyProfile((0.0, 1.0), (0.2, 0.01))
        >>> round(profile.scalar_fpr_at_tpr()(0.5), 12) == round(profile.fpr_at_tpr(0.5), 12)
        True
        """
        _, slopes, deltas = self._lines
        count = len(deltas)
        order = np.argsort(slopes, kind="stable").tolist()
        starts, lines = [0.0], [order[0]]
        rising, delta = slopes.tolist(), np.tile(deltas, 2).tolist()
        for new in order[1:]:  # the largest of all lines: each is so from one power on
            while True:
                old = lines[-1]
                apart = rising[new] - rising[old]
                if new >= count and old >= count:
                    cross = (delta[new] * rising[new] - delta[old] * rising[old]) / apart if apart else 0.0
                else:
                    tops = [-delta[i] * rising[i] if i >= count else 1 - delta[i] - rising[i] for i in (old, new)]
                    cross = (tops[0] - tops[1]) / apart if apart else 0.0
                if cross > starts[-1] or len(lines) == 1:
                    break
                lines.pop()
                starts.pop()
            if cross <= 0:
                starts, lines = [0.0], [new]
            elif cross < 1:
                starts.append(cross)
                lines.append(new)

        def inverse(power: float) -> float:
            i = lines[bisect_right(starts, power) - 1]
            value = rising[i] * (power - delta[i]) if i >= count else 1 - delta[i] - rising[i] * (1 - power)
            return value if value > 0 else 0.0

        return inverse

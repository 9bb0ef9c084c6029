"""Limits of rates and of means in closed form, which the intervals of metrics are made of."""

from __future__ import annotations

import math

from scipy import special

__all__ = ["clopper_pearson", "joined", "root", "student_limits", "wilson_limits"]

_ROUNDING = 1e-30  # a variance of a rate that is rounding error: one comparison among 1e7 records gives 1e-28


def joined(first: float, second: float, opposition: float = 0.0) -> float:
    """Half-width of a difference from those of its two parts: their root sum of squares, more where they oppose.

    ``opposition`` is the correlation of the errors of the two, with its sign turned.

    Examples
    --------
    >>> joined(3.0, 4.0), joined(3.0, 4.0, opposition=1.0), joined(3.0, 4.0, opposition=-1.0)
    (5.0, 7.0, 1.0)
    """
    return math.sqrt(max(0.0, first * first + second * second + 2 * opposition * first * second))


def wilson_limits(rate: float, trials: float, confidence: float) -> tuple[float, float]:
    """Wilson's score limits of a binomial rate.

    Examples
    --------
    >>> wilson_limits(0.0, 100, 0.95)
    (0.0, 0.0369...)
    """
    z = float(-special.ndtri((1 - confidence) / 2))
    centre = rate + z * z / (2 * trials)
    half = z * math.sqrt(rate * (1 - rate) / trials + z * z / (4 * trials * trials))
    scale = 1 + z * z / trials
    low = 0.0 if rate <= 0 else (centre - half) / scale
    return low, 1.0 if rate >= 1 else (centre + half) / scale


def clopper_pearson(successes: float, trials: float, confidence: float) -> tuple[float, float]:
    """Exact limits of a binomial rate at a threshold that was fixed beforehand (never at an estimated one: C3).

    Examples
    --------
    >>> clopper_pearson(0, 100, 0.95)
    (0.0, 0.0362...)
    """
    tail = (1 - confidence) / 2
    low = float(special.betaincinv(successes, trials - successes + 1, tail)) if successes > 0 else 0.0
    high = float(special.betaincinv(successes + 1, trials - successes, 1 - tail)) if successes < trials else 1.0
    return low, high


def root(variance: float, rounding: float = _ROUNDING) -> float | None:
    """Return the standard error, or None where a variance is 0 but for rounding: no sample is that sure.

    Examples
    --------
    >>> root(0.0004), root(0.0)
    (0.02, None)
    """
    return math.sqrt(variance) if variance > rounding else None


def student_limits(value: float, standard_error: float, freedom: float, confidence: float) -> tuple[float, float]:
    """Student's t limits."""
    half = float(special.stdtrit(max(freedom, 1.0), (1 + confidence) / 2)) * standard_error
    return value - half, value + half

"""The smallest noise that keeps a target, found with few evaluations of an accountant.

The answer is that of a bisection of the noise on powers of two and their geometric means. A bisection asks about a
dozen noises. An accountant gives more than yes or no, though: epsilon is close to a power of the noise, so two or three
steps of the secant method say where the bisection will end, and only the last two noises have to be asked for.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field

__all__ = ["LEAST", "MOST", "OutOfRange", "smallest"]

LEAST, MOST = 1e-3, 1e6  # noises that are tried
_PROBES = 6  # of the secant method, at most
_SHARE = 0.05  # of the tolerance, below which a step of the secant method is the last


class OutOfRange(Exception):
    """No noise that is tried is the smallest: the target is kept with very little, or missed with very much."""

    def __init__(self, noise: float, *, kept: bool) -> None:
        super().__init__(noise, kept)
        self.noise, self.kept = noise, kept


def smallest(epsilon: Callable[[float], float], target: float, tolerance: float) -> float:
    """Return the smallest noise, to a relative tolerance, whose epsilon is at most a target.

    Parameters
    ----------
    epsilon : noise -> epsilon, falling; infinite where nothing is known
    target : above 0
    tolerance : relative, of the noise, above 0

    Returns
    -------
    float
        A noise that was asked for and keeps the target, or lies above one that does.

    Raises
    ------
    OutOfRange
        If it would be outside 0.001 to a million.

    Examples
    --------
    >>> round(smallest(lambda noise: 3 / noise, 1.5, 1e-6), 4)
    2.0
    """
    values = _Values(epsilon, target)
    root = _root(values, tolerance)
    if root is not None:
        for noise in _bisected(lambda noise: noise >= root, tolerance):
            values.keeps(noise)
    return _bisected(values.keeps, tolerance)[1]


@dataclass
class _Values:
    """Epsilons that were asked for, and what they say about all other noises."""

    epsilon: Callable[[float], float]
    target: float
    by_noise: dict[float, float] = field(default_factory=dict)

    def at(self, noise: float) -> float:
        if noise not in self.by_noise:
            self.by_noise[noise] = self.epsilon(noise)
        return self.by_noise[noise]

    @property
    def bracket(self) -> tuple[float, float]:
        """The largest noise that is known to miss the target, and the smallest that is known to keep it."""
        missing = [noise for noise, value in self.by_noise.items() if not value <= self.target]
        keeping = [noise for noise, value in self.by_noise.items() if value <= self.target]
        return max(missing, default=0.0), min(keeping, default=math.inf)

    def keeps(self, noise: float) -> bool:
        low, high = self.bracket
        return noise >= high or (noise > low and self.at(noise) <= self.target)


def _root(values: _Values, tolerance: float) -> float | None:
    """Return about where epsilon crosses the target, by secants of the logarithms; None where they lead nowhere."""
    noise, slope, earlier = 1.0, -1.0, (0.0, 0.0)
    for i in range(_PROBES):
        value = values.at(noise)
        if not 0 < value < math.inf:
            return None
        point = math.log(noise), math.log(value / values.target)
        if i > 0 and point[0] != earlier[0]:
            slope = (point[1] - earlier[1]) / (point[0] - earlier[0])
        if not slope < 0:
            return None
        low, high = values.bracket
        following = math.exp(min(max(point[0] - point[1] / slope, math.log(LEAST)), math.log(MOST)))
        if abs(math.log(following / noise)) <= _SHARE * tolerance:
            return following
        if not low < following < high and low > 0 and high < math.inf:
            following = math.sqrt(low * high)
        noise, earlier = following, point
    return noise


def _bisected(keeps: Callable[[float], bool], tolerance: float) -> tuple[float, float]:
    """Return neighbouring noises of the bisection, of which the first misses the target and the second keeps it."""
    high = 1.0
    if keeps(high):
        while keeps(high / 2):
            high /= 2
            if high < LEAST:
                raise OutOfRange(high, kept=True)
        low = high / 2
    else:
        while not keeps(2 * high):
            high *= 2
            if high > MOST:
                raise OutOfRange(high, kept=False)
        low, high = high, 2 * high
    while high > low * (1 + tolerance):
        middle = math.sqrt(low * high)
        low, high = (low, middle) if keeps(middle) else (middle, high)
    return low, high

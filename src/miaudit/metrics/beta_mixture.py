"""Mixtures of Beta laws: what is known of a rate where the number of its hits is itself uncertain."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy import special

from miaudit.arrays import FloatArray

_MOST_STEPS = 200  # of the search for a quantile, which halves its bracket where Newton's step leaves it


@dataclass(frozen=True, eq=False)
class BetaMixture:
    """Beta laws of a rate, one for each possible number of hits, beside a point mass at 0.

    Attributes
    ----------
    weight : array (k,), the share of each law
    hits : array (k,), 0 to ``trials``: the law is Beta(hits + 1/2, trials - hits + 1/2)
    trials : effective number of trials
    at_zero : mass of the point 0; what is missing of 1 is a point mass at 1
    """

    weight: FloatArray
    hits: FloatArray
    trials: float
    at_zero: float = 0.0

    @cached_property
    def _a(self) -> FloatArray:
        return self.hits + 0.5

    @cached_property
    def _b(self) -> FloatArray:
        return self.trials - self.hits + 0.5

    @cached_property
    def _log_normaliser(self) -> FloatArray:
        return np.asarray(special.betaln(self._a, self._b))

    def below(self, x: float) -> float:
        """Return the probability of a rate of at most x, in (0, 1)."""
        return self.at_zero + float(self.weight @ special.betainc(self._a, self._b, x))

    def density(self, x: float) -> float:
        """Return the density at x, in (0, 1)."""
        log_powers = (self._a - 1) * math.log(x) + (self._b - 1) * math.log1p(-x)
        return float(self.weight @ np.exp(log_powers - self._log_normaliser))

    def quantile(self, level: float) -> float:
        """Return the rate that a share ``level`` lies below, by safeguarded Newton steps.

        ``level`` is above ``at_zero`` and below the mass of all rates under 1.

        Examples
        --------
        >>> round(BetaMixture(np.array([0.5, 0.5]), np.array([1.0, 3.0]), 4.0).quantile(0.5), 9)
        0.5
        """
        low, high, x = 0.0, 1.0, self._near(level)
        for _ in range(_MOST_STEPS):
            excess = self.below(x) - level
            low, high = (x, high) if excess < 0 else (low, x)
            density = self.density(x)
            step = x - excess / density if density > 0 else -1.0
            new = step if low < step < high else (low + high) / 2
            if abs(new - x) <= 1e-10 * min(x, 1 - x) + 1e-15:
                return new
            x = new
        return x

    def _near(self, level: float) -> float:
        """Return the quantile of a normal law with the mean and the variance of the Beta laws, well inside (0, 1)."""
        rates, total = self._a / (self._a + self._b), self.weight.sum()
        mean = float((self.weight * self._a / (self._a + self._b)).sum() / total)
        between = float((self.weight * (rates - mean) ** 2).sum() / total)
        spread = math.sqrt(between + mean * (1 - mean) / (self.trials + 1))
        return min(max(mean + float(special.ndtri(level)) * spread, mean / 20), 1 - (1 - mean) / 20)

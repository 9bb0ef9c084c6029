"""Worlds in which records of one unit depend on each other."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import stats


@dataclass(frozen=True)
class Clusters:
    """Members N(d, 1), non-members N(0, 1), correlated inside a unit; every unit has records of one class.

    Attributes
    ----------
    units : of each class
    size : records of a unit, or their mean where sizes vary
    correlation : of two records of a unit, 0 to 1
    d : distance of the means
    varying : whether sizes are uniform on 1 to 2 size - 1
    mixed : whether the same units hold members and non-members
    """

    units: int
    size: int
    correlation: float
    d: float
    varying: bool = False
    mixed: bool = False

    def draw(self, rng: np.random.Generator) -> tuple[NDArray[np.float64], NDArray[np.bool_], NDArray[np.int64]]:
        """Return score, member and unit."""
        score, unit = [], []
        shared = rng.normal(size=(2, self.units))
        for k, shift in enumerate((self.d, 0.0)):
            sizes = rng.integers(1, 2 * self.size, self.units) if self.varying else np.full(self.units, self.size)
            code = np.repeat(np.arange(self.units), sizes)
            common = shared[0 if self.mixed else k]
            noise = rng.normal(size=len(code))
            score.append(shift + np.sqrt(self.correlation) * common[code] + np.sqrt(1 - self.correlation) * noise)
            unit.append(code if self.mixed else code + k * self.units)
        member = np.r_[np.ones(len(score[0]), bool), np.zeros(len(score[1]), bool)]
        return np.concatenate(score), member, np.concatenate(unit)

    def tpr(self, alpha: float) -> float:
        """Return the true TPR at an FPR."""
        return float(stats.norm.sf(stats.norm.isf(alpha) - self.d))

    @property
    def auc(self) -> float:
        """The true AUC."""
        return float(stats.norm.cdf(self.d / np.sqrt(2)))

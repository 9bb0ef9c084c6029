"""Units: persons, accounts or sites that hold several records each, and what they do to a variance."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Units:
    """Which unit each record belongs to.

    Attributes
    ----------
    code : array (n,) of int, 0 to ``count`` - 1
    member : array (n,) of bool
    count : number of units
    """

    code: NDArray[np.int64]
    member: NDArray[np.bool_]
    count: int

    @classmethod
    def of(cls, code: NDArray[np.int64], member: NDArray[np.bool_]) -> Units:
        """Count the units of records."""
        return cls(code, member, int(code.max()) + 1)

    @property
    def members(self) -> int:
        """Units with at least one member record."""
        return len(np.unique(self.code[self.member]))

    @property
    def nonmembers(self) -> int:
        """Units with at least one non-member record."""
        return len(np.unique(self.code[~self.member]))

    @property
    def effective_members(self) -> float:
        """Kish's number of units among the members: fewer than the units where sizes differ."""
        return _kish(self.code[self.member])

    @property
    def effective_nonmembers(self) -> float:
        """Kish's number of units among the non-members."""
        return _kish(self.code[~self.member])

    def variance(self, influence: FloatArray) -> float:
        """Variance of a sum of influences (n,), zero on average, when units and not records are independent."""
        totals = np.bincount(self.code, weights=influence, minlength=self.count)
        return float(totals @ totals) * self.count / max(self.count - 1, 1)

    def rate_variance(self, hit: NDArray[np.bool_], kept: NDArray[np.bool_]) -> tuple[float, int]:
        """Variance of the share of hits among the kept records, and the number of units that have a hit there."""
        code = self.code[kept]
        deviation = hit[kept] - hit[kept].mean()
        totals = np.bincount(code, weights=deviation)
        present = len(np.unique(code))
        variance = float(totals @ totals) / len(code) ** 2 * present / max(present - 1, 1)
        return variance, len(np.unique(code[hit[kept]]))


def _kish(code: NDArray[np.int64]) -> float:
    sizes = np.bincount(code).astype(np.float64)
    return float(sizes.sum() ** 2 / (sizes @ sizes))

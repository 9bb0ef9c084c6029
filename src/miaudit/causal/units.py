"""Units: persons, accounts or sites that hold several records each, and what they do to a variance."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

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
        return int(np.count_nonzero(self._sizes[0]))

    @property
    def nonmembers(self) -> int:
        """Units with at least one non-member record."""
        return int(np.count_nonzero(self._sizes[1]))

    @property
    def effective_members(self) -> float:
        """Kish's number of units among the members: fewer than the units where sizes differ."""
        return _kish(self._sizes[0])

    @property
    def effective_nonmembers(self) -> float:
        """Kish's number of units among the non-members."""
        return _kish(self._sizes[1])

    @property
    def freedom(self) -> float:
        """Degrees of freedom of a variance between units, at least 1: few units, or a giant one, know little of it."""
        return max(1.0, min(self.effective_members, self.effective_nonmembers) - 1)

    @property
    def largest_share(self) -> float:
        """Largest share that one unit has of the records of a class, in (0, 1]."""
        return float(max(sizes.max() / sizes.sum() for sizes in self._sizes))

    def variance(self, influence: FloatArray) -> float:
        """Variance of a sum of influences (n,), zero on average, when units and not records are independent."""
        totals = np.bincount(self.code, weights=influence, minlength=self.count)
        return float(totals @ totals) * self.count / max(self.count - 1, 1)

    def rate_variance(self, hit: NDArray[np.bool_], *, members: bool) -> tuple[float, int]:
        """Variance of the share of hits (n,) in one class, and the number of its units that have a hit."""
        kept, sizes = self._rows[0 if members else 1], self._sizes[0 if members else 1]
        hits = np.bincount(self.code[kept[hit[kept]]], minlength=self.count)
        totals = hits - hits.sum() / len(kept) * sizes
        present = int(np.count_nonzero(sizes))
        variance = float(totals @ totals) / len(kept) ** 2 * present / max(present - 1, 1)
        return variance, int(np.count_nonzero(hits))

    @cached_property
    def _rows(self) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        return np.flatnonzero(self.member), np.flatnonzero(~self.member)

    @cached_property
    def _sizes(self) -> tuple[FloatArray, FloatArray]:
        """Records of each unit (count,) among the members and among the non-members."""
        inside, outside = (np.bincount(self.code[rows], minlength=self.count).astype(np.float64) for rows in self._rows)
        return inside, outside


def _kish(sizes: FloatArray) -> float:
    return float(sizes.sum() ** 2 / (sizes @ sizes))

"""Units: persons, accounts or sites that hold several records each, and what they do to a variance."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike

from miaudit.arrays import BoolArray, FloatArray, IndexArray, IntArray

_FEW = 10  # effective units below which nothing is learned of how alike the records of one are


@dataclass(frozen=True, eq=False)
class Units:
    """Which unit each record belongs to.

    Attributes
    ----------
    code : array (n,) of int, 0 to ``count`` - 1
    member : array (n,) of bool
    count : number of units
    """

    code: IntArray
    member: BoolArray
    count: int

    @classmethod
    def of(cls, code: IntArray, member: BoolArray) -> Units:
        """Count the units of records."""
        return cls(code, member, int(code.max(initial=-1)) + 1)

    @classmethod
    def of_classes(cls, members: ArrayLike, nonmembers: ArrayLike) -> Units:
        """Number the units of members (n1,) and of non-members (n0,), who follow them; equal labels are one unit.

        Examples
        --------
        >>> units = Units.of_classes(["Kim", "Kim", "Lee"], ["Lee", "Roe"])
        >>> units.members, units.nonmembers, units.spanning
        (2, 2, 1)
        """
        labels = [np.asarray(side).astype(np.str_) for side in (members, nonmembers)]
        code = np.unique(np.concatenate(labels), return_inverse=True)[1]
        return cls.of(code.astype(np.int64), np.arange(len(code)) < len(labels[0]))

    def take(self, rows: IndexArray | BoolArray) -> Units:
        """Return the units of some of the records, numbered anew."""
        return Units.of(np.unique(self.code[rows], return_inverse=True)[1].astype(np.int64), self.member[rows])

    @property
    def repeat(self) -> bool:
        """Whether some unit holds several records."""
        return self.count < len(self.code)

    @cached_property
    def spanning(self) -> int:
        """Units that hold records of both classes."""
        return int(np.count_nonzero((self._sizes[0] > 0) & (self._sizes[1] > 0)))

    @cached_property
    def members(self) -> int:
        """Units with at least one member record."""
        return int(np.count_nonzero(self._sizes[0]))

    @cached_property
    def nonmembers(self) -> int:
        """Units with at least one non-member record."""
        return int(np.count_nonzero(self._sizes[1]))

    @cached_property
    def effective_members(self) -> float:
        """Kish's number of units among the members: fewer than the units where sizes differ."""
        return _kish(self._sizes[0])

    @cached_property
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

    @property
    def worst_variance(self) -> float:
        """Sum over the units of the square of their shares of the two classes, added up: 1/n1 + 1/n0 for records.

        A quarter of it bounds the variance of a difference of two rates, one of each class. Of units that hold records
        of one class only it is 1/n1 + 1/n0 with Kish's numbers; one of both classes may oppose itself.
        """
        inside, outside = (sizes / sizes.sum() for sizes in self._sizes)
        return float(((inside + outside) ** 2).sum())

    def variance(self, influence: FloatArray) -> float:
        """Variance of a sum of influences (n,), zero on average, when units and not records are independent."""
        totals = np.bincount(self.code, weights=influence, minlength=self.count)
        return float(totals @ totals) * self.count / max(self.count - 1, 1)

    def share_variance(self, code: IntArray, *, members: bool) -> tuple[float, int]:
        """Variance of the share of hits in one class, from the units (k,) of its hits, and the number of such units."""
        records, sizes = len(self._rows[0 if members else 1]), self._sizes[0 if members else 1]
        hits = np.bincount(code, minlength=self.count)
        totals = hits - hits.sum() / records * sizes
        present = self.members if members else self.nonmembers
        variance = float(totals @ totals) / records**2 * present / max(present - 1, 1)
        return variance, int(np.count_nonzero(hits))

    def independent_trials(self, hit: BoolArray, *, members: bool) -> float:
        """Return :meth:`trials` of the units of the hits (n,) in one class."""
        unit_rows = self._rows[0 if members else 1]
        return self.trials(self.code[unit_rows[hit[unit_rows]]], members=members)

    def trials(self, code: IntArray, *, members: bool) -> float:
        """Independent trials that say as much of the rate of hits in a class as its records do.

        From Kish's number of its units, which is right if the records of a unit are all alike, to the number of its
        records. Two variances of the rate are taken, and the larger one counts: the variance between units, and the one
        that follows from the sizes of the units and the intraclass correlation of a hit. Where few units hold most
        records, the first is far too small until one of them is hit, and the second learns from all units.
        Fewer than ten units (Kish) say nothing of either.

        Parameters
        ----------
        code : array (k,), the unit of each record of the class that is a hit
        members : the class
        """
        records, sizes = len(self._rows[0 if members else 1]), self._sizes[0 if members else 1]
        fewest = self.effective_members if members else self.effective_nonmembers
        rate = len(code) / records
        between, _ = self.share_variance(code, members=members)
        if fewest < _FEW or between <= 0:
            return fewest
        alike = self._intraclass_correlation(code, sizes, rate)
        held = sizes[sizes > 0]
        sized = float(((held / records) ** 2 * (alike + (1 - alike) / held)).sum())  # of a rate, over rate (1 - rate)
        return min(float(records), max(fewest, min(rate * (1 - rate) / between, 1 / sized)))

    def _intraclass_correlation(self, code: IntArray, sizes: FloatArray, rate: float) -> float:
        """Intraclass correlation of hits, or of misses where those are fewer, with Jeffreys' half of a further pair."""
        hits = np.bincount(code, minlength=self.count).astype(np.float64)
        if rate > 0.5:
            hits, rate = sizes - hits, 1 - rate
        several = (hits > 0) & (sizes > 1)
        if not several.any():
            return 1.0
        again = (hits[several] - 1) / (sizes[several] - 1)  # the share of hits among the other records of a hit
        weight = hits[several] / hits[several].sum()
        pairs = 1 / float(weight @ weight)
        return max(0.0, ((float(again @ weight) * pairs + 0.5) / (pairs + 1) - rate) / (1 - rate))

    def opposition(self, hit: BoolArray) -> float:
        """How far the rates of hits (n,) of the two classes oppose each other: the correlation of their errors, turned.

        0 where no unit holds records of both classes, at most 1. Widened by 1/sqrt(units of both classes), since a
        correlation of few pairs is little known; rates that go up together are not counted on (0).
        """
        pairs = self.spanning
        if not pairs:
            return 0.0
        totals = []
        for unit_rows, sizes in zip(self._rows, self._sizes, strict=True):
            hits = np.bincount(self.code[unit_rows[hit[unit_rows]]], minlength=self.count)
            totals.append(hits - hits.sum() / len(unit_rows) * sizes)
        spread = math.sqrt(float(totals[0] @ totals[0]) * float(totals[1] @ totals[1]))
        correlation = -float(totals[0] @ totals[1]) / spread if spread > 0 else 0.0
        return min(1.0, max(0.0, correlation + 1 / math.sqrt(pairs)))

    @cached_property
    def _rows(self) -> tuple[IndexArray, IndexArray]:
        return np.flatnonzero(self.member), np.flatnonzero(~self.member)

    @cached_property
    def _sizes(self) -> tuple[FloatArray, FloatArray]:
        """Records of each unit (count,) among the members and among the non-members."""
        inside, outside = (np.bincount(self.code[rows], minlength=self.count).astype(np.float64) for rows in self._rows)
        return inside, outside


def _kish(sizes: FloatArray) -> float:
    return float(sizes.sum() ** 2 / (sizes @ sizes))

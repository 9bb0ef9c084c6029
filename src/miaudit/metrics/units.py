"""Units: persons, accounts or sites that hold several records each, and what they do to a variance."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike

from miaudit.arrays import BoolArray, FloatArray, IndexArray, IntArray


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
        labels = [np.asarray(given).astype(np.str_) for given in (members, nonmembers)]
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

    def rate_variance(self, hit: BoolArray, *, members: bool) -> tuple[float, int]:
        """Variance of the share of hits (n,) in one class, and the number of its units that have a hit."""
        kept = self._rows[0 if members else 1]
        return self.share_variance(self.code[kept[hit[kept]]], members=members)

    def share_variance(self, code: IntArray, *, members: bool) -> tuple[float, int]:
        """As :meth:`rate_variance`, of the units (k,) of the records of the class that are hits."""
        records, sizes = len(self._rows[0 if members else 1]), self._sizes[0 if members else 1]
        hits = np.bincount(code, minlength=self.count)
        totals = hits - hits.sum() / records * sizes
        present = self.members if members else self.nonmembers
        variance = float(totals @ totals) / records**2 * present / max(present - 1, 1)
        return variance, int(np.count_nonzero(hits))

    def independent_trials(self, hit: BoolArray, *, members: bool) -> float:
        """Independent trials that say as much of the rate of hits (n,) in a class as its records do.

        From Kish's number of its units, which is right if the records of a unit are all alike, to the number of its
        records. The variance between units is widened by 1 + 2/sqrt(k), k units with a hit or with a miss, whichever
        are fewer: few units say little of their own variance, and none nothing.
        """
        kept, fewest = self._rows[0 if members else 1], self.effective_members if members else self.effective_nonmembers
        rate = float(hit[kept].mean())
        variance, present = self.rate_variance(hit, members=members)
        present = min(present, self.rate_variance(~hit, members=members)[1])
        if not present or variance <= 0:
            return fewest
        return min(float(len(kept)), max(fewest, rate * (1 - rate) / (variance * (1 + 2 / math.sqrt(present)))))

    def opposition(self, hit: BoolArray) -> float:
        """How far the rates of hits (n,) of the two classes oppose each other: the correlation of their errors, turned.

        0 where no unit holds records of both classes, at most 1. Widened by 1/sqrt(units of both classes), since a
        correlation of few pairs is little known; rates that go up together are not counted on (0).
        """
        pairs = self.spanning
        if not pairs:
            return 0.0
        totals = []
        for kept, sizes in zip(self._rows, self._sizes, strict=True):
            hits = np.bincount(self.code[kept[hit[kept]]], minlength=self.count)
            totals.append(hits - hits.sum() / len(kept) * sizes)
        spread = math.sqrt(float(totals[0] @ totals[0]) * float(totals[1] @ totals[1]))
        found = -float(totals[0] @ totals[1]) / spread if spread > 0 else 0.0
        return min(1.0, max(0.0, found + 1 / math.sqrt(pairs)))

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

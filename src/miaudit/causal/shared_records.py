"""Records that are both members and non-members: the same record, or records that are equal by chance.

A table of few categories is full of equal rows, and so are labels and saturated scores. Two equal records that were
assigned independently differ in membership about as often as two coins. If one class was copied into the other, they
always differ. So the sign is the number of groups of equal records that have both classes, not the number of equal
records.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from miaudit.arrays import FloatArray, IntArray
from miaudit.causal.duplicates import content_codes
from miaudit.errors import InputError

__all__ = ["LEVEL", "Shared"]

LEVEL = 1e-4  # of a false refusal, at most: the p-value is a bound
_LARGEST_GROUP = 8  # a larger one has both sides anyway
_TILTS = np.linspace(0, 12, 241)


@dataclass(frozen=True)
class Shared:
    """Contents that members and non-members share.

    Attributes
    ----------
    members, nonmembers : numbers of members with an equal non-member, and of non-members with an equal member
    of_members, of_nonmembers : numbers of all members and non-members
    p_value : bound on the probability of as many groups with both classes, if the records are independent

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> members = rng.normal(size=(400, 3))
    >>> others = np.r_[members[:120], rng.normal(size=(280, 3))]
    >>> shared = Shared.of(np.r_[members, others], np.arange(800) < 400)
    >>> shared.nonmembers, shared.of_nonmembers, shared.beyond_chance
    (120, 400, True)
    >>> coarse = rng.integers(0, 4, size=(800, 2))
    >>> shared = Shared.of(coarse, np.arange(800) < 400)
    >>> shared.nonmembers, shared.beyond_chance
    (400, False)
    """

    members: int
    nonmembers: int
    of_members: int
    of_nonmembers: int
    p_value: float

    @classmethod
    def of(cls, contents: ArrayLike, member: ArrayLike) -> Shared:
        """Compare rows (n, d) of numbers, or n texts, of members and non-members.

        Notes
        -----
        A group of c equal records has both sides with probability 1 - p^c - (1 - p)^c where each is a member with
        probability p, and less often where that probability differs between groups. The p-value is Chernoff's bound
        for the sum over groups. Several equal records on one side with none on the other speak against it.
        """
        inside = np.asarray(member, dtype=np.bool_)
        code = content_codes(contents)
        a = np.bincount(code, weights=inside).astype(np.int64)
        return cls.of_counts([(a, np.bincount(code) - a)])

    @classmethod
    def of_counts(cls, parts: Iterable[tuple[IntArray, IntArray]]) -> Shared:
        """Compare members (k,) and non-members (k,) that are equal, for stretches of different contents.

        Examples
        --------
        >>> Shared.of_counts([(np.array([1, 0]), np.array([1, 1])), (np.array([2]), np.array([0]))]).nonmembers
        1
        """
        sizes = np.arange(2, _LARGEST_GROUP + 1)
        shared, of_all, many = np.zeros(2, np.int64), np.zeros(2, np.int64), 0
        groups = np.zeros(_LARGEST_GROUP + 1, np.int64)
        for a, b in parts:
            both, count = (a > 0) & (b > 0), a + b
            counted = (count >= sizes[0]) & (count <= sizes[-1])
            groups += np.bincount(count[counted], minlength=_LARGEST_GROUP + 1)
            shared += [int(a[both].sum()), int(b[both].sum())]
            of_all += [int(a.sum()), int(b.sum())]
            many += int(np.count_nonzero(both[counted]))
        share = float(of_all[0] / max(of_all.sum(), 1))
        chance = 1 - share**sizes - (1 - share) ** sizes
        (members, nonmembers), (of_members, of_nonmembers) = shared.tolist(), of_all.tolist()
        return cls(members, nonmembers, of_members, of_nonmembers, _at_least(chance, groups[sizes], many))

    @property
    def beyond_chance(self) -> bool:
        """Whether records of one class were copied into the other."""
        return self.p_value < LEVEL

    @property
    def size(self) -> str:
        """The number of records in both classes, in words."""
        return f"{self.nonmembers:,} of {self.of_nonmembers:,} non-members are also members"

    def require_none(self, argument: str) -> None:
        """Refuse records that are both members and non-members.

        Raises
        ------
        InputError
            With their number.
        """
        if self.beyond_chance:
            raise InputError(argument, "records that the model was not trained on", self.size, "leave them out")


def _at_least(chance: FloatArray, groups: IntArray, many: int) -> float:
    """Bound the probability that at least so many groups have both sides, by their chance for each size (Chernoff)."""
    if many <= float(chance @ groups):
        return 1.0
    exponent = groups @ np.log1p(chance[:, None] * np.expm1(_TILTS)) - _TILTS * many
    return float(np.exp(min(0.0, float(exponent.min()))))

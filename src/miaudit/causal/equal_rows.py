"""Equal rows inside the classes and across: a sign of people with several records that nobody declared.

Rows that are equal say little by themselves: a table of few categories is full of them. What tells is where they fall.
Records that are independent, whatever they hold, fall among members or non-members without looking at each other, so
equal rows do too. Rows of one household that all went the same way do not.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from miaudit.arrays import IntArray
from miaudit.errors import InputError

LEVEL = 1e-4
NOTICED = 1.05  # a nominal 2.5% is then 2.8%
MATTERS = 1.25  # and then 4%
_MULTIPLIERS = (np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB))  # of splitmix64; 64 bits tell rows apart
_MOST_BY_A_SHIFT = 0.5  # propensities that are uniform on (0, 1) reach 1/3


@dataclass(frozen=True)
class Repeats:
    """Pairs of equal rows, and how many of them are of one member and one non-member.

    Attributes
    ----------
    rows : records that have an equal one
    pairs : pairs of equal rows
    across : those of one member and one non-member
    expected : how many of them would be if every record fell on its side by itself
    effect : factor by which the variance of a difference between members and non-members exceeds that of independent
        records, as far as equal rows make it (Kish's design effect); about 1 if records are independent
    p_value : probability of an effect as large if records are independent and of one population

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> coarse, member = rng.integers(0, 4, size=(400, 2)), np.arange(400) < 200  # sixteen kinds of records
    >>> found = Repeats.of(coarse, member)
    >>> found.pairs > 4000, found.beyond_chance
    (True, False)
    >>> fives = Repeats.of(np.repeat(rng.normal(size=(80, 2)), 5, axis=0), member)  # households of five equal rows
    >>> fives.pairs, fives.across, round(fives.effect, 1), fives.beyond_chance
    (800, 0, 5.0, True)
    """

    rows: int
    pairs: int
    across: int
    expected: float
    effect: float
    p_value: float

    @classmethod
    def of(cls, rows: ArrayLike, member: ArrayLike) -> Repeats:
        """Compare rows (n, d) of numbers (NaN: missing, equal to itself), or n texts, of members and non-members.

        Notes
        -----
        With c_k equal rows of which a_k are members, and a share p of all n rows members, the sum of (a_k - p c_k)^2
        is n p (1 - p) on average, but for the number of members being given; what it exceeds that by makes the effect.
        The tail is that of a scaled chi-square with the mean and the variance of binomial a_k. O(n log n).

        Raises
        ------
        InputError
            For another number of rows than of members, or one class only.
        """
        inside = np.asarray(member, dtype=np.bool_)
        values = np.asarray(rows)
        if len(values) != len(inside) or inside.all() or not inside.any():
            received = f"{len(values)} rows, {np.count_nonzero(inside)} of {len(inside)} members"
            raise InputError("member", "as many as rows, of both classes", received, "pass one for each row")
        code = _codes(values)
        count, inner = np.bincount(code).astype(np.float64), np.bincount(code, weights=inside)
        p = float(inside.mean())
        v = p * (1 - p)
        n, many = len(inside), count > 1
        c, a = count[many], inner[many]
        drawn = (n - c) / (n - 1)  # the number of members is given: less than binomial where one row is most of all
        excess, mean = float(((a - p * c) ** 2).sum()), v * float(c.sum())
        variance = float((c * v * (1 + 3 * (c - 2) * v) - (c * v) ** 2).sum())
        p_value = float(special.gammaincc(mean**2 / variance, excess * mean / variance)) if variance > 0 else 1.0
        pairs = float((c * (c - 1)).sum() / 2)
        across = float((a * (c - a)).sum())
        effect = 1 + (excess - v * float((c * drawn).sum())) / (n * v)
        return cls(int(c.sum()), round(pairs), round(across), 2 * v * pairs * n / (n - 1), effect, p_value)

    @property
    def apart(self) -> float:
        """How much equal rows stay on one side: 0 as if by chance, 1 always."""
        return 1 - self.across / self.expected if self.pairs else 0.0

    @property
    def beyond_chance(self) -> bool:
        """Whether equal rows are one-sided beyond chance, and intervals too narrow for them."""
        return self.p_value < LEVEL and self.effect >= NOTICED

    def forbids(self, design: str | None) -> bool:
        """Whether intervals that take records as independent are refuted.

        Where membership was not assigned at random (zero-run), members and non-members may differ, and equal rows then
        fall on one side more often than by chance: only rows that hardly ever part do refute.
        """
        if not (self.beyond_chance and self.effect >= MATTERS):
            return False
        return design != "zero-run" or self.apart > _MOST_BY_A_SHIFT

    def text(self, *, declared: bool = False) -> str:
        """Say what was found, and what to do; ``declared``: these are one record of each unit that was named."""
        one = "records of different units" if declared else "records"
        name = "name the unit that holds them together" if declared else "name the unit (--unit)"
        return (
            f"{self.rows:,} {one} have an equal one, and of the {self.pairs:,} pairs of equal records {self.across:,} "
            f"are of a member and a non-member, where independent records would give about {self.expected:,.0f} "
            f"(p = {self.p_value:.2g}): several records of one person seem to stand on one side, or equal ones were "
            "taken out of the other, or the two are of different populations. Intervals that take records as "
            f"independent are then too narrow (the variance is about {self.effect:.1f} times as large): {name}, or "
            "keep one of several equal records."
        )


def _codes(values: NDArray[np.generic]) -> IntArray:
    """Number the different rows (n,)."""
    if values.dtype.kind in "OUS":
        return np.unique(values.astype(np.str_), return_inverse=True)[1].astype(np.int64)
    mixed = np.zeros(len(values), dtype=np.uint64)
    for column in values.reshape(len(values), -1).astype(np.float64).T:
        numbers = np.where(np.isnan(column), np.nan, column + 0.0)  # one NaN, and no negative zero
        for multiplier in _MULTIPLIERS:
            mixed = (mixed ^ (numbers.view(np.uint64))) * multiplier
            mixed ^= mixed >> np.uint64(31)
    return np.unique(mixed, return_inverse=True)[1].astype(np.int64)

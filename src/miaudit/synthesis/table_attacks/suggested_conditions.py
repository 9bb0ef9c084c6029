"""Conditions that the records of a table suggest and, by bits, whether one record alone satisfies several."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from miaudit.arrays import BoolArray, FloatArray, IntArray
from miaudit.synthesis.schema import Table

__all__ = ["Condition", "Operator", "Suggested"]

Operator = Literal["=", "<=", ">=", "missing"]

_AT_ONCE = 1 << 21  # pairs of a condition and a record, or words of bits, that are worked on together


@dataclass(frozen=True)
class Condition:
    """One condition of a predicate: column, operator and value (a code for categories)."""

    column: int
    operator: Operator
    value: float

    def holds(self, values: FloatArray) -> BoolArray:
        """Return whether it holds for each value (n,); only "missing" holds for missing ones."""
        if self.operator == "missing":
            return np.isnan(values)
        compared = {"=": np.equal, "<=": np.less_equal, ">=": np.greater_equal}[self.operator]
        return np.asarray(compared(values, self.value))


@dataclass(frozen=True, eq=False)
class _Column:
    """The conditions of one column, one for each of its ``values`` (v,), in ascending order, a missing one last.

    The records that satisfy a condition have a ``rank`` (n,) from ``lowest`` to ``highest`` (v,). The first ``known``
    values are not missing, and those from ``upper`` on are above the median; of categories, it is ``None``.
    """

    values: FloatArray
    rank: NDArray[np.uint32]
    lowest: NDArray[np.uint32]
    highest: NDArray[np.uint32]
    known: int
    upper: int | None

    @classmethod
    def of(cls, column: FloatArray, numeric: bool) -> _Column:
        values, rank = np.unique(column, return_inverse=True)
        known = len(values) - int(np.isnan(values[-1]))
        lowest = np.arange(len(values), dtype=np.uint32)
        highest, upper = lowest.copy(), None
        if numeric and known:
            upper = int(np.searchsorted(values[:known], np.median(column[~np.isnan(column)]), side="right"))
            lowest[:upper], highest[upper:known] = 0, known - 1
        return cls(values, rank.astype(np.uint32), lowest, highest, known, upper)

    def condition(self, column: int, place: int) -> Condition:
        if place >= self.known:
            return Condition(column, "missing", 0.0)
        if self.upper is None:
            return Condition(column, "=", float(self.values[place]))
        return Condition(column, ">=" if place >= self.upper else "<=", float(self.values[place]))

    def bits(self, places: IntArray) -> NDArray[np.uint64]:
        """Return for some conditions (c,) which records satisfy them, as bits (c, words)."""
        words = -(-len(self.rank) // 64)
        bits = np.zeros((len(places), 8 * words), dtype=np.uint8)
        size = max(1, _AT_ONCE // len(self.rank))
        for start in range(0, len(places), size):
            some = places[start : start + size, None]
            above = self.rank - self.lowest[some]  # wraps round below the lowest rank
            packed = np.packbits(above <= self.highest[some] - self.lowest[some], axis=1)
            bits[start : start + size, : packed.shape[1]] = packed
        return bits.view(np.uint64)


@dataclass(frozen=True, eq=False)
class Suggested:
    """The condition that each record of a table suggests in each column.

    A record suggests its category, or that a number is at least as far from the median as its own, on the same side.

    Attributes
    ----------
    number : array (n, d) of int, which condition it is; ``first`` (d,) is the number of the first one of each column

    Examples
    --------
    >>> from miaudit.synthesis.schema import Column, Schema
    >>> table = Table(Schema((Column("a"), Column("b", "continuous", low=0, high=9))), [[0, 5], [1, 5], [1, 7]])
    >>> suggested = Suggested.of(table)
    >>> suggested.single(suggested.number).tolist(), suggested.conditions(suggested.number[2])
    ([True, True, True], (Condition(column=0, operator='=', value=1.0), Condition(column=1, operator='>=', value=7.0)))
    """

    number: IntArray
    first: IntArray
    columns: tuple[_Column, ...]

    @classmethod
    def of(cls, table: Table) -> Suggested:
        """Sort each column; O(d n log n)."""
        kinds = [column.kind for column in table.schema.columns]
        columns = tuple(
            _Column.of(table.values[:, j], kind in ("continuous", "ordinal")) for j, kind in enumerate(kinds)
        )
        sizes = np.array([len(own.values) for own in columns])
        first = np.cumsum(sizes) - sizes
        return cls(np.stack([own.rank for own in columns], axis=1) + first, first, columns)

    def conditions(self, numbers: IntArray) -> tuple[Condition, ...]:
        """Return the conditions of some numbers (w,)."""
        of = np.searchsorted(self.first, numbers, side="right") - 1
        return tuple(
            self.columns[j].condition(int(j), int(i - self.first[j])) for j, i in zip(of, numbers, strict=True)
        )

    def single(self, chosen: IntArray) -> BoolArray:
        """Return whether exactly one record satisfies all of the conditions in each row (q, w) of numbers.

        It takes q w n / 64 operations on words.
        """
        used, place = np.unique(chosen, return_inverse=True)
        of = np.searchsorted(self.first, used, side="right") - 1
        bits = np.concatenate([own.bits(used[of == j] - self.first[j]) for j, own in enumerate(self.columns)])
        place = place.reshape(chosen.shape)
        alone = np.empty(len(chosen), dtype=np.bool_)
        size = max(1, _AT_ONCE // (8 * bits.shape[1]))
        for start in range(0, len(chosen), size):
            together = bits[place[start : start + size, 0]]
            for one in place[start : start + size, 1:].T:
                together &= bits[one]
            word = together.max(axis=1)
            one_bit = (word & (word - np.uint64(1))) == 0
            alone[start : start + size] = one_bit & (np.count_nonzero(together, axis=1) == 1)
        return alone

"""Sums of differences between rows in whole steps, one or two bytes for each pair: bounds from below, quickly.

Arithmetic on bytes is several times as fast as on numbers, and a bound from below tells which of all pairs cannot be
near. Only the others are then computed as numbers, so nothing is lost.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from miaudit.arrays import FloatArray

__all__ = ["Codes", "StepSums", "Sums"]

Codes = NDArray[np.int8 | np.int16]
Sums = NDArray[np.uint8 | np.uint16 | np.uint32]

_FULL = 42  # steps of a difference of 1; what is left of 127 for the range of values is two such differences
_COARSEST = 8  # steps; of more columns a sum takes two bytes
_LARGEST, _LARGEST_SUM = 127, 255
_BLOCK_PAIRS, _CACHED_PAIRS = 1 << 22, 1 << 19  # in a block, and in the part of it that stays in the cache


@dataclass(frozen=True, eq=False)
class StepSums:
    """Sums of differences, in steps, between the rows of two tables.

    Categories that differ count ``full`` steps, numbers their difference in steps and at most ``full``. A sum is at
    most the one of the differences themselves, times ``full``, plus ``excess`` (one for each column of numbers).

    Attributes
    ----------
    codes : arrays (c, n) and (c, m) of categories
    numbers : arrays (k, n) and (k, m) of int8, numbers in steps; missing ones are ``full`` steps from all others
    full : steps of a difference of 1
    """

    codes: tuple[Codes, Codes]
    numbers: tuple[NDArray[np.int8], NDArray[np.int8]]
    full: int

    @classmethod
    def of(cls, codes: tuple[Codes, Codes], numbers: tuple[FloatArray, FloatArray]) -> StepSums:
        """Put numbers in steps.

        Parameters
        ----------
        codes : arrays (c, n) and (c, m) of categories
        numbers : arrays (k, n) and (k, m) in which a difference of 1 or more counts as 1; NaN is missing

        Examples
        --------
        >>> codes = np.array([[0, 1]], dtype=np.int8), np.array([[0, 0, 1]], dtype=np.int8)
        >>> numbers = np.array([[0.5, 3.0]]), np.array([[0.5, np.nan, 2.75]])
        >>> sums = StepSums.of(codes, numbers)
        >>> [block.tolist() for _, block in sums.blocks()], sums.full, sums.excess
        ([[[0, 42, 84], [84, 84, 0]]], 42, 1)
        """
        full = (_LARGEST_SUM - 1) // max(len(codes[0]) + len(numbers[0]), 1)
        full = min(full if full >= _COARSEST else _FULL, _FULL) if len(numbers[0]) else 1
        stepped = [_stepped(left, right, full) for left, right in zip(*numbers, strict=True)]
        sides = [np.array([pair[side] for pair in stepped], dtype=np.int8) for side in (0, 1)]
        empty = [one.reshape(len(stepped), values.shape[1]) for one, values in zip(sides, numbers, strict=True)]
        return cls(codes, (empty[0], empty[1]), full)

    @property
    def excess(self) -> int:
        """Steps by which a sum may be above the differences that it stands for."""
        return len(self.numbers[0])

    def blocks(self) -> Iterator[tuple[slice, Sums]]:
        """Yield rows of the left table and their sums (b, m), which the next block overwrites.

        No sum is the largest number of its type.
        """
        n, m = self.codes[0].shape[1], self.codes[1].shape[1]
        size = max(1, min(n, _BLOCK_PAIRS // m))
        most = len(self.codes[0]), self.full * self.excess  # categories that differ, and steps of numbers
        total = np.empty((size, m), dtype=np.min_scalar_type(self.full * most[0] + most[1] + 1))
        part = max(1, min(size, _CACHED_PAIRS // m))
        steps = np.empty((part, m), dtype=np.min_scalar_type(max(most)))
        apart = np.empty((part, m), dtype=np.int8)
        for start in range(0, n, size):
            rows = slice(start, min(start + size, n))
            for top in range(start, rows.stop, part):
                few = slice(top, min(top + part, rows.stop))
                b = few.stop - few.start
                self._fill(few, total[top - start :][:b], steps[:b], apart[:b])
            yield rows, total[: rows.stop - start]

    def _fill(self, rows: slice, total: Sums, steps: Sums, apart: NDArray[np.int8]) -> None:
        """Put the sums of some rows into ``total`` (b, m); the other arrays (b, m) are scratch."""
        if not self.excess:
            self._count(rows, total, apart)
            return
        self._count(rows, steps, apart)
        total[:] = steps
        np.multiply(total, total.dtype.type(self.full), out=total)
        self._add(rows, steps, apart)
        np.add(total, steps, out=total)

    def _count(self, rows: slice, count: Sums, apart: NDArray[np.int8]) -> None:
        """Count the categories that differ."""
        count[:] = 0
        unequal = apart.view(np.bool_)
        for left, right in zip(*self.codes, strict=True):
            np.not_equal(left[rows, None], right[None], out=unequal)
            np.add(count, unequal.view(np.uint8), out=count)  # twice as fast as adding truth values

    def _add(self, rows: slice, steps: Sums, apart: NDArray[np.int8]) -> None:
        """Add up the differences of numbers."""
        steps[:] = 0
        most = np.full((1, apart.shape[1]), self.full, dtype=np.int8)  # a row is ten times as fast as one number
        for left, right in zip(*self.numbers, strict=True):
            np.subtract(left[rows, None], right[None], out=apart)
            np.abs(apart, out=apart)
            np.minimum(apart, most, out=apart)
            np.add(steps, apart.view(np.uint8), out=steps)


def _stepped(left: FloatArray, right: FloatArray, full: int) -> tuple[NDArray[np.int8], NDArray[np.int8]]:
    """Return two columns in steps from 0 to what a byte leaves; beyond, differences are too small, never too large."""
    known = right[~np.isnan(right)]
    room = _LARGEST - full
    lowest = (float(np.median(known)) if len(known) else 0.0) - room / (2 * full)
    sides = []
    for values in (left, right):
        steps = np.clip(np.rint((np.nan_to_num(values) - lowest) * full), 0, room)
        sides.append(np.where(np.isnan(values), -full, steps).astype(np.int8))
    return sides[0], sides[1]

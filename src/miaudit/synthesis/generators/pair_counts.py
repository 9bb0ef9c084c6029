"""Counts of records by the levels of two columns, for every pair of many columns.

Where there are many columns, one product of indicator matrices counts all pairs. On 5,000 records of 222 columns it
takes a ninth of the time of counting pair by pair. The counts are the same whole numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from miaudit.arrays import FloatArray
from miaudit.synthesis.generators.levels import Codes
from miaudit.synthesis.generators.noisy_tables import places

_MANY_COLUMNS = 40  # with fewer, counting pair by pair is as fast
_MOST_LEVELS = 2_000  # of all columns together: a product of 32 MB
_ROWS = 4_096  # records at a time: single precision is exact to 16 million


@dataclass(frozen=True, eq=False)
class PairCounts:
    """How many records have each level of one column with each level of another.

    Attributes
    ----------
    codes : (n, d) levels of the records
    sizes : (d,) how many levels each column has

    Examples
    --------
    >>> counts = PairCounts(np.array([[0, 1], [0, 2], [1, 2], [1, 2]]), (2, 3))
    >>> counts.of((0, 1)).tolist()
    [0.0, 1.0, 1.0, 0.0, 0.0, 2.0]
    """

    codes: Codes
    sizes: Sequence[int]

    def of(self, pair: tuple[int, int]) -> FloatArray:
        """Return the counts (cells,) of a pair, row by row: the levels of the first column with those of the second."""
        i, j = pair
        if len(self.sizes) < _MANY_COLUMNS or sum(self.sizes) > _MOST_LEVELS:
            cells = self.sizes[i] * self.sizes[j]
            return np.bincount(places(self.codes, pair, self.sizes), minlength=cells).astype(np.float64)
        start = self._starts
        block = self._products[start[i] : start[i] + self.sizes[i], start[j] : start[j] + self.sizes[j]]
        return block.ravel()

    @cached_property
    def _starts(self) -> list[int]:
        return [0, *np.cumsum(self.sizes)[:-1].tolist()]

    @cached_property
    def _products(self) -> FloatArray:
        """The counts of all pairs of levels of all columns."""
        levels = sum(self.sizes)
        together = np.zeros((levels, levels))
        for at in range(0, len(self.codes), _ROWS):
            levels_of_rows = self.codes[at : at + _ROWS] + np.array(self._starts)
            indicators = np.zeros((len(levels_of_rows), levels), dtype=np.float32)
            np.put_along_axis(indicators, levels_of_rows, np.float32(1), axis=1)
            together += indicators.T @ indicators
        return together

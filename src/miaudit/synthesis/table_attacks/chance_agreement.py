"""Agreement by chance: how many synthetic records would agree with a real one that none of them copies.

A synthetic record that agrees with a real one says little if other people agree with it nearly as well. For a record x
and each compared column k, N are the other real records that agree with x in every compared column but k, and p is the
share of other real records that have x's value in k. If k tells nothing more, about N p of the real records agree in
all compared columns, and as large a share of the synthetic ones. The largest of these numbers over k counts.

All of it follows from the synthetic table's size and from the pool of members and control records, never from who is a
member. So the tests of near copies keep their level whatever is not counted.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from miaudit.arrays import FloatArray, IntArray

__all__ = ["RARE", "expected", "expected_without", "others"]

RARE = 0.01  # synthetic records that agree by chance: above it, an agreement does not count
_PAIRS = 500  # of columns that are left out together, at least, if there are so many

Hashes = NDArray[np.uint64]


def others(hashes: Hashes, unit: IntArray | None = None) -> IntArray:
    """Return how many records (n,) of other units have the hash of each record.

    Examples
    --------
    >>> hashes = np.array([7, 7, 7, 5], dtype=np.uint64)
    >>> others(hashes).tolist(), others(hashes, np.array([0, 0, 1, 2])).tolist()
    ([2, 2, 2, 0], [1, 1, 2, 0])
    """
    place, count = np.unique(hashes, return_inverse=True, return_counts=True)[1:]
    own: IntArray | int = 1
    if unit is not None:
        together, size = np.unique(place * (int(unit.max()) + 1) + unit, return_inverse=True, return_counts=True)[1:]
        own = size[together]
    return np.asarray(count[place] - own, dtype=np.int64)


def expected(cells: Hashes, synthetic: int, unit: IntArray | None = None) -> FloatArray:
    """Return how many synthetic records agree with each record (n,) in all columns by chance.

    Parameters
    ----------
    cells : array (n, d) of the hashes of cells of all real records
    synthetic : records of the synthetic table
    unit : array (n,) of int, 0 or more, where several records are of one unit

    Examples
    --------
    >>> cells = np.array([[1, 5], [1, 6], [1, 7], [2, 5], [3, 9]], dtype=np.uint64)
    >>> expected(cells, 8).tolist()  # of the first: 2 agree but for the second column, of which 1 in 4 has the value
    [1.0, 0.0, 0.0, 0.0, 0.0]
    """
    whole, share = cells.sum(axis=1, dtype=np.uint64), _shares(cells, unit)
    most = np.zeros(len(cells))
    for column, own in enumerate(share.T):
        most = np.maximum(most, others(whole - cells[:, column], unit) * own)
    return np.asarray(most * synthetic / max(len(cells) - 1, 1))


def expected_without(cells: Hashes, synthetic: int, unit: IntArray | None = None) -> FloatArray:
    """Return the same (n, d) for all columns but each one.

    Notes
    -----
    Two columns are left out at a time, O(d^2 n log n). Of more than about 30 columns, each is left out with the next
    ones only, 500 pairs in all.

    Examples
    --------
    >>> cells = np.array([[1, 5, 1], [1, 6, 2], [1, 7, 3], [2, 5, 4], [3, 9, 5]], dtype=np.uint64)
    >>> expected_without(cells, 8)[0].tolist()  # without the third column as above
    [0.0, 0.0, 1.0]
    """
    whole, share = cells.sum(axis=1, dtype=np.uint64), _shares(cells, unit)
    most = np.zeros(cells.shape)
    for one, other in _pairs(cells.shape[1]):
        agree = others(whole - cells[:, one] - cells[:, other], unit)
        most[:, one] = np.maximum(most[:, one], agree * share[:, other])
        most[:, other] = np.maximum(most[:, other], agree * share[:, one])
    return np.asarray(most * synthetic / max(len(cells) - 1, 1))


def _shares(cells: Hashes, unit: IntArray | None) -> FloatArray:
    """Return the share (n, d) of the other records that have the cell of each record."""
    return np.column_stack([others(column, unit) for column in cells.T]) / max(len(cells) - 1, 1)


def _pairs(columns: int) -> Iterator[tuple[int, int]]:
    """Yield pairs of columns, each column in equally many."""
    apart = min(columns // 2, -(-_PAIRS // columns))
    for step in range(1, apart + 1):
        for one in range(columns if 2 * step < columns else columns // 2):
            yield one, (one + step) % columns

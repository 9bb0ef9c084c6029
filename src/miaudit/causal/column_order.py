"""An order of columns that depends on what they hold, and not on where they are in the table.

Trees draw columns at random by their position. With the columns in this order, the same table with its columns moved
gives the same trees.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from miaudit.arrays import IntArray

__all__ = ["by_content"]
_FIRST = 64  # records by which columns are nearly always told apart; more of them, and their bytes are compared


def by_content(x: NDArray[Any]) -> IntArray:
    """Return the positions (d,) of the columns of x (n, d), sorted by the numbers that the columns hold.

    The first record in which two columns differ decides, in float32: a processor that rounds the last digit of a column
    otherwise, as of components of texts, must not move it. Equal columns keep their order, which makes no difference.

    Examples
    --------
    >>> x = np.array([[2.0, 1.0], [0.0, 3.0]])
    >>> moved = x[:, ::-1]
    >>> bool((x[:, by_content(x)] == moved[:, by_content(moved)]).all())
    True
    """
    whole = np.asarray(x, dtype=np.float32).T
    first = whole[:, :_FIRST]
    later = [column.tobytes() for column in whole] if len(np.unique(first, axis=0)) < len(first) else [b""] * len(first)
    return np.array(sorted(range(len(whole)), key=lambda j: (first[j].tolist(), later[j])), dtype=np.int64)

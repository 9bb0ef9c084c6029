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


def by_content(x: NDArray[Any]) -> IntArray:
    """Return the positions (d,) of the columns of x (n, d), sorted by the bytes that the columns hold.

    Equal columns keep their order, which makes no difference to them.

    Examples
    --------
    >>> x = np.array([[2.0, 1.0], [0.0, 3.0]])
    >>> moved = x[:, ::-1]
    >>> bool((x[:, by_content(x)] == moved[:, by_content(moved)]).all())
    True
    """
    held = [np.ascontiguousarray(column).tobytes() for column in x.T]
    return np.array(sorted(range(len(held)), key=held.__getitem__), dtype=np.int64)

"""Which numbers have so many digits that two of them are hardly ever equal by chance."""

from __future__ import annotations

import numpy as np

from miaudit.arrays import BoolArray, FloatArray

__all__ = ["many_digits"]

_DIGITS = 5  # significant ones, beyond which a number is not rounded
_LEAST = 1e-300  # below which float64 has few digits itself


def many_digits(values: FloatArray) -> BoolArray:
    """Return which numbers, of any shape, have more significant digits than rounded numbers have.

    Examples
    --------
    >>> many_digits(np.array([0.0, 1.0, 0.25, 1 / 3])).tolist()
    [False, False, False, True]
    """
    size = np.where(np.abs(values) < _LEAST, 0.0, np.abs(values))
    unit = 10.0 ** (np.floor(np.log10(np.where(size > 0, size, 1.0))) - _DIGITS + 1)
    return np.asarray(np.abs(size - np.rint(size / unit) * unit) > 1e-9 * size)

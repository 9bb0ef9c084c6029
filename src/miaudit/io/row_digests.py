"""A digest of each record, equal for equal records of any form: arrays, lists and data frames."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from miaudit.io import frames

__all__ = ["row_digests"]

_BYTES = 16
_BLOCK = 1000


def row_digests(records: Any, labels: NDArray[Any]) -> list[str]:
    """Return a digest of each record with its label.

    Parameters
    ----------
    records : array (n, ...), list of n records, or data frame of pandas, polars or arrow
    labels : array (n,) or (n, L)

    Examples
    --------
    >>> x, y = np.arange(6.0).reshape(3, 2), np.array([0, 1, 1])
    >>> first, second = row_digests(x, y), row_digests(x[::-1].astype(int), y[::-1])
    >>> first == second[::-1], len(set(first))
    (True, 3)
    """
    pairs = zip(_rows(records), _rows(labels), strict=True)
    return [hashlib.blake2b(row + b"|" + label, digest_size=_BYTES).hexdigest() for row, label in pairs]


def _rows(values: Any) -> Iterator[bytes]:
    """Yield each row as bytes: numbers as doubles, all else as text."""
    if frames.is_frame(values):
        columns = (
            [np.asarray(frames.written(values[name])) for name in values.columns] if hasattr(values, "iloc") else []
        )
        if not columns:
            yield from (repr(row).encode(errors="surrogatepass") for row in values.iter_rows())
            return
        yield from (b"".join(parts) for parts in zip(*map(_rows, columns), strict=True))
        return
    if isinstance(values, np.ndarray) and values.dtype.kind in "fiub":
        for start in range(0, len(values), _BLOCK):
            block = values[start : start + _BLOCK]
            flat = np.ascontiguousarray(block.reshape(len(block), -1).astype("<f8") + 0.0)  # no negative zero
            yield from (row.tobytes() for row in flat)
        return
    for one in values:
        plain = isinstance(one, np.ndarray) and one.dtype.kind in "fiub"
        yield np.asarray(one, "<f8").tobytes() if plain else repr(one).encode(errors="surrogatepass")

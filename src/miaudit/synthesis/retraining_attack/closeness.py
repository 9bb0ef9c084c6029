"""A synthetic set described by one record: how near its records come to it, and how many share parts of it.

The published extractors describe whole sets and know nothing of the record that the attack is about. An attacker knows
it, so an audit must use it; the queries are those of random parts of a record (Houssiau et al. 2022).
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from miaudit.arrays import Float32Array, FloatArray
from miaudit.errors import InputError
from miaudit.synthesis.retraining_attack.features import MISSING, Layout

_RANKS = (1, 2, 3, 5, 10)
_WITHIN = (0.02, 0.05, 0.1, 0.15, 0.2, 0.3)
_QUERIES = 48  # random parts of a record, of two to five columns
_CLOSE = 0.1  # numbers agree when they differ by at most this share of their range
_SEED = 7
_BLOCK = 1 << 24
_WIDTH = len(_RANKS) + 1 + len(_WITHIN) + _QUERIES  # number of features


def extract(sets: NDArray[Any], layout: Layout, record: FloatArray) -> Float32Array:
    """Describe synthetic sets by their closeness to a record.

    Parameters
    ----------
    sets : array (m, s, d), as in :func:`miaudit.synthesis.retraining_attack.features.extract`
    layout : what the columns are
    record : float64 (d,), the target; NaN where missing

    Returns
    -------
    float32 array (m, 60)
        Gower's distance to the nearest records and on average (0 to 1), the shares of records within given distances,
        and the shares that agree with the record on 48 random parts of two to five columns. The parts are the same for
        all records. Missing agrees with missing and differs by 1 from any value: over the columns that both have, as
        Gower has it, an incomplete stranger would be as near as a copy, and hide it.

    Examples
    --------
    >>> from miaudit.synthesis.schema import Column, Schema
    >>> layout = Layout(Schema((Column("a"), Column("b"))))
    >>> sets = np.array([[[0, 1], [1, 1]], [[0, 0], [0, 0]]], dtype=np.uint8)
    >>> extract(sets, layout, np.array([1.0, 1.0]))[:, 0].tolist()
    [0.0, 1.0]
    """
    if sets.ndim != 3 or sets.shape[2] != len(layout.schema) or record.shape != (len(layout.schema),):
        received = f"shapes {sets.shape} and {record.shape}"
        raise InputError("sets", f"(m, s, {len(layout.schema)}) and one record", received, "one column for each")
    values = np.empty((len(sets), _WIDTH), dtype=np.float32)
    step = max(1, _BLOCK // max(1, 8 * sets[0].size))
    for start in range(0, len(sets), step):
        rows = slice(start, start + step)
        _describe(sets[rows], layout, record, values[rows])
    return values


def _describe(block: NDArray[Any], layout: Layout, record: FloatArray, out: Float32Array) -> None:
    apart = _apart(block, layout, record)
    distance = apart.mean(axis=2)
    ordered = np.sort(distance, axis=1)
    place = np.minimum(np.array(_RANKS), distance.shape[1]) - 1
    agree = apart <= _CLOSE
    parts = [agree[:, :, part].all(axis=2).mean(axis=1) for part in _parts(block.shape[2])]
    near = [(distance <= share + 1e-9).mean(axis=1) for share in _WITHIN]
    out[:] = np.column_stack([ordered[:, place], distance.mean(axis=1), *near, *parts])


def _apart(block: NDArray[Any], layout: Layout, record: FloatArray) -> Float32Array:
    """Difference (m, s, d) of each value from the record's, 0 to 1."""
    lost, own_lost = block == MISSING if block.dtype == np.uint8 else np.isnan(block), np.isnan(record)
    own = np.nan_to_num(record)
    apart = (block != own).astype(np.float32)
    ordered = [i for i, column in enumerate(layout.schema.columns) if column.kind == "ordinal" or i in layout.measured]
    for i in ordered:
        low, high = layout.range(layout.schema.columns[i])
        apart[:, :, i] = np.abs(np.nan_to_num(block[:, :, i]) - own[i]) / (high - low)
    distance: Float32Array = np.where(lost | own_lost, lost != own_lost, np.minimum(apart, 1.0)).astype(np.float32)
    return distance


@lru_cache(maxsize=16)
def _parts(width: int) -> tuple[tuple[int, ...], ...]:
    """Random parts of a record, always the same ones."""
    rng = np.random.default_rng([_SEED, width])
    sizes = np.minimum(rng.integers(2, 6, size=_QUERIES), width)
    return tuple(tuple(rng.choice(width, size=size, replace=False).tolist()) for size in sizes)

"""Histograms of members and of non-members between round numbers, so that no edge is the value of a record."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated

import numpy as np
from annotated_types import MinLen

from miaudit.arrays import BoolArray, FloatArray, Share

_BINS = 30
_TAIL = 0.005  # of the values on either side, in the end bins
_FINEST = 1e-9  # of the values, below which they count as equal: edges are written with 12 digits


@dataclass(frozen=True)
class Histogram:
    """Shares of members and of non-members between round edges; the end bins hold the tails.

    Attributes
    ----------
    edges : k + 1 ascending numbers, none of them the value of a record
    members, nonmembers : k shares each, adding up to 1
    """

    edges: Annotated[tuple[float, ...], MinLen(2)]
    members: Annotated[tuple[Share, ...], MinLen(1)]
    nonmembers: Annotated[tuple[Share, ...], MinLen(1)]


def histogram(values: FloatArray, member: BoolArray) -> Histogram:
    """Bin values (n,) of members and of non-members alike, in about thirty bins.

    Examples
    --------
    >>> histogram(np.array([0.0, 1.0, 2.0, 3.0]), np.array([True, False, True, False])).edges[:3]
    (0.0, 0.05, 0.1)
    """
    low, high = np.quantile(values, [_TAIL, 1 - _TAIL])
    size, width = max(abs(float(low)), abs(float(high))), float(high - low) / _BINS
    step = _round_step(width if width > _FINEST * size else size)
    first = math.floor(low / step) * step
    bins = max(1, math.ceil((high - first) / step))
    edges = first + step * np.arange(bins + 1)
    shares = []
    for kept in (member, ~member):
        counts, _ = np.histogram(np.clip(values[kept], edges[0], edges[-1]), edges)
        shares.append(tuple(np.round(counts / np.count_nonzero(kept), 6).tolist()))
    return Histogram(tuple(float(f"{edge:.12g}") for edge in edges), shares[0], shares[1])


def _round_step(width: float) -> float:
    """Return the largest of 1, 2, 5 times a power of ten that is at most ``width``; 1 for a width of 0."""
    if not width > 0:
        return 1.0
    power = 10.0 ** math.floor(math.log10(width))
    return float(power * max(factor for factor in (1, 2, 5) if factor * power <= width * (1 + 1e-9)))

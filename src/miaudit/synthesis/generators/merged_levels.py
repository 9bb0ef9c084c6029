"""Levels of a column that follow from noisy counts of its public cells: frequent cells alone, rare ones together.

Cells are fine where values crowd: each value of a short range; of a long one both ends, zero, and steps of 1, 2, 5, 10
and so on above the low end, since money and counts crowd near it. What is merged follows from the noisy counts alone,
so it costs no more privacy than they do. A level is drawn back as one of its cells, by their noisy shares.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from miaudit.arrays import FloatArray, IntArray
from miaudit.synthesis.generators.levels import Codes, Levels, step_of
from miaudit.synthesis.generators.noisy_tables import NoisyTable, nearest_shares
from miaudit.synthesis.schema import Column

MERGED = 12  # levels of a column, about
_MOST_VALUES = 128  # of a rounded column, up to which each is a cell
_EQUAL = 32  # equal cells of a longer range
_SERIES = (1, 2, 5)
_FINEST = 1e-6  # of a range without decimals, the first step of the series
_END = 1e-9  # of such a range, the width of the cell at each end
_NEAR = 1e-9
# Thresholds, in standard deviations of the noise on what is compared, and in shares of a typical level.
_SPIKE_SDS, _SPIKE_SHARE = 4.0, 1.5
_SEEN_SDS = 2.0
_LIGHT_SDS, _LIGHT_SHARE = 3.0, 4.0
_RARE_SDS = 3.0


def cells_of(column: Column) -> Levels:
    """Return the fine public cells of a column: its categories, or cells of its declared range.

    Examples
    --------
    >>> cells_of(Column("age", "continuous", low=0, high=99, decimals=0)).count
    100
    >>> gain = cells_of(Column("gain", "continuous", low=0, high=99_999, decimals=0))
    >>> gain.encode(np.array([0.0, 1.0, 2.0, 3.0, 99_998.0, 99_999.0])).tolist()
    [0, 1, 2, 2, 42, 43]
    """
    if column.kind != "continuous":
        return Levels(column, None)
    assert column.low is not None and column.high is not None  # noqa: S101 - by its check
    low, high, step = column.low, column.high, step_of(column)
    if step is None:
        inner = {edge for edge in _inner(low, high, _FINEST * (high - low)) if low < edge < high}
        width = _END * (high - low)
        return Levels(column, np.array([low, low + width, *sorted(inner), high - width, high]))
    first, last = math.ceil(low / step - _NEAR), math.floor(high / step + _NEAR)  # counted in steps
    if last - first < _MOST_VALUES:
        return Levels(column, step * (np.arange(first, max(last, first) + 2, dtype=np.float64) - 0.5))
    # an edge lies half a step below the value that it begins with
    starts = {round(edge) for edge in _inner(first, last, 1.0)} | {first + 1, last}
    inside = sorted(start for start in starts if first < start <= last)
    return Levels(column, step * (np.array([first, *inside, last + 1]) - 0.5))


def _inner(low: float, high: float, step: float) -> set[float]:
    """Edges inside a range: of equal cells, and of a series of steps from its low end, or to both sides of zero."""
    width = (high - low) / _EQUAL
    edges = {float(edge) for edge in np.linspace(low, high, _EQUAL + 1)[1:-1]}
    origin, sides = (0.0, (1, -1)) if low < 0 < high else (low, (1,))
    if origin > low:
        edges |= {0.0, step}
    scale = step
    while scale < width:
        near = [times * scale for times in _SERIES if times * scale < width]
        edges |= {origin + side * distance for side in sides for distance in near}
        scale *= 10
    return edges


@dataclass(frozen=True, eq=False)
class MergedLevels:
    """The levels of one column, merged from its public cells by their noisy counts.

    Attributes
    ----------
    cells : public
    level : (cells,) of each cell; missing values keep a level of their own, the last
    shares : (cells,) of records, by the noisy counts

    Examples
    --------
    >>> cells = cells_of(Column("visits", "continuous", low=0, high=9, decimals=0))
    >>> merged = MergedLevels.of(cells, np.array([600.0, 90, 80, 70, 60, 50, 3, -2, 1, 0]), 2.0, 4)
    >>> merged.level.tolist(), merged.encode(np.array([0.0, 9.0])).tolist()
    ([0, 1, 1, 1, 2, 2, 2, 2, 2, 2], [0, 2])
    """

    cells: Levels
    level: IntArray
    shares: FloatArray

    @classmethod
    def of(cls, cells: Levels, counts: FloatArray, sd: float, bins: int | None = None) -> MergedLevels:
        """Merge cells by their noisy counts (cells,), with noise of a standard deviation, into about so many levels.

        The number of records is the counts' own noisy total, never the length of a table.
        """
        body = counts[: cells.known]
        records = max(float(counts.sum()), 1.0)
        level = _ordered(body, sd, records, bins or MERGED) if cells.edges is not None else _frequent(body, sd)
        if cells.column.missing:
            level = np.append(level, level.max() + 1)
        return cls(cells, level, nearest_shares(counts))

    @property
    def column(self) -> Column:
        """As declared."""
        return self.cells.column

    @property
    def count(self) -> int:
        """All levels."""
        return int(self.level.max()) + 1

    def encode(self, values: FloatArray) -> Codes:
        """Return the level (n,) of each value (n,)."""
        return self.level[self.cells.encode(values)].astype(np.int32)

    def decode(self, codes: NDArray[np.integer], rng: np.random.Generator) -> FloatArray:
        """Return a value (n,) of each level (n,): of a cell of it, by their shares, and there each equally often."""
        at = np.zeros(len(codes), dtype=np.int64)
        for level in np.unique(codes):
            rows, own = np.flatnonzero(codes == level), np.flatnonzero(self.level == level)
            at[rows] = rng.choice(own, size=len(rows), p=self.shares[own] / self.shares[own].sum())
        return self.cells.decode(at, rng)

    def table(self, column: int, counts: FloatArray, sd: float) -> NoisyTable:
        """Return the counts (cells,) of cells as a table of the levels of the column in this position."""
        cells = np.bincount(self.level).astype(np.float64)
        return NoisyTable((column,), np.bincount(self.level, weights=counts).astype(np.float64), sd, cells)


def _frequent(counts: FloatArray, sd: float) -> IntArray:
    """Give each frequent category a level, and the most frequent one in any case; the others share the last one."""
    rare = counts < _RARE_SDS * sd
    rare[np.argmax(counts)] = False  # of a column in noise pairs still say something, if it has two levels
    level = np.cumsum(~rare) - 1
    level[rare] = np.count_nonzero(~rare)
    return np.asarray(level)


def _ordered(counts: FloatArray, sd: float, records: float, bins: int) -> IntArray:
    """Merge adjacent cells: spikes stay alone, others are gathered from the left until a level has its share."""
    typical = records / bins
    spike = (counts > typical / _SPIKE_SHARE) & (counts > _SPIKE_SDS * sd)
    groups = _gathered(counts, spike, typical, _SEEN_SDS * sd)
    while (pair := _to_join(groups, counts, spike, sd, typical / _LIGHT_SHARE)) is not None:
        light, neighbour = pair
        groups[neighbour] = sorted(groups[neighbour] + groups[light])
        del groups[light]
    level = np.zeros(len(counts), dtype=np.int64)
    for place, cells in enumerate(groups):
        level[cells] = place
    return level


def _gathered(counts: FloatArray, spike: NDArray[np.bool_], typical: float, seen: float) -> list[list[int]]:
    """Cut cells into runs with a level's share of records, spikes by themselves; what may be noise counts nothing."""
    groups: list[list[int]] = []
    records = math.inf  # of the run so far; a full one is closed
    for cell, count in enumerate(counts):
        if spike[cell] or records >= typical:
            groups.append([])
            records = 0.0
        groups[-1].append(cell)
        records = math.inf if spike[cell] else records + (count if count > seen else 0.0)
    return groups


def _to_join(
    groups: list[list[int]], counts: FloatArray, spike: NDArray[np.bool_], sd: float, least: float
) -> tuple[int, int] | None:
    """Return a light group and the neighbour that it joins; None once there is none.

    It joins a spike only if it has no other neighbour, and so few records that they may be noise.
    """
    alone = [bool(spike[cells].any()) for cells in groups]
    for place, cells in enumerate(groups):
        records, noise = float(counts[cells].sum()), sd * math.sqrt(len(cells))
        if alone[place] or records >= max(_LIGHT_SDS * noise, least):
            continue
        beside = [other for other in (place - 1, place + 1) if 0 <= other < len(groups)]
        free = [other for other in beside if not alone[other]]
        if free or (beside and records < _SEEN_SDS * noise):
            return place, (free or beside)[0]
    return None

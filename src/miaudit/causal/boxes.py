"""Intervals of one covariate and rectangles of two in which membership is not what a propensity says.

Splines are smooth and boosted trees are shrunken: both leave a part of a shift that happens in a narrow band or in a
corner. A scan of the residuals over all boxes of ranks finds the one with the largest sum in standard errors.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from scipy import special

from miaudit.arrays import BoolArray, FloatArray, IntArray

__all__ = ["Box", "Candidate", "Scan", "bins", "intervals", "limit_of_intervals", "limit_of_rectangles", "rectangles"]

_LEAST = 7.5  # variance of membership that must be inside a box, and outside: 30 records at probability 1/2
_LEVEL = 0.05  # one-sided, of all boxes together
_INTERVALS, _RECTANGLES = 150, 1000  # independent tests that the boxes of one column, and of a pair, are worth
_AT_ONCE = 20  # histograms of two columns whose rectangles are summed together: they stay in the processor's cache
_ROUNDS = 2  # over the sides of a box
_WIDE, _MIDDLE, _NARROW = 12, 40, 100


@dataclass(frozen=True)
class Box:
    """Records whose values lie in a range of one covariate, or of two.

    Attributes
    ----------
    sides : (column, lowest, highest) of each, both included; infinite where there is no limit
    """

    sides: tuple[tuple[int, float, float], ...]

    def holds(self, x: FloatArray) -> BoolArray:
        """Return which rows (n,) of covariates (n, d) are inside."""
        inside = np.ones(len(x), dtype=np.bool_)
        for column, low, high in self.sides:
            inside &= (x[:, column] >= low) & (x[:, column] <= high)
        return inside

    @classmethod
    def of_bins(cls, sides: Sequence[tuple[int, int, int]], x: FloatArray, code: IntArray) -> Box:
        """Return the box of ranges of bins (column, first, last), by the values (n, d) that the bins (n, d) hold."""
        return cls(tuple((j, *_values(x[:, j], code[:, j], first, last)) for j, first, last in sides))


def _values(x: FloatArray, code: IntArray, first: int, last: int) -> tuple[float, float]:
    inside = x[(code >= first) & (code <= last)]
    low = float(inside.min()) if first > 0 else -np.inf
    return low, float(inside.max()) if last < code.max() else np.inf


@dataclass(frozen=True)
class Candidate:
    """The box with the largest |z| of a scan: its sides are (column, first bin, last bin)."""

    z: float
    sides: tuple[tuple[int, int, int], ...] = ()


def limit_of_intervals(columns: int) -> float:
    """Return the z that intervals of so many columns exceed by chance in one of twenty scans."""
    return -float(special.ndtri(_LEVEL / (_INTERVALS * columns)))


def limit_of_rectangles(columns: int) -> float:
    """Return the z that rectangles of the pairs of so many columns exceed by chance in one of twenty scans."""
    return -float(special.ndtri(_LEVEL / (_RECTANGLES * max(columns * (columns - 1) / 2, 1))))


@dataclass(frozen=True, eq=False)
class Scan:
    """Covariates in bins, by which the strongest box is found.

    Attributes
    ----------
    x : array (n, d)
    wide, middle, narrow : arrays (n, d) of bins: for rectangles, for intervals, and for sides that are moved
    """

    x: FloatArray
    wide: IntArray
    middle: IntArray
    narrow: IntArray

    @classmethod
    def of(cls, x: FloatArray) -> Scan:
        """Put covariates (n, d) into bins."""
        return cls(x, *bins(x, _WIDE, _MIDDLE, _NARROW))

    def of_rows(self, rows: BoolArray) -> Scan:
        """Return some of the records, in the same bins."""
        return Scan(self.x[rows], *(code.T[:, rows].T for code in (self.wide, self.middle, self.narrow)))

    def strongest(
        self, residual: FloatArray, variance: FloatArray, rectangle: Candidate | None = None
    ) -> tuple[float, Box]:
        """Return how far the strongest interval or rectangle is above its limit, and the box with its sides moved.

        Parameters
        ----------
        residual, variance : as in :func:`intervals`
        rectangle : the strongest, where it is known
        """
        columns = self.x.shape[1]
        interval = intervals(self.middle, residual, variance)
        above, best, code = interval.z - limit_of_intervals(columns), interval, self.middle
        if columns > 1:
            pair = rectangle or rectangles(self.wide, residual, variance)[0]
            if pair.z - limit_of_rectangles(columns) > above:
                above, best, code = pair.z - limit_of_rectangles(columns), pair, self.wide
        if above <= 0:
            return above, Box(())
        sides = []
        for j, first, last in best.sides:
            inside = (code[:, j] >= first) & (code[:, j] <= last)
            if not inside.all():  # a side that leaves nothing out is none
                sides.append((j, int(self.narrow[inside, j].min()), int(self.narrow[inside, j].max())))
        return above, Box.of_bins(_refined(self.narrow, sides, residual, variance), self.x, self.narrow)


def bins(x: FloatArray, *most: int) -> list[IntArray]:
    """Return bins (n, d) of equal numbers of ranks, numbered from 0; each value its own where a column has few.

    Parameters
    ----------
    x : array (n, d)
    most : how many bins; one array for each such number, in which the bins of a column lie side by side

    Examples
    --------
    >>> bins(np.array([[5.0, 1], [6, 1], [7, 0], [8, 0]]), 2)[0].tolist()
    [[0, 1], [0, 1], [1, 0], [1, 0]]
    """
    codes = [np.empty(x.shape[::-1], dtype=np.intp) for _ in most]
    for j, column in enumerate(x.T):
        order = np.argsort(column)
        ascending = column[order]
        new = np.r_[True, ascending[1:] != ascending[:-1]]
        place = np.cumsum(new) - 1
        edges = np.r_[np.flatnonzero(new), len(column)]
        middle = ((edges[:-1] + edges[1:]) / 2)[place]  # the average rank less one half
        for code, count in zip(codes, most, strict=True):
            ranks = np.minimum((middle * count / len(column)).astype(np.intp), count - 1)
            code[j, order] = place if len(edges) - 1 <= count else ranks
    return [code.T for code in codes]


def intervals(code: IntArray, residual: FloatArray, variance: FloatArray) -> Candidate:
    """Return the interval of one column with the largest |sum of residuals| over its standard deviation.

    Parameters
    ----------
    code : array (n, d) of bins
    residual, variance : arrays (n,), membership less its probability, and the variance of that

    Examples
    --------
    >>> code = np.repeat([[0], [1], [2]], 40, axis=0)
    >>> intervals(code, np.repeat([-0.25, 0.5, -0.25], 40), np.full(120, 0.25)).sides
    ((0, 1, 1),)
    """
    first, last = np.triu_indices(int(code.max()) + 1)
    return _strongest(code, residual, variance, first, last)


def _strongest(
    code: IntArray, residual: FloatArray, variance: FloatArray, first: IntArray, last: IntArray
) -> Candidate:
    """Return the strongest of some intervals, from ``first`` to ``last`` (k,), of any column."""
    most = int(code.max()) + 1
    sums = np.zeros((2, code.shape[1], most + 1))
    for j, column in enumerate(code.T):
        for which, values in enumerate((residual, variance)):
            sums[which, j, 1:] = np.cumsum(np.bincount(column, values, minlength=most))
    inside = sums[:, :, last + 1] - sums[:, :, first]
    square = _squared(inside[0], inside[1], float(variance.sum()))
    at = np.unravel_index(int(np.argmax(square)), square.shape)
    return Candidate(float(np.sqrt(square[at])), ((int(at[0]), int(first[at[1]]), int(last[at[1]])),))


def rectangles(
    code: IntArray, residual: FloatArray, variance: FloatArray, group: IntArray | None = None
) -> list[Candidate]:
    """Return the rectangle of two columns with the largest |z|: of all records, or without each group in turn.

    Parameters
    ----------
    code, residual, variance : as in :func:`intervals`, with two columns or more
    group : array (n,), numbered from 0

    Examples
    --------
    >>> code = np.array([[i, j] for i in range(3) for j in range(3) for _ in range(40)])
    >>> corner = (code[:, 0] == 2) & (code[:, 1] >= 1)
    >>> [one] = rectangles(code, corner - 0.2, np.full(360, 0.16))
    >>> one.sides
    ((0, 2, 2), (1, 1, 2))
    """
    most, groups = int(code.max()) + 1, 1 if group is None else int(group.max()) + 1
    first, last = np.triu_indices(most)
    place = np.arange(most)
    inside = ((place >= first[:, None]) & (place <= last[:, None])).astype(np.float64)
    whole = float(variance.sum()) - (0.0 if group is None else np.bincount(group, variance))
    best = [Candidate(0.0)] * groups
    for pairs, counts in _histograms(code, residual, variance, group, most, groups):
        sums = inside @ counts @ inside.T  # (2, pairs, groups, intervals, intervals)
        square = _squared(sums[0], sums[1], np.broadcast_to(whole, (groups,))[:, None, None])
        for k in range(groups):
            at = np.unravel_index(int(np.argmax(square[:, k])), square[:, k].shape)
            z = float(np.sqrt(square[:, k][at]))
            if z > best[k].z:
                sides = ((j, int(first[i]), int(last[i])) for j, i in zip(pairs[at[0]], at[1:], strict=True))
                best[k] = Candidate(z, tuple(sides))
    return best


def _histograms(
    code: IntArray, residual: FloatArray, variance: FloatArray, group: IntArray | None, most: int, groups: int
) -> Iterator[tuple[list[tuple[int, int]], FloatArray]]:
    """Yield some pairs of columns, and the sums (2, pairs, groups, bins, bins) of the records outside each group."""
    cells, columns = most * most, np.ascontiguousarray(code.T)
    rows = (columns if group is None else columns + group * most) * most
    every = [(i, j) for i in range(len(columns)) for j in range(i + 1, len(columns))]
    for start in range(0, len(every), max(1, _AT_ONCE // groups)):
        pairs = every[start : start + max(1, _AT_ONCE // groups)]
        sums = np.empty((2, len(pairs), groups, most, most))
        for at, (i, j) in enumerate(pairs):
            cell = rows[i] + columns[j]
            for which, values in enumerate((residual, variance)):
                sums[which, at] = np.bincount(cell, values, minlength=groups * cells).reshape(groups, most, most)
        yield pairs, sums if group is None else sums.sum(axis=2, keepdims=True) - sums


def _squared(residual: FloatArray, variance: FloatArray, whole: FloatArray | float) -> FloatArray:
    """Return z^2 of sums over boxes, in the place of the residuals; 0 where too little is inside or outside."""
    outside = (variance < _LEAST) | (variance > whole - _LEAST)
    np.square(residual, out=residual)
    np.divide(residual, np.maximum(variance, _LEAST, out=variance), out=residual)
    residual[outside] = 0.0
    return residual


def _refined(
    code: IntArray, sides: Sequence[tuple[int, int, int]], residual: FloatArray, variance: FloatArray
) -> tuple[tuple[int, int, int], ...]:
    """Move the sides of a box, one column at a time, to where its |z| is largest in narrower bins.

    A side at the end of a column stays there: what lies beyond a corner is in it, however few the records are.

    Parameters
    ----------
    code : array (n, d) of narrower bins
    sides : (column, first, last) of these bins
    residual, variance : as in :func:`intervals`
    """
    box = {column: (first, last) for column, first, last in sides}
    low = {j for j, first, _ in sides if first == code[:, j].min()}
    high = {j for j, _, last in sides if last == code[:, j].max()}
    for _ in range(_ROUNDS):
        for column in box:
            others = np.ones(len(code), dtype=np.bool_)
            for other, (first, last) in box.items():
                if other != column:
                    others &= (code[:, other] >= first) & (code[:, other] <= last)
            inside = code[others][:, [column]]
            starts, ends = np.triu_indices(int(inside.max()) + 1)
            usable = (starts == 0) | (column not in low)
            usable &= (ends == inside.max()) | (column not in high)
            best = _strongest(inside, residual[others], variance[others], starts[usable], ends[usable])
            if best.z > 0:
                _, *side = best.sides[0]
                box[column] = side[0], side[1]
    return tuple((column, first, last) for column, (first, last) in box.items())

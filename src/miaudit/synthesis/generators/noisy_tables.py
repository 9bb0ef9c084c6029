"""Counts of a few columns with noise, made consistent, and the laws of columns given their parents that follow.

Everything after the noise is post-processing and costs no privacy.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from miaudit.arrays import FloatArray, IntArray
from miaudit.errors import InputError
from miaudit.synthesis.generators.count_noise import CountNoise
from miaudit.synthesis.generators.levels import Codes

# Shrinkage of a row of counts towards the law with one parent less: so many records, in deviations of the noise.
_SHRINKAGE = 2.0
_LEAST_SHARE = 1e-9
_LEAST_PRIOR = 1.0  # records, where there is no noise
_RIDGE = 1.0  # of combined laws, in records
_MOST_STEPS = 200


@dataclass(frozen=True, eq=False)
class NoisyTable:
    """Noisy counts of the records by the levels of some columns.

    Attributes
    ----------
    columns : the parents' positions and last that of the column whose law the table gives
    counts : an axis for each of them
    sd : standard deviation of the noise on each cell
    merged : (levels,) of a table of one column, how many cells with this noise each count is the sum of; None is one
    """

    columns: tuple[int, ...]
    counts: FloatArray
    sd: float
    merged: FloatArray | None = None

    @property
    def column(self) -> int:
        """The column whose law the table gives."""
        return self.columns[-1]

    @property
    def parents(self) -> tuple[int, ...]:
        """The columns on which the law depends."""
        return self.columns[:-1]

    def margin(self, column: int) -> FloatArray:
        """Return the counts by the levels of one of its columns."""
        others = tuple(axis for axis, own in enumerate(self.columns) if own != column)
        return np.asarray(self.counts.sum(axis=others))


def places(codes: Codes, columns: Sequence[int], sizes: Sequence[int]) -> IntArray:
    """Return the cell (n,) of each record (n, d) in a table of some columns, read row by row."""
    cells = np.zeros(len(codes), dtype=np.int64)
    for column in columns:
        cells *= sizes[column]
        cells += codes[:, column]
    return cells


def measured(codes: Codes, columns: Sequence[int], sizes: Sequence[int], sd: float, noise: CountNoise) -> NoisyTable:
    """Count the records (n, d) by the levels of some columns, with noise: one record changes one cell by 1."""
    shape = [sizes[column] for column in columns]
    counts = np.bincount(places(codes, columns, sizes), minlength=math.prod(shape)).astype(np.float64)
    noisy = noise.released(columns, counts + noise.normal(len(counts), sd), sd)
    return NoisyTable(tuple(columns), noisy.reshape(shape), sd)


def consistent(tables: Sequence[NoisyTable]) -> tuple[list[NoisyTable], dict[int, FloatArray]]:
    """Make tables agree on the number of records and on each column's counts, weighting each by its precision.

    The least-squares fit to the counts of one column in several tables; a cell's change is shared out evenly over the
    cells of a level.

    Returns
    -------
    tables, and the counts of each column by its position

    Examples
    --------
    >>> one, two = NoisyTable((0,), np.array([30.0, 70.0]), 1.0), NoisyTable((0, 1), np.full((2, 2), 25.0), 1.0)
    >>> tables, margins = consistent([one, two])
    >>> margins[0].round(2).tolist(), tables[1].margin(0).round(2).tolist()
    ([36.67, 63.33], [36.67, 63.33])
    """
    precision = [1 / (_variance(table) * _cells(table)) for table in tables]
    total = float(np.average([table.counts.sum() for table in tables], weights=precision))
    level = [_with_total(table, total) for table in tables]
    margins = {}
    for column in sorted({column for table in tables for column in table.columns}):
        own = [table for table in level if column in table.columns]
        sums = np.array([table.margin(column) for table in own])
        # of a level of a table without merged cells the noise is the same for each level of this column
        noise = [_variance(t) * (t.counts.size if t.merged is None else t.counts.size * t.merged) for t in own]
        weights = 1 / np.array([np.broadcast_to(part, sums.shape[1:]) for part in noise])
        margins[column] = np.average(sums, axis=0, weights=weights)
        if any(table.merged is not None for table in own):  # weights that differ by level lose the common total
            uncertain = 1 / weights.sum(axis=0)
            margins[column] += (total - margins[column].sum()) * uncertain / uncertain.sum()
    return [_with_margins(table, margins) for table in level], margins


def _cells(table: NoisyTable) -> float:
    return table.counts.size if table.merged is None else float(table.merged.sum())


def _with_total(table: NoisyTable, total: float) -> NoisyTable:
    """Share a change of the total out over the counts, by the variance of each."""
    share = 1.0 if table.merged is None else table.merged
    return replace(table, counts=table.counts + (total - table.counts.sum()) / _cells(table) * share)


def _with_margins(table: NoisyTable, margins: Mapping[int, FloatArray]) -> NoisyTable:
    counts = table.counts
    for axis, column in enumerate(table.columns):
        shape = [1] * counts.ndim
        shape[axis] = -1
        others = tuple(other for other in range(counts.ndim) if other != axis)
        off = (margins[column] - counts.sum(axis=others)) / (counts.size / counts.shape[axis])
        counts = counts + off.reshape(shape)
    return replace(table, counts=counts)


def _variance(table: NoisyTable) -> float:
    return max(table.sd, 1e-6) ** 2


# -- laws -------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Law:
    """The law of a column given its parents: the logits of its levels, summed over sets of parents.

    Attributes
    ----------
    column : its position
    sets : of parents' positions; one empty set for a column without parents
    logits : for each set (cells of the set, levels of the column)
    """

    column: int
    sets: tuple[tuple[int, ...], ...]
    logits: tuple[FloatArray, ...]

    def shares(self, cells: Sequence[IntArray]) -> FloatArray:
        """Return the shares (n, levels) of levels, given the cell (n,) of each set of parents."""
        total = sum(logits[at] for logits, at in zip(self.logits, cells, strict=True))
        shares = np.exp(total - np.max(total, axis=1, keepdims=True))
        return np.asarray(shares / shares.sum(axis=1, keepdims=True))

    def cells(self, codes: Codes, sizes: Sequence[int]) -> list[IntArray]:
        """Return the cell (n,) of each set of parents, for each record (n, d)."""
        return [places(codes, own, sizes) for own in self.sets]

    def without_last(self) -> Law:
        """Return the law given that the last level does not occur."""
        first = self.logits[0].copy()
        first[:, -1] = -np.inf
        return replace(self, logits=(first, *self.logits[1:]))

    def check(self, sizes: Sequence[int]) -> None:
        """Refuse logits that do not fit the levels of columns, or are not numbers."""
        for own, logits in zip(self.sets, self.logits, strict=True):
            shape = (math.prod(sizes[i] for i in own), sizes[self.column])
            if logits.shape != shape or np.isnan(logits).any() or np.isposinf(logits).any():
                received = f"{logits.shape} for column {self.column}"
                raise InputError("path", f"logits of shape {shape}", received, "write it with Generator.save")

    def draw(self, codes: Codes, sizes: Sequence[int], rng: np.random.Generator) -> Codes:
        """Draw a level (n,) for each record (n, d) whose parents are there.

        Among records alike in parents the levels are spread as evenly as whole records can be (systematic sampling), so
        that drawing adds little noise of its own; each single record has the law's shares.
        """
        rows = self.cells(codes, sizes)
        cells, row = _distinct(rows) if len(rows) > 1 else ([np.arange(len(self.logits[0]))], rows[0])
        upto = np.cumsum(self.shares(cells), axis=1)
        quantile = _spread(row, len(upto), rng)
        levels = np.zeros(len(codes), dtype=np.int32)
        for level in range(upto.shape[1] - 1):
            levels += quantile >= upto[row, level]
        return levels


def law_of(tables: Sequence[NoisyTable], margin: FloatArray, reference: Codes, sizes: Sequence[int]) -> Law:
    """Return the law of a column from its tables.

    Parameters
    ----------
    tables : those that end with the column, consistent; one without parents adds nothing to the margin
    margin : counts of the column
    reference : (m, d) synthetic records whose parents are there, which show how sets of parents occur together
    """
    with_parents = [table for table in tables if table.parents]
    column = tables[0].column
    alone = nearest_shares(margin)
    if not with_parents:
        return Law(column, ((),), (np.log(alone)[None],))
    shares = [_conditional(table, alone) for table in with_parents]
    sets = tuple(table.parents for table in with_parents)
    if len(with_parents) == 1:
        return Law(column, sets, (np.log(shares[0]),))
    cells, row = _distinct([places(reference, own, sizes) for own in sets])
    weights = np.bincount(row, minlength=len(cells[0])) / len(reference) * max(margin.sum(), 1.0)
    return Law(column, sets, _combined(shares, cells, weights, np.log(alone)))


def nearest_shares(counts: FloatArray) -> FloatArray:
    """Return the shares (levels,) next to noisy counts (levels,): none below 0, a least-squares fit, none quite 0."""
    total = max(float(counts.sum()), 1.0)
    falling = np.sort(counts)[::-1]
    excess = (np.cumsum(falling) - total) / np.arange(1, len(counts) + 1)
    off = excess[np.flatnonzero(falling > excess)[-1]]
    nearest = np.maximum(counts - off, _LEAST_SHARE * total)
    return np.asarray(nearest / nearest.sum())


def _conditional(table: NoisyTable, alone: FloatArray) -> FloatArray:
    """Return the shares (cells, levels) of the column by the cells of its parents, each row shrunk.

    Rows are pulled towards the law with the last parent left out, that one towards the law with one parent less again,
    and the last of them towards the column's own shares.
    """
    counts = table.counts
    if counts.ndim == 1:
        return alone[None]
    fewer = replace(table, counts=counts.sum(axis=-2), sd=table.sd * math.sqrt(counts.shape[-2]))
    prior = np.repeat(_conditional(fewer, alone), counts.shape[-2], axis=0)
    return _shrunk(counts.reshape(-1, counts.shape[-1]), prior, table.sd)


def _shrunk(counts: FloatArray, prior: FloatArray, sd: float) -> FloatArray:
    positive, weight = np.maximum(counts, 0.0), max(_SHRINKAGE * sd, _LEAST_PRIOR)
    return np.asarray((positive + weight * prior) / (positive.sum(axis=1, keepdims=True) + weight))


def _combined(
    shares: Sequence[FloatArray], cells: Sequence[IntArray], weights: FloatArray, alone: FloatArray
) -> tuple[FloatArray, ...]:
    """Return logits for each set of parents, whose sum comes nearest to the shares of each set.

    The law of greatest entropy given the parents, by ridge-penalised likelihood: multinomial regression on the cells of
    each set, whose sufficient statistics are the tables.

    Parameters
    ----------
    shares : for each set (its cells, levels)
    cells : for each set (k,) its cell in each of k ways that parents occur
    weights : (k,) records of each way
    alone : (levels,) logits of the column by itself
    """
    from scipy import optimize, sparse  # noqa: PLC0415 - loads when laws are combined

    k, levels = len(weights), len(alone)
    ends = np.cumsum([0, *(len(own) for own in shares)])
    at = np.concatenate([own + start for own, start in zip(cells, ends[:-1], strict=True)])
    which = np.tile(np.arange(k), len(shares))
    design = sparse.csr_array((np.ones(len(at)), (which, at)), shape=(k, int(ends[-1])))
    records = np.asarray(design.T @ weights)
    wanted = np.concatenate(shares) * records[:, None]

    def loss(flat: FloatArray) -> tuple[float, FloatArray]:
        theta = flat.reshape(-1, levels)
        total = alone + design @ theta
        highest = total.max(axis=1, keepdims=True)
        raised = np.exp(total - highest)
        norm = raised.sum(axis=1, keepdims=True)
        value = weights @ (np.log(norm) + highest)[:, 0] - (wanted * theta).sum() + _RIDGE / 2 * (theta**2).sum()
        return float(value), (design.T @ (weights[:, None] * raised / norm) - wanted + _RIDGE * theta).ravel()

    start = np.zeros(int(ends[-1]) * levels)
    minimum = optimize.minimize(loss, start, jac=True, method="L-BFGS-B", options={"maxiter": _MOST_STEPS}).x
    theta = minimum.reshape(-1, levels)
    parts = [theta[low:high] for low, high in itertools.pairwise(ends)]
    return (parts[0] + alone, *parts[1:])


def _distinct(cells: Sequence[IntArray]) -> tuple[list[IntArray], IntArray]:
    """Return the ways (k,) in which cells of several sets occur together, and which one (n,) each record has."""
    ways, row = np.unique(cells[0], return_inverse=True)
    by_set = [ways]
    for own in cells[1:]:
        known, each = np.unique(own, return_inverse=True)
        ways, row = np.unique(row.astype(np.int64) * len(known) + each, return_inverse=True)
        by_set = [*(part[ways // len(known)] for part in by_set), known[ways % len(known)]]
    return by_set, row


def _spread(row: IntArray, rows: int, rng: np.random.Generator) -> FloatArray:
    """Return a quantile (n,) for each record: evenly spread over [0, 1) among those of one row, in random order."""
    n = len(row)
    shuffled = rng.permutation(n)
    small = row.astype(np.min_scalar_type(rows))[shuffled]  # 16 bits are sorted by radix
    order = shuffled[np.argsort(small, kind="stable")]
    many = np.bincount(row, minlength=rows)
    start = np.cumsum(many) - many
    rank = np.arange(n) - np.repeat(start, many)
    quantiles = np.empty(n)
    quantiles[order] = (rank + np.repeat(rng.random(rows), many)) / np.repeat(many, many)
    return quantiles

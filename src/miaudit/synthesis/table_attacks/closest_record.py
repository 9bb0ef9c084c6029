"""Distance to the closest record of a synthetic table: mixed types, in blocks, without an n x m matrix.

The distance is Gower's (1971): the mean over the columns of a difference between 0 and 1. Categories differ by 1,
ordinal codes by their distance over that of the two ends, and numbers by their difference over a width that comes from
the **control** records; a width taken from the members would make members look near.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from miaudit.arrays import BoolArray, FloatArray, IntArray
from miaudit.errors import InputError
from miaudit.synthesis.schema import Schema, Table
from miaudit.synthesis.table_attacks.step_sums import Codes, StepSums, Sums

_JITTER = 1e-6  # breaks ties at random; differences below it are ties
_TAILS = (0.05, 0.95)
_FEW_LEVELS = 127
_SLACK = 2e-6  # more than the jitter and rounding can be off by
_MANY = 0.1  # share of the pairs that are candidates, above which a pass for each group is quicker than one for all
_PARTS = 64  # of a table, of which the nearest rows are looked at first


@dataclass(frozen=True, eq=False)
class Metric:
    """Gower's distance between rows of tables with one schema; 0 for equal rows, at most 1.

    Attributes
    ----------
    schema : of every table that it compares
    nominal : array (d,) of bool, columns that only match or do not
    width : array (d,), positive; the difference of two numbers that counts as 1, and any larger one too

    Notes
    -----
    Two missing values are equal, and a missing value differs by 1 from any other: whether a value is missing is
    something that a table can give away.
    """

    schema: Schema
    nominal: BoolArray
    width: FloatArray

    @classmethod
    def of(cls, control: Table) -> Metric:
        """Take widths of numeric columns from control records: between the 5% and 95% quantiles.

        Where those coincide it is the whole range, and 1 where that is 0 too. An ordinal column has the number of its
        steps, which is public.

        Parameters
        ----------
        control : Table of records that the synthetic table was not made from

        Raises
        ------
        InputError
            For a control table without rows.
        """
        if not len(control):
            raise InputError("control", "at least one control record", "none", "give records that were held out")
        columns = control.schema.columns
        nominal = np.array([column.kind in ("binary", "categorical") for column in columns])
        width = np.ones(len(columns))
        for j, column in enumerate(columns):
            if column.kind == "ordinal":
                width[j] = max(len(column.categories) - 1, 1)
            elif column.kind == "continuous":
                width[j] = _width(control.values[:, j])
        return cls(control.schema, nominal, width)

    def between(self, left: FloatArray, right: FloatArray, columns: Sequence[int] | None = None) -> FloatArray:
        """Return the distance (n,) of rows of two arrays (n, d), over some columns or all."""
        chosen = np.arange(len(self.width)) if columns is None else np.asarray(columns)
        a, b = left[:, chosen], right[:, chosen]
        apart = np.where(self.nominal[chosen], a != b, np.fmin(np.abs(a - b) / self.width[chosen], 1.0))
        return np.asarray(np.where(np.isnan(a) & np.isnan(b), 0.0, apart).mean(axis=1))


def _width(values: FloatArray) -> float:
    known = values[~np.isnan(values)]
    if not len(known):
        return 1.0
    low, high = np.quantile(known, _TAILS)
    span = float(high - low) or float(known.max() - known.min())
    return span or 1.0


@dataclass(frozen=True, eq=False)
class Neighbours:
    """The k nearest rows of a table for each query, nearest first.

    Attributes
    ----------
    index : array (n, k) of int, rows of the table
    distance : array (n, k), 0 to 1, not decreasing along a row
    """

    index: IntArray
    distance: FloatArray


def nearest(metric: Metric, queries: Table, table: Table, *, k: int = 1, rng: np.random.Generator) -> Neighbours:
    """Find the nearest rows of a table for each query, over all columns.

    Examples
    --------
    >>> from miaudit.synthesis.schema import Column
    >>> schema = Schema((Column("age", "continuous", low=0, high=99), Column("cook")))
    >>> control = Table(schema, [[20, 0], [40, 1], [60, 1]])
    >>> synthetic = Table(schema, [[30, 0], [60, 1]])
    >>> neighbours = nearest(Metric.of(control), control, synthetic, rng=np.random.default_rng(0))
    >>> neighbours.index[:, 0].tolist(), neighbours.distance[:, 0].round(2).tolist()
    ([0, 1, 1], [0.14, 0.28, 0.0])
    """
    everything = tuple(range(len(metric.width)))
    return nearest_in_groups(metric, queries, table, (everything,), k=k, rng=rng)[0]


def nearest_in_groups(
    metric: Metric,
    queries: Table,
    table: Table,
    groups: Sequence[Sequence[int]],
    *,
    k: int = 1,
    rng: np.random.Generator,
) -> tuple[Neighbours, ...]:
    """Find the nearest rows of a table by each of several groups of columns, in one pass.

    Parameters
    ----------
    metric : Metric
    queries : Table (n rows)
    table : Table (m rows), for example a synthetic one
    groups : sequences of column positions; the distance of a group is the mean over its columns
    k : neighbours wanted, 1 to m
    rng : breaks ties at random, for each group on its own and for all queries alike

    Returns
    -------
    tuple of Neighbours, one for each group

    Raises
    ------
    InputError
        For tables of another schema than the metric's, a k out of range, or an empty group.

    Notes
    -----
    O(n m d) operations on bytes: sums in whole steps bound the distances from below (:class:`StepSums`), and only the
    pairs of rows that can be near are computed, in float64. Equal rows, by the columns of a group, are compared once.
    Where each group lacks at most one column, as those of inference, one pass serves them all: without one column a sum
    is smaller by at most 1, so only rows whose sum is within 1 of the smallest can be nearest. About 3 ns for each pair
    of rows with 15 columns, and O(n k + m + 10 MB) memory.
    """
    _check(metric, queries, table, groups, k)
    jitter = [rng.random(len(table)) * _JITTER for _ in groups]
    used = tuple(sorted({int(j) for group in groups for j in group}))
    nearest_rows = None
    if len(groups) > 1 and all(len(set(used).difference(group)) <= 1 for group in groups):
        nearest_rows = _Search.of(metric, queries, table, used, groups, jitter, k).rows()
    if nearest_rows is None:
        alone = zip(groups, jitter, strict=True)
        nearest_rows = [_nearest_by(metric, queries, table, group, own, k) for group, own in alone]
    return tuple(_exact(metric, queries, table, rows, group) for rows, group in zip(nearest_rows, groups, strict=True))


def _nearest_by(
    metric: Metric, queries: Table, table: Table, group: Sequence[int], jitter: FloatArray, k: int
) -> IntArray:
    """Return the nearest rows (n, k) by one group of columns."""
    columns = tuple(sorted({int(j) for j in group}))
    nearest_rows = _Search.of(metric, queries, table, columns, (group,), (jitter,), k).rows()
    assert nearest_rows is not None  # noqa: S101 - a group that lacks no column is always searched
    return nearest_rows[0]


def _check(metric: Metric, queries: Table, table: Table, groups: Sequence[Sequence[int]], k: int) -> None:
    for name, one in (("queries", queries), ("table", table)):
        if one.schema != metric.schema:
            raise InputError(name, "a table with the schema of the metric", "another schema", "use one for all tables")
    if not 1 <= k <= len(table):
        raise InputError("k", f"1 to {len(table):,}, the rows of the table", str(k), "ask for fewer neighbours")
    for group in groups:
        if not group or not set(group) <= set(range(len(metric.width))):
            raise InputError(
                "groups", "positions of one or more columns", repr(tuple(group)), "name columns that exist"
            )


@dataclass(frozen=True, eq=False)
class _Distinct:
    """The distinct rows of a table by some columns, in the order in which they appear.

    Attributes
    ----------
    columns : array (c, u) for each column, codes of categories or numbers in widths
    place : array (n,) of int, the distinct row that each row of the table is equal to
    """

    columns: dict[int, FloatArray | Codes]
    place: IntArray

    @classmethod
    def of(cls, metric: Metric, values: FloatArray, columns: Sequence[int]) -> _Distinct:
        chosen = np.ascontiguousarray(values[:, list(columns)] + 0.0)  # one zero
        whole = chosen.view(np.dtype((np.void, chosen.dtype.itemsize * chosen.shape[1]))).ravel()
        first, place = np.unique(whole, return_index=True, return_inverse=True)[1:]
        order = np.argsort(first)
        rank = np.empty(len(order), dtype=np.int64)
        rank[order] = np.arange(len(order))
        rows = values[first[order]]
        return cls({j: _scaled(metric, j, rows[:, j]) for j in columns}, rank[place])

    def __len__(self) -> int:
        return len(next(iter(self.columns.values())))


def _scaled(metric: Metric, j: int, column: FloatArray) -> FloatArray | Codes:
    if not metric.nominal[j]:
        return np.asarray(column / metric.width[j])
    codes = np.where(np.isnan(column), -1, column)
    return codes.astype(np.int8) if len(metric.schema.columns[j].categories) <= _FEW_LEVELS else codes.astype(np.int16)


@dataclass(frozen=True, eq=False)
class _Copies:
    """For each distinct row of a table the rows that are equal to it, those with the smallest jitter, at most k.

    They are ``order[start : start + count]`` of each distinct row; ``single`` says that each has one.
    """

    order: IntArray
    start: IntArray
    count: IntArray
    single: bool

    @classmethod
    def of(cls, place: IntArray, jitter: FloatArray, k: int) -> _Copies:
        equal = np.bincount(place)
        count = np.minimum(equal, k)
        return cls(np.lexsort((jitter, place)), np.cumsum(equal) - equal, count, bool(count.max() == 1))

    def rows(self, distinct: IntArray) -> tuple[IntArray | slice, IntArray]:
        """Return for each copy of some distinct rows (c,) which of the c it belongs to, and its row in the table."""
        if self.single:
            return slice(None), self.order[self.start[distinct]]
        count = self.count[distinct]
        of = np.repeat(np.arange(len(distinct)), count)
        rank = np.arange(len(of)) - np.repeat(np.cumsum(count) - count, count)
        return of, self.order[self.start[distinct][of] + rank]


@dataclass(frozen=True, eq=False)
class _Candidates:
    """Pairs of distinct rows that can be near: ``query`` (c,), ascending, in its block, and ``row`` (c,) of the table.

    ``total`` (c,) are the sums over all columns, ``without`` those that lack a column, by column.
    """

    query: IntArray
    row: IntArray
    total: FloatArray
    without: dict[int, FloatArray]


@dataclass(frozen=True, eq=False)
class _Search:
    """A search for the rows nearest to queries by groups that each lack at most one of ``columns``.

    ``lacking`` is the column that each group lacks, or None; ``jitter`` (m,) of each group breaks its ties.
    """

    metric: Metric
    queries: _Distinct
    table: _Distinct
    lacking: tuple[int | None, ...]
    jitter: Sequence[FloatArray]
    k: int

    @classmethod
    def of(
        cls,
        metric: Metric,
        queries: Table,
        table: Table,
        columns: tuple[int, ...],
        groups: Sequence[Sequence[int]],
        jitter: Sequence[FloatArray],
        k: int,
    ) -> _Search:
        lacking = tuple(next(iter(set(columns).difference(group)), None) for group in groups)
        left, right = (_Distinct.of(metric, one.values, columns) for one in (queries, table))
        return cls(metric, left, right, lacking, jitter, k)

    def rows(self) -> list[IntArray] | None:
        """Return the nearest rows (n, k) by each group; None if one pass for all groups would be slow.

        It is slow where many rows are within 1 of the nearest, as in tables of few columns.
        """
        sums = self._sums()
        copies = [_Copies.of(self.table.place, own, self.k) for own in self.jitter]
        best = [np.empty((len(self.queries), self.k), dtype=np.int64) for _ in self.jitter]
        alone = self.lacking == (None,)
        for down, steps in sums.blocks():
            near = self._candidates(down, steps, sums)
            if not alone and not down.start and len(near.row) > _MANY * steps.size:
                return None
            for rows, j, own, jitter in zip(best, self.lacking, copies, self.jitter, strict=True):
                rows[down] = self._best(near, near.total if j is None else near.without[j], own, jitter)
        return [rows[self.queries.place] for rows in best]

    def _sums(self) -> StepSums:
        """Return sums in steps of all pairs of distinct rows."""
        nominal = [j for j in self.table.columns if self.metric.nominal[j]]
        numeric = [j for j in self.table.columns if not self.metric.nominal[j]]
        sides = (self.queries, self.table)
        codes = [_stacked([one.columns[j] for j in nominal], len(one)).astype(np.int16) for one in sides]
        few = max((int(code.max(initial=0)) for code in codes), default=0) <= _FEW_LEVELS
        codes = [code.astype(np.int8) if few else code for code in codes]
        numbers = [_stacked([one.columns[j] for j in numeric], len(one)) for one in sides]
        return StepSums.of((codes[0], codes[1]), (numbers[0], numbers[1]))

    def _candidates(self, down: slice, steps: Sums, sums: StepSums) -> _Candidates:
        """Return the pairs of a block that can be among the k nearest by some group."""
        room = _SLACK + (0 if self.lacking == (None,) else 1)
        reach = self._reach(down, steps)
        limit = np.minimum((reach + room) * sums.full + sums.excess, np.iinfo(steps.dtype).max)
        query, row = np.divmod(np.flatnonzero(steps <= limit.astype(steps.dtype)[:, None]), steps.shape[1])
        total = np.zeros(len(row))
        without: dict[int, FloatArray] = {}
        for j in self.table.columns:
            apart = self._apart(j, down.start + query, row)
            total += apart
            if j in self.lacking:
                without[j] = apart
        if self.k == 1:
            reach = np.minimum.reduceat(total, np.searchsorted(query, np.arange(len(steps))))
        near = np.flatnonzero(total <= (reach + room)[query])
        query, row, total = query[near], row[near], total[near]
        return _Candidates(query, row, total, {j: total - apart[near] for j, apart in without.items()})

    def _reach(self, down: slice, steps: Sums) -> FloatArray:
        """Return a distance (b,) within which each query of a block has k rows, times the number of columns."""
        b, m = steps.shape
        parts = max(_PARTS, 4 * self.k)
        if self.k == 1:
            rows = steps.argmin(axis=1)[:, None]
        elif parts > m:
            return np.full(b, np.inf)
        else:
            split = steps[:, : m // parts * parts].reshape(b, parts, m // parts)
            part = np.argpartition(split.min(axis=2), self.k - 1, axis=1)[:, : self.k]
            least = [split[np.arange(b), one].argmin(axis=1) for one in part.T]
            rows = part * split.shape[2] + np.stack(least, axis=1)
        query = np.repeat(np.arange(down.start, down.stop), self.k)
        sums = np.zeros(len(query))
        for j in self.table.columns:
            sums += self._apart(j, query, rows.ravel())
        return np.asarray(sums.reshape(b, self.k).max(axis=1))

    def _apart(self, j: int, query: IntArray, row: IntArray) -> FloatArray:
        """Return the differences (c,) of pairs of distinct rows in one column."""
        left, right = self.queries.columns[j][query], self.table.columns[j][row]
        if self.metric.nominal[j]:
            return np.asarray(left != right, dtype=np.float64)
        apart = np.fmin(np.abs(left - right), 1.0)  # takes 1 where one of the two is missing
        apart[np.isnan(left) & np.isnan(right)] = 0
        return np.asarray(apart)

    def _best(self, near: _Candidates, sums: FloatArray, copies: _Copies, jitter: FloatArray) -> IntArray:
        """Return the k rows (b, k) with the smallest of the sums (c,) for each query of a block, nearest first."""
        of, row = copies.rows(near.row)
        query, value = near.query[of], sums[of] + jitter[row]
        first = np.searchsorted(query, np.arange(query[-1] + 1))
        if self.k == 1:
            least = np.minimum.reduceat(value, first)
            nearest = np.flatnonzero(value == least[query])
            rows = np.empty((len(first), 1), dtype=np.int64)
            rows[query[nearest], 0] = row[nearest]
            return rows
        order = np.lexsort((value, query))
        return np.asarray(row[order[first[:, None] + np.arange(self.k)]])


def _stacked(columns: Sequence[FloatArray | Codes], n: int) -> FloatArray:
    """Return columns (k, n), also where there are none."""
    return np.array(columns, dtype=np.float64).reshape(len(columns), n)


def _exact(metric: Metric, queries: Table, table: Table, rows: IntArray, group: Sequence[int]) -> Neighbours:
    """Return the distances of the nearest rows (n, k), as a mean over the columns, and both in order."""
    columns = tuple(group)
    distance = np.stack(
        [metric.between(queries.values, table.values[rows[:, i]], columns) for i in range(rows.shape[1])], axis=1
    )
    order = np.argsort(distance, axis=1, kind="stable")
    return Neighbours(np.take_along_axis(rows, order, axis=1), np.take_along_axis(distance, order, axis=1))

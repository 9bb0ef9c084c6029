"""Adoption and closeness: how much of a synthetic table only one real record explains, and how near the table comes.

Both compare a record with the pool of attacked members and control records, which needs no control record of its own
for reference. They follow from the synthetic table and the pool alone and never from who is a member, so tests that
permute labels are exact, and the bounds of one-run audits hold. Their sum of ranks was fixed before the audit.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from miaudit.arrays import Float32Array, FloatArray, IntArray
from miaudit.synthesis.schema import Table
from miaudit.synthesis.table_attacks.step_sums import Codes, StepSums, Sums

__all__ = ["ADOPTION_AND_CLOSENESS", "PoolScores"]

ADOPTION_AND_CLOSENESS = "adoption_and_closeness"  # the name of the score
_SPREAD, _MOST = 3.0, 2.0  # standard deviations that count as 1, and the most that a number counts
_OUTERMOST = (0.001, 0.999)  # quantiles, beyond which a number counts no more for the standard deviation
_SAMPLE = 500  # records that the width is taken from
_NARROW = 0.35  # of the width: the kernel's standard deviation
_REACH = 5.0  # squared widths, beyond which the kernel is 0
_NEAR, _SURE = 1 - 1e-2, 1 - 1e-9  # the largest share of a synthetic record that a near or an equal one explains
_FLOOR = 1e-6  # of squared distances under a logarithm
_MANY = 0.05  # share of the pairs that are candidates, above which all of them are computed at once
_FIRST = 16  # synthetic records that each record is compared with at first
_FEW_LEVELS = 127


@dataclass(frozen=True, eq=False)
class PoolScores:
    """Two label-free scores of each record of a pool, higher for members.

    Attributes
    ----------
    adoption : array (n,), 0 or more: minus the sum over the synthetic records s of log(1 - K(x, s) / A(s)), where K is
        a Gaussian kernel and A(s) its sum over the pool. High where x alone lies near synthetic records. Where s equals
        records of the pool (at a squared distance of at most 1e-6), these alone explain it: K is 1 for them, else 0.
        K/A is at most .99, of equal records 1 - 1e-9: one copy outweighs several synthetic records that are only near
    closeness : array (n,), half the logarithm of the squared distance to the nearest other real record over that to the
        nearest synthetic record. Above 0 where the table comes closer to x than any other person does

    Notes
    -----
    The squared distance is a sum over the columns: of categories 1 where they differ, of numbers the square of their
    difference in units of three standard deviations of the pool, each at most two units from the mean. Numbers in the
    outermost thousandth count for the standard deviation as the quantile does. A missing number is at the mean and
    differs by 1 from others. The kernel's standard deviation is .35 of the median distance to
    the nearest synthetic record. O(n m d) operations on bytes: categories that differ
    are counted for all pairs, numbers are compared where the count alone is not too far. About 2 ns for a pair of rows
    with 14 columns; more in tables of numbers alone, in blocks of 16 MB.
    """

    adoption: FloatArray
    closeness: FloatArray

    @classmethod
    def of(cls, synthetic: Table, pool: Table, unit: IntArray | None = None, *, rng: np.random.Generator) -> PoolScores:
        """Score every record of a pool.

        Parameters
        ----------
        synthetic : Table (m rows)
        pool : Table (n rows) of members and control records, in any order
        unit : array (n,) of the records' units; records of the same unit are not "other" records
        rng : draws the records that the width is taken from

        Examples
        --------
        >>> from miaudit.synthesis.schema import Column, Schema
        >>> rng = np.random.default_rng(0)
        >>> schema = Schema(tuple(Column(name, "continuous", low=-9, high=9) for name in "abcdef"))
        >>> pool = Table(schema, rng.normal(size=(200, 6)))
        >>> synthetic = Table(schema, np.r_[rng.normal(size=(200, 6)), pool.values[:1]])  # the first is copied
        >>> scores = PoolScores.of(synthetic, pool, rng=rng)
        >>> int(scores.closeness.argmax()), bool(scores.together[0] > np.quantile(scores.together, 0.98))
        (0, True)
        """
        space = _Space.of(synthetic, pool)
        ours, theirs = space.rows(synthetic), space.rows(pool)
        sample = theirs.take(np.sort(rng.permutation(len(pool))[:_SAMPLE]))
        width = _width(_nearest(ours, sample))
        adoption, nearest = _adopted(ours, theirs, width)
        others = _nearest(theirs, theirs, np.arange(len(pool)) if unit is None else unit)
        closeness = (np.log(_FLOOR + others) - np.log(_FLOOR + nearest)) / 2
        return cls(adoption, closeness)

    @property
    def together(self) -> FloatArray:
        """The fixed score (n,): -log(1 - rank / (n + 1)) of adoption plus that of closeness."""
        return _surprise(self.adoption) + _surprise(self.closeness)


def _surprise(scores: FloatArray) -> FloatArray:
    from scipy.stats import rankdata  # noqa: PLC0415 (heavy, and only needed here)

    return np.asarray(-np.log1p(-rankdata(scores) / (len(scores) + 1)))


def _width(nearest: FloatArray) -> float:
    """Return the squared width: the median of squared distances (k,), or what is left where most of them are 0."""
    return float(np.median(nearest)) or float(nearest.mean()) or _FLOOR


# -- squared distances ------------------------------------------------------------------------------------------------


class _Rows(NamedTuple):
    """Rows of a table: scaled numbers with their indicators (n, k) and codes of categories (c, n)."""

    numbers: Float32Array
    codes: Codes

    def take(self, rows: IntArray) -> _Rows:
        return _Rows(self.numbers[rows], self.codes[:, rows])


@dataclass(frozen=True, eq=False)
class _Space:
    """How rows become numbers and codes: mean and three standard deviations of the pool, by column."""

    nominal: list[int]
    numeric: list[int]
    mean: FloatArray
    spread: FloatArray
    gaps: list[int]  # numeric columns with missing values
    code: type[np.int8 | np.int16]

    @classmethod
    def of(cls, synthetic: Table, pool: Table) -> _Space:
        columns = pool.schema.columns
        nominal = [j for j, column in enumerate(columns) if column.kind in ("binary", "categorical")]
        numeric = [j for j in range(len(columns)) if j not in nominal]
        known = [_usual(pool.values[~np.isnan(pool.values[:, j]), j]) for j in numeric]
        mean = np.array([one.mean() if len(one) else 0.0 for one in known])
        spread = np.array([_SPREAD * float(one.std()) if len(one) else 0.0 for one in known])
        gaps = [j for j in numeric if np.isnan(pool.values[:, j]).any() or np.isnan(synthetic.values[:, j]).any()]
        few = max((columns[j].levels for j in nominal), default=0) <= _FEW_LEVELS
        return cls(nominal, numeric, mean, np.where(spread > 0, spread, 1.0), gaps, np.int8 if few else np.int16)

    def rows(self, table: Table) -> _Rows:
        numbers = np.clip((table.values[:, self.numeric] - self.mean) / self.spread, -_MOST, _MOST)
        missing = np.isnan(table.values[:, self.gaps])
        codes = np.nan_to_num(table.values[:, self.nominal], nan=-1.0).astype(self.code)
        together = np.column_stack([np.nan_to_num(numbers), missing]).astype(np.float32)
        return _Rows(together, np.ascontiguousarray(codes.T))


def _usual(known: FloatArray) -> FloatArray:
    """Return numbers (n,) clipped to all but the outermost thousandth on each side: one typing error is no scale."""
    return np.clip(known, *np.quantile(known, _OUTERMOST)) if len(known) else known


@dataclass(frozen=True, eq=False)
class _Pairs:
    """Squared distances between rows of one table and rows of another.

    Categories that differ are counted first, in bytes. Numbers are looked at where the count alone is not too far.
    """

    left: _Rows
    right: _Rows
    numbers: tuple[Float32Array, Float32Array]  # (k, m) and (k, n), by column
    down: Float32Array  # (m, k + 2) and (k + 2, n): their product is the squared distance of the numbers
    across: Float32Array

    @classmethod
    def of(cls, left: _Rows, right: _Rows) -> _Pairs:
        sums = [np.einsum("ij,ij->i", one.numbers, one.numbers)[:, None] for one in (left, right)]
        ones = [np.ones_like(each) for each in sums]
        down = np.hstack([-2 * left.numbers, sums[0], ones[0]])
        across = np.hstack([right.numbers, ones[1], sums[1]]).T
        numbers = np.ascontiguousarray(left.numbers.T), np.ascontiguousarray(right.numbers.T)
        return cls(left, right, numbers, down, np.ascontiguousarray(across))

    def counts(self) -> Iterator[tuple[slice, Sums]]:
        """Yield rows of the left table and the numbers of categories (b, n) in which they differ from the right one."""
        nothing = np.empty((0, len(self.left.numbers))), np.empty((0, len(self.right.numbers)))
        return StepSums.of((self.left.codes, self.right.codes), nothing).blocks()

    def all(self, rows: slice, count: Sums) -> Float32Array:
        """Return the squared distances (b, n) of some left rows, of which categories that differ are counted."""
        apart = self.down[rows] @ self.across
        np.maximum(apart, 0, out=apart)
        np.add(apart, count, out=apart)
        return apart

    def some(self, left: IntArray, right: IntArray, count: Sums) -> Float32Array:
        """Return the squared distances (c,) of pairs of rows, of which categories that differ are counted."""
        squared = count.astype(np.float32)
        for ours, theirs in zip(*self.numbers, strict=True):
            apart = ours[left] - theirs[right]
            apart *= apart
            squared += apart
        return squared

    def within(self, rows: slice, count: Sums, limit: Float32Array) -> tuple[IntArray, IntArray, Float32Array]:
        """Return the pairs (c,) of a block within limits (n,) of the right rows, with their squared distances."""
        flat = np.flatnonzero(count <= _whole(limit, count))
        if len(flat) > _MANY * count.size:
            apart = self.all(rows, count)
            flat = np.flatnonzero(apart <= limit)
            return *np.divmod(flat, apart.shape[1]), apart.ravel()[flat]
        left, right = np.divmod(flat, count.shape[1])
        squared = self.some(rows.start + left, right, count.ravel()[flat])
        near = np.flatnonzero(squared <= limit[right])
        return left[near], right[near], squared[near]

    def exact(self, row: IntArray) -> FloatArray:
        """Return the squared distance (n,) of one left row for each right row, in float64."""
        numbers = self.left.numbers[row].astype(np.float64) - self.right.numbers
        return np.asarray((numbers**2).sum(axis=1) + (self.left.codes[:, row] != self.right.codes).sum(axis=0))


class _Closest:
    """The nearest left row of each right row, over the blocks so far; at first, of the first few rows."""

    def __init__(self, pairs: _Pairs, count: Sums) -> None:
        apart = pairs.all(slice(0, min(_FIRST, len(count))), count[:_FIRST])
        self._pairs = pairs
        self._row = apart.argmin(axis=0)
        self.least: Float32Array = apart.min(axis=0)

    def update(self, left: IntArray, right: IntArray, squared: Float32Array) -> None:
        """Take in pairs of rows (c,) with their squared distances."""
        nearer = np.flatnonzero(squared < self.least[right])
        order = nearer[np.argsort(-squared[nearer], kind="stable")]  # of several, the nearest is put last, and stays
        self.least[right[order]], self._row[right[order]] = squared[order], left[order]

    def squared(self) -> FloatArray:
        """Return the squared distances (n,), computed again in float64."""
        return self._pairs.exact(self._row)


def _whole(limit: FloatArray | Float32Array, count: Sums) -> Sums:
    """Return the most categories that can differ within a limit, below the largest number of the type of a count."""
    return np.asarray(np.minimum(limit, np.iinfo(count.dtype).max - 1).astype(count.dtype))


def _nearest(left: _Rows, right: _Rows, unit: IntArray | None = None) -> FloatArray:
    """Return the squared distance (n,) to the nearest left row; with units (of both alike), of another unit.

    Of a row without any it is the largest one.
    """
    pairs = _Pairs.of(right, left)
    nearest, there = np.empty(len(right.numbers), dtype=np.int64), np.ones(len(right.numbers), dtype=np.bool_)
    same = None if unit is None else _SameUnit.of(unit)
    for rows, count in pairs.counts():
        never = np.iinfo(count.dtype).max
        if same is not None:
            count[same.pairs(rows)] = never
        first = count.argmin(axis=1)
        least = count[np.arange(len(count)), first]
        there[rows] = least < never
        limit = pairs.some(np.arange(rows.start, rows.stop), first, least)
        flat = np.flatnonzero(count <= _whole(limit, count)[:, None])
        if len(flat) > _MANY * count.size:
            apart = pairs.all(rows, count)
            apart[count == never] = np.inf
            first = apart.argmin(axis=1)
        elif len(flat):
            query, row = np.divmod(flat, count.shape[1])
            squared = pairs.some(rows.start + query, row, count.ravel()[flat])
            starts = np.flatnonzero(np.diff(query, prepend=-1))
            least = np.repeat(np.minimum.reduceat(squared, starts), np.diff(starts, append=len(query)))
            hit = np.flatnonzero(squared == least)
            first[query[hit]] = row[hit]
        nearest[rows] = first
    squared = np.where(there, _Pairs.of(left, right).exact(nearest), 0.0)
    return np.where(there, squared, squared.max(initial=0.0))


@dataclass(frozen=True, eq=False)
class _SameUnit:
    """Records by unit: those of a unit are ``order[first : last]`` of each of its records."""

    order: IntArray
    first: IntArray
    last: IntArray

    @classmethod
    def of(cls, unit: IntArray) -> _SameUnit:
        order = np.argsort(unit, kind="stable")
        ends = (np.searchsorted(unit[order], unit, side) for side in ("left", "right"))
        return cls(order, *ends)

    def pairs(self, rows: slice) -> tuple[IntArray, IntArray]:
        """Return all pairs of a record of a block, as its place in there, and a record of the same unit."""
        first = self.first[rows]
        size = self.last[rows] - first
        record = np.repeat(np.arange(len(size)), size)
        return record, self.order[first[record] + np.arange(len(record)) - np.repeat(np.cumsum(size) - size, size)]


def _adopted(left: _Rows, right: _Rows, width: float) -> tuple[FloatArray, FloatArray]:
    """Return the adoption (n,) of real rows by synthetic ones, and the squared distance to the nearest of these."""
    pairs, reach = _Pairs.of(left, right), np.float32(_REACH * width)
    closest, adoption = None, np.zeros(len(right.numbers))
    for rows, count in pairs.counts():
        closest = closest or _Closest(pairs, count)
        synthetic, real, apart = pairs.within(rows, count, np.maximum(closest.least, reach))
        closest.update(rows.start + synthetic, real, apart)
        near = np.flatnonzero(apart <= reach)
        if len(near):
            adoption += _adoption(synthetic[near], real[near], apart[near], width, len(adoption))
    assert closest is not None  # noqa: S101 - a table has rows
    return adoption, closest.squared()


def _adoption(synthetic: IntArray, real: IntArray, apart: Float32Array, width: float, n: int) -> FloatArray:
    """Return what pairs of near rows (c,) add to the adoption (n,) of the real rows."""
    weight = np.exp(-apart.astype(np.float64) / (2 * _NARROW**2 * width))
    equal = apart <= np.float32(_FLOOR)
    copied = np.bincount(synthetic, weights=equal) > 0
    weight = np.where(copied[synthetic], equal, weight)
    total = np.bincount(synthetic, weights=weight)
    share = np.minimum(weight / total[synthetic], np.where(equal, _SURE, _NEAR))
    return np.bincount(real, weights=-np.log1p(-share), minlength=n).astype(np.float64)

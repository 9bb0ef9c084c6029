"""What an attack sees of a synthetic set: moments, frequencies and correlations of its columns (Stadler et al. 2020).

A set of s records becomes one row of numbers. All sets are described at once, discrete columns by their counts alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, TypeVar, get_args

import numpy as np
from numpy.typing import NDArray

from miaudit.arrays import Float32Array, FloatArray, IndexArray, IntArray
from miaudit.errors import InputError, nearest
from miaudit.synthesis.schema import Column, Schema

Extractor = Literal["naive", "histogram", "correlation", "ensemble", "nearness"]

EXTRACTORS: tuple[Extractor, ...] = get_args(Extractor)
PARTS: tuple[Extractor, ...] = ("naive", "histogram", "correlation")  # what an ensemble consists of
MISSING = 255  # the code of a missing value in sets of small whole numbers

_BINS = 10
Name = TypeVar("Name", bound=str)
_BLOCK = 1 << 25  # bytes of work at a time


@dataclass(frozen=True)
class Layout:
    """How the columns of a schema become features.

    Attributes
    ----------
    schema : what the columns are
    fractional : names of binary and ordinal columns in which a release has other numbers than codes (probabilities,
        which no release should have, erratum D5); they are described as continuous ones
    bins : of the histogram of a continuous column, over its declared range; values outside count at its ends
    """

    schema: Schema
    fractional: frozenset[str] = frozenset()
    bins: int = _BINS

    def __post_init__(self) -> None:
        if self.bins < 2:
            raise InputError("bins", "a whole number from 2 up", str(self.bins), "10 is the default")
        for name in self.fractional:
            if self.schema.column(name).kind == "categorical":
                received = f"numbers between codes in {name}, whose categories have no order"
                raise InputError("sets", "codes 0, 1, ... of the categories", received, "release drawn categories")

    def numeric(self, column: Column) -> bool:
        """Whether a column is described by its values, and not by counts of its categories."""
        return column.kind == "continuous" or column.name in self.fractional

    def range(self, column: Column) -> tuple[float, float]:
        """Where the histogram of a numeric column begins and ends."""
        low = 0.0 if column.low is None else column.low
        return low, float(column.levels - 1) if column.high is None else column.high

    @cached_property
    def counted(self) -> tuple[int, ...]:
        """Positions of the columns that are described by counts."""
        return tuple(i for i, column in enumerate(self.schema.columns) if not self.numeric(column))

    @cached_property
    def measured(self) -> tuple[int, ...]:
        """Positions of the columns that are described by values."""
        return tuple(i for i, column in enumerate(self.schema.columns) if self.numeric(column))

    def width(self, extractor: Extractor) -> int:
        """How many features an extractor gives."""
        if extractor == "ensemble":
            return sum(self.width(part) for part in PARTS)
        if extractor == "correlation":
            e = _expanded_width(self.schema.columns)
            return e * (e - 1) // 2
        own = [3 if extractor == "naive" else self.bins if self.numeric(c) else c.levels for c in self.schema.columns]
        return sum(own) + sum(column.missing for column in self.schema.columns)


def extract(sets: NDArray[Any], layout: Layout | Schema, extractor: Extractor) -> Float32Array:
    """Describe synthetic sets.

    Parameters
    ----------
    sets : array (m, s, d)
        m sets of s records: codes of the categories and values of continuous columns, NaN where missing; or uint8,
        255 where missing, if all columns are discrete.
    layout : what the columns are
    extractor : "naive", "histogram", "correlation" or "ensemble"
        naive: mean, median and variance; of a categorical column how many categories occur, the most and the least
        frequent one that does. histogram: the share of every category, in the order declared, or of ten bins.
        correlation: Pearson's, of all pairs of columns, categorical ones as indicators of all but the first category;
        0 where a column is constant; with missing values from the records that have both. ensemble: all of these.
        naive and histogram add the share of missing values where a column declares that there may be some.

    Returns
    -------
    float32 array (m, k)

    Raises
    ------
    InputError
        For an unknown extractor or sets of another shape.

    Examples
    --------
    >>> schema = Schema((Column("a"), Column("b")))
    >>> sets = np.array([[[0, 1], [1, 0], [1, 1], [1, 1]]], dtype=np.uint8)
    >>> extract(sets, schema, "naive").tolist()
    [[0.75, 1.0, 0.1875, 0.75, 1.0, 0.1875]]
    >>> extract(sets, schema, "histogram").tolist()
    [[0.25, 0.75, 0.25, 0.75]]
    >>> round(float(extract(sets, schema, "correlation")[0, 0]), 4)
    -0.3333
    """
    plan = layout if isinstance(layout, Layout) else Layout(layout)
    if check_name("extractor", extractor, EXTRACTORS) == "nearness":
        hint = "use miaudit.synthesis.retraining_attack.closeness.extract with the target's record"
        raise InputError("extractor", "naive, histogram, correlation or ensemble", "nearness", hint)
    if sets.ndim != 3 or sets.shape[2] != len(plan.schema) or sets.shape[1] < 1:
        allowed = f"shape (m, s, {len(plan.schema)}) with at least one record in a set"
        raise InputError("sets", allowed, f"shape {sets.shape}", "one column for each of the schema")
    if extractor == "ensemble":
        return np.concatenate([extract(sets, plan, part) for part in PARTS], axis=1)
    values = np.empty((len(sets), plan.width(extractor)), dtype=np.float32)
    if extractor == "correlation":
        _correlations(sets, plan, values)
    else:
        _describe(sets, plan, extractor, values)
    return values


def fractional(sets: NDArray[Any], schema: Schema) -> frozenset[str]:
    """Names of discrete columns in which a release has numbers between the codes: probabilities instead of outcomes."""
    if sets.dtype.kind in "iub":
        return frozenset()
    flat = sets.reshape(-1, sets.shape[-1])
    discrete = [i for i, column in enumerate(schema.columns) if column.kind != "continuous"]
    names = []
    for i in discrete:
        values = flat[:, i][~np.isnan(flat[:, i])]
        if (values != np.floor(values)).any():
            names.append(schema.columns[i].name)
    return frozenset(names)


def check_name(argument: str, name: object, known: tuple[Name, ...]) -> Name:
    """Return the name of an extractor or classifier, or refuse it."""
    for one in known:
        if one == name:
            return one
    raise InputError(argument, ", ".join(known), repr(name), nearest(str(name), known) or "choose one")


# -- moments and frequencies ------------------------------------------------------------------------------------------


def _describe(sets: NDArray[Any], layout: Layout, extractor: Extractor, out: Float32Array) -> None:
    """Fill in naive or histogram features (m, k), in blocks that fit the cache."""
    naive = extractor == "naive"
    step = max(1, _BLOCK // max(1, sets[:1].nbytes * 2))
    for start in range(0, len(sets), step):
        block = sets[start : start + step]
        pieces = _of_counts(block, layout, naive=naive)
        pieces.update(_of_values(block, layout, naive=naive))
        np.concatenate([pieces[i] for i in range(len(layout.schema))], axis=1, out=out[start : start + step])


def _of_counts(block: NDArray[Any], layout: Layout, *, naive: bool) -> dict[int, Float32Array]:
    """Features of the discrete columns of some sets, by position."""
    columns, size = layout.schema.columns, block.shape[1]
    binary = [i for i in layout.counted if columns[i].levels == 2]
    by_name: dict[int, Float32Array] = {}
    if binary:
        by_name.update(_of_binary(block, binary, columns, naive=naive))
    for i in layout.counted:
        if i in by_name:
            continue
        column = block[:, :, i]
        counts = np.stack([(column == level).sum(axis=1) for level in range(columns[i].levels)], axis=1)
        known = counts.sum(axis=1)
        values = (_naive_of_counts(counts, columns[i]) if naive else _shares(counts, known)).astype(np.float32)
        by_name[i] = _with_missing(values, 1 - known / size, columns[i])
    return by_name


def _of_binary(
    block: NDArray[Any], positions: Sequence[int], columns: Sequence[Column], *, naive: bool
) -> dict[int, Float32Array]:
    """All binary columns at once: one count of ones, and one of missing values where a column allows them."""
    size = block.shape[1]
    every = len(positions) == block.shape[2]
    part = block if every else block[:, :, positions]
    may_miss = any(columns[i].missing for i in positions)
    if part.dtype == np.uint8 and not may_miss:
        ones = np.add.reduce(part, axis=1, dtype=np.uint8 if size < 256 else np.uint32).astype(np.float32)
    else:
        ones = np.add.reduce(part == 1, axis=1, dtype=np.uint32).astype(np.float32)
    known = np.full_like(ones, size)
    if may_miss:
        lost = part == MISSING if part.dtype == np.uint8 else np.isnan(part)
        known -= np.add.reduce(lost, axis=1, dtype=np.uint32)
    mean = np.divide(ones, known, out=np.zeros_like(ones), where=known > 0)
    if naive:
        stacked = np.stack([mean, (1 + np.sign(2 * ones - known)) / 2 * (known > 0), mean * (1 - mean)], axis=2)
    else:
        stacked = np.stack([(1 - mean) * (known > 0), mean], axis=2)
    return {
        i: _with_missing(stacked[:, place], 1 - known[:, place] / size, columns[i]) for place, i in enumerate(positions)
    }


def _naive_of_counts(counts: IntArray, column: Column) -> FloatArray:
    """Three numbers of a column with counts (m, levels)."""
    known = counts.sum(axis=1)
    if column.kind == "categorical":
        present = counts > 0
        rarest = np.where(present, counts, np.iinfo(np.int64).max).argmin(axis=1)
        return np.column_stack([present.sum(axis=1), counts.argmax(axis=1), rarest]).astype(np.float64)
    shares, codes = _shares(counts, known), np.arange(column.levels)
    mean = shares @ codes
    variance = np.maximum(shares @ codes**2 - mean**2, 0.0)
    running = np.cumsum(counts, axis=1)
    lower = (running >= ((known + 1) // 2)[:, None]).argmax(axis=1)
    upper = (running >= (known // 2 + 1)[:, None]).argmax(axis=1)
    return np.column_stack([mean, (lower + upper) / 2, variance])


def _shares(counts: NDArray[Any], known: NDArray[Any]) -> FloatArray:
    """Shares (m, levels) among the values that are known; all 0 where none is."""
    return np.asarray(counts / np.maximum(known, 1)[:, None], dtype=np.float64)


def _of_values(block: NDArray[Any], layout: Layout, *, naive: bool) -> dict[int, Float32Array]:
    """Features of the columns that are described by values, by position."""
    columns, features = layout.schema.columns, {}
    for i in layout.measured:
        column = np.sort(block[:, :, i].astype(np.float64), axis=1)  # NaN last
        known = np.count_nonzero(~np.isnan(column), axis=1)
        values = _moments(column, known) if naive else _bins(column, known, layout.range(columns[i]), layout.bins)
        features[i] = _with_missing(values.astype(np.float32), 1 - known / block.shape[1], columns[i])
    return features


def _moments(ordered: FloatArray, known: IndexArray) -> FloatArray:
    """Mean, median and variance (m, 3) of ordered values (m, s) with NaN last; 0 where nothing is known."""
    numbers, count = np.nan_to_num(ordered, nan=0.0), np.maximum(known, 1)
    mean = numbers.sum(axis=1) / count
    centred = np.where(np.isnan(ordered), 0.0, ordered - mean[:, None])
    rows = np.arange(len(ordered))
    middle = (numbers[rows, np.maximum(known - 1, 0) // 2] + numbers[rows, known // 2 % ordered.shape[1]]) / 2
    return np.column_stack([mean, np.where(known > 0, middle, 0.0), (centred**2).sum(axis=1) / count])


def _bins(values: FloatArray, known: IndexArray, ends: tuple[float, float], bins: int) -> FloatArray:
    """Shares (m, bins) of values (m, s) in equal bins between the ends; missing values are in no bin."""
    low, high = ends
    place = np.clip(np.nan_to_num((values - low) / (high - low) * bins, nan=-1.0), -1.0, bins - 1.0)
    code = np.where(np.isnan(values), bins, np.maximum(np.floor(place), 0)).astype(np.intp)
    flat = np.bincount(
        (np.arange(len(values))[:, None] * (bins + 1) + code).ravel(), minlength=len(values) * (bins + 1)
    )
    return _shares(flat.reshape(len(values), bins + 1)[:, :bins], known)


def _with_missing(values: Float32Array, share: NDArray[Any], column: Column) -> Float32Array:
    if not column.missing:
        return values
    return np.concatenate([values, np.asarray(share, dtype=np.float32)[:, None]], axis=1)


# -- correlations -----------------------------------------------------------------------------------------------------


def _correlations(sets: NDArray[Any], layout: Layout, out: Float32Array) -> None:
    """Fill in the correlations (m, pairs) of all pairs of expanded columns."""
    columns = layout.schema.columns
    plain = all(column.kind != "categorical" for column in columns)
    may_miss = any(column.missing for column in columns)
    e = _expanded_width(columns)
    upper = np.ravel_multi_index(np.triu_indices(e, 1), (e, e))
    step = max(1, _BLOCK // (4 * e * (e + 2 * sets.shape[1])))
    for start in range(0, len(sets), step):
        block = sets[start : start + step]
        x = _numbers(block) if plain else _expanded(block, columns)
        table = _pairwise(x) if may_miss else _complete(x)
        np.take(table.reshape(len(block), e * e), upper, axis=1, out=out[start : start + step])


def _numbers(block: NDArray[Any]) -> Float32Array:
    x = block.astype(np.float32)
    if block.dtype == np.uint8:
        x[block == MISSING] = np.nan
    return x


def _expanded_width(columns: Sequence[Column]) -> int:
    return sum(column.levels - 1 if column.kind == "categorical" else 1 for column in columns)


def _expanded(block: NDArray[Any], columns: Sequence[Column]) -> Float32Array:
    """Sets (m, s, e) with indicators in place of categorical columns."""
    x, parts = _numbers(block), []
    for i, column in enumerate(columns):
        if column.kind != "categorical":
            parts.append(x[:, :, i : i + 1])
            continue
        indicators = (x[:, :, i, None] == np.arange(1, column.levels)).astype(np.float32)
        parts.append(np.where(np.isnan(x[:, :, i, None]), np.float32(np.nan), indicators))
    return np.concatenate(parts, axis=2)


def _complete(x: Float32Array) -> Float32Array:
    """Correlations (m, e, e) without missing values; x is used up."""
    x -= x.mean(axis=1, keepdims=True)
    norm = np.sqrt(np.einsum("mse,mse->me", x, x))[:, None, :]
    # a constant column leaves rounding errors when it is centred
    np.divide(x, norm, out=x, where=norm > 1e-5)
    x *= norm > 1e-5
    return np.asarray(np.matmul(x.transpose(0, 2, 1), x))


def _pairwise(x: Float32Array) -> Float32Array:
    """Correlations (m, e, e) of each pair from the records that have both values; 0 where these are too few."""
    seen = ~np.isnan(x)
    w = seen.astype(np.float32)
    centre = np.nansum(x, axis=1, keepdims=True) / np.maximum(w.sum(axis=1, keepdims=True), 1)
    x = np.where(seen, x - centre, np.float32(0.0))
    turned, scale = x.transpose(0, 2, 1), np.sqrt((x**2).sum(axis=1) / np.maximum(w.sum(axis=1), 1))
    n = np.maximum(np.matmul(w.transpose(0, 2, 1), w), 1)
    first = np.matmul(turned, w)  # sum of column i over the records that have i and j
    second = np.matmul(turned**2, w)
    covariance = np.matmul(turned, x) - first * first.transpose(0, 2, 1) / n
    variance = np.maximum(second - first**2 / n, 0.0)
    enough = variance > 1e-6 * np.maximum(scale[:, :, None] ** 2, 1e-12) * n
    both = enough & enough.transpose(0, 2, 1)
    root = np.sqrt(variance * variance.transpose(0, 2, 1))
    correlation = np.divide(covariance, root, out=np.zeros_like(covariance), where=both & (root > 0))
    return np.asarray(np.clip(correlation, -1.0, 1.0))

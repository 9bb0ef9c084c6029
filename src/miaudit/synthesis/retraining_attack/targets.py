"""The target records of an attack on generators: random ones, the strangest, the worst fitted, or chosen rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
from numpy.typing import ArrayLike

from miaudit.arrays import Float32Array, FloatArray, IndexArray
from miaudit.errors import InputError
from miaudit.errors.options import Option, check_options
from miaudit.synthesis.retraining_attack.features import Layout
from miaudit.synthesis.schema import Table

_NEIGHBOUR = 5  # a record is as strange as its distance to the fifth nearest
_BLOCK = 512
Number = Annotated[int, Option(ge=1, allowed="a number of targets from 1 up", next_step="5 is the paper's")]


@dataclass(frozen=True)
class RandomTargets:
    """Records drawn at random without replacement, as in the paper: how an attack does on an average record."""

    count: Number = 5

    def __post_init__(self) -> None:
        check_options(self)

    def choose(self, table: Table, rng: np.random.Generator) -> IndexArray:
        """Return rows (count,) of the table."""
        _check_count(self.count, table)
        return np.sort(rng.choice(len(table), self.count, replace=False)).astype(np.intp)


@dataclass(frozen=True)
class Outliers:
    """The records that are furthest from all others: by Gower's distance to the fifth nearest record."""

    count: Number = 5

    def __post_init__(self) -> None:
        check_options(self)

    def choose(self, table: Table, rng: np.random.Generator) -> IndexArray:  # noqa: ARG002 - as the others
        """Return rows (count,), the strangest first."""
        _check_count(self.count, table)
        return np.argsort(-strangeness(table), kind="stable")[: self.count]


@dataclass(frozen=True)
class LossMaximising:
    """The records that a generator fits worst: the adversary of the paper's section 3.

    Parameters
    ----------
    count : how many
    loss : function of a table that returns its records' losses (n,), for example of a generator that was fitted to it
    """

    loss: Callable[[Table], ArrayLike]
    count: Number = 5

    def __post_init__(self) -> None:
        check_options(self)

    def choose(self, table: Table, rng: np.random.Generator) -> IndexArray:  # noqa: ARG002 - as the others
        """Return rows (count,), the worst first."""
        _check_count(self.count, table)
        losses = np.asarray(self.loss(table), dtype=np.float64)
        if losses.shape != (len(table),) or not np.isfinite(losses).all():
            received = f"shape {losses.shape}" if losses.shape != (len(table),) else "NaN or infinity"
            raise InputError("loss", f"a finite number for each of {len(table):,} records", received, "return (n,)")
        return np.argsort(-losses, kind="stable")[: self.count]


@dataclass(frozen=True)
class GivenTargets:
    """Rows of the table, by number from 0."""

    rows: tuple[int, ...]

    def __post_init__(self) -> None:
        rows = np.asarray(self.rows)
        if rows.ndim != 1 or rows.size == 0 or rows.dtype.kind not in "iu":
            raise InputError("targets", "row numbers of the table", repr(self.rows)[:60], "count rows from 0")
        if len(np.unique(rows)) != len(rows):
            raise InputError("targets", "each row once", repr(self.rows)[:60], "name a target once")
        object.__setattr__(self, "rows", tuple(int(row) for row in rows))

    @classmethod
    def of_records(cls, records: Table, table: Table) -> GivenTargets:
        """Find records in a table; each must be in it, and once only: a twin that stays would hide its removal.

        Raises
        ------
        InputError
            For a record that is not in the table, or that is in it twice.

        Examples
        --------
        >>> from miaudit.synthesis.schema import Column, Schema
        >>> table = Table(Schema((Column("a"), Column("b"))), [[0, 1], [1, 1], [0, 0]])
        >>> GivenTargets.of_records(table.subset([2]), table).rows
        (2,)
        """
        if records.schema != table.schema:
            raise InputError("targets", "records of the table's schema", "another schema", "read both with one schema")
        positions = []
        for i, record in enumerate(records.values):
            same = (table.values == record) | (np.isnan(table.values) & np.isnan(record))
            rows = np.flatnonzero(same.all(axis=1))
            if len(rows) == 0:
                hint = "only a record of the table can be left out of it: add it to the table first"
                raise InputError("targets", "records of the table", f"record {i}, which is not in it", hint)
            if len(rows) > 1:
                received = f"record {i}, which is in {len(rows)} rows"
                raise InputError("targets", "records that are in the table once", received, "name one row of them")
            positions.append(int(rows[0]))
        return cls(tuple(positions))

    def choose(self, table: Table, rng: np.random.Generator) -> IndexArray:  # noqa: ARG002 - as the others
        """Return the rows, if the table has them."""
        outside = [row for row in self.rows if not 0 <= row < len(table)]
        if outside:
            allowed = f"rows 0 to {len(table) - 1:,} of the table"
            raise InputError("targets", allowed, str(outside[0]), "a target must be in the table: count rows from 0")
        return np.asarray(self.rows, dtype=np.intp)


Targets = RandomTargets | Outliers | LossMaximising | GivenTargets


def check_targets(targets: Any) -> Targets:
    """Return a choice of targets; plain row numbers become GivenTargets."""
    if isinstance(targets, Targets):
        return targets
    if isinstance(targets, Sequence | np.ndarray) and not isinstance(targets, str):
        return GivenTargets(tuple(targets))
    allowed = "RandomTargets, Outliers, LossMaximising, GivenTargets or row numbers"
    raise InputError("targets", allowed, repr(targets)[:60], "RandomTargets(5) is the paper's")


def strangeness(table: Table) -> FloatArray:
    """Gower's distance (n,) of each record to its fifth nearest other one, in [0, 1].

    The mean over the columns that both records have: 0 or 1 for categories, the absolute difference as a share of the
    declared range for ordinal and continuous columns. Records without a common value are at distance 1.

    Examples
    --------
    >>> from miaudit.synthesis.schema import Column, Schema
    >>> table = Table(Schema((Column("a"), Column("b"))), [[0, 0]] * 8 + [[1, 1]])
    >>> strangeness(table).tolist()
    [0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0]
    """
    n = len(table)
    if n < 2:
        raise InputError("table", "at least two records", str(n), "a record is strange beside others")
    indicators, numbers, known = _parts(table)
    k = min(_NEIGHBOUR, n - 1)
    distances = np.empty(n)
    for start in range(0, n, _BLOCK):
        rows = slice(start, min(start + _BLOCK, n))
        common = known[rows] @ known.T
        apart = common - indicators[rows] @ indicators.T
        for column in numbers.T:  # a number counts as its difference, not as "not equal"
            both = np.isfinite(column[rows])[:, None] & np.isfinite(column)
            gap = np.abs(np.nan_to_num(column[rows])[:, None] - np.nan_to_num(column))
            apart -= np.where(both, 1 - gap, 0.0)
        distance = np.divide(apart, common, out=np.ones_like(apart), where=common > 0)
        distance[np.arange(rows.stop - rows.start), np.arange(rows.start, rows.stop)] = np.inf
        distances[rows] = np.partition(distance, k - 1, axis=1)[:, k - 1]
    return np.clip(distances, 0.0, 1.0)


def _parts(table: Table) -> tuple[Float32Array, FloatArray, Float32Array]:
    """Indicators of categories (n, levels), ordered columns on [0, 1] (n, k), and which values are known (n, d)."""
    indicators, numbers = [], []
    for i, column in enumerate(table.schema.columns):
        values = table.values[:, i]
        if column.kind in ("binary", "categorical"):
            indicators.append((values[:, None] == np.arange(column.levels)).astype(np.float32))
        else:
            low, high = Layout(table.schema).range(column)
            numbers.append((values - low) / (high - low))
    first = np.concatenate(indicators, axis=1) if indicators else np.zeros((len(table), 0), dtype=np.float32)
    second = np.stack(numbers, axis=1) if numbers else np.zeros((len(table), 0))
    return first, second, (~np.isnan(table.values)).astype(np.float32)


def _check_count(count: int, table: Table) -> None:
    if count > len(table):
        raise InputError("count", f"at most the {len(table):,} records of the table", str(count), "attack fewer")

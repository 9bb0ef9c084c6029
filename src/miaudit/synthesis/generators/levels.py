"""Columns as few levels, for counting: categories, public bins of numbers, and one level for missing values."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from miaudit.arrays import FloatArray
from miaudit.errors import InputError
from miaudit.synthesis.generators.tables_config import TablesConfig
from miaudit.synthesis.schema import Column, Schema

Codes = NDArray[np.int32]  # 32 bits: a million records of many columns are held as levels
_NEAR = 1e-9  # of a step between rounded values, for values that floating point moved
_BINS = 16  # equal ones of a range


@dataclass(frozen=True, eq=False)
class Levels:
    """The levels of one column, all of them public.

    Attributes
    ----------
    column : as declared
    edges : of a continuous column, its ends included; None for others

    Examples
    --------
    >>> age = Levels.of(Column("age", "continuous", low=0, high=99, decimals=0, missing=True), TablesConfig(bins=4))
    >>> age.count, age.encode(np.array([3.0, 99.0, np.nan])).tolist()
    (5, [0, 3, 4])
    >>> bool((age.decode(np.array([0, 4]), np.random.default_rng(0))[0]) < 25)
    True
    """

    column: Column
    edges: FloatArray | None

    @classmethod
    def of(cls, column: Column, config: TablesConfig) -> Levels:
        """Cut a continuous column at its stated edges, or into equal bins; of few rounded values each is a level."""
        if column.kind != "continuous":
            return cls(column, None)
        assert column.low is not None and column.high is not None  # noqa: S101 - by its check
        stated = config.edges.get(column.name)
        if stated is not None:
            inner = np.array([edge for edge in stated if edge < column.high])
            levels = cls(column, np.concatenate([[column.low], inner, [column.high]]))
            levels._check()
            return levels
        step, bins = step_of(column), config.bins or _BINS
        values = math.inf if step is None else math.floor((column.high - column.low) / step + _NEAR) + 1
        if step is not None and values <= 2 * bins:
            return cls(column, np.append(column.low + step * (np.arange(values) - 0.5), column.high + step / 2))
        if step is not None:  # equal in values, so that each bin has some
            at = np.linspace(0, values, bins + 1)[1:-1].round()
            return cls(column, np.concatenate([[column.low], column.low + step * (at - 0.5), [column.high]]))
        return cls(column, np.linspace(column.low, column.high, bins + 1))

    @property
    def known(self) -> int:
        """Levels but for that of missing values."""
        return self.column.levels if self.edges is None else len(self.edges) - 1

    @property
    def count(self) -> int:
        """All levels."""
        return self.known + self.column.missing

    def encode(self, values: FloatArray) -> Codes:
        """Return the level (n,) of each value (n,); missing is the last level."""
        numbers = np.nan_to_num(values)  # missing values get their level below
        levels = numbers if self.edges is None else np.searchsorted(self.edges[1:-1], numbers, side="right")
        codes = levels.astype(np.int32)
        if self.column.missing:
            codes[np.isnan(values)] = self.known
        return codes

    def decode(self, codes: NDArray[np.integer], rng: np.random.Generator) -> FloatArray:
        """Return a value (n,) of each level (n,): of a bin each of its values, rounded ones included, equally often."""
        if self.edges is None:
            values = codes.astype(np.float64)
        else:
            at = np.minimum(codes, self.known - 1)
            first, last, step = self._ends
            share = rng.random(len(codes))
            if step is None:
                values = first[at] + share * (last[at] - first[at])
            else:
                values = first[at] + step * np.floor(share * np.round((last[at] - first[at]) / step + 1))
            np.clip(values, self.column.low, self.column.high, out=values)
        if self.column.missing:
            values[codes == self.known] = np.nan
        return values

    @property
    def _ends(self) -> tuple[FloatArray, FloatArray, float | None]:
        """The first and last value of each bin, and the step between values that are rounded."""
        assert self.edges is not None  # noqa: S101 - for continuous columns alone
        first, last, step = self.edges[:-1], self.edges[1:], step_of(self.column)
        if step is None:
            return first, last, None
        lifted = np.ceil(first / step - _NEAR) * step
        lowered = np.ceil(last / step - _NEAR) * step - step
        lowered[-1] = np.floor(last[-1] / step + _NEAR) * step
        return lifted, lowered, step

    def _check(self) -> None:
        first, last, step = self._ends
        if step is not None and np.any(last < first - _NEAR * step):
            at = int(np.argmax(last < first - _NEAR * step))
            received = f"a bin from {first[at]:g} without any"
            raise InputError(f"edges.{self.column.name}", "bins that hold rounded values", received, "merge it")


def levels_of(schema: Schema, config: TablesConfig) -> tuple[Levels, ...]:
    """Return the levels of each column."""
    config.check_schema(schema)
    return tuple(Levels.of(column, config) for column in schema.columns)


def step_of(column: Column) -> float | None:
    """Return the step between the values of a rounded column; None of one that is not rounded."""
    return None if column.decimals is None else 10.0**-column.decimals

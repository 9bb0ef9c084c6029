"""Near copies: records that a synthetic table holds but for the last digits of numbers, or but for one column.

Every record is hashed on three grids: the coarser resolution of the two sides, and two coarse grids of which one is
shifted by half a cell. The hash of a row is the sum of the hashes of its cells, so leaving a column out is a
subtraction. Last digits may differ on any grid. One column may differ on the first grid alone: on coarse ones too many
strangers agree in all other columns.

A record counts only if no other real record has its hash, and if strangers hardly agree with it by chance
(:mod:`.chance_agreement`): a person who is like others is not singled out. Grids, hashes and chance follow from the
synthetic table and from the pool of members and control records, never from who is a member.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np

from miaudit.arrays import BoolArray, FloatArray, IntArray
from miaudit.synthesis.schema import Column, Table
from miaudit.synthesis.table_attacks.chance_agreement import RARE, Hashes, expected, expected_without, others

__all__ = ["NearCopies", "cells", "grids"]

Grid = Literal["fine", "coarse", "shifted"]
_GRIDS: tuple[Grid, ...] = ("fine", "coarse", "shifted")
_DIGITS = range(-2, 7)  # decimals that a column may be written with
_WHOLE = 1e-6  # how far a value may be from a multiple of a resolution, in multiples
_SMALLEST, _COARSE, _STEPS = 1e-6, 1e-3, 4  # of the width, of the width, and of the finer grid
_INSIDE = 0.125  # of a cell, so that multiples of the finer grid do not lie on the edges of the coarse one
_MISSING, _LARGEST = -(2**53), 2.0**52


@dataclass(frozen=True, eq=False)
class NearCopies:
    """Which of the members and then the control records a synthetic table nearly holds.

    Attributes
    ----------
    rounded : array (n,) of bool, equal in all columns on one of the three grids
    near : array (n,) of bool, equal on the first grid in all columns but one, and possibly in that one too
    visible : array (n, d) of bool, whether a copy with another value in that column would be seen
    """

    rounded: BoolArray
    near: BoolArray
    visible: BoolArray

    @classmethod
    def of(cls, synthetic: Table, members: Table, control: Table, unit: IntArray | None = None) -> NearCopies:
        """Compare every column on each grid.

        Parameters
        ----------
        synthetic, members, control : Tables with one schema, without keys
        unit : array (n,) of the records' units, members first; equal records of one unit are not "other" records

        Examples
        --------
        >>> from miaudit.synthesis.schema import Column, Schema
        >>> schema = Schema(tuple(Column(name, "continuous", low=0, high=999) for name in "abc"))
        >>> real = Table(schema, [[10, 200, 30.5], [400, 50, 60.5]]), Table(schema, [[70, 800, 90.5]])
        >>> found = NearCopies.of(Table(schema, [[10, 200, 30.50001], [400, 50, 99]]), *real)
        >>> found.rounded.tolist(), found.near.tolist()
        ([True, False, False], [True, True, False])
        """
        pool = np.concatenate([members.values, control.values])
        rounded, near = np.zeros((2, len(pool)), dtype=np.bool_)
        visible = np.zeros(pool.shape, dtype=np.bool_)
        for grid, ours, theirs in _hashed(synthetic, pool):
            released, real = ours.sum(axis=1, dtype=np.uint64), theirs.sum(axis=1, dtype=np.uint64)
            singled_out = (others(real, unit) == 0) & (expected(theirs, len(ours), unit) <= RARE)
            rounded |= singled_out & np.isin(real, released)
            if grid != "fine":
                continue
            rare = expected_without(theirs, len(ours), unit) <= RARE
            for j in range(pool.shape[1]):
                visible[:, j] = rare[:, j] & (others(real - theirs[:, j], unit) == 0)
                near |= visible[:, j] & np.isin(real - theirs[:, j], released - ours[:, j])
        return cls(rounded, near, visible)


def grids(column: Column, released: FloatArray, pool: FloatArray) -> tuple[float, float]:
    """Return the steps of the fine and of the coarse grids of a column; 1 and 1 where its values have no distance."""
    if column.kind != "continuous":
        return 1.0, 1.0
    known = pool[~np.isnan(pool)]
    width = float(np.subtract(*np.quantile(known, [0.95, 0.05]))) if len(known) else 0.0
    width = width if width > 0 else 1.0
    fine = max(_resolution(known), _resolution(released[~np.isnan(released)]), _SMALLEST * width)
    return fine, max(_STEPS * fine, _COARSE * width)


def cells(values: FloatArray, column: Column, steps: tuple[float, float], grid: Grid) -> IntArray:
    """Return the number (n,) of the cell of each value; missing values share one."""
    known = np.nan_to_num(values, nan=0.0)
    if column.kind != "continuous":
        cell = known
    elif grid == "fine":
        cell = np.rint(known / steps[0])
    else:
        cell = np.floor(known / steps[1] + _INSIDE + (0.5 if grid == "shifted" else 0.0) + 1e-9)
    whole = np.clip(cell, -_LARGEST, _LARGEST).astype(np.int64)
    return np.where(np.isnan(values), _MISSING, whole).astype(np.int64)


def _hashed(synthetic: Table, pool: FloatArray) -> Iterator[tuple[Grid, Hashes, Hashes]]:
    """Yield each grid, and on it the hashes of the synthetic cells (m, d) and of real ones (n, d)."""
    columns = synthetic.schema.columns
    steps = [grids(column, synthetic.values[:, j], pool[:, j]) for j, column in enumerate(columns)]
    salts = _mixed(np.arange(1, len(columns) + 1).astype(np.uint64))
    numbers_too = any(column.kind == "continuous" for column in columns)
    for grid in _GRIDS if numbers_too else _GRIDS[:1]:
        both = []
        for values in (synthetic.values, pool):
            numbers = np.column_stack([cells(values[:, j], one, steps[j], grid) for j, one in enumerate(columns)])
            both.append(_mixed(numbers.astype(np.int64).view(np.uint64) + salts))
        yield grid, both[0], both[1]


def _resolution(known: FloatArray) -> float:
    """Return the largest power of ten that divides all values; 0 where none does."""
    for digits in _DIGITS:
        multiples = known * 10.0**digits
        away = np.abs(multiples - np.rint(multiples))
        if (away <= np.minimum(_WHOLE * np.maximum(1, np.abs(multiples)), 0.01)).all():
            return 10.0**-digits if len(known) else 0.0
    return 0.0


def _mixed(numbers: Hashes) -> Hashes:
    """Return each number well mixed (the last step of MurmurHash3)."""
    mixed = numbers ^ (numbers >> np.uint64(33))
    for factor in (0xFF51AFD7ED558CCD, 0xC4CEB9FE1A85EC53):
        mixed = mixed * np.uint64(factor)
        mixed ^= mixed >> np.uint64(33)
    return mixed

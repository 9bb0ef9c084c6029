"""Copies of records in a synthetic table, also copies that differ in what does not describe a person, and near copies.

A copy can carry a new identifier, other capitals, or fewer decimals. Equality is defined without looking at membership,
and it is the same for members and control records, so an excess among members is still a leak.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from miaudit.arrays import BoolArray, FloatArray, IntArray
from miaudit.findings.table import PositiveControl
from miaudit.metrics.units import Units
from miaudit.synthesis.schema import Table
from miaudit.synthesis.table_attacks import planted_control
from miaudit.synthesis.table_attacks.keys import WithoutKeys
from miaudit.synthesis.table_attacks.near_copies import NearCopies
from miaudit.synthesis.table_attacks.success_rates import Comparison, compare

__all__ = [
    "ALL",
    "BUT_DIGITS",
    "BUT_ONE",
    "CLOSEST",
    "ELSEWHERE",
    "SUREST",
    "TESTS",
    "Copies",
    "CopyTests",
    "is_alarm",
    "is_copies",
    "is_list",
    "unmatched",
]

ALL = "copies"
BUT_DIGITS, BUT_ONE = "copies but for last digits", "copies but for one column"
CLOSEST, SUREST = "closest records", "surest records"  # lists: by closeness, and by adoption and closeness
TESTS = 5  # of copies: exact, but for last digits, but for one column, and the two lists. They share one level
ELSEWHERE = "(not in the synthetic table)"
_WITHOUT = "copies without "
_MOSTLY = 0.5  # share of values that no synthetic record has, from which a column is not compared
_DECIMALS = 6  # of a column, at most; also the significant digits of a number that is not whole
_NAMED = 3  # columns in the name of an attack


@dataclass(frozen=True, eq=False)
class Copies:
    """Which records of members and control records a synthetic table holds, over all columns or some of them.

    Attributes
    ----------
    kind : array (n,) of int, equal for equal records; members first, then control records
    in_table : array (n,) of bool, whether the table holds an equal record
    members : number of members
    without : names of the columns that were not compared: keys, and texts that match nothing
    """

    kind: IntArray
    in_table: BoolArray
    members: int
    without: tuple[str, ...] = ()

    @classmethod
    def of(cls, synthetic: Table, members: Table, control: Table, without: tuple[str, ...] = ()) -> Copies:
        """Compare every column but those of ``without``.

        Notes
        -----
        Numbers are compared at the decimals of the synthetic column. Numbers that are not whole are compared at six
        significant digits: 23.1 is often written as 23.100000381 on the way.

        Examples
        --------
        >>> from miaudit.synthesis.schema import Column, Schema
        >>> schema = Schema((Column("key", "continuous", low=0, high=99), Column("bmi", "continuous", low=0, high=99)))
        >>> synthetic, real = Table(schema, [[1, 23.1]]), Table(schema, [[7, 23.12], [8, 24.0]])
        >>> Copies.of(synthetic, real, real).in_table.tolist()
        [False, False, False, False]
        >>> Copies.of(synthetic, real, real, without=("key",)).in_table.tolist()
        [True, False, True, False]
        """
        names = synthetic.schema.names
        columns = [j for j, name in enumerate(names) if name not in without]
        decimals = [_decimals(synthetic.values[:, j]) for j in columns]
        released = set(_rows(synthetic.values[:, columns], decimals))
        both = np.concatenate([members.values[:, columns], control.values[:, columns]])
        number: dict[bytes, int] = {}
        rows = _rows(both, decimals)
        kind = np.array([number.setdefault(row, len(number)) for row in rows], dtype=np.int64)
        return cls(kind, np.array([row in released for row in rows], dtype=np.bool_), len(members), without)

    @property
    def name(self) -> str:
        """Name of the attack: "copies", or "copies without patient_id"."""
        if not self.without:
            return ALL
        named = ", ".join(self.without) if len(self.without) <= _NAMED else f"{len(self.without)} columns"
        return f"{_WITHOUT}{named}"

    def compared(self, confidence: float, units: Units | None) -> Comparison:
        """Compare the share of members that have a copy with that of control records."""
        inside, outside = self.in_table[: self.members], self.in_table[self.members :]
        return compare(self.name, inside, outside, confidence=confidence, note=_equal(self.without), units=units)


@dataclass(frozen=True, eq=False)
class CopyTests:
    """Exact copies and near copies of three tables, compared without texts that match nothing.

    Attributes
    ----------
    exact, near : which records the synthetic table holds, and which it nearly holds
    without : names of the columns that were not compared: keys, and texts that match nothing
    blind : whether no column is left in which a copy could be seen
    """

    exact: Copies
    near: NearCopies
    without: tuple[str, ...]
    blind: bool

    @classmethod
    def of(cls, tables: WithoutKeys, units: Units | None) -> CopyTests:
        """Look for exact and near copies in all columns but keys and texts that match nothing.

        Parameters
        ----------
        tables : without their keys
        units : of members and then control records; equal records of one unit are not taken for others
        """
        released, members, control = tables.synthetic, tables.members, tables.control
        strange = unmatched(members, control)
        blind = len(strange) == len(released.schema)
        aside = () if blind else tuple(name for name in released.schema.names if name in strange)
        exact = Copies.of(released, members, control, aside)
        released, members, control = (table.without(aside) for table in (released, members, control))
        nearly = NearCopies.of(released, members, control, None if units is None else units.code)
        without = (*tables.keys, *aside)
        return cls(replace(exact, without=without), nearly, without, blind)

    def comparisons(self, confidence: float, units: Units | None) -> tuple[Comparison, ...]:
        """Compare members with control records: exact copies, but for last digits, but for one column."""
        exact = self.exact.compared(confidence, units)
        return exact, *_near(self.near, self.exact.members, self.without, confidence, units)

    def controls(
        self, confidence: float, units: Units | None, *, rng: np.random.Generator
    ) -> tuple[PositiveControl, PositiveControl]:
        """Plant copies as they are, and with one cell changed; where nothing can match, none of them is seen."""
        first, second = rng.spawn(2)
        options: dict[str, Any] = {"confidence": confidence, "units": units}
        of = self.exact
        planted = (
            planted_control.planted_control(of.kind, of.in_table, of.members, **options, rng=first),
            planted_control.planted_changes(self.near.visible, self.near.near, of.members, **options, rng=second),
        )
        exact, changed = (replace(one, seen=0, found=False) if self.blind else one for one in planted)
        return exact, changed


def is_copies(attack: str) -> bool:
    """Whether an attack of this name counts copies, over all columns or some, or records that are as good as copied."""
    return attack == ALL or is_alarm(attack) or attack.startswith(_WITHOUT)


def is_alarm(attack: str) -> bool:
    """Whether an attack of this name raises concern and keeps no verdict open: near copies, and the two lists."""
    return attack in (BUT_DIGITS, BUT_ONE) or is_list(attack)


def is_list(attack: str) -> bool:
    """Whether an attack of this name counts members on a list of the records with the highest scores."""
    return attack in (CLOSEST, SUREST)


def _near(
    found: NearCopies, members: int, without: tuple[str, ...], confidence: float, units: Units | None
) -> tuple[Comparison, Comparison]:
    """Compare the near copies of members with those of control records: but for last digits, and but for one column.

    A record counts if no other real record is equal to it in the compared columns, and if strangers hardly agree with
    it by chance. ``without`` were not compared.
    """
    besides = f"{_equal(without)}; only records that no other real record equals, and hardly any by chance, count"
    rounded, one = (
        compare(name, hit[:members], hit[members:], confidence=confidence, note=f"{how}{besides}", units=units)
        for name, hit, how in (
            (BUT_DIGITS, found.rounded, "numbers compared on coarser grids; "),
            (BUT_ONE, found.near, "any one column may differ; else "),
        )
    )
    return rounded, one


def unmatched(members: Table, control: Table) -> dict[str, float]:
    """Return the columns of which most real records have a text that no synthetic record has, with their share.

    The share is of members and control records together: a rule for each side would see who is a member.
    """
    shares = {}
    for column in members.schema.columns:
        if ELSEWHERE in column.categories:
            code = column.categories.index(ELSEWHERE)
            pool = np.concatenate([table.column(column.name) for table in (members, control)])
            shares[column.name] = _share(pool, code)
    return {name: share for name, share in shares.items() if share > _MOSTLY}


def _share(values: FloatArray, code: int) -> float:
    """Return the share of a code among the known ones (n,)."""
    known = values[~np.isnan(values)]
    return float(np.mean(known == code)) if len(known) else 0.0


def _equal(without: tuple[str, ...]) -> str:
    return f"all columns equal but {', '.join(without)}" if without else "all columns equal"


def _decimals(values: FloatArray) -> int:
    """Return the fewest decimals with which the numbers (n,) of a column can be written in single precision."""
    known = np.unique(values[~np.isnan(values)])
    single = _single(known)
    return next((d for d in range(_DECIMALS) if (_single(np.round(known, d)) == single).all()), _DECIMALS)


def _rows(values: FloatArray, decimals: list[int]) -> list[bytes]:
    """Return each row (d,) as bytes, equal for equal rows; missing values equal each other."""
    rounded = np.column_stack([np.round(values[:, j], d) for j, d in enumerate(decimals)]) + 0.0
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        size = np.floor(np.log10(np.abs(_single(rounded))))
        unit = 10.0 ** np.clip(np.nan_to_num(size) - _DECIMALS + 1, -300, 300)
        digits = np.rint(_single(rounded) / unit) * unit
    whole = (values == np.rint(values)) | (rounded == np.rint(rounded))
    plain = np.where(np.isnan(values), np.nan, np.where(whole, rounded, _single(digits)))
    return [row.tobytes() for row in np.ascontiguousarray(plain)]


def _single(values: FloatArray) -> FloatArray:
    with np.errstate(over="ignore"):
        return values.astype(np.float32).astype(np.float64)

"""Copies of records in a synthetic table, also copies that differ in what does not describe a person.

A copy can carry a new identifier, other capitals, or fewer decimals. Equality is defined without looking at membership,
and it is the same for members and control records, so an excess among members is still a leak.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from miaudit.arrays import BoolArray, FloatArray, IntArray
from miaudit.metrics.units import Units
from miaudit.synthesis.schema import Table
from miaudit.synthesis.table_attacks.success_rates import Comparison, compare

__all__ = ["ALL", "ELSEWHERE", "Copies", "is_copies", "numbering", "unmatched"]

ALL = "copies"
ELSEWHERE = "(not in the synthetic table)"
_WITHOUT = "copies without "
_FEWEST, _DIFFERENT = 20, 0.99  # records, and share of different values, from which a column numbers its records
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
    without : names of the columns that were not compared
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
        released = set(_keys(synthetic.values[:, columns], decimals))
        both = np.concatenate([members.values[:, columns], control.values[:, columns]])
        number: dict[bytes, int] = {}
        keys = _keys(both, decimals)
        kind = np.array([number.setdefault(key, len(number)) for key in keys], dtype=np.int64)
        return cls(kind, np.array([key in released for key in keys], dtype=np.bool_), len(members), without)

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
        note = f"all columns equal but {', '.join(self.without)}" if self.without else "all columns equal"
        return compare(self.name, inside, outside, confidence=confidence, note=note, units=units)


def is_copies(attack: str) -> bool:
    """Whether an attack of this name counts copies, over all columns or some."""
    return attack == ALL or attack.startswith(_WITHOUT)


def numbering(members: Table) -> tuple[str, ...]:
    """Return the columns that number their records: whole numbers, nearly all of them different."""
    return tuple(name for name in members.schema.names if _is_key(members.column(name)))


def unmatched(members: Table, control: Table) -> dict[str, float]:
    """Return the columns of which most members, or most control records, have a text that no synthetic record has.

    With the share of each: the larger one of the two.
    """
    shares = {}
    for column in members.schema.columns:
        if ELSEWHERE in column.categories:
            code = column.categories.index(ELSEWHERE)
            shares[column.name] = max(_share(table.column(column.name), code) for table in (members, control))
    return {name: share for name, share in shares.items() if share > _MOSTLY}


def _share(values: FloatArray, code: int) -> float:
    """Return the share of a code among the known ones (n,)."""
    known = values[~np.isnan(values)]
    return float(np.mean(known == code)) if len(known) else 0.0


def _is_key(values: FloatArray) -> bool:
    known = values[~np.isnan(values)]
    return len(known) >= _FEWEST and bool(
        (known == np.rint(known)).all() and len(np.unique(known)) >= _DIFFERENT * len(known)
    )


def _decimals(values: FloatArray) -> int:
    """Return the fewest decimals with which the numbers (n,) of a column can be written in single precision."""
    known = np.unique(values[~np.isnan(values)])
    single = _single(known)
    return next((d for d in range(_DECIMALS) if (_single(np.round(known, d)) == single).all()), _DECIMALS)


def _keys(values: FloatArray, decimals: list[int]) -> list[bytes]:
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

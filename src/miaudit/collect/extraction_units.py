"""What an audit of extraction counts: texts or units of texts, and which of them come out in one way."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol, Self

import numpy as np

from miaudit.arrays import BoolArray, IntArray
from miaudit.errors import InputError
from miaudit.findings.extraction import NamedUnit, WayName

__all__ = ["MOST_NAMED", "Came", "Units"]

MOST_NAMED = 1000


class _OfUnits(Protocol):
    """Texts of known membership, and whom they belong to."""

    @property
    def ids(self) -> tuple[str, ...]: ...

    @property
    def member(self) -> BoolArray: ...

    @property
    def unit(self) -> tuple[str, ...] | None: ...


@dataclass(frozen=True, eq=False)
class Came:
    """Which texts (n,) come out in one way, and which could: those with a passage."""

    name: WayName
    words: str
    out: BoolArray
    has: BoolArray


@dataclass(frozen=True, eq=False)
class Units:
    """What is counted, in words, which one (n,) each text belongs to, and which (u,) with a passage are members."""

    what: str
    names: Sequence[str]
    code: IntArray
    has: BoolArray
    counted: IntArray
    member: BoolArray

    @classmethod
    def of(cls, held: _OfUnits, has: BoolArray) -> Self:
        """Count the texts that have a passage, or their units.

        Raises
        ------
        InputError
            For units that have texts of both kinds.
        """
        if held.unit is None:
            what, names, code = "texts", list(held.ids), np.arange(len(held.ids))
        else:
            distinct, code = np.unique(np.asarray(held.unit), return_inverse=True)
            what, names = "units", [str(name) for name in distinct]
            both = np.intersect1d(code[has & held.member], code[has & ~held.member])
            if len(both):
                received = f"{len(both)} of {len(names)} units have both, the first {names[both[0]][:40]!r}"
                hint = "leave out the controls of units that were trained on"
                raise InputError("unit", "units of members or of controls alone", received, hint)
        member = np.zeros(len(names), dtype=np.bool_)
        member[code[has & held.member]] = True
        counted = np.unique(code[has])
        return cls(what, names, code.astype(np.int64), has, counted, member[counted])

    @property
    def counts(self) -> dict[str, int]:
        """Units of both kinds, where there are units."""
        if self.what == "texts":
            return {}
        return {"member_units": int(self.member.sum()), "control_units": int((~self.member).sum())}

    def largest(self, values: Any) -> Any:
        """Return the largest value (u,) of the texts of each unit that have a passage."""
        maxima = np.full(len(self.names), np.min(values, initial=0), dtype=np.asarray(values).dtype)
        np.maximum.at(maxima, self.code[self.has], np.asarray(values)[self.has])
        return maxima[self.counted]

    def came(self, one: Came) -> tuple[BoolArray, BoolArray]:
        """Return which of the units that could come out did, and which of them are members."""
        could = np.bincount(self.code[one.has], minlength=len(self.names))[self.counted] > 0
        return (np.bincount(self.code[one.out], minlength=len(self.names)) > 0)[self.counted][could], self.member[could]

    def named(self, came: Sequence[Came]) -> tuple[NamedUnit, ...]:
        """Name the units of which a text comes out, those with the most such texts first."""
        if self.what == "texts":
            return ()
        any_way = np.any([one.out for one in came], axis=0)
        texts, out = (np.bincount(self.code[rows], minlength=len(self.names)) for rows in (self.has, any_way))
        member = dict(zip(self.counted.tolist(), self.member.tolist(), strict=True))
        rows = [int(row) for row in np.argsort(-out, kind="stable")[:MOST_NAMED] if out[row]]
        return tuple(NamedUnit(self.names[row], member[row], int(texts[row]), int(out[row])) for row in rows)

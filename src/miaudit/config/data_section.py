"""The section of a configuration file on the data: where the records are, and which of their columns are what."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from miaudit.collect.records import EVERY, Records, every_other
from miaudit.config.section import FilePath, Section, Text, Whole
from miaudit.config.target import TargetSection
from miaudit.errors import InputError, one_line
from miaudit.io import roles, tables
from miaudit.models.command import CommandTarget
from miaudit.models.targets import Target

__all__ = ["DataSection"]

_NOT_READ = ("y", "text", "member", "unit", "group", "ids", "covariates", "canary", "times")  # by a model, of "*"


_MOST_SHOWN = 8


class DataSection(Section):
    """The records, and which columns are what."""

    path: FilePath
    x: Text | tuple[Text, ...] | None = None
    y: Text | tuple[Text, ...] | None = None
    text: Text | None = None
    member: Text | None = None
    unit: Text | None = None
    group: Text | None = None
    ids: Text | None = None
    covariates: Text | tuple[Text, ...] | None = None
    records: Whole | None = None
    copies: FilePath | None = None
    frame: bool | None = None
    categories: tuple[Text, ...] = ()
    canary: Text | None = None
    times: Text | None = None

    def unnamed(self, target: TargetSection) -> Iterator[str]:
        """Say that no column is named that a model learns from, or is asked about: it would get row numbers."""
        if self.x is None and self.text is None and target.reads_columns:
            yield 'data.x: expected the columns that the model reads, received none; name them, or write x: "*" for all'

    def features(self, base: Path) -> str:
        """Say for a dry run which columns a model reads, and which ones "*" leaves out; empty of an array."""
        if self.x != EVERY:
            read = _names(self.x)
            return f"the model reads {_shown(read)}" if len(read) > 1 else ""  # else one array, which the file names
        named, every = (
            {one for name in _NOT_READ for one in _names(getattr(self, name))},
            every_other(base / self.path, []),
        )
        read, left = ([name for name in every if (name in named) is apart] for apart in (False, True))
        beside = f"; not {_shown(left)}, named as something else" if left else ""
        return f"the model reads {_shown(read)}{beside}" if read else ""

    def load(self, base: Path, categories: str | Sequence[str] = (), path: str | None = None) -> Records:
        """Read the records, or others from a file with the same columns; covariates that are categories may be text."""
        columns = self.model_dump(exclude={"path", "records", "copies", "categories"})
        return Records.load(base / (path or self.path), **columns, categories=categories, levels=self.categories)

    def forgotten_unit(self, base: Path) -> str:
        """Say that a column of a table may be the unit, where none is named and nothing else reads it."""
        place = base / self.path
        if self.unit is not None or place.suffix.lower() not in roles.TABLES:
            return ""
        used = {
            name for value in self.model_dump().values() for name in (value if isinstance(value, tuple) else [value])
        }
        try:
            column = next((name for name in roles.units_of(place) if name not in used), None)
        except InputError:
            return ""  # reading the records says it
        if column is None:
            return ""
        says = f"note: {column} repeats: if it says whose a record is, add unit: {column} to data"
        return f"{says}, else leakage is understated"

    def named(self, target: Target, records: Records) -> Target:
        """Return the target for these records: a command compares their ids, and their file decides its fits, too.

        Fine-tuned models are asked about their texts.
        """
        if not isinstance(target, CommandTarget):
            return target
        return target.on(records.ids, self.path, records.fields.get("text"))

    def load_copies(self, base: Path) -> Any:
        """Read the changed copies of the records, a .npy file, if there are any."""
        return None if self.copies is None else tables.read_array(base / self.copies, "data.copies")


def _names(value: str | Sequence[str] | None) -> list[str]:
    return [value] if isinstance(value, str) else list(value or ())


def _shown(names: Sequence[str]) -> str:
    """Names of columns, the first ones of many."""
    more = f" and {len(names) - _MOST_SHOWN:,} more" if len(names) > _MOST_SHOWN else ""
    return one_line(", ".join(names[:_MOST_SHOWN])) + more

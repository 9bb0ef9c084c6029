"""Values that no declared category has: every column at once, so that a publisher meets them once.

A message names columns and counts, never a value: it may end in a log or a page. What the values are stays in the
error, for the terminal of the one who holds the table.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from miaudit.errors import InputError

_SHOWN = 8


@dataclass(frozen=True)
class Undeclared:
    """The undeclared values of one column.

    Attributes
    ----------
    column : its name
    categories : those that are declared
    rows : of each undeclared value, the most frequent first: in how many rows it is
    first : the first row that has one, counted from 0
    """

    column: str
    categories: tuple[Any, ...]
    rows: tuple[tuple[Any, int], ...]
    first: int

    @classmethod
    def of(cls, column: str, categories: tuple[Any, ...], values: Sequence[Any], at: Sequence[int]) -> Undeclared:
        """Count the values (n,) in the rows ``at``, which no category has."""
        counts = Counter(values[row] for row in at)
        return cls(column, categories, tuple(counts.most_common()), at[0])

    @property
    def received(self) -> str:
        """How many values in how many rows, in words."""
        kinds, rows = len(self.rows), sum(count for _, count in self.rows)
        return f"{_counted(kinds, 'other value')} in {_counted(rows, 'row')}, the first in row {self.first}"


class UndeclaredCategories(InputError):
    """Undeclared values of one or several columns.

    Attributes
    ----------
    columns : those with undeclared values; what they are is private, and not in the message
    """

    def __init__(self, columns: Sequence[Undeclared]) -> None:
        self.columns = tuple(columns)
        hint = "look at the column: declare every category that is publicly known, and join others under one of these"
        one = self.columns[0]
        if len(self.columns) == 1:
            more = " ..." * (len(one.categories) > _SHOWN)
            allowed = f"one of {', '.join(map(str, one.categories[:_SHOWN]))}{more}"
            super().__init__(one.column, allowed, one.received, hint)
            return
        received = "; ".join(f"{own.column}: {own.received}" for own in self.columns)
        hint = hint.replace("the column", "the columns").replace("one of these", "one that is declared")
        super().__init__(f"{len(self.columns)} columns", "categories that are declared", received, hint)


def _counted(count: int, what: str) -> str:
    return f"{count:,} {what}{'s' * (count != 1)}"

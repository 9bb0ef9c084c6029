"""Every option of a generator by noisy tables: all of it public, none of it read off the records."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any

from miaudit.errors import InputError, nearest
from miaudit.errors.checks import is_number
from miaudit.errors.options import Option, check_options
from miaudit.synthesis.generators.generator_config import MaybeWhole
from miaudit.synthesis.schema import Schema

_PRIVATE = "bins read off the private table would have to be paid for: state edges from public knowledge, or a number"


@dataclass(frozen=True)
class TablesConfig:
    """How noisy tables are measured and combined (experiments/methods.md, section 8).

    Attributes
    ----------
    bins : equal bins of a continuous column's declared range, if none are stated for it; None is 16. In two stages the
        levels that a column's cells are merged into, about; None is 12
    edges : of a continuous column by name: where its bins meet, inside its range and from public knowledge
    support : records expected in a cell of a table, in standard deviations of its noise, down to which parents share
        one; parents whose table would be larger are measured in several, whose laws are combined
    combine : whether parents may be measured apart; if not, a table that is too large is refused
    draws_missing : whether synthetic records have missing values, as often as the real ones; if not, they are complete
    further : without a full graph the pairs that are measured beyond a tree, for each column
    two_stages : whether single columns are counted first, on fine public cells, and their levels follow from these
        noisy counts; no edges are then needed
    targets : columns whose prediction by the others matters most: without a full graph every pair beyond the tree is
        one of a target, so other dependence is kept less well
    most_off : in two stages, how far off single columns may be foreseen to be, as a total variation distance above
        that of two real samples, before a release stops with the rest of the budget left; 1 never stops
    records : public number of records, which with ``support`` says how large tables may be; None is that of the
        privacy, or the length of the table. State it where trainings with and without a record are compared

    Raises
    ------
    InputError
        For a number outside its range, or edges that are not rising numbers.

    Examples
    --------
    >>> TablesConfig(edges={"age": [30, 50]}).edges
    {'age': (30.0, 50.0)}
    >>> TablesConfig(edges={"age": "quantiles"})  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    miaudit.errors.InputError: edges.age: expected rising numbers inside its range, received 'quantiles'; bins read ...
    """

    bins: Annotated[int | None, Option(ge=1, allowed="a whole number from 1 up", next_step=_PRIVATE)] = None
    edges: Annotated[Mapping[str, Sequence[float]], Option()] = field(default_factory=dict)
    support: Annotated[float, Option(gt=0, next_step="16 is the default")] = 16.0
    combine: Annotated[bool, Option(next_step="true is the default")] = True
    draws_missing: Annotated[bool, Option(next_step="true is the default")] = True
    further: Annotated[float, Option(ge=0, le=10, next_step="1 is the default")] = 1.0
    two_stages: Annotated[bool, Option(next_step="false is the default")] = False
    targets: Annotated[tuple[str, ...], Option()] = ()
    most_off: Annotated[float, Option(gt=0, le=1, next_step="0.05 is the default")] = 0.05
    records: MaybeWhole = None

    def __post_init__(self) -> None:
        check_options(self)
        edges = _untyped(self.edges)
        if not isinstance(edges, Mapping):
            allowed = "a mapping: name of a column to where its bins meet"
            raise InputError("edges", allowed, repr(edges)[:60], _PRIVATE)
        edges = {name: _rising(f"edges.{name}", options) for name, options in edges.items()}
        object.__setattr__(self, "edges", edges)
        targets = _untyped(self.targets)
        if isinstance(targets, str) or not all(isinstance(name, str) for name in targets):
            raise InputError("targets", "names of columns", repr(targets)[:60], "write a list of names")
        object.__setattr__(self, "targets", tuple(dict.fromkeys(targets)))
        if self.two_stages and edges:
            hint = "leave edges out: levels follow from noisy counts; or leave two_stages out"
            raise InputError("edges", "none in two stages", f"those of {', '.join(map(str, edges))}"[:60], hint)
        if self.two_stages and not self.combine:
            hint = "leave combine out: a table that is too large would be refused once the first stage is charged"
            raise InputError("combine", "true in two stages", "false", hint)

    def check_schema(self, schema: Schema) -> None:
        """Refuse targets and edges of columns that are not there, and edges of others than continuous ranges."""
        for target in self.targets:
            if target not in schema.names:
                hint = nearest(target, schema.names) or f"it has {', '.join(schema.names[:8])}"
                raise InputError("targets", "columns of the schema", repr(target), hint)
        for name, edges in self.edges.items():
            if name not in schema.names:
                hint = nearest(str(name), schema.names) or f"it has {', '.join(schema.names[:8])}"
                raise InputError("edges", "columns of the schema", repr(name), hint)
            column = schema.column(name)
            if column.kind != "continuous":
                hint = "its categories are its levels"
                raise InputError(f"edges.{name}", "edges of a continuous column", f"a {column.kind} one", hint)
            assert column.low is not None and column.high is not None  # noqa: S101 - by its check
            if edges and not column.low < edges[0] <= edges[-1] <= column.high:
                allowed = f"numbers above {column.low:g} and up to {column.high:g}, its declared range"
                raise InputError(f"edges.{name}", allowed, f"{edges[0]:g} to {edges[-1]:g}", "state its range wider")

    def most_cells(self, records: int, noise: float) -> float:
        """Return how many cells a table may have: each expects ``support`` deviations of the noise in records.

        Without noise a record counts as one deviation, since few records tell little about a cell either.
        """
        return (self.records or records) / (self.support * max(noise, 1.0))


def _untyped(value: Any) -> Any:
    """Return a value as of any type, since a caller may pass another type than the declared one."""
    return value


def _rising(name: str, value: Any) -> tuple[float, ...]:
    allowed = "rising numbers inside its range"
    if isinstance(value, str) or not isinstance(value, Sequence) or not value:
        raise InputError(name, allowed, repr(value)[:60], _PRIVATE)
    if not all(is_number(edge) and math.isfinite(edge) for edge in value):
        raise InputError(name, allowed, repr(list(value))[:60], _PRIVATE)
    edges = tuple(float(edge) for edge in value)
    if any(a >= b for a, b in itertools.pairwise(edges)):
        raise InputError(name, allowed, repr(list(value))[:60], "sort them, each once")
    return edges

"""A release: a synthetic table with its schema, the mechanism that made it, and what is claimed of it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from miaudit import __version__
from miaudit.dp.mechanism import Mechanism, from_mapping
from miaudit.dp.verdict import Claim, ClaimVerdict, LowerBound, UpperBound, judge
from miaudit.errors import InputError, OutputError, one_line
from miaudit.io import plain_files
from miaudit.io.tables import existing_file, require_suffix, write_atomically, writer
from miaudit.metrics.rounding import upper_text
from miaudit.synthesis.generators.generator_config import Neighbours
from miaudit.synthesis.generators.ledger import described, write_json
from miaudit.synthesis.graph import CausalGraph
from miaudit.synthesis.schema import TABLE_SUFFIXES, Schema, Table, read_table

if TYPE_CHECKING:
    from miaudit.synthesis.generators.generator import Generator

_FORMAT = 1
REPEATABLE = (
    "The noise was drawn from a seed, so that the training can be repeated: the claim does not hold against who knows "
    "the seed, and can take the noise away."
)
Format = Literal["csv", "parquet"]
_NEIGHBOURS: dict[Neighbours, str] = {
    "add-or-remove": "tables that differ in one record, added or removed",
    "replace-one": "tables of one length that differ in the values of one record",
}
_CHANGES: dict[Neighbours, str] = {"add-or-remove": "one record added or removed", "replace-one": "one record replaced"}


@dataclass(frozen=True, eq=False)
class Release:
    """A synthetic table and what is known and claimed of how it was made. All of it is meant to be published.

    Attributes
    ----------
    table : the synthetic records
    mechanism : the training as an accountant sees it; None without differential privacy
    claim : (epsilon, delta) of one record of the private table; None without
    bound : what an accountant proves of the mechanism; None without
    graph : along which the generator factorised; None for a plain one
    parameters : further public facts of the training, by name: epochs, batch, clip, ...
    repeatable : whether anyone who knows a seed can draw the noise again; the claim does not hold against them
    neighbours : "add-or-remove" or "replace-one": the tables that the claim is about
    """

    table: Table
    mechanism: Mechanism | None = None
    claim: Claim | None = None
    bound: UpperBound | None = None
    graph: CausalGraph | None = None
    parameters: tuple[tuple[str, int | float | str], ...] = ()
    repeatable: bool = False
    neighbours: Neighbours = "add-or-remove"

    def __post_init__(self) -> None:
        if (self.mechanism is None) != (self.claim is None):
            received = "a claim without a mechanism" if self.mechanism is None else "a mechanism without a claim"
            raise InputError("claim", "a claim with its mechanism", received, "claim what a mechanism proves")
        if self.claim is not None and self.bound is not None and self.bound.value > self.claim.value:
            allowed = f"at least the {upper_text(self.bound.value, 4)} that the mechanism guarantees"
            raise InputError("claim", allowed, f"{self.claim.value:g}", "claim no less than what is proved")
        if self.claim is not None and self.bound is not None and self.bound.delta > self.claim.delta:
            allowed = f"a delta of at least the {upper_text(self.bound.delta, 4)} at which the epsilon is proved"
            raise InputError("claim", allowed, f"{self.claim.delta:g}", "bound epsilon at the delta of the claim")

    @property
    def schema(self) -> Schema:
        """The columns of the table."""
        return self.table.schema

    @classmethod
    def of(cls, generator: Generator, n: int, *, rng: np.random.Generator) -> Release:
        """Draw a release of ``n`` records, a public number, from a generator.

        Drawing more records, or several tables, from one generator costs nothing more: it never sees the private table
        again.
        """
        graph = None if len(generator.graph.groups) == 1 else generator.graph
        privacy, facts = generator.privacy, tuple(generator.facts.items())
        neighbours: Neighbours = "add-or-remove" if privacy is None else privacy.neighbours
        table, proof = generator.sample(n, rng=rng), (generator.claim(), generator.guarantee())
        return cls(table, generator.mechanism, *proof, graph, facts, generator.repeatable, neighbours)

    def verdict(self, lower: LowerBound | None = None) -> ClaimVerdict:
        """Judge the claim against the lower bound of an audit, if there is one, and against what is proved.

        Raises
        ------
        InputError
            Without a claim.
        """
        if self.claim is None:
            raise InputError("claim", "a release with differential privacy", "one without", "nothing was claimed")
        untried = () if lower is not None else ("No audit has tried to refute it.",)
        known = (REPEATABLE,) if self.repeatable else ()
        return judge(self.claim, lower, upper=self.bound, reasons=(*untried, *known))

    def to_mapping(self) -> dict[str, Any]:
        """Return everything but the records as plain values."""
        claim, bound = self.claim, self.bound
        return {
            "format": _FORMAT,
            "miaudit": __version__,
            "records": len(self.table),
            "columns": self.schema.to_mapping(),
            "graph": None if self.graph is None else self.graph.to_mapping(),
            "mechanism": None if self.mechanism is None else described(self.mechanism),
            "mechanism_text": None if self.mechanism is None else str(self.mechanism),
            "neighbours": _NEIGHBOURS[self.neighbours],
            "claim": None if claim is None else {"epsilon": claim.value, "delta": claim.delta},
            "bound": None if bound is None else {"epsilon": bound.value, "delta": bound.delta, "by": bound.accountant},
            "parameters": dict(self.parameters),
            "repeatable": self.repeatable,
        }

    def save(self, path: str | Path) -> None:
        """Write the records to a .csv or .parquet file and the rest to a .json file beside it, each at once.

        Raises
        ------
        InputError
            For another ending.
        OutputError
            If the files cannot be written.
        """
        path = require_suffix(path, "release", TABLE_SUFFIXES)
        frame = self.table.frame()
        try:
            write_atomically(path, writer(frame, path.suffix.lower()))
            write_json(path.with_suffix(".json"), self.to_mapping())
        except OSError as error:
            raise OutputError(one_line(f"release {path}: cannot be written ({error.strerror or error})")) from error

    @classmethod
    def load(cls, path: str | Path) -> Release:
        """Read a release that :meth:`save` wrote; the claim is checked against the bound in the same file.

        Raises
        ------
        InputError
            If a file is missing, damaged, or the records do not follow the schema.
        """
        path = existing_file(path, "release", TABLE_SUFFIXES)
        beside = existing_file(path.with_suffix(".json"), "release", (".json",))
        try:
            content = json.loads(plain_files.read_text(beside, "release"))
            if content["format"] != _FORMAT:
                raise ValueError(f"format {content['format']!r}")
            schema = Schema.from_mapping(content["columns"])
            graph = None if content["graph"] is None else CausalGraph.from_mapping(content["graph"])
            mechanism = None if content["mechanism"] is None else from_mapping(content["mechanism"])
            claim = None if content["claim"] is None else Claim.epsilon_delta(**content["claim"])
            proof = content["bound"]
            neighbours = next((name for name, words in _NEIGHBOURS.items() if words == content["neighbours"]), None)
            if neighbours is None:
                raise ValueError(f"neighbours {content['neighbours']!r}")
            text = f"{mechanism}; {_CHANGES[neighbours]}"
            bound = (
                None if proof is None else UpperBound("epsilon", proof["epsilon"], proof["delta"], text, proof["by"])
            )
            parameters = tuple(content["parameters"].items())
            repeatable = bool(content["repeatable"])
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            received = f"{beside.name} ({one_line(str(error))[:100]})"
            raise InputError("release", f"a release of format {_FORMAT}", received, "write it again") from error
        return cls(read_table(path, schema), mechanism, claim, bound, graph, parameters, repeatable, neighbours)

"""The configuration file of ``miaudit synthesise``: private table, graph, generator, privacy, release."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Literal, Self

import numpy as np
from pydantic import Field, field_validator, model_validator

from miaudit.config.section import (
    File,
    FilePath,
    Keys,
    Section,
    Text,
    keys_of,
    missing_line,
    read_mapping,
    record_keys,
    validated,
)
from miaudit.dp.verdict import Claim
from miaudit.errors import ConfigError, InputError
from miaudit.errors.options import Option
from miaudit.synthesis import Outliers, RandomTargets
from miaudit.synthesis.generators.generator_config import GeneratorConfig, Privacy
from miaudit.synthesis.generators.publication import LedgerPlan, Publication
from miaudit.synthesis.generators.recipe import Config
from miaudit.synthesis.generators.release import Format
from miaudit.synthesis.generators.tables_config import TablesConfig
from miaudit.synthesis.graph import CausalGraph
from miaudit.synthesis.schema import MARK, Table, read_table

_WRITTEN = ("synthetic.csv", "synthetic.parquet", "synthetic.json", "findings.json", "report.html")
Positive = Annotated[float, Field(gt=0)]
Whole = Annotated[int, Field(ge=1)]


class DataSection(Section):
    """The private table: a .csv or .parquet file.

    Numbers outside their range are refused or moved; values that no category has are refused, or read as the category
    that ``others`` names for their column.
    """

    file: FilePath
    outside: Literal["refuse", "clip"] = "refuse"
    others: dict[Text, str | int | float] = Field(default_factory=dict)


def generator_config(generator: dict[str, Any]) -> GeneratorConfig:
    """Return the options of the section generator, which has its kind beside them, as the library takes them."""
    return GeneratorConfig(**{name: value for name, value in generator.items() if name != "kind"})


def _generating(generator: dict[str, Any]) -> dict[str, Any]:
    generator_config(generator)  # refuses what does not go together
    return generator


GENERATOR = Keys(
    {
        "kind": Annotated[Literal["causal", "plain"], Option()],
        **{name: kind for name, kind in keys_of(GeneratorConfig).items() if name not in ("records", "at_once")},
    },
    make=_generating,
)
PRIVACY = record_keys(Privacy)
TABLES = Keys(
    {name: kind for name, kind in keys_of(TablesConfig).items() if name not in ("records", "edges")}
    | {"edges": Annotated[Any, Option()]},
    make=lambda given: TablesConfig(**given),
)


def check_other(public: Path, private: Path, argument: str) -> None:
    """Refuse the private table in the place of public records: what is read off those is taken for public."""
    if public.samefile(private):
        hint = "name records that anyone may know, or leave it out"
        raise InputError(argument, "another file than the private table", public.name, hint)


class ReleaseSection(Section):
    """How many records are released, a public number, and in which format."""

    records: Whole | None = None
    format: Format = "csv"


class LedgerSection(Section):
    """The ledger of the private table's releases, and the budget that all of them keep."""

    file: Text
    table: Text
    label: Text
    epsilon: Positive | None = None
    delta: Annotated[float, Field(gt=0, lt=1)] | None = None

    @model_validator(mode="after")
    def _both(self) -> Self:
        if (self.epsilon is None) != (self.delta is None):
            raise ValueError("expected epsilon with delta as the budget, received one of them; add the other")
        return self

    def plan(self, base: Path) -> LedgerPlan:
        """Return the ledger as the library takes it, with its path relative to ``base``."""
        budget = None if self.epsilon is None or self.delta is None else Claim.epsilon_delta(self.epsilon, self.delta)
        return LedgerPlan(base / self.file, self.table, self.label, budget)


class AttackSection(Section):
    """How generators are attacked with and without a record: ``miaudit synthesise --attack``.

    ``targets`` is a number of records, or their row numbers; ``outliers`` chooses records unlike all others.
    """

    targets: Whole | Annotated[list[Annotated[int, Field(ge=0)]], Field(min_length=1)] = 5
    outliers: bool = False
    repeats: Whole = 20
    sets: Whole = 20
    set_size: Whole = 100
    extractors: Annotated[list[Text], Field(min_length=1)] | None = None
    classifiers: Annotated[list[Text], Field(min_length=1)] | None = None
    seed: Annotated[int, Field(ge=0)] = 0

    @model_validator(mode="after")
    def _one_choice(self) -> Self:
        if self.outliers and not isinstance(self.targets, int):
            raise ValueError("expected a number of targets beside outliers: true, received row numbers; leave one out")
        return self

    @property
    def models(self) -> int:
        """How many generators are made: with and without each target."""
        return 2 * self.repeats * (self.targets if isinstance(self.targets, int) else len(self.targets))

    def training(self) -> dict[str, Any]:
        """Return targets and numbers as ``miaudit.synthesis.membership_attack`` takes them."""
        targets: Any = self.targets
        if isinstance(targets, int):
            targets = Outliers(targets) if self.outliers else RandomTargets(targets)
        return {"targets": targets, "repeats": self.repeats, "sets": self.sets, "set_size": self.set_size}

    def reading(self) -> dict[str, Any]:
        """Return the extractors and classifiers, where the file names some; the attack checks their names."""
        named = {"extractors": self.extractors, "classifiers": self.classifiers}
        return {name: value for name, value in named.items() if value is not None}


class SynthesiseConfig(File):
    """A whole configuration file.

    Examples
    --------
    >>> config = SynthesiseConfig.model_validate({"data": {"file": "patients.csv"}, "graph": "graph.yaml",
    ...     "privacy": {"epsilon": 1.0, "records": 5000}, "generator": {"epochs": 20}})
    >>> config.generator["epochs"], config.privacy.clip
    (20, 1.0)
    """

    data: DataSection
    graph: Any  # the name of a file, or what such a file holds
    privacy: Annotated[Privacy, PRIVACY] | None  # "none" in the file; it has to be said
    method: Literal["tables", "vae"] | None = None
    tables: Annotated[TablesConfig, TABLES] | None = None
    generator: Annotated[dict[str, Any], GENERATOR] = Field(default_factory=dict)
    release: ReleaseSection = ReleaseSection()
    public: FilePath | None = None
    ledger: LedgerSection | None = None
    fidelity: Literal["held-out", "public", "private", "none"] = "held-out"
    held_out: Annotated[float, Field(gt=0, lt=1)] = 0.2
    attack: AttackSection = AttackSection()
    seed: Annotated[int, Field(ge=0)] | None = None
    output_dir: Text = "results/synthesis"

    @field_validator("graph")
    @classmethod
    def _file_or_mapping(cls, value: Any) -> Any:
        if not isinstance(value, str | dict) or not value:
            raise ValueError(f"expected a file, or a mapping with columns and edges, received {value!r:.60}")
        return value

    @field_validator("privacy", mode="before")
    @classmethod
    def _section_or_none(cls, value: Any) -> Any:
        if value != "none" and not isinstance(value, dict):
            raise ValueError(f"expected a section with epsilon and records, or none, received {value!r:.60}")
        return None if value == "none" else value

    @model_validator(mode="after")
    def _together(self) -> Self:
        own = [name for name in self.generator if name != "kind"]
        if own and (self.tables is not None or self.method == "tables"):
            raise ValueError(
                f"expected options of one method, received tables beside generator.{own[0]}; "
                "leave generator's options out, or choose method: vae without tables"
            )
        if self.tables is not None and self.method == "vae":
            raise ValueError("expected no options of tables with method: vae; leave tables out, or method")
        if self.fidelity == "public" and self.public is None:
            raise ValueError("expected public, a file, beside fidelity: public; received none; add it")
        if self.generator.get("patience") and self.public is None:
            raise ValueError("expected public, a file, beside patience; private records cannot decide when to stop")
        if self.privacy is not None and self.generator.get("empirical"):
            raise ValueError("expected no empirical groups with privacy: they are private records; leave empirical out")
        if self.privacy is not None and self.seed is not None:
            raise ValueError(
                "expected no seed with privacy, received one: noise that can be repeated can be taken away, so it "
                "comes from the operating system, and no seed repeats the release; leave seed out"
            )
        return self

    def causal_graph(self, base: Path) -> CausalGraph:
        """Return the graph of the file, or of the mapping; its columns are the schema."""
        if isinstance(self.graph, dict):
            return CausalGraph.from_mapping(self.graph)
        return CausalGraph.from_yaml(base / self.graph)

    def config(self) -> Config | None:
        """Return the options of the method that has some; None for its defaults, or a rehearsal."""
        if self.tables is not None:
            return self.tables
        own = any(name != "kind" for name in self.generator)
        return replace(generator_config(self.generator), records=None) if own else None

    def read(self, base: Path) -> tuple[Table, Publication]:
        """Read the tables and the graph, with paths relative to ``base``.

        Raises
        ------
        InputError
            For a file that cannot be read, or a table that does not follow the schema.
        """
        graph = self.causal_graph(base)
        config = self.config()
        plain = self.generator.get("kind") == "plain"
        if isinstance(config, GeneratorConfig) and not plain:
            config.check_graph(graph)
        source = base / self.data.file
        reading: dict[str, Any] = {"outside": self.data.outside, "others": self.data.others}
        table = read_table(source, graph.schema, argument="data.file", **reading)
        public = None
        if self.public is not None:
            public = read_table(base / self.public, graph.schema, argument="public", **reading)
            check_other(base / self.public, source, "public")
            if len(table) and np.array_equal(public.values, table.values, equal_nan=True):
                hint = "what is said of public records may be published: name records that are public"
                raise InputError("public", "other records than the private ones", "the same, one for one", hint)
        publication = Publication(
            graph=None if plain else graph,
            method=self.method,
            config=config,
            privacy=self.privacy,
            records=self.release.records,
            public=public,
            ledger=None if self.ledger is None else self.ledger.plan(base),
            fidelity=self.fidelity,
            held_out=self.held_out,
            source=source.name,
        )
        return table, publication

    def check_kept(self, base: Path, folder: Path) -> None:
        """Refuse a folder of results in which a file that is read, or the ledger, would be written over."""
        ledger = None if self.ledger is None else self.ledger.file
        named = {"data.file": self.data.file, "public": self.public, "graph": self.graph, "ledger.file": ledger}
        for key, file in named.items():
            if not isinstance(file, str | Path):
                continue
            place = (base / file).resolve()
            if place.parent == folder.resolve() and place.name in _WRITTEN:
                hint = "choose another output_dir, or --out"
                raise InputError(key, "a file that the results are not written over", f"{file} in {folder}", hint)

    def extras(self) -> Iterator[str]:
        """Name the generators'."""
        yield "synthesis"

    def missing_files(self, base: Path) -> Iterator[str]:
        """Say which files are not there, a line for each."""
        yield from super().missing_files(base)
        if isinstance(self.graph, str) and not (base / self.graph).is_file():
            yield missing_line("graph", "file", self.graph, base)


def read(path: str | Path) -> SynthesiseConfig:
    """Read and check a configuration file, as :func:`miaudit.config.audit.read`; a draft's mark is refused."""
    content = read_mapping(path, "docs/synthesis.md")
    if content.pop(MARK, False):
        problem = (
            f"{MARK}: expected a draft that was settled, received its mark: privacy.records and release.records follow "
            "from the private table; state numbers that anyone may know, then delete the line"
        )
        raise ConfigError(Path(path).name, [problem])
    return validated(content, SynthesiseConfig, path)

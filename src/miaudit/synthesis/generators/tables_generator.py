"""A generator of noisy tables, and how it is made from private records."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from miaudit.arrays import FloatArray
from miaudit.dp.mechanism import Mechanism
from miaudit.errors import InputError
from miaudit.synthesis.generators.count_noise import CountNoise, NoNoise, RepeatableNoise, SecretNoise
from miaudit.synthesis.generators.first_stage import FirstStage, counted
from miaudit.synthesis.generators.generator import Generator, Method
from miaudit.synthesis.generators.generator_config import Privacy
from miaudit.synthesis.generators.levels import Codes
from miaudit.synthesis.generators.noisy_tables import Law, measured
from miaudit.synthesis.generators.private_choice import chosen, laws_of
from miaudit.synthesis.generators.tables_config import TablesConfig
from miaudit.synthesis.generators.tables_plan import TablesPlan
from miaudit.synthesis.graph import CausalGraph
from miaudit.synthesis.schema import Table


@dataclass(frozen=True, eq=False)
class TablesGenerator(Generator):
    """Laws of columns given their parents, from noisy counts.

    Attributes
    ----------
    plan : what was measured, all of it public
    laws : of each column, in the order of drawing
    repeatable, rehearsed : as of each generator
    """

    plan: TablesPlan
    laws: tuple[Law, ...]
    repeatable: bool = False
    rehearsed: str = ""
    method: ClassVar[Method] = "tables"  # type: ignore[misc]  # the same for all of them

    @property
    def graph(self) -> CausalGraph:  # type: ignore[override]  # that of the plan
        """Along which it factorises."""
        return self.plan.graph

    @property
    def privacy(self) -> Privacy | None:  # type: ignore[override]
        """The required privacy."""
        return self.plan.privacy

    @property
    def mechanism(self) -> Mechanism | None:
        """All counts and choices as an accountant sees them."""
        return self.plan.mechanism

    @property
    def facts(self) -> Mapping[str, int | float | str]:
        """Public facts of the tables."""
        plan = self.plan
        by_name: dict[str, int | float | str] = {
            "method": self.method,
            **({"stages": 2, "levels": sum(plan.sizes)} if plan.first is not None else {}),
            "tables": sum(len(law.sets) for law in self.laws),
            "cells": sum(part.size for law in self.laws for part in law.logits),
            **({"targets": ", ".join(plan.config.targets)} if plan.config.targets else {}),
            "parents": "chosen privately" if plan.chooses else "of the graph",
        }
        if plan.privacy is not None:
            typical = plan.sd(1 / len(plan.sizes))
            by_name |= {
                "records": plan.privacy.records,
                "noise": plan.privacy.relative_noise,
                "noise_per_cell": float(f"{typical:.4g}"),
                "neighbours": plan.privacy.neighbours,
            }
        return by_name | ({"rehearsed": self.rehearsed} if self.rehearsed else {})

    @cached_property
    def _group(self) -> dict[int, str]:
        return {column: name for name in self.graph.order for column in self.graph.positions(name)}

    def _values(self, n: int, fixed: Mapping[int, float], rng: np.random.Generator) -> FloatArray:
        plan = self.plan
        codes: Codes = np.zeros((n, len(plan.sizes)), dtype=np.int32, order="F")
        waiting: dict[int, float] = {}  # values that are set; they take effect once their whole group is drawn
        for place, law in enumerate(self.laws):
            column = law.column
            if column not in fixed or plan.chooses:
                codes[:, column] = law.draw(codes, plan.sizes, rng)
            if column in fixed:
                waiting[column] = fixed[column]
            last = place + 1 == len(self.laws) or self._group[self.laws[place + 1].column] != self._group[column]
            if last:
                for own, value in waiting.items():
                    codes[:, own] = plan.levels[own].encode(np.array([value]))[0]
                waiting = {}
        values = np.empty((n, len(plan.sizes)))
        for column, levels in enumerate(plan.levels):
            values[:, column] = fixed[column] if column in fixed else levels.decode(codes[:, column], rng)
        return values

    def log_likelihood(self, table: Table) -> FloatArray:
        """Return the log-probability (n,) of each record's levels under the generator; higher is more likely.

        Raises
        ------
        InputError
            For records of another schema.
        """
        if table.schema != self.schema:
            allowed = "records under the schema of the generator"
            raise InputError("table", allowed, "another schema", "read it with that")
        codes, total = encoded(table, self.plan), np.zeros(len(table))
        for law in self.laws:
            shares = law.shares(law.cells(codes, self.plan.sizes))
            total += np.log(shares[np.arange(len(codes)), codes[:, law.column]])
        return total

    def _stored(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        plan = self.plan
        options: dict[str, Any] = {
            "config": {**asdict(plan.config), "edges": {name: list(own) for name, own in plan.config.edges.items()}},
            "privacy": None if plan.privacy is None else asdict(plan.privacy),
            "records": plan.records,
            "laws": [{"column": law.column, "sets": [list(own) for own in law.sets]} for law in self.laws],
            "repeatable": self.repeatable,
            "rehearsed": self.rehearsed,
        }
        arrays = {f"logits-{i}-{j}": part for i, law in enumerate(self.laws) for j, part in enumerate(law.logits)}
        if plan.first is not None:
            options["first_sds"] = list(plan.first.sds)
            arrays |= {f"first-{column}": counts for column, counts in enumerate(plan.first.counts)}
        return options, arrays

    @classmethod
    def _restored(cls, graph: CausalGraph, options: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> Self:
        privacy = None if options["privacy"] is None else Privacy(**options["privacy"])
        plan = TablesPlan(graph, TablesConfig(**options["config"]), privacy, int(options["records"]))
        if "first_sds" in options:
            sds = tuple(map(float, options["first_sds"]))
            first = FirstStage(tuple(arrays[f"first-{column}"] for column in range(len(sds))), sds)
            first.check(plan.sizes)
            plan = replace(plan, first=first)
        laws = []
        for i, entry in enumerate(options["laws"]):
            sets = tuple(tuple(int(column) for column in own) for own in entry["sets"])
            law = Law(int(entry["column"]), sets, tuple(arrays[f"logits-{i}-{j}"] for j in range(len(sets))))
            law.check(plan.sizes)
            laws.append(law)
        if sorted(law.column for law in laws) != list(range(len(plan.sizes))):
            raise InputError("path", "a law for each column", f"{len(laws)}", "write it with Generator.save")
        return cls(plan, tuple(laws), bool(options["repeatable"]), str(options["rehearsed"]))


def fit_tables(
    table: Table,
    plan: TablesPlan,
    *,
    rng: np.random.Generator,
    repeatable: bool = False,
    noise: CountNoise | None = None,
) -> TablesGenerator:
    """Count the records with noise, and return the generator that follows.

    Parameters
    ----------
    table : the private records
    plan : the tables that are measured; it was checked
    rng : of the synthetic records on which laws of several sets of parents rest; with ``repeatable`` of the noise too
    repeatable : whether the noise comes from ``rng``, for experiments, and not from the operating system
    noise : in place of either, for a replay
    """
    known = repeatable and plan.privacy is not None
    if noise is None:
        noise = RepeatableNoise(rng.spawn(1)[0]) if known else secret_noise(plan)
    if plan.config.two_stages and plan.first is None:
        plan = replace(
            plan, first=counted(table, plan.cells, [plan.sd(share) for share in plan.single_shares()], noise)
        )
    codes = encoded(table, plan)
    if plan.chooses:
        return TablesGenerator(plan, _complete(chosen(codes, plan, noise, rng), plan), known)
    tables = [
        measured(codes, columns, plan.sizes, plan.sd(share), noise)
        for columns, share in zip(plan.along, plan.shares, strict=True)
    ]
    tables += [] if plan.first is None else plan.first_tables
    order = [plan.graph.schema.position(name) for name in plan.graph.order]
    return TablesGenerator(plan, _complete(laws_of(tables, order, plan, rng)[0], plan), known)


def secret_noise(plan: TablesPlan) -> CountNoise:
    """Return the noise of a release: from the operating system, or none without privacy."""
    return NoNoise() if plan.privacy is None else SecretNoise()


def encoded(table: Table, plan: TablesPlan) -> Codes:
    """Return the levels (n, d) of a table's records."""
    codes: Codes = np.empty(table.values.shape, dtype=np.int32, order="F")
    for column, levels in enumerate(plan.levels):
        codes[:, column] = levels.encode(table.values[:, column])
    return codes


def _complete(laws: tuple[Law, ...], plan: TablesPlan) -> tuple[Law, ...]:
    """Remove missing values from the laws, if the release must have none."""
    if plan.config.draws_missing:
        return laws
    return tuple(law.without_last() if plan.levels[law.column].column.missing else law for law in laws)

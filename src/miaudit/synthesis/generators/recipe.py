"""What decides a generator but its records: method, options and privacy, settled before the records are looked at."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from miaudit.dp.mechanism import Mechanism
from miaudit.synthesis.generators.generator import Generator, Method
from miaudit.synthesis.generators.generator_config import GeneratorConfig, Privacy
from miaudit.synthesis.generators.private_tables import over, records_of
from miaudit.synthesis.generators.tables_config import TablesConfig
from miaudit.synthesis.generators.tables_generator import fit_tables
from miaudit.synthesis.generators.tables_plan import TablesPlan
from miaudit.synthesis.graph import CausalGraph
from miaudit.synthesis.schema import Schema, Table

Config = GeneratorConfig | TablesConfig
Progress = Callable[[int, int], None]
METHODS: tuple[Method, ...] = ("tables", "vae")


@dataclass(frozen=True)
class Recipe:
    """Everything that decides a generator but the records; all of it public.

    Attributes
    ----------
    method : "tables" or "vae"
    config : its options
    privacy : None without differential privacy
    rehearsed : what simulated records said of this and of other recipes, in a sentence; empty where nothing was tried
    """

    method: Method
    config: Config
    privacy: Privacy | None
    rehearsed: str = ""

    def plan(self, graph: CausalGraph, records: int) -> TablesPlan:
        """Return which tables would be measured, by the method "tables", of so many records if no privacy says more.

        Raises
        ------
        InputError
            If nothing but noise would be left, or a table would be too large.
        """
        assert isinstance(self.config, TablesConfig)  # noqa: S101 - by its method
        graph = graph.by_columns()
        if graph.full and not graph.edges:  # says nothing of what goes together, which is not that nothing does
            graph = over(graph.schema, None)
        plan = TablesPlan(graph, self.config, self.privacy, records if self.privacy is None else self.privacy.records)
        plan.check()
        return plan

    def mechanism(self, schema: Schema, graph: CausalGraph | None, records: int) -> Mechanism | None:
        """Return what would be done as an accountant sees it; None without differential privacy."""
        if self.privacy is None:
            return None
        if isinstance(self.config, TablesConfig):
            return self.plan(over(schema, graph), records).mechanism
        return self.privacy.mechanism(self.config)

    def check(self, table: Table, graph: CausalGraph | None, *, public: Table | None = None) -> None:
        """Refuse what :meth:`fit_many` would refuse, before a budget is spent on it."""
        if isinstance(self.config, TablesConfig):
            self.plan(over(table.schema, graph), len(table))
            return
        from miaudit.synthesis.generators import training  # noqa: PLC0415 - torch loads for networks alone

        training.check_fit(table, graph, self.privacy, config=self.config, public=public)

    def fit_many(
        self,
        tables: Table | Sequence[Table],
        graph: CausalGraph | None,
        *,
        rows: ArrayLike | None = None,
        rng: np.random.Generator,
        public: Table | None = None,
        progress: Progress | None = None,
        repeatable: bool = False,
    ) -> list[Generator]:
        """Make a generator of each table, or of each choice of rows of one."""
        if isinstance(self.config, GeneratorConfig):
            from miaudit.synthesis.generators import training  # noqa: PLC0415

            options: dict[str, Any] = {"rows": rows, "public": public, "progress": progress, "repeatable": repeatable}
            trained = training.fit_many(tables, graph, self.privacy, rng=rng, config=self.config, **options)
            return [replace(one, rehearsed=self.rehearsed) for one in trained]
        base, own = records_of(tables, rows)
        plan = self.plan(over(base.schema, graph), len(own[0]))
        items: list[Generator] = []
        for chosen, child in zip(own, rng.spawn(len(own)), strict=True):
            generator = fit_tables(base.subset(chosen), plan, rng=child, repeatable=repeatable)
            items.append(replace(generator, rehearsed=self.rehearsed))
            if progress is not None:
                progress(len(items), len(own))
        return items

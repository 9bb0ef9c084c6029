"""Everything that decides a generator but its records: method, options and privacy, settled without the records."""

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
    rehearsed : how this recipe and others did on simulated records, in a sentence; empty without a rehearsal
    """

    method: Method
    config: Config
    privacy: Privacy | None
    rehearsed: str = ""

    def plan(self, schema: Schema, graph: CausalGraph | None, records: int) -> TablesPlan | None:
        """Return which tables are measured, of so many records if no privacy says more; None for a network.

        Raises
        ------
        InputError
            If nothing but noise would be left, or a table would be too large.
        """
        if not isinstance(self.config, TablesConfig):
            return None
        along = over(schema, graph).by_columns()
        if along.full and not along.edges:  # such a graph states no dependence, but does not exclude one
            along = over(schema, None)
        plan = TablesPlan(along, self.config, self.privacy, records if self.privacy is None else self.privacy.records)
        plan.check()
        return plan

    def mechanism(self, plan: TablesPlan | None) -> Mechanism | None:
        """Return what is done as an accountant sees it, by the plan of tables; None without differential privacy."""
        if self.privacy is None:
            return None
        if isinstance(self.config, GeneratorConfig):
            return self.privacy.mechanism(self.config)
        assert plan is not None  # noqa: S101 - by its method
        return plan.mechanism

    def check(self, table: Table, graph: CausalGraph | None, *, public: Table | None = None) -> None:
        """Refuse what :meth:`fit_many` would refuse, before a budget is spent on it."""
        if isinstance(self.config, TablesConfig):
            self.plan(table.schema, graph, len(table))
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
        plan: TablesPlan | None = None,
        public: Table | None = None,
        progress: Progress | None = None,
        repeatable: bool = False,
    ) -> list[Generator]:
        """Make a generator of each table, or of each choice of rows of one.

        Parameters
        ----------
        plan : of :meth:`plan`, if it was made before
        """
        if isinstance(self.config, GeneratorConfig):
            from miaudit.synthesis.generators import training  # noqa: PLC0415

            options: dict[str, Any] = {"rows": rows, "public": public, "progress": progress, "repeatable": repeatable}
            trained = training.fit_many(tables, graph, self.privacy, rng=rng, config=self.config, **options)
            return [replace(one, rehearsed=self.rehearsed) for one in trained]
        base, own = records_of(tables, rows)
        plan = plan or self.plan(base.schema, graph, len(own[0]))
        assert plan is not None  # noqa: S101 - by its method
        generators: list[Generator] = []
        for chosen, child in zip(own, rng.spawn(len(own)), strict=True):
            generator = fit_tables(base.subset(chosen), plan, rng=child, repeatable=repeatable)
            generators.append(replace(generator, rehearsed=self.rehearsed))
            if progress is not None:
                progress(len(generators), len(own))
        return generators

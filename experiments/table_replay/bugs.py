"""Our generator of noisy tables with one stage replaced by a wrong one, as such bugs are met."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import Any
from unittest import mock

import numpy as np

from miaudit.arrays import FloatArray
from miaudit.dp.query_draws import QueryDraws
from miaudit.synthesis.generators import first_stage, merged_levels, private_choice, tables_generator
from miaudit.synthesis.generators.count_noise import CountNoise
from miaudit.synthesis.generators.generator_config import Privacy
from miaudit.synthesis.generators.levels import Codes
from miaudit.synthesis.generators.noisy_tables import NoisyTable, measured, places
from miaudit.synthesis.generators.pair_counts import PairCounts
from miaudit.synthesis.generators.replayed_tables import replayed
from miaudit.synthesis.generators.tables_config import TablesConfig
from miaudit.synthesis.generators.tables_generator import TablesGenerator, fit_tables
from miaudit.synthesis.generators.tables_plan import TablesPlan
from miaudit.synthesis.graph import CausalGraph
from miaudit.synthesis.schema import Column, Schema, Table

RECORDS, NOISE = 120, 1.0
SCHEMA = Schema(
    (
        Column("age", "continuous", low=0, high=9, decimals=0),
        Column("site", "categorical", categories=("n", "s", "h")),
        Column("sick"),
        Column("stage", "ordinal", categories=(0, 1, 2, 3)),
    )
)
Patches = Callable[[], Sequence[AbstractContextManager[Any]]]
_MEASURED_IN = (first_stage, private_choice, tables_generator)


def plan_of(schema: Schema = SCHEMA, *, neighbours: str = "add-or-remove") -> TablesPlan:
    """Return a plan in two stages without a graph: it counts, chooses pairs twice, and measures them."""
    privacy = Privacy(records=RECORDS, noise=NOISE, neighbours=neighbours)  # type: ignore[arg-type]
    graph = CausalGraph(schema, {"columns": schema.names})
    return TablesPlan(graph, TablesConfig(two_stages=True, bins=4), privacy, RECORDS)


def table(seed: int = 0, records: int = RECORDS) -> Table:
    """Return records whose columns depend on each other; none is older than 7, at site h, or of stage 3."""
    rng = np.random.default_rng(seed)
    age, site = rng.integers(0, 8, records), rng.integers(0, 2, records)
    sick = rng.random(records) < 0.1 + 0.1 * age
    return Table(SCHEMA, np.column_stack([age, site, sick, np.minimum(sick * rng.integers(0, 3, records), 2)]))


@dataclass(frozen=True)
class Bug:
    """One wrong stage.

    Attributes
    ----------
    name : of the bug
    met_as : where it is met
    seen_by : words of the sentence in which a replay names it; empty where no replay can see it
    patches : what replaces a stage of the generator
    plan : what is measured, or a function of the private table that returns it
    replaced : whether the claim protects the value of a record, and neighbours replace one
    """

    name: str
    met_as: str
    seen_by: str
    patches: Patches = tuple
    plan: TablesPlan | Callable[[Table], TablesPlan] | None = None
    replaced: bool = False

    def generator(self) -> Callable[[Table, QueryDraws], dict[str, Any]]:
        """Return the wrong generator as a replay takes it."""
        own = replayed(plan_of() if self.plan is None else self.plan)

        def generator(private: Table, draws: QueryDraws) -> dict[str, Any]:
            with self.planted():
                return own(private, draws)

        return generator

    def fit(self, private: Table, rng: np.random.Generator) -> TablesGenerator:
        """Return one release of the wrong generator, with its noise."""
        plan = plan_of() if self.plan is None else self.plan
        with self.planted():
            return fit_tables(private, plan(private) if callable(plan) else plan, rng=rng, repeatable=True)

    @contextlib.contextmanager
    def planted(self) -> Iterator[None]:
        """Replace the stage while the context lasts."""
        with contextlib.ExitStack() as stack:
            for patch in self.patches():
                stack.enter_context(patch)
            yield


def _measuring(wrong: Callable[..., NoisyTable]) -> Patches:
    return lambda: [mock.patch.object(module, "measured", wrong) for module in _MEASURED_IN]


def _counting(counts: Callable[[FloatArray], FloatArray], noise_at: Callable[[FloatArray], Any]) -> Patches:
    """Measure other counts, and add the noise times ``noise_at``."""

    def wrong(codes: Codes, columns: Sequence[int], sizes: Sequence[int], sd: float, noise: CountNoise) -> NoisyTable:
        shape = [sizes[column] for column in columns]
        own = np.bincount(places(codes, columns, sizes), minlength=math.prod(shape)).astype(np.float64)
        noisy = noise.released(columns, counts(own) + noise.normal(len(own), sd) * noise_at(own), sd)
        return NoisyTable(tuple(columns), noisy.reshape(shape), sd)

    return _measuring(wrong)


def _one_number(codes: Codes, columns: Sequence[int], sizes: Sequence[int], sd: float, noise: CountNoise) -> NoisyTable:
    shape = [sizes[column] for column in columns]
    own = np.bincount(places(codes, columns, sizes), minlength=math.prod(shape)).astype(np.float64)
    noisy = noise.released(columns, own + noise.normal(1, sd)[0], sd)
    return NoisyTable(tuple(columns), noisy.reshape(shape), sd)


def _two_cells(counts: FloatArray) -> FloatArray:
    """Count each record in its own cell and in the next one."""
    return counts + np.roll(counts, 1)


def _unscaled() -> Sequence[AbstractContextManager[Any]]:
    stated = TablesPlan.sd
    return [mock.patch.object(TablesPlan, "sd", lambda plan, _share: stated(plan, 1.0))]


def _one_more() -> Sequence[AbstractContextManager[Any]]:
    chosen = private_choice.chosen

    def wrong(codes: Codes, plan: TablesPlan, noise: CountNoise, rng: np.random.Generator) -> Any:
        measured(codes, (0, 1), plan.sizes, plan.sd(0.25), noise)
        return chosen(codes, plan, noise, rng)

    return [mock.patch.object(tables_generator, "chosen", wrong)]


def _exact_total() -> Sequence[AbstractContextManager[Any]]:
    chosen, private_total = private_choice.chosen, [0.0]

    def counted(codes: Codes, plan: TablesPlan, noise: CountNoise, rng: np.random.Generator) -> Any:
        private_total[0] = float(len(codes))
        return chosen(codes, plan, noise, rng)

    def laws(tables: Sequence[NoisyTable], *others: Any) -> Any:
        scaled = [replace(own, counts=own.counts * private_total[0] / own.counts.sum()) for own in tables]
        return laws_of(scaled, *others)

    laws_of = private_choice.laws_of
    return [
        mock.patch.object(tables_generator, "chosen", counted),
        mock.patch.object(private_choice, "laws_of", laws),
    ]


def _exact_levels() -> Sequence[AbstractContextManager[Any]]:
    """Merge levels by the counts before their noise."""
    counted, exact = first_stage.counted, []
    of = merged_levels.MergedLevels.of

    def keeping(private: Table, cells: Any, sds: Any, noise: CountNoise) -> Any:
        exact[:] = [np.bincount(own.encode(private.values[:, at]), minlength=own.count) for at, own in enumerate(cells)]
        return counted(private, cells, sds, noise)

    def merging(cells: Any, _counts: FloatArray, sd: float, bins: int | None = None) -> Any:
        own = next(counts for counts in exact if len(counts) == cells.count)
        return of(cells, own.astype(np.float64), sd, bins)

    return [
        mock.patch.object(tables_generator, "counted", keeping),
        mock.patch.object(merged_levels.MergedLevels, "of", merging),
    ]


def _scores(wrong: Callable[[FloatArray], FloatArray]) -> Patches:
    """Choose pairs by other scores, which are divided by the same scale."""

    def patches() -> Sequence[AbstractContextManager[Any]]:
        class Wrong(PairCounts):
            def of(self, pair: tuple[int, int]) -> FloatArray:
                return wrong(super().of(pair))

        return [mock.patch.object(private_choice, "PairCounts", Wrong)]

    return patches


def _half_scale() -> Sequence[AbstractContextManager[Any]]:
    stated = TablesPlan.scale
    return [mock.patch.object(TablesPlan, "scale", lambda plan, stage: stated(plan, stage) / 2)]


def _drafted(private: Table) -> TablesPlan:
    """Read the range of ages off the private table."""
    ages = private.values[:, 0]
    age = Column("age", "continuous", low=float(ages.min()), high=float(ages.max()), decimals=0)
    return plan_of(Schema((age, *SCHEMA.columns[1:])))


def _of_its_length(private: Table) -> TablesPlan:
    """Take the length of the private table for the public number of records."""
    plan = plan_of()
    assert plan.privacy is not None
    return replace(plan, records=len(private), privacy=replace(plan.privacy, records=len(private)))


RIGHT = Bug("none", "", "")
BUGS = (
    Bug(
        "a record is counted in two cells",
        "a visit at two sites, smoothed counts",
        "moved it by 1.4142",
        _counting(_two_cells, lambda _: 1.0),
    ),
    Bug(
        "noise without the share of the budget", "epsilon passed to each query whole", "the queries spend mu", _unscaled
    ),
    Bug("no noise on empty cells", "sparse tables", "no noise at", _counting(lambda own: own, lambda own: own > 0)),
    Bug(
        "one random number for all cells of a table",
        "`rng.normal(0, sd)` without a size",
        "share 1 random numbers",
        _measuring(_one_number),
    ),
    Bug("noise for add/remove, claim for replacement", "half of the sensitivity", "moved it by 1.4142", replaced=True),
    Bug("one query more than the ledger pays for", "a table measured to look at", "the queries spend mu", _one_more),
    Bug("the exact total", "`len(table)` as the scale of noisy counts", "the release['laws']", _exact_total),
    Bug(
        "the length of the table as its public size",
        "`records=len(table)`",
        "['records'] is 119 instead of 120",
        plan=_of_its_length,
    ),
    Bug("levels merged by exact counts", "binning before the noise", "the release[", _exact_levels),
    Bug(
        "the range of a column read off the table",
        "`min`, `max` of the column",
        "has 10 cells instead of 8",
        plan=_drafted,
    ),
    Bug(
        "a score of another sensitivity",
        "counts weighted by the size of the table",
        "moved a score by",
        _scores(lambda counts: counts * math.sqrt(len(counts))),
    ),
    Bug(
        "a choice with half of its scale",
        "exp(epsilon score), without the 2 below",
        "the queries spend mu",
        _half_scale,
    ),
)

"""Which tables a generator measures and with how much noise, before it looks at any record: all of it is public."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations

import numpy as np

from miaudit.dp.mechanism import Composed, GaussianNoise, Mechanism, Repeated, Selection
from miaudit.errors import InputError
from miaudit.synthesis.generators.first_stage import FirstStage
from miaudit.synthesis.generators.generator_config import Privacy
from miaudit.synthesis.generators.levels import Levels, levels_of
from miaudit.synthesis.generators.merged_levels import MERGED, MergedLevels, cells_of
from miaudit.synthesis.generators.noisy_tables import NoisyTable
from miaudit.synthesis.generators.tables_config import TablesConfig
from miaudit.synthesis.graph import CausalGraph

# Without a full graph: shares of the budget, in squares of mu, of single columns, the choice of a tree, its pairs, the
# choice of further pairs, and those. Measured on Adult and synthetic22; flat around these.
_SINGLE, _TREE, _PAIRS, _FURTHER, _MORE = 0.15, 0.1, 0.3, 0.1, 0.35
# Sizes count less than in proportion: 2/3 would make the sum of expected errors least, but what is predicted last,
# which feeds nothing, then gets so little that classifiers suffer (Adult: income, .879 of AUC for .890).
_POWER = 1 / 3
_BELOW = 1 - 1e-9  # of mu, so that rounding in the sum of the parts does not exceed the required mu
_NOTHING_LEFT = 0.5  # of a column's records that noise alone would move
_MEAN_OF_NORMAL = math.sqrt(2 / math.pi)


@dataclass(frozen=True)
class TablesPlan:
    """The tables that are measured, and the share of the budget of each.

    Attributes
    ----------
    graph : along which; with groups of several columns, pairs within and between groups are chosen privately
    config : options
    privacy : None without differential privacy
    records : public number of records
    first : noisy counts of the first of two stages, from which levels follow; None before them, and in one stage
    """

    graph: CausalGraph
    config: TablesConfig
    privacy: Privacy | None
    records: int
    first: FirstStage | None = None

    @cached_property
    def cells(self) -> tuple[Levels, ...]:
        """The public levels of each column; in two stages the cells that the first one counts."""
        schema = self.graph.schema
        self.config.check_schema(schema)
        return tuple(map(cells_of, schema.columns)) if self.config.two_stages else levels_of(schema, self.config)

    @cached_property
    def levels(self) -> tuple[Levels | MergedLevels, ...]:
        """The levels of each column; in two stages those that the first one decides, once it is there."""
        if self.first is None:
            return self.cells
        return tuple(
            MergedLevels.of(cells, counts, sd, self.config.bins)
            for cells, counts, sd in zip(self.cells, self.first.counts, self.first.sds, strict=True)
        )

    @cached_property
    def sizes(self) -> tuple[int, ...]:
        """How many levels each column has."""
        return tuple(levels.count for levels in self.levels)

    @property
    def chooses(self) -> bool:
        """Whether pairs are chosen privately, since the graph does not state all parents."""
        return not self.graph.full

    @property
    def changes(self) -> int:
        """How many cells of a table one record changes by 1."""
        return 1 if self.privacy is None else self.privacy.changes

    @cached_property
    def mu(self) -> float:
        """That of everything together; infinite without privacy."""
        return math.inf if self.privacy is None else _BELOW / self.privacy.relative_noise

    def sd(self, share: float) -> float:
        """Return the standard deviation of the noise on counts that get a share of the budget."""
        return 0.0 if math.isinf(self.mu) else math.sqrt(self.changes / share) / self.mu

    # -- in two stages ------------------------------------------------------------------------------------------------

    @property
    def first_share(self) -> float:
        """The budget's share of the first of two stages; 0 in one."""
        if not self.config.two_stages:
            return 0.0
        return self.stages["single"] if self.chooses else _SINGLE

    @property
    def first_mechanism(self) -> Mechanism | None:
        """The first of two stages as an accountant sees it; None without privacy, and in one stage."""
        share = self.first_share
        return None if math.isinf(self.mu) or not share else GaussianNoise(1 / (self.mu * math.sqrt(share)))

    @property
    def second_mechanism(self) -> Mechanism | None:
        """What follows the first stage; None without privacy, or if nothing follows it."""
        return self._mechanism(after_first=True)

    @property
    def first_tables(self) -> list[NoisyTable]:
        """The counts of the first stage on merged levels."""
        assert self.first is not None  # noqa: S101 - by its callers
        return [
            levels.table(column, counts, sd)
            for column, (levels, counts, sd) in enumerate(
                zip(self.levels, self.first.counts, self.first.sds, strict=True)
            )
            if isinstance(levels, MergedLevels)
        ]

    # -- along a full graph -------------------------------------------------------------------------------------------

    @cached_property
    def along(self) -> tuple[tuple[int, ...], ...]:
        """The tables along a full graph, each as its parents' positions and last its column's.

        Parents share a table while that has few enough cells for its records and noise, the largest first.
        """
        schema, typical = self.graph.schema, self.sd(1 / len(self.sizes))
        most = self.config.most_cells(self.records, typical)
        tables = []
        for name in self.graph.order:
            column = schema.position(name)
            parents = sorted((schema.position(cause) for cause in self.graph.parents(name)), key=self._by_size)
            sets = self._sets(column, parents, most)
            if len(sets) > 1 and not self.config.combine:
                cells = math.prod(self.sizes[i] for i in (*parents, column))
                received = f"{name} with {len(parents)} parents, {cells:,} cells"
                hint = "let parents be measured apart (combine), raise epsilon, lower support or use fewer parents"
                raise InputError("graph", f"at most {most:,.0f} cells in a table", received, hint)
            tables += [(*own, column) for own in sets]
        return tuple(tables)

    def _by_size(self, column: int) -> int:
        return -self.sizes[column]

    def _sets(self, column: int, parents: Sequence[int], most: float) -> list[list[int]]:
        """Put parents into as few sets as go with the column into tables of so many cells (first fit)."""
        sets: list[list[int]] = []
        for parent in parents:
            room = (own for own in sets if self._cells((*own, parent, column)) <= most)
            into = next(room, None)
            if into is None:
                sets.append([parent])
            else:
                into.append(parent)
        return sets or [[]]

    def _cells(self, columns: Sequence[int]) -> int:
        return math.prod(self.sizes[i] for i in columns)

    @cached_property
    def shares(self) -> tuple[float, ...]:
        """The budget's share of each table of :attr:`along`: more for large ones, and before many dependent columns.

        In two stages they share what the first one leaves.
        """
        names = self.graph.schema.names
        below = {name: len(self.graph.descendants(name)) for name in names}
        weights = [self._cells(columns) * (1 + below[names[columns[-1]]]) for columns in self.along]
        return tuple((1 - self.first_share) * share for share in _in_proportion(weights))

    # -- where pairs are chosen ---------------------------------------------------------------------------------------

    @cached_property
    def candidates(self) -> tuple[tuple[int, int], ...]:
        """The pairs of columns that may be measured, the cause first where the graph states it."""
        graph, pairs = self.graph, []
        for name in graph.order:
            pairs += list(combinations(graph.positions(name), 2))
            pairs += [
                (i, j) for cause in graph.parents(name) for i in graph.positions(cause) for j in graph.positions(name)
            ]
        return tuple(pairs)

    @cached_property
    def tree_size(self) -> int:
        """How many pairs tie together all columns that pairs can."""
        left = list(range(len(self.sizes)))
        for i, j in self.candidates:
            left = [left[i] if part == left[j] else part for part in left]
        return len(self.sizes) - len(set(left))

    @cached_property
    def beyond(self) -> tuple[tuple[int, int], ...]:
        """The candidates that may be measured beyond the tree: those of a target, or all where none is named."""
        targets = {self.graph.schema.position(name) for name in self.config.targets}
        return tuple(pair for pair in self.candidates if not targets or targets & set(pair))

    @cached_property
    def further(self) -> int:
        """How many pairs are measured beyond the tree, at most."""
        in_tree = 0 if self.config.targets else self.tree_size  # how many of a target's pairs it takes is not known
        return max(0, min(self._wanted, len(self.beyond) - in_tree))

    @property
    def _wanted(self) -> int:
        return round(self.config.further * len(self.sizes))

    @property
    def measures_all(self) -> bool:
        """Whether each pair of a target is measured, so that nothing is spent on choosing among them."""
        return bool(self.config.targets) and len(self.beyond) <= self._wanted

    @cached_property
    def stages(self) -> dict[str, float]:
        """The budget's share of each stage."""
        by_name = {"single": _SINGLE}
        if self.tree_size:
            by_name |= {"tree": _TREE, "pairs": _PAIRS}
        if self.further:
            all_ = self.measures_all
            by_name |= {"more": _FURTHER + _MORE} if all_ else {"further": _FURTHER, "more": _MORE}
        if self.config.two_stages and self.tree_size:  # a fixed share comes first, and may be all that is spent
            rest = sum(by_name.values()) - _SINGLE
            return {
                stage: share if stage == "single" else share * (1 - _SINGLE) / rest for stage, share in by_name.items()
            }
        whole = sum(by_name.values())
        return {stage: share / whole for stage, share in by_name.items()}

    def selection(self, stage: str) -> Selection | None:
        """Return one private choice of a stage; None without privacy."""
        times = self.tree_size if stage == "tree" else self.further
        return None if math.isinf(self.mu) else Selection.of_mu(self.mu * math.sqrt(self.stages[stage] / times))

    def scale(self, stage: str) -> float:
        """Return the scale of the noise on scores that one record changes by at most :attr:`changes`."""
        one = self.selection(stage)
        return 1.0 if one is None else 2 * self.changes / one.epsilon

    def single_shares(self) -> tuple[float, ...]:
        """Return the budget's share of each column's own counts."""
        whole = self.first_share if self.config.two_stages else self.stages["single"]
        return tuple(whole * share for share in _in_proportion([cells.count for cells in self.cells]))

    def pair_shares(self, stage: str, pairs: Sequence[tuple[int, int]]) -> tuple[float, ...]:
        """Return the budget's share of each pair of a stage."""
        return tuple(self.stages[stage] * share for share in _in_proportion([self._cells(pair) for pair in pairs]))

    def expected_noise(self, stage: str, pair: tuple[int, int]) -> float:
        """Return how many records the noise on a pair's counts is expected to move: what a pair has to be worth."""
        times = self.tree_size if stage == "pairs" else self.further
        return _MEAN_OF_NORMAL * self.sd(self.stages[stage] / times) * self._cells(pair)

    # -- what is claimed ----------------------------------------------------------------------------------------------

    @property
    def mechanism(self) -> Mechanism | None:
        """Everything as an accountant sees it; None without privacy.

        Tables with noise of their own are one Gaussian mechanism: of all counts, each over its noise.
        """
        return self._mechanism()

    def _mechanism(self, *, after_first: bool = False) -> Mechanism | None:
        if math.isinf(self.mu):
            return None
        spent = self.first_share if after_first else 0.0
        if not self.chooses:
            return GaussianNoise(1 / (self.mu * math.sqrt(1 - spent)))
        counted = sum(self.stages[stage] for stage in ("single", "pairs", "more") if stage in self.stages) - spent
        if not self.tree_size and after_first:
            return None
        parts: list[Mechanism] = [GaussianNoise(1 / (self.mu * math.sqrt(counted)))]
        for stage, times in (("tree", self.tree_size), ("further", self.further)):
            one = self.selection(stage) if stage in self.stages else None
            parts += [] if one is None else [Repeated(one, times)]
        return Composed(tuple(parts))

    def check(self) -> None:
        """Refuse what would leave nothing but noise, or cannot be measured, before any budget is spent."""
        if self.config.targets and not self.chooses:
            hint = "leave targets out, or edges: a full graph states which pairs are measured"
            raise InputError("targets", "none with a full graph", ", ".join(self.config.targets)[:60], hint)
        singles = self.chooses or self.config.two_stages
        shares = self.single_shares() if singles else [self.shares[self._first(j)] for j in range(len(self.sizes))]
        moved = [
            0.5 * _MEAN_OF_NORMAL * self.sd(share) * size * math.sqrt(cells) / self.records
            for share, size, cells in zip(shares, *self._counted(), strict=True)
        ]
        if self.privacy is not None and float(np.median(moved)) > _NOTHING_LEFT:
            received = f"{self.privacy.records:,} records of {len(self.sizes)} columns"
            if self.privacy.epsilon is not None:
                received = f"{self.privacy.epsilon:g} for {received}"
            allowed = "one that leaves more than noise: half of a column's records at most moved by it"
            hint = "nothing was spent; take a larger epsilon, fewer columns or levels, or more records"
            raise InputError("privacy.epsilon", allowed, received, hint)

    def _first(self, column: int) -> int:
        return next(k for k, columns in enumerate(self.along) if columns[-1] == column)

    def _counted(self) -> tuple[list[int], list[float]]:
        """How many levels each column has where it is counted, and how many cells add up to one of them."""
        sizes = list(self.sizes)
        if self.config.two_stages:
            cells = [cells.count for cells in self.cells]
            few = [min(size, self.config.bins or MERGED) for size in cells]
            return few, [size / level for size, level in zip(cells, few, strict=True)]
        if self.chooses:
            return sizes, [1.0] * len(sizes)
        return sizes, [self._cells(self.along[self._first(j)]) / size for j, size in enumerate(sizes)]


def _in_proportion(sizes: Sequence[int]) -> tuple[float, ...]:
    weights = [size**_POWER for size in sizes]
    whole = sum(weights)
    return tuple(weight / whole for weight in weights)

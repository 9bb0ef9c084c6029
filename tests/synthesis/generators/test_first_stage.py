"""The first of two stages: its noise by the formula and by simulation, its privacy by neighbours, its composition."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy import stats

from miaudit.dp.accounting import upper_bound
from miaudit.dp.mechanism import Composed, GaussianNoise
from miaudit.errors import InputError
from miaudit.synthesis.generators import first_stage, private_choice, tables_generator
from miaudit.synthesis.generators.count_noise import RepeatableNoise
from miaudit.synthesis.generators.first_stage import FirstStage, counted
from miaudit.synthesis.generators.generator import Generator
from miaudit.synthesis.generators.generator_config import Privacy
from miaudit.synthesis.generators.noisy_tables import NoisyTable, consistent, places
from miaudit.synthesis.generators.private_tables import over
from miaudit.synthesis.generators.tables_config import TablesConfig
from miaudit.synthesis.generators.tables_generator import fit_tables
from miaudit.synthesis.generators.tables_plan import TablesPlan
from miaudit.synthesis.graph import CausalGraph
from miaudit.synthesis.schema import Column, Schema, Table

SCHEMA = Schema(
    (
        Column("age", "continuous", low=0, high=100, decimals=0),
        Column("gain", "continuous", low=0, high=100_000, decimals=0),
        Column("sex", "categorical", categories=("f", "m")),
        Column("job", "categorical", categories=tuple("abcdefgh"), missing=True),
        Column("rich"),
    )
)
CHAIN = CausalGraph(SCHEMA, None, [("age", "rich"), ("sex", "rich"), ("job", "gain"), ("rich", "gain")])
GRAPHS = {"no graph": None, "a graph": CHAIN}


def people(n: int, rng: np.random.Generator) -> Table:
    """Skewed records, with a spike, a tail and dependence: no law of the method's own form."""
    age = np.clip(np.rint(18 + rng.gamma(2.5, 9, n)), 0, 100)
    rich = rng.random(n) < 1 / (1 + np.exp(-(age - 45) / 8))
    gain = np.where(rng.random(n) < 0.1 + 0.3 * rich, np.clip(np.rint(rng.lognormal(8, 1, n)), 1, 100_000), 0)
    job = np.minimum(rng.geometric(0.4, n) - 1 + rich, 7).astype(float)
    job[rng.random(n) < 0.05] = np.nan
    return Table(SCHEMA, np.column_stack([age, gain, rng.integers(0, 2, n), job, rich]))


def planned(graph: CausalGraph | None = None, *, records: int = 2_000, **privacy: Any) -> TablesPlan:
    wanted = Privacy(records=records, **({"epsilon": 1.0, "delta": 1e-5} | privacy))
    return TablesPlan(over(SCHEMA, graph), TablesConfig(two_stages=True), wanted, records)


@pytest.mark.parametrize("changes", [1, 2])
def test_the_noise_of_each_column_is_what_the_formula_says(changes: int) -> None:
    """sd_j = sqrt(c) / (mu sqrt(p w_j)), w_j in proportion to the cube root of cells (statistics, section 17)."""
    plan = planned(neighbours="add-or-remove" if changes == 1 else "replace-one")
    assert plan.privacy is not None
    mu, cells = 1 / plan.privacy.relative_noise, np.array([101, 44, 2, 9, 2])
    assert [own.count for own in plan.cells] == cells.tolist()
    weights = np.cbrt(cells) / np.cbrt(cells).sum()
    wanted = math.sqrt(changes) / (mu * np.sqrt(0.15 * weights))
    stated = [plan.sd(share) for share in plan.single_shares()]
    assert stated == pytest.approx(wanted, rel=1e-6)
    rng = np.random.default_rng(0)
    table = people(500, rng)
    exact = counted(table, plan.cells, [0.0] * 5, RepeatableNoise(rng)).counts
    assert [counts.sum() for counts in exact] == [500] * 5
    off: list[list[float]] = [[] for _ in cells]
    for _ in range(60):
        noisy = counted(table, plan.cells, stated, RepeatableNoise(rng)).counts
        for column in range(len(cells)):
            off[column] += (noisy[column] - exact[column]).tolist()
    for own, sd in zip(off, wanted, strict=True):
        squares, size = float(np.square(own).sum()), len(own)
        variance = sd**2 + 1 / 12  # rounded to whole numbers
        fits = [stats.chi2.cdf(squares / (scale**2 * variance), size) for scale in (1, 2 / 3, 3 / 2)]
        assert 1e-3 < fits[0] < 1 - 1e-3
        assert fits[1] > 1 - 1e-6 and fits[2] < 1e-6  # controls: noise of another scale


@pytest.mark.parametrize("graph", GRAPHS.values(), ids=GRAPHS)
@pytest.mark.parametrize("epsilon", [0.3, 1.0, 3.9])
def test_both_stages_compose_exactly_to_what_is_claimed(epsilon: float, graph: CausalGraph | None) -> None:
    plan = planned(graph, epsilon=epsilon)
    first, second = plan.first_mechanism, plan.second_mechanism
    assert first is not None and second is not None and plan.mechanism is not None
    assert first == GaussianNoise(1 / (plan.mu * math.sqrt(0.15)))
    whole = upper_bound(plan.mechanism, delta=1e-5).value
    parts = upper_bound(Composed((first, second)), delta=1e-5).value
    assert parts == pytest.approx(whole, rel=1e-6) and max(parts, whole) <= epsilon
    assert whole == pytest.approx(epsilon, rel=1e-4)
    alone = upper_bound(first, delta=1e-5).value
    assert alone == pytest.approx(upper_bound(GaussianNoise(1 / (0.15**0.5 * plan.mu)), delta=1e-5).value)
    assert alone < epsilon / 2


def test_one_column_has_no_second_stage_to_keep_anything_for() -> None:
    schema = Schema((Column("a"),))
    plan = TablesPlan(over(schema, None), TablesConfig(two_stages=True), Privacy(records=500, epsilon=1.0), 500)
    assert plan.second_mechanism is None and plan.first_share == 1
    assert plan.first_mechanism is not None and plan.mechanism == Composed((plan.first_mechanism,))


# -- what neighbours see ---------------------------------------------------------------------------------------------


class Witness:
    """Records what a release of one table counts and scores; of a second table, with every answer of the first."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, rng: np.random.Generator) -> None:
        self.noise, self.answers, self.true, self.scores = RepeatableNoise(rng), [], [], []
        self.tables: list[NoisyTable] = []
        self.replayed = False
        for module in (first_stage, private_choice, tables_generator):
            monkeypatch.setattr(module, "measured", self.measured)
        monkeypatch.setattr(tables_generator, "RepeatableNoise", lambda _: self)

    def measured(self, codes: Any, columns: Sequence[int], sizes: Sequence[int], sd: float, _: Any) -> NoisyTable:
        shape = [sizes[column] for column in columns]
        counts = np.bincount(places(codes, columns, sizes), minlength=math.prod(shape)).astype(float)
        self.true.append((counts, sd))
        if not self.replayed:
            noisy = (counts + self.noise.normal(len(counts), sd)).reshape(shape)
            self.tables.append(NoisyTable(tuple(columns), noisy, sd))
        return self.tables[len(self.true) - 1]

    def choose(self, scores: Sequence[float], scale: float) -> int:
        self.scores.append((np.array(scores), scale))
        if not self.replayed:
            self.answers.append(self.noise.choose(scores, scale))
        return int(self.answers[len(self.scores) - 1])

    def again(self) -> tuple[list[Any], list[Any]]:
        seen = self.true, self.scores
        self.true, self.scores, self.replayed = [], [], True
        return seen


@pytest.mark.parametrize("neighbours", ["add-or-remove", "replace-one"])
@pytest.mark.parametrize("graph", GRAPHS.values(), ids=GRAPHS)
def test_neighbours_move_the_whole_release_by_mu_and_no_more(
    neighbours: str, graph: CausalGraph | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The accountant's mu beside the one that follows from what a neighbour's counts and scores really move."""
    rng = np.random.default_rng(3)
    plan = planned(graph, neighbours=neighbours)
    table = people(2_000, rng)
    other = people(1, rng).values.copy()
    other[0, [0, 1, 2, 4]] = (table.values[-1, [0, 1, 2, 4]] + [30, 777, 1, 1]) % [101, 100_001, 2, 2]  # all differ
    other[0, 3] = 7.0 if table.values[-1, 3] != 7.0 else 0.0
    rows = table.values[:-1] if plan.changes == 1 else np.vstack([table.values[:-1], other])
    witness = Witness(monkeypatch, rng)
    fit_tables(table, plan, rng=np.random.default_rng(4), repeatable=True)
    counts, scores = witness.again()
    fit_tables(Table(SCHEMA, rows), plan, rng=np.random.default_rng(4), repeatable=True)
    squares = 0.0
    assert len(counts) == len(witness.true) and len(counts) > 5 and len(scores) == len(witness.scores)
    for (own, sd), (neighbour, same) in zip(counts, witness.true, strict=True):
        moved = float(np.square(own - neighbour).sum())
        assert sd == same and moved <= plan.changes
        squares += moved / sd**2
    for (one, scale), (two, same) in zip(scores, witness.scores, strict=True):
        assert scale == same and np.abs(one - two).max() <= plan.changes + 1e-9  # one record, and what it replaces
    chosen = [] if graph is not None else [("tree", plan.tree_size), ("further", plan.further)]
    for stage, times in chosen:
        selection = plan.selection(stage)
        assert selection is not None
        squares += times * selection.mu**2
        assert plan.scale(stage) == pytest.approx(2 * plan.changes / selection.epsilon)
    # in the first stage every column moves; merged levels may hide a change from a later table
    first = sum(
        float(np.square(a - b).sum()) / sd**2 for (a, sd), (b, _) in zip(counts[:5], witness.true[:5], strict=True)
    )
    assert math.sqrt(first) == pytest.approx(math.sqrt(0.15) * plan.mu, rel=1e-9)
    assert math.sqrt(squares) <= plan.mu * (1 + 1e-9)
    assert math.sqrt(squares) > 0.6 * plan.mu
    wrong = replace(plan, privacy=replace(plan.privacy, epsilon=0.5))  # type: ignore[type-var]
    assert math.sqrt(squares) > wrong.mu  # the control: half of the epsilon would be a lie


@pytest.mark.parametrize("graph", GRAPHS.values(), ids=GRAPHS)
def test_the_length_of_the_table_decides_nothing(graph: CausalGraph | None, monkeypatch: pytest.MonkeyPatch) -> None:
    plan, table = planned(graph), people(900, np.random.default_rng(0))

    def refused(_: object) -> int:
        raise AssertionError("the private length was looked at")

    monkeypatch.setattr(Table, "__len__", refused)
    made = fit_tables(table, plan, rng=np.random.default_rng(1), repeatable=True)
    monkeypatch.undo()
    assert len(made.sample(50, rng=np.random.default_rng(2))) == 50


# -- what follows ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("graph", GRAPHS.values(), ids=GRAPHS)
def test_two_stages_keep_a_spike_a_tail_and_dependence_that_equal_bins_lose(graph: CausalGraph | None) -> None:
    rng = np.random.default_rng(5)
    table, truth = people(4_000, rng), people(20_000, rng)
    wanted = Privacy(records=4_000, epsilon=1.0, delta=1e-5)
    off = {}
    for staged in (True, False):
        plan = TablesPlan(over(SCHEMA, graph), TablesConfig(two_stages=staged), wanted, 4_000)
        made = fit_tables(table, plan, rng=np.random.default_rng(6), repeatable=True).sample(20_000, rng=rng)
        zero = [np.mean(one.column("gain") == 0) for one in (made, truth)]
        tail = [np.mean(one.column("gain") > 3_000) for one in (made, truth)]
        joint = [np.mean((one.column("gain") > 0) & (one.column("rich") == 1)) for one in (made, truth)]
        off[staged] = [abs(a - b) for a, b in (zero, tail, joint)]
    assert max(off[True]) < 0.03 and off[False][0] > 0.5


def test_a_generator_of_two_stages_is_stored_and_read_again(tmp_path: Any) -> None:
    made = fit_tables(people(900, np.random.default_rng(0)), planned(), rng=np.random.default_rng(1), repeatable=True)
    made.save(tmp_path / "g.npz")
    again = Generator.load(tmp_path / "g.npz")
    one, two = (g.sample(200, rng=np.random.default_rng(2)).values for g in (made, again))
    assert np.array_equal(one, two, equal_nan=True)
    assert again.mechanism == made.mechanism and dict(again.facts) == dict(made.facts) and made.facts["stages"] == 2


def test_counts_that_do_not_fit_are_refused() -> None:
    first = FirstStage((np.zeros(3), np.zeros(2)), (1.0, 1.0))
    first.check([3, 2])
    for wrong in ([3, 3], [3], [3, 2, 1]):
        with pytest.raises(InputError, match="counts of each column's cells"):
            first.check(wrong)
    with pytest.raises(InputError):
        FirstStage((np.array([1.0, np.nan]),), (1.0,)).check([2])
    same = FirstStage.from_mapping(first.to_mapping())
    assert [own.tolist() for own in same.counts] == [[0, 0, 0], [0, 0]] and same.sds == first.sds


def test_merged_counts_agree_with_pairs_by_their_precision() -> None:
    """Least squares with a level of nine cells, given their total, by the bordered normal equations."""
    single = NoisyTable((0,), np.array([40.0, 70.0]), 2.0, np.array([1.0, 9.0]))
    pair = NoisyTable((0, 1), np.array([[20.0, 24.0], [30.0, 30.0]]), 3.0)
    _, margins = consistent([single, pair])
    assert margins[0].sum() == pytest.approx(margins[1].sum())
    variances = np.array([[4.0, 36.0], [18.0, 18.0]])  # of each table's counts of the first column
    readings = np.array([single.counts, pair.counts.sum(axis=1)])
    design, weights = np.tile(np.eye(2), (2, 1)), 1 / variances.ravel()
    total = np.average([110, 104], weights=[1 / 40, 1 / 36])  # 2^2 x 10 cells, and 3^2 x 4
    bordered = np.block([[design.T * weights @ design, np.ones((2, 1))], [np.ones((1, 2)), np.zeros((1, 1))]])
    solved = np.linalg.solve(bordered, np.append(design.T * weights @ readings.ravel(), total))[:2]
    assert margins[0] == pytest.approx(solved, abs=1e-9)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"edges": {"age": [30]}}, "edges: expected none in two stages, received those of age; leave edges out"),
        ({"combine": False}, "combine: expected true in two stages, received false"),
        ({"most_off": 0}, "most_off: expected a number in"),
    ],
)
def test_options_that_do_not_go_with_two_stages_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        TablesConfig(two_stages=True, **options)

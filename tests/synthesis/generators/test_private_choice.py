"""Private choice of pairs: the tree of a world is found, and one record changes scores by no more than is paid for."""

from __future__ import annotations

import numpy as np
import pytest

from miaudit.dp.accounting import upper_bound
from miaudit.errors import InputError
from miaudit.synthesis.generators import private_choice
from miaudit.synthesis.generators.count_noise import NoNoise, RepeatableNoise
from miaudit.synthesis.generators.generator_config import Privacy
from miaudit.synthesis.generators.levels import Codes
from miaudit.synthesis.generators.noisy_tables import measured
from miaudit.synthesis.generators.private_choice import chosen
from miaudit.synthesis.generators.tables_config import TablesConfig
from miaudit.synthesis.generators.tables_plan import TablesPlan
from miaudit.synthesis.graph import CausalGraph
from miaudit.synthesis.schema import Column, Schema

NAMES = ("a", "b", "c", "d", "noise")
SCHEMA = Schema(tuple(Column(name) for name in NAMES))
NO_GRAPH = CausalGraph(SCHEMA, {"columns": NAMES})


def chain(n: int, seed: int = 0) -> Codes:
    """a -> b -> c -> d, each as its cause in nine of ten records, and a column for itself."""
    rng = np.random.default_rng(seed)
    columns = [rng.random(n) < 0.5]
    for _ in range(3):
        columns.append(np.where(rng.random(n) < 0.9, columns[-1], ~columns[-1]))
    return np.stack([*columns, rng.random(n) < 0.5], axis=1).astype(np.int32)


def plan(epsilon: float | None, **options: float) -> TablesPlan:
    privacy = None if epsilon is None else Privacy(records=2_000, epsilon=epsilon)
    return TablesPlan(NO_GRAPH, TablesConfig(**options), privacy, 2_000)  # type: ignore[arg-type]


@pytest.mark.parametrize("epsilon", [None, 2.0])
def test_the_tree_of_a_chain_is_the_chain(epsilon: float | None) -> None:
    found = plan(epsilon, further=0.0)
    noise = NoNoise() if epsilon is None else RepeatableNoise(np.random.default_rng(0))
    records = chain(2_000)
    tables = [measured(records, (i,), found.sizes, found.sd(s), noise) for i, s in enumerate(found.single_shares())]
    pairs = private_choice._tree(records, tables, found, noise)
    assert {(0, 1), (1, 2), (2, 3)} <= set(pairs) and len(pairs) == 4
    laws = private_choice.chosen(records, found, noise, np.random.default_rng(0))
    assert sorted(law.column for law in laws) == [0, 1, 2, 3, 4]
    seen: set[int] = set()
    for law in laws:
        assert {i for own in law.sets for i in own} <= seen  # causes are drawn first
        seen.add(law.column)


def test_further_pairs_are_those_that_a_tree_gets_wrong() -> None:
    """d depends on a and c; a tree holds one of the two ways, and the pair beyond it is the other."""
    rng = np.random.default_rng(0)
    a, c, b, e = (rng.random(4_000) < 0.5 for _ in range(4))
    d = np.where(rng.random(4_000) < 0.5, a, c)
    records = np.stack([a, b, c, d, e], axis=1).astype(np.int32)
    found = plan(None, further=0.2)
    laws = private_choice.chosen(records, found, NoNoise(), rng)
    pairs = {frozenset((i, law.column)) for law in laws for own in law.sets for i in own}
    assert {frozenset((0, 3)), frozenset((2, 3))} <= pairs


def test_choices_are_those_of_a_list_that_is_made_anew_each_time() -> None:
    """A slow twin, in which each choice looks through all candidates; the same noise then falls on the same pairs."""
    records, found = chain(400), plan(0.5, further=0.8)
    synthetic = chain(700, seed=5)
    known, total = [(0, 1)], 400.0

    def counts(codes: Codes, pair: tuple[int, int]) -> np.ndarray:
        return np.histogram2d(codes[:, pair[0]], codes[:, pair[1]], bins=2, range=((0, 1), (0, 1)))[0].ravel()

    worth = {
        pair: float(np.abs(counts(records, pair) - total / 700 * counts(synthetic, pair)).sum())
        - found.expected_noise("more", pair)
        for pair in found.beyond
        if pair not in known
    }
    for seed in range(20):
        noise, expected = RepeatableNoise(np.random.default_rng(seed)), list[tuple[int, int]]()
        for _ in range(found.further):
            left = [pair for pair in worth if pair not in expected]
            expected.append(left[noise.choose([worth[pair] for pair in left], found.scale("further"))])
        fast = private_choice._worst(
            records, synthetic, known, total, found, RepeatableNoise(np.random.default_rng(seed))
        )
        assert fast == expected and len(set(fast)) == found.further > 2


def test_one_record_changes_a_score_by_at_most_what_its_noise_is_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """The sensitivity on which the privacy of a choice rests, for both kinds of neighbours."""
    records, found = chain(60), plan(1.0)
    tables = [measured(records, (i,), found.sizes, 5.0, RepeatableNoise(np.random.default_rng(0))) for i in range(5)]
    drawn = chain(90, seed=3)

    def scores(given: Codes) -> np.ndarray:
        told: list[list[float]] = []

        class Watching(NoNoise):
            def choose(self, scores: list[float], scale: float) -> int:
                told.append(list(scores))
                return 0

        private_choice._tree(given, tables, found, Watching())
        private_choice._worst(given, drawn, [(0, 1)], 60.0, found, Watching())
        return np.concatenate([np.asarray(one) for one in told])

    whole = scores(records)
    for i in range(0, 60, 7):
        without = scores(np.delete(records, i, axis=0))
        assert np.abs(whole - without).max() <= 1 + 1e-9
        other = records.copy()
        other[i] = 1 - other[i]
        assert 1 < np.abs(whole - scores(other)).max() <= 2 + 1e-9
    assert found.changes == 1 and found.scale("tree") == 2 / found.selection("tree").epsilon  # type: ignore[union-attr]
    twice = TablesPlan(NO_GRAPH, TablesConfig(), Privacy(records=60, epsilon=1.0, neighbours="replace-one"), 60)
    assert twice.scale("tree") == 4 / twice.selection("tree").epsilon  # type: ignore[union-attr]


def test_columns_that_nothing_ties_together_are_drawn_alone() -> None:
    graph = CausalGraph(SCHEMA, {"x": ["a", "b"], "y": ["c"], "z": ["d"], "u": ["noise"]}, [("y", "z")], ["x", "u"])
    found = TablesPlan(graph, TablesConfig(), None, 500)
    laws = private_choice.chosen(chain(500), found, NoNoise(), np.random.default_rng(0))
    parents = {law.column: {i for own in law.sets for i in own} for law in laws}
    assert parents[4] == set() and parents[2] == set() and parents[3] == {2} and {0, 1} >= parents[0] | parents[1]


def test_targets_get_every_pair_beyond_the_tree_and_nothing_is_spent_on_choosing_among_them() -> None:
    rng, names = np.random.default_rng(0), tuple("abcdefgh")
    schema = Schema(tuple(Column(name) for name in names))
    graph = CausalGraph(schema, {"columns": names})
    first = rng.integers(0, 2, (4_000, 7))
    weak = (rng.random(4_000) < 0.2 + 0.6 * first.mean(axis=1)).astype(int)  # a little of each column
    records = np.column_stack([first, weak])
    privacy = Privacy(records=4_000, epsilon=2.0, delta=1e-5)
    learned = {}
    for targets in ((), ("h",)):
        found = TablesPlan(graph, TablesConfig(targets=targets), privacy, 4_000)
        laws = chosen(records.astype(np.int32), found, RepeatableNoise(np.random.default_rng(1)), rng)
        pairs = {frozenset((law.column, *own)) for law in laws for own in law.sets if own}
        learned[targets] = sum(7 in pair for pair in pairs)
        assert found.further == (7 if targets else 8) and found.measures_all == bool(targets)
        assert ("further" in found.stages) != bool(targets)
        bound = upper_bound(found.mechanism, delta=1e-5).value  # type: ignore[arg-type]
        assert bound == pytest.approx(2.0, rel=1e-4) and bound <= 2.0
        spent = sum(found.sd(share) ** -2 for share in found.single_shares())
        spent += sum(found.sd(share) ** -2 for share in found.pair_shares("pairs", found.candidates[:7]))
        spent += sum(found.sd(share) ** -2 for share in found.pair_shares("more", found.beyond[: found.further]))
        for stage, times in (("tree", 7), ("further", found.further)):
            one = found.selection(stage) if stage in found.stages else None
            spent += 0 if one is None else times * one.mu**2
        assert np.sqrt(spent) == pytest.approx(found.mu)
    assert learned[("h",)] == 7 and learned[()] <= 7


def test_more_pairs_of_targets_than_may_be_measured_are_chosen_among() -> None:
    names = tuple("abcdefgh")
    graph = CausalGraph(Schema(tuple(Column(name) for name in names)), {"columns": names})
    found = TablesPlan(graph, TablesConfig(targets=("a", "h")), Privacy(records=500, epsilon=1.0), 500)
    assert len(found.beyond) == 13 and found.further == 8 and not found.measures_all and "further" in found.stages
    assert all({0, 7} & set(pair) for pair in found.beyond)
    for targets, message in ((("z",), "columns of the schema, received 'z'"), ("a", "a list of names")):
        with pytest.raises(InputError, match=message):
            _ = TablesPlan(graph, TablesConfig(targets=targets), None, 500).levels  # type: ignore[arg-type]
    full = TablesPlan(
        CausalGraph(graph.schema, None, [("a", "b")], list("cdefgh")), TablesConfig(targets=("a",)), None, 9
    )
    with pytest.raises(InputError, match="targets: expected none with a full graph, received a"):
        full.check()

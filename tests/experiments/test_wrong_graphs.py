"""Graphs that are wrong in stated ways, what they cost by two truths, and the experiment's runs and tables."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from miaudit.synthesis import CausalGraph, Column, Schema, Table, TablesConfig, chow_liu
from miaudit.synthesis.generators.tables_generator import fit_tables
from miaudit.synthesis.generators.tables_plan import TablesPlan
from miaudit.synthesis.worlds import synthetic22

FOLDER = str(Path(__file__).parents[2] / "experiments" / "causal_synthesis")
WORLD = synthetic22()


@pytest.fixture(scope="module")
def wrong() -> Iterator[Any]:
    sys.path.insert(0, FOLDER)
    try:
        import wrong_graphs

        yield wrong_graphs
    finally:
        sys.path.remove(FOLDER)


def undirected(graph: CausalGraph) -> set[frozenset[str]]:
    return set(map(frozenset, graph.edges))


@pytest.mark.parametrize("seed", range(5))
def test_edits_keep_graphs_without_cycles_and_change_as_many_edges_as_they_say(wrong: Any, seed: int) -> None:
    true, start = WORLD.graph, [19, seed]
    for count in (1, 2, 4):
        turned = wrong.turned(true, count, np.random.default_rng(start))  # a cycle would be refused
        assert undirected(turned) == undirected(true) and len(set(true.edges) - set(turned.edges)) == count
        less = wrong.without(true, count, np.random.default_rng(start))
        assert set(less.edges) < set(true.edges) and len(less.edges) == len(true.edges) - count
        more = wrong.with_added(true, count, np.random.default_rng(start))
        assert set(more.edges) > set(true.edges) and len(undirected(more)) == len(true.edges) + count
    few, many = (wrong.turned(true, count, np.random.default_rng(start)) for count in (1, 4))
    assert set(true.edges) - set(few.edges) < set(true.edges) - set(many.edges)


def test_an_edge_that_a_path_bypasses_is_not_turned(wrong: Any) -> None:
    graph = CausalGraph(Schema(tuple(map(Column, "abc"))), None, [("a", "b"), ("b", "c"), ("a", "c")])
    for seed in range(20):
        assert ("a", "c") in wrong.turned(graph, 1, np.random.default_rng(seed)).edges
    with pytest.raises(ValueError, match="2 of 3 edges"):
        wrong.turned(CausalGraph(graph.schema, None, [("a", "b"), ("b", "c")]), 3, np.random.default_rng(0))


def test_groups_hold_all_columns_and_no_edge_leads_back(wrong: Any) -> None:
    groups = wrong.thirds(WORLD.graph)
    place = {column: i for i, group in enumerate(groups.groups.values()) for column in group}
    assert len(place) == 22 and groups.generations == (("early",), ("later",), ("last",))
    assert all(place[cause] <= place[effect] for cause, effect in WORLD.graph.edges)


def generator(graph: CausalGraph, table: Table) -> Any:
    plan = TablesPlan(graph, TablesConfig(two_stages=True), None, len(table))
    return fit_tables(table, plan, rng=np.random.default_rng(1))


def test_without_any_arrow_columns_are_independent_and_with_the_true_ones_they_are_not(wrong: Any) -> None:
    table = WORLD.sample(2_000, rng=np.random.default_rng(0))
    graph = wrong.WAYS[wrong.INDEPENDENT](WORLD.graph, table, np.random.default_rng(0))
    assert not graph.edges and all(not any(law.sets) for law in generator(graph, table).laws)
    share = table.values.mean(axis=0)
    alone = (table.values * np.log(share) + (1 - table.values) * np.log1p(-share)).sum(axis=1)
    assert generator(graph, table).log_likelihood(table) == pytest.approx(alone, abs=0.01)
    assert np.abs(generator(WORLD.graph, table).log_likelihood(table) - alone).max() > 1


def test_the_log_probability_of_a_world_is_that_of_its_records(wrong: Any) -> None:
    own = Table(Schema(tuple(map(Column, ("R1", "R2", "R3", "M1")))), np.array(list(product((0, 1), repeat=4))))
    small = CausalGraph(own.schema, None, [("R2", "M1"), ("R3", "M1")], ["R1"])
    world = type(WORLD)("small", small, {name: WORLD.mechanisms[name] for name in own.schema.names})
    probability = np.exp(wrong.log_probability(world, own))
    assert probability.sum() == pytest.approx(1)
    drawn = world.sample(100_000, rng=np.random.default_rng(0)).values
    frequency = np.bincount((drawn @ [8, 4, 2, 1]).astype(int), minlength=16) / len(drawn)
    assert frequency == pytest.approx(probability, abs=0.006)


@pytest.mark.long
@pytest.mark.parametrize("kind", ["true", "turned", "removed", "none"])
def test_the_price_of_a_graph_is_what_a_generator_without_noise_loses(wrong: Any, kind: str) -> None:
    """Two truths: entropies of the world's columns, and log-probabilities under its mechanisms."""
    rng = np.random.default_rng(5)
    edits = {"true": WORLD.graph, "turned": wrong.turned(WORLD.graph, 4, rng), "none": WORLD.graph.with_edges([])}
    graph = edits | {"removed": wrong.without(WORLD.graph, 4, rng)}
    table, fresh = (WORLD.sample(n, rng=rng) for n in (20_000, 20_000))
    nats = float((wrong.log_probability(WORLD, fresh) - generator(graph[kind], table).log_likelihood(fresh)).mean())
    price = wrong.priced(WORLD, graph[kind])
    assert nats == pytest.approx(price, abs=0.03 * price + 0.006)
    assert (price < 1e-9) == (kind == "true")


def test_turning_an_arrow_costs_nothing_where_both_graphs_state_the_same_independences(wrong: Any) -> None:
    tree = chow_liu.tree(WORLD.sample(2_000, rng=np.random.default_rng(0)))
    first, other = tree.edges[0], next(edge for edge in tree.edges if edge[0] != tree.edges[0][0])
    price, *turned = (
        wrong.priced(WORLD, tree.with_edges([one[::-1] if one == edge else one for one in tree.edges]))
        for edge in (None, first, other)
    )
    assert turned[0] == pytest.approx(price, abs=1e-9)  # the same tree, drawn from another root
    assert turned[1] > price + 1e-4  # a column with two causes, which are now independent


@pytest.mark.long
def test_the_attack_finds_members_of_a_copied_table_and_none_of_a_fresh_one(wrong: Any) -> None:
    members, others, fresh = (WORLD.sample(400, rng=np.random.default_rng(seed)) for seed in range(3))
    copied, harmless = (wrong.attacked(made, members, others, np.random.default_rng(0)) for made in (members, fresh))
    assert copied > 0.9 and abs(harmless - 0.5) < 0.08


def test_runs_that_were_stopped_are_read_and_the_rest_is_wanted(wrong: Any, tmp_path: Path) -> None:
    path = tmp_path / "runs.jsonl"
    path.write_text('{"table": "acs", "seed": 0, "epsilon": null, "way": "w", "attack": 0.5}\n{"table": "acs", "se')
    (one,) = wrong.read(path)
    assert wrong.key_of(one) == ("acs", 0, math.inf, "w") and wrong.read(tmp_path / "none") == []
    ways = len(wrong.WAYS)
    assert len(list(wrong.wanted(["acs"], 2))) == 2 * (ways + len(wrong.CONTROLS))
    assert len(set(wrong.wanted(["adult"], None))) == 15 * ways + 5 * len(wrong.CONTROLS)


def test_the_tables_of_a_graph_join_its_arrows_and_no_other_pair(wrong: Any) -> None:
    table = WORLD.sample(2_000, rng=np.random.default_rng(0))
    pairs = np.zeros((22, 22))
    for cause, effect in WORLD.graph.edges[:10]:
        place = [WORLD.schema.position(name) for name in (cause, effect)]
        pairs[place, place[::-1]] = 1.0
    assert wrong.joined(generator(WORLD.graph, table), pairs) == 1
    assert wrong.joined(generator(WORLD.graph.with_edges(WORLD.graph.edges[5:]), table), pairs) == 0.5
    assert wrong.joined(generator(WORLD.graph.with_edges([]), table), pairs) == 0


def test_costs_are_paired_by_seed_and_the_page_has_a_row_for_each_way(wrong: Any) -> None:
    runs = [
        {"table": "adult", "seed": seed, "epsilon": 1.0, "way": way, "dependence": kept + 0.3 * seed, "attack": 0.5}
        for seed in range(2)
        for way, kept in ((wrong.EXPERT, 0.5), (wrong.INDEPENDENT, 0.1))
    ]
    assert wrong.cost(runs, "adult", 1.0, wrong.INDEPENDENT, "dependence") == pytest.approx([0.4, 0.4])
    rows = wrong.page(runs).splitlines()[2:]
    assert len(rows) == len(wrong.WAYS) + 2 and rows[0].startswith(f"| {wrong.EXPERT} | 0.65 (0.15) |")
    assert "0.40 (0.00)" in wrong.section(runs, "adult", 1.0)
    assert wrong.written([]).strip() == ""
    assert wrong.spread([0.1, 0.3], 3) == "0.200 (0.100)" and wrong.spread([]) == ""


@pytest.mark.long
def test_one_run_on_the_known_world_is_finished_once(
    wrong: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wrong, "FORM", {"synthetic22": {1.0: 1}})
    monkeypatch.setattr(wrong, "WAYS", {way: wrong.WAYS[way] for way in (wrong.EXPERT, wrong.INDEPENDENT)})
    runs = wrong.finished(tmp_path / "runs.jsonl", ["synthetic22"], None)
    true, none, _, copied, _ = runs
    assert true["dependence"] > 0.6 > 0.2 > none["dependence"] and true["interventions"] > 0.5
    assert true["nats"] < 0.5 < 1.5 < none["nats"] and copied["attack"] > 0.7 > true["attack"]
    monkeypatch.setattr(wrong, "run", None)  # would fail if anything were made again
    assert wrong.finished(tmp_path / "runs.jsonl", ["synthetic22"], None) == runs

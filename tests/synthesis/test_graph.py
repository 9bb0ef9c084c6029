"""Causal graphs: orders, files in and out, and every bad graph refused with its path."""

from __future__ import annotations

import pickle
from itertools import pairwise
from pathlib import Path

import pytest

from miaudit.errors import InputError
from miaudit.synthesis.graph import CausalGraph
from miaudit.synthesis.schema import Column, Schema

networkx = pytest.importorskip("networkx")

SCHEMA = Schema(tuple(Column(name) for name in "abcdef"))
EDGES = [("a", "c"), ("b", "c"), ("c", "d"), ("a", "d"), ("d", "e")]


def full() -> CausalGraph:
    return CausalGraph(SCHEMA, None, EDGES, isolated=["f"])


def partial() -> CausalGraph:
    return CausalGraph(SCHEMA, {"x2": ["d", "e", "f"], "x1": ["a", "b", "c"]}, [("x1", "x2")])


def test_orders_agree_with_networkx() -> None:
    graph = full()
    assert [set(level) for level in graph.generations] == [
        set(level) for level in networkx.topological_generations(graph.to_networkx())
    ]
    place = {name: i for i, name in enumerate(graph.order)}
    assert all(place[cause] < place[effect] for cause, effect in EDGES)
    assert graph.parents("d") == ("c", "a") and graph.full and not partial().full
    assert partial().order == ("x1", "x2") and partial().positions("x2") == (3, 4, 5)
    assert "e" in partial().groups["x2"]


@pytest.mark.parametrize("graph", [full(), partial()])
def test_graphs_survive_mapping_pickle_networkx_and_gml(graph: CausalGraph, tmp_path: Path) -> None:
    assert CausalGraph.from_mapping(graph.to_mapping()) == graph
    assert pickle.loads(pickle.dumps(graph)) == graph and hash(pickle.loads(pickle.dumps(graph))) == hash(graph)
    assert set(CausalGraph.from_networkx(graph.to_networkx(), SCHEMA, graph.groups).edges) == set(graph.edges)
    networkx.write_gml(networkx.DiGraph(graph.to_networkx().edges), tmp_path / "graph.gml")
    loaded = networkx.read_gml(tmp_path / "graph.gml")
    loaded.add_nodes_from(graph.isolated)
    networkx.write_gml(loaded, tmp_path / "graph.gml")
    assert set(CausalGraph.from_gml(tmp_path / "graph.gml", SCHEMA, graph.groups).edges) == set(graph.edges)


def test_yaml_holds_schema_groups_and_edges(tmp_path: Path) -> None:
    path = tmp_path / "graph.yaml"
    path.write_text(
        "columns:\n- {names: [a, b, c, d, e, f]}\nedges: [[a, c], [b, c], [c, d], [a, d], [d, e]]\nisolated: [f]\n"
    )
    assert CausalGraph.from_yaml(path) == full()
    path.write_text("columns: [")
    with pytest.raises(InputError, match="a YAML file"):
        CausalGraph.from_yaml(path)


@pytest.mark.parametrize("extra", [("e", "a"), ("d", "c"), ("c", "c"), ("e", "b")])
def test_a_cycle_is_refused_with_its_path(extra: tuple[str, str]) -> None:
    with pytest.raises(InputError) as caught:
        CausalGraph(SCHEMA, None, [*EDGES, extra], isolated=["f"])
    path = caught.value.received.split(" -> ")
    assert path[0] == path[-1] and len(set(path)) == len(path) - 1
    assert set(pairwise(path)) <= {*EDGES, extra}


@pytest.mark.long
def test_a_long_chain_needs_no_recursion() -> None:
    names = [f"x{i}" for i in range(3000)]
    schema = Schema(tuple(Column(name) for name in names))
    chain = list(pairwise(names))
    assert CausalGraph(schema, None, chain).order == tuple(names)
    with pytest.raises(InputError, match="cycle"):
        CausalGraph(schema, None, [*chain, (names[-1], names[0])])


@pytest.mark.parametrize(
    ("groups", "edges", "message"),
    [
        (None, [("a", "g")], r"edges \(a -> g\): expected groups of the graph, received 'g'"),
        (None, [("a", "b"), ("a", "b")], "a -> b twice"),
        (None, [("a", "b", "c")], r"pairs \[cause, effect\]"),
        (None, ["ab"], r"pairs \[cause, effect\]"),
        (None, EDGES, "none for f"),
        (None, [("a", "b")], "none for c and 3 more"),
        ({"x": ["a", "b"], "y": ["c", "d", "e"]}, [("x", "y")], "a group for every column, received none for f"),
        ({"x": ["a", "b", "c"], "y": ["c", "d", "e", "f"]}, [("x", "y")], "c in x and y"),
        ({"x": ["a", "b", "k"], "y": ["c", "d", "e", "f"]}, [("x", "y")], "groups.x: expected columns of the schema"),
        ({"x": list("abcdef"), "y": []}, [("x", "y")], "give each group its columns"),
        ({}, [], "a mapping"),
    ],
)
def test_bad_graphs_are_refused(groups: object, edges: object, message: str) -> None:
    with pytest.raises(InputError, match=message):
        CausalGraph(SCHEMA, groups, edges)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("mapping", "message"),
    [
        ({"edges": []}, "neither"),
        ({"colums": []}, "did you mean columns"),
        ({"columns": [{"name": "a"}], "edges": "ab"}, "a list of pairs"),
        ([], "a mapping with columns"),
    ],
)
def test_bad_mappings_are_refused(mapping: object, message: str) -> None:
    with pytest.raises(InputError, match=message):
        CausalGraph.from_mapping(mapping)


def test_nodes_of_networkx_must_be_columns_and_directed() -> None:
    with pytest.raises(InputError, match="nodes named as columns"):
        CausalGraph.from_networkx(networkx.DiGraph([("a", "z")]), SCHEMA)
    with pytest.raises(InputError, match="DiGraph"):
        CausalGraph.from_networkx(networkx.Graph([("a", "b")]), SCHEMA)


def test_other_edges_leave_groups_alone() -> None:
    turned = full().reversed()
    assert set(turned.edges) == {(effect, cause) for cause, effect in EDGES} and turned.isolated == ("f",)
    assert full().with_edges([("a", "b")]).isolated == ("c", "d", "e", "f")


def test_groups_of_one_column_are_called_as_it_or_not_full() -> None:
    schema = Schema((Column("a"), Column("b"), Column("c")))
    swapped = CausalGraph(schema, {"a": ["b"], "b": ["a"], "c": ["c"]}, [("b", "c")], ["a"])
    assert not swapped.full and swapped.by_columns().edges == (("a", "c"),) and swapped.by_columns().isolated == ("b",)
    assert swapped.by_columns().full
    pairs = CausalGraph(schema, {"x": ["a", "b"], "y": ["c"]}, [("x", "y")])
    assert pairs.by_columns() is pairs

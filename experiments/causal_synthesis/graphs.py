"""Graphs that are not the true one: with edges turned, missing, added or random, in groups, or learned elsewhere."""

from __future__ import annotations

import numpy as np

from miaudit.synthesis import chow_liu
from miaudit.synthesis.graph import CausalGraph
from miaudit.synthesis.schema import Table


def wrong(kind: str, graph: CausalGraph, public: Table, rng: np.random.Generator) -> CausalGraph:
    """Return a graph of the same groups that is wrong in a stated way, or learned from public records."""
    if kind == "reversed":
        return graph.reversed()
    if kind == "missing":  # half of the edges
        keep = np.sort(rng.permutation(len(graph.edges))[: len(graph.edges) // 2])
        return graph.with_edges([graph.edges[i] for i in keep])
    if kind == "random":  # as many edges, along a random order
        order = [str(name) for name in rng.permutation(list(graph.groups))]
        pairs = [(a, b) for i, a in enumerate(order) for b in order[i + 1 :]]
        return graph.with_edges([pairs[i] for i in rng.permutation(len(pairs))[: len(graph.edges)]])
    return chow_liu.tree(public)


def turned(graph: CausalGraph, count: int, rng: np.random.Generator) -> CausalGraph:
    """Turn edges one after another, each drawn among those that make no cycle; a smaller count turns the first of them.

    An edge that a longer path bypasses cannot be turned alone.

    Raises
    ------
    ValueError
        If fewer edges can be turned.
    """
    edges = list(graph.edges)
    left = count
    for place in rng.permutation(len(edges)):
        cause, effect = edges[place]
        others = edges[:place] + edges[place + 1 :]
        if left and effect not in graph.with_edges(others).descendants(cause):
            edges[place] = (effect, cause)
            graph, left = graph.with_edges(edges), left - 1
    if left:
        raise ValueError(f"only {count - left} of {count} edges can be turned without a cycle")
    return graph


def without(graph: CausalGraph, count: int, rng: np.random.Generator) -> CausalGraph:
    """Remove edges at random; a smaller count removes the first of them."""
    gone = set(rng.permutation(len(graph.edges))[:count].tolist())
    return graph.with_edges([edge for place, edge in enumerate(graph.edges) if place not in gone])


def with_added(graph: CausalGraph, count: int, rng: np.random.Generator) -> CausalGraph:
    """Join pairs of groups that no edge joins, drawn at random, along the graph's causal order."""
    order = graph.order
    pairs = [(a, b) for i, a in enumerate(order) for b in order[i + 1 :] if (a, b) not in graph.edges]
    return graph.with_edges([*graph.edges, *(pairs[place] for place in rng.permutation(len(pairs))[:count])])


def thirds(graph: CausalGraph) -> CausalGraph:
    """Return the partial graph of somebody who knows of each column only whether it comes early, later or last."""
    names = ("early", "later", "last")
    parts = np.array_split(np.array(graph.order, dtype=object), len(names))
    groups = {
        name: [column for group in part for column in graph.groups[group]]
        for name, part in zip(names, parts, strict=True)
    }
    return CausalGraph(graph.schema, groups, [("early", "later"), ("early", "last"), ("later", "last")])

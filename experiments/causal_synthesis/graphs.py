"""Graphs that are not the true one: reversed, random, with edges missing, and learned from public data."""

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

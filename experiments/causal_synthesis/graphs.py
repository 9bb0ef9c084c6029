"""Graphs that are not the true one: reversed, random, with edges missing, and learned from public data."""

from __future__ import annotations

import numpy as np
from scipy.sparse.csgraph import breadth_first_order, minimum_spanning_tree

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
    return chow_liu(public)


def chow_liu(public: Table) -> CausalGraph:
    """The tree of largest mutual information (Chow and Liu 1968) of discrete columns, from the first one on."""
    schema, n = public.schema, len(public)
    codes = np.nan_to_num(public.values, nan=0.0).astype(np.intp)
    levels = max(column.levels for column in schema.columns)
    indicators = (codes[:, :, None] == np.arange(levels)).astype(np.float64)  # (n, d, levels)
    joint = np.einsum("nia,njb->ijab", indicators, indicators) / n
    share = indicators.mean(axis=0)
    independent = share[:, None, :, None] * share[None, :, None, :]
    with np.errstate(divide="ignore", invalid="ignore"):
        information = np.where(joint > 0, joint * np.log(joint / independent), 0.0).sum(axis=(2, 3))
    tree = minimum_spanning_tree(-np.maximum(information, 1e-12))
    order, parent = breadth_first_order(tree, 0, directed=False)
    edges = [(schema.names[parent[i]], schema.names[i]) for i in order[1:]]
    return CausalGraph(schema, None, edges)

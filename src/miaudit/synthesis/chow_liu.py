"""A graph learned from public records: the tree of largest mutual information (Chow and Liu 1968)."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from numpy.typing import NDArray
from scipy.sparse.csgraph import breadth_first_order, minimum_spanning_tree

from miaudit.arrays import FloatArray
from miaudit.synthesis.graph import CausalGraph
from miaudit.synthesis.schema import Column, Table

_BINS = 8  # of a continuous column, with about as many records each
_BLOCK = 5_000  # records whose indicators are held at once


def tree(public: Table) -> CausalGraph:
    """Return the tree over the columns whose pairs have the largest mutual information, in sum.

    It fits the records best among all trees (Chow and Liu 1968, section III). The records do not determine directions:
    edges lead away from the first column. A tree joins every column to another, related or not.

    Parameters
    ----------
    public : records that are not private: no guarantee covers them. Continuous columns are
        cut at quantiles; a missing value is a level of its own

    Examples
    --------
    >>> from miaudit.synthesis.schema import Schema
    >>> rng = np.random.default_rng(0)
    >>> a, c = rng.integers(0, 2, 500), rng.integers(0, 2, 500)
    >>> b = np.where(rng.random(500) < 0.9, a, c)  # mostly a, at times c
    >>> tree(Table(Schema((Column("a"), Column("c"), Column("b"))), np.column_stack([a, c, b]))).edges
    (('a', 'b'), ('b', 'c'))
    """
    names = public.schema.names
    weights = 1 + mutual_information(
        public
    )  # the same gain for all trees; an edge of weight zero would count as missing
    order, parent = breadth_first_order(minimum_spanning_tree(-weights), 0, directed=False)
    edges = [(names[parent[i]], names[i]) for i in order[1:]]
    return CausalGraph(public.schema, None, edges)


def mutual_information(table: Table) -> FloatArray:
    """Return the mutual information (d, d) of all pairs of columns, in nats, of the table's own frequencies."""
    coded = [_codes(table.values[:, i], column) for i, column in enumerate(table.schema.columns)]
    levels = [int(codes.max(initial=0)) + 1 for codes in coded]
    starts = np.concatenate([[0], np.cumsum(levels)])
    places = np.column_stack(coded) + starts[:-1]
    counts = np.zeros((starts[-1], starts[-1]))
    for first in range(0, len(places), _BLOCK):
        block = places[first : first + _BLOCK]
        indicators = np.zeros((len(block), starts[-1]), dtype=np.float32)  # counts of a block are exact
        indicators[np.arange(len(block))[:, None], block] = 1
        counts += indicators.T @ indicators
    joint = counts / max(1, len(places))
    share = np.diagonal(joint)
    information = np.empty((len(coded), len(coded)))
    for i, (first, end) in enumerate(pairwise(starts)):
        of_one = joint[first:end]
        with np.errstate(divide="ignore", invalid="ignore"):
            terms = of_one * np.log(of_one / (share[first:end, None] * share))
        information[i] = np.add.reduceat(np.where(of_one > 0, terms, 0.0).sum(axis=0), starts[:-1])
    return information


def _codes(values: FloatArray, column: Column) -> NDArray[np.intp]:
    """Return the levels (n,) of a column, 0, 1, ...; missing values have the last one."""
    gone, levels, codes = np.isnan(values), column.levels, values
    if column.kind == "continuous":
        present = values[~gone]
        inner = np.linspace(0, 1, _BINS + 1)[1:-1]
        cuts = np.unique(np.quantile(present, inner)) if len(present) else inner
        codes, levels = np.searchsorted(cuts, values, side="right").astype(np.float64), len(cuts) + 1
    return np.where(gone, levels, codes).astype(np.intp)

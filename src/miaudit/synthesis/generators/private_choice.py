"""Pairs of columns, chosen privately where no graph states the dependences.

In the manner of MST (McKenna, Miklau and Sheldon, 2021) a tree of the pairs that independence fits worst; then, as AIM
does (McKenna et al., 2022), those that the records so drawn fit worst. A pair's score is how many records it is off by,
less what the noise of measuring it is expected to move: without that, large tables are chosen for their size (AUC of
income on Adult .831 for .875 by a tree).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from miaudit.synthesis.generators.count_noise import CountNoise
from miaudit.synthesis.generators.levels import Codes
from miaudit.synthesis.generators.noisy_tables import (
    Law,
    NoisyTable,
    consistent,
    law_of,
    measured,
    nearest_shares,
)
from miaudit.synthesis.generators.pair_counts import PairCounts
from miaudit.synthesis.generators.tables_plan import TablesPlan

_FEWEST, _MOST = 2_000, 20_000  # synthetic records that show how parents occur together
Pair = tuple[int, int]


def chosen(codes: Codes, plan: TablesPlan, noise: CountNoise, rng: np.random.Generator) -> tuple[Law, ...]:
    """Choose and measure pairs of columns, and return the law of each column, in the order of drawing.

    Parameters
    ----------
    codes : (n, d) levels of the private records
    plan : the tables that are measured, each with its share of the budget
    noise : of counts and choices
    rng : of the synthetic records that the laws and the second choice rest on
    """
    sizes = plan.sizes
    tables = (
        [measured(codes, (j,), sizes, plan.sd(share), noise) for j, share in enumerate(plan.single_shares())]
        if plan.first is None
        else plan.first_tables
    )
    if not plan.tree_size:
        return laws_of(tables, range(len(sizes)), plan, rng)[0]
    pairs = _tree(codes, tables, plan, noise)
    order = _order(plan, pairs)
    tables += _pairs(codes, pairs, order, plan, "pairs", noise)
    laws, synthetic = laws_of(tables, order, plan, rng)
    if plan.further:
        more = _worst(codes, synthetic, pairs, _total(tables), plan, noise)
        tables += _pairs(codes, more, order, plan, "more", noise)
        laws, _ = laws_of(tables, order, plan, rng)
    return laws


def laws_of(
    tables: Sequence[NoisyTable], order: Sequence[int], plan: TablesPlan, rng: np.random.Generator
) -> tuple[tuple[Law, ...], Codes]:
    """Return the laws of columns, causes first, and synthetic records (m, d) drawn by them."""
    level, margins = consistent(tables)
    synthetic = np.zeros((min(max(plan.records, _FEWEST), _MOST), len(plan.sizes)), dtype=np.int32)
    laws = []
    for column in order:
        own = [table for table in level if table.column == column]
        laws.append(law_of(own, margins[column], synthetic, plan.sizes))
        synthetic[:, column] = laws[-1].draw(synthetic, plan.sizes, rng)
    return tuple(laws), synthetic


def _tree(codes: Codes, tables: Sequence[NoisyTable], plan: TablesPlan, noise: CountNoise) -> list[Pair]:
    """Choose a tree (or, where the graph allows none, a forest) of pairs, one after another (Kruskal)."""
    _, margins = consistent(tables)
    total = _total(tables)
    shares = {column: nearest_shares(margin) for column, margin in margins.items()}
    counts, worth = PairCounts(codes, plan.sizes), {}
    for i, j in plan.candidates:
        alone = total * np.outer(shares[i], shares[j]).ravel()
        off = np.abs(counts.of((i, j)) - alone).sum()
        worth[i, j] = float(off) - plan.expected_noise("pairs", (i, j))
    part, edges = list(range(len(plan.sizes))), []
    open_ = list(plan.candidates)
    for _ in range(plan.tree_size):
        open_ = [pair for pair in open_ if part[pair[0]] != part[pair[1]]]
        i, j = open_[noise.choose([worth[pair] for pair in open_], plan.scale("tree"))]
        edges.append((i, j))
        part = [part[i] if own == part[j] else own for own in part]
    return edges


def _worst(
    codes: Codes, synthetic: Codes, known: Sequence[Pair], total: float, plan: TablesPlan, noise: CountNoise
) -> list[Pair]:
    """Choose further pairs, in which the synthetic records differ most from the private ones.

    If all that may be measured are, nothing is chosen.
    """
    measured_pairs = set(known)
    open_ = [pair for pair in plan.beyond if pair not in measured_pairs]
    if plan.measures_all:
        return open_
    size = total / len(synthetic)
    private, invented = PairCounts(codes, plan.sizes), PairCounts(synthetic, plan.sizes)
    worth = [
        float(np.abs(private.of(pair) - size * invented.of(pair)).sum()) - plan.expected_noise("more", pair)
        for pair in open_
    ]
    further: list[Pair] = []
    for _ in range(min(plan.further, len(open_))):
        best = noise.choose(worth, plan.scale("further"))
        further.append(open_.pop(best))  # the others keep their order, so the same noise falls on them
        worth.pop(best)
    return further


def _pairs(
    codes: Codes, pairs: Sequence[Pair], order: Sequence[int], plan: TablesPlan, stage: str, noise: CountNoise
) -> list[NoisyTable]:
    """Measure pairs, with the column that is drawn later in the last place."""
    rank = {column: place for place, column in enumerate(order)}
    return [
        measured(codes, sorted(pair, key=rank.__getitem__), plan.sizes, plan.sd(share), noise)
        for pair, share in zip(pairs, plan.pair_shares(stage, pairs), strict=True)
    ]


def _total(tables: Sequence[NoisyTable]) -> float:
    """Return the number of records, as far as noisy tables show it."""
    return max(float(consistent(tables)[0][0].counts.sum()), 1.0)


def _order(plan: TablesPlan, pairs: Sequence[Pair]) -> list[int]:
    """Return all columns in the order of drawing: groups as the graph has them, then from the best connected on."""
    graph = plan.graph
    group = {column: name for name in graph.order for column in graph.positions(name)}
    beside: dict[int, list[int]] = {column: [] for column in group}
    for i, j in pairs:
        if group[i] == group[j]:
            beside[i].append(j)
            beside[j].append(i)
    order: list[int] = []
    for name in graph.order:
        left = sorted(graph.positions(name), key=lambda column: -len(beside[column]))
        while left:
            ahead = [left[0]]
            for column in ahead:
                left.remove(column)
                ahead += [other for other in beside[column] if other in left and other not in ahead]
            order += ahead
    return order

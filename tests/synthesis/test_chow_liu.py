"""The learned tree: mutual information against scikit-learn's, and the best of all trees by trying each."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from scipy.sparse.csgraph import connected_components
from sklearn.metrics import mutual_info_score

from miaudit.synthesis import chow_liu
from miaudit.synthesis.schema import Column, Schema, Table


def chain(n: int, seed: int = 0) -> Table:
    """A -> B -> C -> D, in another order of columns, with an unrelated E; B has missing values, D is a number."""
    rng = np.random.default_rng(seed)
    a = rng.integers(0, 3, n).astype(float)
    b = np.where(rng.random(n) < 0.8, a, rng.integers(0, 3, n))
    c = np.where(rng.random(n) < 0.8, b > 0, rng.random(n) < 0.5).astype(float)
    d = 10 * c + rng.normal(0, 4, n)
    b[rng.random(n) < 0.1] = np.nan
    schema = Schema(
        (
            Column("D", "continuous", low=-50, high=50),
            Column("A", "ordinal", categories=(0, 1, 2)),
            Column("E"),
            Column("C"),
            Column("B", "categorical", categories=("x", "y", "z"), missing=True),
        )
    )
    return Table(schema, np.column_stack([np.clip(d, -50, 50), a, rng.integers(0, 2, n), c, b]))


def test_mutual_information_is_that_of_scikit_learn() -> None:
    table = chain(7000)  # more than one block
    found = chow_liu.mutual_information(table)
    cuts = np.quantile(table.column("D"), np.arange(1, 8) / 8)
    codes = [np.searchsorted(cuts, table.column("D"), side="right")]
    codes += [np.nan_to_num(table.values[:, i], nan=9).astype(int) for i in range(1, 5)]
    assert np.allclose(found, [[mutual_info_score(one, other) for other in codes] for one in codes], atol=1e-12)


def test_no_other_tree_has_more() -> None:
    table = chain(400, seed=1)
    weights = chow_liu.mutual_information(table)
    best = 0.0
    for edges in combinations(combinations(range(5), 2), 4):
        joined = np.zeros((5, 5))
        joined[tuple(np.transpose(edges))] = 1
        if connected_components(joined, directed=False)[0] == 1:
            best = max(best, sum(weights[pair] for pair in edges))
    made = chow_liu.tree(table)
    at = table.schema.position
    assert sum(weights[at(cause), at(effect)] for cause, effect in made.edges) == pytest.approx(best)


def test_a_chain_is_found_from_its_first_column_on_and_not_in_shuffled_records() -> None:
    table = chain(2000)
    edges = set(chow_liu.tree(table).edges)
    assert edges > {("D", "C"), ("C", "B"), ("B", "A")}
    rng = np.random.default_rng(2)
    shuffled = Table(table.schema, np.column_stack([rng.permutation(column) for column in table.values.T]))
    assert not set(chow_liu.tree(shuffled).edges) > {("D", "C"), ("C", "B"), ("B", "A")}


def test_a_column_without_values_and_a_single_column_are_no_errors() -> None:
    schema = Schema((Column("a"), Column("b", "continuous", low=0, high=1, missing=True)))
    assert chow_liu.tree(Table(schema, [[0, np.nan], [1, np.nan]])).edges == (("a", "b"),)
    assert chow_liu.tree(Table(Schema((Column("a"),)), [[0], [1]])).edges == ()

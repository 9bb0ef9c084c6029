"""Counts of pairs of columns, all by one product and pair by pair, beside a loop over records."""

from __future__ import annotations

import numpy as np
import pytest

from miaudit.synthesis.generators import pair_counts
from miaudit.synthesis.generators.pair_counts import PairCounts


@pytest.mark.parametrize("columns", [3, 45], ids=["pair by pair", "one product"])
@pytest.mark.parametrize("records", [0, 1, 37])
def test_counts_are_those_of_a_loop_over_records(columns: int, records: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pair_counts, "_ROWS", 10)  # several parts
    rng = np.random.default_rng(0)
    sizes = tuple(rng.integers(1, 6, columns).tolist())
    codes = np.stack([rng.integers(0, size, records) for size in sizes], axis=1).astype(np.int32)
    counts = PairCounts(codes, sizes)
    assert ("_products" in vars(counts)) is False
    for pair in ((0, 1), (1, 0), (0, columns - 1), (columns - 1, 2), (1, 1)):
        expected = np.zeros((sizes[pair[0]], sizes[pair[1]]))
        for record in codes:
            expected[record[pair[0]], record[pair[1]]] += 1
        own = counts.of(pair)
        assert own.dtype == np.float64 and np.array_equal(own, expected.ravel()), pair
    assert ("_products" in vars(counts)) == (columns == 45)


def test_a_table_of_very_many_levels_is_counted_pair_by_pair() -> None:
    sizes = (60,) * 45
    codes = np.random.default_rng(0).integers(0, 60, (50, 45)).astype(np.int32)
    counts = PairCounts(codes, sizes)
    assert counts.of((3, 7)).sum() == 50 and "_products" not in vars(counts)

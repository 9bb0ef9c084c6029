"""Public cells and the levels merged from them: by hand-worked examples, laws over random counts, and simulation."""

from __future__ import annotations

import math
from itertools import groupby

import numpy as np
import pytest
from scipy import stats

from miaudit.errors import InputError
from miaudit.synthesis.generators.levels import Levels
from miaudit.synthesis.generators.merged_levels import MERGED, MergedLevels, cells_of
from miaudit.synthesis.schema import Column

RANGES = {
    "ages": Column("x", "continuous", low=0, high=100, decimals=0),
    "cents": Column("x", "continuous", low=-10, high=1_000, decimals=2, missing=True),
    "gains": Column("x", "continuous", low=0, high=100_000, decimals=0),
    "years": Column("x", "continuous", low=1_900, high=2_100, decimals=0),
    "balance": Column("x", "continuous", low=-50_000, high=20_000, decimals=0),
    "share": Column("x", "continuous", low=0, high=1),
    "odd ends": Column("x", "continuous", low=0.5, high=3.2, decimals=0),
}


@pytest.mark.parametrize("column", RANGES.values(), ids=RANGES)
def test_cells_cover_a_range_and_each_value_comes_back_to_its_cell(column: Column) -> None:
    cells, rng = cells_of(column), np.random.default_rng(0)
    cells._check()  # each holds a value
    every = np.repeat(np.arange(cells.known), 50)
    values = cells.decode(every, rng)
    assert np.array_equal(cells.encode(values), every)
    assert column.low <= values.min() and values.max() <= column.high  # type: ignore[operator]
    assert cells.known <= 128


def test_cells_are_each_value_of_a_short_range_and_fine_at_the_ends_and_at_zero_of_a_long_one() -> None:
    assert cells_of(RANGES["ages"]).known == 101
    assert cells_of(Column("x", "continuous", low=1, high=128, decimals=0)).known == 128
    gains = cells_of(RANGES["gains"])
    starts = set(np.round(np.asarray(gains.edges) + 0.5))
    assert {0, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000, 2_000, 3_125, 100_000} <= starts
    assert gains.encode(np.array([0.0, 1.0, 99_999.0, 100_000.0])).tolist() == [0, 1, gains.known - 2, gains.known - 1]
    balance = cells_of(RANGES["balance"])
    around = balance.encode(np.array([-2.0, -1.0, 0.0, 1.0, 2.0]))
    assert len(set(around[1:4].tolist())) == 3  # zero is a cell of its own
    share = cells_of(RANGES["share"])
    assert share.encode(np.array([0.0, 0.5, 1.0])).tolist()[::2] == [0, share.known - 1]
    assert share.encode(np.array([1e-8]))[0] == 1


def test_what_nobody_declared_is_refused() -> None:
    with pytest.raises(InputError, match=r"x\.low.*public knowledge: it is never read off the private table"):
        Column("x", "continuous", high=1)
    with pytest.raises(InputError, match="declare every category"):
        Column("x", "categorical")


def ages(counts: list[float]) -> Levels:
    return cells_of(Column("x", "continuous", low=0, high=len(counts) - 1, decimals=0))


@pytest.mark.parametrize(
    ("counts", "sd", "bins", "levels"),
    [
        ([600, 90, 80, 70, 60, 50, 3, -2, 1, 0], 2.0, 4, [0, 1, 1, 1, 2, 2, 2, 2, 2, 2]),
        ([10, 10, 10, 10, 10, 10, 10, 10], 0.1, 4, [0, 0, 1, 1, 2, 2, 3, 3]),
        ([25, 25, 0, 0, 0, 0, 25, 25], 0.1, 4, [0, 1, 1, 1, 1, 1, 2, 3]),  # four spikes, and a gap that is empty
        ([50, 3, 50], 0.1, 2, [0, 1, 2]),  # between two spikes, and no noise
        ([50, 3, 50], 3.0, 2, [0, 0, 1]),  # between two spikes, and maybe noise
        ([900, 2, -3, 4, 50], 5.0, 12, [0, 1, 1, 1, 1]),  # what may be noise counts nothing
        ([900, 2, -3, 4, 60], 5.0, 12, [0, 0, 0, 0, 1]),
    ],
)
def test_merging_by_hand(counts: list[float], sd: float, bins: int, levels: list[int]) -> None:
    merged = MergedLevels.of(ages(counts), np.array(counts, dtype=float), sd, bins)
    assert merged.level.tolist() == levels


@pytest.mark.parametrize("seed", range(20))
def test_laws_of_merging_over_random_counts(seed: int) -> None:
    rng = np.random.default_rng(seed)
    size, sd, bins = int(rng.integers(2, 129)), float(rng.uniform(0.5, 60)), int(rng.integers(2, 20))
    true = rng.poisson(rng.gamma(0.3, 150, size)) * (rng.random(size) < 0.6)
    counts = true + np.rint(rng.normal(0, sd, size))
    merged = MergedLevels.of(ages(counts.tolist()), counts, sd, bins)
    runs = [key for key, _ in groupby(merged.level.tolist())]
    assert runs == list(range(merged.count))  # adjacent cells, in order
    records = max(counts.sum(), 1.0)
    spikes = (counts > records / (1.5 * bins)) & (counts > 4 * sd)
    for level in range(merged.count):
        own = merged.level == level
        mass, noise = counts[own].sum(), sd * math.sqrt(own.sum())
        assert spikes[own].sum() <= 1
        beside = [other for other in (level - 1, level + 1) if 0 <= other < merged.count]
        if not spikes[own].any() and mass < max(3 * noise, records / (4 * bins)):
            assert all(spikes[merged.level == other].any() for other in beside)  # nobody else to join
            assert not beside or mass >= 2 * noise
    again = MergedLevels.of(ages(counts.tolist()), counts, sd, bins)
    assert np.array_equal(again.level, merged.level)  # of the counts alone


def test_a_column_of_noise_alone_has_few_levels() -> None:
    rng, cells = np.random.default_rng(1), ages([0.0] * 101)
    levels = [MergedLevels.of(cells, np.rint(rng.normal(0, 30, 101)), 30.0).count for _ in range(200)]
    assert np.mean(levels) < 1.5
    seen = [MergedLevels.of(cells, 60 + np.rint(rng.normal(0, 3, 101)), 3.0).count for _ in range(50)]  # the control
    assert min(seen) >= MERGED - 2


def test_rare_categories_share_a_level_and_missing_keeps_its_own() -> None:
    column = Column("x", "categorical", categories=tuple("abcde"), missing=True)
    merged = MergedLevels.of(cells_of(column), np.array([100.0, 5, 80, 8.9, 9, 1]), 3.0)
    assert merged.level.tolist() == [0, 3, 1, 3, 2, 4] and merged.count == 5
    encoded = merged.encode(np.array([0.0, 1.0, 3.0, np.nan]))
    assert encoded.tolist() == [0, 3, 3, 4]
    decoded = merged.decode(np.array([0, 3, 3, 4]), np.random.default_rng(0))
    assert decoded[0] == 0 and set(decoded[1:3]) <= {1.0, 3.0} and np.isnan(decoded[3])
    table = merged.table(7, np.array([100.0, 5, 80, 8.9, 9, 1]), 3.0)
    assert table.columns == (7,) and table.counts.tolist() == [100, 80, 9, 13.9, 1]
    assert table.merged is not None and table.merged.tolist() == [1, 1, 1, 2, 1]


def test_a_column_of_categories_in_noise_keeps_two_levels() -> None:
    cells = cells_of(Column("x", "categorical", categories=tuple("abc")))
    assert MergedLevels.of(cells, np.array([5.0, 20.0, -8.0]), 40.0).level.tolist() == [1, 0, 1]
    assert MergedLevels.of(cells_of(Column("y")), np.array([30.0, -12.0]), 40.0).count == 2


def test_a_level_is_drawn_back_by_the_noisy_shares_of_its_cells() -> None:
    counts = np.array([900.0, 10, 20, 40, 30])
    merged = MergedLevels.of(ages(counts.tolist()), counts, 0.5, 3)
    assert merged.level.tolist() == [0, 1, 1, 1, 1]
    drawn = merged.decode(np.ones(4_000, dtype=int), np.random.default_rng(0))
    seen = np.bincount(drawn.astype(int), minlength=5)[1:]
    assert stats.chisquare(seen, 40.0 * counts[1:]).pvalue > 1e-3
    assert stats.chisquare(seen, [1_000] * 4).pvalue < 1e-6  # equally often would be wrong

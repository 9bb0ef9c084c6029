"""Nearest records against all pairs, at block borders, with ties and missing values, and in little memory."""

from __future__ import annotations

import tracemalloc
from collections.abc import Sequence

import numpy as np
import pytest

from miaudit.errors import InputError
from miaudit.synthesis.schema import Column, Schema, Table
from miaudit.synthesis.table_attacks import closest_record as module
from miaudit.synthesis.table_attacks import step_sums
from miaudit.synthesis.table_attacks.closest_record import Metric, nearest, nearest_in_groups
from worlds.twins import gower_sums

SCHEMA = Schema(
    (
        Column("sick", missing=True),
        Column("job", "categorical", ("a", "b", "c", "d")),
        Column("grade", "ordinal", ("low", "middle", "high", "top")),
        Column("age", "continuous", low=0, high=200, missing=True),
        Column("income", "continuous", low=-1e6, high=1e6),
    )
)


def draw(n: int, rng: np.random.Generator, gaps: float = 0.2) -> Table:
    values = np.c_[
        rng.integers(0, 2, n),
        rng.integers(0, 4, n),
        rng.integers(0, 4, n),
        rng.integers(20, 90, n),
        rng.normal(scale=1e4, size=n),
    ].astype(float)
    for j in (0, 3):
        values[rng.random(n) < gaps, j] = np.nan
    return Table(SCHEMA, values)


def slow_sums(metric: Metric, queries: Table, table: Table, group: Sequence[int]) -> np.ndarray:
    return np.array([gower_sums(row, table.values, metric.nominal, metric.width, group) for row in queries.values])


def compared_with_all_pairs(
    metric: Metric, queries: Table, table: Table, groups: Sequence[Sequence[int]], k: int, seed: int
) -> None:
    """Compare with all pairs of rows, ties broken by the same random numbers; nothing is left to rounding."""
    found = nearest_in_groups(metric, queries, table, groups, k=k, rng=np.random.default_rng(seed))
    rng = np.random.default_rng(seed)
    for group, near in zip(groups, found, strict=True):
        sums = slow_sums(metric, queries, table, group)
        expected = np.argsort(sums + rng.random(len(table)) * 1e-6, axis=1)[:, :k]
        assert np.array_equal(np.sort(near.index, axis=1), np.sort(expected, axis=1))
        distance = np.take_along_axis(sums, near.index, axis=1) / len(group)
        assert np.allclose(near.distance, distance, atol=1e-12)
        assert np.allclose(near.distance, np.sort(distance, axis=1), atol=1e-12)


@pytest.mark.parametrize("pairs", [1 << 22, 100])
@pytest.mark.parametrize("k", [1, 4, 31])
def test_the_nearest_are_those_of_all_pairs_for_every_group_and_k(
    k: int, pairs: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(step_sums, "_BLOCK_PAIRS", pairs)
    monkeypatch.setattr(module, "_PARTS", 5)
    rng = np.random.default_rng(1)
    queries, table, control = draw(17, rng), draw(31, rng), draw(200, rng)
    metric = Metric.of(control)
    compared_with_all_pairs(metric, queries, table, ((0, 1, 2, 3, 4), (3,), (0, 4), (1, 2, 3, 4)), k, 2)


@pytest.mark.parametrize("groups", [((0, 1, 2),), ((0, 1), (1, 2), (0, 2), (0, 1, 2)), ((1,),)])
@pytest.mark.parametrize("k", [1, 10])
def test_rows_that_are_equal_in_the_columns_of_a_group_all_have_their_chance(
    groups: tuple[tuple[int, ...], ...], k: int
) -> None:
    rng = np.random.default_rng(6)
    queries, table = draw(300, rng), draw(700, rng)  # 48 kinds of rows at most
    compared_with_all_pairs(Metric.of(queries), queries, table, groups, k, 3)


def test_equal_records_are_at_exactly_zero_and_missing_values_are_equal() -> None:
    rng = np.random.default_rng(2)
    table, control = draw(50, rng), draw(50, rng)
    near = nearest(Metric.of(control), table, table, rng=rng)
    assert (near.distance == 0).all()
    assert np.array_equal(near.index[:, 0], np.arange(50))


def test_ties_are_broken_at_random_but_alike_for_all_queries() -> None:
    schema = Schema((Column("a"), Column("b")))
    queries, table = Table(schema, np.zeros((20, 2))), Table(schema, np.zeros((5, 2)))
    metric = Metric.of(table)
    chosen = set()
    for seed in range(40):
        near = nearest(metric, queries, table, rng=np.random.default_rng(seed))
        assert len(set(near.index[:, 0].tolist())) == 1
        chosen.add(int(near.index[0, 0]))
    assert chosen == {0, 1, 2, 3, 4}


def test_widths_come_from_the_control_records_alone() -> None:
    schema = Schema((Column("x", "continuous", low=-1e9, high=1e9), Column("y", "ordinal", ("1", "2", "3"))))
    control = Table(schema, np.c_[np.arange(101.0), np.zeros(101)])
    assert Metric.of(control).width.tolist() == [90.0, 2.0]  # 95% less 5%; steps of the scale
    constant = Table(schema, np.c_[np.full(4, 7.0), np.zeros(4)])
    assert Metric.of(constant).width.tolist() == [1.0, 2.0]
    rare = np.zeros(101)
    rare[0] = 30.0
    assert Metric.of(Table(schema, np.c_[rare, np.zeros(101)])).width.tolist() == [30.0, 2.0]


@pytest.mark.long
def test_no_matrix_of_all_pairs_is_ever_held() -> None:
    rng = np.random.default_rng(3)
    queries, table = draw(6000, rng), draw(6000, rng)  # 144 MB as float32
    metric = Metric.of(table)
    tracemalloc.start()
    nearest(metric, queries, table, rng=rng)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 40e6


def test_bad_input_is_refused() -> None:
    rng = np.random.default_rng(4)
    table = draw(5, rng)
    metric = Metric.of(table)
    other = Table(Schema((Column("a"),)), [[0.0]])
    with pytest.raises(InputError, match="queries: expected a table with the schema"):
        nearest(metric, other, table, rng=rng)
    with pytest.raises(InputError, match="k: expected 1 to 5"):
        nearest(metric, table, table, k=6, rng=rng)
    with pytest.raises(InputError, match="groups"):
        nearest_in_groups(metric, table, table, [()], rng=rng)
    with pytest.raises(InputError, match="control: expected at least one"):
        Metric.of(table.subset([]))


@pytest.mark.parametrize("pairs", [1 << 22, 500])
def test_groups_that_lack_one_column_are_found_in_one_pass_as_by_passes_of_their_own(
    pairs: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(step_sums, "_BLOCK_PAIRS", pairs)
    rng = np.random.default_rng(21)
    queries, table, control = draw(60, rng), draw(90, rng), draw(200, rng)
    table = Table(SCHEMA, np.r_[table.values, table.values[:20], queries.values[:5]])  # ties, and copies
    metric, everything = Metric.of(control), tuple(range(5))
    groups = [*(tuple(i for i in everything if i != j) for j in everything), everything]
    passes: list[bool] = []
    whole = module._Search.rows

    def noted(search: module._Search) -> object:
        found = whole(search)
        passes.append(found is not None)
        return found

    monkeypatch.setattr(module._Search, "rows", noted)
    for many, expected in ((1.0, [True]), (-1.0, [False, *[True] * 6])):
        monkeypatch.setattr(module, "_MANY", many)
        passes.clear()
        compared_with_all_pairs(metric, queries, table, groups, 1, 5)
        compared_with_all_pairs(metric, queries, table, groups, 3, 5)
        assert passes == [*expected, *expected]
    monkeypatch.setattr(module, "_SLACK", -0.9)  # control: with too narrow a margin the nearest are missed
    monkeypatch.setattr(module, "_MANY", 1.0)
    with pytest.raises(AssertionError):
        compared_with_all_pairs(metric, queries, table, groups, 1, 5)

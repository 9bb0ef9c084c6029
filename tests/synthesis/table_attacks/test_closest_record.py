"""Nearest records against a slow twin, at block borders, with ties and missing values, and in little memory."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest

from miaudit.errors import InputError
from miaudit.synthesis.schema import Column, Schema, Table
from miaudit.synthesis.table_attacks import closest_record as module
from miaudit.synthesis.table_attacks.closest_record import Metric, nearest, nearest_in_groups

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


def slow_distance(metric: Metric, a: np.ndarray, b: np.ndarray, columns: tuple[int, ...]) -> float:
    total = 0.0
    for j in columns:
        x, y = a[j], b[j]
        if np.isnan(x) or np.isnan(y):
            total += 0.0 if np.isnan(x) and np.isnan(y) else 1.0
        elif SCHEMA.columns[j].kind in ("binary", "categorical"):
            total += float(x != y)
        else:
            total += min(abs(x - y) / metric.width[j], 1.0)
    return total / len(columns)


@pytest.mark.parametrize(("across", "down"), [(4096, 128), (7, 3), (1, 1)])
def test_distances_are_those_of_a_slow_twin_for_every_group_and_k(
    across: int, down: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_ACROSS", across)
    monkeypatch.setattr(module, "_DOWN", down)
    rng = np.random.default_rng(1)
    queries, table, control = draw(17, rng), draw(31, rng), draw(200, rng)
    metric = Metric.of(control)
    groups = ((0, 1, 2, 3, 4), (3,), (0, 4), (1, 2, 3, 4))
    found = nearest_in_groups(metric, queries, table, groups, k=4, rng=rng)
    for group, near in zip(groups, found, strict=True):
        all_of = np.array([[slow_distance(metric, q, t, group) for t in table.values] for q in queries.values])
        assert np.allclose(near.distance, np.sort(all_of, axis=1)[:, :4], atol=2e-6)
        assert np.allclose(near.distance, np.take_along_axis(all_of, near.index, axis=1), atol=1e-12)
        assert all(len(set(row)) == 4 for row in near.index.tolist())


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


@pytest.mark.long
@pytest.mark.parametrize(("across", "down"), [(4096, 128), (7, 3)])
def test_groups_that_lack_one_column_are_found_in_one_pass_as_by_sweeps(
    across: int, down: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_ACROSS", across)
    monkeypatch.setattr(module, "_DOWN", down)
    rng = np.random.default_rng(21)
    queries, table, control = draw(60, rng), draw(90, rng), draw(200, rng)
    table = Table(SCHEMA, np.r_[table.values, table.values[:20], queries.values[:5]])  # ties, and copies
    metric, everything = Metric.of(control), tuple(range(5))
    groups = [*(tuple(i for i in everything if i != j) for j in everything), everything]
    passes: list[bool] = []
    whole = module._Search.lacking_one

    def noted(search: object) -> object:
        found = whole(search)  # type: ignore[arg-type]
        passes.append(found is not None)
        return found

    monkeypatch.setattr(module._Search, "lacking_one", noted)
    found = {}
    for many in (1.0, -1.0):
        monkeypatch.setattr(module, "_MANY", many)
        found[many] = nearest_in_groups(metric, queries, table, groups, rng=np.random.default_rng(0))
    assert passes == [True, False]
    for group, one, other in zip(groups, found[1.0], found[-1.0], strict=True):
        np.testing.assert_array_equal(one.distance, other.distance)
        assert (one.index == other.index).mean() > 0.95  # ties fall alike, but for what float32 rounds
        slow = [min(slow_distance(metric, a, b, group) for b in table.values) for a in queries.values]
        np.testing.assert_allclose(one.distance[:, 0], slow, atol=1e-6)
    monkeypatch.setattr(module, "_SLACK", -0.9)  # control: with too narrow a margin the nearest are missed
    monkeypatch.setattr(module, "_MANY", 1.0)
    narrow = nearest_in_groups(metric, queries, table, groups, rng=np.random.default_rng(0))
    assert any((a.distance != b.distance).any() for a, b in zip(narrow, found[1.0], strict=True))

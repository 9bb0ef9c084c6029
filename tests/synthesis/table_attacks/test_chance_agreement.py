"""Agreement by chance: against a slow twin, against simulated tables, and what copies among crowds look like."""

from __future__ import annotations

import numpy as np
import pytest

from miaudit.synthesis.table_attacks.chance_agreement import expected, expected_without, others


def hashed(values: np.ndarray) -> np.ndarray:
    """A random number of 64 bits for each value of each column."""
    words = np.random.default_rng(0).integers(0, 2**64, (values.shape[1], 100), dtype=np.uint64)
    return np.column_stack([words[j, column.astype(int)] for j, column in enumerate(values.T)])


def slow(cells: np.ndarray, synthetic: int, unit: np.ndarray, compared: list[int]) -> list[float]:
    """The same by loops over records."""
    n = len(cells)
    found = []
    for i in range(n):
        rest = [j for j in range(n) if unit[j] != unit[i]]
        most = 0.0
        for k in compared:
            same = [c for c in compared if c != k]
            agree = sum((cells[j, same] == cells[i, same]).all() for j in rest)
            most = max(most, agree * sum(cells[j, k] == cells[i, k] for j in rest) / (n - 1))
        found.append(most * synthetic / (n - 1))
    return found


@pytest.mark.parametrize("household", [False, True])
@pytest.mark.parametrize("columns", [1, 2, 3, 4, 5])
def test_the_slow_twin_agrees(columns: int, household: bool) -> None:
    rng = np.random.default_rng(columns)
    cells = rng.integers(0, 3, (40, columns))
    cells[:, 0] = rng.integers(0, 12, 40)
    unit = np.arange(40) // 3 if household else np.arange(40)
    given = unit if household else None
    assert expected(hashed(cells), 70, given) == pytest.approx(slow(cells, 70, unit, list(range(columns))))
    without = expected_without(hashed(cells), 70, given)
    for j in range(columns):
        left = [k for k in range(columns) if k != j]
        assert without[:, j] == pytest.approx(slow(cells, 70, unit, left))


def test_it_foresees_how_many_strangers_agree() -> None:
    """Second truth: strangers from the same population, of independent columns, and of dependent ones."""
    rng = np.random.default_rng(5)

    def people(n: int) -> np.ndarray:
        age, town = np.rint(rng.normal(50, 6, n)), rng.integers(0, 9, n)
        return np.column_stack([age, town, (town + rng.integers(0, 2, n)) % 9, rng.integers(0, 5, n)])

    pool, strangers = hashed(people(3000)), hashed(people(3000))
    whole, their = pool.sum(axis=1, dtype=np.uint64), strangers.sum(axis=1, dtype=np.uint64)
    for foreseen, real, made in (
        (expected(pool, 3000), whole, their),
        (expected_without(pool, 3000)[:, 3], whole - pool[:, 3], their - strangers[:, 3]),
    ):
        agree = np.array([np.count_nonzero(made == one) for one in real])
        few, many = foreseen <= np.quantile(foreseen, 0.3), foreseen > np.quantile(foreseen, 0.7)
        assert agree[few].mean() < 0.5 * agree[many].mean()  # the order is right
        assert agree.mean() / 3 < foreseen.mean() < 3 * agree.mean()  # and the size


def test_of_many_columns_each_is_left_out_with_some() -> None:
    """80 columns: a crowd that differs from the record in two neighbouring columns is seen, at bounded cost."""
    values = np.zeros((30, 80))
    values[:, 40], values[10:, 41] = np.arange(30), 1  # ten agree but for column 40, twenty more but for 41 too
    found = expected_without(hashed(values), 30)
    assert found[0, 40] > 5
    alone = expected_without(np.random.default_rng(0).integers(0, 2**60, (30, 80)).astype(np.uint64), 30)
    assert not alone.any()


def test_others_count_other_units() -> None:
    hashes = np.array([3, 3, 3, 8], dtype=np.uint64)
    assert others(hashes).tolist() == [2, 2, 2, 0]
    assert others(hashes, np.array([4, 4, 4, 0])).tolist() == [0, 0, 0, 0]

"""Columns that number records: found in the pool, whoever is a member, and never among measurements."""

from __future__ import annotations

import numpy as np
import pytest

from miaudit.synthesis.schema import Column, Schema, Table
from miaudit.synthesis.table_attacks.keys import WithoutKeys, is_key

RNG = np.random.default_rng(0)


@pytest.mark.parametrize(
    ("released", "pool", "key"),
    [
        (np.arange(100), 500 + np.arange(200), True),
        (np.arange(100), np.r_[:100, :120], True),  # the rows of each file are counted
        (np.arange(100) + 0.5, 1000 * np.arange(200), False),
        (500 + np.arange(200), np.arange(100) + 0.5, False),
        (np.arange(100), np.r_[:100, :100, :100], False),
        (np.r_[:99, 98], 500 + np.arange(200), True),  # the synthetic table repeats one, as a generator of numbers
        (RNG.normal(600, 50, 100), 500 + np.arange(200), True),  # or makes it a measurement
        (np.full(100, np.nan), 500 + np.arange(200), True),  # or leaves it empty
        (np.r_[:99, 98], 1000 * np.arange(200), False),  # such numbers may all differ by chance
        (1000 * np.arange(100), 1000 * np.arange(200), True),  # but not in both
        (np.arange(100), np.r_[500:698, 600, 999], False),
        (np.arange(10), 500 + np.arange(15), False),  # few numbers may all differ
        (RNG.integers(18, 90, 100), RNG.integers(18, 90, 200), False),
        (np.array([f"id{i}" for i in range(100)]), np.array([f"id{i}" for i in range(300, 500)]), True),
        (np.array([f"id{i}" for i in range(100)]), np.array([f"id{i % 150}" for i in range(200)]), False),
        (np.array([None, *(f"id{i}" for i in range(99))]), np.array([f"x{i}" for i in range(200)]), True),
        (np.array(["id1", "id2"] * 50), np.array([f"id{i}" for i in range(200)]), True),  # drawn from texts it saw
        (np.r_[np.full(60, np.nan), :40], 1000 * np.arange(200), False),  # most are missing
        (np.arange(100), np.r_[np.full(120, np.nan), :80], False),
    ],
)
def test_what_a_key_is(released: np.ndarray, pool: np.ndarray, key: bool) -> None:
    assert is_key(released, pool) is key
    assert is_key(released, RNG.permutation(pool)) is key  # in any order: no label plays a part


def test_keys_are_left_out_alike_whoever_is_a_member() -> None:
    names = ("age", "row", "key", "dose")
    schema = Schema(tuple(Column(name, "continuous", low=0, high=1e6) for name in names))

    def rows(first: int, n: int) -> np.ndarray:
        ages, doses = RNG.integers(18, 90, n), RNG.gamma(2, 2, n).round(2)
        return np.c_[ages, np.arange(n), first + np.arange(n), doses]

    made, pool = Table(schema, rows(0, 60)), np.concatenate([rows(1000, 50), rows(2000, 50)])
    for order in (np.arange(100), RNG.permutation(100)):
        inside, outside = (Table(schema, pool[part]) for part in (order[:50], order[50:]))
        left = WithoutKeys.of(made, inside, outside)
        assert left.keys == ("row", "key") and left.synthetic.schema.names == ("age", "dose")
        np.testing.assert_array_equal(left.members.values, inside.values[:, [0, 3]])
        assert WithoutKeys.of(made, inside, outside, keep=("row", "key")).keys == ()
        assert WithoutKeys.of(made, inside, outside, keep=("key",)).keys == ("row",)


def test_two_columns_are_always_left() -> None:
    schema = Schema(tuple(Column(name, "continuous", low=0, high=1e6) for name in ("key", "age")))
    tables = [Table(schema, np.c_[first + np.arange(30), RNG.integers(18, 90, 30)]) for first in (0, 100, 200)]
    assert WithoutKeys.of(*tables).keys == ()

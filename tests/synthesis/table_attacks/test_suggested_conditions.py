"""Conditions by bits against a look at every record: categories, sides of the median, missing values."""

from __future__ import annotations

import numpy as np
import pytest

from miaudit.synthesis.schema import Column, Schema, Table
from miaudit.synthesis.table_attacks import suggested_conditions
from miaudit.synthesis.table_attacks.suggested_conditions import Condition, Suggested
from worlds.twins import predicate_holds

SCHEMA = Schema(
    (
        Column("age", "continuous", low=-50, high=50, missing=True),
        Column("job", "categorical", tuple("abcdefgh"), missing=True),
        Column("sex"),
        Column("income", "continuous", low=-50, high=50),
        Column("grade", "ordinal", ("1", "2", "3")),
    )
)


def draw(n: int, rng: np.random.Generator) -> Table:
    age, job = np.clip(rng.normal(size=n).round(1), -50, 50), rng.integers(0, 8, n).astype(float)
    age[rng.random(n) < 0.1], job[rng.random(n) < 0.1] = np.nan, np.nan
    return Table(SCHEMA, np.c_[age, job, rng.integers(0, 2, n), rng.random(n), rng.integers(0, 3, n)])


@pytest.mark.parametrize("n", [1, 64, 130, 1000])
@pytest.mark.parametrize("at_once", [1 << 21, 700])
def test_who_alone_satisfies_is_what_a_look_at_every_record_finds(
    n: int, at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(suggested_conditions, "_AT_ONCE", at_once)
    rng = np.random.default_rng(n)
    table = draw(n, rng)
    suggested = Suggested.of(table)
    rows = rng.integers(0, n, 200)
    columns = np.sort(rng.permuted(np.tile(np.arange(5), (200, 1)), axis=1)[:, :3], axis=1)
    chosen = suggested.number[rows[:, None], columns]
    single = suggested.single(chosen)
    for row, one, alone in zip(rows, chosen, single, strict=True):
        conditions = suggested.conditions(one)
        holds = predicate_holds([(c.column, c.operator, c.value) for c in conditions], table.values)
        assert holds[row]  # the record that suggested them
        assert alone == (holds.sum() == 1)
    assert single.any()
    assert n == 1 or not single.all()


def test_numbers_are_compared_away_from_the_median_and_the_median_itself_downwards() -> None:
    schema = Schema((Column("a", "continuous", low=0, high=9, missing=True), Column("b", "categorical", ("x", "y"))))
    suggested = Suggested.of(Table(schema, [[1, 0], [2, 1], [3, 1], [np.nan, 0]]))
    first = [suggested.conditions(row)[0] for row in suggested.number]
    assert first == [Condition(0, "<=", 1), Condition(0, "<=", 2), Condition(0, ">=", 3), Condition(0, "missing", 0)]
    assert suggested.single(suggested.number[:, :1]).tolist() == [True, False, True, True]


def test_a_condition_holds_for_missing_values_only_if_it_asks_for_them() -> None:
    values = np.array([1.0, 2.0, np.nan])
    asked = {"=": [True, False, False], "<=": [True, False, False], ">=": [True, True, False]}
    for operator, expected in asked.items():
        assert Condition(0, operator, 1.0).holds(values).tolist() == expected  # type: ignore[arg-type]
    assert Condition(0, "missing", 0.0).holds(values).tolist() == [False, False, True]

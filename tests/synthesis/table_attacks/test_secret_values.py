"""Inference by the value of the secret: a rare value that leaks where the average does not, and what is compared."""

from __future__ import annotations

import numpy as np
import pytest

from miaudit.metrics.units import Units
from miaudit.synthesis.schema import Column, Schema, Table
from miaudit.synthesis.table_attacks.inference import Inference, attribute_inference
from miaudit.synthesis.table_attacks.secret_values import OfValue, by_value

SCHEMA = Schema(
    (
        Column("age", "continuous", low=-99, high=99),
        Column("ill", "categorical", ("none", "cold", "rare", "rarer")),
        Column("sex"),
        Column("income", "continuous", low=-99, high=1e4, missing=True),
    )
)


def draw(n: int, rng: np.random.Generator) -> np.ndarray:
    ill = rng.choice(4, n, p=[0.7, 0.265, 0.03, 0.005])
    return np.column_stack([rng.normal(50, 9, n), ill, rng.integers(0, 2, n), rng.normal(50, 9, n)])


def guessed(made: np.ndarray, inside: np.ndarray, outside: np.ndarray) -> tuple[Inference, Table, Table]:
    tables = [Table(SCHEMA, values) for values in (made, inside, outside)]
    inferred = attribute_inference(*tables, secrets=["ill", "income"], rng=np.random.default_rng(0))
    return inferred, tables[0], Table(SCHEMA, np.r_[inside, outside])


def compared(n: int, secrets: tuple[str, ...], leak: bool, seed: int = 1) -> dict[str, OfValue]:
    rng = np.random.default_rng(seed)
    made, inside, outside = (draw(n, rng) for _ in range(3))
    rare = np.flatnonzero(inside[:, 1] == 2)
    if leak:
        made[: len(rare)] = inside[rare]
    inferred, released, pool = guessed(made, inside, outside)
    return {f"{one.secret} {one.value}": one for one in by_value(inferred, released, pool, n, secrets, 0.95)}


def test_a_rare_value_leaks_where_the_average_hardly_moves() -> None:
    leaky, harmless = (compared(4000, ("ill",), leak)["ill rare"].comparison for leak in (True, False))
    assert leaky.difference.value > 0.8 and leaky.leaks
    assert not harmless.leaks


def test_values_add_up_to_the_secret_and_rarer_ones_are_together() -> None:
    values = compared(1500, ("ill",), leak=False)
    assert list(values) == ["ill none", "ill cold", "ill rare", "ill rarer values together"]
    rng = np.random.default_rng(1)
    inferred, *_ = guessed(*(draw(1500, rng) for _ in range(3)))
    whole = inferred.comparisons[0]
    for side in ("members", "control"):
        rates = [getattr(one.comparison, side) for one in values.values()]
        assert sum(rate.right for rate in rates) == getattr(whole, side).right
        assert sum(rate.trials for rate in rates) == getattr(whole, side).trials


def test_numbers_are_compared_in_fifths_of_the_synthetic_values() -> None:
    values = compared(1000, ("income",), leak=False)
    assert len(values) == 5
    assert next(iter(values)).startswith("income ")
    trials = [one.comparison.members.trials + one.comparison.control.trials for one in values.values()]
    assert sum(trials) == 2000 and min(trials) > 250
    assert {name.split()[1] for name in values} == {"up", "above"}


def test_only_the_named_secrets_are_compared_and_the_intervals_hold_together() -> None:
    assert not compared(300, (), leak=False)
    one, all_four = (compared(1500, ("ill",), leak=False)["ill none"].comparison for _ in range(2))
    assert one.difference.low == all_four.difference.low
    alone = one.low_at(0.95)
    assert one.difference.low == pytest.approx(one.low_at(1 - 0.05 / 4)) and one.difference.low < alone


def test_a_secret_without_a_known_value_and_units_are_no_trouble() -> None:
    rng = np.random.default_rng(3)
    made, inside, outside = (draw(200, rng) for _ in range(3))
    made[:, 3] = np.nan
    inferred, released, pool = guessed(made, inside, outside)
    units = Units.of_classes(np.arange(200) // 2, 100 + np.arange(200) // 2)
    values = by_value(inferred, released, pool, 200, ("income", "ill"), 0.95, units)
    assert [one.value for one in values if one.secret == "income"] == ["all"]
    assert all(np.isfinite(one.comparison.difference.low) for one in values)

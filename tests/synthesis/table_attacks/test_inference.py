"""Attribute inference: what everybody can guess is no leak, what only a copy tells is; numbers, missing values."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.tree import DecisionTreeClassifier

from miaudit.errors import InputError
from miaudit.synthesis.schema import Column, Schema, Table
from miaudit.synthesis.table_attacks.inference import attribute_inference

SCHEMA = Schema(
    (
        Column("age", "continuous", low=-50, high=50),
        Column("weight", "continuous", low=-50, high=50),
        Column("ill", missing=True),
        Column("job", "categorical", ("a", "b", "c")),
    )
)


def draw(n: int, rng: np.random.Generator) -> Table:
    """Illness follows from age in nine of ten: anybody who knows the population can guess it."""
    age, weight = rng.normal(size=(2, n))
    ill = np.where(rng.random(n) < 0.9, age > 0, age <= 0).astype(float)
    ill[rng.random(n) < 0.1] = np.nan
    return Table(SCHEMA, np.c_[age, weight, ill, rng.integers(0, 3, n)])


@pytest.mark.long
def test_population_knowledge_is_not_called_a_leak() -> None:
    rng = np.random.default_rng(0)
    false_alarms = 0
    for _ in range(60):
        made, members, control = (draw(n, rng) for n in (300, 250, 250))
        found = attribute_inference(made, members, control, secrets=["ill"], rng=rng).comparisons[0]
        false_alarms += found.leaks
    assert false_alarms <= 6
    assert found.control.value > 0.7
    assert not found.weak


@pytest.mark.parametrize("model", [None, DecisionTreeClassifier()])
def test_what_only_copies_tell_is_a_leak(model: object) -> None:
    rng = np.random.default_rng(1)
    members, control = draw(500, rng), draw(500, rng)
    found = attribute_inference(members, members, control, secrets=["ill", "job"], model=model, rng=rng)
    assert all(part.leaks for part in found.comparisons)
    assert found.comparisons[1].members.value > 0.99
    assert abs(found.comparisons[1].control.value - 1 / 3) < 0.08
    assert found.score[:500].mean() > found.score[500:].mean() + 0.2
    assert found.secrets == ("ill", "job")


def test_a_missing_secret_is_no_trial_and_numbers_are_right_within_the_tolerance() -> None:
    rng = np.random.default_rng(2)
    made, members, control = (draw(n, rng) for n in (300, 200, 200))
    found = attribute_inference(made, members, control, secrets=["ill", "age"], tolerance=0.1, rng=rng)
    ill, age = found.comparisons
    assert ill.members.trials == np.count_nonzero(~np.isnan(members.column("ill")))
    assert age.members.trials == 200
    wide = attribute_inference(made, members, control, secrets=["age"], tolerance=3.0, rng=rng).comparisons[0]
    assert wide.members.value > age.members.value
    assert "right within" in age.note


def test_only_the_known_columns_are_used() -> None:
    rng = np.random.default_rng(3)
    made, members, control = (draw(n, rng) for n in (1000, 800, 800))
    blind = attribute_inference(made, members, control, secrets=["ill"], known=["job"], rng=rng).comparisons[0]
    seeing = attribute_inference(
        made, members, control, secrets=["ill"], known=["age", "ill"], model=LogisticRegression(), rng=rng
    ).comparisons[0]
    assert abs(blind.members.value - 0.5) < 0.08
    assert seeing.members.value > 0.85


def test_bad_input_is_refused() -> None:
    rng = np.random.default_rng(4)
    table = draw(20, rng)
    with pytest.raises(InputError, match="secrets: expected a list of columns"):
        attribute_inference(table, table, table, secrets="ill", rng=rng)
    with pytest.raises(InputError, match="known: expected a column beside ill"):
        attribute_inference(table, table, table, secrets=["ill"], known=["ill"], rng=rng)
    with pytest.raises(InputError, match="tolerance"):
        attribute_inference(table, table, table, tolerance=-1.0, rng=rng)
    with pytest.raises(InputError, match="secrets: expected at least one"):
        attribute_inference(table, table, table, secrets=[], rng=rng)

"""Audits of tables of several records per person, in worlds in which nothing leaks: how often they raise concern."""

from __future__ import annotations

import numpy as np
import pytest

from miaudit.metrics.classical import Sample
from miaudit.synthesis.schema import Column, Schema, Table
from miaudit.synthesis.table_attacks.table_audit import TablePlan, attack, audit_table

pytestmark = [pytest.mark.slow, pytest.mark.validity]

SCHEMA = Schema(
    (
        Column("a", "continuous", low=-50, high=50),
        Column("job", "categorical", tuple("abc")),
        Column("sex"),
        Column("ill"),
    )
)
PLAN = TablePlan(attempts=60, fidelity=False, secrets=("job", "sex", "ill"), neighbours=3)


def persons(n: int, rng: np.random.Generator) -> np.ndarray:
    return np.c_[rng.normal(size=n), rng.integers(0, 3, n), rng.integers(0, 2, (n, 2))]


def fives(rng: np.random.Generator) -> np.ndarray:
    return np.full(40, 5)


def geometric(rng: np.random.Generator) -> np.ndarray:
    return rng.geometric(0.25, 60)


def giant(rng: np.random.Generator) -> np.ndarray:
    return np.r_[np.ones(100, int), 100]


def few(rng: np.random.Generator) -> np.ndarray:
    return np.full(10, 5)


def many(rng: np.random.Generator) -> np.ndarray:
    return np.full(300, 2)


@pytest.fixture
def no_band(monkeypatch: pytest.MonkeyPatch) -> None:
    """The band of the curve is drawn and judges nothing, but takes most of the time."""
    monkeypatch.setattr(Sample, "tpr_band", lambda self, fpr, confidence: (np.zeros(len(fpr)), np.ones(len(fpr))))


@pytest.mark.parametrize(("inside", "outside"), [(fives, fives), (geometric, geometric), (giant, giant), (few, many)])
@pytest.mark.usefixtures("no_band")
def test_households_raise_concern_in_at_most_the_stated_share(claim, inside, outside) -> None:  # type: ignore[no-untyped-def]
    """The control: rows that are taken as independent. That they repeat is noticed every time."""

    def drawn(rng):  # type: ignore[no-untyped-def]
        sizes = [each(rng) for each in (inside, outside)]
        members, control = (Table(SCHEMA, np.repeat(persons(len(n), rng), n, axis=0)) for n in sizes)
        units = np.repeat(np.arange(len(sizes[0])), sizes[0]), 10**6 + np.repeat(np.arange(len(sizes[1])), sizes[1])
        return Table(SCHEMA, persons(200, rng)), members, control, units

    def declared(rng):  # type: ignore[no-untyped-def]
        *tables, units = drawn(rng)
        found = audit_table(*tables, units=units, plan=PLAN, design="one-run", rng=rng)
        return {"concern": found.exit_code == 3}

    def rows_alone(rng):  # type: ignore[no-untyped-def]
        *tables, _ = drawn(rng)
        rows = attack(*tables, plan=PLAN, design="one-run", rng=rng)
        assert rows.repeats is not None
        assert rows.repeats.forbids("one-run")
        joint = 1 - 0.05 / len(rows.comparisons)
        return {"concern, rows alone": any(part.low_at(joint) > 0.05 for part in rows.comparisons)}

    claim(declared, holds={"concern": 0.025})
    claim(rows_alone, fails={"concern, rows alone": 0.025})

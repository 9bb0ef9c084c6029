"""Interventional error: a world against itself, a world with a wrong mechanism, and one that ignores interventions."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest

from miaudit.errors import InputError
from miaudit.synthesis.interventions import interventional_error
from miaudit.synthesis.schema import Column, Schema, Table

SCHEMA = Schema((Column("cause"), Column("effect"), Column("aside")))


class Chain:
    """cause -> effect; P(effect | cause) = 0.9 or 0.1 where the mechanism is right."""

    def __init__(self, strength: float = 0.8, *, obeys: bool = True) -> None:
        self.strength, self.obeys = strength, obeys

    def sample(self, n: int, *, rng: np.random.Generator, do: Mapping[str, float] | None = None) -> Table:
        do = do or {}
        free = (rng.random(n) < 0.5).astype(float)
        cause = np.full(n, do.get("cause", np.nan)) if "cause" in do else free
        seen = cause if self.obeys else free
        effect = (rng.random(n) < 0.5 + self.strength * (seen - 0.5)).astype(float)
        if "effect" in do:
            effect[:] = do["effect"]
        return Table(SCHEMA, np.c_[cause, effect, rng.random(n) < 0.3])


def test_closed_forms() -> None:
    rng = np.random.default_rng(0)
    world = Chain()
    look = {"cause": ["effect"]}
    right = interventional_error(Chain(), world, [("cause", 1.0)], outcomes=look, n=40_000, rng=rng)
    assert right.error.value is not None
    assert right.error.value < 0.01
    assert abs((right.effect.value or 0) - 0.4) < 0.01  # 0.9 with the intervention, 0.5 without
    assert "one column" in right.error.note
    weak = interventional_error(Chain(0.4), world, [("cause", 1.0)], outcomes=look, n=40_000, rng=rng)
    assert abs((weak.error.value or 0) - 0.2) < 0.01
    deaf = interventional_error(Chain(obeys=False), world, [("cause", 1.0)], outcomes=look, n=40_000, rng=rng)
    assert abs((deaf.error.value or 0) - 0.4) < 0.01  # as bad as ignoring the intervention
    assert (deaf.floor.value or 0) < 0.01


def test_the_interval_is_over_the_columns_that_were_set() -> None:
    rng = np.random.default_rng(1)
    found = interventional_error(
        Chain(0.4), Chain(), [("cause", 1.0), ("cause", 0.0), ("effect", 1.0)], n=2000, rng=rng
    )
    assert len(found.outcomes) == 6
    assert found.error.low <= (found.error.value or 0) <= found.error.high
    assert {outcome.column for outcome in found.outcomes if outcome.do[0] == "effect"} == {"cause", "aside"}


def test_bad_input_is_refused() -> None:
    rng = np.random.default_rng(2)
    with pytest.raises(InputError, match="interventions: expected at least one"):
        interventional_error(Chain(), Chain(), [], rng=rng)
    with pytest.raises(InputError, match="column: expected a column of the schema"):
        interventional_error(Chain(), Chain(), [("zzz", 1.0)], rng=rng)
    with pytest.raises(InputError, match="outcomes: expected at least one column"):
        interventional_error(Chain(), Chain(), [("cause", 1.0)], outcomes={"cause": []}, rng=rng)

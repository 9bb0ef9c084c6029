"""Generators of the experiment on adoption and closeness: what each makes, and the figures of a small world."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "experiments" / "causal_synthesis"))

import table_generators as generators


@pytest.mark.parametrize("make", [generators.kernel, generators.between, generators.trees])
def test_generators_make_rows_of_the_schema_that_are_mostly_no_copies(make: generators.Maker) -> None:
    rng = np.random.default_rng(0)
    people, _ = generators.households(200, rng)
    made = generators.clipped(people.schema, make(people, 300, rng))
    assert len(made) == 300
    assert np.isin(made.column("place"), people.column("place")).all()
    known = {tuple(row) for row in people.values.tolist()}
    assert np.mean([tuple(row) in known for row in made.values.tolist()]) < 0.2


def test_a_table_of_members_is_seen_and_one_of_other_people_is_not() -> None:
    rng = np.random.default_rng(1)
    people, _ = generators.households(900, rng)
    leaky, harmless = (
        np.mean([generators.of_adult(generators.kernel, people, 150, rng, leak=leak) for _ in range(5)], axis=0)
        for leak in (True, False)
    )
    assert leaky[2] > 0.6 and abs(harmless[2] - 0.5) < 0.06


def test_naming_households_keeps_rows_of_one_home_from_hiding_each_other() -> None:
    hidden, named = (
        np.mean([generators.of_households(300, np.random.default_rng(seed), named=one) for seed in range(4)], axis=0)
        for one in (False, True)
    )
    assert hidden[:2] == pytest.approx(named[:2])  # the distance knows no units
    assert named[2] > 0.5


def test_success_is_that_of_the_definition() -> None:
    member = np.arange(200) < 100
    score = np.r_[np.arange(100.0) + 0.5, np.arange(100.0)]
    assert generators.success(score, member) == pytest.approx((0.505, 0.02))
    assert generators.success(np.r_[np.ones(100), np.zeros(100)], member) == (1.0, 1.0)

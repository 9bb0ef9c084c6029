"""Draws: one coin for all records of a unit, in every model; a population that no model learns; runs of units."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from sklearn.tree import DecisionTreeClassifier

from miaudit.collect.campaign import Campaign, Shadows
from miaudit.collect.draws import Draws
from miaudit.collect.records import Records
from miaudit.collect.run_campaign import collect
from miaudit.errors import InputError
from miaudit.models.targets import SklearnTarget

TREE = SklearnTarget(DecisionTreeClassifier(max_depth=4))
UNIT = np.array([f"p{i % 70}" for i in range(200)])  # two or three records of each person, apart from each other


def noise(n: int = 200, **fields: Any) -> Records:
    rng = np.random.default_rng(3)
    member = fields.pop("member", None)
    return Records(rng.normal(size=(n, 5)), rng.integers(0, 2, n), member, fields, "noise")


def draws(made: Campaign, seed: int = 0) -> Draws:
    return Draws.of(made, np.random.default_rng(seed))


def whole(member: Any, unit: Any) -> bool:
    """Whether every unit is inside as a whole or not at all."""
    return all(len(set(np.asarray(member)[np.asarray(unit) == name].tolist())) == 1 for name in set(unit))


def test_records_of_a_unit_are_drawn_together_in_every_model() -> None:
    found = draws(Campaign(TREE, noise(unit=UNIT), shadows=Shadows(models=6)))
    assert found.included.shape == (7, 200)
    for learnt in found.included:
        assert whole(learnt, UNIT)
    assert whole(found.base.member, UNIT)
    np.testing.assert_array_equal(found.included[0], found.base.member)
    assert (found.included[1:].sum(axis=0) == 3).all()
    # The control: without unit ids the same records are drawn one by one.
    alone = draws(Campaign(TREE, noise(), shadows=Shadows(models=6)))
    assert not whole(alone.base.member, UNIT)
    assert not whole(alone.included[1], UNIT)


def test_a_units_coin_is_fair() -> None:
    inside = np.zeros(200)
    for seed in range(60):
        inside += draws(Campaign(TREE, noise(unit=UNIT)), seed).base.member
    share = inside / 60
    assert abs(share.mean() - 0.5) < 0.05
    assert 0.2 < share.min() < share.max() < 0.8  # 60 coins: standard error 0.065


def test_units_reach_the_evidence_and_names_that_never_repeat_change_nothing() -> None:
    found = collect(Campaign(TREE, noise(unit=UNIT)), rng=np.random.default_rng(0)).evidence
    assert found.unit is not None
    assert whole(found.member, found.unit)
    single = noise(unit=np.array([f"q{i}" for i in range(200)]))
    np.testing.assert_array_equal(draws(Campaign(TREE, single)).base.member, draws(Campaign(TREE, noise())).base.member)


def test_the_population_holds_whole_units_only() -> None:
    made = Campaign(TREE, noise(unit=UNIT), attacks=("rmia_online",), shadows=Shadows(models=4))
    found = draws(made)
    assert 36 <= len(found.population) <= 45  # a fifth, to the next unit
    assert not set(UNIT[found.population]) & set(UNIT[found.rows])
    assert not found.included[:, found.population].any()
    member = np.arange(200) % 70 < 30
    known = noise(unit=UNIT, member=member)
    shadows = Shadows(models=4, population=20)
    given = draws(Campaign(TREE, known, attacks=("rmia_online",), shadows=shadows))
    assert 20 <= len(given.population) <= 22
    assert not set(UNIT[given.population]) & set(UNIT[member])


def test_runs_of_units_leave_the_rest_of_the_unit_out() -> None:
    found = draws(Campaign(TREE, noise(unit=UNIT), design="multi-run", audited=20))
    assert len(found.rows) == 20
    assert len(set(UNIT[found.rows])) == 20  # one record of each
    mates = np.flatnonzero(np.isin(UNIT, UNIT[found.rows]))
    for run, learnt in enumerate(found.included):
        inside = set(np.flatnonzero(learnt).tolist())
        own = {int(found.rows[run])} if found.base.member[run] else set()
        assert inside & set(mates.tolist()) == own
        assert inside - own == set(range(200)) - set(mates.tolist())
    half = draws(Campaign(TREE, noise(unit=UNIT), design="multi-run"))
    assert len(half.rows) == 35


def test_too_few_models_to_name_records_are_refused_before_training() -> None:
    made = Campaign(TREE, noise(), shadows=Shadows(models=4, vulnerability=True))
    with pytest.raises(InputError, match=r"shadow\.models: expected 16 or more, to see which of 200 records leak"):
        draws(made)
    people = Campaign(TREE, noise(unit=UNIT), shadows=Shadows(models=14, vulnerability=True))
    assert draws(people).included.shape == (15, 200)  # 70 units need 14
    with pytest.raises(InputError, match="16 or more"):
        draws(Campaign(TREE, noise(), shadows=Shadows(models=14, vulnerability=True)))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"design": "multi-run", "audited": 200}, "at most 199 of 200 records"),
        ({"design": "multi-run", "audited": 70, "records": noise(unit=UNIT)}, "at most 69 of 70 units"),
        ({"design": "multi-run", "shadows": Shadows(models=4)}, "shadow.models: expected 0 in a multi-run"),
        ({"audited": 40}, "data.records: expected a number of records in a multi-run only"),
        (
            {"records": noise(unit=np.arange(200) // 100), "shadows": Shadows(models=8)},
            "2 units, of which one model would learn",
        ),
    ],
)
def test_what_would_be_ignored_or_fail_later_is_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=re.escape(message)):
        draws(Campaign(**{"target": TREE, "records": noise(), **options}))

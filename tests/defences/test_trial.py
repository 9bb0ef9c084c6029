"""A trial: what is drawn, trained, kept and refused."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from sklearn.linear_model import LinearRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.tree import DecisionTreeClassifier

from miaudit.collect.campaign import Shadows
from miaudit.collect.records import Records
from miaudit.defences import findings
from miaudit.defences.outputs import LabelOnly
from miaudit.defences.trial import AS_IT_IS, Trial, _units_of, cost, measure
from miaudit.errors import InputError
from miaudit.findings.policy import Policy
from miaudit.models.targets import Precomputed, SklearnTarget


def records(n: int = 300, member: np.ndarray | None = None, **fields: np.ndarray) -> Records:
    rng = np.random.default_rng(0)
    y = np.arange(n) % 2
    return Records(rng.normal(size=(n, 3)) + y[:, None], y, member, fields, "noise")


def trial(**changes: object) -> Trial:
    made = Trial(
        SklearnTarget(DecisionTreeClassifier(min_samples_leaf=2)),
        records(),
        Shadows(models=8, seconds_per_fit=0.1),
        defences={"label": LabelOnly()},
        trainings={"small": SklearnTarget(DecisionTreeClassifier(max_depth=1))},
    )
    return replace(made, **changes)


@pytest.mark.long
def test_equal_generators_give_equal_comparisons_and_training_less_leaks_less(tmp_path: Path) -> None:
    told: list[tuple[int, int]] = []
    kept = trial(shadows=Shadows(models=8, store=tmp_path / "s"))
    one = measure(kept, rng=np.random.default_rng(1), progress=lambda done, total: told.append((done, total)))
    two = measure(trial(), rng=np.random.default_rng(1))
    assert [m.option.name for m in one.measured] == [AS_IT_IS, "label", "small"]
    assert told[-1] == (21, 21)
    assert told == sorted(told)
    for a, b in zip(one.measured, two.measured, strict=True):
        assert np.array_equal(a.attacked.scores, b.attacked.scores)
    assert one.reductions == two.reductions
    assert one.reductions[1].low > 0.1  # a tree of one split remembers nothing
    assert sorted(path.name for path in (tmp_path / "s").iterdir()) == [AS_IT_IS, "small"]
    models = one.measured[0].option.models
    assert len(models.calibration) == 60
    assert not models.included[:, models.calibration].any()
    assert (models.included[1:, models.rows].sum(axis=0) == 4).all()
    left = cost(replace(kept, shadows=replace(kept.shadows, seconds_per_fit=1.0)), rng=np.random.default_rng(1))
    assert [found.fits for found in left.values()] == [0, 0]


def test_the_cost_is_that_of_all_trainings() -> None:
    found = cost(trial(), rng=np.random.default_rng(0))
    assert {name: one.fits for name, one in found.items()} == {AS_IT_IS: 9, "small": 9}


@pytest.mark.long
def test_memberships_that_are_given_are_kept() -> None:
    member = np.random.default_rng(2).random(300) < 0.5
    found = measure(trial(records=records(member=member)), rng=np.random.default_rng(0))
    models = found.measured[0].option.models
    assert np.array_equal(models.member, member[models.rows])
    assert not member[models.calibration].any()  # defences learn from non-members


@pytest.mark.long
def test_a_model_that_stands_without_shadow_models_shows_concern_but_never_its_absence() -> None:
    rng = np.random.default_rng(3)
    member = rng.random(600) < 0.5
    y = rng.integers(2, size=600)
    for effect, status in ((2.0, "flagged"), (0.0, "not-testable")):
        z = rng.normal(size=(600, 2))
        z[np.arange(600), y] += effect * member
        data = Records(np.arange(600), y, member, {}, "outputs")
        noisy = Precomputed(z + rng.normal(size=z.shape))
        one = Trial(Precomputed(z), data, Shadows(), defences={"label": LabelOnly()}, given={"noisy": noisy})
        found = measure(one, rng=np.random.default_rng(0))
        assert [m.option.group for m in found.measured] == ["output", "output", "given"]
        assert "not adaptive" in " ".join(found.measured[2].notes)
        judged = findings.findings(found, policy=Policy.of({"auc": 0.6}))
        assert judged.verdict.status == status


@pytest.mark.long
def test_members_as_calibration_records() -> None:
    found = measure(trial(source="training", calibration=50), rng=np.random.default_rng(0))
    models = found.measured[0].option.models
    assert len(models.rows) == 300
    assert models.included[3, models.learned_from(3, np.random.default_rng(0))].all()
    assert "members" in " ".join(findings.findings(found).rests_on)


@pytest.mark.long
@pytest.mark.parametrize("given", [False, True])
def test_units_go_in_together_and_none_stands_on_two_sides(given: bool) -> None:
    unit = np.random.default_rng(4).permutation(np.arange(300) // 3)
    member = unit % 2 == 0 if given else None
    found = measure(trial(records=records(unit=unit, member=member)), rng=np.random.default_rng(0))
    models = found.measured[0].option.models
    assert models.units is not None and len(models.calibration) == (30 if given else 60)
    assert not set(unit[models.calibration]) & set(unit[models.rows])
    for learned in models.included:
        assert not set(unit[learned]) & set(unit[models.rows][~learned[models.rows]])


def test_a_calibration_set_of_whole_units_leaves_records_to_audit() -> None:
    unit = np.arange(300) // 30
    with pytest.raises(InputError, match="units of 5 records at most, received a unit of 30 records"):
        _units_of(unit, 4, 5, np.random.default_rng(0))
    assert len(_units_of(unit, 31, 59, np.random.default_rng(0))) == 1
    assert len(_units_of(unit, 31, 60, np.random.default_rng(0))) == 2


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"target": SklearnTarget(LinearRegression())}, "target: expected a classifier"),
        ({"records": Records(np.zeros((300, 1)), None, None, {}, "x")}, "data.y: expected a column of labels"),
        ({"records": Records(np.zeros((300, 1)), np.zeros(300, dtype=int), None, {}, "x")}, "received K = 1"),
        ({"shadows": Shadows(models=0)}, "add shadow: {models: 16}"),
        ({"shadows": Shadows(models=2)}, "4 or more, received 2"),
        ({"calibration": 290}, "set fewer aside"),
        ({"target": Precomputed(np.zeros((300, 2)))}, "data.member: expected a column of who was trained on"),
        ({"given": {"g": Precomputed(np.zeros((300, 2)))}}, "given outputs belong to a model that stands as it is"),
        ({"trainings": {"t": SklearnTarget(LinearRegression())}}, "trainings.t: expected a classifier"),
    ],
)  # fmt: skip
def test_bad_input(changes: dict, message: str) -> None:
    with pytest.raises(InputError, match=message):
        measure(trial(**changes), rng=np.random.default_rng(0))


@pytest.mark.thorough
@pytest.mark.long
def test_predictions_need_enough_models() -> None:
    rng = np.random.default_rng(0)
    few = measure(trial(), rng=rng).measured[0].option.models
    assert findings.predicted(few, rng=rng) == ([], [findings.predicted(few, rng=rng)[1][0]])
    assert "32 shadow models" in findings.predicted(few, rng=rng)[1][0]
    made = trial(target=SklearnTarget(GaussianNB()), trainings={}, shadows=Shadows(models=32), records=records(100))
    enough = measure(made, rng=rng).measured[0].option.models
    found, said = findings.predicted(enough, rng=rng)
    assert [one["disclosure"] for one in found] == ["confidence-vector", "true-label", "decision-set"]
    assert said == []

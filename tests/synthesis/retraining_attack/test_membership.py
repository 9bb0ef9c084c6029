"""Attacks on generators whose leakage is known."""

from __future__ import annotations

import numpy as np
import pytest

from miaudit.errors import InputError
from miaudit.synthesis.retraining_attack.heldout import all_trials
from miaudit.synthesis.retraining_attack.membership import MembershipAttack, compare, membership_attack
from miaudit.synthesis.retraining_attack.sets import SyntheticSets, train
from miaudit.synthesis.retraining_attack.targets import GivenTargets
from miaudit.synthesis.schema import Column, Schema, Table
from worlds.generators import Marginals, Resampling, Telltale

SCHEMA = Schema(tuple(Column(f"c{i}") for i in range(12)))
TARGET = 7
FEW = {"extractors": ["naive", "nearness"], "classifiers": ["kernel", "logistic"]}


def table(n: int = 150) -> Table:
    values = (np.random.default_rng(0).random((n, 12)) < 0.3).astype(float)
    values[TARGET] = 1
    return Table(SCHEMA, values)


def telltale(epsilon: float, repeats: int, seed: int, **options: object) -> MembershipAttack:
    made = Telltale(tuple(table().values[TARGET]), epsilon)
    given = {"extractors": ["naive"], "classifiers": ["logistic"], "sets": 4, "set_size": 40, "folds": 2, **options}
    return membership_attack(
        table(), fit=made, targets=[TARGET], repeats=repeats, rng=np.random.default_rng(seed), **given
    )


@pytest.mark.long
def test_an_outlier_of_a_resampled_table_is_found() -> None:
    found = membership_attack(
        table(), fit=Resampling(), targets=[TARGET], repeats=16, sets=8, **FEW, rng=np.random.default_rng(1)
    )
    best = found.row("nearness", "logistic")
    assert best.metrics["auc"].low > 0.6
    assert best.metrics["auc_of_models"].value > 0.95
    assert best.placebo["auc"].low < 0.5 < best.placebo["auc"].high
    assert best.metrics["advantage"].value == pytest.approx(best.metrics["tpr"].value - best.metrics["fpr"].value)
    assert len(best.by_target) == 1
    assert found.bound.bound.value > 0.5
    assert found.bound.extractor == "nearness"
    frame = found.frame()
    assert frame.height == 4 * 2 * 7
    assert "epsilon is at least" in str(found)


@pytest.mark.long
def test_a_generator_that_knows_nothing_of_records_gives_nothing_away() -> None:
    """Its models differ a lot, and all that an attack could learn is which model a set came from."""
    found = membership_attack(
        table(), fit=Marginals(0.5), repeats=8, sets=4, set_size=50, **FEW, rng=np.random.default_rng(3)
    )
    for row in found.rows:
        assert row.metrics["auc"].low < 0.53
        assert row.placebo["auc"].value == pytest.approx(0.5, abs=0.15)
    assert found.bound.bound.value == 0
    assert found.protocol == "held-out"
    assert found.models == 80


@pytest.mark.long
def test_the_published_split_recognises_models_even_with_permuted_labels() -> None:
    """Errata D2 and D5: released probabilities give near-perfect accuracy for labels that mean nothing."""
    options = {"targets": [1, TARGET], "repeats": 3, "sets": 20, "set_size": 30, "rng": np.random.default_rng(1)}
    sets = train(table(), fit=Marginals(0.3, probabilities=True), **options)
    only = {"extractors": ["naive", "histogram"], "classifiers": ["svc", "random forest", "knn"]}
    leaky = membership_attack(sets, protocol="paper", **only, rng=np.random.default_rng(2))
    assert leaky.notes[0].startswith("Leaky protocol")
    assert "drawn" not in leaky.notes[1] and "draw outcomes" in leaky.notes[1]
    assert len(leaky.released_probabilities) == 12
    assert leaky.bound is None
    for row in leaky.rows:
        assert row.placebo["accuracy"].value > 0.95, row
    outcomes = train(table(), fit=Marginals(0.3), **{**options, "rng": np.random.default_rng(1)})
    drawn = membership_attack(outcomes, protocol="paper", **only, rng=np.random.default_rng(2))
    assert drawn.released_probabilities == ()
    assert drawn.row("naive", "svc").placebo["accuracy"].value > 0.6  # models are recognised from outcomes, too


@pytest.mark.long
def test_the_bound_never_crosses_the_truth_and_catches_a_broken_promise() -> None:
    """Exactly epsilon = 1 in the target: at 95%, of 8 bounds more than 2 above it have a probability of 0.6%."""
    honest = [telltale(1.0, 12, seed).bound for seed in range(8)]
    assert sum(one.bound.value > 1.0 for one in honest) <= 2
    broken = telltale(10.0, 24, 0).bound.bound
    assert broken.value > 1.5  # ten times the promised epsilon of 1 is caught
    assert broken.value <= broken.reachable
    assert broken.reachable > 2


@pytest.mark.long
def test_the_largest_reachable_bound_grows_with_models() -> None:
    reach = [telltale(10.0, n, 0).bound.bound.reachable for n in (8, 16, 40)]
    assert reach[0] < reach[1] < reach[2]
    assert reach[2] == pytest.approx(2.554, abs=1e-3)  # 20 and 20 models, no error


def test_too_few_models_for_a_bound_are_said() -> None:
    found = telltale(1.0, 4, 0)
    assert found.bound is not None
    sets = train(table(), [TARGET], fit=Marginals(), repeats=4, sets=2, set_size=10, rng=np.random.default_rng(0))
    short = SyntheticSets(sets.schema, sets.sources[:7], sets.membership[:7], sets.targets, sets.records)
    with pytest.raises(InputError, match=r"3 with and 4 without|4 with and 3 without"):
        membership_attack(short, **FEW, folds=2, rng=np.random.default_rng(0))


@pytest.mark.long
def test_copies_are_found_among_records_with_missing_values() -> None:
    rng = np.random.default_rng(0)
    schema = Schema((Column("a"), Column("b", "continuous", low=-5, high=5, missing=True)))
    values = np.c_[rng.integers(0, 2, 200), np.clip(rng.normal(size=200), -5, 5)]
    values[20:60, 1] = np.nan  # in every release somebody agrees with the target as far as is known
    found = membership_attack(
        Table(schema, values),
        fit=Resampling(),
        targets=[3],
        repeats=16,
        sets=3,
        set_size=199,
        extractors=["nearness"],
        classifiers=["random forest"],
        rng=rng,
    )
    assert found.rows[0].metrics["auc"].low > 0.6


def test_too_few_models_for_the_folds_are_said_before_any_training() -> None:
    def never(*_: object, **__: object) -> object:
        raise AssertionError("trained")

    with pytest.raises(InputError, match=r"repeats=8 suffices \(80 models for 5 targets\), or use folds=2"):
        membership_attack(table(), fit=never, repeats=5, rng=np.random.default_rng(0))
    for given in ([TARGET], (TARGET,), np.array([TARGET]), GivenTargets((TARGET,))):  # lists have a method "count"
        with pytest.raises(InputError, match=r"repeats=8 suffices \(16 models for 1 target\)"):
            membership_attack(table(), fit=never, targets=given, repeats=3, rng=np.random.default_rng(0))


def test_folds_hold_whole_models_and_placebos_permute_within_them() -> None:
    sets = train(table(), [1, 2], fit=Marginals(), repeats=6, sets=2, set_size=10, rng=np.random.default_rng(0))
    for one in all_trials(sets, 3, "per-target", rng=np.random.default_rng(1)):
        placebo = one.placebo(np.random.default_rng(2))
        assert len(np.unique(one.model)) == len(one.model)
        for fold in one.folds:
            rows = one.fold == fold
            assert one.member[rows].sum() == placebo[rows].sum() == 2
        assert (placebo != one.member).any()
    (pooled,) = all_trials(sets, 3, "pooled", rng=np.random.default_rng(1))
    assert len(pooled.model) == 24
    assert np.unique(pooled.target).tolist() == [0, 1]


@pytest.mark.long
def test_pooled_and_shared_forms() -> None:
    pooled = membership_attack(
        table(),
        fit=Resampling(),
        targets=[TARGET, 3],
        repeats=8,
        sets=4,
        folds=2,
        pooling="pooled",
        **FEW,
        rng=np.random.default_rng(0),
    )
    assert len(pooled.row("nearness", "logistic").by_target) == 2
    shared = membership_attack(
        table(),
        fit=Resampling(),
        targets=[TARGET, 3],
        repeats=16,
        sets=4,
        design="shared",
        **FEW,
        rng=np.random.default_rng(0),
    )
    assert (shared.design, shared.models) == ("shared", 32)
    assert any("best of 2 targets" in text for text in shared.bound.bound.corrections)
    assert shared.row("nearness", "logistic").by_target[0].value > 0.6  # the outlier
    with pytest.raises(InputError, match="per-target with a shared design"):
        membership_attack(
            table(),
            fit=Resampling(),
            targets=[1, 2],
            repeats=8,
            design="shared",
            pooling="pooled",
            sets=2,
            rng=np.random.default_rng(0),
        )


def test_constant_predictors_and_constant_features_are_flagged() -> None:
    class Still:
        def sample(self, n: int, *, rng: np.random.Generator) -> np.ndarray:
            return np.tile([1.0] * 12, (n, 1))

    found = membership_attack(
        table(),
        fit=lambda given, rng: Still(),
        targets=[0],
        repeats=4,
        folds=2,
        sets=3,
        set_size=10,
        extractors=["histogram"],
        classifiers=["svc"],
        rng=np.random.default_rng(0),
    )
    row = found.rows[0]
    assert row.constant == 1
    assert found.features["histogram"] == (24, 24)
    assert row.metrics["auc"].value == 0.5
    assert "(constant)" in str(found)
    assert "Always the same answer" in found.notes[0]


@pytest.mark.long
def test_a_defence_is_compared_by_both_advantages() -> None:
    options = {"targets": [TARGET], "repeats": 12, "sets": 6, "set_size": 500, "folds": 2, **FEW}
    leaking = membership_attack(table(), fit=Resampling(), **options, rng=np.random.default_rng(0))
    tight = membership_attack(table(), fit=Marginals(0.5), **options, rng=np.random.default_rng(0))
    for change in compare(leaking, tight):
        first, second = (one.row(change.extractor, change.classifier).metrics for one in (leaking, tight))
        assert change.accuracy.value == pytest.approx(first["accuracy"].value - second["accuracy"].value)
        assert change.advantage.value == pytest.approx(first["advantage"].value - second["advantage"].value)
        assert change.advantage.low < change.advantage.value < change.advantage.high
    best = next(c for c in compare(leaking, tight) if (c.extractor, c.classifier) == ("nearness", "logistic"))
    assert best.advantage.low > 0


@pytest.mark.long
def test_the_same_seed_gives_the_same_numbers() -> None:
    one, two = (str(telltale(1.0, 8, 5, classifiers=["random forest", "svc"])) for _ in range(2))
    assert one == two


@pytest.mark.long
@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"protocol": "leaky"}, "held-out or paper"),
        ({"protocol": "paper", "pooling": "per-target"}, "pooled with protocol"),
        ({"placebos": 0}, "at least one"),
        ({"extractors": []}, "at least one"),
        ({"extractors": ["histogrm"]}, "did you mean histogram"),
        ({"classifiers": ["forest"]}, "random forest"),
        ({"folds": 1}, "from 2 up"),
        ({"targets": [999]}, "a target must be in the table"),
        ({"rng": 1}, "numpy.random.Generator"),
        ({"confidence": 95}, "confidence"),
        ({"delta": 1.0}, "delta"),
        ({"fit": None}, "fit or fit_many"),
        ({"pooling": "all"}, "per-target or pooled"),
    ],
)
def test_bad_input(options, message) -> None:
    given = {"fit": Marginals(), "repeats": 8, "sets": 1, "set_size": 5, "rng": np.random.default_rng(0), **options}
    with pytest.raises(InputError, match=message):
        membership_attack(table(), **given)


def test_sources_that_cannot_be_attacked() -> None:
    with pytest.raises(InputError, match="a Table or SyntheticSets"):
        membership_attack(np.zeros((5, 2)), fit=Marginals(), rng=np.random.default_rng(0))
    sets = train(table(), [1], fit=Marginals(), repeats=4, sets=1, set_size=5, rng=np.random.default_rng(0))
    with pytest.raises(InputError, match="no fit beside sets"):
        membership_attack(sets, fit=Marginals(), rng=np.random.default_rng(0))
    unknown = SyntheticSets(sets.schema, sets.sources, sets.membership, sets.targets)
    with pytest.raises(InputError, match="nearness"):
        membership_attack(unknown, extractors=["nearness"], folds=2, rng=np.random.default_rng(0))
    found = membership_attack(unknown, classifiers=["kernel"], folds=2, rng=np.random.default_rng(0))
    assert [row.extractor for row in found.rows] == ["naive", "histogram", "correlation", "ensemble"]

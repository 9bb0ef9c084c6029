"""Utility: metrics against scikit-learn, intervals by simulation, a collapse that accuracy misses, fixed targets."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics import accuracy_score, balanced_accuracy_score, roc_auc_score

from miaudit.errors import InputError
from miaudit.metrics.classical import delong_variance
from miaudit.metrics.roc import Roc
from miaudit.synthesis.schema import Column, Schema, Table
from miaudit.synthesis.utility import (
    CLASSIFIERS,
    Benchmark,
    Scores,
    _measured,
    _Output,
    auc_with_influence,
    classifier,
    compare_generators,
    compare_with_real,
)

SCHEMA = Schema(
    (
        Column("a"),
        Column("b", missing=True),
        Column("c", "categorical", ("x", "y", "z")),
        Column("d", "continuous", low=-50, high=50),
        Column("rare"),
    )
)


def draw(n: int, rng: np.random.Generator, strength: float = 1.0) -> Table:
    a = rng.integers(0, 2, n)
    c = rng.integers(0, 3, n)
    d = rng.normal(size=n) + strength * a
    b = (rng.random(n) < 1 / (1 + np.exp(-2 * strength * (a + c - 1.5)))).astype(float)
    b[rng.random(n) < 0.1] = np.nan
    return Table(SCHEMA, np.c_[a, b, c, d, rng.random(n) < 0.01])


def test_metrics_are_scikit_learns() -> None:
    rng = np.random.default_rng(0)
    for classes in (2, 3):
        truth = rng.integers(0, classes, 200)
        score = np.round(rng.normal(size=(200, classes)) + np.eye(classes)[truth], 1)
        output = _Output(score.argmax(axis=1), score, np.arange(classes))
        value, influence = _measured(output, truth, np.ones(200, dtype=bool))
        if classes == 2:
            auc = roc_auc_score(truth, score[:, 1])
        else:
            auc = np.mean([roc_auc_score(truth == k, score[:, k]) for k in range(classes)])
        wanted = [accuracy_score(truth, output.predicted), balanced_accuracy_score(truth, output.predicted), auc]
        assert np.allclose(value, wanted)
        assert np.allclose(influence.mean(axis=1), 0)


def test_the_influence_on_the_auc_gives_delongs_variance() -> None:
    rng = np.random.default_rng(1)
    positive = rng.random(500) < 0.3
    score = np.round(rng.normal(size=500) + positive, 1)
    value, influence = auc_with_influence(score, positive)
    roc = Roc.of(score, positive)
    assert np.isclose(value, roc.auc)
    assert np.isclose(influence @ influence / 500**2, delong_variance(roc), rtol=0.02)


@pytest.mark.long
def test_intervals_cover_the_difference_of_two_fixed_classifiers() -> None:
    """The truth is the mean over many held-out tables; each interval comes from one."""
    rng = np.random.default_rng(2)

    def scores(truth: np.ndarray, noise: np.ndarray, strength: float) -> Scores:
        score = strength * truth + noise
        output = _Output((score > strength / 2).astype(int), np.c_[-score, score], np.arange(2))
        value, influence = _measured(output, truth, np.ones(len(truth), dtype=bool))
        return Scores(value[None, None], influence[None, None], np.zeros((1, 1), dtype=bool))

    changes, limits = [], []
    for _ in range(500):
        truth = (rng.random(400) < 0.3).astype(int)
        noise = rng.normal(size=400)
        pair = scores(truth, noise, 2.0), scores(truth, noise + rng.normal(size=400), 2.0)
        found = compare_generators([pair[0]], [pair[1]])
        changes.append([found[m].value for m in found])
        limits.append([(found[m].low, found[m].high) for m in found])
        assert "one table" in found["auc"].note
    truth_of = np.mean(changes, axis=0)
    covered = np.mean(
        [[low <= t <= high for (low, high), t in zip(row, truth_of, strict=True)] for row in limits], axis=0
    )
    assert (covered > 0.92).all(), covered


def test_training_again_widens_the_interval() -> None:
    rng = np.random.default_rng(3)
    influence = rng.normal(scale=0.01, size=(1, 1, 3, 2000))
    influence -= influence.mean(axis=-1, keepdims=True)

    def of(value: float) -> Scores:
        return Scores(np.full((1, 1, 3), value), influence, np.zeros((1, 1), dtype=bool))

    same, different = [of(0.7)] * 3, [of(0.6), of(0.7), of(0.8)]
    narrow, wide = (compare_generators(group, [of(0.7)] * 3)["auc"] for group in (same, different))
    assert narrow.value == wide.value == 0
    assert wide.high - wide.low > 0.3  # t with 2 degrees of freedom: 2 x 4.3 x 0.1 / sqrt(3) = 0.50
    assert narrow.high - narrow.low < 1e-3


def test_a_table_that_collapsed_looks_fine_by_accuracy_alone() -> None:
    """The control of erratum D10: always the majority keeps the accuracy, and is at chance by the other metrics."""
    schema = Schema((Column("a"), Column("rare")))
    rng = np.random.default_rng(4)

    def sick(n: int) -> Table:
        rare = rng.random(n) < 0.1
        return Table(schema, np.c_[np.where(rng.random(n) < 0.9, rare, ~rare), rare])

    benchmark = Benchmark.of(sick(2000), sick(2000), targets=["rare"], classifiers=["logistic", "forest"], rng=rng)
    real = benchmark.score()
    collapsed = benchmark.score(Table(schema, np.zeros((500, 2))))
    rows = {row.metric: row for row in compare_with_real(benchmark, real, [collapsed]) if row.classifier == "mean"}
    assert rows["accuracy"].change.value is not None
    assert rows["accuracy"].change.value < 0.05
    assert rows["balanced_accuracy"].synthetic.value == rows["auc"].synthetic.value == 0.5
    assert rows["auc"].change.low > 0.15
    assert rows["auc"].constant == 1
    majority = benchmark.majority()
    assert majority["accuracy"].value == pytest.approx(rows["accuracy"].synthetic.value)
    assert (majority["balanced_accuracy"].value, majority["auc"].value) == (0.5, 0.5)


@pytest.mark.thorough
@pytest.mark.long
def test_all_classifiers_learn_every_kind_of_target_and_another_real_sample_loses_little() -> None:
    rng = np.random.default_rng(5)
    benchmark = Benchmark.of(draw(300, rng), draw(500, rng), targets=["a", "b", "c", "d"], rng=rng)
    assert benchmark.classifiers == CLASSIFIERS
    real = benchmark.score()
    assert real.value.shape == (4, 5, 3)
    assert (real.value[[0, 1, 3], :, 2] > 0.52).all()
    rows = compare_with_real(benchmark, real, [benchmark.score(draw(300, rng))])
    assert [row.classifier for row in rows[::3]] == [*CLASSIFIERS, "mean"]
    assert all(abs(row.change.value or 0) < 0.08 for row in rows)
    noise = draw(300, rng)
    shuffled = Table(SCHEMA, np.stack([rng.permutation(column) for column in noise.values.T], axis=1))
    lost = compare_with_real(benchmark, real, [benchmark.score(shuffled)])[-1]
    assert (lost.metric, lost.classifier) == ("auc", "mean")
    assert lost.change.low > 0.05


def test_targets_are_fixed_by_the_generator_and_rare_ones_left_out() -> None:
    rng = np.random.default_rng(6)
    train, test = draw(300, rng), draw(300, rng)
    first, second = (Benchmark.of(train, test, targets=2, rng=np.random.default_rng(9)) for _ in range(2))
    assert first.targets == second.targets
    everything = Benchmark.of(train, test, targets=20, rng=rng)
    assert everything.targets == ("a", "b", "c", "d")  # "rare" has fewer than 10 held-out records
    few = Benchmark.of(train, test, targets=["a"], classifiers=["knn"], most_rows=50, rng=rng)
    assert np.array_equal(few.score().value, few.score().value)


def test_bad_input_is_refused() -> None:
    rng = np.random.default_rng(7)
    train, test = draw(200, rng), draw(200, rng)
    with pytest.raises(InputError, match="did you mean logistic"):
        Benchmark.of(train, test, classifiers=["logistics"], rng=rng)
    with pytest.raises(InputError, match="targets: expected attributes with two classes"):
        Benchmark.of(train, test, targets=["rare"], rng=rng)
    with pytest.raises(InputError, match="column: expected a column of the schema"):
        Benchmark.of(train, test, targets=["zzz"], rng=rng)
    with pytest.raises(InputError, match="synthetic: expected the scores"):
        compare_with_real(Benchmark.of(train, test, targets=["a"], rng=rng), None, [])  # type: ignore[arg-type]
    with pytest.raises(InputError, match="classifier"):
        classifier("boosting", seed=0)


def test_a_table_of_one_column_has_nothing_to_predict_from() -> None:
    table = Table(Schema((Column("a"),)), np.arange(80)[:, None] % 2)
    with pytest.raises(InputError, match="targets: expected an attribute and others to predict it from, received one"):
        Benchmark.of(table, table, rng=np.random.default_rng(0))

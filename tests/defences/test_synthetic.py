"""Training on a synthetic release: what the model sees, what its store is keyed by, and what a configuration makes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("torch")

from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB

from miaudit.config import disclosure as disclosure_config
from miaudit.defences.synthetic import SyntheticTraining
from miaudit.errors import InputError
from miaudit.models.targets import SklearnTarget
from miaudit.synthesis import Column, GeneratorConfig, Privacy, Schema

SCHEMA = Schema((Column("a", "continuous", low=-6, high=6), Column("b", "continuous", low=-6, high=6), Column("y")))
QUICK = GeneratorConfig(epochs=30, batch=50, learning_rate=0.01)


class Seen(GaussianNB):
    """A classifier that keeps what it was trained on."""

    def fit(self, x, y, sample_weight=None):
        self.x_, self.y_ = x, y
        return super().fit(x, y, sample_weight)


def records(n: int = 400) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, n)
    return rng.normal(size=(n, 2)) + 3 * y[:, None] - 1.5, y


@pytest.mark.long
def test_no_record_reaches_the_model_and_it_still_learns() -> None:
    x, y = records()
    target = SyntheticTraining(SklearnTarget(Seen()), SCHEMA, "y", config=QUICK)
    fitted = target.fit(x, y, np.arange(300), seed=1)
    learnt = fitted[0].x_
    assert len(learnt) == 300
    assert not (set(map(tuple, learnt.round(6))) & set(map(tuple, x.round(6))))
    accuracy = (target.outputs(fitted, x[300:]).argmax(axis=1) == y[300:]).mean()
    assert accuracy > 0.85  # the classes are 3 apart


@pytest.mark.long
def test_equal_seeds_give_equal_models_and_others_do_not() -> None:
    x, y = records(120)
    target = SyntheticTraining(SklearnTarget(LogisticRegression()), SCHEMA, "y", config=QUICK)
    first, again, other = (target.outputs(target.fit(x, y, np.arange(100), seed=s), x) for s in (1, 1, 2))
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)


def test_everything_that_decides_the_release_is_in_the_identity() -> None:
    base = SklearnTarget(GaussianNB())
    made = [
        SyntheticTraining(base, SCHEMA, "y"),
        SyntheticTraining(base, SCHEMA, "y", config=QUICK),
        SyntheticTraining(base, SCHEMA, "y", privacy=Privacy(records=400, epsilon=2.0)),
        SyntheticTraining(base, SCHEMA, "y", privacy=Privacy(records=400, epsilon=3.0)),
        SyntheticTraining(SklearnTarget(LogisticRegression()), SCHEMA, "y"),
    ]
    assert len({one.identity() for one in made}) == len(made)


def test_the_label_stands_last() -> None:
    wrong = Schema((Column("y"), Column("a", "continuous", low=0, high=1)))
    with pytest.raises(InputError, match="as the last column"):
        SyntheticTraining(SklearnTarget(GaussianNB()), wrong, "y")


def test_a_configuration_makes_it(tmp_path: Path) -> None:
    x, y = records(80)
    np.savez(tmp_path / "d.npz", x=x, y=y)
    (tmp_path / "columns.yaml").write_text(
        "- {names: [a, b], kind: continuous, low: -6, high: 6}\n- {name: y, kind: binary}\n"
    )
    (tmp_path / "c.yaml").write_text(
        "target: {kind: sklearn, estimator: 'sklearn.naive_bayes:GaussianNB'}\n"
        "data: {path: d.npz, x: x, y: y}\nshadow: {models: 16}\n"
        "disclosure:\n  defences: [label]\n  trainings:\n"
        "    release: {synthetic: {columns: columns.yaml, generator: {epochs: 2, batch: 20}, "
        "privacy: {records: 80, epsilon: 2}}}\n"
    )
    trial = disclosure_config.read(tmp_path / "c.yaml").trial(tmp_path)
    target = trial.trainings["release"]
    assert isinstance(target, SyntheticTraining)
    assert target.privacy == Privacy(records=80, epsilon=2.0)
    assert target.label == "y"

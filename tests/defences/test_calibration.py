"""Calibration: against scikit-learn's own, and on worlds whose calibration is known."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import optimize, special
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.calibration import CalibratedClassifierCV
from sklearn.frozen import FrozenEstimator

from miaudit.defences.calibration import Isotonic, Platt, Temperature, calibration_error
from miaudit.errors import InputError

RNG = np.random.default_rng(0)


def world(n: int, sharpness: float, seed: int = 0, classes: int = 4) -> tuple[np.ndarray, np.ndarray]:
    """Probabilities that are too sure by a factor on the logits, and labels drawn by the true ones."""
    rng = np.random.default_rng(seed)
    z = 1.5 * rng.normal(size=(n, classes))
    truth = special.softmax(z, axis=1)
    y = (rng.random(n)[:, None] > truth.cumsum(axis=1)).sum(axis=1).clip(max=classes - 1)
    return special.softmax(sharpness * z, axis=1), y


class Given(ClassifierMixin, BaseEstimator):
    """A classifier whose probabilities are its records."""

    def fit(self, x: np.ndarray, y: np.ndarray) -> Given:
        self.classes_ = np.unique(y)
        return self

    def predict_proba(self, x: np.ndarray) -> np.ndarray:
        return x

    def predict(self, x: np.ndarray) -> np.ndarray:
        return self.classes_[x.argmax(axis=1)]


def test_isotonic_agrees_with_scikit_learn() -> None:
    p, y = world(500, 3.0)
    fresh, _ = world(200, 3.0, seed=1)
    theirs = CalibratedClassifierCV(FrozenEstimator(Given().fit(p, y)), method="isotonic").fit(p, y)
    ours = Isotonic().fit(p, y, rng=RNG).apply(fresh, rng=RNG).values
    # scikit-learn fits by cross-validation on folds of a frozen model: the mean over folds is near one fit of all.
    assert np.abs(ours - theirs.predict_proba(fresh)).mean() < 0.02
    assert ours.sum(axis=1) == pytest.approx(np.ones(200))


@pytest.mark.parametrize("sharpness", [0.4, 1.0, 3.0])
def test_the_temperature_is_found(sharpness: float) -> None:
    p, y = world(20_000, sharpness)
    fitted = Temperature().fit(p, y, rng=RNG)
    assert fitted.temperature == pytest.approx(sharpness, rel=0.05)
    z = np.log(p)
    slow = optimize.minimize(
        lambda t: np.mean(special.logsumexp(z / t, axis=1) - (z / t)[np.arange(len(y)), y]), [1.0], bounds=[(0.05, 50)]
    )
    assert fitted.temperature == pytest.approx(float(slow.x[0]), rel=1e-3)


@pytest.mark.parametrize("defence", [Temperature(), Platt(), Isotonic()])
def test_what_was_too_sure_is_calibrated_and_the_control_is_not(defence: Temperature) -> None:
    p, y = world(8000, 3.0)
    fresh, right = world(8000, 3.0, seed=1)
    after = defence.fit(p, y, rng=RNG).apply(fresh, rng=RNG).values
    assert calibration_error(fresh, right) > 0.15
    assert calibration_error(after, right) < 0.03
    assert (after.argmax(axis=1) == right).mean() > (fresh.argmax(axis=1) == right).mean() - 0.01


def test_platt_finds_the_logistic_line() -> None:
    rng = np.random.default_rng(3)
    odds = rng.normal(size=20_000)
    y = (rng.random(20_000) < special.expit(0.5 * odds - 1)).astype(np.intp)
    p = np.column_stack([special.expit(-odds), special.expit(odds)])
    line = Platt().fit(p, y, rng=rng).of_class[1]
    found = special.logit(line(np.array([0.0, 1.0])))
    assert found[0] == pytest.approx(-1, abs=0.06)
    assert found[1] - found[0] == pytest.approx(0.5, abs=0.06)


def test_exact_zeros_do_not_rule_the_fit() -> None:
    p, y = world(3000, 1.0)
    counted = np.round(p * 20) / 20  # as of a forest of twenty trees
    counted /= counted.sum(axis=1, keepdims=True)
    assert (counted == 0).any()
    assert Temperature().fit(counted, y, rng=RNG).temperature == pytest.approx(1.0, rel=0.15)
    after = Platt().fit(counted, y, rng=RNG).apply(counted, rng=RNG).values
    assert (after.argmax(axis=1) == y).mean() > (counted.argmax(axis=1) == y).mean() - 0.02


def test_a_class_without_held_out_records_gets_a_share() -> None:
    p = np.tile([0.5, 0.3, 0.2], (50, 1))
    y = np.repeat([0, 1], [30, 20])
    after = Platt().fit(p, y, rng=RNG).apply(p[:1], rng=RNG).values[0]
    assert after[2] < 0.05
    rows = Isotonic().fit(p, y, rng=RNG).apply(p[:1], rng=RNG).values[0]
    assert rows == pytest.approx([0.6, 0.4, 0.0])


def test_the_calibration_error_is_that_of_its_definition() -> None:
    p, y = world(1000, 2.0)
    top, right = p.max(axis=1), p.argmax(axis=1) == y
    parts = np.array_split(np.argsort(top, kind="stable"), 15)
    slow = sum(len(rows) / 1000 * abs(right[rows].mean() - top[rows].mean()) for rows in parts)
    assert calibration_error(p, y) == pytest.approx(slow)
    assert calibration_error(p[:1], y[:1]) == pytest.approx(abs(right[0] - top[0]))


def test_too_few_held_out_records() -> None:
    p, y = world(9, 1.0)
    for defence in (Temperature(), Platt(), Isotonic()):
        with pytest.raises(InputError, match="10 held-out records or more, received 9"):
            defence.fit(p, y, rng=RNG)
    with pytest.raises(InputError, match="a label for each record"):
        Temperature().fit(p, y[:3], rng=RNG)
    assert Temperature(2.0).fit(p, y, rng=RNG).temperature == 2.0  # nothing to learn, nothing needed

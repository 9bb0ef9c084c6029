"""Several models in the place of one."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import special
from sklearn.naive_bayes import GaussianNB
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

from miaudit.defences.ensemble import Ensemble, Stack
from miaudit.errors import InputError
from miaudit.models import shadow
from miaudit.models.targets import Precomputed, SklearnTarget, Trainable


def data(n: int = 120) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    y = np.arange(n) % 3
    return rng.normal(size=(n, 2)) + 5 * np.eye(3)[y][:, :2], y


def test_an_ensemble_is_the_mean_of_its_models() -> None:
    x, y = data()
    target = Ensemble(SklearnTarget(DecisionTreeClassifier(max_depth=2, max_features=1)), models=4)
    assert isinstance(target, Trainable)
    fitted = target.fit(x, y, np.arange(100), seed=3)
    mean = np.mean([special.softmax(target.base.outputs(one, x), axis=1) for one in fitted], axis=0)
    assert np.exp(target.outputs(fitted, x)) == pytest.approx(mean, abs=1e-6)
    again = target.fit(x, y, np.arange(100), seed=3)
    assert np.array_equal(target.outputs(again, x), target.outputs(fitted, x))
    other = target.fit(x, y, np.arange(100), seed=4)
    assert not np.array_equal(target.outputs(other, x), target.outputs(fitted, x))


def test_disjoint_parts_are_disjoint_and_complete() -> None:
    class Recording(SklearnTarget):
        def fit(self, x, y, rows, *, seed):
            seen.append(rows)
            return super().fit(x, y, rows, seed=seed)

    x, y = data()
    rows = np.arange(10, 100)
    for target, parts in (
        (Ensemble(Recording(GaussianNB()), 4, "disjoint"), 4),
        (Stack(Recording(GaussianNB()), 3), 3),
    ):
        seen: list[np.ndarray] = []
        target.fit(x, y, rows, seed=0)
        together = np.concatenate(seen)
        assert len(seen) == parts
        assert len(np.unique(together)) == len(together)
        assert set(together) <= set(rows)
    assert len(together) < len(rows)  # the stack keeps a part for the model on top


def test_a_stack_has_all_classes_and_trains_as_shadow_models_do() -> None:
    x, y = data()
    target = Stack(SklearnTarget(GaussianNB()), 2)
    included = shadow.inclusion(120, 4, rng=np.random.default_rng(0))
    found = shadow.train(target, x, y, included, seed=1)
    assert found.shape == (120, 3)
    right = (found.model(0).argmax(axis=1) == y).mean()
    assert right > 0.7
    same = shadow.train(target, x, y, included, seed=1)
    assert np.array_equal(found.model(3), same.model(3))


def test_identities_differ_where_trainings_do() -> None:
    base = SklearnTarget(GaussianNB())
    made = [Ensemble(base), Ensemble(base, 3), Ensemble(base, 3, "disjoint"), Stack(base), Stack(base, 3), base]
    assert len({one.identity() for one in made}) == len(made)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Ensemble(Precomputed(np.zeros((3, 2)))), "a classifier that can be trained"),
        (lambda: Stack(SklearnTarget(DecisionTreeRegressor())), "a classifier that can be trained"),
        (lambda: Ensemble(SklearnTarget(GaussianNB()), 1), "a whole number from 2 up, received 1"),
        (lambda: Ensemble(SklearnTarget(GaussianNB()), parts="halves"), "same or disjoint"),
        (
            lambda: Ensemble(SklearnTarget(GaussianNB()), 9, "disjoint").fit(*data(12), np.arange(12), seed=0),
            "take fewer",
        ),
    ],
)
def test_bad_input(make, message: str) -> None:
    with pytest.raises(InputError, match=message):
        make()

"""Classifiers from inner products against scikit-learn on the features themselves."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.decomposition import PCA
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from miaudit.errors import InputError
from miaudit.synthesis.retraining_attack.classifiers import CLASSIFIERS, Components, Fold, InnerProducts, log_odds


def problem(seed: int = 0, m: int = 90, d: int = 12) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    member = rng.random(m) < 0.5
    values = (rng.normal(size=(m, d)) * rng.uniform(0.1, 30, d) + 5).astype(np.float32)
    values[:, 0] += 30 * member
    return values, member, np.arange(60), np.arange(60, m)


def test_support_vectors_and_logistic_are_those_of_the_features() -> None:
    values, member, train, test = problem()
    fold = Fold.of(InnerProducts.of(values), train, test)
    scaled = StandardScaler().fit_transform(values.astype(float))
    d, rng = values.shape[1], np.random.default_rng(0)
    linear = SVC(kernel="linear").fit(scaled[train] / np.sqrt(d), member[train])
    np.testing.assert_allclose(
        log_odds(fold, "kernel", member, rng=rng), linear.decision_function(scaled[test] / np.sqrt(d)), atol=2e-3
    )
    gaussian = SVC(kernel="rbf", gamma=1 / d).fit(scaled[train], member[train])
    np.testing.assert_allclose(
        log_odds(fold, "svc", member, rng=rng), gaussian.decision_function(scaled[test]), atol=2e-3
    )
    pca = PCA().fit(scaled[train] / np.sqrt(d))
    logistic = LogisticRegression(C=1.0).fit(pca.transform(scaled[train] / np.sqrt(d)), member[train])
    expected = logistic.decision_function(pca.transform(scaled[test] / np.sqrt(d)))
    np.testing.assert_allclose(log_odds(fold, "logistic", member, rng=rng), expected, atol=2e-3)


def test_neighbours_are_those_of_the_features() -> None:
    values, member, train, test = problem()
    fold = Fold.of(InnerProducts.of(values), train, test)
    scaled = StandardScaler().fit_transform(values.astype(float))
    votes = KNeighborsClassifier(5).fit(scaled[train], member[train]).predict_proba(scaled[test])[:, 1] * 5
    found = log_odds(fold, "knn", member, rng=np.random.default_rng(0))
    np.testing.assert_allclose(found, np.log((votes + 0.5) / (5.5 - votes)), atol=1e-9)


def test_components_are_learned_from_the_training_sets_alone() -> None:
    values, _, train, test = problem()
    products = InnerProducts.of(values, scaled_by=train)
    found = Components.of(products, train, test, most=4)
    scaled = StandardScaler().fit(values[train].astype(float)).transform(values.astype(float)) / np.sqrt(12)
    pca = PCA(4).fit(scaled[train])
    for ours, theirs in ((found.train, pca.transform(scaled[train])), (found.test, pca.transform(scaled[test]))):
        np.testing.assert_allclose(np.abs(ours), np.abs(theirs), atol=1e-4)
    moved = values.copy()
    moved[test[1:]] *= 100  # other test sets must not matter
    again = Components.of(InnerProducts.of(moved, scaled_by=train), train, test, most=4)
    np.testing.assert_allclose(np.abs(again.train), np.abs(found.train), atol=1e-5)
    np.testing.assert_allclose(np.abs(again.test[0]), np.abs(found.test[0]), atol=1e-5)


def test_joined_products_are_those_of_joined_features() -> None:
    values, *_ = problem()
    values[:, 3] = 4.0  # constant: left out
    parts = [InnerProducts.of(part) for part in (values[:, :5], values[:, 5:])]
    joined, whole = InnerProducts.joined(parts), InnerProducts.of(values)
    np.testing.assert_allclose(joined.gram, whole.gram, atol=1e-5)
    assert joined.columns == whole.columns == 11
    assert np.diag(whole.gram).mean() == pytest.approx(1.0, abs=1e-3)


@pytest.mark.parametrize("name", CLASSIFIERS)
def test_every_classifier_learns_and_points_up(name) -> None:
    values, member, train, test = problem()
    fold = Fold.of(InnerProducts.of(values), train, test)
    score = log_odds(fold, name, member, rng=np.random.default_rng(0))
    assert score.shape == test.shape
    assert np.isfinite(score).all()
    assert score[member[test]].mean() > score[~member[test]].mean() + 0.3
    flipped = log_odds(fold, name, ~member, rng=np.random.default_rng(0))
    assert flipped[member[test]].mean() < flipped[~member[test]].mean()


@pytest.mark.parametrize("name", CLASSIFIERS)
def test_nothing_that_varies_is_no_answer(name) -> None:
    products = InnerProducts.of(np.ones((20, 4), dtype=np.float32))
    fold = Fold.of(products, np.arange(12), np.arange(12, 20))
    assert (log_odds(fold, name, np.arange(20) % 2 == 0, rng=np.random.default_rng(0)) == 0).all()


def test_bad_input() -> None:
    values, member, train, test = problem()
    fold = Fold.of(InnerProducts.of(values), train, test)
    with pytest.raises(InputError, match="did you mean random forest"):
        log_odds(fold, "random forrest", member, rng=np.random.default_rng(0))
    with pytest.raises(InputError, match="one kind only"):
        log_odds(fold, "svc", np.ones_like(member), rng=np.random.default_rng(0))

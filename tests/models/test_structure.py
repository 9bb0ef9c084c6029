"""The form of fitted models, beside a search for the bytes of records in what a model would be saved as."""

from __future__ import annotations

import pickle
import warnings
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from sklearn.base import BaseEstimator
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import TransformedTargetRegressor
from sklearn.ensemble import (
    BaggingClassifier,
    GradientBoostingClassifier,
    HistGradientBoostingRegressor,
    RandomForestClassifier,
    StackingClassifier,
    VotingClassifier,
)
from sklearn.feature_selection import SelectFromModel
from sklearn.frozen import FrozenEstimator
from sklearn.impute import KNNImputer
from sklearn.kernel_approximation import Nystroem
from sklearn.linear_model import Lasso, LinearRegression, LogisticRegression, Ridge
from sklearn.model_selection import GridSearchCV
from sklearn.multiclass import OneVsRestClassifier
from sklearn.multioutput import MultiOutputClassifier
from sklearn.naive_bayes import BernoulliNB, CategoricalNB
from sklearn.neighbors import KernelDensity, KNeighborsClassifier, KNeighborsRegressor
from sklearn.neural_network import MLPClassifier, MLPRegressor
from sklearn.pipeline import make_pipeline, make_union
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, SVR
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor
from sklearn.utils import all_estimators

from miaudit.models.structure import Structure

RNG = np.random.default_rng(0)
CENTRES = ("Birch", "KMeans", "BisectingKMeans", "MiniBatchKMeans")  # means of clusters; one may hold one record
X, Y = RNG.normal(size=(80, 3)), RNG.integers(0, 3, 80)


def stored(model: Any) -> int:
    """How many records lie in the model, byte for byte, as it would be saved."""
    saved = pickle.dumps(model)
    return sum(row.tobytes() in saved for row in X)


def fitted(made: type, *, y: np.ndarray) -> Any | None:
    """An estimator of a class on its defaults; None where these do not do for three columns of numbers."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            model = made()
            return model.set_params(**{"random_state": 0} if "random_state" in model.get_params() else {}).fit(X, y)
        except (AttributeError, TypeError, ValueError):
            return None


def of_kind(kind: str) -> list[tuple[str, type]]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return list(all_estimators(kind))


@pytest.mark.thorough
@pytest.mark.long
@pytest.mark.parametrize("kind", ["classifier", "regressor", "transformer"])
def test_of_every_estimator_the_rows_are_those_in_its_bytes(kind: str) -> None:
    """AffinityPropagation and the like are transformers too: what stores rows and is not listed fails here."""
    seen = storing = 0
    for name, made in of_kind(kind):
        model = fitted(made, y=X[:, 0] if kind == "regressor" else Y)
        if model is None or name in CENTRES:
            continue
        seen += 1
        structure, inside = Structure.of(model), stored(model)
        storing += inside > 0
        assert max(structure.rows.values(), default=0) == inside, name
    assert seen >= 25 and storing >= 4


def wrapped() -> dict[str, Any]:
    """Models in which a neighbour model, or another that stores records, is a part."""
    numbers, near = X[:, 0], KNeighborsClassifier(3)
    return {
        "search": GridSearchCV(KNeighborsClassifier(), {"n_neighbors": [2, 3]}, cv=2).fit(X, Y),
        "calibrated": CalibratedClassifierCV(FrozenEstimator(KNeighborsClassifier().fit(X, Y)), cv=2).fit(X, Y),
        "stacked": StackingClassifier([("near", near)], cv=2).fit(X, Y),
        "voting": VotingClassifier([("near", near)]).fit(X, Y),
        "one against rest": OneVsRestClassifier(SVC()).fit(X, Y),
        "several labels": MultiOutputClassifier(near).fit(X, np.stack([Y, Y > 1], axis=1)),
        "target": TransformedTargetRegressor(KNeighborsRegressor()).fit(X, numbers),
        "imputed": make_pipeline(KNNImputer(), LogisticRegression()).fit(X, Y),
        "joined": make_pipeline(make_union(Nystroem(n_components=20), StandardScaler()), Ridge()).fit(X, numbers),
        "as an argument": BaggingClassifier(KNeighborsClassifier().fit(X, Y), 2, max_samples=0.5).fit(X, Y),
        "in a dictionary": Own({"first": [KNeighborsClassifier().fit(X, Y)]}),
    }


class Own(BaseEstimator):
    def __init__(self, held: Any) -> None:
        self.held = held


def test_wrapped_models_are_opened() -> None:
    for name, model in wrapped().items():
        assert stored(model) > 0, name
        assert sum(Structure.of(model).rows.values()) > 0, name
    assert Structure.of(KernelDensity().fit(X)).rows == {"KernelDensity": 80}
    assert Structure.of(SVR().fit(X, X[:, 0])).rows == {"SVR": len(SVR().fit(X, X[:, 0]).support_)}


def test_behind_a_scaler_and_in_bootstraps_rows_are_counted_too() -> None:
    """Such rows are not the bytes of the records, so the number is compared with what the parts say."""
    scaled = make_pipeline(StandardScaler(), SVC()).fit(X, Y)
    assert Structure.of(scaled).rows == {"SVC": int(scaled[-1].n_support_.sum())}
    bagged = BaggingClassifier(KNeighborsClassifier(), 4, max_samples=0.5, random_state=0).fit(X, Y)
    assert Structure.of(bagged).rows == {"KNeighborsClassifier": max(one.n_samples_fit_ for one in bagged.estimators_)}


def test_distances_are_no_records() -> None:
    kernel = X @ X.T
    assert not Structure.of(SVC(kernel="precomputed").fit(kernel, Y)).rows
    assert not Structure.of(KNeighborsClassifier(metric="precomputed").fit(np.abs(kernel), Y)).rows


def slow_leaves(trees: list[Any], rows: list[np.ndarray]) -> list[int]:
    """Records of each leaf, one record after the other: of each tree those that it was fitted on."""
    counts: list[int] = []
    for tree, own in zip(trees, rows, strict=True):
        reached = tree.apply(X[own].astype(np.float32)).tolist()
        counts += [reached.count(leaf) for leaf in set(reached)]
    return sorted(counts)


@pytest.mark.long
def test_leaves_are_those_that_records_reach() -> None:
    every = np.arange(80)
    tree = DecisionTreeClassifier(random_state=0).fit(X, Y)
    assert sorted(Structure.of(tree).leaves) == slow_leaves([tree], [every])
    boosted = GradientBoostingClassifier(n_estimators=4, random_state=0).fit(X, Y)
    trees = boosted.estimators_.ravel().tolist()
    assert sorted(Structure.of(boosted).leaves) == slow_leaves(trees, [every] * len(trees))
    forest = RandomForestClassifier(6, random_state=0).fit(X, Y)
    own = [np.unique(rows) for rows in forest.estimators_samples_]
    assert sorted(Structure.of(forest).leaves) == slow_leaves(forest.estimators_, own)
    searched = GridSearchCV(DecisionTreeRegressor(random_state=0), {"max_depth": [4]}, cv=2).fit(X, X[:, 0])
    chosen = Structure.of(make_pipeline(StandardScaler(), searched).fit(X, X[:, 0])).leaves
    assert chosen.sum() == 80 and len(chosen) == searched.best_estimator_.get_n_leaves()
    binned = HistGradientBoostingRegressor(max_iter=3, min_samples_leaf=2).fit(X, X[:, 0])
    assert Structure.of(binned).leaves.sum() == 3 * 80


@pytest.mark.long
def test_a_note_on_leaves_names_how_many_and_large_leaves_have_none() -> None:
    """The control: the same forest with leaves of 20 records."""
    deep, flat = (RandomForestClassifier(5, min_samples_leaf=k, random_state=0).fit(X, Y) for k in (1, 20))
    (note,) = Structure.of(deep).notes(80)
    counts = Structure.of(deep).leaves
    assert f"{(counts < 5).sum()} of {len(counts)} leaves of its trees hold fewer than 5 training records" in note
    assert "the fewest is 1." in note
    flat_leaves = Structure.of(flat).leaves
    assert flat_leaves.min() >= 10  # different records: a bootstrap counts some of the 20 twice
    assert Structure.of(flat).notes(80) == ()
    assert len(Structure.of(flat).notes(80, fewest=int(flat_leaves.min()) + 1)) == 1
    exact = DecisionTreeClassifier(min_samples_leaf=5, random_state=0).fit(X, Y)
    assert Structure.of(exact).leaves.min() == 5 and Structure.of(exact).notes(80) == ()


def test_cells_of_naive_bayes_are_those_of_a_cross_table() -> None:
    values = RNG.integers(0, 6, (80, 2))
    table = [np.sum((values[:, j] == v) & (c == Y)) for j in range(2) for c in range(3) for v in range(6)]
    cells = Structure.of(CategoricalNB().fit(values, Y)).cells
    assert sorted(cells) == sorted(count for count in table if count)
    (note,) = Structure.of(CategoricalNB().fit(values, Y)).notes(80)
    assert f"{sum(0 < count < 5 for count in table)} of {len(cells)} cells" in note
    yes = values > 0
    pairs = [np.sum((yes[:, j] == v) & (c == Y)) for j in range(2) for c in range(3) for v in (False, True)]
    assert sorted(Structure.of(BernoulliNB().fit(yes, Y)).cells) == sorted(pairs)
    coarse = np.zeros((80, 1), dtype=int)
    assert Structure.of(CategoricalNB().fit(coarse, Y)).notes(80) == ()


def test_degrees_of_freedom_are_those_of_the_fit() -> None:
    """A linear model with as many parameters as records fits any numbers; with ten more records it is not noted."""
    for columns, noted in ((79, True), (69, False)):
        x, y = RNG.normal(size=(80, columns)), RNG.normal(size=80)
        line = LinearRegression().fit(x, y)
        structure = Structure.of(line)
        assert structure.parameters == {"LinearRegression": columns + 1}
        assert (float(np.abs(line.predict(x) - y).max()) < 1e-8) == noted
        assert len(structure.notes(80)) == noted
    assert "no degrees of freedom are left" in Structure.of(LinearRegression().fit(X[:4], Y[:4])).notes(4)[0]
    assert "fewer than 10 degrees of freedom are left" in Structure.of(LinearRegression().fit(X, Y)).notes(12)[0]
    sparse = Lasso(alpha=0.3).fit(x, x[:, 0])
    assert Structure.of(sparse).parameters == {"Lasso": np.count_nonzero(sparse.coef_) + 1}
    assert Structure.of(LogisticRegression(C=0.1).fit(X, Y)).parameters == {"LogisticRegression": 4}  # of each class


@pytest.mark.long
def test_parameters_of_networks_are_counted_for_each_output() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        wide = MLPRegressor(hidden_layer_sizes=(20,), max_iter=3).fit(X, X[:, 0])
        small = MLPClassifier(hidden_layer_sizes=(2,), max_iter=3).fit(X, Y)
    assert Structure.of(wide).parameters == {"MLPRegressor": 20 * 3 + 20 + 20 + 1}
    assert Structure.of(small).parameters == {"MLPClassifier": -(-(2 * 3 + 2 + 3 * 2 + 3) // 3)}
    assert len(Structure.of(wide).notes(80)) == 1 and Structure.of(wide).notes(1000) == ()
    assert Structure.of(small).notes(80) == ()


def test_other_models_and_unfitted_ones_have_no_structure() -> None:
    loop: Any = Own(None)
    loop.held = [loop]
    selected = SelectFromModel(KNeighborsClassifier())
    for model in (len, SimpleNamespace(X_=X), selected, SVC(), loop, "a", None, Own(Own), RandomForestClassifier()):
        assert Structure.of(model).notes(10) == ()

"""Work on several cores: the same results in the same order, and one thread for each piece."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest
from threadpoolctl import threadpool_info

from miaudit.causal import cores
from miaudit.causal.cores import at_once


def threads_of_each(_: int) -> int:
    np.ones((2, 2)) @ np.ones((2, 2))
    return max(pool["num_threads"] for pool in threadpool_info())


@pytest.mark.parametrize("number", [1, 2, 3])
def test_results_come_in_order_and_each_piece_has_one_thread(number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    import sklearn.ensemble  # noqa: F401 (its OpenMP is there to be limited)

    monkeypatch.setattr(cores, "available", lambda: number)
    assert at_once(lambda k: k * k, range(7)) == [k * k for k in range(7)]
    assert at_once(threads_of_each, range(4)) == [1] * 4


def test_an_error_of_a_piece_is_told() -> None:
    with pytest.raises(ZeroDivisionError):
        at_once(lambda k: 1 / k, [1, 0, 2])


def test_models_of_the_caller_are_fitted_one_after_another(monkeypatch: pytest.MonkeyPatch) -> None:
    class Own:
        pass

    def where(_: Any) -> bool:
        return threading.current_thread() is threading.main_thread()

    monkeypatch.setattr(cores, "available", lambda: 2)
    assert at_once(where, range(3), None, Own()) == [True] * 3
    assert at_once(where, range(3), None) == [False] * 3  # the control


def test_forests_are_fitted_one_after_another(monkeypatch: pytest.MonkeyPatch) -> None:
    """Their joblib sets and resets the process's filters of warnings, and warns where another thread's are gone."""
    from sklearn.ensemble import RandomForestClassifier

    monkeypatch.setattr(cores, "available", lambda: 2)
    where = at_once(lambda _: threading.current_thread() is threading.main_thread(), range(3), RandomForestClassifier())
    assert where == [True] * 3


def test_trees_are_those_of_a_forest() -> None:
    from sklearn.ensemble import ExtraTreesClassifier, ExtraTreesRegressor
    from sklearn.tree import ExtraTreeClassifier, ExtraTreeRegressor

    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(300, 5)).astype(np.float32), rng.normal(size=300)
    options = {"min_samples_leaf": 4, "max_features": 2}
    leaves = ExtraTreesRegressor(7, random_state=3, **options).fit(x, y).apply(x)
    trees = cores.grown(ExtraTreeRegressor(**options), 7, x, y, seed=3)
    assert np.array_equal(np.stack([tree.apply(x) for tree in trees], axis=1), leaves)
    forest = ExtraTreesClassifier(7, random_state=3, **options).fit(x, y > 0)
    trees = cores.grown(ExtraTreeClassifier(**options), 7, x, y > 0, seed=3)
    assert np.array_equal(sum(tree.predict_proba(x) for tree in trees) / 7, forest.predict_proba(x))


def test_inside_a_thread_of_many_there_is_one_core() -> None:
    found: list[int] = []
    thread = threading.Thread(target=lambda: found.append(cores.available()))
    thread.start()
    thread.join()
    assert found == [1]
    assert 1 <= cores.available() <= 4


def test_trees_refuse_rows_that_are_not_finite() -> None:
    from sklearn.tree import ExtraTreeRegressor

    x = np.array([[0.0], [np.inf]], dtype=np.float32)
    with pytest.raises(ValueError, match="finite"):
        cores.grown(ExtraTreeRegressor(), 1, x, np.arange(2.0), seed=0)

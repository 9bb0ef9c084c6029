"""The scorer says what an audit of the same split says, and nothing of a model that has learnt nothing by heart."""

from __future__ import annotations

import copy
import logging
import pickle
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.compose import make_column_transformer
from sklearn.dummy import DummyClassifier
from sklearn.linear_model import LinearRegression, RidgeClassifier
from sklearn.model_selection import GridSearchCV, KFold, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.svm import LinearSVC
from sklearn.tree import DecisionTreeClassifier

import miaudit as ma
from miaudit.errors import InputError

TREE = DecisionTreeClassifier(random_state=0)
METRICS = {"auc": 0.5, "balanced_accuracy": 0.5, "advantage": 0.0, "tpr_at_fpr_0.1": 0.1}


class LabelsAlone:
    """A model that says nothing but labels."""

    def __init__(self, model: Any) -> None:
        self.predict = model.predict


def data(n: int = 240, d: int = 4) -> tuple[Any, Any]:
    rng = np.random.default_rng(0)
    return rng.normal(size=(n, d)), rng.choice(["no", "yes"], n)


@pytest.mark.long
@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("signal", ["loss", "entropy"])
def test_it_is_what_an_audit_of_the_same_split_says(metric: str, signal: str) -> None:
    x, y = data()
    scorer = ma.leakage_scorer(x, y, metric=metric, signal=signal)
    folds = KFold(3, shuffle=True, random_state=0)
    model = DecisionTreeClassifier(min_samples_leaf=5, random_state=0)
    found = cross_validate(model, x, y, cv=folds, scoring={"privacy": scorer})["test_privacy"]
    for score, (train, test) in zip(found, folds.split(x), strict=True):
        fitted = clone(model).fit(x[train], y[train])
        sides = {"members": (x[train], y[train]), "nonmembers": (x[test], y[test])}
        plan = ma.Plan(fpr_targets=(0.1,), bounds=None)
        audit = ma.audit_model(fitted, **sides, attack=signal, plan=plan, design="one-run", rng=5)
        assert score == METRICS[metric] - audit.metric(metric).value


@pytest.mark.long
def test_a_model_without_memory_scores_nothing_and_one_with_much_of_it_far_less() -> None:
    x, y = data(2000)
    scorer = ma.leakage_scorer(x, y)
    for model, low, high in ((DummyClassifier(strategy="prior"), -0.03, 0.03), (TREE, -0.6, -0.2)):
        found = cross_validate(model, x, y, cv=4, scoring={"privacy": scorer})["test_privacy"]
        assert low < found.mean() < high, model


@pytest.mark.parametrize("kind", ["pandas", "polars", "list", "texts"])
def test_rows_are_found_in_every_container(kind: str) -> None:
    x, y = data(120, 3)
    whole = (np.round(x) + 0.0).astype(np.float32)
    whole[0, 0] = np.nan
    given: Any = {
        "pandas": lambda: pd.DataFrame(whole, columns=["a", "b", "c"]).assign(d=pd.Series(y, dtype="category")),
        "polars": lambda: pl.DataFrame(whole, schema=["a", "b", "c"]),
        "list": whole.tolist,
        "texts": lambda: np.array([[f"{v:g}" for v in row] for row in whole], dtype=object),
    }[kind]()
    test, train = np.arange(40), np.arange(40, 120)
    rows = {"pandas": lambda r: given.iloc[r], "list": lambda r: [given[i] for i in r]}.get(kind, lambda r: given[r])
    key = [(repr(list(map(str, row))), label) for row, label in zip(whole, y, strict=True)]  # the slow twin
    both = {key[i] for i in test} & {key[i] for i in train}
    found = ma.leakage_scorer(given, y).split(rows(test), y[test])
    assert len(found.members[1]) == sum(key[i] not in both for i in train)
    assert len(found.nonmembers[1]) == sum(key[i] not in both for i in test)
    assert found.left_out == sum(one in both for one in key) > 0
    assert len(found.members[0]) == len(found.members[1])


def test_rows_on_both_sides_are_left_out_and_told(caplog: pytest.LogCaptureFixture) -> None:
    x, y = data(90)
    x[80:], y[80:] = x[:10], y[:10]  # copies of test rows among the training rows
    x[40], y[40] = x[41], y[41]  # copies within the training rows: members as any other
    scorer = ma.leakage_scorer(x, y)
    found = scorer.split(x[:30], y[:30])
    assert (len(found.members[1]), len(found.nonmembers[1]), found.left_out) == (50, 20, 20)
    fitted = TREE.fit(x[30:], y[30:])
    with caplog.at_level(logging.WARNING, "miaudit"):
        kept = scorer(fitted, x[:30], y[:30])
    assert "20 rows left out" in caplog.text
    naive = ma.audit_model(fitted, members=(x[30:], y[30:]), nonmembers=(x[:30], y[:30]), rng=0).metric("auc").value
    assert kept < 0.5 - naive  # the copies would have hidden leakage


@pytest.mark.long
def test_it_goes_through_a_search_with_two_workers() -> None:
    x, y = data(160)
    scorer = ma.leakage_scorer(x, y)
    assert copy.deepcopy(scorer) is scorer
    assert pickle.loads(pickle.dumps(scorer)).metric == "auc"
    scoring = {"accuracy": "accuracy", "privacy": scorer}
    leaves = {"min_samples_leaf": [1, 40]}
    searches = [GridSearchCV(TREE, leaves, scoring=scoring, refit="privacy", cv=3, n_jobs=jobs) for jobs in (1, 2)]
    first, second = (clone(search).fit(x, y) for search in searches)
    assert first.best_params_ == {"min_samples_leaf": 40}
    assert first.cv_results_["mean_test_privacy"].tolist() == second.cv_results_["mean_test_privacy"].tolist()


@pytest.mark.long
def test_a_pipeline_on_a_data_frame() -> None:
    x, y = data(150, 2)
    frame = pd.DataFrame(x, columns=["a", "b"]).assign(site=pd.Series(np.arange(150) % 3).map({0: "x", 1: "y", 2: "z"}))
    model = make_pipeline(make_column_transformer((StandardScaler(), ["a", "b"]), (OneHotEncoder(), ["site"])), TREE)
    found = cross_validate(model, frame, y, cv=3, scoring={"privacy": ma.leakage_scorer(frame, y)}, error_score="raise")
    assert found["test_privacy"].mean() < -0.2


@pytest.mark.long
@pytest.mark.filterwarnings("error")
def test_a_scorer_of_an_array_in_a_search_on_a_frame_and_the_other_way_round() -> None:
    x, y = data(150, 2)
    frame = pd.DataFrame(x, columns=["a", "b"]).assign(n=np.arange(150) % 7)
    for made_of, searched in ((frame.to_numpy(), frame), (frame, frame.to_numpy())):
        scoring = [{"privacy": ma.leakage_scorer(one, y)} for one in (made_of, searched)]
        found = [cross_validate(TREE, searched, y, cv=3, scoring=one, error_score="raise") for one in scoring]
        assert found[0]["test_privacy"].tolist() == found[1]["test_privacy"].tolist()
    whole = pl.DataFrame(frame)
    assert len(ma.leakage_scorer(frame.to_numpy(), y).split(whole[:50], y[:50]).members[1]) == 100


def test_other_models_say_what_they_can() -> None:
    x, y = data(120)
    test, train = np.arange(40), np.arange(40, 120)
    svc = LinearSVC().fit(x[train], y[train])
    assert ma.leakage_scorer(x, y)(svc, x[test], y[test]) < 0.2  # decision values are logits
    numbers = x[:, 0] + 0.1
    line = LinearRegression().fit(x[train], numbers[train])
    assert abs(ma.leakage_scorer(x, numbers)(line, x[test], numbers[test])) < 0.2
    labels = ma.leakage_scorer(x, y, signal="label_only")
    ridge = LabelsAlone(RidgeClassifier().fit(x[train], y[train]))
    assert abs(labels(ridge, x[test], y[test])) < 0.2
    with pytest.raises(InputError, match="predict_proba"):
        ma.leakage_scorer(x, y)(ridge, x[test], y[test])


X, Y = data(60)
REFUSED = {
    "another X": (lambda: ma.leakage_scorer(X, Y).split(X[:20] * 2, Y[:20]), "before any transformation"),
    "no rest": (lambda: ma.leakage_scorer(X, Y).split(X, Y), "members and non-members"),
    "sparse": (lambda: ma.leakage_scorer(sparse.csr_matrix(X), Y), "toarray"),
    "metric": (lambda: ma.leakage_scorer(X, Y, metric="acu"), "did you mean auc"),
    "rate": (lambda: ma.leakage_scorer(X, Y, metric="tpr_at_fpr_2"), "fpr_targets"),
    "no rate": (lambda: ma.leakage_scorer(X, Y, metric="tpr_at_fpr_low"), "write tpr_at_fpr_0.1"),
    "signal": (lambda: ma.leakage_scorer(X, Y, signal="los"), "did you mean loss"),
    "lengths": (lambda: ma.leakage_scorer(X[:9], Y), "a row for each label"),
    "container": (lambda: ma.leakage_scorer(pd.DataFrame(X), Y).split(pl.DataFrame(X[:9]), Y[:9]), "cross_validate"),
    "columns": (lambda: ma.leakage_scorer(X, Y).split(pd.DataFrame(X[:9, :2]), Y[:9]), "cross_validate"),
    "array of fewer": (lambda: ma.leakage_scorer(pd.DataFrame(X), Y).split(X[:9, :2], Y[:9]), "cross_validate"),
    "too few": (
        lambda: ma.leakage_scorer(X, Y, metric="tpr_at_fpr_0.01")(TREE.fit(X[20:], Y[20:]), X[:20], Y[:20]),
        "use auc",
    ),
}


@pytest.mark.parametrize("what", REFUSED)
def test_bad_input_is_refused_in_one_line(what: str) -> None:
    call, word = REFUSED[what]
    with pytest.raises(InputError, match=word) as refused:
        call()
    assert "\n" not in str(refused.value)


@pytest.mark.long
def test_a_fold_is_judged_by_the_limits_of_every_audit():
    """The scorer has no verdict; its audit has that of audit_model on the same fold."""
    rng = np.random.default_rng(5)
    x, y = rng.normal(size=(800, 4)), rng.integers(0, 2, 800)
    scorer = ma.leakage_scorer(x, y)
    tree = DecisionTreeClassifier(random_state=0).fit(x[:400], y[:400])
    plan = ma.Plan(limits={"auc": 0.6}, bounds=None)
    found = scorer.audit(tree, x[400:], y[400:], plan=plan, design="one-run")
    own = ma.audit_model(
        tree, members=(x[:400], y[:400]), nonmembers=(x[400:], y[400:]), design="one-run", plan=plan, rng=0
    )
    assert found.verdict.status == own.verdict.status == "flagged"
    assert found.metric("auc").value == pytest.approx(own.metric("auc").value)
    assert scorer.audit(tree, x[400:], y[400:]).verdict.reason == "undeclared"

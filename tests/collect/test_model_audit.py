from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.compose import make_column_transformer
from sklearn.ensemble import RandomForestClassifier
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.metrics import log_loss, roc_auc_score
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder
from sklearn.svm import LinearSVC

import miaudit as ma
from miaudit.collect.model_audit import evidence_of
from miaudit.errors import InputError

RNG = np.random.default_rng(0)
X, Y = RNG.normal(size=(120, 4)), RNG.choice(["a", "b", "c"], 120)
NUMBERS = RNG.normal(size=120)
SEVERAL = RNG.integers(0, 2, (120, 3))
IN, OUT = slice(0, 60), slice(60, None)


def sides(x: Any = X, y: Any = Y) -> dict[str, Any]:
    return {"members": (x[IN], y[IN]), "nonmembers": (x[OUT], y[OUT])}


def scores(model: Any, **options: Any) -> dict[str, np.ndarray]:
    return dict(evidence_of(model, **{**sides(), **options}, rng=np.random.default_rng(0)).evidence.scores)


@pytest.mark.long
def test_losses_of_a_classifier_are_those_of_scikit_learn() -> None:
    model = LogisticRegression().fit(X[IN], Y[IN])
    p = model.predict_proba(X)
    expected = [log_loss([y], [row], labels=model.classes_) for y, row in zip(Y, p, strict=True)]
    np.testing.assert_allclose(-scores(model)["loss"], expected, rtol=1e-6)
    np.testing.assert_allclose(-scores(lambda x: model.predict_proba(x))["loss"], expected, rtol=1e-6)


@pytest.mark.long
def test_a_pipeline_on_a_frame_is_the_same_on_coded_arrays() -> None:
    frame = pd.DataFrame({"age": np.where(X[:, 0] > 1, np.nan, X[:, 0]), "site": RNG.choice(["n", "s"], 120)})
    coded = np.column_stack([frame["age"].fillna(frame["age"][IN].mean()), frame["site"] == "n", frame["site"] == "s"])
    columns = make_column_transformer((SimpleImputer(), ["age"]), (OneHotEncoder(), ["site"]))
    on_frame = make_pipeline(columns, LogisticRegression()).fit(frame[IN], Y[IN])
    on_array = LogisticRegression().fit(coded[IN], Y[IN])
    wide = frame.assign(person=np.arange(120) // 2)  # a column that the model was not fitted on
    found = ma.audit_model(on_frame, **sides(wide), design="one-run", unit="person", rng=0)
    plain = ma.audit_model(
        on_array, **sides(coded), design="one-run", unit=(np.arange(60) // 2, np.arange(60) // 2 + 30), rng=0
    )
    assert found.metric("auc").value == pytest.approx(plain.metric("auc").value, abs=1e-9)
    assert found.counts.of == "units"


@pytest.mark.parametrize("form", [np.asarray, list, pd.DataFrame, pl.DataFrame])
def test_a_model_whose_answers_depend_on_the_batch_shows_no_leak(form: Any) -> None:
    """It knows nothing but how far a record is from the mean of its batch; asked by sides it would tell them apart."""
    x = np.concatenate([RNG.normal(size=(60, 4)), RNG.normal(size=(60, 4)) + 5.0])
    same = ["a"] * 60
    halves = {"members": (form(x[:60]), same), "nonmembers": (form(x[60:]), same), "classes": ["a", "b", "c"]}

    def of_batch(asked: Any) -> np.ndarray:
        first = np.asarray(asked)[:, :1]
        return np.hstack([first.mean() - 2.5 + 0 * first, 0 * first, 0 * first])

    def auc(**options: Any) -> float:
        evidence = evidence_of(of_batch, **halves, rng=np.random.default_rng(0), **options).evidence
        score, member = next(iter(evidence.scores.values())), evidence.member
        return float(roc_auc_score(member, score))

    assert auc() == 0.5
    assert abs(auc(batch=10) - 0.5) < 0.25
    apart = [of_batch(side) for side in (x[:60], x[60:])]  # the control: each side by itself
    assert np.unique(apart[0][:, 0]) < np.unique(apart[1][:, 0])


def test_columns_of_a_frame_are_covariates() -> None:
    frame = pl.DataFrame({"a": X[:, 0], "b": X[:, 1], "site": RNG.choice(["n", "s"], 120)})
    kept = evidence_of(
        lambda x: np.column_stack([x["a"], x["b"], x["a"] * 0]), **sides(frame), covariates=["a", "site"],
        categories=["site"], design="zero-run", rng=np.random.default_rng(0),
    ).evidence  # fmt: skip
    assert kept.covariate_names == ("a", "site")
    np.testing.assert_array_equal(kept.covariates[:, 0], X[:, 0])


def test_changed_columns_are_one_line() -> None:
    frame = pd.DataFrame({"a": X[:, 0], "b": X[:, 1]})
    model = LogisticRegression().fit(frame[IN], Y[IN])
    inside, outside = (frame[IN], Y[IN]), frame[OUT]
    for other, words in (
        (outside.assign(c=1.0), "nonmembers: expected the columns of members, received also 'c'"),
        (outside[["a"]], "nonmembers: expected the columns of members, received none named 'b'"),
        (outside.rename(columns={"b": "c"}), "nonmembers: expected the columns of members, received none named 'b'"),
        (outside.assign(a="x"), "nonmembers: expected the types of members, received texts in column 'a'"),
    ):
        with pytest.raises(InputError, match=words) as at:
            evidence_of(model, members=inside, nonmembers=(other, Y[OUT]), rng=np.random.default_rng(0))
        assert "\n" not in str(at.value)
    both = {"members": (inside[0][["a"]], Y[IN]), "nonmembers": (outside[["a"]], Y[OUT])}
    with pytest.raises(InputError, match=r"X: expected the columns that the model was fitted on, .* without b"):
        evidence_of(model, **both, rng=np.random.default_rng(0))


def test_regression_decision_values_and_labels_alone() -> None:
    line = LinearRegression().fit(X[IN], NUMBERS[IN])
    np.testing.assert_allclose(scores(line, **sides(y=NUMBERS))["loss"], -((line.predict(X) - NUMBERS) ** 2))
    binary = np.where(Y == "a", "a", "b")
    svc = LinearSVC().fit(X[IN], binary[IN])
    d = svc.decision_function(X) * np.where(binary == "b", 1, -1)
    np.testing.assert_allclose(scores(svc, **sides(y=binary))["loss"], -np.log1p(np.exp(-d)))
    right = scores(svc.predict, **sides(y=binary))
    np.testing.assert_array_equal(right["label_only"] > 0.5, svc.predict(X) == binary)


def test_several_labels_add_up_their_cross_entropies() -> None:
    forest = RandomForestClassifier(5, random_state=0).fit(X[IN], SEVERAL[IN])
    p = np.clip(np.stack([one[:, 1] for one in forest.predict_proba(X)], axis=1), 1e-45, 1)
    expected = -np.where(SEVERAL == 1, np.log(p), np.log(np.maximum(1 - p, 1e-45))).sum(axis=1)
    np.testing.assert_allclose(-scores(forest, **sides(y=SEVERAL))["loss"], expected, atol=1e-40)


def test_an_overfitted_model_is_flagged_and_a_blind_one_is_not() -> None:
    forest = RandomForestClassifier(20, random_state=0).fit(X[IN], Y[IN])
    assert ma.audit_model(forest, **sides(), design="one-run", rng=0).metric("auc").low > 0.6
    blind = ma.audit_model(lambda x: np.tile([0.2, 0.3, 0.5], (len(x), 1)), **sides(), design="one-run", rng=0)
    assert blind.metric("auc").low < 0.5 < blind.metric("auc").high


def test_the_form_of_a_model_is_noted_on_the_page_and_changes_no_verdict(tmp_path: Path) -> None:
    """The twin is a function of the same outputs, whose form nobody sees; the control a forest of large leaves."""
    for model, words in (
        (KNeighborsClassifier().fit(X[IN], Y[IN]), "its KNeighborsClassifier stores 60 rows of training data"),
        (RandomForestClassifier(5, random_state=0).fit(X[IN], Y[IN]), "hold fewer than 5 training records"),
        (RandomForestClassifier(5, min_samples_leaf=20, random_state=0).fit(X[IN], Y[IN]), ""),
    ):
        found, twin = (
            ma.audit_model(one, **sides(), design="one-run", classes=model.classes_, rng=0)
            for one in (model, lambda x, model=model: model.predict_proba(x))
        )
        noted = [note for note in found.notes if note.startswith("Structure of the model")]
        assert len(noted) == bool(words) and all(words in note for note in noted)
        assert not any("Structure of the model" in note for note in twin.notes)
        assert found.verdict == twin.verdict and found.metrics == twin.metrics
        found.to_html(tmp_path / "page.html", overwrite=True)
        assert all(note in (tmp_path / "page.html").read_text() for note in noted)


FITTED = LogisticRegression().fit(X[IN], Y[IN])
REFUSED: dict[str, tuple[Any, dict[str, Any], str]] = {
    "a pickle": ("m.joblib", {}, r"skops\.io\.dump"),
    "no model": (3, {}, "received int"),
    "a class": (LogisticRegression, {}, "pass an instance"),
    "not fitted": (LogisticRegression(), {}, "NotFittedError"),
    "an unseen class": (FITTED, {"nonmembers": (X, ["z"] * 120)}, "received z in 120 records"),
    "numbers for texts": (FITTED, sides(y=np.arange(120) % 3), "numbers beside classes that are texts"),
    "too few columns": (lambda x: x[:, :2], {}, "3 labels for 2 columns"),
    "too few rows": (lambda x: x[:-1], {}, "a row for each of 120 records"),
    "no pair": (FITTED, {"members": X}, r"pass members=\(X, y\)"),
    "other sizes": (FITTED, {"members": (X, Y[:5])}, "each with its label"),
    "other columns": (FITTED, {"nonmembers": (X[:, :2], Y)}, "records of the form of the members"),
    "an attack on outputs": (FITTED.predict, {"attack": "margin"}, "label_only, for labels alone"),
    "names without a frame": (FITTED, {"covariates": "age"}, "only where X is a data frame"),
    "missing labels": (FITTED, {"members": (X[:2], ["a", None])}, "missing values"),
    "NaN": (lambda x: x[:, :3] * np.nan, {}, "NaN"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_bad_input_is_refused_in_one_line(what: str) -> None:
    model, options, word = REFUSED[what]
    with pytest.raises(InputError, match=word) as refused:
        scores(model, **options)
    assert "\n" not in str(refused.value)


def test_findings_become_a_frame_and_fit_a_screen() -> None:
    findings = ma.audit_model(FITTED, **sides(), design="one-run", attack=["loss", "margin", "entropy"], rng=0)
    frame, lines = findings.to_frame(), str(findings).splitlines()
    assert frame.filter(pl.col("kind") == "metric").height == sum(len(one.metrics) for one in findings.scores)
    assert frame.filter(pl.col("kind") == "bound")["value"].to_list() == [one.value for one in findings.bounds]
    assert len(lines) <= 24
    assert max(map(len, lines)) <= 100


def test_labels_of_one_column_are_those_of_an_array() -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(120, 3))
    y = (x[:, 0] > 0).astype(int)
    for labels in (y, y.astype(float), np.array(["no", "yes"])[y]):
        fitted = LogisticRegression().fit(x[:60], labels[:60])
        flat, column = (
            evidence_of(fitted, members=(x[:60], one[:60]), nonmembers=(x[60:], one[60:]), rng=np.random.default_rng(0))
            for one in (labels, labels[:, None])
        )
        assert flat.evidence.digest == column.evidence.digest

"""What docs/configuration.md says that a key of an audit of given outputs accepts, each through a file.

A file is read, its outputs are collected and audited as ``miaudit run`` does it. What each key has to change is
compared with numbers that are computed here, or with what the findings record. ``test_documented_keys.py`` does the
same for ``target``, ``data`` and ``shadow``.
"""

from __future__ import annotations

import itertools
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
import yaml
from scipy import special, stats
from sklearn import metrics

from miaudit.command.results import computed
from miaudit.config import audit as configuration
from miaudit.errors import MiauditError

PAGE = (Path(__file__).parents[2] / "docs" / "configuration.md").read_text(encoding="utf-8")
RNG = np.random.default_rng(11)
N, C = 400, 3
LIRA = "gaussian_lira"
MEMBER = np.arange(N) % 2 == 0
LABEL = RNG.integers(0, C, N)
LOGITS = RNG.normal(size=(N, C)) + (1 + MEMBER)[:, None] * np.eye(C)[LABEL]
P = special.softmax(LOGITS, axis=1)
LOSS = -np.log(P[np.arange(N), LABEL])
X = RNG.normal(size=(N, 2))
KIND = np.array(["north", "south", "west"])[RNG.integers(0, 3, N)]
COLUMNS: dict[str, Any] = {
    "loss": LOSS,
    "score": -LOSS,
    "second": RNG.normal(size=N),
    "m": MEMBER.astype(int),
    "label": LABEL,
    "p": np.full(N, 0.5),
    "x": X[:, 0],
    "z": X[:, 1],
    "kind": KIND,
    "text": np.array([f"visit {i % 7} of {k}" for i, k in enumerate(KIND)]),
    "unit": np.arange(N) // 4,
    "group": np.where(X[:, 0] > 0, "old", "young"),
    "run": np.arange(N) // 200,
    "small": RNG.normal(size=N),
    "older": RNG.normal(size=N),
    **{f"c{j}": LOGITS[:, j] for j in range(C)},
    **{f"p{j}": P[:, j] for j in range(C)},
}
TABLE = {"table_path": "t.parquet", "score": "score", "member": "m", "design": "one-run"}
ZERO = {**TABLE, "design": "zero-run", "covariates": ["x", "z"]}
FAST = {"privacy": {"bounds": False}}
_NUMBER = itertools.count()

Found = dict[str, Any]
Audit = Callable[..., Found]


@pytest.fixture
def place(tmp_path: Path) -> Path:
    pl.DataFrame(COLUMNS).write_parquet(tmp_path / "t.parquet")
    pl.DataFrame(COLUMNS).write_csv(tmp_path / "t.csv")
    np.savez(tmp_path / "t.npz", **COLUMNS)
    arrays = {"losses": LOSS, "scores": -LOSS, "logits": LOGITS, "probabilities": P, "labels": LABEL, "covariates": X}
    more = {name: COLUMNS[f"{name[:-1]}"] for name in ("texts", "units", "groups")}
    more |= {"propensities": COLUMNS["p"], "references": COLUMNS["small"]}
    for name, values in {**arrays, **more}.items():
        np.save(tmp_path / f"m_{name}.npy", values[MEMBER])
        np.save(tmp_path / f"o_{name}.npy", values[~MEMBER])
    return tmp_path


def sides(*names: str) -> dict[str, str]:
    """The keys of a pair of files of each kind."""
    return {f"{side}member_{name}_path": f"{'o' if side else 'm'}_{name}.npy" for name in names for side in ("", "non")}


def audited(place: Path, evaluation: Mapping[str, Any] = TABLE, **sections: Any) -> Found:
    """Findings of a configuration in a file, as ``miaudit run`` makes them."""
    path = place / f"c{next(_NUMBER)}.yaml"
    path.write_text(yaml.safe_dump({"evaluation": dict(evaluation), **FAST, **sections}))
    settings = configuration.read(path)
    collected = settings.collect(place, rng=np.random.default_rng(settings.seed))
    collected = settings.with_sample(collected, place)
    rng = np.random.default_rng(settings.seed)
    return computed(collected, settings.plan(), rng, settings.seed, model=settings.model).to_dict()


def metric(found: Found, name: str, score: int = 0) -> Found:
    return next(one for one in found["scores"][score]["metrics"] if one["name"] == name)


def auc(scores: Any, rows: Any = slice(None)) -> float:
    return float(metrics.roc_auc_score(MEMBER[rows], scores[rows]))


# -- evaluation --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["losses", "scores", "logits", "probabilities"])
def test_files_of_each_side(place: Path, name: str) -> None:
    labels = ("labels",) if name in ("logits", "probabilities") else ()
    attack = {} if name == "scores" else {"attack": {"type": "loss"}}
    found = audited(place, {**sides(name, *labels), "design": "one-run"}, **attack)
    assert found["scores"][0]["score"] == ("score" if name == "scores" else "loss")
    assert metric(found, "auc")["value"] == pytest.approx(auc(-LOSS), abs=1e-6)


@pytest.mark.long
@pytest.mark.parametrize("file", ["t.npz", "t.parquet", "t.csv"])
@pytest.mark.parametrize(
    ("signal", "columns"),
    [("score", "score"), ("loss", "loss"), ("logits", ["c0", "c1", "c2"]), ("probabilities", ["p0", "p1", "p2"])],
)
def test_a_table_with_each_signal(place: Path, file: str, signal: str, columns: Any) -> None:
    evaluation = {**TABLE, "table_path": file, "score": columns, "signal": signal}
    attack = {} if signal == "score" else {"attack": {"type": "loss"}}
    labels = {"labels": "label"} if isinstance(columns, list) else {}
    found = audited(place, {**evaluation, **labels}, **attack)
    assert metric(found, "auc")["value"] == pytest.approx(auc(-LOSS), abs=1e-6)


@pytest.mark.parametrize(("signal", "column"), [("score", "score"), ("loss", "loss")])
def test_shards_of_scores_and_of_losses(place: Path, signal: str, column: str) -> None:
    for i in range(3):
        pl.DataFrame(COLUMNS)[i::3].write_parquet(place / f"part-{i}.parquet")
    named = {name: value for name, value in TABLE.items() if name != "table_path"}
    evaluation = {**named, "shards": "part-?.parquet", "signal": signal, "score": column}
    found = audited(place, evaluation, **({} if signal == "score" else {"attack": {"type": "loss"}}))
    assert found["evidence"]["source"].startswith("3 shards")
    assert metric(found, "auc")["value"] == pytest.approx(auc(-LOSS), abs=1e-6)


@pytest.mark.long
def test_score_is_the_signal_where_nothing_is_said(place: Path) -> None:
    assert metric(audited(place), "auc") == metric(audited(place, {**TABLE, "signal": "score"}), "auc")


@pytest.mark.long
def test_a_list_of_columns_is_several_scores(place: Path) -> None:
    found = audited(place, {**TABLE, "score": ["second", "score"]})
    values = {one["score"]: metric(found, "auc", i)["value"] for i, one in enumerate(found["scores"])}
    assert values == pytest.approx({"second": auc(COLUMNS["second"]), "score": auc(-LOSS)}, abs=1e-9)


@pytest.mark.long
@pytest.mark.parametrize("files", [False, True])
def test_units_and_groups(place: Path, files: bool) -> None:
    pair = {**sides("scores", "units", "groups"), "design": "one-run"}
    found = audited(place, pair if files else {**TABLE, "unit": "unit", "group": "group"})
    assert (found["counts"]["of"], found["counts"]["members"], found["counts"]["member_records"]) == ("units", 100, 200)
    sizes = {one["group"]: (one["members"], one["nonmembers"]) for one in found["groups"]}
    old = COLUMNS["group"] == "old"
    assert sizes["old"] == ((old & MEMBER).sum(), (old & ~MEMBER).sum())


@pytest.mark.long
@pytest.mark.parametrize("files", [False, True])
def test_covariates_texts_and_propensities(place: Path, files: bool) -> None:
    pairs = ("scores", "covariates", "texts")
    evaluation = sides(*pairs) if files else {**ZERO, "text": "text"}
    found = audited(place, {**evaluation, "design": "zero-run"})
    assert found["overlap"]["status"] in ("passed", "warned")
    assert any("text" in str(one["name"]) for one in found["overlap"]["features"])
    known = {**sides("scores", "propensities", "covariates")} if files else {**ZERO, "propensity": "p"}
    found = audited(place, {**known, "design": "zero-run"})
    assert "given" in found["overlap"]["propensity"] or "known" in found["overlap"]["propensity"]
    assert metric(found, "auc")["value"] == pytest.approx(auc(-LOSS), abs=0.02)  # equal odds change nothing


@pytest.mark.long
def test_several_trainings_by_a_column(place: Path) -> None:
    table = pl.read_parquet(place / "t.parquet")
    table.with_columns(m=pl.Series(RNG.permutation(COLUMNS["m"]))).write_parquet(place / "t.parquet")  # fresh coins
    found = audited(place, {**TABLE, "run": "run"}, privacy={"bounds": True})
    alone = audited(place, privacy={"bounds": True})
    assert found["bounds"] != alone["bounds"]
    assert "runs of the same training" in str(found["bounds"])


@pytest.mark.long
@pytest.mark.parametrize(
    ("kind", "part"),
    [("design", "one-run"), ("design", "multi-run"), ("design", "zero-run"), ("design", None)],
)
def test_designs(place: Path, kind: str, part: str | None) -> None:
    evaluation = {**ZERO, kind: part} if part else {k: v for k, v in ZERO.items() if k != "design"}
    found = audited(place, evaluation)
    assert found["design"] == part
    assert (found["verdict"]["reason"] == "undeclared") == (part is None)
    assert (found["exit_code"] == 4) or part


@pytest.mark.long
@pytest.mark.parametrize("categories", [["kind"], []])
def test_categories(place: Path, categories: list[str]) -> None:
    evaluation = {**ZERO, "covariates": ["x", "kind"]}
    if not categories:
        with pytest.raises(MiauditError, match="kind"):
            audited(place, evaluation)
        return
    found = audited(place, {**evaluation, "categories": categories})
    assert found["plan"]["categories"] == categories
    assert "columns with coded categories" in found["overlap"]["propensity"]


@pytest.mark.long
@pytest.mark.parametrize("levels", [["kind=north"], ["kind=none"], []])
def test_exclude_levels(place: Path, levels: list[str]) -> None:
    evaluation = {**ZERO, "covariates": ["x", "kind"], "categories": ["kind"], "exclude_levels": levels}
    if levels == ["kind=none"]:
        with pytest.raises(MiauditError, match="a level of kind"):
            audited(place, evaluation)
        return
    found = audited(place, evaluation)
    assert found["plan"].get("exclude_levels", []) == levels
    assert (found["excluded"] is not None) == bool(levels)


@pytest.mark.parametrize("asked", [True, False])
def test_by_covariates(place: Path, asked: bool) -> None:
    evaluation = {**TABLE, "covariates": ["x", "kind"], "categories": ["kind"], "by_covariates": asked}
    found = audited(place, evaluation)
    assert found["plan"].get("by_covariates", False) == asked
    assert (found["by_covariates"] is not None) == asked
    assert not asked or {one["step"].partition(":")[0] for one in found["by_covariates"]["slopes"]} == {"x", "kind"}


@pytest.mark.thorough
@pytest.mark.long
@pytest.mark.parametrize(
    ("key", "value", "word"),
    [
        ("propensity_model", "line", "logistic regression"),
        ("propensity_model", "stack", "stack"),
        ("classifier", "boosting", "oosting"),
        ("classifier", "forest", "orest"),
        ("classifier", "naive-bayes", "GaussianNB"),
    ],
)
def test_models_of_the_propensity(place: Path, key: str, value: str, word: str) -> None:
    assert word in audited(place, {**ZERO, key: value})["overlap"]["propensity"]


@pytest.mark.thorough
@pytest.mark.long
def test_estimators(place: Path) -> None:
    by = {one: metric(audited(place, {**ZERO, "estimator": one}), "auc") for one in ("aipw", "hajek")}
    assert {name: one["estimator"] for name, one in by.items()} == {"aipw": "aipw", "hajek": "hajek"}
    assert by["aipw"] == metric(audited(place, ZERO), "auc")


@pytest.mark.thorough
@pytest.mark.long
def test_a_sample_of_its_own(place: Path) -> None:
    others = pl.DataFrame(COLUMNS).with_columns(x=pl.col("x") + 0.1 * pl.col("m"), z=pl.col("z") + 0.01)
    others.write_parquet(place / "others.parquet")
    found = audited(place, {**ZERO, "propensity_sample_path": "others.parquet"})
    assert "on 400 separate records" in found["overlap"]["propensity"]
    assert found["metrics"] != audited(place, ZERO)["metrics"]


@pytest.mark.thorough
@pytest.mark.long
def test_components(place: Path) -> None:
    found = audited(place, {**ZERO, "components": 1})
    assert found["plan"]["components"] == 1
    assert found["overlap"]["features"] != audited(place, ZERO)["overlap"]["features"]


@pytest.mark.thorough
@pytest.mark.long
def test_a_bounds_model(place: Path) -> None:
    privacy = {"privacy": {"bounds": True}}
    screened = audited(place, {**ZERO, "bounds_model": "screened"}, **privacy)
    assert screened["plan"]["bounds_model"] == "screened"
    plain = audited(place, ZERO, **privacy)
    assert audited(place, {**ZERO, "bounds_model": "line"}, **privacy)["bounds"] == plain["bounds"]


@pytest.mark.long
def test_intervals_confidence_and_seed(place: Path) -> None:
    wide, narrow = (metric(audited(place, {**TABLE, "confidence": one}), "auc") for one in (0.99, 0.8))
    default = metric(audited(place), "auc")
    assert wide["high"] - wide["low"] > default["high"] - default["low"] > narrow["high"] - narrow["low"]
    attack = {"attack": {"n_bootstrap": 200}}
    drawn = [
        metric(audited(place, {**TABLE, "intervals": "bootstrap", "seed": seed}, **attack), "auc") for seed in (1, 2)
    ]
    assert drawn[0]["low"] != drawn[1]["low"]
    assert drawn[0]["low"] == pytest.approx(default["low"], abs=0.02)
    assert metric(audited(place, {**TABLE, "intervals": "calibrated"}, **attack), "auc")["low"] == default["low"]


def test_the_folder(place: Path) -> None:
    for section, expected in (({}, "results/mia_audit"), ({"output_dir": "there"}, "there")):
        (place / "c.yaml").write_text(yaml.safe_dump({"evaluation": {**TABLE, **section}}))
        assert configuration.read(place / "c.yaml").output_dir.rstrip("/") == expected


# -- attack ------------------------------------------------------------------------------------------------------------


@pytest.mark.long
def test_each_type_of_attack(place: Path) -> None:
    names = ["gaussian_lira", "loss", "logit_confidence", "margin", "entropy", "modified_entropy"]
    logits = {**sides("logits", "labels"), "design": "one-run"}
    found = audited(place, logits, attack={"type": names})
    place_of = {one["score"]: i for i, one in enumerate(found["scores"])}  # those with the most to say come first
    assert sorted(place_of) == sorted(names)
    own = -LOSS - np.log1p(-np.exp(-LOSS))
    entropy = (P * np.log(P)).sum(axis=1)
    for name, score in (("loss", -LOSS), ("logit_confidence", own), ("entropy", entropy)):
        assert metric(found, "auc", place_of[name])["value"] == pytest.approx(auc(score), abs=1e-6)
    assert [one["score"] for one in audited(place, logits, attack={"type": "margin"})["scores"]] == ["margin"]
    assert "gaussian_lira" in [one["score"] for one in audited(place, logits)["scores"]]


@pytest.mark.long
def test_fprs_and_replicates(place: Path) -> None:
    found = audited(place, attack={"fpr_targets": [0.05, 0.2], "n_bootstrap": 100})
    order = np.sort(-LOSS[~MEMBER])[::-1]
    at = metric(found, "tpr_at_fpr_0.2")["value"]
    assert at == pytest.approx((-LOSS[MEMBER] > order[40]).mean(), abs=0.02)
    assert {one["name"] for one in found["scores"][0]["metrics"]} >= {"tpr_at_fpr_0.05", "tpr_at_fpr_0.2"}
    assert found["plan"]["fpr_targets"] == [0.05, 0.2]
    assert found["plan"]["n_bootstrap"] == 100
    with pytest.raises(MiauditError, match="n_bootstrap"):
        audited(place, attack={"n_bootstrap": 50})
    with pytest.raises(MiauditError, match="fpr_targets"):
        audited(place, attack={"fpr_targets": [1.0]})


def test_the_options_of_the_gaussian_ratio(place: Path) -> None:
    losses = {**sides("losses"), "design": "one-run"}
    logits = {**sides("logits", "labels"), "design": "one-run"}

    def scores(evaluation: Mapping[str, Any], **options: Any) -> Any:
        (place / "c.yaml").write_text(yaml.safe_dump({"evaluation": evaluation, "attack": {"type": LIRA, **options}}))
        made = configuration.read(place / "c.yaml").collect(place, rng=np.random.default_rng(0)).evidence
        member = np.asarray(made.member)
        return np.concatenate([np.asarray(made.scores[LIRA])[one] for one in (member, ~member)])

    assert_equal = np.testing.assert_array_equal
    assert_equal(scores(losses, variance="separate"), scores(losses))
    with pytest.raises(KeyError):  # the loss itself is the score
        scores(losses, variance="pooled")
    assert_equal(scores(logits, statistic="loss"), scores(logits))
    assert not np.allclose(scores(logits, statistic="logit_confidence"), scores(logits))
    assert not np.allclose(scores(losses, folds=2), scores(losses, folds=40))
    with pytest.raises(MiauditError, match="folds"):
        scores(losses, folds=51)
    given = {"mu_in": 0.5, "sigma_in": 1.0, "mu_out": 1.0, "sigma_out": 2.0}
    x = np.concatenate([LOSS[MEMBER], LOSS[~MEMBER]])
    ratio = stats.norm.logpdf(x, 0.5, 1.0) - stats.norm.logpdf(x, 1.0, 2.0)
    np.testing.assert_allclose(scores(losses, statistics=given), ratio, rtol=1e-9)


@pytest.mark.long
@pytest.mark.parametrize("headline", ["bonferroni", "split", "exploratory", "second"])
def test_headlines(place: Path, headline: str) -> None:
    limits = {"reporting": {"limits": {"auc": 0.6}}}
    found = audited(place, {**TABLE, "score": ["score", "second"]}, attack={"headline": headline}, **limits)
    assert found["plan"]["headline"]["kind"] == ("declared" if headline == "second" else headline)
    assert found["verdict"]["exploratory"] == (headline == "exploratory")
    if headline == "second":  # the other one leaks, and still raises concern
        assert found["exit_code"] == 3


# -- about, reference, reporting ---------------------------------------------------------------------------------------


@pytest.mark.long
def test_what_is_recorded(place: Path) -> None:
    model = {"architecture": "resnet18", "checkpoint": "epoch100.pt", "num_classes": 10, "name": "triage"}
    assert audited(place, model=model)["repeat"]["model"] == model
    about = {
        "model": "triage",
        "version": "2.1",
        "owner": "us",
        "purpose": "triage",
        "data": "visits of 2023",
        "by": "team",
        "date": "2026-03-01",
    }
    for name in (*about, None):
        part = about if name is None else {name: about[name]}
        (place / "c.yaml").write_text(yaml.safe_dump({"evaluation": TABLE, "about": part}))
        stated = configuration.read(place / "c.yaml").stated
        assert {key: str(getattr(stated, key)) for key in part} == part


@pytest.mark.thorough
@pytest.mark.long
@pytest.mark.parametrize("use", ["test", "covariate", None])
@pytest.mark.parametrize("files", [False, True])
def test_references(place: Path, use: str | None, files: bool) -> None:
    evaluation = {**sides("scores", "covariates", "references"), "design": "zero-run"} if files else ZERO
    named, used = {} if files else {"score": "small"}, {"use": use} if use else {}
    reference = {"trained_on_neither": True, **named, **used}
    found = audited(place, evaluation, reference=reference)
    name = "reference" if files else "small"
    assert found["reference"]["covariate" if use == "covariate" else "test"] == name
    if use == "covariate":
        with pytest.raises(MiauditError, match="trained_on_neither"):
            audited(place, evaluation, reference={**reference, "trained_on_neither": False})


@pytest.mark.thorough
@pytest.mark.long
def test_two_references_are_a_covariate_and_a_test(place: Path) -> None:
    found = audited(place, ZERO, reference={"score": ["small", "older"], "trained_on_neither": True})
    assert found["reference"] is not None
    assert any("small" in str(one["name"]) for one in found["overlap"]["features"])


LIMITS = {
    "tpr_at_fpr_0.01": 0.9,
    "auc": 0.99,
    "advantage": 0.95,
    "balanced_accuracy": 0.95,
    "ate": 50.0,
    "surest_members": 0.95,
    "epsilon": 20.0,
    "mu": 9.0,
}


@pytest.mark.long
@pytest.mark.parametrize("name", LIMITS)
def test_each_name_of_a_limit(place: Path, name: str) -> None:
    limits = {name: LIMITS[name]}
    if name == "surest_members":
        with pytest.raises(MiauditError, match="expected a limit beside surest_members"):
            audited(place, reporting={"limits": limits})
        limits["auc"] = 0.99
    found = audited(place, reporting={"limits": limits}, privacy={"bounds": True})
    assert found["plan"]["limits"] == limits  # those that are stated replace all others
    assert found["verdict"]["stated"]
    assert name in [one["limit"] for one in found["verdict"]["limits"]]
    assert found["exit_code"] in (0, 4)  # of epsilon and mu only an accountant can show it


@pytest.mark.long
def test_limits_that_nobody_states(place: Path) -> None:
    expected = {"tpr_at_fpr_0.001": 0.02, "tpr_at_fpr_0.01": 0.05, "tpr_at_fpr_0.1": 0.25, "surest_members": 0.9}
    assert audited(place)["plan"]["limits"] == expected
    assert not audited(place)["verdict"]["stated"]


@pytest.mark.long
def test_one_metric_and_its_threshold(place: Path) -> None:
    for name, default in (("tpr_at_fpr_0.01", 0.05), ("tpr_at_fpr_0.1", 0.15), ("auc", 0.55), ("advantage", 0.05)):
        found = audited(place, reporting={"primary_metric": name})
        assert found["plan"]["limits"] == pytest.approx({name: default})
    stated = {"primary_metric": "auc", "threshold_for_concern": 0.9}
    assert audited(place, reporting=stated)["plan"]["limits"] == {"auc": 0.9}
    alone = audited(place, reporting={"threshold_for_concern": 0.05})["plan"]["limits"]
    assert alone == {"tpr_at_fpr_0.001": 0.05, "tpr_at_fpr_0.01": 0.05}
    for beside in stated.items():
        with pytest.raises(MiauditError, match="limits"):
            audited(place, reporting={"limits": {"auc": 0.6}, **dict([beside])})


@pytest.mark.long
def test_levels_prior_and_rows(place: Path) -> None:
    found = audited(place, reporting={"levels": [0.01, 0.02, 0.03], "prior": 0.1, "row_level": 4})
    assert found["plan"]["levels"] == [0.01, 0.02, 0.03]
    assert [len(found["rows"]), len(audited(place)["rows"])] == [4, 0]
    order = np.argsort(LOSS)
    assert {one["row"] for one in found["rows"]} == set([i for i in order if MEMBER[i]][:4])
    at = {prior: audited(place, reporting={"prior": prior})["scores"] for prior in (0.1, 0.5)}
    assert at[0.1] != at[0.5] or found["plan"]["prior"] == 0.1


@pytest.mark.long
def test_raw_numbers_of_a_refused_audit(place: Path) -> None:
    table = pl.read_parquet(place / "t.parquet")
    table.with_columns(x=pl.col("x") + 20 * pl.col("m")).write_parquet(place / "t.parquet")
    refused, shown = (audited(place, ZERO, reporting={"raw_only": flag}) for flag in (False, True))
    assert (refused["exit_code"], shown["exit_code"]) == (4, 4)
    assert refused["scores"][0]["metrics"] == []
    assert metric(shown, "auc")["value"] == pytest.approx(auc(-LOSS), abs=1e-9)


# -- privacy -----------------------------------------------------------------------------------------------------------

DP_SGD = {"kind": "dp-sgd", "records": 60000, "batch": 600, "noise": 1.1, "epochs": 10}
PRIVACY: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({"bounds": True}, {}),
    ({"claim": {"epsilon": 8, "delta": 1e-5}}, {"claim": {"parameter": "epsilon", "value": 8.0, "delta": 1e-5}}),
    ({"claim": {"epsilon": 8}}, {"claim": {"parameter": "epsilon", "value": 8.0, "delta": 1e-5}}),
    ({"claim": {"epsilon": 8}, "delta": 1e-7}, {"claim": {"parameter": "epsilon", "value": 8.0, "delta": 1e-7}}),
    ({"claim": {"mu": 0.5}}, {"claim": {"parameter": "mu", "value": 0.5}}),
    ({"delta": 1e-6}, {"delta": 1e-6}),
    *[({"guesses": one}, {}) for one in ("hedged", "bonferroni", "schedule", "exploratory", "pilot", 30)],
]


@pytest.mark.long
@pytest.mark.parametrize(("privacy", "recorded"), PRIVACY, ids=[str(one) for one, _ in PRIVACY])
def test_bounds_of_one_run(place: Path, privacy: dict[str, Any], recorded: dict[str, Any]) -> None:
    found = audited(place, privacy=privacy)
    kept = found["plan"]["bounds"]
    for key, value in recorded.items():
        assert {**kept[key], **value} == kept[key] if isinstance(value, dict) else kept[key] == value
    assert found["bounds"] or found["no_bound"]
    if "guesses" in privacy:
        assert kept["guesses"] is not None


@pytest.mark.thorough
@pytest.mark.long
def test_a_margin_goes_with_zero_run(place: Path) -> None:
    found = audited(place, {**ZERO, "propensity": "p"}, privacy={"margin": 0.2})
    assert found["plan"]["bounds"]["margin"] == 0.2
    with pytest.raises(MiauditError, match="it goes with zero-run"):
        audited(place, privacy={"margin": 0.2})


@pytest.mark.long
@pytest.mark.parametrize("at_least", [1, 2, "anytime"])
def test_how_many_runs_have_to_refute(place: Path, at_least: Any) -> None:
    table = pl.read_parquet(place / "t.parquet")
    table.with_columns(m=pl.Series(RNG.permutation(COLUMNS["m"]))).write_parquet(place / "t.parquet")
    found = audited(place, {**TABLE, "run": "run"}, privacy={"at_least": at_least, "guesses": "hedged"})
    assert "at_least" in found["plan"]["bounds"]


@pytest.mark.long
def test_no_bounds(place: Path) -> None:
    found = audited(place, privacy={"bounds": False})
    assert (found["bounds"], found["plan"]["bounds"]) == ([], None)


@pytest.mark.long
def test_a_claim_that_is_refuted_is_a_concern(place: Path) -> None:
    table = pl.read_parquet(place / "t.parquet")
    table.with_columns(score=pl.col("score") + 9 * pl.col("m")).write_parquet(place / "t.parquet")
    found = audited(place, privacy={"claim": {"mu": 0.01}}, reporting={"limits": {"auc": 0.999}})
    assert found["claim"]["status"] == "refuted"
    assert found["exit_code"] == 3


MECHANISMS = {
    "gaussian": {"kind": "gaussian", "noise": 2.0},
    "laplace": {"kind": "laplace", "noise": 2.0},
    "dp-sgd": DP_SGD,
}


@pytest.mark.long
@pytest.mark.parametrize("name", MECHANISMS)
def test_a_mechanism_is_the_claim_where_none_is_stated(place: Path, name: str) -> None:
    found = audited(place, privacy={"mechanism": MECHANISMS[name]})
    assert found["plan"]["bounds"]["mechanism"] is not None
    assert found["claim"] is not None


CORRECTIONS: list[Any] = [
    "thinning",
    "conditional",
    "composition",
    {"kind": "thinning", "half_width": 0.2, "seeds": 4},
    {"kind": "thinning", "standard_errors": 1.0},
    {"kind": "thinning", "scheffe": 0.1},
    {"kind": "conditional", "aware": True, "signed": True},
    {"kind": "conditional", "margin": 0.1},
    {"kind": "conditional", "smallest": 50},
    {"kind": "composition", "eta": 0.3, "delta_ds": 0.0},
    {"kind": "composition", "closeness": 0.5},
    {"kind": "composition", "share": 0.3, "spend": 0.1},
]


@pytest.mark.thorough
@pytest.mark.long
@pytest.mark.parametrize("correction", CORRECTIONS, ids=str)
def test_corrections_of_zero_run_bounds(place: Path, correction: Any) -> None:
    found = audited(place, {**ZERO, "propensity": "p"}, privacy={"correction": correction})
    kept = found["plan"]["bounds"]["correction"]
    options = {} if isinstance(correction, str) else {k: v for k, v in correction.items() if k != "kind"}
    name = correction if isinstance(correction, str) else correction["kind"]
    assert kept == name or kept["kind"] == name
    widths = {"standard_errors": "multiple", "scheffe": "share"}
    for key, value in options.items():
        if key in widths:
            assert kept["half_width"][widths[key]] == value
        else:
            assert kept[key] == value or value in kept[key].values()
    assert found["bounds"] or found["no_bound"]


# -- chances of inclusion ----------------------------------------------------------------------------------------------


@pytest.mark.long
def test_chances_of_inclusion(place: Path) -> None:
    pair = {**sides("scores"), "design": "one-run"}
    for evaluation in ({**TABLE, "inclusion": 0.52}, {**TABLE, "inclusion": "0.52"}, {**pair, "inclusion": 0.52}):
        found = audited(place, evaluation)["inclusion"]
        assert (found["lowest"], found["highest"], found["records"]) == (0.52, 0.52, N)
        assert found["remaining"] < N
    column = audited(place, {**TABLE, "inclusion": "p"})["inclusion"]
    assert (column["lowest"], column["remaining"]) == (0.5, N)
    assert audited(place, {**TABLE, "inclusion": 0.8})["verdict"]["status"] == "refused"  # half of them are members
    assert audited(place)["inclusion"] is None
    for value in (0, 1, 1.5, True, [0.5], {"a": 1}):
        with pytest.raises(
            MiauditError, match=r"evaluation\.inclusion: expected a probability strictly between 0 and 1"
        ):
            audited(place, {**TABLE, "inclusion": value})
    with pytest.raises(MiauditError, match=r"would not be used|received one"):
        audited(place, {**ZERO, "inclusion": 0.5})
    with pytest.raises(MiauditError, match="one number, for files without a table"):
        audited(place, {**pair, "inclusion": "p"})


def test_a_model_that_is_trained_here_has_coins_of_its_own(place: Path) -> None:
    content = {
        "target": {"kind": "sklearn", "estimator": "sklearn.svm:SVC"},
        "data": {"path": "t.npz", "x": ["x", "z"], "y": "label"},
        "evaluation": {"design": "one-run", "inclusion": 0.8},
    }
    (place / "model.yaml").write_text(yaml.safe_dump(content))
    with pytest.raises(MiauditError, match=r"evaluation\.inclusion: expected none, for a model that is trained"):
        configuration.read(place / "model.yaml")


# -- what the page says ------------------------------------------------------------------------------------------------


def test_every_key_of_these_sections_is_tried_here() -> None:
    source = Path(__file__).read_text(encoding="utf-8")
    missing = []
    for title in ("about", "attack", "evaluation", "reference", "reporting", "privacy"):
        section = PAGE.partition(f"\n## {title}:" if f"\n## {title}:" in PAGE else f"\n## {title}\n")[2]
        for row in section.partition("\n## ")[0].splitlines():
            for key in re.findall(r"`([a-z_.]+)`", row.partition("|")[2].partition("|")[0]):
                name = key.rpartition(".")[2]
                if name in ("copies", "extraction", "used"):  # limits of tables, of texts and of records
                    continue
                if name in ("key_path", "reference_path"):  # of probes: tests/command/test_decoys.py
                    continue
                if name == "figures":  # tests/command/test_audit.py
                    continue
                kind = re.fullmatch(r"(?:non)?member_(\w+)_path", name)
                if f'"{kind[1] if kind else name}"' not in source and f"{name}=" not in source:
                    missing.append(f"{title}: {key}")
    assert not missing


def test_the_complete_file_of_a_model_runs_in_an_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = (Path(__file__).parents[2] / "docs" / "your_model.md").read_text(encoding="utf-8")
    page = page.partition("## A scikit-learn model, from its code")[2]
    blocks = {kind: re.findall(rf"^```{kind}\n(.*?)^```", page, flags=re.M | re.S)[0] for kind in ("python", "yaml")}
    monkeypatch.chdir(tmp_path)
    exec(compile(blocks["python"], "your_model.md", "exec"), {})
    Path("audit.yaml").write_text(blocks["yaml"], encoding="utf-8")
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-m", "miaudit", "run", "audit.yaml"]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    found = json.loads(Path("results/findings.json").read_text(encoding="utf-8"))
    assert done.returncode == found["exit_code"], done.stderr
    assert found["design"] == "one-run"
    by_score = {one["score"]: {metric["name"]: metric for metric in one["metrics"]} for one in found["scores"]}
    assert set(by_score) == {"lira_online", "loss"}
    assert by_score["lira_online"]["auc"]["low"] > 0.55  # a tree that is grown to the end knows its members
    assert Path("results/report.html").is_file()

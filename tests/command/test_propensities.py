"""Propensities, separate samples, classifiers and options of corrections, from the command line and from a file."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

Run = Callable[..., tuple[int, str, str]]

COLUMNS = "--score score --member member --covariates age,site --categories site --design zero-run --primary-metric auc"
TABLE = ["audit", "audit.csv", *COLUMNS.split(), "--json"]
SIDES = "--members in.npy --nonmembers out.npy --member-covariates in_x.npy --nonmember-covariates out_x.npy"
PAIR = ["audit", *SIDES.split(), "--design", "zero-run", "--primary-metric", "auc", "--json"]
GIVEN = ["--member-propensities", "in_pi.npy", "--nonmember-propensities", "out_pi.npy"]


def records(n: int, seed: int) -> pl.DataFrame:
    rng = np.random.default_rng(seed)
    age, site = rng.normal(size=n), rng.integers(0, 3, n)
    pi = 1 / (1 + np.exp(-0.5 * age))
    member = rng.random(n) < pi
    return pl.DataFrame(
        {
            "score": age + rng.normal(size=n) + 0.6 * member,
            "member": member,
            "age": age,
            "site": [f"s{k}" for k in site],
            "pi": pi,
        }
    )


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    audited, sample = records(1500, 0), records(2500, 1)
    audited.write_csv("audit.csv")
    sample.drop("score", "pi").write_csv("sample.csv")
    sample.drop("score", "pi", "age").write_csv("ageless.csv")
    audited.with_columns(pi=pl.when(pl.col("pi") > 0.8).then(1.0).otherwise("pi")).write_csv("certain.csv")
    for side, inside in (("in", True), ("out", False)):
        part = audited.filter(pl.col("member") == inside)
        np.save(f"{side}.npy", part["score"].to_numpy())
        np.save(f"{side}_x.npy", part.select("age").to_numpy())
        np.save(f"{side}_pi.npy", part["pi"].to_numpy())
        np.save(f"{side}_short.npy", part["pi"].to_numpy()[1:])
    return tmp_path


def answered(ran: tuple[int, str, str]) -> dict[str, Any]:
    code, out, err = ran
    assert code in (0, 3), err
    return {name: value for name, value in json.loads(out).items() if name != "repeat"}


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("words", "how"),
    [
        ([*TABLE, "--propensity", "pi"], "given"),
        ([*PAIR, *GIVEN], "given"),
        (
            [*TABLE, "--propensity-sample", "sample.csv"],
            "on 2,500 separate records: columns with coded categories, L2 logistic",
        ),
        ([*TABLE, "--propensity-sample", "sample.csv", "--classifier", "naive-bayes"], "on 2,500 .* GaussianNB"),
        ([*TABLE, "--classifier", "naive-bayes"], "cross-fitted in 5 folds: columns with coded categories, GaussianNB"),
    ],
)
def test_each_way_to_a_propensity_is_used_and_said(place: Path, run: Run, words: list[str], how: str) -> None:
    found = answered(run(*words, "--no-bounds"))
    assert re.match(how, found["overlap"]["propensity"])
    auc = next(metric for metric in found["metrics"] if metric["name"] == "auc" and metric["estimator"] != "raw")
    assert auc["low"] > 0.55 and auc["high"] < 0.72  # 0.66 is the truth, 0.72 what is raw
    del place


@pytest.mark.thorough
@pytest.mark.long
def test_a_file_says_the_same_as_the_command_line(place: Path, run: Run) -> None:
    (place / "c.yaml").write_text(
        """
evaluation: {table_path: audit.csv, score: score, member: member, covariates: [age, site], categories: [site],
  design: zero-run, classifier: naive-bayes, propensity_sample_path: sample.csv}
reporting: {primary_metric: auc}
privacy: {correction: {kind: conditional, aware: true, signed: true}, margin: 0.2}
"""
    )
    words = "--classifier naive-bayes --propensity-sample sample.csv --correction conditional:aware,signed --margin 0.2"
    typed, filed = answered(run(*TABLE, *words.split())), answered(run("run", "c.yaml", "--json"))
    assert typed == filed
    assert typed["plan"]["classifier"] == "naive-bayes"
    assert typed["plan"]["bounds"]["correction"]["signed"] is True
    plain = answered(run(*TABLE, *words.replace(":aware,signed", "").split()))
    assert plain["bounds"] != typed["bounds"]  # the options do something


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["--propensity", "nothing"], 1, "nothing: expected a column of audit.csv, received a name that is not there"),
        (["--propensity", "site"], 1, "site: expected probabilities strictly between 0 and 1, received text"),
        (["--propensity", "score"], 1, "score: expected probabilities strictly between 0 and 1, received"),
        (["--propensity-sample", "nothing.csv"], 1, "which does not exist"),
        (["--propensity-sample", "ageless.csv"], 1, "propensity sample: age: expected a column of ageless.csv"),
        (["--propensity-sample", "audit.csv"], 1, "expected records other than the audited ones, received a sample"),
        (["--classifier", "forrest"], 1, "classifier: expected boosting, forest, naive-bayes, received 'forrest'"),
        (["--correction", "conditional:awre"], 1, "received 'awre'; did you mean aware?"),
        (["--propensity", "pi", "--classifier", "forest"], 2, "--classifier would not be used beside given propens"),
        (["--propensity", "pi", "--propensity-model", "stack"], 2, "--propensity-model would not be used beside given"),
        (["--propensity", "pi", "--propensity-sample", "sample.csv"], 2, "--propensity-sample would not be used"),
        (["--classifier", "forest", "--propensity-model", "stack"], 2, "--propensity-model would not be used"),
        (["--propensity-sample", "sample.csv", "--propensity-model", "stack"], 2, "for a separate sample"),
        (["--member-propensities", "in_pi.npy"], 2, "--member-propensities"),
        (["--propensity-sample", "sample.csv", "--bundle", "b.zip"], 1, "a separate sample, which no bundle holds"),
    ],
)
def test_what_cannot_be_used_is_refused_in_one_line(
    place: Path, run: Run, words: list[str], code: int, said: str
) -> None:
    found, out, err = run(*TABLE, *words)
    told = " ".join(err.replace("│", " ").split())
    assert (found, out) == (code, "") and said in told, told
    assert code == 2 or len(err.splitlines()) == 1
    assert not (place / "results").exists() and not (place / "b.zip").exists()


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["--member-propensities", "in_pi.npy"], 2, "--nonmember-propensities: expected a file beside its counterpart"),
        ([*GIVEN[:3], "out_short.npy"], 1, "propensities: expected 7"),
        (["--propensity", "pi"], 2, "--propensity would not be used for two files; it names a column of a table"),
    ],
)
def test_files_of_both_sides_belong_together(place: Path, run: Run, words: list[str], code: int, said: str) -> None:
    found, _, err = run(*PAIR, *words)
    told = " ".join(err.replace("│", " ").split())
    assert said in told and found in (code, 1), told
    del place


def test_certain_membership_is_refused_with_what_to_do(place: Path, run: Run) -> None:
    code, _, err = run(*(word.replace("audit.csv", "certain.csv") for word in TABLE), "--propensity", "pi")
    assert code == 1 and "received 1 in row" in err and "have no counterfactual: leave them out" in err
    del place


@pytest.mark.parametrize("design", ["one-run", "multi-run"])
def test_where_memberships_were_drawn_propensities_are_refused(place: Path, run: Run, design: str) -> None:
    words = ["audit", "audit.csv", "--score", "score", "--member", "member", "--design", design, "--propensity", "pi"]
    code, _, err = run(*words, "--json")
    assert code == 2 and "--propensity would not be used" in " ".join(err.replace("│", " ").split())
    del place


@pytest.mark.thorough
@pytest.mark.long
@pytest.mark.parametrize(
    "words",
    [
        ["--propensity", "pi"],
        ["--classifier", "naive-bayes"],
        ["--correction", "conditional:aware,signed"],
        ["--correction", "thinning:standard-errors=3,seeds=8"],
        ["--correction", "thinning:scheffe=0.5"],
        ["--correction", "composition:eta=0.2,delta-ds=0.1"],
    ],
)
def test_a_bundle_of_it_repeats_it(place: Path, run: Run, words: list[str]) -> None:
    code, _, err = run(*TABLE, *words, "--bundle", "b.zip")
    assert code in (0, 3), err
    code, out, err = run("verify", "b.zip")
    assert code == 0 and "came out again" in out, err
    del place


@pytest.mark.thorough
@pytest.mark.long
def test_collecting_keeps_given_propensities(place: Path, run: Run) -> None:
    (place / "c.yaml").write_text(
        "evaluation: {table_path: audit.csv, score: score, member: member, covariates: [age], design: zero-run, "
        "propensity: pi}\n"
    )
    for ending in ("npz", "csv"):
        code, _, err = run("collect", "c.yaml", "--out", f"e.{ending}")
        assert code == 0, err
    assert np.array_equal(np.load("e.npz")["propensity"], pl.read_csv("audit.csv")["pi"].to_numpy())
    assert answered(
        run("audit", "e.csv", "--propensity", "propensity", "--no-bounds", "--primary-metric", "auc", "--json")
    )


N = 400
DRAWN = np.random.default_rng(5)
AGE = DRAWN.normal(size=N)
INSIDE = DRAWN.random(N) < 1 / (1 + np.exp(-0.5 * AGE))
STACK = ["--design", "zero-run", "--primary-metric", "auc", "--propensity-model", "stack", "--no-bounds", "--json"]
STACK += ["--estimator", "aipw"]
EMPTY = (
    "k: expected a value in every row, received 400 empty rows, the first in row 0; it says nothing: "
    "leave the column out"
)


@pytest.mark.long
@pytest.mark.parametrize(
    ("columns", "named", "said"),
    [
        (
            {"when": INSIDE + 0.01 * AGE},
            ["age", "when"],
            r"when \(1\.000\)\. Leave it out if it was made",
        ),
        ({"site": np.where(INSIDE & (np.arange(N) % 5 == 0), "z", "a")}, ["age", "site"], r"site = z"),
        ({"k": np.ones(N)}, ["k"], "expected a column that varies, received 1 constant; add covariates that vary"),
        ({f"x{i}": np.random.default_rng(i).normal(size=N) for i in range(330)}, [], "received 331 features; condense"),
    ],
)
def test_covariates_that_cannot_be_corrected_for_are_refused_with_words(
    place: Path, run: Run, columns: dict[str, np.ndarray], named: list[str], said: str
) -> None:
    score = AGE + np.random.default_rng(6).normal(size=N)
    pl.DataFrame({"score": score, "member": INSIDE, "age": AGE, **columns}).write_csv("t.csv")
    names = named or ["age", *columns]
    more = ["--categories", "site"] if "site" in columns else []
    words = ["audit", "t.csv", "--score", "score", "--member", "member", "--covariates", ",".join(names)]
    code, out, err = run(*words, *more, *STACK)
    assert code == 4, err
    found = json.loads(out)
    told = " ".join([found["verdict"]["text"], *(found["overlap"] or {"reasons": []})["reasons"]])
    assert found["verdict"]["status"] in ("refused", "not-testable") and re.search(said, told), told
    del place


@pytest.mark.thorough
def test_a_covariate_that_is_nowhere_is_refused_and_one_with_gaps_says_where_they_are(place: Path, run: Run) -> None:
    words = ("audit", "t.csv", "--score", "score", "--member", "member", "--covariates", "k", "--out", "o", *STACK)
    for gaps in (N, 9):
        k = pl.Series([None if i < gaps else float(AGE[i]) for i in range(N)], dtype=pl.Float64)
        pl.DataFrame({"score": AGE, "member": INSIDE, "k": k}).write_csv("t.csv")
        code, out, err = run(*words)
        if gaps == N:
            said = EMPTY
            assert code == 1 and said in err and len(err.splitlines()) == 1, err
    assert code in (0, 3, 4), err
    assert "k missing" in (place / "o" / "report.html").read_text(encoding="utf-8") and json.loads(out)


def test_a_column_of_propensities_is_enough(run: Run, place: Path) -> None:
    """The correction of propensities alone agrees with that of the covariates that they are made from."""
    alone = ["audit", "audit.csv", *["--score", "score", "--member", "member", "--design", "zero-run", "--json"]]
    options = ["--primary-metric", "auc", "--no-bounds"]
    given = answered(run(*alone, "--propensity", "pi", *options))
    learned = answered(run(*TABLE, "--propensity", "pi", "--no-bounds"))
    values = [next(one for one in found["metrics"] if one["name"] == "auc") for found in (given, learned)]
    assert values[0]["estimator"] == values[1]["estimator"] == "aipw"
    assert values[0]["value"] == pytest.approx(values[1]["value"], abs=0.01)
    assert any(
        "whether the weights make members and non-members alike" in text for text in given["overlap"]["warnings"]
    )
    frame = pl.read_csv(place / "audit.csv")
    frame.with_columns(pi=pl.lit(0.5)).write_csv(place / "even.csv")
    even = answered(run("audit", "even.csv", *alone[2:], "--propensity", "pi", *options))
    assert even["metrics"][0]["estimator"] == "hajek"
    raw = next(one for one in even["metrics"] if one["estimator"] == "raw" and one["name"] == "auc")
    assert even["metrics"][0]["name"] != "auc" or even["metrics"][0]["value"] == pytest.approx(raw["value"], rel=1e-9)

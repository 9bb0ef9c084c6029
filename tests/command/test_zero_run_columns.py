"""Columns and levels of a zero-run file, from the command line: named as the file has them, and left out by name."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import polars as pl
import pytest
import yaml

Run = Callable[..., tuple[int, str, str]]
OPTIONS = ["--score", "score", "--member", "member", "--design", "zero-run", "--no-bounds", "--primary-metric", "auc"]
COLUMNS = ["--covariates", "age,race", "--categories", "race"]


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A quarter of the members are of the race "r1, other", which no non-member is; a source that no one names."""
    rng, n = np.random.default_rng(0), 1600
    member, age = rng.random(n) < 0.5, rng.normal(size=n)
    race = np.where(member & (rng.random(n) < 0.25), "r1, other", rng.choice(["r0", "r2"], size=n))
    columns = {"member": member.astype(int), "score": 0.4 * member + rng.normal(size=n), "age": age, "race": race}
    columns["<i>source"] = np.where(rng.random(n) < np.where(member, 0.8, 0.2), "web", "book")
    columns["noise"] = rng.normal(size=n)
    monkeypatch.chdir(tmp_path)
    pl.DataFrame(columns).write_csv("a.csv")
    return "a.csv"


def test_a_refusal_names_the_level_once_and_the_option_that_leaves_it_out(run: Run, file: str) -> None:
    code, out, _ = run("audit", file, *COLUMNS, *OPTIONS, "--out", "refused")
    assert code == 4
    assert out.count("(race = r1, other)") == 1
    assert "no comparable non-member" not in out  # the same members
    option = "--exclude-levels 'race=r1, other'"
    assert out.count(option) == 1
    code, out, _ = run("audit", file, *COLUMNS, *OPTIONS, "--exclude-levels", "race=r1, other", "--out", "left-out")
    assert code in (0, 3)
    assert "members and 0 non-members were left out (race = r1, other). The answer holds for the other" in out
    page = (Path("left-out") / "report.html").read_text(encoding="utf-8")
    assert "were left out (race = r1, other)" in page
    code, out, _ = run("plan", file, "--member", "member", *COLUMNS)
    assert code == 4
    assert f"Leave out race = r1, other ({option}): " in out
    assert run("plan", file, "--member", "member", *COLUMNS, "--exclude-levels", "race=r1, other")[0] == 0


def test_a_configuration_file_leaves_out_the_same(run: Run, file: str) -> None:
    evaluation = {"table_path": file, "score": "score", "member": "member", "design": "zero-run"}
    evaluation |= {"covariates": ["age", "race"], "categories": ["race"], "exclude_levels": ["race=r1, other"]}
    content = {"evaluation": evaluation, "privacy": {"bounds": False}, "reporting": {"primary_metric": "auc"}}
    Path("c.yaml").write_text(yaml.safe_dump(content), encoding="utf-8")
    of_file = json.loads(run("run", "c.yaml", "--out", "of-file", "--json")[1])
    typed = json.loads(run("audit", file, *COLUMNS, *OPTIONS, "--exclude-levels", "race=r1, other", "--json")[1])
    assert of_file["excluded"] == typed["excluded"]
    assert of_file["metrics"] == typed["metrics"]
    assert of_file["unused_columns"] == typed["unused_columns"]


def test_an_unused_column_is_named_in_the_first_lines_and_changes_nothing(run: Run, file: str) -> None:
    options = ["--covariates", "age", *OPTIONS]
    _, out, _ = run("audit", file, *options, "--out", "all")
    first = out.split("\n\n")[0]
    assert "<i>source (AUC 0." in first
    assert "noise" not in first
    assert "Columns of the file that are not used" in out
    assert "<i>source" not in (Path("all") / "report.html").read_text(encoding="utf-8")
    pl.read_csv(file).select("member", "score", "age").write_csv("few.csv")
    all_of_it = json.loads(run("audit", file, *options, "--json")[1])
    few = json.loads(run("audit", "few.csv", *options, "--json")[1])
    assert few["unused_columns"] is None
    for findings in (all_of_it, few):
        del findings["repeat"], findings["unused_columns"], findings["evidence"]["source"]
    assert all_of_it == few


def test_a_level_that_is_not_there_is_one_line(run: Run, file: str) -> None:
    code, _, err = run("audit", file, *COLUMNS, *OPTIONS, "--exclude-levels", "race=r9", "--json")
    assert code == 1
    assert "exclude_levels: expected a level of race (r0, r1, other, r2), received 'race=r9'" in err

"""Names of levels: what a file calls them comes back from every format, in any selection of rows."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest

from miaudit import Evidence
from miaudit.bundle import sharing
from miaudit.io import level_names

RACES = ["r2", "r1", "", "r2", "r0", "r1"]


def table(path: Path) -> Path:
    frame = pl.DataFrame({"s": [0.1, 0.4, 0.2, 0.9, 0.3, 0.5], "m": [1, 0, 1, 0, 1, 0], "race": RACES})
    frame = frame.with_columns(site=pl.Series([7.0, None, 3.0, 7.0, 3.0, 3.0]), zone=pl.Series([4, 5, 5, 4, 4, 4]))
    frame.write_parquet(path)
    return path


def read(path: Path) -> Evidence:
    several = {"covariates": ["race", "site", "zone"], "categories": ["race", "site", "zone"]}
    return Evidence.load(table(path), score="s", member="m", design="zero-run", **several)


def test_levels_have_the_names_of_the_file(tmp_path: Path) -> None:
    evidence = read(tmp_path / "a.parquet")
    names = [evidence.level_name("race", code) for code in np.asarray(evidence.covariates)[:, 0].tolist()]
    assert names == ["r2", "r1", "(missing)", "r2", "r0", "r1"]
    assert evidence.levels["site"] == {0.0: "3", 1.0: "7", 2.0: "(missing)"}
    assert "zone" not in evidence.levels  # its numbers are its names
    assert evidence.level_name("zone", 4.0) == "4"


@pytest.mark.parametrize("ending", ["npz", "parquet", "csv"])
def test_every_format_keeps_them(tmp_path: Path, ending: str) -> None:
    evidence = read(tmp_path / "a.parquet")
    evidence.save(tmp_path / f"b.{ending}")
    back = Evidence.load(tmp_path / f"b.{ending}")
    assert back.digest == evidence.digest
    assert dict(back.levels) == dict(evidence.levels)


def test_some_of_the_rows_keep_the_levels_that_they_have(tmp_path: Path) -> None:
    part = read(tmp_path / "a.parquet").take(np.array([1, 2, 4]))
    back = level_names.from_columns(part.columns())
    assert back["race"] == {0.0: "(missing)", 1.0: "r0", 2.0: "r1"}


def test_a_bundle_keeps_them_only_where_it_shares_covariates(tmp_path: Path) -> None:
    evidence = read(tmp_path / "a.parquet")
    shared, _ = sharing.columns_of(evidence, "all", None)
    assert dict(sharing.evidence_of(shared).levels) == dict(evidence.levels)
    scores, withheld = sharing.columns_of(evidence, "scores", None)
    assert set(scores) == {"score.s", "member", "design", "source"}
    assert withheld == ("covariates",)


def test_names_of_columns_that_are_gone_are_left_out(tmp_path: Path) -> None:
    evidence = read(tmp_path / "a.parquet")
    fewer = evidence.replace(covariates=np.asarray(evidence.covariates)[:, :1], covariate_names=("race",))
    assert list(fewer.levels) == ["race"]


def test_terms_are_spelled_out() -> None:
    levels = {"race": {1.0: "r1"}, "race = 1": {0.0: "odd"}}
    assert level_names.spelled("race = 1", levels) == "race = r1"
    assert level_names.spelled("race = 2", levels) == "race = 2"  # nothing names it
    assert level_names.spelled("race: rare levels", levels) == "race: rare levels"

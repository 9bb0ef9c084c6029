"""Audits of three files on the command line, by way of an application of its own."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import polars as pl
import pytest
import typer

from miaudit.command import synthetic_table
from miaudit.errors import InputError
from miaudit.plan import Plan


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path, Path]:
    rng = np.random.default_rng(0)

    def draw(n: int) -> pl.DataFrame:
        return pl.DataFrame({"age": rng.normal(size=n), "job": rng.choice(["a", "b", "c"], size=n)})

    members = draw(200)
    made = pl.concat([draw(150), members.head(50)])
    paths = tuple(tmp_path / f"{name}.csv" for name in ("made", "members", "others"))
    for path, frame in zip(paths, (made, members, draw(200)), strict=True):
        frame.write_csv(path)
    return paths  # type: ignore[return-value]


OPTIONS = {"schema": None, "plan": Plan(), "design": "one-run", "out": None, "overwrite": False, "seed": 0}


def test_copies_end_in_exit_code_three(files: tuple[Path, Path, Path], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(typer.Exit) as stop:
        synthetic_table.audit_files(*files, **OPTIONS, json=False, attempts=50)  # type: ignore[arg-type]
    assert stop.value.exit_code == 3
    said = capsys.readouterr().out
    assert said.startswith("Concern: with 95% confidence for all 6 attacks together")
    assert "copies" in said
    assert "The schema was inferred from the synthetic table." in said
    assert "Positive control" in said


def test_json_is_all_that_is_printed(files: tuple[Path, Path, Path], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(typer.Exit):
        synthetic_table.audit_files(*files, **OPTIONS, json=True, attempts=20)  # type: ignore[arg-type]
    found = json.loads(capsys.readouterr().out)
    assert (found["kind"], found["exit_code"]) == ("table", 3)
    assert found["attacks"][0]["members"]["right"] == 50
    assert found["repeat"]["seed"] == 0


def test_a_missing_file_is_one_line(files: tuple[Path, Path, Path], tmp_path: Path) -> None:
    with pytest.raises(InputError, match="members: expected an existing file"):
        synthetic_table.audit_files(files[0], tmp_path / "no.csv", files[2], **OPTIONS, json=True)  # type: ignore[arg-type]

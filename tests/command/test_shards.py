"""``miaudit audit --shards``: the findings of one file, and what goes with it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import polars as pl
import pytest

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(3)
    member = rng.random(3000) < 0.5
    frame = pl.DataFrame({"score": rng.normal(size=3000) + 0.5 * member, "member": member}).sort("score", "member")
    frame.write_parquet("whole.parquet")
    (tmp_path / "parts").mkdir()
    for i in range(3):
        frame[i::3].write_parquet(f"parts/{i}.parquet")
    return tmp_path


def without(text: str, *names: str) -> dict[str, object]:
    """Findings without some fields at the top."""
    return {name: value for name, value in json.loads(text).items() if name not in names}


def test_findings_are_those_of_one_file_but_for_its_name_and_the_command(place: Path, run: Run) -> None:
    code, shards, _ = run("audit", "--shards", "parts/*.parquet", "--design", "one-run", "--json")
    other_code, whole, _ = run("audit", "whole.parquet", "--design", "one-run", "--json")
    assert code == other_code
    assert without(shards, "repeat", "evidence") == without(whole, "repeat", "evidence")
    evidence, of_whole = json.loads(shards)["evidence"], json.loads(whole)["evidence"]
    assert evidence["digest"] == of_whole["digest"] and evidence["source"] == "3 shards"


def test_a_configuration_names_shards_beside_itself(place: Path, run: Run) -> None:
    (place / "parts/c.yaml").write_text("evaluation: {shards: '*.parquet', design: one-run, output_dir: out}\n")
    code, _, error = run("run", "parts/c.yaml")
    assert code in (0, 3, 4), error
    digest = json.loads((place / "parts/out/findings.json").read_text())["evidence"]["digest"]
    _, whole, _ = run("audit", "whole.parquet", "--design", "one-run", "--json")
    assert digest == json.loads(whole)["evidence"]["digest"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["whole.parquet"], "--shards stands alone; quote the pattern"),
        (["--bundle", "b.zip"], "--bundle goes with one file"),
        (["--unit", "person"], "--unit would not be used for shards"),
        (["--inclusion", "0.8"], "--inclusion would not be used for shards"),
        (["--score", "a", "--score", "b"], "score: expected one column, for shards, received a, b"),
        (["--signal", "logits"], "signal: expected score, or loss with the attack loss, for shards"),
        (["--design", "zero-run"], "design: expected one-run, or none, for shards, received zero-run"),
        (["--n-bootstrap", "100"], "received an option that reads records one by one"),
        (["--show-rows", "3"], "received an option that reads records one by one"),
        (["--guesses", "pilot"], "received an option that reads records one by one"),
        (["--reference-score", "q"], "reference: expected none, for shards"),
    ],
    ids=lambda value: value[0] if isinstance(value, list) else None,
)
def test_what_needs_records_is_refused_before_anything_is_written(
    options: list[str], message: str, place: Path, run: Run
) -> None:
    design = [] if "--design" in options else ["--design", "one-run"]
    code, out, error = run("audit", "--shards", "parts/*.parquet", *design, *options)
    assert code in (1, 2) and out == ""
    assert message in " ".join(error.replace("│", " ").split())
    assert not (place / "results").exists()


def test_evidence_of_shards_is_not_collected_into_a_file(place: Path, run: Run) -> None:
    (place / "c.yaml").write_text("evaluation: {shards: 'parts/*.parquet', design: one-run}\n")
    code, _, error = run("collect", "c.yaml", "--out", "e.npz")
    assert code == 1 and "reads records one by one" in error and not (place / "e.npz").exists()

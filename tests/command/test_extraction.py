"""``miaudit extraction`` on the command line: findings, exit codes, and what is refused in one line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from collect.test_extraction import records
from command.test_bundle import Run
from miaudit.io import token_files
from miaudit.io.token_records import write_jsonl

WINDOW = ("--prefix", "4", "--suffix", "6")


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    write_jsonl(tmp_path / "t.jsonl", records())
    return tmp_path


@pytest.mark.long
def test_what_is_repeated_is_said_written_and_drawn_again(place: Path, run: Run) -> None:
    code, out, err = run("extraction", "t.jsonl", *WINDOW, "--design", "one-run", "--out", "results")
    assert (code, err) == (3, "")
    assert out.startswith("Concern: with 95% confidence, at least ") and "By how often a text was trained on" in out
    assert {path.name for path in (place / "results").iterdir()} == {"findings.json", "report.html", "figures"}
    held = json.loads((place / "results" / "findings.json").read_text())
    assert held["kind"] == "extraction" and set(held["members"]) == {"value", "low", "high"} == set(held["difference"])
    assert json.loads(run("extraction", "t.jsonl", *WINDOW, "--json")[1])["controls"] == held["controls"]
    assert run("report", "results/findings.json", "--out", "again")[0] == 0
    code, _, err = run("extraction", "t.jsonl", *WINDOW, "--out", "results")
    assert code == 1 and "--overwrite" in err


@pytest.mark.long
def test_columns_are_read_as_lines_are(place: Path, run: Run) -> None:
    """A .parquet of tokens gives the findings of the .jsonl, and is told from evidence by its columns."""
    token_files.write(place / "t.parquet", token_files.read(place / "t.jsonl"))
    audited = ("--signal", "token-logprobs", "--design", "one-run", "--no-bounds", "--json")
    for command in (("extraction", *WINDOW, "--json"), ("audit", *audited)):
        by_line, by_row = (
            json.loads(run(command[0], f"t.{ending}", *command[1:])[1].replace("t.parquet", "t.jsonl"))
            for ending in ("jsonl", "parquet")
        )
        assert {key for key in by_line if by_line[key] != by_row[key]} <= {"repeat"}
    code, _, err = run("audit", "t.parquet", "--out", "a")
    assert code == 1 and err.count("\n") == 1
    assert "t.parquet, which holds the log-probabilities of tokens; add --signal token-logprobs" in err


@pytest.mark.parametrize(
    ("options", "message", "code"),
    [
        (("none.jsonl",), "none.jsonl", 1),
        (("t.jsonl", "--chance", "1"), "chance: expected", 1),
        (("t.jsonl", "--negligible", "0"), "negligible: expected", 1),
        (("t.jsonl", "--suffix", "0"), "suffix", 2),
        (("t.jsonl", "--design", "many"), "design", 2),
    ],
)
def test_bad_options_are_refused(place: Path, run: Run, options: tuple[str, ...], message: str, code: int) -> None:
    found, out, err = run("extraction", *options)
    assert (found, out) == (code, "") and message in err
    if code == 1:
        assert err.count("\n") == 1


def test_too_short_texts_are_no_answer(place: Path, run: Run) -> None:
    code, out, _ = run("extraction", "t.jsonl")
    assert code == 4 and out.startswith("No answer: no members have a passage of 50 tokens after 50.")

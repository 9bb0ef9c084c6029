"""``miaudit extraction`` on the command line: findings, exit codes, and what is refused in one line."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from collect.test_extraction import records
from collect.test_generations import world
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


@pytest.mark.thorough
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
    for name in ("t.jsonl", "t.parquet"):
        told = run("audit", name, "--design", "one-run", "--no-bounds", "--json")
        assert told[2] == "miaudit: assumed: --signal token-logprobs; give it to change that\n"
        assert json.loads(told[1])["metrics"] == by_line["metrics"]
    code, _, err = run("audit", "t.parquet", "--signal", "loss", "--score", "x", "--member", "member", "--out", "a")
    assert code == 1 and err.count("\n") == 1
    assert "t.parquet, which holds the log-probabilities of tokens; add --signal token-logprobs" in err


@pytest.mark.parametrize(
    ("options", "message", "code"),
    [
        (("none.jsonl",), "none.jsonl", 1),
        (("t.jsonl", "--chance", "1"), "chance: expected", 1),
        (("t.jsonl", "--limit", "extraction=2"), "limits: expected a number in [0, 1) for extraction", 1),
        (("t.jsonl", "--limit", "auc=0.6"), "limits: expected extraction, which", 1),
        (("t.jsonl", "--suffix", "0"), "suffix", 2),
        (("t.jsonl", "--near", "1"), "near: expected", 1),
        (("t.jsonl", "--top-k", "5"), "--top-k: expected --model beside it, received none", 1),
        (("t.jsonl", "--model", "nowhere"), "keys: expected text and tokens on every line, to ask a model", 1),
        (("t.jsonl", "--design", "many"), "design", 2),
    ],
)
def test_bad_options_are_refused(place: Path, run: Run, options: tuple[str, ...], message: str, code: int) -> None:
    found, out, err = run("extraction", *options)
    assert (found, out) == (code, "") and message in err
    if code == 1:
        assert err.count("\n") == 1


@pytest.mark.long
def test_a_model_in_a_folder_is_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run: Run) -> None:
    """From documents that say how often they were trained on, by the commands of the docs."""
    pytest.importorskip("transformers", reason="the extra `text`")
    from miaudit.models import text
    from models.test_continuation import TEXTS, by_heart

    monkeypatch.chdir(tmp_path)
    text.save(by_heart(), tmp_path / "m")
    with (tmp_path / "d.jsonl").open("w") as file:
        for i, one in enumerate(TEXTS):
            file.write(json.dumps({"text": one, "member": int(i < 20), "times": 1 + i % 2 if i < 20 else 0}) + "\n")
    data = "{path: d.jsonl, text: text, member: member, times: times}"
    (tmp_path / "audit.yaml").write_text(f"target: {{kind: language-model, folder: m}}\ndata: {data}\n")
    assert run("collect", "audit.yaml", "--out", "t.jsonl")[0] == 0
    options = ("--prefix", "8", "--suffix", "8", "--design", "one-run", "--model", "m", "--samples", "2")
    code, out, err = run("extraction", "t.jsonl", *options, "--store", "s", "--out", "r", "--names")
    assert (code, err) == (3, "") and "Asked, nearly in 2 answers, of 1,000:" in out
    assert "trained on 2 times" in out and "Of 1,000 private texts" in out
    held = json.loads((tmp_path / "r" / "findings.json").read_text())
    assert [way["name"] for way in held["ways"]][2:] == [
        "asked-greedy", "asked-greedy-near", "asked-drawn", "asked-drawn-near"
    ]  # fmt: skip
    assert held["asked"]["samples"] == 2 and [row["times_from"] for row in held["repetitions"]] == [1, 2]
    code, out, err = run("extraction", "t.jsonl", *options, "--seed", "1", "--store", "s")
    assert code == 1 and err.count("\n") == 1 and "store: expected a folder of the same options" in err


def test_too_short_texts_are_no_answer(place: Path, run: Run) -> None:
    code, out, _ = run("extraction", "t.jsonl")
    assert code == 4 and out.startswith("Not answered (not testable): no members have a passage of 50 tokens after 50.")


@pytest.fixture
def answers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[str, ...]:
    monkeypatch.chdir(tmp_path)
    world(tmp_path, np.random.default_rng(1))
    return ("extraction", "--generations", "a.jsonl", "--texts", "p.jsonl", "--controls", "c.jsonl", "--suffix", "12")


def test_answers_made_elsewhere_are_compared(answers: tuple[str, ...], tmp_path: Path, run: Run) -> None:
    options = ("--near", "0.2", "--design", "one-run", "--names")
    code, out, err = run(*answers, *options, "--out", "results")
    assert (code, err) == (3, "") and out.startswith("Concern: ") and "Nearly, in 151 answers, of 1,000:" in out
    assert "private, 20 tokens in a row, line " in out
    held = json.loads((tmp_path / "results" / "findings.json").read_text())
    assert [way["name"] for way in held["ways"]] == ["answers", "answers-near"] and held["generations"][
        "answers"
    ] == 151
    page = (tmp_path / "results" / "report.html").read_text()
    assert "Answers of the model were made elsewhere" in page and "Line of the answer" in page
    assert run("report", "results/findings.json", "--out", "again")[0] == 0
    assert run(*answers, "--near", "0.2", "--design", "one-run", "--limit", "extraction=0.9")[0] == 0
    assert run(*answers)[0] == 4


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("t.jsonl",), "FILE: expected none beside --generations"),
        (("--prefix", "5"), "--prefix: expected no such option beside --generations"),
        (("--top-k", "5"), "--top-k: expected no such option beside --generations"),
        (("--texts", "none.jsonl"), "none.jsonl"),
        (("--generations", "bad.jsonl"), "bad.jsonl, line 2, answer: expected text, received int"),
    ],
)
def test_bad_options_beside_answers_are_refused(
    answers: tuple[str, ...], tmp_path: Path, run: Run, options: tuple[str, ...], message: str
) -> None:
    (tmp_path / "bad.jsonl").write_text('{"answer": "x"}\n{"answer": 5}\n')
    code, out, err = run(*answers, *options)
    assert (code, out) == (1, "") and message in err and err.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "FILE: expected a file of token log-probabilities, received none; or --generations"),
        (("t.jsonl", "--texts", "p.jsonl"), "--texts: expected --generations beside it"),
        (("--generations", "a.jsonl", "--controls", "c.jsonl"), "--texts: expected a file of private texts"),
        (
            ("--generations", "a.jsonl", "--texts", "p.jsonl"),
            "--controls: expected a file of texts that the model cannot",
        ),
    ],
)
def test_files_that_are_missing_are_named(run: Run, arguments: tuple[str, ...], message: str) -> None:
    code, out, err = run("extraction", *arguments)
    assert (code, out) == (1, "") and message in err and err.count("\n") == 1

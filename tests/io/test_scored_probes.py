"""Scores of probes: as numbers, as log-probabilities of tokens, or as servers answer; and what is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from miaudit.errors import InputError
from miaudit.io.scored_probes import holds, read, read_lines

PROBE = {"record": "r", "unit": "u", "text": "a b"}


def write(path: Path, *more: dict[str, Any]) -> Path:
    lines = [json.dumps({**PROBE, "candidate": k, **one}) for k, one in enumerate(more)]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("first", "second", "name"),
    [
        ({"log_probability": -3, "score": 9}, {"log_probability": -4.5, "score": 9}, "log_probability"),
        ({"score": -3}, {"score": -4.5}, "score"),
        ({"token_logprobs": [None, -1, -2]}, {"token_logprobs": [-4, -0.5]}, "log_probability"),
        ({"logprobs": [-1, -2]}, {"logprobs": [-4.5]}, "log_probability"),
        (
            {"logprobs": {"tokens": ["a", " b"], "token_logprobs": [None, -3]}},
            {"logprobs": {"tokens": ["a", " b"], "token_logprobs": [None, -4.5]}},
            "log_probability",
        ),
        (
            {"prompt_logprobs": [None, {"5": {"logprob": -3, "decoded_token": " b"}}]},
            {"prompt_logprobs": [None, {"5": {"logprob": -4.5, "decoded_token": " b"}}]},
            "log_probability",
        ),
        (
            {"choices": [{"logprobs": {"tokens": ["a", " b"], "token_logprobs": [-1, -2]}}]},
            {"choices": [{"logprobs": {"tokens": ["a", " b"], "token_logprobs": [-4, -0.5]}}]},
            "log_probability",
        ),
    ],
)
def test_scores_that_are_read(first: dict[str, Any], second: dict[str, Any], name: str, tmp_path: Path) -> None:
    scored = read(write(tmp_path / "s.jsonl", first, second))
    assert list(scored.scores) == [name] and scored.reference is None
    assert np.allclose(scored.scores[name], [-3, -4.5])
    assert [row.candidate for row in scored.rows] == [0, 1] and scored.rows[0].text == "a b"


def test_scores_by_name_and_of_a_reference(tmp_path: Path) -> None:
    path = write(
        tmp_path / "s.jsonl",
        {"mine": 1, "other": 2, "reference_log_probability": -7},
        {"mine": 3, "other": 4, "reference_log_probability": -8},
    )
    scored = read(path, ["mine", "other"])
    assert {name: values.tolist() for name, values in scored.scores.items()} == {"mine": [1, 3], "other": [2, 4]}
    assert scored.reference is not None and scored.reference.tolist() == [-7, -8]
    with pytest.raises(InputError, match=r"line 1, score.*but mine, other.*--score mine"):
        read(path)
    with pytest.raises(InputError, match="did you mean mine"):
        read(path, ["mien"])


@pytest.mark.parametrize(
    ("second", "word"),
    [
        ({}, "line 2, score: expected a number named log_probability, received none"),
        ({"log_probability": None}, "received null"),
        ({"log_probability": "x"}, "received 'x'"),
        ({"log_probability": True}, "received True"),
        ({"log_probability": 1e9}, "a finite number"),
        ({"log_probability": []}, "a list of log-probabilities"),
        ({"log_probability": [-1, None]}, "received null"),
        ({"log_probability": [-1, 0.4]}, "at most 0"),
        ({"log_probability": [-1, -9999.0]}, "minus infinity"),
        ({"candidate": -1}, "line 2, candidate"),
        ({"candidate": 1.0}, "line 2, candidate"),
        ({"text": None}, "line 2, text"),
    ],
)
def test_bad_lines_are_named(second: dict[str, Any], word: str, tmp_path: Path) -> None:
    path = write(tmp_path / "s.jsonl", {"log_probability": -1}, second)
    with pytest.raises(InputError) as caught:
        read(path)
    assert word in str(caught.value) and "s.jsonl, line 2" in str(caught.value)


def test_files_of_probes(tmp_path: Path) -> None:
    assert holds(write(tmp_path / "s.jsonl", {}))
    (tmp_path / "t.jsonl").write_text('{"id": 1, "member": true, "logprobs": [-1]}\n')
    (tmp_path / "empty.jsonl").write_text("")
    (tmp_path / "u.jsonl").write_text("no json\n")
    for name in ("t.jsonl", "u.jsonl", "empty.jsonl", "absent.jsonl", "s.csv"):
        assert not holds(tmp_path / name)
    with pytest.raises(InputError, match="a line or more"):
        read_lines(tmp_path / "empty.jsonl")
    with pytest.raises(InputError, match="none named record"):
        read_lines(tmp_path / "t.jsonl")

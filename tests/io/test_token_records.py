"""Files of token log-probabilities: there and back, and files that are wrong."""

from __future__ import annotations

import json
from dataclasses import fields, replace
from pathlib import Path

import numpy as np
import pytest

from miaudit.attacks import tokens
from miaudit.errors import InputError
from miaudit.io import token_records
from miaudit.io.token_records import Limits, TokenRecords
from worlds.token_files import ragged


def line(i: int, **fields: object) -> dict[str, object]:
    return {"id": f"r{i}", "member": i % 2 == 0, "logprobs": [-1.0 - i, -2.0], **fields}


def written(folder: Path, *lines: object) -> Path:
    path = folder / "t.jsonl"
    path.write_text("\n".join(x if isinstance(x, str) else json.dumps(x) for x in lines) + "\n", encoding="utf-8")
    return path


def records(n: int = 20) -> TokenRecords:
    w = ragged(n)
    names = tuple(f"é {i}" for i in range(n))
    return TokenRecords(ids=names, member=np.arange(n) % 2 == 0, **w, text=names, unit=names, group=("a",) * n)


def test_round_trip(tmp_path: Path) -> None:
    wanted = records()
    token_records.write_jsonl(tmp_path / "t.jsonl", wanted)
    found = token_records.read_jsonl(tmp_path / "t.jsonl")
    for name in ("log_p", "offsets", "mean", "std", "reference_log_p", "reference_offsets", "member"):
        np.testing.assert_array_equal(getattr(found, name), getattr(wanted, name))
    assert (found.ids, found.text, found.unit, found.group) == (wanted.ids, wanted.text, wanted.unit, wanted.group)
    assert tuple(tokens.scores_of(found)) == tokens.DEFAULT
    assert [path.name for path in tmp_path.iterdir()] == ["t.jsonl"]


def test_everything_that_attacks_may_need_comes_back(tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    plain = records()
    total = len(plain.log_p)
    neighbours = np.r_[0, np.cumsum(rng.integers(1, 4, len(plain.ids)))]
    wanted = replace(
        plain,
        top1=rng.random(total) < 0.4,
        tokens=rng.integers(0, 1000, total),
        prefixed_log_p=-rng.exponential(3.0, total),
        frequency_log_p=-rng.exponential(9.0, total),
        neighbour_log_p=-rng.exponential(3.0, int(neighbours[-1])),
        neighbour_offsets=neighbours,
        times=np.where(plain.member, 4, 0),
        same_tokens=np.diff(plain.offsets) == np.diff(plain.reference_offsets),
        windows=np.arange(len(plain.ids)) % 3 + 1,
    )
    token_records.write_jsonl(tmp_path / "t.jsonl", wanted)
    found = token_records.read_jsonl(tmp_path / "t.jsonl")
    for field in fields(TokenRecords):
        if field.name not in ("ids", "text", "unit", "group", "notes"):
            np.testing.assert_array_equal(getattr(found, field.name), getattr(wanted, field.name))
    assert found.top1 is not None
    assert (found.top1.dtype, found.times.dtype) == (np.bool_, np.int64)


def test_the_least_that_a_file_may_hold(tmp_path: Path) -> None:
    path = written(tmp_path, "\ufeff" + json.dumps(line(0, id=7, member=1, model="x")), "", line(1, member=0))
    found = token_records.read_jsonl(path)
    assert found.ids == ("7", "r1")
    assert found.member.tolist() == [True, False]
    assert list(tokens.scores_of(found)) == ["loss", "min_k"]
    assert found.text is None
    assert found.notes == ("Keys that were not used, with the first line of each: 'model' (line 1).",)


@pytest.mark.parametrize(
    ("second", "message"),
    [
        ('{"id": "b", "member": true, "logprobs": [NaN]}', "received NaN"),
        ('{"id": "b", "member": true, "logprobs": [-Infinity]}', "received -Infinity"),
        ('{"id": "b", "member": true, "logprobs": [-1e999]}', "position 0"),
        ('{"id": "b", "member": true, "logprobs": [-1' + "0" * 400 + "]}", "finite numbers"),
        ('{"id": "b", "member": true, "logprobs": [-1' + "0" * 5000 + "]}", "line 2"),
        ('{"id": "b", "member": true, "logprobs": [null, -1.0]}', "null at position 0; leave out tokens"),
        ('{"id": "b", "member": true, "logprobs": [true]}', "bool at position 0"),
        ('{"id": "b", "member": true, "logprobs": ["-1"]}', "str at position 0"),
        ('{"id": "b", "member": true, "logprobs": [2.5]}', "negate losses"),
        ('{"id": "b", "member": true, "logprobs": []}', "an empty list"),
        ('{"id": "b", "member": true, "logprobs": -1}', "a list of one number"),
        ('{"id": "b", "member": true, "member": false, "logprobs": [-1]}', "each key once"),
        ('{"id": "b", "member": "yes", "logprobs": [-1]}', "true or false"),
        ('{"id": "b", "member": 1.0, "logprobs": [-1]}', "true or false"),
        ('{"id": null, "member": 1, "logprobs": [-1]}', "text or a whole number"),
        ('{"id": "b", "logprobs": [-1]}', "none named member"),
        ('{"id": "b", "member": true, "logprob": [-1]}', "did you mean logprobs"),
        ('{"id": "r0", "member": true, "logprobs": [-1]}', "as in line 1"),
        ('{"id": "b", "member": true, "logprobs": [-1], "text": "a"}', "text given; give it everywhere"),
        ('{"id": "b", "member": true, "logprobs": [-1], "mean": [-1]}', "min-k%[+][+] needs both"),
        ('{"id": "b", "member": true, "logprobs": [-1], "mean": [-1], "std": [1, 2]}', "as in logprobs"),
        ('{"id": "b", "member": true, "logprobs": [-1], "mean": [-1], "std": [-1]}', "standard deviation"),
        ('{"id": "b\\ud800", "member": true, "logprobs": [-1]}', "half characters"),
        ('{"id": "b", "member": true, "logprobs": [-1]', "JSON: expected one object"),
        ("[" * 200_000, "nested too deeply|one object"),
        ("[1]", "received list"),
        ('{"id": "b", "member": true, "logprobs": [-1], "top1": [2]}', "true or false, received 2 at position 0"),
        ('{"id": "b", "member": true, "logprobs": [-1], "top1": [true, false]}', "1 numbers, as in logprobs"),
        ('{"id": "b", "member": true, "logprobs": [-1], "tokens": [0.5]}', "whole and from 0, received 0.5"),
        ('{"id": "b", "member": true, "logprobs": [-1], "times": 0}', "1 up for members, 0 for others, received 0"),
        ('{"id": "b", "member": false, "logprobs": [-1], "times": 1}', "1 up for members, 0 for others"),
        ('{"id": "b", "member": true, "logprobs": [-1], "windows": 0}', "windows: expected a whole number from 1"),
        ('{"id": "b", "member": true, "logprobs": [-1], "windows": true}', "windows: expected a whole number from 1"),
        ('{"id": "b", "member": true, "logprobs": [-1], "same_tokens": true}', "same_tokens: expected true or false"),
        (
            '{"id": "b", "member": true, "logprobs": [-1], "reference_logprobs": [-1, -2], "same_tokens": true}',
            "as many reference_logprobs as logprobs",
        ),
        ('{"id": "b", "member": true, "logprobs": [-1], "neighbour_logprobs": []}', "an empty list"),
    ],
)
def test_bad_lines_are_named_by_number(tmp_path: Path, second: str, message: str) -> None:
    with pytest.raises(InputError, match=message) as refused:
        token_records.read_jsonl(written(tmp_path, line(0), second))
    assert str(refused.value).startswith("t.jsonl, line 2, ")
    assert "\n" not in str(refused.value)


def damaged(kind: str, folder: Path) -> Path:
    path = folder / "t.jsonl"
    if kind == "empty":
        path.write_text("\n\n")
    elif kind == "bytes":
        path.write_bytes(json.dumps(line(0)).encode() + b"\n\xff\xfe\n")
    elif kind == "name":
        path = folder / "t.json"
        path.write_text("{}")
    return path


@pytest.mark.parametrize(
    ("kind", "message"),
    [("empty", "none in t.jsonl"), ("bytes", "line 2, text: expected UTF-8"), ("name", ".jsonl"), ("none", "exist")],
)
def test_bad_files(tmp_path: Path, kind: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        token_records.read_jsonl(damaged(kind, tmp_path))


@pytest.mark.parametrize("limits", [Limits(line_bytes=60), Limits(records=2), Limits(tokens=5)])
def test_limits(tmp_path: Path, limits: Limits) -> None:
    path = written(tmp_path, line(0), line(1), line(2, text_="x" * 80) if limits.line_bytes == 60 else line(2))
    with pytest.raises(InputError, match="line 3, size: expected at most"):
        token_records.read_jsonl(path, limits=limits)
    token_records.read_jsonl(written(tmp_path, line(0), line(1)), limits=limits)


def test_a_file_without_line_ends_is_not_read_into_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "t.jsonl"
    with path.open("wb") as handle:
        handle.truncate(2**33)  # 8 GB, of which nothing is on the disk
    with pytest.raises(InputError, match="line 1, size"):
        token_records.read_jsonl(path, limits=Limits(line_bytes=1000))


def test_a_failed_write_leaves_nothing(tmp_path: Path) -> None:
    wrong = records()
    wrong.log_p[3] = np.nan
    with pytest.raises(ValueError, match="JSON"):
        token_records.write_jsonl(tmp_path / "t.jsonl", wrong)
    assert list(tmp_path.iterdir()) == []

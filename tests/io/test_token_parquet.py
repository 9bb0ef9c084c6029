"""Token log-probabilities in Parquet: the record of the same .jsonl, findings alike, and files that are wrong."""

from __future__ import annotations

import json
from dataclasses import fields, replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from miaudit.errors import InputError
from miaudit.io import tables, token_files, token_parquet, token_records
from miaudit.io.token_records import Limits, TokenRecords


def everything(n: int = 40, seed: int = 0) -> TokenRecords:
    """Texts of unequal length with all that a file may hold."""
    rng = np.random.default_rng(seed)
    offsets = np.r_[0, np.cumsum(np.r_[1, rng.integers(2, 30, n - 1)])]
    near, other = (np.r_[0, np.cumsum(rng.integers(1, 5, n))] for _ in range(2))
    total, member = int(offsets[-1]), rng.random(n) < 0.5

    def log_p(size: int = total) -> np.ndarray:
        return -rng.exponential(2.0, size)

    return TokenRecords(
        ids=tuple(f"é {i}" for i in range(n)),
        member=member,
        log_p=log_p(),
        offsets=offsets,
        mean=log_p(),
        std=rng.exponential(1.0, total),
        top1=rng.random(total) < 0.4,
        tokens=rng.integers(0, 50_000, total),
        prefixed_log_p=log_p(),
        frequency_log_p=log_p(),
        reference_log_p=log_p(int(other[-1])),
        reference_offsets=other,
        neighbour_log_p=log_p(int(near[-1])),
        neighbour_offsets=near,
        times=np.where(member, rng.integers(1, 9, n), 0),
        same_tokens=np.zeros(n, dtype=bool),
        windows=np.arange(n) + 1,
        text=tuple(f"text {i}" for i in range(n)),
        unit=tuple(f"u{i // 2}" for i in range(n)),
        group=("a",) * n,
    )


def same(one: TokenRecords, other: TokenRecords) -> None:
    for own in fields(TokenRecords):
        first, second = getattr(one, own.name), getattr(other, own.name)
        assert type(first) is type(second), own.name
        if isinstance(first, np.ndarray):
            assert first.dtype == second.dtype, own.name
        np.testing.assert_array_equal(first, second, err_msg=own.name)


@pytest.mark.long
@pytest.mark.parametrize("endings", [("jsonl", "parquet"), ("parquet", "jsonl"), ("parquet", "parquet")])
def test_there_and_back_by_either_form(tmp_path: Path, endings: tuple[str, str]) -> None:
    held = everything()
    longer = (
        "39 of 40 texts are longer than the model's context. They were scored in overlapping windows, each token once."
    )
    for ending in endings:
        token_files.write(tmp_path / f"t.{ending}", held)
        held = token_files.read(tmp_path / f"t.{ending}")
    same(held, replace(everything(), notes=(longer,)))
    assert {path.name for path in tmp_path.iterdir()} == {f"t.{ending}" for ending in endings}


def test_what_other_programs_write_is_read(tmp_path: Path) -> None:
    frame = pl.DataFrame(
        {
            "id": [7, 8],
            "member": [1, 0],
            "logprobs": pl.Series([[-1.0, -2.0], [-0.5, -1.5]], dtype=pl.Array(pl.Float32, 2)),
            "top1": [[1, 0], [0, 1]],
            "model": ["x", "x"],
        }
    )
    frame.write_parquet(tmp_path / "t.parquet")
    found = token_files.read(tmp_path / "t.parquet")
    assert (found.ids, found.member.tolist()) == (("7", "8"), [True, False])
    assert found.log_p.tolist() == [-1.0, -2.0, -0.5, -1.5] and found.log_p.dtype == np.float64
    assert found.top1 is not None and found.top1.tolist() == [True, False, False, True]
    assert found.notes == ("Keys that were not used, with the first column of each: 'model' (column 1).",)


def row(i: int, **changed: object) -> dict[str, object]:
    return {"id": f"r{i}", "member": i % 2 == 0, "logprobs": [-1.0 - i, -2.0], **changed}


WRONG = {
    "not a number": ([row(0), row(1, logprobs=[-1.0, float("nan")])], "row 2, logprobs: .* NaN at position 1"),
    "minus infinity": ([row(0, logprobs=[-1.0, -np.inf]), row(1)], "row 1, logprobs: .* at position 1"),
    "positive": ([row(0), row(1, logprobs=[-1.0, 0.5, -1.0])], "row 2, logprobs: .* 0.5 at position 1.* negate losses"),
    "a sentinel": ([row(0), row(1, logprobs=[-9999.0, -1.0])], "row 2, logprobs: .* -9999.* at position 0"),
    "null among numbers": ([row(0), row(1, logprobs=[None, -1.0])], "row 2, logprobs: .* null at position 0"),
    "an empty list": ([row(0), row(1, logprobs=[])], "row 2, logprobs: .* an empty list"),
    "no list in a row": ([row(0), row(1, logprobs=None)], "row 2, keys: .* logprobs absent; give it everywhere"),
    "a label in some rows": ([row(0, text="a"), row(1, text=None)], "row 2, keys: .* text absent"),
    "numbers, no lists": ([row(0, logprobs=-1.0), row(1, logprobs=-2.0)], "row 1, logprobs: .* a column of Float64"),
    "words": ([row(0, logprobs=["a"]), row(1, logprobs=["b"])], "row 1, logprobs: expected numbers, received String"),
    "true and false": ([row(0, logprobs=[True]), row(1, logprobs=[False])], "row 1, logprobs: expected numbers"),
    "unequal lengths": (
        [row(0, tokens=[1, 2]), row(1, tokens=[3])],
        "row 2, tokens: expected 2 numbers, as in logprobs, received 1",
    ),
    "half a token": ([row(0, tokens=[1.0, 2.0]), row(1, tokens=[3.0, 0.5])], "row 2, tokens: .* 0.5 at position 1"),
    "one id twice": ([row(0), row(1), row(0)], "row 3, id: .* 'r0', as in row 1; rename it"),
    "odd membership": ([row(0, member=2), row(1, member=0)], "row 1, member: expected true or false, received 2"),
    "times of a control": ([row(0, times=1), row(1, times=1)], "row 2, times: .* received 1"),
    "no window": ([row(0, windows=0)], "row 1, windows: expected a whole number from 1"),
    "same tokens without a reference": ([row(0, same_tokens=True)], "row 1, same_tokens: .* received True"),
    "mean alone": ([row(0, mean=[-1.0, -1.0])], "keys: expected mean and std, or neither"),
    "negative spread": ([row(0, mean=[-1.0, -1.0], std=[0.0, -1.0])], "row 1, std: .* -1 at position 1"),
    "a misspelt column": ([row(0, reference_logprob=[-1.0])], "did you mean reference_logprobs"),
    "no membership": ([{"id": "a", "logprobs": [-1.0]}], "keys: .* none named member"),
    "scores of records": ([{"id": "a", "member": True, "score": 1.0}], "whose columns are id, member, score; audit"),
}


@pytest.mark.parametrize("case", WRONG)
def test_bad_rows_are_named_by_number(tmp_path: Path, case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "refuse_damaged", lambda *_: None)  # a process for each of these files, which are whole
    rows, message = WRONG[case]
    pl.DataFrame(rows).write_parquet(tmp_path / "t.parquet")
    with pytest.raises(InputError, match=message) as refused:
        token_parquet.read_parquet(tmp_path / "t.parquet")
    assert "\n" not in str(refused.value)


@pytest.mark.long
@pytest.mark.parametrize("limits", [Limits(records=2), Limits(tokens=5)])
def test_limits(tmp_path: Path, limits: Limits) -> None:
    pl.DataFrame([row(0), row(1), row(2)]).write_parquet(tmp_path / "t.parquet")
    with pytest.raises(InputError, match="row 3, size: expected at most"):
        token_parquet.read_parquet(tmp_path / "t.parquet", limits=limits)
    pl.DataFrame([row(0), row(1)]).write_parquet(tmp_path / "t.parquet")
    assert len(token_parquet.read_parquet(tmp_path / "t.parquet", limits=limits).ids) == 2


@pytest.mark.long
def test_files_that_are_none(tmp_path: Path) -> None:
    (tmp_path / "t.parquet").write_bytes(b"PAR1 and then nothing")
    with pytest.raises(InputError, match="cannot be read"):
        token_files.read(tmp_path / "t.parquet")
    pl.DataFrame(schema={"id": pl.String, "member": pl.Boolean, "logprobs": pl.List(pl.Float64)}).write_parquet(
        tmp_path / "none.parquet"
    )
    with pytest.raises(InputError, match=r"none in none\.parquet"):
        token_files.read(tmp_path / "none.parquet")
    with pytest.raises(InputError, match=r"\.jsonl or \.parquet"):
        token_files.write(tmp_path / "t.csv", everything())
    wrong = everything()
    wrong.log_p[3] = np.nan
    with pytest.raises(InputError, match="finite numbers"):
        token_files.write(tmp_path / "new.parquet", wrong)
    assert not (tmp_path / "new.parquet").exists()


@pytest.mark.long
def test_tokens_are_told_from_evidence_by_their_columns(tmp_path: Path) -> None:
    token_files.write(tmp_path / "t.parquet", everything())
    assert token_parquet.holds_tokens(tmp_path / "t.parquet")
    wide = {"id": np.arange(3), "member": np.array([True, False, True]), "score": np.zeros((3, 2))}
    tables.write_columns(tmp_path / "e.parquet", wide)
    assert not token_parquet.holds_tokens(tmp_path / "e.parquet")


def test_a_file_of_lines_is_read_as_lines_of_any_source(tmp_path: Path) -> None:
    lines = [json.dumps(row(i)).encode() for i in range(3)]
    found = token_records.of_lines(enumerate(lines, start=1), "there", Limits())
    (tmp_path / "t.jsonl").write_bytes(b"\n".join(lines))
    same(found, token_records.read_jsonl(tmp_path / "t.jsonl"))

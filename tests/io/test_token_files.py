"""Files of token log-probabilities by their ending: findings do not depend on it, and other endings are refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from miaudit.attacks import tokens
from miaudit.collect.extraction import ExtractionPlan, audit_extraction
from miaudit.errors import InputError
from miaudit.io import token_files
from miaudit.io.token_records import Limits, TokenRecords


def held(length: int = 20) -> TokenRecords:
    rng = np.random.default_rng(1)
    member = np.arange(60) < 30
    log_p = np.where(np.repeat(member, length), -0.02, -2.0) * rng.random(60 * length)
    return TokenRecords(tuple(map(str, range(60))), member, log_p, length * np.arange(61))


def test_findings_are_the_same_by_either_form(tmp_path: Path) -> None:
    for ending in ("jsonl", "parquet"):
        token_files.write(tmp_path / f"t.{ending}", held())
    plan = ExtractionPlan(prefix=5, suffix=10)
    by_line, by_row = (audit_extraction(tmp_path / f"t.{ending}", plan) for ending in ("jsonl", "parquet"))
    assert by_line.ways == by_row.ways and by_line.verdict == by_row.verdict
    assert by_line.members.value > by_line.controls.value
    one, other = (tokens.scores_of(tokens.read(tmp_path / f"t.{ending}")) for ending in ("jsonl", "parquet"))
    for name, values in one.items():
        np.testing.assert_array_equal(values, other[name])


@pytest.mark.long
def test_limits_and_texts_shorter_than_the_window_in_either_form(tmp_path: Path) -> None:
    for ending in ("jsonl", "parquet"):
        path = tmp_path / f"t.{ending}"
        token_files.write(path, held(length=8))
        with pytest.raises(InputError, match="size: expected at most 9 records"):
            token_files.read(path, limits=Limits(records=9))
        found = audit_extraction(path, ExtractionPlan(prefix=5, suffix=10))
        assert (found.exit_code, found.counts["too_short"], found.counts["passages"]) == (4, 60, 0)


def test_other_endings_are_refused(tmp_path: Path) -> None:
    for name in ("t.csv", "t.json", "t"):
        (tmp_path / name).write_text("{}")
        with pytest.raises(InputError, match=r"\.jsonl or \.parquet"):
            token_files.read(tmp_path / name)
        with pytest.raises(InputError, match=r"\.jsonl or \.parquet"):
            token_files.write(tmp_path / name, held())

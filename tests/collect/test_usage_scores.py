"""Scores of records from files: pairs, tables, and losses."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from miaudit import Evidence
from miaudit.collect import usage_scores
from miaudit.errors import InputError


def test_a_pair_of_files_and_a_table_hold_the_same_scores(tmp_path: Path) -> None:
    mine, never = np.array([3.0, 1.0, 2.0]), np.array([0.5, 0.25])
    np.save(tmp_path / "mine.npy", mine)
    np.save(tmp_path / "never.npy", never)
    np.savez(tmp_path / "t.npz", lp=np.r_[mine, never], mine=np.arange(5) < 3)
    _, pair = usage_scores.read(tmp_path / "mine.npy", tmp_path / "never.npy")
    name, table = usage_scores.read(tmp_path / "t.npz", score="lp", member="mine")
    assert name == "lp"
    for one in (pair, table):
        assert one.own.tolist() == mine.tolist() and one.others.tolist() == never.tolist()
    _, lost = usage_scores.read(tmp_path / "mine.npy", tmp_path / "never.npy", signal="loss")
    assert lost.own.tolist() == (-mine).tolist()


def test_several_scores_are_refused(tmp_path: Path) -> None:
    Evidence(score={"a": np.arange(4.0), "b": np.arange(4.0)}, member=np.arange(4) < 2).save(tmp_path / "e.npz")
    with pytest.raises(InputError, match="the best of several would need a correction, received 2: a, b"):
        usage_scores.read(tmp_path / "e.npz")

"""experiments/causal_mia/shift_worlds.py: its worlds, and what was interrupted goes on."""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import pytest
from causal_mia import shift_worlds

from miaudit.metrics.roc import Roc


@pytest.mark.parametrize("name", sorted(set(shift_worlds.MADE) - {"hidden leak"}))
def test_a_world_has_a_shift_and_comes_again(name: str) -> None:
    evidence, _, _ = shift_worlds.evidence_of(name, 20_000, 0, Path())
    assert abs(Roc.of(evidence.score, evidence.member).auc - 0.5) > 0.04  # raw, there is a shift
    again, _, _ = shift_worlds.evidence_of(name, 20_000, 0, Path())
    assert np.array_equal(evidence.score, again.score)


@pytest.mark.long
def test_an_interrupted_table_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    options = argparse.Namespace(out=tmp_path, data=Path())
    (first,) = shift_worlds.audits("line", 400, 1, options)
    asked: list[int] = []
    plain = shift_worlds.audit

    def counted(name: str, n: int, seed: int, folder: Path) -> dict[str, object]:
        asked.append(seed)
        return plain(name, n, seed, folder)

    monkeypatch.setattr(shift_worlds, "audit", counted)
    both = list(shift_worlds.audits("line", 400, 2, options))
    assert both[0] == first
    assert asked == [1]
    assert shift_worlds.in_words("line", both).startswith("| line | 2 |")

"""The benchmark of canaries, at a tiny size: it compares what it says it compares."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

HERE = Path(__file__).resolve().parents[1]


@pytest.fixture
def comparison(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The module benchmarks/canaries.py, which is gone afterwards."""
    monkeypatch.syspath_prepend(str(HERE / "benchmarks"))
    try:
        yield importlib.import_module("canaries")
    finally:
        sys.modules.pop("canaries", None)


@pytest.mark.long
def test_noise_on_digits_is_learned_by_heart_and_costs_nothing(
    comparison: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(comparison, "RUNS", 2)
    monkeypatch.setattr(comparison, "SHADOWS", 4)
    (row,) = comparison.compare(tmp_path, 200, "8 x 8 forest noise")  # no data there: digits of scikit-learn
    assert (row["kind"], row["canaries"], row["records"]) == ("noise", 200, 1400)
    assert min(row["mu"]["loss"]) > 0.5
    assert abs(np.mean(row["accuracy_with"]) - np.mean(row["accuracy_without"])) < 0.03
    assert comparison.line(row).count("|") == 7

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


@pytest.mark.long
@pytest.mark.thorough
def test_rare_words_are_learned_by_a_small_language_model(
    comparison: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from miaudit.models.train_config import SmallGPT2

    monkeypatch.setattr(comparison, "RUNS", 2)
    monkeypatch.setattr(comparison, "HELD_OUT", 20)
    made = comparison.passages(tmp_path)[:120]  # no data there: texts that are made
    monkeypatch.setattr(comparison, "passages", lambda _: made)
    config = SmallGPT2(layers=1, width=16, heads=1, context=40, epochs=6, learning_rate=0.01)
    (row,) = comparison.compare_texts(tmp_path, 40, "rare-tokens, 4", config)
    assert (row["kind"], row["canaries"], row["records"]) == ("rare-tokens, 4 times", 40, 100)
    assert set(row["mu"]) == {"loss", "ratio"}
    assert np.mean(row["mu"]["ratio"]) > 0
    assert abs(np.mean(row["nats_with"]) - np.mean(row["nats_without"])) < 2
    assert comparison.text_line(row).count("|") == 5

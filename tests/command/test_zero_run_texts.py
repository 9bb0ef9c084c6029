"""``miaudit audit tokens.jsonl --design zero-run``: from log-probabilities of texts to an answer, or to a refusal."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from worlds.token_files import TextWorld

OPTIONS = ("--signal", "token-logprobs", "--attack", "loss", "--primary-metric", "auc", "--no-bounds")
PLAIN = ("--propensity-model", "line", "--estimator", "hajek", "--seed", "0")
REFERENCE = ("--reference-score", "reference_loss", "--trained-on-neither", "--reference-use")
pytestmark = pytest.mark.long


def audited(run: Callable[..., tuple[int, str, str]], folder: Path, world: TextWorld, *more: str) -> tuple[int, Any]:
    file = world.write(folder / "tokens.jsonl", 800, np.random.default_rng(3))
    design = () if "--design" in more else ("--design", "zero-run", *PLAIN)
    code, _, err = run("audit", file, *OPTIONS, *design, *more, "--out", folder / "out")
    found = folder / "out" / "findings.json"
    assert found.exists(), err
    return code, json.loads(found.read_text())


def auc(findings: Any) -> tuple[float, float]:
    row = next(row for row in findings["metrics"] if row["name"] == "auc" and row["estimator"] != "raw")
    return row["low"], row["high"]


@pytest.mark.thorough
@pytest.mark.long
@pytest.mark.parametrize("use", [(), (*REFERENCE, "covariate")])
def test_coins_disguised_as_zero_run_are_answered(run: Any, tmp_path: Path, use: tuple[str, ...]) -> None:
    world = TextWorld(leak=0.3)
    code, findings = audited(run, tmp_path, world, *use)
    low, high = auc(findings)
    assert low <= world.auc(np.random.default_rng(0), 8_000) <= high
    assert (code, findings["verdict"]["status"]) == (3, "flagged")


@pytest.mark.thorough
@pytest.mark.long
@pytest.mark.parametrize("use", [(), (*REFERENCE, "test"), (*REFERENCE, "covariate")])
def test_a_shift_without_a_leak_is_not_flagged(run: Any, tmp_path: Path, use: tuple[str, ...]) -> None:
    code, findings = audited(run, tmp_path, TextWorld(shift=-0.8), *use)
    assert code in (0, 4)
    answered = [row["low"] for row in findings["metrics"] if row["name"] == "auc" and row["estimator"] != "raw"]
    assert all(low <= 0.5 for low in answered)
    assert answered or findings["verdict"]["status"] == "refused"


@pytest.mark.thorough
@pytest.mark.long
def test_the_same_file_as_if_coins_had_decided_is_refused(run: Any, tmp_path: Path) -> None:
    """The control: the uncorrected attack would flag a shift, and the texts contradict the coins."""
    code, findings = audited(run, tmp_path, TextWorld(shift=-0.8), "--design", "one-run")
    assert (code, findings["verdict"]["status"]) == (4, "refused")
    assert findings["bounds"] == []


@pytest.mark.thorough
@pytest.mark.long
def test_a_shift_that_explains_everything_is_refused(run: Any, tmp_path: Path) -> None:
    code, findings = audited(run, tmp_path, TextWorld(shift=-4.0, leak=0.3))
    assert (code, findings["verdict"]["status"]) == (4, "refused")


@pytest.mark.thorough
@pytest.mark.long
def test_memorisation_behind_a_shift_to_harder_texts_is_found(run: Any, tmp_path: Path) -> None:
    world = TextWorld(shift=0.6, leak=0.3)
    code, findings = audited(run, tmp_path, world, *REFERENCE, "covariate")
    low, high = auc(findings)
    assert low <= world.auc(np.random.default_rng(0), 8_000) <= high
    assert code == 3


@pytest.mark.thorough
@pytest.mark.long
def test_a_reference_model_sees_what_no_word_shows(run: Any, tmp_path: Path) -> None:
    code, findings = audited(run, tmp_path, TextWorld(hidden=-0.8), *REFERENCE, "test")
    assert (code, findings["verdict"]["status"]) == (4, "refused")
    assert "A model that never saw these records" in findings["reference"]["text"]

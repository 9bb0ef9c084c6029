"""Utility of causal against plain generators, in its tiny form: every arm is there, and the controls hold."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.long

SCRIPT = Path(__file__).parents[2] / "experiments" / "causal_synthesis" / "utility_tables.py"


@pytest.mark.slow
@pytest.mark.long
def test_every_arm_is_measured_with_an_interval(tmp_path: Path) -> None:
    pytest.importorskip("torch", reason="the extra `torch`")
    command = [sys.executable, SCRIPT, "--form", "tiny", "--out", tmp_path]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found = json.loads((tmp_path / "found.json").read_text())["synthetic22"]
    assert set(found["rows"]) == {
        *("plain", "plain, DP", "plain, DP, untuned", "causal", "causal, DP", "causal, DP, untuned"),
        *("tables", "tables, DP", "tables, no graph", "tables, no graph, DP"),
        *("another real sample", "columns shuffled"),
    }
    for rows in found["rows"].values():
        for row in rows:
            low, value, high = row["change"]
            assert low <= value <= high
    low, value, high = found["causal_less_plain"]["DP"]["auc"]
    assert low < value < high
    no_generators = {"another real sample", "columns shuffled"}
    assert set(found["interventions"]) == {*found["rows"], "reversed graph"} - no_generators
    assert "the causal graph" in done.stdout
    assert "<svg" in (tmp_path / "pair-plot-synthetic22-causal-DP.svg").read_text()


@pytest.mark.slow
@pytest.mark.long
def test_figure_6_has_a_row_for_each_arm_and_epsilon_and_makes_nothing_twice(tmp_path: Path) -> None:
    pytest.importorskip("torch", reason="the extra `torch`")
    command = [sys.executable, SCRIPT, "--form", "tiny6", "--out", tmp_path]
    first = subprocess.run(command, capture_output=True, text=True, check=False)
    assert first.returncode == 0, first.stderr
    assert first.stdout.count("| synthetic22 |") == 2 * 3
    (tmp_path / "data" / "synthetic22.json").unlink()  # as if it had been stopped before the last step
    parts = {path: path.stat().st_mtime_ns for path in (tmp_path / "synthetic22-parts").iterdir()}
    second = subprocess.run(command, capture_output=True, text=True, check=False)
    assert second.stdout == first.stdout
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "synthetic22-parts").iterdir()} == parts

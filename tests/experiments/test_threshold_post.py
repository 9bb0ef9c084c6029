"""The small form of each experiment reproduces what its expected.json says."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.long

ROOT = Path(__file__).parents[2]


@pytest.mark.long
def test_threshold_post(tmp_path: Path) -> None:
    script = ROOT / "experiments" / "threshold_post" / "run.py"
    done = subprocess.run([sys.executable, script, "--out", tmp_path], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found = json.loads((tmp_path / "found.json").read_text())
    assert [row["verdict"] for row in found["two_curves"]] == ["clear", "flagged"]
    assert found["likelihood_ratio"]["auc_difference_to_loss"]["given"] == 0.0

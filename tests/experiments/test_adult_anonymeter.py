"""The audit of a published CTGAN table, in its tiny form: copies are flagged, the table and the placebo are not."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DATA = ROOT.parent / "shared" / "data"
SCRIPT = ROOT / "experiments" / "causal_synthesis" / "adult_anonymeter.py"
ARCHIVE = DATA / "adult_anonymeter" / "adult_members_control_ctgan.npz"

pytestmark = [pytest.mark.data, pytest.mark.skipif(not ARCHIVE.exists(), reason=f"{ARCHIVE} is not there")]


@pytest.mark.slow
@pytest.mark.long
def test_copies_are_flagged_and_nothing_else_is(tmp_path: Path) -> None:
    command = [sys.executable, SCRIPT, "--data", DATA, "--form", "tiny", "--out", tmp_path]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found = json.loads((tmp_path / "found.json").read_text())
    assert found["one per cent copied"]["attacks"][0]["members"]["right"] == 390
    assert found["ctgan"]["attacks"][0]["members"]["right"] == 0
    assert found["ctgan"]["positive_control"]["copies"] == 390
    page = (tmp_path / "ctgan.html").read_text()
    assert "What the table gives away" in page

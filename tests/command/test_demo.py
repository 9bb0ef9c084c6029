"""``miaudit demo``."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest

from command import test_audit
from miaudit.findings.audit import Findings

place = test_audit.place


@pytest.mark.thorough
@pytest.mark.long
def test_demo_from_nothing(place: Path) -> None:
    started = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-m", "miaudit", "demo"], cwd=place, capture_output=True, text=True, check=False, timeout=300
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""  # no terminal, no progress
    assert time.monotonic() - started < 300
    found = Findings.read(place / "results/demo/findings.json")
    assert found.design == "one-run"
    assert [m.name for m in found.metrics[:2]] == ["tpr_at_fpr_0.01", "tpr_at_fpr_0.1"]
    assert (found.metrics[2].low or 0) > 0.6  # the forest does memorise
    figures = {path.suffix for path in (place / "results/demo/figures").iterdir()}
    assert figures == {".svg", ".png"}

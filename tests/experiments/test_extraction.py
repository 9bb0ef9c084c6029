"""experiments/extraction in its smallest form: what comes out rises with how often it was trained on."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "experiments" / "extraction" / "run.py"


@pytest.mark.slow
@pytest.mark.long
def test_what_comes_out_rises_with_repetition_and_controls_do_not(tmp_path: Path) -> None:
    pytest.importorskip("torch", reason="the extra `torch`")
    pytest.importorskip("transformers", reason="the extra `text`")
    command = [sys.executable, SCRIPT, "--form", "tiny", "--out", tmp_path]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found = json.loads((tmp_path / "found.json").read_text())
    shares = [row["out"][1] for row in found["times"].values()]
    assert list(found["times"]) == ["1", "4", "16", "64"] and shares == sorted(shares)
    assert found["without"]["flagged"] <= 11 and found["verdict"] == "flagged"
    page = (tmp_path / "page" / "report.html").read_text()
    assert "Said once, or many times" in page and "Nearly" in page

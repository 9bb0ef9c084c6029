"""experiments/causal_synthesis/partial_vae.py in its smallest form."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.long

SCRIPT = Path(__file__).parents[2] / "experiments" / "causal_synthesis" / "partial_vae.py"


@pytest.mark.slow
def test_the_tiny_form_runs_and_goes_on(tmp_path: Path) -> None:
    pytest.importorskip("torch", reason="the extra `torch`")
    command = [sys.executable, str(SCRIPT), "--form", "tiny", "--out", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found = json.loads((tmp_path / "partial_vae.json").read_text())
    assert [arm.partition(": ")[2] for arm in found["arms"]] == ["mask", "set"] * 3
    assert set(found["set_less_mask"]) == {"causal", "as printed for EEDI", "causal, DP"}
    assert found["missing"] > 0
    elbos = [row["elbos"] for row in found["arms"].values()]
    assert all(one != other for one, other in zip(elbos[::2], elbos[1::2], strict=True))
    again = subprocess.run(command, capture_output=True, text=True, check=False)
    assert again.stdout == done.stdout

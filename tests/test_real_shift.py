"""experiments/causal_mia/real_shift.py in its smallest form, one split of each world, on the real data."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[1] / "experiments" / "causal_mia" / "real_shift.py"
DATA = Path(__file__).parents[1].parent / "shared" / "data"
NEEDED = (
    "acs_ct_income/acs_ct_income.npz",
    "mnist/mnist.npz",
    "office_caltech10/office_caltech10_googlenet1024.npz",
    "office_caltech10/office_caltech10_surf.npz",
)
ABSENT = [name for name in NEEDED if not (DATA / name).is_file()]

pytestmark = [pytest.mark.data, pytest.mark.skipif(bool(ABSENT), reason=f"not in {DATA}: {', '.join(ABSENT)}")]


def test_real_shift_is_corrected_or_refused(tmp_path: Path) -> None:
    command = [sys.executable, SCRIPT, "--data", DATA, "--splits", "1", "--out", tmp_path]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found = {name: rows[0] for name, rows in json.loads((tmp_path / "real_shift.json").read_text()).items()}
    refused = {name for name, row in found.items() if row["status"] == "refused"}
    assert refused == {"SURF amazon / webcam", "GoogLeNet amazon / webcam"}
    for name in ("SURF amazon / caltech10", "MNIST clean / noisy"):
        row = found[name]
        assert abs(row["corrected"] - row["truth"]) < abs(row["raw"] - row["truth"]) - 0.02, name

"""The example of random strings: its commands run as they are written, and only what was trained on is noticed."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("peft")
pytest.importorskip("accelerate")

EXAMPLE = Path(__file__).parent.parent / "examples" / "random_strings"
CODES = {"trained": (3,), "unseen": (0, 4), "usual": (4,)}  # exit codes of the audits, by their folder


def commands() -> list[str]:
    blocks = re.findall(r"```sh\n(.*?)```", (EXAMPLE / "README.md").read_text(encoding="utf-8"), re.DOTALL)
    return [line for line in "".join(blocks).splitlines() if not line.startswith("pip")]


def auc(folder: Path, group: str = "") -> dict[str, float]:
    findings = json.loads((folder / "findings.json").read_text(encoding="utf-8"))
    metrics = findings["metrics"]
    if group:
        metrics = next(one["metrics"] for one in findings["groups"] if one["group"] == group)
    return next(one for one in metrics if one["name"] == "auc")


@pytest.mark.thorough
def test_the_commands_run_as_written(tmp_path: Path) -> None:
    for file in EXAMPLE.iterdir():
        shutil.copy(file, tmp_path)
    here = str(Path(sys.executable).parent)
    env = {**os.environ, "PATH": f"{here}{os.pathsep}{os.environ['PATH']}", "OMP_NUM_THREADS": "1"}
    before = sum(os.times()[2:4])
    for line in commands():
        done = subprocess.run(["bash", "-c", line], cwd=tmp_path, env=env, capture_output=True, text=True, check=False)
        expected = CODES[line.split()[-1]] if line.startswith("miaudit audit") else (0,)
        assert done.returncode in expected, f"{line}: {done.stdout}{done.stderr}"
    assert sum(os.times()[2:4]) - before < 240  # CPU seconds
    trained, unseen = auc(tmp_path / "trained"), auc(tmp_path / "unseen")
    assert trained["low"] > 0.85
    assert unseen["low"] < 0.5 < unseen["high"]
    for group in ("trained", "unseen"):
        assert auc(tmp_path / "usual", group)["value"] > 0.99
    for folder in ("trained", "unseen", "usual"):
        assert (tmp_path / folder / "report.html").is_file()

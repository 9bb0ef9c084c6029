"""The tutorial on a fine-tuned language model: its commands run as they are written, from an empty folder to a page."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("peft")
pytest.importorskip("accelerate")

from miaudit.io.sealed_coins import Coins

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "auditing_a_language_model.md"
EXAMPLE = ROOT / "examples" / "finetune"
ANSWERS = dict.fromkeys(("run", "audit", "extraction"), (0, 3, 4))  # exit codes of commands that give an answer


def blocks(kind: str) -> list[str]:
    return re.findall(rf"```{kind}\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)


def test_the_files_of_the_page_are_those_of_the_example() -> None:
    (shown,) = blocks("yaml")
    held = (EXAMPLE / "audit.yaml").read_text(encoding="utf-8")
    assert held.split("\n", 1)[1] == shown
    (lines,) = blocks("text")
    script = (EXAMPLE / "train.py").read_text(encoding="utf-8")
    assert all(line in script for line in lines.splitlines() if line != "...")


@pytest.mark.thorough
def test_the_commands_run_as_written(tmp_path: Path) -> None:
    for file in EXAMPLE.iterdir():
        if file.is_file():
            shutil.copy(file, tmp_path)
    here = str(Path(sys.executable).parent)
    env = {**os.environ, "PATH": f"{here}{os.pathsep}{os.environ['PATH']}", "OMP_NUM_THREADS": "1"}
    said, begun = {}, time.process_time() + sum(os.times()[2:4])
    for line in "".join(blocks("sh")).splitlines():
        done = subprocess.run(["bash", "-c", line], cwd=tmp_path, env=env, capture_output=True, text=True, check=False)
        code = done.returncode
        assert code in ANSWERS.get(line.split()[1], (0,)), f"{line}: {done.stdout}{done.stderr}"
        said[line] = done.stdout
    used = time.process_time() + sum(os.times()[2:4]) - begun
    assert used < 300, used  # CPU seconds
    page = (tmp_path / "results" / "report.html").read_text(encoding="utf-8")
    assert "Audited were 100 canaries" in page
    assert "reference_ratio" in page
    assert "neither of the two could choose them alone" in page
    assert (tmp_path / "first" / "report.html").is_file()
    assert (tmp_path / "extraction" / "report.html").is_file()
    coins, held = Coins.read(tmp_path / "coins.reveal.json"), np.load(tmp_path / "evidence.npz")
    both = np.concatenate([coins.members(run, records=100) for run in (1, 2)])
    np.testing.assert_array_equal(held["member"].astype(bool), both)
    lines = (tmp_path / "tokens.jsonl").read_text(encoding="utf-8").splitlines()
    assert [json.loads(line)["member"] for line in lines] == both[:100].tolist()
    score = held["score.reference_ratio"]
    assert (score[both][:, None] > score[~both][None]).mean() > 0.7  # the adapters learned the canaries

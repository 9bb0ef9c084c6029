"""experiments/wikimia in its smallest form, on the real data."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "experiments" / "wikimia" / "run.py"
DATA = Path(__file__).parents[2].parent / "shared" / "data"
TEXTS = DATA / "wikimia" / "wikimia_32.jsonl"

pytestmark = [pytest.mark.data, pytest.mark.skipif(not TEXTS.is_file(), reason=f"{TEXTS} is not there")]


@pytest.mark.slow
@pytest.mark.long
def test_a_trained_model_is_caught_and_its_labels_are_refused(tmp_path: Path) -> None:
    pytest.importorskip("torch", reason="the extra `torch`")
    pytest.importorskip("transformers", reason="the extra `text`")
    command = [sys.executable, SCRIPT, "--data", DATA, "--form", "tiny", "--out", tmp_path]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found = json.loads((tmp_path / "found.json").read_text())["32"]
    for name, (low, _, _) in found["one_run"].items():
        assert low > 0.5, name
    for part in ("zero_run", "zero_run_default"):
        assert found[part]["status"] == "refused"
        assert found[part]["metrics_shown"] == 0
    # Why it is refused: by the labels the same recipe looks far worse than it is.
    assert found["by_label"]["loss"][0] > found["one_run"]["loss"][2] + 0.05
    for name in ("one-run", "zero-run", "zero-run-default"):
        assert (tmp_path / f"length-32-{name}" / "report.html").stat().st_size > 10_000
        findings = json.loads((tmp_path / f"length-32-{name}" / "findings.json").read_text())
        assert findings["design"] == name.removesuffix("-default")


@pytest.mark.slow
@pytest.mark.long
def test_the_longest_texts_are_few_and_refused(tmp_path: Path) -> None:
    pytest.importorskip("torch", reason="the extra `torch`")
    pytest.importorskip("transformers", reason="the extra `text`")
    command = [sys.executable, SCRIPT, "--data", DATA, "--form", "tiny-long", "--out", tmp_path]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found = json.loads((tmp_path / "found.json").read_text())["256"]
    assert found["records"] == 82
    assert found["one_run"]["loss"][0] > 0.5
    assert {found["zero_run"]["status"], found["zero_run_default"]["status"]} == {"refused"}
    kept = (tmp_path / "parts" / "length-256.json").stat().st_mtime_ns
    again = subprocess.run([*command, "--only", "256"], capture_output=True, text=True, check=False)
    assert again.returncode == 0, again.stderr
    assert (tmp_path / "parts" / "length-256.json").stat().st_mtime_ns == kept  # nothing is trained twice

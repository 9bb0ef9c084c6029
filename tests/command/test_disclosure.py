"""``miaudit disclosure`` from the command line: files, streams, exit codes."""

from __future__ import annotations

import contextlib
import json
import os
import pty
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from miaudit.findings.disclosure import DisclosureFindings
from miaudit.report import disclosure_page

Run = Callable[..., tuple[int, str, str]]
DATA = Path(__file__).parents[3] / "shared" / "data"
LOCATION30 = DATA / "mia_scores_location30" / "location30_mia_scores.npz"
CONFIG = """
target: {kind: sklearn, estimator: "sklearn.tree:DecisionTreeClassifier"}
data: {path: d.npz, x: x, y: y}
shadow: {models: 8, seconds_per_fit: 0.1, store: store}
disclosure:
  release: RELEASE
  defences: [temperature, {conformal: {coverage: 0.9}}, label]
  trainings: {stump: {options: {max_depth: 1}}}
reporting: {limits: {auc: 0.6}}
evaluation: {output_dir: out, seed: 1}
"""


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    y = np.arange(500) % 2
    np.savez("d.npz", x=rng.normal(size=(500, 4)) + y[:, None], y=y)
    return tmp_path


def write(release: str = "as-it-is", text: str = CONFIG) -> None:
    Path("c.yaml").write_text(text.replace("RELEASE", release))


@pytest.mark.thorough
@pytest.mark.long
def test_a_folder_and_an_exit_code(place: Path, run: Run) -> None:
    write()
    code, out, err = run("disclosure", "c.yaml")
    assert (code, err) == (3, "")
    assert out.splitlines()[0].startswith("Concern: ")
    assert "label only" in out
    text = (place / "out" / "findings.json").read_text()
    found = DisclosureFindings.from_dict(json.loads(text)).to_dict()
    assert found["exit_code"] == 3
    for one in found["options"]:  # each against the limits
        assert any(one["words"][:44] in line and f"  {one['within']}" in line for line in out.splitlines())
    names = ["as-it-is", "temperature", "conformal(coverage=0.9)", "label", "stump"]
    assert [one["name"] for one in found["options"]] == names
    assert found["repeat"]["command"] == "miaudit disclosure c.yaml"
    page = (place / "out" / "report.html").read_text()
    assert found["recommendation"] in page
    figures = {path.name for path in (place / "out" / "figures").iterdir()}
    assert figures == {f"{name}.{kind}" for name in ("tradeoff", "reductions") for kind in ("svg", "png")}
    assert run("disclosure", "c.yaml")[0] == 3  # an earlier comparison is not replaced unasked
    assert (place / "out-2" / "report.html").is_file()
    assert (place / "out" / "findings.json").read_text() == text
    code, again, _ = run("disclosure", "c.yaml", "--json", "--overwrite")
    assert code == 3
    assert json.loads(again)["options"] == found["options"]
    code, _, _ = run("report", "out/findings.json", "--out", "again")
    assert code == 0
    assert (place / "again" / "report.html").is_file()


@pytest.mark.long
def test_the_verdict_is_about_what_is_released(place: Path, run: Run) -> None:
    write("stump")
    code, out, _ = run("disclosure", "c.yaml", "--json")
    found = json.loads(out)
    assert found["release"] == "stump"
    assert code == found["exit_code"] == {"clear": 0, "inconclusive": 4, "flagged": 3}[found["verdict"]["status"]]
    assert code in (0, 4)


@pytest.mark.thorough
@pytest.mark.long
def test_a_network_gives_its_page(place: Path, run: Run) -> None:
    pytest.importorskip("torch")
    write(
        text="""
target:
  kind: torch
  factory: miaudit.models.nets:mlp
  options: {inputs: 4, classes: 2, hidden: [16]}
  training: {optimiser: adam, learning_rate: 0.02, epochs: 10, device: cpu}
data: {path: d.npz, x: x, y: y}
shadow: {models: 8, at_once: 4}
disclosure:
  defences: [temperature, label]
  trainings:
    label smoothing: {training: {label_smoothing: 0.2}}
    dropout: {options: {dropout: 0.5}}
    parts: {ensemble: {models: 2, parts: disjoint}}
evaluation: {output_dir: out}
"""
    )
    x = np.load("d.npz")
    np.savez("d.npz", x=x["x"].astype(np.float32), y=x["y"])
    code, out, _ = run("disclosure", "c.yaml")
    assert code in (0, 3, 4)
    assert "2 x miaudit.models.nets:mlp" not in out  # a training is called what the file calls it
    found = json.loads((place / "out" / "findings.json").read_text())
    assert [one["words"] for one in found["options"]][3:] == ["label smoothing", "dropout", "parts"]
    assert (place / "out" / "report.html").stat().st_size > 100_000


def test_a_dry_run_writes_nothing(place: Path, run: Run) -> None:
    write()
    code, out, _ = run("disclosure", "c.yaml", "--dry-run")
    assert code == 0
    assert "as-it-is: 9 fits" in out
    assert "18 fits" in out
    assert out.rstrip().endswith("Nothing was written.")
    assert sorted(path.name for path in place.iterdir()) == ["c.yaml", "d.npz"]


@pytest.mark.thorough
@pytest.mark.long
def test_progress_shows_on_a_terminal_and_leaves_nothing_on_standard_output(place: Path) -> None:
    write()
    leader, follower = pty.openpty()
    command = [sys.executable, "-m", "miaudit", "disclosure", "c.yaml", "--json"]
    process = subprocess.Popen(command, cwd=place, stdout=subprocess.PIPE, stderr=follower)
    os.close(follower)
    shown = bytearray()

    def read() -> None:  # all the while: a terminal that nobody reads fills up, and the command would wait for it
        with contextlib.suppress(OSError):  # it closed with the process
            while chunk := os.read(leader, 65536):
                shown.extend(chunk)

    reader = threading.Thread(target=read)
    reader.start()
    out, _ = process.communicate(timeout=600)
    reader.join()
    os.close(leader)
    assert process.returncode == 3
    assert b"models and defences" in shown
    json.loads(out)


def test_problems_are_one_line_each(place: Path, run: Run) -> None:
    write("nothing")
    code, out, err = run("disclosure", "c.yaml")
    assert (code, out) == (1, "")
    assert "expected what is compared in release, received 'nothing'" in err
    assert run("disclosure", "none.yaml")[0] == 1
    write(text=CONFIG.replace("models: 8", "models: 2"))
    assert "4 or more, received 2" in run("disclosure", "c.yaml")[2]


def test_one_class_discloses_nothing(place: Path, run: Run) -> None:
    np.savez("d.npz", x=np.zeros((100, 2)), y=np.zeros(100, dtype=int))
    write()
    code, _, err = run("disclosure", "c.yaml")
    assert code == 1
    assert "two classes or more, received K = 1" in err


@pytest.mark.long
@pytest.mark.data
@pytest.mark.skipif(not LOCATION30.is_file(), reason=f"needs {LOCATION30}")
def test_the_published_outputs_of_memguard(place: Path, run: Run) -> None:
    with np.load(LOCATION30, allow_pickle=False) as z:
        columns = {name: z[f"target_{name}"] for name in ("logits", "prob_memguard", "label", "member")}
    np.savez("l.npz", **columns)
    write(
        text="""
target: {kind: outputs, outputs_path: l.npz, columns: [logits]}
data: {path: l.npz, y: label, member: member}
shadow: {models: 0}
disclosure:
  defences: [label]
  given: {memguard: {outputs_path: l.npz, columns: [prob_memguard]}}
  calibration: {records: 100}
evaluation: {output_dir: out, design: one-run}
"""
    )
    code, out, _ = run("disclosure", "c.yaml", "--json")
    assert code == 3
    base, label, memguard = json.loads(out)["options"]
    aucs = [one["leakage"]["auc"]["value"] for one in (base, label, memguard)]
    assert aucs == pytest.approx([0.8698, 0.687, 0.6900], abs=0.012)  # 100 non-members were set aside
    assert memguard["reduction"]["low"] > 0.1
    assert memguard["accuracy"]["value"] == pytest.approx(base["accuracy"]["value"])  # it keeps the label
    assert memguard["cost"] is not None  # which is measured here, and not known by construction
    assert abs(memguard["leakage"]["auc"]["value"] - label["leakage"]["auc"]["value"]) < 0.02
    assert any("not adaptive" in note for note in memguard["notes"])
    assert disclosure_page.NAMES[0] == "tradeoff"

"""``stability:`` of a configuration file: from training again to the page, killed half-way, and refused in a line."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

import miaudit
from miaudit.bundle import reading

Run = Callable[..., tuple[int, str, str]]
ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
ENVIRONMENT["PYTHONPATH"] = str(Path(miaudit.__file__).parents[1])  # of this checkout, whatever is installed
MEASURED = "Stability of training was measured"
UNMEASURED = "Variation between trainings was not measured"


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(200, 4)), rng.integers(0, 2, 200)
    np.savez("d.npz", x=x, y=y, member=np.arange(200) % 2 == 0, age=rng.normal(size=200), who=np.arange(200))
    np.save("logits.npy", rng.normal(size=(200, 2)))
    np.savez("scores.npz", score=rng.normal(size=200), member=np.arange(200) % 2 == 0)
    return tmp_path


def write(**sections: Any) -> Path:
    content = {
        "target": {"kind": "sklearn", "estimator": "sklearn.linear_model:LogisticRegression"},
        "data": {"path": "d.npz", "x": "x", "y": "y"},
        "stability": {"pairs": 5},
        "attack": {"fpr_targets": [0.1]},
        "reporting": {"primary_metric": "auc"},
        "privacy": {"bounds": False},
        **sections,
    }
    file = Path("c.yaml")
    file.write_text(yaml.safe_dump({name: value for name, value in content.items() if value is not None}))
    return file


KNOWN = {"path": "d.npz", "x": "x", "y": "y", "member": "member", "covariates": ["age"]}
ZERO_RUN = {"data": KNOWN, "evaluation": {"design": "zero-run"}}


@pytest.mark.thorough
@pytest.mark.long
@pytest.mark.parametrize(("sections", "theorem"), [({}, "Theorem 5.4"), (ZERO_RUN, "Theorem 6.4")])
def test_it_stands_on_the_page_and_in_the_bundle(sections: Any, theorem: str, place: Path, run: Run) -> None:
    code, out, err = run("run", write(**sections), "--out", "r", "--bundle", "b.zip")
    assert code in (0, 3, 4), err
    page = (place / "r" / "report.html").read_text(encoding="utf-8")
    (note,) = (line for line in json.loads((place / "r" / "findings.json").read_text())["notes"] if MEASURED in line)
    assert theorem in note
    assert f"Note: {note}" in out
    assert note in page
    assert UNMEASURED not in out + page
    assert note in reading.read(place / "b.zip").notes
    assert run("verify", "b.zip")[0] == 0
    code, out, err = run("run", write(**sections, stability=None), "--out", "without")
    assert code in (0, 3, 4), err
    page = (place / "without" / "report.html").read_text(encoding="utf-8")
    findings = json.loads((place / "without" / "findings.json").read_text())
    assert MEASURED not in out + page
    assert UNMEASURED in out
    assert UNMEASURED in page
    assert not any(UNMEASURED in one for one in findings["notes"])  # it follows from them, and is not stored


@pytest.mark.thorough
@pytest.mark.long
def test_collect_says_it_and_a_sealed_audit_keeps_it_to_its_owner(place: Path, run: Run) -> None:
    config = write(attack={"type": ["margin", "loss"], "fpr_targets": [0.1]})
    code, out, err = run("collect", config)
    assert code == 0, err
    assert "Note: Over 5 replacements of one training record by a fresh one, the average test margin changed" in out
    code, out, err = run("run", config, "--out", "r", "--bundle", "b.zip", "--seal")
    assert code in (0, 3, 4), err
    assert f"{MEASURED} (of margin)" in out
    assert not any(MEASURED in note for note in reading.read(place / "b.zip").notes)
    assert run("verify", "b.zip", "--key", "b.key.json")[0] == 0


def test_a_dry_run_counts_its_models(place: Path, run: Run) -> None:
    code, out, err = run("run", write(shadow={"store": "store", "seconds_per_fit": 3600}), "--dry-run")
    assert code == 0, err
    assert "6 fits, 6 hours" in out
    assert "5 models are for the stability of training" in out
    assert not (place / "store").exists()


SLOW = """
import time
from pathlib import Path
from sklearn.naive_bayes import GaussianNB

class SlowBayes(GaussianNB):
    def fit(self, x, y):
        with Path(__file__).with_name("fits.log").open("a") as log:
            log.write("fit\\n")
        time.sleep(0.25)
        return super().fit(x, y)
"""


@pytest.mark.thorough
@pytest.mark.long
def test_killed_half_way_the_same_command_resumes(place: Path, run: Run) -> None:
    (place / "slow_bayes.py").write_text(SLOW)
    target = {"kind": "sklearn", "estimator": "slow_bayes:SlowBayes"}
    config = write(target=target, stability={"pairs": 8}, shadow={"store": "store"})
    command = [sys.executable, "-m", "miaudit", "run", str(config), "--json", "--out", "r"]
    process = subprocess.Popen(command, env=ENVIRONMENT, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    deadline = time.monotonic() + 60
    while len(list((place / "store" / "stability").glob("model-*.npy"))) < 3 and time.monotonic() < deadline:
        time.sleep(0.02)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    finished = len(list((place / "store" / "stability").glob("model-*.npy")))
    assert 3 <= finished < 8
    assert not (place / "r").exists()
    (place / "fits.log").unlink()
    again = subprocess.run(command, env=ENVIRONMENT, capture_output=True, text=True, check=False)
    assert again.returncode in (0, 3, 4), again.stderr
    assert len((place / "fits.log").read_text().splitlines()) == 8 - finished  # the audited model is not among them
    _, afresh, _ = run("run", write(target=target, stability={"pairs": 8}), "--json", "--out", "f")
    assert json.loads(afresh)["notes"][-1] == json.loads(again.stdout)["notes"][-1]
    assert MEASURED in json.loads(afresh)["notes"][-1]


WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "no pairs": (
        {"stability": {"pairs": 0}},
        "stability.pairs: expected 1 or more, received 0; 20 is a start",
    ),
    "words": ({"stability": {"pairs": "some"}}, "stability.pairs: expected 1 or more, received 'some'"),
    "nothing": ({"stability": {}}, "stability.pairs: expected a value"),
    "unknown": ({"stability": {"pairs": 3, "pair": 3}}, "did you mean pairs?"),
    "multi-run": ({"evaluation": {"design": "multi-run"}}, "expected design one-run or zero-run, received multi-run"),
    "few": ({"stability": {"pairs": 60}}, "stability.pairs: expected at most 2"),
    "units": ({"data": {"path": "d.npz", "x": "x", "y": "y", "unit": "who"}}, "received units"),
    "given outputs": (
        {**ZERO_RUN, "target": {"kind": "outputs", "outputs_path": "logits.npy"}, "data": {**KNOWN, "x": None}},
        "stability: expected a target that is trained here, received",
    ),
    "given logprobs": ({"target": {"kind": "token-logprobs"}}, "received token-logprobs; leave it out"),
    "given scores": (
        {"target": None, "data": None, "evaluation": {"table_path": "scores.npz", "design": "one-run"}},
        "stability: expected sections target and data beside it, received outputs that are there; leave it out",
    ),
    "a synthetic table": (
        {"target": None, "data": None, "synthetic": {"table_path": "s.csv"}},
        "stability: expected sections target and data beside it",
    ),
}


@pytest.mark.usefixtures("place")
@pytest.mark.parametrize("case", WRONG)
def test_what_cannot_be_measured_is_refused_in_a_line(case: str, run: Run) -> None:
    sections, said = WRONG[case]
    code, out, err = run("run", write(**sections), "--out", "r")
    assert (code, out) == (1, "")
    assert said in err
    assert len(err.splitlines()) == 1
    assert not Path("r").exists()

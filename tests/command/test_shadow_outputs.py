"""From a configuration file: shadow outputs from elsewhere, copies of records, and which records leak."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from sklearn.tree import DecisionTreeClassifier

from miaudit.models import shadow
from miaudit.models.targets import SklearnTarget

Run = Callable[..., tuple[int, str, str]]
N = 120


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(N, 6)), rng.integers(0, 2, N)
    tree, included = SklearnTarget(DecisionTreeClassifier(max_depth=5)), shadow.inclusion(N, 6, rng=rng)
    member = rng.random(N) < 0.5
    outputs = [tree.outputs(tree.fit(x, y, np.flatnonzero(row), seed=0), x) for row in (member, *included)]
    np.savez("d.npz", x=x, y=y, member=member, who=[f"<b>{i // 2}</b>" for i in range(N)])
    np.save("target.npy", outputs[0])
    np.savez("shadows.npz", outputs=np.stack(outputs[1:]), included=included, labels=y)
    np.savez("others.npz", outputs=outputs[1][None, :80], included=included[:1, :80], labels=y[:80])
    np.save("copies.npy", x[:, None] + 0.2 * rng.normal(size=(N, 3, 6)))
    return tmp_path


def write(path: Path, **sections: Any) -> Path:
    file = path / "c.yaml"
    file.write_text(yaml.safe_dump({"attack": {"fpr_targets": [0.1]}, **sections}))
    return file


GIVEN = {
    "target": {"kind": "outputs", "outputs_path": "target.npy"},
    "data": {"path": "d.npz", "y": "y", "member": "member"},
}
TREE = {
    "target": {"kind": "sklearn", "estimator": "sklearn.tree:DecisionTreeClassifier"},
    "data": {"path": "d.npz", "x": "x", "y": "y"},
}


@pytest.mark.long
def test_given_outputs_go_to_a_report_without_any_training(run: Run, place: Path) -> None:
    config = write(place, **GIVEN, shadow={"outputs_path": "shadows.npz"}, evaluation={"output_dir": "out"})
    code, out, _ = run("run", config, "--dry-run")
    assert code == 0
    assert "0 fits" in out
    code, out, _ = run("run", config)
    assert code in (0, 3, 4)
    assert "score: " in out
    assert "6 shadow models trained elsewhere, with outputs on the audited records, from shadows.npz." in out


@pytest.mark.thorough
@pytest.mark.long
def test_other_records_are_refused_in_one_line_with_the_way_out(run: Run, place: Path) -> None:
    shadows = {"outputs_path": "others.npz"}
    config = write(place, **GIVEN, shadow=shadows, attack={"type": "lira_online", "fpr_targets": [0.1]})
    code, out, err = run("run", config, "--out", "never")
    assert code == 1
    assert out == ""
    assert err.count("\n") == 1
    assert "1 shadow model on 80 other records in others.npz" in err
    assert "use shadow_classifier" in err
    config = write(place, **GIVEN, shadow=shadows)
    code, out, _ = run("run", config, "--out", "out")
    assert code in (0, 3, 4)
    assert "score: shadow_classifier" in out


def test_a_missing_file_is_a_problem_of_the_configuration(run: Run, place: Path) -> None:
    config = write(place, **GIVEN, shadow={"outputs_path": "nowhere.npz"})
    code, _, err = run("run", config)
    assert code == 1
    assert "shadow.outputs_path: expected an existing file, received nowhere.npz" in err


def test_copies_are_asked(run: Run, place: Path) -> None:
    attack = {"type": ["label_only_calibrated"], "fpr_targets": [0.1]}
    data = {**TREE["data"], "copies": "copies.npy"}
    config = write(place, target=TREE["target"], data=data, shadow={"models": 4}, attack=attack)
    code, out, _ = run("collect", config)
    assert code == 0
    assert "label_only_calibrated" in out


@pytest.mark.thorough
@pytest.mark.long
def test_which_records_leak_is_told_drawn_and_drawn_again(run: Run, place: Path) -> None:
    shadows = {"models": 14, "vulnerability": True}
    data = {**TREE["data"], "unit": "who"}
    config = write(place, target=TREE["target"], data=data, shadow=shadows)
    code, out, _ = run("run", config, "--out", "out")
    assert code in (0, 3, 4)
    assert "of 60 units" in out
    assert "detectably vulnerable over 14 shadow models" in out
    page = (place / "out" / "report.html").read_text()
    assert "Which units leak" in page
    assert "&lt;b&gt;" in page
    assert "<b>0</b>" not in page
    named = json.loads((place / "out" / "findings.json").read_text())["vulnerability"]["named"]
    assert len(named) == 20
    assert {one["record"] for one in named} <= {f"<b>{i}</b>" for i in range(60)}
    code, _, _ = run("report", Path("out") / "findings.json", "--out", "again")
    assert code == 0
    assert (place / "again" / "report.html").read_bytes() == (place / "out" / "report.html").read_bytes()
    config = write(place, target=TREE["target"], data=data, shadow={"models": 12, "vulnerability": True})
    code, _, err = run("collect", config)
    assert code == 1
    assert "shadow.models: expected 14 or more, to see which of 60 units leak, received 12" in err
    config = write(place, target=TREE["target"], data=data, shadow={"models": 12})
    code, out, _ = run("collect", config)
    assert code == 0
    assert "14 models or more can tell" in out

"""experiments/uncertainty_mia/trainings.py in its smallest form on the real data, and what it calls a difference."""

from __future__ import annotations

import json
from pathlib import Path
from types import ModuleType

import pytest

FOLDER = Path(__file__).parents[2] / "experiments" / "uncertainty_mia"
DATA = Path(__file__).parents[2].parent / "shared" / "data"
MODULES = ("trainings", "trained", "trained_subgroups", "trained_networks")
EXTRA = "torch"


@pytest.fixture
def experiment(parts: dict[str, ModuleType]) -> ModuleType:
    """The module of the experiment."""
    return parts["trainings"]


@pytest.mark.long
def test_a_defence_that_gives_away_more_is_named(experiment: ModuleType) -> None:
    plain = {"auc": [0.6, 0.7, 0.8], "group": "output"}
    row = {"options": {"as-it-is": plain, "label": {"auc": [0.75, 0.85, 0.9], "group": "output"}}}
    assert experiment.differences({"here": row}) == []
    row["options"]["label"] = {"auc": [0.81, 0.85, 0.9], "group": "output"}
    assert experiment.differences({"here": row}) == ["here: label gives away more than the outputs as they are"]
    row["options"]["label"]["group"] = "training"  # another training may leak more
    assert experiment.differences({"here": row}) == []
    assert experiment.cell([0.1, None, 0.2]) == ""
    assert experiment.cell([-0.1, 0.02, 0.2], "+") == "+0.020 (-0.100 to +0.200)"


@pytest.mark.long
@pytest.mark.skipif(not (DATA / "mnist" / "mnist.npz").is_file(), reason="needs mnist under shared/data")
def test_the_smallest_form_compares_all_of_them_and_resumes(
    experiment: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["--data", str(DATA), "--form", "tiny", "--out", str(tmp_path)]
    assert experiment.main(arguments) == 0
    first = json.loads((tmp_path / "tiny.json").read_text())
    names = ["as-it-is", "label", "Bayesian last layer, 5 draws", "adversarial samples, radius 0.2"]
    assert list(first["mnist"]["options"]) == names
    for name in names[1:]:
        low, value, high = first["mnist"]["options"][name]["reduction"]
        assert low <= value <= high
    assert experiment.main(arguments) == 0
    assert json.loads((tmp_path / "tiny.json").read_text()) == first
    assert "| Bayesian last layer, 5 draws |" in capsys.readouterr().out

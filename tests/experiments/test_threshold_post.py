"""The small form of threshold-post reproduces what is expected; and its parts on cases with a known answer."""

from __future__ import annotations

import copy
import json
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import yaml

pytestmark = pytest.mark.long

FOLDER = Path(__file__).parents[2] / "experiments" / "threshold_post"
DATA = Path(__file__).parents[2].parent / "shared" / "data"
MODULES = ("early_stopping", "networks", "pair", "run")
FORMS = ("small", "full")


@pytest.fixture(scope="module")
def kept() -> dict[str, Any]:
    return json.loads((FOLDER / "trained_expected.json").read_text())


@pytest.mark.slow
@pytest.mark.long
def test_threshold_post(tmp_path: Path) -> None:
    pytest.importorskip("torch", reason="the extra `torch`")
    script = FOLDER / "run.py"
    command = [sys.executable, script, "--out", tmp_path, "--data", tmp_path]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found = json.loads((tmp_path / "found.json").read_text())
    for worlds in ("two_curves", "curves_of_the_text"):
        assert [row["verdict"] for row in found[worlds]] == ["clear", "flagged"]
    assert found["likelihood_ratio"]["auc_difference_to_loss"]["given"] == 0.0
    loss, lira = (next(row for row in found["pair"] if row["attack"] == name) for name in ("loss", "lira_offline"))
    assert abs(loss["auc"][1] - lira["auc"][1]) < 0.06
    assert lira["tpr"][0] > loss["tpr"][2]
    assert found["early_stopping"]["stopped_less_last"]["lira_auc"][2] < 0
    # The full form without its data says so before it trains anything.
    done = subprocess.run([*command, "--full"], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "mnist/mnist.npz" in done.stderr


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.data
@pytest.mark.skipif(not (DATA / "location30").is_dir(), reason=f"not in {DATA}: location30")
def test_real_records_leak_more_the_longer_they_are_learned(parts: dict[str, ModuleType]) -> None:
    pytest.importorskip("torch", reason="the extra `torch`")
    settings = yaml.safe_load((FOLDER / "trained.yaml").read_text())["early_stopping"]["full"]
    settings |= {"records": 1500, "shadows": 4, "targets": 2, "epochs": [1, 16], "fprs": [0.01]}
    settings["tuning"] = {"rates": [0.2], "targets": 2}
    found = parts["early_stopping"].measured(settings, DATA, 0)
    assert found["records"] == 1500
    points = {row["stop"]: row["lira"]["auc"] for row in found["points"]}
    assert points["16"][0] > points["1"][2]
    assert points["16"][0] > points["early stopping"][2]


@pytest.mark.long
def test_the_worlds_have_the_auc_and_tpr_that_they_are_solved_for(parts: dict[str, ModuleType]) -> None:
    """By simulation of many records; nearly nothing needs non-members who are cleared, 15% members who stand out."""
    rng = np.random.default_rng(0)
    for tpr, cleared in ((0.0015, True), (0.15, False)):
        world = parts["run"].TwoCurves.solve(0.6, tpr, 0.001)
        assert (world.cleared > 0) == cleared
        assert (world.memorised > 0) != cleared
        roc = parts["pair"].Sample.of(world.draw(1_000_000, rng)).roc
        assert roc.auc == pytest.approx(0.6, abs=0.003)
        assert roc.tpr_at(0.001) == pytest.approx(tpr, rel=0.15)


@pytest.mark.long
def test_canaries_are_noise_with_labels_by_chance_and_the_others_stay(parts: dict[str, ModuleType]) -> None:
    rng = np.random.default_rng(0)
    x, y = rng.random((20_000, 5)), np.arange(20_000) % 4
    own, labels, canary = parts["networks"].with_canaries(x, y, share=0.2, scale=3.0, rng=rng)
    assert canary.mean() == pytest.approx(0.2, abs=0.01)
    assert (own[~canary] == x[~canary]).all() and (labels[~canary] == y[~canary]).all()
    assert own[canary].std() == pytest.approx(3.0, rel=0.03)
    assert np.mean(labels[canary] == y[canary]) == pytest.approx(0.25, abs=0.03)


@pytest.mark.long
@pytest.mark.parametrize("form", FORMS)
def test_a_run_whose_conclusions_or_figures_differ_fails(
    parts: dict[str, ModuleType], kept: dict[str, Any], form: str
) -> None:
    settings = yaml.safe_load((FOLDER / "trained.yaml").read_text())["early_stopping"][form]
    rows, claims = kept["pair"][form], kept["pair"]["claims"][form]
    assert parts["pair"].differences(rows, claims) == []
    wrongs = {"auc": [0.7, 0.72, 0.74], "control": 0.8, "tpr": [0.07, 0.08, 0.09]}
    for key, wrong in (wrongs | {"verdict": "inconclusive"}).items():
        many = {"verdict": sum(row["claim"] == "much" for row in rows)}.get(key, len(rows))
        assert len(parts["pair"].differences([{**row, key: wrong} for row in rows], claims)) == many, key
    found, claims = kept["early_stopping"][form], kept["early_stopping"]["claims"][form]
    assert parts["early_stopping"].differences(found, settings, claims) == []
    spoilt = copy.deepcopy(found)
    spoilt["stopped_less_last"]["lira_auc"] = [-0.03, -0.01, 0.01]
    spoilt["points"][len(settings["epochs"]) - 1]["lira"]["auc"] = [0.4, 0.5, 0.6]
    spoilt["tuning"][-1]["end"][1] = 0.999
    said = parts["early_stopping"].differences(spoilt, settings, claims)
    assert [line.split(":")[0] for line in said] == [
        "the AUC of LiRA does not rise along training",
        "stopped_less_last, lira_auc",
        "the learning rate is not tuned",
    ]
    departures, tolerance = parts["networks"].departures, kept["tolerance"]
    assert departures(found, found, tolerance) == []
    assert len(departures(spoilt, found, tolerance)) >= 3


@pytest.mark.long
@pytest.mark.parametrize("form", FORMS)
def test_the_tables_of_the_readme_are_those_of_the_command(
    parts: dict[str, ModuleType], kept: dict[str, Any], form: str
) -> None:
    readme = (FOLDER / "README.md").read_text().splitlines()
    for name in ("pair", "early_stopping"):
        for line in parts[name].table(kept[name][form]):
            assert line in readme, line

"""The tiny form of experiments/uncertainty_mia, and that its judgement can fail."""

from __future__ import annotations

import copy
import json
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import yaml

pytestmark = pytest.mark.long

FOLDER = Path(__file__).parents[2] / "experiments" / "uncertainty_mia"


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, Any], Path]:
    out = tmp_path_factory.mktemp("uncertainty_mia")
    command = [sys.executable, FOLDER / "run.py", "--form", "tiny", "--out", out]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "| decision-set |" in done.stdout
    return json.loads((out / "found.json").read_text()), out


@pytest.fixture(scope="module")
def run() -> Any:
    names = ("figures", "theory")
    before = {name: sys.modules.get(name) for name in names}
    for name in names:  # as when the script runs from its folder
        sys.modules[name] = import_module(f"uncertainty_mia.{name}")
    module = import_module("uncertainty_mia.run")
    for name, was in before.items():
        if was is None:
            del sys.modules[name]
        else:
            sys.modules[name] = was
    return module


@pytest.mark.slow
@pytest.mark.long
def test_the_tiny_form_runs_and_draws_every_figure(tiny: tuple[dict[str, Any], Path]) -> None:
    found, out = tiny
    for figure in ("4", "6", "7", "8", "9", "10", "12-epistemic", "13"):
        assert (out / f"figure-{figure}.svg").read_text().startswith("<svg")
        assert (out / f"figure-{figure}.png").stat().st_size > 5000
    assert {row["classes"] for row in found["factor"]} == {2, 10}
    assert len(found["curves"]) == 303


@pytest.mark.thorough
@pytest.mark.long
def test_check_values_stand_in_the_results(tiny: tuple[dict[str, Any], Path]) -> None:
    checks = tiny[0]["checks"]
    assert checks["confidence-vector"]["symmetrised_divergence"] == pytest.approx(0.56458, abs=1e-5)
    assert checks["true-label"]["symmetrised_divergence"] == pytest.approx(0.21074, abs=1e-5)
    assert [round(checks[kind]["averaged"], 2) for kind in checks] == [0.2, 0.13, 0.08]


@pytest.mark.long
@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda f: f["checks"]["true-label"].update(averaged=0.13), "true-label, averaged"),
        (lambda f: f["sweeps"]["epistemic"][0].update(tight=0.01), "the tight bound is below the truth"),
        (lambda f: f["sweeps"]["aleatoric"][-3].update(averaged=0.3), "expected that the advantage falls"),
        (lambda f: f["sets"][3].update(bound=0.0), "the bound is below the truth"),
        (lambda f: f["sets"][1].update(averaged=0.01), "a low threshold tells more"),
    ],
)
def test_the_judgement_can_fail(tiny: tuple[dict[str, Any], Path], run: Any, spoil: Any, message: str) -> None:
    expected = json.loads((FOLDER / "expected.json").read_text())
    found = copy.deepcopy(tiny[0])
    assert run.differences(found, expected) == []
    spoil(found)
    assert any(message in problem for problem in run.differences(found, expected))


@pytest.mark.long
def test_every_form_names_the_same_figures() -> None:
    forms = yaml.safe_load((FOLDER / "config.yaml").read_text())
    for form in forms.values():
        assert {sweep["figure"] for sweep in form["sweeps"].values()} == {7, 8, 9}
        assert form["sweeps"]["epistemic"]["threshold"] == 0.4

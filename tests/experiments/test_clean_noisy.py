"""experiments/causal_mia/clean_noisy.py in its smallest form, on the real images; its noise estimate on known noise."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

pytestmark = pytest.mark.long

FOLDER = Path(__file__).parents[2] / "experiments" / "causal_mia"
SCRIPT = FOLDER / "clean_noisy.py"
DATA = Path(__file__).parents[2].parent / "shared" / "data"
IMAGES = DATA / "cifar10" / "cifar10_12k.npz"


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    pytest.importorskip("torch", reason="the extra `torch`")
    monkeypatch.syspath_prepend(str(FOLDER))
    monkeypatch.delitem(sys.modules, "figures", raising=False)
    spec = importlib.util.spec_from_file_location("clean_noisy", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "clean_noisy", module)  # dataclasses look their module up
    spec.loader.exec_module(module)
    monkeypatch.delitem(sys.modules, "figures", raising=False)
    return module


@pytest.mark.long
def test_the_grain_is_the_noise_and_not_what_is_on_the_image(script: ModuleType) -> None:
    rng = np.random.default_rng(0)
    down, across = np.mgrid[0:32, 0:32] / 32
    ramps = np.stack([0.2 + 0.5 * down, 0.2 + 0.5 * across, 0.2 + 0.3 * (down + across)])[None]
    assert script.grain(ramps)[0] < 1e-12
    for deviation in (0.02, 0.1, 0.2):
        found = script.grain(ramps + rng.normal(0.0, deviation, (200, 3, 32, 32)))
        assert abs(found.mean() / deviation - 1) < 0.02
    estimate = np.r_[rng.normal(-3.4, 0.35, 700), rng.normal(-1.7, 0.05, 300)]
    assert np.mean(script.two_groups(estimate) == (np.arange(1000) >= 700)) > 0.98


@pytest.mark.long
def test_weights_of_the_world_itself_take_the_shift_away(script: ModuleType) -> None:
    """Scores that depend on noise alone carry no memorisation: drifted AUC far from one half, corrected at it."""
    rng = np.random.default_rng(1)
    member = np.arange(40_000) < 20_000
    noisy = rng.random(40_000) < np.where(member, 0.1, 0.9)
    score = rng.normal(size=40_000) - 2.0 * noisy
    odds = np.where(noisy, 1 / 9, 9.0)
    pi = script.Propensity.given(odds / (1 + odds))
    assert script.Roc.of(score, member).auc > 0.8
    assert abs(script.corrected(score, member, pi).auc - 0.5) < 0.02
    # A control that must fail: the inverse weights make it worse.
    wrong = script.Propensity.given(1 / (1 + odds))
    assert script.corrected(score, member, wrong).auc > 0.85


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.data
@pytest.mark.skipif(not IMAGES.is_file(), reason=f"{IMAGES} is not there")
def test_a_trained_target_raw_and_corrected(tmp_path: Path) -> None:
    pytest.importorskip("torch", reason="the extra `torch`")
    command = [sys.executable, SCRIPT, "--data", DATA, "--form", "tiny", "--device", "cpu", "--out", tmp_path]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found = json.loads((tmp_path / "clean_noisy.json").read_text())
    (row,) = found["seeds"]
    assert row["grain_finds_noise"] > 0.99
    for name in ("network", "grain", "oracle"):
        assert abs(row[name]["auc"] - row["iid"]) < 0.75 * (row["drifted"] - row["iid"]), name
    for name in ("roc-clean-noisy", "figure-4-clean-noisy-loss", "figure-4-clean-noisy-weights-learned"):
        assert (tmp_path / f"{name}.svg").stat().st_size > 1000
    # The second time nothing is trained.
    again = subprocess.run(command, capture_output=True, text=True, check=False)
    assert "trained" in done.stderr
    assert "trained" not in again.stderr
    assert json.loads((tmp_path / "clean_noisy.json").read_text()) == found

"""experiments/uncertainty_mia/trained.py in its smallest form, on the real data; its worlds on known answers."""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

pytestmark = pytest.mark.long

FOLDER = Path(__file__).parents[2] / "experiments" / "uncertainty_mia"
SCRIPT = FOLDER / "trained.py"
DATA = Path(__file__).parents[2].parent / "shared" / "data"
NEEDED = ("location30/location30.npz", "office_caltech10/office_caltech10_googlenet1024.npz")
ABSENT = [name for name in NEEDED if not (DATA / name).is_file()]
MODULES = ("trained", "trained_subgroups", "trained_figures")


@pytest.fixture
def parts(monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, ModuleType]]:
    """The modules of the experiment, by name."""
    pytest.importorskip("torch", reason="the extra `torch`")
    monkeypatch.syspath_prepend(str(FOLDER))
    hidden = {name: sys.modules.pop(name) for name in MODULES if name in sys.modules}
    try:
        yield {name: importlib.import_module(name) for name in MODULES}
    finally:
        for name in MODULES:
            sys.modules.pop(name, None)
        sys.modules.update(hidden)


@pytest.mark.long
def test_labels_of_class_0_flip_at_the_stated_rate_and_no_others(parts: dict[str, ModuleType]) -> None:
    rng = np.random.default_rng(0)
    clean = np.arange(40_000) % 4
    noisy = parts["trained_subgroups"].flipped(clean, 4, 0.8, rng)
    assert (noisy[clean != 0] == clean[clean != 0]).all()
    assert np.mean(noisy[clean == 0] == 0) == pytest.approx(0.8, abs=0.015)
    assert np.bincount(noisy[(clean == 0) & (noisy != 0)])[1:].min() > 500


@pytest.mark.long
def test_images_are_varied_by_as_much_as_asked(parts: dict[str, ModuleType]) -> None:
    down, across = np.mgrid[0:28, 0:28]
    dot = np.exp(-((down - 13.5) ** 2 + (across - 19.5) ** 2) / 8).astype(np.float32)
    pictures = np.tile(dot, (200, 1, 1))
    moved = [
        np.linalg.norm(_centres(parts["trained_subgroups"].varied(pictures, strength, np.random.default_rng(0)))
                       - [13.5, 19.5], axis=1)
        for strength in (1e-6, 0.1, 0.5)
    ]  # fmt: skip
    assert moved[0].max() < 0.01
    assert 0.1 < moved[1].mean() < 0.3 * moved[2].mean()
    # 20% of half of 28 pixels either way, and the turn and scale about the middle: nothing leaves the picture.
    assert 1.0 < moved[2].mean() < moved[2].max() < 9


def _centres(pictures: np.ndarray) -> np.ndarray:
    total = pictures.sum(axis=(1, 2))
    grid = np.arange(28)
    return np.column_stack([(pictures.sum(axis=2) @ grid) / total, (pictures.sum(axis=1) @ grid) / total])


@pytest.mark.long
def test_what_does_not_hold_is_named(parts: dict[str, ModuleType]) -> None:
    one = {"rank_correlation": {"value": 0.2}, "mean_error": {"value": 0.3}}
    row = {form: {"true-label": one} for form in ("fitted", "three-numbers")}
    found = {"records": {"location30": row}, "shift": {"trend": {"value": -0.1}, "advantage_trend": {"value": -0.2}}}
    expected = {
        "records": {"location30": {"fitted": {"true-label": {"rank_correlation": [0.9, 1], "mean_error": [0, 1]}}}},
        "laws": {},
        "trend": {"shift": 1},
        "advantage_trend": {"shift": -1},
    }
    said = parts["trained"].differences(found, expected)
    assert said == [
        "location30, fitted, true-label: rank_correlation is 0.200, not 0.9 to 1",
        "shift: the calibration error changes by -0.100",
    ]


@pytest.mark.thorough
@pytest.mark.long
@pytest.mark.skipif(bool(ABSENT), reason=f"not in {DATA}: {', '.join(ABSENT)}")
def test_the_smallest_form_runs_and_agrees_with_what_is_expected(tmp_path: Path) -> None:
    pytest.importorskip("torch", reason="the extra `torch`")
    command = [sys.executable, "-W", "error", str(SCRIPT), "--form", "tiny", "--data", str(DATA)]
    done = subprocess.run(
        [*command, "--numbers-only", "--out", str(tmp_path)], capture_output=True, text=True, check=False, timeout=600
    )
    assert done.returncode == 0, done.stderr[-2000:]
    found = json.loads((tmp_path / "tiny.json").read_text())
    row = found["records"]["location30"]
    assert row["records"] >= 50
    assert row["accuracy"]["members"] > row["accuracy"]["nonmembers"] + 0.2
    for form in ("fitted", "three-numbers"):
        assert set(row[form]) == {"confidence-vector", "true-label", "decision-set"}
    assert (tmp_path / "tiny-location30.csv").read_text().count("\n") == row["records"] + 1
    assert "| fitted | true-label |" in done.stdout

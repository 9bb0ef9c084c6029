"""experiments/uncertainty_mia/trained.py in its smallest form, on the real data; its worlds on known answers."""

from __future__ import annotations

import json
import subprocess
import sys
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
MODULES = ("trained", "trained_subgroups", "trained_figures", "trained_networks")
EXTRA = "torch"


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


def mixtures(parts: dict[str, ModuleType], **changed: object) -> object:
    recipe = {"optimiser": "adam", "learning_rate": 0.01, "schedule": "constant", "epochs": 2, "batch": 20}
    settings = {"values": [2, 4], "repeats": 2, "records": 60, "recipe": recipe, **changed}
    return parts["trained_subgroups"].Population("classes", settings, 0.8, 0)


def test_networks_trained_as_a_stack_show_what_each_shows_alone(parts: dict[str, ModuleType], tmp_path: Path) -> None:
    measured = parts["trained_subgroups"].measured
    alone = measured(mixtures(parts), tmp_path / "alone", 1)
    stacked = measured(mixtures(parts, together=2), tmp_path / "stacked", 1)
    other = measured(mixtures(parts, records=80), tmp_path / "other", 1)  # the control
    for key in ("calibration_error", "advantage"):
        values = [[one["value"] for one in found[key]] for found in (alone, stacked, other)]
        assert values[0] == pytest.approx(values[1], abs=1e-4)
        assert values[0] != pytest.approx(values[2], abs=1e-4)


def test_what_is_kept_is_not_trained_again_and_what_is_missing_is(
    parts: dict[str, ModuleType], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    subgroups, made = parts["trained_subgroups"], []
    fit = subgroups.train.fit
    monkeypatch.setattr(
        subgroups.train, "fit", lambda *args, **named: made.append(named["seed"]) or fit(*args, **named)
    )
    whole = subgroups.measured(mixtures(parts), tmp_path / "kept", 1)
    assert made == [0, 1, 0, 1]
    lost = sorted((tmp_path / "kept").glob("classes-00001-*.npy"))
    assert len(lost) == 1
    lost[0].write_bytes(lost[0].read_bytes()[:-3])  # as no rename leaves it, but a broken disk may
    assert subgroups.measured(mixtures(parts), tmp_path / "kept", 1) == whole
    assert made == [0, 1, 0, 1, 1]
    with pytest.raises(parts["trained"].MiauditError, match="made with another"):
        subgroups.measured(mixtures(parts, records=80), tmp_path / "kept", 1)
    with pytest.raises(parts["trained"].MiauditError, match="together: expected a divisor of the 2 repeats"):
        subgroups.measured(mixtures(parts, together=3), tmp_path / "none", 1)


def test_figures_of_other_settings_are_not_shown_beside_new_ones(parts: dict[str, ModuleType], tmp_path: Path) -> None:
    settings = {"classes": {"repeats": 3}, "size": {"repeats": 2}, "seed": 0, "truth": 0.8, "threshold": 0.2}
    decided = parts["trained"].decided
    written = {"classes": {"at": 1}, "size": {"at": 2}}
    written["settings"] = {part: decided(part, settings) for part in ("classes", "size")}
    (tmp_path / "full.json").write_text(json.dumps(written))
    changed = {**settings, "size": {"repeats": 9}}
    assert set(parts["trained"].known(tmp_path / "full.json", settings)) == {"classes", "size", "settings"}
    assert set(parts["trained"].known(tmp_path / "full.json", changed)) == {"classes", "settings"}


def test_the_papers_network_has_its_layers(parts: dict[str, ModuleType]) -> None:
    torch = pytest.importorskip("torch", reason="the extra `torch`")
    described = {"network": {"name": "two_convolutions", "channels": 1, "side": 28, "classes": 10}}
    built = parts["trained_networks"].network(described)
    assert built()(torch.zeros(2, 1, 28, 28)).shape == (2, 10)
    # 3 x 3 filters, 32 and 64 of them; 5 x 5 numbers of each are left for the 128 units
    assert sum(p.numel() for p in built().parameters()) == 320 + 18_496 + (64 * 25 + 1) * 128 + 1290


@pytest.mark.slow
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

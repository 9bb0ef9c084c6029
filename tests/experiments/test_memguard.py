"""experiments/uncertainty_mia/memguard.py in its smallest form on the real data, and what it does with budgets."""

from __future__ import annotations

import json
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

FOLDER = Path(__file__).parents[2] / "experiments" / "uncertainty_mia"
DATA = Path(__file__).parents[2].parent / "shared" / "data"
NEEDED = ("location30/location30.npz", "mia_scores_location30/location30_mia_scores.npz")
ABSENT = [name for name in NEEDED if not (DATA / name).is_file()]
MODULES = ("memguard",)
EXTRA = "torch"


@pytest.fixture
def experiment(parts: dict[str, ModuleType]) -> ModuleType:
    """The module of the experiment."""
    return parts["memguard"]


@pytest.mark.long
def test_smaller_budgets_give_the_same_noise_to_fewer(experiment: ModuleType) -> None:
    rng = np.random.default_rng(0)
    members, others = rng.dirichlet([30, 1, 1], 80), rng.dirichlet([5, 1, 1], 80)
    quick = {"epochs": 10, "learning_rate": 0.1, "steps": 40}
    settings = {"options": {"whole": ["memguard", {"budget": 2.0, **quick}]}, "budgets": {"small": 0.05}}
    p, outside = np.concatenate([members, others]), (others, np.zeros(80, dtype=np.intp))
    found = experiment.defended(p, outside, members, settings, rng)
    assert list(found) == ["as it is", "whole", "small"]
    changed = {name: np.abs(values - p).sum(axis=1) for name, values in found.items()}
    few = changed["small"] > 0
    assert 0 < few.sum() < (changed["whole"] > 0).sum()
    assert np.array_equal(found["small"][few], found["whole"][few])
    assert changed["small"].mean() == pytest.approx(np.minimum(changed["whole"], 0.05).mean(), rel=0.5)


@pytest.mark.long
def test_an_attack_that_knows_the_defence_and_finds_less_is_named(experiment: ModuleType) -> None:
    rng, member = np.random.default_rng(0), np.arange(400) < 200
    good, bad = member + 0.3 * rng.normal(size=400), rng.normal(size=400)
    scores = {name: {"a, knows": good, "a, does not know": good} for name in ("as it is", "guarded")}
    row = {"options": {name: {"label kept": True} for name in scores}, "attacks": experiment.judged(scores, member)}
    assert experiment.differences({"here": row}) == []
    taken = row["attacks"]["a, knows"]["guarded"]["taken off"]
    assert taken["low"] <= taken["value"] == 0 <= taken["high"]
    scores["guarded"]["a, knows"] = bad
    row = {
        "options": {**row["options"], "guarded": {"label kept": False}},
        "attacks": experiment.judged(scores, member),
    }
    assert row["attacks"]["a, knows"]["guarded"]["taken off"]["low"] > 0.3
    assert experiment.differences({"here": row}) == [
        "here: guarded changes labels",
        "here, a, does not know, guarded: an attack that knows the defence finds less",
    ]


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.data
@pytest.mark.skipif(bool(ABSENT), reason=f"not in {DATA}: {', '.join(ABSENT)}")
def test_the_smallest_form_runs(experiment: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    experiment.main(["--form", "tiny", "--data", str(DATA), "--out", str(tmp_path)])
    shown = capsys.readouterr()
    found = json.loads((tmp_path / "tiny.json").read_text())
    published = found["published outputs"]["options"]
    assert published["MemGuard, published outputs"]["distortion"] == pytest.approx(0.333, abs=0.002)
    assert all(one["label kept"] for part in found.values() for one in part["options"].values())
    assert (tmp_path / "tiny.md").read_text() == shown.out.removesuffix("\n")
    assert "5 of 5 models" in shown.err

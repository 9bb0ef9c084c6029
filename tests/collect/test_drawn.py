"""What is drawn into files is what local training would fit: the same rows, in the same order, with the same seeds."""

from __future__ import annotations

import json
import os
import sys
import tracemalloc
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from miaudit.collect import drawn
from miaudit.collect.campaign import Campaign, Shadows
from miaudit.collect.records import Records
from miaudit.collect.run_campaign import collect
from miaudit.errors import InputError, MiauditError
from miaudit.models.command import CommandTarget

N = 40
Y = np.arange(N) % 2


class Watched(CommandTarget):
    """A command that is not run: what it would be run on is kept."""

    seen: list[tuple[int, list[int]]]

    def fit(self, x, y, rows, *, seed):
        numbers = self.row_numbers(x, rows)
        Watched.seen.append((seed % 2**31, numbers.tolist()))
        return outputs(numbers, seed % 2**31)


def outputs(rows, seed):
    made = np.zeros((N, 2), dtype=np.float32)
    made[:, 1] = np.isin(np.arange(N), rows) + np.random.default_rng(seed).normal(size=N) + rows[0] / 100
    return made


def campaign(folder: Path, kind=CommandTarget, times=None, **options) -> Campaign:
    (folder / "train.py").write_text("", encoding="utf-8")
    target = kind(f"{sys.executable} train.py {{rows}} {{out}}", "logits", folder)
    records = Records(np.zeros((N, 3)), Y, None, {}, "data", times=times)
    return Campaign(target, records, shadows=Shadows(models=4), **options)


def test_row_numbers_name_a_record_as_often_as_it_stands_in_the_training(tmp_path: Path) -> None:
    Watched.seen, times = [], np.arange(N) % 3 + 1
    collect(campaign(tmp_path, Watched, times), rng=np.random.default_rng(1))
    (tmp_path / "a.yaml").touch()
    drawn.draw(
        campaign(tmp_path, times=times), tmp_path / "d", config=tmp_path / "a.yaml", rng=np.random.default_rng(1)
    )
    once = drawn.Drawn.of(campaign(tmp_path), np.random.default_rng(1)).draws.included
    written = [np.load(path) for path in sorted((tmp_path / "d" / "fits").glob("*/rows.npy"))]
    for rows, (_, seen), included in zip(written, Watched.seen, once, strict=True):
        assert rows.tolist() == seen
        np.testing.assert_array_equal(np.bincount(rows, minlength=N), included * times)


@pytest.mark.long
@pytest.mark.parametrize("stability", [0, 3])
def test_the_files_are_what_local_fits_get(tmp_path: Path, stability: int) -> None:
    Watched.seen = []
    whole = campaign(tmp_path, Watched, stability=stability)
    local = collect(whole, rng=np.random.default_rng(1))
    config = tmp_path / "a.yaml"
    config.touch()
    fits, there = drawn.draw(
        campaign(tmp_path, stability=stability), tmp_path / "d", config=config, rng=np.random.default_rng(1)
    )
    assert (fits, there) == (5 + stability, 0)
    manifest = json.loads((tmp_path / "d" / "manifest.json").read_text(encoding="utf-8"))
    written = []
    for fit in manifest["fits"]:
        folder = tmp_path / "d" / fit["folder"]
        rows = np.load(folder / "rows.npy")
        written.append((fit["seed"], rows.tolist()))
        np.save(folder / "out" / "outputs.npy", outputs(rows, fit["seed"]))
    assert written == Watched.seen
    read = drawn.read(tmp_path / "d")
    gathered = drawn.gather(campaign(tmp_path, stability=stability), read, rng=np.random.default_rng(1))
    for name, score in local.evidence.scores.items():
        assert np.array_equal(gathered.evidence.scores[name], score)
    assert gathered.stability == local.stability
    assert gathered.notes == local.notes
    assert not drawn.config_changed(read, config)
    with pytest.raises(InputError, match="another draw, with another inclusion"):
        drawn.gather(campaign(tmp_path, stability=stability), read, rng=np.random.default_rng(2))


def test_models_for_stability_are_not_left_out(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").touch()
    whole = campaign(tmp_path, stability=2)
    drawn.draw(whole, tmp_path / "d", config=tmp_path / "a.yaml", rng=np.random.default_rng(1))
    for folder in (tmp_path / "d" / "fits").iterdir():
        if not folder.name.startswith("stability-00001"):
            np.save(folder / "out" / "outputs.npy", outputs(np.load(folder / "rows.npy"), 1))
    with pytest.raises(MiauditError, match="not model 1 for the stability of training"):
        drawn.gather(whole, drawn.read(tmp_path / "d"), rng=np.random.default_rng(1), partial=True)


@pytest.mark.thorough
@pytest.mark.long
def test_outputs_are_held_one_fit_at_a_time(tmp_path: Path) -> None:
    n, classes, peaks = 2000, 150, list[int]()
    (tmp_path / "train.py").touch()
    (tmp_path / "a.yaml").touch()
    target = CommandTarget(f"{sys.executable} train.py {{rows}} {{out}}", "logits", tmp_path)
    records = Records(np.zeros((n, 1)), np.arange(n) % classes, None, {}, "data")
    for models in (4, 4, 24):  # the first time modules are loaded
        whole = Campaign(target, records, shadows=Shadows(models=models, vulnerability=False))
        place = tmp_path / str(len(peaks))
        drawn.draw(whole, place, config=tmp_path / "a.yaml", rng=np.random.default_rng(1))
        for i, folder in enumerate(sorted((place / "fits").iterdir())):
            made = np.random.default_rng(i).normal(size=(n, classes)).astype(np.float32)
            np.save(folder / "out" / "outputs.npy", made)
        manifest = drawn.read(place)
        tracemalloc.start()
        try:
            found = drawn.gather(whole, manifest, rng=np.random.default_rng(1))
            peaks.append(tracemalloc.get_traced_memory()[1])
        finally:
            tracemalloc.stop()
        assert not list(place.glob(".gather-*"))
    assert peaks[2] - peaks[1] < 20 * made.nbytes / 4  # twice 20 of them, when all were held
    local = collect(replace(whole, target=Random(**vars_of(target))), rng=np.random.default_rng(1))
    assert np.array_equal(found.evidence.scores["lira_online"], local.evidence.scores["lira_online"])


def vars_of(target: CommandTarget) -> dict:
    return {"command": target.command, "given": target.given, "folder": target.folder}


class Random(CommandTarget):
    """A command that is not run: the outputs of the fit of that number."""

    def fit(self, x, y, rows, *, seed):
        return np.random.default_rng(self.number).normal(size=(len(x), 150)).astype(np.float32)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs pipes")
def test_a_pipe_in_the_place_of_the_manifest_is_no_draw_and_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / drawn.MANIFEST)
    assert drawn._content(tmp_path) is None
    with pytest.raises(InputError, match="a plain file"):
        drawn.read(tmp_path)

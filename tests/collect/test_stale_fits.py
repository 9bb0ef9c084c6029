"""A training that returns what an earlier one returned is refused, however its outputs come to miaudit."""

import shutil
import sys
from pathlib import Path

import numpy as np
import pytest
from sklearn.naive_bayes import GaussianNB

from miaudit.collect import drawn
from miaudit.collect.campaign import Campaign, Shadows
from miaudit.collect.records import Records
from miaudit.collect.run_campaign import collect
from miaudit.errors import InputError
from miaudit.models.command import CommandTarget
from miaudit.models.given import GivenShadows
from miaudit.models.targets import Precomputed, SklearnTarget

N = 80
Y = np.arange(N) % 2
X = np.random.default_rng(0).normal(size=(N, 3))
SCRIPT = """
import pathlib, sys, numpy as np
rows, out, cached = np.load(sys.argv[1]), pathlib.Path(sys.argv[2]), pathlib.Path("cache.npy")
made = np.random.default_rng(rows).normal(size=(80, 2)).astype("float32")
if {stale} and cached.exists():
    made = np.load(cached)
np.save(cached, made)
np.save(out / "outputs.npy", made)
"""


class Cached(GaussianNB):
    """An estimator that keeps its first fit: the commonest bug of training scripts."""

    kept = None

    def fit(self, x, y):
        Cached.kept = Cached.kept or GaussianNB().fit(x, y)
        return self

    def predict_proba(self, x):
        return Cached.kept.predict_proba(x)

    @property
    def classes_(self):
        return np.array([0, 1])


def command(folder: Path, *, stale: bool) -> Campaign:
    (folder / "train.py").write_text(SCRIPT.format(stale=stale), encoding="utf-8")
    target = CommandTarget(f"{sys.executable} train.py {{rows}} {{out}}", "logits", folder)
    return Campaign(target, Records(X, Y, None, {}, "data"), shadows=Shadows(models=4))


@pytest.mark.thorough
def test_a_command_that_returns_its_first_outputs_is_refused(tmp_path):
    with pytest.raises(InputError, match="equal outputs of model 0, model 1, model 2, model 3 and model 4"):
        collect(command(tmp_path, stale=True), rng=np.random.default_rng(1))
    (tmp_path / "cache.npy").unlink()
    assert collect(command(tmp_path, stale=False), rng=np.random.default_rng(1)).evidence.n == N  # the control


@pytest.mark.parametrize("options", [{"shadows": Shadows(models=4)}, {"runs": 2}])
def test_an_estimator_that_keeps_its_first_fit_is_refused(options):
    Cached.kept = None
    records = Records(X, Y, None, {}, "data")
    with pytest.raises(InputError, match="equal outputs of model 0"):
        collect(Campaign(SklearnTarget(Cached()), records, **options), rng=np.random.default_rng(1))
    honest = collect(Campaign(SklearnTarget(GaussianNB()), records, **options), rng=np.random.default_rng(1))
    assert honest.evidence.n == N * options.get("runs", 1)  # the control


def given(path: Path, outputs) -> Campaign:
    rng = np.random.default_rng(3)
    member = rng.random(N) < 0.5
    half = rng.random((len(outputs) // 2, N)) < 0.5
    np.savez(path, outputs=outputs, included=np.concatenate([half, ~half]), labels=Y)
    target = Precomputed(rng.normal(size=(N, 2)), "logits", "outputs")
    shadows = Shadows(given=GivenShadows.load(path, given="logits"))
    return Campaign(target, Records(np.arange(N), Y, member, {}, "data"), design="one-run", shadows=shadows)


def test_given_shadow_outputs_are_compared_too(tmp_path):
    outputs = np.random.default_rng(2).normal(size=(6, N, 2))
    assert collect(given(tmp_path / "a.npz", outputs), rng=np.random.default_rng(1)).evidence.n == N  # the control
    outputs[4] = outputs[1]
    with pytest.raises(InputError, match="equal outputs of shadow model 1 and shadow model 4"):
        collect(given(tmp_path / "b.npz", outputs), rng=np.random.default_rng(1))


def test_outputs_of_one_fit_in_the_folder_of_another_are_not_gathered(tmp_path):
    (tmp_path / "a.yaml").touch()
    whole = command(tmp_path, stale=False)
    drawn.draw(whole, tmp_path / "d", config=tmp_path / "a.yaml", rng=np.random.default_rng(1))
    folders = sorted((tmp_path / "d" / "fits").iterdir())
    for i, folder in enumerate(folders):
        np.save(folder / "out" / "outputs.npy", np.random.default_rng(i).normal(size=(N, 2)).astype(np.float32))
    manifest = drawn.read(tmp_path / "d")
    assert drawn.gather(whole, manifest, rng=np.random.default_rng(1)).evidence.n == N  # the control
    shutil.copy(folders[0] / "out" / "outputs.npy", folders[1] / "out" / "outputs.npy")
    with pytest.raises(InputError, match=rf"model 0 \(fits/{folders[0].name}\) and model 1 \(fits/{folders[1].name}\)"):
        drawn.gather(whole, manifest, rng=np.random.default_rng(1))

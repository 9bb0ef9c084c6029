"""The worlds and loaders of experiments/zero_run against other ways to the same thing, and its tiny form."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest
from scipy import integrate, stats
from zero_run import iwildcam, synthetic

pytestmark = pytest.mark.long

FOLDER = Path(__file__).parents[2] / "experiments" / "zero_run"


@pytest.mark.long
@pytest.mark.parametrize(("d", "t"), [(5, 0.6), (5, -0.3), (50, 0.2)])
def test_log_odds_agree_with_numerical_integration(d: int, t: float) -> None:
    def density(lean: float) -> float:
        def radial(r: float) -> float:
            return float(r ** (d - 1) * np.exp(-(r**2) / 2 + r * lean * t - lean**2 / 2))

        return float(integrate.quad(radial, 0, 60, limit=400, points=[np.sqrt(d)])[0])

    found = synthetic.log_odds(np.array([t, 0.9]), d, 2.0, 0.5)[0]
    assert found == pytest.approx(np.log(density(2.0) / density(0.5)), abs=1e-4)


@pytest.mark.long
def test_propensities_are_calibrated_whatever_the_shift() -> None:
    world = synthetic.NoisySum(100, 20_000, 2.0, 0.66)
    for rho in (0.25, 0.75):
        logit, member = synthetic.covariates_only(world, rho, 200_000, np.random.default_rng(0))
        pi = 1 / (1 + np.exp(-logit))
        for low, high in ((0.1, 0.3), (0.4, 0.6), (0.7, 0.9)):
            inside = (pi > low) & (pi < high)
            assert member[inside].mean() == pytest.approx(pi[inside].mean(), abs=0.01)


@pytest.mark.long
def test_the_three_numbers_of_a_nonmember_have_the_law_of_the_whole_vector() -> None:
    world = synthetic.NoisySum(30, 4000, 2.0, 0.66)
    short = next(synthetic.draw(world, (0.5,), np.random.default_rng(1)))
    whole, _ = synthetic.draw_with_covariates(world, 0.5, 10, np.random.default_rng(2))
    for take in (lambda data: data.x[:, 0], lambda data: data.logit):
        found = stats.ks_2samp(take(short)[~short.member], take(whole)[~whole.member])
        assert found.pvalue > 0.01
    # Scores depend on the released sum: compare them within it.
    scale = [np.std(data.score[~data.member]) for data in (short, whole)]
    assert scale[0] == pytest.approx(scale[1], rel=0.15)


@pytest.mark.long
def test_few_covariates_have_the_law_of_the_whole_vector_and_noise() -> None:
    world = synthetic.NoisySum(30, 4000, 2.0, 0.66)
    audited, others = synthetic.draw_with_few(world, 0.5, 2000, 4, np.random.default_rng(1))
    whole, more = synthetic.draw_with_covariates(world, 0.5, 2000, np.random.default_rng(2))
    for few, full in ((audited, whole), (others, more)):
        assert few.x.shape == (4000, 4)
        for inside in (True, False):
            along, noise = few.x[few.member == inside, :2].T
            assert stats.ks_2samp(along, full.x[full.member == inside, 0]).pvalue > 0.01
            assert stats.kstest(noise, "norm").pvalue > 0.01
        control = stats.ks_2samp(few.x[few.member, 0], few.x[~few.member, 0])
        assert control.pvalue < 1e-6  # there is a shift


@pytest.mark.long
def test_members_alone_stand_in_the_sum() -> None:
    world = synthetic.NoisySum(4000, 4000, 2.0, 5.0)
    data = next(synthetic.draw(world, (1.0,), np.random.default_rng(3)))
    gap = data.score[data.member].mean() - data.score[~data.member].mean()
    assert gap == pytest.approx(1.0, abs=0.1)  # <x, x> = 1, and nothing else tells members apart


@pytest.mark.slow
@pytest.mark.long
def test_the_tiny_form_runs_and_agrees_with_what_is_expected(tmp_path: Path) -> None:
    command = [sys.executable, FOLDER / "run.py", "--form", "tiny", "--out", tmp_path]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found = json.loads((tmp_path / "found.json").read_text())
    assert not found["not_learned"]["testable"]
    assert found["not_learned"]["bound_if_the_propensity_were_trusted"] > 0  # what erratum B20 is about
    for part in ("oracle", "learned", "few"):
        assert (tmp_path / f"figure-2a-{part}.svg").read_text().startswith("<svg")


@pytest.mark.long
def test_a_stopped_run_goes_on_and_a_longer_one_takes_it_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(FOLDER))
    for name in ("synthetic", "figures"):  # other experiments have modules of the same names
        monkeypatch.delitem(sys.modules, name, raising=False)
    run, world = import_module("zero_run.run"), synthetic.NoisySum(20, 400, 2.0, 0.66)
    settings = {"repetitions": 2, "d": 20, "rows": 1000, "replicates": 20}

    def bounds(count: int, folder: Path) -> dict[str, dict[str, list[float]]]:
        part = run.Part("learned", world, {**settings, "repetitions": count}, (1.0, 0.5), folder)
        return run.learned(part, np.random.default_rng(3))

    two, three = bounds(2, tmp_path / "a"), bounds(3, tmp_path / "b")
    calls = []
    once = run.learned_bounds
    monkeypatch.setattr(run, "learned_bounds", lambda *given: calls.append(given) or once(*given))
    assert bounds(3, tmp_path / "a") == three
    assert len(calls) == 2  # the third repetition, two shifts
    for rho, rows in two.items():
        assert {way: values[:2] for way, values in three[rho].items()} == rows
    for name in ("synthetic", "figures"):
        monkeypatch.delitem(sys.modules, name, raising=False)


# -- iWildCam -------------------------------------------------------------------------------------------------------


def release(
    folder: Path, *, by_name: bool, splits: tuple[str, ...] = ("train", "id_test", "test", "val")
) -> np.ndarray:
    """A folder as WILDS leaves it, with made-up pictures; returns the embeddings in the order of the metadata."""
    rng = np.random.default_rng(0)
    n = 40
    names = [f"{i:04d}.jpg" for i in rng.permutation(n)]
    lines = ["split,location_remapped,sequence_remapped,y,filename,datetime"]
    lines += [f"{splits[i % len(splits)]},{i % 7},{i},{i % 5},{name},2013-06-05" for i, name in enumerate(names)]
    (folder / "metadata.csv").write_text("\n".join(lines) + "\n")
    embedding = rng.normal(size=(n, 3)).astype(np.float32)
    if by_name:
        order = rng.permutation(n)
        np.savez(folder / "embeddings.npz", filename=np.array(names)[order], embedding=embedding[order])
    else:
        np.save(folder / "embeddings.npy", embedding)
    return embedding


@pytest.mark.long
@pytest.mark.parametrize("by_name", [False, True])
def test_embeddings_are_joined_to_their_pictures(tmp_path: Path, by_name: bool) -> None:
    expected = release(tmp_path, by_name=by_name)
    pictures = iwildcam.load(tmp_path)
    np.testing.assert_array_equal(pictures.embedding, expected)
    assert len(pictures.rows("train")) == len(pictures.rows("test")) == 10
    assert pictures.label.tolist() == [i % 5 for i in range(40)]


@pytest.mark.long
def test_pictures_without_embedding_are_named(tmp_path: Path) -> None:
    release(tmp_path, by_name=True)
    with np.load(tmp_path / "embeddings.npz") as data:
        np.savez(tmp_path / "embeddings.npz", filename=data["filename"][3:], embedding=data["embedding"][3:])
    with pytest.raises(ValueError, match=r"3 pictures of metadata\.csv have no embedding"):
        iwildcam.load(tmp_path)


@pytest.mark.long
def test_other_releases_are_refused(tmp_path: Path) -> None:
    release(tmp_path, by_name=False, splits=("train", "val"))
    with pytest.raises(ValueError, match="no picture of the split"):
        iwildcam.load(tmp_path)
    (tmp_path / "metadata.csv").write_text("a,b\n1,2\n")
    with pytest.raises(ValueError, match="missing split, filename"):
        iwildcam.load(tmp_path)

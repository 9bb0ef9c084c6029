"""Shadow models: inclusion, training over kills and executors, outputs on disk, and which records leak."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.linear_model import Ridge
from sklearn.naive_bayes import GaussianNB
from sklearn.neural_network import MLPClassifier

from miaudit.attacks import signals
from miaudit.errors import InputError, OutputError
from miaudit.jobs import resumable
from miaudit.jobs.executor import Local
from miaudit.jobs.resumable import JobsFailedError
from miaudit.models import shadow
from miaudit.models.shadow_outputs import SQUARED_ERROR, ShadowOutputs
from miaudit.models.targets import SklearnTarget

RNG = np.random.default_rng(11)
N, M = 40, 8
X = RNG.normal(size=(N, 3))
Y = (X[:, 0] + RNG.normal(size=N) > 0).astype(int)
INCLUDED = shadow.inclusion(N, M, rng=np.random.default_rng(0))
BAYES = SklearnTarget(GaussianNB())
NET = SklearnTarget(MLPClassifier((4,), solver="lbfgs", max_iter=20, alpha=1.0, tol=1e-1))


def train(target=BAYES, **options):
    options = {"x": X, "y": Y, "included": INCLUDED, "seed": 5, **options}
    return shadow.train(target, options.pop("x"), options.pop("y"), options.pop("included"), **options)


def everything(outputs: ShadowOutputs) -> np.ndarray:
    return outputs.block(0, outputs.n)


# -- training --------------------------------------------------------------------------------------------------------


def test_a_plain_loop_gives_the_same() -> None:
    outputs = train(NET)
    seeds = [int(one.generate_state(1)[0]) for one in np.random.SeedSequence(5).spawn(M)]
    for m in range(M):
        net = MLPClassifier((4,), solver="lbfgs", max_iter=20, alpha=1.0, tol=1e-1, random_state=seeds[m])
        usual = net.fit(X[INCLUDED[m]], Y[INCLUDED[m]]).predict_log_proba(X)
        np.testing.assert_allclose(outputs.model(m), usual, rtol=1e-5, atol=1e-6)
    assert outputs.shape == (N, 2)
    assert outputs.model(0).dtype == np.float32


@pytest.mark.thorough
@pytest.mark.long
def test_workers_and_stores_change_nothing(tmp_path: Path) -> None:
    seen: list[resumable.Progress] = []
    alone = train(NET)
    other = train(NET, workers=2, store=tmp_path, progress=seen.append)
    np.testing.assert_array_equal(everything(alone), everything(other))
    assert [one.finished for one in seen] == list(range(M + 1))
    assert seen[-1].seconds_left == 0
    assert str(seen[0]) == "0 of 8 models, unknown time left"
    assert isinstance(other.model(3), np.memmap)
    changed = train(NET, seed=6)
    assert (everything(alone) != everything(changed)).any()


def test_a_store_is_reused_only_by_what_made_it(tmp_path: Path) -> None:
    first = train(store=tmp_path)
    times = {path: path.stat().st_mtime_ns for path in first.sources}  # type: ignore[union-attr]
    train(store=tmp_path, workers=2)
    assert {path: path.stat().st_mtime_ns for path in times} == times  # type: ignore[union-attr]
    moved, labels, fewer = X.copy(), Y.copy(), INCLUDED[:6]
    moved[3, 1] += 1e-12
    labels[3] ^= 1
    for options, part in (
        ({"x": moved}, "records"),
        ({"y": labels}, "labels"),
        ({"included": fewer}, "inclusion"),
        ({"seed": 6}, "seed"),
        ({"target": SklearnTarget(GaussianNB(var_smoothing=1e-8))}, "target"),
        ({"signal": "loss"}, "signal"),
        ({"views": (lambda x: x,)}, "views"),
    ):
        with pytest.raises(InputError, match=f"store: expected a folder of the same {part},"):
            train(store=tmp_path, **options)


def test_a_damaged_model_is_trained_again(tmp_path: Path) -> None:
    first = train(store=tmp_path)
    expected = everything(first)
    path = first.sources[2]
    assert isinstance(path, Path)
    path.write_bytes(path.read_bytes()[:-4])
    np.testing.assert_array_equal(everything(train(store=tmp_path)), expected)


def failing_net(bad: int):
    """A target whose model of one seed fails; made here, so that it travels by value."""

    @dataclass(frozen=True)
    class Failing:
        name: str = "failing"
        kind: str = "logits"
        runs_user_code: bool = True

        def identity(self):
            return "failing"

        def fit(self, x, y, rows, *, seed):
            return float(rows.sum()) if rows.sum() != bad else float("nan")

        def outputs(self, fitted, x):
            return np.full((len(x), 2), fitted) + x[:, :2]

    return Failing()


@pytest.mark.long
@pytest.mark.parametrize("workers", [1, 2])
def test_a_failed_model_is_named_and_the_rest_is_kept(tmp_path: Path, workers: int) -> None:
    bad = int(np.flatnonzero(INCLUDED[3]).sum())
    with pytest.raises(JobsFailedError, match=r"1 of 8 .*: model 3 \(seed \d+\): .*NaN .*7 others are kept") as at:
        train(failing_net(bad), store=tmp_path, workers=workers)
    assert [one.model for one in at.value.failed] == [3]
    assert "Traceback" in at.value.__notes__[0]
    kept = {path.name: path.stat().st_mtime_ns for path in tmp_path.glob("*.npy")}
    assert len(kept) == M - 1
    repaired = train(failing_net(-1), store=tmp_path)
    np.testing.assert_array_equal(everything(repaired), everything(train(failing_net(-1))))
    assert kept.items() <= {path.name: path.stat().st_mtime_ns for path in tmp_path.glob("*.npy")}.items()


def test_a_store_of_other_columns_is_refused_and_they_are_named(tmp_path: Path) -> None:
    import pandas as pd

    frame = pd.DataFrame({"age": X[:, 0], "hours": X[:, 1]})
    train(x=frame, store=tmp_path)
    before = {path.name: path.stat().st_mtime_ns for path in tmp_path.iterdir()}
    train(x=frame, store=tmp_path)
    for other, words in (
        (frame.assign(more=1), r"made with another \(without more \(int64\)\); name another folder"),
        (frame[["age"]], r"made with another \(with hours \(float64\)\)"),
        (frame.rename(columns={"hours": "h"}), r"\(with hours \(float64\) and without h \(float64\)\)"),
        (frame.astype({"age": "float32"}), r"\(with age \(float64\) and without age \(float32\)\)"),
        (frame + 1, r"received .*, made with another; name another folder"),
        (X, r"\(with age \(float64\), hours \(float64\)\)"),
    ):
        with pytest.raises(InputError, match=f"^store: expected a folder of the same records, .*{words}"):
            train(x=other, store=tmp_path)
        with pytest.raises(InputError, match=words):
            shadow.estimate(BAYES, other, Y, INCLUDED, seed=5, store=tmp_path)
    assert before == {path.name: path.stat().st_mtime_ns for path in tmp_path.iterdir()}


def test_all_failures_are_counted_without_a_store() -> None:
    with pytest.raises(JobsFailedError, match=r"8 of 8 .*\(7 more alike: model 1, .*\.\.\.\); give store="):
        train(SklearnTarget(GaussianNB(priors=[0.1, 0.2])))


def test_a_full_disk_is_one_line_and_keeps_what_is_finished(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    original, written = np.save, []

    def full(handle, array, **options):
        written.append(1)
        if len(written) == 4:
            raise OSError(28, "No space left on device")
        original(handle, array, **options)

    monkeypatch.setattr("numpy.save", full)
    with pytest.raises(OutputError, match=r"model-00003-\w+\.npy: cannot be written \(No space left on device\)"):
        train(store=tmp_path)
    monkeypatch.undo()
    assert len(list(tmp_path.glob("model-*.npy"))) == 3
    assert not list(tmp_path.glob(".*.part"))
    np.testing.assert_array_equal(everything(train(store=tmp_path)), everything(train()))


SCRIPT = """
    import sys, time
    import numpy as np
    from dataclasses import dataclass
    from miaudit.models import shadow

    @dataclass(frozen=True)
    class Slow:
        name: str = "slow"
        kind: str = "logits"
        runs_user_code: bool = True
        def identity(self): return "slow mean"
        def fit(self, x, y, rows, *, seed):
            time.sleep(0.15)
            return x[rows].mean(axis=0) + np.random.default_rng(seed).normal(size=x.shape[1])
        def outputs(self, fitted, x):
            return np.column_stack([x @ fitted, -(x @ fitted)])

    if __name__ == "__main__":
        rng = np.random.default_rng(0)
        x = rng.normal(size=(50, 4))
        included = shadow.inclusion(50, 24, rng=rng)
        outputs = shadow.train(Slow(), x, np.arange(50) % 2, included, seed=1,
            store=sys.argv[1] if sys.argv[1] != "none" else None, executor=sys.argv[2], workers=int(sys.argv[3]))
        np.save(sys.argv[4], outputs.block(0, 50))
"""


def start(script: Path, *arguments: object) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-W", "error", script, *map(str, arguments)]
    environment = {**os.environ, "TMPDIR": str(script.parent)} if "ray" not in arguments else None
    return subprocess.Popen(command, start_new_session=True, env=environment)


@pytest.mark.thorough
@pytest.mark.long
@pytest.mark.parametrize("executor", ["local", pytest.param("ray", marks=pytest.mark.slow)])
def test_kill_9_loses_the_models_in_flight_only(tmp_path: Path, executor: str) -> None:
    if executor == "ray":
        pytest.importorskip("ray")
    script, store = tmp_path / "script.py", tmp_path / "store"
    script.write_text(textwrap.dedent(SCRIPT))
    process = start(script, store, executor, 2, tmp_path / "never.npy")
    deadline = time.monotonic() + 60
    while len(list(store.glob("model-*.npy"))) < 5 and time.monotonic() < deadline and process.poll() is None:
        time.sleep(0.01)
    process.kill()
    process.wait()
    kept = {path.name: path.stat().st_mtime_ns for path in store.glob("model-*.npy")}
    assert 5 <= len(kept) < 24
    if executor == "local":  # the workers of a killed process go by themselves, and what was sent to them goes, too
        with pytest.raises(ProcessLookupError):
            for _ in range(200):
                os.killpg(process.pid, 0)
                time.sleep(0.05)
        assert not list(tmp_path.glob("miaudit-*"))
    assert start(script, store, executor, 2, tmp_path / "resumed.npy").wait(90) == 0
    after = {path.name: path.stat().st_mtime_ns for path in store.glob("model-*.npy")}
    assert len(after) == 24
    assert kept.items() <= after.items()
    assert start(script, "none", "local", 1, tmp_path / "whole.npy").wait(60) == 0
    assert (tmp_path / "resumed.npy").read_bytes() == (tmp_path / "whole.npy").read_bytes()
    if executor == "ray":  # what is left of a killed driver's own cluster
        with pytest.raises(ProcessLookupError):
            for _ in range(200):
                os.killpg(process.pid, signal.SIGKILL)
                time.sleep(0.05)


@pytest.mark.long
def test_views_and_signals_reduce_outputs(tmp_path: Path) -> None:
    def mirrored(x):
        return -x

    plain, views = train(), train(views=(lambda x: x, mirrored), store=tmp_path / "views")
    assert views.shape == (N, 2, 2)
    np.testing.assert_array_equal(views.block(3, 7)[:, :, 0], plain.block(3, 7))
    expected = signals.member_scores(labels=Y, logits=plain.model(4), names=["margin"])["margin"]
    np.testing.assert_allclose(plain.signal("margin")[:, 4], expected, rtol=1e-6)
    kept = train(signal="margin", store=tmp_path / "signal")
    assert kept.shape == (N,)
    np.testing.assert_array_equal(kept.signal("margin"), plain.signal("margin"))
    both = train(signal="margin", views=(lambda x: x, mirrored))
    assert both.signal("margin").shape == (N, M, 2)
    np.testing.assert_array_equal(both.signal("margin")[:, :, 0], plain.signal("margin"))
    np.testing.assert_array_equal(views.signal("margin"), both.signal("margin"))
    own = plain.signal(lambda outputs, labels: outputs[np.arange(len(labels)), labels])
    np.testing.assert_array_equal(own[:, 1], plain.model(1)[np.arange(N), Y])
    with pytest.raises(InputError, match="signal: expected margin, which was kept"):
        kept.signal("loss")
    with pytest.raises(InputError, match="did you mean margin"):
        plain.signal("margni")


def test_a_regression_target() -> None:
    outputs = train(SklearnTarget(Ridge()), y=X[:, 1] + RNG.normal(size=N))
    found = outputs.signal(SQUARED_ERROR)
    expected = -((outputs.model(2)[:, 0].astype(float) - outputs.labels) ** 2)
    np.testing.assert_allclose(found[:, 2], expected, rtol=1e-6)
    with pytest.raises(InputError, match="which needs logits; use negative_squared_error"):
        outputs.signal("loss")


def test_records_that_no_model_learns_get_outputs_too() -> None:
    included = INCLUDED.copy()
    included[:, 30:] = False
    outputs = train(included=included)
    assert outputs.shape == (N, 2)
    changed = X.copy()
    changed[30:] += 1
    np.testing.assert_array_equal(everything(outputs)[:30], everything(train(x=changed, included=included))[:30])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"included": INCLUDED.astype(int)}, "included: expected true or false"),
        ({"included": INCLUDED[:, 1:]}, "included"),
        ({"included": np.zeros((2, N), bool)}, "none for model 0"),
        ({"y": Y[1:]}, "y: expected one label"),
        ({"y": Y - 1}, "labels: .*from 0 up"),
        ({"x": 3}, "x: expected records"),
        ({"seed": -1}, "seed"),
        ({"workers": 0}, "workers"),
        ({"executor": "cloud"}, "executor"),
        ({"at_once": 4}, "at_once"),
        ({"signal": "los"}, "did you mean loss"),
        ({"target": 3}, "target: expected one that can be fitted"),
    ],
)
def test_bad_arguments(options, message: str) -> None:
    with pytest.raises(InputError, match=message):
        train(**options)


@pytest.mark.thorough
@pytest.mark.long
def test_torch_models_alone_stacked_and_in_other_processes(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    from miaudit.models import nets
    from miaudit.models.targets import TorchTarget
    from miaudit.models.train_config import TrainConfig

    target = TorchTarget(nets.mlp(3, 2, (4,)), TrainConfig(epochs=2, batch=8, device="cpu"))
    x = X.astype(np.float32)
    alone = train(target, x=x)
    np.testing.assert_array_equal(everything(alone), everything(train(target, x=x, workers=2, store=tmp_path)))
    stacked = train(target, x=x, at_once=3)
    np.testing.assert_allclose(everything(stacked), everything(alone), atol=1e-4)


@pytest.mark.long
@pytest.mark.parametrize("at_once", [1, 2])
def test_images_of_8_bits_are_kept_once_and_become_numbers_batch_by_batch(
    at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One copy of them for all fits of a process; the results are those of numbers that were converted before."""
    torch = pytest.importorskip("torch")
    from miaudit.models import loop, nets
    from miaudit.models.targets import TorchTarget
    from miaudit.models.train_config import TrainConfig

    rng = np.random.default_rng(0)
    x, y = rng.integers(0, 256, (1500, 1, 4, 4), dtype=np.uint8), np.arange(1500) % 2
    included = shadow.inclusion(len(x), 8, rng=rng)
    target = TorchTarget(nets.mlp(16, 2, (4,)), TrainConfig(epochs=1, batch=100, learning_rate=1e-5, device="cpu"))
    held, converted = list[int](), list[int]()
    kept, floats = loop.kept, torch.Tensor.float

    def keeping(records, net):
        found = kept(records, net)
        held.append(found.nbytes)
        return found

    def converting(tensor):
        converted.append(tensor.numel() if tensor.dtype == torch.uint8 else 0)
        return floats(tensor)

    with monkeypatch.context() as watched:
        watched.setattr(loop, "kept", keeping)
        watched.setattr(torch.Tensor, "float", converting)
        found = shadow.train(target, x, y, included, seed=0, at_once=at_once)
    assert held[0] == x.nbytes
    assert 0 < max(converted) <= 1024 * 16 < x.size  # a batch of outputs
    other = shadow.train(target, x.astype(np.float64), y, included, seed=0, at_once=at_once)
    assert all(np.array_equal(found.model(m), other.model(m)) for m in range(8))


@pytest.mark.parametrize("read_only", [False, True], ids=["as to local workers", "as on ray"])
def test_images_of_8_bits_go_to_workers_as_they_are_and_are_held_there_once(
    read_only: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("torch")
    from miaudit.jobs import executor
    from miaudit.models import loop, nets
    from miaudit.models.targets import TorchTarget
    from miaudit.models.train_config import TrainConfig

    rng = np.random.default_rng(0)
    x, y = rng.integers(0, 256, (1500, 1, 10, 10), dtype=np.uint8), np.arange(1500) % 2
    included, config = shadow.inclusion(len(x), 8, rng=rng), TrainConfig(epochs=1, batch=500, device="cpu")
    plan = shadow.Fits(TorchTarget(nets.mlp(100, 2, ()), config), x, y, included, 0)
    with executor._sent(shadow._fit_group, plan) as parcel:
        sent = sum(path.stat().st_size for path in parcel.iterdir())
        assert x.nbytes < sent < x.nbytes + y.nbytes + included.nbytes + 20_000
        task, there = executor._received(parcel)
        assert there.x.dtype == np.uint8
        there.x.flags.writeable = not read_only  # as memory maps of Ray's are
        copies, kept = list[int](), loop._plain_array
        held = list[tuple[str, int]]()

        def plain(records):
            found = kept(records)
            copies.append(0 if np.shares_memory(found, there.x) else found.nbytes)
            return found

        monkeypatch.setattr(loop, "_plain_array", plain)
        for m, seed in enumerate(there.seeds()):
            task(there, [(m, seed)])
            prepared = shadow._prepared(there)
            held.append((str(prepared.dtype), prepared.data_ptr()))
        assert len(set(held)) == 1
        assert held[0][0] == "torch.uint8"
        assert copies == [x.nbytes if read_only else 0]  # once for eight fits


@pytest.mark.slow
def test_torch_models_on_ray() -> None:
    pytest.importorskip("torch")
    pytest.importorskip("ray")
    from miaudit.models import nets
    from miaudit.models.targets import TorchTarget
    from miaudit.models.train_config import TrainConfig

    target = TorchTarget(nets.mlp(3, 2, (4,)), TrainConfig(epochs=2, batch=8, device="cpu"))
    x = X.astype(np.float32)
    for records in (x, (50 * x).clip(0, 255).astype(np.uint8)):
        alone = train(target, x=records)
        there = train(target, x=records, executor="ray", workers=2)
        np.testing.assert_array_equal(everything(alone), everything(there))


@pytest.mark.parametrize("at_once", [1, 2])
def test_a_network_that_diverges_is_named_with_its_epoch(tmp_path: Path, at_once: int) -> None:
    pytest.importorskip("torch")
    from miaudit.models import nets
    from miaudit.models.targets import TorchTarget
    from miaudit.models.train_config import TrainConfig

    target = TorchTarget(nets.mlp(3, 2, (4,)), TrainConfig(epochs=5, batch=8, device="cpu"))
    x = X.astype(np.float32)
    included = np.ones((3, N), bool)
    included[[0, 2], 7] = False
    x[7] = 1e30  # only the middle model learns it
    with pytest.raises(JobsFailedError, match=r"1 of 3 .*: model 1 \(seed \d+\): .*NaN in epoch [1-5]: ") as at:
        train(target, x=x, included=included, store=tmp_path, at_once=at_once)
    assert [one.model for one in at.value.failed] == [1]
    assert len(list(tmp_path.glob("model-*.npy"))) == 2


# -- estimates -------------------------------------------------------------------------------------------------------


def test_what_it_will_cost(tmp_path: Path) -> None:
    stated = shadow.estimate(NET, X, Y, INCLUDED, seed=5, seconds_per_fit=450, workers=2)
    assert (stated.fits, stated.reused, stated.hours) == (8, 0, 0.5)
    timed = shadow.estimate(NET, X, Y, INCLUDED, seed=5, store=tmp_path)
    assert not list(tmp_path.iterdir())
    assert timed.disk_bytes == stated.disk_bytes
    assert 0 < timed.seconds_per_fit < 5
    train(NET, store=tmp_path)
    size = sum(path.stat().st_size for path in tmp_path.glob("model-*.npy"))
    assert size == timed.disk_bytes
    next(tmp_path.glob("model-*.npy")).unlink()
    again = shadow.estimate(NET, X, Y, INCLUDED, seed=5, store=tmp_path, seconds_per_fit=3600)
    assert (again.fits, again.reused, again.hours) == (1, 7, 1.0)
    assert "1 fits (7 more are there), 60 min" in str(again)
    with pytest.raises(InputError, match="same seed"):
        shadow.estimate(NET, X, Y, INCLUDED, seed=6, store=tmp_path, seconds_per_fit=1)
    train(NET, store=tmp_path)
    with pytest.MonkeyPatch.context() as patch:  # nothing is left to fit, so nothing is fitted for the time
        patch.setattr(shadow.execution, "outcomes", lambda *a, **o: pytest.fail("a model was fitted"))
        done = shadow.estimate(NET, X, Y, INCLUDED, seed=5, store=tmp_path)
    assert (done.fits, done.reused, done.hours, done.disk_bytes) == (0, 8, 0.0, 0)
    other = tmp_path / "thesis"
    other.mkdir()
    (other / "thesis.tex").write_text("words")
    with pytest.raises(InputError, match="a store or an empty folder"):
        shadow.estimate(NET, X, Y, INCLUDED, seed=5, store=other, seconds_per_fit=1)
    with pytest.raises(InputError, match="seconds_per_fit"):
        shadow.estimate(NET, X, Y, INCLUDED, seed=5, seconds_per_fit=-1)
    with pytest.raises(JobsFailedError, match="model 0"):
        shadow.estimate(SklearnTarget(GaussianNB(priors=[0.1, 0.2])), X, Y, INCLUDED, seed=5)


@pytest.mark.thorough
@pytest.mark.long
def test_an_executor_record_may_be_passed() -> None:
    np.testing.assert_array_equal(everything(train(executor=Local(2))), everything(train()))


def test_outputs_of_some_records_only(tmp_path: Path) -> None:
    rows = np.array([7, 2, 30])
    target = SklearnTarget(GaussianNB())
    whole = shadow.train(target, X, Y, INCLUDED, seed=3)
    part = shadow.train(target, X, Y, INCLUDED, seed=3, keep=rows, store=tmp_path / "part")
    assert part.shape == (3, 2)
    np.testing.assert_array_equal(part.block(0, 3), whole.block(0, N)[rows])
    np.testing.assert_array_equal(part.included, INCLUDED[:, rows])
    np.testing.assert_array_equal(part.labels, Y[rows])
    with pytest.raises(InputError, match="a folder of the same keep"):
        shadow.train(target, X, Y, INCLUDED, seed=3, keep=rows[:2], store=tmp_path / "part")
    for bad in (np.array([N]), np.array([-1]), np.array([0.5]), np.empty(0, int)):
        with pytest.raises(InputError, match="keep"):
            shadow.train(target, X, Y, INCLUDED, seed=3, keep=bad)


@pytest.mark.long
def test_each_model_keeps_records_of_its_own(tmp_path: Path) -> None:
    rows, target = np.array([7, 2, 30]), SklearnTarget(GaussianNB())
    own = np.stack([np.arange(len(INCLUDED)) % 3, np.full(len(INCLUDED), 1)], axis=1)
    whole = shadow.train(target, X, Y, INCLUDED, seed=3, keep=rows)
    part = shadow.train(target, X, Y, INCLUDED, seed=3, keep=rows, own=own, store=tmp_path / "own")
    assert part.shape == (2, 2)
    for m in range(part.models):
        np.testing.assert_array_equal(part.model(m), whole.model(m)[own[m]])
        np.testing.assert_array_equal(part.included[m], INCLUDED[m, rows[own[m]]])
        np.testing.assert_array_equal(part.labels[m], Y[rows[own[m]]])
    fitted: list[str] = []
    given: dict[str, Any] = {"seed": 3, "keep": rows, "progress": lambda state: fitted.append(str(state))}
    shadow.train(target, X, Y, INCLUDED, **given, own=own, store=tmp_path / "own")
    assert fitted == ["all 8 models are there from before: nothing left to train"]
    fitted.clear()
    again = shadow.train(target, X, Y, INCLUDED, **given, store=tmp_path / "own")  # all records: they are trained again
    assert fitted[0].startswith("0 of 8 models")
    np.testing.assert_array_equal(everything(again), everything(whole))
    cost = shadow.estimate(target, X, Y, INCLUDED, seed=3, keep=rows, own=own, store=tmp_path / "own")
    assert (cost.fits, cost.reused) == (0, 8)
    taken = shadow.train(target, X, Y, INCLUDED, seed=3, keep=rows, own=own, store=tmp_path / "own")  # whole ones serve
    for m in range(part.models):
        np.testing.assert_array_equal(taken.model(m), whole.model(m)[own[m]])
    for bad in (own[:-1], own + 2, own - 1, own[:, 0], own.astype(float), own[:, :0]):
        with pytest.raises(InputError, match="own"):
            shadow.train(target, X, Y, INCLUDED, seed=3, keep=rows, own=bad)


def test_progress_says_when_nothing_is_left_to_train(tmp_path: Path) -> None:
    said: list[str] = []
    for _ in range(2):
        shadow.train(
            SklearnTarget(GaussianNB()),
            *(X, Y, INCLUDED),
            seed=3,
            store=tmp_path / "s",
            progress=lambda state: said.append(str(state)),
        )
    assert said[0] == "0 of 8 models, unknown time left"
    assert said[8] == "8 of 8 models, 0 seconds left"
    assert said[9:] == ["all 8 models are there from before: nothing left to train"]

"""One process at a time: races for a new store through each of its doors, and what a lock file survives."""

from __future__ import annotations

import errno
import multiprocessing
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from miaudit.collect import runs
from miaudit.errors import OutputError
from miaudit.io import atomic
from miaudit.models import shadow
from miaudit.synthesis.retraining_attack import sets
from miaudit.synthesis.schema import Column, Schema, Table

RACES, RUNNERS = 60, 3
FORK = multiprocessing.get_context("fork")


def _be_inside(witness: Path) -> None:
    """Stay for a moment in a place where nobody else may be; a second one leaves a mark."""
    try:
        os.close(os.open(witness, os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        witness.with_suffix(".twice").touch()
        return
    time.sleep(0.005)
    witness.unlink(missing_ok=True)


class _Target:
    """The least that can be trained: what it says of every record is 0."""

    name, kind, runs_user_code = "nothing", "predictions", False

    def __init__(self, witness: Path) -> None:
        self.witness = witness

    def identity(self) -> str:
        return "nothing"

    def fit(self, x: Any, y: Any, rows: Any, *, seed: int) -> int:
        _be_inside(self.witness)
        return 0

    def outputs(self, fitted: Any, x: Any) -> Any:
        return np.zeros((len(x), 1))


def _shadows(store: Path, witness: Path) -> None:
    included = np.array([[True, False], [False, True]])
    shadow.train(_Target(witness), np.zeros((2, 1)), np.zeros(2), included, seed=0, store=store)


def _sets(store: Path, witness: Path) -> None:
    def fit(table: Table, *, rng: Any) -> None:
        _be_inside(witness)

    def sample(_: Any, n: int, *, rng: Any) -> Any:
        return np.zeros((n, 1))

    table = Table(Schema((Column("a"),)), [[0], [1], [1]])
    options: dict[str, Any] = {"repeats": 1, "sets": 1, "set_size": 2, "store": store, "key": "k"}
    sets.train(table, [0], fit=fit, sample=sample, rng=np.random.default_rng(0), **options)


def _runs(store: Path, witness: Path) -> None:
    def fit(rows: Any) -> int:
        _be_inside(witness)
        return 0

    options: dict[str, Any] = {"records": 4, "store": store, "key": "k", "rng": np.random.default_rng(0)}
    runs.multi_run(fit, lambda _, rows: np.zeros(len(rows)), **options)


def _race(door: Callable[[Path, Path], None], folder: Path, barrier: Any, told: Any) -> None:
    for race in range(RACES):
        barrier.wait(60)
        try:
            door(folder / f"store-{race}", folder / f"{race}.inside")
        except Exception as error:
            told.put((race, f"{type(error).__name__}: {error}"))
        else:
            told.put((race, ""))


def _raced(door: Callable[[Path, Path], None], folder: Path) -> tuple[list[str], list[tuple[int, str]]]:
    """Race for new stores; return where two processes were inside at once, and who was refused with what words."""
    barrier, told = FORK.Barrier(RUNNERS), FORK.SimpleQueue()
    racing = [FORK.Process(target=_race, args=(door, folder, barrier, told)) for _ in range(RUNNERS)]
    for process in racing:
        process.start()
    results = [told.get() for _ in range(RACES * RUNNERS)]
    for process in racing:
        process.join()
        assert process.exitcode == 0
    return sorted(path.name for path in folder.glob("*.twice")), results


@pytest.mark.thorough
@pytest.mark.long
@pytest.mark.parametrize("door", [_shadows, _sets, _runs])
def test_one_process_at_a_time_is_in_a_new_store(tmp_path: Path, door: Callable[[Path, Path], None]) -> None:
    twice, results = _raced(door, tmp_path)
    assert not twice, f"{len(twice)} of {RACES} races had two processes inside"
    assert {race for race, refused in results if not refused} == set(range(RACES))  # somebody always gets in
    assert {refused for _, refused in results if "another process is at work" not in refused} == {""}


@pytest.mark.thorough
@pytest.mark.long
def test_without_the_lock_the_races_are_lost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(atomic.fcntl, "flock", lambda *_: None)
    twice, results = _raced(_runs, tmp_path)
    # Most of them end in words of the system: one process sweeps away what another is about to rename.
    broken = {f"{race}.twice" for race, refused in results if refused and "another process is at work" not in refused}
    assert len(broken | set(twice)) > RACES // 4


def _hold(path: Path, told: Any) -> None:
    with atomic.locked(path):
        told.put("inside")
        time.sleep(60)


def test_a_killed_process_lets_go(tmp_path: Path) -> None:
    told = FORK.SimpleQueue()
    holder = FORK.Process(target=_hold, args=(tmp_path / ".lock", told))
    holder.start()
    assert told.get() == "inside"
    with pytest.raises(BlockingIOError), atomic.locked(tmp_path / ".lock"):
        pass
    holder.kill()
    holder.join()
    with atomic.locked(tmp_path / ".lock"), pytest.raises(BlockingIOError), atomic.locked(tmp_path / ".lock"):
        pass


def test_a_worker_that_outlives_the_work_does_not_hold_the_lock(tmp_path: Path) -> None:
    with atomic.locked(tmp_path / ".lock"):
        worker = FORK.Process(target=time.sleep, args=(60,))
        worker.start()
    with atomic.locked(tmp_path / ".lock"):
        worker.kill()
    worker.join()


def test_a_lock_file_that_was_deleted_meanwhile_locks_nobody_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, opened = tmp_path / ".lock", atomic._opened
    gone = []

    def deleted(place: Path) -> int:
        descriptor = opened(place)
        if not gone:
            gone.append(descriptor)
            place.unlink()
        return descriptor

    monkeypatch.setattr(atomic, "_opened", deleted)
    with atomic.locked(path) as held:
        assert held is not None and os.path.samestat(os.fstat(held), path.stat())


def test_a_link_is_no_lock_and_a_folder_without_locks_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(OSError, match="symbolic links"), atomic.locked(tmp_path / "link"):
        pass
    assert not (tmp_path / "elsewhere").exists()

    def none(*_: Any) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(atomic.fcntl, "flock", none)
    with pytest.raises(OSError, match="No locks"), atomic.locked(tmp_path / "lock"):
        pass
    with atomic.locked(tmp_path / "lock", required=False) as held:
        assert held is None


def test_a_place_that_cannot_be_made_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with (
        pytest.raises(OutputError, match="cannot be written") as caught,
        atomic.locked_folder(tmp_path / "file" / "store"),
    ):
        pass
    assert "\n" not in str(caught.value)

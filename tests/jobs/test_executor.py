"""One door for many jobs: the same results in this process, in others and on Ray; failures and deaths are named."""

from __future__ import annotations

import os
import signal
import threading
import time
from pathlib import Path

import numpy as np
import pytest

from miaudit.errors import InputError
from miaudit.jobs import executor
from miaudit.jobs.resources import Resources

JOBS = list(range(7))


def draw(shared, job):
    """A task as it should be: random numbers from its own seed only."""
    return float(shared[job] + np.random.default_rng(job).normal())


def values(task, shared, jobs=JOBS, **options):
    found = {one.number: one for one in executor.outcomes(task, shared, jobs, **options)}
    assert sorted(found) == list(range(len(jobs)))
    return [found[i] for i in range(len(jobs))]


@pytest.mark.thorough
@pytest.mark.long
@pytest.mark.parametrize("workers", [1, 2, 3])
def test_the_number_of_workers_changes_nothing(workers: int) -> None:
    data = np.arange(7.0)
    expected = [draw(data, job) for job in JOBS]
    assert [one.value for one in values(draw_here(), data, workers=workers)] == expected


def draw_here():
    """The same task as a closure, which travels by value: a test module is not importable elsewhere."""

    def task(shared, job):
        return float(shared[job] + np.random.default_rng(job).normal())

    return task


def test_a_task_that_draws_from_shared_state_would_be_noticed() -> None:
    """The control: with the jobs in another order, what such a task says of a job is another value."""

    def disturbed(shared, job):
        return float(shared.normal())

    def in_order(task, shared, jobs):
        return dict(zip(jobs, (one.value for one in values(task, shared, jobs)), strict=True))

    jobs = list(JOBS)
    assert in_order(disturbed, np.random.default_rng(0), jobs) != in_order(
        disturbed, np.random.default_rng(0), jobs[::-1]
    )
    data = np.arange(7.0)
    assert in_order(draw_here(), data, jobs) == in_order(draw_here(), data, jobs[::-1])


@pytest.mark.long
@pytest.mark.parametrize("workers", [1, 2])
def test_an_error_is_an_outcome_and_takes_no_other_with_it(workers: int) -> None:
    def task(shared, job):
        if job == 3:
            raise ArithmeticError("diverged\nbadly")
        return job

    found = values(task, None, workers=workers)
    assert [one.value for one in found] == [0, 1, 2, None, 4, 5, 6]
    assert found[3].problem == "ArithmeticError: diverged badly"
    assert "raise ArithmeticError" in found[3].where


@pytest.mark.thorough
@pytest.mark.long
def test_a_process_that_dies_is_named_alone() -> None:
    def task(shared, job):
        if job in (2, 5):
            os.kill(os.getpid(), signal.SIGKILL)
        time.sleep(0.05)
        return job

    found = values(task, None, workers=2)
    assert [one.value for one in found] == [0, 1, None, 3, 4, None, 6]
    assert [one.number for one in found if "worker process died" in one.problem] == [2, 5]


@pytest.mark.thorough
@pytest.mark.long
@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize("holds_the_interpreter", [False, True])
def test_a_job_that_hangs_is_ended_alone(workers: int, holds_the_interpreter: bool, tmp_path: Path) -> None:
    """The others keep their process and finish; it is not tried again, and where it hung is told."""

    def task(shared, job):
        with (Path(shared) / str(job)).open("a") as begun:
            begun.write("x")
        if job == 2 and holds_the_interpreter:
            import ctypes

            ctypes.PyDLL(None).sleep(60)
        elif job == 2:
            time.sleep(60)
        return job

    place = executor.Local(workers, Resources(timeout=1.5))
    start = time.monotonic()
    found = values(task, str(tmp_path), executor=place)
    assert time.monotonic() - start < 45  # less than the job would take
    assert [one.value for one in found] == [0, 1, None, 3, 4, 5, 6]
    assert found[2].problem == "took longer than timeout, 1.5 s, and was ended"
    assert "in task" in found[2].where
    assert {path.name: len(path.read_text()) for path in tmp_path.iterdir()} == {str(job): 1 for job in JOBS}


@pytest.mark.thorough
@pytest.mark.long
def test_jobs_that_hang_or_fail_are_tried_again_as_often_as_was_said(tmp_path: Path) -> None:
    def task(shared, job):
        before = len(list(Path(shared).glob(f"{job}-*")))
        (Path(shared) / f"{job}-{before}").touch()
        if job == 1 and before < 1:
            time.sleep(60)
        if job == 2 and before < 2:
            raise ArithmeticError("diverged")
        if job == 3:
            raise ArithmeticError("always")
        return job

    found = values(task, str(tmp_path), JOBS[:4], executor=executor.Local(2, Resources(timeout=2, retries=2)))
    assert [one.value for one in found] == [0, 1, 2, None]
    assert found[3].problem == "ArithmeticError: always (after 3 attempts)"
    tried = [len(list(tmp_path.glob(f"{job}-*"))) for job in JOBS[:4]]
    assert tried == [1, 2, 3, 3]


@pytest.mark.long
def test_arrays_are_shared_as_maps_and_the_parcel_is_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    data = {"x": np.arange(100_000, dtype=np.float32), "empty": np.empty(0), "f": np.ones((3, 4), order="F")}

    def task(shared, job):
        base = shared["x"]
        while isinstance(base, np.ndarray) and not isinstance(base, np.memmap):
            base = base.base if isinstance(base.base, np.ndarray) else base.base.obj
        kind = type(base).__name__
        shared["x"][0] = -1.0  # copy on write: no other process sees it
        return kind, float(shared["x"].sum(dtype=np.float64)), shared["empty"].shape, shared["f"].shape

    found = values(task, data, workers=2)
    assert {one.problem for one in found} == {""}
    assert {one.value[0] for one in found} == {"memmap"}
    assert data["x"][0] == 0
    assert not list(tmp_path.glob("miaudit-*"))


@pytest.mark.long
def test_jobs_use_one_thread() -> None:
    def task(shared, job):
        from threadpoolctl import threadpool_info

        np.ones((50, 50)) @ np.ones((50, 50))
        return max((pool["num_threads"] for pool in threadpool_info()), default=1)

    assert {one.value for one in values(task, None, workers=2)} == {1}
    assert {one.value for one in values(task, None)} == {1}


@pytest.mark.long
def test_what_cannot_be_sent_is_refused() -> None:
    lock = threading.Lock()
    with pytest.raises(InputError, match="task: expected functions and data that can be sent to other processes"):
        values(lambda shared, job: lock, None, workers=2)
    found = values(lambda shared, job: threading.Lock() if job == 1 else job, None, workers=2)
    assert "pickle" in found[1].problem
    assert found[2].value == 2


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"executor": "rya"}, "executor: expected local, ray or ray:ADDRESS, received 'rya'; did you mean ray"),
        ({"executor": "local:3"}, "executor"),
        ({"workers": 0}, "workers: .*at least 1"),
        ({"executor": "ray", "workers": 0}, "workers"),
    ],
)
def test_bad_options(options, message: str) -> None:
    with pytest.raises(InputError, match=message):
        values(draw_here(), np.arange(7.0), **options)


def test_names_of_executors() -> None:
    assert executor.chosen("ray", 2) == executor.Ray("", 2)
    assert executor.chosen("ray://head:10001", 2) == executor.Ray("ray://head:10001", 2)
    assert executor.chosen("ray:ray://head:1") == executor.Ray("ray://head:1", 1)
    assert executor.chosen(executor.Local(3)) == executor.Local(3)
    assert executor.chosen("local", 2, threads=3) == executor.Local(2, Resources(3))
    of_cluster = executor.chosen("ray", 2, address="head:1", folder=Path("here"), cpus=2)
    assert of_cluster == executor.Ray("head:1", 2, Resources(cpus=2), Path("here"))

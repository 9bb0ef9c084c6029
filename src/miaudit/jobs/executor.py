"""Many independent jobs through one door: in this process, in others on this machine, or on a Ray cluster.

A job is a function of what all jobs share (models, data; sent once) and of what is its own (a number, a seed). It draws
no random numbers but from its own seed and runs with a given number of threads, so the results are the same wherever
it runs. Each local worker is a process that is started, and if need be ended, by itself, and sees the GPUs dealt to it.
"""

from __future__ import annotations

import faulthandler
import importlib
import io
import os
import pickle
import shutil
import tempfile
import threading
import time
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from miaudit.errors import InputError, nearest, one_line
from miaudit.jobs import resources
from miaudit.jobs.outcome import DIED, Outcome, Task, Tries, attempt, too_long
from miaudit.jobs.ray_cluster import ClusterLostError, Ray, on_ray
from miaudit.jobs.resources import Resources

__all__ = ["ClusterLostError", "Local", "Outcome", "Ray", "chosen", "outcomes"]

_WATCH_SECONDS = 0.5


@dataclass(frozen=True)
class Local:
    """Processes on this machine.

    Parameters
    ----------
    workers : int, at least 1
        1 is this process itself. Others start afresh, so what is sent must survive the journey (be picklable).
    each : what each job is given; with a time limit or a number of GPUs one worker is another process, too
    deals : whether the GPUs of this machine are dealt to the workers; if not, each sees all of them
    """

    workers: int = 1
    each: Resources = Resources()  # noqa: RUF009 - a frozen record
    deals: bool = True

    def __post_init__(self) -> None:
        resources.check_workers(self.workers)


def chosen(
    executor: str | Local | Ray, workers: int = 1, *, address: str = "", folder: Path | None = None, **each: Any
) -> Local | Ray:
    """Return the executor that is meant by "local", "ray" or "ray:ADDRESS".

    Parameters
    ----------
    address, folder : of a cluster, as of :class:`Ray`
    each : what each job is given, as of :class:`miaudit.jobs.resources.Resources`

    Raises
    ------
    InputError
        For another executor, or a value outside its range.

    Examples
    --------
    >>> chosen("local", workers=2) == Local(2), chosen("ray:head:6379", workers=8) == Ray("head:6379", 8)
    (True, True)
    """
    if isinstance(executor, Local | Ray):
        return executor
    name, _, place = str(executor).partition(":")
    if name == "local" and not place:
        return Local(workers, Resources(**each))
    if name == "ray":
        named = f"{name}:{place}" if place.startswith("//") else place
        return Ray(named or address, workers, Resources(**each), folder)
    hint = nearest(name, ("local", "ray")) or "local is the default"
    raise InputError("executor", "local, ray or ray:ADDRESS", repr(executor), hint)


def outcomes(
    task: Task, shared: Any, jobs: Sequence[Any], *, executor: str | Local | Ray = "local", workers: int = 1
) -> Iterator[Outcome]:
    """Do all jobs; yield what became of each, as they finish.

    An error in a job becomes its outcome and takes no other with it; so does the death of its process, and the end of
    one that takes longer than it may. On Ray, a job lost with its node is done again elsewhere, up to three times: it
    draws from its own seed, so nothing changes.

    Parameters
    ----------
    task : function of ``shared`` and of one job
        With several processes it must be picklable (closures are).
    shared : anything picklable
        Sent once. In other processes its arrays are memory maps (on Ray: read-only ones).
    jobs : sequence
        What is different in each; small.
    executor : "local", "ray", "ray:ADDRESS", or a record
    workers : int, at least 1
        Jobs at a time, where ``executor`` is a string.

    Yields
    ------
    Outcome, in the order in which jobs finish; with one local worker in the order of the jobs

    Raises
    ------
    InputError
        For an unknown executor, a cluster that does not answer, or a task that cannot be sent.

    Examples
    --------
    >>> [one.value for one in outcomes(lambda shared, job: shared / job, 12, [1, 2, 3])]
    [12.0, 6.0, 4.0]
    >>> [one.problem for one in outcomes(lambda shared, job: shared / job, 12, [0, 3])]
    ['ZeroDivisionError: division by zero', '']
    """
    place = chosen(executor, workers)
    jobs = list(jobs)
    if isinstance(place, Ray):
        yield from on_ray(task, shared, jobs, place)
    elif (place.workers == 1 or len(jobs) < 2) and not place.each.needs_a_process:
        for number, job in enumerate(jobs):
            yield attempt(task, shared, number, job, place.each)
    else:
        yield from _in_processes(task, shared, jobs, replace(place, workers=max(1, min(place.workers, len(jobs)))))


# -- processes on this machine ---------------------------------------------------------------------------------------


def _in_processes(task: Task, shared: Any, jobs: Sequence[Any], place: Local) -> Iterator[Outcome]:
    """Run jobs in processes; one whose process dies is repeated once, alone, for others may have taken the memory."""
    seen = resources.visible() if place.deals else ()
    devices = resources.dealt(seen, place.workers, place.each.gpus)
    waiting, suspects, lost, tries = deque(range(len(jobs))), deque[int](), set[int](), Tries(place.each)
    running: dict[Future[Outcome], tuple[int, _Worker]] = {}
    with _sent(task, shared) as parcel:
        idle = [_Worker(parcel, place.each, device) for device in reversed(devices)]
        workers = list(idle)
        try:
            while waiting or suspects or running:
                while idle and (waiting or (suspects and not running)):
                    number, worker = (waiting or suspects).popleft(), idle.pop()
                    running[worker.begin(number, jobs[number])] = number, worker
                for future in wait(running, return_when=FIRST_COMPLETED).done:
                    number, worker = running.pop(future)
                    outcome = worker.outcome(future, number)
                    idle.append(worker)
                    if outcome.problem == DIED and number not in lost:
                        lost.add(number)
                        suspects.append(number)
                    elif tries.again(outcome):
                        waiting.append(number)
                    else:
                        yield replace(tries.final(outcome), losses=int(number in lost))
        finally:
            for worker in workers:
                worker.end()


class _Worker:
    """A process for one job after the other, started when there is one, and anew after it has died."""

    def __init__(self, parcel: Path, each: Resources, devices: str | None) -> None:
        self._parcel, self._each, self._devices = parcel, each, devices
        self._pool: Any = None

    def begin(self, number: int, job: Any) -> Future[Outcome]:
        try:
            return self._submit(number, job)
        except BrokenProcessPool:  # it died between two jobs
            self.end()
            return self._submit(number, job)

    def _submit(self, number: int, job: Any) -> Future[Outcome]:
        from joblib.externals.loky import ProcessPoolExecutor  # type: ignore[import-untyped]  # noqa: PLC0415

        if self._pool is None:
            variables = self._each.variables(self._devices)
            self._pool = ProcessPoolExecutor(1, env=variables, initializer=_leave_with, initargs=(os.getpid(),))
        begun: Future[Outcome] = self._pool.submit(_perform, str(self._parcel), number, job, self._each)
        return begun

    def outcome(self, future: Future[Outcome], number: int) -> Outcome:
        """What became of a job; where its process died, there is none any more."""
        try:
            return future.result()
        except BrokenProcessPool:
            self.end()
            hung = _said(_hung(self._parcel, number))
            return too_long(number, self._each, hung) if hung else Outcome(number, problem=DIED)
        except Exception as error:  # a value that cannot be sent back
            return Outcome(number, problem=one_line(f"{type(error).__name__}: {error}")[:300])

    def end(self) -> None:
        if self._pool is not None:
            self._pool.shutdown(wait=True, kill_workers=True)
            self._pool = None


def _hung(parcel: Path, number: int) -> Path:
    """Where the process of a job that takes too long says, with its last word, where it was."""
    return parcel / f"{number}.hung"


def _said(path: Path) -> str:
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
    path.unlink(missing_ok=True)
    return text


@contextmanager
def _sent(task: Task, shared: Any) -> Iterator[Path]:
    """Write what all jobs share to a folder, arrays apart so that processes map them; removed even after kill -9."""
    from joblib.externals.loky.backend import resource_tracker  # type: ignore[import-untyped]  # noqa: PLC0415

    buffers: list[pickle.PickleBuffer] = []
    try:
        body = _cloudpickle().dumps((task, shared), protocol=5, buffer_callback=buffers.append)
    except Exception as error:  # pickling runs the objects' own code
        detail = one_line(f"{error}")[:120]
        next_step = "make what they hold inside the function, or use workers=1"
        raise InputError("task", "functions and data that can be sent to other processes", detail, next_step) from error
    folder = Path(tempfile.mkdtemp(prefix="miaudit-"))
    resource_tracker.register(str(folder), "folder")
    try:
        for i, buffer in enumerate(buffers):
            (folder / f"{i}.array").write_bytes(buffer.raw())
        (folder / "shared").write_bytes(body)
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        resource_tracker.unregister(str(folder), "folder")


def _cloudpickle() -> Any:
    """Joblib brought it along until 1.5 and requires it since."""
    try:
        return importlib.import_module("cloudpickle")
    except ImportError:
        return importlib.import_module("joblib.externals.cloudpickle")


def _leave_with(parent: int) -> None:
    """End this process once its parent is gone: a killed one says no goodbye, and its workers would wait for ever."""

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(_WATCH_SECONDS)
        os._exit(1)

    if os.name == "posix":
        threading.Thread(target=watch, daemon=True).start()


_RECEIVED: dict[str, tuple[Task, Any]] = {}  # in a worker: read once, used by all its jobs


def _perform(parcel: str, number: int, job: Any, each: Resources) -> Outcome:
    if parcel not in _RECEIVED:
        _RECEIVED.clear()
        _RECEIVED[parcel] = _received(Path(parcel))
    if each.timeout is None:
        return attempt(*_RECEIVED[parcel], number, job, each)
    with _hung(Path(parcel), number).open("w") as handle:
        faulthandler.dump_traceback_later(each.timeout, exit=True, file=handle)  # needs no turn of the interpreter
        try:
            return attempt(*_RECEIVED[parcel], number, job, each)
        finally:
            faulthandler.cancel_dump_traceback_later()


def _received(folder: Path) -> tuple[Task, Any]:
    """Read what the parent process wrote just now; arrays are copy-on-write maps, so nothing is held twice."""
    count = sum(1 for _ in folder.glob("*.array"))
    files = [folder / f"{i}.array" for i in range(count)]
    buffers = [np.memmap(path, mode="c") if path.stat().st_size else bytearray() for path in files]
    unpickler = pickle.Unpickler(io.BytesIO((folder / "shared").read_bytes()), buffers=buffers)  # noqa: S301
    parcel: tuple[Task, Any] = unpickler.load()
    return parcel

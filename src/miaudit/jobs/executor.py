"""Many independent jobs through one door: in this process, in others on this machine, or on a Ray cluster.

A job is a function of what all jobs share (models, data; sent once) and of what is its own (a number, a seed). It draws
no random numbers but from its own seed and runs with one thread, so the results are the same wherever it runs.
"""

from __future__ import annotations

import importlib
import io
import os
import pickle
import shutil
import socket
import tempfile
import threading
import time
import traceback
from collections import Counter, deque
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import numpy as np
from threadpoolctl import threadpool_limits

from miaudit.errors import InputError, MiauditError, nearest, one_line

Task = Callable[[Any, Any], Any]

_DIED = "a worker process died (killed, or out of memory)"
_ONE_THREAD = dict.fromkeys(
    ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "VECLIB_MAXIMUM_THREADS", "NUMEXPR_NUM_THREADS"), "1"
)
_ANSWER_SECONDS = 3.0  # a cluster that is there answers within this; Ray itself would try for minutes
_WATCH_SECONDS = 0.5
_TRIES = 3  # on Ray: whatever job loses its process so often is to blame itself
_PORT, _CLIENT_PORT = 6379, 10001  # Ray's own defaults


@dataclass(frozen=True)
class Local:
    """Processes on this machine.

    Parameters
    ----------
    workers : int, at least 1
        1 is this process itself. Others start afresh, so what is sent must survive the journey (be picklable).
    """

    workers: int = 1

    def __post_init__(self) -> None:
        _check_workers(self.workers)


@dataclass(frozen=True)
class Ray:
    """A Ray cluster.

    Parameters
    ----------
    address : str
        "HOST:PORT" or "ray://HOST:PORT" of a cluster, whose machines need this package and the data of the jobs'
        modules installed. "" is the cluster this process is connected to, else that of the variable RAY_ADDRESS,
        else one that is started on this machine and stopped afterwards.
    workers : int, at least 1
        Most jobs at a time; each takes one CPU of the cluster.
    """

    address: str = ""
    workers: int = 1

    def __post_init__(self) -> None:
        _check_workers(self.workers)


@dataclass(frozen=True)
class Outcome:
    """What became of one job: its number in the order given, and its value, or in one line what went wrong."""

    number: int
    value: Any = None
    problem: str = ""
    where: str = ""  # the traceback


def chosen(executor: str | Local | Ray, workers: int = 1) -> Local | Ray:
    """Return the executor that is meant by "local", "ray" or "ray:ADDRESS".

    Examples
    --------
    >>> chosen("local", workers=2), chosen("ray:head:6379", workers=8)
    (Local(workers=2), Ray(address='head:6379', workers=8))
    """
    if isinstance(executor, Local | Ray):
        return executor
    name, _, address = str(executor).partition(":")
    if name == "local" and not address:
        return Local(workers)
    if name == "ray":
        return Ray(f"{name}:{address}" if address.startswith("//") else address, workers)
    hint = nearest(name, ("local", "ray")) or "local is the default"
    raise InputError("executor", "local, ray or ray:ADDRESS", repr(executor), hint)


def outcomes(
    task: Task, shared: Any, jobs: Sequence[Any], *, executor: str | Local | Ray = "local", workers: int = 1
) -> Iterator[Outcome]:
    """Do all jobs; yield what became of each, as they finish.

    An error in a job becomes its outcome and takes no other with it; so does the death of its process. On Ray, a job
    lost with its node is done again elsewhere, up to three times: it draws from its own seed, so nothing changes.

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
        yield from _on_ray(task, shared, jobs, place)
    elif place.workers == 1 or len(jobs) < 2:
        for number, job in enumerate(jobs):
            yield _attempt(task, shared, number, job)
    else:
        yield from _in_processes(task, shared, jobs, min(place.workers, len(jobs)))


def _attempt(task: Task, shared: Any, number: int, job: Any) -> Outcome:
    try:
        with threadpool_limits(1):
            return Outcome(number, task(shared, job))
    except MiauditError as error:
        return Outcome(number, problem=one_line(str(error)), where=traceback.format_exc())
    except Exception as error:  # a job may raise anything
        problem = one_line(f"{type(error).__name__}: {error}")[:300]
        return Outcome(number, problem=problem, where=traceback.format_exc())


def _check_workers(workers: int) -> None:
    if workers < 1:
        raise InputError("workers", "a number of jobs at a time, at least 1", str(workers), "1 runs one after another")


# -- processes on this machine ---------------------------------------------------------------------------------------


def _in_processes(task: Task, shared: Any, jobs: Sequence[Any], workers: int) -> Iterator[Outcome]:
    """Run jobs in a pool; where a process dies, repeat the jobs in flight one by one, so that the culprit is named."""
    with _sent(task, shared) as parcel:
        waiting, suspects = deque(range(len(jobs))), deque[int]()
        while waiting or suspects:
            alone = bool(suspects)
            lost = yield from _pool(parcel, jobs, suspects if alone else waiting, 1 if alone else workers)
            if alone:
                for number in lost:
                    yield Outcome(number, problem=_DIED)
            else:
                suspects.extend(lost)


def _pool(parcel: Path, jobs: Sequence[Any], queue: deque[int], width: int) -> Generator[Outcome, None, list[int]]:
    """Work off a queue with ``width`` processes; return the jobs that were in flight when one of these died."""
    from joblib.externals.loky import ProcessPoolExecutor  # type: ignore[import-untyped]  # noqa: PLC0415

    pool = ProcessPoolExecutor(max_workers=width, env=_ONE_THREAD, initializer=_leave_with, initargs=(os.getpid(),))
    running: dict[Future[Outcome], int] = {}
    broken = False
    try:
        while (queue or running) and not broken:
            while queue and len(running) < width:
                running[pool.submit(_perform, str(parcel), queue[0], jobs[queue[0]])] = queue[0]
                queue.popleft()
            for future in wait(running, return_when=FIRST_COMPLETED).done:
                try:
                    outcome = future.result()
                except BrokenProcessPool:
                    broken = True
                    continue
                except Exception as error:  # a value that cannot be sent back
                    outcome = Outcome(running[future], problem=one_line(f"{type(error).__name__}: {error}")[:300])
                del running[future]
                yield outcome
    except BrokenProcessPool:  # noticed on submitting
        pass
    finally:
        pool.shutdown(wait=True, kill_workers=True)
    return sorted(running.values())


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


def _perform(parcel: str, number: int, job: Any) -> Outcome:
    if parcel not in _RECEIVED:
        _RECEIVED.clear()
        _RECEIVED[parcel] = _received(Path(parcel))
    return _attempt(*_RECEIVED[parcel], number, job)


def _received(folder: Path) -> tuple[Task, Any]:
    """Read what the parent process wrote just now; arrays are copy-on-write maps, so nothing is held twice."""
    count = sum(1 for _ in folder.glob("*.array"))
    files = [folder / f"{i}.array" for i in range(count)]
    buffers = [np.memmap(path, mode="c") if path.stat().st_size else bytearray() for path in files]
    unpickler = pickle.Unpickler(io.BytesIO((folder / "shared").read_bytes()), buffers=buffers)  # noqa: S301
    found: tuple[Task, Any] = unpickler.load()
    return found


# -- a Ray cluster ---------------------------------------------------------------------------------------------------


def _on_ray(task: Task, shared: Any, jobs: Sequence[Any], place: Ray) -> Iterator[Outcome]:
    try:
        import ray  # type: ignore[import-untyped, unused-ignore]  # noqa: PLC0415
    except ImportError as error:
        raise InputError("executor", "local, where Ray is not installed", "ray", "pip install ray") from error
    with _connected(ray, place):
        try:
            parcel = ray.put((task, shared))
        except TypeError as error:  # Ray's word for what cannot be pickled
            detail = one_line(str(error))[:120]
            raise InputError("task", "functions and data that can be sent", detail, "use executor=local") from error
        remote = ray.remote(num_cpus=1, max_retries=0)(_perform_on_ray)
        waiting, running, losses = deque(range(len(jobs))), dict[Any, int](), Counter[int]()
        while waiting or running:
            while waiting and len(running) < place.workers:
                number = waiting.popleft()
                running[remote.remote(parcel, number, jobs[number])] = number
            ready, _ = ray.wait(list(running), num_returns=1)
            number = running.pop(ready[0])
            try:
                yield ray.get(ready[0])
            except _lost(ray) as error:  # with its node, or by the job's own doing: it is tried again elsewhere
                losses[number] += 1
                if losses[number] < _TRIES:
                    waiting.append(number)
                else:
                    yield Outcome(number, problem=_DIED, where=one_line(str(error)))
            except ray.exceptions.RayError as error:
                problem = one_line(f"{type(error).__name__}: {error}")[:300]
                yield Outcome(number, problem=problem, where=one_line(str(error)))


def _lost(ray: Any) -> tuple[type[Exception], ...]:
    """What Ray raises for a job whose process, node or result is gone."""
    known = ray.exceptions
    return (
        known.WorkerCrashedError,
        known.NodeDiedError,
        known.LocalRayletDiedError,
        known.ObjectLostError,
        known.OutOfMemoryError,
    )


def _perform_on_ray(parcel: tuple[Task, Any], number: int, job: Any) -> Outcome:
    return _attempt(*parcel, number, job)


@contextmanager
def _connected(ray: Any, place: Ray) -> Iterator[None]:
    """Use the cluster at hand, connect to the one at an address that answers, or start one; leave as found."""
    if ray.is_initialized() and not place.address:
        yield
        return
    if ray.is_initialized():
        raise InputError("executor", "ray, as this process is connected already", place.address, "ray.shutdown() first")
    address = place.address or os.environ.get("RAY_ADDRESS", "")
    quiet = {"log_to_driver": False, "logging_level": "ERROR"}
    if address and address != "local":
        _require_answer(address)
        try:
            ray.init(address=address, **quiet)
        except (ConnectionError, RuntimeError, ValueError, OSError) as error:
            raise _no_cluster(address, error) from error
    else:
        ray.init(address="local", num_cpus=place.workers, include_dashboard=False, **quiet)
    try:
        yield
    finally:
        ray.shutdown()


def _require_answer(address: str) -> None:
    """Knock before Ray does: it would try for minutes."""
    client = address.startswith("ray://")
    parts = urlsplit(address if client else f"//{address}")
    try:
        port = parts.port or (_CLIENT_PORT if client else _PORT)
        socket.create_connection((parts.hostname or "", port), timeout=_ANSWER_SECONDS).close()
    except (OSError, ValueError) as error:
        raise _no_cluster(address, error) from error


def _no_cluster(address: str, error: BaseException) -> InputError:
    received = f"{address}, which does not ({str(error)[:120]})"
    next_step = "check it with `ray status`, start one with `ray start --head`, or use executor: local"
    return InputError("executor", "the address of a Ray cluster that answers", received, next_step)

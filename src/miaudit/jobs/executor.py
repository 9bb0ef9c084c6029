"""Many independent jobs through one door: in this process, in others on this machine, or on a Ray cluster.

A job is a function of what all jobs share (models, data; sent once) and of what is its own (a number, a seed). It draws
no random numbers but from its own seed and runs with a given number of threads, so the results are the same wherever
it runs. Each local worker is a process that is started, and if need be ended, by itself, and sees the GPUs dealt to it.
"""

from __future__ import annotations

import faulthandler
import importlib
import io
import math
import os
import pickle
import re
import shutil
import socket
import sys
import tempfile
import threading
import time
import traceback
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import numpy as np
from threadpoolctl import threadpool_limits

from miaudit.errors import InputError, MiauditError, nearest, one_line
from miaudit.errors.extras import pip_line
from miaudit.jobs import resources, shipping
from miaudit.jobs.resources import Resources

Task = Callable[[Any, Any], Any]

_DIED = "a worker process died (killed, or out of memory)"
_ANSWER_SECONDS = 3.0  # a cluster that is there answers within this; Ray itself would try for minutes
_WATCH_SECONDS = 0.5
_TRIES = 3  # on Ray: whatever job loses its process so often is to blame itself
_COLOUR, _ABSENT = re.compile(r"\x1b\[[0-9;]*m"), re.compile(r"No module named '([\w.]+)'")
_LAST_SECONDS = 10.0  # on Ray: for a process in which a job hung to say so, and to end
_PORT, _CLIENT_PORT = 6379, 10001  # Ray's own defaults


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
        Most jobs at a time.
    each : what each job is given; CPUs, GPUs and memory are asked of the cluster
    folder : the user's folder, optional
        Its modules and small files are sent along (:mod:`miaudit.jobs.shipping`), and jobs run in their copy.
    """

    address: str = ""
    workers: int = 1
    each: Resources = Resources()  # noqa: RUF009 - a frozen record
    folder: Path | None = None

    def __post_init__(self) -> None:
        _check_workers(self.workers)


@dataclass(frozen=True)
class Outcome:
    """What became of one job: its number in the order given, and its value, or in one line what went wrong."""

    number: int
    value: Any = None
    problem: str = ""
    where: str = ""  # the traceback


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
        yield from _on_ray(task, shared, jobs, place)
    elif (place.workers == 1 or len(jobs) < 2) and not place.each.needs_a_process:
        for number, job in enumerate(jobs):
            yield _attempt(task, shared, number, job, place.each)
    else:
        yield from _in_processes(task, shared, jobs, replace(place, workers=max(1, min(place.workers, len(jobs)))))


def _attempt(task: Task, shared: Any, number: int, job: Any, each: Resources) -> Outcome:
    try:
        with threadpool_limits(each.threads), resources.with_threads(each.threads):
            return Outcome(number, task(shared, job))
    except MiauditError as error:
        return Outcome(number, problem=one_line(str(error)), where=traceback.format_exc())
    except Exception as error:  # a job may raise anything
        problem = one_line(f"{type(error).__name__}: {error}")[:300]
        return Outcome(number, problem=problem, where=traceback.format_exc())


def _too_long(number: int, each: Resources, where: str = "") -> Outcome:
    return Outcome(number, problem=f"took longer than timeout, {each.timeout:g} s, and was ended", where=where)


class _Tries:
    """Which outcomes are final: a job that failed or took too long has as many further tries as it is given."""

    def __init__(self, each: Resources) -> None:
        self._each, self._failed = each, Counter[int]()

    def again(self, outcome: Outcome) -> bool:
        self._failed[outcome.number] += bool(outcome.problem)
        return bool(outcome.problem) and self._failed[outcome.number] <= self._each.retries

    def final(self, outcome: Outcome) -> Outcome:
        if not outcome.problem or not self._each.retries:
            return outcome
        return replace(outcome, problem=f"{outcome.problem} (after {self._each.retries + 1} attempts)")


def _check_workers(workers: int) -> None:
    if workers < 1:
        raise InputError("workers", "a number of jobs at a time, at least 1", str(workers), "1 runs one after another")


# -- processes on this machine ---------------------------------------------------------------------------------------


def _in_processes(task: Task, shared: Any, jobs: Sequence[Any], place: Local) -> Iterator[Outcome]:
    """Run jobs in processes; one whose process dies is repeated once, alone, for others may have taken the memory."""
    seen = resources.visible() if place.deals else ()
    devices = resources.dealt(seen, place.workers, place.each.gpus)
    waiting, suspects, lost, tries = deque(range(len(jobs))), deque[int](), set[int](), _Tries(place.each)
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
                    if outcome.problem == _DIED and number not in lost:
                        lost.add(number)
                        suspects.append(number)
                    elif tries.again(outcome):
                        waiting.append(number)
                    else:
                        yield tries.final(outcome)
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
            return _too_long(number, self._each, hung) if hung else Outcome(number, problem=_DIED)
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
        return _attempt(*_RECEIVED[parcel], number, job, each)
    with _hung(Path(parcel), number).open("w") as handle:
        faulthandler.dump_traceback_later(each.timeout, exit=True, file=handle)  # needs no turn of the interpreter
        try:
            return _attempt(*_RECEIVED[parcel], number, job, each)
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


# -- a Ray cluster ---------------------------------------------------------------------------------------------------


def _on_ray(task: Task, shared: Any, jobs: Sequence[Any], place: Ray) -> Iterator[Outcome]:
    try:
        import ray  # type: ignore[import-untyped, unused-ignore]  # noqa: PLC0415
    except ImportError as error:
        raise InputError("executor", "local, where Ray is not installed", "ray", pip_line("ray")) from error
    with _connected(ray, place):
        try:
            parcel = ray.put((task, shared))
        except TypeError as error:  # Ray's word for what cannot be pickled
            detail = one_line(str(error))[:120]
            raise InputError("task", "functions and data that can be sent", detail, "use executor=local") from error
        remote = ray.remote(**_asked(ray, place.each))(_perform_on_ray)
        waiting, running, losses = deque(range(len(jobs))), dict[Any, int](), Counter[int]()
        tries = _Tries(place.each)
        while waiting or running:
            while waiting and len(running) < place.workers:
                number = waiting.popleft()
                running[remote.remote(parcel, number, jobs[number], place.each)] = number
            ready, _ = ray.wait(list(running), num_returns=1)
            number = running.pop(ready[0])
            try:
                outcome = ray.get(ready[0])
            except _lost(ray) as error:  # with its node, or by the job's own doing: it is tried again elsewhere
                losses[number] += 1
                if losses[number] < _TRIES:
                    waiting.append(number)
                else:
                    yield Outcome(number, problem=_DIED, where=one_line(str(error)))
                continue
            except ray.exceptions.RayError as error:
                outcome = Outcome(number, problem=_of_the_cluster(error), where=one_line(str(error)))
            if tries.again(outcome):
                waiting.append(number)
            else:
                yield tries.final(outcome)


def _of_the_cluster(error: Exception) -> str:
    """In one line what Ray says of a job that it could not run: most often that the user's module is not there."""
    message = _COLOUR.sub("", str(error))
    absent = _ABSENT.search(message)
    if absent is None:
        return one_line(f"{type(error).__name__}: {message}")[:300]
    return f"the cluster has no module {absent[1]}: put it beside the configuration file, or install it there"


def _asked(ray: Any, each: Resources) -> dict[str, Any]:
    """What is asked of Ray for each job; refused where no node has it, for which Ray itself would wait for ever."""
    needs = {"CPU": float(each.cpus or each.threads), "GPU": float(each.gpus or 0), "memory": (each.memory or 0) * 1e9}
    nodes = [node["Resources"] for node in ray.nodes() if node.get("Alive", node.get("alive", True))]
    if nodes and not any(all(node.get(name, 0) >= amount for name, amount in needs.items()) for node in nodes):
        short = next((name for name in needs if max(node.get(name, 0) for node in nodes) < needs[name]), "CPU")
        most, unit = max(node.get(short, 0) for node in nodes), 1e9 if short == "memory" else 1
        argument = {"CPU": "cpus", "GPU": "gpus"}.get(short, "memory")
        allowed = f"at most {most / unit:g}, the most that a node of the cluster has"
        raise InputError(argument, allowed, f"{needs[short] / unit:g} for each fit", "lower it, or add a node")
    options: dict[str, Any] = {"num_cpus": needs["CPU"], "num_gpus": needs["GPU"], "max_retries": 0}
    if each.memory:
        options["memory"] = int(needs["memory"])
    if each.timeout is not None:
        options["max_calls"] = 1  # a process in which a job hangs is not used again
    return options


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


def _perform_on_ray(parcel: tuple[Task, Any], number: int, job: Any, each: Resources) -> Outcome:
    if each.timeout is None:
        return _attempt(*parcel, number, job, each)
    outcomes: list[Outcome] = []
    work = threading.Thread(target=lambda: outcomes.append(_attempt(*parcel, number, job, each)), daemon=True)
    # what holds the interpreter is ended from below; Ray then says that the process died
    faulthandler.dump_traceback_later(each.timeout + _LAST_SECONDS, exit=True)
    work.start()
    work.join(each.timeout)
    if outcomes:
        faulthandler.cancel_dump_traceback_later()
        return outcomes[0]
    frame = sys._current_frames().get(work.ident or 0)
    return _too_long(number, each, "".join(traceback.format_stack(frame)))  # and this process ends


@contextmanager
def _connected(ray: Any, place: Ray) -> Iterator[None]:
    """Use the cluster at hand, connect to the one at an address that answers, or start one; leave as found."""
    if ray.is_initialized() and not place.address:
        yield
        return
    if ray.is_initialized():
        raise InputError("executor", "ray, as this process is connected already", place.address, "ray.shutdown() first")
    address = place.address or os.environ.get("RAY_ADDRESS", "")
    with shipping.packed(place.folder) as packed:
        options: dict[str, Any] = {"log_to_driver": False, "logging_level": "ERROR"}
        if packed is not None:
            options["runtime_env"] = {"working_dir": str(packed)}
        if address and address != "local":
            _require_answer(address)
            try:
                ray.init(address=address, **options)
            except (ConnectionError, RuntimeError, ValueError, OSError) as error:
                raise _no_cluster(address, error) from error
        else:
            cpus = math.ceil(place.workers * (place.each.cpus or place.each.threads))
            _start(ray, num_cpus=cpus, include_dashboard=False, **options)
        try:
            yield
        finally:
            ray.shutdown()


def _start(ray: Any, **options: Any) -> None:
    """Start a cluster here. Ray gives its node thirty seconds, which are too few on a machine with much else to do."""
    for attempt in range(_TRIES):
        try:
            ray.init(address="local", **options)
        except Exception as error:  # Ray's own, of no kind
            ray.shutdown()
            if attempt == _TRIES - 1:
                received = f"none in {_TRIES} attempts ({one_line(str(error))[:120]})"
                hint = "use executor: local, or start one with `ray start --head` and name its address"
                raise InputError("executor", "a Ray cluster that starts on this machine", received, hint) from error
        else:
            return


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

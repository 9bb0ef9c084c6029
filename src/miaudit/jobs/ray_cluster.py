"""Many independent jobs on a Ray cluster: sent, watched, done again where a node is lost, and ended in one line.

What Ray itself prints goes to a log file. A cluster that has lost its head is noticed here before Ray ends this
process, as it would after a minute.
"""

from __future__ import annotations

import atexit
import contextlib
import faulthandler
import logging
import math
import os
import re
import socket
import sys
import tempfile
import threading
import time
import traceback
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from miaudit.errors import InputError, MiauditError, one_line
from miaudit.errors.extras import pip_line
from miaudit.jobs import shipping
from miaudit.jobs.outcome import DIED, Outcome, Task, Tries, attempt, too_long
from miaudit.jobs.resources import Resources, check_workers

__all__ = ["ClusterLostError", "Ray", "on_ray"]

_ANSWER_SECONDS = 3.0  # a cluster that is there answers within this; Ray itself would try for minutes
_WATCH_SECONDS = 2.0  # between two looks at the head
_HEAD_SECONDS = 15.0  # without an answer of the head, until it counts as lost; Ray ends its driver after a minute
_GOODBYE_SECONDS = 5.0  # for Ray to close a connection to a cluster that is gone
_TRIES = 3  # whatever job loses its process so often is to blame itself
_COLOUR, _ABSENT = re.compile(r"\x1b\[[0-9;]*m"), re.compile(r"No module named '([\w.]+)'")
_LAST_SECONDS = 10.0  # for a process in which a job hung to say so, and to end
_PORT, _CLIENT_PORT = 6379, 10001  # Ray's own defaults


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
        check_workers(self.workers)


class ClusterLostError(MiauditError):
    """The cluster does not answer any more; what was finished before is whole."""


def on_ray(task: Task, shared: Any, jobs: Sequence[Any], place: Ray) -> Iterator[Outcome]:
    """Do all jobs on a cluster; as of :func:`miaudit.jobs.executor.outcomes`.

    Raises
    ------
    InputError
        For a cluster that does not answer, or a task that cannot be sent.
    ClusterLostError
        If the head of the cluster is lost while jobs run.
    """
    try:
        import ray  # type: ignore[import-untyped, unused-ignore]  # noqa: PLC0415
    except ImportError as error:
        raise InputError("executor", "local, where Ray is not installed", "ray", pip_line("ray")) from error
    with _log() as log, _connected(ray, place):
        try:
            parcel = ray.put((task, shared))
        except TypeError as error:  # Ray's word for what cannot be pickled
            detail = one_line(str(error))[:120]
            raise InputError("task", "functions and data that can be sent", detail, "use executor=local") from error
        remote = ray.remote(**_asked(ray, place.each))(_perform_on_ray)
        head = _Head(_head_of(ray, place), log)

        def begin(number: int) -> Any:
            return remote.remote(parcel, number, jobs[number], place.each)

        try:
            yield from _watched(ray, begin, len(jobs), place, head)
        except (ConnectionError, ray.exceptions.RaySystemError) as error:
            head.require()
            raise MiauditError(f"Ray: {one_line(_COLOUR.sub('', str(error)))[:200]}; log: {log.path}") from error


def _watched(ray: Any, begin: Callable[[int], Any], total: int, place: Ray, head: _Head) -> Iterator[Outcome]:
    """Keep as many jobs running as may be, and yield what becomes of each; a lost one is done again elsewhere."""
    waiting, running, losses = deque(range(total)), dict[Any, int](), Counter[int]()
    tries = Tries(place.each)
    while waiting or running:
        while waiting and len(running) < place.workers:
            number = waiting.popleft()
            running[begin(number)] = number
        ready, _ = ray.wait(list(running), num_returns=1, timeout=_WATCH_SECONDS)
        if not ready:
            head.look()
            continue
        number = running.pop(ready[0])
        try:
            outcome = ray.get(ready[0])
        except _lost(ray) as error:  # with its node, or by the job's own doing: it is tried again elsewhere
            head.require()
            losses[number] += 1
            head.log.needed = True
            if losses[number] < _TRIES:
                waiting.append(number)
            else:
                yield Outcome(number, problem=DIED, where=one_line(str(error)), losses=losses[number] - 1)
            continue
        except ray.exceptions.RayError as error:
            outcome = Outcome(number, problem=_of_the_cluster(error), where=one_line(str(error)))
        if tries.again(outcome):
            waiting.append(number)
        else:
            yield replace(tries.final(outcome), losses=losses[number])


# -- the head ----------------------------------------------------------------------------------------------------------


def _head_of(ray: Any, place: Ray) -> str:
    """Where the head of the connected cluster listens."""
    if place.address.startswith("ray://"):
        return place.address
    return str(ray.get_runtime_context().gcs_address)


@dataclass
class _Head:
    """The head of a cluster, and since when it has not answered."""

    address: str
    log: _Log
    silent_since: float = math.nan

    def look(self) -> bool:
        """Return whether it answers; raise once it has been silent for too long."""
        with contextlib.suppress(OSError, ValueError):
            _knock(self.address)
            self.silent_since = math.nan
            return True
        now = time.monotonic()
        if math.isnan(self.silent_since):
            self.silent_since = now
        if now - self.silent_since >= _HEAD_SECONDS:
            self.log.needed = self.log.stays = True
            raise ClusterLostError(f"the head of the Ray cluster at {self.address} is lost; log: {self.log.path}")
        return False

    def require(self) -> None:
        """Wait until it answers, or is lost."""
        while not self.look():
            time.sleep(0.5)


def _knock(address: str) -> None:
    client = address.startswith("ray://")
    parts = urlsplit(address if client else f"//{address}")
    port = parts.port or (_CLIENT_PORT if client else _PORT)
    socket.create_connection((parts.hostname or "", port), timeout=_ANSWER_SECONDS).close()


# -- what Ray prints ---------------------------------------------------------------------------------------------------


@dataclass
class _Log:
    """The file that Ray's own words go to: whether it is of use afterwards, and whether Ray still writes to it."""

    path: Path
    needed: bool = False
    stays: bool = False


@contextmanager
def _log() -> Iterator[_Log]:
    """Send what Ray prints to a file; what Python prints to standard error goes where it went before.

    The file is removed unless something was lost. Once a cluster is lost Ray goes on printing until this process ends,
    so standard error then stays apart.
    """
    handle, name = tempfile.mkstemp(prefix="miaudit-ray-", suffix=".log")
    log, saved, before = _Log(Path(name)), os.dup(2), sys.stderr
    with contextlib.suppress(AttributeError, OSError, ValueError):
        if before is not None and before.fileno() == 2:
            sys.stderr = os.fdopen(os.dup(saved), "w", buffering=1, encoding=before.encoding, errors="backslashreplace")
    if before is not None:
        before.flush()
    os.dup2(handle, 2)
    os.close(handle)
    try:
        yield log
    finally:
        if not log.stays:
            os.dup2(saved, 2)
            sys.stderr = before
        os.close(saved)
        if not log.needed:
            log.path.unlink(missing_ok=True)


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
        return attempt(*parcel, number, job, each)
    outcomes: list[Outcome] = []
    work = threading.Thread(target=lambda: outcomes.append(attempt(*parcel, number, job, each)), daemon=True)
    # what holds the interpreter is ended from below; Ray then says that the process died
    faulthandler.dump_traceback_later(each.timeout + _LAST_SECONDS, exit=True)
    work.start()
    work.join(each.timeout)
    if outcomes:
        faulthandler.cancel_dump_traceback_later()
        return outcomes[0]
    frame = sys._current_frames().get(work.ident or 0)
    return too_long(number, each, "".join(traceback.format_stack(frame)))  # and this process ends


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
        _into_log(ray)
        try:
            yield
        except ClusterLostError:
            _leave(ray)
            raise
        finally:
            ray.shutdown() if ray.is_initialized() else None


def _start(ray: Any, **options: Any) -> None:
    """Start a cluster here. Ray gives its node thirty seconds, which are too few on a machine with much else to do."""
    for start in range(_TRIES):
        try:
            ray.init(address="local", **options)
        except Exception as error:  # Ray's own, of no kind
            ray.shutdown()
            if start == _TRIES - 1:
                received = f"none in {_TRIES} attempts ({one_line(str(error))[:120]})"
                hint = "use executor: local, or start one with `ray start --head` and name its address"
                raise InputError("executor", "a Ray cluster that starts on this machine", received, hint) from error
        else:
            return


def _into_log(ray: Any) -> None:
    """What Ray's Python part says goes where its other parts write: to standard error below Python's."""
    for handler in logging.getLogger(ray.__name__).handlers:
        if isinstance(handler, logging.StreamHandler) and not isinstance(handler, logging.FileHandler):
            handler.setStream(_Below())


class _Below:
    """The descriptor of standard error, whatever Python's ``sys.stderr`` is."""

    def write(self, text: str) -> int:
        return os.write(2, text.encode(errors="replace"))

    def flush(self) -> None:
        pass


def _leave(ray: Any) -> None:
    """Close the connection to a cluster that is gone, for which Ray would wait, here and when this process ends."""
    atexit.unregister(ray.shutdown)
    goodbye = threading.Thread(target=ray.shutdown, daemon=True)
    goodbye.start()
    goodbye.join(_GOODBYE_SECONDS)


def _require_answer(address: str) -> None:
    """Knock before Ray does: it would try for minutes."""
    try:
        _knock(address)
    except (OSError, ValueError) as error:
        raise _no_cluster(address, error) from error


def _no_cluster(address: str, error: BaseException) -> InputError:
    received = f"{address}, which does not ({str(error)[:120]})"
    next_step = "check it with `ray status`, start one with `ray start --head`, or use executor: local"
    return InputError("executor", "the address of a Ray cluster that answers", received, next_step)

"""What each job is given: threads, CPUs, GPUs, memory and time; and how this machine's GPUs are dealt to workers."""

from __future__ import annotations

import functools
import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from itertools import takewhile

from miaudit.errors import InputError
from miaudit.errors.checks import positive

VARIABLE = "CUDA_VISIBLE_DEVICES"
LIBRARIES = (
    *("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"),
    *("VECLIB_MAXIMUM_THREADS", "NUMEXPR_NUM_THREADS"),
)
_LISTED = re.compile(r"^\s*(GPU|MIG)\s+(.*?)\s*:?\s*\(UUID: ([^)]+)\)")
_DRIVER_SECONDS = 30.0
_THREADS: ContextVar[int] = ContextVar("threads", default=1)


@dataclass(frozen=True)
class Resources:
    """What each job is given.

    Parameters
    ----------
    threads : of the libraries for linear algebra, at least 1; sums in another order have other last digits
    cpus : asked of Ray; None is ``threads``
    gpus : GPUs, or a share of one below 1. None: this machine's are dealt to its workers in turn, on Ray there is none
        With 0 a job sees no GPU.
    memory : GB asked of Ray; None asks for none
    timeout : seconds after which a job is ended, alone; None for no limit
    retries : how often a job that failed, or took longer, is tried again

    Examples
    --------
    >>> Resources(threads=4, gpus=0.5).gpus
    0.5
    >>> Resources(gpus=1.5)
    Traceback (most recent call last):
    miaudit.errors.InputError: gpus: expected a whole number, or a share below 1, received 1.5; 1 is one for each fit
    """

    threads: int = 1
    cpus: float | None = None
    gpus: float | None = None
    memory: float | None = None
    timeout: float | None = None
    retries: int = 0

    def __post_init__(self) -> None:
        for name, least in (("threads", 1), ("retries", 0)):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or value < least:
                raise InputError(name, f"a whole number from {least}", repr(value), f"{least} is the default")
        for name in ("cpus", "memory", "timeout"):
            if getattr(self, name) is not None:
                positive(name, getattr(self, name), "leave it out for the default")
        if self.gpus is not None and not (0 <= self.gpus < 1 or (self.gpus >= 1 and self.gpus == int(self.gpus))):
            hint = "1 is one for each fit"
            raise InputError("gpus", "a whole number, or a share below 1", repr(self.gpus), hint)

    @property
    def needs_a_process(self) -> bool:
        """Whether a job cannot run in the process that was started, where nothing can be hidden from it or ended."""
        return self.timeout is not None or self.gpus is not None

    def variables(self, devices: str | None = None) -> dict[str, str]:
        """What is set in the environment of a job's process; GPUs are as they are for None."""
        return {**dict.fromkeys(LIBRARIES, str(self.threads)), **({} if devices is None else {VARIABLE: devices})}


def threads() -> int:
    """How many threads the job that is at work here may use; 1 outside of any."""
    return _THREADS.get()


@contextmanager
def with_threads(number: int) -> Iterator[None]:
    """Let :func:`threads` say this number."""
    before = _THREADS.set(number)
    try:
        yield
    finally:
        _THREADS.reset(before)


# -- GPUs of this machine ----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Gpu:
    """A GPU, or a part of one (MIG), as its driver lists it."""

    uuid: str
    name: str


@functools.cache
def gpus() -> tuple[Gpu, ...]:
    """Return the GPUs that the driver of this machine lists, whether or not any library here can use them."""
    program = shutil.which("nvidia-smi")
    if program is None:
        return ()
    try:
        listing = subprocess.run(  # noqa: S603 - the driver's own program
            [program, "-L"], capture_output=True, text=True, timeout=_DRIVER_SECONDS, check=False
        ).stdout
    except (OSError, subprocess.SubprocessError):
        return ()
    return listed(listing)


def listed(said: str) -> tuple[Gpu, ...]:
    r"""Return the GPUs in what ``nvidia-smi -L`` said; the parts of one that is split, in its place.

    Examples
    --------
    >>> listed("GPU 0: NVIDIA H200 (UUID: GPU-5e1)\nGPU 1: NVIDIA H200 (UUID: GPU-7a0)\n")
    (Gpu(uuid='GPU-5e1', name='NVIDIA H200'), Gpu(uuid='GPU-7a0', name='NVIDIA H200'))
    """
    devices: list[Gpu] = []
    whole = ""
    for line in said.splitlines():
        match = _LISTED.match(line)
        if match is None:
            continue
        kind, words, uuid = match.groups()
        if kind == "GPU":
            whole = words.partition(":")[2].strip() or words
        elif devices and not devices[-1].uuid.startswith("MIG"):
            devices.pop()
        devices.append(Gpu(uuid, whole))
    return tuple(devices)


def visible(environment: Mapping[str, str] | None = None) -> tuple[str, ...]:
    """Return what this process may use, as CUDA_VISIBLE_DEVICES names them: by that variable, else all of the driver's.

    Examples
    --------
    >>> visible({"CUDA_VISIBLE_DEVICES": "2,0"}), visible({"CUDA_VISIBLE_DEVICES": ""})
    (('2', '0'), ())
    """
    setting = (os.environ if environment is None else environment).get(VARIABLE)
    if setting is None:
        return tuple(one.uuid for one in gpus())
    names = (name.strip() for name in setting.split(","))
    return tuple(takewhile(lambda name: name not in ("", "-1", "NoDevFiles"), names))  # CUDA reads no further


def dealt(seen: Sequence[str], workers: int, each: float | None) -> tuple[str | None, ...]:
    """Return CUDA_VISIBLE_DEVICES for each worker; None leaves it as it is.

    Parameters
    ----------
    seen : the GPUs that may be used
    workers : how many work side by side
    each : GPUs of each, or a share of one below 1; None deals them in turn, and several workers share one if need be

    Raises
    ------
    InputError
        For more than there are.

    Examples
    --------
    >>> dealt(["0", "1"], 3, None), dealt(["0", "1", "2", "3"], 2, 2), dealt(["0", "1"], 4, 0.5)
    (('0', '1', '0'), ('0,1', '2,3'), ('0', '1', '0', '1'))
    >>> dealt([], 2, None), dealt(["0"], 2, 0)
    ((None, None), ('', ''))
    >>> dealt(["0"], 2, 1)
    Traceback (most recent call last):
    miaudit.errors.InputError: workers: expected at most 1, with 1 of 1 GPU for each, received 2; take fewer, or a share
    of a GPU for each (gpus: 0.5)
    """
    if each is None:
        return tuple(seen[i % len(seen)] if seen else None for i in range(workers))
    if each == 0:
        return ("",) * workers
    count = f"{len(seen)} GPU{'s' * (len(seen) != 1)}"
    own = max(1, int(each))
    if own > len(seen):
        hint = "leave gpus out, or start it where there is one that the driver lists (nvidia-smi -L)"
        raise InputError("gpus", f"at most the {count} that this machine shows", f"{each:g} for each fit", hint)
    places = len(seen) // own * (1 if each >= 1 else int(1 / each + 1e-9))
    if workers > places:
        hint = "take fewer, or a share of a GPU for each (gpus: 0.5)"
        raise InputError("workers", f"at most {places}, with {each:g} of {count} for each", str(workers), hint)
    groups = [",".join(seen[i * own : (i + 1) * own]) for i in range(len(seen) // own)]
    return tuple(groups[i % len(groups)] for i in range(workers))


def check_workers(workers: int) -> None:
    """Refuse fewer than one job at a time."""
    if workers < 1:
        raise InputError("workers", "a number of jobs at a time, at least 1", str(workers), "1 runs one after another")

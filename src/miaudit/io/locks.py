"""Lock files for one process at a time; they are never renamed, replaced or deleted.

Whoever locks a file that holds something else locks an inode: once that file is replaced, a second process takes the
new inode beside the first. So what is locked is a file for nothing but that. A killed process lets go of it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from miaudit.errors import InputError, OutputError, one_line

try:
    import fcntl
except ImportError:  # not on every system: then a person must not run two at once
    fcntl = None  # type: ignore[assignment]

_FLAGS = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)


@contextmanager
def alone(path: Path, *, wait: bool = False, required: bool = True) -> Iterator[int | None]:
    """Hold a lock file against all other processes and threads; create it if missing.

    Parameters
    ----------
    path : of the lock file, in a folder that is there; a link in its place is refused
    wait : whether to wait for who holds it
    required : whether it is an error that there can be no lock: on a file system without locks, or in a folder that
        cannot be written and has no lock file. If not, the caller goes on without one

    Yields
    ------
    int or None
        A descriptor of the lock file, which may hold what is to be remembered; None without a lock.

    Raises
    ------
    BlockingIOError
        If somebody else holds it and ``wait`` is false.
    OSError
        If the file cannot be made, or locked although that is required.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder, alone(Path(folder) / ".lock"):
    ...     with alone(Path(folder) / ".lock"):
    ...         pass
    Traceback (most recent call last):
    BlockingIOError: ...
    """
    try:
        descriptor = _taken(path, wait)
    except BlockingIOError:
        raise
    except OSError:
        if required:
            raise
        descriptor = None
    try:
        yield descriptor
    finally:
        if descriptor is not None:
            _let_go(descriptor)


@contextmanager
def folder(place: Path) -> Iterator[None]:
    """Make a folder for finished work, and lock it as far as the file system allows.

    Raises
    ------
    InputError
        If another process is at work in it.
    OutputError
        If it cannot be made.
    """
    try:
        place.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OutputError(one_line(f"{place}: cannot be written ({error.strerror or error}); name another")) from error
    with ExitStack() as held:
        try:
            held.enter_context(alone(place / ".lock", required=False))
        except BlockingIOError as error:
            received = f"{place}, in which another process is at work"
            raise InputError("store", "a folder that no one else writes to", received, "wait for it") from error
        yield


@contextmanager
def unchanged(path: Path) -> Iterator[int | None]:
    """Wait until no process holds a lock file, and keep it free while reading; None without a file."""
    try:
        descriptor = os.open(path, os.O_RDONLY | _FLAGS)
    except FileNotFoundError:
        yield None
        return
    try:
        if fcntl is not None:
            with suppress(OSError):  # a file system without locks
                fcntl.flock(descriptor, fcntl.LOCK_SH)
        yield descriptor
    finally:
        _let_go(descriptor)


def _taken(path: Path, wait: bool) -> int:
    while True:
        descriptor = _opened(path)
        try:
            if fcntl is not None:
                fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
            if os.path.samestat(os.fstat(descriptor), path.lstat()):
                return descriptor
        except FileNotFoundError:  # somebody deleted it meanwhile: what was locked locks nobody out
            pass
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)


def _opened(path: Path) -> int:
    """Open a lock file for writing, or for reading where writing is not allowed."""
    try:
        return os.open(path, os.O_RDWR | os.O_CREAT | _FLAGS, 0o666)
    except OSError:
        with suppress(OSError):
            return os.open(path, os.O_RDONLY | _FLAGS)
        raise


def _let_go(descriptor: int) -> None:
    """Unlock and close; closing alone leaves the lock with forked processes."""
    if fcntl is not None:
        with suppress(OSError):
            fcntl.flock(descriptor, fcntl.LOCK_UN)
    os.close(descriptor)

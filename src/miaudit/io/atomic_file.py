"""Files that are there whole or not at all, on the disk too, and temporary names whose owner is alive or dead.

Whoever works under a temporary name holds a lock on it (``flock``), which ends with the process however that ends: so
a later run tells what a killed one left from what a living one is still at. Where a system or a file system has no such
locks, nothing is taken for a leftover, and nothing is swept.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

if sys.platform != "win32":
    import fcntl

RANDOM = "[a-z0-9_]{8}"  # of the names that tempfile makes


def write_atomically(
    path: Path, write: Callable[[Path], None], *, replace: bool = True, mode: int | None = None
) -> None:
    """Call ``write`` with a temporary name in the same folder, sync, then rename; on any error leave nothing behind.

    Parameters
    ----------
    path : where the file is to be
    write : makes the file under the name that it is given
    replace : bool
        Whether a file that is there is replaced; if not, of two processes that make one new file exactly one succeeds.
    mode : int, optional
        Its permissions, 0o600 for the owner alone; default: what the umask leaves.

    Raises
    ------
    FileExistsError
        If the file is there and ``replace`` is false.
    OSError
        If it cannot be written.

    Examples
    --------
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_atomically(Path(folder) / "a.txt", lambda target: target.write_text("whole") and None)
    ...     [(path.name, path.read_text()) for path in Path(folder).iterdir()]
    [('a.txt', 'whole')]
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    sweep(path.parent, rf"\.{re.escape(path.name)}\.{RANDOM}\.part", lambda left: left.unlink(missing_ok=True))
    with _temporary(path) as temporary:
        write(temporary)
        temporary.chmod(0o666 & ~_umask() if mode is None else mode)
        sync(temporary)
        if replace:
            temporary.replace(path)
        else:
            _place(temporary, path)
    sync(path.parent)


def sync(path: Path) -> None:
    """Have what is in a file, or which names are in a folder, put onto the disk: it outlives a failing machine then."""
    folder = path.is_dir()
    try:
        descriptor = os.open(path, os.O_RDONLY if folder else os.O_RDWR)
    except OSError:
        if folder:  # not every system opens folders
            return
        raise
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP, errno.EROFS):  # no such thing on this file system
            raise
    finally:
        os.close(descriptor)


def hold(path: Path) -> int | None:
    """Lock a file or folder that is there until the descriptor that is returned is closed.

    Returns
    -------
    int or None
        None if it is gone, or there are no locks here.

    Raises
    ------
    BlockingIOError
        If somebody alive holds it.
    """
    if sys.platform == "win32":
        return None
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
    except OSError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.path.samestat(os.fstat(descriptor), os.lstat(path)):
            return descriptor
    except BlockingIOError:
        os.close(descriptor)
        raise
    except OSError:
        pass
    os.close(descriptor)
    return None


def sweep(folder: Path, pattern: str, remove: Callable[[Path], None]) -> None:
    """Remove what dead processes left under temporary names of a pattern; those of the living are left alone."""
    form = re.compile(pattern)
    try:
        with os.scandir(folder) as entries:
            names = [entry.name for entry in entries if form.fullmatch(entry.name)]
    except OSError:
        return
    for name in names:
        with contextlib.suppress(OSError):
            descriptor = hold(folder / name)
            if descriptor is not None:
                try:
                    remove(folder / name)
                finally:
                    os.close(descriptor)


@contextlib.contextmanager
def _temporary(path: Path) -> Iterator[Path]:
    """Make a file beside ``path`` that nobody else can read yet, held while it is there."""
    held = None
    while held is None:
        made, name = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".part", dir=path.parent)
        os.close(made)
        with contextlib.suppress(BlockingIOError):  # somebody sweeps it in the moment before it is held: once more
            held = hold(Path(name))
            if held is None and Path(name).exists():
                break  # no locks here
    try:
        yield Path(name)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
    finally:
        if held is not None:
            os.close(held)


def _place(temporary: Path, path: Path) -> None:
    """Give a file its name unless something has it."""
    try:
        os.link(temporary, path)
    except FileExistsError:
        raise
    except OSError:  # a file system without links: the best that it offers
        if os.path.lexists(path):
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(path)) from None
        temporary.replace(path)
    else:
        temporary.unlink()


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask

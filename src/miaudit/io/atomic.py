"""Files and folders that are there whole or not at all, on the disk too; and lock files.

Whoever works under a temporary name holds a lock on it (``flock``), which ends with the process however that ends: so
a later run tells what a killed one left from what a living one is still at. Where a system or a file system has no such
locks, nothing is taken for a leftover, and nothing is swept.

A folder of files that belong together, replaced whole: a reader, or a kill, meets all of the old or all of the new.

The new folder is made beside the old one, and the two change places in one rename (``renameat2`` of Linux). Files of
somebody else's in the old folder come along as second names of the same files, before that rename: they are in both
folders when it happens. Where that cannot be (a mount point, the working directory, a folder that others own or keep
folders in, no such rename), the files are moved one by one inside the folder, the last one out first and in last; a
kill on the way leaves that one missing, never old beside new, and the next run puts the earlier files back.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import json
import os
import re
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

from miaudit.errors import InputError, OutputError, one_line

try:
    import fcntl
except ImportError:  # not on every system: then a person must not run two at once
    fcntl = None  # type: ignore[assignment]

_FLAGS = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)
RANDOM = "[a-z0-9_]{8}"  # of the names that tempfile makes
_FLUSHED_TOGETHER = 16


def write_atomically(
    path: Path,
    write: Callable[[Path], None],
    *,
    replace: bool = True,
    mode: int | None = None,
    sweeps: bool = True,
    durable: bool = True,
) -> None:
    """Call ``write`` with a temporary name in the same folder, sync, then rename; clean up on error.

    Parameters
    ----------
    path : where the file is to be
    write : makes the file under the name that it is given
    replace : bool
        Whether a file that is there is replaced; if not, of two processes that make one new file exactly one succeeds.
    mode : int, optional
        Its permissions, 0o600 for the owner alone; default: what the umask leaves.
    sweeps : whether what killed processes left of this file is looked for, in all names of the folder
    durable : whether to wait until it is on the disk; if not, :func:`sync_many` does so for many files together

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
    if sweeps:
        sweep(path.parent, rf"\.{re.escape(path.name)}\.{RANDOM}\.part", remove_file)
    with _temporary(path) as temporary:
        write(temporary)
        temporary.chmod(0o666 & ~_umask() if mode is None else mode)
        if durable:
            sync(temporary)
        if replace:
            temporary.replace(path)
        else:
            _place(temporary, path)
    if durable:
        sync(path.parent)


def sync_many(paths: Iterable[Path]) -> None:
    """Flush many files and the folders that they are in, side by side: a disk takes many at a time in one go."""
    from concurrent.futures import ThreadPoolExecutor

    files = list(paths)
    with ThreadPoolExecutor(_FLUSHED_TOGETHER) as pool:
        list(pool.map(sync, [*files, *dict.fromkeys(path.parent for path in files)]))


def remove_file(path: Path) -> None:
    """Remove a file, if it is there."""
    path.unlink(missing_ok=True)


def write_text(path: Path, text: str, *, replace: bool = True, mode: int | None = None) -> None:
    """Write a text file (UTF-8), as :func:`write_atomically`."""

    def write(target: Path) -> None:
        target.write_text(text, encoding="utf-8")

    write_atomically(path, write, replace=replace, mode=mode)


def write_once(path: Path, write: Callable[[Path], None], *, mode: int | None = None, what: str = "is") -> None:
    """Write a file that is never overwritten, as :func:`write_atomically`.

    Parameters
    ----------
    what : the start of what is said of an earlier one, such as "keys are"

    Raises
    ------
    OutputError
        If the file is there already, or cannot be written.
    """
    try:
        write_atomically(path, write, replace=False, mode=mode)
    except FileExistsError as error:
        raise OutputError(one_line(f"{path}: {what} there already, and kept; name another file")) from error
    except OSError as error:
        raise OutputError(one_line(f"{path}: cannot be written ({error.strerror or error})")) from error


def sync(path: Path) -> None:
    """Flush a file, or the names in a folder, to the disk."""
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
    """Lock an existing file or folder until the returned descriptor is closed.

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
    """Remove temporary files of dead processes by pattern; those of live processes stay."""
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
    """Make a private file beside ``path``, locked while it exists."""

    def make() -> str:
        handle, name = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".part", dir=path.parent)
        os.close(handle)
        return name

    temporary, held = _held(make)
    try:
        yield temporary
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    finally:
        if held is not None:
            os.close(held)


@contextlib.contextmanager
def scratch(prefix: str, folder: Path | None) -> Iterator[Path]:
    """Make a folder for temporary files, locked while it exists, so that :func:`sweep` removes what a kill left."""
    folder_path, held = _held(lambda: tempfile.mkdtemp(prefix=prefix, dir=folder))
    try:
        yield folder_path
    finally:
        shutil.rmtree(folder_path, ignore_errors=True)
        if held is not None:
            os.close(held)


def _held(make: Callable[[], str]) -> tuple[Path, int | None]:
    """Make a temporary file or folder and lock it, where there are locks."""
    while True:
        place = Path(make())
        with contextlib.suppress(BlockingIOError):  # somebody sweeps it in the moment before it is held: once more
            held = hold(place)
            if held is not None or place.exists():
                return place, held


def _place(temporary: Path, path: Path) -> None:
    """Rename a file unless the name is taken."""
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


_WORKSHOP = rf"\.audit-{RANDOM}\.part"
_NAMES = "names.json"  # which files a workshop is about
_NEW, _OLD = "new", "old"  # folders that are exchanged
_LEAVING, _LEFT = "leaving", "left"  # files that are moved: not yet all of them, all of them
_Move = Callable[[Path, Path], object]
_PATIENCE = 60.0  # seconds to wait for somebody else's rename
_HERE, _EXCHANGE = -100, 2  # AT_FDCWD and RENAME_EXCHANGE of Linux


def replace_folder(out: Path, owned: Sequence[str], make: Callable[[Path], None], check: Callable[[], None]) -> None:
    """Replace the earlier set of files in a folder by a new one; other files stay.

    Parameters
    ----------
    out : where they go; made if it is missing, and followed if it is a link
    owned : relative paths that the files may have, in at most one folder below ``out``
        An earlier file of such a name that has no successor is dropped. The last one says that the set is complete.
    make : fills an empty folder
    check : raises if ``out`` must not be replaced
        Called when the files are made, while no other process replaces anything there: of several that were asked for
        one new folder, exactly one finds it free.

    Raises
    ------
    OSError
        If something cannot be written; everything is then as before.
    """
    out = Path(os.path.realpath(out))
    out.parent.mkdir(parents=True, exist_ok=True)
    with _workshop(out if out.exists() and _rooted(out) else out.parent, owned) as workshop:
        new = workshop / _NEW
        new.mkdir()
        make(new)
        for path in (*new.rglob("*"), new):
            sync(path)
        with turn(out.parent):
            check()
            if not os.path.lexists(out):
                new.rename(out)
            elif workshop.parent == out:
                _move(workshop, owned)
            elif not _exchanged(workshop, out, owned):
                with _workshop(out, owned) as inside:
                    _bring(owned, new, inside / _NEW, move=shutil.move)
                    _move(inside, owned)
            sync(out.parent)


def recover(out: Path) -> None:
    """Undo what a killed process left unfinished in a folder, and remove its leftovers."""
    out = Path(os.path.realpath(out))
    if out.parent.is_dir():
        with turn(out.parent):
            for place in (out, out.parent):
                sweep(place, _WORKSHOP, _finish)


@contextlib.contextmanager
def _workshop(place: Path, owned: Sequence[str]) -> Iterator[Path]:
    """Make a hidden folder, locked while it exists."""
    workshop, held = _held(lambda: tempfile.mkdtemp(prefix=".audit-", suffix=".part", dir=place))
    try:
        (workshop / _NAMES).write_text(json.dumps(list(owned)), encoding="utf-8")
        yield workshop
    finally:
        _finish(workshop)
        if held is not None:
            os.close(held)


@contextlib.contextmanager
def turn(folder: Path) -> Iterator[None]:
    """Wait until no other process replaces files in a folder; without locks, go on at once."""
    until = time.monotonic() + _PATIENCE
    while True:
        try:
            held = hold(folder)
            break
        except BlockingIOError:
            if time.monotonic() > until:
                raise TimeoutError(f"another process has held {folder} for {_PATIENCE:g} seconds") from None
            time.sleep(0.02)
    try:
        yield
    finally:
        if held is not None:
            os.close(held)


def _rooted(out: Path) -> bool:
    """Return whether a folder must keep its identity."""
    try:
        inside = Path.cwd().is_relative_to(out)
    except OSError:  # the working directory was deleted
        inside = False
    return inside or out.is_mount() or not os.access(out.parent, os.W_OK | os.X_OK)


def _exchanged(workshop: Path, out: Path, owned: Sequence[str]) -> bool:
    """Exchange the old folder for the new one; return False, with nothing changed, if impossible."""
    new, old = workshop / _NEW, workshop / _OLD
    try:
        _carry(out, new, owned)
        new.rename(old)
        _exchange(old, out)
    except OSError:
        if old.is_dir():
            old.rename(new)
        return False
    for name in _others(old, owned):  # what came, or was saved anew, in the meantime
        if not (out / name).exists() or not (out / name).samefile(old / name):
            (old / name).replace(out / name)
    return True


def _carry(out: Path, new: Path, owned: Sequence[str]) -> None:
    """Link everything else in a folder into the new one, with owner and permissions."""
    for name in _others(out, owned):
        if (out / name).is_dir() and not (out / name).is_symlink():
            raise IsADirectoryError(name)  # somebody may be at work in it
        (new / name).parent.mkdir(exist_ok=True)
        os.link(out / name, new / name, follow_symlinks=False)
    shutil.copystat(out, new)
    os.utime(new)
    was, now = out.stat(), new.stat()
    if (was.st_uid, was.st_gid) != (now.st_uid, now.st_gid):
        os.chown(new, was.st_uid, was.st_gid)


def _others(folder: Path, owned: Sequence[str]) -> list[str]:
    """Return other files in a folder and in the folders that hold ours."""
    below = {name.split("/")[0] for name in owned if "/" in name}
    names = {path.name for path in folder.iterdir()}
    inside = {name for name in names & below if not (folder / name).is_symlink()}
    names |= {f"{name}/{path.name}" for name in inside for path in (folder / name).iterdir()}
    return sorted(names - set(owned) - inside)


def _exchange(one: Path, other: Path) -> None:
    """Exchange two folders in one rename; raise OSError if the system cannot."""
    rename = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None) if sys.platform == "linux" else None
    if rename is None:
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))
    rename.argtypes = (ctypes.c_int, ctypes.c_char_p, ctypes.c_int, ctypes.c_char_p, ctypes.c_uint)
    if rename(_HERE, os.fsencode(one), _HERE, os.fsencode(other), _EXCHANGE) != 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


def _move(workshop: Path, owned: Sequence[str]) -> None:
    """Move the earlier files out, the last of them first, and the new ones in."""
    out, leaving = workshop.parent, workshop / _LEAVING
    leaving.mkdir()
    sync(workshop)
    _bring(tuple(reversed(owned)), out, leaving)
    sync(out)
    leaving.rename(workshop / _LEFT)
    _bring(owned, workshop / _NEW, out)
    for folder in {(out / name).parent for name in owned} - {out}:
        with contextlib.suppress(OSError):  # it holds something, as it mostly does
            folder.rmdir()
    sync(out)


def _put_back(workshop: Path, owned: Sequence[str]) -> None:
    """Undo an interrupted move; safe to interrupt and to repeat."""
    out, new, leaving, left = workshop.parent, workshop / _NEW, workshop / _LEAVING, workshop / _LEFT
    if left.is_dir():
        if not os.path.lexists(new / owned[-1]):
            return  # the last file is in: it was finished
        for name in owned:
            if not os.path.lexists(new / name) and not os.path.lexists(left / name):
                (out / name).unlink(missing_ok=True)  # it is new, and nothing will take its place
        left.rename(leaving)
    _bring(owned, leaving, out)


def _bring(names: Sequence[str], source: Path, target: Path, move: _Move | None = None) -> None:
    for name in names:
        if os.path.lexists(source / name):
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            (move or os.replace)(source / name, target / name)


def _finish(workshop: Path) -> None:
    """Put moved files back and remove a workshop, except files of others that exist nowhere else."""
    try:
        owned = json.loads((workshop / _NAMES).read_text(encoding="utf-8"))
    except (OSError, ValueError):  # nothing had begun
        shutil.rmtree(workshop, ignore_errors=True)
        return
    _put_back(workshop, owned)
    old = workshop / _OLD
    for path in sorted(old.rglob("*"), reverse=True):
        if path.is_dir() and not path.is_symlink():
            with contextlib.suppress(OSError):
                path.rmdir()
        elif path.relative_to(old).as_posix() in owned or path.lstat().st_nlink > 1:
            path.unlink()
    with contextlib.suppress(OSError):
        old.rmdir()
    if not old.exists():
        shutil.rmtree(workshop, ignore_errors=True)


# -- lock files ------------------------------------------------------------------------------------------------------
#
# For one process at a time; they are never renamed, replaced or deleted. Whoever locks a file that holds something else
# locks an inode: once that file is replaced, a second process takes the new inode beside the first. So what is locked
# is a file for nothing but that. A killed process lets go of it.


@contextlib.contextmanager
def locked(path: Path, *, wait: bool = False, required: bool = True) -> Iterator[int | None]:
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
    >>> with tempfile.TemporaryDirectory() as folder, locked(Path(folder) / ".lock"):
    ...     with locked(Path(folder) / ".lock"):
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


@contextlib.contextmanager
def locked_folder(place: Path, lock: str = ".lock") -> Iterator[None]:
    """Make a folder for finished work, and lock it as far as the file system allows, by a file of that name.

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
    with contextlib.ExitStack() as held:
        try:
            held.enter_context(locked(place / lock, required=False))
        except BlockingIOError as error:
            received = f"{place}, in which another process is at work"
            raise InputError("store", "a folder that no one else writes to", received, "wait for it") from error
        yield


@contextlib.contextmanager
def unchanged(path: Path) -> Iterator[int | None]:
    """Wait until no process holds a lock file, and keep it free while reading; None without a file."""
    try:
        descriptor = os.open(path, os.O_RDONLY | _FLAGS)
    except FileNotFoundError:
        yield None
        return
    try:
        if fcntl is not None:
            with contextlib.suppress(OSError):  # a file system without locks
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
        with contextlib.suppress(OSError):
            return os.open(path, os.O_RDONLY | _FLAGS)
        raise


def _let_go(descriptor: int) -> None:
    """Unlock and close; closing alone leaves the lock with forked processes."""
    if fcntl is not None:
        with contextlib.suppress(OSError):
            fcntl.flock(descriptor, fcntl.LOCK_UN)
    os.close(descriptor)

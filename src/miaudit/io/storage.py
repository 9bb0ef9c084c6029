"""Where finished work is kept: a folder on a disk, or a prefix of an object store that fsspec reaches.

This is the one place that knows of URLs. A file is written whole or not at all: on a disk under a temporary name that
is renamed, in an object store by one put, which is atomic there. Of the storage that fsspec reaches only object stores
are used, since others show half of a file while it is written. Nothing that is read is unpickled.
"""

from __future__ import annotations

import atexit
import contextlib
import hashlib
import io
import re
import shutil
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from typing import IO, Any
from urllib.parse import unquote, urlsplit

import numpy as np
from numpy.typing import NDArray

from miaudit.errors import InputError, OutputError, one_line
from miaudit.errors.extras import pip_line
from miaudit.io import atomic

__all__ = ["Disk", "ObjectStore", "Place", "below", "folder", "resolved", "verified", "write_array"]

_PACKAGES = {
    **dict.fromkeys(("s3", "s3a"), "s3fs"),
    **dict.fromkeys(("gs", "gcs"), "gcsfs"),
    **dict.fromkeys(("az", "abfs", "abfss"), "adlfs"),
    "memory": "",
}  # schemes of object stores, and the package that fsspec needs for each
_URL = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://")
_MARK = b"sha256"
_TRAILER = len(_MARK) + 32
BESIDE = 128 + _TRAILER  # bytes of a file beside its numbers
_BLOCK = 1 << 24
_TOGETHER = 1 << 28  # bytes that are fetched at a time
_COPIES = "miaudit-store-"


def _scheme(place: object) -> str:
    match = _URL.match(place) if isinstance(place, str) else None
    return match[1].lower() if match else ""


def resolved(base: Path, place: str) -> str | Path:
    """Return a place that a configuration file in the folder ``base`` names: a URL as it is, else a path.

    Examples
    --------
    >>> resolved(Path("/here"), "store"), resolved(Path("/here"), "file:///there"), resolved(Path("."), "s3://b/runs")
    (PosixPath('/here/store'), PosixPath('/there'), 's3://b/runs')
    """
    scheme = _scheme(place)
    if scheme == "file":
        parts = urlsplit(place)
        if parts.netloc not in ("", "localhost") or not parts.path:
            raise InputError("store", "file:///PATH, with three slashes", place, "write the path by itself")
        return Path(unquote(parts.path))
    return place if scheme else base / place


def below(place: Place, name: str) -> Place:
    """Return a folder below another one.

    Examples
    --------
    >>> below("s3://bucket/runs/", "stability"), below(Path("store"), "stability")
    ('s3://bucket/runs/stability', PosixPath('store/stability'))
    """
    if isinstance(place, Disk):
        return replace(place, place=place.place / name)
    return f"{place.rstrip('/')}/{name}" if isinstance(place, str) and _scheme(place) else Path(place) / name


def folder(place: Place, argument: str = "store") -> Disk | ObjectStore:
    """Open a folder of finished work; nothing is written.

    Parameters
    ----------
    place : path, or URL of an object store: s3://BUCKET/PREFIX, gs://, az://, abfs://, or file:///PATH

    Raises
    ------
    InputError
        For another scheme, a password in the URL, or a package that is not installed.
    """
    if isinstance(place, Disk):
        return place
    text = str(place)
    scheme = _scheme(text)
    if not scheme or scheme == "file":
        return Disk(Path(resolved(Path(), text)) if scheme else Path(place))
    known = [f"{name}://" for name in _PACKAGES if name != "memory"]
    if scheme not in _PACKAGES:
        allowed = f"a folder, or a URL that starts with file:// or {', '.join(known)}"
        hint = "others do not write a file whole or not at all"
        raise InputError(argument, allowed, f"{scheme}://...", hint)
    if urlsplit(text).password is not None:
        hint = "set them in the environment, where the storage's own package finds them"
        raise InputError(argument, "a URL without a password", f"{scheme}://...", hint)
    return ObjectStore(text.rstrip("/"), *_opened(text, scheme, argument))


def _opened(url: str, scheme: str, argument: str) -> tuple[Any, str]:
    """The file system of a URL, and the path in it."""
    package = _PACKAGES[scheme]
    allowed = f"a folder, or {scheme}:// where its package is installed"
    line = f"{pip_line('storage')}{' ' * bool(package)}{package}"
    try:
        filesystem, path = import_module("fsspec.core").url_to_fs(url)
    except ImportError as error:
        raise InputError(argument, allowed, url, line) from error
    except Exception as error:  # of the storage's own package
        raise InputError(argument, "a URL that can be opened", f"{url} ({_reason(error)})", "check it") from error
    return filesystem, path.rstrip("/")


@dataclass(frozen=True)
class Disk:
    """A folder on a disk; other machines may share it.

    Attributes
    ----------
    durable : whether each file is flushed to the disk at once; a scratch folder has no need of it
    """

    place: Path
    durable: bool = True
    shared = False

    def __str__(self) -> str:
        return str(self.place)

    def names(self) -> set[str]:
        """Names of the files in it, but for hidden ones; none where it is missing."""
        with contextlib.suppress(FileNotFoundError):
            return {path.name for path in self.place.iterdir() if path.name[0] != "."}
        return set()

    def read(self, name: str) -> bytes:
        """Bytes of a small file.

        Raises
        ------
        FileNotFoundError
        """
        return (self.place / name).read_bytes()

    def write(self, name: str, write: Any) -> None:
        """Call ``write`` with an open file, under a temporary name; then rename it."""

        def fill(path: Path) -> None:
            with path.open("wb") as handle:
                write(handle)

        try:
            atomic.write_atomically(self.place / name, fill, sweeps=False, durable=self.durable)
        except OSError as error:
            raise _unwritable(f"{self.place / name}", error) from error

    def remove(self, name: str) -> None:
        """Remove a file, if it is there."""
        (self.place / name).unlink(missing_ok=True)

    def path(self, name: str) -> Path:
        """Where a file is, or would be."""
        return self.place / name

    def fetched(self, names: Iterable[str]) -> Iterator[tuple[str, Path]]:
        """Yield each file that is there, by name, with its path on this machine."""
        there = self.names()
        return ((name, self.place / name) for name in names if name in there)


Place = str | Path | Disk  # of a store, as it is named


@dataclass(frozen=True, eq=False)
class ObjectStore:
    """A prefix of an object store. What was read or written is copied to this machine, until the process ends."""

    url: str
    filesystem: Any
    prefix: str
    shared = True

    def __str__(self) -> str:
        return self.url

    def names(self) -> set[str]:
        """As of :class:`Disk`."""
        return set(self._sizes())

    def _sizes(self) -> dict[str, int]:
        try:
            self.filesystem.invalidate_cache()  # another machine may have written
            entries = self.filesystem.ls(self.prefix, detail=True)
        except FileNotFoundError:
            return {}
        except Exception as error:  # of the storage's own package
            raise self._unreadable(self.url, error) from error
        files = [entry for entry in entries if entry["type"] == "file"]
        sizes = {entry["name"].rpartition("/")[2]: int(entry["size"] or 0) for entry in files}
        sizes.pop("", None)  # an object that stands for the folder, as consoles make one
        return sizes

    def read(self, name: str) -> bytes:
        """As of :class:`Disk`."""
        try:
            return bytes(self.filesystem.cat_file(f"{self.prefix}/{name}"))
        except FileNotFoundError:
            raise
        except Exception as error:  # of the storage's own package
            raise self._unreadable(f"{self.url}/{name}", error) from error

    def write(self, name: str, write: Any) -> None:
        """Call ``write`` with an open file in memory, and put it."""
        buffer = io.BytesIO()
        write(buffer)
        try:
            self.filesystem.pipe_file(f"{self.prefix}/{name}", buffer.getvalue())
        except Exception as error:  # of the storage's own package
            raise _unwritable(
                f"{self.url}/{name}", error, "check its name, your credentials and the network"
            ) from error
        self.path(name).write_bytes(buffer.getbuffer())

    def remove(self, name: str) -> None:
        """As of :class:`Disk`."""
        with contextlib.suppress(FileNotFoundError):
            self.filesystem.rm_file(f"{self.prefix}/{name}")

    def path(self, name: str) -> Path:
        """Where the copy of a file is, or would be."""
        own = _copies() / hashlib.sha256(self.url.encode()).hexdigest()[:16]
        own.mkdir(exist_ok=True)
        return own / name

    def fetched(self, names: Iterable[str]) -> Iterator[tuple[str, Path]]:
        """As of :class:`Disk`; many files are fetched together, up to a quarter of a gigabyte."""
        sizes = self._sizes()
        waiting, together = [name for name in names if name in sizes], list[str]()
        for i, name in enumerate(waiting):
            together.append(name)
            if i + 1 == len(waiting) or sum(sizes[one] for one in together) + sizes[waiting[i + 1]] > _TOGETHER:
                yield from self._fetch(together)
                together = []

    def _fetch(self, names: list[str]) -> Iterator[tuple[str, Path]]:
        try:  # as ranges, since cat() would take a name with brackets for a pattern
            paths = [f"{self.prefix}/{name}" for name in names]
            contents = self.filesystem.cat_ranges(paths, None, None, on_error="return")
        except Exception as error:  # of the storage's own package
            raise self._unreadable(self.url, error) from error
        for name, content in zip(names, contents, strict=True):
            if isinstance(content, FileNotFoundError):  # gone since it was listed
                continue
            if isinstance(content, BaseException):  # not readable just now, which is no reason to train it again
                raise self._unreadable(f"{self.url}/{name}", content) from content
            self.path(name).write_bytes(content)
            yield name, self.path(name)

    @staticmethod
    def _unreadable(place: str, error: BaseException) -> InputError:
        received = f"{place}, which cannot be read ({_reason(error)})"
        hint = "check its name, your credentials and the network"
        return InputError("store", "a place that can be read", received, hint)


def _reason(error: BaseException) -> str:
    reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
    return one_line(str(reason))[:200]


def _unwritable(place: str, error: BaseException, hint: str = "free space, or mend what it says") -> OutputError:
    message = (
        f"{place}: cannot be written ({_reason(error)}); what was finished before is kept there: {hint}, and run again"
    )
    return OutputError(one_line(message))


_COPIED: list[Path] = []


def _copies() -> Path:
    """The folder of copies of this process; removed when it ends, or by the next one if it was killed."""
    if not _COPIED:
        place = Path(tempfile.gettempdir())
        atomic.sweep(place, f"{_COPIES}{atomic.RANDOM}", lambda left: shutil.rmtree(left, ignore_errors=True))
        held = contextlib.ExitStack()
        _COPIED.append(held.enter_context(atomic.scratch(_COPIES, place)))
        atexit.register(held.close)
    return _COPIED[0]


# -- arrays with a digest ----------------------------------------------------------------------------------------------


class _Hashed:
    """A file that hashes what is written to it."""

    def __init__(self, handle: IO[bytes]) -> None:
        self.handle, self.state = handle, hashlib.sha256()

    def write(self, data: Any) -> int:
        self.state.update(data)
        return self.handle.write(data)


def write_array(handle: IO[bytes], values: NDArray[Any]) -> None:
    """Write an array as .npy, and after it the SHA-256 of all that; readers of .npy do not look so far."""
    hashed = _Hashed(handle)
    np.save(hashed, values, allow_pickle=False)  # type: ignore[arg-type, unused-ignore]
    handle.write(_MARK + hashed.state.digest())


def verified(path: Path) -> bool:
    """Whether an array is whole, and has the digest that was written with it; files of older stores have none.

    The digest finds damage. Whoever can write to the store can write another digest, too.

    Examples
    --------
    >>> with tempfile.TemporaryDirectory() as place:
    ...     path = Path(place) / "a.npy"
    ...     with path.open("wb") as handle:
    ...         write_array(handle, np.arange(3.0))
    ...     whole = verified(path)
    ...     data = bytearray(path.read_bytes())
    ...     data[130] ^= 1
    ...     _ = path.write_bytes(data)
    ...     whole, verified(path), np.load(path).shape
    (True, False, (3,))
    """
    try:
        array = np.load(path, mmap_mode="r", allow_pickle=False)
        if not isinstance(array, np.memmap):
            return False
        end = array.offset + array.nbytes
        size = path.stat().st_size
        if size != end + _TRAILER:
            return bool(size == end)
        state = hashlib.sha256()
        with path.open("rb") as handle:
            while end > 0 and (block := handle.read(min(_BLOCK, end))):
                state.update(block)
                end -= len(block)
            return handle.read() == _MARK + state.digest()
    except (OSError, ValueError, EOFError):
        return False

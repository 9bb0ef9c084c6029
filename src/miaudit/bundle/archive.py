"""The archive of a bundle: equal contents give equal bytes, and untrusted archives are safe to read.

Entries are stored, not compressed, under plain names and one fixed date. The reader accepts nothing else: so no entry
can lie outside the archive, be a link, or grow when it is unpacked.
"""

from __future__ import annotations

import hashlib
import re
import stat
import struct
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from miaudit.errors import InputError, OutputError, one_line
from miaudit.io import tables

SUFFIX = ".zip"
LARGEST = 800_000_000
_MOST_ENTRIES = 16
_DATE = (1980, 1, 1, 0, 0, 0)  # the earliest that the format knows
_NAME = re.compile(r"[a-z][a-z0-9_-]{0,40}\.(json|npz|npy)")
_BLOCK = 1 << 20
# What zipfile raises for damaged archives, and for archives that were made to be damaged.
_DAMAGED = (
    *(zipfile.BadZipFile, EOFError, OSError, NotImplementedError, RuntimeError, ValueError, KeyError, struct.error),
    *(zlib.error, OverflowError, MemoryError),
)


def write(path: str | Path, entries: Mapping[str, bytes], *, before: Callable[[str], None] | None = None) -> str:
    """Write an archive, whole or not at all; return its SHA-256 in hexadecimal.

    Parameters
    ----------
    path : path ending in .zip
    entries : mapping of name to content
        Names are lower-case letters, digits, ``-`` and ``_`` with the ending json, npz or npy.
    before : function that is called with the SHA-256 when all is written and only the name is missing, optional

    Raises
    ------
    InputError
        For another ending, a name that the reader would refuse, or more bytes than it takes.
    OutputError
        If the file cannot be written.
    """
    path = tables.require_suffix(path, "bundle", (SUFFIX,))
    for name in entries:
        if not _NAME.fullmatch(name):
            raise InputError("entries", "plain file names such as plan.json", repr(name), "rename it")
    check_size(sum(map(len, entries.values())))

    def save(target: Path) -> None:
        with zipfile.ZipFile(target, "w", zipfile.ZIP_STORED) as archive:
            for name in sorted(entries):
                info = zipfile.ZipInfo(name, _DATE)
                info.external_attr = 0o644 << 16
                info.create_system = 3  # the same on every operating system
                archive.writestr(info, entries[name])
        if before is not None:
            before(sha256(target))

    try:
        tables.write_atomically(path, save)
    except OSError as error:
        reason = error.strerror or str(error)
        raise OutputError(one_line(f"--bundle {path}: cannot be written ({reason}); name another file")) from error
    return sha256(path)


def check_size(total: int) -> None:
    """Refuse to write more bytes than :func:`unpack` reads."""
    if total > LARGEST:
        received = f"{total:,} bytes"
        raise InputError("bundle", f"at most {LARGEST:,} bytes", received, "share scores only, or audit fewer records")


def sha256(path: Path) -> str:
    """Return the SHA-256 of a file, in hexadecimal."""
    with path.open("rb") as handle:
        return hashlib.file_digest(handle, "sha256").hexdigest()


def unpack(
    path: str | Path,
    into: Path,
    *,
    largest: int = LARGEST,
    first: str = "",
    agreed: Callable[[Path, Mapping[str, int]], None] | None = None,
) -> dict[str, Path]:
    """Check the entries of an archive, then write them to an empty folder and return their paths.

    Parameters
    ----------
    path : path of a .zip that may come from a stranger
    into : folder
    largest : int
        Bytes that all entries may have together.
    first : name of an entry, optional
        It must be there, and is handed to ``agreed``, with the bytes of every entry, before any other is written.

    Raises
    ------
    InputError
        If the file is no archive, damaged, or holds what a bundle never does: paths, links, compressed or encrypted
        entries, a name twice, too many or too large entries.
    """
    path = tables.existing_file(path, "bundle", (SUFFIX,))
    with _opened(path) as archive:
        entries = archive.infolist()
        _check(path, entries, largest)
        sizes = {entry.filename: entry.file_size for entry in entries}
        if first and first not in sizes:
            raise _refused(path, f"no {first}")
        placed = {}
        for entry in sorted(entries, key=lambda entry: entry.filename != first):
            placed[entry.filename] = into / entry.filename
            _copy(archive, entry, placed[entry.filename])
            if entry.filename == first and agreed is not None:
                agreed(placed[first], sizes)
    return placed


def _check(path: Path, entries: list[zipfile.ZipInfo], largest: int) -> None:
    for entry in entries:
        if not _NAME.fullmatch(entry.filename):
            raise _refused(path, f"an entry named {entry.filename!r}"[:80])
        kind = stat.S_IFMT(entry.external_attr >> 16)
        if kind not in (0, stat.S_IFREG):
            raise _refused(path, f"{entry.filename}, which is a link or no plain file")
        if entry.flag_bits & 0x1:
            raise _refused(path, f"{entry.filename}, which is encrypted")
        if entry.compress_type != zipfile.ZIP_STORED or entry.file_size != entry.compress_size:
            raise _refused(path, f"{entry.filename}, which is compressed")
    names = [entry.filename for entry in entries]
    if len(names) > _MOST_ENTRIES or len(set(names)) < len(names):
        raise _refused(path, f"{len(names)} entries, or one twice")
    total = sum(entry.file_size for entry in entries)
    if total > min(largest, path.stat().st_size):  # entries may not lie on top of each other
        raise _refused(path, f"{total:,} bytes, more than {min(largest, path.stat().st_size):,}")


def _copy(archive: zipfile.ZipFile, entry: zipfile.ZipInfo, target: Path) -> None:
    left = entry.file_size
    with archive.open(entry) as source, target.open("xb") as handle:
        while block := source.read(_BLOCK):
            left -= len(block)
            if left < 0:
                raise _refused(Path(archive.filename or "bundle"), f"{entry.filename}, longer than it says")
            handle.write(block)
    if left:
        raise _refused(Path(archive.filename or "bundle"), f"{entry.filename}, shorter than it says")


@contextmanager
def _opened(path: Path) -> Iterator[zipfile.ZipFile]:
    try:
        with zipfile.ZipFile(path) as archive:
            yield archive
    except _DAMAGED as error:
        raise _refused(path, f"a damaged archive ({one_line(str(error))[:80]})") from error


def _refused(path: Path, what: str) -> InputError:
    return InputError("bundle", "an archive as miaudit writes it", f"{path.name}: {what}", "ask for the bundle again")

"""Arrays of a bundle as .npz; reading takes no more memory than the file has bytes.

Nothing is compressed, every header is compared with the bytes that are there before an array is made, and an array has
the one type that miaudit writes: small numbers that become large ones are as good a bomb as a compressed archive.
"""

from __future__ import annotations

import io
import math
import zipfile
import zlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from miaudit.errors import InputError, one_line

Columns = dict[str, NDArray[Any]]
Allowed = Callable[[str], tuple[str, int] | None]
_MOST = 2000
# What numpy and zipfile raise for damaged files, and for files that were made to be damaged.
_DAMAGED = (
    *(OSError, EOFError, KeyError, ValueError, zipfile.BadZipFile, zlib.error, NotImplementedError, RuntimeError),
    *(SyntaxError, TypeError, MemoryError, OverflowError),
)
_TEXT, _LENGTHS = "text.bytes", "text.lengths"


def write(columns: Mapping[str, NDArray[Any]]) -> bytes:
    """Return the bytes of an .npz; equal columns give equal bytes.

    Texts go in as their UTF-8 and its lengths: one long text would widen every row of an array of text.
    """
    plain = dict(columns)
    if "text" in plain:
        texts = [str(value).encode() for value in plain.pop("text").tolist()]
        plain[_TEXT] = np.frombuffer(b"".join(texts), dtype=np.uint8)
        plain[_LENGTHS] = np.array([len(text) for text in texts], dtype=np.int64)
    handle = io.BytesIO()
    little = {name: values.astype(values.dtype.newbyteorder("<"), copy=False) for name, values in plain.items()}
    np.savez(handle, allow_pickle=False, **little)
    return handle.getvalue()


def read(path: Path, name: str, allowed: Allowed) -> Columns:
    """Read the arrays of an untrusted .npz.

    Parameters
    ----------
    path : path
    name : what to call it in an error
    allowed : function of an array's name
        It returns the type that the array must have (a letter of ``dtype.kind`` or a full name, several with ``|``)
        and its number of dimensions, or None for an array that does not belong there.

    Raises
    ------
    InputError
        If it is damaged, compressed, or holds arrays of other names, types or sizes.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            entries = _checked(archive, path.stat().st_size)
            arrays = {key: _array(archive, entry, key, allowed) for key, entry in entries.items()}
    except _DAMAGED as error:
        received = one_line(str(error))[:100] or type(error).__name__
        raise InputError(name, "arrays as miaudit writes them", received, "ask for the bundle again") from error
    if _TEXT in arrays or _LENGTHS in arrays:
        arrays["text"] = _texts(arrays.pop(_TEXT, None), arrays.pop(_LENGTHS, None), name)
    return arrays


def one(path: Path, name: str, kind: str, ndim: int) -> NDArray[Any]:
    """Read the array of an untrusted .npy, as :func:`read` does."""
    try:
        with path.open("rb") as handle:
            return _checked_array(handle, path.stat().st_size, name, (kind, ndim))
    except _DAMAGED as error:
        received = one_line(str(error))[:100] or type(error).__name__
        raise InputError(name, "an array as miaudit writes it", received, "ask for the bundle again") from error


def _checked(archive: zipfile.ZipFile, size: int) -> dict[str, zipfile.ZipInfo]:
    entries = archive.infolist()
    if len(entries) > _MOST or len({entry.filename for entry in entries}) < len(entries):
        raise ValueError(f"{len(entries)} arrays, or one twice")
    for entry in entries:
        plain = entry.compress_type == zipfile.ZIP_STORED and entry.file_size == entry.compress_size
        if not plain or entry.flag_bits & 0x1 or not entry.filename.endswith(".npy"):
            raise ValueError(f"{entry.filename[:40]!r}, which is compressed, encrypted or no array")
    total = sum(entry.file_size for entry in entries)
    if total > size:  # entries that lie on top of each other
        raise ValueError(f"arrays of {total:,} bytes in a file of {size:,}")
    return {entry.filename.removesuffix(".npy"): entry for entry in entries}


def _array(archive: zipfile.ZipFile, entry: zipfile.ZipInfo, key: str, allowed: Allowed) -> NDArray[Any]:
    kind = ("u1", 1) if key == _TEXT else ("i8", 1) if key == _LENGTHS else allowed(key)
    if kind is None:
        raise ValueError(f"{key[:40]!r}, which does not belong there")
    with archive.open(entry) as handle:
        return _checked_array(handle, entry.file_size, key, kind)


def _checked_array(handle: IO[bytes], size: int, name: str, kind: tuple[str, int]) -> NDArray[Any]:
    version = np.lib.format.read_magic(handle)
    header = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    shape, _, dtype = header(handle)
    known = {dtype.kind, f"{dtype.kind}{dtype.itemsize}"} & set(kind[0].split("|"))
    if not known or len(shape) != kind[1] or min(shape, default=0) < 0 or dtype != dtype.newbyteorder("<"):
        raise ValueError(f"{name[:40]} of type {str(dtype)[:20]} and shape {str(shape)[:40]}")
    promised = math.prod(shape) * dtype.itemsize
    if promised > size or (promised == 0 and max(shape, default=0) > size):
        raise ValueError(f"{name[:40]}, whose header promises {shape} in {size:,} bytes"[:100])
    handle.seek(0)
    array: NDArray[Any] = np.lib.format.read_array(handle, allow_pickle=False)
    return array


def _texts(content: NDArray[np.uint8] | None, lengths: NDArray[np.int64] | None, name: str) -> NDArray[Any]:
    fits = content is not None and lengths is not None and len(lengths) and bool((lengths >= 0).all())
    # Summed in Python: lengths that overflow would add up to anything.
    if not fits or content is None or lengths is None or sum(lengths.tolist()) != len(content):
        raise InputError(name, "a length for each text", "others", "ask for the bundle again")
    texts, start = np.empty(len(lengths), dtype=object), 0
    held = content.tobytes()
    try:
        for i, length in enumerate(lengths.tolist()):
            texts[i] = held[start : start + length].decode()
            start += length
    except UnicodeDecodeError as error:
        raise InputError(name, "texts in UTF-8", f"others in row {i}", "ask for the bundle again") from error
    return texts

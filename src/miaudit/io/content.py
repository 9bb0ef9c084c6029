"""What a file really is, by its first bytes, where its name says something else."""

from __future__ import annotations

import contextlib
import zipfile
from pathlib import Path

from miaudit.errors import InputError

__all__ = ["START", "refuse_other"]

START = 1024  # bytes that say what a file is
_LFS = b"version https://git-lfs.github.com/spec/"
_PAGES = (b"<!doctype", b"<html", b"<head", b"<?xml")
_TEXTS = (".csv", ".jsonl", ".json", ".yaml", ".yml", ".txt", ".gml")
_ZIPS = (".npz", ".pt", ".pth", ".ckpt", ".bin", ".zip")
# First bytes of formats that are no text: what it is, what to do, and the endings that such a file may have.
_BINARY: tuple[tuple[bytes, str, str, tuple[str, ...]], ...] = (
    (b"PK\x03\x04", "a zip archive, such as an Excel workbook", "save the table itself as .csv", _ZIPS),
    (b"\xd0\xcf\x11\xe0", "an Excel workbook", "save the table itself as .csv", ()),
    (b"PAR1", "a .parquet file", "rename it", (".parquet",)),
    (b"\x1f\x8b", "a gzip archive", "unpack it with gunzip", ()),
    (b"\x28\xb5\x2f\xfd", "a zstd archive", "unpack it", ()),
    (b"BZh", "a bzip2 archive", "unpack it", ()),
    (b"\xfd7zXZ", "an xz archive", "unpack it", ()),
    (b"\x93NUMPY", "an array", "rename it to .npy", (".npy",)),
    (b"%PDF", "a PDF document", "save the table itself as .csv", ()),
    (b"SQLite format 3", "a database", "write the table to a .csv", ()),
    (b"ARROW1", "an arrow file", "write the table to a .parquet or .csv", ()),
    (b"\x89HDF", "an HDF5 file", "write the arrays with numpy.savez", ()),
)
_TORCH = (".pt", ".pth", ".ckpt", ".bin", ".safetensors")
_WIDE = ((b"\xff\xfe\x00\x00", "UTF-32"), (b"\xff\xfe", "UTF-16"), (b"\xfe\xff", "UTF-16"))


def refuse_other(path: Path, argument: str) -> None:
    """Refuse a file that is of another kind than its name says, or only stands for one.

    Parameters
    ----------
    path : an existing file
    argument : what to call it in an error

    Raises
    ------
    InputError
        For a pointer of Git LFS, a page of HTML, an archive, and text in UTF-16.
    """
    try:
        with path.open("rb") as handle:
            start = handle.read(START)
    except OSError as error:
        received = f"{path.name}, which cannot be opened ({error.strerror})"
        raise InputError(argument, "a file that can be read", received, "check who may read it") from error
    suffix = path.suffix.lower()
    other = _other(path, start, suffix)
    if other is not None:
        raise InputError(argument, f"a {suffix} file", f"{path.name}, which is {other[0]}", other[1])


def _other(path: Path, start: bytes, suffix: str) -> tuple[str, str] | None:
    """What a file is, and the next step; None where its name may be right."""
    if start.startswith(_LFS):
        return "a pointer of Git LFS and not the file itself", "fetch the file: git lfs pull"
    if start.removeprefix(b"\xef\xbb\xbf").lstrip().lower().startswith(_PAGES):
        return "a page of HTML or XML, as a failed download leaves", "download the file itself"
    for magic, what, step, endings in _BINARY:
        known = suffix in _TEXTS or (suffix in (".npz", ".npy", ".parquet") and magic not in (b"PK\x03\x04", b"BZh"))
        if start.startswith(magic) and known and suffix not in endings:
            return what, step
    if start.startswith(b"PK\x03\x04") and suffix in (*_TORCH, ".npz"):
        return _of_torch(path, suffix)
    if suffix in _TEXTS:
        for mark, name in _WIDE:
            if start.startswith(mark):
                return f"text in {name}", "save it as UTF-8"
    return None


def _of_torch(path: Path, suffix: str) -> tuple[str, str] | None:
    """Say of an archive that it is a program of TorchScript, or weights under the name of other files."""
    with contextlib.suppress(OSError, ValueError, zipfile.BadZipFile, NotImplementedError):
        with zipfile.ZipFile(path) as archive:
            inside = {name.partition("/")[2] for name in archive.namelist()}
        if "constants.pkl" in inside:
            return "a program of TorchScript", "load it with torch.jit.load, and save model.state_dict()"
        if "data.pkl" in inside and suffix in (".npz", ".safetensors"):
            step = "save arrays with numpy.savez" if suffix == ".npz" else "rename it to .pt"
            return "a file of torch.save", step
    return None

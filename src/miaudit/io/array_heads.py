"""The first rows of arrays in .npz and .npy files: no more is read, however large the file is."""

from __future__ import annotations

import math
import zipfile
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from miaudit.io.tables import DAMAGED, check_names, existing_file, read_header, unreadable

__all__ = ["array_heads"]


def array_heads(path: str | Path, numbers: int, argument: str = "file") -> dict[str, tuple[int, NDArray[Any] | None]]:
    """Return of each array of an .npz, or of the one of a .npy, how many rows it has, and its first ones.

    Parameters
    ----------
    path : of an .npz or .npy; nothing is unpickled
    numbers : that are read of each array, at most, but for one row

    Returns
    -------
    dict
        By name; the array of a .npy has the name of the file. The rows are None where the array is no plain one of one
        or two dimensions, is empty, or lies in another order than that of its rows.

    Raises
    ------
    InputError
        If the file cannot be read.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     np.savez(f"{folder}/a.npz", loss=np.arange(1000.0))
    ...     array_heads(f"{folder}/a.npz", 3)
    {'loss': (1000, array([0., 1., 2.]))}
    """
    path = existing_file(path, argument, (".npz", ".npy"))
    try:
        if path.suffix.lower() == ".npy":
            with path.open("rb") as handle:
                return {path.stem: _head(handle, path.stat().st_size, numbers)}
        heads = []
        with zipfile.ZipFile(path) as entries:
            for entry in entries.infolist():
                with entries.open(entry) as member:
                    heads.append((entry.filename.removesuffix(".npy"), _head(member, entry.file_size, numbers)))
    except (ValueError, *DAMAGED) as error:
        raise unreadable(path, argument, error) from error
    check_names([name for name, _ in heads], path, argument)
    return dict(heads)


def _head(handle: IO[bytes], size: int, numbers: int) -> tuple[int, NDArray[Any] | None]:
    shape, by_column, dtype = read_header(handle, size)
    plain = not dtype.hasobject and dtype.names is None and 1 <= len(shape) <= 2 and 0 not in shape
    if not plain or (by_column and len(shape) == 2):
        return (shape[0] if shape else 0), None
    rows = min(shape[0], max(1, numbers // math.prod(shape[1:])))
    wanted = (rows, *shape[1:])
    return shape[0], np.frombuffer(handle.read(math.prod(wanted) * dtype.itemsize), dtype).reshape(wanted)

"""Files of somebody else before they are opened: a pipe would never answer, and a giant would fill the memory."""

from __future__ import annotations

import stat
from pathlib import Path

from miaudit.errors import InputError

__all__ = ["checked", "read_text"]

_LARGEST_TEXT = 100_000_000


def checked(path: Path, argument: str, largest: float | None = None) -> Path:
    """Return the path of a plain file of at most so many bytes.

    Raises
    ------
    FileNotFoundError
        If nothing is there.
    InputError
        For a pipe, a device, a socket or a folder, and for a larger file.

    Examples
    --------
    >>> checked(Path("/dev/null"), "outputs.npy")
    Traceback (most recent call last):
    miaudit.errors.InputError: outputs.npy: expected a plain file, received null, which is a device, pipe or folder;
    write a file there
    """
    status = path.stat()
    if not stat.S_ISREG(status.st_mode):
        received = f"{path.name}, which is a device, pipe or folder"
        raise InputError(argument, "a plain file", received, "write a file there")
    if largest is not None and status.st_size > largest:
        received = f"{status.st_size:,} bytes in {path.name}"
        raise InputError(argument, f"at most {int(largest):,} bytes", received, "check what wrote it")
    return path


def read_text(path: Path, argument: str, largest: int = _LARGEST_TEXT) -> str:
    """Return the UTF-8 text of a plain file, as :func:`checked`."""
    return checked(path, argument, largest).read_text(encoding="utf-8")

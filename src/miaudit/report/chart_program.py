"""The script that draws charts inside a page, stored in the user's cache folder: making it takes over a CPU second.

It depends on the version of vl-convert alone. A stored copy counts only if it is a plain file of this user that no
other user can write, and if it has the digest that its first line states. Where no folder can be written, every run
makes it.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import stat
from collections.abc import Callable
from importlib import metadata
from pathlib import Path

from miaudit.io import atomic

__all__ = ["folder", "program", "stored"]

_LARGEST = 20_000_000


def folder() -> Path:
    """Return where it is stored: ``miaudit`` in ``$XDG_CACHE_HOME``, or in ``~/.cache``.

    Examples
    --------
    >>> folder().name
    'miaudit'
    """
    base = os.environ.get("XDG_CACHE_HOME", "")
    return (Path(base) if Path(base).is_absolute() else Path("~/.cache").expanduser()) / "miaudit"


def program(make: Callable[[], str]) -> str:
    """Return the stored script, or make it and store it."""
    text = stored()
    if text is None:
        text = make()
        _store(text)
    return text


def stored() -> str | None:
    """Return the stored script of the installed vl-convert; None where there is none that counts."""
    try:
        with _place().open("rb") as file:
            status = os.fstat(file.fileno())
            if not _is_own(status) or status.st_size > _LARGEST:
                return None
            first, _, body = file.read().partition(b"\n")
    except (OSError, RuntimeError, metadata.PackageNotFoundError):  # RuntimeError: no home folder
        return None
    return body.decode() if first == _digest(body) else None


def _store(text: str) -> None:
    body = text.encode()
    with contextlib.suppress(OSError, RuntimeError, metadata.PackageNotFoundError):
        folder().mkdir(mode=0o700, parents=True, exist_ok=True)
        atomic.write_text(_place(), f"{_digest(body).decode()}\n{text}", mode=0o600)


def _place() -> Path:
    return folder() / f"charts-{metadata.version('vl-convert-python')}.js"


def _digest(body: bytes) -> bytes:
    return b"// " + hashlib.sha256(body).hexdigest().encode()


def _is_own(status: os.stat_result) -> bool:
    """Whether a file is a plain one of this user that no other user can write."""
    plain = stat.S_ISREG(status.st_mode) and not status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    return plain and (not hasattr(os, "getuid") or status.st_uid == os.getuid())

"""What of the user's folder goes to the machines of a cluster: modules and small files, not data, stores or results."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from miaudit.errors import InputError, OutputError

LARGEST_FILE = 1 << 20
LARGEST = 100 << 20
_MARKS = ("about.json", "findings.json", "pyvenv.cfg")  # of a store, of results and of an environment


def chosen(folder: Path) -> list[Path]:
    """Return the files that are sent: of a megabyte at most, in no folder that is hidden, a store, or of results.

    Links are followed to files only. Larger files are data: name them by a path that every machine knows.

    Examples
    --------
    >>> with tempfile.TemporaryDirectory() as place:
    ...     _ = (Path(place) / "mine.py").write_text("x = 1")
    ...     _ = (Path(place) / "data.npy").write_bytes(bytes(LARGEST_FILE + 1))
    ...     [path.name for path in chosen(Path(place))]
    ['mine.py']
    """
    files: list[Path] = []
    for place, folders, names in os.walk(folder):
        here = Path(place)
        below = here != folder
        if below and any(mark in names for mark in _MARKS):
            folders.clear()
            continue
        folders[:] = sorted(name for name in folders if not name.startswith((".", "__pycache__")))
        paths = (here / name for name in sorted(names) if not name.startswith("."))
        files += [path for path in paths if path.is_file() and path.stat().st_size <= LARGEST_FILE]
    return files


@contextmanager
def packed(folder: Path | None) -> Iterator[Path | None]:
    """Copy what is sent of a folder to another one, for as long as it is needed; None stays None.

    Raises
    ------
    InputError
        For more than 100 MB.
    OutputError
        If it cannot be copied.
    """
    if folder is None:
        yield None
        return
    files = chosen(folder)
    size = sum(path.stat().st_size for path in files)
    if size > LARGEST:
        most = max(
            {path.parent for path in files}, key=lambda one: sum(f.stat().st_size for f in files if f.parent == one)
        )
        allowed = f"at most {LARGEST >> 20} MB of files up to 1 MB beside the configuration, which go to the cluster"
        received = f"{size >> 20} MB in {folder}, most of it in {most}"
        raise InputError(
            "executor", allowed, received, "keep the configuration and its modules in a folder of their own"
        )
    place = Path(tempfile.mkdtemp(prefix="miaudit-ship-"))
    try:
        for path in files:
            target = place / path.relative_to(folder)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, target)
        yield place
    except OSError as error:
        raise OutputError(
            f"{place}: the modules cannot be packed for the cluster ({error.strerror or error})"
        ) from error
    finally:
        shutil.rmtree(place, ignore_errors=True)

"""Where results go: the folder that was asked for, or the first of a default's numbers that is free."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from itertools import count
from pathlib import Path

_claimed: list[Path] = []


def results(out: Path | None, default: Path, *, overwrite: bool) -> Path:
    """Return the folder for the results of the command that is running.

    Parameters
    ----------
    out : the folder that was asked for, and is refused later if it holds results; None: none was
    default : taken where none was asked for; ``default-2``, ``default-3`` and so on where it exists. The folder is made
        here, so that of several commands each has one of its own.
    overwrite : whether earlier results are replaced; then those of the default
    """
    if out is not None or overwrite:
        return out or default
    for number in count(1):
        folder = default if number == 1 else default.with_name(f"{default.name}-{number}")
        missing = [path for path in (folder, *folder.parents) if not path.exists()]
        try:
            folder.mkdir(parents=True)
        except FileExistsError:
            if folder.parent.is_dir():
                continue
            break
        except OSError:
            break
        _claimed.extend(missing)
        return folder
    return default  # which cannot be made: whoever writes there says why


@contextlib.contextmanager
def released() -> Iterator[None]:
    """Remove folders that were made for results when a command ends without any."""
    try:
        yield
    finally:
        for folder in _claimed:  # the innermost first
            with contextlib.suppress(OSError):
                folder.rmdir()
        _claimed.clear()

"""What a collector had to say of its evidence, kept beside it: pages made from the file say it too."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from miaudit.errors import one_line

__all__ = ["columns", "read"]

NAME = "collector.notes"
_MOST, _LONGEST = 40, 1000  # of a stranger's file


def columns(notes: Sequence[str]) -> dict[str, NDArray[np.str_]]:
    """Return notes as an array of an .npz file, by its name; none where there are none.

    Examples
    --------
    >>> columns(["8 shadow models."])
    {'collector.notes': array(['8 shadow models.'], dtype='<U16')}
    """
    return {NAME: np.array([one_line(note) for note in notes], dtype=np.str_)} if notes else {}


def read(path: str | Path) -> tuple[str, ...]:
    """Return the notes of an .npz file, as what they are: somebody's word; none of any other file."""
    if Path(path).suffix.lower() != ".npz":
        return ()
    with np.load(path, allow_pickle=False) as held:
        notes = held[NAME] if NAME in held.files else np.empty(0, dtype=np.str_)
    if notes.ndim != 1 or notes.dtype.kind != "U":
        return ()
    return tuple(f"Noted when it was collected: {one_line(str(note))[:_LONGEST]}" for note in notes[:_MOST])

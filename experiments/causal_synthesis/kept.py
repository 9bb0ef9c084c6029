"""Results that are kept part by part: a run that was stopped goes on where it was, and makes nothing twice."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from miaudit.io import atomic


@dataclass(frozen=True)
class Kept:
    """A folder of results, one JSON file for each part.

    A file says what its part was made of (settings, seeds). A part of other settings is made again; that the program
    itself has changed is not seen, so remove the folder then.

    Attributes
    ----------
    folder : where the files are; it need not be there yet

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as place:
    ...     kept = Kept(Path(place))
    ...     first = kept.part("arm", {"seed": 1}, lambda half: {"value": 1})
    ...     again = kept.part("arm", {"seed": 1}, lambda half: {"value": 2})
    ...     other = kept.part("arm", {"seed": 2}, lambda half: {"value": 3})
    >>> first, again, other
    ({'value': 1}, {'value': 1}, {'value': 3})
    """

    folder: Path

    def arrays(
        self, name: str, made_of: Mapping[str, Any], make: Callable[[], Mapping[str, NDArray[Any]]]
    ) -> dict[str, NDArray[Any]]:
        """Return kept arrays, or make and keep them: as :meth:`part`, in a file of numpy's."""
        settings = json.dumps(made_of, sort_keys=True)
        path = self.folder / f"{_stem(name)}.npz"
        if path.exists():
            with np.load(path, allow_pickle=False) as held:
                if str(held["made_of"]) == settings:
                    return {key: held[key] for key in held.files if key != "made_of"}
        self.folder.mkdir(parents=True, exist_ok=True)
        found = dict(make())

        def write(target: Path) -> None:
            with target.open("wb") as handle:
                np.savez(handle, allow_pickle=False, made_of=np.array(settings), **found)

        atomic.write_atomically(path, write)
        return found

    def part(self, name: str, made_of: Mapping[str, Any], make: Callable[[Path], Any]) -> Any:
        """Return what is kept under a name, or make it and keep it.

        ``make`` gets a folder for what it wants to find again if it is stopped; once the part is whole it is removed.
        """
        settings = json.loads(json.dumps(made_of))  # as it will be read: tuples are lists
        path = self.folder / f"{_stem(name)}.json"
        if path.exists():
            held = json.loads(path.read_text(encoding="utf-8"))
            if held["made_of"] == settings:
                return held["found"]
        digest = hashlib.sha256(json.dumps(settings, sort_keys=True).encode()).hexdigest()[:12]
        half = self.folder / f"{path.stem}-unfinished-{digest}"
        self.folder.mkdir(parents=True, exist_ok=True)
        text = json.dumps({"made_of": settings, "found": make(half)}, indent=1)
        atomic.write_text(path, text + "\n")
        shutil.rmtree(half, ignore_errors=True)
        return json.loads(text)["found"]


def place(folder: Path, form: str) -> Path:
    """Where the results of a form go: each form has its own folder, so that none overwrites another.

    Examples
    --------
    >>> place(Path("results/attack"), "small").name, place(Path("results/attack"), "full").name
    ('attack', 'attack-full')
    """
    return folder if form == "small" else folder.with_name(f"{folder.name}-{form}")


def _stem(name: str) -> str:
    return name.replace(", ", "-").replace(": ", "-").replace(" ", "-")

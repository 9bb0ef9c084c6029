"""A folder of finished arrays, one file each, that belongs to one fingerprint of all that decides them."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from miaudit.errors import InputError, OutputError, one_line
from miaudit.io import atomic

_FORMAT = "miaudit store 1"
_BLOCK = 1 << 24  # bytes that are hashed at a time


@dataclass(frozen=True)
class Store:
    """Arrays by name on disk; make it with :meth:`alone`.

    Attributes
    ----------
    folder : where the files are
    fingerprint : str, 64 hexadecimal digits, of all that decides the arrays
    """

    folder: Path
    fingerprint: str

    @classmethod
    @contextmanager
    def alone(cls, folder: str | Path, decides: Mapping[str, str]) -> Iterator[Store]:
        """Open a store, or make one, and keep every other process out of it, as far as the file system can tell.

        The lock is taken before anything is read or written, and a killed process lets go of it.

        Parameters
        ----------
        folder : path
        decides : mapping from what decides the arrays ("data", "seed") to its digest or its words

        Raises
        ------
        InputError
            If the folder is a store of something else: what differs is named, and nothing is reused. Also if another
            process is at work in it.
        OutputError
            If it cannot be written.

        Examples
        --------
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     with Store.alone(folder, {"data": digest(np.arange(3)), "seed": "0"}):
        ...         pass
        ...     with Store.alone(folder, {"data": digest(np.arange(3)), "seed": "1"}):
        ...         pass
        Traceback (most recent call last):
        miaudit.errors.InputError: store: expected a folder of the same seed, received ... made with another;
        name another folder, or delete this one
        """
        place = Path(folder)
        cls._of(place, decides)  # what is no store, or another one, is left as it is
        with atomic.locked_folder(place):
            opened, known, given = cls._of(place, decides)
            for left in place.glob(".*.part"):  # of a process that was killed while writing
                left.unlink(missing_ok=True)
            if known is None:
                decided = {"format": _FORMAT, "fingerprint": opened.fingerprint, "decides": given}
                text = json.dumps(decided, indent=1) + "\n"
                opened._write("about.json", lambda path: path.write_text(text, encoding="utf-8"))
            yield opened

    @classmethod
    def found(cls, folder: str | Path, decides: Mapping[str, str]) -> Store | None:
        """Open the store that is there, or None where :meth:`alone` would make one; nothing is written.

        Raises
        ------
        InputError
            If the folder is a store of something else.
        """
        opened, known, _ = cls._of(Path(folder), decides)
        return None if known is None else opened

    @classmethod
    def _of(cls, place: Path, decides: Mapping[str, str]) -> tuple[Store, dict[str, str] | None, dict[str, str]]:
        """The store that a folder is or can become; what decides its arrays as it says, or None; and as given."""
        if place.exists() and not place.is_dir():
            raise InputError("store", "a folder", f"the file {place}", "name a folder")
        given = {str(name): str(value) for name, value in decides.items()}
        # listed before it is read: a store that is made between the two is no folder with other files
        others = place.is_dir() and any(path.name[0] != "." for path in place.iterdir())
        known = _read_about(place)
        if known is None and others:
            raise InputError("store", "a store or an empty folder", f"{place} with other files", "name a new folder")
        if known is not None and known != given:
            names = [name for name in {**given, **known} if known.get(name) != given.get(name)]
            received = f"{place}, made with another"
            raise InputError(
                "store",
                f"a folder of the same {' and '.join(names)}",
                received,
                "name another folder, or delete this one",
            )
        fingerprint = hashlib.sha256(json.dumps([_FORMAT, sorted(given.items())]).encode()).hexdigest()
        return cls(place, fingerprint), known, given

    def path(self, name: str) -> Path:
        """Where the array of this name is, or would be; the fingerprint is in it, so no stale file is taken for it."""
        return self.folder / f"{name}-{self.fingerprint[:8]}.npy"

    def keep(self, name: str, values: NDArray[Any]) -> Path:
        """Write an array (C order); renamed into place, so a killed process leaves it whole or absent.

        Raises
        ------
        OutputError
            If it cannot be written, for want of space say; nothing of it is left behind.
        """
        array = np.ascontiguousarray(values)

        def write(path: Path) -> None:
            with path.open("wb") as handle:
                np.save(handle, array, allow_pickle=False)

        self._write(self.path(name).name, write)
        return self.path(name)

    def has(self, name: str) -> bool:
        """Whether the array is there and whole; a damaged file counts as absent."""
        try:
            self.read(name)
        except (OSError, ValueError, EOFError):
            return False
        return True

    def read(self, name: str) -> NDArray[Any]:
        """Open an array as a read-only memory map.

        Raises
        ------
        OSError, ValueError
            If it is not there, or damaged.
        """
        found: NDArray[Any] = np.load(self.path(name), mmap_mode="r", allow_pickle=False)
        return found

    def _write(self, name: str, write: Any) -> None:
        try:
            atomic.write_atomically(self.folder / name, write)
        except OSError as error:
            reason = error.strerror or str(error)
            message = (
                f"{self.folder / name}: cannot be written ({reason}); what was finished before is kept there: "
                "free space, or mend what it says, and run again"
            )
            raise OutputError(one_line(message)) from error


@dataclass(frozen=True)
class Numbered:
    """The arrays of a store by number, under one name: ``model-00003``."""

    store: Store
    name: str

    @property
    def folder(self) -> Path:
        """Where the files are."""
        return self.store.folder

    def finished(self, total: int) -> dict[int, Path]:
        """Return where the arrays are that are whole, of so many."""
        names = [f"{self.name}-{number:05d}" for number in range(total)]
        return {number: self.store.path(name) for number, name in enumerate(names) if self.store.has(name)}

    def keep(self, number: int, values: NDArray[Any]) -> Path:
        """Write an array, as :meth:`Store.keep`."""
        return self.store.keep(f"{self.name}-{number:05d}", values)


def digest(values: Any) -> str:
    """Return the SHA-256 of an array, or of a sequence of texts, numbers or arrays: values, type and shape.

    Examples
    --------
    >>> digest(np.zeros(2)) == digest([0.0, 0.0]), digest(np.zeros(2)) == digest(np.zeros(2, np.float32))
    (True, False)
    >>> digest(["ab", "c"]) == digest(["a", "bc"])
    False
    """
    state = hashlib.sha256()
    _feed(state, values)
    return state.hexdigest()


def _feed(state: Any, values: Any) -> None:
    if isinstance(values, str | bytes):
        raw = values.encode() if isinstance(values, str) else values
        state.update(f"{type(values).__name__} {len(raw)}|".encode() + raw)
        return
    ragged = isinstance(values, list | tuple) and any(
        isinstance(one, str | bytes | list | tuple | np.ndarray) for one in values
    )
    if ragged:
        state.update(f"sequence {len(values)}|".encode())
        for one in values:
            _feed(state, one)
        return
    array = np.asarray(values)
    if array.dtype == object:
        raise InputError("data", "numbers or texts", "Python objects", "pass plain arrays, or lists of texts")
    state.update(f"{array.dtype.str} {array.shape}|".encode())
    rows = array.reshape(1) if array.ndim == 0 else array
    step = max(1, _BLOCK // max(1, rows[:1].nbytes))
    for start in range(0, len(rows), step):
        state.update(np.ascontiguousarray(rows[start : start + step]).data.cast("B") if rows.size else b"")


def _read_about(folder: Path) -> dict[str, str] | None:
    """What decided the arrays of a store; None where there is no store."""
    try:
        about = json.loads((folder / "about.json").read_text(encoding="utf-8"))
        decides = about["decides"] if about["format"] == _FORMAT else {}
        return {str(name): str(value) for name, value in decides.items()}
    except FileNotFoundError:
        return None
    except (ValueError, KeyError, TypeError, AttributeError):
        return {}

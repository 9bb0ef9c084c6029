"""A release on its way from the ledger to its folder, stored whole beside the ledger; so is its first stage.

A release is written here first, then entered in the ledger, then put into the folder of results, then judged. So a run
that stops on the way, even by a kill, leaves either no entry, or an entry with its table: the same command then puts
that table in its place, at no further cost. A table without an entry was never shown, and is removed. The noisy counts
of the first of two stages are written and entered in the same order, and stay until the release has arrived.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from glob import escape
from pathlib import Path
from typing import Any

from miaudit.errors import InputError, OutputError, one_line
from miaudit.io import atomic, plain_files
from miaudit.synthesis.generators import ledger as ledgers
from miaudit.synthesis.generators.release import Release
from miaudit.synthesis.schema import TABLE_SUFFIXES

__all__ = ["EnteredRelease"]

_LOCK, _WHOLE, _FIRST = ".lock", "release", "first.json"
_NAME = re.compile("[0-9a-f]{12}")


def _name(label: str) -> str:
    return hashlib.sha256(label.encode()).hexdigest()[:12]


@dataclass(frozen=True)
class EnteredRelease:
    """The place of one release, by its label, beside a ledger.

    Attributes
    ----------
    ledger : the ledger's file
    label : of the release
    folder : hidden, beside the ledger; there only while a release is on its way
    """

    ledger: Path
    label: str
    folder: Path

    @classmethod
    def of(cls, ledger: str | Path, label: str) -> EnteredRelease:
        """Name the place for a label beside a ledger, which may be reached by a link."""
        real = Path(os.path.realpath(ledger))
        return cls(real, label, real.with_name(f".{real.name}.{_name(label)}"))

    @property
    def is_entered(self) -> bool:
        """Whether the ledger holds the release."""
        ledger = ledgers.read(self.ledger)
        return ledger is not None and ledger.has(self.label)

    @property
    def table(self) -> Path | None:
        """The table that a stopped run entered and left here; None where there is none."""
        if not (self.folder / _WHOLE).is_dir() or not self.is_entered:
            return None
        return next(path for path in (self.folder / _WHOLE).iterdir() if path.suffix in TABLE_SUFFIXES)

    @property
    def first(self) -> Mapping[str, Any] | None:
        """What :meth:`write_first` stored of a first stage that is entered and not completed; None where none is.

        Raises
        ------
        InputError
            If it is entered, and its counts are not here: nobody can draw the same noise again.
        """
        ledger = ledgers.read(self.ledger)
        if ledger is None or ledger.has(self.label) or not ledger.has(self.label, first_stage=True):
            return None
        path = self.folder / _FIRST
        try:
            content: Mapping[str, Any] = json.loads(plain_files.read_text(path, "ledger"))
            return content
        except (OSError, ValueError) as error:
            hint = "restore them, or choose another label: another first stage is another entry"
            allowed, received = f"the counts of its first stage, which is entered, in {path}", "none that can be read"
            raise InputError("ledger.label", allowed, received, hint) from error

    def write_first(self, content: Mapping[str, Any]) -> None:
        """Write the counts of a first stage, before it is entered.

        Raises
        ------
        OutputError
            If they cannot be written.
        """
        try:
            self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            atomic.write_text(self.folder / _FIRST, json.dumps(content), mode=0o600)
        except OSError as error:
            raise OutputError(one_line(f"first stage: cannot be written ({error.strerror or error})")) from error

    def forget_first(self) -> None:
        """Remove the counts of a first stage that is completed."""
        (self.folder / _FIRST).unlink(missing_ok=True)
        with contextlib.suppress(OSError):  # a release on its way is there too
            self.folder.rmdir()

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """Keep other processes from making the same release; at the end remove what is not entered.

        Raises
        ------
        InputError
            If another process is making it.
        OutputError
            If nothing can be written beside the ledger.
        """
        try:
            self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            lock = contextlib.ExitStack()
            lock.enter_context(atomic.locked(self.folder / _LOCK, required=False))
        except BlockingIOError as error:
            received = f"{self.label!r}, which another process is making"
            raise InputError("ledger.label", "a release of its own for each run", received, "wait for it") from error
        except OSError as error:
            raise OutputError(
                one_line(f"ledger {self.ledger}: cannot be written ({error.strerror or error})")
            ) from error
        with lock:
            self._sweep()
            try:
                yield
            finally:
                with contextlib.suppress(OSError, InputError):  # of a ledger that cannot be read nothing is removed
                    if self.table is None and self.first is None:
                        self.remove()

    def _sweep(self) -> None:
        """Remove releases under other labels that stopped runs left here and did not enter."""
        ledger = ledgers.read(self.ledger)
        entered = {_name(entry.label) for entry in (() if ledger is None else ledger.entries)}

        def remove(other: Path) -> None:
            with contextlib.suppress(OSError), atomic.locked(other / _LOCK):
                shutil.rmtree(other, ignore_errors=True)

        for other in self.folder.parent.glob(f".{escape(self.ledger.name)}.*"):
            is_one = _NAME.fullmatch(other.suffix[1:]) and other.is_dir() and not other.is_symlink()
            if is_one and other != self.folder and other.suffix[1:] not in entered:
                remove(other)

    def write(self, release: Release, file: str) -> None:
        """Write a release that is not entered yet, whole or not at all.

        Raises
        ------
        OutputError
            If it cannot be written.
        """
        part = self.folder / f"{_WHOLE}.part"
        try:
            for left in (part, self.folder / _WHOLE):  # by a killed run, and not entered
                shutil.rmtree(left, ignore_errors=True)
            part.mkdir(mode=0o700)
            release.save(part / file)
            atomic.sync(part)
            part.rename(self.folder / _WHOLE)
            atomic.sync(self.folder)
        except OSError as error:
            raise OutputError(one_line(f"release {file}: cannot be written ({error.strerror or error})")) from error

    def link_into(self, folder: Path) -> None:
        """Put the files of the release into a folder too: as second names, which take no space, where that can be."""
        for path in (self.folder / _WHOLE).iterdir():
            try:
                os.link(path, folder / path.name)
            except OSError:
                shutil.copyfile(path, folder / path.name)

    def remove(self) -> None:
        """Remove the table: the release has arrived, or was never entered."""
        shutil.rmtree(self.folder, ignore_errors=True)

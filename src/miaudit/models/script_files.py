"""Files that a user's command reads, by their digests: whoever edits one between two fits has two trainings."""

from __future__ import annotations

import hashlib
import shlex
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from miaudit.errors import InputError

_SKIPPED = ("__pycache__",)
Seen = tuple[int, int]  # size and time of change


@dataclass(frozen=True)
class ScriptFiles:
    """Files below a folder, by name, with the digest of each as it was when the work began.

    Attributes
    ----------
    folder : where the names start
    digests : SHA-256 of each file, by its name below the folder
    seen : size and time of the last change of each then; an equal pair saves reading it again
    """

    folder: Path
    digests: Mapping[str, str]
    seen: Mapping[str, Seen]

    @classmethod
    def of(cls, folder: Path, names: Iterable[str]) -> ScriptFiles:
        """Read the named files; a folder stands for all files below it, but for hidden ones and caches.

        Raises
        ------
        InputError
            For a file that is not there or cannot be read.
        """
        files = dict.fromkeys(file for name in names for file in _below(folder, name))
        try:
            digests = {name: file_digest(folder / name) for name in sorted(files)}
            seen = {name: _stat(folder / name) for name in digests}
        except OSError as error:
            received = f"{error.filename}, which cannot be read ({error.strerror})"
            raise InputError("target.files", "readable files", received, "check it") from error
        return cls(folder, digests, seen)

    def changed(self) -> str:
        """Return the name of the first file that is another one now, or gone; nothing while all are as they were."""
        for name, known in self.digests.items():
            path = self.folder / name
            try:
                if _stat(path) != self.seen[name] and file_digest(path) != known:
                    return name
            except OSError:
                return name
        return ""


def of_arguments(arguments: Iterable[str], folder: Path) -> list[str]:
    """Return the arguments of a command that are files below a folder, as names below it.

    Also what follows ``=`` in an option, the words of a text for a shell, and the module after ``-m``.

    Examples
    --------
    >>> of_arguments(["python", "no-such-script.py"], Path())
    []
    """
    files: list[str] = []
    before = ""
    for word in _words(arguments):
        candidates = [word, word.partition("=")[2]]
        if before == "-m":
            path = word.replace(".", "/")
            candidates = [f"{path}.py", f"{path}/__main__.py"]
        before = word
        for name in candidates:
            if name and "{" not in name and (inside := _inside(folder, name)):
                files.append(inside)
    return list(dict.fromkeys(files))


def below(path: Path, folder: Path) -> str:
    """Return the name of a file or folder below another folder; its absolute path where it is elsewhere.

    Examples
    --------
    >>> below(Path("/work/models/base"), Path("/work")), below(Path("/base"), Path("/work"))
    ('models/base', '/base')
    """
    whole = path.absolute()
    return (whole.relative_to(folder) if whole.is_relative_to(folder) else whole).as_posix()


def file_digest(path: Path) -> str:
    """Return the SHA-256 of a file."""
    with path.open("rb") as handle:
        return hashlib.file_digest(handle, "sha256").hexdigest()


def _words(arguments: Iterable[str]) -> Iterator[str]:
    for argument in arguments:
        yield argument
        if any(ch.isspace() for ch in argument):
            try:
                yield from shlex.split(argument)
            except ValueError:  # no text for a shell
                continue


def _inside(folder: Path, name: str) -> str:
    """The name below the folder of a file that is there, or nothing."""
    try:
        path = folder / name
        return path.relative_to(folder).as_posix() if ".." not in path.parts and path.is_file() else ""
    except (OSError, ValueError):
        return ""


def _below(folder: Path, name: str) -> Iterator[str]:
    path = folder / name
    if not path.is_dir():
        if not path.is_file():
            raise InputError("target.files", "files or folders that are there", f"{path}, which is not", "correct it")
        yield Path(name).as_posix()
        return
    for file in sorted(path.rglob("*")):
        parts = file.relative_to(path).parts
        if file.is_file() and not any(part.startswith(".") or part in _SKIPPED for part in parts):
            yield (Path(name) / file.relative_to(path)).as_posix()


def _stat(path: Path) -> Seen:
    status = path.stat()
    return status.st_size, status.st_mtime_ns

"""Which claims have passed on which source: a committed record, so that a shard is not run twice on the same source.

A run that passes adds the digest of all that each file of claims depends on, and its shard. Another source has another
digest, under which nothing has passed.
"""

from __future__ import annotations

import functools
import hashlib
import json
from collections.abc import Iterable
from pathlib import Path

from miaudit.models.own_code import without_words
from validity.shards import Shard

RECORD = Path("tests/validity/passed.json")
_APART = {RECORD.as_posix()}  # what a run changes itself


def digest(paths: Iterable[str], root: Path) -> str:
    """Return the digest of files and of all files of folders: names and contents, of Python what the code does."""
    named = [file for path in paths for file in _files(root / path)]
    state = hashlib.sha256()
    for file in sorted(set(named)):
        name = file.relative_to(root).as_posix()
        if name not in _APART:
            state.update(f"{name} {hashlib.sha256(_content(file)).hexdigest()}\n".encode())
    return state.hexdigest()


def _content(path: Path) -> bytes:
    """The bytes of a file; of Python the code without docstrings and comments, so that texts can be edited."""
    return _code(path.read_text(encoding="utf-8")).encode() if path.suffix == ".py" else path.read_bytes()


_code = functools.cache(without_words)  # most claims depend on the same files


def _files(path: Path) -> list[Path]:
    return [path] if path.is_file() else [file for file in path.rglob("*") if file.suffix in (".py", ".json")]


def has_passed(root: Path, file: str, source: str, shard: Shard) -> bool:
    """Return whether the claims of a file in a shard have passed on a source, by its digest."""
    return shard.number in _read(root).get(file, {}).get(source, []) and shard.total == Shard(0).total


def add(root: Path, digests: dict[str, str], shard: Shard) -> None:
    """Add a shard that has passed, by the digest of each file's source; shards of another source are given up."""
    record = _read(root)
    for file, source in digests.items():
        record[file] = {source: sorted({*record.get(file, {}).get(source, []), shard.number})}
    text = json.dumps(dict(sorted(record.items())), indent=1) + "\n"
    beside = (root / RECORD).with_suffix(".tmp")
    beside.write_text(text, encoding="utf-8")
    beside.replace(root / RECORD)


def _read(root: Path) -> dict[str, dict[str, list[int]]]:
    path = root / RECORD
    return dict(json.loads(path.read_text(encoding="utf-8"))) if path.is_file() else {}

"""What git knows of a commit: its shard, its seed, and whether an earlier run has tested the same source."""

from __future__ import annotations

import subprocess
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from validity.shards import SHARDS, Shard

LOOK_BACK = 60  # commits; further back the same source is rare, and each costs a call of git


class NoHistory(Exception):
    """The commits before this one are not known."""


def git(root: Path, *arguments: str) -> str:
    done = subprocess.run(["git", "-C", str(root), *arguments], capture_output=True, text=True, check=False)
    if done.returncode:
        raise NoHistory(f"git {' '.join(arguments)}: {done.stderr.strip()}")
    return done.stdout.strip()


@dataclass(frozen=True)
class Position:
    """A commit, and how many lead to it."""

    commit: str
    count: int

    @classmethod
    def of(cls, root: Path, revision: str = "HEAD") -> Position:
        """Return the position of a revision; a shallow clone is refused, since it does not know the count."""
        if git(root, "rev-parse", "--is-shallow-repository") == "true":
            raise NoHistory("this clone is shallow, so the number of commits is unknown: run git fetch --unshallow")
        commit = git(root, "rev-parse", revision)
        return cls(commit, int(git(root, "rev-list", "--count", commit)))

    @property
    def shard(self) -> Shard:
        return Shard(self.count % SHARDS)

    @property
    def seed(self) -> str:
        """Sixteen hexadecimal digits of the commit."""
        return self.commit[:16]


def already_run(root: Path, here: Position, sources: Mapping[str, Iterable[str]]) -> dict[str, str]:
    """Return, for files of claims, an earlier commit of the same shard with the same source.

    ``sources`` are the files and folders, relative to ``root``, that the claims of a file depend on. Commits are those
    of the first parents, on each of which CI has run. A file with a source that is not committed is not in the result.
    """
    changed = {line[3:].rpartition(" -> ")[2].strip('"') for line in _lines(git_raw(root, "status", "--porcelain"))}
    open_ = {file: tuple(paths) for file, paths in sources.items() if not touches(changed, paths)}
    found: dict[str, str] = {}
    earlier = _lines(git(root, "rev-list", "--first-parent", f"--max-count={LOOK_BACK + 1}", here.commit))[1:]
    for commit in earlier:
        if not open_:
            break
        changed = set(_lines(git(root, "diff", "--name-only", "--no-renames", commit, here.commit)))
        open_ = {file: paths for file, paths in open_.items() if not touches(changed, paths)}
        if Position(commit, int(git(root, "rev-list", "--count", commit))).shard == here.shard:
            found |= dict.fromkeys(open_, commit)
            break
    return found


def git_raw(root: Path, *arguments: str) -> str:
    """Return the output as it is: a space at the start of a line has a meaning in ``git status``."""
    return subprocess.run(["git", "-C", str(root), *arguments], capture_output=True, text=True, check=True).stdout


def touches(changed: Iterable[str], paths: Iterable[str]) -> bool:
    """Return whether a changed file is one of the paths or below one of them."""
    paths = tuple(paths)
    return any(file == path or file.startswith(f"{path}/") for file in changed for path in paths)


def _lines(text: str) -> list[str]:
    return text.splitlines()

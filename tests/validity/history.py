"""What git knows of a commit: its shard and its seed."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from pathlib import Path

from validity.shards import SHARDS, Shard


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

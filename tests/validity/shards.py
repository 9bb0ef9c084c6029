"""Which claims one run executes: shards of equal cost, by a table of seconds."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from zlib import crc32

SHARDS = 12
TABLE = Path(__file__).with_name("seconds.json")


@dataclass(frozen=True)
class Shard:
    """Shard ``number`` of ``total``; numbers are remainders, from 0 to total - 1."""

    number: int
    total: int = SHARDS

    @classmethod
    def of(cls, text: str) -> Shard:
        """Read "3/12"."""
        number, slash, total = text.partition("/")
        if not (slash and number.isdecimal() and total.isdecimal() and int(number) < int(total)):
            raise ValueError(f"a shard is written as in 3/{SHARDS}, from 0/{SHARDS} to {SHARDS - 1}/{SHARDS}: {text!r}")
        return cls(int(number), int(total))

    def __str__(self) -> str:
        return f"{self.number}/{self.total}"


def table(path: Path = TABLE) -> dict[str, float]:
    """Return seconds on one core by name of a claim, as measured."""
    return dict(json.loads(path.read_text(encoding="utf-8")))


def assigned(seconds: Mapping[str, float], total: int) -> dict[str, int]:
    """Return the shard of each measured claim: the dearest first, each to the shard that has least so far."""
    sums, shard_of = [0.0] * total, {}
    for name in sorted(seconds, key=lambda name: (-seconds[name], name)):
        shard_of[name] = sums.index(min(sums))
        sums[shard_of[name]] += seconds[name]
    return shard_of


def shard_of(name: str, known: Mapping[str, int], total: int) -> int:
    """Return the shard of a claim; one without a measured cost goes where the hash of its name says."""
    return known[name] if name in known else crc32(name.encode()) % total

"""Distinct scores from the lowest up, each with its numbers of members and of non-members: in memory, or in a file.

These counts are all that the metrics of independent records need. They are read in blocks, so memory does not grow with
the number of records. The rows that they stand for are in one order: by score, and at each score non-members first.
"""

from __future__ import annotations

import os
import tempfile
import weakref
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from miaudit.arrays import BoolArray, FloatArray, IntArray

__all__ = ["BATCH", "Block", "SortedCounts", "Writer", "counted", "merged", "total_of"]

BATCH = 2**21  # scores that are sorted at once, and distinct scores that stay in memory
_BLOCK = 2**16  # distinct scores that are read at once
_RECORDS = 2**17  # records that are spelled out at once
_CACHED = 8  # blocks
_LEAF = 2**16  # numbers that numpy adds up by itself
ROW = np.dtype([("score", "<f8"), ("members", "<i8"), ("nonmembers", "<i8")])
Rows = NDArray[np.void]


def counted(
    score: FloatArray,
    members: IntArray | BoolArray,
    nonmembers: IntArray | BoolArray,
    *,
    kind: Literal["quicksort", "stable"] = "quicksort",
) -> Rows:
    """Return distinct scores, ascending, with the sums of both counts, of scores (n,) in any order.

    A sort of the kind "stable" is quick where scores already ascend in a few long runs.

    Examples
    --------
    >>> counted(np.array([2.0, 1.0, 2.0]), np.array([1, 0, 0]), np.array([0, 1, 1])).tolist()
    [(1.0, 0, 1), (2.0, 1, 1)]
    """
    order = np.argsort(score, kind=kind)
    ordered = score[order]
    first = np.flatnonzero(np.r_[True, ordered[1:] != ordered[:-1]]) if len(ordered) else np.empty(0, np.intp)
    rows = np.empty(len(first), dtype=ROW)
    rows["score"] = ordered[first]
    for name, values in (("members", members), ("nonmembers", nonmembers)):
        of_order = values[order].astype(np.int64)
        rows[name] = np.add.reduceat(of_order, first) if len(first) else 0
    return rows


@dataclass(frozen=True, eq=False)
class Block:
    """A stretch of distinct scores.

    Attributes
    ----------
    start : how many distinct scores are below the stretch
    score : (b,) ascending
    members, nonmembers : (b,) counts at each score
    below : (b + 1, 2) members and non-members below each score, and below the stretch after it
    """

    start: int
    score: FloatArray
    members: IntArray
    nonmembers: IntArray
    below: IntArray

    @cached_property
    def totals(self) -> IntArray:
        """Records (b + 1,) below each score."""
        return np.asarray(self.below.sum(axis=1))


class _Unnamed:
    """A file without a name, for one process: closed, and its space free, when nothing refers to it any more."""

    def __init__(self) -> None:
        self._file = tempfile.TemporaryFile(prefix="miaudit-", buffering=0)  # noqa: SIM115 - closed at its end
        weakref.finalize(self, self._file.close)

    def write(self, rows: Rows) -> None:
        """Append rows."""
        view = np.ascontiguousarray(rows).view(np.uint8).data
        while view.nbytes:
            view = view[self._file.write(view) :]

    def read_into(self, view: memoryview, place: int) -> int:
        """Fill bytes from a place on; return how many were read, at least one."""
        content = os.pread(self._file.fileno(), view.nbytes, place)
        if not content:
            raise OSError("a temporary file of sorted scores ended early")
        view[: len(content)] = content
        return len(content)


class Writer:
    """Keeps rows in memory as long as they are few, else in a file without a name, which ends with the process."""

    def __init__(self, most: int = BATCH) -> None:
        self._most, self._parts, self._count = most, list[Rows](), 0
        self._file: _Unnamed | None = None

    def add(self, rows: Rows) -> None:
        """Append rows, whose scores are above those of all earlier ones."""
        self._parts.append(rows)
        self._count += len(rows)
        if self._file is None and self._count > self._most:
            self._file = _Unnamed()
        if self._file is not None:
            for part in self._parts:
                self._file.write(part)
            self._parts = []

    def finished(self, block: int = _BLOCK) -> SortedCounts:
        """Return the counts that were written."""
        if self._file is None:
            return SortedCounts(self._count, memory=np.concatenate([np.empty(0, ROW), *self._parts]), block=block)
        return SortedCounts(self._count, file=self._file, block=block)


@dataclass(frozen=True, eq=False)
class SortedCounts:
    """Sorted counts.

    Attributes
    ----------
    distinct : number of distinct scores
    memory, file : where they are, one of the two
    block : how many of them are read at once

    Examples
    --------
    >>> counts = SortedCounts.of(np.array([0.5, 2.0, 0.5]), np.array([True, True, False]))
    >>> counts.distinct, counts.members, counts.nonmembers, counts.at(2), counts.below(2.0)
    (2, 2, 1, 2.0, (1, 1))
    """

    distinct: int
    memory: Rows | None = None
    file: _Unnamed | None = None
    block: int = _BLOCK
    _held: dict[int, Block] = field(default_factory=dict)

    @classmethod
    def of(cls, score: FloatArray, member: BoolArray) -> SortedCounts:
        """Count scores (n,) of records (n,) in memory."""
        rows = counted(score, member, ~member)
        return cls(len(rows), memory=rows)

    def rows(self, start: int, stop: int) -> Rows:
        """Read the rows of the distinct scores from ``start`` to before ``stop``, counted from the lowest."""
        start, stop = max(0, start), min(stop, self.distinct)
        if self.memory is not None:
            return self.memory[start:stop]
        rows, place = np.empty(max(0, stop - start), dtype=ROW), start * ROW.itemsize
        view = rows.view(np.uint8).data
        while view.nbytes:
            assert self.file is not None  # noqa: S101
            count = self.file.read_into(view, place)
            view, place = view[count:], place + count
        return rows

    # -- blocks --------------------------------------------------------------------------------------------------------

    @cached_property
    def _below(self) -> IntArray:
        """Members and non-members (blocks + 1, 2) below each block, and in all."""
        sums = [(0, 0)]
        for start in range(0, self.distinct, self.block):
            rows = self.rows(start, start + self.block)
            sums.append((int(rows["members"].sum()), int(rows["nonmembers"].sum())))
        return np.cumsum(np.array(sums, dtype=np.int64), axis=0)

    @cached_property
    def _totals(self) -> IntArray:
        """Records (blocks + 1,) below each block, and in all."""
        return np.asarray(self._below.sum(axis=1))

    @cached_property
    def _first(self) -> FloatArray:
        """The lowest score of each block."""
        starts = range(0, self.distinct, self.block)
        return np.array([self.rows(start, start + 1)["score"][0] for start in starts], dtype=np.float64)

    def _read(self, number: int) -> Block:
        rows = self.rows(number * self.block, (number + 1) * self.block)
        members, nonmembers = (np.ascontiguousarray(rows[name]) for name in ("members", "nonmembers"))
        below = np.empty((len(rows) + 1, 2), dtype=np.int64)
        below[0] = self._below[number]
        np.cumsum(members, out=below[1:, 0])
        np.cumsum(nonmembers, out=below[1:, 1])
        below[1:] += below[0]
        return Block(number * self.block, np.ascontiguousarray(rows["score"]), members, nonmembers, below)

    def at_block(self, number: int) -> Block:
        """Read a block, counted from the lowest; a few that were read last are held."""
        if number not in self._held:
            while len(self._held) >= _CACHED:
                self._held.pop(next(iter(self._held)))
            self._held[number] = self._read(number)
        return self._held[number]

    @property
    def blocks(self) -> int:
        """How many blocks there are."""
        return -(-self.distinct // self.block)

    def ascending(self) -> Iterator[Block]:
        """Yield every block from the lowest scores up."""
        return map(self._read, range(self.blocks))

    def descending(self) -> Iterator[Block]:
        """Yield every block from the highest scores down; inside a block scores ascend."""
        return map(self._read, reversed(range(self.blocks)))

    # -- look-ups ------------------------------------------------------------------------------------------------------

    @property
    def members(self) -> int:
        """Number of members."""
        return int(self._below[-1, 0])

    @property
    def nonmembers(self) -> int:
        """Number of non-members."""
        return int(self._below[-1, 1])

    @property
    def records(self) -> int:
        """Number of records."""
        return self.members + self.nonmembers

    def at(self, rank: int) -> float:
        """Return the score of the record of a rank, counted from 0 at the lowest score."""
        number = int(np.searchsorted(self._totals, rank, side="right")) - 1
        block = self.at_block(number)
        return float(block.score[int(np.searchsorted(block.totals, rank, side="right")) - 1])

    def below(self, score: float, *, side: Literal["left", "right"] = "left") -> tuple[int, int]:
        """Return the numbers of members and of non-members with lower scores; with "right", equal ones too."""
        number = int(np.searchsorted(self._first, score, side=side)) - 1
        if number < 0:
            return 0, 0
        block = self.at_block(number)
        inside, outside = block.below[int(np.searchsorted(block.score, score, side=side))]
        return int(inside), int(outside)

    def beneath(self, places: IntArray) -> IntArray:
        """Return members and non-members (j, 2) below the distinct scores of places (j,), 0 to ``distinct``."""
        places = np.asarray(places, dtype=np.int64)
        result = np.empty((len(places), 2), dtype=np.int64)
        numbers = np.minimum(places // self.block, max(self.blocks - 1, 0))
        for number in np.unique(numbers):
            chosen = numbers == number
            result[chosen] = self.at_block(int(number)).below[places[chosen] - int(number) * self.block]
        return result

    def place_of(self, nonmembers: IntArray, side: Literal["left", "right"]) -> IntArray:
        """Return how many places (j,) have fewer non-members below than each of these (j,); "right": as many or fewer.

        There are ``distinct + 1`` places, the last of them above every score.
        """
        wanted = np.asarray(nonmembers, dtype=np.int64)
        result = np.empty(len(wanted), dtype=np.int64)
        numbers = np.searchsorted(self._below[:-1, 1], wanted, side=side) - 1
        for number in np.unique(numbers):
            chosen = numbers == number
            if number < 0:
                result[chosen] = 0
                continue
            block = self.at_block(int(number))
            result[chosen] = block.start + np.searchsorted(block.below[:, 1], wanted[chosen], side=side)
        return result

    # -- records -------------------------------------------------------------------------------------------------------

    def spelled_out(self, start: int = 0, stop: int | None = None) -> Iterator[tuple[FloatArray, BoolArray]]:
        """Yield scores and memberships of the records from rank ``start`` to before ``stop``, some at a time."""
        stop = self.records if stop is None else stop
        totals = self._totals
        first = int(np.searchsorted(totals, start, side="right")) - 1
        for number in range(max(first, 0), self.blocks):
            if totals[number] >= stop or start >= stop:
                return
            block = self._read(number)
            yield from _records(block, max(start, int(totals[number])), min(stop, int(totals[number + 1])))

    def thinned(self, members: BoolArray, nonmembers: BoolArray) -> SortedCounts:
        """Return the counts of some records: masks of the members, and of the non-members, from the lowest score up."""
        writer = Writer(max(len(self.memory), 1) if self.memory is not None else BATCH)
        for block in self.ascending():
            rows = np.empty(len(block.score), dtype=ROW)
            rows["score"] = block.score
            for column, (name, mask) in enumerate((("members", members), ("nonmembers", nonmembers))):
                edges = block.below[:, column]
                sums = np.r_[0, np.cumsum(mask[edges[0] : edges[-1]], dtype=np.int64)]
                rows[name] = np.diff(sums[edges - edges[0]])
            writer.add(rows[(rows["members"] > 0) | (rows["nonmembers"] > 0)])
        return writer.finished(self.block)


def _records(block: Block, start: int, stop: int) -> Iterator[tuple[FloatArray, BoolArray]]:
    """Yield the records of a block between two ranks."""
    totals = block.totals
    if totals[-1] - totals[0] == len(block.score):  # no two records share a score
        part = slice(start - int(totals[0]), stop - int(totals[0]))
        yield block.score[part], block.members[part] > 0
        return
    # Non-members and members of each score in turn, as ranks where each run of them ends.
    ends = np.column_stack([totals[:-1] + block.nonmembers, totals[1:]]).reshape(-1)
    for low in range(start, stop, _RECORDS):
        high = min(low + _RECORDS, stop)
        first, last = np.searchsorted(ends, [low, high], side="right")
        runs = np.arange(first, min(last + 1, len(ends)))
        lengths = np.diff(np.clip(ends[runs], low, high), prepend=low)
        each = np.repeat(runs, lengths)
        yield block.score[each // 2], each % 2 == 1


def merged(
    runs: list[SortedCounts], *, most: int = BATCH, advance: Callable[[int], None] | None = None
) -> SortedCounts:
    """Merge several sorted counts into one, a stretch of each at a time.

    Parameters
    ----------
    runs : sorted counts, which may share scores
    most : distinct scores that stay in memory
    advance : function of the number of rows that were merged since it was called last
    """
    if len(runs) == 1:
        return runs[0]
    writer, each = Writer(most), max(1, most // max(1, len(runs)))
    places = [0] * len(runs)
    ahead = [np.empty(0, dtype=ROW)] * len(runs)
    while True:
        for i, run in enumerate(runs):
            if not len(ahead[i]) and places[i] < run.distinct:
                ahead[i] = run.rows(places[i], places[i] + each)
                places[i] += len(ahead[i])
        present = [i for i, rows in enumerate(ahead) if len(rows)]
        if not present:
            return writer.finished()
        # Up to the lowest of the last scores, every run has shown all that it holds.
        edge = min(ahead[i]["score"][-1] for i in present)
        parts = []
        for i in present:
            cut = int(np.searchsorted(ahead[i]["score"], edge, side="right"))
            parts.append(ahead[i][:cut])
            ahead[i] = ahead[i][cut:]
        rows = np.concatenate(parts)
        writer.add(counted(rows["score"], rows["members"], rows["nonmembers"], kind="stable"))
        if advance is not None:
            advance(len(rows))


def total_of(parts: Iterable[FloatArray], count: int) -> float:
    """Add up ``count`` numbers that come in parts, in the order in which numpy adds up one array, to the last digit.

    numpy halves an array, at a multiple of eight, until a part is short, and adds up the sums of the halves. Here the
    halving stops earlier, and numpy goes on.

    Examples
    --------
    >>> values = np.random.default_rng(0).normal(size=300_000)
    >>> bool(total_of(iter([values[:7], values[7:]]), len(values)) == values.sum())
    True
    """
    source, ahead = iter(parts), np.empty(0)

    def take(size: int) -> FloatArray:
        nonlocal ahead
        pieces, missing = [], size
        while missing:
            if not len(ahead):
                ahead = next(source)
            pieces.append(ahead[:missing])
            missing -= len(pieces[-1])
            ahead = ahead[len(pieces[-1]) :]
        return np.ascontiguousarray(pieces[0] if len(pieces) == 1 else np.concatenate(pieces))

    def total(size: int) -> float:
        if size <= _LEAF:
            return float(take(size).sum()) if size else 0.0
        half = size // 2
        half -= half % 8
        return total(half) + total(size - half)

    return total(count)

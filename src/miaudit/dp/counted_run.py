"""One run as sorted counts: the guesses of :class:`~miaudit.dp.ranked_run.RankedRun`, counted without a rank of each.

Among the surest guesses only those count one by one that are as sure as the last of them: the records at one score, or
at one distance from the median. Of these, random numbers decide, one for each record in the order of the rows. They are
drawn again wherever they are needed, so none is held.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from miaudit.arrays import BoolArray, FloatArray, IntArray
from miaudit.dp.ranked_run import UNFAIR, IndependentRun, cut
from miaudit.dp.ranking import BOTH_ENDS, BOTH_SIDES, LOPSIDED
from miaudit.dp.selection import CountBound, Hedged, Pilot
from miaudit.dp.verdict import LowerBound
from miaudit.metrics.counted_evidence import CountedEvidence, needs_records
from miaudit.metrics.sorted_counts import SortedCounts

__all__ = ["CountedRun"]

_DRAWN = 2**17  # random numbers at once
_BINS = 2**14  # of random numbers, to find the one that a cut falls on


@dataclass(frozen=True, eq=False)
class _CountedOrder:
    """Guesses in an order of falling confidence, of which only the number of right ones among the first is known.

    Attributes
    ----------
    name : how the guesses are made, in words
    records : number of records
    right : function of a number of guesses, how many of so many surest ones are right
    from_counts : bound from counts
    """

    name: str
    records: int
    right: Callable[[int], int]
    from_counts: CountBound

    @property
    def places(self) -> IntArray:
        """As many places as records, without what is there: all of them at once, or the first of them."""
        return np.broadcast_to(np.int64(0), (self.records,))

    def bound(self, rows: IntArray, guesses: int, confidence: float) -> LowerBound:
        """Return the bound of the first so many guesses."""
        canaries = max(len(rows), guesses)
        return self.from_counts(correct=self.right(guesses), guesses=guesses, canaries=canaries, confidence=confidence)

    def share_right(self, rows: IntArray, guesses: int) -> tuple[int, int]:
        """Return right and made guesses."""
        count = min(guesses, len(rows))
        return self.right(count), count

    def foreseen(self, rows: IntArray, guesses: int, share: float, confidence: float) -> float:
        """Return the bound if this share of the guesses were right."""
        counts = {"correct": math.floor(guesses * share), "guesses": guesses, "canaries": max(len(rows), guesses)}
        return self.from_counts(**counts, confidence=confidence).value

    def canaries(self, rows: IntArray) -> int:
        """Return the number of records."""
        return len(rows)


@dataclass(frozen=True, eq=False)
class CountedRun(IndependentRun):
    """Independent records of one run, by sorted counts, and two orders of guesses.

    Attributes
    ----------
    counts : of the records that count
    """

    counts: SortedCounts

    @classmethod
    def of(cls, evidence: CountedEvidence, bound: CountBound, rng: np.random.Generator) -> CountedRun:
        """Take the records of evidence of design "one-run".

        Parameters
        ----------
        evidence, bound, rng : as of :meth:`miaudit.dp.ranked_run.RankedRun.of`
        """
        counts, notes = evidence.counts, list[str]()
        larger, smaller = sorted((counts.members, counts.nonmembers), reverse=True)
        if larger - smaller > UNFAIR * math.sqrt(counts.records):
            inside, outside = (_drawn_of(n, smaller, rng) for n in (counts.members, counts.nonmembers))
            counts = counts.thinned(inside, outside)
            notes.append(cut(larger, smaller))
        return cls(tuple(notes), bound, evidence.n, tuple(rng.spawn(5)), counts)

    @property
    def records(self) -> int:
        """Number of records that count."""
        return self.counts.records

    @property
    def rows(self) -> IntArray:
        """As many positions as records, which take no memory: no order here reads one."""
        return self.both_sides.places

    def orders_for(self, guesses: object) -> tuple[_CountedOrder, ...]:
        """Return the order that an option uses; a pilot is refused, as it reveals records one by one."""
        if isinstance(guesses, Pilot):
            needs_records()
        hedged = guesses is None or isinstance(guesses, Hedged)
        return (self.in_turn if hedged and self.lopsided else self.both_sides,)

    @property
    def both_sides(self) -> _CountedOrder:
        """Guesses on both sides of the median score, the farthest first."""
        return _CountedOrder(BOTH_SIDES, self.records, self._right_outside, self.bound)

    @property
    def in_turn(self) -> _CountedOrder:
        """Guesses from both ends of the scores in turn."""
        return _CountedOrder(BOTH_ENDS, self.records, self._right_in_turn, self.bound)

    @cached_property
    def centre(self) -> float:
        """As :attr:`miaudit.dp.ranking.Ranking.centre`."""
        n, at = self.records, self.counts.at
        centre = float(np.median([at(rank) for rank in range((n - 1) // 2, n // 2 + 1)]))
        first, after = sum(self.counts.below(centre)), sum(self.counts.below(centre, side="right"))
        if first > n - after:
            return (centre + at(first - 1)) / 2
        if n - after > first:
            return (centre + at(after)) / 2
        return centre

    @property
    def lopsided(self) -> bool:
        """As :attr:`miaudit.dp.ranking.Ranking.lopsided`."""
        n, at = self.records, self.counts.at
        near, far = 4 * n // 10, n // 10
        below, above = at(near) - at(far), at(n - 1 - far) - at(n - 1 - near)
        return max(below, above) > LOPSIDED * min(below, above)

    # -- both sides ----------------------------------------------------------------------------------------------------

    def _right_outside(self, guesses: int) -> int:
        """How many of so many guesses farthest from the middle are right."""
        n, low_side = self.records, sum(self.counts.below(self.centre))
        distance = self._last_distance(guesses, low_side)
        # Ranks from the lowest, and from the highest, that are farther, and as far or farther.
        low = [_first(lambda i: self._below_by(i) <= distance, low_side), 0]
        low[1] = _first(lambda i: self._below_by(i) < distance, low_side)
        high = [_first(lambda j: self._above_by(j) <= distance, n - low_side), 0]
        high[1] = _first(lambda j: self._above_by(j) < distance, n - low_side)
        certain = self._nonmembers_under(low[0]) + self._members_over(high[0])
        level = [(low[0], low[1], False), (n - high[1], n - high[0], True)]
        missing, numbers = guesses - low[0] - high[0], _Numbers(self.generators[0])
        if distance == 0:
            coins = lambda start, stop: (part < 0.5 for part in numbers.between(start, stop))  # noqa: E731
            tied = self._level(level, numbers, n, coins)
        else:
            tied = self._level(level, numbers, n, None)
        return certain + tied.right_among(missing)

    def _below_by(self, rank: int) -> float:
        return abs(self.counts.at(rank) - self.centre)

    def _above_by(self, rank: int) -> float:
        return abs(self.counts.at(self.records - 1 - rank) - self.centre)

    def _last_distance(self, guesses: int, low_side: int) -> float:
        """The distance from the middle of the last of so many guesses, the farthest first."""
        most, fewest = min(guesses, low_side), max(0, guesses - (self.records - low_side))

        def enough(i: int) -> bool:  # of the lowest: the next of them is no farther than the last from above
            low = fewest + i
            return low in (guesses, low_side) or self._above_by(guesses - low - 1) >= self._below_by(low)

        low = fewest + _first(enough, most - fewest)
        ends = [self._below_by(low - 1)] if low else []
        ends += [self._above_by(guesses - low - 1)] if guesses > low else []
        return min(ends)

    # -- in turn -------------------------------------------------------------------------------------------------------

    def _right_in_turn(self, guesses: int) -> int:
        """How many of so many guesses from both ends in turn are right."""
        n, pairs = self.records, guesses // 2
        right = self._outside_first(pairs) + self.counts.members - self._inside_first(n - pairs)
        if guesses % 2 == 0:
            return right
        numbers = _Numbers(self.generators[1])
        if pairs == n // 2:  # the middle one of an odd number, whose guess is a coin
            row, member = self._at_place(pairs)
            return right + int((numbers.one(n + row) < 0.5) == member)
        (low, low_member), (high, high_member) = self._at_place(pairs), self._at_place(n - 1 - pairs)
        first, second = numbers.one(2 * n + high), numbers.one(2 * n + low)
        from_above = first < second or (first == second and high < low)
        return right + int(high_member if from_above else not low_member)

    def _outside_first(self, places: int) -> int:
        """Non-members among the lowest records, equal scores in random order."""
        return places - self._inside_first(places)

    def _inside_first(self, places: int) -> int:
        """Members among the lowest records, equal scores in random order."""
        if not 0 < places < self.records:
            return self.counts.members if places else 0
        start, tied = self._tied_at(places)
        return self.counts.below(self.counts.at(places))[0] + tied.right_among(places - start)

    def _at_place(self, place: int) -> tuple[int, bool]:
        """Row and membership of the record at a place from the lowest, equal scores in random order."""
        start, tied = self._tied_at(place)
        return tied.at(place - start)

    def _tied_at(self, place: int) -> tuple[int, _Tied]:
        """The first rank of the score at a place, and the records that share it, of which members count as right."""
        score = self.counts.at(place)
        start, stop = sum(self.counts.below(score)), sum(self.counts.below(score, side="right"))
        return start, self._level([(start, stop, True)], _Numbers(self.generators[1]), 0, None)

    # -- counts --------------------------------------------------------------------------------------------------------

    def _nonmembers_under(self, rank: int) -> int:
        """Non-members below a rank at which the score changes."""
        return self._under(rank)[1]

    def _members_over(self, count: int) -> int:
        """Members among so many highest records, below which the score changes."""
        return self.counts.members - self._under(self.records - count)[0]

    def _under(self, rank: int) -> tuple[int, int]:
        if rank >= self.records:
            return self.counts.members, self.counts.nonmembers
        return self.counts.below(self.counts.at(rank))

    def _level(
        self,
        ranks: list[tuple[int, int, bool]],
        numbers: _Numbers,
        offset: int,
        coins: Callable[[int, int], Iterator[BoolArray]] | None,
    ) -> _Tied:
        """Records as sure as each other: stretches of ranks, each with what is guessed of it, unless coins say."""

        def read() -> Iterator[tuple[int, FloatArray, BoolArray]]:
            for start, stop, guess in ranks:
                pieces = _Pieces(numbers.between(offset + start, offset + stop))
                tossed = None if coins is None else _Pieces(coins(start, stop))
                row = start
                for _, member in self.counts.spelled_out(start, stop):
                    guessed = guess if tossed is None else tossed.take(len(member))
                    yield row, pieces.take(len(member)), member == guessed
                    row += len(member)

        return _Tied(sum(stop - start for start, stop, _ in ranks), read)


@dataclass(frozen=True, eq=False)
class _Tied:
    """Records in random order: of each a number, by which they are sorted, and whether the guess at it is right.

    ``read`` yields them in the order of their rows: the first row, numbers and guesses of a stretch of rows.
    """

    size: int
    read: Callable[[], Iterator[tuple[int, FloatArray, BoolArray]]]

    def right_among(self, first: int) -> int:
        """How many of so many first guesses are right."""
        if first <= 0:
            return 0
        if first >= self.size:
            return sum(int(np.count_nonzero(right)) for _, _, right in self.read())
        before, of_bin = self._bin_of(first - 1)
        right, _, rights = self._in_bin(of_bin)
        return right + int(np.count_nonzero(rights[: first - before]))

    def at(self, place: int) -> tuple[int, bool]:
        """The row at a place of the random order, and whether the guess at it is right."""
        before, of_bin = self._bin_of(place)
        _, rows, rights = self._in_bin(of_bin)
        return int(rows[place - before]), bool(rights[place - before])

    def _bin_of(self, place: int) -> tuple[int, int]:
        """How many numbers are in bins before that of a place, and this bin."""
        counts = np.zeros(_BINS, dtype=np.int64)
        for _, number, _ in self.read():
            counts += np.bincount((number * _BINS).astype(np.int64), minlength=_BINS)
        ends = np.cumsum(counts)
        of_bin = int(np.searchsorted(ends, place, side="right"))
        return int(ends[of_bin] - counts[of_bin]), of_bin

    def _in_bin(self, of_bin: int) -> tuple[int, IntArray, BoolArray]:
        """Right guesses before a bin; rows and guesses in it, in their random order."""
        right, rows, numbers, rights = 0, [], [], []
        for row, number, correct in self.read():
            place = (number * _BINS).astype(np.int64)
            right += int(np.count_nonzero(correct & (place < of_bin)))
            chosen = np.flatnonzero(place == of_bin)
            rows.append(row + chosen)
            numbers.append(number[chosen])
            rights.append(correct[chosen])
        order = np.argsort(np.concatenate(numbers), kind="stable")  # of equal numbers the lower row comes first
        return right, np.concatenate(rows)[order], np.concatenate(rights)[order]


@dataclass(frozen=True, eq=False)
class _Numbers:
    """The random numbers that a generator would draw one after the other, drawn where they are needed."""

    generator: np.random.Generator

    def between(self, start: int, stop: int) -> Iterator[FloatArray]:
        """Yield the numbers from the ``start``-th, counted from 0, to before the ``stop``-th."""
        rng = copy.deepcopy(self.generator)
        if isinstance(rng.bit_generator, np.random.PCG64 | np.random.PCG64DXSM):
            rng.bit_generator.advance(start)
            start, stop = 0, stop - start
        for low in range(0, stop, _DRAWN):
            numbers = rng.random(min(_DRAWN, stop - low))
            if low + len(numbers) > start:
                yield numbers[max(0, start - low) :]

    def one(self, place: int) -> float:
        """The number at a place."""
        return float(next(self.between(place, place + 1))[0])


class _Pieces:
    """Arrays that follow each other, in pieces of other lengths."""

    def __init__(self, parts: Iterator[NDArray[Any]]) -> None:
        self._parts, self._ahead = parts, np.empty(0)

    def take(self, size: int) -> NDArray[Any]:
        """Return the next ``size`` values."""
        pieces: list[NDArray[Any]] = []
        while size:
            if not len(self._ahead):
                self._ahead = next(self._parts)
            pieces.append(self._ahead[:size])
            self._ahead = self._ahead[len(pieces[-1]) :]
            size -= len(pieces[-1])
        return pieces[0] if len(pieces) == 1 else np.concatenate(pieces)


def _drawn_of(count: int, size: int, rng: np.random.Generator) -> BoolArray:
    """Say of so many records which are drawn: those that a permutation of their rows has first."""
    chosen = np.zeros(count, dtype=np.bool_)
    chosen[rng.permutation(np.arange(count, dtype=np.uint32 if count < 2**32 else np.int64))[:size]] = True
    return chosen


def _first(holds: Callable[[int], bool], stop: int) -> int:
    """Return the first number from 0 for which a condition holds that goes on holding; ``stop`` if there is none."""
    low, high = 0, stop
    while low < high:
        middle = (low + high) // 2
        if holds(middle):
            high = middle
        else:
            low = middle + 1
    return low

"""What answers have in common with passages, word for word and nearly: exact, in one pass over the answers.

A run is a number of tokens that follow each other in a passage and in an answer alike. Passages are indexed by hashes
of their windows, answers are only looked up: memory grows with the passages, not with the answers. A window of L tokens
that has e edits at most contains a block of (L + 1) // (e + 2) tokens that is untouched, of those that follow each
other from the beginning of the passage, since it contains e + 1 of these. What a hash points at is compared token by
token. (Blocks of which one is untouched: Navarro, "A guided tour to approximate string matching", 2001, section 8.)
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from miaudit.arrays import BoolArray, IntArray
from miaudit.errors import InputError

__all__ = ["CommonRuns", "TokenRows", "covered"]

Tokens = NDArray[np.int32]
Hashes = NDArray[np.uint64]
COMMON = 32  # passages that have a block, at most, for what is nearly equal
_ECHO = 8  # tokens of a prompt in a row that an answer repeats, or that are of a passage; fewer are chance
_PAIRS = 1 << 16  # compared at a time
_AT_ONCE = 32  # tokens
_MIX = (np.uint64(0x9E3779B97F4A7C15), np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB))


@dataclass(frozen=True, eq=False)
class TokenRows:
    """Texts as numbers of tokens.

    Attributes
    ----------
    tokens : array (t,) of whole numbers; a negative one equals no other
    offsets : array (n + 1,): text i owns the tokens offsets[i] to offsets[i + 1]
    """

    tokens: Tokens
    offsets: IntArray

    def __len__(self) -> int:
        """Return how many texts there are."""
        return len(self.offsets) - 1

    @property
    def lengths(self) -> IntArray:
        """Tokens of each text (n,)."""
        return np.diff(self.offsets)

    def owner(self, places: NDArray[np.integer[Any]]) -> IntArray:
        """Return which text each place in ``tokens`` belongs to."""
        return np.searchsorted(self.offsets, places, side="right") - 1

    def windows(self, length: int) -> tuple[Hashes, BoolArray]:
        """Return a hash of the ``length`` tokens from each place on, and whether they are of one text and positive.

        Both arrays are shorter than ``tokens`` by ``length - 1``.
        """
        n = len(self.tokens) - length + 1
        if n <= 0:
            return np.zeros(0, dtype=np.uint64), np.zeros(0, dtype=np.bool_)
        hashes = (self.tokens.astype(np.int64).view(np.uint64) + _MIX[1]) * _MIX[0]
        width = 1
        while 2 * width <= length:
            hashes, width = _joined(hashes, width), 2 * width
        if width < length:
            hashes = _joined(hashes, length - width)
        nothing = np.zeros(len(self.tokens) + 1, dtype=np.int64)
        np.cumsum(self.tokens < 0, out=nothing[1:])
        ends = np.repeat(self.offsets[1:], self.lengths)[:n]
        return hashes, (nothing[length:] == nothing[:n]) & (np.arange(length, n + length) <= ends)


def _joined(hashes: Hashes, apart: int) -> Hashes:
    """Hashes of windows and of those so many places after them, together."""
    first, second = hashes[: len(hashes) - apart], hashes[apart:]
    mixed = (first ^ (first >> np.uint64(29))) * _MIX[1] + second
    return np.asarray((mixed ^ (mixed >> np.uint64(32))) * _MIX[2])


@dataclass(frozen=True, eq=False)
class _Index:
    """Windows of passages, ordered by their hashes; those with equal hashes are one group.

    Attributes
    ----------
    hashes : array (g,), ascending, each once
    begins : array (g + 1,), where each group begins in ``places``
    places : array (w,), where each window begins in the tokens of the passages
    maybe : array (2^bits,) of bool, whether a hash begins like that
    """

    length: int
    hashes: Hashes
    begins: IntArray
    places: NDArray[np.int32]
    maybe: BoolArray

    @classmethod
    def of(cls, passages: TokenRows, length: int, *, apart: int = 1, most: int | None = None) -> Self:
        """Index the windows of passages that begin at each ``apart``-th token, but for those of more than ``most``."""
        hashes, whole = passages.windows(length)
        starts = np.repeat(passages.offsets[:-1], passages.lengths)[: len(hashes)]
        places = np.flatnonzero(whole & ((np.arange(len(hashes)) - starts) % apart == 0))
        order = np.argsort(hashes[places], kind="stable")  # and by place in a group
        places = places[order]
        groups, code = np.unique(hashes[places], return_inverse=True)
        if most is not None:
            owner = passages.owner(places)
            new = np.r_[True, (code[1:] != code[:-1]) | (owner[1:] != owner[:-1])] if len(code) else owner > 0
            rare = np.bincount(code[new], minlength=len(groups)) <= most
            places = places[rare[code]]
            groups, code = np.unique(hashes[places], return_inverse=True)
        bits = min(max(16 * len(groups), 2).bit_length(), 27)
        maybe = np.zeros(1 << bits, dtype=np.bool_)
        maybe[groups >> np.uint64(64 - bits)] = True
        begins = np.r_[0, np.cumsum(np.bincount(code, minlength=len(groups)))]
        return cls(length, groups, begins.astype(np.int64), places.astype(np.int32), maybe)

    def lookup(self, answers: TokenRows) -> tuple[IntArray, IntArray]:
        """Return the places in answers whose window is known, ascending, and the group of each."""
        hashes, whole = answers.windows(self.length)
        bits = len(self.maybe).bit_length() - 1
        at = np.flatnonzero(self.maybe[hashes >> np.uint64(64 - bits)] & whole)
        wanted = hashes[at]
        group = np.searchsorted(self.hashes, wanted)
        group[group == len(self.hashes)] = 0
        known = self.hashes[group] == wanted if len(self.hashes) else np.zeros(0, dtype=np.bool_)
        return at[known], group[known]

    def parts(self, group: IntArray) -> Iterator[slice]:
        """Yield which of the hits with these groups are compared at a time."""
        total = np.r_[0, np.cumsum(self.begins[group + 1] - self.begins[group])]
        cuts = np.unique(np.searchsorted(total, np.arange(0, total[-1] + _PAIRS, _PAIRS)).clip(max=len(group)))
        return (slice(low, high) for low, high in pairwise(cuts.tolist()))

    def pairs(self, at: IntArray, group: IntArray) -> tuple[IntArray, IntArray]:
        """Return all pairs of a place in the passages and one in the answers with these windows."""
        counts = self.begins[group + 1] - self.begins[group]
        within = np.arange(int(counts.sum())) - np.repeat(np.cumsum(counts) - counts, counts)
        places = self.places[np.repeat(self.begins[group], counts) + within].astype(np.int64)
        return places, np.repeat(at, counts)


class CommonRuns:
    """The longest run that each passage has in common with an answer, and with how few edits a window of it is there.

    Parameters
    ----------
    passages : TokenRows
    least : tokens of a run that counts, from 1; shorter ones are not looked for
    edits : tokens to insert, leave out or replace in so many of a passage, at most, for them to be nearly there
    common : passages that may have a block in common; what has no untouched block but those of more is not nearly there

    Attributes
    ----------
    longest : array (n,), tokens of the longest common run; 0 where it is below ``least``
    edits : array (n,), fewest edits between ``least`` tokens of the passage and a part of an answer, up to the number
        that is allowed; one more where there are more
    answer : array (n,), number of the first answer with the longest run, else of the first with so few edits; -1 for
        none
    echo : tokens in a row of a prompt that are no chance: 8, or ``least``

    Notes
    -----
    Passages that all have as long a run as an answer could give them are not compared again: a form letter in all
    passages and all answers is compared in a few of them.

    Examples
    --------
    >>> passages = TokenRows(np.array([1, 2, 3, 4, 5, 6, 7], dtype=np.int32), np.array([0, 4, 7]))
    >>> runs = CommonRuns(passages, least=3, edits=1)
    >>> runs.add(TokenRows(np.array([9, 1, 2, 3, 5, 7], dtype=np.int32), np.array([0, 6])))
    >>> runs.longest.tolist(), runs.edits.tolist(), runs.answer.tolist()
    ([3, 0], [0, 1], [0, 0])
    """

    def __init__(self, passages: TokenRows, *, least: int, edits: int = 0, common: int | None = COMMON) -> None:
        if least < 1 or not 0 <= edits < least:
            raise InputError("edits", "from 0 to below least", f"{edits} of {least}", "0.1 of least is usual")
        self.passages, self.least, self.allowed = passages, least, edits
        self.block, self.echo = (least + 1) // (edits + 2), min(least, _ECHO)
        self._exact = _Index.of(passages, least)
        self._blocks = _Index.of(passages, self.block, apart=self.block, most=common) if edits else None
        self._parts = _Index.of(passages, self.echo, apart=self.echo, most=common)
        self._all_have = np.zeros(len(self._exact.hashes), dtype=np.int64)  # as long a run, all passages of a group
        self.longest = np.zeros(len(passages), dtype=np.int64)
        self.edits = np.full(len(passages), edits + 1, dtype=np.int64)
        self.answer = np.full(len(passages), -1, dtype=np.int64)

    def add(self, answers: TokenRows, *, first: int = 0, targets: IntArray | None = None) -> None:
        """Compare with further answers.

        Parameters
        ----------
        answers : TokenRows
        first : number of the first of them
        targets : array (k, 2), optional: the pairs of an answer (its row here) and a passage that are compared; default
            all
        """
        wanted = None if targets is None else np.unique(targets[:, 0] * len(self.passages) + targets[:, 1])
        self._add_exact(answers, first, wanted)
        if self._blocks is not None:
            self._add_near(self._blocks, answers, first, wanted)

    def _select(self, passage: IntArray, answer: IntArray, wanted: IntArray | None) -> BoolArray:
        if wanted is None:
            return np.ones(len(passage), dtype=np.bool_)
        return np.isin(answer * len(self.passages) + passage, wanted)

    def _add_exact(self, answers: TokenRows, first: int, wanted: IntArray | None) -> None:
        at, group = self._exact.lookup(answers)
        reach = _reach(at, answers.owner(at), self.least)
        own = self.passages
        for some in self._exact.parts(group):
            hits = np.flatnonzero(self._all_have[group[some]] < reach[some]) + some.start
            if not len(hits):
                continue
            place, where = self._exact.pairs(at[hits], group[hits])
            passage, answer = own.owner(place), answers.owner(where)
            before = (place > own.offsets[passage]) & (where > answers.offsets[answer])
            same = own.tokens[place - 1] == answers.tokens[where - 1]
            chosen = ~(before & same & (own.tokens[place - 1] >= 0)) & self._select(passage, answer, wanted)
            passage, answer = passage[chosen], answer[chosen]
            length = _extended(own, place[chosen], answers, where[chosen])
            self._keep_longest(passage, answer + first, length)
            self._close(np.unique(group[hits]))

    def _close(self, groups: IntArray) -> None:
        """Note how long a run all passages with a window have."""
        places, _ = self._exact.pairs(groups, groups)
        sizes = self._exact.begins[groups + 1] - self._exact.begins[groups]
        longest = self.longest[self.passages.owner(places)]
        self._all_have[groups] = np.minimum.reduceat(longest, np.cumsum(sizes) - sizes)

    def _keep_longest(self, passage: IntArray, answer: IntArray, length: IntArray) -> None:
        better = (length >= self.least) & (length > self.longest[passage])
        passage, answer, length = _best(passage[better], answer[better], -length[better])
        self.longest[passage], self.answer[passage], self.edits[passage] = -length, answer, 0

    def _add_near(self, blocks: _Index, answers: TokenRows, first: int, wanted: IntArray | None) -> None:
        at, group = blocks.lookup(answers)
        for some in blocks.parts(group):
            places, sites = blocks.pairs(at[some], group[some])
            passage, answer = self.passages.owner(places), answers.owner(sites)
            chosen = (self.edits[passage] > 0) & self._select(passage, answer, wanted)
            passage, answer = passage[chosen], answer[chosen]
            total = self._around(places[chosen], answers, sites[chosen])
            better = total < self.edits[passage]
            passage, answer, total = _best(passage[better], answer[better], total[better])
            self.edits[passage], self.answer[passage] = total, answer + first

    def _around(self, place: IntArray, answers: TokenRows, where: IntArray) -> IntArray:
        """Return the fewest edits between ``least`` tokens around each untouched block and a part of the answer."""
        rows, own = self.least - self.block, self.passages
        before = _edits(own, place - 1, answers, where - 1, -1, rows, self.allowed)
        after = _edits(own, place + self.block, answers, where + self.block, 1, rows, self.allowed)
        same = _extended(own, place, answers, where) >= self.block  # else the hash deceives
        return np.where(same, (before + after[:, ::-1]).min(axis=1, initial=2 * self.allowed + 2), self.allowed + 1)

    def prompted(self, prompts: TokenRows) -> IntArray:
        """Return the passages of which a prompt holds a block of ``echo`` tokens: all whose beginning it holds."""
        group = np.unique(self._parts.lookup(prompts)[1])
        parts = (group[some] for some in self._parts.parts(group))
        holders = [self.passages.owner(self._parts.pairs(part, part)[0]) for part in parts]
        return np.unique(np.concatenate([np.zeros(0, dtype=np.int64), *holders]))


def _best(passage: IntArray, answer: IntArray, cost: IntArray) -> tuple[IntArray, IntArray, IntArray]:
    """Return each passage once, with the first answer of the lowest cost, and that cost."""
    order = np.lexsort((answer, cost, passage))
    passages, at = np.unique(passage[order], return_index=True)
    return passages, answer[order][at], cost[order][at]


def _reach(at: IntArray, row: IntArray, length: int) -> IntArray:
    """Return the tokens of the longest run that each known window can be in: all that follow each other without gap."""
    if not len(at):
        return at
    gaps = np.r_[True, (np.diff(at) != 1) | (np.diff(row) != 0)]
    size = np.bincount(np.cumsum(gaps) - 1)
    return np.repeat(size, size) + length - 1


def _extended(passages: TokenRows, place: IntArray, answers: TokenRows, where: IntArray) -> IntArray:
    """Return how many tokens follow each other alike from each place on, in a passage and an answer."""
    length = np.zeros(len(place), dtype=np.int64)
    room = np.minimum(
        passages.offsets[passages.owner(place) + 1] - place, answers.offsets[answers.owner(where) + 1] - where
    )
    active, step = np.arange(len(place)), np.arange(_AT_ONCE)
    while len(active):
        shift = length[active, None] + step
        inside = shift < room[active, None]
        one = passages.tokens[np.where(inside, place[active, None] + shift, 0)]
        other = answers.tokens[np.where(inside, where[active, None] + shift, 0)]
        equal = np.c_[inside & (one == other) & (one >= 0), np.zeros(len(active), dtype=np.bool_)]
        length[active] += equal.argmin(axis=1)
        active = active[equal[:, :-1].all(axis=1)]
    return length


def _edits(
    passages: TokenRows, place: IntArray, answers: TokenRows, where: IntArray, direction: int, rows: int, most: int
) -> IntArray:
    """Return the fewest edits (n, rows + 1) between the first x tokens of a passage and any number of an answer.

    From a place in both, in a direction; ``most + 1`` where there are more, or the passage has no x tokens. A band of
    the table of Wagner and Fischer (1974), a token of all passages at a time, for those that have few edits so far.
    """
    counts = np.full((len(place), rows + 1), most + 1, dtype=np.int64)
    counts[:, 0] = 0
    band = np.arange(-most, most + 1)
    state = np.where(band < 0, most + 1, band)[None, :].repeat(len(place), axis=0)
    text, answer = passages.owner(place - direction), answers.owner(where - direction)
    active = np.arange(len(place))
    for x in range(1, rows + 1):
        at = place[active] + direction * (x - 1)
        inside = (at >= passages.offsets[text[active]]) & (at < passages.offsets[text[active] + 1])
        active, state, at = active[inside], state[inside], at[inside]
        if not len(active):
            break
        used = x + band  # tokens of the answer
        there = where[active, None] + direction * (used - 1)
        cost = state + ~_equal(answers, answer[active], there, passages.tokens[at])
        cost[:, used < 1] = most + 1
        np.minimum(cost[:, :-1], state[:, 1:] + 1, out=cost[:, :-1])
        state = np.minimum.accumulate(cost - band, axis=1) + band
        fewest = state.min(axis=1)
        counts[active, x] = np.minimum(fewest, most + 1)
        active, state = active[fewest <= most], state[fewest <= most]
    return counts


def _equal(answers: TokenRows, row: IntArray, places: IntArray, token: Tokens) -> BoolArray:
    """Return whether the tokens at places (n, k) of one answer each are the token (n,) of its passage."""
    real = (places >= answers.offsets[row, None]) & (places < answers.offsets[row + 1, None])
    return np.asarray(real & (answers.tokens[np.where(real, places, 0)] == token[:, None]) & (token >= 0)[:, None])


def covered(answers: TokenRows, prompts: TokenRows, length: int) -> BoolArray:
    """Return which tokens of the answers are in a run of ``length`` or more that stands in their prompt, too.

    Parameters
    ----------
    answers, prompts : TokenRows of equally many texts, each with its prompt
    length : tokens of a run, from 1

    Examples
    --------
    >>> answers = TokenRows(np.array([1, 2, 3, 4], dtype=np.int32), np.array([0, 4]))
    >>> covered(answers, TokenRows(np.array([7, 2, 3], dtype=np.int32), np.array([0, 3])), 2).tolist()
    [False, True, True, False]
    """
    (ours, whole), (theirs, valid) = answers.windows(length), prompts.windows(length)
    at, there = np.flatnonzero(whole), np.flatnonzero(valid)
    same = np.isin(_of_row(ours[at], answers.owner(at)), _of_row(theirs[there], prompts.owner(there)))
    changes = np.zeros(len(answers.tokens) + 1, dtype=np.int64)
    np.add.at(changes, at[same], 1)
    np.add.at(changes, at[same] + length, -1)
    return np.asarray(np.cumsum(changes)[:-1] > 0)


def _of_row(hashes: Hashes, row: IntArray) -> Hashes:
    return np.asarray((hashes ^ (row.view(np.uint64) * _MIX[0])) * _MIX[2])

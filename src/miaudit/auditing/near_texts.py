"""Which texts stand in others, or nearly do, and which are nearly equal: by their triples of words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from miaudit.arrays import BoolArray, IntArray

__all__ = ["SHARE", "in_members", "near"]

SHARE = 0.7  # of a text's triples of words that another has, from which it nearly stands there
_COMMON, _ALIKE = 32, 0.5  # texts that have a triple, at most; similarity that is near
_AT_ONCE = 64  # others that are compared at a time: whoever is found is not asked again
_BITS = 24
_MIX = (np.uint64(0x9E3779B97F4A7C15), np.uint64(0xBF58476D1CE4E5B9))


def near(
    texts: Sequence[str], others: Sequence[str], own: IntArray | None = None, whose: IntArray | None = None
) -> IntArray:
    """Return for each text the first of the others that has most of its triples of words, or -1.

    Letter case and white space are ignored. Of a text of one or two words these are its only triple. It is asked how
    much of a text stands in the other, not how alike the two are: a sentence is found in a long document.

    Parameters
    ----------
    texts : n str
    others : m str
    own : array (n,), optional
        Which of the others each text is itself, and is not compared with.
    whose : array (m,), optional
        Whose each of the others is: then ``own`` says whose a text is, and it is not compared with any of these.

    Returns
    -------
    Array (n,) of places in ``others``

    Notes
    -----
    Every pair is compared, through the triples that both have (by hashes of 64 bits).

    Examples
    --------
    >>> near(["The cat sat on the mat.", "a dog"], ["a dog ran", "so the cat sat on the mat. Then"]).tolist()
    [1, -1]
    """
    shared = _SharedTriples.of(texts, others)
    nearest = np.full(len(texts), -1, dtype=np.int64)
    for start in range(0, len(others), _AT_ONCE):
        row, other = shared.candidates(np.flatnonzero(nearest < 0), start)
        if own is not None:
            apart = (other if whose is None else whose[other]) != own[row]
            row, other = row[apart], other[apart]
        row, other = shared.close(row, other)
        order = np.lexsort((other, row))
        rows, first = np.unique(row[order], return_index=True)
        nearest[rows] = other[order][first]
    return nearest


@dataclass(frozen=True, eq=False)
class _SharedTriples:
    """Which triples of words, in columns, each text and each of the others has, as sparse matrices of ones.

    ``rarest`` holds of each text only so many triples that a document with enough of them all has one of these;
    ``needed`` (n,) is how many are enough.
    """

    of_texts: Any
    of_others: Any
    rarest: Any
    needed: IntArray

    @classmethod
    def of(cls, texts: Sequence[str], others: Sequence[str]) -> _SharedTriples:
        hashes, (text, column), (other, place) = _triples(texts, others)
        sizes = np.bincount(text, minlength=len(texts))
        needed = np.ceil(SHARE * sizes - 1e-9).astype(np.int64)
        rarest = _rarest(text, column, sizes - needed + 1, np.bincount(place, minlength=len(hashes)))
        return cls(
            _ones(text, column, (len(texts), len(hashes))),
            _ones(other, place, (len(others), len(hashes))),
            _ones(text[rarest], column[rarest], (len(texts), len(hashes))),
            needed,
        )

    def candidates(self, left: IntArray, start: int) -> tuple[IntArray, IntArray]:
        """Return pairs of one of these texts and one of the next others that share one of the text's rarest triples."""
        pairs = (self.rarest[left] @ self.of_others[start : start + _AT_ONCE].T).tocoo()
        return left[pairs.coords[0]], start + pairs.coords[1]

    def close(self, row: IntArray, other: IntArray) -> tuple[IntArray, IntArray]:
        """Return those of the pairs in which the other has enough of the text's triples."""
        if not len(row):
            return row, other
        common: IntArray = np.asarray(self.of_texts[row].multiply(self.of_others[other]).sum(axis=1)).ravel()
        close = common >= self.needed[row]
        return row[close], other[close]


def _ones(row: IntArray, column: IntArray, shape: tuple[int, int]) -> Any:
    """Return a sparse matrix with ones at these places."""
    from scipy import sparse  # noqa: PLC0415 - loads when used

    return sparse.csr_array((np.ones(len(row), dtype=np.int32), (row, column)), shape=shape)


def in_members(texts: Sequence[str], member: ArrayLike) -> BoolArray:
    """Say which non-members have an equal or nearly equal text among the members; fast, for long texts.

    Letter case and white space are ignored. Near means a Jaccard similarity of the sets of three words on end of at
    least one half, without those of more than 32 texts: a heading that all have makes no two of them alike.

    Parameters
    ----------
    texts : n str
    member : array (n,) of bool

    Returns
    -------
    array (n,) of bool, false for members

    Notes
    -----
    Every pair with three rare words in common is compared, exactly: O(words log words), as no word triple has more than
    32 texts.

    Examples
    --------
    >>> texts = ["the cat sat on the mat today", "The cat sat  on the mat", "rain", "a cat sat on a mat today"]
    >>> in_members(texts, [True, False, False, False]).tolist()
    [False, True, False, False]
    """
    inside = np.asarray(member, dtype=np.bool_)
    plain = [" ".join(text.lower().split()) for text in texts]
    known = {text for text, own in zip(plain, inside, strict=True) if own}
    held = np.array([not own and text in known for text, own in zip(plain, inside, strict=True)], dtype=np.bool_)
    hashes, whose = _of_group(plain, {})
    code, record = _once(np.unique(hashes, return_inverse=True)[1], whose)  # the texts of each triple, in their order
    rare = np.bincount(code)[code] <= _COMMON
    code, record = code[rare], record[rare]
    many = np.bincount(record, minlength=len(plain))
    nonmembers, members, common = _pairs_across(code, record, inside)
    held[nonmembers[common >= _ALIKE * (many[nonmembers] + many[members] - common)]] = True
    return held


def _pairs_across(code: IntArray, record: IntArray, inside: BoolArray) -> tuple[IntArray, IntArray, IntArray]:
    """Return each pair of a non-member and a member that share triples, and how many they share.

    Parameters
    ----------
    code, record : arrays (k,), each triple and a text that has it, ordered by the triple
    inside : array (n,), which texts are members
    """
    pairs = [np.empty(0, dtype=np.int64)]
    for apart in range(1, _COMMON):  # texts of one triple lie next to each other
        same = code[apart:] == code[:-apart]
        if not same.any():
            break
        a, b = record[:-apart][same], record[apart:][same]
        across = inside[a] != inside[b]
        a, b = a[across], b[across]
        pairs.append(np.where(inside[a], b, a) * len(inside) + np.where(inside[a], a, b))
    pair, common = np.unique(np.concatenate(pairs), return_counts=True)
    nonmembers, members = np.divmod(pair, len(inside))
    return nonmembers, members, common


def _rarest(text: IntArray, column: IntArray, counts: IntArray, held: IntArray) -> IntArray:
    """Return which triples are the rarest of their text, as many as one has that has too few of them in common.

    A document with enough of a text's triples has one of these.
    """
    order = np.lexsort((held[column], text))
    begins = np.searchsorted(text[order], np.arange(len(counts)))
    rank = np.arange(len(order)) - begins[text[order]]
    return order[rank < counts[text[order]]]


def _triples(
    texts: Sequence[str], others: Sequence[str]
) -> tuple[IntArray, tuple[IntArray, IntArray], tuple[IntArray, IntArray]]:
    """Return the hashes of all triples of the texts; then, of each text and each other, which of them it has, once."""
    known: dict[str, int] = {}
    mixed, whose = _of_group(texts, known)
    hashes, column = np.unique(mixed, return_inverse=True)
    other_hashes, other = _of_group(others, known)
    there = np.zeros(1 << _BITS, dtype=np.bool_)  # most triples of others are in no text, which one look tells
    there[hashes.view(np.uint64) >> np.uint64(64 - _BITS)] = True
    maybe = there[other_hashes.view(np.uint64) >> np.uint64(64 - _BITS)]
    other_hashes, other = other_hashes[maybe], other[maybe]
    place = np.minimum(np.searchsorted(hashes, other_hashes), max(len(hashes) - 1, 0))
    if len(hashes):
        same = hashes[place] == other_hashes
        place, other = place[same], other[same]
    return hashes, _once(whose, column), _once(other, place)


def _once(row: IntArray, column: IntArray) -> tuple[IntArray, IntArray]:
    """Return each pair of a row and a column once, in order."""
    order = np.lexsort((column, row))
    row, column = row[order], column[order]
    new = np.ones(len(row), dtype=np.bool_)
    new[1:] = (row[1:] != row[:-1]) | (column[1:] != column[:-1])
    return row[new], column[new]


def _of_group(texts: Sequence[str], known: dict[str, int]) -> tuple[IntArray, IntArray]:
    """Return hashes of three words that follow each other in a text, and whose they are; numbers new words."""
    parts = [text.lower().split() for text in texts]
    lengths = np.array([len(one) for one in parts], dtype=np.int64)
    number = known.setdefault
    words = np.fromiter((number(w, len(known) + 1) for one in parts for w in one), np.int64, count=lengths.sum())
    whose = np.repeat(np.arange(len(lengths)), lengths)
    left = np.repeat(np.cumsum(lengths), lengths) - np.arange(len(words))  # words from here to the end of the text
    padded = np.concatenate([words, np.zeros(2, dtype=np.int64)]).view(np.uint64)
    mixed = padded[:-2].copy()
    for step in (1, 2):
        mixed = (mixed ^ (mixed >> np.uint64(31))) * _MIX[step - 1]
        mixed += np.where(left > step, padded[step : step + len(words)], np.uint64(0))
    mixed = ((mixed ^ (mixed >> np.uint64(29))) * _MIX[0]).view(np.int64)
    whole = (left >= 3) | ((lengths[whose] < 3) & (left == lengths[whose]))
    return mixed[whole], whose[whole]

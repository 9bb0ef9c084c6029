"""How likely a language model is to repeat its texts word for word, and how far what it answers is from them.

A passage is a run of tokens after the tokens before it in the same text. Drawn from the model token by token it comes
out with the product of their probabilities p, and at least once in n queries with 1 - (1 - p)^n (Hayes et al.,
"Measuring memorization in language models via probabilistic extraction", 2024, who call it (n, p)-discoverable).
Log-probabilities are enough for that. An answer that is nearly the passage has to be seen: its edit distance is the
least number of tokens to insert, leave out or replace (Ippolito et al., "Preventing verbatim memorization in language
models gives a false sense of privacy", 2023).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from miaudit.arrays import BoolArray, FloatArray, IntArray
from miaudit.errors import InputError

__all__ = ["Passages", "edit_distances", "passages", "queries_needed", "within"]


@dataclass(frozen=True, eq=False)
class Passages:
    """The passages of n texts.

    Attributes
    ----------
    record : array (m,), the text that each passage is of, ascending
    log_p : array (m,), logarithm of the probability that the model continues with it, given all that stands before
    greedy : array (m,) of bool, or None: whether the likeliest token, one after another, gives it
    """

    record: IntArray
    log_p: FloatArray
    greedy: BoolArray | None


def passages(
    log_p: ArrayLike, offsets: ArrayLike, *, prefix: int, suffix: int, top1: ArrayLike | None = None
) -> Passages:
    """Cut texts into passages of ``suffix`` tokens one after another, from token ``prefix`` on; what is left is left.

    Parameters
    ----------
    log_p : array (tokens,), log-probability of each token after those before it, in nats
    offsets : array (n + 1,): text i owns the tokens offsets[i] to offsets[i + 1]
    prefix : tokens of a text that are context only, from 0
    suffix : tokens of a passage, from 1
    top1 : array (tokens,) of bool, optional: whether the token is the model's likeliest

    Examples
    --------
    >>> passages([-1.0, -2.0, -0.5, -0.25, -9.0], [0, 4, 5], prefix=2, suffix=2).log_p.tolist()
    [-0.75]
    """
    for name, value, least in (("prefix", prefix, 0), ("suffix", suffix, 1)):
        if isinstance(value, bool) or not isinstance(value, int) or value < least:
            raise InputError(name, f"a whole number from {least} up", repr(value), "50 is usual")
    values, starts = np.asarray(log_p, dtype=np.float64), np.asarray(offsets, dtype=np.int64)
    counts = np.maximum(np.diff(starts) - prefix, 0) // suffix
    record = np.repeat(np.arange(len(counts)), counts)
    which = np.arange(len(record)) - np.repeat(np.cumsum(counts) - counts, counts)
    at = starts[record] + prefix + suffix * which
    upto = (at[:, None] + np.arange(suffix)).reshape(len(at), suffix)
    greedy = None if top1 is None else np.asarray(np.asarray(top1, dtype=np.bool_)[upto].all(axis=1))
    return Passages(record, np.minimum(values[upto].sum(axis=1), 0.0), greedy)


def within(log_p: ArrayLike, queries: float) -> FloatArray:
    """Return the probability that a passage comes out at least once in so many independent queries, in [0, 1].

    Examples
    --------
    >>> within(np.log([0.5, 0.01, 1.0]), 2).round(4).tolist()
    [0.75, 0.0199, 1.0]
    """
    with np.errstate(divide="ignore"):
        return np.asarray(-np.expm1(queries * np.log1p(-np.exp(np.asarray(log_p, dtype=np.float64)))))


def queries_needed(log_p: ArrayLike, chance: float) -> FloatArray:
    """Return after how many queries a passage has come out with a probability of ``chance``, 1 or more.

    Examples
    --------
    >>> queries_needed(np.log([0.5, 0.01, 1.0]), 0.5).round(2).tolist()
    [1.0, 68.97, 1.0]
    """
    with np.errstate(divide="ignore"):
        none_yet = np.log1p(-np.exp(np.asarray(log_p, dtype=np.float64)))
        return np.asarray(np.maximum(np.divide(math.log1p(-chance), none_yet), 1.0))


_PAIRS = 1 << 14  # compared at a time


def edit_distances(said: ArrayLike, true: ArrayLike) -> IntArray:
    """Return the edit distance (Levenshtein, in tokens) of each answer to its passage, 0 where they are equal.

    Parameters
    ----------
    said : array (n, k) of token numbers; negative ones at the end of a row stand for nothing
    true : array (n, m) of token numbers

    Returns
    -------
    array (n,) of whole numbers from 0 to max(k, m)

    Notes
    -----
    The table of Wagner and Fischer (1974), a token of all passages at a time.

    Examples
    --------
    >>> edit_distances([[1, 2, 3], [2, 3, 4], [1, 2, -1]], [[1, 2, 3]] * 3).tolist()
    [0, 2, 1]
    """
    answers, passages_ = np.asarray(said, dtype=np.int64), np.asarray(true, dtype=np.int64)
    if answers.ndim != 2 or passages_.ndim != 2 or len(answers) != len(passages_):
        received = f"{answers.shape} and {passages_.shape}"
        raise InputError("said", "as many answers as passages, a row for each", received, "pass two arrays (n, tokens)")
    distances = np.zeros(len(answers), dtype=np.int64)
    for start in range(0, len(answers), _PAIRS):
        rows = slice(start, start + _PAIRS)
        distances[rows] = _distances(answers[rows].T, passages_[rows].T)
    return distances


def _distances(said: IntArray, true: IntArray) -> IntArray:
    """Edit distances of the columns of (k, n) and (m, n)."""
    width = np.arange(len(said) + 1, dtype=np.int32)[:, None]
    cost = np.repeat(width, said.shape[1], axis=1)  # to make the first j tokens of an answer of those seen so far
    for token in true:
        best = cost + 1
        np.minimum(best[1:], cost[:-1] + (said != token), out=best[1:])
        cost = np.minimum.accumulate(best - width, axis=0) + width  # tokens that the answer has beside them
    return np.asarray(cost[(said >= 0).sum(axis=0), np.arange(said.shape[1])], dtype=np.int64)

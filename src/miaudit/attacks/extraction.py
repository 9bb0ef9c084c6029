"""How likely a language model is to repeat its texts word for word, from log-probabilities that are there already.

A passage is a run of tokens after the tokens before it in the same text. Drawn from the model token by token it comes
out with the product of their probabilities p, and at least once in n queries with 1 - (1 - p)^n (Hayes et al.,
"Measuring memorization in language models via probabilistic extraction", 2024, who call it (n, p)-discoverable).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from miaudit.arrays import BoolArray, FloatArray, IntArray
from miaudit.errors import InputError

__all__ = ["Passages", "passages", "queries_needed", "within"]


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

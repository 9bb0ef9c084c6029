"""Poisson-binomial test of pure epsilon: exact tails for one vector of probabilities or for many at once.

The i-th guess T_i of a record with log-odds of membership lambda_i is right with probability at most
sigma(epsilon + T_i lambda_i), whatever the guesses before it turned out to be, if the algorithm is epsilon-DP
(Theorem D.1 of the zero-run paper, with the sign kept: statistics.md, section 7).
"""

# ruff: noqa: PLC0415 - scipy loads when used
from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from miaudit.causal.logistic import expit
from miaudit.dp.bounds import LowerBound
from miaudit.dp.guesses import GUESSES_FIRST
from miaudit.dp.row_choice import Order
from miaudit.errors import InputError

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
BoolArray = NDArray[np.bool_]

_BLOCK = 32  # trials whose law is built by the plain recursion before laws are convolved
_REACH = 9.0  # standard deviations kept on each side when a law is cut; what is cut off counts towards the tail
_LARGEST_PART = 2**22  # numbers in one batch of laws
_TOLERANCE = 1e-4  # of a bound on epsilon
_EXACT = 1e-12  # error of a tail
_LARGEST = 700.0  # exp overflows above


def tail(p: ArrayLike, least: int) -> FloatArray:
    """P(at least ``least`` successes) in independent trials, for each row of probabilities.

    Exact up to 1e-12, and never below the truth by more than that: laws of blocks of trials are convolved pairwise by
    FFT, cut where less than about 1e-18 of them lies outside, and the mass that is cut counts towards the tail.

    Parameters
    ----------
    p : array (..., n), probabilities in [0, 1]
    least : int, any

    Returns
    -------
    array (...), in [0, 1]; 1 for ``least`` of 0 or less, 0 above n

    Examples
    --------
    >>> tail([0.5, 0.5, 0.2], 2).round(3).item()
    0.35
    """
    q = np.asarray(p, dtype=np.float64)
    n = q.shape[-1]
    if least <= 0 or least > n:
        return np.full(q.shape[:-1], float(least <= 0))
    if least == n:
        return np.asarray(q.prod(axis=-1))
    rows = q.reshape(-1, n)
    per_part = max(1, _LARGEST_PART // (2 * n))
    parts = [_tail_of(rows[k : k + per_part], least) for k in range(0, len(rows), per_part)]
    return np.concatenate(parts).reshape(q.shape[:-1])


def _tail_of(p: FloatArray, least: int) -> FloatArray:
    """Tails of the rows of p (k, n), for 0 < least <= n."""
    blocks = _blocks(p)
    law = _recursion(blocks)
    mean, variance = blocks.sum(axis=-1), (blocks * (1 - blocks)).sum(axis=-1)
    start = np.zeros(law.shape[:-1], dtype=np.int64)
    while law.shape[1] > 1:
        law = _convolve(law[:, ::2], law[:, 1::2])
        mean, variance = mean[:, ::2] + mean[:, 1::2], variance[:, ::2] + variance[:, 1::2]
        start = start[:, ::2] + start[:, 1::2]
        law, start = _cut(law, start, mean, variance)
    law, start = law[:, 0], start[:, 0]
    count = start[:, None] + np.arange(law.shape[1])
    reached = np.where(count >= least, law, 0.0).sum(axis=1)
    return np.asarray(np.clip(reached + np.maximum(0.0, 1 - law.sum(axis=1)), 0.0, 1.0))


def _blocks(p: FloatArray) -> FloatArray:
    """Split trials (k, n) into a power of two of equal blocks (k, blocks, size); trials that never succeed fill up."""
    k, n = p.shape
    size = min(_BLOCK, n)
    count = 1 << max(0, math.ceil(math.log2(n / size)))
    filled = np.zeros((k, count * size))
    filled[:, :n] = p
    return filled.reshape(k, count, size)


def _recursion(p: FloatArray) -> FloatArray:
    """Laws (k, blocks, size + 1) of the number of successes in each block, by the plain recursion."""
    size = p.shape[-1]
    law = np.zeros((*p.shape[:-1], size + 1))
    law[..., 0] = 1.0
    for j in range(size):
        q = p[..., j, None]
        moved = law[..., : j + 1] * q
        law[..., : j + 1] -= moved
        law[..., 1 : j + 2] += moved
    return law


def _convolve(a: FloatArray, b: FloatArray) -> FloatArray:
    """Laws of sums along the last axis."""
    from scipy.fft import irfft, next_fast_len, rfft

    width = a.shape[-1] + b.shape[-1] - 1
    size = next_fast_len(width, real=True)
    return np.asarray(np.maximum(irfft(rfft(a, size) * rfft(b, size), size)[..., :width], 0.0))


def _cut(
    law: FloatArray, start: NDArray[np.int64], mean: FloatArray, variance: FloatArray
) -> tuple[FloatArray, NDArray[np.int64]]:
    """Keep a window about each mean, of one width for all laws."""
    width = 2 * math.ceil(_REACH * math.sqrt(float(variance.max())) + 20) + 1
    surplus = law.shape[-1] - width
    if surplus < width // 2:
        return law, start
    first = np.clip(np.rint(mean).astype(np.int64) - width // 2 - start, 0, surplus)
    kept = np.take_along_axis(law, first[..., None] + np.arange(width), axis=-1)
    return kept, start + first


def approximate_tail(p: FloatArray, least: int) -> FloatArray:
    """Normal approximation of :func:`tail` with its correction for skewness: a screen, never a result.

    Examples
    --------
    >>> approximate_tail(np.full(400, 0.6), 256).round(3).item(), tail(np.full(400, 0.6), 256).round(3).item()
    (0.056, 0.056)
    """
    from scipy.special import ndtr

    variance = p * (1 - p)
    scale = np.sqrt(np.maximum(variance.sum(axis=-1), 1e-300))
    skew = (variance * (1 - 2 * p)).sum(axis=-1) / scale**3
    x = (least - 0.5 - p.sum(axis=-1)) / scale
    density = np.exp(-np.minimum(x * x, 1400.0) / 2) / math.sqrt(2 * math.pi)
    return np.asarray(np.clip(ndtr(-x) - skew * (1 - x * x) * density / 6, 0.0, 1.0))


# -- the bound ------------------------------------------------------------------------------------------------------


def epsilon_bound(toward: ArrayLike, correct: int, level: float) -> float:
    """Return the largest epsilon at which the number of correct guesses is still too large, 0 if there is none.

    Parameters
    ----------
    toward : array (r,), T lambda: log-odds before the algorithm is asked that each guess is right; higher is easier
    correct : number of right guesses, 0 to r
    level : error probability in (0, 1)

    Returns
    -------
    float, 0 or more: the exact tail there is at most ``level``; within 1e-4 of the largest such value

    Examples
    --------
    >>> round(epsilon_bound(np.zeros(100), 80, 0.05), 2)
    0.96
    """
    return Replicates(np.asarray(toward, dtype=np.float64)[None, :], correct).bound(level, 0)


@dataclass(frozen=True, eq=False)
class _Span:
    """Where the value lies, and which replicates (K,) are not rejected at either end."""

    low: float
    high: float
    kept_low: NDArray[np.bool_]
    kept_high: NDArray[np.bool_]

    def next(self, step: float, probed: bool) -> float:
        """Step outwards until both ends were tested, then halve."""
        if not math.isfinite(self.high):
            return self.low + step
        return (self.low + self.high) / 2 if probed else max(self.low, self.high - step)


@dataclass(frozen=True, eq=False)
class Replicates:
    """The same guesses under many propensities: replicates of a bootstrap, or a single one.

    Attributes
    ----------
    toward : array (K, r), T lambda of each guess in each replicate
    correct : number of right guesses
    """

    toward: FloatArray
    correct: int

    def __post_init__(self) -> None:
        if self.toward.ndim != 2 or self.toward.size == 0 or not np.isfinite(self.toward).all():
            raise InputError(
                "toward", "finite log-odds (replicates, guesses)", f"shape {self.toward.shape}", "check the propensity"
            )

    def p_values(self, epsilon: float) -> FloatArray:
        """Exact p-value (K,) of this epsilon under each replicate."""
        return tail(expit(self.toward + epsilon), self.correct)

    def bound(self, level: float, below: int) -> float:
        """Return a value that all but ``below`` replicates reach with their exact bounds, to 1e-4, 0 or more.

        ``below`` = 0 is the smallest bound of all; with K replicates, floor(K p') gives their plain p'-quantile (B7).
        The search starts at the normal approximation, but only exact tails decide. A replicate that was rejected at a
        larger epsilon, or kept at a smaller one, needs no second test.
        """
        if self.correct <= 0:
            return 0.0
        nobody = np.zeros(len(self.toward), dtype=np.bool_)
        span, probed = _Span(0.0, math.inf, nobody, ~nobody), False
        step = max(_TOLERANCE, 0.1 / self.toward.shape[1])  # about the error of the approximation
        at = max(0.0, float(np.sort(self.approximate_bounds(level))[below]) - step / 2)
        while span.high - span.low > _TOLERANCE:
            kept = span.kept_low.copy()
            open_ = np.flatnonzero(span.kept_high & ~span.kept_low)
            kept[open_] = tail(expit(self.toward[open_] + at), self.correct) > level
            if np.count_nonzero(kept) > below:
                if at == 0.0:
                    return 0.0
                span = _Span(span.low, at, span.kept_low, kept)
            else:
                span, probed = _Span(at, span.high, kept, span.kept_high), True
            at, step = span.next(step, probed), 4 * step
        return span.low

    def approximate_bounds(self, level: float) -> FloatArray:
        """Return bounds (K,) by the normal approximation: where a search starts, never a result.

        A few secant steps on the normal scale, where the tail is nearly linear in epsilon.
        """
        from scipy.special import ndtri

        n = self.toward.shape[1]
        share = min(max(self.correct / n, 0.5 / n), 1 - 0.5 / n)
        wanted = ndtri(level)

        def miss(at: FloatArray) -> FloatArray:
            p = approximate_tail(expit(self.toward + at[:, None]), self.correct)
            return np.asarray(ndtri(np.clip(p, 1e-12, 1 - 1e-12)) - wanted)

        before = np.clip(math.log(share / (1 - share)) - self.toward.mean(axis=1) - 0.5, 0.0, _LARGEST)
        at, missed = before + 0.2, miss(before)
        for _ in range(6):
            now = miss(at)
            slope = np.where(
                np.abs(now - missed) > 1e-9, (now - missed) / np.where(at == before, 1.0, at - before), 1.0
            )
            before, missed = at, now
            at = np.clip(at - np.clip(now / np.where(slope > 0, slope, 1.0), -1.0, 1.0), 0.0, _LARGEST)
        return np.asarray(at)


# -- the audit ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class UntamperedTest:
    """Test of pure epsilon on ranked guesses, with the number of right ones and no coins (Theorem D.1, erratum B9).

    Attributes
    ----------
    order : of the records and the guesses
    correct : array (m,) of bool, in that order
    toward : array (m,), log-odds that each guess is right before the algorithm is asked, margin included
    replicates : from places (r,) to the same log-odds (K, r) under bootstrap replicates of the propensity; None without
        Half of the error probability then goes to the bootstrap: the bound is the plain quantile (erratum B7).
    """

    order: Order
    correct: BoolArray
    toward: FloatArray
    replicates: Callable[[IntArray], FloatArray] | None = None

    def bound(self, rows: IntArray, guesses: int, confidence: float) -> LowerBound:
        """Return the bound of the first so many guesses among these rows."""
        chosen = rows[:guesses]
        right = int(np.count_nonzero(self.correct[chosen]))
        level, cost = (1 - confidence, 0.0) if self.replicates is None else ((1 - confidence) / 2, (1 - confidence) / 2)
        toward = self.toward[None, chosen] if self.replicates is None else self.replicates(chosen)
        below = math.floor(cost * len(toward))
        test = Replicates(toward, right)
        return LowerBound(
            parameter="epsilon",
            value=test.bound(level, below),
            confidence=confidence,
            method="zero run, Poisson-binomial test of pure epsilon (Theorem D.1)",
            p_value=min(1.0, max(_EXACT, float(np.sort(test.p_values(0.0))[-1 - below])) + cost),
            correct=right,
            guesses=guesses,
            canaries=len(rows),
            reachable=epsilon_bound(self.toward[chosen], guesses, level),
            assumptions=(GUESSES_FIRST,),
        )

    def share_right(self, rows: IntArray, guesses: int) -> tuple[int, int]:
        """Return right and made guesses among the first so many of these rows."""
        chosen = rows[:guesses]
        return int(np.count_nonzero(self.correct[chosen])), len(chosen)

    def foreseen(self, rows: IntArray, guesses: int, share: float, confidence: float) -> float:
        """Return the approximate bound if this share of the guesses were right."""
        test = Replicates(self.toward[None, rows[:guesses]], math.floor(share * guesses))
        return float(test.approximate_bounds(1 - confidence)[0])

    def canaries(self, rows: IntArray) -> int:
        """Return the number of rows."""
        return len(rows)

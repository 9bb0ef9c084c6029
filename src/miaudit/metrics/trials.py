"""Independent trials: one record of each unit, and the exact tails of how many succeed, each with its probability."""

# ruff: noqa: PLC0415 - scipy loads when used
from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from miaudit.arrays import BoolArray, FloatArray, IndexArray, IntArray

_BLOCK = 32  # trials whose law is built by the plain recursion before laws are convolved
_REACH = 9.0  # standard deviations kept on each side when a law is cut; what is cut off counts towards the tail
_LARGEST_PART = 2**22  # numbers in one batch of laws
# The normal approximation with its correction for skewness misses by at most .1618 / variance where the variance is at
# least 100 (Neammanee 2005, A refinement of normal approximation to Poisson binomial).
_REFINED, _LEAST_VARIANCE = 0.1618, 100.0
_SAYS_NOTHING = 0.5  # p-values from here up


# -- how many succeed --------------------------------------------------------------------------------------------------


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


def _cut(law: FloatArray, start: IntArray, mean: FloatArray, variance: FloatArray) -> tuple[FloatArray, IntArray]:
    """Keep a window about each mean, of one width for all laws."""
    width = 2 * math.ceil(_REACH * math.sqrt(float(variance.max())) + 20) + 1
    surplus = law.shape[-1] - width
    if surplus < width // 2:
        return law, start
    first = np.clip(np.rint(mean).astype(np.int64) - width // 2 - start, 0, surplus)
    likely = np.take_along_axis(law, first[..., None] + np.arange(width), axis=-1)
    return likely, start + first


def tail_exceeds(p: FloatArray, least: int, level: float) -> BoolArray:
    """Return for each row of probabilities (k, n) whether :func:`tail` is above a level.

    The law of a row is built only where the error of the normal approximation leaves that open.

    Examples
    --------
    >>> tail_exceeds(np.full((2, 2000), [[0.5], [0.52]]), 1040, 0.05)
    array([False,  True])
    """
    near, error = _approximated(p, least)
    exceeds = near > level
    open_ = np.flatnonzero(np.abs(near - level) <= error)
    if len(open_):
        exceeds[open_] = tail(p[open_], least) > level
    return exceeds


def largest_tail(p: FloatArray, least: int, place: int) -> float:
    """Return the largest of the :func:`tail` of rows of probabilities (k, n), or the one at a place from it.

    The law of a row is built only where the error of the normal approximation leaves open that it is the one. Above one
    half it is rounded up by the bound on that error, at most .0033: as a p-value it stays valid, and it says nothing.

    Examples
    --------
    >>> round(largest_tail(np.full((2, 2000), [[0.5], [0.52]]), 1040, 1), 4)
    0.0386
    """
    near, error = _approximated(p, least)
    least_of_it, most_of_it = (float(np.sort(near + sign * error)[-1 - place]) for sign in (-1, 1))
    if least_of_it > _SAYS_NOTHING:
        return min(1.0, most_of_it)
    larger = int(np.count_nonzero(near - error > most_of_it))  # a tail that is one of these is not the one
    open_ = (near + error >= least_of_it) & (near - error <= most_of_it)
    return float(np.sort(tail(p[open_], least))[-1 - (place - larger)])


def _approximated(p: FloatArray, least: int) -> tuple[FloatArray, FloatArray]:
    """Return for each row (k, n) the approximate tail, and how far it is from the tail at most."""
    variance = np.einsum("kn,kn->k", p, 1 - p)
    error = np.where(variance >= _LEAST_VARIANCE, _REFINED / np.maximum(variance, 1.0), 2.0)
    return approximate_tail(p, least), error


def approximate_tail(p: FloatArray, least: int) -> FloatArray:
    """Normal approximation of :func:`tail` with its correction for skewness: a screen, never a result.

    Examples
    --------
    >>> approximate_tail(np.full(400, 0.6), 256).round(3).item(), tail(np.full(400, 0.6), 256).round(3).item()
    (0.056, 0.056)
    """
    from scipy.special import ndtr

    variance = p * (1 - p)
    scale = np.sqrt(np.maximum(variance.sum(axis=-1), 1e-200))  # its cube is still above 0
    skew = (variance * (1 - 2 * p)).sum(axis=-1) / scale**3
    x = (least - 0.5 - p.sum(axis=-1)) / scale
    density = np.exp(-np.minimum(x * x, 1400.0) / 2) / math.sqrt(2 * math.pi)
    return np.asarray(np.clip(ndtr(-x) - skew * (1 - x * x) * density / 6, 0.0, 1.0))


# -- one record of each unit -------------------------------------------------------------------------------------------
#
# Which one is a matter of chance; what is easily overlooked is how often a unit comes to be represented. A propensity
# that was learned from records says how a record drawn from all of them is likely to be a member. If members have five
# records each and non-members one, it is five times too large for one record of each unit.


def one_of_each(code: IntArray, rng: np.random.Generator) -> IndexArray:
    """Draw the row of one record of each unit, from unit codes (n,) that count from 0; ascending, in O(n)."""
    order = rng.permutation(len(code))[::-1]
    first = np.full(int(code.max(initial=-1)) + 1, -1, dtype=np.intp)
    first[code[order]] = order  # of several records of a unit the last one stays: the first of the permutation
    selected = np.zeros(len(code), dtype=np.bool_)
    selected[first[first >= 0]] = True
    return np.flatnonzero(selected)


def sizes(code: IntArray) -> IntArray:
    """Return the size of the unit of each record (n,), from unit codes (n,) that count from 0."""
    return np.asarray(np.bincount(code)[code])


def equal_sizes(code: IntArray) -> bool:
    """Return whether all units have the same number of records."""
    number = np.bincount(code)
    number = number[number > 0]
    return bool((number == number[0]).all())


def kish_share(code: IntArray) -> float:
    """Return Kish's effective share of records if those of a unit are all alike, in (0, 1].

    Examples
    --------
    >>> kish_share(np.array([0, 0, 1, 1])), round(kish_share(np.array([0, 0, 0, 1])), 2)
    (0.5, 0.4)
    """
    number = np.bincount(code).astype(np.float64)
    return float(number.sum() / (number @ number))


def drawn_alike(code: IntArray, rng: np.random.Generator, *, of: IntArray | None = None) -> IntArray:
    """Draw at most one record of each unit, every record with the same chance; ascending rows.

    A unit of k records is represented with probability k / K, where K is the size of the largest one. What was learned
    from all records, such as a propensity, then holds for the drawn ones as it stands. Where all units are equally
    large each is represented, and the draw is that of :func:`one_of_each`.

    Parameters
    ----------
    code : array (n,), unit of each record, counted from 0
    rng : draws records and units
    of : array (n,), sizes of the units, where these records are only a part; default: as counted here

    Examples
    --------
    >>> code = np.repeat(np.arange(1100), [5] * 100 + [1] * 1000)
    >>> rows = drawn_alike(code, np.random.default_rng(0))
    >>> int((code[rows] < 100).sum()), 150 < int((code[rows] >= 100).sum()) < 250
    (100, True)
    """
    number = sizes(code) if of is None else of
    rows = one_of_each(code, rng)
    if (number == number[0]).all():
        return rows
    return np.asarray(rows[rng.random(len(rows)) * number.max() < number[rows]])

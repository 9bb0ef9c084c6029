"""How many of some records were used in a training, at least: exact, and without a model of the scores.

The score of a record that was not used is exchangeable with those of its decoys, or of records that are known not to
have been used. So how often such a record is among the highest is a count with a known law, whatever the model did with
the records that it used. A bound from below follows, and none from above: nothing shows that a record was not used.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from miaudit.arrays import Count, FloatArray, Inside, IntArray, Positive, Share
from miaudit.errors import InputError
from miaudit.errors.checks import check_confidence

__all__ = ["TOPS", "Usage", "among_decoys", "beside_nonmembers", "of_ranks"]

TOPS = (0.01, 0.05, 0.2)  # shares of the highest scores at which hits are counted

Tail = Callable[[int, int], float]  # (unused records, hits): the probability of at least so many hits


@dataclass(frozen=True)
class Usage:
    """How many of n records were used, at least.

    Attributes
    ----------
    records : n, of which the bound is; units, where a chance draw decided for several records together
    used : lower confidence bound of the number of records that were used; 0 where nothing shows any use
    hits : records whose score is among the highest, at the share that gives the bound
    chance : with which a record that was not used is among them, in (0, 1)
    confidence : one-sided, of the bound over all shares that were tried, in (0, 1)
    against : what the records were compared with
    """

    records: Positive
    used: Count
    hits: Count
    chance: Inside
    confidence: Inside
    against: Literal["decoys", "non-members"]

    @property
    def share(self) -> Share:
        """Lower confidence bound of the share of the records that were used, in [0, 1]."""
        return self.used / self.records

    @property
    def estimate(self) -> Share:
        """Share of used records if each of them is a hit: hits beyond chance, in [0, 1]; no bound."""
        return max(0.0, (self.hits / self.records - self.chance) / (1 - self.chance))


def among_decoys(true: ArrayLike, decoys: ArrayLike, *, confidence: float = 0.95) -> Usage:
    """Bound how many records were used, from the score of each record's string and of decoys of the same law.

    Parameters
    ----------
    true : array (n,), the score of each record's own string; higher means more likely used
    decoys : array (n, K), the scores of K decoys each, which no training has seen
    confidence : one-sided, in (0, 1)

    Returns
    -------
    Usage
        ``chance`` is j / (K + 1), where a hit is among the j highest of K + 1.

    Raises
    ------
    InputError
        For other shapes, or numbers that are not finite.

    Notes
    -----
    A record that was not used is among the j highest of its K + 1 strings with probability at most b = j / (K + 1),
    independently of all else: ties count against it. With u used records the number of hits is at most u plus a
    binomial count of n - u records. "At most u were used" is refuted where that reaches the hits with probability at
    most (1 - confidence) over the number of shares tried (Bonferroni). Used records may do anything.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> true, decoys = rng.normal(size=400), rng.normal(size=(400, 20))
    >>> true[:100] += 6
    >>> among_decoys(true, decoys).used
    88
    >>> among_decoys(rng.normal(size=400), decoys).used
    0
    """
    check_confidence(confidence)
    own, others = _finite("true", true, 1), _finite("decoys", decoys, 2)
    if len(others) != len(own):
        raise InputError("decoys", f"one row for each of {len(own):,} records", f"{len(others):,} rows", "score all")
    return of_ranks((others >= own[:, None]).sum(axis=1), others.shape[1], confidence=confidence)


def of_ranks(rank: IntArray, decoys: int, *, confidence: float = 0.95) -> Usage:
    """Bound how many records were used, from how many of its decoys (n,) score at least as high as each string.

    Examples
    --------
    >>> of_ranks(np.repeat([0, 10], 50), 20).used
    44
    """
    strings = decoys + 1
    tops = sorted({max(1, round(top * strings)) for top in TOPS})
    counted = [(int(np.count_nonzero(rank < j)), j / strings, partial(_binomial_tail, j / strings)) for j in tops]
    return _largest(len(rank), counted, confidence, "decoys")


def beside_nonmembers(candidates: ArrayLike, nonmembers: ArrayLike, *, confidence: float = 0.95) -> Usage:
    """Bound how many candidates were used, from their scores and those of records that were not used.

    Parameters
    ----------
    candidates : array (n,), scores; higher means more likely used
    nonmembers : array (m,), scores of records that no training has seen
        Candidates that were not used must be exchangeable with them: one random split of one source, for example.
        Texts of another source or year are not.
    confidence : one-sided, in (0, 1)

    Returns
    -------
    Usage
        ``chance`` is k / (m + 1), where a hit is above the k-th highest non-member.

    Raises
    ------
    InputError
        For other shapes, or numbers that are not finite.

    Notes
    -----
    Among exchangeable scores the number of unused candidates above the k-th highest of m non-members is at most a
    beta-binomial count (n - u; k, m - k + 1), by the law of order statistics; ties count against a candidate. The rest
    is as in :func:`among_decoys`. The law holds for any law of scores, so neither half of the data is given up.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> candidates, nonmembers = rng.normal(size=400), rng.normal(size=1000)
    >>> candidates[:100] += 6
    >>> beside_nonmembers(candidates, nonmembers).used
    97
    >>> beside_nonmembers(nonmembers[:500], nonmembers[500:]).used
    0
    """
    check_confidence(confidence)
    own, others = _finite("candidates", candidates, 1), _finite("nonmembers", nonmembers, 1)
    m, highest = len(others), np.sort(others)[::-1]
    tops = sorted({max(1, round(top * (m + 1))) for top in TOPS})
    counted = [
        (int(np.count_nonzero(own > highest[k - 1])), k / (m + 1), partial(_beta_binomial_tail, k, m - k + 1))
        for k in tops
    ]
    return _largest(len(own), counted, confidence, "non-members")


def _largest(
    n: int, counted: Sequence[tuple[int, float, Tail]], confidence: float, against: Literal["decoys", "non-members"]
) -> Usage:
    """Return the largest bound of several shares, each at its part of the level; of equal ones the first."""
    level = (1 - confidence) / len(counted)
    bounds = [
        Usage(n, _least(hits, n, tail, level), hits, chance, confidence, against) for hits, chance, tail in counted
    ]
    return max(bounds, key=lambda bound: bound.used)


def _least(hits: int, n: int, tail: Tail, level: float) -> int:
    """Return the smallest number u of used records that is not refuted: u plus chance hits reach the hits."""
    refuted, open_ = -1, hits  # as many as there are hits are never refuted
    while open_ - refuted > 1:
        u = (refuted + open_) // 2
        if tail(n - u, hits - u) <= level:
            refuted = u
        else:
            open_ = u
    return open_


def _binomial_tail(b: float, n: int, hits: int) -> float:
    """P(Bin(n, b) >= hits), for at least one hit."""
    return float(special.bdtrc(hits - 1, n, b))


def _beta_binomial_tail(first: float, second: float, n: int, hits: int) -> float:
    """P(count >= hits) of a binomial count of n whose probability has the law Beta(first, second)."""
    count = np.arange(hits, n + 1, dtype=np.float64)
    choose = special.gammaln(n + 1) - special.gammaln(count + 1) - special.gammaln(n - count + 1)
    weight = special.betaln(count + first, n - count + second) - special.betaln(first, second)
    return float(np.exp(choose + weight).sum())


def _finite(name: str, values: ArrayLike, dimensions: int) -> FloatArray:
    array = np.asarray(values, dtype=np.float64)
    if array.ndim != dimensions or not array.size:
        shape = "(n,)" if dimensions == 1 else "(n, K)"
        raise InputError(name, f"numbers of shape {shape}, at least one", f"shape {array.shape}", "pass one score")
    if not np.isfinite(array).all():
        bad = int(np.argwhere(~np.isfinite(array))[0][0])
        raise InputError(name, "finite numbers", f"NaN or infinity, first in row {bad}", "drop or repair it")
    return array

"""The surest members: a list of the records with the highest scores, and how right it is.

A few members that are exposed for certain move no true-positive rate at 1%, and still an attacker can name them. The
length of the list follows from counts alone, so that how many members are on it is a binomial count, or less, under
every mechanism by which the odds of membership of each listed record are at most those of the limit (Hoeffding 1956).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Literal

import numpy as np
from annotated_types import Interval
from scipy import special

from miaudit.arrays import BoolArray, Count, FloatArray, Inside, Positive, Share
from miaudit.metrics.classical import Sample, clopper_pearson
from miaudit.metrics.counted_sample import CountedSample
from miaudit.metrics.sorted_counts import SortedCounts

__all__ = ["SurestMembers", "surest_members", "surest_of"]

_SHARE = 0.01  # of the members that the shortest list is to hold
_LONGER = 1.15  # by which a list that is refuted is made longer


@dataclass(frozen=True)
class SurestMembers:
    """The highest scores as a list of accused records (units, where records share them).

    Attributes
    ----------
    score : its name
    listed : length of the list
    members : how many of them are members
    low, high : exact confidence limits of the share of members on such lists
    chance : share of members among all records
    sure : the limit: how right a list may be at even odds
    q : the same for the share of members that there is
    p : of "lists of this length are at most that right"; below ``level`` the limit is exceeded
    level : one-sided, after the correction for several scores
    of : "records", or "pairs" of a true string and a decoy (design "matched"); of a pair ``members`` are those in which
        the string with the higher score is the true one
    """

    score: str
    listed: Positive
    members: Count
    low: Share
    high: Share
    chance: Inside
    sure: Annotated[float, Interval(gt=0.5, lt=1)]
    q: Inside
    p: Share
    level: Inside
    of: Literal["records", "pairs"] = "records"

    @property
    def exceeded(self) -> bool:
        """Whether lists of this length are shown to be more right than the limit."""
        return self.p <= self.level


def surest_members(
    sample: Sample,
    *,
    score: str = "score",
    level: float,
    sure: float = 0.9,
    chance: float | None = None,
    confidence: float = 0.95,
) -> SurestMembers | None:
    """Count the members among the highest scores, and test whether such a list is at most ``sure`` right at even odds.

    Parameters
    ----------
    sample : of one score; with units each is listed once, by its highest score, and those of both classes are left out
    score : its name
    level : one-sided level of the test, in (0, 0.5)
    sure : precision at even odds, in (0.5, 1)
    chance : probability with which independent coins made each record a member; None where the numbers of members and
        non-members were fixed, or it is unknown
    confidence : two-sided, of the limits

    Returns
    -------
    SurestMembers or None
        Of the longest list that is refuted, else of the first; None where there are too few records for a list.

    Source: a list of r records of which each is a member with probability at most q holds at most Bin(r, q) members
    (in the tail, Hoeffding 1956). The first length is the smallest that can be refuted, or 1% of the members; then
    it grows by 15% as long as it is refuted: a fixed sequence, each at the full level. A list ends where the score
    changes, so that no draw decides between equal scores: that follows from scores alone, which an attacker sees.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> member = np.arange(4000) < 2000
    >>> values = np.where(np.arange(4000) < 50, 9.0, rng.normal(size=4000))  # 50 members are exposed
    >>> from miaudit.evidence import Evidence
    >>> found = surest_members(Sample.of(Evidence(score=values, member=member)), level=0.025)
    >>> found.listed, found.members, found.exceeded
    (50, 50, True)
    """
    if isinstance(sample, CountedSample):
        counts = sample.counts
        ranked = _Ranked(counts.records, counts.members, _whole_of(counts), _members_of(counts))
        return _tested(ranked, score=score, level=level, sure=sure, chance=chance, confidence=confidence)
    rising, member = _listable(sample)
    if not 0 < np.count_nonzero(member) < len(member):
        return None
    return surest_of(rising, member, score=score, level=level, sure=sure, chance=chance, confidence=confidence)


def surest_of(
    rising: FloatArray,
    member: BoolArray,
    *,
    score: str,
    level: float,
    sure: float,
    chance: float | None,
    confidence: float,
) -> SurestMembers | None:
    """Return :func:`surest_members` of scores (n,) from the lowest on, and of who is a member (n,).

    Examples
    --------
    >>> right = np.arange(1000) >= 0  # every guess
    >>> options = {"score": "loss", "level": 0.025, "sure": 0.9, "chance": 0.5, "confidence": 0.95}
    >>> surest_of(np.arange(1000.0), right, **options).exceeded
    True
    """
    counts = np.cumsum(member[::-1], dtype=np.int64)
    ranked = _Ranked(
        len(member),
        int(counts[-1]),
        lambda listed: _whole(listed, rising),
        lambda listed: int(counts[listed - 1]),
    )
    return _tested(ranked, score=score, level=level, sure=sure, chance=chance, confidence=confidence)


@dataclass(frozen=True, eq=False)
class _Ranked:
    """Records from the highest score down: ``records`` in number, of them ``inside`` members.

    ``whole`` gives the length of a list that also holds all records whose score equals its last one, and ``members``
    the members on a list of such a length.
    """

    records: int
    inside: int
    whole: Callable[[int], int]
    members: Callable[[int], int]


def _whole_of(counts: SortedCounts) -> Callable[[int], int]:
    n = counts.records
    return lambda listed: n if listed >= n else n - sum(counts.below(counts.at(n - listed)))


def _members_of(counts: SortedCounts) -> Callable[[int], int]:
    n = counts.records
    return lambda listed: counts.members - (0 if listed >= n else counts.below(counts.at(n - listed))[0])


def _tested(
    ranked: _Ranked, *, score: str, level: float, sure: float, chance: float | None, confidence: float
) -> SurestMembers | None:
    """Return the list of :func:`surest_members`."""
    n, inside = ranked.records, ranked.inside
    share = inside / n if chance is None else chance
    odds = sure / (1 - sure)
    q = odds * share / (odds * share + 1 - share)
    first = max(math.ceil(math.log(level) / math.log(q)), math.ceil(_SHARE * share * n / sure))
    first = ranked.whole(first)
    if first >= n:
        return None
    listed = _longest_refuted(first, ranked, q, level)
    c = ranked.members(listed)
    low, high = clopper_pearson(c, listed, confidence)
    return SurestMembers(score, listed, c, low, high, share, sure, q, _p_value(first, ranked, q), level)


def _listable(sample: Sample) -> tuple[FloatArray, BoolArray]:
    """Scores from the lowest on, and who is a member: of records, or of the units of one class by the highest score."""
    units = sample.units
    if units is None or not units.repeat:
        return sample.score[sample.ascending], sample.member[sample.ascending]
    highest = np.full(units.count, -np.inf)
    np.maximum.at(highest, units.code, sample.score)
    inside = np.bincount(units.code, weights=sample.member, minlength=units.count)
    size = np.bincount(units.code, minlength=units.count)
    pure = (inside == 0) | (inside == size)
    rows = np.flatnonzero(pure)[np.argsort(highest[pure])]
    return highest[rows], inside[rows] > 0


def _whole(listed: int, rising: FloatArray) -> int:
    """The length of a list that also holds all records whose score equals its last one."""
    n = len(rising)
    return n if listed >= n else n - int(np.searchsorted(rising, rising[n - listed], side="left"))


def _longest_refuted(first: int, ranked: _Ranked, q: float, level: float) -> int:
    """The length of the last list of the fixed sequence before one that is not refuted; the first, if it is not."""
    longest = longer = first
    while longer < ranked.records and _p_value(longer, ranked, q) <= level:
        longest, longer = longer, ranked.whole(math.ceil(_LONGER * longer))
    return longest


def _p_value(listed: int, ranked: _Ranked, q: float) -> float:
    """P(Bin(listed, q) is at least the members that the list holds)."""
    c = ranked.members(listed)
    return float(special.bdtrc(c - 1, listed, q)) if c > 0 else 1.0

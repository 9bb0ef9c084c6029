"""Did a deletion work? Deleted records are compared with what no training has seen, before and after the deletion.

A test that fails to see a difference proves nothing. So equivalence is what has to be shown: the confidence limits of
each deviation must lie within a margin that was stated beforehand. And it counts only where the same scores saw the
records before the deletion.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from miaudit.arrays import Count, FloatArray, Inside, Positive, Share
from miaudit.errors import InputError
from miaudit.errors.checks import check_confidence
from miaudit.evidence import Evidence
from miaudit.metrics.classical import Sample, auc_limits, clopper_pearson

__all__ = ["MARGIN", "TAIL", "Deletion", "Deviation", "among_decoys", "beside_never_seen", "can_test"]

MARGIN = 0.03  # of the AUC from one half, and of the share of records in either tail
TAIL = 0.05  # share of never-seen scores in each tail
_FEWEST_DECOYS = 9  # with fewer the highest of all strings is more than a tenth of them
_FEWEST = 20  # records, below which no share of a tail is known to a margin

Part = Literal["auc", "highest scores", "lowest scores"]
_TAILS: tuple[Part, Part] = ("highest scores", "lowest scores")
Status = Literal["equivalent", "deviates", "unresolved", "not-testable"]


@dataclass(frozen=True)
class Deviation:
    """How far a share of deleted records is from that of never-seen ones, which is its value if deletion worked.

    Attributes
    ----------
    name : "auc", "highest scores" or "lowest scores"
    value : the share, in [0, 1]; of the AUC, how often a deleted record scores above a never-seen one
    expected : the share for never-seen records
    low, high : confidence limits of the share at 1 - 2 (1 - confidence): two one-sided limits
    wide_low, wide_high : limits of all deviations together, at (1 - confidence) / 3 on each side
    """

    name: Part
    value: Share
    expected: Inside
    low: Share
    high: Share
    wide_low: Share
    wide_high: Share

    def within(self, margin: float) -> bool:
        """Whether both limits are closer to the expected share than a margin."""
        return self.expected - margin < self.low and self.high < self.expected + margin

    def beyond(self, margin: float) -> bool:
        """Whether the share is shown to be further off than a margin, in one of three deviations."""
        return self.wide_low > self.expected + margin or self.wide_high < self.expected - margin


@dataclass(frozen=True)
class Deletion:
    """An equivalence test of a deletion.

    Attributes
    ----------
    records : that were deleted
    seen_before : one-sided lower confidence limit of the AUC before the deletion, in [0, 1]
    deviations : of the AUC, and of the shares of records among the highest and the lowest scores, after it
    margin : within which deviations count as none, stated beforehand
    confidence : one-sided, of each limit, in (0, 1)
    """

    records: Positive
    seen_before: Share
    deviations: tuple[Deviation, Deviation, Deviation]
    margin: Inside
    confidence: Inside

    @property
    def status(self) -> Status:
        """What the test shows; a deviation beyond the margin counts even where nothing was seen before."""
        if any(one.beyond(self.margin) for one in self.deviations):
            return "deviates"
        if self.seen_before <= 0.5 + self.margin:
            return "not-testable"
        return "equivalent" if all(one.within(self.margin) for one in self.deviations) else "unresolved"

    @property
    def most_whole(self) -> Count:
        """Upper confidence limit of the number of records that are still fully known, rounded up."""
        return math.ceil(self.most_kept * self.records)

    @property
    def most_kept(self) -> Share:
        """Upper confidence limit of the share of records that are still fully known: always among the highest."""
        highest = self.deviations[1]
        return min(1.0, max(0.0, (highest.high - highest.expected) / (1 - highest.expected)))


def among_decoys(
    after: tuple[ArrayLike, ArrayLike],
    before: tuple[ArrayLike, ArrayLike],
    *,
    margin: float = MARGIN,
    confidence: float = 0.95,
    rng: np.random.Generator,
) -> Deletion:
    """Test whether strings of deleted records score as their decoys do.

    Parameters
    ----------
    after, before : pairs of arrays (n,) and (n, K), K at least 9
        Scores of the deleted records' own strings, and of their decoys, by the model after the deletion and by the one
        before it; higher means more likely used.
    margin : in (0, 0.5), of the AUC from one half and of the shares of the tails; state it beforehand
    confidence : one-sided, in (0.5, 1)
    rng : decides between equal scores

    Raises
    ------
    InputError
        For other shapes, numbers that are not finite, or fewer than 20 records.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> def scored(shift):
    ...     return rng.normal(size=2000) + shift, rng.normal(size=(2000, 20))
    >>> among_decoys(scored(0.0), scored(1.0), rng=rng).status
    'equivalent'
    >>> among_decoys(scored(0.5), scored(1.0), rng=rng).status
    'deviates'
    >>> among_decoys(scored(0.0), scored(0.0), rng=rng).status
    'not-testable'
    """
    _check(margin, confidence)
    place, strings = _places(*_pair("after", after), rng)
    earlier, _ = _places(*_pair("before", before), rng)
    top = max(1, round(TAIL * strings))
    share = place / (strings - 1)
    auc = Deviation("auc", float(share.mean()), 0.5, *_both(_mean_limits, share, confidence))
    tails = (
        Deviation(name, float(hit.mean()), top / strings, *_both(_share_limits, hit.astype(np.float64), confidence))
        for name, hit in zip(_TAILS, (place >= strings - top, place < top), strict=True)
    )
    seen = _mean_limits(earlier / (strings - 1), confidence)[0]
    return Deletion(len(place), seen, (auc, *tails), margin, confidence)  # type: ignore[arg-type]


def beside_never_seen(
    after: tuple[ArrayLike, ArrayLike],
    before: tuple[ArrayLike, ArrayLike],
    *,
    margin: float = MARGIN,
    confidence: float = 0.95,
) -> Deletion:
    """Test whether deleted records score as records of the same source do that no training has seen.

    Parameters
    ----------
    after, before : pairs of arrays (n,) and (m,), at least 20 each
        Scores of the deleted records and of never-seen ones, by the model after the deletion and by the one before it.
    margin, confidence : as in :func:`among_decoys`

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> def scored(shift):
    ...     return rng.normal(size=4000) + shift, rng.normal(size=4000)
    >>> beside_never_seen(scored(0.0), scored(1.0)).status
    'equivalent'
    >>> beside_never_seen(scored(0.5), scored(1.0)).status
    'deviates'
    """
    _check(margin, confidence)
    samples = [_sample(name, *pair) for name, pair in (("after", after), ("before", before))]
    sample, turned = samples[0], _sample("after", *(-np.asarray(part, dtype=np.float64) for part in after))
    wide = 1 - (1 - confidence) / 3
    two_sided = [2 * level - 1 for level in (confidence, wide)]
    auc = [sample.auc(level) for level in two_sided]
    of_auc = Deviation("auc", float(auc[0].value or 0.0), 0.5, auc[0].low, auc[0].high, auc[1].low, auc[1].high)
    tails = _tail(_TAILS[0], sample, two_sided), _tail(_TAILS[1], turned, two_sided)
    seen = samples[1].auc(two_sided[0]).low
    return Deletion(round(sample.roc.n_members), seen, (of_auc, *tails), margin, confidence)


def _tail(name: Part, sample: Sample, confidences: Sequence[float]) -> Deviation:
    """Return the share of deleted records above the threshold that so many never-seen ones exceed."""
    tails = [sample.tpr_at_fpr(TAIL, confidence) for confidence in confidences]
    limits = [limit for tail in tails for limit in (tail.low, tail.high)]
    return Deviation(name, float(sample.roc.tpr_at(TAIL)), TAIL, *limits)


def can_test(records: int, decoys: int) -> bool:
    """Return whether so many records with so many decoys each are enough for :func:`among_decoys`.

    Examples
    --------
    >>> can_test(20, 9), can_test(19, 9), can_test(20, 8)
    (True, False, False)
    """
    return records >= _FEWEST and decoys >= _FEWEST_DECOYS


def _check(margin: float, confidence: float) -> None:
    check_confidence(confidence, above=0.5)  # or the lower of two one-sided limits would be the higher one
    if not 0 < margin < 0.5:
        raise InputError("margin", "a number above 0 and below 0.5", f"{margin:g}", f"the default is {MARGIN:g}")


def _pair(name: str, scores: tuple[ArrayLike, ArrayLike]) -> tuple[FloatArray, FloatArray]:
    true, decoys = (np.asarray(part, dtype=np.float64) for part in scores)
    if true.ndim != 1 or decoys.ndim != 2 or len(true) != len(decoys) or decoys.shape[1] < _FEWEST_DECOYS:
        received = f"shapes {true.shape} and {decoys.shape}"
        allowed = f"arrays (n,) and (n, K) with at least {_FEWEST_DECOYS} decoys each"
        raise InputError(name, allowed, received, "make more decoys with --count")
    _check_scores(name, true, decoys)
    return true, decoys


def _check_scores(name: str, own: FloatArray, others: FloatArray) -> None:
    if not (np.isfinite(own).all() and np.isfinite(others).all()):
        raise InputError(name, "finite numbers", "NaN or infinity", "drop or repair the record")
    if min(len(own), len(others)) < _FEWEST:
        received = f"{min(len(own), len(others))} records"
        raise InputError(name, f"at least {_FEWEST} records", received, "hundreds are needed for a margin of .03")


def _places(true: FloatArray, decoys: FloatArray, rng: np.random.Generator) -> tuple[FloatArray, int]:
    """Return how many decoys (n,) each string is above, ties by lot: uniform on 0..K where it scores as they do."""
    below, equal = ((compared).sum(axis=1) for compared in (decoys < true[:, None], decoys == true[:, None]))
    return np.asarray(below + rng.integers(0, equal + 1), dtype=np.float64), decoys.shape[1] + 1


def _both(
    limits: Callable[[FloatArray, float], tuple[float, float]], part: FloatArray, confidence: float
) -> tuple[float, float, float, float]:
    """Return one-sided limits at the confidence, and those of three deviations together."""
    return (*limits(part, confidence), *limits(part, 1 - (1 - confidence) / 3))


def _mean_limits(places: FloatArray, confidence: float) -> tuple[float, float]:
    """Return one-sided limits of the mean of places in [0, 1], on the logit scale as every AUC has them."""
    n, mean = len(places), float(places.mean())
    return auc_limits(mean, float(places.var(ddof=1)) / n, n, math.inf, 2 * confidence - 1)


def _share_limits(hit: FloatArray, confidence: float) -> tuple[float, float]:
    """Return exact one-sided limits of a share."""
    return clopper_pearson(int(np.count_nonzero(hit)), len(hit), 2 * confidence - 1)


def _sample(name: str, own: ArrayLike, others: ArrayLike) -> Sample:
    deleted, never = (np.asarray(part, dtype=np.float64) for part in (own, others))
    if deleted.ndim != 1 or never.ndim != 1:
        received = f"shapes {deleted.shape} and {never.shape}"
        raise InputError(name, "two arrays of one number for each record", received, "pass one score")
    _check_scores(name, deleted, never)
    return Sample.of(Evidence.from_pair(deleted, never))

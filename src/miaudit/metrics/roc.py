"""How the scores of members and of non-members are distributed: their ROC curve and their histograms.

The curve comes from one primitive: weighted counts of both at or above each distinct score. A histogram counts them
between round numbers, so that no edge is the value of a record.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated

import numpy as np
from annotated_types import MinLen
from numpy.typing import ArrayLike

from miaudit.arrays import BoolArray, FloatArray, IndexArray, IntArray, Share

_BINS = 30
TAIL = 0.005  # of the values on either side, in the end bins
_LEAST = 1e-290  # width of a bin, below which powers of ten and axes have no numbers any more
_FINEST = 1e-9  # of the values, below which they count as equal: edges are written with 12 digits


@dataclass(frozen=True, eq=False)
class Roc:
    """Cumulative counts over the distinct scores, from the highest down; ties share one vertex.

    Attributes
    ----------
    threshold : array (k + 1,)
        Infinity, then the distinct scores in descending order. A record is accused when its score is **at least**
        the threshold (errata A4).
    false_positive, true_positive : array (k + 1,)
        Weight of the non-members, and of the members, accused at each threshold; both start at 0 and never fall.

    Examples
    --------
    >>> roc = Roc.of([3.0, 2.0, 2.0, 1.0], [True, False, True, False])
    >>> roc.threshold.tolist(), roc.false_positive.tolist(), roc.true_positive.tolist()
    ([inf, 3.0, 2.0, 1.0], [0.0, 0.0, 1.0, 2.0], [0.0, 1.0, 2.0, 2.0])
    >>> roc.auc, float(roc.tpr_at(0.25)), roc.step_tpr_at(0.25), roc.advantage
    (0.875, 0.75, 0.5, 0.5)
    """

    threshold: FloatArray
    false_positive: FloatArray
    true_positive: FloatArray

    @classmethod
    def of(
        cls,
        score: ArrayLike,
        member: ArrayLike,
        weight: ArrayLike | None = None,
        *,
        ascending: IndexArray | None = None,
    ) -> Roc:
        """Count; O(n log n) for the one sort, O(n) memory.

        Parameters
        ----------
        score : array (n,), higher is more member-like
        member : array (n,) of bool
        weight : array (n,), non-negative, optional
            Default 1 for every record.
        ascending : ints (n,), optional
            Rows from the lowest score to the highest, where they are sorted already.
        """
        y = np.asarray(score, dtype=np.float64)
        inside = np.asarray(member, dtype=np.bool_)
        order = (np.argsort(y) if ascending is None else ascending)[::-1]
        ordered, falling = y[order], inside[order]
        last = np.flatnonzero(ordered[1:] != ordered[:-1])
        last = np.append(last, len(y) - 1)
        if weight is None:
            hits = np.cumsum(falling, dtype=np.int64)[last].astype(np.float64)
            alarms = (last + 1) - hits
        else:
            w = np.asarray(weight, dtype=np.float64)[order]
            hits = np.cumsum(np.where(falling, w, 0.0))[last]
            alarms = np.cumsum(np.where(falling, 0.0, w))[last]
        return cls(np.r_[np.inf, ordered[last]], np.r_[0.0, alarms], np.r_[0.0, hits])

    @property
    def n_members(self) -> float:
        """Total weight of the members."""
        return float(self.true_positive[-1])

    @property
    def n_nonmembers(self) -> float:
        """Total weight of the non-members."""
        return float(self.false_positive[-1])

    @property
    def fpr(self) -> FloatArray:
        """False-positive rate at each threshold, 0 to 1."""
        return self.false_positive / self.n_nonmembers

    @property
    def tpr(self) -> FloatArray:
        """True-positive rate at each threshold, 0 to 1."""
        return self.true_positive / self.n_members

    @cached_property
    def auc(self) -> float:
        """Area under the curve by the trapezoid rule: ties count one half."""
        return float(np.trapezoid(self.true_positive, self.false_positive) / (self.n_members * self.n_nonmembers))

    @cached_property
    def best(self) -> tuple[float, float]:
        """TPR and FPR at the first threshold with the largest TPR - FPR."""
        best = int(np.argmax(self.tpr - self.fpr))
        return float(self.tpr[best]), float(self.fpr[best])

    @property
    def advantage(self) -> float:
        """The largest TPR - FPR over all thresholds, 0 to 1."""
        return self.best[0] - self.best[1]

    @property
    def has_ties(self) -> bool:
        """Whether some score is shared by a member and a non-member, so that the curve has a sloped piece."""
        return bool(np.any((np.diff(self.false_positive) > 0) & (np.diff(self.true_positive) > 0)))

    def blocks_of(self, score: ArrayLike) -> IndexArray:
        """Vertex at which each score, one of those that made the curve, is first accused (n,)."""
        ascending = self.threshold[:0:-1]
        return len(ascending) - np.searchsorted(ascending, np.asarray(score, dtype=np.float64), side="left")

    def tpr_at(self, fpr: ArrayLike) -> FloatArray:
        """TPR at each FPR, interpolated inside tie blocks (a randomised threshold; errata A2).

        Returns
        -------
        array of the shape of ``fpr`` (0-dimensional for a number)
        """
        return self.hits_between(allowed_alarms(fpr, self.n_nonmembers))[1] / self.n_members

    def step_tpr_at(self, fpr: float) -> float:
        """TPR at the smallest threshold whose FPR is at most ``fpr``: no randomisation (errata A2)."""
        allowed = allowed_alarms(fpr, self.n_nonmembers)
        return float(self.tpr[np.searchsorted(self.false_positive, allowed, side="right") - 1])

    def hits_between(self, false_positive: ArrayLike) -> tuple[FloatArray, FloatArray]:
        """Return the smallest and the largest true-positive weight on the curve at each false-positive weight.

        They differ where the curve rises vertically; inside a tie block both are the linear interpolation.

        Parameters
        ----------
        false_positive : array of any shape, 0 to ``n_nonmembers``
        """
        x = np.clip(np.asarray(false_positive, dtype=np.float64), 0.0, self.n_nonmembers)
        fp, tp = self.false_positive, self.true_positive
        first = np.searchsorted(fp, x, side="left")
        after = np.searchsorted(fp, x, side="right")
        exact = fp[first] == x
        left = np.maximum(first - 1, 0)
        width = np.where(exact, 1.0, fp[first] - fp[left])
        inside = tp[left] + (tp[first] - tp[left]) * (x - fp[left]) / width
        return np.where(exact, tp[first], inside), np.where(exact, tp[after - 1], inside)


def allowed_alarms(fpr: ArrayLike, nonmembers: float) -> FloatArray:
    """Return the weight of non-members that an FPR allows: 29 for 0.29 of 100, though the product is 28.999..."""
    product = np.asarray(fpr, dtype=np.float64) * nonmembers
    whole = np.rint(product)
    return np.where(np.abs(product - whole) <= 1e-12 * nonmembers, whole, product)


@dataclass(frozen=True)
class Histogram:
    """Shares of members and of non-members between round edges; the end bins hold the tails.

    Attributes
    ----------
    edges : k + 1 ascending numbers, none of them the value of a record
    members, nonmembers : k shares each, adding up to 1
    """

    edges: Annotated[tuple[float, ...], MinLen(2)]
    members: Annotated[tuple[Share, ...], MinLen(1)]
    nonmembers: Annotated[tuple[Share, ...], MinLen(1)]


def histogram(values: FloatArray, member: BoolArray) -> Histogram:
    """Bin values (n,) of members and of non-members alike, in about thirty bins.

    Examples
    --------
    >>> histogram(np.array([0.0, 1.0, 2.0, 3.0]), np.array([True, False, True, False])).edges[:3]
    (0.0, 0.05, 0.1)
    """
    low, high = np.quantile(values, [TAIL, 1 - TAIL])
    edges = edges_between(float(low), float(high))
    sides = (np.histogram(np.clip(values[side], edges[0], edges[-1]), edges)[0] for side in (member, ~member))
    return binned(edges, *sides)


def edges_between(low: float, high: float) -> FloatArray:
    """Return round edges of about thirty bins, that hold all but the tails between two values."""
    size, width = max(abs(low), abs(high)), (high - low) / _BINS
    step = _round_step(width if width > _FINEST * size else size)
    first = math.floor(low / step) * step
    bins = max(1, math.ceil((high - first) / step))
    return np.asarray(first + step * np.arange(bins + 1))


def binned(edges: FloatArray, members: IntArray, nonmembers: IntArray) -> Histogram:
    """Return the histogram of counts (k,) of members and of non-members between edges (k + 1,)."""
    shares = [tuple(np.round(counts / counts.sum(), 6).tolist()) for counts in (members, nonmembers)]
    return Histogram(tuple(float(f"{edge:.12g}") for edge in edges), shares[0], shares[1])


def _round_step(width: float) -> float:
    """Return the largest of 1, 2, 5 times a power of ten that is at most ``width``; 1 for next to none."""
    if not width > _LEAST:
        return 1.0
    power = 10.0 ** math.floor(math.log10(width))
    return float(power * max(factor for factor in (1, 2, 5) if factor * power <= width * (1 + 1e-9)))

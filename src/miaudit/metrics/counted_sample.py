"""The metrics of sorted counts: what :class:`Sample` says of the same records in memory, to the last digit.

Sums go over the same numbers in the same order as those of numpy over whole arrays, a block at a time.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from miaudit.arrays import FloatArray
from miaudit.metrics.classical import Sample
from miaudit.metrics.counted_evidence import needs_records
from miaudit.metrics.influence import slope_at
from miaudit.metrics.roc import TAIL, Histogram, Roc, allowed_alarms, binned, edges_between
from miaudit.metrics.sorted_counts import SortedCounts, total_of

__all__ = ["CountedRoc", "CountedSample"]


class CountedRoc(Roc):
    """A ROC curve whose vertices are read where they are needed.

    Examples
    --------
    >>> roc = CountedRoc(SortedCounts.of(np.array([3.0, 2.0, 2.0, 1.0]), np.array([True, False, True, False])))
    >>> roc.auc, float(roc.tpr_at(0.25)), roc.step_tpr_at(0.25), roc.advantage
    (0.875, 0.75, 0.5, 0.5)
    """

    counts: SortedCounts

    def __init__(self, counts: SortedCounts) -> None:
        object.__setattr__(self, "counts", counts)

    def __getattr__(self, name: str) -> Any:
        if name in ("threshold", "false_positive", "true_positive"):
            needs_records()
        raise AttributeError(name)

    @property
    def n_members(self) -> float:
        """Number of members."""
        return float(self.counts.members)

    @property
    def n_nonmembers(self) -> float:
        """Number of non-members."""
        return float(self.counts.nonmembers)

    def steps(self) -> Iterator[tuple[FloatArray, FloatArray]]:
        """Yield stretches (b + 1,) of the numbers of false and of true positives, from the highest score down.

        Each stretch starts at the vertex where the one before ends.
        """
        for block in self.counts.descending():
            hits = (self.counts.members - block.below[::-1, 0]).astype(np.float64)
            alarms = (self.counts.nonmembers - block.below[::-1, 1]).astype(np.float64)
            yield alarms, hits

    @cached_property
    def auc(self) -> float:
        """Area under the curve by the trapezoid rule: ties count one half."""
        areas = (np.diff(alarms) * (hits[1:] + hits[:-1]) / 2.0 for alarms, hits in self.steps())
        return float(total_of(areas, self.counts.distinct) / (self.n_members * self.n_nonmembers))

    @cached_property
    def best(self) -> tuple[float, float]:
        """TPR and FPR at the first threshold with the largest TPR - FPR."""
        best, largest = (0.0, 0.0), 0.0
        for alarms, hits in self.steps():
            tpr, fpr = hits / self.n_members, alarms / self.n_nonmembers
            place = int(np.argmax(tpr - fpr))
            if tpr[place] - fpr[place] > largest:
                best, largest = (float(tpr[place]), float(fpr[place])), float(tpr[place] - fpr[place])
        return best

    def step_tpr_at(self, fpr: float) -> float:
        """TPR at the smallest threshold whose FPR is at most ``fpr``."""
        allowed = float(allowed_alarms(fpr, self.n_nonmembers))
        return float(self._vertices(np.array([self.last_within(allowed)]))[1][0] / self.n_members)

    def last_within(self, allowed: float) -> int:
        """Return the last vertex, counted from 0 at the top, with at most so many false positives."""
        beyond = np.array([self.counts.nonmembers - math.floor(allowed)])
        return self.counts.distinct - int(self.counts.place_of(beyond, "left")[0])

    def hits_between(self, false_positive: ArrayLike) -> tuple[FloatArray, FloatArray]:
        """Return the smallest and the largest number of true positives at each number of false positives."""
        wanted = np.clip(np.asarray(false_positive, dtype=np.float64), 0.0, self.n_nonmembers)
        x, shape, all_of_them = wanted.reshape(-1), wanted.shape, self.counts.nonmembers
        top = self.counts.distinct
        first = top + 1 - self.counts.place_of(all_of_them - np.ceil(x).astype(np.int64), "right")
        after = top + 1 - self.counts.place_of(all_of_them - np.floor(x).astype(np.int64), "left")
        left = np.maximum(first - 1, 0)
        (fp_first, tp_first), (fp_left, tp_left) = self._vertices(first), self._vertices(left)
        exact = fp_first == x
        width = np.where(exact, 1.0, fp_first - fp_left)
        inside = tp_left + (tp_first - tp_left) * (x - fp_left) / width
        low = np.where(exact, tp_first, inside)
        high = np.where(exact, self._vertices(after - 1)[1], inside)
        return low.reshape(shape), high.reshape(shape)

    def _vertices(self, places: Any) -> tuple[FloatArray, FloatArray]:
        """Return false and true positives (j,) at vertices (j,), counted from 0 at the top."""
        below = self.counts.beneath(self.counts.distinct - places)
        alarms, hits = self.counts.nonmembers - below[:, 1], self.counts.members - below[:, 0]
        return alarms.astype(np.float64), hits.astype(np.float64)


class CountedSample(Sample):
    """Sorted counts as what classical metrics are computed from; every record is a unit of its own.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> member = rng.random(2000) < 0.5
    >>> sample = CountedSample(SortedCounts.of(rng.normal(size=2000) + member, member))
    >>> estimate = sample.auc(0.95)
    >>> print(f"{estimate.value:.3f} [{estimate.low:.3f}, {estimate.high:.3f}]")
    0.770 [0.749, 0.790]
    """

    counts: SortedCounts

    def __init__(self, counts: SortedCounts) -> None:
        fields = {"counts": counts, "roc": CountedRoc(counts), "units": None, "decoys": False, "_variances": {}}
        for name, value in fields.items():
            object.__setattr__(self, name, value)

    def __getattr__(self, name: str) -> Any:
        if name in ("score", "member", "ascending"):
            needs_records()
        raise AttributeError(name)

    @property
    def constant(self) -> bool:
        """Whether every record has the same score."""
        return self.counts.distinct == 1

    def histogram(self) -> Histogram:
        """Bin the scores of members and of non-members alike."""
        edges = edges_between(self._quantile(TAIL), self._quantile(1 - TAIL))
        below = np.array([(0, 0), *(self.counts.below(edge) for edge in edges[1:-1].tolist())])
        totals = np.array([(self.counts.members, self.counts.nonmembers)])
        members, nonmembers = np.diff(np.concatenate([below, totals]), axis=0).T
        return binned(edges, members, nonmembers)

    def _quantile(self, share: float) -> float:
        """The quantile as numpy interpolates it between two records."""
        place = (self.counts.records - 1) * share
        rank = math.floor(place)
        low, high = self.counts.at(rank), self.counts.at(min(rank + 1, self.counts.records - 1))
        part, width = place - rank, high - low
        return high - width * (1 - part) if part >= 0.5 else low + width * part

    def _moments(self) -> tuple[float, float, float, float]:
        """Mean score of members and of non-members, and the variance of each; 0 for one record."""
        sides = []
        for inside, count in ((True, self.counts.members), (False, self.counts.nonmembers)):
            mean = total_of(self._scores(members=inside), count) / count
            squares = (np.square(part - mean) for part in self._scores(members=inside))
            sides.append((mean, total_of(squares, count) / (count - 1) if count > 1 else 0.0))
        (m1, v1), (m0, v0) = sides
        return m1, m0, v1, v0

    def _scores(self, *, members: bool) -> Iterator[FloatArray]:
        """Yield the scores of one class, ascending."""
        for score, member in self.counts.spelled_out():
            yield score[member if members else ~member]

    @cached_property
    def _auc_variance(self) -> float:
        """As :func:`delong_variance`."""
        roc, n1, n0 = self.roc, self.roc.n_members, self.roc.n_nonmembers
        assert isinstance(roc, CountedRoc)  # noqa: S101
        below = (
            np.diff(hits) * ((1 - (alarms[1:] + alarms[:-1]) / (2 * n0)) - roc.auc) ** 2 for alarms, hits in roc.steps()
        )
        inside = total_of(below, self.counts.distinct) / (max(n1 - 1, 1) * n1)
        above = (np.diff(alarms) * ((hits[1:] + hits[:-1]) / (2 * n1) - roc.auc) ** 2 for alarms, hits in roc.steps())
        outside = total_of(above, self.counts.distinct) / (max(n0 - 1, 1) * n0)
        return inside + outside

    def _tpr_variance(self, fpr: float) -> float:
        """The sum of the squared influence of every record on the TPR at an FPR."""
        held: dict[float, float] = self.__dict__["_variances"]
        if fpr not in held:
            held[fpr] = total_of(self._squared_influence(fpr), self.counts.records)
        return held[fpr]

    def _squared_influence(self, fpr: float) -> Iterator[FloatArray]:
        """Yield the squares from the lowest score up; :func:`miaudit.metrics.influence.on_tpr` has the formula."""
        roc, n1, n0 = self.roc, self.roc.n_members, self.roc.n_nonmembers
        assert isinstance(roc, CountedRoc)  # noqa: S101
        allowed = float(allowed_alarms(fpr, n0))
        last, top = roc.last_within(allowed), self.counts.distinct
        alarms, true = roc._vertices(np.array([last, min(last + 1, top)]))
        hits, share = float(true[0]), 0.0
        if last < top:
            share = float((allowed - alarms[0]) / (alarms[1] - alarms[0]))
            hits += share * (float(true[1]) - hits)
        accused = np.array([0.0, share, 1.0])
        inside = (accused - hits / n1) / n1
        outside = -slope_at(roc, fpr) * (accused - allowed / n0) / n0
        ends = self.counts.beneath(np.array([0, max(top - last - 1, 0), top - last, top])).sum(axis=1).tolist()
        for i in range(3):
            for _, member in self.counts.spelled_out(ends[i], ends[i + 1]):
                yield np.where(member, inside[i], outside[i]) ** 2

    def influence_on_auc(self) -> FloatArray:
        """Refuse: the influence of each record is one number for each."""
        needs_records()

    def influence_on_tpr(self, fpr: float) -> FloatArray:  # noqa: ARG002
        """Refuse: the influence of each record is one number for each."""
        needs_records()

    def influence_on_difference(self) -> FloatArray:
        """Refuse: the influence of each record is one number for each."""
        needs_records()

"""Stratified bootstrap of the classical metrics: resamples records, or units where records share them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from miaudit.arrays import FloatArray, IndexArray, IntArray
from miaudit.metrics import classical
from miaudit.metrics.classical import Estimate, Sample, tpr_name
from miaudit.metrics.roc import allowed_alarms
from miaudit.metrics.units import Units


@dataclass(frozen=True, eq=False)
class Replicates:
    """Bootstrap replicates of each metric.

    Attributes
    ----------
    auc, difference : arrays (B,)
    tpr : array (B, targets)
    excess : array (B,)
        sup over thresholds of (TPR - FPR in the replicate) - (TPR - FPR in the sample): what a search for the best
        threshold gains by chance.
    """

    auc: FloatArray
    tpr: FloatArray
    excess: FloatArray
    difference: FloatArray


def replicates(
    sample: Sample,
    fpr_targets: Sequence[float],
    count: int,
    *,
    rng: np.random.Generator,
    progress: Callable[[int], None] | None = None,
) -> Replicates:
    """Draw ``count`` stratified replicates in O(n) each: scores are sorted once, a replicate is counts in that order.

    Parameters
    ----------
    sample : the scores
    fpr_targets : FPRs in (0, 1)
    count : number of replicates
    rng : generator of the draws
    progress : function of the replicates drawn so far, optional
    """
    ranked = _Ranked.of(sample)
    draw = _RecordDraw(ranked, rng) if sample.units is None else _UnitDraw(ranked, sample.units, rng)
    auc, excess, difference = np.empty(count), np.empty(count), np.empty(count)
    tpr = np.empty((count, len(fpr_targets)))
    for b in range(count):
        members, nonmembers = draw()
        auc[b], tpr[b], excess[b], difference[b] = ranked.metrics(members, nonmembers, fpr_targets)
        if progress is not None:
            progress(b + 1)
    return Replicates(auc, tpr, excess, difference)


def estimates(
    sample: Sample, drawn: Replicates, fpr_targets: Sequence[float], confidence: float
) -> dict[str, Estimate]:
    """Turn replicates into intervals: percentiles for TPR and effect, normal on the logit scale for the AUC.

    Percentiles of the replicated advantage would exclude 0 under the null, since a maximum is never below it; its lower
    limit therefore subtracts the quantile of the excess.
    """
    tail = (1 - confidence) / 2
    by_name: dict[str, Estimate] = {}
    for i, fpr in enumerate(fpr_targets):
        plain = sample.tpr_at_fpr(fpr, confidence)
        low, high = np.quantile(drawn.tpr[:, i], [tail, 1 - tail])
        if plain.value is None:
            by_name[tpr_name(fpr)] = plain
        else:
            by_name[tpr_name(fpr)] = Estimate(
                plain.value, min(float(low), plain.value), max(float(high), plain.value), confidence, plain.note
            )
    auc = sample.roc.auc
    limits = classical.auc_limits(
        auc, float(drawn.auc.var(ddof=1)), sample.independent_members, sample.independent_nonmembers, confidence
    )
    by_name["auc"] = Estimate(auc, *limits, confidence)
    plain = sample.advantage(confidence)
    best = plain.value or 0.0
    low_advantage = max(0.0, best - float(np.quantile(drawn.excess, 1 - tail)))
    by_name["advantage"] = Estimate(best, low_advantage, plain.high, confidence)
    by_name["balanced_accuracy"] = Estimate((1 + best) / 2, (1 + low_advantage) / 2, (1 + plain.high) / 2, confidence)
    low, high = np.quantile(drawn.difference, [tail, 1 - tail])
    by_name["ate"] = Estimate(sample.difference(confidence).value, float(low), float(high), confidence)
    return by_name


@dataclass(frozen=True, eq=False)
class _Ranked:
    """Members and non-members in descending order of score, and where each stands among the others."""

    inside: IndexArray  # row of the i-th highest member
    outside: IndexArray
    y1: FloatArray
    y0: FloatArray
    nonmembers_above: IndexArray  # of each member: non-members with a higher score
    nonmembers_from: IndexArray  # of each member: with a score at least as high
    block_start: IndexArray  # of each non-member: its tie block among the non-members
    block_stop: IndexArray
    members_above: IndexArray  # of each non-member: members with a higher score
    members_from: IndexArray
    vertex_members: IndexArray  # of each distinct score: members at or above it
    vertex_nonmembers: IndexArray
    vertex_gap: FloatArray  # TPR - FPR there
    tied: bool

    @classmethod
    def of(cls, sample: Sample) -> _Ranked:
        order = np.argsort(-sample.score, kind="stable")
        inside, outside = order[sample.member[order]], order[~sample.member[order]]
        y1, y0 = sample.score[inside], sample.score[outside]
        up1, up0 = -y1, -y0  # ascending
        above, upto = np.searchsorted(up0, up1, side="left"), np.searchsorted(up0, up1, side="right")
        roc = sample.roc
        return cls(
            inside,
            outside,
            y1,
            y0,
            above,
            upto,
            np.searchsorted(up0, up0, side="left"),
            np.searchsorted(up0, up0, side="right"),
            np.searchsorted(up1, up0, side="left"),
            np.searchsorted(up1, up0, side="right"),
            roc.true_positive[1:].astype(np.intp),
            roc.false_positive[1:].astype(np.intp),
            (roc.tpr - roc.fpr)[1:],
            bool((above != upto).any()),
        )

    def metrics(
        self, members: IntArray, nonmembers: IntArray, fpr_targets: Sequence[float]
    ) -> tuple[float, FloatArray, float, float]:
        """AUC, TPRs, excess and difference of the sample in which the i-th ranked record stands so many times."""
        fp = np.zeros(len(nonmembers) + 1, dtype=np.int64)
        tp = np.zeros(len(members) + 1, dtype=np.int64)
        np.cumsum(nonmembers, out=fp[1:])
        np.cumsum(members, out=tp[1:])
        n1, n0 = float(tp[-1]), float(fp[-1])
        above: NDArray[Any] = fp[self.nonmembers_above]
        if self.tied:
            above = (above + fp[self.nonmembers_from]) / 2
        weight = members.astype(np.float64)
        auc = 1 - float(weight @ above) / (n1 * n0)
        tpr = np.array([self._hits(tp, fp, float(allowed_alarms(fpr, n0))) for fpr in fpr_targets]) / n1
        gap = (tp / n1)[self.vertex_members] - (fp / n0)[self.vertex_nonmembers] - self.vertex_gap
        difference = float(weight @ self.y1) / n1 - float(nonmembers @ self.y0) / n0
        return auc, tpr, max(0.0, float(gap.max())), difference

    def _hits(self, tp: IntArray, fp: IntArray, allowed: float) -> float:
        """Members accused when ``allowed`` non-members may be; linear inside a tie block, as in ``Roc.tpr_at``."""
        k = int(np.searchsorted(fp, allowed, side="right")) - 1
        if k >= len(self.outside):
            return float(tp[-1])
        start, stop = fp[self.block_start[k]], fp[self.block_stop[k]]
        low, high = tp[self.members_above[k]], tp[self.members_from[k]]
        return float(low + (high - low) * (allowed - start) / (stop - start))


class _RecordDraw:
    """Counts of each ranked member and non-member in a resample of each class with replacement."""

    def __init__(self, ranked: _Ranked, rng: np.random.Generator) -> None:
        self._n1, self._n0, self._rng = len(ranked.inside), len(ranked.outside), rng

    def __call__(self) -> tuple[IntArray, IntArray]:
        inside = self._rng.integers(0, self._n1, self._n1, dtype=np.int32)
        outside = self._rng.integers(0, self._n0, self._n0, dtype=np.int32)
        return np.bincount(inside, minlength=self._n1), np.bincount(outside, minlength=self._n0)


class _UnitDraw:
    """Counts when whole units are drawn, among those with members only, with non-members only, and with both."""

    def __init__(self, ranked: _Ranked, units: Units, rng: np.random.Generator) -> None:
        has_member = np.bincount(units.code[units.member], minlength=units.count) > 0
        has_nonmember = np.bincount(units.code[~units.member], minlength=units.count) > 0
        kinds = (has_member & ~has_nonmember, has_nonmember & ~has_member, has_member & has_nonmember)
        self._strata = [np.flatnonzero(kind) for kind in kinds if kind.any()]
        self._inside, self._outside = units.code[ranked.inside], units.code[ranked.outside]
        self._count, self._rng = units.count, rng

    def __call__(self) -> tuple[IntArray, IntArray]:
        times = np.zeros(self._count, dtype=np.int64)
        for stratum in self._strata:
            resampled = self._rng.integers(0, len(stratum), len(stratum))
            times[stratum] = np.bincount(resampled, minlength=len(stratum))
        return times[self._inside], times[self._outside]

"""Limits of the TPR at an FPR by fiducial weights of the non-members.

The level of a threshold is a share of weight, and few heavy non-members above it may make up most of that share. The
effective number of all non-members does not show this. So each non-member's weight w becomes w E with E from Exp(1)
(one E for a unit), and the threshold lies where the random share reaches the FPR. For the lower limit one more record
is placed **above all**, and counts in the total too. It stands for records that may lie up there but were not sampled.
It is as heavy as the heaviest above the threshold, and at least as heavy as an average record. Without weights the
level is Beta, and the limits are those of the binomial-beta mixture (:func:`miaudit.metrics.classical.tpr_limits`) with
the outer count at each end.

No random numbers are used. The chance that the random share of the k highest exceeds the FPR is the chance that a
weighted sum of exponentials exceeds 0, by the saddlepoint formula of Lugannani and Rice (1980)
(:mod:`miaudit.causal.saddlepoint`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from miaudit.arrays import BoolArray, FloatArray, IndexArray
from miaudit.causal import saddlepoint
from miaudit.metrics.classical import MOST_NODES, beta_mixture_quantile, resolution
from miaudit.metrics.units import Units

_REACH = 10.0  # standard deviations of the random share round the FPR; beyond them is less than 1e-4
_RATIO = 1.15  # weights in one group differ by at most this factor
_CELLS = 2_000_000  # numbers in a block
_FIXED = 1e6  # a sum of so many exponentials is treated as a constant
_GOLDEN = (math.sqrt(5) - 1) / 2


@dataclass(frozen=True, eq=False)
class Ranked:
    """Non-members in descending order of score, with sums over those above each.

    Attributes
    ----------
    weight : array (m,)
    so_far : array (m,), weight of the record's unit up to this record; its own where it is alone
    whole : array (m,), weight of the record's unit
    unit : array (m,) of int, or None where every record is one
    before, after : arrays (m,)
        Members above this record, ties interpolated: before the record itself is accused, and after.
    members : number of members
    total : the denominator of shares: the sum of the weights, or a constant (``fixed``)
    """

    weight: FloatArray
    so_far: FloatArray
    whole: FloatArray
    unit: IndexArray | None
    before: FloatArray
    after: FloatArray
    members: float
    total: float
    fixed: bool = False

    @classmethod
    def of(
        cls,
        score: FloatArray,
        member: BoolArray,
        weight: FloatArray,
        units: Units | None,
        total: float | None = None,
    ) -> Ranked:
        """Sort; tied records keep an order that does not depend on the order of rows.

        Parameters
        ----------
        score, member, weight : arrays (n,)
        units : or None where every record is one
        total : the denominator of shares, where it is not the sum of the weights (Horvitz-Thompson)
        """
        rows = _descending(score, member, weight)
        w, inside = weight[rows], np.sort(score[member])
        before, after = _members_above(score[rows], w, inside)
        size = float(np.cumsum(w)[-1]) if total is None else total
        rest = before, after, float(len(inside)), size, total is not None
        if units is None:
            return cls(w, w, w, None, *rest)
        unit = np.unique(units.code[rows], return_inverse=True)[1]
        return cls(w, _running(w, unit), np.asarray(np.bincount(unit, w)[unit], dtype=np.float64), unit, *rest)

    def heaviest_above(self, fpr: float) -> float:
        """Return the largest accused weight of a unit where the weighted share reaches an FPR.

        At least that of an average unit: weights never resolve a smaller FPR than equal weights would.
        """
        return float(self._heaviest()[self._crossing(fpr)])

    def smallest_fpr(self, confidence: float) -> float:
        """Return the smallest FPR with a lower limit: accused weight is 3.69 times the heaviest (at 95%).

        Without weights 3.69 / non-members (erratum C3): the chance that the record above all reaches the FPR by itself
        exceeds (1 - confidence) / 2 otherwise.

        Examples
        --------
        >>> even = Ranked.of(np.arange(1000.0), np.arange(1000) >= 500, np.ones(1000), None)
        >>> even.smallest_fpr(0.95)
        0.00738
        """
        cumulative, wanted = np.cumsum(self.weight), resolution(confidence) * self._heaviest()
        short = wanted > np.r_[0.0, cumulative[:-1]]
        last = np.where(short, np.minimum(cumulative, wanted), 0.0).max()
        if short[-1] and wanted[-1] > cumulative[-1]:
            return 1.0
        return min(1.0, float(last) / self.total)

    def limits(
        self, fpr: float, confidence: float, trials: float, *, shape: float = 1.0, most_nodes: int = MOST_NODES
    ) -> tuple[float, float]:
        """Return confidence limits of the TPR.

        Parameters
        ----------
        fpr : in (0, 1)
        confidence : two-sided, in (0, 1)
        trials : independent members that give the TPR its variance
        shape : of the Gamma law with mean 1 that weights are multiplied by; below 1 where weights are uncertain too
        most_nodes : places of the threshold that are evaluated; where more are possible, strides are taken

        Examples
        --------
        >>> score = np.random.default_rng(0).normal(size=2000)
        >>> even = Ranked.of(score, np.arange(2000) >= 1000, np.ones(2000), None)
        >>> low, high = even.limits(0.1, 0.95, 1000)
        >>> low < 0.1 < high
        True
        """
        tail, scale = (1 - confidence) / 2, trials / self.members
        beyond = np.array([self.heaviest_above(fpr)])
        nodes, mass = self._places(fpr, beyond, shape, most_nodes)
        hits = np.r_[0.0 if nodes[0] == 0 else self.before[nodes[0] - 1], self._between(self.before, nodes)]
        low = beta_mixture_quantile(mass, hits * scale, trials, tail, at_zero=True)
        nodes, mass = self._places(fpr, beyond[:0], shape, most_nodes)
        hits = np.r_[self.after[max(nodes[0] - 1, 0)], self._between(self.after, nodes)]
        return low, beta_mixture_quantile(mass, hits * scale, trials, 1 - tail, at_zero=False)

    def _crossing(self, fpr: float) -> int:
        """Return the place of the record where the weighted share reaches an FPR."""
        reached = int(np.searchsorted(np.cumsum(self.weight), fpr * self.total * (1 - 1e-12)))
        return min(reached, len(self.weight) - 1)

    def _heaviest(self) -> FloatArray:
        units = len(self.weight) if self.unit is None else int(self.unit.max()) + 1
        return np.asarray(np.maximum(np.maximum.accumulate(self.so_far), self.weight.sum() / units))

    def _between(self, hits: FloatArray, nodes: IndexArray) -> FloatArray:
        """Return the number of members above thresholds between two nodes, and beyond the last."""
        last = hits[min(int(nodes[-1]), len(hits) - 1)]
        return np.asarray(np.r_[(hits[nodes[:-1]] + hits[nodes[1:] - 1]) / 2, last], dtype=np.float64)

    def _places(self, fpr: float, beyond: FloatArray, shape: float, most_nodes: int) -> tuple[IndexArray, FloatArray]:
        """Return candidate thresholds: counts of accused non-members, and the chance of each gap.

        Returns
        -------
        nodes : array (k,) of int
        mass : array (k + 1,), adding up to 1: before the first, between two, behind the last
        """
        up, down = (1.0, 0.0) if self.fixed else (1 - fpr, fpr)  # a record's part of (share - FPR), accused and not
        nodes = self._nodes(up, down, fpr * self.total if self.fixed else 0.0, beyond, most_nodes)
        extra = np.r_[beyond * up, [-fpr * self.total / _FIXED] if self.fixed else []]
        counts = np.r_[np.ones(len(beyond)), [_FIXED] if self.fixed else []]
        chance = self._of_groups if self.unit is None else self._of_units
        below = np.minimum.accumulate(chance(nodes, up, down, extra, counts, shape))
        return nodes, np.r_[1 - below[0], below[:-1] - below[1:], below[-1]]

    def _nodes(self, up: float, down: float, constant: float, beyond: FloatArray, most_nodes: int) -> IndexArray:
        accused, total = np.r_[0.0, np.cumsum(self.weight)], float(self.weight.sum())
        square = np.r_[0.0, np.cumsum(self.weight * (2 * self.so_far - self.weight))]  # of each unit's accused weight
        cross = np.r_[0.0, np.cumsum(self.weight * self.whole)]
        mean = up * beyond.sum() + (up + down) * accused - down * total - constant
        spread = (up + down) ** 2 * square - 2 * down * (up + down) * cross + down**2 * cross[-1]
        spread = np.sqrt(np.maximum(spread + up**2 * (beyond @ beyond), 0.0))
        # Evenly in standard deviations from the FPR, to the power 2/3: densely where the chance changes.
        z = np.maximum.accumulate(mean / np.maximum(spread, 1e-9 * total))
        even = np.linspace(-1, 1, most_nodes)
        nodes = np.searchsorted(z, _REACH * np.sign(even) * np.abs(even) ** 1.5)
        return np.unique(np.r_[max(int(nodes[0]) - 1, 0), np.minimum(nodes, len(self.weight))])

    def _of_groups(
        self, nodes: IndexArray, up: float, down: float, extra: FloatArray, counts: FloatArray, shape: float
    ) -> FloatArray:
        """Return the chance that the random share is below the FPR at each node, by groups of equal weight."""
        group = np.floor(np.log(self.weight / self.weight.max()) / math.log(_RATIO)).astype(np.intp)
        group = np.unique(group, return_inverse=True)[1]
        size = np.bincount(group).astype(np.float64)
        weight = np.bincount(group, self.weight) / size
        above = _above(nodes, group, np.ones(len(group)), len(size))
        shaped = np.broadcast_to(np.r_[up * weight, -down * weight, extra], (len(nodes), 2 * len(size) + len(extra)))
        times = np.hstack([above, size - above, np.broadcast_to(counts, (len(nodes), len(counts)))])
        return saddlepoint.chance_below_zero(shaped, times, shape)

    def _of_units(
        self, nodes: IndexArray, up: float, down: float, extra: FloatArray, counts: FloatArray, shape: float
    ) -> FloatArray:
        """Return the same chance where the records of a unit share one random factor."""
        if self.unit is None:
            raise AttributeError("no units")
        whole = np.bincount(self.unit, self.weight)
        sums, block = np.empty(len(nodes)), max(1, _CELLS // len(whole))
        for first in range(0, len(nodes), block):
            part = nodes[first : first + block]
            accused = _above(part, self.unit, self.weight, len(whole))
            of_units = (up + down) * accused - down * whole
            shaped = np.hstack([of_units, np.broadcast_to(extra, (len(part), len(extra)))])
            times = np.broadcast_to(np.r_[np.ones(len(whole)), counts], shaped.shape)
            sums[first : first + block] = saddlepoint.chance_below_zero(shaped, times, shape)
        return sums


def _descending(score: FloatArray, member: BoolArray, weight: FloatArray) -> IndexArray:
    """Return the non-members (m,) in descending order of score; tied ones in an order that their weights fix."""
    outside = np.flatnonzero(~member)
    rows = outside[np.lexsort((weight[outside], -score[outside]))]
    return rows[np.lexsort((np.arange(len(rows)) * _GOLDEN % 1, -score[rows]))]


def _members_above(score: FloatArray, weight: FloatArray, members: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the number of members above each non-member (m,), before and after it is accused itself.

    Parameters
    ----------
    score, weight : arrays (m,) of the non-members, in descending order of score
    members : array (n1,), the members' scores, ascending
    """
    cumulative = np.cumsum(weight)
    start, stop = (np.searchsorted(-score, -score, side=side) for side in ("left", "right"))
    below = np.r_[0.0, cumulative][start]
    block = cumulative[stop - 1] - below
    above, upto = (len(members) - np.searchsorted(members, score, side=side) for side in ("right", "left"))
    before = above + (upto - above) * np.maximum(cumulative - weight - below, 0.0) / block
    return before, above + (upto - above) * (cumulative - below) / block


def _running(weight: FloatArray, unit: IndexArray) -> FloatArray:
    """Return the sum of the weights of each record's unit up to and with this record (m,)."""
    order = np.argsort(unit, kind="stable")
    sums = np.cumsum(weight[order])
    first = np.r_[True, np.diff(unit[order]) > 0]
    before = (sums - weight[order])[first][np.cumsum(first) - 1]
    totals = np.empty(len(weight))
    totals[order] = np.maximum(sums - before, weight[order])
    return totals


def _above(nodes: IndexArray, group: IndexArray, part: FloatArray, groups: int) -> FloatArray:
    """Return the sum of the parts (m,) before each node, by group (nodes, groups)."""
    node = np.searchsorted(nodes, np.arange(len(group)), side="right")  # the first node that has the record
    inside = node < len(nodes)
    sums = np.bincount(node[inside] * groups + group[inside], part[inside], minlength=len(nodes) * groups)
    return np.asarray(np.cumsum(sums.reshape(len(nodes), groups), axis=0))

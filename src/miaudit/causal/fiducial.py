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
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from miaudit.arrays import BoolArray, FloatArray, IndexArray
from miaudit.causal import saddlepoint
from miaudit.metrics.classical import MOST_NODES, beta_mixture_quantile, resolution
from miaudit.metrics.units import Units

_REACH = 10.0  # standard deviations of the random share round the FPR; beyond them is less than 1e-4
_RATIO = 1.15  # weights in one group differ by at most this factor
_CELLS = 2_000_000  # numbers in a block
_CACHED = 100_000  # of many FPRs at once: numbers that stay in a processor's cache
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
        return float(self._heaviest[self._crossing(fpr)])

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
        cumulative, wanted = self._moments[0], resolution(confidence) * self._heaviest
        short = wanted > cumulative[:-1]
        last = np.where(short, np.minimum(cumulative[1:], wanted), 0.0).max()
        if short[-1] and wanted[-1] > cumulative[-1]:
            return 1.0
        return min(1.0, float(last) / self.total)

    def effective_nonmembers(self, confidence: float) -> float:
        """Return how many equally heavy non-members would resolve the same smallest FPR.

        Examples
        --------
        >>> even = Ranked.of(np.arange(1000.0), np.arange(1000) >= 500, np.ones(1000), None)
        >>> round(even.effective_nonmembers(0.95))
        500
        """
        return resolution(confidence) / self.smallest_fpr(confidence)

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
        [both] = self.band([fpr], confidence, [trials], [shape], most_nodes=most_nodes)
        return both

    def band(
        self,
        fprs: Sequence[float],
        confidence: float,
        trials: Sequence[float],
        shapes: Sequence[float],
        *,
        most_nodes: int = MOST_NODES,
    ) -> list[tuple[float, float]]:
        """Return the limits at many FPRs, each as :meth:`limits` gives them, in less time.

        Parameters
        ----------
        fprs, trials, shapes : each of length k
        confidence, most_nodes : as of :meth:`limits`
        """
        tail, k = (1 - confidence) / 2, len(fprs)
        levels = [_Level(fpr, self.heaviest_above(fpr), shape) for fpr, shape in zip(fprs, shapes, strict=True)]
        places = self._places([*levels, *(replace(level, beyond=0.0) for level in levels)], most_nodes)
        limits = []
        for (below, low_mass), (nodes, mass), n in zip(places[:k], places[k:], trials, strict=True):
            scale = n / self.members
            hits = np.r_[0.0 if below[0] == 0 else self.before[below[0] - 1], self._between(self.before, below)]
            low = beta_mixture_quantile(low_mass, hits * scale, n, tail, at_zero=True)
            hits = np.r_[self.after[max(nodes[0] - 1, 0)], self._between(self.after, nodes)]
            limits.append((low, beta_mixture_quantile(mass, hits * scale, n, 1 - tail, at_zero=False)))
        return limits

    def _crossing(self, fpr: float) -> int:
        """Return the place of the record where the weighted share reaches an FPR."""
        reached = int(np.searchsorted(self._moments[0][1:], fpr * self.total * (1 - 1e-12)))
        return min(reached, len(self.weight) - 1)

    @cached_property
    def _heaviest(self) -> FloatArray:
        """Largest weight of a unit (m,) down to each record, at least that of an average one."""
        units = len(self.weight) if self.unit is None else int(self.unit.max()) + 1
        return np.asarray(np.maximum(np.maximum.accumulate(self.so_far), self.weight.sum() / units))

    def _between(self, hits: FloatArray, nodes: IndexArray) -> FloatArray:
        """Return the number of members above thresholds between two nodes, and beyond the last."""
        last = hits[min(int(nodes[-1]), len(hits) - 1)]
        return np.asarray(np.r_[(hits[nodes[:-1]] + hits[nodes[1:] - 1]) / 2, last], dtype=np.float64)

    def _places(self, levels: Sequence[_Level], most_nodes: int) -> list[tuple[IndexArray, FloatArray]]:
        """Return candidate thresholds for each level: counts of accused non-members, and the chance of each gap.

        Returns
        -------
        nodes : array (k,) of int
        mass : array (k + 1,), adding up to 1: before the first, between two, behind the last
        """
        nodes = [self._nodes(level, most_nodes) for level in levels]
        chances = (self._of_groups if self.unit is None else self._of_units)(levels, nodes)
        below = [np.minimum.accumulate(chance) for chance in chances]
        masses = [np.r_[1 - one[0], one[:-1] - one[1:], one[-1]] for one in below]
        return list(zip(nodes, masses, strict=True))

    def _parts(self, level: _Level) -> tuple[float, float]:
        """Return what a record adds to (share - FPR) where it is accused, and what it takes away where it is not."""
        return (1.0, 0.0) if self.fixed else (1 - level.fpr, level.fpr)

    def _nodes(self, level: _Level, most_nodes: int) -> IndexArray:
        up, down = self._parts(level)
        accused, square, cross = self._moments
        total = float(self.weight.sum())
        constant = level.fpr * self.total if self.fixed else 0.0
        mean = up * level.beyond + (up + down) * accused - down * total - constant
        spread = (up + down) ** 2 * square - 2 * down * (up + down) * cross + down**2 * cross[-1]
        spread = np.sqrt(np.maximum(spread + (up * level.beyond) ** 2, 0.0))
        # Evenly in standard deviations from the FPR, to the power 2/3: densely where the chance changes.
        z = np.maximum.accumulate(mean / np.maximum(spread, 1e-9 * total))
        even = np.linspace(-1, 1, most_nodes)
        nodes = np.searchsorted(z, _REACH * np.sign(even) * np.abs(even) ** 1.5)
        return np.unique(np.r_[max(int(nodes[0]) - 1, 0), np.minimum(nodes, len(self.weight))])

    @cached_property
    def _moments(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Sums (m + 1,) over the highest records: of weights, of the squares of units' weights, of cross products."""
        square = self.weight * (2 * self.so_far - self.weight)
        accused, squared, cross = (np.r_[0.0, np.cumsum(w)] for w in (self.weight, square, self.weight * self.whole))
        return accused, squared, cross

    @cached_property
    def _alike(self) -> tuple[IndexArray, FloatArray, FloatArray]:
        """The group (m,) of each record with weights that are nearly equal, and the size and mean weight of each."""
        group = np.floor(np.log(self.weight / self.weight.max()) / math.log(_RATIO)).astype(np.intp)
        group = np.unique(group, return_inverse=True)[1]
        size = np.bincount(group).astype(np.float64)
        return group, size, np.bincount(group, self.weight) / size

    def _extra(self, level: _Level) -> tuple[FloatArray, FloatArray]:
        """Return the factors of the record above all and of a constant, and how many exponentials have each."""
        factor = np.array([self._parts(level)[0] * level.beyond, -level.fpr * self.total / _FIXED])
        return factor, np.array([float(level.beyond > 0), _FIXED * self.fixed])

    def _of_groups(self, levels: Sequence[_Level], nodes: Sequence[IndexArray]) -> list[FloatArray]:
        """Return the chance that the random share is below the FPR at each node, by groups of equal weight."""
        group, size, weight = self._alike
        factors, times = [], []
        for level, places in zip(levels, nodes, strict=True):
            above, (up, down), (factor, count) = _above(places, group), self._parts(level), self._extra(level)
            factors.append(
                np.broadcast_to(np.r_[up * weight, -down * weight, factor], (len(places), 2 * len(size) + 2))
            )
            times.append(np.hstack([above, size - above, np.broadcast_to(count, (len(places), 2))]))
        rows = [len(places) for places in nodes]
        shape = np.repeat([level.shape for level in levels], rows)
        factor, count = np.vstack(factors), np.vstack(times)
        chances = np.empty(sum(rows))
        for some in _blocks(len(chances), _CACHED // factor.shape[1]):
            chances[some] = saddlepoint.chance_below_zero(factor[some], count[some], shape[some])
        return np.split(chances, np.cumsum(rows)[:-1])

    def _of_units(self, levels: Sequence[_Level], nodes: Sequence[IndexArray]) -> list[FloatArray]:
        """Return the same chances where the records of a unit share one random factor."""
        if self.unit is None:
            raise AttributeError("no units")
        whole = np.bincount(self.unit, self.weight)
        chances = [np.empty(len(places)) for places in nodes]
        for level, places, chance in zip(levels, nodes, chances, strict=True):
            (up, down), (factor, count) = self._parts(level), self._extra(level)
            for some in _blocks(len(places), _CELLS // len(whole)):
                accused = _above(places[some], self.unit, self.weight)
                of_units = (up + down) * accused - down * whole
                shaped = np.hstack([of_units, np.broadcast_to(factor, (len(accused), 2))])
                times = np.broadcast_to(np.r_[np.ones(len(whole)), count], shaped.shape)
                chance[some] = saddlepoint.chance_below_zero(shaped, times, np.full(len(accused), level.shape))
        return chances


@dataclass(frozen=True)
class _Level:
    """An FPR with what is uncertain about it.

    Attributes
    ----------
    fpr : in (0, 1)
    beyond : weight of the record above all; 0 for none
    shape : of the Gamma law of the weights
    """

    fpr: float
    beyond: float
    shape: float


def _blocks(rows: int, most: int) -> Iterator[slice]:
    step = max(1, most)
    return (slice(first, first + step) for first in range(0, rows, step))


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


def _above(nodes: IndexArray, group: IndexArray, part: FloatArray | None = None) -> FloatArray:
    """Return the sum of the parts (m,), or the number, before each node, by group (nodes, groups)."""
    node = np.searchsorted(nodes, np.arange(len(group)), side="right")  # the first node that has the record
    inside, groups = node < len(nodes), int(group.max()) + 1
    place = node[inside] * groups + group[inside]
    sums = np.bincount(place, None if part is None else part[inside], minlength=len(nodes) * groups)
    return np.cumsum(sums.reshape(len(nodes), groups), axis=0).astype(np.float64)

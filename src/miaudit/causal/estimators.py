"""Estimators of a counterfactual mean of the non-members (paper, (3) to (11)), and limits of the TPR at an FPR.

What is E[h(Y(0))] in the population of the **members**? :func:`counterfactual_mean` answers with a value, its influence
function and its gradient; :mod:`miaudit.causal.effects` makes metrics and intervals of them.

The limits of the TPR (:class:`Ranked`) are those of fiducial weights. The level of a threshold is a share of weight,
and few heavy non-members above it may make up most of that share; the number of all says nothing of them. So each
non-member's weight w becomes w E with E from Exp(1) (one E for a unit), and the threshold lies where the drawn share
reaches the FPR. For the lower limit one more record stands **above all**, as heavy as the heaviest above the threshold
and at least as an average one, in the total too: what may lie up there and was not drawn. Without weights the level is
Beta, and the limits are those of the binomial-beta mixture (:func:`miaudit.metrics.classical.tpr_limits`) with the
outer count at each end.

No random numbers: the chance that the drawn share of the k highest exceeds the FPR is that of a weighted sum of
exponentials to exceed 0, by the saddlepoint formula of Lugannani and Rice (1980), good to .003.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import numpy as np
from scipy import special

from miaudit.arrays import BoolArray, FloatArray, IndexArray
from miaudit.errors import InputError, nearest
from miaudit.evidence import Evidence
from miaudit.metrics.classical import MOST_NODES, beta_mixture_quantile, resolution
from miaudit.metrics.roc import Roc
from miaudit.metrics.units import Units

_REACH = 10.0  # standard deviations of the drawn share round the FPR; beyond them is less than 1e-4
_RATIO = 1.15  # weights in one group differ by at most this factor
_CELLS = 2_000_000  # numbers in a block
_FIXED = 1e6  # a sum of so many exponentials is taken as a constant
_GOLDEN = (math.sqrt(5) - 1) / 2


class PropensityLike(Protocol):
    """The part of a propensity that estimators read: P(A=1|X), its odds and its origin.

    Attributes
    ----------
    values : array (n,), in (0, 1)
    odds : array (n,), values / (1 - values)
    features : array (n, p) without an intercept, or None
    logistic : bool, optional, True if it is missing
        Whether the log-odds were fitted as linear in ``features``, which the score term takes for granted.
    folds : array (n,) of int or None, optional
        None says that the propensity was given, or learned from other records.
    rows_per_covariate : float or None, optional
        Of those other records: their error is added to the variance.
    """

    @property
    def values(self) -> FloatArray: ...  # noqa: D102
    @property
    def odds(self) -> FloatArray: ...  # noqa: D102
    @property
    def features(self) -> FloatArray | None: ...  # noqa: D102


@dataclass(frozen=True)
class Difference:
    """Unweighted non-members: classical metrics, causal only under randomised membership (paper, (3))."""


@dataclass(frozen=True)
class HorvitzThompson:
    """Odds-weighted non-members divided by n1 (paper, (6) and (11), with the divisor of errata A1)."""


@dataclass(frozen=True)
class Hajek:
    """Odds-weighted non-members divided by the sum of weights: the default (errata A1)."""


@dataclass(frozen=True)
class GFormula:
    """An outcome model averaged over the members (paper, (7)); consistent if the model is right.

    Attributes
    ----------
    outcome : LocationScale, a fitted Law, any scikit-learn regressor, or None for the default
    """

    outcome: Any = None


@dataclass(frozen=True)
class Aipw:
    """Outcome model plus weighted residuals (paper, (8); errata A3); consistent if either model is right.

    The weights of the residuals are self-normalised, so that odds that are wrong by a factor do no harm.

    Attributes
    ----------
    outcome : LocationScale, a fitted Law, any scikit-learn regressor, or None for the default
    """

    outcome: Any = None


Estimator = Difference | HorvitzThompson | Hajek | GFormula | Aipw
METHODS = ("difference", "horvitz-thompson", "hajek", "g", "aipw")


def estimator_of(method: str | Estimator, outcome: Any = None) -> Estimator:
    """Return the estimator of a name; only the public functions take names.

    Examples
    --------
    >>> estimator_of("hajek")
    Hajek()
    """
    match method:
        case Difference() | HorvitzThompson() | Hajek() | GFormula() | Aipw():
            return method
        case "difference":
            return Difference()
        case "horvitz-thompson":
            return HorvitzThompson()
        case "hajek":
            return Hajek()
        case "g":
            return GFormula(outcome)
        case "aipw":
            return Aipw(outcome)
    hint = nearest(str(method), METHODS) or "choose one of these"
    raise InputError("method", f"one of {', '.join(METHODS)}, or a record such as Hajek()", repr(method), hint)


@dataclass(frozen=True, eq=False)
class Comparison:
    """One score with the weight of every record, sorted once.

    Attributes
    ----------
    score, member : arrays (n,)
    weight : array (n,): 1 for members, the odds of membership for non-members
    propensity : array (n,), in (0, 1)
    features : array (n, p), or None where the propensity adds no term to the variance (:func:`_logistic_features`)
    learned_on : records of a separate sample that the propensity was learned from; None: the audited ones
    units : or None where every record is one
    roc : the self-normalised weighted curve
    """

    score: FloatArray
    member: BoolArray
    weight: FloatArray
    propensity: FloatArray
    features: FloatArray | None
    learned_on: float | None
    units: Units | None
    roc: Roc

    @classmethod
    def of(cls, evidence: Evidence, propensity: PropensityLike) -> Comparison:
        """Check that evidence and propensity match, and sort."""
        values, odds = _checked(evidence, propensity)
        weight = np.where(evidence.member, 1.0, odds)
        code = evidence.unit_codes
        units = None if code is None else Units.of(code, evidence.member)
        return cls(
            evidence.score,
            evidence.member,
            weight,
            values,
            _logistic_features(propensity),
            _separate_rows(propensity),
            units,
            Roc.of(evidence.score, evidence.member, weight, ascending=evidence.ascending),
        )

    @property
    def n1(self) -> float:
        """Number of members."""
        return self.roc.n_members

    @property
    def total(self) -> float:
        """Sum of the weights of the non-members; close to n1 if the propensity is right."""
        return self.roc.n_nonmembers

    @cached_property
    def effective_nonmembers(self) -> float:
        """Kish's effective number of non-members or of their units, W^2 / sum w^2."""
        w = self.weight[~self.member]
        if self.units is not None:
            w = np.asarray(np.bincount(self.units.code[~self.member], weights=w), dtype=np.float64)
        return float(w.sum() ** 2 / (w @ w))

    @property
    def effective_members(self) -> float:
        """Number of members, or Kish's effective number of their units."""
        return self.n1 if self.units is None else self.units.effective_members

    @cached_property
    def ranked(self) -> Ranked:
        """Non-members in descending order of score, for TPRs at an FPR."""
        return Ranked.of(self.score, self.member, self.weight, self.units)

    @property
    def even(self) -> bool:
        """Whether all non-members have the same weight."""
        w = self.weight[~self.member]
        return bool(np.ptp(w) <= 1e-12 * w[0])

    @cached_property
    def share_of_members_above(self) -> FloatArray:
        """S1(y) of each record (n,): share of members with a higher score; ties count one half."""
        vertex = self.roc.blocks_of(self.score)
        tpr = self.roc.tpr
        return np.asarray((tpr[vertex] + tpr[vertex - 1]) / 2)

    @cached_property
    def share_of_nonmembers_below(self) -> FloatArray:
        """F0(y) of each record (n,): weighted share of non-members with a lower score."""
        vertex = self.roc.blocks_of(self.score)
        fpr = self.roc.fpr
        return np.asarray(1 - (fpr[vertex] + fpr[vertex - 1]) / 2)

    def variance(self, influence: FloatArray, gradient: FloatArray) -> float:
        """Return the variance of an estimate, with that of the fitted propensity.

        Learned from the audited records: the larger of with and without the score term (docs/methods.md, section 1).
        Learned from others: what their number leaves uncertain is independent, so it is added.

        Parameters
        ----------
        influence : array (n,), each record's part in the error, zero in sum
        gradient : array (n,)
            How the estimate moves when a record's log-odds do; all zero where there is nothing to add.
        """
        plain = self._plain_variance(influence)
        if self._information is None or not gradient.any():
            return plain
        x, information = self._information
        moved = x.T @ gradient
        direction = np.linalg.lstsq(information, moved, rcond=1e-10)[0]
        if self.learned_on is not None:
            return plain + float(moved @ direction) * len(x) / self.learned_on
        return max(plain, self._plain_variance(influence + (self.member - self.propensity) * (x @ direction)))

    def _plain_variance(self, influence: FloatArray) -> float:
        if self.units is not None:
            return self.units.variance(influence)
        n = len(influence)
        return float(influence @ influence) * n / max(n - 1, 1)

    @cached_property
    def _information(self) -> tuple[FloatArray, FloatArray] | None:
        """Return features with an intercept (n, p + 1) and the information matrix of a logistic model."""
        if self.features is None or self.features.shape[1] + 1 >= len(self.score) / 2:
            return None
        x = np.column_stack([np.ones(len(self.score)), self.features])
        spread = self.propensity * (1 - self.propensity)
        return x, (x * spread[:, None]).T @ x


def counterfactual_mean(
    estimator: Estimator, comparison: Comparison, outcome: FloatArray, predicted: FloatArray | None
) -> tuple[float, FloatArray, FloatArray]:
    """Estimate E[h(Y(0))] in the population of the members: the formula of every metric.

    Parameters
    ----------
    estimator : which of the five answers
    comparison : evidence with weights
    outcome : array (n,), h(Y); only the non-members' values are read
    predicted : array (n,), E[h(Y(0)) | x], where the estimator has an outcome model

    Returns
    -------
    value : float
    influence : array (n,), each record's part in the error, zero in sum
    gradient : array (n,), derivative by each record's log-odds (of :meth:`Comparison.variance`)
    """
    a, w, n1 = comparison.member, np.where(comparison.member, 0.0, comparison.weight), comparison.n1
    share = w / comparison.total
    match estimator:
        case Difference():
            even = ~a / float((~a).sum())
            value = float(even @ outcome)
            return value, even * (outcome - value), np.zeros(len(a))
        case HorvitzThompson():
            value = float(w @ outcome) / n1
            part = w * outcome / n1
            return value, part - np.where(a, value, 0.0) / n1, part
        case Hajek():
            value = float(share @ outcome)
            part = share * (outcome - value)
            return value, part, part
        case GFormula() | Aipw():
            if predicted is None:
                raise InputError("outcome", "an outcome model", "None", "pass outcome=")
            modelled = float(predicted[a].mean())
            residual = share * (outcome - predicted)
            # The G-formula is given the variance of AIPW: that of the best it can be without assumptions on the shape.
            value = modelled + (float(residual.sum()) if isinstance(estimator, Aipw) else 0.0)
            centre = value if isinstance(estimator, Aipw) else modelled
            return value, np.where(a, (predicted - centre) / n1, residual), np.zeros(len(a))


def check_confidence(confidence: float) -> None:
    """Refuse a confidence outside (0, 1)."""
    if not 0 < confidence < 1:
        raise InputError("confidence", "a number in (0, 1)", f"{confidence}", "write 0.95 for 95%")


def _checked(evidence: Evidence, propensity: PropensityLike) -> tuple[FloatArray, FloatArray]:
    values, odds = np.asarray(propensity.values, float), np.asarray(propensity.odds, float)
    if values.shape != (evidence.n,) or odds.shape != (evidence.n,):
        allowed = f"one value for each of {evidence.n} records"
        raise InputError("propensity", allowed, f"shape {values.shape}", "estimate it on the same records")
    if not (np.all((values > 0) & (values < 1)) and np.all(np.isfinite(odds) & (odds > 0))):
        bad = int(np.count_nonzero(~((values > 0) & (values < 1) & np.isfinite(odds) & (odds > 0))))
        raise InputError("propensity", "values in (0, 1)", f"{bad} outside", "clip, or drop records without overlap")
    features = propensity.features
    if features is not None and (np.ndim(features) != 2 or len(features) != evidence.n):
        raise InputError("propensity", f"features of {evidence.n} records", f"{np.shape(features)}", "pass (n, p)")
    return values, odds


def _logistic_features(propensity: PropensityLike) -> FloatArray | None:
    """Return the features (n, p) of a propensity that is linear in them, else None."""
    own, separate = getattr(propensity, "folds", True) is not None, _separate_rows(propensity) is not None
    linear = getattr(propensity, "logistic", True) and propensity.features is not None and (own or separate)
    return np.asarray(propensity.features, dtype=np.float64) if linear else None


def _separate_rows(propensity: PropensityLike) -> float | None:
    """Return the records of a separate training sample of the propensity, else None."""
    ratio = getattr(propensity, "rows_per_covariate", None)
    if getattr(propensity, "folds", True) is not None or ratio is None or propensity.features is None:
        return None
    return float(ratio * propensity.features.shape[1])


# -- limits of the TPR at an FPR --------------------------------------------------------------------------------------


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
        Members above this record, ties interpolated: with the record itself not accused yet, and with it accused.
    members : number of members
    total : what shares are of: the sum of the weights, or a constant (``fixed``)
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
        total : what shares are of, where it is not the sum of the weights (Horvitz-Thompson)
        """
        outside = np.flatnonzero(~member)
        rows = outside[np.lexsort((weight[outside], -score[outside]))]
        rows = rows[np.lexsort((np.arange(len(rows)) * _GOLDEN % 1, -score[rows]))]
        y, w, inside = score[rows], weight[rows], np.sort(score[member])
        cumulative = np.cumsum(w)
        start, stop = (np.searchsorted(-y, -y, side=side) for side in ("left", "right"))
        below = np.r_[0.0, cumulative][start]
        block = cumulative[stop - 1] - below
        above, upto = (len(inside) - np.searchsorted(inside, y, side=side) for side in ("right", "left"))
        after = above + (upto - above) * (cumulative - below) / block
        before = above + (upto - above) * np.maximum(cumulative - w - below, 0.0) / block
        size = float(cumulative[-1]) if total is None else total
        rest = before, after, float(len(inside)), size, total is not None
        if units is None:
            return cls(w, w, w, None, *rest)
        unit = np.unique(units.code[rows], return_inverse=True)[1]
        return cls(w, _running(w, unit), np.asarray(np.bincount(unit, w)[unit], dtype=np.float64), unit, *rest)

    def heaviest_above(self, fpr: float) -> float:
        """Return the largest accused weight of a unit where the weighted share reaches an FPR.

        At least that of an average unit: no FPR is resolved that as many without weights would not.
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
        most_nodes : places of the threshold that are looked at; with more possible ones, strides are taken

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
        """Return members above a threshold between two nodes, and above one behind the last."""
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
        """Return the chance that the drawn share is below the FPR at each node, by groups of equal weight."""
        group = np.floor(np.log(self.weight / self.weight.max()) / math.log(_RATIO)).astype(np.intp)
        group = np.unique(group, return_inverse=True)[1]
        size = np.bincount(group).astype(np.float64)
        weight = np.bincount(group, self.weight) / size
        above = _above(nodes, group, np.ones(len(group)), len(size))
        shaped = np.broadcast_to(np.r_[up * weight, -down * weight, extra], (len(nodes), 2 * len(size) + len(extra)))
        times = np.hstack([above, size - above, np.broadcast_to(counts, (len(nodes), len(counts)))])
        return _chance_below_zero(shaped, times, shape)

    def _of_units(
        self, nodes: IndexArray, up: float, down: float, extra: FloatArray, counts: FloatArray, shape: float
    ) -> FloatArray:
        """Return the same chance where the records of a unit are drawn together."""
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
            sums[first : first + block] = _chance_below_zero(shaped, times, shape)
        return sums


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
    """Return the sum of the first parts (m,), by group (nodes, groups)."""
    node = np.searchsorted(nodes, np.arange(len(group)), side="right")  # the first node that has the record
    inside = node < len(nodes)
    sums = np.bincount(node[inside] * groups + group[inside], part[inside], minlength=len(nodes) * groups)
    return np.asarray(np.cumsum(sums.reshape(len(nodes), groups), axis=0))


def _chance_below_zero(factor: FloatArray, times: FloatArray, shape: float) -> FloatArray:
    """Return P(sum of factor * G <= 0) of independent Gammas in each row (k, groups) (Lugannani, Rice).

    Where all factors are positive it is 0, where none is 1.
    """
    c = np.where(times > 0, factor, 0.0) / shape
    m = times * shape
    up, down = c.max(axis=1), c.min(axis=1)
    chance = np.where(up <= 0, 1.0, 0.0)
    open_ = (up > 0) & (down < 0)
    if not open_.any():
        return chance
    c, m, least, most = c[open_], m[open_], 1 / down[open_], 1 / up[open_]
    mean, variance = (m * c).sum(axis=1), (m * c * c).sum(axis=1)
    low, high, s = least, most, np.clip(-mean / variance, 0.9 * least, 0.9 * most)
    for _ in range(100):
        q = c / (1 - s[:, None] * c)
        slope = np.einsum("ij,ij->i", m, q)
        bend = np.einsum("ij,ij,ij->i", m, q, q)
        found_it = np.abs(slope) <= 1e-6 * np.sqrt(bend)
        if found_it.all():
            break
        low, high = np.where(slope < 0, s, low), np.where(slope < 0, high, s)
        inside = (s - least) * (most - s)  # times the slope it has no poles at the ends, and Newton's steps are good
        step = s - slope * inside / (bend * inside + slope * (least + most - 2 * s))
        s = np.where(found_it, s, np.where((step > low) & (step < high), step, (low + high) / 2))
    cumulant = -(m * np.log1p(-s[:, None] * c)).sum(axis=1)
    r, u = np.sign(s) * np.sqrt(np.maximum(-2 * cumulant, 0.0)), s * np.sqrt(bend)
    flat = np.abs(r) < 1e-3  # at the mean the formula is 0/0; its limit has the skewness
    skew = 2 * (m * c**3).sum(axis=1) / variance**1.5
    correction = np.where(flat, -skew / 6, 1 / np.where(flat, 1, u) - 1 / np.where(flat, 1, r))
    chance[open_] = np.clip(special.ndtr(r) - np.exp(-r * r / 2) / math.sqrt(2 * math.pi) * correction, 0.0, 1.0)
    return chance

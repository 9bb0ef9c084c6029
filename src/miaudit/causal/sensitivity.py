"""Sensitivity analysis: what a corrected metric could be if an unmeasured trait decides membership and score.

The marginal sensitivity model (Tan 2006) lets the true odds of membership of each non-member differ from the estimated
ones by a factor between 1/L and L, for reasons that no covariate shows. L = 1 is "no unmeasured confounding". Given the
covariates the estimated odds stay right on average, and that makes the bounds sharp (Dorn and Guo 2023): a trait can
only move what the covariates do not say of the score. The law of the score given the covariates enters as a quantile.
Bounds hold with any quantile, and they are narrowest with the right one (experiments/methods.md, section 15).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from miaudit.arrays import FloatArray, IntArray
from miaudit.causal import effects
from miaudit.causal.estimators import Comparison, PropensityLike
from miaudit.causal.outcome import AnyLaw, share_above
from miaudit.causal.propensity import Propensity
from miaudit.errors import InputError
from miaudit.evidence import Evidence

__all__ = ["Confounded", "bounds", "tpr_bounds"]

_THRESHOLDS = 24  # at which the standard error of a gap is measured

Metric = Literal["auc", "advantage", "ate"]
Quantile = Callable[[float, FloatArray], FloatArray]


@dataclass(frozen=True, eq=False)
class Confounded:
    """A weighted comparison of which the odds may be wrong by a factor.

    A factor above 1 asks for what leaks least, and its inverse for what leaks most. The same formulas serve both.

    Attributes
    ----------
    comparison : of members and weighted non-members
    quantile : function of a level in (0, 1) and of values (m,), one for each non-member, that rise as scores fall from
        0 to 1: for each non-member (m,) that quantile of the values given its covariates
    mean : E[Y(0) | x] of each non-member (m,), for the average effect; None where it is not known
    """

    comparison: Comparison
    quantile: Quantile
    mean: FloatArray | None = None

    @classmethod
    def of(
        cls,
        evidence: Evidence,
        propensity: PropensityLike | ArrayLike,
        *,
        law: AnyLaw | None = None,
        mean: bool = False,
    ) -> Confounded:
        """Take the quantiles from a law of a non-member's score; without one they are the same for all records.

        Parameters
        ----------
        evidence : with one score
        propensity : P(A=1|X) of the same records
        law : of a non-member's score given the covariates, cross-fitted; one regression of it is read
        mean : whether to read its mean too, for the average effect
        """
        comparison = Comparison.of(evidence, Propensity.of(propensity))
        outside, weight = ~comparison.member, comparison.weight[~comparison.member]
        least = 1 / (4 * comparison.n1)
        if law is None:
            return cls(comparison, lambda part, values: np.full(len(values), _quantile(values, weight, part)))
        expected = law.expected(share_above(evidence.score[evidence.member]))[outside]
        level = special.logit(np.clip(expected, least, 1 - least))

        def quantile(part: float, values: FloatArray) -> FloatArray:
            residual = special.logit(np.clip(values, least, 1 - least)) - level
            return np.asarray(special.expit(level + _quantile(residual, weight, part)))

        return cls(comparison, quantile, law.mean[outside] if mean else None)

    def value(self, metric: Metric, factor: float) -> tuple[float, float]:
        """Return the extreme of the AUC, the advantage or the average effect, and its standard error.

        Parameters
        ----------
        factor : L for the smallest value, 1/L for the largest one
        """
        if metric == "advantage":
            return self._advantage(factor)
        comparison, outside = self.comparison, ~self.comparison.member
        inside, level = comparison.member, 1 / (1 + factor)
        if metric == "auc":
            part = comparison.share_of_members_above[outside]
            quantile = self.quantile(level, part)
            vertex, fpr = comparison.roc.blocks_of(comparison.score[inside]), comparison.roc.fpr
            of_members, constant = 1 - (fpr[vertex] + fpr[vertex - 1]) / 2, 0.0
        else:
            part = -comparison.score[outside]
            centre = np.zeros(len(part)) if self.mean is None else -self.mean
            quantile = centre + _quantile(part - centre, comparison.weight[outside], level)
            of_members = comparison.score[inside]
            constant = float(of_members.mean())
        values = _extreme(part, quantile, factor)
        error = math.hypot(float(of_members.std()) / math.sqrt(comparison.effective_members), self._spread(values))
        return constant + self._mean(values), error

    def fpr(self, factor: float) -> FloatArray:
        """Return the largest FPR that is possible at each threshold of the curve (k,), or the smallest for 1/L.

        A non-member counts L times above the threshold, and 1 - 1/L + (1/L if above) where more than the share 1/(1+L)
        of records like it is above. That share grows along the curve, so each record changes twice, and one pass
        counts all thresholds.
        """
        outside = ~self.comparison.member
        above, many = self.comparison.roc.blocks_of(self.comparison.score[outside]), self._many_above(factor)
        return self._rates(_Steps.of(above, many, factor))

    def _rates(self, steps: _Steps) -> FloatArray:
        """Return the weighted mean (k,) of non-members at each threshold of the curve."""
        weight, size = self.comparison.weight[~self.comparison.member], len(self.comparison.roc.threshold) + 1
        by_place = sum(np.bincount(place, weight * step, minlength=size) for place, step in steps.both)
        return np.asarray(np.cumsum(by_place)[:-1] / weight.sum())

    def read_at(self, fpr: float, factor: float) -> float:
        """Return the FPR of the weighted curve at which the TPR at a true FPR is to be read, 0 to 1."""
        bound, observed = self.fpr(factor), self.comparison.roc.fpr
        beyond = np.flatnonzero(bound > fpr + 1e-12)
        if not len(beyond):
            return 1.0
        if factor >= 1:
            last = int(beyond[0])
        else:
            within = np.flatnonzero(bound <= fpr + 1e-12)
            last = min(int(within[-1]) + 1, len(bound) - 1)
        before, after = bound[last - 1], bound[last]
        part = min(max((fpr - before) / (after - before), 0.0), 1.0) if after > before else 0.0
        return float(observed[last - 1] + part * (observed[last] - observed[last - 1]))

    def _many_above(self, factor: float) -> IntArray:
        """Return the vertex of the curve (m,) from which on more than 1/(1 + L) of records like each are above."""
        roc = self.comparison.roc
        step = 1 / roc.n_members  # so little for all non-members together that it only orders those between two members
        along = (roc.tpr + step * roc.fpr) / (1 + step)
        vertex = roc.blocks_of(self.comparison.score[~self.comparison.member])
        quantile = self.quantile(1 / (1 + factor), (along[vertex] + along[vertex - 1]) / 2)
        return np.maximum(np.searchsorted(along, quantile - 1e-12), 1)

    def _advantage(self, factor: float) -> tuple[float, float]:
        """Return the extreme of the largest gap, and the largest standard error that a gap has at any threshold.

        Limits of an advantage hold at all thresholds at once. Where the gaps are closed, the largest of them may be at
        the end of the curve, where a gap varies least.
        """
        roc = self.comparison.roc
        above, many = roc.blocks_of(self.comparison.score[~self.comparison.member]), self._many_above(factor)
        steps = _Steps.of(above, many, factor)
        places = np.unique(np.linspace(1, len(roc.threshold) - 1, _THRESHOLDS).astype(np.int64))
        rate = roc.tpr[places]
        errors = np.hypot(np.sqrt(rate * (1 - rate) / self.comparison.effective_members), self._spreads(steps, places))
        return float((roc.tpr - self._rates(steps)).max()), float(errors.max())

    def _spreads(self, steps: _Steps, places: IntArray) -> FloatArray:
        """Return :meth:`_spread` (k,) of what non-members count at each of some ascending places of the curve.

        From one place to the next only the records that change are added.
        """
        outside, units = ~self.comparison.member, self.comparison.units
        weight = self.comparison.weight[outside]
        code = np.arange(len(weight)) if units is None else units.code[outside]
        of_unit, total = np.bincount(code, weights=weight), weight.sum()
        at = np.concatenate([np.searchsorted(places, place) for place, _ in steps.both]).astype(np.int16)
        order = np.argsort(at, kind="stable")
        changed = np.split(order, np.searchsorted(at[order], np.arange(1, len(places) + 1)))[:-1]
        change, code = np.concatenate([weight * step for _, step in steps.both]), np.tile(code, 2)
        counted, spreads = np.zeros(len(of_unit)), np.empty(len(places))
        for k, rows in enumerate(changed):
            counted += np.bincount(code[rows], weights=change[rows], minlength=len(counted))
            parts = counted - of_unit * (counted.sum() / total)
            spreads[k] = math.sqrt(parts @ parts) / total
        return spreads

    def _mean(self, values: FloatArray) -> float:
        weight = self.comparison.weight[~self.comparison.member]
        return float(weight @ values / weight.sum())

    def _spread(self, values: FloatArray) -> float:
        """Return the standard error of a weighted mean of non-members (m,), or of their units."""
        weight = self.comparison.weight[~self.comparison.member]
        parts = weight * (values - self._mean(values))
        if self.comparison.units is not None:
            codes = self.comparison.units.code[~self.comparison.member]
            parts = np.bincount(codes, weights=parts).astype(np.float64)
        return float(np.sqrt(parts @ parts) / weight.sum())


@dataclass(frozen=True, eq=False)
class _Steps:
    """What each non-member counts along the curve: two places (m,) from which on it counts more, or less, each by (m,).

    A non-member counts L times above the threshold, and 1 - 1/L + (1/L if above) where more than the share 1/(1+L) of
    records like it is above.
    """

    both: tuple[tuple[IntArray, FloatArray], tuple[IntArray, FloatArray]]

    @classmethod
    def of(cls, above: IntArray, many: IntArray, factor: float) -> _Steps:
        """From the vertices (m,) at which each is above the threshold, and at which many like it are."""
        first = many <= above
        at_score = np.where(first, 1 / factor, factor)
        return cls(((above, at_score), (many, np.where(first, 1 - 1 / factor, 1 - factor))))


def bounds(
    evidence: Evidence,
    propensity: PropensityLike | ArrayLike,
    *,
    odds_factor: float,
    metric: Metric = "auc",
    law: AnyLaw | None = None,
) -> tuple[float, float]:
    """Return the range of a metric if the true odds are within a factor of the estimated ones (Dorn and Guo 2023).

    Parameters
    ----------
    evidence : with one score
    propensity : P(A=1|X) of the same records
    odds_factor : L, at least 1
    metric : "auc", "advantage" or "ate"
    law : of a non-member's score given the covariates; without one the bounds are wider

    Returns
    -------
    low, high : of the AUC (0 to 1), the advantage (0 to 1) or the average effect in units of the score

    Raises
    ------
    InputError
        For another metric, or a factor below 1.

    Examples
    --------
    >>> from types import SimpleNamespace
    >>> evidence = Evidence(score=[2.0, 3.0, 1.0], member=[1, 0, 0])
    >>> known = SimpleNamespace(values=np.full(3, 0.5), odds=np.ones(3), features=None)
    >>> [round(end, 3) for end in bounds(evidence, known, odds_factor=1.5)]
    [0.333, 0.667]
    """
    if metric not in ("auc", "advantage", "ate"):
        raise InputError("metric", "'auc', 'advantage' or 'ate'", repr(metric), "use tpr_bounds for a TPR")
    factor = _checked_factor(odds_factor)
    confounded = Confounded.of(evidence, propensity, law=law, mean=metric == "ate")
    low, high = (confounded.value(metric, one)[0] for one in (factor, 1 / factor))
    return low, high


def tpr_bounds(
    evidence: Evidence,
    propensity: PropensityLike | ArrayLike,
    *,
    fpr: float,
    odds_factor: float,
    law: AnyLaw | None = None,
) -> tuple[float, float]:
    """Return the range of the causal TPR at an FPR if the odds are within a factor of the estimated ones.

    The weighted curve is read at other FPRs: at a low one at about alpha / L and alpha L.

    Parameters
    ----------
    fpr : alpha, in (0, 1)
    odds_factor : L, at least 1
    law : of a non-member's score given the covariates; without one the bounds are wider
    """
    effects._check_rate(fpr)
    factor = _checked_factor(odds_factor)
    confounded = Confounded.of(evidence, propensity, law=law)
    low, high = (confounded.comparison.roc.tpr_at(confounded.read_at(fpr, one)) for one in (factor, 1 / factor))
    return float(low), float(high)


# -- parts -------------------------------------------------------------------------------------------------------------


def _checked_factor(odds_factor: float) -> float:
    if not 1 <= odds_factor < math.inf:
        raise InputError("odds_factor", "a finite number of at least 1", f"{odds_factor}", "1 is no confounding")
    return float(odds_factor)


def _extreme(part: FloatArray, quantile: FloatArray, factor: float) -> FloatArray:
    """Return the values (m,) whose weighted mean is the smallest mean of parts (m,), or the largest for 1/L.

    Each record counts L times below its quantile of level 1/(1+L), and 1/L times above it; the quantile is subtracted
    and added so that no record like it counts more or less on average.
    """
    inverse = 1 / factor
    return part * inverse + (1 - inverse) * (quantile - (1 + factor) * np.maximum(quantile - part, 0.0))


def _quantile(values: FloatArray, weight: FloatArray, level: float) -> float:
    """Return the weighted quantile: the smallest value with at least this share of the weight at or below it."""
    order = np.argsort(values, kind="stable")
    share = np.cumsum(weight[order]) / weight.sum()
    return float(values[order][min(int(np.searchsorted(share, level - 1e-12)), len(values) - 1)])

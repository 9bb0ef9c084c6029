"""Sensitivity analysis: unmeasured covariates or mislabelled records that would remove an effect.

The marginal sensitivity model lets the true odds of membership of each non-member differ from the estimated ones by a
factor between 1/L and L, for reasons that no covariate shows. L = 1 is "no unmeasured confounding".
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from miaudit.arrays import FloatArray
from miaudit.causal import effects
from miaudit.causal.estimators import Comparison, PropensityLike
from miaudit.causal.propensity import Propensity
from miaudit.errors import InputError
from miaudit.evidence import Evidence
from miaudit.metrics.classical import Estimate, tpr_name
from miaudit.metrics.roc import Roc
from miaudit.metrics.rounding import written

__all__ = ["Breakdown", "bounds", "breakdown", "tpr_bounds", "under_mislabelling"]

Metric = Literal["auc", "ate"]

REPLICATES = 400
LOW_QUANTILE = 0.05


@dataclass(frozen=True)
class Breakdown:
    """The odds factor L* at which a corrected effect could be zero.

    Attributes
    ----------
    metric : "auc" or "ate"
    value : L*, at least 1 and possibly infinite; larger is sturdier
    low : its 5% bootstrap quantile (propensities held fixed), at least 1
    replicates : bootstrap replicates behind ``low``
    """

    metric: str
    value: float
    low: float
    replicates: int

    @property
    def sentence(self) -> str:
        """Return the meaning of L* in words.

        Examples
        --------
        >>> Breakdown("auc", 1.5, 1.2, 400).sentence
        'an unmeasured trait that multiplies the odds of membership by 1.50 (5% quantile 1.20) and is perfectly
        aligned with the score would suffice to explain the whole effect'
        """
        if math.isinf(self.value):
            return "no unmeasured trait could explain the whole effect, however strong: the scores do not overlap"
        return (
            f"an unmeasured trait that multiplies the odds of membership by {self.value:.2f} (5% quantile "
            f"{written(self.low, '.2f', 'down')}) and is perfectly aligned with the score would suffice to explain the "
            "whole effect"
        )


def breakdown(
    evidence: Evidence,
    propensity: PropensityLike | ArrayLike,
    *,
    metric: Metric = "auc",
    replicates: int = REPLICATES,
    rng: np.random.Generator,
) -> Breakdown:
    """Return L* = sqrt(max(N+, N-) / min(N+, N-)) of the Hajek estimate, with its 5% bootstrap quantile.

    N+ and N- are the sums over non-members of w d+ and w d-, with d = S1(Y) - 1/2 for the AUC and mean(Y1) - Y for
    the average effect. The bootstrap resamples each class (whole units where there are any).

    Parameters
    ----------
    evidence : with one score
    propensity : P(A=1|X) of the same records
    metric : "auc" or "ate"
    replicates : of the bootstrap; 0 for none (``low`` is then 1)
    rng : draws the bootstrap

    Examples
    --------
    >>> from types import SimpleNamespace
    >>> evidence = Evidence(score=[2.0, 4.0, 1.0, 3.0], member=[1, 1, 0, 0])
    >>> known = SimpleNamespace(values=np.full(4, 0.5), odds=np.ones(4), features=None)
    >>> breakdown(evidence, known, metric="ate", replicates=0, rng=np.random.default_rng(0)).value
    inf
    """
    _check_metric(metric)
    comparison = Comparison.of(evidence, Propensity.of(propensity))
    value = _ratio(comparison, metric)
    upwards = value >= 1
    replicated = np.array([_replicate(comparison, metric, rng) for _ in range(replicates)])
    if not upwards:
        value, replicated = 1 / value if value > 0 else math.inf, 1 / np.where(replicated > 0, replicated, np.inf)
    low = float(np.quantile(replicated, LOW_QUANTILE, method="lower")) if replicates else 1.0
    return Breakdown(metric, value, max(1.0, min(low, value)), replicates)


def bounds(
    evidence: Evidence, propensity: PropensityLike | ArrayLike, *, odds_factor: float, metric: Metric = "auc"
) -> tuple[float, float]:
    """Return the range of the Hajek estimate if the true odds are within a factor of the estimated ones.

    The extremes give the factor L to all non-members on one side of a cut of the score and 1/L to the rest: one sort,
    prefix sums, the best cut; O(n log n).

    Parameters
    ----------
    odds_factor : L, at least 1

    Returns
    -------
    low, high : of the AUC (0 to 1), or of the average effect in units of the score

    Examples
    --------
    >>> from types import SimpleNamespace
    >>> evidence = Evidence(score=[2.0, 3.0, 1.0], member=[1, 0, 0])
    >>> known = SimpleNamespace(values=np.full(3, 0.5), odds=np.ones(3), features=None)
    >>> bounds(evidence, known, odds_factor=2.0)
    (0.2, 0.8)
    """
    _check_metric(metric)
    factor = _checked_factor(odds_factor)
    comparison = Comparison.of(evidence, Propensity.of(propensity))
    outside = ~comparison.member
    part = comparison.share_of_members_above if metric == "auc" else -comparison.score
    low, high = _extremes(part[outside], comparison.weight[outside], factor)
    shift = 0.0 if metric == "auc" else float(comparison.score[comparison.member].mean())
    return shift + low, shift + high


def tpr_bounds(
    evidence: Evidence, propensity: PropensityLike | ArrayLike, *, fpr: float, odds_factor: float
) -> tuple[float, float]:
    """Return the range of the causal TPR at an FPR if the odds are within a factor of the estimates.

    The weighted curve is read at alpha / (alpha + L^2 (1 - alpha)) and at alpha L^2 / (1 - alpha + alpha L^2).

    Parameters
    ----------
    fpr : alpha, in (0, 1)
    odds_factor : L, at least 1
    """
    effects._check_rate(fpr)
    square = _checked_factor(odds_factor) ** 2
    levels = fpr / (fpr + square * (1 - fpr)), fpr * square / (1 - fpr + fpr * square)
    low, high = Comparison.of(evidence, Propensity.of(propensity)).roc.tpr_at(np.array(levels))
    return float(low), float(high)


def under_mislabelling(
    evidence: Evidence,
    propensity: PropensityLike | ArrayLike,
    *,
    members: float,
    nonmembers: float,
    fpr_targets: tuple[float, ...] = (),
    confidence: float = 0.95,
    rng: np.random.Generator,
) -> dict[str, Estimate]:
    """Return Hajek metrics under a share of wrong labels among members and among non-members.

    The observed laws are taken as mixtures P1' = (1 - e1) P1 + e1 P0 and P0' = (1 - e0) P0 + e0 P1. Then AUC - 1/2,
    the average effect and TPR - FPR at any threshold shrink by 1 - e1 - e0, and so do their limits. The curve is
    solved for (FPR, TPR) at each threshold and read at the target; its limits are those T for which the observed
    interval, at the FPR that T would give there, contains the mixture of T and the target.

    Parameters
    ----------
    members : e1, share of labelled members that are none, 0 to 1
    nonmembers : e0, share of labelled non-members that are members; e0 + e1 < 1
    fpr_targets : FPRs at which the TPR is wanted

    Returns
    -------
    dict
        ``auc``, ``advantage``, ``ate`` and ``tpr_at_fpr_...``; larger effects the larger the shares.

    Examples
    --------
    >>> from types import SimpleNamespace
    >>> evidence = Evidence(score=[2.0, 4.0, 1.0, 3.0], member=[1, 1, 0, 0])
    >>> known = SimpleNamespace(values=np.full(4, 0.5), odds=np.ones(4), features=None)
    >>> found = under_mislabelling(evidence, known, members=0.1, nonmembers=0.1, rng=np.random.default_rng(0))
    >>> found["auc"].value, found["ate"].value
    (0.8125, 1.25)
    """
    propensity = Propensity.of(propensity)
    right_share = 1 - members - nonmembers
    for name, share in (("members", members), ("nonmembers", nonmembers)):
        if not 0 <= share < 1 or right_share <= 0:
            received = f"{members}, {nonmembers}"
            raise InputError(name, "shares from 0 that add up to less than 1", received, "write 0.02 for 2%")
    chance = {"auc": 0.5, "advantage": 0.0, "ate": 0.0}
    estimates: dict[str, Estimate] = {}
    for name, metric in (("auc", effects.auc), ("advantage", effects.advantage), ("ate", effects.ate)):
        observed = metric(evidence, propensity, confidence=confidence, rng=rng)
        estimates[name] = _stretched(observed, right_share, chance[name], 1.0 if name != "ate" else math.inf)
    for alpha in fpr_targets:
        effects._check_rate(alpha)
        estimates[tpr_name(alpha)] = _solved_tpr(evidence, propensity, alpha, members, nonmembers, confidence, rng)
    return estimates


# -- parts -------------------------------------------------------------------------------------------------------------


def _check_metric(metric: str) -> None:
    if metric not in ("auc", "ate"):
        raise InputError("metric", "'auc' or 'ate'", repr(metric), "use tpr_bounds for a TPR")


def _checked_factor(odds_factor: float) -> float:
    if not 1 <= odds_factor < math.inf:
        raise InputError("odds_factor", "a finite number of at least 1", f"{odds_factor}", "1 is no confounding")
    return float(odds_factor)


def _extremes(part: FloatArray, weight: ArrayLike, factor: float) -> tuple[float, float]:
    """Return the extremes of sum(w r part) / sum(w r) over r in [1/factor, factor]."""
    order = np.argsort(part)
    d, w = part[order], np.asarray(weight, dtype=np.float64)[order]
    sums, totals = np.concatenate([[0.0], np.cumsum(w * d)]), np.concatenate([[0.0], np.cumsum(w)])
    up, down = factor, 1 / factor  # the first k records get one factor, the rest the other
    smallest = (up * sums + down * (sums[-1] - sums)) / (up * totals + down * (totals[-1] - totals))
    largest = (down * sums + up * (sums[-1] - sums)) / (down * totals + up * (totals[-1] - totals))
    return float(smallest.min()), float(largest.max())


def _ratio(comparison: Comparison, metric: Metric, count: FloatArray | None = None) -> float:
    """Return sqrt(N+ / N-), above 1 for a positive effect; of a resample from counts (n,), without a new sort."""
    inside, outside, score = comparison.member, ~comparison.member, comparison.score
    if metric == "ate":
        mean = score[inside].mean() if count is None else count[inside] @ score[inside] / count[inside].sum()
        d = float(mean) - score[outside]
    elif count is None:
        d = comparison.share_of_members_above[outside] - 0.5
    else:
        vertex = comparison.roc.blocks_of(score)
        above = np.cumsum(np.bincount(vertex[inside], count[inside], minlength=len(comparison.roc.threshold)))
        d = ((above[vertex] + above[vertex - 1]) / (2 * above[-1]))[outside] - 0.5
    w = (comparison.weight if count is None else comparison.weight * count)[outside]
    plus, minus = float(w @ np.maximum(d, 0)), float(w @ np.maximum(-d, 0))
    if minus > 0:
        return math.sqrt(plus / minus)
    return math.inf if plus > 0 else 1.0


def _replicate(comparison: Comparison, metric: Metric, rng: np.random.Generator) -> float:
    """Return the ratio of one resample; 1 where it lacks a class."""
    count = _counts(comparison, rng)
    both = count[comparison.member].any() and count[~comparison.member].any()
    return _ratio(comparison, metric, count) if both else 1.0


def _counts(comparison: Comparison, rng: np.random.Generator) -> FloatArray:
    """Draw the count of each record in a resample (n,)."""
    if comparison.units is not None:
        unit_counts = rng.multinomial(
            comparison.units.count, np.full(comparison.units.count, 1 / comparison.units.count)
        )
        return unit_counts[comparison.units.code].astype(np.float64)
    record_counts = np.empty(len(comparison.member))
    for kind in (comparison.member, ~comparison.member):
        n = int(kind.sum())
        record_counts[kind] = np.bincount(rng.integers(n, size=n), minlength=n)
    return record_counts


def _stretched(observed: Estimate, right_share: float, chance: float, most: float) -> Estimate:
    def of(value: float) -> float:
        return min(max(chance + (value - chance) / right_share, 0.0 if math.isfinite(most) else -math.inf), most)

    value = None if observed.value is None else of(observed.value)
    return replace(observed, value=value, low=of(observed.low), high=of(observed.high))


def _solved_tpr(
    evidence: Evidence,
    propensity: PropensityLike,
    alpha: float,
    members: float,
    nonmembers: float,
    confidence: float,
    rng: np.random.Generator,
) -> Estimate:
    """Return the TPR at alpha of the solved curve, with limits."""
    curve = solved_curve(Comparison.of(evidence, propensity).roc, members, nonmembers)
    value = float(curve.tpr_at(alpha))
    accepted, resolved = [], True
    for candidate in np.linspace(0, 1, 81):
        level = nonmembers * candidate + (1 - nonmembers) * alpha
        rate = (1 - members) * candidate + members * alpha
        observed = effects.tpr_at_fpr(evidence, propensity, fpr=float(level), confidence=confidence, rng=rng)
        if observed.low <= rate <= observed.high:
            accepted.append(float(candidate))
            resolved = resolved and observed.resolved
    low, high = (min(accepted), max(accepted)) if accepted else (value, value)
    if not resolved:
        return Estimate(None, 0.0, max(high, value), confidence, "upper limit only: too few effective non-members")
    return Estimate(value, min(low, value), max(high, value), confidence, "limits on a grid of 1/80")


def solved_curve(roc: Roc, members: float, nonmembers: float) -> Roc:
    """Undo the mixture at each threshold: the curve if all labels were right.

    Parameters
    ----------
    roc : observed curve, weighted or not
    members, nonmembers : shares of wrong labels, with a sum below 1

    Returns
    -------
    Roc
        Clipped to [0, 1] and made monotone, since sampling noise is magnified.
    """
    right_share = 1 - members - nonmembers
    fpr = ((1 - members) * roc.fpr - nonmembers * roc.tpr) / right_share
    tpr = ((1 - nonmembers) * roc.tpr - members * roc.fpr) / right_share
    fpr, tpr = (np.maximum.accumulate(np.clip(rate, 0.0, 1.0)) for rate in (fpr, tpr))
    return Roc(roc.threshold, fpr * roc.n_nonmembers, tpr * roc.n_members)

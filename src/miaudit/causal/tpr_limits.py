"""The TPR at an FPR with its limits, from a causal curve: by fiducial weights, or for an FPR with an outcome model."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from miaudit.arrays import FloatArray
from miaudit.causal import progress
from miaudit.causal.estimators import Comparison, Estimator, Hajek, HorvitzThompson, counterfactual_mean
from miaudit.causal.fiducial import Ranked
from miaudit.causal.outcome import AnyLaw, model_note
from miaudit.metrics import classical, influence
from miaudit.metrics.classical import Estimate
from miaudit.metrics.roc import Roc

LOW_FPR = "an outcome model is not to be trusted for the TPR at a low FPR with few non-members; prefer hajek"
_NOTHING = 1e-9  # a variance below this part of the usual one is rounding error


def rate_at(estimator: Estimator, comparison: Comparison, law: AnyLaw | None, threshold: float) -> tuple[float, float]:
    """Return the causal FPR at a threshold, and its variance."""
    hit = (comparison.score >= threshold).astype(np.float64)
    predicted = None if law is None else law.exceedance(threshold)
    rate, influence, gradient = counterfactual_mean(estimator, comparison, hit, predicted)
    return rate, comparison.variance(influence, gradient)


def estimate(
    curve: Roc,
    estimator: Estimator,
    comparison: Comparison,
    law: AnyLaw | None,
    fpr: float,
    confidence: float,
) -> Estimate:
    """Estimate the TPR at an FPR with its limits.

    Parameters
    ----------
    curve : with the false-positive rate of the estimator
    law : the outcome model, of an estimator that has one
    fpr, confidence : in (0, 1)

    Returns
    -------
    Estimate
        Without a value where there are too few effective non-members in all, and with the lower limit 0 where there are
        too few by the heaviest above the threshold.
    """
    ranked = comparison.ranked
    if isinstance(estimator, HorvitzThompson):
        ranked = Ranked.of(comparison.score, comparison.member, comparison.weight, comparison.units, comparison.n1)
    above = ranked.effective_nonmembers(confidence)
    point = _Point.of(curve, fpr)
    if law is not None:
        low, high = _modelled_limits(curve, estimator, comparison, law, point, above, confidence)
        notes = [LOW_FPR, model_note(law)]
    else:
        [(low, high)] = _limits(curve, estimator, comparison, ranked, [point], confidence, classical.MOST_NODES)
        notes = ["interpolated inside ties (a randomised threshold)"] if point.interpolated else []
    if not classical.resolvable(fpr, above, confidence):
        needed = f"an FPR of {fpr:g} needs {classical.nonmembers_needed(fpr, confidence):,} effective non-members"
        if not classical.resolvable(fpr, comparison.effective_nonmembers, confidence):
            available = f"there are {math.floor(comparison.effective_nonmembers):,}"
            return Estimate(None, 0.0, high, confidence, f"upper limit only: {needed}, {available}")
        available = f"by the weight of the heaviest above the threshold there are {math.floor(above):,}"
        notes.append(f"no lower limit: {needed}, and {available}")
    limits = _resolved(low, high, point, comparison, above, confidence)
    error = _standard_error(curve, estimator, comparison, law, point)
    return Estimate(point.tpr, *limits, confidence, "; ".join(notes), point.step_tpr, error)


def band(comparison: Comparison, fprs: FloatArray, confidence: float, most_nodes: int) -> tuple[FloatArray, FloatArray]:
    """Return the limits (k,) of the TPR by Hajek weights at each FPR (k,), as :func:`estimate` gives them."""
    curve, points = comparison.roc, [_Point.of(comparison.roc, float(fpr)) for fpr in fprs]
    above = comparison.ranked.effective_nonmembers(confidence)
    unresolved = _limits(curve, Hajek(), comparison, comparison.ranked, points, confidence, most_nodes)
    limits = [
        _resolved(*both, point, comparison, above, confidence) for both, point in zip(unresolved, points, strict=True)
    ]
    low, high = np.array(limits).T
    return low, high


def _resolved(
    low: float, high: float, point: _Point, comparison: Comparison, above: float, confidence: float
) -> tuple[float, float]:
    """Return limits round the TPR, the lower one 0 where there are too few by the heaviest above the threshold."""
    if classical.resolvable(point.fpr, above, confidence):
        return min(low, point.tpr), max(high, point.tpr)
    enough = classical.resolvable(point.fpr, comparison.effective_nonmembers, confidence)
    return 0.0, max(high, point.tpr) if enough else high


def _limits(
    curve: Roc,
    estimator: Estimator,
    comparison: Comparison,
    ranked: Ranked,
    points: Sequence[_Point],
    confidence: float,
    most_nodes: int,
) -> list[tuple[float, float]]:
    """Return the limits of the TPR at points of a curve, by weights alone."""
    trials = [_trials(comparison, curve, point.fpr) for point in points]
    shapes = []
    for point in points:
        shapes.append(_certainty(estimator, comparison, point.threshold))
        progress.piece()
    return ranked.band([point.fpr for point in points], confidence, trials, shapes, most_nodes=most_nodes)


@dataclass(frozen=True)
class _Point:
    """The point of a curve at an FPR.

    Attributes
    ----------
    fpr : of the point
    tpr : interpolated inside ties
    step_tpr : without interpolation
    threshold : of the first vertex that reaches the FPR
    interpolated : whether the point lies inside ties
    """

    fpr: float
    tpr: float
    step_tpr: float
    threshold: float
    interpolated: bool

    @classmethod
    def of(cls, curve: Roc, fpr: float) -> _Point:
        tpr, step = float(curve.tpr_at(fpr)), curve.step_tpr_at(fpr)
        threshold = float(curve.threshold[np.searchsorted(curve.fpr, fpr * (1 - 1e-12), side="left")])
        return cls(fpr, tpr, step, threshold, not math.isclose(tpr, step) and curve.has_ties)


def _standard_error(
    curve: Roc, estimator: Estimator, comparison: Comparison, law: AnyLaw | None, point: _Point
) -> float | None:
    """Return the standard error of the TPR: of the accused members, and of the FPR by the slope of the curve.

    As :func:`miaudit.metrics.influence.on_tpr`, with the causal FPR in place of the share of accused non-members.
    """
    hit = (comparison.score >= point.threshold).astype(np.float64)
    predicted = None if law is None else law.exceedance(point.threshold)
    _, on_rate, gradient = counterfactual_mean(estimator, comparison, hit, predicted)
    slope = influence.slope_at(curve, point.fpr)
    share = float(hit[comparison.member].mean())
    own = np.where(comparison.member, (hit - share) / comparison.n1, 0.0)
    return classical.root(comparison.variance(own - slope * on_rate, -slope * gradient))


def _certainty(estimator: Estimator, comparison: Comparison, threshold: float) -> float:
    """Return the share of the FPR's variance that remains with known weights, in (0, 1]."""
    hit = (comparison.score >= threshold).astype(np.float64)
    _, influence, gradient = counterfactual_mean(estimator, comparison, hit, None)
    known, learned = (comparison.variance(influence, part) for part in (np.zeros_like(gradient), gradient))
    # Where all are accused, in one tie block, both are rounding error.
    return known / learned if known > _NOTHING / comparison.effective_nonmembers else 1.0


def _modelled_limits(
    curve: Roc,
    estimator: Estimator,
    comparison: Comparison,
    law: AnyLaw,
    point: _Point,
    effective: float,
    confidence: float,
) -> tuple[float, float]:
    """Return TPR limits where the FPR has an outcome model: a mixture over a Beta law of the level."""
    fpr = point.fpr
    if not classical.resolvable(fpr, effective, confidence):
        # One more effective non-member above the threshold than expected: the outer count.
        fpr = (fpr * effective + 1) / (effective + 1)
        variance = fpr * (1 - fpr) / (effective + 1)
    else:
        _, variance = rate_at(estimator, comparison, law, point.threshold)
        independent = fpr * (1 - fpr) / effective
        # Where (nearly) all are accused at the threshold, in one tie block, its own rate varies less than the level.
        if variance <= _NOTHING * independent or point.interpolated:
            variance = max(variance, independent)
    trials = _trials(comparison, curve, fpr)
    return classical.tpr_limits_uncertain_level(curve, fpr, confidence, variance, trials)


def _trials(comparison: Comparison, curve: Roc, fpr: float) -> float:
    """Return the number of independent members that gives the TPR its variance."""
    if comparison.units is None:
        return comparison.n1
    at = curve.threshold[min(int(np.searchsorted(curve.fpr, fpr, side="left")), len(curve.threshold) - 1)]
    accused = comparison.score >= at
    return comparison.units.independent_trials(accused, members=True)

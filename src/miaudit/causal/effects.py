"""Causal metrics of membership: the success of an attack against comparable non-members.

Every metric needs one number from the non-members: E[h(Y(0))] in the population of the **members**. The score itself
(h(y) = y) gives the average effect, the share of members above y the AUC, and 1{y >= t} the causal FPR. The five
estimators (:mod:`miaudit.causal.estimators`) estimate it in five ways; the intervals come from their influence
functions.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Required, TypedDict, Unpack

import numpy as np
from numpy.typing import ArrayLike

from miaudit.arrays import FloatArray
from miaudit.causal import tpr_limits
from miaudit.causal.estimators import (
    METHODS,
    Aipw,
    Comparison,
    Difference,
    Estimator,
    GFormula,
    Hajek,
    HorvitzThompson,
    PropensityLike,
    counterfactual_mean,
    estimator_of,
)
from miaudit.causal.outcome import AnyLaw, law_of, model_note, one_step_further, share_above
from miaudit.causal.propensity import Propensity
from miaudit.causal.tpr_limits import LOW_FPR
from miaudit.errors import InputError
from miaudit.errors.checks import check_confidence, check_generator
from miaudit.evidence import Evidence
from miaudit.metrics import classical
from miaudit.metrics.classical import Estimate
from miaudit.metrics.definition import Definition
from miaudit.metrics.roc import Roc
from miaudit.metrics.units import Units

__all__ = [
    "LOW_FPR",
    "METHODS",
    "RAW",
    "THRESHOLDS",
    "Aipw",
    "Difference",
    "GFormula",
    "Hajek",
    "HorvitzThompson",
    "advantage",
    "ate",
    "auc",
    "balanced_accuracy",
    "effective_nonmembers",
    "fpr_at_threshold",
    "of",
    "roc",
    "tpr_at_fpr",
    "tpr_at_threshold",
    "tpr_band",
    "weighted_tpr",
]


_ROUNDING = 1e-12
_BAND_NODES = 60  # a band in a chart needs fewer digits than a reported limit
THRESHOLDS = 2000  # vertices of a curve that needs an outcome model
RAW = "raw, not causal: members and non-members may differ by more than membership"


class Options(TypedDict, total=False):
    """Keywords of every estimate of one score: see :func:`ate`."""

    method: str | Estimator
    outcome: Any
    confidence: float
    rng: Required[np.random.Generator]


def ate(evidence: Evidence, propensity: PropensityLike | ArrayLike, **options: Unpack[Options]) -> Estimate:
    """Estimate the average effect of membership on the score among the members (paper, (2)).

    Parameters
    ----------
    evidence : with one score
    propensity : P(A=1|X) of the same records: ``miaudit.causal.propensity.fit(evidence, rng=rng)``, or an array (n,)
    method : "difference", "horvitz-thompson", "hajek", "g", "aipw", or a record such as ``Hajek()``
    outcome : LocationScale, fitted Law or scikit-learn regressor for "g" and "aipw"; None is the default model
    confidence : two-sided, in (0, 1)
    rng : draws the folds of the outcome model

    Returns
    -------
    Estimate
        In units of the score; positive when membership raises it, 0 at no effect.

    Raises
    ------
    InputError
        For an unknown method, lengths that differ, propensities outside (0, 1), or no covariates for an outcome model.

    Examples
    --------
    >>> from types import SimpleNamespace
    >>> rng = np.random.default_rng(0)
    >>> x = rng.normal(size=4000)
    >>> pi = 1 / (1 + np.exp(-x))
    >>> member = rng.random(4000) < pi
    >>> evidence = Evidence(score=x + 0.5 * member + rng.normal(size=4000), member=member, covariates=x)
    >>> known = SimpleNamespace(values=pi, odds=pi / (1 - pi), features=None)
    >>> print(round(ate(evidence, known, method="difference", rng=rng).value, 1))  # the truth is 0.5
    1.3
    >>> effect = ate(evidence, known, rng=rng)
    >>> effect.low < 0.5 < effect.high
    True
    """
    chosen, comparison, law, confidence = _start(evidence, propensity, **options)
    if isinstance(chosen, Difference):
        return _raw(evidence, chosen, comparison.sample.difference(confidence))
    y = comparison.score
    present = float(y[comparison.member].mean())
    own = np.where(comparison.member, (present - y) / comparison.n1, 0.0)
    absent = _Absent.of(chosen, comparison, law, y, None if law is None else law.mean, own)
    freedom = min(comparison.effective_members, comparison.effective_nonmembers) - 1
    effect = present - absent.value
    if freedom < 1:
        return Estimate(effect, -math.inf, math.inf, confidence, "no interval: fewer than two effective records")
    error = math.sqrt(absent.variance)
    low, high = _outer(
        classical.student_limits(value, error, freedom, confidence) for value in (effect, present - absent.further)
    )
    return Estimate(effect, low, high, confidence, model_note(law), standard_error=classical.root(absent.variance, 0.0))


def auc(evidence: Evidence, propensity: PropensityLike | ArrayLike, **options: Unpack[Options]) -> Estimate:
    """Estimate the causal AUC: 0.5 at no effect; ties count one half (paper, 3.2; errata A4).

    Parameters, errors: as :func:`ate`. The interval is normal on the logit scale, from the influence function.

    Examples
    --------
    >>> from types import SimpleNamespace
    >>> rng = np.random.default_rng(0)
    >>> x = rng.normal(size=4000)
    >>> pi = 1 / (1 + np.exp(-x))
    >>> member = rng.random(4000) < pi
    >>> evidence = Evidence(score=x + rng.normal(size=4000), member=member, covariates=x)  # membership does nothing
    >>> known = SimpleNamespace(values=pi, odds=pi / (1 - pi), features=None)
    >>> print(round(auc(evidence, known, method="difference", rng=rng).value, 1))
    0.7
    >>> area = auc(evidence, known, method="aipw", rng=rng)
    >>> area.low < 0.5 < area.high
    True
    """
    chosen, comparison, law, confidence = _start(evidence, propensity, **options)
    if _classical(chosen, comparison):
        return _raw(evidence, chosen, comparison.sample.auc(confidence))
    above, below = comparison.share_of_members_above, comparison.share_of_nonmembers_below
    if isinstance(chosen, HorvitzThompson):
        below = below * comparison.total / comparison.n1
    own = np.where(comparison.member, (below - below[comparison.member].mean()) / comparison.n1, 0.0)
    predicted = None if law is None else law.expected(share_above(comparison.score[comparison.member]))
    area = _Absent.of(chosen, comparison, law, above, predicted, own)
    note = model_note(law)
    if not -_ROUNDING <= area.value <= 1 + _ROUNDING:
        note = "; ".join(part for part in (note, f"{area.value:.3f} before clipping to [0, 1]") if part)
    clipped = _snapped(area.value)
    sizes = comparison.effective_members, comparison.effective_nonmembers
    freedom = None if comparison.units is None else min(sizes) - 1  # few units: their variance is hardly known
    low, high = _outer(
        classical.auc_limits(value, area.variance, *sizes, confidence, freedom)
        for value in (clipped, min(max(area.further, 0.0), 1.0))
    )
    return Estimate(clipped, low, high, confidence, note, standard_error=classical.root(area.variance))


def roc(
    evidence: Evidence,
    propensity: PropensityLike | ArrayLike,
    *,
    method: str | Estimator = "hajek",
    outcome: Any = None,
    thresholds: int = THRESHOLDS,
    rng: np.random.Generator | None = None,
) -> Roc:
    """Estimate the causal ROC curve, from (0, 0) to (1, 1) (paper, 3.2 and (11); errata A1 to A4).

    Parameters
    ----------
    evidence, propensity, method, outcome : as :func:`ate`
    thresholds : int
        Vertices for "g" and "aipw", denser towards both ends; the others have every distinct score.
    rng : needed for "g" and "aipw" unless ``outcome`` is a fitted Law

    Returns
    -------
    Roc
        Its ``fpr`` is the causal one. The curve of AIPW is not monotone: running maximum, clipped to [0, 1].

    Examples
    --------
    >>> from types import SimpleNamespace
    >>> pi = np.array([0.5, 0.75, 0.25, 0.5])
    >>> evidence = Evidence(score=[3.0, 2.0, 1.0, 0.0], member=[1, 0, 0, 1])
    >>> curve = roc(evidence, SimpleNamespace(values=pi, odds=pi / (1 - pi), features=None))
    >>> [round(float(rate), 3) for rate in curve.fpr]
    [0.0, 0.0, 0.9, 1.0, 1.0]
    """
    chosen, known = estimator_of(method, outcome), Propensity.of(propensity)
    return _curve(chosen, Comparison.of(evidence, known), _law(chosen, evidence, known, rng), thresholds)


def tpr_at_fpr(
    evidence: Evidence, propensity: PropensityLike | ArrayLike, *, fpr: float, **options: Unpack[Options]
) -> Estimate:
    """Estimate the causal TPR at an FPR (errata A2), interpolated inside ties.

    The interval is that of fiducial weights (:class:`miaudit.causal.fiducial.Ranked`). Where the weight that may be
    accused is less than ``resolution(confidence)`` times that of the heaviest non-member above the threshold no lower
    limit exists: the estimate has an upper limit only, never a value. Estimators with an outcome model use the mixture
    whose level has the variance of their FPR. Other parameters, errors: as :func:`ate`.

    Parameters
    ----------
    fpr : alpha, in (0, 1)

    Examples
    --------
    >>> from types import SimpleNamespace
    >>> rng = np.random.default_rng(0)
    >>> x = rng.normal(size=4000)
    >>> pi = 1 / (1 + np.exp(-x))
    >>> member = rng.random(4000) < pi
    >>> evidence = Evidence(score=x + rng.normal(size=4000), member=member)  # membership does nothing
    >>> known = SimpleNamespace(values=pi, odds=pi / (1 - pi), features=None)
    >>> rate = tpr_at_fpr(evidence, known, fpr=0.05, rng=rng)
    >>> rate.low < 0.05 < rate.high
    True
    >>> tpr_at_fpr(evidence, known, fpr=0.001, rng=rng).value is None
    True
    """
    _check_rate(fpr)
    chosen, comparison, law, confidence = _start(evidence, propensity, **options)
    if _classical(chosen, comparison):
        return _raw(evidence, chosen, comparison.sample.tpr_at_fpr(fpr, confidence))
    return tpr_limits.estimate(_curve(chosen, comparison, law, THRESHOLDS), chosen, comparison, law, fpr, confidence)


def tpr_band(
    evidence: Evidence, propensity: PropensityLike | ArrayLike, fpr: FloatArray, *, confidence: float = 0.95
) -> tuple[Roc, FloatArray, FloatArray]:
    """Estimate the causal ROC curve by Hajek weights with limits (k,) of the TPR at each FPR (k,).

    Examples
    --------
    >>> from types import SimpleNamespace
    >>> evidence = Evidence(score=[3.0, 2.0, 1.0, 0.0], member=[1, 1, 0, 0])
    >>> pi = np.array([0.5, 0.5, 0.4, 0.6])
    >>> known = SimpleNamespace(values=pi, odds=pi / (1 - pi), features=None)
    >>> curve, low, high = tpr_band(evidence, known, np.array([0.1, 0.5]))
    >>> curve.auc, low.tolist(), bool((high > 0.9).all())
    (1.0, [0.0, 0.0], True)
    """
    check_confidence(confidence)
    comparison = Comparison.of(evidence, Propensity.of(propensity))
    if _classical(Hajek(), comparison):
        return comparison.roc, *comparison.sample.tpr_band(fpr, confidence)
    return comparison.roc, *tpr_limits.band(comparison, fpr, confidence, _BAND_NODES)


def weighted_tpr(comparison: Comparison, fpr: float, confidence: float) -> Estimate:
    """Estimate the TPR at an FPR by Hajek weights, of evidence that was sorted once for many FPRs.

    Parameters
    ----------
    comparison : of the evidence and its weights
    fpr, confidence : in (0, 1)

    Examples
    --------
    >>> evidence = Evidence(score=np.arange(400.0), member=np.arange(400) % 2 == 0)
    >>> comparison = Comparison.of(evidence, Propensity.of(np.linspace(0.4, 0.6, 400)))
    >>> rate = weighted_tpr(comparison, 0.1, 0.95)
    >>> rate == tpr_at_fpr(evidence, np.linspace(0.4, 0.6, 400), fpr=0.1, rng=np.random.default_rng(0))
    True
    """
    if _classical(Hajek(), comparison):
        return comparison.sample.tpr_at_fpr(fpr, confidence)
    return tpr_limits.estimate(comparison.roc, Hajek(), comparison, None, fpr, confidence)


def effective_nonmembers(
    evidence: Evidence, propensity: PropensityLike | ArrayLike, *, confidence: float = 0.95
) -> float:
    """Return the effective number of non-members at low FPRs: ``resolution`` / smallest resolved FPR.

    The weights of those above the threshold decide, not those of all: the accused weight has to be
    ``resolution(confidence)`` times the heaviest among them. Parameters, errors: as :func:`tpr_at_fpr`.

    Examples
    --------
    >>> from types import SimpleNamespace
    >>> x = np.linspace(-2, 2, 1000)
    >>> known = SimpleNamespace(values=1 / (1 + np.exp(-x)), odds=np.exp(x), features=None)
    >>> aligned, opposed = (Evidence(score=y, member=np.arange(1000) % 2 == 0) for y in (x, -x))
    >>> round(effective_nonmembers(aligned, known)), round(effective_nonmembers(opposed, known))
    (123, 500)
    """
    check_confidence(confidence)
    comparison = Comparison.of(evidence, Propensity.of(propensity))
    if comparison.even:
        return float(comparison.sample.effective_nonmembers)
    return comparison.ranked.effective_nonmembers(confidence)


def advantage(evidence: Evidence, propensity: PropensityLike | ArrayLike, **options: Unpack[Options]) -> Estimate:
    """Estimate the causal sup(TPR - FPR), 0 at no effect; limits account for the search of a threshold.

    Parameters, errors: as :func:`ate`. The limits are those of the classical metric with as many non-members as would
    give the weighted FPR its largest variance over all thresholds.

    Examples
    --------
    >>> from types import SimpleNamespace
    >>> evidence = Evidence(score=[3.0, 2.0, 1.0, 0.0], member=[1, 1, 0, 0])
    >>> known = SimpleNamespace(values=np.full(4, 0.5), odds=np.ones(4), features=None)
    >>> advantage(evidence, known, rng=np.random.default_rng(0)).value
    1.0
    """
    chosen, comparison, law, confidence = _start(evidence, propensity, **options)
    if _classical(chosen, comparison):
        return _raw(evidence, chosen, comparison.sample.advantage(confidence))
    curve = _curve(chosen, comparison, law, THRESHOLDS)
    sizes = comparison.effective_members, _nonmembers_for_the_curve(comparison)
    opposed = comparison.units is not None and comparison.units.spanning > 0  # at worst: units of both classes
    variance = sum(size**-0.5 for size in sizes) ** 2 if opposed else None
    low, high = classical.advantage_limits(curve, confidence, *sizes, variance=variance, opposition=float(opposed))
    return Estimate(max(curve.advantage, 0.0), low, high, confidence, model_note(law))


def balanced_accuracy(
    evidence: Evidence, propensity: PropensityLike | ArrayLike, **options: Unpack[Options]
) -> Estimate:
    """Estimate the causal (TPR + TNR) / 2 at the best threshold: (1 + advantage) / 2; see :func:`ate`."""
    best = advantage(evidence, propensity, **options)
    return replace(best, value=(1 + (best.value or 0.0)) / 2, low=(1 + best.low) / 2, high=(1 + best.high) / 2)


def of(metric: Definition) -> Callable[..., Estimate]:
    """Return the function that estimates a metric causally, with the arguments of :func:`ate`; refuse other metrics."""
    if metric.fpr is not None:
        return partial(tpr_at_fpr, fpr=metric.fpr)
    known = {"auc": auc, "advantage": advantage, "balanced_accuracy": balanced_accuracy, "ate": ate}
    if metric.causal is None and metric.name not in known:
        allowed = "metrics with a causal estimate, for zero-run evidence"
        raise InputError("metric", allowed, repr(metric.name), f"leave it out; {', '.join(known)} have one")
    return metric.causal or known[metric.name]


def tpr_at_threshold(evidence: Evidence, *, threshold: float, confidence: float = 0.95) -> Estimate:
    """Estimate the TPR at a threshold fixed beforehand; the same for every estimator.

    Examples
    --------
    >>> tpr_at_threshold(Evidence.from_pair([1.0, 2.0], [0.0]), threshold=2.0).value
    0.5
    """
    check_confidence(confidence)
    accused = evidence.score >= threshold
    rate, trials = float(accused[evidence.member].mean()), float(evidence.n_members)
    if evidence.unit_codes is None:
        limits = classical.clopper_pearson(round(rate * trials), trials, confidence)
        return Estimate(rate, *limits, confidence)
    effective = Units.of(evidence.unit_codes, evidence.member).independent_trials(accused, members=True)
    return Estimate(rate, *classical.wilson_limits(rate, effective, confidence), confidence)


def fpr_at_threshold(
    evidence: Evidence, propensity: PropensityLike | ArrayLike, *, threshold: float, **options: Unpack[Options]
) -> Estimate:
    """Estimate the causal FPR at a threshold fixed beforehand: P(Y(0) >= t) among members (paper, (11)).

    Parameters, errors: as :func:`ate`. Wilson limits with the number of trials that gives the estimate its variance.

    Examples
    --------
    >>> from types import SimpleNamespace
    >>> pi = np.array([0.5, 0.75, 0.25])
    >>> evidence = Evidence(score=[1.0, 2.0, 0.0], member=[1, 0, 0])
    >>> known = SimpleNamespace(values=pi, odds=pi / (1 - pi), features=None)
    >>> round(fpr_at_threshold(evidence, known, threshold=1.5, rng=np.random.default_rng(0)).value, 3)
    0.9
    """
    chosen, comparison, law, confidence = _start(evidence, propensity, **options)
    rate, variance = tpr_limits.rate_at(chosen, comparison, law, threshold)
    rate = _snapped(rate)
    trials = rate * (1 - rate) / variance if variance > 0 and 0 < rate < 1 else comparison.effective_nonmembers
    return Estimate(rate, *classical.wilson_limits(rate, trials, confidence), confidence, model_note(law))


# -- parts -------------------------------------------------------------------------------------------------------------


def _start(
    evidence: Evidence,
    propensity: PropensityLike | ArrayLike,
    *,
    method: str | Estimator = "hajek",
    outcome: Any = None,
    confidence: float = 0.95,
    rng: np.random.Generator,
) -> tuple[Estimator, Comparison, AnyLaw | None, float]:
    """Return the start of every estimate: the estimator, weighted evidence, its outcome model, the confidence."""
    chosen, known = estimator_of(method, outcome), Propensity.of(propensity)
    check_confidence(confidence)
    if rng is not None:  # it is of use to outcome models only
        check_generator(rng)
    return chosen, Comparison.of(evidence, known), _law(chosen, evidence, known, rng), confidence


@dataclass(frozen=True)
class _Absent:
    """E[h(Y(0))] in the population of the members, with the variance of the metric that it is part of.

    Attributes
    ----------
    value : the estimate
    further : the estimate by an outcome model one step further; the same where there is no outcome model
    variance : of the metric, the members' own part included
    """

    value: float
    further: float
    variance: float

    @classmethod
    def of(
        cls,
        estimator: Estimator,
        comparison: Comparison,
        law: AnyLaw | None,
        outcome: FloatArray,
        predicted: FloatArray | None,
        own: FloatArray,
    ) -> _Absent:
        """Estimate value and variance.

        Parameters
        ----------
        outcome, predicted : as of :func:`miaudit.causal.estimators.counterfactual_mean`
        own : array (n,), each member's part in the error of the metric, zero in sum and for non-members
        """
        value, influence, gradient = counterfactual_mean(estimator, comparison, outcome, predicted)
        variance = comparison.variance(influence + own, gradient)
        if law is None:
            return cls(value, value, variance)
        return cls(value, *one_step_further(estimator, comparison, law, outcome, value, own, variance))


def _outer(limits: Iterable[tuple[float, float]]) -> tuple[float, float]:
    """Return the outer limits of several intervals."""
    lows, highs = zip(*limits, strict=True)
    return min(lows), max(highs)


def _law(
    estimator: Estimator, evidence: Evidence, propensity: PropensityLike, rng: np.random.Generator | None
) -> AnyLaw | None:
    """Return the law of an estimator with an outcome model, fitted if necessary."""
    if isinstance(estimator, GFormula | Aipw):
        return law_of(estimator.outcome, evidence, propensity, rng)
    return None


def _check_rate(fpr: float) -> None:
    if not classical.SMALLEST_FPR <= fpr < 1:
        raise InputError("fpr", f"a number in [{classical.SMALLEST_FPR:g}, 1)", f"{fpr}", "write 0.01 for 1%")


def _classical(estimator: Estimator, comparison: Comparison) -> bool:
    """Return whether the classical metric applies: by the estimator, or because all weights are equal."""
    return isinstance(estimator, Difference) or (isinstance(estimator, Hajek) and comparison.even)


def _raw(evidence: Evidence, estimator: Estimator, estimate: Estimate) -> Estimate:
    """Note on a classical metric that it is not causal, where membership was not assigned at random."""
    if not isinstance(estimator, Difference) or evidence.design != "zero-run":
        return estimate
    return replace(estimate, note=f"{RAW}; {estimate.note}" if estimate.note else RAW)


def _snapped(rate: float) -> float:
    """Return 0 or 1 for a rate that differs from it by rounding only, or is beyond it."""
    if rate <= _ROUNDING:
        return 0.0
    return 1.0 if rate >= 1 - _ROUNDING else rate


def _curve(estimator: Estimator, comparison: Comparison, law: AnyLaw | None, thresholds: int) -> Roc:
    """Return the curve with the false-positive rate of an estimator."""
    weighted = comparison.roc
    match estimator:
        case Difference():
            return Roc.of(comparison.score, comparison.member)
        case Hajek():
            return weighted
        case HorvitzThompson():
            n1 = comparison.n1
            alarms = np.minimum(weighted.false_positive, n1)
            return Roc(
                np.append(weighted.threshold, -np.inf),
                np.append(alarms, n1),
                np.append(weighted.true_positive, n1),
            )
        case GFormula() | Aipw():
            assert law is not None  # noqa: S101 (a promise of _law)
            return _modelled_curve(isinstance(estimator, Aipw), comparison, law, thresholds)


def _modelled_curve(augmented: bool, comparison: Comparison, law: AnyLaw, most: int) -> Roc:
    """Return FPR(t) by outcome model and weighted residuals (errata A3)."""
    weighted = comparison.roc
    vertices = len(weighted.threshold) - 1
    share = np.sin(np.linspace(0, np.pi / 2, most)) ** 2
    vertices_used = 1 + (
        np.arange(vertices) if vertices <= most else np.unique(np.rint((vertices - 1) * share).astype(np.intp))
    )
    members = np.where(comparison.member, 1 / comparison.n1, 0.0)
    outside = np.where(comparison.member, 0.0, comparison.weight / comparison.total)
    t = weighted.threshold[vertices_used]
    rate = law.weighted_exceedance(members - outside if augmented else members, t[::-1])[::-1]
    if augmented:
        rate = rate + weighted.fpr[vertices_used]
    rate = np.clip(np.maximum.accumulate(rate), 0.0, 1.0)
    rate = np.concatenate([[0.0], rate, [1.0]])
    return Roc(
        np.concatenate([[np.inf], t, [-np.inf]]),
        rate * comparison.total,
        np.concatenate([[0.0], weighted.true_positive[vertices_used], [comparison.n1]]),
    )


def _nonmembers_for_the_curve(comparison: Comparison) -> float:
    """Return the number of unweighted non-members with the curve's largest FPR variance."""
    if comparison.units is not None:
        return comparison.effective_nonmembers
    w = comparison.weight[~comparison.member]
    ordered = w[np.argsort(comparison.score[~comparison.member])[::-1]] / comparison.total
    rate, squares = np.cumsum(ordered), np.cumsum(ordered**2)
    variance = squares * (1 - rate) ** 2 + (squares[-1] - squares) * rate**2
    return float(min(comparison.effective_nonmembers, 0.25 / variance.max()))

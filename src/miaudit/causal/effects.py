"""Causal metrics of membership: the success of an attack against comparable non-members.

Every metric asks one question of the non-members: what is E[h(Y(0))] in the population of the **members**? The score
itself (h(y) = y) gives the average effect, the share of members above y the AUC, and 1{y >= t} the causal FPR. The five
estimators (:mod:`miaudit.causal.estimators`) are five answers to it; the intervals come from their influence functions.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, Required, TypedDict, Unpack

import numpy as np
from numpy.typing import ArrayLike

from miaudit.arrays import FloatArray
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
    Ranked,
    check_confidence,
    counterfactual_mean,
    estimator_of,
)
from miaudit.causal.outcome import AnyLaw, law_of, one_step_further, share_above
from miaudit.causal.propensity import Propensity
from miaudit.errors import InputError
from miaudit.errors.checks import check_generator
from miaudit.evidence import Evidence
from miaudit.metrics import classical
from miaudit.metrics.classical import Estimate, Sample
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
]


_ROUNDING = 1e-12
_BAND_NODES = 60  # a drawn band needs fewer digits than a reported limit
_NOTHING = 1e-9  # a variance below this part of the usual one is rounding error
THRESHOLDS = 2000  # vertices of a curve that needs an outcome model
RAW = "raw, not causal: members and non-members may differ by more than membership"
LOW_FPR = "an outcome model is not to be trusted for the TPR at a low FPR with few non-members; prefer hajek"


class Asked(TypedDict, total=False):
    """Keywords of every estimate of one score: see :func:`ate`."""

    method: str | Estimator
    outcome: Any
    confidence: float
    rng: Required[np.random.Generator]


def ate(evidence: Evidence, propensity: PropensityLike | ArrayLike, **asked: Unpack[Asked]) -> Estimate:
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
    >>> found = ate(evidence, known, rng=rng)
    >>> found.low < 0.5 < found.high
    True
    """
    chosen, comparison, law, confidence = _start(evidence, propensity, **asked)
    if isinstance(chosen, Difference):
        return _raw(evidence, chosen, Sample.of(evidence).difference(confidence))
    y, a, n1 = comparison.score, comparison.member, comparison.n1
    absent, influence, gradient = counterfactual_mean(chosen, comparison, y, None if law is None else law.mean)
    present = float(y[a].mean())
    own = np.where(a, (y - present) / n1, 0.0)
    variance = comparison.variance(own - influence, -gradient)
    further = absent
    if law is not None:
        further, variance = one_step_further(chosen, comparison, law, y, absent, -own, variance)
    freedom = min(comparison.effective_members, comparison.effective_nonmembers) - 1
    value = present - absent
    if freedom < 1:
        return Estimate(value, -math.inf, math.inf, confidence, "no interval: fewer than two effective records")
    error = math.sqrt(variance)
    limits = [classical.student_limits(x, error, freedom, confidence) for x in (value, present - further)]
    low, high = min(limits)[0], max(high for _, high in limits)
    return Estimate(value, low, high, confidence, _model_note(law), standard_error=classical.root(variance, 0.0))


def auc(evidence: Evidence, propensity: PropensityLike | ArrayLike, **asked: Unpack[Asked]) -> Estimate:
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
    >>> found = auc(evidence, known, method="aipw", rng=rng)
    >>> found.low < 0.5 < found.high
    True
    """
    chosen, comparison, law, confidence = _start(evidence, propensity, **asked)
    if _classical(chosen, comparison):
        return _raw(evidence, chosen, Sample.of(evidence).auc(confidence))
    predicted = None if law is None else law.expected(share_above(comparison.score[comparison.member]))
    above, below = comparison.share_of_members_above, comparison.share_of_nonmembers_below
    value, influence, gradient = counterfactual_mean(chosen, comparison, above, predicted)
    if isinstance(chosen, HorvitzThompson):
        below = below * comparison.total / comparison.n1
    own = np.where(comparison.member, (below - below[comparison.member].mean()) / comparison.n1, 0.0)
    variance = comparison.variance(influence + own, gradient)
    further = value
    if law is not None:
        further, variance = one_step_further(chosen, comparison, law, above, value, own, variance)
    note = _model_note(law)
    if not -_ROUNDING <= value <= 1 + _ROUNDING:
        note = "; ".join(part for part in (note, f"{value:.3f} before clipping to [0, 1]") if part)
    clipped = _snapped(value)
    sizes = comparison.effective_members, comparison.effective_nonmembers
    freedom = None if comparison.units is None else min(sizes) - 1  # few units know little of their variance
    limits = [
        classical.auc_limits(x, variance, *sizes, confidence, freedom) for x in (clipped, min(max(further, 0.0), 1.0))
    ]
    low, high = min(limits)[0], max(high for _, high in limits)
    return Estimate(clipped, low, high, confidence, note, standard_error=classical.root(variance))


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
    evidence: Evidence, propensity: PropensityLike | ArrayLike, *, fpr: float, **asked: Unpack[Asked]
) -> Estimate:
    """Estimate the causal TPR at an FPR (errata A2), interpolated inside ties.

    The interval is that of fiducial weights (:class:`miaudit.causal.estimators.Ranked`). Where the weight that may be
    accused is less than ``resolution(confidence)`` times that of the heaviest non-member above the threshold no lower
    limit exists: an upper limit only, never a value. Estimators with an outcome model keep the mixture whose level has
    the variance of their FPR. Other parameters, errors: as :func:`ate`.

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
    >>> found = tpr_at_fpr(evidence, known, fpr=0.05, rng=rng)
    >>> found.low < 0.05 < found.high
    True
    >>> tpr_at_fpr(evidence, known, fpr=0.001, rng=rng).value is None
    True
    """
    _check_rate(fpr)
    chosen, comparison, law, confidence = _start(evidence, propensity, **asked)
    if _classical(chosen, comparison):
        return _raw(evidence, chosen, Sample.of(evidence).tpr_at_fpr(fpr, confidence))
    return _tpr_from(_curve(chosen, comparison, law, THRESHOLDS), chosen, comparison, law, fpr, confidence)


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
    chosen, comparison = Hajek(), Comparison.of(evidence, Propensity.of(propensity))
    if _classical(chosen, comparison):
        sample = Sample.of(evidence)
        band = [sample.tpr_at_fpr(float(alpha), confidence) for alpha in fpr]
    else:
        band = [_tpr_from(comparison.roc, chosen, comparison, None, float(a), confidence, _BAND_NODES) for a in fpr]
    return comparison.roc, np.array([e.low for e in band]), np.array([e.high for e in band])


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
        return float(Sample.of(evidence).effective_nonmembers)
    return classical.resolution(confidence) / comparison.ranked.smallest_fpr(confidence)


def advantage(evidence: Evidence, propensity: PropensityLike | ArrayLike, **asked: Unpack[Asked]) -> Estimate:
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
    chosen, comparison, law, confidence = _start(evidence, propensity, **asked)
    if _classical(chosen, comparison):
        return _raw(evidence, chosen, Sample.of(evidence).advantage(confidence))
    curve = _curve(chosen, comparison, law, THRESHOLDS)
    sizes = comparison.effective_members, _nonmembers_for_the_curve(comparison)
    opposed = comparison.units is not None and comparison.units.spanning > 0  # at worst: units of both classes
    variance = sum(size**-0.5 for size in sizes) ** 2 if opposed else None
    low, high = classical.advantage_limits(curve, confidence, *sizes, variance=variance, opposition=float(opposed))
    return Estimate(max(curve.advantage, 0.0), low, high, confidence, _model_note(law))


def balanced_accuracy(evidence: Evidence, propensity: PropensityLike | ArrayLike, **asked: Unpack[Asked]) -> Estimate:
    """Estimate the causal (TPR + TNR) / 2 at the best threshold: (1 + advantage) / 2; see :func:`ate`."""
    best = advantage(evidence, propensity, **asked)
    return replace(best, value=(1 + (best.value or 0.0)) / 2, low=(1 + best.low) / 2, high=(1 + best.high) / 2)


def of(metric: Definition) -> Callable[..., Estimate]:
    """Return what estimates a metric causally, with the arguments of :func:`ate`; refuse one that nothing does."""
    if metric.fpr is not None:
        return partial(tpr_at_fpr, fpr=metric.fpr)
    known = {"auc": auc, "advantage": advantage, "balanced_accuracy": balanced_accuracy, "ate": ate}
    if metric.causal is None and metric.name not in known:
        allowed = "a metric with a causal estimate, for zero-run evidence"
        raise InputError("primary_metric", allowed, repr(metric.name), f"choose one of {', '.join(known)}")
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
    evidence: Evidence, propensity: PropensityLike | ArrayLike, *, threshold: float, **asked: Unpack[Asked]
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
    chosen, comparison, law, confidence = _start(evidence, propensity, **asked)
    rate, variance = _rate_at(chosen, comparison, law, threshold)
    rate = _snapped(rate)
    trials = rate * (1 - rate) / variance if variance > 0 and 0 < rate < 1 else comparison.effective_nonmembers
    return Estimate(rate, *classical.wilson_limits(rate, trials, confidence), confidence, _model_note(law))


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
    """Return what every estimate starts from: the estimator, weighted evidence, its outcome model, the confidence."""
    chosen, known = estimator_of(method, outcome), Propensity.of(propensity)
    check_confidence(confidence)
    if rng is not None:  # it is of use to outcome models only
        check_generator(rng)
    return chosen, Comparison.of(evidence, known), _law(chosen, evidence, known, rng), confidence


def _law(
    estimator: Estimator, evidence: Evidence, propensity: PropensityLike, rng: np.random.Generator | None
) -> AnyLaw | None:
    """Return the law of an estimator with an outcome model, fitted now if it is not yet."""
    if isinstance(estimator, GFormula | Aipw):
        return law_of(estimator.outcome, evidence, propensity, rng)
    return None


def _check_rate(fpr: float) -> None:
    if not classical.SMALLEST_FPR <= fpr < 1:
        raise InputError("fpr", f"a number in [{classical.SMALLEST_FPR:g}, 1)", f"{fpr}", "write 0.01 for 1%")


def _classical(estimator: Estimator, comparison: Comparison) -> bool:
    """Return whether the classical metric applies: it was asked for, or all weights are equal."""
    return isinstance(estimator, Difference) or (isinstance(estimator, Hajek) and comparison.even)


def _raw(evidence: Evidence, estimator: Estimator, found: Estimate) -> Estimate:
    """Say of a classical metric that was asked for where membership was not drawn what it is not."""
    if not isinstance(estimator, Difference) or evidence.design != "zero-run":
        return found
    return replace(found, note=f"{RAW}; {found.note}" if found.note else RAW)


def _snapped(rate: float) -> float:
    """Clip to [0, 1] what differs from the ends by rounding only."""
    if rate <= _ROUNDING:
        return 0.0
    return 1.0 if rate >= 1 - _ROUNDING else rate


def _model_note(law: AnyLaw | None) -> str:
    return "" if law is None else f"outcome model: {law.how}"


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


def _rate_at(estimator: Estimator, comparison: Comparison, law: AnyLaw | None, threshold: float) -> tuple[float, float]:
    """Return the causal FPR at a threshold, and its variance."""
    hit = (comparison.score >= threshold).astype(np.float64)
    predicted = None if law is None else law.exceedance(threshold)
    rate, influence, gradient = counterfactual_mean(estimator, comparison, hit, predicted)
    return rate, comparison.variance(influence, gradient)


def _tpr_from(
    curve: Roc,
    estimator: Estimator,
    comparison: Comparison,
    law: AnyLaw | None,
    fpr: float,
    confidence: float,
    most_nodes: int = classical.MOST_NODES,
) -> Estimate:
    ranked = comparison.ranked
    if isinstance(estimator, HorvitzThompson):
        ranked = Ranked.of(comparison.score, comparison.member, comparison.weight, comparison.units, comparison.n1)
    above = classical.resolution(confidence) / ranked.smallest_fpr(confidence)
    bounded = classical.resolvable(fpr, above, confidence)
    value, step = float(curve.tpr_at(fpr)), curve.step_tpr_at(fpr)
    interpolated = not math.isclose(value, step) and curve.has_ties
    at = float(curve.threshold[np.searchsorted(curve.fpr, fpr * (1 - 1e-12), side="left")])
    if law is not None:
        low, high = _modelled_limits(curve, estimator, comparison, law, fpr, confidence, above, at, interpolated)
    else:
        trials, shape = _trials(comparison, curve, fpr), _certainty(estimator, comparison, at)
        low, high = ranked.limits(fpr, confidence, trials, shape=shape, most_nodes=most_nodes)
    notes = [] if law is None else [LOW_FPR, _model_note(law)]
    if not bounded:
        needed = f"an FPR of {fpr:g} needs {classical.nonmembers_needed(fpr, confidence):,} effective non-members"
        if not classical.resolvable(fpr, comparison.effective_nonmembers, confidence):
            there = f"there are {math.floor(comparison.effective_nonmembers):,}"
            return Estimate(None, 0.0, high, confidence, f"upper limit only: {needed}, {there}")
        there = f"by the weight of the heaviest above the threshold there are {math.floor(above):,}"
        notes.append(f"no lower limit: {needed}, and {there}")
        low = 0.0
    if interpolated and law is None:
        notes.insert(0, "interpolated inside ties (a randomised threshold)")
    return Estimate(value, min(low, value), max(high, value), confidence, "; ".join(notes), step)


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
    fpr: float,
    confidence: float,
    effective: float,
    threshold: float,
    interpolated: bool,
) -> tuple[float, float]:
    """Return TPR limits where the FPR has an outcome model: a mixture over a Beta law of the level."""
    if not classical.resolvable(fpr, effective, confidence):
        # One more effective non-member above the threshold than expected: the outer count.
        fpr = (fpr * effective + 1) / (effective + 1)
        variance = fpr * (1 - fpr) / (effective + 1)
    else:
        _, variance = _rate_at(estimator, comparison, law, threshold)
        independent = fpr * (1 - fpr) / effective
        # Where (nearly) all are accused at the threshold, in one tie block, its own rate varies less than the level.
        if variance <= _NOTHING * independent or interpolated:
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


def _nonmembers_for_the_curve(comparison: Comparison) -> float:
    """Return the number of unweighted non-members with the curve's largest FPR variance."""
    if comparison.units is not None:
        return comparison.effective_nonmembers
    w = comparison.weight[~comparison.member]
    ordered = w[np.argsort(comparison.score[~comparison.member])[::-1]] / comparison.total
    rate, squares = np.cumsum(ordered), np.cumsum(ordered**2)
    variance = squares * (1 - rate) ** 2 + (squares[-1] - squares) * rate**2
    return float(min(comparison.effective_nonmembers, 0.25 / variance.max()))

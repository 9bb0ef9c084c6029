"""How strong an unmeasured trait would have to be to change what zero-run evidence concludes.

The factor L* is looked for by which the odds may be wrong until the confidence limit that decided no longer does. A TPR
is read at the FPR that the factor leaves of the one that was asked for, with the limits of that point of the curve.
Other limits move as the estimate does, and widen as its standard error does. That of an advantage is the largest one of
all thresholds, since its limits hold at all of them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from types import SimpleNamespace
from typing import Any

import numpy as np

from miaudit.auditing import bounds
from miaudit.auditing.bounds import Bounded
from miaudit.auditing.case import Case
from miaudit.auditing.corrected_score import CorrectedScore
from miaudit.auditing.measurements import Measurements
from miaudit.auditing.zero_run import Correction
from miaudit.causal import benchmarks, effects, gaps, stack
from miaudit.causal.basis import normal_scores
from miaudit.causal.estimators import Comparison
from miaudit.causal.outcome import Law
from miaudit.causal.sensitivity import Confounded
from miaudit.dp.verdict import ClaimVerdict
from miaudit.findings.sensitivity import MOST, CovariateStrength, LimitSensitivity, Sensitivity, Side
from miaudit.findings.verdict import Verdict
from miaudit.metrics import definition
from miaudit.metrics.classical import Estimate

__all__ = ["of"]

_STEP = 1.25  # between factors that are tried until the limit no longer decides; then the last step is halved
_HALVINGS = 6
_MOST_COVARIATES = 500  # beyond them the projection would take longer than the audit
_BALANCED = 0.5  # balanced accuracy is one half and half the advantage


def of(
    case: Case,
    correction: Correction,
    measured: Measurements,
    verdict: Verdict,
    best: str,
    bounded: Bounded,
    claim: ClaimVerdict | None,
    *,
    rng: np.random.Generator,
) -> Sensitivity | None:
    """Look for the factor of each limit that decided, and of the bound on mu; None where nothing rests on a limit.

    Parameters
    ----------
    case : the audited records and the plan
    correction : of the metrics
    measured : each score with what corrects it
    verdict : whose limits decided
    best : name of the score that the findings are about
    bounded, claim : the bounds, and the verdict on a claim
    rng : draws the folds of estimates that are made again
    """
    effect = "ate" in case.plan.policy.metrics
    confounded = {name: _Confounded(score, effect, rng) for name, score in measured.corrected.items()}
    limits = []
    for name, metric, side, threshold, confidence in _decided(case, measured, verdict, best):
        factor = confounded[name].factor(metric, side, threshold, confidence)
        if factor:
            limits.append(LimitSensitivity(metric, name, side, threshold, _up_to_most(factor)))
    limits += _of_mu(case, verdict, bounded, claim)
    if not limits:
        return None
    first = Sensitivity.first(limits)
    return Sensitivity.of(tuple(limits), tuple(_strengths(case, correction, measured.corrected[first.score], first)))


def _decided(
    case: Case, measured: Measurements, verdict: Verdict, best: str
) -> Iterator[tuple[str, str, Side, float, float]]:
    """Yield score, metric, side, threshold and confidence of each confidence limit that decided.

    Where none did, it is the AUC above chance, if it is: what is proven all the same.
    """
    exceeded = [one for one in verdict.exceeded if one.level is not None]
    if exceeded:
        for one in exceeded:
            yield one.score, one.limit, "low", one.threshold, 1 - 2 * (one.level or 0.0)
    elif verdict.exceeded:
        return  # a limit on a privacy parameter, or the list of the surest members
    elif verdict.status == "clear":
        for one in verdict.limits:
            if one.level is not None:
                yield one.score, one.limit, "high", one.threshold, case.plan.confidence
    else:
        auc = next((metric for metric in measured.metrics[best] if metric.name == "auc"), None)
        if auc is not None and (auc.low or 0.0) > 0.5:
            yield best, "auc", "low", 0.5, case.confidence


def _of_mu(case: Case, verdict: Verdict, bounded: Bounded, claim: ClaimVerdict | None) -> Iterator[LimitSensitivity]:
    """Yield the factor at which the bound on mu no longer exceeds a limit or refutes a claim, or 0 where none is."""
    bound = next((one for one in bounded.lower if one.parameter == "mu" and not one.exploratory), None)
    basis = bounded.basis
    if basis is None or bound is None or bound.value <= 0:
        return
    thresholds = [one.threshold for one in verdict.exceeded if one.limit == "mu"]
    if claim is not None and claim.parameter == "mu" and bound.value > claim.value:
        thresholds.append(claim.value)
    threshold = min(thresholds, default=0.0)
    factor = _largest(lambda one: bounds.mu_within(case, basis, math.log(one)) > threshold)
    if factor:
        name = verdict.limits[0].score if verdict.limits else case.judged[0]
        yield LimitSensitivity("mu", name, "low", threshold, _up_to_most(factor))


def _up_to_most(factor: float) -> float | None:
    return None if factor > MOST else factor


def _largest(holds: Callable[[float], bool]) -> float:
    """Return the largest factor that was found to hold, or more than ``MOST``; 0 where 1 does not."""
    if not holds(1.0):
        return 0.0
    low, high = 1.0, _STEP
    while holds(high):
        if high > MOST:
            return math.inf
        low, high = high, high * _STEP
    for _ in range(_HALVINGS):
        middle = math.sqrt(low * high)
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low


@dataclass(frozen=True, eq=False)
class _Confounded:
    """A corrected score whose odds may be wrong by a factor; ``effect`` is whether the average effect has a limit."""

    score: CorrectedScore
    effect: bool
    rng: np.random.Generator

    @cached_property
    def of_weights(self) -> tuple[Confounded, ...]:
        """By each of the weights that metrics rest on."""
        outcome = self.score.outcome
        law = outcome if isinstance(outcome, stack.Regressed | Law) else None
        return tuple(Confounded.of(self.score.evidence, one, law=law, mean=self.effect) for one in self.score.weights)

    def factor(self, metric: str, side: Side, threshold: float, confidence: float) -> float:
        """Return the largest factor at which a confidence limit is still on its side of the threshold; 0 if none."""
        known = definition.of(metric)
        if known.fpr is not None:
            limit = self._of_tpr(known.fpr, confidence)
        elif metric in ("auc", "advantage", "balanced_accuracy", "ate"):
            limit = self._of_mean(metric, confidence)
        else:
            return 0.0  # a metric of another package, which has no law here
        if side == "low":
            return _largest(lambda one: limit(one)[0] > threshold)
        return _largest(lambda one: limit(1 / one)[1] < threshold)

    def _of_tpr(self, fpr: float, confidence: float) -> Callable[[float], tuple[float, float]]:
        def limits(factor: float) -> tuple[float, float]:
            each = []
            for confounded in self.of_weights:
                rate = confounded.read_at(fpr, factor)
                each.append((rate, rate) if rate in (0.0, 1.0) else self._tpr(confounded.comparison, rate, confidence))
            return min(low for low, _ in each), max(high for _, high in each)

        return limits

    def _tpr(self, comparison: Comparison, rate: float, confidence: float) -> tuple[float, float]:
        estimate = effects.weighted_tpr(comparison, rate, confidence)
        return (0.0 if estimate.value is None else estimate.low), estimate.high

    def _of_mean(self, metric: str, confidence: float) -> Callable[[float], tuple[float, float]]:
        estimate: Estimate = self.score.metrics([metric], confidence, rng=self.rng)[metric][1]
        value, scale = estimate.value or 0.0, _BALANCED if metric == "balanced_accuracy" else 1.0
        own: Any = "advantage" if metric == "balanced_accuracy" else metric
        confounded = self.of_weights[0]
        before, error = confounded.value(own, 1.0)

        def limits(factor: float) -> tuple[float, float]:
            after, wider = confounded.value(own, factor)
            moved, width = value + scale * (after - before), wider / error if error > 0 else 1.0
            return moved - (value - estimate.low) * width, moved + (estimate.high - value) * width

        return limits


def _strengths(
    case: Case, correction: Correction, score: CorrectedScore, deciding: LimitSensitivity
) -> Iterator[CovariateStrength]:
    """Yield what leaving out each covariate would change in the odds, and in the metric that decided."""
    logit, evidence = correction.propensity.logit, score.evidence
    names, features = _features(case, score)
    if not names:
        return
    before, owner = _value(deciding.limit, evidence, logit), gaps.owners(names)
    columns, relative, sources = features
    owned = [
        frozenset(owner[i] for i in source) for source in sources
    ]  # a column goes with the one that marks its gaps
    for one in benchmarks.without_each(logit, columns, relative, owned):
        after = _value(deciding.limit, evidence, one.logit)
        moved = None if before is None or after is None else after - before
        yield CovariateStrength(names[one.column], one.factor, moved)


def _features(case: Case, score: CorrectedScore) -> tuple[tuple[str, ...], tuple[Any, ...]]:
    """Return names of the covariates, none where they have none, and functions of them with penalties and sources."""
    covariates, names = case.audited.covariates, case.audited.covariate_names
    if covariates is None:
        return (), ()
    if isinstance(score.outcome, stack.Regressed):
        folds = score.outcome.folds
        k, design = next(iter(folds.designs.items()))
        whole = len(folds.training_rows) == len(folds.x)
        features = folds.features[k] if whole else design(folds.x)
        return folds.names, (features, design.ridge, design.sources)
    if not names or case.audited.text is not None or covariates.shape[1] > _MOST_COVARIATES:
        return (), ()
    size = covariates.shape[1]
    return tuple(names), (normal_scores(covariates), np.ones(size), [frozenset([i]) for i in range(size)])


def _value(metric: str, evidence: Any, logit: np.ndarray[Any, Any]) -> float | None:
    """The metric by weights alone, without limits; None of one that has no such value."""
    known = None if metric == "mu" else definition.of(metric)
    if known is None or not known.bounded:
        return None
    odds = np.exp(logit)
    roc = Comparison.of(evidence, SimpleNamespace(values=odds / (1 + odds), odds=odds, features=None)).roc
    if known.fpr is not None:
        return float(roc.tpr_at(known.fpr))
    return {"auc": roc.auc, "advantage": roc.advantage, "balanced_accuracy": (1 + roc.advantage) / 2}.get(metric)

"""What an audit measures of each score: its metrics, corrected and raw, and how many non-members they rest on."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from miaudit.auditing import withholding, zero_run
from miaudit.auditing.case import Case
from miaudit.auditing.corrected_score import WEIGHTS, CorrectedScore
from miaudit.auditing.plan import Bootstrap, Plan
from miaudit.auditing.seed import AuditStreams
from miaudit.auditing.zero_run import Correction
from miaudit.causal import progress
from miaudit.findings.metric import Metric
from miaudit.metrics import bootstrap, classical, definition
from miaudit.metrics.classical import Estimate

__all__ = ["Measurements", "metric_of"]


@dataclass(frozen=True, eq=False)
class Measurements:
    """The measurements of each score, by its name.

    Attributes
    ----------
    metrics : corrected ones first
    nonmembers : as a low FPR counts them: independent and, weighted, as heavy as the heaviest
    corrected : each score with what corrects it; none where nothing is corrected
    disagreements : of weights and regressions about each corrected score, in words; empty where they agree
    """

    metrics: Mapping[str, tuple[Metric, ...]]
    nonmembers: Mapping[str, float]
    corrected: Mapping[str, CorrectedScore] = field(default_factory=dict)
    disagreements: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        case: Case,
        correction: Correction | None,
        corrected: Mapping[str, CorrectedScore],
        streams: AuditStreams,
    ) -> Measurements:
        """Measure every score of a case, with a bootstrap where it is asked for.

        ``corrected`` is each score with what corrects it; it is read where the correction still stands.
        """
        with progress.stage("bootstrap"):
            raw = _raw(case, streams)
        if correction is None:
            return cls(raw, {name: float(sample.effective_nonmembers) for name, sample in case.samples.items()})
        with progress.stage("corrected"):
            causal, disagreements = _causal(case, correction, corrected, streams.causal)
        metrics = {name: (*causal[name], *of_score) for name, of_score in raw.items()}
        nonmembers = {name: one.effective_nonmembers(case.confidence) for name, one in corrected.items()}
        return cls(metrics, nonmembers, corrected, disagreements)


def _raw(case: Case, streams: AuditStreams) -> dict[str, tuple[Metric, ...]]:
    """The uncorrected metrics of every score, with their bootstrap where it is asked for."""
    plan, confidence = case.plan, case.confidence
    metrics: dict[str, tuple[Metric, ...]] = {}
    for (name, sample), child in zip(case.samples.items(), streams.bootstrap.spawn(len(case.samples)), strict=True):
        plain = definition.estimates(sample, plan.metric_names, confidence)
        resampled: dict[str, Estimate] = {}
        if plan.n_bootstrap:
            replicates = bootstrap.replicates(sample, plan.fpr_targets, plan.n_bootstrap, rng=child, progress=_one_more)
            resampled = bootstrap.estimates(sample, replicates, plan.fpr_targets, confidence)
        metrics[name] = tuple(metric_of(m, estimate, resampled.get(m), plan) for m, estimate in plain.items())
    return metrics


def _causal(
    case: Case,
    correction: Correction,
    corrected: Mapping[str, CorrectedScore],
    rng: np.random.Generator,
) -> tuple[dict[str, tuple[Metric, ...]], dict[str, str]]:
    """The causal metrics of each score, and disagreements; the bootstrap is of the weights alone."""
    plan, confidence = case.plan, case.confidence
    resampled: Mapping[str, Mapping[str, tuple[float, float]]] = {}
    if plan.n_bootstrap:
        resampled = zero_run.bootstrapped(case.audited, correction, plan, confidence)
    metrics, disagreements = {}, {}
    for score, one in corrected.items():
        rows = tuple(one.rows(plan.metric_names, confidence, rng=rng))
        disagreements[score] = withholding.contradicted(rows, one, rng=rng)
        metrics[score] = tuple(
            metric_of(name, estimate, _resampled(estimate, method, resampled.get(score, {}).get(name)), plan, method)
            for name, method, estimate in withholding.without(rows, disagreements[score])
        )
    return metrics, disagreements


def _one_more(_: int) -> None:
    progress.piece()


def _resampled(estimate: Estimate, method: str, limits: tuple[float, float] | None) -> Estimate | None:
    """Give an estimate by the weights alone its bootstrap limits, or the upper limit where it has no value."""
    if limits is None or method != WEIGHTS or not math.isfinite(estimate.high):
        return None
    if estimate.value is None:
        return estimate
    return replace(estimate, low=min(limits[0], estimate.value), high=max(limits[1], estimate.value))


def metric_of(name: str, estimate: Estimate, resampled: Estimate | None, plan: Plan, estimator: str = "raw") -> Metric:
    """Return an estimate as a metric of the findings, with its bootstrap and its precision."""
    beside, fpr = None, definition.of(name).fpr
    if resampled is not None:
        beside = {"low": resampled.low, "high": resampled.high, "replicates": plan.n_bootstrap}
        if isinstance(plan.intervals, Bootstrap):
            low, high = resampled.low, resampled.high
            if fpr is not None:  # percentiles alone are too narrow where few false alarms are expected
                low, high = min(low, estimate.low), max(high, estimate.high)
            estimate = replace(estimate, low=low, high=high)
    ppv = None
    if fpr is not None and math.isfinite(estimate.high):
        rate = classical.precision(estimate, fpr, plan.prior)
        ppv = {"prior": plan.prior, "value": rate.value, "low": rate.low, "high": rate.high}
    bottom, top = (x if math.isfinite(x) else None for x in (estimate.low, estimate.high))
    return Metric(
        name,
        estimator,
        estimate.value,
        bottom,
        top,
        plan.confidence,
        estimate.note,
        estimate.step_value,
        beside,
        ppv,
        estimate.standard_error,
    )

"""An audit from evidence to findings, told in order."""

from __future__ import annotations

import math
import platform
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

import numpy as np

from miaudit import concern, exhibits, headline
from miaudit.causal import bootstrap, classical
from miaudit.causal.classical import Estimate, Sample
from miaudit.errors import InputError
from miaudit.evidence import Evidence
from miaudit.plan import Bootstrap, Declared, Plan
from miaudit.report.findings import Findings, GroupFindings, Metric, ScoreFindings
from miaudit.wording import chance, label, reading

_IF_RANDOMISED = "if membership was randomised, which nobody declared"
_NOT_CORRECTED = (
    "No answer: members and non-members were not assigned at random (zero-run), so the raw numbers mix memorisation "
    "with the difference between the two populations, and this version has no correction for it. "
    "They are shown as raw, not causal."
)
_ASSUMED = {
    "one-run": "One model; whether each record was trained on was decided at random (declared, not checked).",
    "multi-run": "One model per record; whether it was trained on was decided at random (declared, not checked).",
    "zero-run": "Nothing about how membership came about: raw numbers are not causal.",
    None: "Nobody declared how membership came about. If not at random, the numbers mix memorisation with shift.",
}
_FEWEST_IN_GROUP = 2
_MOST_GROUPS = 1000


def audit(
    evidence: Evidence,
    *,
    plan: Plan | None = None,
    rng: np.random.Generator,
    notes: Sequence[str] = (),
    repeat: Mapping[str, Any] | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Findings:
    """Measure what an attack reveals of membership, and say how far the numbers can be trusted.

    Parameters
    ----------
    evidence : Evidence
    plan : Plan, optional
        Every option; the default has targets 0.1%, 1% and 10% and intervals of 95%.
    rng : numpy.random.Generator
        For the bootstrap and the split; two audits with equal generators give equal findings.
    notes : sequence of str
        What the collector of the evidence has to say; shown with the findings.
    repeat : mapping
        How to repeat the audit (command, seed); shown with the findings.
    progress : function of the bootstrap replicates drawn so far and their total, optional

    Returns
    -------
    Findings

    Raises
    ------
    InputError
        If the plan names a score that the evidence does not have, or a split leaves a class empty.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> member = rng.random(4000) < 0.5
    >>> evidence = Evidence(score=rng.normal(size=4000) + member, member=member, design="one-run")
    >>> findings = audit(evidence, rng=rng)
    >>> findings.verdict.status, round(findings.metric("auc").value, 2)
    ('flagged', 0.76)
    """
    plan = plan or Plan()
    choose_rng, bootstrap_rng = rng.spawn(2)
    choice = headline.choose(evidence, plan, rng=choose_rng)
    samples = {name: Sample.of(choice.audited.only(name)) for name in choice.names}
    primary = headline.primary_metric(plan, samples[choice.names[0]])
    found = _measure(samples, plan, choice.confidence, bootstrap_rng, progress)
    measured = [concern.Measured(n, *_limits(found[n][primary])) for n in choice.judged]
    verdict = _verdict(evidence, plan, primary, measured, exploratory=choice.exploratory)
    best = choice.headline or max(measured, key=lambda m: (m.resolved and m.low, m.high)).score
    order = [best, *(name for name in choice.names if name != best)]
    scores = tuple(
        ScoreFindings(
            name,
            tuple(found[name].values()),
            exhibits.curve(samples[name], plan, choice.confidence),
            exhibits.distribution(samples[name].score, samples[name].member),
        )
        for name in order
    )
    return Findings(
        verdict=replace(verdict, besides=_besides(verdict, scores[0])),
        metrics=scores[0].metrics,
        design=evidence.design,
        counts=exhibits.counts(choice.audited, samples[best], choice.confidence),
        scores=scores,
        plan={**plan.to_dict(), "primary_metric": primary, "threshold_for_concern": verdict.threshold},
        evidence={"digest": evidence.digest, "source": evidence.source, "scores": list(evidence.scores)},
        groups=_groups(choice.audited.only(best), plan),
        corrections=choice.corrections,
        assumptions=(_ASSUMED[evidence.design], exhibits.independence(samples[best])),
        notes=(
            *notes,
            *choice.notes,
            *_louder_scores(found, plan, primary, verdict, best),
        ),
        rows=exhibits.most_exposed(choice.audited.only(best), plan.row_level),
        repeat={**(repeat or {}), "python": platform.python_version(), "numpy": np.__version__},
    )


# -- measuring --------------------------------------------------------------------------------------------------------


def _measure(
    samples: Mapping[str, Sample],
    plan: Plan,
    confidence: float,
    rng: np.random.Generator,
    progress: Callable[[int, int], None] | None,
) -> dict[str, dict[str, Metric]]:
    found: dict[str, dict[str, Metric]] = {}
    for i, (name, child) in enumerate(zip(samples, rng.spawn(len(samples)), strict=True)):
        sample = samples[name]
        plain = classical.metrics(sample, plan.fpr_targets, confidence)
        resampled: dict[str, Estimate] = {}
        if plan.n_bootstrap:
            told = (
                None if progress is None else _shifted(progress, i * plan.n_bootstrap, len(samples) * plan.n_bootstrap)
            )
            drawn = bootstrap.replicates(sample, plan.fpr_targets, plan.n_bootstrap, rng=child, progress=told)
            resampled = bootstrap.estimates(sample, drawn, plan.fpr_targets, confidence)
        found[name] = {
            metric: _metric(metric, estimate, resampled.get(metric), plan) for metric, estimate in plain.items()
        }
    return found


def _shifted(progress: Callable[[int, int], None], before: int, total: int) -> Callable[[int], None]:
    return lambda done: progress(before + done, total)


def _metric(name: str, estimate: Estimate, resampled: Estimate | None, plan: Plan) -> Metric:
    beside = None
    if resampled is not None:
        beside = {"low": resampled.low, "high": resampled.high, "replicates": plan.n_bootstrap}
        if isinstance(plan.intervals, Bootstrap):
            estimate = replace(estimate, low=resampled.low, high=resampled.high)
    ppv = None
    if name.startswith("tpr_at_fpr_"):
        fpr = next(f for f in plan.fpr_targets if classical.tpr_name(f) == name)
        rate = classical.precision(estimate, fpr, plan.prior)
        ppv = {"prior": plan.prior, "value": rate.value, "low": rate.low, "high": rate.high}
    low, high = (x if math.isfinite(x) else None for x in (estimate.low, estimate.high))
    return Metric(
        name, "raw", estimate.value, low, high, plan.confidence, estimate.note, estimate.step_value, beside, ppv
    )


def _limits(metric: Metric) -> tuple[float, float, bool]:
    low = -math.inf if metric.low is None else metric.low
    return low, math.inf if metric.high is None else metric.high, metric.value is not None


def _verdict(
    evidence: Evidence, plan: Plan, primary: str, measured: list[concern.Measured], *, exploratory: bool
) -> concern.Verdict:
    threshold = plan.threshold_for_concern
    threshold = concern.default_threshold(primary) if threshold is None else threshold
    if evidence.design == "zero-run":
        return concern.no_answer(
            "not-testable", _NOT_CORRECTED, metric=primary, threshold=threshold, confidence=plan.confidence
        )
    return concern.judge(
        measured,
        metric=primary,
        threshold=threshold,
        confidence=plan.confidence,
        levels=plan.levels,
        condition=_IF_RANDOMISED if evidence.design is None else "",
        exploratory=exploratory,
    )


def _louder_scores(
    found: Mapping[str, Mapping[str, Metric]], plan: Plan, primary: str, verdict: concern.Verdict, best: str
) -> tuple[str, ...]:
    """Say so when a score that was not declared exceeds the threshold: the verdict is not about it."""
    if not isinstance(plan.headline, Declared) or verdict.status == "flagged":
        return ()
    louder = [
        name
        for name, metrics in found.items()
        if name != best and metrics[primary].value is not None and (metrics[primary].low or 0.0) > verdict.threshold
    ]
    return tuple(
        f"The score {name} exceeds the threshold, though the verdict is about {best}: audit it by its own name."
        for name in louder
    )


def _besides(verdict: concern.Verdict, shown_score: ScoreFindings) -> str:
    """Say which other metrics exceed chance, where the verdict alone would read as if nothing did."""
    if verdict.status not in ("clear", "inconclusive"):
        return ""
    above = []
    for metric in shown_score.metrics:
        by_chance = chance(metric.name)
        shown = metric.name == "auc" or metric.name.startswith("tpr_at_fpr_")
        if shown and metric.value is not None and by_chance is not None and (metric.low or 0.0) > by_chance:
            above.append(f"{label(metric.name)} {reading(asdict(metric))}")
    return f"The verdict is about one metric and its threshold. Above chance: {'; '.join(above)}." if above else ""


def _groups(audited: Evidence, plan: Plan) -> tuple[GroupFindings, ...]:
    """Metrics of each group, with intervals that hold for all groups at once (Bonferroni)."""
    if audited.group is None:
        return ()
    labels, codes = np.unique(audited.group, return_inverse=True)
    if len(labels) > _MOST_GROUPS:
        raise InputError("group", f"at most {_MOST_GROUPS} groups", f"{len(labels)}", "was it meant to be the unit?")
    confidence = 1 - (1 - plan.confidence) / len(labels)
    found = []
    for k, name in enumerate(labels):
        rows = codes == k
        inside = int(np.count_nonzero(audited.member[rows]))
        outside = int(np.count_nonzero(rows)) - inside
        if min(inside, outside) < _FEWEST_IN_GROUP:
            note = "no metrics: fewer than two members or two non-members"
            found.append(GroupFindings(str(name), inside, outside, (), note))
            continue
        estimates = classical.metrics(Sample.of(audited.take(rows)), plan.fpr_targets, confidence)
        metrics = tuple(_metric(name, estimate, None, plan) for name, estimate in estimates.items())
        note = f"intervals hold for all {len(labels)} groups at once"
        found.append(GroupFindings(str(name), inside, outside, metrics, note))
    return tuple(found)

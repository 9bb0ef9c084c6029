"""An audit from evidence to findings, told in order."""

from __future__ import annotations

import math
import platform
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from miaudit import concern
from miaudit.causal import bootstrap, classical, intervals
from miaudit.causal.classical import Estimate, Sample
from miaudit.errors import InputError, nearest
from miaudit.evidence import Evidence
from miaudit.plan import Bonferroni, Bootstrap, Declared, Exploratory, Plan, Split
from miaudit.report.findings import (
    Counts,
    Curve,
    Distribution,
    Findings,
    GroupFindings,
    Metric,
    ScoreFindings,
)
from miaudit.wording import chance, label, reading

FloatArray = NDArray[np.float64]

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
    choice = _choose(evidence, plan, choose_rng)
    samples = {name: Sample.of(choice.audited.only(name)) for name in choice.names}
    primary = _primary(plan, samples[choice.names[0]])
    found = _measure(samples, plan, choice.confidence, bootstrap_rng, progress)
    measured = [concern.Measured(n, *_limits(found[n][primary])) for n in choice.judged]
    verdict = _verdict(evidence, plan, primary, measured, exploratory=choice.exploratory)
    best = choice.headline or max(measured, key=lambda m: (m.resolved and m.low, m.high)).score
    order = [best, *(name for name in choice.names if name != best)]
    scores = tuple(_score_findings(name, samples[name], found[name], plan, choice.confidence) for name in order)
    return Findings(
        verdict=replace(verdict, besides=_besides(verdict, scores[0])),
        metrics=scores[0].metrics,
        design=evidence.design,
        counts=_counts(choice.audited, samples[best], choice.confidence),
        scores=scores,
        plan={**plan.to_dict(), "primary_metric": primary, "threshold_for_concern": verdict.threshold},
        evidence={"digest": evidence.digest, "source": evidence.source, "scores": list(evidence.scores)},
        groups=_groups(choice.audited.only(best), plan),
        corrections=choice.corrections,
        assumptions=(_ASSUMED[evidence.design], _independence(samples[best])),
        notes=(
            *notes,
            *choice.notes,
            *_louder_scores(found, plan, primary, verdict, best),
        ),
        rows=_most_exposed(choice.audited.only(best), plan.row_level),
        repeat={**(repeat or {}), "python": platform.python_version(), "numpy": np.__version__},
    )


# -- which score counts -----------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class _Choice:
    """Which scores are measured on which records, which of them the verdict is about, and what that costs."""

    audited: Evidence
    names: tuple[str, ...]
    judged: tuple[str, ...]
    headline: str | None
    confidence: float
    corrections: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    exploratory: bool = False


def _choose(evidence: Evidence, plan: Plan, rng: np.random.Generator) -> _Choice:
    names = tuple(evidence.scores)
    if isinstance(plan.headline, Declared):
        if plan.headline.score not in names:
            hint = nearest(plan.headline.score, names) or "or bonferroni, split, exploratory"
            raise InputError("headline", f"one of {', '.join(names)}", repr(plan.headline.score), hint)
        name = plan.headline.score
        return _Choice(evidence, names, (name,), name, plan.confidence)
    if len(names) == 1:
        return _Choice(evidence, names, names, names[0], plan.confidence)
    match plan.headline:
        case Bonferroni():
            confidence = 1 - (1 - plan.confidence) / len(names)
            said = (
                f"{len(names)} scores were looked at: every interval is widened (Bonferroni) to hold for all of them."
            )
            return _Choice(evidence, names, names, None, confidence, (said,))
        case Split(share):
            pilot, rest = _split_units(evidence, share, rng)
            best = _strongest(pilot, plan)
            said = f"The score {best} was chosen on a random {share:.0%} of the units; every number is from the rest."
            return _Choice(rest, names, (best,), best, plan.confidence, (said,))
        case Exploratory():
            best = _strongest(evidence, plan)
            said = (
                f"{best} is the strongest of {len(names)} scores on the data that chose it: exploratory, uncorrected."
            )
            return _Choice(evidence, names, (best,), best, plan.confidence, (), (said,), exploratory=True)


def _strongest(evidence: Evidence, plan: Plan) -> str:
    """Return the score with the largest primary metric, or AUC where that is not resolved."""

    def strength(name: str) -> tuple[float, float]:
        sample = Sample.of(evidence.only(name))
        metric = classical.metrics(sample, plan.fpr_targets, plan.confidence)[_primary(plan, sample)]
        return (-math.inf if metric.value is None else metric.value, sample.roc.auc)

    return max(evidence.scores, key=strength)


def _split_units(evidence: Evidence, share: float, rng: np.random.Generator) -> tuple[Evidence, Evidence]:
    codes = np.arange(evidence.n) if evidence.unit_codes is None else evidence.unit_codes
    pilot = (rng.random(int(codes.max()) + 1) < share)[codes]
    for part in (pilot, ~pilot):
        if not part.any() or evidence.member[part].all() or not evidence.member[part].any():
            raise InputError(
                "headline", "enough records for a split", f"{evidence.n}", "use bonferroni instead of split"
            )
    return evidence.take(pilot), evidence.take(~pilot)


def _primary(plan: Plan, sample: Sample) -> str:
    """Return the primary metric: as planned, or the TPR at the smallest target that the non-members can resolve."""
    if plan.primary_metric is not None:
        return plan.primary_metric
    n0 = sample.independent_nonmembers
    fit = [fpr for fpr in plan.fpr_targets if intervals.resolvable(fpr, n0, plan.confidence)]
    return classical.tpr_name(fit[0] if fit else plan.fpr_targets[-1])


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


def _besides(verdict: concern.Verdict, headline: ScoreFindings) -> str:
    """Say which other metrics exceed chance, where the verdict alone would read as if nothing did."""
    if verdict.status not in ("clear", "inconclusive"):
        return ""
    above = []
    for metric in headline.metrics:
        by_chance = chance(metric.name)
        shown = metric.name == "auc" or metric.name.startswith("tpr_at_fpr_")
        if shown and metric.value is not None and by_chance is not None and (metric.low or 0.0) > by_chance:
            above.append(f"{label(metric.name)} {reading(asdict(metric))}")
    return f"The verdict is about one metric and its threshold. Above chance: {'; '.join(above)}." if above else ""


# -- what is shown ----------------------------------------------------------------------------------------------------


def _score_findings(
    name: str, sample: Sample, found: Mapping[str, Metric], plan: Plan, confidence: float
) -> ScoreFindings:
    return ScoreFindings(name, tuple(found.values()), _curve(sample, plan, confidence), _distribution(sample))


def _curve(sample: Sample, plan: Plan, confidence: float) -> Curve:
    smallest = min(0.1 / sample.independent_nonmembers, plan.fpr_targets[0] / 2)
    grid = np.unique(np.r_[np.geomspace(smallest, 1, 50), np.linspace(0.04, 0.98, 33), plan.fpr_targets])
    inner = grid[grid < 1]
    low, high = sample.tpr_band(inner, confidence)
    tpr = sample.roc.tpr_at(inner)
    # The band is pointwise; a running maximum keeps its drawn edges as monotone as the curve that they enclose.
    columns = (inner, tpr, np.maximum.accumulate(np.minimum(low, tpr)), np.maximum.accumulate(np.maximum(high, tpr)))
    ends = ((0.0, 1.0), (0.0, 1.0), (0.0, 1.0), (float(columns[3][0].round(9)), 1.0))
    return Curve(
        *((first, *np.round(column, 9).tolist(), last) for column, (first, last) in zip(columns, ends, strict=True))
    )


def _distribution(sample: Sample) -> Distribution:
    """Bin the scores between round numbers, so that no edge is the score of a record."""
    low, high = np.quantile(sample.score, [0.005, 0.995])
    finest = 1e-9 * float(np.abs(sample.score).max())  # edges are written with 12 digits
    step = _round_step(max((high - low) / 30, finest))
    first = math.floor(low / step) * step
    bins = max(1, math.ceil((high - first) / step))
    edges = first + step * np.arange(bins + 1)
    shares = []
    for kept in (sample.member, ~sample.member):
        counts, _ = np.histogram(np.clip(sample.score[kept], edges[0], edges[-1]), edges)
        shares.append(tuple(np.round(counts / np.count_nonzero(kept), 6).tolist()))
    return Distribution(tuple(float(f"{edge:.12g}") for edge in edges), shares[0], shares[1])


def _round_step(width: float) -> float:
    """Return the largest of 1, 2, 5 times a power of ten that is at most ``width``; 1 where there is no width."""
    if not width > 0:
        return 1.0
    power = 10.0 ** math.floor(math.log10(width))
    return float(power * max(factor for factor in (1, 2, 5) if factor * power <= width * (1 + 1e-9)))


def _counts(audited: Evidence, sample: Sample, confidence: float) -> Counts:
    smallest = min(1.0, intervals.resolution(confidence) / sample.independent_nonmembers)
    of = "records" if sample.units is None else "units"
    return Counts(
        sample.independent_members,
        sample.independent_nonmembers,
        audited.n_members,
        audited.n_nonmembers,
        smallest,
        of,
    )


def _independence(sample: Sample) -> str:
    if sample.units is None:
        return (
            "Records are independent: no person or account stands behind several of them (give unit ids if one does)."
        )
    return (
        f"Records of one unit may depend on each other, units do not: intervals and counts are of "
        f"{sample.independent_members:,} units of members and {sample.independent_nonmembers:,} of non-members."
    )


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


def _most_exposed(audited: Evidence, count: int) -> tuple[dict[str, Any], ...]:
    """Rows of the members with the highest scores; only when the plan asks for them."""
    rows = np.flatnonzero(audited.member)
    top = rows[np.argsort(-audited.score[rows], kind="stable")[:count]]
    return tuple(
        {
            "row": int(row),
            "unit": None if audited.unit is None else str(audited.unit[row]),
            "score": float(audited.score[row]),
        }
        for row in top
    )

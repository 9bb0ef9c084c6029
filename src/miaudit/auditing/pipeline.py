"""The audit from evidence to findings, in order."""

from __future__ import annotations

import math
import platform
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from miaudit.arrays import BoolArray, FloatArray, IndexArray
from miaudit.auditing import bounds, zero_run
from miaudit.auditing.plan import Bootstrap, Choice, Declared, Plan, choose
from miaudit.auditing.zero_run import Correction
from miaudit.causal import effects
from miaudit.causal.duplicates import Repeats
from miaudit.causal.nuisance import Nuisance
from miaudit.causal.propensity import Propensity
from miaudit.errors import InputError
from miaudit.evidence import Evidence
from miaudit.findings import verdict as verdict_rule
from miaudit.findings.audit import (
    Counts,
    Curve,
    Findings,
    GroupFindings,
    Memorisation,
    Metric,
    ScoreFindings,
    Vulnerability,
)
from miaudit.findings.verdict import Verdict
from miaudit.metrics import bootstrap, classical, definition
from miaudit.metrics.classical import Estimate, Sample
from miaudit.metrics.roc import histogram

_ASSUMED = {
    "one-run": "One model; whether each record was trained on was decided at random (declared, not checked).",
    "multi-run": "One model per record; whether it was trained on was decided at random (declared, not checked).",
    "zero-run": "Nothing about how membership came about: raw numbers are not causal.",
    "corrected": "Given the covariates, whether a record is a member has nothing to do with its potential scores; how "
    "far an unmeasured trait would have to break this is said beside the split into memorisation and shift.",
    None: "Nobody declared how membership came about. If not at random, the numbers mix memorisation with shift.",
}
_FEWEST_PAIRS = 20
_OPPOSED = -3.7  # of a standard normal number: once in 10,000 audits
_FEWEST_IN_GROUP = 10
_FEWEST_FOR_METRICS = 2
_MOST_NAMED = 8
_OTHER = "other (merged)"
_MOST_GROUPS = 1000


def audit(
    evidence: Evidence,
    *,
    plan: Plan | None = None,
    nuisance: Nuisance | None = None,
    rng: np.random.Generator,
    notes: Sequence[str] = (),
    repeat: Mapping[str, Any] | None = None,
    vulnerability: Vulnerability | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Findings:
    """Measure how much an attack reveals about membership, and how reliable the numbers are.

    Parameters
    ----------
    evidence : Evidence
    plan : Plan, optional
        Every option; the default has targets 0.1%, 1% and 10% and intervals of 95%.
    nuisance : Nuisance, optional
        For zero-run evidence: models of your own for the propensity and for the outcome, or a known propensity.
    rng : numpy.random.Generator
        For the bootstrap and the split; two audits with equal generators give equal findings.
    notes : sequence of str
        What the collector of the evidence has to say; shown with the findings.
    repeat : mapping
        How to repeat the audit (command, seed); shown with the findings.
    vulnerability : Vulnerability, optional
        Which records leak, from shadow models; shown with the findings, and no part of the verdict.
    progress : function of the bootstrap replicates drawn so far and their total, optional

    Returns
    -------
    Findings

    Raises
    ------
    InputError
        If the plan names a score that the evidence does not have, a split leaves a class empty, or there are nuisance
        models without zero-run evidence.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> member = rng.random(4000) < 0.5
    >>> evidence = Evidence(score=rng.normal(size=4000) + member, member=member, design="one-run")
    >>> findings = audit(evidence, rng=rng)
    >>> findings.verdict.status, round(findings.metric("auc").value, 2)
    ('flagged', 0.76)
    """
    return examine(
        evidence,
        plan=plan,
        nuisance=nuisance,
        rng=rng,
        notes=(*notes, *equal_rows(evidence)) if isinstance(evidence, Evidence) else notes,
        repeat=repeat,
        vulnerability=vulnerability,
        progress=progress,
    ).findings


@dataclass(frozen=True, eq=False)
class Examined:
    """An audit with its intermediate results, row by row.

    Attributes
    ----------
    findings : Findings
    propensity : Propensity of the audited rows, or None where nothing was corrected
    rows : array of indices of the audited rows, or None for all of them
    """

    findings: Findings
    propensity: Propensity | None
    rows: IndexArray | None


def examine(
    evidence: Evidence,
    *,
    plan: Plan | None = None,
    nuisance: Nuisance | None = None,
    rng: np.random.Generator,
    notes: Sequence[str] = (),
    repeat: Mapping[str, Any] | None = None,
    vulnerability: Vulnerability | None = None,
    progress: Callable[[int, int], None] | None = None,
    turn: str = verdict_rule.TURN,
) -> Examined:
    """Audit as :func:`audit` does, and keep the propensities for a bundle.

    ``turn`` says how scores that point the wrong way are turned, where they did not come from a caller's file.
    """
    plan = plan or Plan()
    if not isinstance(rng, np.random.Generator):
        raise InputError("rng", "a numpy.random.Generator", type(rng).__name__, "pass numpy.random.default_rng(0)")
    if not isinstance(plan, Plan):
        raise InputError("plan", "a miaudit.Plan", type(plan).__name__, "pass miaudit.Plan(...)")
    _check(nuisance, evidence)
    choose_rng, bootstrap_rng, correct_rng, bound_rng = rng.spawn(4)
    choice = choose(evidence, plan, rng=choose_rng)
    case = _Case.of(choice, plan, nuisance, rng=correct_rng)
    alone: Metric | str | None = None
    if evidence.design is None:  # a generator of its own, drawn last: no other draw moves
        alone = zero_run.covariates_alone(choice.audited, plan, rng=correct_rng.spawn(1)[0])
    privacy = case.privacy(bound_rng)
    if privacy.challenge is not None and privacy.challenge.p_value <= bounds.BEYOND_LEARNING:
        case = case.refuted(privacy.challenge.text)
    found = case.measure(bootstrap_rng, progress)
    verdict, best = _verdict(case, found, turn)
    others = (name for name in choice.names if name != best)
    shown = tuple(_score_findings(case, name, found[name]) for name in (best, *others))
    remarks = [*notes, *choice.notes, *privacy.notes, *([alone] if isinstance(alone, str) else [])]
    findings = Findings(
        verdict=verdict.beside(shown[0].above_chance),
        metrics=shown[0].metrics,
        design=evidence.design,
        counts=Counts.of_sample(case.samples[best], case.nonmembers[best], choice.confidence),
        scores=shown,
        plan={**plan.to_dict(), "primary_metric": verdict.metric, "threshold_for_concern": verdict.threshold},
        evidence={"digest": evidence.digest, "source": evidence.source, "scores": list(evidence.scores)},
        groups=_groups(case, best) if case.shows_metrics else (),
        overlap=None if case.correction is None else case.correction.overlap,
        memorisation=case.memorisation(best, found[best]),
        challenge=privacy.challenge,
        claim=privacy.claim,
        bounds=privacy.bounds,
        no_bound=privacy.no_bound,
        corrections=(*choice.corrections, *case.corrections),
        assumptions=(*case.assumptions, case.samples[best].independence),
        notes=(*remarks, *_remarks(case, found, verdict, best)),
        rows=_most_exposed(choice.audited.only(best), plan.row_level, choice.rows),
        repeat={**(repeat or {}), "python": platform.python_version(), "numpy": np.__version__},
        vulnerability=vulnerability,
        covariates_alone=alone if isinstance(alone, Metric) else None,
    )
    return Examined(findings, None if case.correction is None else case.correction.propensity, choice.rows)


def _check(nuisance: Any, evidence: Evidence) -> None:
    if nuisance is None:
        return
    if not isinstance(nuisance, Nuisance):
        received = type(nuisance).__name__
        raise InputError("nuisance", "a Nuisance", received, "pass miaudit.causal.nuisance.Nuisance(...)")
    if evidence.design != "zero-run":
        raise InputError(
            "nuisance",
            "none, unless the design is zero-run",
            str(evidence.design),
            "leave it out: nothing is corrected",
        )


# -- what the design of the evidence allows ---------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class _Case:
    """The audited records, and the corrections before any conclusion.

    ``correction`` is there for zero-run evidence with covariates; ``obstacle`` says why there can be no answer.
    """

    choice: Choice
    plan: Plan
    samples: Mapping[str, Sample]
    correction: Correction | None
    obstacle: str
    rng: np.random.Generator

    @classmethod
    def of(cls, choice: Choice, plan: Plan, nuisance: Nuisance | None, *, rng: np.random.Generator) -> _Case:
        audited = choice.audited
        samples = {name: Sample.of(audited.only(name)) for name in choice.names}
        assess_rng, rest = rng.spawn(2)
        if audited.design != "zero-run":
            return cls(choice, plan, samples, None, "", rest)
        nuisance = (nuisance or Nuisance()).of_rows(choice.rows)
        assessed = zero_run.assess(audited, plan, nuisance, rng=assess_rng)
        if isinstance(assessed, str):
            return cls(choice, plan, samples, None, assessed, rest)
        return cls(choice, plan, samples, assessed, _obstacle(assessed), rest)

    @property
    def audited(self) -> Evidence:
        """The records that are audited: all, or those that did not choose the score."""
        return self.choice.audited

    def privacy(self, rng: np.random.Generator) -> bounds.Privacy:
        """Bounds on privacy parameters, the challenge before them and the verdict on a claim."""
        return bounds.assess(
            self.audited,
            self.choice.judged,
            self.plan.bounds,
            self.correction,
            obstacle=self.obstacle,
            confidence=self.choice.confidence,
            paid="; ".join(self.choice.corrections),
            exploratory=self.choice.exploratory,
            rng=rng,
        )

    def refuted(self, reason: str) -> _Case:
        """Withhold the answer for a reason found after overlap was judged."""
        correction = self._correction.refuted(reason)
        return replace(self, correction=correction, obstacle=_obstacle(correction))

    @property
    def learned(self) -> Propensity | None:
        """Propensity, if it allows an answer."""
        return self.correction.propensity if self.correction is not None and self.correction.answered else None

    @property
    def shows_metrics(self) -> bool:
        """Whether metrics are shown: those of a refused audit on request only."""
        return self.correction is None or self.correction.answered or self.plan.raw_only

    @property
    def corrections(self) -> tuple[str, ...]:
        """Corrections made, in sentences."""
        if self.correction is None or not self.correction.answered:
            return ()
        return zero_run.in_words(self.correction, self.plan)

    @property
    def assumptions(self) -> tuple[str, ...]:
        """Consequences of the design for the numbers."""
        if self.learned is not None:
            return (_ASSUMED["corrected"],)
        return (_ASSUMED[self.audited.design],)

    @cached_property
    def nonmembers(self) -> dict[str, float]:
        """Non-members of each score as a low FPR counts them: independent and, weighted, as heavy as the heaviest."""
        if self.learned is None:
            return {name: float(sample.effective_nonmembers) for name, sample in self.samples.items()}
        given: dict[str, Any] = {"confidence": self.choice.confidence}
        return {
            name: effects.effective_nonmembers(self.audited.only(name), self.learned, **given) for name in self.samples
        }

    def measure(
        self, rng: np.random.Generator, progress: Callable[[int, int], None] | None
    ) -> dict[str, tuple[Metric, ...]]:
        """The metrics of every score with their bootstrap, where it is asked for; corrected ones stand first."""
        plan, confidence, learned = self.plan, self.choice.confidence, self.learned is not None
        told = _Stages(progress, plan.n_bootstrap, len(self.samples) + learned)
        found: dict[str, tuple[Metric, ...]] = {}
        for (name, sample), child in zip(self.samples.items(), rng.spawn(len(self.samples)), strict=True):
            plain = definition.estimates(sample, plan.metric_names, confidence)
            resampled: dict[str, Estimate] = {}
            if plan.n_bootstrap:
                drawn = bootstrap.replicates(
                    sample, plan.fpr_targets, plan.n_bootstrap, rng=child, progress=told.next()
                )
                resampled = bootstrap.estimates(sample, drawn, plan.fpr_targets, confidence)
            found[name] = tuple(_metric(m, estimate, resampled.get(m), plan) for m, estimate in plain.items())
        causal = self._causal(told) if learned else {}
        return {name: (*causal.get(name, ()), *raw) for name, raw in found.items()}

    def _causal(self, told: _Stages) -> dict[str, tuple[Metric, ...]]:
        """The causal metrics of every score, with a bootstrap beside those of Hajek weights where it is asked for."""
        plan, confidence = self.plan, self.choice.confidence
        drawn: Mapping[str, Mapping[str, tuple[float, float]]] = {}
        if plan.n_bootstrap:
            drawn = zero_run.bootstrapped(self.audited, self._correction, plan, confidence, progress=told.next())
        return {
            score: tuple(
                _metric(name, estimate, _resampled(estimate, method, drawn.get(score, {}).get(name)), plan, method)
                for name, (method, estimate) in self.measured(self.audited.only(score), confidence).items()
            )
            for score in self.audited.scores
        }

    def measured(
        self, evidence: Evidence, confidence: float, rows: BoolArray | None = None
    ) -> dict[str, tuple[str, Estimate]]:
        """The causal metrics of evidence with one score, or of a part of its rows (a mask)."""
        learned, nuisance = self._correction.propensity, self._correction.nuisance
        if rows is not None:
            evidence, learned = evidence.take(rows), learned.of_rows(rows)
        return zero_run.metrics(evidence, learned, self.plan, nuisance, confidence, rng=self.rng)

    def memorisation(self, score: str, found: Sequence[Metric]) -> Memorisation | None:
        """Shift and memorisation of one score, where both were measured."""
        if self.learned is None:
            return None
        both = [m for m in found if m.name == "auc"]
        return zero_run.memorisation(self.audited.only(score), self.learned, causal=both[0], raw=both[-1], rng=self.rng)

    @property
    def _correction(self) -> Correction:
        if self.correction is None:
            raise AttributeError("no correction")
        return self.correction


def _obstacle(correction: Correction) -> str:
    """Return the first reason to refuse and the number of others; empty if there is none."""
    reasons = correction.overlap.reasons
    more = {0: "", 1: "", 2: " One more reason is given."}.get(len(reasons), f" {len(reasons) - 1} more are given.")
    return reasons[0] + more if reasons else ""


# -- measuring --------------------------------------------------------------------------------------------------------


class _Stages:
    """Progress over the replicates of several stages as one count."""

    def __init__(self, progress: Callable[[int, int], None] | None, each: int, stages: int) -> None:
        self._progress, self._each, self._total, self._before = progress, each, each * stages, -each

    def next(self) -> Callable[[int], None] | None:
        """Return the progress function of the next stage."""
        progress, total = self._progress, self._total
        if progress is None:
            return None
        self._before += self._each
        before = self._before
        return lambda done: progress(before + done, total)


def _resampled(estimate: Estimate, method: str, limits: tuple[float, float] | None) -> Estimate | None:
    """Give a Hajek estimate its bootstrap limits, or the upper limit where it has no value."""
    if limits is None or method != zero_run.ESTIMATOR:
        return None
    if estimate.value is None:
        return estimate
    return replace(estimate, low=min(limits[0], estimate.value), high=max(limits[1], estimate.value))


def _metric(name: str, estimate: Estimate, resampled: Estimate | None, plan: Plan, estimator: str = "raw") -> Metric:
    beside, fpr = None, definition.of(name).fpr
    if resampled is not None:
        beside = {"low": resampled.low, "high": resampled.high, "replicates": plan.n_bootstrap}
        if isinstance(plan.intervals, Bootstrap):
            low, high = resampled.low, resampled.high
            if fpr is not None:  # percentiles alone are too narrow where few false alarms are expected
                low, high = min(low, estimate.low), max(high, estimate.high)
            estimate = replace(estimate, low=low, high=high)
    ppv = None
    if fpr is not None:
        rate = classical.precision(estimate, fpr, plan.prior)
        ppv = {"prior": plan.prior, "value": rate.value, "low": rate.low, "high": rate.high}
    bottom, top = (x if math.isfinite(x) else None for x in (estimate.low, estimate.high))
    return Metric(
        name, estimator, estimate.value, bottom, top, plan.confidence, estimate.note, estimate.step_value, beside, ppv
    )


def _limits(metric: Metric) -> tuple[float, float, bool]:
    low = -math.inf if metric.low is None else metric.low
    return low, math.inf if metric.high is None else metric.high, metric.value is not None


def _measured(score: str, metrics: Sequence[Metric], primary: str) -> verdict_rule.Measured:
    auc_high = _named(metrics, "auc").high
    return verdict_rule.Measured(score, *_limits(_named(metrics, primary)), 1.0 if auc_high is None else auc_high)


def _named(metrics: Sequence[Metric], name: str) -> Metric:
    """Return the metric of a name; the corrected one if there is one."""
    return next(metric for metric in metrics if metric.name == name)


def _verdict(case: _Case, found: Mapping[str, Sequence[Metric]], turn: str) -> tuple[Verdict, str]:
    """The verdict, and the score that the findings are about."""
    plan, choice = case.plan, case.choice
    primary = plan.primary(min(case.nonmembers[name] for name in choice.judged), choice.confidence)
    measured = [_measured(name, found[name], primary) for name in choice.judged]
    best = choice.headline or max(measured, key=lambda m: (m.resolved and m.low, m.high)).score
    threshold = plan.threshold_for_concern
    threshold = definition.of(primary).threshold if threshold is None else threshold
    about: dict[str, Any] = {"metric": primary, "threshold": threshold, "confidence": plan.confidence}
    if case.obstacle:
        # Not learned yet is not testable; anything else that is wrong with the propensity or the overlap is refused.
        refused = case.correction is not None and case.correction.overlap.reasons != (case.correction.still_learning,)
        reason = case.obstacle if case.correction is not None else f"Here {case.obstacle}."
        status: Literal["refused", "not-testable"] = "refused" if refused else "not-testable"
        return verdict_rule.no_answer(status, f"{verdict_rule.NOT_CAUSAL} {reason}", **about), best
    judged = verdict_rule.judge(
        measured,
        **about,
        levels=plan.levels,
        condition=verdict_rule.CONDITIONS.get(case.audited.design, ""),
        exploratory=choice.exploratory,
        turn=turn,
    )
    return verdict_rule.undeclared(judged) if case.audited.design is None else judged, best


def _remarks(case: _Case, found: Mapping[str, Sequence[Metric]], verdict: Verdict, best: str) -> Iterator[str]:
    """What the scores themselves call for saying."""
    yield from _louder_scores(found, case.plan, verdict, best)
    yield from _odd_scores(case.samples)
    yield from _opposed(case.samples[best])


def _louder_scores(found: Mapping[str, Sequence[Metric]], plan: Plan, verdict: Verdict, best: str) -> tuple[str, ...]:
    """Note a score other than the declared one above the threshold."""
    if not isinstance(plan.headline, Declared) or verdict.status not in ("clear", "inconclusive"):
        return ()
    rivals = {name: _named(metrics, verdict.metric) for name, metrics in found.items() if name != best}
    louder = [n for n, m in rivals.items() if m.value is not None and (m.low or 0.0) > verdict.threshold]
    return tuple(
        f"The score {name} exceeds the threshold, though the verdict is about {best}, which was declared."
        for name in louder
    )


def _odd_scores(samples: Mapping[str, Sample]) -> Iterator[str]:
    """Yield notes on scores that point the wrong way or are constant."""
    for name, sample in samples.items():
        if np.ptp(sample.score) == 0:
            yield f"Every record has the same {name}: this attack says nothing of anybody."
        elif sample.auc(0.99).high < 0.5:
            yield (
                f"The AUC of {name} is clearly below one half: members have lower values, as losses do. "
                "Scores must be higher for members; if these are losses, say so."
            )


def equal_rows(evidence: Evidence) -> tuple[str, ...]:
    """Say where equal covariates (texts) stand on one side beyond chance though no unit holds several records.

    A remark of whoever has the covariates: where these are withheld, an audit that is repeated cannot make it.
    """
    described = evidence.covariates if evidence.covariates is not None else evidence.text
    one_class = evidence.member.all() or not evidence.member.any()
    if evidence.unit_codes is not None or described is None or one_class:
        return ()
    equal = Repeats.of(described, evidence.member)
    said = equal.forbids("zero-run") if evidence.design == "zero-run" else equal.beyond_chance
    return (equal.text(),) if said else ()


def _opposed(sample: Sample) -> Iterator[str]:
    """Say where the scores of the i-th member and the i-th non-member oppose each other, with as many of both.

    No part of the verdict: pairs in the order of a file are a guess.
    """
    if sample.units is not None:
        return
    inside, outside = _ranks(sample.score[sample.member]), _ranks(sample.score[~sample.member])
    if len(inside) != len(outside) or len(inside) < _FEWEST_PAIRS or not (np.ptp(inside) and np.ptp(outside)):
        return
    correlation = float(np.corrcoef(inside, outside)[0, 1])
    if correlation * math.sqrt(len(inside) - 1) < _OPPOSED:
        yield (
            "In their order the scores of members and non-members oppose each other (rank correlation "
            f"{correlation:.2f} of the first with the first, and so on). If they come in such pairs, the variance of "
            f"the AUC is about {1 - correlation:.1f} times as large as its interval says: name the pair as the unit."
        )


def _ranks(values: FloatArray) -> FloatArray:
    """Ranks (n,), equal values with their mean."""
    _, code, count = np.unique(values, return_inverse=True, return_counts=True)
    return np.asarray((np.cumsum(count) - (count - 1) / 2)[code])


def _most_exposed(audited: Evidence, count: int, numbers: IndexArray | None) -> tuple[dict[str, Any], ...]:
    """Return the rows of the members with the highest scores, on request only."""
    rows = np.flatnonzero(audited.member)
    top = rows[np.argsort(-audited.score[rows], kind="stable")[:count]]
    return tuple(
        {
            "row": int(row if numbers is None else numbers[row]),
            "unit": None if audited.unit is None else str(audited.unit[row]),
            "score": float(audited.score[row]),
        }
        for row in top
    )


def _score_findings(case: _Case, name: str, found: tuple[Metric, ...]) -> ScoreFindings:
    sample, nonmembers, confidence = case.samples[name], case.nonmembers[name], case.choice.confidence
    binned = histogram(sample.score, sample.member)
    if not case.shows_metrics:
        return ScoreFindings(name, (), None, binned)
    resolved = classical.smallest_fpr(nonmembers, confidence)
    fpr = Curve.grid(case.plan.fpr_targets, nonmembers, resolved)
    if case.learned is None:
        roc, (low, high) = sample.roc, sample.tpr_band(fpr, confidence)
    else:
        roc, low, high = effects.tpr_band(case.audited.only(name), case.learned, fpr, confidence=confidence)
    return ScoreFindings(name, found, Curve.of(fpr, roc.tpr_at(fpr), low, high, resolved), binned)


def _groups(case: _Case, score: str) -> tuple[GroupFindings, ...]:
    """Compute metrics of each group, with simultaneous intervals (Bonferroni)."""
    audited = case.audited.only(score)
    if audited.group is None:
        return ()
    names, codes = np.unique(audited.group.astype(np.str_), return_inverse=True)
    if len(names) > _MOST_GROUPS:
        raise InputError("group", f"at most {_MOST_GROUPS} groups", f"{len(names)}", "was it meant to be the unit?")
    names, codes, merged = _without_small_groups(names, codes, audited.member)
    confidence = 1 - (1 - case.choice.confidence) / len(names)
    said = f"intervals hold for all {len(names)} groups at once"
    if case.choice.exploratory:
        said = f"exploratory: {said}, but not for the choice of the score"
    return tuple(
        _group(case, audited, name, codes == k, confidence, f"{merged}; {said}" if name == _OTHER else said)
        for k, name in enumerate(map(str, names))
    )


def _without_small_groups(
    names: NDArray[np.str_], codes: IndexArray, member: BoolArray
) -> tuple[NDArray[np.str_], IndexArray, str]:
    """Merge groups with too few members or non-members, and name them."""
    sizes = [np.bincount(codes[rows], minlength=len(names)) for rows in (member, ~member)]
    small = np.minimum(*sizes) < _FEWEST_IN_GROUP
    if np.count_nonzero(small) < 2:
        return names, codes, ""
    listed = ", ".join(names[small][:_MOST_NAMED]) + (", ..." if np.count_nonzero(small) > _MOST_NAMED else "")
    said = f"{np.count_nonzero(small)} groups with fewer than {_FEWEST_IN_GROUP} of a class, merged: {listed}"
    merged = np.where(small, _OTHER, names)[codes]
    kept, recoded = np.unique(merged, return_inverse=True)
    return kept, recoded, said


def _group(case: _Case, audited: Evidence, name: str, rows: BoolArray, confidence: float, said: str) -> GroupFindings:
    inside = int(np.count_nonzero(audited.member[rows]))
    outside = int(np.count_nonzero(rows)) - inside
    if min(inside, outside) < _FEWEST_FOR_METRICS:
        return GroupFindings(name, inside, outside, (), "no metrics: fewer than two members or two non-members")
    part, plan = audited.take(rows), case.plan
    plain = definition.estimates(Sample.of(part), plan.metric_names, confidence)
    found = [_metric(metric, estimate, None, plan) for metric, estimate in plain.items()]
    if case.learned is not None:
        causal = case.measured(audited, confidence, rows)
        found = [_metric(m, estimate, None, plan, method) for m, (method, estimate) in causal.items()] + found
    return GroupFindings(name, inside, outside, tuple(found), said)

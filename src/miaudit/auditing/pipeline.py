"""The audit from evidence to findings, in order."""

from __future__ import annotations

import copy
import math
import platform
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from miaudit.arrays import BoolArray, IndexArray
from miaudit.auditing import (
    bounds,
    design_test,
    judgement,
    remarks,
    several_runs,
    shared_records,
    withholding,
    zero_run,
)
from miaudit.auditing import seed as seeds
from miaudit.auditing.case import Case, choose, paid
from miaudit.auditing.plan import Bootstrap, Plan
from miaudit.auditing.zero_run import Correction
from miaudit.causal import concentration, effects
from miaudit.causal.challenge import Challenge
from miaudit.causal.classifiers import CLASSIFIERS
from miaudit.causal.propensity import Nuisance, Propensity
from miaudit.dp.verdict import Claim, LowerBound
from miaudit.errors import InputError
from miaudit.errors.checks import check_generator
from miaudit.evidence import Evidence
from miaudit.findings import verdict as verdict_rule
from miaudit.findings.audit import (
    Counts,
    Curve,
    Findings,
    GroupFindings,
    Memorisation,
    ReferenceFindings,
    ScoreFindings,
    Vulnerability,
)
from miaudit.findings.metric import Metric
from miaudit.findings.sealed_coins import SealedCoins, check_agreed
from miaudit.findings.several_runs import SeveralRuns
from miaudit.metrics import bootstrap, classical, definition
from miaudit.metrics.classical import Estimate, Sample
from miaudit.metrics.roc import histogram

_ASSUMED = {
    "one-run": "One model; whether each record was trained on was decided at random (declared, not checked).",
    "coins": "The model was trained on the records that sealed coins chose, and on none that they left out (declared, "
    "not checked); that memberships are these coins was checked.",
    "multi-run": "One model per record; whether it was trained on was decided at random (declared, not checked).",
    "zero-run": "Nothing about how membership came about: raw numbers are not causal.",
    "corrected": "Given the covariates, whether a record is a member has nothing to do with its potential scores; how "
    "far an unmeasured trait would have to break this is said beside the split into memorisation and shift.",
    None: "Nobody declared how membership came about. If not at random, the numbers mix memorisation with shift.",
}
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
    rng: seeds.Given = None,
    notes: Sequence[str] = (),
    repeat: Mapping[str, Any] | None = None,
    vulnerability: Vulnerability | None = None,
    stability: concentration.Measured | None = None,
    coins: SealedCoins | None = None,
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
    rng : numpy.random.Generator, or a whole number from 0, its seed; optional
        For the bootstrap and the split; two audits with equal generators give equal findings. Without one a seed is
        drawn. A seed stands in ``findings.repeat``.
    notes : sequence of str
        What the collector of the evidence has to say; shown with the findings.
    repeat : mapping
        How to repeat the audit (command, seed); shown with the findings.
    vulnerability : Vulnerability, optional
        Which records leak, from shadow models; shown with the findings, and no part of the verdict.
    stability : miaudit.collect.stability.Stability, optional
        Of the training, in units of the score, for one-run and zero-run evidence: what it guarantees is shown.
    coins : SealedCoins, optional
        Of one-run evidence whose coins two parties drew together: ``SealedCoins.of(coins, evidence)`` checks them.
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
    generator, recorded, sentences = seeds.generator(rng)
    if isinstance(evidence, Evidence):  # else it is refused below
        sentences = (*sentences, *remarks.beforehand(evidence, plan, stability))
    return examine(
        evidence,
        plan=plan,
        nuisance=nuisance,
        rng=generator,
        notes=(*notes, *sentences),
        repeat={**recorded, **(repeat or {})},
        vulnerability=vulnerability,
        coins=coins,
        progress=progress,
    )[0]


def examine(
    evidence: Evidence,
    *,
    plan: Plan | None = None,
    nuisance: Nuisance | None = None,
    rng: np.random.Generator,
    notes: Sequence[str] = (),
    repeat: Mapping[str, Any] | None = None,
    vulnerability: Vulnerability | None = None,
    coins: SealedCoins | None = None,
    progress: Callable[[int, int], None] | None = None,
    turn: str = verdict_rule.TURN,
) -> tuple[Findings, Propensity | None, IndexArray | None]:
    """Audit as :func:`audit` does, and keep the propensities for a bundle.

    ``turn`` says how scores that point the wrong way are turned, where they did not come from a caller's file.

    Returns
    -------
    findings : Findings
    propensity : Propensity of the audited rows, or None where nothing was corrected
    rows : array of indices of the audited rows, or None for all of them
    """
    plan = plan or Plan()
    _check(evidence, plan, nuisance, rng)
    if coins is not None:
        check_agreed(coins.agreed, plan.policy, plan.confidence)
    choose_rng, bootstrap_rng, correct_rng, bound_rng, judge_rng = rng.spawn(5)
    case = choose(evidence, paid(plan, evidence, coins), rng=choose_rng)
    case = zero_run.sampled(case, nuisance, choose_rng) if evidence.design == "zero-run" else case
    correction, obstacle, causal_rng = _corrected(case, nuisance, correct_rng)
    tested, contradicted = _contradicted(case, correct_rng)
    correction, obstacle, referenced = _controlled(case, correction, obstacle, correct_rng)
    if contradicted:
        obstacle, correction = contradicted, None if correction is None else correction.refuted(contradicted)
    claim, upper = bounds.claimed(plan.bounds)
    again = copy.deepcopy(bound_rng)
    bounded, no_bound, challenge, runs = _bounded(case, claim, correction, obstacle, bound_rng)
    correction, obstacle = _challenged(correction, obstacle, challenge)
    used = correction if correction is not None and correction.answered else None
    shows_metrics = correction is None or used is not None or plan.raw_only  # those of a refused audit on request only
    measured = _measure(case, used, causal_rng, bootstrap_rng, progress)
    nonmembers = _nonmembers(case, used)
    judged = judgement.judged(
        case,
        measured,
        nonmembers,
        used if used is not None or not obstacle else correction,
        obstacle=obstacle,
        contradicted=bool(contradicted),
        bounding=lambda other: _bounded(other, None, correction, obstacle, copy.deepcopy(again))[0],
        fair_coins=coins is not None,
        turn=turn,
        rng=judge_rng,
    )
    judged = judgement.with_all_scores(judged, coins)
    best = judged.best
    shown = tuple(
        _score_findings(case, name, measured[name] if shows_metrics else (), used, nonmembers[name])
        for name in sorted(case.names, key=lambda name: name != best)  # the one that counts first
    )
    unused = bounds.without_use(plan.bounds, evidence)
    remarks_made = [*notes, *case.notes, *unused, *([tested.note] if tested.note else [])]
    groups = _groups(case, best, used, _note(measured[best]), causal_rng) if shows_metrics else ()
    findings = Findings(
        verdict=judged.verdict.beside(*judgement.all_the_same(judged, shown, groups, bounded, plan.policy)),
        metrics=shown[0].metrics,
        design=evidence.design,
        counts=Counts.of_sample(case.samples[best], nonmembers[best], case.confidence),
        scores=shown,
        plan=plan.to_dict(),
        evidence={"digest": evidence.digest, "source": evidence.source, "scores": list(evidence.scores)},
        groups=groups,
        overlap=None if correction is None else correction.overlap,
        memorisation=_memorisation(case, used, best, measured[best], causal_rng),
        challenge=challenge,
        claim=bounds.judge(claim, bounded, upper, no_bound),
        bounds=bounded,
        no_bound=no_bound,
        corrections=(
            *case.corrections,
            *_corrections(used, plan, measured),
            *([] if coins is None else coins.paid_for),
        ),
        assumptions=(
            *((several_runs.ASSUMED,) if evidence.run is not None else ()),
            _ASSUMED[_assumed(evidence, used, coins)],
            case.samples[best].independence,
        ),
        notes=(*remarks_made, *remarks.on_scores(case, judged.verdict, best)),
        rows=_most_exposed(case.audited.only(best), plan.row_level, case.rows),
        repeat={**(repeat or {}), "python": platform.python_version(), "numpy": np.__version__},
        vulnerability=vulnerability,
        covariates_alone=tested.alone,
        reference=referenced,
        several_runs=runs,
        sealed_coins=coins,
        surest_members=judged.surest,
    )
    return findings, None if correction is None else correction.propensity, case.rows


def _corrections(used: Correction | None, plan: Plan, found: Mapping[str, Sequence[Metric]]) -> tuple[str, ...]:
    """Describe the corrections of zero-run evidence, and what is withheld all the same."""
    return () if used is None else (*zero_run.in_words(used, plan), *withholding.in_words(found))


def _note(metrics: Sequence[Metric]) -> str:
    """Say why metrics of a score are withheld; empty where none is."""
    return next((metric.note for metric in metrics if metric.withheld), "")


def _assumed(evidence: Evidence, used: Correction | None, coins: SealedCoins | None) -> str | None:
    """Return what the numbers rest on; coins that one party drew alone are as good as its word."""
    if coins is not None and coins.answer is not None:
        return "coins"
    return evidence.design if used is None else "corrected"


def _check(evidence: Any, plan: Any, nuisance: Any, rng: Any) -> None:
    if not isinstance(evidence, Evidence):
        hint = "Evidence(score=..., member=...); Evidence.from_frame and Evidence.load read columns"
        raise InputError("evidence", "a miaudit.Evidence", type(evidence).__name__, hint)
    check_generator(rng)
    if not isinstance(plan, Plan):
        raise InputError("plan", "a miaudit.Plan", type(plan).__name__, "pass miaudit.Plan(...)")
    if evidence.run is not None and evidence.design not in (None, "one-run"):
        hint = "audit each training by itself: only coins that are tossed anew make several runs of one"
        raise InputError("run", "none, unless the design is one-run", str(evidence.design), hint)
    several_runs.require_own_noise(evidence)
    if nuisance is None:
        return
    if not isinstance(nuisance, Nuisance):
        received = type(nuisance).__name__
        raise InputError("nuisance", "a Nuisance", received, "pass miaudit.causal.propensity.Nuisance(...)")
    if evidence.design != "zero-run":
        raise InputError(
            "nuisance",
            "none, unless the design is zero-run",
            str(evidence.design),
            "leave it out: nothing is corrected",
        )


# -- what the design of the evidence allows ---------------------------------------------------------------------------


def _corrected(
    case: Case, nuisance: Nuisance | None, rng: np.random.Generator
) -> tuple[Correction | None, str, np.random.Generator]:
    """Return the correction of zero-run evidence with covariates, why there can be no answer, and what draws later."""
    assess_rng, rest = rng.spawn(2)
    if case.audited.design != "zero-run":
        return None, "", rest
    nuisance = _named_classifier(nuisance or Nuisance(), case.plan).of_rows(case.rows)
    assessed = zero_run.assess(case.audited, case.plan, nuisance, rng=assess_rng)
    return (None, assessed, rest) if isinstance(assessed, str) else (assessed, _obstacle(assessed), rest)


def _contradicted(case: Case, rng: np.random.Generator) -> tuple[design_test.DesignTest, str]:
    """Test the declared design by the covariates alone, and return how the evidence contradicts it, if it does."""
    tested = design_test.DesignTest()
    if case.audited.design != "zero-run":  # a generator of its own, drawn last: no other draw moves
        tested = design_test.examine(case.audited, case.plan, rng=rng.spawn(1)[0])
    return tested, shared_records.obstacle(case.audited) or tested.obstacle


def _named_classifier(nuisance: Nuisance, plan: Plan) -> Nuisance:
    """Learn with the classifier that the plan names, if it names one and the propensity is not there already."""
    if plan.classifier is None or nuisance.propensity is not None:
        return nuisance
    if nuisance.classifier is not None:
        raise InputError("classifier", "one, of the plan or of the nuisance models", "both", "choose one of the two")
    return replace(nuisance, classifier=CLASSIFIERS[plan.classifier]())


def _controlled(
    case: Case, correction: Correction | None, obstacle: str, rng: np.random.Generator
) -> tuple[Correction | None, str, ReferenceFindings | None]:
    """Measure the reference scores, and refuse where the one that tests the correction refutes it."""
    if not case.references:
        return correction, obstacle, None
    later = rng.spawn(1)[0]  # no other draw moves
    controls = zero_run.of_references(case.audited, case.references, correction, case.plan, rng=later)
    if correction is None or controls is None or not controls.refuted:
        return correction, obstacle, controls
    refused = correction.refuted(controls.text)
    return refused, _obstacle(refused), controls


def _bounded(
    case: Case, claim: Claim | None, correction: Correction | None, obstacle: str, rng: np.random.Generator
) -> tuple[tuple[LowerBound, ...], tuple[str, ...], Challenge | None, SeveralRuns | None]:
    """Bounds of one run, of many or of none; or of several runs of the same training."""
    if case.audited.run is None:
        return *bounds.assess(case, claim, correction, obstacle=obstacle, rng=rng), None
    if obstacle:
        return (), () if case.plan.bounds is None else (obstacle,), None, None
    bounded, no_bound, runs = several_runs.assess(case, claim, rng)
    return bounded, no_bound, None, runs


def _challenged(
    correction: Correction | None, obstacle: str, challenge: Challenge | None
) -> tuple[Correction | None, str]:
    """Refuse where the challenge of the bounds refutes the weights that are used, beyond noise of learning."""
    if correction is None or correction.line is not None or challenge is None:  # it was no stack that was challenged
        return correction, obstacle
    if challenge.p_value > bounds.BEYOND_LEARNING:
        return correction, obstacle
    refused = correction.refuted(challenge.text)
    return refused, _obstacle(refused)


def _obstacle(correction: Correction) -> str:
    """Return the first reason to refuse and the number of others; empty if there is none."""
    reasons = correction.overlap.reasons
    more = {0: "", 1: "", 2: " One more reason is given."}.get(len(reasons), f" {len(reasons) - 1} more are given.")
    return reasons[0] + more if reasons else ""


# -- measuring --------------------------------------------------------------------------------------------------------


def _nonmembers(case: Case, correction: Correction | None) -> dict[str, float]:
    """Non-members of each score as a low FPR counts them: independent and, weighted, as heavy as the heaviest."""
    if correction is None:
        return {name: float(sample.effective_nonmembers) for name, sample in case.samples.items()}
    options: dict[str, Any] = {"confidence": case.confidence}
    return {
        name: effects.effective_nonmembers(case.audited.only(name), correction.propensity, **options)
        for name in case.samples
    }


def _measure(
    case: Case,
    correction: Correction | None,
    causal_rng: np.random.Generator,
    rng: np.random.Generator,
    progress: Callable[[int, int], None] | None,
) -> dict[str, tuple[Metric, ...]]:
    """The metrics of every score with their bootstrap, where it is asked for; corrected ones stand first."""
    plan, confidence = case.plan, case.confidence
    stages = _Stages(progress, plan.n_bootstrap, len(case.samples) + (correction is not None))
    metrics: dict[str, tuple[Metric, ...]] = {}
    for (name, sample), child in zip(case.samples.items(), rng.spawn(len(case.samples)), strict=True):
        plain = definition.estimates(sample, plan.metric_names, confidence)
        resampled: dict[str, Estimate] = {}
        if plan.n_bootstrap:
            replicates = bootstrap.replicates(
                sample, plan.fpr_targets, plan.n_bootstrap, rng=child, progress=stages.next()
            )
            resampled = bootstrap.estimates(sample, replicates, plan.fpr_targets, confidence)
        metrics[name] = tuple(_metric(m, estimate, resampled.get(m), plan) for m, estimate in plain.items())
    causal = {} if correction is None else _causal(case, correction, causal_rng, stages)
    return {name: (*causal.get(name, ()), *raw) for name, raw in metrics.items()}


def _causal(
    case: Case, correction: Correction, rng: np.random.Generator, told: _Stages
) -> dict[str, tuple[Metric, ...]]:
    """The causal metrics of every score, with a bootstrap beside those of Hajek weights where it is asked for."""
    plan, confidence = case.plan, case.confidence
    resampled: Mapping[str, Mapping[str, tuple[float, float]]] = {}
    if plan.n_bootstrap:
        resampled = zero_run.bootstrapped(case.audited, correction, plan, confidence, progress=told.next())
    metrics = {}
    for score in case.audited.scores:
        one = case.audited.only(score)
        rows = tuple(zero_run.both(one, correction.propensity, plan, correction.nuisance, confidence, rng=rng))
        note = withholding.contradicted(rows, one, correction, plan, rng=rng)
        metrics[score] = tuple(
            _metric(name, estimate, _resampled(estimate, method, resampled.get(score, {}).get(name)), plan, method)
            for name, method, estimate in withholding.without(rows, note)
        )
    return metrics


def _memorisation(
    case: Case, correction: Correction | None, score: str, found: Sequence[Metric], rng: np.random.Generator
) -> Memorisation | None:
    """Shift and memorisation of one score, where both were measured."""
    if correction is None:
        return None
    both = [m for m in found if m.name == "auc"]
    one = case.audited.only(score)
    causal, raw, contradicted = both[0], both[-1], bool(_note(found))
    return zero_run.memorisation(one, correction.propensity, causal=causal, raw=raw, contradicted=contradicted, rng=rng)


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
    if limits is None or method != zero_run.ESTIMATOR or not math.isfinite(estimate.high):
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


def _most_exposed(audited: Evidence, count: int, numbers: IndexArray | None) -> tuple[dict[str, Any], ...]:
    """Return the rows of the members with the highest scores, on request only."""
    if not count:
        return ()
    rows = np.flatnonzero(audited.member)
    if count < len(rows):
        values = audited.score[rows]
        rows = rows[values >= np.partition(values, -count)[-count]]
    top = rows[np.argsort(-audited.score[rows], kind="stable")[:count]]
    return tuple(
        {
            "row": int(row if numbers is None else numbers[row]),
            "unit": None if audited.unit is None else str(audited.unit[row]),
            "score": float(audited.score[row]),
        }
        for row in top
    )


def _score_findings(
    case: Case, name: str, found: tuple[Metric, ...], correction: Correction | None, nonmembers: float
) -> ScoreFindings:
    """One score with its curve; without either where no metrics are shown."""
    sample, confidence = case.samples[name], case.confidence
    binned = histogram(sample.score, sample.member)
    if not found:
        return ScoreFindings(name, (), None, binned)
    if any(metric.withheld for metric in found):  # the curve is one of TPRs
        return ScoreFindings(name, found, None, binned)
    resolved = classical.smallest_fpr(nonmembers, confidence)
    fpr = Curve.grid(case.plan.rates, nonmembers, resolved)
    if correction is None:
        roc, (low, high) = sample.roc, sample.tpr_band(fpr, confidence)
    else:
        roc, low, high = effects.tpr_band(case.audited.only(name), correction.propensity, fpr, confidence=confidence)
    return ScoreFindings(name, found, Curve.of(fpr, roc.tpr_at(fpr), low, high, resolved), binned)


def _groups(
    case: Case, score: str, correction: Correction | None, withheld: str, rng: np.random.Generator
) -> tuple[GroupFindings, ...]:
    """Compute metrics of each group, with simultaneous intervals (Bonferroni); ``withheld`` is the score's note."""
    audited = case.audited.only(score)
    if audited.group is None:
        return ()
    names, codes = np.unique(audited.group.astype(np.str_), return_inverse=True)
    if len(names) > _MOST_GROUPS:
        raise InputError("group", f"at most {_MOST_GROUPS} groups", f"{len(names)}", "was it meant to be the unit?")
    names, codes, merged = _without_small_groups(names, codes, audited.member)
    confidence = 1 - (1 - case.confidence) / len(names)
    sentence = f"intervals hold for all {len(names)} groups at once"
    if case.exploratory:
        sentence = f"exploratory: {sentence}, but not for the choice of the score"
    return tuple(
        _group(
            audited,
            name,
            codes == k,
            case.plan,
            correction,
            withheld,
            confidence,
            f"{merged}; {sentence}" if name == _OTHER else sentence,
            rng,
        )
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
    sentence = f"{np.count_nonzero(small)} groups with fewer than {_FEWEST_IN_GROUP} of a class, merged: {listed}"
    merged = np.where(small, _OTHER, names)[codes]
    levels, recoded = np.unique(merged, return_inverse=True)
    return levels, recoded, sentence


def _group(
    audited: Evidence,
    name: str,
    rows: BoolArray,
    plan: Plan,
    correction: Correction | None,
    withheld: str,
    confidence: float,
    said: str,
    rng: np.random.Generator,
) -> GroupFindings:
    inside = int(np.count_nonzero(audited.member[rows]))
    outside = int(np.count_nonzero(rows)) - inside
    if min(inside, outside) < _FEWEST_FOR_METRICS:
        return GroupFindings(name, inside, outside, (), "no metrics: fewer than two members or two non-members")
    part = audited.take(rows)
    plain = definition.estimates(Sample.of(part), plan.metric_names, confidence)
    metrics = [_metric(metric, estimate, None, plan) for metric, estimate in plain.items()]
    if correction is not None:
        learned = correction.propensity.of_rows(rows)
        causal = zero_run.metrics(part, learned, plan, correction.nuisance, confidence, rng=rng)
        retained = withholding.without(((m, *of_metric) for m, of_metric in causal.items()), withheld)
        metrics = [_metric(m, estimate, None, plan, method) for m, method, estimate in retained] + metrics
    return GroupFindings(name, inside, outside, tuple(metrics), said)

"""Zero-run evidence: comparability of members and non-members, and corrected metrics."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial

import numpy as np
from threadpoolctl import threadpool_limits

from miaudit.arrays import FloatArray
from miaudit.auditing import misfit, reference
from miaudit.auditing.case import Case
from miaudit.auditing.corrected_score import CorrectedScore
from miaudit.auditing.learned_propensity import Learned, Training, folds_of
from miaudit.auditing.plan import Plan
from miaudit.auditing.seed import AssessmentStreams
from miaudit.causal import (
    balance,
    covariates,
    crossfit,
    duplicates,
    gaps,
    mislabelling,
    progress,
    replicates,
    resamples,
    separation,
    stack,
)
from miaudit.causal.balance import Overlap
from miaudit.causal.covariates import Encoding
from miaudit.causal.propensity import LearningCurve, Nuisance, Propensity
from miaudit.errors import InputError, nearest
from miaudit.evidence import Evidence
from miaudit.findings.audit import Memorisation, Mislabelled, ReferenceFindings
from miaudit.findings.metric import Metric
from miaudit.metrics.classical import Estimate, Sample

OF_LINE = "Bounds rest on a line in the covariates, learned beside the stack, since its errors are known."
_WRONG_LABELS = ((0.01, 0.0), (0.05, 0.0), (0.0, 0.05), (0.05, 0.05), (0.1, 0.1))  # shares of members, non-members
_BLOCK = 100  # replicates of a given propensity that are looked at together


@dataclass(frozen=True, eq=False)
class Correction:
    """Propensity of zero-run evidence, and its overlap.

    ``still_learning`` is the sentence to refuse with while more records would still improve the propensity (errata A10,
    B20); ``misfit`` the one to refuse with where it misses what the covariates say; both are empty if not.
    ``encoding``, ``nuisance`` and ``seed`` are how it was learned: resamples learn it alike. ``line`` stands beside a
    stack, or beside a line that may not be enlarged as bounds ask for: what bounds rest on, and ``bounds_rest_on`` says
    so; it is empty without one. ``way_out`` says what gives a bound where it is refuted, and ``within_margin`` that the
    margin which was stated for bounds covers the misfit. ``screen`` learns a line in the place of a refuted one, where
    bounds still depend on it. ``moved`` is a stack moved along what refutes it: it is refused only where a score shows
    that this matters.
    """

    propensity: Propensity
    overlap: Overlap
    still_learning: str
    misfit: str
    encoding: Encoding
    nuisance: Nuisance
    seed: int
    line: Correction | None = None
    bounds_rest_on: str = ""
    way_out: str = ""
    within_margin: bool = False
    screen: Callable[[Correction], Correction] | None = None
    moved: tuple[Propensity, ...] = ()

    @cached_property
    def screened(self) -> Correction:
        """The correction whose bounds rest on a screened line, where their line is refuted and the plan allows it."""
        return self if self.screen is None else self.screen(replace(self, screen=None))

    @property
    def for_bounds(self) -> Correction:
        """The correction whose log-odds have known errors, refused where this one is."""
        if self.line is None:
            return self
        own = "" if self.propensity.stacked else self.misfit  # what the plain line misses, the screen may have added
        reasons = tuple(text for text in self.overlap.reasons if text != own or not own)
        return replace(self.line, overlap=replace(self.overlap, reasons=reasons))

    @property
    def answered(self) -> bool:
        """Whether the evidence allows corrected metrics."""
        return self.overlap.status != "refused"

    def refuted(self, reason: str) -> Correction:
        """Refuse for a reason found later."""
        reasons = (*self.overlap.reasons, reason)
        return replace(self, overlap=replace(self.overlap, status="refused", reasons=reasons))

    def warned(self, warning: str) -> Correction:
        """Answer with one more warning."""
        warnings = (*self.overlap.warnings, warning)
        return replace(self, overlap=replace(self.overlap, status="warned", warnings=warnings))

    def refits(self, evidence: Evidence, count: int) -> tuple[resamples.Counts, Iterator[tuple[slice, FloatArray]]]:
        """Resample the evidence, and learn the propensity again on each, by blocks; keep one that was given or stacked.

        Returns
        -------
        counts : of (count, n), how often each record was drawn
        blocks : iterator of which replicates these are, and their propensities (block, n)
        """
        rng = np.random.default_rng(self.seed)  # as it was when the propensity was learned: these are its replicates
        if self.nuisance.propensity is None and not self.propensity.stacked:
            return crossfit.refits(
                evidence,
                None,
                count,
                classifier=self.nuisance.classifier,
                encoding=self.encoding,
                folds=folds_of(self.propensity),
                workers=self.nuisance.workers,
                rng=rng,
            )
        counts, values = resamples.Resamples(evidence, count, rng=rng), self.propensity.values
        size = min(_BLOCK, resamples.together(evidence.n))
        blocks = (slice(first, min(first + size, count)) for first in range(0, count, size))
        return counts, ((block, np.broadcast_to(values, (block.stop - block.start, evidence.n))) for block in blocks)


def sampled(case: Case, nuisance: Nuisance | None, rng: np.random.Generator) -> Case:
    """Draw as many records as a stack learns from, by whole units and as many of each class, where there are more.

    What says how members and non-members differ would else be less certain than what is measured by it: intervals that
    count every record would be too short. With propensities or a classifier of the caller every record is audited.
    """
    own = nuisance is not None and (nuisance.propensity is not None or nuisance.classifier is not None)
    evidence, learns = case.audited, case.plan.propensity_model == "stack" and case.plan.classifier is None and not own
    if not learns or evidence.n <= stack.MOST_LEARNED:
        return case
    code = covariates.codes(evidence)
    rows = covariates.sampled(evidence.member, code, stack.MOST_LEARNED, rng.spawn(1)[0])
    sentence = (
        f"{len(rows):,} of {evidence.n:,} records were audited, drawn at random by whole units: the propensity, the "
        "regressions and the challenger learn from no more."
    )
    return replace(
        case,
        audited=evidence.take(rows),
        rows=rows if case.rows is None else case.rows[rows],
        references={name: values[rows] for name, values in case.references.items()},
        notes=(*case.notes, sentence),
    )


@threadpool_limits.wrap(limits=1)  # type: ignore[untyped-decorator]
def assess(evidence: Evidence, plan: Plan, nuisance: Nuisance, *, rng: np.random.Generator) -> Correction | str:
    """Learn the propensity by cross-fitting and measure overlap; a sentence where not even that is possible.

    Parameters
    ----------
    evidence : zero-run evidence
    plan : its confidence, and how covariates become numbers
    nuisance : models of the caller; a given propensity is judged by everything but the learning curve
    rng : draws folds

    Raises
    ------
    InputError
        If the plan names a category that is no covariate, or the nuisance models do not go with plan and evidence.
    """
    if evidence.covariates is None and evidence.text is None and nuisance.propensity is None:
        return "there are no covariates to correct the difference between members and non-members with"
    if follows := separation.of_scores(evidence):
        return follows
    streams = AssessmentStreams.of(rng)
    training = Training.of(evidence, plan, nuisance, encoding_of(evidence, plan, nuisance), streams)
    try:
        learned = Learned.of(training, streams)
    except InputError as error:
        return f"the propensity cannot be learned ({error})"
    return _judged(training, learned, streams)


def _judged(training: Training, learned: Learned, streams: AssessmentStreams) -> Correction:
    """Return the correction with its overlap, refused for every reason that there is."""
    evidence, plan, model = training.evidence, training.plan, learned.propensity
    measured = balance.measure(learned.seen, model, confidence=plan.confidence, categories=training.coded)
    overlap = balance.judge_overlap(measured, differences=not model.stacked)
    of_words = _of_words(evidence, measured.blind_auc, plan.confidence, streams.words)
    apart, left_out = _of_columns(evidence, measured.blind_auc, model, plan)
    sparse = gaps.SparseLevels.of(evidence, training.coded) if plan.propensity_model == "stack" else None
    still, missed = _still_learning(learned.curve), misfit.in_words(learned.fit, learned.seen, model, plan)
    refuting = "" if learned.moved else missed  # of a stack, scores decide whether it matters
    of_overlap = _reasons(overlap, measured, sparse, evidence, model)
    reasons = tuple(text for text in (*of_overlap, *apart, refuting, *of_words, still) if text)
    overlap = replace(
        overlap,
        status="refused" if reasons else overlap.status,
        reasons=reasons,
        warnings=(*overlap.warnings, *left_out, *_twins_in_words(learned.twins), *_unseen(learned.seen)),
        propensity=model.how,
        clipped=model.clipped,
        duplicates=None if learned.twins is None else learned.twins[0],
        learning=learned.curve,
        fit=learned.fit,
        gaps=gaps.unequal(evidence),
    )
    how = training.encoding, training.nuisance, training.seed
    correction = Correction(model, overlap, still, missed, *how, moved=learned.moved)
    if learned.falls_back(training):
        correction = replace(correction, screen=partial(_screened, training, learned, streams.challenge))
    return _with_line(correction, learned, plan)


def _reasons(
    overlap: Overlap,
    measured: balance.Balance,
    sparse: gaps.SparseLevels | None,
    evidence: Evidence,
    learned: Propensity,
) -> tuple[str, ...]:
    """Return the reasons of the overlap rule; levels with hardly any non-members come first, and are one reason."""
    if sparse is None:
        return overlap.reasons
    apart = replace(measured, beyond=balance.beyond_others(evidence, learned, sparse.rows))
    if balance.checks(apart)[balance.COMPARABLE][0] == "refused":
        return (sparse.sentence, *overlap.reasons)
    again = balance.checks(measured)[balance.COMPARABLE][1]  # it is about the same members
    return (sparse.sentence, *(reason for reason in overlap.reasons if reason != again))


@threadpool_limits.wrap(limits=1)  # type: ignore[untyped-decorator]
def _screened(training: Training, learned: Learned, rng: np.random.Generator, correction: Correction) -> Correction:
    """Let bounds rest on a screened line."""
    return _with_line(correction, learned.with_screened_line(training, rng), training.plan)


def _with_line(correction: Correction, learned: Learned, plan: Plan) -> Correction:
    """Say what bounds rest on, where it is not the propensity of the metrics."""
    line = learned.propensity.line if learned.line_of_bounds is None else learned.line_of_bounds
    fit = learned.fit_for_bounds
    if line is None:
        return replace(correction, within_margin=fit is not None and not fit.rejected)
    rests_on, alone = _resting_on(line), learned.refuted_line
    missed = f"{rests_on} {fit.sentence}" if fit is not None and fit.rejected else ""
    # A stack that was given comes with its line, which is no known propensity.
    own = replace(correction.nuisance, propensity=None)
    way_out = misfit.way_to_a_bound(fit, learned.seen, line, plan)
    missed = f"{missed} {way_out}".strip() if missed else ""
    bounds = replace(correction, propensity=line, misfit=missed, way_out=way_out, nuisance=own, screen=None, moved=())
    reason = "" if alone is None else f" The line alone is refuted: {alone.misfit}"
    return replace(correction, line=bounds, bounds_rest_on=rests_on + reason)


def _still_learning(curve: LearningCurve | None) -> str:
    """Say that more records would still improve the propensity; empty if not."""
    if curve is None or not curve.rising:
        return ""
    return (
        f"The propensity is not learned yet: the AUC of the covariates alone rises from {curve.half:.3f} at half "
        f"the records to {curve.full:.3f} at all of them, so part of the shift is still uncorrected."
    )


def _resting_on(line: Propensity) -> str:
    """Say which line bounds rest on."""
    if not line.screened:
        return OF_LINE
    added = ", ".join(line.added)
    enlarged = f" and {added}," if added else ", to which a screen of splines and products added nothing,"
    return f"Bounds rest on a line in the covariates{enlarged} since its errors are known."


def of_references(
    audited: Evidence,
    scores: Mapping[str, FloatArray],
    corrected: Correction | None,
    plan: Plan,
    *,
    rng: np.random.Generator,
) -> ReferenceFindings | None:
    """Measure reference scores (n,) as the audited ones are, and judge the correction by the one that tests it.

    None without reference scores. Nothing is corrected where the correction is refused already.
    """
    if plan.reference is None or not scores:
        return None
    sure = reference.CONFIDENCE
    each = {name: audited.replace(score={name: values}) for name, values in scores.items()}
    raw = {name: _auc("raw", Sample.of(one).auc(sure)) for name, one in each.items()}
    estimate, test = None, plan.reference.test
    if test is not None and corrected is not None and corrected.answered:
        tested = CorrectedScore.of(each[test], corrected.propensity, plan, corrected.nuisance, rng=rng)
        estimate = _auc(*tested.metrics(["auc"], sure, rng=rng)["auc"])
    return reference.judged(plan.reference, raw, estimate)


def _auc(estimator: str, estimate: Estimate) -> Metric:
    return Metric("auc", estimator, estimate.value, estimate.low, estimate.high, estimate.confidence, estimate.note)


def bootstrapped(
    evidence: Evidence,
    corrected: Correction,
    plan: Plan,
    confidence: float,
) -> dict[str, dict[str, tuple[float, float]]]:
    """Return bootstrap limits of Hajek metrics, with the propensity refitted in each resample.

    Parameters
    ----------
    evidence : with one score or several, which share the resamples; each block of them is a piece of the work

    Returns
    -------
    dict
        Of each score the (low, high) of ``auc``, ``ate`` and ``tpr_at_fpr_...``.
    """
    counts, blocks = corrected.refits(evidence, plan.n_bootstrap)
    scores = {name: evidence.only(name) for name in evidence.scores}
    estimates: dict[str, list[FloatArray]] = {name: [] for name in scores}
    for block, values in blocks:
        odds, times = values / (1 - values), counts[block]
        for name, one in scores.items():
            estimates[name].append(replicates.estimates(one, odds, times, fpr_targets=plan.fpr_targets))
        progress.piece()
    return {
        name: replicates.limits(np.concatenate(parts), plan.fpr_targets, confidence)
        for name, parts in estimates.items()
    }


def in_words(corrected: Correction, plan: Plan) -> tuple[str, ...]:
    """Describe the corrections and their models."""
    overlap, nuisance = corrected.overlap, corrected.nuisance
    model = ""
    if plan.estimator == "aipw":
        model = f", with an outcome model for the AUC and the average effect: {nuisance.outcome_model.how}"
    again = ""
    if plan.n_bootstrap:
        came = "given" if corrected.propensity.rows_per_covariate is None else "learned once"
        again = (
            f" The bootstrap keeps these weights, which were {came}: what is uncertain about them is not in its limits."
            if nuisance.propensity is not None or corrected.propensity.stacked
            else f" In each of {plan.n_bootstrap:,} bootstrap resamples the propensity was learned again."
        )
        again += " Corrected metrics without bootstrap limits (AIPW, the best threshold) have the default ones only."
    return (
        f"Non-members are weighted by their odds of membership (Hajek weights{model}; propensity: "
        f"{overlap.propensity}). They count for {math.floor(overlap.effective_sample_size):,} independent ones; "
        f"{overlap.clipped:.1%} of the propensities were clipped. Raw rows are not causal.{again}",
        *overlap.warnings,
    )


def memorisation(
    evidence: Evidence,
    learned: Propensity,
    *,
    raw: Metric,
    causal: Metric,
    contradicted: bool = False,
    rng: np.random.Generator,
) -> Memorisation:
    """Split the raw AUC of one score into memorisation and shift.

    What wrong labels would change rests on the weights alone: without it where the weights are contradicted.
    """
    before, after = raw.value or 0.0, causal.value or 0.0
    parts = f"Of the raw AUC of {before:.3f}, {before - after:+.3f} is shift and {after - 0.5:+.3f} is memorisation."
    labels = () if contradicted else _WRONG_LABELS
    wrong = tuple(_mislabelled(evidence, learned, e1, e0, rng) for e1, e0 in labels)
    return Memorisation(before, after, after - 0.5, before - after, parts, wrong)


def _mislabelled(
    evidence: Evidence, learned: Propensity, members: float, nonmembers: float, rng: np.random.Generator
) -> Mislabelled:
    estimates = mislabelling.under_mislabelling(evidence, learned, members=members, nonmembers=nonmembers, rng=rng)
    auc = estimates["auc"]
    return Mislabelled(members, nonmembers, auc.value, auc.low, auc.high)


def encoding_of(evidence: Evidence, plan: Plan, nuisance: Nuisance) -> Encoding:
    """Describe how covariates and texts become numbers, by the plan or by the caller's own encoding."""
    if nuisance.outcome is not None and plan.estimator != "aipw":
        raise InputError("outcome", f"none, for the estimator {plan.estimator}", "one", 'set Plan(estimator="aipw")')
    if nuisance.encoding is not None:
        if plan.categories or plan.components is not None:
            received = "categories" if plan.categories else "components"
            raise InputError("encoding", "none, beside the plan's categories or components", received, "choose one")
        return nuisance.encoding
    beside = _numeric_encoding(evidence, plan)
    return beside if evidence.text is None else covariates.Text(plan.components, beside=beside)


def _numeric_encoding(
    evidence: Evidence, plan: Plan
) -> covariates.Numbers | covariates.Categories | covariates.Reduced:
    alone = plan.reference is not None and plan.reference.covariate is not None
    if plan.components is not None and not (alone and _columns(evidence) == 1):
        if alone:
            hint = "use it as test, or condense the covariates beforehand and leave components out"
            raise InputError("reference", "no covariate, beside components of covariates", "one", hint)
        return covariates.Reduced(plan.components)
    if not plan.categories:
        return covariates.Numbers()
    names: Sequence[str] = evidence.covariate_names
    if not names and evidence.covariates is not None:
        names = [str(i) for i in range(evidence.covariates.shape[1])]
    for name in plan.categories:
        if name not in names:
            hint = nearest(name, names) or f"it has {', '.join(names[:12]) or 'none'}"
            raise InputError("categories", "names of covariates", repr(name), hint)
    return covariates.Categories(tuple(names.index(name) for name in plan.categories))


def _columns(evidence: Evidence) -> int:
    return 0 if evidence.covariates is None else evidence.covariates.shape[1]


def _twins_in_words(twins: tuple[duplicates.Twins, str] | None) -> tuple[str, ...]:
    """Warn of twins across the classes where there are more than chance explains."""
    if twins is None or not twins[0].beyond_chance:
        return ()
    counts, note = twins
    count = counts.members_affected
    have = "members have" if count > 1 else "member has"
    return (
        f"{count:,} {have} a twin among the non-members ({counts.exact_pairs:,} equal pairs, "
        f"{counts.near_pairs:,} nearly equal ones), which is more than chance explains. Are these really non-members? "
        f"{note}",
    )


def _of_words(evidence: Evidence, blind: Estimate, confidence: float, rng: np.random.Generator) -> tuple[str, ...]:
    """Say what all words of the texts tell of membership, where the propensity's few components of them miss it."""
    if evidence.text is None:
        return ()
    _, reason = balance.words_alone(evidence, blind, confidence=confidence, rng=rng)
    return (reason,) if reason else ()


def _of_columns(
    evidence: Evidence, blind: Estimate, learned: Propensity, plan: Plan
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Say which covariates separate the classes, and which were left out; findings of a line stay word for word."""
    if plan.propensity_model == "line" and plan.classifier is None:
        return (), ()
    return separation.in_words(evidence, blind.value, plan.categories), separation.constant(learned.dropped)


def _unseen(seen: Evidence) -> tuple[str, ...]:
    if seen.covariates is not None:
        return ()
    return ("There are no covariates: whether the weights make members and non-members alike cannot be checked.",)

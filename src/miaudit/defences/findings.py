"""From a comparison to findings: the verdict on the release, the recommendation, and theory beside measurement."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np

from miaudit.attacks.disclosed import LEAST
from miaudit.defences.advise import Advice, advise
from miaudit.defences.compare import DefenceComparison, MeasuredOption, Models
from miaudit.defences.differences import PairedDifference
from miaudit.disclosure import prediction
from miaudit.disclosure.fitted_laws import LawName
from miaudit.errors import InputError, nearest
from miaudit.evidence import Evidence
from miaudit.findings import verdict as verdicts
from miaudit.findings import verdict_text
from miaudit.findings.disclosure import Compared, Counts, DisclosureFindings, Driver, Limits
from miaudit.findings.judge import Scored, judge, tail_of
from miaudit.findings.policy import SURE, SURE_LIST, Policy
from miaudit.findings.verdict import LimitResult, Verdict
from miaudit.metrics import definition
from miaudit.metrics.classical import Estimate, Sample
from miaudit.metrics.definition import between
from miaudit.metrics.surest_members import SurestMembers, surest_members

_MOST_PREDICTED = 120
_TURN = "more shadow models (shadow: models) let the attack learn which way round they go"
_DECLARE = "Declare it if inclusion was decided at random: evaluation: design: one-run."


def findings(
    comparison: DefenceComparison,
    *,
    release: str | None = None,
    policy: Policy | None = None,
    tolerance: float = 0.02,
    declared: bool = True,
    drivers: Sequence[Driver] = (),
    predictions: Sequence[Mapping[str, Any]] = (),
    notes: Sequence[str] = (),
    plan: Mapping[str, Any] | None = None,
    source: str = "",
    target: str = "",
    repeat: Mapping[str, Any] | None = None,
) -> DisclosureFindings:
    """Judge what is to be released, and say what the comparison supports.

    Parameters
    ----------
    comparison : as :func:`miaudit.defences.compare.compare` gives it
    release : name of the option that is to be released; by default the outputs as they are
    policy : the limits of the verdict; by default those of every command
    tolerance : accuracy that may be lost
    declared : whether memberships are known to have been drawn at random
    drivers : of :func:`miaudit.defences.drivers.drivers`
    predictions : of :func:`predicted`
    notes, plan, source, target, repeat : recorded as they are

    Raises
    ------
    InputError
        For a release that was not measured, and limits on a parameter.
    """
    names = [one.option.name for one in comparison.measured]
    name = release or names[0]
    if name not in names:
        hint = nearest(name, names) or "choose one"
        raise InputError("release", f"one of {', '.join(names)}", repr(name), hint)
    judged = comparison.measured[names.index(name)]
    policy = Policy.of(None) if policy is None else policy.only(("auc", SURE_LIST), "a comparison of disclosures")
    confidence = comparison.confidence
    verdicts_of = [_verdict(one, policy, confidence, declared=True) for one in comparison.measured]
    advice = advise(comparison, tolerance=tolerance, within=[one.status == "clear" for one in verdicts_of])
    first = comparison.measured[0].option.models
    return DisclosureFindings(
        verdict=_verdict(judged, policy, confidence, declared=declared),
        release=name,
        recommendation=advice.text,
        parts=advice.parts,
        rests_on=advice.rests_on,
        options=tuple(_compared(comparison, advice, verdict, i) for i, verdict in enumerate(verdicts_of)),
        counts=Counts(
            members=int(first.member.sum()),
            nonmembers=int((~first.member).sum()),
            shadow_models=len(first.logits) - 1,
            calibration=len(first.calibration),
            classes=first.classes,
        ),
        confidence=comparison.confidence,
        drivers=tuple(drivers),
        predictions=tuple(predictions),
        notes=tuple(notes),
        plan=dict(plan or {}),
        source=source,
        target=target,
        repeat=dict(repeat or {}),
    )


def predicted(
    models: Models,
    *,
    law: LawName = "logit-normal",
    confidence: float = 0.95,
    threshold: float = 0.2,
    rng: np.random.Generator,
) -> tuple[list[dict[str, Any]], list[str]]:
    """Compare what calibration and uncertainty predict with what the attacks of theory measure, on some records.

    Parameters
    ----------
    models : whose shadow models are asked
    law : of what shadow models say, "logit-normal" or "dirichlet"
    threshold : q of the decision sets

    Returns
    -------
    list of plain values, one for each disclosure; and what must be said where there are none
    """
    rows = np.sort(rng.permutation(models.rows)[:_MOST_PREDICTED])
    included = models.included[1:, rows].T
    sides = [int(count.min()) for count in (included.sum(axis=1), (~included).sum(axis=1))] if included.size else [0]
    if min(sides) < 2 * prediction.LEAST or len(rows) < prediction.FEWEST_RECORDS:
        needed = 4 * prediction.LEAST
        return [], [
            f"What calibration and uncertainty predict was not compared: that takes {needed} shadow models or more "
            f"and {prediction.FEWEST_RECORDS} records."
        ]
    shadow = np.stack([models.probabilities(m)[rows] for m in range(1, len(models.logits))], axis=1)
    comparisons = prediction.compare(
        shadow, included, models.labels[rows], law=law, threshold=threshold, confidence=confidence, rng=rng
    )
    return [one.to_dict() for one in comparisons], []


def _verdict(one: MeasuredOption, policy: Policy, confidence: float, *, declared: bool) -> Verdict:
    """Judge the leakage of one option by every limit of the policy."""
    sample, models = _sample(one), one.option.models
    tail = tail_of(confidence)
    surest = surest_members(
        sample,
        score=one.option.called,
        level=tail,
        sure=policy.sure or SURE,
        confidence=confidence,
    )
    scored = Scored(one.option.called, definition.estimator(sample), sample.effective_nonmembers, surest)
    verdict = judge(policy, [scored], confidence=confidence, turn=_TURN)
    if verdict.status == "clear" and (len(models.logits) < 1 + 2 * LEAST or not one.option.adaptive):
        reason = (
            "The attack that found little was a plain threshold, without shadow models that went through the same. "
            "That can show concern, and never its absence."
        )
        about: dict[str, Any] = {"metric": verdict.metric, "threshold": verdict.threshold, "confidence": confidence}
        verdict = verdicts.no_answer("not-testable", reason, **about, stated=policy.stated)
    above = [
        f"{definition.label(name)} {between(name, estimate.low, estimate.high)}"
        for name, estimate in one.leakage.items()
        if estimate.value is not None and estimate.low > (definition.chance(name) or 0.0)
    ]
    limits = [(one_limit.limit, one_limit.high) for one_limit in verdict.limits]
    left = verdict_text.not_excluded(limits, [(name, estimate.high) for name, estimate in one.leakage.items()])
    verdict = verdict.beside(_proven(above, surest), left)
    return verdict if declared else verdicts.undeclared(verdict, _DECLARE)


def _proven(above: Sequence[str], surest: SurestMembers | None) -> str:
    """What is proven although no limit is exceeded, in sentences."""
    parts = [f"The attack is better than random guessing: {'; '.join(above)}."] if above else []
    if surest is not None and surest.exceeded:
        parts.append(verdict_text.list_sentence(LimitResult.of_list(surest, score="")))
    return " ".join(parts)


def _sample(one: MeasuredOption) -> Sample:
    models = one.option.models
    units = None if models.units is None else models.units[models.rows]
    return Sample.of(Evidence(score=one.attacked.scores, member=models.member, unit=units, design="one-run"))


def _within(verdict: Verdict) -> Literal["exceeded", "within", "open"]:
    words: dict[str, Literal["exceeded", "within"]] = {"flagged": "exceeded", "clear": "within"}
    return words.get(verdict.status, "open")


def _compared(comparison: DefenceComparison, advice: Advice, verdict: Verdict, i: int) -> Compared:
    one, judged = comparison.measured[i], advice.judged[i]
    auc = one.leakage["auc"]
    return Compared(
        name=one.option.name,
        words=one.option.called,
        group=one.option.group,
        kind=one.option.defence.kind,
        randomness=one.option.defence.randomness,
        attack=one.attacked.name,
        tried=dict(one.attacked.tried),
        leakage={name: _limits(estimate) for name, estimate in one.leakage.items()},
        averaged_advantage=Limits((auc.value or 0.0) - 0.5, auc.low - 0.5, auc.high - 0.5),
        accuracy=_limits(one.accuracy),
        calibration_error=None if one.error is None else _limits(one.error),
        coverage=None if one.coverage is None else _limits(one.coverage),
        size=None if one.size is None else _limits(one.size),
        empty=one.empty,
        full=one.full,
        reduction=_difference(comparison.reductions[i - 1] if i else None),
        cost=_difference(comparison.costs[i - 1] if i else None),
        effect=judged.effect,
        price=judged.price,
        front=judged.front,
        within=_within(verdict),
        limits=verdict.limits,
        recommended=one.option.name in advice.recommended,
        notes=one.notes,
    )


def _limits(found: Estimate) -> Limits:
    return Limits(found.value, found.low, found.high, found.note)


def _difference(found: PairedDifference | None) -> Limits | None:
    return None if found is None else Limits(found.value, found.low, found.high)

"""The verdict of an audit: what measures each limit of the plan's policy, and the rule that compares."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from miaudit.auditing import matched, remarks, withholding
from miaudit.auditing.case import Case
from miaudit.auditing.corrected_score import CorrectedScore
from miaudit.auditing.gates import Gates
from miaudit.auditing.measurements import Measurements
from miaudit.auditing.plan import Bootstrap
from miaudit.dp import accounting
from miaudit.dp.verdict import LowerBound
from miaudit.errors import InputError
from miaudit.findings import judge as rule
from miaudit.findings import verdict as verdicts
from miaudit.findings import verdict_text
from miaudit.findings.audit import GroupFindings, ScoreFindings
from miaudit.findings.judge import Scored
from miaudit.findings.matched import Matched
from miaudit.findings.metric import Metric, foremost
from miaudit.findings.policy import SURE, SURE_LIST, Policy, written_limit
from miaudit.findings.policy import label_of as metric_label
from miaudit.findings.sealed_coins import SealedCoins
from miaudit.findings.verdict import LimitResult, Measured, Verdict
from miaudit.metrics import definition
from miaudit.metrics.classical import Estimate
from miaudit.metrics.rounding import lower_text, percent, upper_text
from miaudit.metrics.surest_members import SurestMembers, surest_members

__all__ = ["Judged", "all_the_same", "judged", "with_all_scores"]

Bounding = Callable[[Case], Sequence[LowerBound]]
_STEPS = 14  # halvings of the logarithm of a level, for the p-value of a limit on epsilon or mu
_LEAST = 1e-12


@dataclass(frozen=True)
class Judged:
    """The verdict, the score that the findings are about, and the surest members of each score.

    ``by_default`` are the default limits that are exceeded, where a verdict within stated limits hides it.
    """

    verdict: Verdict
    best: str
    surest: tuple[SurestMembers, ...]
    by_default: tuple[LimitResult, ...] = ()


def judged(
    case: Case,
    measured: Measurements,
    gates: Gates,
    *,
    bounding: Bounding,
    fair_coins: bool,
    turn: str,
    rng: np.random.Generator,
) -> Judged:
    """Compare the limits of the plan with every score that counts.

    Parameters
    ----------
    case : the audited records and the plan
    measured : of each score
    gates : what corrects the numbers, and why the evidence allows no answer
    bounding : the bounds of the case at another confidence
    fair_coins : whether independent fair coins decided each membership
    turn : how scores that point the wrong way are turned
    rng : draws the folds of estimates that are made again
    """
    shifted, policy = case.audited.design == "zero-run", case.plan.policy
    if shifted and policy.stated and policy.sure is not None:
        hint = "leave it out: the list of the surest members needs memberships that were assigned at random"
        raise InputError("limits", "no surest_members with zero-run evidence", f"{policy.sure:g}", hint)
    surest = {} if shifted or gates.obstacle else _surest(case, fair_coins=fair_coins, rng=rng)
    scored = _scored(case, measured, surest, rng)
    best = case.headline or _loudest(case, measured, scored, answered=not gates.obstacle)
    if gates.obstacle:
        return Judged(_without_answer(case, gates), best, ())
    if constant := remarks.constant(case):
        return Judged(_no_answer(case, "not-testable", constant), best, ())
    verdict = _by_rule(case, scored, bounding, turn)
    withheld = _withheld(case, measured)
    if withheld and verdict.status != "flagged":  # what another limit or score shows stays
        about: dict[str, Any] = {"metric": verdict.metric, "threshold": verdict.threshold, "stated": policy.stated}
        text = f"{verdicts.NOT_CAUSAL} {withheld}"
        refused = verdicts.no_answer("refused", text, **about, confidence=case.plan.confidence)
        return Judged(refused, best, ())
    hidden = _hidden(case, scored) if verdict.status == "clear" else ()
    verdict = verdicts.undeclared(verdict) if case.audited.design is None else verdict
    return Judged(verdict, best, tuple(surest.values()), hidden)


def _scored(
    case: Case,
    measured: Measurements,
    surest: Mapping[str, SurestMembers],
    rng: np.random.Generator,
) -> dict[str, Scored]:
    """Every score with what measures a limit on it."""
    return {
        name: Scored(
            name,
            _estimator(case, name, measured, rng),
            measured.nonmembers[name],
            surest.get(name),
        )
        for name in case.names
    }


def _loudest(case: Case, measured: Measurements, scored: Mapping[str, Scored], *, answered: bool) -> str:
    """The score that is nearest to exceeding a limit, of those that count."""
    limits = [name for name in case.plan.policy.metrics if answered or measured.metrics[case.judged[0]]]
    return max(case.judged, key=lambda name: _loudness(scored[name], measured.metrics[name], limits, case))


def _by_rule(case: Case, scored: Mapping[str, Scored], bounding: Bounding, turn: str) -> Verdict:
    """The verdict of the rule on evidence that allows an answer."""
    return rule.judge(
        case.plan.policy,
        [scored[name] for name in case.judged],
        others=[one for name, one in scored.items() if name not in case.judged],
        confidence=case.plan.confidence,
        parameter=_parameters(case, bounding, slow=case.audited.design == "zero-run"),
        levels=case.plan.levels,
        condition=verdicts.CONDITIONS.get("given" if case.given else case.audited.design, ""),
        exploratory=case.exploratory,
        turn=turn,
    )


def _hidden(case: Case, scored: Mapping[str, Scored]) -> tuple[LimitResult, ...]:
    """The default limits that are exceeded, though all stated ones are not; none of exploratory scores."""
    if not case.plan.policy.stated or case.exploratory:
        return ()
    counting = [scored[name] for name in case.judged]
    return rule.judge(Policy.of(None), counting, confidence=case.plan.confidence).exceeded


def _withheld(case: Case, measured: Measurements) -> str:
    """Why a verdict is refused since a metric that it rests on is withheld; empty where none is."""
    # Corrected metrics come first in their order, so that they replace the raw ones here.
    shown = {name: {metric.name: metric for metric in reversed(measured.metrics[name])} for name in case.judged}
    return withholding.refusal(shown, case.plan.policy.metrics)


def all_the_same(
    judged_case: Judged,
    scores: Sequence[ScoreFindings],
    groups: Sequence[GroupFindings],
    bounds: Sequence[LowerBound],
    policy: Policy,
    strings: Matched | None = None,
) -> tuple[str, str]:
    """Return what is proven although no limit is exceeded, and what a verdict within the limits does not exclude."""
    parts = (
        [_named(max(lists, key=lambda one: one.listed), scores)]
        if (lists := [x for x in judged_case.surest if x.exceeded])
        else []
    )
    if judged_case.by_default:
        rates = [one for one in judged_case.by_default if one.limit != SURE_LIST]
        exceeded = f": {verdict_text.listed(rates)}" if rates else ""
        parts.append(f"By the default limits this verdict would be a concern{exceeded}.")
    parts += [text for group in groups if (text := _of_group(group, policy))]
    aucs = [(one.score, m.high) for one in scores for m in foremost(one.metrics) if m.name == "auc"]
    turned = [score for score, high in aucs if high is not None and high < 0.5]
    if turned:
        parts.append(f"Turned round, {', '.join(turned)} identifies members better than random guessing.")
    whose = "" if len(scores) == 1 else "{}: "
    above = [f"{whose.format(one.score)}{text}" for one in scores if (text := one.above_chance)]
    parts += [f"The attack is better than random guessing: {'; '.join(above)}."] if above else []
    if strings is not None and not judged_case.verdict.exploratory:
        parts += _of_ranks(strings, rule.tail_of(judged_case.verdict.confidence))
    known = [
        f"{bound.parameter} at least {lower_text(bound.value)}"
        + (f" at delta = {bound.delta:g}" if bound.parameter == "epsilon" else "")
        + (f" ({bound.changes})" if bound.changes else "")
        for bound in bounds
        if bound.value > 0 and not bound.exploratory
    ]
    parts += [f"Lower bounds on privacy parameters: {', '.join(known)}."] if known else []
    return " ".join(parts), _not_excluded(judged_case.verdict, scores)


def _of_ranks(strings: Matched, level: float) -> list[str]:
    """Say that the rank test refutes that nothing leaks, where it does after the correction for several scores."""
    smallest = min(strings.ranks, key=lambda one: one.p_value)
    if smallest.p_value > level:
        return []
    share, p = percent(smallest.mean), upper_text(smallest.p_value, 2)
    return [f"The exact rank test refutes that nothing leaks: true strings exceed {share} of their decoys (p = {p})."]


def with_all_scores(judged_case: Judged, coins: SealedCoins | None) -> Judged:
    """Let no verdict be within the limits while scores that were signed for are left out: they may be the stronger."""
    verdict = judged_case.verdict
    if coins is None or not coins.missing or verdict.status != "clear":
        return judged_case
    several = "score is" if coins.missing == 1 else "scores are"
    text = f"{coins.missing:,} signed {several} not in this audit, which is within the limits without them. Add them."
    about: dict[str, Any] = {"metric": verdict.metric, "threshold": verdict.threshold, "stated": verdict.stated}
    none = verdicts.no_answer("not-testable", text, **about, confidence=verdict.confidence)
    return replace(judged_case, verdict=none)


def _of_group(group: GroupFindings, policy: Policy) -> str:
    """What a group shows above a limit; its intervals hold for all groups together."""
    above = [
        f"{metric_label(metric.name)} at least {written_limit(metric.name, metric.low, 'down')}"
        for metric in foremost(group.metrics)
        if metric.value is not None
        and metric.low is not None
        and metric.low > policy.thresholds.get(metric.name, math.inf)
    ]
    return f"In the group {group.group} a limit is exceeded: {'; '.join(above)}." if above else ""


def _named(one: SurestMembers, scores: Sequence[ScoreFindings]) -> str:
    return verdict_text.list_sentence(LimitResult.of_list(one, score=None if len(scores) > 1 else ""))


def _not_excluded(verdict: Verdict, scores: Sequence[ScoreFindings]) -> str:
    """Up to how many members may still be identified at the lowest false-positive rate that was measured."""
    limits = [(one.limit, one.high) for one in verdict.limits]
    return verdict_text.not_excluded(limits, [(m.name, m.high) for one in scores for m in foremost(one.metrics)])


def _surest(case: Case, *, fair_coins: bool, rng: np.random.Generator) -> dict[str, SurestMembers]:
    """The surest members, or pairs, of each score; those that do not count pay for all."""
    tail, plan = rule.tail_of(case.plan.confidence), case.plan
    counts: dict[str, SurestMembers | None] = {}
    for name in case.names:
        options: dict[str, Any] = {
            "score": name,
            "level": tail / len(case.judged if name in case.judged else case.names),
            "sure": plan.policy.sure or SURE,
            "confidence": plan.confidence,
        }
        if case.audited.design == "matched":
            counts[name] = matched.surest_pairs(case.audited.only(name), **options, rng=rng)
        else:
            counts[name] = surest_members(case.samples[name], **options, chance=0.5 if fair_coins else None)
    return {name: one for name, one in counts.items() if one is not None}


def _loudness(
    one: Scored, metrics: Sequence[Metric], limits: Sequence[str], case: Case
) -> tuple[bool, float, float, float]:
    """How near a score is to exceeding a limit; of equal ones the largest AUC is the louder."""
    thresholds = case.plan.policy.thresholds
    p = min((rule.p_value(one, name, thresholds[name]) for name in limits), default=1.0)
    alarm = one.surest is not None and one.surest.exceeded and case.plan.policy.sure is not None
    auc = next((metric for metric in metrics if metric.name == "auc"), None)
    high = max((metric.high or 0.0 for metric in metrics if metric.name in limits), default=0.0)
    return alarm, -p, (0.0 if auc is None or auc.value is None else auc.value), high


def _without_answer(case: Case, gates: Gates) -> Verdict:
    """The verdict of zero-run evidence that allows no answer, or of a design that the evidence contradicts."""
    if gates.contradicted:
        return _no_answer(case, "refused", gates.obstacle)
    # Not learned yet is not testable; anything else that is wrong with the propensity or the overlap is refused.
    correction = gates.of_verdict
    refused = correction is not None and correction.overlap.reasons != (correction.still_learning,)
    reason = gates.obstacle if correction is not None else f"Here {gates.obstacle}."
    status: Literal["refused", "not-testable"] = "refused" if refused else "not-testable"
    return _no_answer(case, status, f"{verdicts.NOT_CAUSAL} {reason}")


def _no_answer(case: Case, status: Literal["refused", "not-testable"], reason: str) -> Verdict:
    """The verdict of a case without an answer, with the first limit of its policy."""
    metric, threshold = case.plan.policy.limits[0]
    about: dict[str, Any] = {"metric": metric, "threshold": threshold, "stated": case.plan.policy.stated}
    return verdicts.no_answer(status, reason, **about, confidence=case.plan.confidence)


# -- what measures a limit ---------------------------------------------------------------------------------------------


def _estimator(
    case: Case, score: str, measured: Measurements, rng: np.random.Generator
) -> Callable[[str, float], Measured]:
    """Return the function that measures a metric of a score at any confidence.

    At the confidence of the findings it gives their own numbers. Where the plan asks for the intervals of a bootstrap,
    others are widened to hold these, and what the findings withhold stays withheld.
    """
    shown = {metric.name: metric for metric in reversed(measured.metrics[score])}  # corrected ones stay
    corrected = measured.corrected.get(score)
    again = definition.estimator(case.samples[score]) if corrected is None else _corrected(corrected, rng)
    held: dict[tuple[str, float], Measured] = {}

    def estimate(name: str, confidence: float) -> Measured:
        own = shown.get(name)
        if own is not None and (math.isclose(confidence, case.confidence) or (own.value is None and own.high is None)):
            return own
        if (name, confidence) not in held:
            again_measured = again(name, confidence)
            wide = own is not None and own.bootstrap is not None and isinstance(case.plan.intervals, Bootstrap)
            held[name, confidence] = _hull(again_measured, own) if wide and own is not None else again_measured
        return held[name, confidence]

    return estimate


def _hull(again: Estimate, own: Metric) -> Estimate:
    low, high = verdicts.limits(own)
    return replace(again, low=min(again.low, low), high=max(again.high, high))


def _corrected(score: CorrectedScore, rng: np.random.Generator) -> Callable[[str, float], Estimate]:
    """Return the function that measures a corrected metric at any confidence, on the same folds at each."""

    def estimate(name: str, confidence: float) -> Estimate:
        estimates: dict[str, tuple[str, Estimate]] = score.metrics([name], confidence, rng=copy.deepcopy(rng))
        return estimates[name][1]

    return estimate


def _parameters(case: Case, bounding: Bounding, *, slow: bool) -> rule.Parameter | None:
    """Return what measures a limit on epsilon or mu: a bound at the level of the limit, and the accountant's bound."""
    if not case.plan.policy.parameters or case.plan.bounds is None:
        return None

    def lower(name: str, level: float) -> float | None:
        options = case.plan.bounds
        delta = options.delta if options is not None and name == "epsilon" else 0.0
        bounds = bounding(replace(case, confidence=1 - level / len(case.judged)))
        return next(
            (bound.value for bound in bounds if bound.parameter == name and bound.delta == delta), None
        )  # of matched evidence the first, for adding or removing

    def measured(name: str, threshold: float, level: float) -> tuple[float | None, float | None, float | None]:
        low = lower(name, level)
        p = None if low is None or slow else _p_value(lambda p: lower(name, p) or 0.0, threshold)
        return low, _upper(case, name), p

    return measured


def _p_value(lower: Callable[[float], float], threshold: float) -> float:
    """The smallest level at which a bound lies above a threshold, to a factor of about 1.002; 1 above one half."""
    top, bottom = math.log(0.5), math.log(_LEAST)
    if lower(math.exp(top)) <= threshold:
        return 1.0
    for _ in range(_STEPS):
        middle = (top + bottom) / 2
        top, bottom = (middle, bottom) if lower(math.exp(middle)) > threshold else (top, middle)
    return math.exp(top)


def _upper(case: Case, name: str) -> float | None:
    """What the accountant proves of the described mechanism; None where nothing is described, or has no such bound."""
    options = case.plan.bounds
    if options is None or options.mechanism is None:
        return None
    try:
        if name == "mu":
            return accounting.upper_bound(options.mechanism, parameter="mu").value
        return accounting.upper_bound(options.mechanism, delta=options.delta).value
    except InputError:
        return None

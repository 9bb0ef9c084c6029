"""The rule of every verdict: all limits of a policy against all scores that count.

A limit is exceeded where a lower confidence limit lies above it, after a Bonferroni correction for the limits and
scores that could exceed; a verdict is within the limits where the upper confidence limit of every score lies below
every limit, at the plain confidence (an intersection-union test). Everything else is inconclusive.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from scipy import special

from miaudit.findings import verdict_text
from miaudit.findings.policy import SURE_LIST, Policy
from miaudit.findings.verdict import (
    LEVEL_NAMES,
    TURN,
    LimitResult,
    Measured,
    Outcome,
    Status,
    Verdict,
    limits,
    no_answer,
)
from miaudit.metrics import classical, definition
from miaudit.metrics.surest_members import SurestMembers

__all__ = ["Parameter", "Scored", "judge", "p_value", "tail_of"]

_SUREST_P = 1e-15  # below it a p-value is written as this
_PRECISION = 1e-4  # of the normal quantile of a p-value


class Parameter(Protocol):
    """A privacy parameter against its limit: lower bound at a level, upper bound if one is proven, and a p-value."""

    def __call__(self, name: str, threshold: float, level: float) -> tuple[float | None, float | None, float | None]:
        """Return the lower bound at a one-sided level, the accountant's upper bound, and the p-value."""


@dataclass(frozen=True, eq=False)
class Scored:
    """A score, and what measures it.

    Attributes
    ----------
    score : its name
    estimate : function of the name of a metric and of a two-sided confidence
    nonmembers : effective number of non-members
    surest : the surest members, where the design is randomised
    """

    score: str
    estimate: Callable[[str, float], Measured]
    nonmembers: float
    surest: SurestMembers | None = None


def tail_of(confidence: float) -> float:
    """Return the one-sided level of a two-sided confidence."""
    return (1 - confidence) / 2


def judge(
    policy: Policy,
    scores: Sequence[Scored],
    *,
    others: Sequence[Scored] = (),
    confidence: float,
    parameter: Parameter | None = None,
    levels: tuple[float, float, float] = (0.02, 0.05, 0.1),
    condition: str = "",
    exploratory: bool = False,
    turn: str = TURN,
) -> Verdict:
    """Compare every limit of a policy with every score that counts.

    Parameters
    ----------
    policy : the limits
    scores : that count
    others : reported beside a declared headline: where one of them exceeds a limit, after a correction for all scores,
        the verdict is a concern; else they change nothing
    confidence : two-sided, in (0.5, 1)
    parameter : measures limits on epsilon and mu
    levels, condition, exploratory, turn : as :class:`miaudit.findings.verdict.Verdict` has them; ``turn`` says how
        scores that point the wrong way are turned

    Examples
    --------
    >>> from miaudit.metrics.classical import Estimate
    >>> loss = Scored("loss", lambda name, confidence: Estimate(0.1, 0.08, 0.12, confidence), 10_000)
    >>> verdict = judge(Policy.of({"tpr_at_fpr_0.01": 0.06}), [loss], confidence=0.95)
    >>> verdict.status, verdict.level, verdict.exit_code, verdict.exceeded[0].limit
    ('flagged', 'at least elevated', 3, 'tpr_at_fpr_0.01')
    """
    measured = list(_measured(policy, scores, confidence, parameter))
    beside = list(_measured(policy, others, confidence, None, all_scores=len(scores) + len(others)))
    measured += [one for one in beside if one.outcome == "exceeded"]
    exceeded = [one for one in measured if one.outcome == "exceeded"]
    inverted = list(_inverted(policy, scores, confidence))
    counted = [one for one in measured if one.limit != SURE_LIST]
    leading = _leading(exceeded or [one for one in counted if one.outcome == "open"] or counted or measured)
    status: Status
    if exceeded:
        status = "flagged"
    elif inverted:
        reason = verdict_text.inverted(inverted, confidence, turn)
        none = no_answer(
            "not-testable",
            reason,
            metric=leading.limit,
            threshold=leading.threshold,
            confidence=confidence,
            stated=policy.stated,
        )
        return replace(none, exploratory=exploratory)
    else:
        status = "clear" if counted and all(one.outcome == "within" for one in counted) else "inconclusive"
    return Verdict(
        status=status,
        reason=None,
        metric=leading.limit,
        threshold=leading.threshold,
        low=leading.low,
        high=leading.high,
        confidence=confidence,
        level=_level(status, leading, levels),
        condition=condition,
        exploratory=exploratory,
        text=verdict_text.sentence(status, leading, measured, confidence, condition, exploratory=exploratory),
        stated=policy.stated,
        limits=tuple(measured),
    )


def _measured(
    policy: Policy,
    scores: Sequence[Scored],
    confidence: float,
    parameter: Parameter | None,
    *,
    all_scores: int | None = None,
) -> Iterator[LimitResult]:
    """Every limit of every score, with the lower limits that hold for all of them together."""
    if not scores:
        return
    tail, several = tail_of(confidence), all_scores or len(scores)
    nonmembers = min(one.nonmembers for one in scores)
    strictest = 1 - 2 * tail / (several * max(1, len(policy.limits)))
    able = {name for name in policy.metrics if _can_exceed(name, nonmembers, strictest)}
    parameters = policy.parameters if parameter is not None else ()
    share = tail / max(1, several * len(able) + len(parameters))
    for one in scores:
        for name in policy.metrics:
            yield _against(one, name, policy.thresholds[name], confidence, share, able=name in able)
    if parameter is not None:
        for name in parameters:
            yield _of_parameter(parameter, name, policy.thresholds[name], share, scores[0].score)
    for one in scores:
        if one.surest is not None and policy.sure is not None:
            yield LimitResult.of_list(one.surest)
        elif policy.sure is not None and policy.stated:
            yield LimitResult(SURE_LIST, one.score, None, None, policy.sure, None, "open", resolved=False)


def _of_parameter(parameter: Parameter, name: str, threshold: float, share: float, score: str) -> LimitResult:
    """A privacy parameter against its limit, at its share of the level; it is listed with one of the scores."""
    low, high, p = parameter(name, threshold, share)
    over, under = low is not None and low > threshold, high is not None and high <= threshold
    outcome: Outcome = "exceeded" if over else "within" if under else "open"
    return LimitResult(name, score, low, high, threshold, p, outcome, resolved=low is not None)


def _can_exceed(name: str, nonmembers: float, confidence: float) -> bool:
    """Whether so many non-members give a lower limit of the metric at this confidence (errata C3)."""
    fpr = definition.of(name).fpr
    return fpr is None or classical.resolvable(fpr, nonmembers, confidence)


def _against(one: Scored, name: str, threshold: float, confidence: float, share: float, *, able: bool) -> LimitResult:
    joint, plain = one.estimate(name, 1 - 2 * share), one.estimate(name, confidence)
    low, high = limits(joint)[0], limits(plain)[1]
    over = able and joint.value is not None and low > threshold
    outcome: Outcome = "exceeded" if over else "within" if high < threshold else "open"
    p = p_value(one, name, threshold) if able else 1.0
    p = min(p, share) if over else max(p, share) if p < share else p  # rounding of the search decides nothing
    ends = [x if math.isfinite(x) else None for x in (low, high)]
    return LimitResult(
        name, one.score, ends[0], ends[1], threshold, p, outcome, resolved=able and plain.value is not None, level=share
    )


def p_value(one: Scored, name: str, threshold: float) -> float:
    """Return the smallest one-sided level at which a lower limit lies above a threshold; 1 above one half.

    Examples
    --------
    >>> from miaudit.metrics.classical import Estimate
    >>> def estimate(name, confidence):
    ...     return Estimate(0.1, 0.1 + 0.02 * float(special.ndtri((1 - confidence) / 2)), 0.2, confidence)
    >>> round(p_value(Scored("loss", estimate, 1000), "auc", 0.06), 3)  # two standard errors
    0.023
    """

    def excess(z: float) -> float:
        estimate = one.estimate(name, 1 - 2 * float(special.ndtr(z)))
        return -1.0 if estimate.value is None else limits(estimate)[0] - threshold

    nearest, furthest = -1e-9, float(special.ndtri(_SUREST_P))
    if not excess(nearest) > 0:
        return 1.0
    if excess(furthest) > 0:
        return _SUREST_P
    z = _bisected(excess, furthest, nearest) if furthest < nearest else nearest
    return float(special.ndtr(z))


def _bisected(excess: Callable[[float], float], low: float, high: float) -> float:
    """Return where a rising function crosses 0, step by step as scipy.optimize.bisect, which takes long to load."""
    width = high - low
    while True:
        width /= 2
        middle = low + width
        value = excess(middle)
        if value < 0:
            low = middle
        if value == 0 or abs(width) < _PRECISION + 1e-10 * abs(middle):
            return middle


def _leading(results: Sequence[LimitResult]) -> LimitResult:
    """The limit that the text is about: the most exceeded one, else the one whose upper limit is the highest."""

    def beyond(one: LimitResult) -> tuple[bool, bool, float]:
        end = one.low if one.outcome == "exceeded" else one.high
        ratio = float("inf") if not one.threshold else (float("inf") if end is None else end / one.threshold)
        return one.limit != SURE_LIST, one.resolved, ratio

    return max(results, key=beyond)


def _level(status: Status, leading: LimitResult, levels: tuple[float, float, float]) -> str:
    def name(rate: float) -> str:
        return LEVEL_NAMES[sum(rate >= level for level in levels)]

    if leading.limit == SURE_LIST or not definition.of(leading.limit).has_levels:
        return ""
    low, high = leading.low or 0.0, 1.0 if leading.high is None else leading.high
    if status == "flagged":
        return f"at least {name(low)}" if name(low) != "material" else "material"
    if status == "clear":
        return f"at most {name(high)}" if name(high) != "low" else "low"
    return name(low) if name(low) == name(high) else f"anything from {name(low)} to {name(high)}"


def _inverted(policy: Policy, scores: Sequence[Scored], confidence: float) -> Iterator[str]:
    """Yield of each score that is shown to point the wrong way, lower for members, how it shows."""
    sure = 1 - 2 * tail_of(confidence) / max(1, len(scores))
    for one in scores:
        high = limits(one.estimate("auc", sure))[1]
        if high < 0.5:
            yield f"the AUC of {one.score} is at most {definition.amount('auc', high, 'up')}"
            continue
        for name in policy.metrics:
            known = definition.of(name)
            if not known.bounded and limits(one.estimate(name, sure))[1] < (known.chance or 0):
                yield f"{known.label} of {one.score} is below {definition.amount(name, known.chance or 0.0)}"

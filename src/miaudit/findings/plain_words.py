"""A verdict in plain words: how many records of a thousand, what it means for a release, and what to do next.

Everything here is read off finished findings. Nothing is overstated: counts of a lower limit are rounded down, those of
an upper limit up.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal
from statistics import NormalDist
from typing import Any, Literal, Protocol

from miaudit.findings import next_steps
from miaudit.findings.about import About
from miaudit.findings.next_steps import Step
from miaudit.findings.verdict import Verdict
from miaudit.metrics import definition
from miaudit.metrics.definition import amount, at_least, at_most, between, describe, label, percent, written

__all__ = ["InWords", "Step", "of", "privacy_parameter"]

Bound = Literal["flagged", "clear", "inconclusive", "unresolved"]
_OF = 1000
_MOST_DIGITS = 4  # of a false-positive rate that is told as so many of so many
_LARGEST = 10**9


class Audited(next_steps.Audited, Protocol):
    """What is read of :class:`miaudit.findings.audit.Findings`."""

    @property
    def evidence(self) -> Mapping[str, Any]: ...
    @property
    def about(self) -> About | None: ...


class Measured(next_steps.Measured, Protocol):
    """What is read of :class:`miaudit.findings.audit.Metric`."""

    @property
    def low(self) -> float | None: ...
    @property
    def reading(self) -> str: ...


@dataclass(frozen=True)
class InWords:
    """A verdict for a reader who is no statistician.

    Attributes
    ----------
    said : the finding, in a sentence or two; without an answer, that there is none, and why
    limits : the metric, its interval and confidence; empty where there is none
    meaning : what follows for the decision at hand
    steps : what to do next, each with a command where there is one
    plan : what was fixed before the numbers, in a line
    slide : all that a slide needs, as lines of text
    """

    said: str
    limits: str
    meaning: str
    steps: tuple[Step, ...]
    plan: str
    slide: str


def of(found: Audited, primary: Measured | None, auc: Measured | None) -> InWords:
    """Put findings into plain words.

    Parameters
    ----------
    found : Findings
    primary, auc : the primary metric and the AUC of the headline score, corrected where that is; None where not shown

    Examples
    --------
    >>> import numpy as np, miaudit
    >>> member = np.arange(4000) % 2 == 0
    >>> score = np.random.default_rng(0).normal(size=4000) + member
    >>> evidence = miaudit.Evidence(score=score, member=member, design="one-run")
    >>> findings = miaudit.audit(evidence, plan=miaudit.Plan(fpr_targets=(0.1,)), rng=0)
    >>> print(findings.in_words.said)
    Of 1,000 audited records in the training data, at least 332 can be told, if 100 of 1,000 others may be accused \
wrongly. Guessing tells 100.
    """
    said, limits = _said(found, primary, auc), _limits(found.verdict, primary)
    plan, meaning = _plan(found), _meaning(found, primary)
    refuted = "" if not claim_is_refuted(found) else f"The claim was {found.claim.text.removeprefix('Refuted: ')}"
    besides = ""
    if refuted and found.verdict.status != "flagged":  # the worse of the two leads
        said = f"{refuted} {said}"
    else:
        besides = refuted
    lines = [said, besides, limits, "" if found.about is None else found.about.line, f"Plan: {plan}"]
    return InWords(
        said=said,
        limits=limits,
        meaning=meaning,
        steps=tuple(next_steps.of(found, primary, auc)),
        plan=plan,
        slide="\n".join(filter(None, lines)),
    )


# -- the finding -------------------------------------------------------------------------------------------------------


def _said(found: Audited, primary: Measured | None, auc: Measured | None) -> str:
    verdict = found.verdict
    if verdict.status == "refused" and found.design != "zero-run":
        return "No answer: the evidence contradicts the declared design, so nothing can be concluded from it."
    if verdict.status == "refused":
        return (
            "No answer: the audited records of the training data and the others differ too much to tell memorisation "
            "from that difference."
        )
    if verdict.status == "not-testable":
        return _without_answer(found, primary, auc)
    status: Bound = "unresolved" if primary is not None and primary.value is None else verdict.status
    text = _about_metric(found, status, _ends(verdict.low, verdict.high), auc)
    if found.is_corrected:
        text = f"After correction for how the audited records and the others differ: {text[:1].lower()}{text[1:]}"
        text += f" This holds {verdict.condition}." if verdict.condition else ""
    if verdict.exploratory:
        text = f"Exploratory, not evidence, since the score was chosen on the same data: {text[:1].lower()}{text[1:]}"
    return text


def _without_answer(found: Audited, primary: Measured | None, auc: Measured | None) -> str:
    reason = next_steps.reason(found, auc)
    if reason == "wrong way":
        return "No answer: the scores are lower for records of the training data, where they should be higher."
    if reason == "constant":
        return "No answer: every record has the same score, so the attack cannot say anything about membership."
    if reason == "no correction":
        return (
            "No answer: nobody drew by chance which records were trained on, so whatever tells them from others may be "
            "the difference between two groups of records, and no memory of the model."
        )
    text = "No answer: nobody said how it was decided which records were trained on."
    if primary is None:
        return text
    status: Bound = "unresolved" if primary.value is None else "inconclusive"
    told = _about_metric(found, status, _ends(primary.low, primary.high), auc)
    return f"{text} If chance decided: {told[:1].lower()}{told[1:]}"


def _ends(low: float | None, high: float | None) -> tuple[float, float]:
    """Limits that are finite, or as far as they go."""
    return -math.inf if low is None else low, math.inf if high is None else high


def _about_metric(found: Audited, status: Bound, ends: tuple[float, float], auc: Measured | None) -> str:
    name, noun = found.verdict.metric, found.counts.of
    metric = definition.of(name)
    if metric.fpr is not None:
        return _told(status, _inside(ends), metric.fpr, noun)
    if name == "auc":
        return _pairs(status, _inside(ends), noun)
    if name in ("advantage", "balanced_accuracy"):
        share = _inside(ends) if name == "balanced_accuracy" else [(1 + x) / 2 for x in _inside(ends)]
        return (
            f"Asked about {_OF:,} audited {noun}, half of them in the training data, the attack at its best is right "
            f"about {_count(status, share, _OF)}. Guessing is right about {_OF // 2}."
        )
    if metric.bounded:
        what = describe(name)
        return f"{what[:1].upper()}{what[1:]} is {_amount(status, ends, name)}."
    return _effect(found, status, auc)


def _inside(ends: tuple[float, float]) -> list[Decimal]:
    """Limits of a share, exact, between 0 and 1."""
    return [Decimal(repr(float(min(max(end, 0.0), 1.0)))) for end in ends]


def _told(status: Bound, ends: list[Decimal], fpr: float, noun: str) -> str:
    """How many members are found, where so many others are accused."""
    exact = Decimal(repr(fpr)).normalize()
    digits, exponent = exact.as_tuple().digits, exact.as_tuple().exponent
    whole = len(digits) <= _MOST_DIGITS and isinstance(exponent, int)
    total = 10 ** max(3, -int(exponent)) if whole else _OF
    while status == "flagged" and 0 < ends[0] * total < 1 and total < _LARGEST:
        total *= 10
    accused = f"{int(exact * total):,} of {total:,} others" if whole else f"{percent(fpr)} of the others"
    by_chance = f"{int(exact * total):,}" if whole else percent(fpr)
    by = "can be told" if status == "flagged" else "can be told by this attack"
    return (
        f"Of {total:,} audited {noun} in the training data, {_count(status, ends, total)} {by}, if {accused} may be "
        f"accused wrongly. Guessing tells {by_chance}."
    )


def _pairs(status: Bound, ends: list[Decimal], noun: str) -> str:
    one = noun.removesuffix("s")
    return (
        f"Shown one audited {one} of the training data and one other, the attack says which is which rightly in "
        f"{_count(status, ends, _OF)} of {_OF:,} such pairs. Guessing is right in {_OF // 2}."
    )


def _count(status: Bound, ends: list[Decimal], total: int) -> str:
    low, high = (ends[0] * total).to_integral_value(ROUND_FLOOR), (ends[1] * total).to_integral_value(ROUND_CEILING)
    return _within(status, f"{int(low):,}", f"{int(high):,}")


def _amount(status: Bound, ends: tuple[float, float], name: str) -> str:
    return _within(status, amount(name, ends[0], "down"), amount(name, ends[1], "up"))


def _within(status: Bound, low: str, high: str) -> str:
    if status == "flagged":
        return f"at least {low}"
    return f"between {low} and {high}" if status == "inconclusive" else f"at most {high}"


def _effect(found: Audited, status: Bound, auc: Measured | None) -> str:
    """An effect in units of the score, which say nothing by themselves: in pairs instead, where there is an AUC."""
    name, threshold = label(found.verdict.metric), "the threshold of the plan"
    said = {
        "flagged": f"{name}: above {threshold}, in units of the score.",
        "clear": f"{name}: below {threshold}, in units of the score, for this attack.",
    }.get(status, f"{name}: {threshold} lies within the interval, in units of the score.")
    if auc is None or auc.value is None:
        return said
    return f"{said} {_pairs('inconclusive', _inside(_ends(auc.low, auc.high)), found.counts.of)}"


def _limits(verdict: Verdict, primary: Measured | None) -> str:
    """The metric and its interval; an effect in units of the score stands further down, with its name."""
    name = verdict.metric
    if primary is None or not definition.of(name).bounded or verdict.low is None:
        return ""
    low, high = (float(end) for end in _inside(_ends(verdict.low, verdict.high)))
    same = (low, high) == (primary.low, primary.high) or primary.value is None
    reading = primary.reading if same else between(name, low, high)
    return f"{label(name)}: {reading}, {percent(verdict.confidence)} confidence"


# -- what it means -----------------------------------------------------------------------------------------------------


def claim_is_refuted(found: Audited) -> bool:
    """Whether a privacy claim was made and refuted."""
    return found.claim is not None and found.claim.status == "refuted"


def _meaning(found: Audited, primary: Measured | None) -> str:
    if not claim_is_refuted(found):
        return _of_status(found, primary)
    text = "The privacy claim does not hold for this training: it must not be made."
    if found.verdict.status == "clear":
        return f"{text} That this attack stays below the limit of the plan does not make up for it."
    return f"{text} {_of_status(found, primary)}"


def _of_status(found: Audited, primary: Measured | None) -> str:
    verdict = found.verdict
    if verdict.status == "flagged":
        text = "The limit of the plan is exceeded: released as it is, this gives away more than was to be accepted."
        if verdict.exploratory:
            return f"{text} Confirm it on other records before anything rests on it."
        return f"{text} How bad that is depends on what being in the data says about somebody."
    if verdict.status == "clear":
        return (
            "Nothing found here speaks against a release at the limit of the plan. That is about this attack on these "
            "records: a stronger attack, or more exposed records, may give away more."
        )
    if verdict.status == "inconclusive":
        few = primary is None or primary.value is None
        why = "there are too few others to measure it" if few else "the limit of the plan lies within the interval"
        return f"This decides nothing, neither for a release nor against it: {why}. It is no pass."
    if verdict.status == "refused":
        return "No decision can rest on this audit. It shows neither leakage nor its absence."
    return "No decision can rest on these numbers as they are."


# -- the plan ----------------------------------------------------------------------------------------------------------


def _plan(found: Audited) -> str:
    verdict, plan = found.verdict, found.plan
    name = verdict.metric
    bounded = definition.of(name).bounded
    against = f"a threshold of {amount(name, verdict.threshold)}" if bounded else "a threshold in units of the score"
    rates = ", ".join(percent(fpr) for fpr in plan["fpr_targets"])
    parts = [f"{label(name)} against {against}"]
    parts += [f"false-positive rates {rates}", f"{percent(plan['confidence'])} confidence"]
    if len(found.evidence["scores"]) > 1:
        several = {"bonferroni": "corrected for several scores", "split": "score chosen on other records"}
        kind = plan["headline"]["kind"]
        parts.append(several.get(kind, "score declared" if kind == "declared" else "score chosen on the same data"))
    return "; ".join(parts)


# -- privacy parameters ------------------------------------------------------------------------------------------------


def privacy_parameter(parameter: str, value: float | None = None, delta: float = 0.0, *, lower: bool = True) -> str:
    """Say what mu or epsilon is, and what one value of it comes to.

    Parameters
    ----------
    parameter : "mu" or "epsilon"
    value : 0 or more; None for none
    delta : of an epsilon
    lower : whether the value is a lower bound, else a claim or an upper bound

    Source: mu by the Gaussian trade-off function of Dong, Roth and Su (2022), TPR = Phi(Phi^-1(FPR) + mu).

    Examples
    --------
    >>> print(privacy_parameter("mu", 1.0))
    μ says how well the best attack could tell whether one record was trained on: as well as a draw from N(0, 1) can \
be told from one of N(μ, 1). At μ = 1 it finds at most 39% of the members while accusing 10% of the others wrongly, \
and the runs show that no smaller μ holds.
    >>> print(privacy_parameter("epsilon", 2.0, 1e-5, lower=False))
    ε says by how much the output may change the odds that one record was trained on: at most by the factor e^ε, but \
for a probability of δ = 1e-05. At ε = 2 that is 7.39, from even odds to 88.1%.
    """
    shown = value if value is not None and value > 0 else None
    if parameter == "mu":
        text = (
            "μ says how well the best attack could tell whether one record was trained on: as well as a draw from "
            "N(0, 1) can be told from one of N(μ, 1)."
        )
        return text + _at("μ", shown, _tpr_of_mu, lower=lower)
    but = f", but for a probability of δ = {at_most(delta)}" if delta else ""
    text = (
        "ε says by how much the output may change the odds that one record was trained on: at most by the factor "
        f"e^ε{but}."
    )
    return text + _at("ε", shown, _odds_of_epsilon, lower=lower)


def _at(name: str, value: float | None, comes_to: Callable[[float], str], *, lower: bool) -> str:
    if value is None:
        return ""
    number = at_least(value) if lower else at_most(value)
    proved = f", and the runs show that no smaller {name} holds" if lower else ""
    return f" At {name} = {number} {comes_to(float(number))}{proved}."


def _tpr_of_mu(mu: float) -> str:
    normal = NormalDist()
    tpr = percent(normal.cdf(normal.inv_cdf(0.1) + mu), "up")
    return f"it finds at most {tpr} of the members while accusing 10% of the others wrongly"


def _odds_of_epsilon(epsilon: float) -> str:
    if epsilon > 30:
        return "that is above ten million million, which is next to no limit"
    odds, chance = written(math.exp(epsilon), ".3g", "up"), percent(1 / (1 + math.exp(-epsilon)), "up")
    return f"that is {odds}, from even odds to {chance}"

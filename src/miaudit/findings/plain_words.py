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

from miaudit.findings import next_steps, verdict_text
from miaudit.findings.about import About
from miaudit.findings.next_steps import Step
from miaudit.findings.policy import PARAMETERS, SURE_LIST, in_units_of_score, label_of, written_limit
from miaudit.findings.verdict import Verdict
from miaudit.metrics import definition
from miaudit.metrics.definition import amount, between, describe, label
from miaudit.metrics.rounding import lower_text, percent, upper_text, written

__all__ = ["InWords", "Step", "of", "privacy_parameter"]

Bound = Literal["flagged", "clear", "inconclusive", "unresolved"]
_OF = 1000
_CLASSES = {
    "records": ("members", "non-members"),
    "units": ("member units", "non-member units"),
    "strings": ("true strings", "decoys"),
}
_MOST_DIGITS = 4  # of a false-positive rate that is told as so many of so many
_LARGEST = 10**9


class Audited(next_steps.Audited, Protocol):
    """What is read of :class:`miaudit.findings.audit.Findings`."""

    @property
    def evidence(self) -> Mapping[str, Any]: ...
    @property
    def about(self) -> About | None: ...
    @property
    def overlap(self) -> Any: ...


class Measured(next_steps.Measured, Protocol):
    """What is read of :class:`miaudit.findings.metric.Metric`."""

    @property
    def low(self) -> float | None: ...
    @property
    def reading(self) -> str: ...


_STRINGS_ALONE = "It is about the random strings alone: the model may give away the rest of a record."


@dataclass(frozen=True)
class InWords:
    """A verdict for a reader who is no statistician.

    Attributes
    ----------
    said : the finding, in a sentence or two; without an answer, that there is none, and why
    limits : the metric, its interval and confidence; empty where there is none
    meaning : what follows for the decision at hand
    steps : what to do next, each with a command where there is one
    plan : the limits, and whether somebody stated them, in a line
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
    An attacker who accepts 100 false accusations per 1,000 non-members identifies at least 328 of 1,000 members. \
Random guessing would find 100.
    """
    plain, limits = _said(found, primary, auc), _limits(found.verdict, primary)
    plan, meaning = _plan(found), _meaning(found, primary)
    also = (found.verdict.proven, found.verdict.not_excluded)
    refuted = "" if not claim_is_refuted(found) else f"The claim was {found.claim.text.removeprefix('Refuted: ')}"
    besides = ""
    if refuted and found.verdict.status != "flagged":  # the worse of the two leads
        plain = f"{refuted} {plain}"
    else:
        besides = refuted
    lines = [
        f"{found.verdict.word}. {plain}",
        besides,
        limits,
        *also,
        "" if found.about is None else found.about.line,
        plan,
    ]
    return InWords(
        said=plain,
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
        return "Not answered: the evidence contradicts the declared design, so nothing can be concluded from it."
    if verdict.status == "refused":
        return f"Not answered: {_refused(found.overlap)}"
    if verdict.status == "not-testable":
        return _without_answer(found, primary, auc)
    status: Bound = "unresolved" if primary is not None and primary.value is None else verdict.status
    text = _about_metric(found, status, _ends(verdict.low, verdict.high), auc)
    if verdict.status == "clear" and verdict.proven:
        leaks = "Leakage is shown" if verdict.condition else "Leakage is proven"
        text = f"{leaks}, but no limit is exceeded. {text}"
    if found.is_corrected:
        text = f"After correction for how members and non-members differ: {text[:1].lower()}{text[1:]}"
        text += f" This holds {verdict.condition}." if verdict.condition else ""
    if verdict.exploratory:
        text = f"Exploratory, not evidence, since the score was chosen on the same data: {text[:1].lower()}{text[1:]}"
    return text


def _refused(overlap: Any) -> str:
    """Why zero-run evidence is refused: its correction disagrees with itself, its model is not right, or no overlap."""
    if overlap is not None and not overlap.reasons:
        return (
            "two ways to correct for how members and non-members differ disagree, and the verdict rests on one alone."
        )
    fit = None if overlap is None else overlap.fit
    if fit is not None and fit.rejected and all(reason.startswith(fit.sentence) for reason in overlap.reasons):
        return (
            "members and non-members can be compared, but the model of how they differ is not good enough to separate "
            "memorisation from that difference."
        )
    return "members and non-members differ too much to separate memorisation from that difference."


def _without_answer(found: Audited, primary: Measured | None, auc: Measured | None) -> str:
    reason = next_steps.reason(found, auc)
    if reason == "wrong way":
        return "Not answered: the scores are lower for members, where they should be higher."
    if reason == "constant":
        return "Not answered: every record has the same score, so the attack cannot say anything about membership."
    if reason == "no correction":
        return (
            "Not answered: members were not assigned at random, so an attack may see the difference between two groups "
            "of records, and not what the model memorised."
        )
    text = "Not answered: it is not declared how membership was decided."
    if primary is None:
        return text
    status: Bound = "unresolved" if primary.value is None else "inconclusive"
    about = _about_metric(found, status, _ends(primary.low, primary.high), auc)
    return f"{text} If members were assigned at random: {about[:1].lower()}{about[1:]}"


def _ends(low: float | None, high: float | None) -> tuple[float, float]:
    """Limits that are finite, or as far as they go."""
    return -math.inf if low is None else low, math.inf if high is None else high


def _about_metric(found: Audited, status: Bound, ends: tuple[float, float], auc: Measured | None) -> str:
    name, noun = found.verdict.metric, found.counts.of
    if name in (*PARAMETERS, SURE_LIST):
        return _of_limit(found.verdict)
    metric = definition.of(name)
    if metric.fpr is not None:
        return _told(status, _inside(ends), metric.fpr, noun)
    if name == "auc":
        return _pairs(status, _inside(ends), noun)
    if name in ("advantage", "balanced_accuracy"):
        share = _inside(ends) if name == "balanced_accuracy" else [(1 + x) / 2 for x in _inside(ends)]
        return (
            f"Asked about {_OF:,} {noun}, half of them members, the attack at its best is right about "
            f"{_count(status, share, _OF)}. Random guessing is right about {_OF // 2}."
        )
    if metric.bounded:
        what = describe(name)
        return f"{what[:1].upper()}{what[1:]} is {_amount(status, ends, name)}."
    return _effect(found, status, auc)


def _inside(ends: tuple[float, float]) -> list[Decimal]:
    """Limits of a share, exact, between 0 and 1."""
    return [Decimal(repr(float(min(max(end, 0.0), 1.0)))) for end in ends]


def _told(status: Bound, ends: list[Decimal], fpr: float, noun: str) -> str:
    """How many members are identified, where so many non-members are accused wrongly."""
    exact = Decimal(repr(fpr)).normalize()
    digits, exponent = exact.as_tuple().digits, exact.as_tuple().exponent
    whole = len(digits) <= _MOST_DIGITS and isinstance(exponent, int)
    total = 10 ** max(3, -int(exponent)) if whole else _OF
    while status == "flagged" and 0 < ends[0] * total < 1 and total < _LARGEST:
        total *= 10
    members, others = _CLASSES[noun]
    count = int(exact * total)
    accused = f"accepts {count:,} false accusation{'' if count == 1 else 's'} per {total:,} {others}"
    accused = accused if whole else f"wrongly accuses {percent(fpr)} of the {others}"
    by_chance = f"{count:,}" if whole else percent(fpr)
    by = "" if status == "flagged" else " with this attack"
    return (
        f"An attacker who {accused} identifies {_count(status, ends, total)} of {total:,} {members}{by}. Random "
        f"guessing would find {by_chance}."
    )


def _pairs(status: Bound, ends: list[Decimal], noun: str) -> str:
    member, other = (name.removesuffix("s") for name in _CLASSES[noun])
    article = "a" if other[0] == "d" else "one"
    return (
        f"Shown one {member} and {article} {other}, the attack picks the {member.removesuffix(' unit')} correctly in "
        f"{_count(status, ends, _OF)} of {_OF:,} such pairs. Random guessing is correct in {_OF // 2}."
    )


def _of_limit(verdict: Verdict) -> str:
    """A limit that is no metric of one score: a privacy parameter, or the list of the surest members."""
    leading = next(one for one in verdict.limits if one.limit == verdict.metric)
    if leading.limit == SURE_LIST:
        text = verdict_text.list_sentence(leading)
        return text[:1].upper() + text[1:]
    name, limit = leading.limit, upper_text(leading.threshold)
    if leading.low is None:
        return f"No lower bound on {name} could be computed. The limit is {limit}."
    return f"The audit proves a lower bound on {name} of {lower_text(leading.low)}. The limit is {limit}."


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
    name, limit = label(found.verdict.metric), "the limit"
    effects = {
        "flagged": f"{name}: above {limit}, in units of the score.",
        "clear": f"{name}: below {limit}, in units of the score, for this attack.",
    }.get(status, f"{name}: {limit} lies within the interval, in units of the score.")
    if auc is None or auc.value is None:
        return effects
    return f"{effects} {_pairs('inconclusive', _inside(_ends(auc.low, auc.high)), found.counts.of)}"


def _limits(verdict: Verdict, primary: Measured | None) -> str:
    """The metric and its interval; an effect in units of the score stands further down, with its name."""
    name = verdict.metric
    if primary is None or name in (*PARAMETERS, SURE_LIST) or not definition.of(name).bounded or verdict.high is None:
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
    text = "The privacy claim does not hold for this training. Do not make it."
    if found.verdict.status == "clear":
        return f"{text} That this attack stays within the limits does not make up for it."
    return f"{text} {_of_status(found, primary)}"


def _of_status(found: Audited, primary: Measured | None) -> str:
    verdict = found.verdict
    if verdict.status == "flagged":
        if verdict.exploratory:
            return "A limit is exceeded in an exploratory audit. Confirm it on other records before you rely on it."
        return (
            "A limit is exceeded. Do not release this as it is, unless you accept what the attack reveals. How much "
            "harm that does depends on what being in the data says about a person."
        )
    if verdict.status == "clear":
        text = (
            "No measured score exceeds a limit. This is about these attacks on these records: a stronger attack, or "
            "more exposed records, may reveal more."
        )
        return f"{text} {_STRINGS_ALONE}" if found.design == "matched" else text
    if verdict.status == "inconclusive":
        few = primary is None or primary.value is None
        why = "there are too few non-members to measure it" if few else "what was measured reaches across a limit"
        return f"This audit decides nothing, neither for a release nor against it: {why}. Do not treat this as a pass."
    if verdict.status == "refused":
        return "Do not base a decision on this audit. It shows neither leakage nor its absence."
    return "Do not base a decision on these numbers as they are."


# -- the plan ----------------------------------------------------------------------------------------------------------


def _plan(found: Audited) -> str:
    """The limits, whose they are, the confidence, and how several scores were counted."""
    limits = ", ".join(f"{label_of(name)} {_limit(name, limit)}" for name, limit in found.plan["limits"].items())
    whose = "Limits of this audit" if found.verdict.stated else "Default limits"
    parts = [f"{whose}: {limits}", f"{percent(found.plan['confidence'])} confidence"]
    if len(found.evidence["scores"]) > 1:
        several = {"bonferroni": "corrected for several scores", "split": "score chosen on other records"}
        kind = found.plan["headline"]["kind"]
        parts.append(several.get(kind, "score declared" if kind == "declared" else "score chosen on the same data"))
    return "; ".join(parts)


def _limit(name: str, limit: float) -> str:
    return "in units of the score" if in_units_of_score(name) else written_limit(name, limit)


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
be distinguished from one of N(μ, 1). At μ = 1 it finds at most 39% of the members while accusing 10% of the others \
wrongly, and the runs show that no smaller μ holds.
    >>> print(privacy_parameter("epsilon", 2.0, 1e-5, lower=False))
    ε says by how much the output may change the odds that one record was trained on: at most by the factor e^ε, but \
for a probability of δ = 1e-05. At ε = 2 that is 7.39, from even odds to 88.1%.
    """
    shown = value if value is not None and value > 0 else None
    if parameter == "mu":
        text = (
            "μ says how well the best attack could tell whether one record was trained on: as well as a draw from "
            "N(0, 1) can be distinguished from one of N(μ, 1)."
        )
        return text + _at("μ", shown, _tpr_of_mu, lower=lower)
    but = f", but for a probability of δ = {upper_text(delta)}" if delta else ""
    text = (
        "ε says by how much the output may change the odds that one record was trained on: at most by the factor "
        f"e^ε{but}."
    )
    return text + _at("ε", shown, _odds_of_epsilon, lower=lower)


def _at(name: str, value: float | None, comes_to: Callable[[float], str], *, lower: bool) -> str:
    if value is None:
        return ""
    number = lower_text(value) if lower else upper_text(value)
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

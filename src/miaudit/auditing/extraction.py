"""Does a language model repeat what it was trained on? The texts that come out, against texts that it never saw.

Without the controls boilerplate would count as memorised: a licence comes out of every model. Each text (or unit of
texts) is one independent trial, with exact limits; those of members, of controls and of their difference hold together,
in all ways in which texts may come out.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Annotated

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from miaudit.arrays import BoolArray, FloatArray, IntArray
from miaudit.auditing.near_texts import in_members
from miaudit.errors import InputError
from miaudit.errors.options import Option, check_options
from miaudit.evidence import Evidence
from miaudit.findings.extraction import ExtractionVerdict, Queries, Rate, Repetition, Run, Status, Told, Way
from miaudit.findings.policy import EXTRACTION, OF_COMMANDS, checked
from miaudit.findings.verdict import LimitResult, Outcome, word_of
from miaudit.metrics.classical import Sample, clopper_pearson
from miaudit.metrics.rounding import Rounding, percent, written

__all__ = ["ExtractionPlan", "by_queries", "by_runs", "by_times", "in_both", "judge", "of_1000", "told", "way"]

_MOST_ROWS = 8
_RANDOMISED = ("one-run", "multi-run")
_ACCUSED = 0.1  # of the controls
_UNTOLD = {
    "zero-run": "It was not drawn which texts were trained on: they may differ in content, and be told by that alone.",
    "": "It is not declared how it was decided which texts were trained on, so they may be told by content alone.",
}
_CONDITION = "if controls differ from members in nothing but that they were not trained on"
_UNDECLARED = (
    "It is not declared how it was decided which texts were trained on. Declare it: --design one-run or multi-run if "
    "coins decided, --design zero-run if not. If coins decided, the verdict would be:"
)
_MISSING = (
    "Texts of both kinds are needed, or boilerplate would count as memorised; lower prefix or suffix, or add texts."
)


@dataclass(frozen=True)
class ExtractionPlan:
    """What counts as coming out, and what is concluded from it.

    Attributes
    ----------
    prefix : tokens of a text that an attacker has
    suffix : tokens that must come out word for word after them
    queries : independent continuations that an attacker draws, at the model's own probabilities (temperature 1)
    chance : with which a passage has to come out in so many queries
    near : share of a passage's tokens that an answer may differ in, as edits, to be nearly word for word
    confidence : of members, controls and their difference in all ways together
    limits : mapping, optional
        ``{"extraction": 0.01}``: the share of texts by which members may exceed controls. A lower limit above it raises
        concern. By default any excess that is shown does, and an excess of less than 5% is within the limits.

    Examples
    --------
    >>> ExtractionPlan(suffix=32).queries
    100
    """

    prefix: Annotated[int, Option("Tokens that an attacker has.", ge=0, next_step="50 is usual")] = 50
    suffix: Annotated[int, Option("Tokens that must follow word for word.", ge=1, next_step="50 is usual")] = 50
    queries: Annotated[int, Option("Continuations that an attacker draws.", ge=1, next_step="100 is the default")] = 100
    chance: Annotated[
        float, Option("Probability with which a passage has to come out.", gt=0, lt=1, next_step="0.5 is the default")
    ] = 0.5
    near: Annotated[
        float, Option("Share of tokens edited that is nearly word for word.", ge=0, lt=1, next_step="0.1 is usual")
    ] = 0.1
    confidence: Annotated[float, Option("Confidence level.", gt=0.5, lt=1, next_step="0.95 is usual")] = 0.95
    limits: Annotated[
        Mapping[str, float] | tuple[tuple[str, float], ...] | None,
        Option("The limit extraction=VALUE: by which share of the texts members may exceed controls.", read=checked),
    ] = None

    def __post_init__(self) -> None:
        check_options(self)
        if self.limits is not None:
            limits = checked(self.limits)
            other = [name for name, _ in limits if name != EXTRACTION]
            if other:
                hint = "leave this limit out"
                raise InputError("limits", f"{EXTRACTION}, which an audit of extraction measures", other[0], hint)
            object.__setattr__(self, "limits", limits)

    @property
    def threshold(self) -> float:
        """Excess over controls above which a lower limit raises concern: by default any."""
        return 0.0 if self.limits is None else dict(self.limits)[EXTRACTION]

    @property
    def negligible(self) -> float:
        """Excess over controls below which an upper limit is within the limits."""
        return OF_COMMANDS[EXTRACTION] if self.limits is None else self.threshold


def way(out: ArrayLike, member: ArrayLike, confidence: float) -> tuple[Rate, Rate, Rate]:
    """Return the shares of members and of controls that come out, and their difference, with limits for all three.

    Each share has exact limits (Clopper and Pearson) at half of the error that is allowed, and the difference those
    that follow: wherever both hold, it holds.

    Parameters
    ----------
    out, member : arrays (n,) of bool, of independent texts or units
    confidence : of all three together

    Examples
    --------
    >>> members, controls, difference = way([True] * 10 + [False] * 90, [True] * 50 + [False] * 50, 0.95)
    >>> members.value, controls.value, round(difference.low, 3), round(difference.high, 3)
    (0.2, 0.0, 0.006, 0.357)
    """
    came, inside = np.asarray(out, dtype=np.bool_), np.asarray(member, dtype=np.bool_)
    each = (1 + confidence) / 2
    members, controls = _rate(came[inside], each), _rate(came[~inside], each)
    value = None if members.value is None or controls.value is None else members.value - controls.value
    return members, controls, Rate(value, members.low - controls.high, members.high - controls.low)


def _rate(out: BoolArray, confidence: float) -> Rate:
    if not len(out):
        return Rate(None, 0.0, 1.0)
    return Rate(float(out.mean()), *clopper_pearson(int(out.sum()), len(out), confidence))


def by_queries(needed: FloatArray, member: BoolArray, plan: ExtractionPlan) -> tuple[Queries, ...]:
    """Return the shares that come out by the number of queries, in steps of a half power of ten up to a million.

    Parameters
    ----------
    needed : array (n,), queries after which the first passage of each text or unit has come out
    """
    query_counts = sorted({*(10 ** (k / 2) for k in range(13)), float(plan.queries)})
    rows = []
    for queries in query_counts:
        out = needed <= queries * (1 + 1e-12)
        rates = (_rate(out[member], plan.confidence), _rate(out[~member], plan.confidence))
        rows.append(Queries(queries, *rates))
    return tuple(rows)


def by_runs(longest: IntArray, member: BoolArray, plan: ExtractionPlan) -> tuple[Run, ...]:
    """Return the shares of which so many tokens in a row come out, from a passage on in steps of a half up to the most.

    Parameters
    ----------
    longest : array (n,), tokens of the longest run of each text or unit; 0 where it is below a passage
    """
    most, least = max(int(longest.max(initial=0)), plan.suffix), plan.suffix
    steps = range(1 + int(2 * math.log2(most / least)))
    rows = []
    for tokens in sorted({*(math.ceil(least * 2 ** (k / 2)) for k in steps), most}):
        out = longest >= tokens
        rows.append(Run(tokens, _rate(out[member], plan.confidence), _rate(out[~member], plan.confidence)))
    return tuple(rows)


def by_times(
    times: IntArray, out: BoolArray, score: FloatArray, member: BoolArray, confidence: float
) -> tuple[Repetition, ...]:
    """Return what comes out of texts by how often they were trained on, and their exposure.

    Parameters
    ----------
    times : array (n,), 0 for controls; more than eight numbers are put together by powers of two
    out : array (n,) of bool, whether a passage of the text comes out
    score : array (n,), how likely the model finds its passages; ordered, no more
    member : array (n,) of bool
    confidence : of all rows together
    """
    own = np.unique(times[member])
    bands = [(int(t), int(t)) for t in own]
    if len(own) > _MOST_ROWS:
        powers = sorted({int(math.log2(t)) for t in own})
        bands = [(2**k, 2 ** (k + 1) - 1) for k in powers]
    each = 1 - (1 - confidence) / (3 * len(bands))
    controls = np.sort(score[~member])
    groups = []
    for low, high in bands:
        rows = member & (times >= low) & (times <= high)
        above = len(controls) - np.searchsorted(controls, score[rows], side="left")
        exposure = np.log2((len(controls) + 1) / (1 + above))
        both = np.concatenate([score[rows], score[~member]])
        auc = Sample.of(Evidence(score=both, member=np.arange(len(both)) < rows.sum())).auc(confidence=each)
        rate = Rate(auc.value, auc.low, auc.high)
        numbers = _rate(out[rows], each), float(exposure.mean()), _median(exposure, np.log2(len(controls) + 1), each)
        groups.append(Repetition(low, high, int(rows.sum()), *numbers, rate))
    return tuple(groups)


def _median(values: FloatArray, most: float, confidence: float) -> Rate:
    """Median with exact limits from ordered values: the number below the true one is binomial, with one half."""
    ordered, n = np.sort(values), len(values)
    cumulative = special.bdtr(np.arange(n + 1), n, 0.5)
    below = int(np.searchsorted(cumulative, (1 - confidence) / 2))  # P(B < below) is at most half of the error
    limits = (float(ordered[below - 1]), float(ordered[n - below])) if below else (0.0, float(most))
    return Rate(float(np.median(ordered)), *limits)


def judge(
    ways: Sequence[Way], plan: ExtractionPlan, design: str, *, unit: str = "texts", lack: str = ""
) -> ExtractionVerdict:
    """Conclude from the differences of all ways, whose limits hold together.

    Not answered where nobody declared the design. Flagged where in one of them the lower limit of the excess of members
    over controls lies above the limit, clear where in all of them the upper limit lies below. The text is about the
    first way that decides it.

    Parameters
    ----------
    design : how it was decided which texts were trained on; empty if not stated
    unit : what is counted, in words
    lack : why it cannot be answered; empty where it can, as far as texts of both kinds have a passage
    """
    first = ways[0]
    missing = [name for name, rate in (("members", first.members), ("controls", first.controls)) if rate.value is None]
    if missing and not lack:
        lack = f"no {missing[0]} have a passage of {plan.suffix} tokens after {plan.prefix}. {_MISSING}"
    if lack:
        text = f"{word_of('not-testable')}: {lack}"
        return ExtractionVerdict("not-testable", text, "", plan.confidence, first.name, stated=plan.limits is not None)
    if not design:
        would_be = judge(ways, plan, "one-run", unit=unit).text
        text = f"{word_of('not-testable', 'undeclared')}: {_UNDECLARED} {would_be}"
        return ExtractionVerdict(
            "not-testable", text, "", plan.confidence, first.name, plan.limits is not None, reason="undeclared"
        )
    condition = "" if design in _RANDOMISED else _CONDITION
    excessive = [one for one in ways if one.difference.low > plan.threshold]
    open_ways = [one for one in ways if one.difference.high >= plan.negligible]
    status: Status = "flagged" if excessive else "inconclusive" if open_ways else "clear"
    decisive = (excessive or open_ways or [max(ways, key=lambda one: one.difference.high)])[0]
    limit = plan.threshold if status == "flagged" else plan.negligible
    limits = tuple(
        LimitResult(EXTRACTION, one.name, one.difference.low, one.difference.high, limit, None, _outcome(one, plan))
        for one in ways
    )
    text = f"{_excess(decisive, status, plan, unit)}{_beside_excess(ways, limit, status, plan)}"
    if condition:
        text += f" This holds {condition}."
    return ExtractionVerdict(
        status, text, condition, plan.confidence, decisive.name, stated=plan.limits is not None, limits=limits
    )


def _excess(decisive: Way, status: Status, plan: ExtractionPlan, unit: str) -> str:
    """Say by how much members exceed controls in the way that decides the verdict."""
    least, most = of_1000(decisive.difference.low, "down"), of_1000(decisive.difference.high, "up")
    many = {"flagged": f"at least {least} more", "clear": f"at most {most} more"}
    shares = f"{of_1000(decisive.members.value or 0.0)} did, {of_1000(decisive.controls.value or 0.0)} of the controls"
    return (
        f"{word_of(status)}: with {percent(plan.confidence)} confidence, "
        f"{many.get(status, f'from {least} to {most} more')} of 1,000 {unit} that were trained on "
        f"come out {decisive.words} than of 1,000 controls ({shares})."
    )


def _beside_excess(ways: Sequence[Way], limit: float, status: Status, plan: ExtractionPlan) -> str:
    """Say what the limit is, what is proven although it allows it, and what was not tried."""
    proven = max(one.difference.low for one in ways)
    text = " By default any excess is a concern."
    if limit or plan.limits is not None:
        text = f" The limit is {of_1000(limit)}."
    if status != "flagged" and proven > 0:
        text += f" Proven even so: at least {of_1000(proven, 'down')} more of 1,000 come out, which the limit allows."
    return text + (" Other prompts were not tried." if status == "clear" else "")


def _outcome(one: Way, plan: ExtractionPlan) -> Outcome:
    if one.difference.low > plan.threshold:
        return "exceeded"
    return "within" if one.difference.high < plan.negligible else "open"


def told(score: FloatArray, member: BoolArray, unit: Sequence[str] | None, design: str, confidence: float) -> Told:
    """Return how many members the default score of texts tells from others, where a tenth of those are accused, too.

    Only where coins decided which texts were trained on: others differ in what they say, and are told by that.

    Parameters
    ----------
    score : array (n,), mean log-probability of the tokens of each text
    unit : n str, optional
    confidence : of these limits by themselves

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> member = np.arange(400) < 200
    >>> found = told(rng.normal(size=400) + 2 * member, member, None, "one-run", 0.95)
    >>> found.share.value > 0.6, told(np.zeros(400), member, None, "zero-run", 0.95).share.value
    (True, None)
    """
    nothing = Rate(None, 0.0, 1.0)
    if design not in _RANDOMISED:
        why = _UNTOLD["zero-run" if design else ""]
        return Told("loss", _ACCUSED, nothing, why)
    if member.all() or not member.any():
        return Told("loss", _ACCUSED, nothing, "It takes texts of both kinds.")
    evidence = Evidence(score=score, member=member, unit=None if unit is None else list(unit), design=design)
    estimate = Sample.of(evidence).tpr_at_fpr(_ACCUSED, confidence)
    why = "" if estimate.resolved else f"There are too few controls ({estimate.note})."
    return Told("loss", _ACCUSED, Rate(estimate.value, estimate.low, estimate.high), why)


def in_both(texts: Sequence[str], member: BoolArray) -> str:
    """Say how many controls have an equal or nearly equal text among the members; nothing where none has.

    Such a control was in effect trained on: what comes out of it hides what is memorised.

    Examples
    --------
    >>> in_both(["a form letter to all of you", "rain", "A form  letter to all of you"], np.array([True, True, False]))
    '1 of 1 controls have an equal or nearly equal text among the members: they were in effect trained on, and hide ...'
    """
    if member.all() or not member.any():
        return ""
    shared = int(in_members(texts, member).sum())
    if not shared:
        return ""
    controls = int(np.count_nonzero(~member))
    return (
        f"{shared:,} of {controls:,} controls have an equal or nearly equal text among the members: "
        "they were in effect trained on, and hide what is memorised. Keep one of such texts."
    )


def of_1000(share: float, rounding: Rounding = "nearest") -> str:
    """Write a share as a number of a thousand, below ten with one digit more.

    Examples
    --------
    >>> of_1000(0.2509), of_1000(0.00334, "down"), of_1000(0.00334, "up"), of_1000(-0.01, "down")
    ('251', '3.3', '3.4', '-10')
    """
    number = Decimal(repr(float(share))) * 1000
    return written(number, ".1f" if abs(number) < 10 else ".0f", rounding).removesuffix(".0")

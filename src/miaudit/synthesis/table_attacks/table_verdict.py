"""Verdict on a table: the attacks that decide, those that inform, and what would settle an open question.

Copies decide, and so does the inference of the columns that the plan names as secrets. Near copies, and lists of the
records that the table comes closest to, are alarms: they raise concern where members have more of them than chance
explains, and else keep no verdict open. In tables of few coarse columns they count few records, so an upper limit of
near copies would say nothing of the others. What a silent alarm leaves open is not left unjudged: the
record-wise limits on the TPR are about the same records, and the second positive control says what would have been
seen. Linkability, singling out and the inference of other columns inform: they never raise concern or keep a verdict
open.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from miaudit.findings import table as found
from miaudit.findings.audit import Findings
from miaudit.findings.policy import COPIES
from miaudit.findings.table import PositiveControl, Role, Status, TableVerdict, opened_with, proven
from miaudit.findings.verdict import DECLARE, LimitResult, Outcome
from miaudit.metrics.rounding import Rounding, percent
from miaudit.synthesis.table_attacks import copies as copied
from miaudit.synthesis.table_attacks.planted_control import MOST, shown_power
from miaudit.synthesis.table_attacks.success_rates import Comparison

INFERENCE = "inference: "
_MUCH_MORE = 1.5  # times as large a lower limit of near copies as of stricter ones, to be named too

UNDECLARED = "Not answered (undeclared): it is not declared how membership was decided."
ZERO_RUN = (
    "Not answered (not testable): members and control records were not assigned at random (zero-run), so differences "
    "in success mix what the table gives away with how the two differ. The record-wise audit corrects for that."
)


def corrected(confidence: float, attacks: int) -> float:
    """Return the confidence of each of several intervals that hold together (Bonferroni)."""
    return 1 - (1 - confidence) / max(attacks, 1)


def rows(
    comparisons: Sequence[Comparison],
    secrets: Sequence[str],
    *,
    threshold: float,
    confidence: float,
    copies: float | None = None,
    refuted: bool = False,
) -> tuple[found.Attack, ...]:
    """Judge each blocking attack, describe each informing one, and put the blocking ones first.

    Parameters
    ----------
    comparisons : of all attacks, with intervals at ``confidence``
    secrets : columns whose inference is a blocking attack
    threshold : excess that is still within the limits
    copies : limit of the excess of exact copies; None: any excess raises concern, and ``threshold`` is within it
    confidence : of each interval alone; concern needs it of all blocking attacks together
    refuted : whether no interval holds, so that no attack has an answer
    """
    named = {INFERENCE + name for name in secrets}
    of_role: dict[Role, list[Comparison]] = {"blocking": [], "informing": []}
    for part in comparisons:
        of_role["blocking" if copied.is_copies(part.attack) or part.attack in named else "informing"].append(part)
    return tuple(
        _row(part, role, _limits(part, threshold, copies), _joint(part, parts, confidence), refuted)
        for role, parts in of_role.items()
        for part in parts
    )


def _joint(part: Comparison, parts: Sequence[Comparison], confidence: float) -> float:
    """Return the corrected confidence of an attack among those of its role: the tests of copies share one part."""
    tested = [one for one in parts if one.at is not None]
    tests = sum(copied.is_copies(one.attack) for one in tested)
    limits = len(tested) - tests + min(tests, 1)
    return corrected(confidence, limits * (tests if copied.is_copies(part.attack) else 1))


def judge(
    attacks: Sequence[found.Attack],
    control: PositiveControl,
    near: PositiveControl | None = None,
    *,
    threshold: float,
    confidence: float,
    enough: int | None = None,
    available: tuple[int, int],
    copies: float | None = None,
) -> TableVerdict:
    """Judge the blocking attacks: flagged, clear or inconclusive.

    Flagged where the corrected lower limit of one is above its threshold. Clear where the upper limit of each, at the
    plain confidence, is within the threshold (an intersection-union test), and the positive control was seen.

    Parameters
    ----------
    attacks, threshold, confidence : as :func:`rows` returns and takes them
    control, near : positive controls with exact copies, and with copies of which one cell was changed
    enough : members of which the positive control would be seen, if any number would do
    available : members and control records in the files, of which fewer may have been attacked
    """
    blocking = [part for part in attacks if part.role == "blocking" and part.difference is not None]
    count = sum(part.role == "blocking" for part in attacks)
    exceeded = [part for part in blocking if part.status == "flagged"]
    unresolved = [part for part in blocking if part.status == "inconclusive"]
    if exceeded:
        status: Status = "flagged"
        text = _concern(exceeded, confidence, count)
    elif unresolved:
        status = "inconclusive"
        least = 0.0 if control.found or enough is None else enough / available[0]
        first, *more = (_open(part, _within_of(part, threshold, copies), available, least) for part in unresolved)
        sentence = " ".join([first, *(text[:1].upper() + text[1:] for text in more)])
        text = f"Not answered (inconclusive): with {percent(confidence)} confidence for each limit, {sentence}"
    elif not control.found:
        status, text = "inconclusive", _blind(control, enough, available) + _even_so(blocking)
        unresolved = [part for part in blocking if copied.is_copies(part.name) and not copied.is_alarm(part.name)]
    else:
        limits = [(part, _within_of(part, threshold, copies)) for part in blocking if part.status is not None]
        status, text = "clear", _within(limits, control, near, confidence) + _even_so(blocking)
    return TableVerdict(
        status,
        text,
        confidence,
        exceeded=tuple(_limited(part, "exceeded") for part in exceeded),
        unresolved=tuple(_limited(part, "open") for part in unresolved),
    )


def without_answer(would_be: TableVerdict, design: str | None, refuted: str) -> TableVerdict:
    """Withhold a verdict where no interval holds, or where members and control records may differ by selection."""
    none = replace(would_be, exceeded=(), unresolved=())
    if refuted:
        return replace(none, status="refused", text=f"Not answered (refused): {refuted}")
    if design is None:
        sentence = f"{UNDECLARED} {DECLARE} If membership was randomised it would be: {would_be.text}"
        return replace(none, status="not-testable", reason="undeclared", text=sentence)
    if design == "zero-run":
        return replace(none, status="not-testable", text=ZERO_RUN)
    return would_be


def with_membership(verdict: TableVerdict, audited: Findings) -> TableVerdict:
    """Put the epsilon that the record-wise audit proves into the first sentence, whatever the verdict is."""
    return replace(verdict, text=opened_with(verdict.text, proven(audited)))


# -- rows -------------------------------------------------------------------------------------------------------------


def _limits(comparison: Comparison, threshold: float, copies: float | None) -> tuple[float, float]:
    """The excess above which an attack raises concern, and that which is within its limit."""
    if not copied.is_copies(comparison.attack):
        return threshold, threshold
    return (0.0, threshold) if copies is None else (copies, copies)


def _row(comparison: Comparison, role: Role, limits: tuple[float, float], joint: float, refuted: bool) -> found.Attack:
    limit, threshold = limits
    high, sure = comparison.difference.high, comparison.low_at(joint)
    status: Status | None = None
    silent: Status | None = None if copied.is_alarm(comparison.attack) else "inconclusive"
    if role == "blocking":
        above = comparison.exceeds(limit, joint)
        status = "flagged" if above and not refuted else silent
        status = "clear" if status == "inconclusive" and high <= threshold and not refuted else status
    risk = comparison.risk
    return found.Attack(
        name=comparison.attack,
        members=comparison.members.shown(),
        control=comparison.control.shown(),
        difference=comparison.difference.value,
        difference_low=comparison.difference.low,
        difference_high=high,
        risk=risk.value,
        risk_low=risk.low if math.isfinite(risk.low) else None,
        risk_high=risk.high if math.isfinite(risk.high) else None,
        by_chance=None if comparison.by_chance is None else comparison.by_chance.value,
        role=role,
        threshold=limit if role == "blocking" else None,
        status=status,
        p=_p_value(comparison, limit if role == "blocking" else 0.0),
        corrected_low=sure,
        detectable=comparison.detectable,
        weak=comparison.weak,
        note=comparison.note,
    )


def _p_value(comparison: Comparison, limit: float) -> float | None:
    """Of copies the larger one of the interval's and of Fisher's test, since concern needs both."""
    p = comparison.p_value(limit)
    exact = comparison.exact if copied.is_copies(comparison.attack) else None
    return p if p is None or exact is None else min(max(p, exact), 1.0)


def _limited(part: found.Attack, outcome: Outcome) -> LimitResult:
    limit = COPIES if copied.is_copies(part.name) else f"secret: {part.name.removeprefix(INFERENCE)}"
    ends = part.corrected_low, part.difference_high
    return LimitResult(limit, part.name, *ends, part.threshold or 0.0, part.p, outcome)


# -- sentences --------------------------------------------------------------------------------------------------------


def _more(part: found.Attack, amount: str) -> str:
    """Say by how much more often an attack succeeds on members."""
    if copied.is_copies(part.name):
        return f"{_copies(part)} are {amount} more frequent among members than among control records"
    return f"the secret {_column(part)!r} is guessed right {amount} more often for members than for control records"


def _copies(part: found.Attack) -> str:
    """Name the copies: exact, equal in all columns but some, or near ones."""
    if copied.is_alarm(part.name):
        return part.name
    without = part.name.removeprefix(copied.ALL).removeprefix(" without ")
    return f"copies (equal in all columns but {without})" if without else "exact copies"


def _points(excess: float, rounding: Rounding = "nearest") -> str:
    return f"{percent(excess, rounding).removesuffix('%')} points"


def _concern(exceeded: Sequence[found.Attack], confidence: float, count: int) -> str:
    sentences = []
    for part in _telling(exceeded):
        limit = f"the limit is {_points(part.threshold)}" if part.threshold else "any excess is above the limit"
        least = f"at least {_points(part.corrected_low, 'down')}"
        sentences.append(f"{_more(part, least)} ({limit}){_counted(part)}")
    together = f" for all {count} limits together" if count > 1 else ""
    return f"Concern: with {percent(confidence)} confidence{together}, {', and '.join(sentences)}."


def _telling(exceeded: Sequence[found.Attack]) -> list[found.Attack]:
    """Return tests of copies from the strictest on, then secrets from the largest excess on.

    A test of near copies, or a list, is left out where a stricter test has shown nearly as much: an exact copy is a
    near copy too.
    """
    telling: list[found.Attack] = []
    shown = 0.0
    for part in exceeded:
        if copied.is_copies(part.name) and part.corrected_low > _MUCH_MORE * shown:
            telling.append(part)
            shown = part.corrected_low
    secrets = (part for part in exceeded if not copied.is_copies(part.name))
    return [*telling, *sorted(secrets, key=lambda one: -one.corrected_low)]


def _counted(part: found.Attack) -> str:
    """Count the copies that differ from their records, and the records on a list."""
    differ = _differ(part)
    inside, outside = part.members, part.control
    counted = (
        f"{inside.right:,} of {inside.trials:,} members and {outside.right:,} of {outside.trials:,} control records"
    )
    if copied.is_list(part.name):
        return f": {counted} are on the list"
    return f": {counted} are in the table but for {differ}" if differ else ""


def _differ(part: found.Attack) -> str:
    """Name what copies may differ in; nothing for exact copies and for secrets."""
    if not copied.is_copies(part.name):
        return ""
    kinds = {copied.BUT_DIGITS: "the last digits of numbers", copied.BUT_ONE: "one column"}
    return kinds.get(part.name, part.name.removeprefix(copied.ALL).removeprefix(" without "))


def _within_of(part: found.Attack, threshold: float, copies: float | None) -> float:
    """The excess that is within the limit of an attack."""
    return threshold if copies is None or not copied.is_copies(part.name) else copies


def _within(
    limits: Sequence[tuple[found.Attack, float]],
    control: PositiveControl,
    near: PositiveControl | None,
    confidence: float,
) -> str:
    sentences = [
        _more(part, f"at most {_points(max(part.difference_high, 0.0), 'up')}") + f" (the limit is {_points(limit)})"
        for part, limit in limits
    ]
    each = " for each limit" if len(limits) > 1 else ""
    power = percent(shown_power(control.seen, control.repetitions), "down", 2)
    return (
        f"Within the limits: with {percent(confidence)} confidence{each}, {', and '.join(sentences)}. "
        f"The audit saw {_planted(control)}, so its power to see as many is at least {power}."
        f"{_unseen(near)} An excess below the limit, or what a stronger attack would find, is not excluded."
    )


def _even_so(blocking: Sequence[found.Attack]) -> str:
    """A proven excess that lies within a stated limit."""
    shown = [part for part in blocking if part.corrected_low > 0]
    sentence = ", and ".join(_more(part, f"at least {_points(part.corrected_low, 'down')}") for part in shown)
    return f" Proven even so: {sentence}." if sentence else ""


def _planted(control: PositiveControl) -> str:
    changed = " with one cell changed" if control.changed else ""
    return (
        f"{control.copies:,} planted copies{changed} ({percent(control.share)} of the members) in {control.seen} of "
        f"{control.repetitions} repetitions"
    )


def _unseen(near: PositiveControl | None) -> str:
    """Say that copies of which one cell was changed are not excluded, where the audit did not see them."""
    if near is None or near.found:
        return ""
    return f" It saw {_planted(near)}: {near.needed} are needed to exclude as many copies of that kind."


def _open(part: found.Attack, threshold: float, available: tuple[int, int], least: float) -> str:
    low, high = _points(part.corrected_low, "down"), _points(part.difference_high, "up")
    limit = part.name if copied.is_copies(part.name) else f"secret {_column(part)!r}"
    return (
        f"{limit} is open: the excess among members lies between {low} and {high}, and the limit of "
        f"{_points(threshold)} is in between. {_settled_by(part, threshold, available, least)}"
    )


def _column(part: found.Attack) -> str:
    return part.name.removeprefix(INFERENCE)


def _settled_by(part: found.Attack, threshold: float, available: tuple[int, int], least: float) -> str:
    """Say how many records would settle an open limit, if the excess stays the same.

    ``least`` is how many times as many records as there are the positive control needs.
    """
    value = part.difference or 0.0
    factors = []
    if value < threshold:
        factors.append(((part.difference_high - value) / (threshold - value)) ** 2)
    if value > (part.threshold or 0.0):
        factors.append(((value - part.corrected_low) / (value - (part.threshold or 0.0))) ** 2)
    factor = min(factors, default=math.inf)
    if factor > MOST:
        return "The excess lies so close to the limit that more records will hardly settle it."
    trials = part.members.trials, part.control.trials
    needed = [_rounded_up(max(factor * n, 1.05 * least * have)) for n, have in zip(trials, available, strict=True)]
    sentence = (
        f"About {needed[0]:,} members and {needed[1]:,} control records would settle it, if the excess stays at "
        f"{_points(value)}"
    )
    if needed[0] <= available[0] and needed[1] <= available[1]:
        return f"{sentence}; the files hold as many, so raise the number of attacked records (records)."
    return f"{sentence}."


def _rounded_up(number: float) -> int:
    """Round a number of records up to two significant digits."""
    unit = int(10 ** max(math.floor(math.log10(max(number, 1.0))) - 1, 0))
    return math.ceil(number / unit) * unit


def _blind(control: PositiveControl, enough: int | None, available: tuple[int, int]) -> str:
    sentence = (
        f"Not answered (inconclusive): no limit is exceeded, but the positive control was not seen: the audit saw "
        f"{_planted(control)}, and {control.needed} are needed. So an excess that it does not find may still be there."
    )
    if enough is None:
        return (
            f"{sentence} Too many records stand in the table anyway, or equal others, so more records would not do. "
            "Columns that tell records apart would settle it."
        )
    needed = _rounded_up(enough * 1.05), _rounded_up(1.05 * enough * available[1] / available[0])
    return f"{sentence} About {needed[0]:,} members and {needed[1]:,} control records would settle it."

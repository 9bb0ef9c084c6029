"""The text of a verdict: which limits are exceeded, which are open, and what the numbers are."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from miaudit.findings.policy import PARAMETERS, SURE_LIST, label_of, written_limit
from miaudit.findings.verdict import LimitResult, Status, word_of
from miaudit.metrics.definition import beyond, describe, of
from miaudit.metrics.rounding import percent

__all__ = ["inverted", "list_sentence", "listed", "not_excluded", "sentence"]


def sentence(
    status: Status,
    leading: LimitResult,
    found: Sequence[LimitResult],
    confidence: float,
    condition: str,
    *,
    exploratory: bool,
) -> str:
    """Write the verdict on limits that were measured: the leading one in full, then the others that decide."""
    sure = f"with {percent(confidence)} confidence"
    leading, *found = _named([leading, *found])
    parts = {"flagged": _concern, "clear": _within}.get(status, _inconclusive)(leading, found, sure)
    text = f"{word_of(status)}: {parts}"
    if condition:
        text = f"{text} This holds {condition}."
    return f"Exploratory, not evidence: {text}" if exploratory else text


def _concern(leading: LimitResult, found: Sequence[LimitResult], sure: str) -> str:
    others = _strongest(one for one in found if one.outcome == "exceeded" and one.limit != leading.limit)
    if leading.limit == SURE_LIST:
        text = f"{sure}, {list_sentence(leading, capital=False)}"
        others = []
    else:
        low = _outside(leading, leading.low, "down")
        what, limit = _described(leading.limit), written_limit(leading.limit, leading.threshold)
        text = f"{sure}, {what} is at least {low}{_by(leading)}, above the limit of {limit}."
    rest = [one for one in others if one.limit != SURE_LIST]
    if rest:
        text += f" Also above their limits: {_series(_at_least(one) for one in rest)}."
    lists = [one for one in others if one.limit == SURE_LIST]
    if lists:
        text += f" {_capital(list_sentence(lists[0], capital=False))}"
    return text + _unresolved(found)


def _within(_leading: LimitResult, found: Sequence[LimitResult], sure: str) -> str:
    widest: dict[str, LimitResult] = {}
    for one in found:
        if one.limit != SURE_LIST and (one.limit not in widest or (one.high or 0) > (widest[one.limit].high or 0)):
            widest[one.limit] = one
    first, *rest = widest.values()
    shown = _outside(first, first.high, "up")
    parts = [f"{_described_short(first.limit)} is at most {shown}{_end(first)}"]
    parts += [f"{label_of(one.limit)} at most {_outside(one, one.high, 'up')}{_end(one)}" for one in rest]
    few = _strongest(one for one in found if not one.resolved and one.limit != SURE_LIST)
    shown = f"{sure}, {_series(parts)}.{_no_list(found)}"
    text = f"{shown} A stronger attack, and leakage below the limits, are not excluded."
    if few:
        either = _series((label_of(one.limit) for one in few), "or")
        text += f" So few non-members cannot show that {either} exceeds its limit: only the upper end was compared."
    return text


def _inconclusive(leading: LimitResult, found: Sequence[LimitResult], sure: str) -> str:
    what, limit = _described(leading.limit), written_limit(leading.limit, leading.threshold)
    high = "not known" if leading.high is None else written_limit(leading.limit, leading.high, "up")
    if leading.limit in PARAMETERS:
        low = "nothing" if leading.low is None else f"at least {written_limit(leading.limit, leading.low, 'down')}"
        text = (
            f"{sure}, {leading.limit} is shown to be {low}, and the limit is {limit}. Only a mechanism's accountant "
            "(privacy: mechanism) can show that a parameter lies within a limit."
        )
    elif leading.limit == SURE_LIST:
        text = "That shows no concern, and no other limit was stated."
        text = f"{_no_list([leading]).strip() or list_sentence(leading)} {text}"
    elif leading.resolved and leading.low is not None:
        low = written_limit(leading.limit, leading.low, "down")
        text = f"{sure}, {what} lies between {low} and {high}{_by(leading)}; the limit of {limit} is in between."
    else:
        text = (
            f"there are too few non-members to measure {what}; it is at most {high} ({sure}), and the limit is {limit}."
        )
    open_ = _strongest(one for one in found if one.outcome == "open" and one.limit not in (leading.limit, SURE_LIST))
    if open_:
        text += f" Also open: {_series(map(_at_most, open_))}."
    return text + (_no_list(found) if leading.limit != SURE_LIST else "")


def _unresolved(found: Sequence[LimitResult]) -> str:
    exceeded = {one.limit for one in found if one.outcome == "exceeded"}
    rest = [one for one in found if one.outcome == "open" or not one.resolved]
    left = _strongest(one for one in rest if one.limit not in {*exceeded, SURE_LIST})
    return (f" Not resolved: {_series(map(_at_most, left))}." if left else "") + _no_list(found)


def _no_list(found: Sequence[LimitResult]) -> str:
    """Write that a stated limit on the surest members was not tested."""
    few = any(one.limit == SURE_LIST and one.outcome == "open" for one in found)
    return " There are too few records to make and test a list of the surest members." if few else ""


def _named(found: Sequence[LimitResult]) -> list[LimitResult]:
    """The same with the names of the scores left out, where there is but one."""
    several = len({one.score for one in found}) > 1
    return [one if several and one.limit not in PARAMETERS else replace(one, score="") for one in found]


def _by(one: LimitResult) -> str:
    return f" by {one.score}" if one.score else ""


def list_sentence(found: LimitResult, *, capital: bool = True) -> str:
    """Write what a list of the surest members shows, and never that each of its records is right.

    Examples
    --------
    >>> shown = LimitResult("surest_members", "", 49, 50, 0.9, 0.001, "exceeded")
    >>> print(list_sentence(shown, capital=False))
    an attacker can name 50 records of which 49 are members. At even odds such a list is, as a whole, more than 90% \
right.
    """
    length, members = int(found.high or 0), int(found.low or 0)
    who = "An attacker" if capital else "an attacker"
    named = f"{who} can name {length:,} records of which {members:,} are members{_by(found)}."
    if found.of == "pairs":
        named = f"{who} can pick the true string from {length:,} pairs, and is right in {members:,}{_by(found)}."
    if found.outcome != "exceeded":
        return named
    if found.of == "pairs":
        return f"{named} As a whole, such picks are more than {percent(found.threshold)} right."
    return f"{named} At even odds such a list is, as a whole, more than {percent(found.threshold)} right."


def inverted(shown: Sequence[str], confidence: float, turn: str) -> str:
    """Write why scores that point the wrong way leave nothing to test."""
    return (
        f"scores point the wrong way (with {percent(confidence)} confidence {', '.join(shown)}); {turn}. Scores must "
        "be higher for members: where they are lower, an attacker turns them round, and that attack was not measured. "
        f"(Scores that carry no information look so by chance in {percent((1 - confidence) / 2)} of audits.)"
    )


def not_excluded(*measured: Iterable[tuple[str, float | None]]) -> str:
    """Write up to how many members may still be identified at the lowest false-positive rate that was measured.

    Parameters
    ----------
    measured : groups of pairs, each the name of a metric and its upper limit; the first group that has a rate decides

    Examples
    --------
    >>> not_excluded([("auc", 0.6), ("tpr_at_fpr_0.01", 0.041)], [("tpr_at_fpr_0.01", 0.03)])
    'Not excluded: an attacker may identify up to 4.1% of the members at 1% FPR, where random guessing finds 1%.'
    """
    highest: dict[float, float] = {}
    for group in measured:
        limits: dict[float, float] = {}
        for name, high in group:
            fpr = of(name).fpr
            if fpr is not None and high is not None:
                limits[fpr] = max(high, limits.get(fpr, high))
        highest = {**limits, **highest}
    if not highest:
        return ""
    lowest = min(highest)
    up = percent(highest[lowest], "up")
    rate = percent(lowest)
    return (
        f"Not excluded: an attacker may identify up to {up} of the members at {rate} FPR, where random guessing finds "
        f"{rate}."
    )


def listed(found: Iterable[LimitResult]) -> str:
    """Write limits with what was measured of them, as a list.

    Examples
    --------
    >>> listed([LimitResult("auc", "loss", 0.61, 0.66, 0.6, 0.001, "exceeded")])
    'AUC at least 0.610 (limit 0.600)'
    """
    return _series(_at_least(one) if one.outcome == "exceeded" else _at_most(one) for one in _named(list(found)))


def _strongest(found: Iterable[LimitResult]) -> list[LimitResult]:
    """Of each limit the score that is nearest to exceeding it."""
    strongest: dict[str, LimitResult] = {}
    for one in found:
        if one.limit not in strongest or (one.p or 1) < (strongest[one.limit].p or 1):
            strongest[one.limit] = one
    return list(strongest.values())


def _at_least(one: LimitResult) -> str:
    return f"{label_of(one.limit)} at least {_outside(one, one.low, 'down')}{_end(one)}"


def _at_most(one: LimitResult) -> str:
    if one.high is None:
        shown = "" if one.low is None else f" at least {written_limit(one.limit, one.low, 'down')}"
        return f"{label_of(one.limit)}{shown}{_end(one)}"
    return f"{label_of(one.limit)} at most {written_limit(one.limit, one.high, 'up')}{_end(one)}"


def _limit(one: LimitResult) -> str:
    return f"limit {written_limit(one.limit, one.threshold)}"


def _end(one: LimitResult) -> str:
    return f"{_by(one)} ({_limit(one)})"


def _outside(one: LimitResult, end: float | None, rounding: str) -> str:
    """Write a confidence limit with as many digits as it takes to read otherwise than the limit."""
    if end is None:
        return "–"
    way = "down" if rounding == "down" else "up"
    if one.limit in (*PARAMETERS, "extraction", "copies") or not of(one.limit).bounded:
        return written_limit(one.limit, end, way)  # type: ignore[arg-type]
    return beyond(one.limit, end, one.threshold, way)  # type: ignore[arg-type]


def _described(limit: str) -> str:
    return limit if limit in PARAMETERS else describe(limit)


def _described_short(limit: str) -> str:
    return label_of(limit) if of(limit).fpr is not None or limit in PARAMETERS else describe(limit)


def _series(parts: Iterable[str], word: str = "and") -> str:
    *first, last = list(parts)
    return f"{', '.join(first)} {word} {last}" if first else last


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]

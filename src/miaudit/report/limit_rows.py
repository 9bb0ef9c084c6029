"""The table of limits in the box of a verdict: each limit, what was measured of it, and the result."""

from __future__ import annotations

from collections.abc import Sequence

from miaudit.findings.policy import SURE_LIST, in_units_of_score, label_of, written_limit
from miaudit.findings.verdict import LimitResult

__all__ = ["limit_rows"]

_OUTCOMES = {"exceeded": "above the limit", "within": "below the limit", "open": "undecided", "silent": "no alarm"}
_TONES = {"exceeded": "flagged", "within": "clear", "open": "inconclusive"}


def limit_rows(
    limits: Sequence[LimitResult], *, several_scores: bool = False, conditional: bool = False
) -> list[dict[str, str]]:
    """Return a row for each limit: of the scores, the one that is nearest to exceeding it.

    Parameters
    ----------
    limits : of a verdict
    several_scores : whether to name them
    conditional : whether the verdict holds on a condition, so that a row within its limit is not green

    Examples
    --------
    >>> row = limit_rows([LimitResult("auc", "loss", 0.61, 0.66, 0.6, 0.001, "exceeded")])[0]
    >>> row["limit"], row["measured"], row["threshold"], row["outcome"]
    ('AUC', 'at least 0.610', '0.600', 'above the limit')
    """
    nearest: dict[str, LimitResult] = {}
    for one in limits:
        held = nearest.get(one.limit)
        rank = (one.outcome == "exceeded", one.outcome == "open", one.high or 0.0)
        if held is None or rank > (held.outcome == "exceeded", held.outcome == "open", held.high or 0.0):
            nearest[one.limit] = one
    return [
        {
            "limit": "surest pairs" if one.of == "pairs" else label_of(one.limit),
            "measured": _measured(one),
            "threshold": "in units of the score" if in_units_of_score(one.limit) else _threshold(one),
            "outcome": _OUTCOMES[one.outcome],
            "tone": _TONES.get("open" if conditional and one.outcome == "within" else one.outcome, ""),
            "note": "" if one.resolved or one.limit == SURE_LIST else "so few non-members cannot show more",
            "score": one.score if several_scores else "",
        }
        for one in nearest.values()
    ]


def _threshold(one: LimitResult) -> str:
    shown = written_limit(one.limit, one.threshold)
    return f"{shown} of such a list, at even odds" if one.limit == SURE_LIST else shown


def _measured(one: LimitResult) -> str:
    if one.limit == SURE_LIST and one.high is None:
        return "too few records for a list"
    if one.limit == SURE_LIST:
        counts = f"{int(one.low or 0):,} of the {int(one.high or 0):,}"
        return f"{counts} surest pairs, right" if one.of == "pairs" else f"{counts} highest scores are members"
    if in_units_of_score(one.limit):
        return "in units of the score"
    low, high = written_limit(one.limit, one.low, "down"), written_limit(one.limit, one.high, "up")
    if one.low is None and one.high is None:
        return "not measured"
    if one.outcome == "exceeded" or one.high is None:
        return f"at least {low}"
    return f"at most {high}" if one.outcome == "within" or not one.resolved or one.low is None else f"{low} to {high}"

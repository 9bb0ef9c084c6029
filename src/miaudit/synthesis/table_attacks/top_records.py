"""The records with the highest scores, and whether more of them are members than chance explains.

A leak about a few records moves no average, but it fills the top of a list. Four lengths of the list are tried, and the
one that shows the most counts, corrected for the four. The scores must not depend on who is a member: then the number
of members on a list is hypergeometric, whatever the table holds.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from miaudit.arrays import FloatArray
from miaudit.metrics.rounding import percent
from miaudit.metrics.units import Units
from miaudit.synthesis.table_attacks.success_rates import Comparison, compare

__all__ = ["SHARES", "compare_top"]

SHARES = (0.0025, 0.005, 0.01, 0.02)  # of all records


def compare_top(
    name: str, score: FloatArray, members: int, *, confidence: float, units: Units | None = None, note: str = ""
) -> Comparison:
    """Compare how many members and how many control records are among the records with the highest scores.

    Parameters
    ----------
    name : of the attack
    score : array (n,), higher for members and independent of who is one; the members come first
    members : number of members
    confidence : of the interval; it holds for the four lengths together
    units : of the n records, where several are of one unit. Then units are listed, each by its highest score
    note : how the score is called

    Notes
    -----
    Records with a score equal to the last one on a list are on it too. So its length follows from the scores alone.

    Examples
    --------
    >>> score = np.r_[np.arange(1000, 1020), np.zeros(980), np.arange(1000.0)]  # 20 of 1,000 members stand out
    >>> found = compare_top("closest records", score, 1000, confidence=0.95)
    >>> found.members.right, found.control.right, found.exact < 1e-5
    (20, 0, True)
    >>> found.note
    '20 records with the highest score (1%)'
    """
    what = "records"
    if units is not None:
        score, members = _of_units(score, units)
        what = "units"
    tried = [_list(name, score, members, share, confidence) for share in SHARES]
    most = min(range(len(SHARES)), key=lambda one: tried[one].exact or 0.0)
    length = tried[most].members.right + tried[most].control.right
    about = f"{length:,} {what} with the highest score{note and ' '}{note} ({percent(SHARES[most])})"
    return replace(tried[most], note=about)


def _of_units(score: FloatArray, units: Units) -> tuple[FloatArray, int]:
    """Return the highest score of each unit, those of members first, and their number.

    A unit on both sides is two, since each side is judged by its own records.
    """
    entry, place = np.unique(2 * units.code + ~units.member, return_inverse=True)
    highest = np.full(len(entry), -np.inf)
    np.maximum.at(highest, place, score)
    inside = entry % 2 == 0
    return np.concatenate([highest[inside], highest[~inside]]), int(inside.sum())


def _list(name: str, score: FloatArray, members: int, share: float, confidence: float) -> Comparison:
    """Compare one list; its interval and its test are corrected for all four."""
    length = max(1, math.ceil(share * len(score)))
    listed = score >= np.partition(score, -length)[-length]
    compared = compare(name, listed[:members], listed[members:], confidence=_of_four(confidence))
    at = compared.at
    return replace(
        compared,
        difference=replace(compared.difference, confidence=confidence),
        at=None if at is None else lambda level: at(_of_four(level)),
        exact=None if compared.exact is None else min(1.0, len(SHARES) * compared.exact),
    )


def _of_four(confidence: float) -> float:
    return 1 - (1 - confidence) / len(SHARES)

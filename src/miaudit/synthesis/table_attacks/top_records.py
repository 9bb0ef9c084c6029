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
    units, note : as of :func:`~miaudit.synthesis.table_attacks.success_rates.compare`

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
    tried = [_list(name, score, members, share, confidence, units, note) for share in SHARES]
    if units is None:
        return min(tried, key=lambda one: 1.0 if one.exact is None else one.exact)
    return max(tried, key=lambda one: one.difference.low)


def _list(
    name: str,
    score: FloatArray,
    members: int,
    share: float,
    confidence: float,
    units: Units | None,
    note: str,
) -> Comparison:
    """Compare one list; its interval and its test are corrected for all four."""
    length = max(1, math.ceil(share * len(score)))
    listed = score >= np.partition(score, -length)[-length]
    compared = compare(
        name,
        listed[:members],
        listed[members:],
        confidence=_of_four(confidence),
        note=f"{listed.sum():,} records with the highest score{note and ' '}{note} ({percent(share)})",
        units=units,
    )
    at = compared.at
    return replace(
        compared,
        difference=replace(compared.difference, confidence=confidence),
        at=None if at is None else lambda level: at(_of_four(level)),
        exact=None if compared.exact is None else min(1.0, len(SHARES) * compared.exact),
    )


def _of_four(confidence: float) -> float:
    return 1 - (1 - confidence) / len(SHARES)

"""Influence of each record on a metric, and how two estimates that share records go up and down together.

The influence of a record is what it adds to the error of an estimate, to first order: the values of all records add up
to 0, and the sum of their squares estimates the variance. Two audits that share records share part of their errors,
and the correlation of the two follows from the influence that each record has in both.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from miaudit.arrays import BoolArray, FloatArray, IndexArray, IntArray
from miaudit.metrics.roc import Roc, allowed_alarms

_ROUNDING = 1e-30  # a variance below it is rounding error: one comparison among 1e7 records gives 1e-28
_CANCELLED = 1e-24  # likewise, as a share of the square of the largest possible sum


def on_auc(roc: Roc, member: BoolArray, ascending: IndexArray) -> FloatArray:
    """Return the influence (n,) of each record on the AUC (Obuchowski 1997), ties counting one half.

    With F0 and F1 the distributions of the scores of non-members and members, it is (F0(x) - AUC) / n1 for a member and
    (1 - F1(x) - AUC) / n0 for a non-member.

    Parameters
    ----------
    roc : unweighted curve over the records
    member : array (n,)
    ascending : rows (n,) from the lowest score to the highest

    Examples
    --------
    >>> score, member = np.array([3.0, 2.0, 1.0]), np.array([True, False, True])
    >>> on_auc(Roc.of(score, member), member, np.argsort(score)).tolist()
    [0.25, 0.0, -0.25]
    """
    fpr, tpr = roc.fpr, roc.tpr
    below = (1 - (fpr[1:] + fpr[:-1]) / 2 - roc.auc) / roc.n_members
    above = ((tpr[1:] + tpr[:-1]) / 2 - roc.auc) / roc.n_nonmembers
    return _of_rows(roc, member, ascending, below, above)


def on_tpr(roc: Roc, member: BoolArray, ascending: IndexArray, fpr: float) -> FloatArray:
    """Return the influence (n,) of each record on the TPR at an FPR a.

    It is (1{accused} - TPR) / n1 for a member, and -L (1{accused} - a) / n0 for a non-member, which moves the
    threshold. L is the slope of the curve, (TPR(2a) - TPR(a/2)) / (1.5 a), at least 0. Of a block of equal scores at
    the threshold a share is accused.

    Parameters
    ----------
    roc, member, ascending : as of :func:`on_auc`
    fpr : a, in (0, 1)
    """
    n1, n0, alarms = roc.n_members, roc.n_nonmembers, roc.false_positive
    allowed = float(allowed_alarms(fpr, n0))
    last = int(np.searchsorted(alarms, allowed, side="right")) - 1
    accused = np.zeros(len(alarms) - 1)
    accused[:last] = 1.0
    hits = float(roc.true_positive[last])
    if last < len(accused):
        accused[last] = (allowed - alarms[last]) / (alarms[last + 1] - alarms[last])
        hits += float(accused[last] * (roc.true_positive[last + 1] - hits))
    tpr = hits / n1
    slope = slope_at(roc, fpr)
    return _of_rows(roc, member, ascending, (accused - tpr) / n1, -slope * (accused - allowed / n0) / n0)


def slope_at(roc: Roc, fpr: float) -> float:
    """Return the slope of a curve at an FPR a, (TPR(2a) - TPR(a/2)) / (1.5 a), at least 0."""
    wide, narrow = min(2 * fpr, 1.0), fpr / 2
    return max(0.0, float(roc.tpr_at(wide) - roc.tpr_at(narrow)) / (wide - narrow))


def on_difference(score: FloatArray, member: BoolArray) -> FloatArray:
    """Return the influence (n,) of each record on the mean score of members less that of non-members."""
    influence = np.empty(len(score))
    for rows, sign in ((member, 1.0), (~member, -1.0)):
        influence[rows] = sign * (score[rows] - score[rows].mean()) / np.count_nonzero(rows)
    return influence


def _of_rows(roc: Roc, member: BoolArray, ascending: IndexArray, inside: FloatArray, outside: FloatArray) -> FloatArray:
    """Give each row (n,) the value of its vertex (k,): of members the first, of non-members the second."""
    falling = ascending[::-1]
    at_vertex = (np.diff(roc.true_positive) + np.diff(roc.false_positive)).astype(np.intp)
    influence = np.empty(len(falling))
    influence[falling] = np.where(member[falling], np.repeat(inside, at_vertex), np.repeat(outside, at_vertex))
    return influence


@dataclass(frozen=True, eq=False)
class Shared:
    """Which records, or units, of two audits are the same.

    Attributes
    ----------
    before, after : arrays (n,) and (m,) of int, 0 to ``count`` - 1
        Equal numbers are one record or unit; a number that only one side has is in one audit only.
    ambiguous : array (count,) of bool
        Numbers that stand for several records, of which it is unknown which is which.
    """

    before: IntArray
    after: IntArray
    ambiguous: BoolArray

    @property
    def both(self) -> int:
        """How many are known to be in both audits."""
        sides = [np.bincount(code, minlength=len(self.ambiguous)) > 0 for code in (self.before, self.after)]
        return int(np.count_nonzero(sides[0] & sides[1] & ~self.ambiguous))

    def correlation(self, before: FloatArray, after: FloatArray) -> float:
        """Return the correlation of the errors of two estimates, by the influence (n,) and (m,) of their records.

        The influence of a unit is the sum over its records; one that an audit lacks has none in it. Records that cannot
        be told apart count as opposed as far as they can be. Where the influence is 0 altogether, nothing is known of
        the errors, and the answer is -1: as opposed as can be.

        Examples
        --------
        >>> shared = Shared(np.array([0, 1, 2]), np.array([2, 1, 3]), np.zeros(4, bool))
        >>> round(shared.correlation(np.array([1.0, -1.0, 0.0]), np.array([0.0, 1.0, -1.0])), 3)
        -0.5
        """
        parts, count = [], len(self.ambiguous)
        for code, influence in ((self.before, before), (self.after, after)):
            total = np.bincount(code, weights=influence, minlength=count)
            squares = np.bincount(code, weights=influence * influence, minlength=count)
            square = float(np.where(self.ambiguous, squares, total * total).sum())
            if square <= max(_ROUNDING, _CANCELLED * float(np.abs(influence).sum()) ** 2):
                return -1.0
            parts.append((total, squares, square))
        (first, first_squares, one), (second, second_squares, other) = parts
        opposed = -np.sqrt(first_squares * second_squares)
        together = float(np.where(self.ambiguous, opposed, first * second).sum())
        return min(1.0, max(-1.0, together / math.sqrt(one * other)))

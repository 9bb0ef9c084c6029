"""Whether chance explains equal records of a member and a non-member: it does where records are few and coarse.

Take the contents that exactly two records have. Let E20, E11 and E02 be how many of these are expected to be of two
members, of one of each, and of two non-members. Counts of independent records of a content are Poisson with means a and
b, so that E11 = sum a b exp(-a - b), E20 = sum a^2 exp(-a - b) / 2, and E02 likewise. By Cauchy and Schwarz,
E11 <= 2 sqrt(E20 E02), **however members and non-members differ**. More pairs of one of each than that are records that
stand on both sides. This is an excess of heterozygotes in the terms of Hardy and Weinberg, which has an exact test.
"""

from __future__ import annotations

import math

import numpy as np

from miaudit.arrays import BoolArray, FloatArray, IntArray

__all__ = ["beyond_chance", "excess_p_value", "expected_pairs"]

_LEVEL = 0.01
_COARSE = 0.5  # equal pairs across the classes that columns give which have nothing to do with each other
_MOST_TERMS = 20  # of a Poisson count with a mean under one half: what is left out is nothing
_NEAR_CELLS = 4  # rounded values that are equal or near: the same, and those next to it
_ENOUGH = 8  # contents of two records that the exact test can refute


def expected_pairs(x: FloatArray, member: BoolArray) -> float:
    """Return how many equal pairs of a member and a non-member columns (n, d) give if they are independent.

    Columns that depend on each other give more.

    Examples
    --------
    >>> sex, member = np.arange(40.0) % 2, np.arange(40) < 20
    >>> expected_pairs(sex[:, None], member)
    200.0
    """
    pairs = float(np.count_nonzero(member)) * float(np.count_nonzero(~member))
    for column in x.T:
        levels, place = np.unique(column, return_inverse=True)
        inside, outside = (np.bincount(place[kind], minlength=len(levels)) for kind in (member, ~member))
        pairs *= float(inside @ outside) / (float(inside.sum()) * float(outside.sum()))
    return pairs


def excess_p_value(members: int, across: int, nonmembers: int) -> float:
    """Return the chance of so many mixed pairs or more, given how many records of each class the pairs have.

    Parameters
    ----------
    members, across, nonmembers : contents of two members, of a member and a non-member, of two non-members

    Notes
    -----
    P(h) is proportional to 2^h / (h! ((a - h) / 2)! ((b - h) / 2)!) with a and b the records of each class (Levene
    1949; Wigginton et al. 2005). O(number of pairs).

    Examples
    --------
    >>> round(excess_p_value(0, 10, 0), 4), excess_p_value(5, 0, 5)
    (0.0055, 1.0)
    """
    a, b = 2 * members + across, 2 * nonmembers + across
    mixed = np.arange(a % 2, min(a, b) + 1, 2)
    log = np.array(
        [
            h * math.log(2) - math.lgamma(h + 1) - math.lgamma((a - h) / 2 + 1) - math.lgamma((b - h) / 2 + 1)
            for h in mixed.tolist()
        ]
    )
    weight = np.exp(log - log.max())
    return min(1.0, float(weight[mixed >= across].sum() / weight.sum()))


def beyond_chance(m: IntArray, o: IntArray, expected: float, *, across: int, alike: int, near: float = 0.0) -> bool:
    """Return whether twins across the classes are more than chance explains.

    Parameters
    ----------
    m, o : arrays (k,), members and non-members with each distinct content
    expected : equal pairs, of :func:`expected_pairs`
    across, alike : members with a twin among the non-members, and among the other members, equal or near
    near : near twins that chance gives in a smooth density; rounded values give some for each equal pair too

    Notes
    -----
    Where equal records are rare by chance (under half a pair expected, and hardly any within a class), there have to be
    more twins than among the members. The equal ones, or all of them, have to be so many that their number has a
    probability under 1% as a Poisson count. Elsewhere the exact test decides, at 1%.
    """
    two = m + o == 2
    counts = [int(np.count_nonzero(two & (m == k))) for k in (2, 1, 0)]
    within = counts[0] + counts[2]
    if expected >= _COARSE or (within and sum(counts) >= _ENOUGH):
        return excess_p_value(*counts) < _LEVEL
    equal = int(m[o > 0].sum())
    return across > alike and min(_at_least(equal, expected), _at_least(across, _NEAR_CELLS * expected + near)) < _LEVEL


def _at_least(count: int, expected: float) -> float:
    """Return the probability of so many or more of a Poisson count, for a small expected count."""
    return 1 - math.exp(-expected) * sum(expected**k / math.factorial(k) for k in range(min(count, _MOST_TERMS)))

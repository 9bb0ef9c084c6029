"""One chance of a false alarm for all releases of a model together, however many there will be.

An audit of one release raises a false alarm in 5% of cases, so 40 releases raise at least one in 87% of lives. The rule
here spends one budget B over all releases. Release i = 0, 1, ... has the share g_i, and all shares sum to less than 1.

- Releases that share members: the alarm is p_i <= B g_i. The union bound holds under any dependence.
- Fresh random memberships at every release, so that each p-value is valid given the past: half of the budget is spent
  like this, and the other half goes to S_i = (S_(i-1) + g_i) e_i with the bets e_i on small p-values, which gathers
  evidence over releases. S_i plus the shares to come is a supermartingale that starts at no more than 1, so it reaches
  2/B with a probability of at most B/2 (Ville's inequality).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from miaudit.arrays import Share
from miaudit.errors import InputError
from miaudit.errors.checks import is_number

__all__ = ["BETS", "SpentShare", "alarms", "check_budget", "share"]

BETS = (0.3, 0.5, 0.7)  # exponents k of the bets k p^(k - 1), of which e is the mean
_SCALE = 3.39  # with it the shares sum to .9993
_SMALLEST = 1e-300  # below it a p-value counts as this


@dataclass(frozen=True)
class SpentShare:
    """What the rule makes of one release.

    Attributes
    ----------
    spent : part of the budget that this release takes, B g_i
    left : of the budget after it, for all releases to come
    threshold : the p-value at or below which this release alone raises an alarm
    gathered : S_i, which raises an alarm at 2/B; None where releases share members
    alarm : whether one of the two does
    """

    spent: Share
    left: Share
    threshold: Share
    gathered: float | None
    alarm: bool


def share(release: int) -> float:
    """Return the share g of the budget that goes to a release, numbered from 0.

    Examples
    --------
    >>> [round(share(i), 4) for i in (0, 1, 39)]
    [0.614, 0.1222, 0.0005]
    """
    return 1 / (_SCALE * (release + 1) * math.log(release + 2) ** 2)


def check_budget(budget: float) -> float:
    """Return a budget.

    Raises
    ------
    InputError
        Outside (0, 0.5].
    """
    if not is_number(budget) or not 0 < budget <= 0.5:
        raise InputError("budget", "a probability in (0, 0.5]", repr(budget)[:40], "0.05 is customary")
    return float(budget)


def alarms(p_values: Sequence[float], budget: float, *, fresh: bool) -> tuple[SpentShare, ...]:
    """Apply the rule to the p-values of all releases.

    Parameters
    ----------
    p_values : of "no limit is exceeded", one for each release, oldest first, in [0, 1]
        With fresh memberships each must be valid given all earlier releases, else each for itself.
    budget : probability of one or more false alarms over the whole life, in (0, 0.5]
    fresh : whether every release has new random memberships, independent of all earlier ones

    Raises
    ------
    InputError
        For a budget or a p-value outside its range.

    Examples
    --------
    >>> [one.alarm for one in alarms([0.2, 0.02, 0.004, 0.003], 0.05, fresh=True)]
    [False, False, False, True]
    >>> [one.alarm for one in alarms([0.2, 0.02, 0.004, 0.003], 0.05, fresh=False)]
    [False, False, False, False]
    """
    total, gathered, spent, rows = check_budget(budget), 0.0, 0.0, list[SpentShare]()
    for i, p in enumerate(p_values):
        if not is_number(p) or not 0 <= p <= 1:
            raise InputError("p_values", "numbers in [0, 1]", repr(p)[:40], "state 1 for a release without an answer")
        part = total * share(i)
        threshold = part / 2 if fresh else part
        alarm, spent = p <= threshold, spent + part
        if fresh:
            gathered = (gathered + share(i)) * _evidence(p)
            alarm = alarm or gathered >= 2 / total
        rows.append(SpentShare(part, total - spent, threshold, gathered if fresh else None, alarm))
    return tuple(rows)


def _evidence(p: float) -> float:
    """Return the mean of the bets on a p-value; its expectation is at most 1 where nothing leaks."""
    return math.fsum(k * max(p, _SMALLEST) ** (k - 1) for k in BETS) / len(BETS)

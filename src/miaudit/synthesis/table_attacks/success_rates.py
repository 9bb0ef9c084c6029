"""Success rates of an attack on members and on held-out control records, compared.

What is right about both is knowledge of the population, which a useful table cannot but give; only what is right more
often about members is a leak about them (Giomi et al., PETS 2023).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike

from miaudit.arrays import BoolArray
from miaudit.errors import InputError
from miaudit.metrics.classical import Estimate, clopper_pearson, joined, wilson_limits
from miaudit.metrics.units import Units

_FEW = 10


@dataclass(frozen=True)
class Rate:
    """Share of right trials with Wilson's limits, or exact ones for few right or wrong trials.

    Wilson's lower limit of a rare rate is too high: with 50 members and 5,000 control records that a table copies
    equally often, 0.1%, the difference would be above zero in 5% of tables, nominally in 0.5%.

    Examples
    --------
    >>> rate = Rate.of([True, False, False, False])
    >>> rate.value, round(rate.low, 3), round(rate.high, 3)
    (0.25, 0.006, 0.806)
    """

    right: int
    trials: int
    low: float
    high: float

    @classmethod
    def of(cls, right: ArrayLike, confidence: float = 0.95, independent: float | None = None) -> Rate:
        """Count right trials (k,) of bool; ``independent`` as in :meth:`counted`."""
        outcomes = np.asarray(right, dtype=np.bool_)
        return cls.counted(int(np.count_nonzero(outcomes)), outcomes.size, confidence, independent)

    @classmethod
    def counted(cls, right: int, trials: int, confidence: float = 0.95, independent: float | None = None) -> Rate:
        """Return the rate of counts; without trials the limits are 0 and 1.

        ``independent`` trials, fewer where several are of one unit, are those that the limits count; default all.
        """
        counted = trials if independent is None else independent
        if not trials:
            return cls(right, trials, 0.0, 1.0)
        rate = right / trials
        low, high = wilson_limits(rate, counted, confidence)
        exact = clopper_pearson(rate * counted, counted, confidence)
        low = min(low, exact[0]) if rate * counted < _FEW else low
        return cls(right, trials, low, max(high, exact[1]) if (1 - rate) * counted < _FEW else high)

    @property
    def value(self) -> float:
        """Share of right trials; NaN without a trial."""
        return self.right / self.trials if self.trials else math.nan


@dataclass(frozen=True)
class Comparison:
    """Success of one attack on members against that on control records.

    Attributes
    ----------
    attack : "copies", "singling out, univariate", "linkability", "inference: income", ...
    members, control : rates of success
    difference : of the two rates, with its interval; above 0 the table gives away its members
    risk : share of what the population does not give away anyway that the attack finds in members:
        (members - control) / (1 - control), with its interval (Giomi et al., Eq. (1)); no value where the attack is
        always right about control records
    by_chance : how often a guess that ignores the record, made from the synthetic table alone, is right; None where the
        attack has no such guess. An attack that is no better has shown nothing about the table
    note : what must be said with the numbers
    """

    attack: str
    members: Rate
    control: Rate
    difference: Estimate
    risk: Estimate
    by_chance: Rate | None = None
    note: str = ""

    @property
    def leaks(self) -> bool:
        """Whether the lower limit of the difference is above 0."""
        return self.difference.low > 0

    @property
    def weak(self) -> bool:
        """Whether the attack is no better than a guess on members, so that no difference reassures."""
        return self.by_chance is not None and self.members.value <= self.by_chance.value


def compare(
    attack: str,
    members: ArrayLike,
    control: ArrayLike,
    *,
    confidence: float = 0.95,
    by_chance: Rate | None = None,
    note: str = "",
    units: Units | None = None,
) -> Comparison:
    """Compare success on members (n1,) of bool with that on control records (n0,) of bool.

    Trials are of different records and so independent, given the synthetic table, unless several records are of one
    unit: then ``units`` of the n1 + n0 records, members first, says which. The interval of the difference is
    Newcombe's (1998), that of the risk Donner and Zou's (2012) for a ratio of rates; both join the limits of
    :class:`Rate`. With units these are of :meth:`~miaudit.metrics.units.Units.independent_trials`, and two rates that
    oppose each other in units of both classes are joined with that. Where few units hold most of a class (Kish's number
    is below half of them), the limits also hold those of one record of each unit: one giant's luck is no rate.

    Raises
    ------
    InputError
        If one of the two has no trial.

    Examples
    --------
    >>> found = compare("copies", [True] * 10 + [False] * 90, [True] * 2 + [False] * 98)
    >>> round(found.difference.value, 3), round(found.difference.low, 3), found.leaks
    (0.08, 0.013, True)
    >>> round(found.risk.value, 3), round(found.risk.low, 3), round(found.risk.high, 3)
    (0.082, 0.014, 0.159)
    >>> fives = Units.of_classes(np.arange(100) // 5, 100 + np.arange(100) // 5)  # households of five rows
    >>> compare("copies", [True] * 10 + [False] * 90, [True] * 2 + [False] * 98, units=fives).leaks
    False
    """
    counted: dict[str, float | None] = {"members": None, "control": None}
    opposed = 0.0
    hit = np.concatenate([np.asarray(given, dtype=np.bool_).ravel() for given in (members, control)])
    if units is not None and np.size(members) and np.size(control):
        counted = {name: units.independent_trials(hit, members=name == "members") for name in counted}
        opposed = units.opposition(hit)
    inside = Rate.of(members, confidence, counted["members"])
    outside = Rate.of(control, confidence, counted["control"])
    for name, rate in (("members", inside), ("control", outside)):
        if not rate.trials:
            raise InputError(name, f"at least one record for {attack}", "none", "leave the attack out")
    difference, risk = _difference(inside, outside, confidence, opposed), _risk(inside, outside, confidence, opposed)
    if units is not None and (
        units.effective_members < units.members / 2 or units.effective_nonmembers < units.nonmembers / 2
    ):
        first = np.unique(units.code, return_index=True)[1]
        kept = first[units.member[first]], first[~units.member[first]]
        difference, risk = _with_one_each(hit[kept[0]], hit[kept[1]], difference, risk)
    return Comparison(attack, inside, outside, difference, risk, by_chance, note)


def _with_one_each(
    members: BoolArray, control: BoolArray, difference: Estimate, risk: Estimate
) -> tuple[Estimate, Estimate]:
    """Widen two intervals to include those of one record of each unit."""
    if not len(members) or not len(control):
        return replace(difference, low=-1.0, high=1.0), replace(risk, low=-math.inf, high=1.0)
    alone = compare("", members, control, confidence=difference.confidence)
    wider = (
        replace(one, low=min(one.low, other.low), high=max(one.high, other.high))
        for one, other in ((difference, alone.difference), (risk, alone.risk))
    )
    return next(wider), next(wider)


def _difference(inside: Rate, outside: Rate, confidence: float, opposed: float) -> Estimate:
    value = inside.value - outside.value
    low = value - joined(inside.value - inside.low, outside.high - outside.value, opposed)
    high = value + joined(inside.high - inside.value, outside.value - outside.low, opposed)
    return Estimate(value, max(low, -1.0), min(high, 1.0), confidence)


def _risk(inside: Rate, outside: Rate, confidence: float, opposed: float) -> Estimate:
    """Return 1 - q1/q0 with q the rates of failure, with limits of a ratio (MOVER-R)."""
    q1, q0 = 1 - inside.value, 1 - outside.value
    if q0 <= 0:
        return Estimate(None, -math.inf, 1.0, confidence, "the attack is always right about control records too")
    (l1, u1), (l0, u0) = (1 - inside.high, 1 - inside.low), (1 - outside.high, 1 - outside.low)
    middle = q1 * q0 + opposed * (q1 - l1) * (u0 - q0)
    low = (middle - math.sqrt(max(middle**2 - l1 * u0 * (2 * q1 - l1) * (2 * q0 - u0), 0.0))) / (u0 * (2 * q0 - u0))
    below = l0 * (2 * q0 - l0)
    high = math.inf
    if below > 0:
        middle = q1 * q0 + opposed * (u1 - q1) * (q0 - l0)
        high = (middle + math.sqrt(max(middle**2 - u1 * l0 * (2 * q1 - u1) * (2 * q0 - l0), 0.0))) / below
    return Estimate(1 - q1 / q0, 1 - high, 1 - max(low, 0.0), confidence)

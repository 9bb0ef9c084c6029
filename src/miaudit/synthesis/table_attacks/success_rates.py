"""Success rates of an attack on members and on held-out control records, compared.

What is right about both is knowledge of the population, which a useful table cannot but give; only what is right more
often about members is a leak about them (Giomi et al., PETS 2023).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from miaudit.arrays import BoolArray
from miaudit.errors import InputError
from miaudit.findings import table as found
from miaudit.metrics.classical import Estimate, clopper_pearson, joined, wilson_limits
from miaudit.metrics.units import Units

_FEW = 10
LEVEL, POWER = 0.05, 0.8  # of the smallest excess that an attack could have detected, one-sided
_AT_LEVEL, _AT_POWER = (float(special.ndtri(share)) for share in (1 - LEVEL, POWER))
_NORMAL = 1.959963984540054  # half-width of a 95% interval in standard errors
_SMALLEST_LEVEL, _STEPS = 1e-12, 40
_MOST_MEMBERS = 10**8
_NEARLY = 1e-9  # of a count that rounding made a little too small


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
        if not trials:
            return cls(right, trials, 0.0, 1.0)
        return cls(
            right, trials, *cls.share(right / trials, trials if independent is None else independent, confidence)
        )

    @staticmethod
    def share(rate: float, trials: float, confidence: float) -> tuple[float, float]:
        """Return the limits of a share of so many independent trials, which need not be whole numbers."""
        low, high = wilson_limits(rate, trials, confidence)
        exact = clopper_pearson(rate * trials, trials, confidence)
        low = min(low, exact[0]) if rate * trials < _FEW else low
        return low, max(high, exact[1]) if (1 - rate) * trials < _FEW else high

    @property
    def value(self) -> float:
        """Share of right trials; NaN without a trial."""
        return self.right / self.trials if self.trials else math.nan

    def shown(self) -> found.Rate:
        """Return the plain values for the findings."""
        return found.Rate(self.right, self.trials, self.value if self.trials else None, self.low, self.high)


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
    at : function of a confidence that returns the interval of the difference at it; None where there was no trial
    exact : one-sided p-value of Fisher's test of no difference; None where several records are of one unit
    least : excess whose 20% quantile has a lower limit above 0, by the binomial error at that excess
    by_chance : how often a guess that ignores the record, made from the synthetic table alone, is right; None where the
        attack has no such guess. An attack that is not better shows nothing about the table
    note : what a report of the numbers must state
    """

    attack: str
    members: Rate
    control: Rate
    difference: Estimate
    risk: Estimate
    at: Callable[[float], Estimate] | None
    exact: float | None = None
    least: float = 1.0
    by_chance: Rate | None = None
    note: str = ""

    @property
    def leaks(self) -> bool:
        """Whether the lower limit of the difference is above 0."""
        return self.difference.low > 0

    @property
    def weak(self) -> bool:
        """Whether the attack on members is not better than a guess, so that no difference reassures."""
        return self.by_chance is not None and self.members.value <= self.by_chance.value

    def exceeds(self, limit: float, confidence: float) -> bool:
        """Whether the lower limit at a confidence is above a limit, and Fisher's test agrees, where there is one.

        The test is exact where members and control records are a random split. The interval alone rejects too often
        where few trials succeed.

        Examples
        --------
        >>> few = [compare("copies", [True] * k + [False] * (100 - k), [True] * 2 + [False] * 98) for k in (9, 10)]
        >>> [(one.leaks, one.exceeds(0.0, 0.95)) for one in few]
        [(True, False), (True, True)]
        """
        return self.low_at(confidence) > limit and (self.exact is None or self.exact <= (1 - confidence) / 2)

    def low_at(self, confidence: float) -> float:
        """Lower limit of the difference at another two-sided confidence; -1 without a trial."""
        return -1.0 if self.at is None else self.at(confidence).low

    def p_value(self, threshold: float) -> float | None:
        """Smallest one-sided level at which the lower limit is above a threshold, in [1e-12, 0.5] or 1; by bisection.

        None without a trial, 1 where the difference itself is not above the threshold.

        Examples
        --------
        >>> comparison = compare("copies", [True] * 10 + [False] * 90, [True] * 2 + [False] * 98)
        >>> comparison.p_value(0.2), 0.0003 < comparison.p_value(0.0) < 0.025
        (1.0, True)
        """
        if self.at is None or self.difference.value is None:
            return None
        if self.difference.value <= threshold:
            return 1.0
        refused, accepted = math.log(_SMALLEST_LEVEL), math.log(0.5)
        for _ in range(_STEPS):
            middle = (refused + accepted) / 2
            above = self.low_at(1 - 2 * math.exp(middle)) > threshold
            refused, accepted = (refused, middle) if above else (middle, accepted)
        return math.exp(accepted)

    @property
    def detectable(self) -> float | None:
        """Smallest excess that this many trials detect in four of five cases, by a one-sided test at 5%; None if none.

        That is 1.645 + 0.842 = 2.49 standard errors of the difference, or more where the excess itself makes the error
        larger, as where few trials succeed: then it is the excess whose 20% quantile has a lower limit above 0. 1.0
        where no excess would be detected.

        Examples
        --------
        >>> comparison = compare("linkability", [True] * 500 + [False] * 500, [True] * 500 + [False] * 500)
        >>> round(comparison.detectable, 4), round(2.49 * (0.5 / 1000) ** 0.5, 4)
        (0.0555, 0.0557)
        """
        if self.at is None:
            return None
        plain = self.at(0.95)
        error = (plain.high - plain.low) / (2 * _NORMAL)
        return min(max((_AT_LEVEL + _AT_POWER) * error, self.least), 1.0)


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
    >>> comparison = compare("copies", [True] * 10 + [False] * 90, [True] * 2 + [False] * 98)
    >>> round(comparison.difference.value, 3), round(comparison.difference.low, 3), comparison.leaks
    (0.08, 0.013, True)
    >>> round(comparison.risk.value, 3), round(comparison.risk.low, 3), round(comparison.risk.high, 3)
    (0.082, 0.014, 0.159)
    >>> fives = Units.of_classes(np.arange(100) // 5, 100 + np.arange(100) // 5)  # households of five rows
    >>> compare("copies", [True] * 10 + [False] * 90, [True] * 2 + [False] * 98, units=fives).leaks
    False
    """
    hit = np.concatenate([np.asarray(side, dtype=np.bool_).ravel() for side in (members, control)])
    n1 = np.size(members)
    for name, count in (("members", n1), ("control", len(hit) - n1)):
        if not count:
            raise InputError(name, f"at least one record for {attack}", "none", "leave the attack out")
    trials = _Trials.of(hit, n1, units)
    difference, risk = trials.limits(confidence)
    inside, outside = trials.rates(confidence)
    return Comparison(
        attack=attack,
        members=inside,
        control=outside,
        difference=difference,
        risk=risk,
        at=lambda level: trials.limits(level)[0],
        exact=_fisher(trials.right, trials.trials) if units is None else None,
        least=trials.least(),
        by_chance=by_chance,
        note=note,
    )


def _fisher(right: tuple[int, int], trials: tuple[int, int]) -> float:
    """Return the chance that of all right trials as many or more are of members, were labels drawn at random."""
    from scipy import stats  # noqa: PLC0415 - heavy, and only needed here

    return float(stats.hypergeom.sf(right[0] - 1, sum(trials), sum(right), trials[0]))


@dataclass(frozen=True)
class _Trials:
    """Counts of an attack on members and control records, from which limits follow at any confidence.

    ``right``, ``trials`` and ``independent`` (None: all of them) hold a number of each class, ``opposed`` is how far
    the rates oppose each other in units of both classes. ``one_each`` counts one record of each unit, where few units
    hold most of a class; its trials may be none.
    """

    right: tuple[int, int]
    trials: tuple[int, int]
    independent: tuple[float | None, float | None] = (None, None)
    opposed: float = 0.0
    one_each: _Trials | None = None

    @classmethod
    def of(cls, hit: BoolArray, n1: int, units: Units | None) -> _Trials:
        right = int(np.count_nonzero(hit[:n1])), int(np.count_nonzero(hit[n1:]))
        trials = n1, len(hit) - n1
        if units is None:
            return cls(right, trials)
        independent = units.independent_trials(hit, members=True), units.independent_trials(hit, members=False)
        alone = None
        if units.effective_members < units.members / 2 or units.effective_nonmembers < units.nonmembers / 2:
            first = np.unique(units.code, return_index=True)[1]
            firsts = first[units.member[first]], first[~units.member[first]]
            alone = cls.of(hit[np.concatenate(firsts)], len(firsts[0]), None)
        return cls(right, trials, independent, units.opposition(hit), alone)

    def rates(self, confidence: float) -> tuple[Rate, Rate]:
        inside, outside = (
            Rate.counted(right, trials, confidence, counted)
            for right, trials, counted in zip(self.right, self.trials, self.independent, strict=True)
        )
        return inside, outside

    def limits(self, confidence: float) -> tuple[Estimate, Estimate]:
        """Return the difference of the rates and the risk, with their intervals."""
        inside, outside = self.rates(confidence)
        limits = (
            _difference(inside, outside, confidence, self.opposed),
            _risk(inside, outside, confidence, self.opposed),
        )
        if self.one_each is None:
            return limits
        if not all(self.one_each.trials):
            return replace(limits[0], low=-1.0, high=1.0), replace(limits[1], low=-math.inf, high=1.0)
        wider = [
            replace(one, low=min(one.low, other.low), high=max(one.high, other.high))
            for one, other in zip(limits, self.one_each.limits(confidence), strict=True)
        ]
        return wider[0], wider[1]

    def least(self) -> float:
        """Return the smallest excess whose 20% quantile has a lower limit above 0 at a one-sided level of 5%; else 1.

        The control records keep their rate, and the members' is that plus the excess.
        """
        n1, n0 = (t if k is None else k for t, k in zip(self.trials, self.independent, strict=True))
        rate = self.right[1] / self.trials[1]

        def detected(excess: float) -> bool:
            variance = (rate + excess) * (1 - rate - excess) / n1 + rate * (1 - rate) / n0
            return _detected(excess, rate, n1, n0, LEVEL, _AT_POWER * math.sqrt(max(variance, 0.0)), self.opposed)

        small, large = 0.0, 1.0 - rate
        if not detected(large):
            return 1.0
        for _ in range(_STEPS):
            middle = (small + large) / 2
            small, large = (small, middle) if detected(middle) else (middle, large)
        return large


def _detected(
    excess: float, rate: float, n1: float, n0: float, level: float, luck: float, opposed: float = 0.0
) -> bool:
    """Return whether an excess over the control records' rate is seen after luck took so much from it."""
    confidence = 1 - 2 * level
    outside = Rate.share(rate, n0, confidence)
    seen = min(max(rate + excess - luck, 0.0), 1.0)
    inside = Rate.share(seen, n1, confidence)
    return seen - rate > joined(seen - inside[0], outside[1] - rate, opposed)


def members_needed(excess: float, *, rate: float, ratio: float, level: float, power: float) -> int | None:
    """Smallest number of members of which a planted excess is seen with some power, at a one-sided level.

    Parameters
    ----------
    excess : share of the members for which the attack succeeds because of what was planted, in (0, 1)
    rate : of success on all other records
    ratio : control records for each member
    level, power : of the one-sided test

    Returns
    -------
    int, or None where 10^8 members are too few

    Examples
    --------
    >>> members_needed(0.05, rate=0.5, ratio=1.0, level=0.025, power=0.8)  # 2 (1.96 + 0.84)^2 / 4 / 0.05^2 = 1,570
    1620
    >>> members_needed(0.01, rate=0.0, ratio=1.0, level=0.025, power=0.95)  # six copies against none
    600
    """
    quantile = float(special.ndtri(power))

    def detected(n1: int) -> bool:
        luck = quantile * math.sqrt(rate * (1 - rate) * (1 + 1 / ratio) / n1)
        seen = min(excess, 1 - rate)
        right = math.floor(n1 * min(max(rate + seen - luck, 0.0), 1.0) + _NEARLY), round(n1 * ratio * rate)
        by_test = _fisher(right, (n1, max(round(n1 * ratio), 1))) <= level
        return by_test and _detected(seen, rate, n1, n1 * ratio, level, luck)

    large = 2
    while not detected(large):
        large *= 2
        if large > _MOST_MEMBERS:
            return None
    small = large // 2
    while large - small > 1:
        middle = (small + large) // 2
        small, large = (small, middle) if detected(middle) else (middle, large)
    return large


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

"""The alarm budget: a slow twin, closed forms, the rate of false alarms over 40 releases, and its controls."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest

from miaudit.errors import InputError
from miaudit.metrics.alarm_budget import BETS, alarms, check_budget, share

RELEASES, BUDGET = 40, 0.05


def slowly(p_values: list[float], budget: float, *, fresh: bool) -> list[bool]:
    """The rule from its definition: evidence is a sum over the release at which a leak may have begun."""
    rows = []
    for i, p in enumerate(p_values):
        weight = 1 / (3.39 * (i + 1) * math.log(i + 2) * math.log(i + 2))
        begun = 0.0
        for j in range(i + 1):
            product = 1 / (3.39 * (j + 1) * math.log(j + 2) ** 2)
            for q in p_values[j : i + 1]:
                product *= (0.3 * q**-0.7 + 0.5 * q**-0.5 + 0.7 * q**-0.3) / 3
            begun += product
        rows.append(p <= budget * weight / 2 or begun >= 2 / budget if fresh else p <= budget * weight)
    return rows


@pytest.mark.parametrize("fresh", [False, True])
def test_the_rule_is_that_of_its_slow_twin(fresh: bool) -> None:
    rng = np.random.default_rng(0)
    raised = 0
    for _ in range(200):
        p = (rng.random(12) ** rng.choice([1, 3, 6])).tolist()
        found = [one.alarm for one in alarms(p, BUDGET, fresh=fresh)]
        assert found == slowly(p, BUDGET, fresh=fresh)
        raised += any(found)
    assert 20 < raised < 180  # else nothing was compared


def test_the_shares_sum_to_less_than_one_over_an_endless_life() -> None:
    """The tail beyond n lies between the integrals of 1/(x ln^2 x) from n + 1 and from n: the sum is known to 1e-6."""
    n = 200_000
    i = np.arange(n)
    head = float(np.sum(1 / (3.39 * (i + 1) * np.log(i + 2) ** 2)))
    assert head == pytest.approx(sum(share(k) for k in range(n)), abs=1e-9)
    assert 0.999 < head + 1 / (3.39 * math.log(n + 2)) < head + 1 / (3.39 * math.log(n)) < 0.9994


def test_a_bet_is_fair_for_a_uniform_p_value() -> None:
    """Closed form: the integral of k p^(k - 1) over [0, 1] is 1 for each k."""
    for k in BETS:
        edges = np.linspace(0, 1, 10_001)
        assert np.sum(np.diff(edges**k)) == pytest.approx(1.0)
    one = alarms([0.25], BUDGET, fresh=True)[0]
    exact = sum(k * 0.25 ** (k - 1) for k in BETS) / 3
    assert one.gathered == pytest.approx(share(0) * exact)


def test_what_is_spent_and_left_adds_up() -> None:
    rows = alarms([0.5] * RELEASES, BUDGET, fresh=False)
    spent = sum((Fraction(one.spent) for one in rows), Fraction(0))
    assert float(spent) + rows[-1].left == pytest.approx(BUDGET)
    assert all(a.left > b.left > 0 for a, b in pairwise(rows))
    assert [one.threshold for one in alarms([0.5] * 3, BUDGET, fresh=True)] == [one.spent / 2 for one in rows[:3]]


def lives(count: int, rng: np.random.Generator, correlation: float = 0.0) -> np.ndarray:
    """One-sided p-values of lives without leakage; releases that share members have correlated scores."""
    common = rng.normal(size=(count, 1)) * math.sqrt(correlation)
    z = common + math.sqrt(1 - correlation) * rng.normal(size=(count, RELEASES))
    return np.asarray([[0.5 * math.erfc(x / math.sqrt(2)) for x in row] for row in z])


def rate(p_values: np.ndarray, *, fresh: bool) -> float:
    return float(np.mean([any(one.alarm for one in alarms(life.tolist(), BUDGET, fresh=fresh)) for life in p_values]))


def test_forty_releases_without_leakage_stay_within_the_budget() -> None:
    """1,500 lives; each release at 5% alarms in .87 of lives, which is the control that must fail."""
    p = lives(1500, np.random.default_rng(1))
    assert rate(p, fresh=True) < 0.04 and rate(p, fresh=False) < 0.062
    assert np.mean((p <= 0.05).any(axis=1)) == pytest.approx(1 - 0.95**40, abs=0.03)


def test_releases_that_share_members_need_the_rule_for_shared_members() -> None:
    """Equal errors in all releases: the gathered evidence, which is not valid here, alarms too often."""
    p = lives(1500, np.random.default_rng(2), correlation=0.98)
    assert rate(p, fresh=False) < 0.062
    assert rate(p, fresh=True) > 0.1  # control


def test_a_leak_that_begins_late_is_found_soon() -> None:
    """z = 2 from release 10 on: within five releases in about .8 of lives with fresh memberships, else seldom."""
    rng, caught = np.random.default_rng(3), {True: 0, False: 0}
    for _ in range(300):
        z = rng.normal(size=15) + 2.0 * (np.arange(15) >= 10)
        p = [0.5 * math.erfc(x / math.sqrt(2)) for x in z]
        for fresh in caught:
            caught[fresh] += any(one.alarm for one in alarms(p, BUDGET, fresh=fresh)[10:])
    assert caught[True] > 0.7 * 300 and caught[False] < caught[True] / 2


def test_ends_of_the_range() -> None:
    assert alarms([], BUDGET, fresh=True) == ()
    assert not any(one.alarm for one in alarms([1.0] * 500, BUDGET, fresh=True))
    first = alarms([0.0], BUDGET, fresh=True)[0]
    assert first.alarm and math.isfinite(first.gathered or math.inf)
    edge = BUDGET * share(0)
    assert [alarms([p], BUDGET, fresh=False)[0].alarm for p in (edge, edge * 1.001)] == [True, False]


@pytest.mark.parametrize("budget", [0, -0.1, 0.51, 1, math.nan, "0.05", True])
def test_a_budget_outside_its_range_is_refused(budget: object) -> None:
    with pytest.raises(InputError, match=r"budget: expected a probability in \(0, 0\.5\]"):
        check_budget(budget)  # type: ignore[arg-type]


@pytest.mark.parametrize("p", [-0.1, 1.1, math.nan])
def test_a_p_value_outside_its_range_is_refused(p: float) -> None:
    with pytest.raises(InputError, match="p_values"):
        alarms([0.5, p], BUDGET, fresh=False)

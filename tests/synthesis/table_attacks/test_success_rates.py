"""Rates and their differences: a published example, coverage by simulation, and the ends of the scale."""

from __future__ import annotations

import math

import numpy as np
import pytest

from miaudit.errors import InputError
from miaudit.metrics.units import Units
from miaudit.synthesis.table_attacks.success_rates import Rate, compare, members_needed


def outcomes(right: int, trials: int) -> np.ndarray:
    return np.arange(trials) < right


def test_newcombes_published_example() -> None:
    """Newcombe (1998), Table II, example (a), method 10: 56/70 and 48/80 give 0.0524 to 0.3339."""
    found = compare("x", outcomes(56, 70), outcomes(48, 80)).difference
    assert math.isclose(found.value or 0, 0.2, abs_tol=1e-12)
    assert math.isclose(found.low, 0.0524, abs_tol=5e-5)
    assert math.isclose(found.high, 0.3339, abs_tol=5e-5)


@pytest.mark.thorough
@pytest.mark.long
@pytest.mark.parametrize(("p1", "p0"), [(0.02, 0.02), (0.3, 0.2), (0.95, 0.9), (0.5, 0.5), (0.01, 0.001)])
def test_intervals_cover_the_truth(p1: float, p0: float) -> None:
    rng = np.random.default_rng(5)
    truth, risk = p1 - p0, (p1 - p0) / (1 - p0)
    covered = np.zeros(2)
    runs = 3000
    for _ in range(runs):
        found = compare("x", outcomes(rng.binomial(400, p1), 400), outcomes(rng.binomial(300, p0), 300))
        covered += (
            found.difference.low <= truth <= found.difference.high,
            found.risk.low <= risk <= found.risk.high,
        )
    assert (covered / runs > 0.935).all(), covered / runs


def test_the_ends_of_the_scale() -> None:
    nothing = compare("x", outcomes(0, 50), outcomes(0, 50))
    assert nothing.difference.value == 0
    assert not nothing.leaks
    assert nothing.difference.high > 0.05  # no success is not the same as no risk
    everything = compare("x", outcomes(50, 50), outcomes(50, 50))
    assert everything.risk.value is None
    perfect = compare("x", outcomes(50, 50), outcomes(0, 50))
    assert perfect.risk.value == 1
    assert perfect.risk.low > 0.8
    assert perfect.leaks
    assert math.isnan(Rate.of([]).value)
    assert (Rate.of([]).low, Rate.of([]).high) == (0.0, 1.0)


def test_an_attack_no_better_than_a_guess_is_weak() -> None:
    guess = Rate.of(outcomes(30, 100))
    assert compare("x", outcomes(30, 100), outcomes(20, 100), by_chance=guess).weak
    assert not compare("x", outcomes(31, 100), outcomes(20, 100), by_chance=guess).weak
    assert not compare("x", outcomes(1, 100), outcomes(1, 100)).weak


def test_no_trial_is_refused() -> None:
    with pytest.raises(InputError, match="control: expected at least one record"):
        compare("x", [True], [])


def test_a_rare_success_is_no_difference_where_the_classes_differ_in_size() -> None:
    """A table that copies 0.1% of both 50 members and 5,000 control records: nominally 0.5% above zero."""
    rng = np.random.default_rng(0)
    tables = 2000
    pairs = list(zip(rng.binomial(50, 0.001, tables), rng.binomial(5000, 0.001, tables), strict=True))
    leaks = {
        pair: compare("copies", outcomes(pair[0], 50), outcomes(pair[1], 5000), confidence=0.99).leaks
        for pair in set(pairs)
    }
    assert sum(leaks[pair] for pair in pairs) <= 0.01 * tables


@pytest.mark.long
def test_one_giant_household_is_no_rate() -> None:
    """A hundred records of one unit and a hundred single ones, right with probability 3% each: nominally 0.5%."""
    unit = np.r_[np.zeros(100, int), np.arange(1, 101)]
    units = Units.of_classes(unit, 1000 + unit)
    flagged = 0
    for i in range(800):
        rng = np.random.default_rng([i, 1])
        inside, outside = ((rng.random(101) < 0.03)[unit] for _ in range(2))
        flagged += compare("x", inside, outside, confidence=0.99, units=units).difference.low > 0
    assert flagged <= 8


def test_opposed_units_of_both_classes_widen_the_difference() -> None:
    hit = np.arange(100) % 2 == 0
    both, apart = (
        Units.of_classes(np.arange(100), np.arange(100)),
        Units.of_classes(np.arange(100), 100 + np.arange(100)),
    )
    opposed, single = (compare("x", hit, ~hit, units=units) for units in (both, apart))
    assert opposed.difference.high == pytest.approx(np.sqrt(2) * single.difference.high)
    assert opposed.risk.high > single.risk.high and opposed.risk.low < single.risk.low
    assert compare("x", hit, hit, units=both).difference.high < opposed.difference.high


@pytest.mark.long
@pytest.mark.parametrize(
    ("n1", "n0", "rate"),
    [(1000, 1000, 0.0), (2000, 2000, 0.002), (1000, 1000, 0.02), (1000, 3000, 0.3), (200, 2000, 0.1)],
)
def test_the_smallest_detectable_excess_is_detected_in_four_of_five_cases(n1: int, n0: int, rate: float) -> None:
    rng = np.random.default_rng(6)
    seen, half, runs = 0, 0, 300
    for _ in range(runs):
        control = rng.random(n0) < rate
        least = compare("x", outcomes(round(rate * n1), n1), control).detectable
        assert least is not None
        for share in (1.0, 0.5):
            again = rng.random(n0) < rate
            found = compare("x", rng.random(n1) < rate + share * least, again, confidence=0.9)
            seen += found.leaks * (share == 1)
            half += found.leaks * (share < 1)
    assert seen >= (0.8 - 3 * 0.023) * runs
    assert half <= 0.5 * runs  # control: half of it is not


def test_the_smallest_detectable_excess_is_two_and_a_half_standard_errors() -> None:
    found = compare("x", outcomes(600, 2000), outcomes(900, 3000)).detectable
    assert found == pytest.approx(2.49 * math.sqrt(0.21 / 2000 + 0.21 / 3000), rel=0.02)
    full = compare("x", outcomes(50, 50), outcomes(50, 50))
    assert full.detectable == 1.0  # nothing more can be right


@pytest.mark.parametrize(("right", "threshold"), [(60, 0.0), (60, 0.05), (20, 0.0), (500, 0.3)])
def test_the_p_value_is_the_level_at_which_the_lower_limit_meets_the_threshold(right: int, threshold: float) -> None:
    found = compare("x", outcomes(right, 500), outcomes(10, 500))
    p = found.p_value(threshold)
    assert p is not None
    for factor, above in ((1.001, True), (0.999, False)):
        again = compare("x", outcomes(right, 500), outcomes(10, 500), confidence=1 - 2 * p * factor)
        assert (again.difference.low > threshold) is above or p <= 1.1e-12
    assert found.p_value(0.99999) == 1.0


def test_members_needed_agrees_with_the_textbook_formula_and_with_counts() -> None:
    textbook = 2 * 0.3 * 0.7 * ((1.96 + 0.8416) / 0.03) ** 2
    assert members_needed(0.03, rate=0.3, ratio=1.0, level=0.025, power=0.8) == pytest.approx(
        textbook, rel=0.05
    )  # Fisher's test asks for more
    n = members_needed(0.01, rate=0.0, ratio=2.0, level=0.025, power=0.9)
    assert n is not None
    enough, fewer = (compare("x", outcomes(k, n), outcomes(0, 2 * n)) for k in (int(0.01 * n), int(0.01 * n) - 1))
    assert enough.exceeds(0.0, 0.95) and not fewer.exceeds(0.0, 0.95)
    assert members_needed(1e-9, rate=0.5, ratio=1.0, level=0.025, power=0.9) is None

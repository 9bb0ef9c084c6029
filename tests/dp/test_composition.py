"""Composition: the shift's part is taken off, Algorithm 7 against a plain recursion, and Algorithm 8 that fails."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import norm

from miaudit.dp import composition, one_run
from miaudit.dp.composition import Shift, choose_shift, shift_curve
from miaudit.errors import InputError

COUNTS = {"correct": 416, "guesses": 500, "canaries": 10_000}


def recursion(correct: int, r: int, m: int, p: float, inverse) -> bool:
    """Algorithm 2 as printed, with erratum B5's monotone h and B16's stop."""
    mass, h = p * correct / m, p * (r - correct) / m
    for k in range(correct - 1, -1, -1):
        if mass + h >= r / m:
            return True
        new = max(h, inverse(mass))
        mass += k / (r - k) * (new - h)
        h = new
    return mass + h >= r / m


def equation_five(mu: float, delta: float):
    """fbar^-1 of G_mu composed with (0, delta): inf{a : 1 - G'(a) >= y} of Eq. (5)."""

    def inverse(y: float) -> float:
        # 1 - G'(a) = 1 - (1 - d) G(a / (1 - d)) >= y  <=>  G(a / (1 - d)) <= (1 - y) / (1 - d)
        target = (1 - y) / (1 - delta)
        return 0.0 if target >= 1 else (1 - delta) * float(norm.cdf(norm.ppf(1 - target) - mu))

    return inverse


@pytest.mark.parametrize("delta", [0.0, 1e-5, 3e-4])
def test_algorithm_7_is_the_recursion_with_equation_5(delta: float) -> None:
    shift = Shift(0.2, delta)
    found = composition.mu_lower_bound(shift, **COUNTS, confidence=0.975).value
    assert found > 0

    def rejected(mu: float) -> bool:
        return recursion(416, 500, 10_000, 0.025, equation_five(math.hypot(mu, shift.mu), delta))

    assert rejected(found - 1e-4)
    assert not rejected(found + 1e-4)


def test_without_a_shift_composition_is_one_run() -> None:
    none = Shift(0.0)
    assert composition.mu_lower_bound(none, **COUNTS).value == one_run.mu_lower_bound(**COUNTS).value
    assert (
        composition.epsilon_lower_bound(none, **COUNTS, delta=1e-6).value
        == one_run.epsilon_lower_bound(**COUNTS, delta=1e-6).value
    )


def test_mu_composes_by_the_root_of_squares_and_not_by_the_sum() -> None:
    shift = Shift(0.3)
    whole, left = one_run.mu_lower_bound(**COUNTS).value, composition.mu_lower_bound(shift, **COUNTS).value
    assert math.hypot(left, shift.mu) == pytest.approx(whole, abs=1e-6)
    assert left > whole - shift.mu + 0.01  # erratum B1


def test_algorithm_6_uses_the_deltas_together() -> None:
    shift = Shift(0.4, 1e-5)
    found = composition.epsilon_lower_bound(shift, **COUNTS, delta=1e-6).value
    delta = 1 - (1 - 1e-5) * (1 - 1e-6)
    assert found == pytest.approx(one_run.epsilon_lower_bound(**COUNTS, delta=delta).value - 0.4)
    at = one_run.epsilon_p_value(found + 0.4, **COUNTS, delta=delta)
    assert at == pytest.approx(0.05, rel=1e-3)


def test_algorithm_8_rejects_no_algorithm_at_all(capsys: pytest.CaptureFixture[str]) -> None:
    """Erratum B12, the control: delta_DS charged to the error probability, as printed, and Algorithm 7 beside it."""
    rng, m, r, delta, p = np.random.default_rng(0), 10_000, 100, 0.01, 0.05
    eight, seven = 0, 0
    for _ in range(100):
        # one record in a hundred tells its label, all others are even: (0, 0.01)-DP of the shift
        right = min(r, int(rng.binomial(m, delta)))
        right += int(rng.binomial(r - right, 0.5))
        eight += one_run.rejects(0.0, correct=right, guesses=r, canaries=m, level=p)
        shift = Shift(0.0, delta)
        seven += composition.mu_lower_bound(shift, correct=right, guesses=r, canaries=m, confidence=1 - p).value > 0
    assert eight == 100  # nominal: p + delta_DS = 0.06
    assert seven == 0


def test_the_curve_and_its_limits() -> None:
    rng = np.random.default_rng(1)
    logit, member = rng.normal(size=4000), rng.random(4000) < 0.5
    curve = shift_curve(logit, member, epsilon=[0.5, 1.0, 2.0])
    assert curve.delta == pytest.approx(2 * norm.sf([0.5, 1.0, 2.0]), abs=0.04)
    assert (curve.upper > curve.delta).all()
    missed = 0
    for _ in range(400):
        logit, member = rng.normal(size=500), np.arange(500) < 250
        limits = shift_curve(logit, member, epsilon=[0.5, 1.0, 2.0]).upper
        missed += bool((limits < 2 * norm.sf([0.5, 1.0, 2.0])).any())
    assert missed <= 400 * 0.05 + 3 * math.sqrt(400 * 0.05 * 0.95)


def test_the_curve_needs_both_classes() -> None:
    with pytest.raises(InputError, match="sample: expected members and non-members"):
        shift_curve([0.1, 0.2], [True, True])


def test_a_bounded_shift_is_found_at_its_bound() -> None:
    logit = np.random.default_rng(2).uniform(-0.4, 0.4, 200_000)
    curve = shift_curve(logit, np.arange(200_000) % 2 == 0)
    chosen = choose_shift(
        curve, lambda shift: composition.mu_lower_bound(shift, correct=400, guesses=400, canaries=2000).value
    )
    assert 0.38 < chosen.epsilon < 0.5
    assert chosen.cost == pytest.approx(0.05)


def test_no_overlap_shows_nothing() -> None:
    shift = choose_shift(shift_curve([9.0, -9.0] * 50, [True, False] * 50), lambda shift: -shift.epsilon)
    assert composition.mu_lower_bound(shift, **COUNTS).value == 0.0
    assert composition.epsilon_lower_bound(shift, **COUNTS).value == 0.0


@pytest.mark.parametrize("eta", [0, -0.1, 0.6, math.nan, "0.1", True])
def test_eta_outside_its_range_is_refused(eta: object) -> None:
    with pytest.raises(InputError, match="eta: expected a number in"):
        Shift.of_overlap(eta)  # type: ignore[arg-type]


@pytest.mark.parametrize("delta", [-0.1, 1.0, math.nan])
def test_delta_ds_outside_its_range_is_refused(delta: float) -> None:
    with pytest.raises(InputError, match="delta_ds: expected a number in"):
        Shift.of_overlap(0.3, delta)


@pytest.mark.parametrize("closeness", [-1, math.inf, math.nan])
def test_closeness_outside_its_range_is_refused(closeness: float) -> None:
    with pytest.raises(InputError, match="closeness: expected a finite number"):
        Shift.of_closeness(closeness)

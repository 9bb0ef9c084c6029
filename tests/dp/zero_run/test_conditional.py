"""Tampering and the walk to the first epsilon that is not rejected."""

from __future__ import annotations

import math

import numpy as np
import pytest

from miaudit.dp import one_run
from miaudit.dp.zero_run.conditional import Tampered, expected_success, tampering, tampering_at


def test_tampering_brings_the_chance_of_a_right_guess_down_to_that_of_fair_coins() -> None:
    for epsilon in (0.0, 0.5, 2.0, 9.0):
        for toward in (0.0, 0.3, 2.0):
            allowed = 1 / (1 + math.exp(-epsilon - toward))
            b = tampering_at(epsilon, np.array([toward])).item()
            assert b * allowed == pytest.approx(1 / (1 + math.exp(-epsilon)))
            assert tampering(np.array([toward])).item() <= b + 1e-15  # erratum B4: smaller, so valid
    assert tampering_at(50.0, np.array([2.0])).item() == pytest.approx(1.0)  # and not its limit


def slow_walk(guesses: Tampered, r: int, m: int, delta: float, level: float) -> float:
    """Test a fine grid of epsilon from 0 up, each on its own, and stop at the first that is not rejected."""
    last = 0.0
    for epsilon in np.arange(0.0, 4.0, 0.001):
        survivors = guesses.count_at(float(epsilon))
        if one_run.epsilon_p_value(float(epsilon), correct=survivors, guesses=r, canaries=m, delta=delta) > level:
            return last
        last = float(epsilon)
    return last


@pytest.mark.parametrize("delta", [0.0, 1e-4])
@pytest.mark.parametrize("seed", range(5))
def test_the_walk_ends_where_a_fine_grid_first_fails(seed: int, delta: float) -> None:
    rng = np.random.default_rng(seed)
    r, m = 200, 1000
    guesses = Tampered(rng.random(r) < 0.85, np.abs(rng.normal(size=r)), rng.random(r))

    def bound(right: int) -> float:
        found = one_run.epsilon_lower_bound(correct=right, guesses=r, canaries=m, delta=delta)
        return found.value

    value, survivors = guesses.epsilon_bound(bound)
    assert value == pytest.approx(slow_walk(guesses, r, m, delta, 0.05), abs=2e-3)
    assert survivors == guesses.count_at(value)


def test_the_p_value_of_steinke_rises_with_epsilon_where_it_rejects() -> None:
    """What the walk rests on: with a fixed count, everything below the bound is rejected."""
    for correct, r, m, delta in ((80, 100, 1000, 1e-4), (60, 64, 10_000, 1e-6), (180, 200, 200, 1e-3)):
        grid = np.linspace(0, 4, 400)
        p = np.array(
            [one_run.epsilon_p_value(float(e), correct=correct, guesses=r, canaries=m, delta=delta) for e in grid]
        )
        assert (np.diff(p[p < 0.5]) >= 0).all()


def test_the_aware_adversary_prefers_what_survives() -> None:
    sure, likely = expected_success(np.array([3.0, 1.5]), np.array([2.0, 0.0]))
    assert likely > sure

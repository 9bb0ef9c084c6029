"""The exact tail against scipy's and a plain recursion, and the quantile over replicates against one at a time."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import binom, poisson_binom

from miaudit.dp import one_run
from miaudit.dp.zero_run.independent_guesses import approximate_tail, epsilon_bound, quantile_bound
from miaudit.errors import InputError
from miaudit.metrics.trials import tail


@pytest.mark.long
@pytest.mark.parametrize("n", [1, 2, 31, 32, 33, 64, 500, 3000])
def test_the_tail_is_scipys(n: int) -> None:
    rng = np.random.default_rng(n)
    for p in (rng.random(n), np.full(n, 0.97), rng.beta(0.3, 0.3, n)):
        mean, scale = p.sum(), math.sqrt((p * (1 - p)).sum())
        for least in {0, 1, n, n + 1, *(int(np.clip(mean + z * scale, 0, n)) for z in (-4, -1, 0, 2, 4))}:
            assert tail(p, least) == pytest.approx(poisson_binom.sf(least - 1, p), abs=1e-12)


def test_the_tail_of_many_trials_is_a_binomial_to_twelve_digits() -> None:
    for least in (119_500, 120_000, 120_500, 121_000):
        found = tail(np.full(200_000, 0.6), least)
        assert found == pytest.approx(binom.sf(least - 1, 200_000, 0.6), abs=1e-12)
    assert abs(approximate_tail(np.full(200_000, 0.6), 120_500) - binom.sf(120_499, 200_000, 0.6)) > 1e-10  # a screen


def test_rows_do_not_mix() -> None:
    p = np.random.default_rng(0).random((7, 5, 90))
    together = tail(p, 50)
    assert together.shape == (7, 5)
    assert together == pytest.approx(np.array([[tail(row, 50) for row in block] for block in p]), abs=1e-13)


def test_with_even_odds_the_bound_is_that_of_one_run() -> None:
    for correct, guesses in ((80, 100), (100, 100), (51, 100), (3, 4), (700, 1000)):
        known = one_run.epsilon_lower_bound(correct=correct, guesses=guesses, canaries=guesses).value
        found = epsilon_bound(np.zeros(guesses), correct, 0.05)
        assert known - 2e-4 <= found <= known + 1e-6


def test_the_bound_is_rejected_and_a_little_more_is_not() -> None:
    rng = np.random.default_rng(3)
    toward = rng.normal(size=300)
    found = epsilon_bound(toward, 240, 0.05)
    assert poisson_binom.sf(239, 1 / (1 + np.exp(-toward - found))) <= 0.05
    assert poisson_binom.sf(239, 1 / (1 + np.exp(-toward - found - 2e-4))) > 0.05


@pytest.mark.parametrize(("correct", "expected"), [(0, 0.0), (1, 0.0)])
def test_wrong_guesses_show_nothing(correct: int, expected: float) -> None:
    assert epsilon_bound(np.zeros(50), correct, 0.05) == expected


def test_guesses_against_strong_odds_that_are_all_right_show_much_and_remain_finite() -> None:
    each = 0.05 ** (1 / 20)
    assert epsilon_bound(np.full(20, -8.0), 20, 0.05) == pytest.approx(8 + math.log(each / (1 - each)), abs=2e-4)
    assert epsilon_bound(np.full(1, 0.0), 1, 0.05) == 0.0


@pytest.mark.long
@pytest.mark.parametrize("below", [0, 3, 15])
def test_the_quantile_over_replicates_is_that_of_the_single_bounds(below: int) -> None:
    rng = np.random.default_rng(4)
    toward = 0.8 * rng.normal(size=250) + 0.2 * rng.normal(size=(60, 250)) + 0.2 * rng.normal(size=(60, 1))
    single = np.sort([epsilon_bound(row, 200, 0.025) for row in toward])
    assert quantile_bound(toward, 200, 0.025, below) == pytest.approx(single[below], abs=2e-4)


def test_replicates_that_are_no_numbers_are_refused() -> None:
    with pytest.raises(InputError, match="toward: expected finite log-odds"):
        quantile_bound(np.array([[0.0, np.nan]]), 1, 0.05, 0)


def test_guesses_that_are_certain_beforehand_show_nothing_and_do_not_overflow() -> None:
    assert approximate_tail(np.ones((1, 5)), 3).tolist() == [1.0]
    assert quantile_bound(np.full((1, 200), 700.0), 200, 0.05, 0) == 0.0

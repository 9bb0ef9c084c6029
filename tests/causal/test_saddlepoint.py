"""The chance that a sum of Gammas is at most 0, beside closed forms and simulation."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from miaudit.causal.saddlepoint import chance_below_zero


def test_chances_by_closed_forms() -> None:
    """Two exponentials; the share of k equal ones, which is Beta."""
    below = [chance_below_zero(np.array([[1.0, -a]]), np.ones((1, 2)), 1.0)[0] for a in (0.02, 1.0, 50.0)]
    assert below == pytest.approx([0.02 / 1.02, 0.5, 50 / 51], abs=0.004)
    k, alpha = np.arange(1, 60), 0.02
    factor = np.tile([1 - alpha, -alpha], (len(k), 1))
    chances = chance_below_zero(factor, np.c_[k, 1000 - k], 1.0)
    assert chances == pytest.approx(stats.beta.cdf(alpha, k, 1000 - k), abs=0.003)
    ends = chance_below_zero(np.array([[1.0, -1.0]] * 2), np.array([[0.0, 1.0], [1.0, 0.0]]), 1.0)
    assert ends.tolist() == [1.0, 0.0]


@pytest.mark.parametrize("shape", [0.5, 1.0, 3.0])
def test_chances_by_simulation(shape: float) -> None:
    """Of Gammas with mean 1; a control with another shape is outside the error of the formula."""
    rng = np.random.default_rng(0)
    factor, times = np.array([[1.0, 0.4, -0.7, -0.2]]), np.array([[2.0, 3.0, 5.0, 1.0]])
    draws = rng.gamma(times * shape, 1 / shape, size=(200_000, 4)) @ factor[0]
    simulated = float((draws <= 0).mean())
    assert chance_below_zero(factor, times, shape)[0] == pytest.approx(simulated, abs=0.006)
    assert chance_below_zero(factor, times, 10 * shape)[0] != pytest.approx(simulated, abs=0.012)


def test_a_sum_of_mean_zero_has_the_limit_of_the_formula() -> None:
    symmetric = chance_below_zero(np.array([[1.0, -1.0]]), np.full((1, 2), 5.0), 1.0)[0]
    near = chance_below_zero(np.array([[1.0, -1.0 + 1e-6]]), np.full((1, 2), 5.0), 1.0)[0]
    assert symmetric == pytest.approx(0.5, abs=1e-12)
    assert near == pytest.approx(symmetric, abs=1e-5)

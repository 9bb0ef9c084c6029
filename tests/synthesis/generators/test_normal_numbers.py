"""Normal numbers in bulk: their law, their tails, and that pairs and repeats are independent."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from miaudit.synthesis.generators.normal_numbers import standard_normal


@pytest.mark.long
def test_numbers_are_normal_and_other_scales_are_rejected() -> None:
    drawn = standard_normal(400_001, rng=np.random.default_rng(0)).astype(np.float64)
    assert stats.kstest(drawn, "norm").pvalue > 1e-3
    assert stats.kstest(drawn * 1.02, "norm").pvalue < 1e-6
    assert abs(stats.kurtosis(drawn)) < 0.05 and abs(stats.skew(drawn)) < 0.02


def test_both_numbers_of_a_pair_are_independent_in_size_too() -> None:
    drawn = standard_normal(200_000, rng=np.random.default_rng(1)).astype(np.float64)
    first, second = drawn[:100_000], drawn[100_000:]
    assert abs(np.corrcoef(first, second)[0, 1]) < 0.02
    assert abs(np.corrcoef(first**2, second**2)[0, 1]) < 0.02
    assert stats.kstest(first + second, stats.norm(scale=np.sqrt(2)).cdf).pvalue > 1e-3


def test_tails_are_as_heavy_as_they_should_be() -> None:
    drawn = np.abs(standard_normal(4_000_000, rng=np.random.default_rng(2)))
    for limit in (3.0, 4.0, 4.6):
        expected = 2 * stats.norm.sf(limit) * len(drawn)
        assert abs((drawn > limit).sum() - expected) < 4.5 * np.sqrt(expected)


class Extremes:
    """A generator whose uniform numbers are as near 1 as they can be."""

    def random(self, size: int, dtype: type = np.float64) -> np.ndarray:
        return np.full(size, 1 - 2.0**-53 if dtype is np.float64 else 0.0, dtype=dtype)


def test_numbers_reach_beyond_eight_deviations_and_are_finite() -> None:
    assert 8.5 < standard_normal(2, rng=Extremes())[0] < 8.6  # type: ignore[arg-type]


def test_draws_repeat_with_their_seed_and_differ_without() -> None:
    a, b, c = (standard_normal(11, rng=np.random.default_rng(seed)) for seed in (3, 3, 3 + 2**32))
    assert a.tobytes() == b.tobytes() != c.tobytes()  # seeds that agree in their last 32 bits differ
    assert len(standard_normal(0, rng=np.random.default_rng(0))) == 0

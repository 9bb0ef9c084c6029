"""Rounded numbers are told from those with many digits, at every size."""

import numpy as np
import pytest

from miaudit.metrics.digits import many_digits


@pytest.mark.parametrize("scale", [1e-12, 1.0, 1e12])
def test_rounded_numbers_have_few_digits(scale):
    rng = np.random.default_rng(0)
    values = rng.normal(size=1000)
    assert many_digits(values * scale).mean() > 0.99
    assert not many_digits(np.round(values, 2) * scale).any()
    assert not many_digits(np.arange(-50.0, 50) * scale).any()


def test_single_precision_counts_as_many_digits():
    values = np.random.default_rng(1).random(1000).astype(np.float32).astype(np.float64)
    assert many_digits(values).mean() > 0.95


def test_numbers_at_the_edge_of_float64_have_few_digits() -> None:
    with np.errstate(all="raise", under="ignore"):
        assert many_digits(np.array([5e-324, 1e-310, 0.0, 1e150])).tolist() == [False] * 4


def test_five_digits_are_few_and_six_are_many() -> None:
    assert many_digits(np.array([12345.0, 0.12345, -1.2345, 1.0002e-7])).tolist() == [False] * 4
    assert many_digits(np.array([123456.0, 0.123456, -1.23456, 1.00002e-7])).tolist() == [True] * 4

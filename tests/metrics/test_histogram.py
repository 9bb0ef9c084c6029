"""Histograms between round numbers."""

from __future__ import annotations

import numpy as np
import pytest

from miaudit.metrics.histogram import histogram


def test_shares_add_up_and_edges_are_round_and_hide_records() -> None:
    rng = np.random.default_rng(0)
    values, member = rng.normal(3, 2, 1000), np.arange(1000) < 400
    found = histogram(values, member)
    assert sum(found.members) == pytest.approx(1, abs=1e-4)
    assert sum(found.nonmembers) == pytest.approx(1, abs=1e-4)
    steps = np.diff(found.edges)
    assert np.allclose(steps, steps[0])
    assert f"{steps[0]:.12g}".lstrip("0.").rstrip("0")[0] in "125"
    assert 30 <= len(steps) <= 80
    assert not np.isin(values, found.edges).any()
    counts, _ = np.histogram(np.clip(values[member], found.edges[0], found.edges[-1]), found.edges)
    assert np.allclose(found.members, counts / 400, atol=1e-6)


@pytest.mark.parametrize("constant", [0.0, 0.3, -5.0, 1e12, 1e-12])
def test_values_that_are_all_equal_have_one_bin(constant: float) -> None:
    noise = constant * 1e-15 * np.arange(10)
    found = histogram(constant + noise, np.arange(10) < 5)
    assert len(found.members) <= 2
    assert (sum(found.members), sum(found.nonmembers)) == (1.0, 1.0)
    assert all(np.diff(found.edges) > 0)


@pytest.mark.parametrize("scale", [1e-20, 1e-6, 1.0, 1e20])
def test_the_unit_does_not_matter(scale: float) -> None:
    values, member = np.random.default_rng(1).normal(size=400), np.arange(400) < 200
    assert len(histogram(scale * values, member).edges) == len(histogram(values, member).edges)


def test_one_far_value_does_not_flatten_the_rest() -> None:
    values = np.r_[np.random.default_rng(1).normal(size=999), 1e14]
    found = histogram(values, np.arange(1000) < 500)
    assert max(found.members) < 0.3

"""Closed forms at large n, and what must hold of every estimate whatever the scores."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from miaudit import Evidence
from miaudit.metrics import classical
from miaudit.metrics.classical import Estimate, Sample, precision, tpr_name
from miaudit.metrics.definition import estimates
from miaudit.metrics.definition import names as metric_names
from worlds.scores import WORLDS

N = 200_000


@pytest.mark.long
@pytest.mark.parametrize("name", ["null", "gaussian", "t3", "unequal_variance", "rounded", "near_perfect"])
def test_point_values_are_the_closed_forms(name: str) -> None:
    world = WORLDS[name]
    score, member = world.draw(N, N, np.random.default_rng(11))
    found = estimates(Sample.of(Evidence(score=score, member=member)), metric_names((0.001, 0.01, 0.1)), 0.95)
    for alpha in (0.001, 0.01, 0.1):
        slope = (world.tpr(alpha * 1.01) - world.tpr(alpha * 0.99)) / (0.02 * alpha)
        tpr = world.tpr(alpha)
        error = np.sqrt(tpr * (1 - tpr) / N + slope**2 * alpha * (1 - alpha) / N)
        estimate = found[tpr_name(alpha)]
        assert estimate.value == pytest.approx(tpr, abs=4 * error)
        assert estimate.high - estimate.low == pytest.approx(2 * 1.96 * error, rel=0.15)
    assert found["auc"].value == pytest.approx(world.auc, abs=0.005)
    assert found["auc"].high - found["auc"].low < 0.005
    assert found["auc"].low - 0.001 < world.auc < found["auc"].high + 0.001
    assert found["advantage"].value == pytest.approx(world.advantage, abs=0.006)
    assert found["advantage"].low <= world.advantage <= found["advantage"].high
    assert found["balanced_accuracy"].value == pytest.approx((1 + world.advantage) / 2, abs=0.003)
    assert found["ate"].value == pytest.approx(world.difference, abs=0.03)
    assert found["ate"].low - 0.01 < world.difference < found["ate"].high + 0.01


def test_the_closed_forms_are_those_of_the_textbook() -> None:
    """The worlds themselves, against numbers known from elsewhere."""
    world = WORLDS["gaussian"]
    assert world.auc == pytest.approx(0.76025, abs=1e-5)
    assert world.advantage == pytest.approx(0.38292, abs=1e-5)
    assert world.tpr(0.01) == pytest.approx(0.09236, abs=1e-5)
    assert WORLDS["null"].advantage == pytest.approx(0, abs=1e-6)
    assert WORLDS["rounded"].auc == pytest.approx(0.757, abs=0.003)
    for name in ("t3", "unequal_variance", "rounded", "near_perfect"):
        found = WORLDS[name]
        grid = np.linspace(0, 1, 20_001)[1:-1]
        curve = np.array([found.tpr(a) for a in grid[::20]])
        assert found.advantage == pytest.approx(np.max(curve - grid[::20]), abs=2e-3)
        assert found.advantage >= np.max(curve - grid[::20]) - 1e-9


def test_the_average_effect_is_welch() -> None:
    rng = np.random.default_rng(12)
    inside, outside = rng.normal(1, 3, 40), rng.normal(0, 1, 25)
    evidence = Evidence.from_pair(inside, outside)
    found = Sample.of(evidence).difference(0.9)
    low, high = stats.ttest_ind(inside, outside, equal_var=False).confidence_interval(0.9)
    assert (found.low, found.high) == pytest.approx((low, high), rel=1e-9)
    assert found.value == pytest.approx(inside.mean() - outside.mean())


def test_one_record_in_a_class_has_an_effect_but_no_interval() -> None:
    found = Sample.of(Evidence.from_pair([1.0], [0.0, 0.5])).difference(0.95)
    assert found.value == 0.75
    assert not np.isfinite([found.low, found.high]).any()
    assert "no interval" in found.note


def test_the_step_value_is_reported_beside_the_interpolated_one() -> None:
    score, member = WORLDS["rounded"].draw(2000, 2000, np.random.default_rng(13))
    found = Sample.of(Evidence(score=score, member=member)).tpr_at_fpr(0.1, 0.95)
    assert found.step_value < found.value
    assert "ties" in found.note
    score, member = WORLDS["gaussian"].draw(2000, 2000, np.random.default_rng(13))
    plain = Sample.of(Evidence(score=score, member=member)).tpr_at_fpr(0.1, 0.95)
    assert plain.step_value == plain.value
    assert plain.note == ""


def test_the_band_is_the_interval_at_each_point() -> None:
    score, member = WORLDS["gaussian"].draw(3000, 3000, np.random.default_rng(14))
    sample = Sample.of(Evidence(score=score, member=member))
    grid = np.array([0.005, 0.02, 0.2, 0.7])
    low, high = sample.tpr_band(grid, 0.95)
    exact_low, exact_high = classical.tpr_limits(sample.roc, grid, 0.95)
    width = exact_high - exact_low
    assert (np.abs(low - exact_low) < 0.05 * width).all()
    assert (np.abs(high - exact_high) < 0.05 * width).all()


@pytest.mark.parametrize(("tpr", "fpr", "prior"), [(0.09, 0.01, 0.5), (0.5, 0.001, 0.01), (1.0, 0.1, 0.9)])
def test_precision_is_bayes_rule(tpr: float, fpr: float, prior: float) -> None:
    found = precision(Estimate(tpr, tpr / 2, min(1, 2 * tpr), 0.95), fpr, prior)
    assert found.value == pytest.approx(tpr * prior / (tpr * prior + fpr * (1 - prior)))
    assert found.low <= found.value <= found.high
    rng = np.random.default_rng(15)  # and a simulated accusation
    people = rng.random(400_000) < prior
    accused = rng.random(400_000) < np.where(people, tpr, fpr)
    assert found.value == pytest.approx(people[accused].mean(), abs=0.02)


def test_precision_of_what_cannot_be_resolved_has_an_upper_limit_only() -> None:
    found = precision(Estimate(None, 0.0, 0.3, 0.95, "upper limit only"), 0.001, 0.5)
    assert found.value is None
    assert found.low == 0
    assert 0 < found.high < 1
    assert found.note == "upper limit only"
    assert precision(Estimate(0.0, 0.0, 0.0, 0.95), 1e-300, 1e-300).value == 0.0

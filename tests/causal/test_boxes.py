"""Scans find the box with the largest sum of residuals in standard errors; a slow twin looks at every box."""

import itertools

import numpy as np
import pytest

from miaudit.causal import boxes
from miaudit.causal.boxes import Box, bins, intervals, rectangles


def residuals(n, seed, inside=None, probability=0.5):
    rng = np.random.default_rng(seed)
    p = np.full(n, 0.5)
    member = rng.random(n) < (p if inside is None else np.where(inside, probability, p))
    return member - p, p * (1 - p)


def by_hand(code, residual, variance, columns):
    """Every box of the columns, one at a time."""
    best = (0.0, ())
    ranges = [list(itertools.combinations_with_replacement(range(code.max() + 1), 2)) for _ in columns]
    for sides in itertools.product(*ranges):
        inside = np.ones(len(code), bool)
        for j, (low, high) in zip(columns, sides, strict=True):
            inside &= (code[:, j] >= low) & (code[:, j] <= high)
        v = variance[inside].sum()
        if min(v, variance.sum() - v) >= 7.5:
            z = abs(residual[inside].sum()) / np.sqrt(v)
            best = max(best, (z, tuple((j, *side) for j, side in zip(columns, sides, strict=True))))
    return best


@pytest.mark.long
@pytest.mark.parametrize("seed", range(3))
def test_intervals_are_those_of_a_search_by_hand(seed):
    rng = np.random.default_rng(seed)
    [code] = bins(rng.normal(size=(400, 3)), 6)
    residual, variance = residuals(400, seed)
    found = intervals(code, residual, variance)
    z, sides = max(by_hand(code, residual, variance, (j,)) for j in range(3))
    assert found.z == pytest.approx(z)
    assert found.sides == sides


@pytest.mark.parametrize("seed", range(3))
def test_rectangles_are_those_of_a_search_by_hand(seed):
    rng = np.random.default_rng(seed)
    [code] = bins(rng.normal(size=(400, 3)), 4)
    residual, variance = residuals(400, seed)
    [found] = rectangles(code, residual, variance)
    z, sides = max(by_hand(code, residual, variance, pair) for pair in itertools.combinations(range(3), 2))
    assert found.z == pytest.approx(z)
    assert found.sides == sides


def test_rectangles_without_each_group_are_those_of_the_other_records():
    rng = np.random.default_rng(0)
    code, group = bins(rng.normal(size=(600, 4)), 5)[0], np.arange(600) % 3
    residual, variance = residuals(600, 1)
    together = rectangles(code, residual, variance, group)
    for k, one in enumerate(together):
        others = group != k
        [alone] = rectangles(code[others], residual[others], variance[others])
        assert one.z == pytest.approx(alone.z)
        assert one.sides == alone.sides


def test_what_is_larger_than_chance_allows_is_the_corner_that_is_there():
    rng = np.random.default_rng(2)
    x = rng.normal(size=(4000, 4))
    inside = (x[:, 1] > 0.76) & (x[:, 3] > 0.76)
    [code] = bins(x, 12)
    [corner] = rectangles(code, *residuals(4000, 3, inside, 0.92))
    assert corner.z > boxes.limit_of_rectangles(4)
    assert [j for j, _, _ in corner.sides] == [1, 3]
    [nothing] = rectangles(code, *residuals(4000, 3))
    assert nothing.z < boxes.limit_of_rectangles(4)  # the control


@pytest.mark.long
@pytest.mark.parametrize("columns", [2, 10])
def test_limits_are_seldom_exceeded_where_nothing_is_there(columns):
    """Far fewer than 5% of 40 scans by the limits; by half the limits nearly all (the control)."""
    above = {"intervals": [], "rectangles": []}
    for seed in range(40):
        x = np.random.default_rng([seed, columns]).normal(size=(1000, columns))
        values = residuals(1000, seed + 100)
        above["intervals"].append(intervals(bins(x, 40)[0], *values).z / boxes.limit_of_intervals(columns))
        above["rectangles"].append(rectangles(bins(x, 12)[0], *values)[0].z / boxes.limit_of_rectangles(columns))
    for ratios in above.values():
        assert np.sum(np.array(ratios) > 1) <= 5  # of 40 at 5%: P(6 or more) = .014
        assert np.sum(np.array(ratios) > 0.5) >= 35


def test_sides_move_to_where_the_difference_is():
    rng = np.random.default_rng(0)
    x = rng.uniform(size=(4000, 2))
    inside = (x[:, 0] > 0.47) & (x[:, 0] < 0.58) & (x[:, 1] > 0.33)
    residual, variance = residuals(4000, 1, inside, 0.95)
    [narrow] = bins(x, 100)
    (_, *first), (_, *second) = boxes._refined(narrow, ((0, 40, 66), (1, 25, 99)), residual, variance)
    assert first == pytest.approx([47, 57], abs=2)
    assert second == pytest.approx([33, 99], abs=3)


def test_bins_hold_equal_numbers_or_a_value_each():
    x = np.column_stack([np.random.default_rng(0).normal(size=1000), np.arange(1000) % 3])
    [code] = bins(x, 10)
    assert np.bincount(code[:, 0]).tolist() == [100] * 10
    assert np.bincount(code[:, 1]).tolist() == [334, 333, 333]
    assert (np.argsort(x[:, 0]) == np.argsort(code[:, 0] * 1000 + np.argsort(np.argsort(x[:, 0])))).all()


def test_a_box_of_bins_holds_its_records_and_new_ones_between_its_values():
    x = np.array([[1.0, 5], [2, 6], [3, 7], [4, 8]])
    [code] = bins(x, 4)
    box = Box.of_bins(((0, 1, 2),), x, code)
    assert box.holds(x).tolist() == [False, True, True, False]
    assert box.holds(np.array([[2.5, 0], [3.5, 0]])).tolist() == [True, False]
    assert Box.of_bins(((0, 2, 3), (1, 0, 3)), x, code).holds(np.array([[9.0, -9.0], [0, 0]])).tolist() == [True, False]


def test_too_few_records_make_no_box():
    code = np.repeat([[0], [1]], [20, 200], axis=0)
    assert intervals(code, np.r_[np.full(20, 0.5), np.zeros(200)], np.full(220, 0.25)).z == 0

"""Lists of the highest scores: counts and p-values by hand, ties, the level over random labels, and units."""

from __future__ import annotations

from math import comb

import numpy as np
import pytest

from miaudit.metrics.units import Units
from miaudit.synthesis.table_attacks.top_records import SHARES, compare_top


def by_hand(score: np.ndarray, members: int) -> float:
    """Four times the smallest chance of as many members on a list, one list and one number at a time."""
    n, chances = len(score), []
    for share in SHARES:
        cut = sorted(score.tolist(), reverse=True)[max(1, -int(-share * n // 1)) - 1]
        listed = [value >= cut for value in score.tolist()]
        length, inside = sum(listed), sum(listed[:members])
        ways = sum(comb(members, k) * comb(n - members, length - k) for k in range(inside, min(members, length) + 1))
        chances.append(ways / comb(n, length))
    return min(1.0, 4 * min(chances))


@pytest.mark.parametrize("seed", range(4))
def test_the_p_value_is_four_times_the_smallest_hypergeometric_one(seed: int) -> None:
    rng = np.random.default_rng(seed)
    score = rng.normal(size=900)
    score[: 10 * seed] += 3
    if seed == 2:
        score = np.round(score)  # ties
    top = compare_top("closest records", score, 400, confidence=0.95)
    assert top.exact == pytest.approx(by_hand(score, 400))


def test_equal_scores_at_the_end_of_a_list_are_all_on_it() -> None:
    same = compare_top("closest records", np.zeros(1000), 500, confidence=0.95)
    assert (same.members.right, same.control.right, same.exact) == (500, 500, 1.0)


def test_a_few_members_that_stand_out_are_seen_and_the_same_few_without_labels_are_not() -> None:
    rng = np.random.default_rng(5)
    score = rng.normal(size=4000)
    score[:20] += 8
    assert compare_top("closest records", score, 2000, confidence=0.95).exceeds(0.0, 0.99)
    assert not compare_top("closest records", rng.permutation(score), 2000, confidence=0.95).exceeds(0.0, 0.99)


@pytest.mark.parametrize("kind", ["smooth", "tied"])
def test_random_labels_are_seldom_flagged(kind: str) -> None:
    """Four lists together at a level of .025, on 1,000 labellings: at most 36 rejections with probability .98."""
    rng = np.random.default_rng(6)
    score = rng.normal(size=600) if kind == "smooth" else rng.integers(0, 40, 600).astype(float)
    flagged = sum(compare_top("x", rng.permutation(score), 300, confidence=0.95).exact <= 0.025 for _ in range(1000))
    assert flagged <= 36


def test_the_interval_is_of_the_four_lists_together() -> None:
    rng = np.random.default_rng(7)
    score = rng.normal(size=2000)
    score[:30] += 5
    top = compare_top("x", score, 1000, confidence=0.95)
    assert top.low_at(0.95) == pytest.approx(top.difference.low)
    assert top.low_at(0.8) > top.low_at(0.95) > top.low_at(0.999)


def test_units_are_listed_where_several_records_are_of_one() -> None:
    score = np.r_[np.arange(100.0, 120.0), np.zeros(980), np.zeros(1000)]
    one_house = Units.of_classes(np.r_[np.zeros(20), np.arange(1, 981)], np.arange(2000, 3000))
    pairs = Units.of_classes(np.arange(1000) // 2, 1000 + np.arange(1000) // 2)
    alone, together, twos = (
        compare_top("x", score, 1000, confidence=0.95, units=units) for units in (None, one_house, pairs)
    )
    assert alone.exceeds(0.0, 0.99) and not together.exceeds(0.0, 0.99)
    assert (twos.members.right, twos.members.trials, twos.control.trials) == (10, 500, 500)
    assert "10 units with the highest score" in twos.note


def test_a_unit_on_both_sides_is_listed_on_each_by_its_own_records() -> None:
    both = Units.of_classes(np.arange(100), np.arange(100))
    score = np.r_[np.full(100, 5.0), np.zeros(100)]
    assert compare_top("x", score, 100, confidence=0.95, units=both).members.trials == 100
    assert compare_top("x", score, 100, confidence=0.95, units=both).exceeds(0.0, 0.95)

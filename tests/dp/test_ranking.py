"""Records in falling order of confidence: the surest first, ties at random, both sides of scores with two values."""

from __future__ import annotations

import numpy as np
import pytest

from miaudit.dp.ranking import one_sided, two_sided


def test_orders_put_the_surest_first_and_ties_at_random() -> None:
    rng = np.random.default_rng(0)
    score, member = np.array([0.0, 1.0, 2.0, 10.0, -3.0]), np.array([0, 1, 0, 1, 1], bool)
    both = two_sided(score, member, rng=rng)
    assert both.places.tolist()[:2] == [3, 4]  # 9 and 4 away from the median, 1
    assert both.correct[[0, 2, 3, 4]].tolist() == [True, False, True, False]
    by_rank = two_sided(score, member, by_rank=True, rng=rng)
    assert set(by_rank.places.tolist()[:2]) == {3, 4}
    up, down = (one_sided(score, member, guess=guess, rng=rng) for guess in (True, False))
    assert up.places.tolist() == down.places.tolist()[::-1] == [3, 2, 1, 0, 4]
    assert (up.correct == member).all() and (down.correct == ~member).all()
    tied = {two_sided(np.zeros(6), np.ones(6, bool), rng=rng).places[0] for _ in range(100)}
    assert tied == set(range(6))


@pytest.mark.parametrize("ones", [400, 500, 600])
def test_scores_of_two_values_are_guessed_on_both_sides(ones: int) -> None:
    member = np.arange(1_000) < ones
    found = two_sided(np.where(member, 2.0, -5.0), member, rng=np.random.default_rng(0))
    assert found.correct.all()
    assert 0.3 < member[found.places[:100]].mean() < 0.7


def test_guesses_at_ties_are_fair_coins() -> None:
    rng = np.random.default_rng(0)
    share = np.mean([two_sided(np.zeros(1_000), np.ones(1_000, bool), rng=rng).correct.mean() for _ in range(50)])
    assert share == pytest.approx(0.5, abs=0.01)

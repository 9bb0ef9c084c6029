"""The sequential test against its exact operating characteristic, by dynamic programming over counts of misses."""

from __future__ import annotations

import math
from functools import cache

import numpy as np
import pytest

from validity.sequential import Decision, SequentialTest


@cache
def exact(test: SequentialTest, rate: float) -> tuple[float, float, float]:
    """Probabilities of accepting and rejecting, and the mean number of replicates, at a true miss rate.

    The states are the numbers of misses among replicates that have not decided; Wald's formulas are not used.
    """
    low, high = test.bounds
    steps = math.log(test.alternative / test.level), math.log((1 - test.alternative) / (1 - test.level))
    open_ = {0: 1.0}
    accepted = rejected = mean = 0.0
    for n in range(1, test.cap + 1):
        mean += sum(open_.values())
        reached: dict[int, float] = {}
        for misses, chance in open_.items():
            reached[misses] = reached.get(misses, 0.0) + chance * (1 - rate)
            reached[misses + 1] = reached.get(misses + 1, 0.0) + chance * rate
        ratio = {misses: misses * steps[0] + (n - misses) * steps[1] for misses in reached}
        accepted += sum(chance for misses, chance in reached.items() if ratio[misses] <= low)
        rejected += sum(chance for misses, chance in reached.items() if ratio[misses] >= high)
        open_ = {misses: chance for misses, chance in reached.items() if low < ratio[misses] < high}
    return accepted, rejected, mean


@pytest.mark.long
@pytest.mark.parametrize("level", [0.025, 0.05, 0.1])
def test_both_error_probabilities_are_kept(level: float) -> None:
    test = SequentialTest(level)
    assert exact(test, level)[1] <= 0.001
    assert exact(test, 2 * level)[0] <= 0.01
    assert exact(test, level / 2)[1] < 1e-6
    assert exact(test, 3 * level)[0] < 1e-4


def test_five_against_ten_percent_takes_275_replicates_on_average() -> None:
    accepted, rejected, mean = exact(SequentialTest(), 0.05)
    assert 265 < mean < 290
    assert accepted + rejected == pytest.approx(1, abs=1e-6)


@pytest.mark.long
@pytest.mark.parametrize("level", [0.025, 0.05, 0.11])
def test_the_cap_is_seldom_reached_at_any_rate(level: float) -> None:
    test = SequentialTest(level)
    for rate in np.linspace(level, 2 * level, 5):
        accepted, rejected, _ = exact(test, float(rate))
        assert 1 - accepted - rejected < 0.01


@pytest.mark.long
def test_simulated_decisions_agree_with_the_exact_ones() -> None:
    test, rng = SequentialTest(0.1, 0.3, cap=60), np.random.default_rng(0)
    for rate in (0.1, 0.2, 0.3):
        decisions = [test.decide(rng.random(60) < rate) for _ in range(1000)]
        accepted, rejected, mean = exact(test, rate)
        found = [np.mean([one.status == status for one in decisions]) for status in ("accepted", "rejected")]
        assert found == pytest.approx([accepted, rejected], abs=0.05)
        assert np.mean([one.replicates for one in decisions]) == pytest.approx(mean, rel=0.05)


@pytest.mark.long
def test_a_wrong_method_is_rejected_and_a_right_one_accepted() -> None:
    """Controls of the test itself: 200 streams at 5% and at 10%, whose decisions the errors allow to be wrong twice."""
    rng = np.random.default_rng(1)
    for rate, status in ((0.05, "accepted"), (0.1, "rejected")):
        decisions = [SequentialTest().decide(rng.random(4000) < rate) for _ in range(200)]
        assert sum(one.status == status for one in decisions) >= 194


def test_what_has_ended_stays() -> None:
    never = SequentialTest().decide(iter([False] * 200))
    assert (never.status, never.replicates, never.misses) == ("accepted", 86, 0)
    always = SequentialTest().decide(iter([True] * 200))
    assert (always.status, always.replicates, always.misses) == ("rejected", 10, 10)
    assert always.after(False) == always
    short = SequentialTest(cap=5).decide([False] * 200)
    assert (short.status, short.replicates, short.ended) == ("undecided", 5, True)
    assert Decision(SequentialTest()).ended is False
    assert SequentialTest().decide([]).status == "undecided"
    assert str(always) == "10 of 10 miss (100.00%), claimed at most 5.00% against 10.00%: rejected"


@pytest.mark.parametrize(
    "wrong", [{"level": 0.0}, {"level": 0.6}, {"level": 0.1, "alternative": 0.1}, {"wrongly_rejected": 0.0}]
)
def test_tests_that_cannot_be_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises((ValueError, ZeroDivisionError)):
        SequentialTest(**wrong)  # type: ignore[arg-type]

"""Theorem Z by exact enumeration, the coins of thinning, and the rule for many sets of coins."""

from __future__ import annotations

import math

import numpy as np
import pytest

from miaudit.dp import one_run
from miaudit.dp.selection import Order
from miaudit.dp.zero_run.thinning import Guessed, SeedStable, SeedStableTest, coins_worth, keeping_probability
from miaudit.errors import InputError
from worlds.small_mechanisms import Mechanism, excess

MECHANISMS = 300


def mechanisms(known: bool, count: int = MECHANISMS):
    for seed in range(count):
        rng = np.random.default_rng((seed, known))
        mechanism = Mechanism.draw(rng, known=known)
        yield mechanism, int(rng.integers(1, mechanism.m + 1))


@pytest.mark.long
@pytest.mark.parametrize("known", [True, False])
def test_theorem_z_holds_on_every_mechanism_enumerated(known: bool) -> None:
    worst = max(excess(mechanism, r) for mechanism, r in mechanisms(known))
    assert worst <= 1e-12
    assert worst > -0.05  # and it is not idle: some mechanism comes close


@pytest.mark.long
def test_without_thinning_it_does_not() -> None:
    plain = [excess(mechanism, r, thinned=False, canaries=mechanism.m) for mechanism, r in mechanisms(True)]
    assert np.mean(np.array(plain) > 1e-9) > 0.1


@pytest.mark.parametrize("m", [2, 3])
def test_randomised_response_meets_it_with_equality_so_that_fewer_canaries_break_it(m: int) -> None:
    mechanism = Mechanism.randomised_response(m, 1.0)
    assert excess(mechanism, m) == pytest.approx(0, abs=1e-12)
    assert excess(mechanism, m, canaries=0.9 * m) > 0.01


@pytest.mark.long
@pytest.mark.parametrize("known", [True, False])
def test_the_epsilon_delta_test_holds_with_m_effective_canaries(known: bool) -> None:
    """Steinke et al. on thinned records: P(C >= v) within the tail plus the term in delta, M in place of m."""
    worst = -math.inf
    for mechanism, r in mechanisms(known, 150):
        p = mechanism.law_of_count(r)
        for epsilon in (0.0, 0.3, 1.0, 2.0):
            delta, q = mechanism.delta(epsilon), 1 / (1 + math.exp(-epsilon))
            z = np.array([math.comb(r, k) * q**k * (1 - q) ** (r - k) for k in range(r + 1)])
            for v in range(1, r + 1):
                densest = max(z[v - i : v].sum() / i for i in range(1, v + 1))
                worst = max(worst, p[v:].sum() - z[v:].sum() - 2 * mechanism.worth * delta * densest)
    assert worst <= 1e-12


def test_with_known_log_odds_kept_membership_is_a_fair_coin() -> None:
    rng = np.random.default_rng(0)
    logit = rng.normal(size=200_000) * 1.5
    member = rng.random(len(logit)) < 1 / (1 + np.exp(-logit))
    guess = np.where(rng.random(len(logit)) < 0.5, 1, -1)
    guessed = Guessed(member, guess, logit, logit)
    kept = guessed.kept(rng)
    for low, high in ((-4, -1), (-1, 0), (0, 1), (1, 4)):
        inside = member[kept][(logit[kept] > low) & (logit[kept] < high)]
        assert abs(inside.mean() - 0.5) < 4 * 0.5 / math.sqrt(len(inside))
    assert abs(len(kept) - guessed.effective) < 4 * math.sqrt(len(logit)) / 2  # M is the expected number kept
    assert guessed.effective == pytest.approx(2 * np.minimum(1 / (1 + np.exp(-logit)), 1 / (1 + np.exp(logit))).sum())


def test_an_interval_costs_canaries_nowhere_and_keeps_fewer_right_guesses() -> None:
    rng = np.random.default_rng(1)
    logit = rng.normal(size=5000)
    member, guess = rng.random(5000) < 1 / (1 + np.exp(-logit)), np.where(rng.random(5000) < 0.5, 1, -1)
    right = (guess > 0) == member
    exact = keeping_probability(member, guess, logit, logit)
    wide = keeping_probability(member, guess, logit - 0.3, logit + 0.3)
    assert (wide[right] <= exact[right]).all()
    assert (wide[~right] >= exact[~right]).all()
    assert (coins_worth(logit - 0.3, logit + 0.3) >= coins_worth(logit, logit)).all()


def seed_stable(right: float, n: int, shift: float, rng: np.random.Generator) -> tuple[SeedStableTest, Guessed]:
    logit = shift * rng.normal(size=n)
    member = rng.random(n) < 1 / (1 + np.exp(-logit))
    guess = np.where(member ^ (rng.random(n) < 1 - right), 1, -1)
    guessed = Guessed(member, guess, logit, logit)
    order = Order("", np.arange(n), guess)
    return SeedStableTest.of(order, guessed, SeedStable(), one_run.mu_lower_bound, rng), guessed


def test_many_seeds_agree_where_one_does_not() -> None:
    rng = np.random.default_rng(2)
    test, guessed = seed_stable(0.8, 2000, 1.0, rng)
    rows = np.arange(2000)
    again = [
        SeedStableTest.of(test.order, guessed, SeedStable(), one_run.mu_lower_bound, rng).bound(rows, 300, 0.95).value
        for _ in range(10)
    ]
    single = []
    for _ in range(10):
        kept = guessed.kept(rng)[:300]
        right = int(guessed.correct[kept].sum())
        found = one_run.mu_lower_bound(
            correct=right, guesses=300, canaries=math.ceil(guessed.effective), confidence=0.95
        )
        single.append(found.value)
    assert np.std(again) < 0.5 * np.std(single)
    assert 0 < np.mean(again) < np.mean(single)


def test_the_rule_takes_the_value_that_three_quarters_reach() -> None:
    assert SeedStable(4).settle([1.0, 2.0, 3.0, 4.0]) == 2.0
    assert SeedStable(40).settle([float(k) for k in range(40)]) == 10.0


@pytest.mark.parametrize("sets", [0, 3, 2.5, True, "40"])
def test_too_few_sets_of_coins_are_refused(sets: object) -> None:
    with pytest.raises(InputError, match="sets: expected a whole number from 4 up"):
        SeedStable(sets)  # type: ignore[arg-type]

"""Theorem Z by exact enumeration, the coins of thinning, and the rule for many sets of coins.

Half-widths of the log-odds: standard errors against a simulation, and what is refused.
"""

from __future__ import annotations

import math

import numpy as np
import pytest

from miaudit import Evidence
from miaudit.causal import propensity
from miaudit.causal.propensity import Propensity
from miaudit.dp import one_run
from miaudit.dp.zero_run.independent_guesses import (
    Scheffe,
    SeedStable,
    SeedStableTest,
    StandardErrors,
    coins_worth,
    half_width,
    keeping_probability,
    standard_errors,
    tossed,
)
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
    kept, effective = tossed(member, guess, logit, logit, rng), coins_worth(logit, logit).sum()
    for low, high in ((-4, -1), (-1, 0), (0, 1), (1, 4)):
        inside = member[kept][(logit[kept] > low) & (logit[kept] < high)]
        assert abs(inside.mean() - 0.5) < 4 * 0.5 / math.sqrt(len(inside))
    assert abs(kept.sum() - effective) < 4 * math.sqrt(len(logit)) / 2  # M is the expected number kept
    assert effective == pytest.approx(2 * np.minimum(1 / (1 + np.exp(-logit)), 1 / (1 + np.exp(logit))).sum())


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


def test_many_seeds_agree_where_one_does_not() -> None:
    rng = np.random.default_rng(2)
    n, rows = 2000, np.arange(2000)
    logit = rng.normal(size=n)
    member = rng.random(n) < 1 / (1 + np.exp(-logit))
    guess = np.where(member ^ (rng.random(n) < 0.2), 1, -1)
    correct, size = (guess > 0) == member, coins_worth(logit, logit)

    def toss() -> np.ndarray:
        return tossed(member, guess, logit, logit, rng)

    again, single = [], []
    for _ in range(10):
        coins = tuple(toss() for _ in range(40))
        test = SeedStableTest("", rows, correct, size, coins, SeedStable(), one_run.mu_lower_bound)
        again.append(test.bound(rows, 300, 0.95).value)
    for _ in range(10):
        right = int(correct[np.flatnonzero(toss())[:300]].sum())
        found = one_run.mu_lower_bound(correct=right, guesses=300, canaries=math.ceil(size.sum()), confidence=0.95)
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


# -- half-widths ----------------------------------------------------------------------------------------------------


def sample(n: int, d: int, rng: np.random.Generator) -> tuple[Evidence, np.ndarray]:
    x = rng.normal(size=(n, d))
    logit = x.sum(axis=1) / math.sqrt(d)
    member = rng.random(n) < 1 / (1 + np.exp(-logit))
    return Evidence(score=logit, member=member, covariates=x, design="zero-run"), logit


@pytest.mark.long
def test_standard_errors_are_the_spread_of_the_estimate_or_a_little_more() -> None:
    """A little more, since the share of members is known, and the intercept's error counts as if it were not."""
    rng = np.random.default_rng(0)
    audited, truth = sample(400, 4, rng)
    truth = truth + math.log(audited.n_members / audited.n_nonmembers)  # given how many there are (erratum B15)
    estimates, errors = [], []
    for _ in range(60):
        train, _ = sample(1500, 4, rng)
        found = propensity.fit(audited, train=train, strength=100.0, rng=rng)
        estimates.append(found.logit)
        errors.append(standard_errors(found))
    spread, claimed = np.std(estimates, axis=0, ddof=1), np.mean(errors, axis=0)
    assert 0.75 < np.median(spread / claimed) < 1.02
    within = np.mean(np.abs(np.array(estimates) - truth) <= 2 * np.array(errors))
    assert within > 0.92


def test_the_bootstrap_spread_agrees_with_the_information() -> None:
    rng = np.random.default_rng(1)
    ev, _ = sample(3000, 3, rng)
    found = propensity.fit(ev, strength=100.0, rng=rng)
    drawn = propensity.bootstrap(ev, replicates=200, folds=found.folds, strength=100.0, rng=rng)
    ratio = standard_errors(found, drawn) / standard_errors(found)
    assert np.median(ratio) == pytest.approx(1, abs=0.12)


def test_units_count_and_not_their_records() -> None:
    ev, _ = sample(1000, 2, np.random.default_rng(2))
    found = propensity.fit(ev, rng=np.random.default_rng(3))
    assert standard_errors(found, units=0.25) == pytest.approx(2 * standard_errors(found))


def test_scheffe_is_wider_and_charged() -> None:
    ev, _ = sample(1000, 5, np.random.default_rng(4))
    found = propensity.fit(ev, rng=np.random.default_rng(5))
    two, band = half_width(None, found, 0.05), half_width(Scheffe(), found, 0.05)
    assert (band[0] > 1.5 * two[0]).all()
    assert band[2] == 0.025
    assert two[2] == 0.0
    assert half_width(StandardErrors(1), found, 0.05)[0] == pytest.approx(two[0] / 2)


def test_given_propensities_have_no_error() -> None:
    given = Propensity.given([0.3, 0.6])
    for chosen in (None, StandardErrors(), Scheffe()):
        assert half_width(chosen, given, 0.05)[0].tolist() == [0, 0]
        assert half_width(chosen, given, 0.05)[2] == 0


@pytest.mark.parametrize("chosen", [-0.1, math.nan, math.inf, "0.2", True, [0.1], [0.1, -0.1], object()])
def test_what_is_no_half_width_is_refused(chosen: object) -> None:
    with pytest.raises(InputError, match="half_width: expected a finite number, 0 or more"):
        half_width(chosen, Propensity.given([0.3, 0.6]), 0.05)


def test_another_classifier_needs_replicates() -> None:
    from sklearn.naive_bayes import GaussianNB

    ev, _ = sample(600, 2, np.random.default_rng(6))
    found = propensity.fit(ev, classifier=GaussianNB(), rng=np.random.default_rng(7))
    with pytest.raises(InputError, match="pass replicates"):
        half_width(None, found, 0.05)
    drawn = np.clip(found.values + 0.01 * np.random.default_rng(8).normal(size=(50, 600)), 0.01, 0.99)
    assert (half_width(None, found, 0.05, drawn)[0] > 0).all()


@pytest.mark.parametrize("multiple", [0, -1, math.nan, math.inf])
def test_a_multiple_is_above_0(multiple: float) -> None:
    with pytest.raises(InputError, match="multiple: expected a finite number above 0"):
        StandardErrors(multiple)


def test_columns_that_are_copies_change_nothing() -> None:
    ev, _ = sample(1500, 3, np.random.default_rng(7))
    assert ev.covariates is not None
    doubled = ev.replace(covariates=np.c_[ev.covariates, ev.covariates[:, :1], -2 * ev.covariates[:, 1:2]])
    alone, copied = (propensity.fit(e, strength=1e4, rng=np.random.default_rng(0)) for e in (ev, doubled))
    np.testing.assert_allclose(standard_errors(copied), standard_errors(alone), rtol=1e-3)

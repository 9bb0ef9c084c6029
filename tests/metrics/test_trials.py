"""One record of each unit, drawn so that what was learned from all records holds for it; tails of how many succeed."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from scipy import special, stats
from sklearn.naive_bayes import GaussianNB

from causal.test_propensity import rng_of
from miaudit import Evidence
from miaudit.causal import propensity
from miaudit.causal.challenge import against, challenge
from miaudit.causal.propensity import Propensity
from miaudit.metrics.trials import (
    _approximated,
    approximate_tail,
    drawn_alike,
    equal_sizes,
    kish_share,
    largest_tail,
    one_of_each,
    sizes,
    tail,
    tail_exceeds,
)


def unequal(seed: int, *, members: int = 5, nonmembers: int = 1, units: int = 1000) -> Evidence:
    """Members have more records than non-members, and nothing else tells them apart."""
    rng = np.random.default_rng(seed)
    inside = np.arange(units) < units // 2
    unit = np.repeat(np.arange(units), np.where(inside, members, nonmembers))
    score = -rng.exponential(size=units)[unit]
    x = rng.normal(size=(units, 2))[unit]
    return Evidence(score=score, member=inside[unit], covariates=x, unit=unit, design="zero-run")


def test_every_record_has_the_same_chance_and_no_unit_comes_twice() -> None:
    code = np.repeat(np.arange(6), [1, 2, 3, 4, 1, 4])
    rng, runs = np.random.default_rng(0), 8000
    drawn = np.zeros(len(code))
    for _ in range(runs):
        rows = drawn_alike(code, rng)
        assert len(np.unique(code[rows])) == len(rows)
        drawn[rows] += 1
    assert np.abs(drawn / runs - 0.25).max() < 4 * np.sqrt(0.25 * 0.75 / runs)
    uniform = np.zeros(len(code))  # the control: a record of each unit, whatever its size
    for _ in range(500):
        uniform[one_of_each(code, rng)] += 1
    assert uniform.max() == 500


def test_equally_large_units_are_all_represented() -> None:
    code = np.repeat(np.arange(50), 3)
    rows = drawn_alike(code, np.random.default_rng(1))
    assert rows.tolist() == one_of_each(code, np.random.default_rng(1)).tolist()
    assert len(rows) == 50


@pytest.mark.parametrize("code", [np.arange(9), np.zeros(7, int), np.repeat([5, 0, 2], [3, 1, 9]), np.arange(90) % 31])
def test_the_record_of_a_unit_is_its_first_in_a_random_order(code: np.ndarray) -> None:
    order = np.random.default_rng(3).permutation(len(code))
    plain = np.sort(order[np.unique(code[order], return_index=True)[1]])
    assert one_of_each(code, np.random.default_rng(3)).tolist() == plain.tolist()
    if len(np.unique(code)) < len(code):  # the control: another order draws other records
        assert one_of_each(code, np.random.default_rng(4)).tolist() != plain.tolist()


def test_the_share_of_independent_records_is_that_of_kish() -> None:
    assert kish_share(np.arange(7)) == 1
    assert kish_share(np.zeros(7, dtype=int)) == pytest.approx(1 / 7)
    assert kish_share(np.repeat([0, 1, 2], [6, 1, 1])) == pytest.approx(8 / 38)


@pytest.mark.long
def test_a_sound_propensity_of_records_stands_the_challenge_where_units_differ_in_size() -> None:
    """One record of each unit whatever its size would be a member half of the time, and 5 in 6 records are."""
    found = [challenge(unequal(seed), [GaussianNB()], rng=np.random.default_rng(seed)) for seed in range(8)]
    assert sum(one.rejected for one in found) == 0
    assert all(50 < one.guesses < 500 for one in found)
    ev, rng = unequal(2), np.random.default_rng(2)
    elsewhere = propensity.fit(ev, train=unequal(3), rng=rng)  # learned too, from records of another sample
    assert not challenge(ev, [GaussianNB()], given=elsewhere, rng=rng).rejected
    known = challenge(ev, [GaussianNB()], given=Propensity.given(np.full(ev.n, 0.5)), rng=rng)
    assert known.guesses == 500  # of all units: half of them are members
    assert not known.rejected


@pytest.mark.parametrize(("alike", "refuted"), [(True, False), (False, True)])
def test_a_propensity_of_records_is_wrong_of_one_record_of_each_unit(alike: bool, refuted: bool) -> None:
    """The challenger bets that everybody is less likely to be a member than was learned."""
    ev, rng = unequal(2), np.random.default_rng(2)
    learned = propensity.fit(ev, rng=rng)
    assert ev.unit_codes is not None
    rows = drawn_alike(ev.unit_codes, rng) if alike else one_of_each(ev.unit_codes, rng)
    bet = against(learned.logit[rows], learned.logit[rows] - 1, ev.member[rows])
    assert bet.refutes == refuted


@pytest.mark.parametrize("n", [1, 2, 9, 300])
def test_the_poisson_binomial_tail_agrees_with_the_recursion(n: int) -> None:
    p = rng_of(n).random(n)
    law = np.array([1.0])
    for q in p:
        law = np.convolve(law, [1 - q, q])
    for least in {0, 1, n // 2, n}:
        assert np.isclose(tail(p, least), law[least:].sum(), atol=1e-12)


def test_the_tail_of_several_rows_and_at_its_ends() -> None:
    p = np.array([[0.1, 0.9, 0.5], [1.0, 0.0, 0.2]])
    assert tail(p, 0).tolist() == [1.0, 1.0]
    assert tail(p, 3) == pytest.approx([0.045, 0.0])
    assert tail(p, 4).tolist() == [0.0, 0.0]
    assert tail(p[:, None], 1) == pytest.approx(np.array([[1 - 0.9 * 0.1 * 0.5], [1.0]]))


@pytest.mark.parametrize("n", [64, 500, 3000])
def test_the_tail_of_many_equal_trials_is_binomial(n: int) -> None:
    """Far from the mean too, where laws are cut: what is cut off counts towards the tail."""
    for p in (0.003, 0.3, 0.98):
        for least in sorted({1, round(n * p), min(n, round(n * p) + 30), n - 1}):
            assert tail(np.full(n, p), least) == pytest.approx(stats.binom.sf(least - 1, n, p), abs=1e-12), (p, least)


def test_the_screen_for_a_tail_is_near_it_and_a_probability() -> None:
    rng = np.random.default_rng(13)
    p = rng.beta(1, 3, 400)
    for least in (60, 90, 100, 110, 130):
        assert approximate_tail(p, least) == pytest.approx(tail(p, least), abs=2e-3)
    plain = stats.norm.sf((110 - 0.5 - p.sum()) / np.sqrt((p * (1 - p)).sum()))
    exact = float(tail(p, 110))
    assert abs(float(approximate_tail(p, 110)) - exact) < 0.5 * abs(plain - exact)  # control: without the skewness
    rare = np.full((1, 30), 0.001)
    assert all(0 <= float(approximate_tail(rare, least)[0]) <= 1 for least in range(31))


def laws(rng: np.random.Generator) -> Iterator[np.ndarray]:
    """Probabilities (n,) of laws of many shapes, with variances from 30 to 700."""
    for n in (150, 400, 900, 3000):
        yield np.full(n, rng.uniform(0.05, 0.95))
        yield rng.beta(0.2, 0.2, n)
        yield rng.uniform(0, rng.uniform(0.2, 1), n)
        yield np.where(rng.random(n) < 0.5, 0.5, rng.integers(0, 2, n).astype(float))
        yield 1 / (1 + np.exp(-rng.normal(rng.normal(), 2, n)))


def test_the_error_of_an_approximate_tail_is_within_the_bound_of_neammanee() -> None:
    rng, bounded = np.random.default_rng(3), 0
    for p in laws(rng):
        mean, deviation = p.sum(), np.sqrt((p * (1 - p)).sum())
        for least in np.unique(np.rint(mean + deviation * np.linspace(-4, 4, 17)).astype(int).clip(1, len(p))):
            (near,), (error,) = _approximated(p[None], int(least))
            assert abs(near - tail(p, int(least))) <= error
            bounded += error < 1
    assert bounded > 100  # control: where the bound says something


def test_rows_whose_tail_exceeds_a_level_and_the_largest_tails_are_those_of_exact_tails() -> None:
    rng, built = np.random.default_rng(4), []
    for base in laws(rng):
        p = 1 / (1 + np.exp(-(special.logit(base.clip(1e-9, 1 - 1e-9)) + rng.normal(0, 0.1, (60, 1)))))
        for where in (0.05, 0.5, 0.9):
            least = int(np.quantile(p.sum(axis=1), where)) + 5
            exact = tail(p, least)
            for level in (0.0, 0.0025, 0.05, 1.0, float(exact[7]) * (1 + 1e-9)):
                assert (tail_exceeds(p, least, level) == (exact > level)).all()
            for place in (0, 3, 59):
                found, wanted = largest_tail(p, least, place), np.sort(exact)[-1 - place]
                assert found == pytest.approx(wanted, abs=1e-15) or (wanted > 0.496 and 0 <= found - wanted < 0.0033)
            near, error = _approximated(p, least)
            built.append(np.mean(np.abs(near - 0.05) <= error))
    assert min(built) < 0.05  # control: few laws are built


def test_sizes_of_units() -> None:
    assert sizes(np.array([2, 0, 2, 2])).tolist() == [3, 1, 3, 3]
    assert equal_sizes(np.array([2, 0, 2, 0]))
    assert not equal_sizes(np.array([2, 0, 2]))

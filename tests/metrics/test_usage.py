"""How many records were used: exact laws, an adversary who uses what it likes, and worlds with ties."""

from __future__ import annotations

from fractions import Fraction
from math import comb

import numpy as np
import pytest
from scipy import stats

from miaudit.errors import InputError
from miaudit.metrics import usage


def slow_bound(hits: int, n: int, b: float, level: float) -> int:
    """The smallest u that is not refuted, one after the other."""
    for u in range(hits + 1):
        if hits - u <= 0 or stats.binom.sf(hits - u - 1, n - u, b) > level:
            return u
    raise AssertionError


@pytest.mark.parametrize("hits", [0, 1, 3, 30, 60, 200])
@pytest.mark.parametrize("b", [1 / 101, 0.05, 0.2])
def test_the_bound_is_that_of_trying_every_number(hits: int, b: float) -> None:
    found = usage._least(hits, 200, lambda n, c: usage._binomial_tail(b, n, c), 0.02)
    assert found == slow_bound(hits, 200, b, 0.02)


def test_the_law_beside_nonmembers_is_that_of_order_statistics() -> None:
    """Of 3 candidates and 5 non-members in random order: at least c candidates above the second highest non-member."""
    n, m, k = 3, 5, 2
    for c in range(n + 1):
        exact = Fraction(0)
        for above in range(c, n + 1):  # orders with `above` candidates above the k-th highest of m
            exact += Fraction(comb(above + k - 1, k - 1) * comb(n - above + m - k, m - k), comb(n + m, m))
        assert usage._beta_binomial_tail(k, m - k + 1, n, c) == pytest.approx(float(exact), abs=1e-12)


def test_nothing_is_found_where_all_scores_are_equal() -> None:
    assert usage.among_decoys(np.zeros(1000), np.zeros((1000, 20))).used == 0
    assert usage.beside_nonmembers(np.zeros(1000), np.zeros(1000)).used == 0


def test_ties_counted_for_the_true_string_would_show_a_use_that_is_none() -> None:
    """The control: half of all scores are equal, and a hit needs a score at least as high."""
    rng = np.random.default_rng(0)
    true, decoys = rng.integers(0, 2, 1000).astype(float), rng.integers(0, 2, (1000, 20)).astype(float)
    hits = int(((decoys > true[:, None]).sum(axis=1) < 1).sum())
    assert usage._least(hits, 1000, lambda n, c: usage._binomial_tail(1 / 21, n, c), 0.05) > 400
    assert usage.among_decoys(true, decoys).used == 0


@pytest.mark.parametrize("used", [0, 20, 100])
def test_an_adversary_who_puts_used_records_first_does_not_break_the_bound(used: int) -> None:
    """Truth passed in at most 5% of 400; scores of unused records are heavy-tailed, and differ in scale by record."""
    above, beside = 0, 0
    for seed in range(400):
        rng = np.random.default_rng([seed, used])
        scale = np.exp(rng.normal(size=(200, 1)))
        strings = rng.standard_cauchy((200, 20)) * scale
        true = strings[:, 0].copy()
        true[:used] = np.inf
        true = np.minimum(true, 1e9)
        above += usage.among_decoys(true, strings[:, 1:]).used > used
        candidates = rng.standard_cauchy(200)
        candidates[:used] = 1e9
        beside += usage.beside_nonmembers(candidates, rng.standard_cauchy(300)).used > used
    assert above <= 30 and beside <= 30  # 20 expected at most; 31 and more have a chance below 1%


def test_bounds_reach_most_of_what_was_used() -> None:
    rng = np.random.default_rng(1)
    used = rng.random(2000) < 0.7
    true, decoys = rng.normal(size=2000) + 2 * used, rng.normal(size=(2000, 19))
    bound = usage.among_decoys(true, decoys)
    assert 0.5 < bound.share <= used.mean() and bound.share < bound.estimate < 0.75
    beside = usage.beside_nonmembers(true, rng.normal(size=2000))
    assert 0.4 < beside.share <= used.mean()


def test_shares_of_candidates_of_another_source_are_not_bounded() -> None:
    """The control: candidates from another source than the non-members look used."""
    rng = np.random.default_rng(2)
    assert usage.beside_nonmembers(rng.normal(1.0, 1, 500), rng.normal(size=500)).used > 50


@pytest.mark.parametrize(
    ("true", "decoys", "message"),
    [
        ([1.0], [[1.0], [2.0]], "decoys: expected one row for each of 1 records, received 2 rows"),
        ([np.nan], [[1.0]], "true: expected finite numbers"),
        ([], [[1.0]], "true: expected numbers of shape"),
        ([1.0], [1.0], "decoys: expected numbers of shape"),
    ],
)
def test_bad_input_is_named(true: list[float], decoys: list[object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        usage.among_decoys(true, decoys)

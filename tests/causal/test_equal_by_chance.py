"""Equal records across the classes: an exact test against permutations, coarse data against planted copies."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from miaudit import Evidence
from miaudit.arrays import BoolArray, FloatArray
from miaudit.causal import duplicates, equal_by_chance


def twins(x: FloatArray, member: BoolArray) -> duplicates.Twins:
    evidence = Evidence(score=np.zeros(len(x)), member=member, covariates=x)
    return duplicates.of_covariates(evidence, rng=np.random.default_rng(0))[0]


@pytest.mark.parametrize(("members", "across", "nonmembers"), [(1, 2, 1), (0, 3, 1), (0, 4, 0), (2, 1, 1), (2, 0, 2)])
def test_the_p_value_is_that_of_every_labelling(members: int, across: int, nonmembers: int) -> None:
    records = 2 * (members + across + nonmembers)
    of_class = 2 * members + across
    hits = every = 0
    for inside in itertools.combinations(range(records), of_class):
        sides = np.isin(np.arange(records), inside).reshape(-1, 2)
        hits += int(np.count_nonzero(sides.sum(axis=1) == 1)) >= across
        every += 1
    assert equal_by_chance.excess_p_value(members, across, nonmembers) == pytest.approx(hits / every, rel=1e-12)


def test_many_pairs_do_not_overflow() -> None:
    assert equal_by_chance.excess_p_value(0, 5000, 0) < 1e-300 or equal_by_chance.excess_p_value(0, 5000, 0) == 0
    assert 0.3 < equal_by_chance.excess_p_value(2500, 5000, 2500) < 0.7


@pytest.mark.parametrize("shift", [0.0, 0.5, 2.0])
def test_mixed_pairs_are_no_more_than_the_inequality_allows_whatever_the_shift(shift: float) -> None:
    rng = np.random.default_rng(0)
    base = rng.dirichlet(np.ones(300), size=1)[0]
    a, b = 200 * base, 200 * base * np.exp(shift * rng.normal(size=300))
    e11, e20, e02 = (float((w * np.exp(-a - b)).sum()) for w in (a * b, a**2 / 2, b**2 / 2))
    assert e11 <= 2 * np.sqrt(e20 * e02) * (1 + 1e-12)


@pytest.mark.parametrize(("n", "digits", "cells", "least"), [(600, 3, 250, 95), (1500, 4, 40, 40)])
def test_data_of_which_hardly_any_are_equal_are_hardly_ever_accused(
    n: int, digits: int, cells: int, least: int
) -> None:
    """A tenth or a third of a pair is expected to be equal: one that chance gives is no copy, and a few copies are."""
    accused = before = found = 0
    for seed in range(100):
        rng = np.random.default_rng(seed)
        member = np.arange(n) < n // 2
        x = np.c_[rng.normal(0.2 * member).round(digits), rng.integers(0, cells, n)].astype(float)
        one = twins(x, member)
        accused += one.beyond_chance
        before += one.members_affected > one.members_alike
        x[-4:] = x[:4]
        found += twins(x, member).beyond_chance
    assert accused <= 3
    assert before >= 20  # the control: a rule without chance accuses these
    assert found >= least


def test_one_copy_of_a_record_of_smooth_columns_is_beyond_chance() -> None:
    rng = np.random.default_rng(5)
    x, member = rng.normal(size=(400, 3)), np.arange(400) < 200
    assert not twins(x, member).beyond_chance
    x[399] = x[0]
    assert twins(x, member).beyond_chance


@pytest.mark.parametrize("sizes", [(300, 3000), (1500, 1500), (3000, 300)])
def test_coarse_data_are_hardly_ever_accused(sizes: tuple[int, int]) -> None:
    """Two hundred audits of few and coarse covariates, with a shift: under 2% may be accused."""
    accused = before = 0
    for seed in range(200):
        rng = np.random.default_rng(seed)
        member = np.arange(sum(sizes)) < sizes[0]
        cells = rng.integers(4, 40)
        x = np.c_[rng.binomial(cells, np.where(member, 0.55, 0.5)), rng.integers(0, cells, len(member))].astype(float)
        found = twins(x, member)
        accused += found.beyond_chance
        before += found.members_affected > found.members_alike
    assert accused <= 4
    assert before >= 50 or sizes[0] >= sizes[1]  # the control: a rule without chance accuses these


def test_one_number_of_few_digits_is_coarse() -> None:
    rng = np.random.default_rng(1)
    member = rng.random(4000) < 0.5
    found = twins(np.c_[np.round(rng.normal(size=4000), 3), rng.integers(0, 3, 4000)], member)
    assert found.exact_pairs > 100
    assert not found.beyond_chance


@pytest.mark.parametrize("copies", [1, 5, 40])
def test_copies_among_fine_records_are_found(copies: int) -> None:
    rng = np.random.default_rng(2)
    x = rng.normal(size=(1000, 4))
    x[500 : 500 + copies] = x[:copies]
    assert twins(x, np.arange(1000) < 500).beyond_chance


def test_copies_among_coarse_records_are_found_where_they_are_many() -> None:
    rng = np.random.default_rng(3)
    x = rng.integers(0, 60, size=(2000, 2)).astype(float)
    member = np.arange(2000) < 1000
    assert not twins(x, member).beyond_chance
    x[1000:1400] = x[:400]
    assert twins(x, member).beyond_chance


def test_expected_pairs_are_those_of_independent_columns() -> None:
    rng = np.random.default_rng(4)
    member = np.arange(1200) < 500
    x = np.c_[rng.integers(0, 7, 1200), rng.integers(0, 5, 1200)].astype(float)
    found = twins(x, member)
    assert found.exact_pairs == pytest.approx(equal_by_chance.expected_pairs(x, member), rel=0.05)
    twice = np.c_[x, x]  # columns that depend on each other give more
    assert twins(twice, member).exact_pairs > 10 * equal_by_chance.expected_pairs(twice, member)
    assert not twins(twice, member).beyond_chance

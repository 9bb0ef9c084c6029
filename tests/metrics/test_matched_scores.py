"""Standardised scores and ranks of true strings, beside slow twins and exact enumeration."""

from __future__ import annotations

from itertools import product
from statistics import median, stdev

import numpy as np
import pytest
from scipy import stats

from miaudit.errors import DesignError
from miaudit.evidence import Evidence
from miaudit.metrics.classical import Sample
from miaudit.metrics.matched_scores import Candidates, contrasts, rank_p_value, ranks, standardised, uniform_p_value


def slow(true: np.ndarray, decoys: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    n, k = decoys.shape
    inside, outside = np.zeros((n, k)), np.zeros((n, k))
    for b in range(k):
        left = [[decoys[i, j] for j in range(k) if j != b] for i in range(n)]
        common = median(stdev(one) for one in left)
        for i in range(n):
            spread = (((k - 2) * stdev(left[i]) ** 2 + 4 * common**2) / (k + 2)) ** 0.5
            inside[i, b] = (true[i] - np.mean(left[i])) / spread
            outside[i, b] = (decoys[i, b] - np.mean(left[i])) / spread
    return inside, outside


@pytest.mark.parametrize("k", [4, 5, 9])
def test_standardised_scores_are_those_of_a_slow_loop(k: int) -> None:
    rng = np.random.default_rng(k)
    true, decoys = 1e6 + rng.normal(size=12), 1e6 + rng.normal(size=(12, k)) * rng.exponential(size=(12, 1))
    for fast, twin in zip(standardised(true, decoys), slow(true, decoys), strict=True):
        np.testing.assert_allclose(fast, twin, rtol=1e-6)


@pytest.mark.parametrize("k", [1, 2, 3, 4, 7])
def test_a_column_is_symmetric_in_the_true_string_and_its_decoy(k: int) -> None:
    rng = np.random.default_rng(k)
    true, decoys = rng.normal(size=8), rng.normal(size=(8, k))
    inside, outside = standardised(true, decoys)
    for b in range(k):
        swapped = decoys.copy()
        swapped[:, b] = true
        again = standardised(decoys[:, b], swapped)
        np.testing.assert_allclose(again[0][:, b], outside[:, b], atol=1e-12)
        np.testing.assert_allclose(again[1][:, b], inside[:, b], atol=1e-12)


def test_constant_decoys_give_finite_scores() -> None:
    inside, outside = standardised(np.array([1.0, 2.0]), np.zeros((2, 6)))
    assert inside.tolist() == [[1.0] * 6, [2.0] * 6]
    assert not outside.any()


def test_the_auc_and_its_error_are_those_of_all_pairs() -> None:
    rng = np.random.default_rng(3)
    true, decoys = rng.normal(0.7, size=15).round(1), rng.normal(size=(15, 5)).round(1)
    inside, outside = standardised(true, decoys)
    n = len(true)

    def above(x: float, y: float) -> float:
        return (x > y) + (x == y) / 2

    wins = np.array([[above(x, y) for y in outside.ravel()] for x in inside.ravel()])
    auc = wins.mean()
    own = wins.mean(axis=1).reshape(n, -1).mean(axis=1) + wins.mean(axis=0).reshape(n, -1).mean(axis=1) - 2 * auc
    estimate = Sample.of(Evidence.matched(true=true, decoys=decoys)).auc(0.95)
    assert estimate.value == pytest.approx(auc, abs=1e-12)
    assert estimate.standard_error == pytest.approx(own.std(ddof=1) / n**0.5, rel=1e-9)


def test_decoys_resolve_lower_rates_than_records_do() -> None:
    rng = np.random.default_rng(4)
    sample = Sample.of(Evidence.matched(true=rng.normal(2.0, size=400), decoys=rng.normal(size=(400, 20))))
    assert sample.tpr_at_fpr(0.001, 0.95).value is not None  # 8,000 decoys; 400 records resolve no less than 1%
    unresolved = sample.tpr_at_fpr(0.0001, 0.95)
    assert unresolved.value is None
    assert "needs 36,900 decoys" in unresolved.note


def test_decoys_that_go_together_resolve_less() -> None:
    rng = np.random.default_rng(5)
    n, k = 400, 3  # raw scores, with a shift of the whole record
    decoys = np.repeat(rng.normal(size=(n, 1)), k, axis=1)
    estimate = Sample.of(Evidence.matched(true=decoys[:, 0], decoys=decoys)).tpr_at_fpr(0.005, 0.95)
    assert estimate.value is None  # 1,200 decoys say as much as 400


@pytest.mark.parametrize(("n", "k"), [(1, 1), (3, 2), (4, 3), (2, 7)])
def test_rank_sums_have_the_law_of_an_enumeration(n: int, k: int) -> None:
    outcomes = [sum(one) for one in product(range(k + 1), repeat=n)]
    for total in range(n * k + 1):
        rank = np.diff(np.linspace(0, total, n + 1).astype(int), prepend=0)[1:]
        expected = np.mean([one >= total for one in outcomes])
        assert rank_p_value(rank, k) == pytest.approx(expected, rel=1e-9), total


def test_small_probabilities_keep_their_digits() -> None:
    rank = np.full(40, 20)
    assert rank_p_value(rank, 20) == pytest.approx(21.0**-40, rel=1e-6)
    shifted = np.tile([12, 13], 500)
    z = (shifted.sum() - 0.5 - 1000 * 10) / (1000 * (21**2 - 1) / 12) ** 0.5
    assert rank_p_value(shifted, 20) == pytest.approx(stats.norm.sf(z), rel=0.2)


def test_ties_get_uniform_ranks_and_strict_counting_does_not() -> None:
    rng = np.random.default_rng(6)
    values = rng.integers(0, 3, size=(4000, 6)).astype(float)
    rank = ranks(values[:, 0], values[:, 1:], rng)
    assert uniform_p_value(rank, 5) > 0.001
    strictly = (values[:, 1:] < values[:, [0]]).sum(axis=1)
    assert uniform_p_value(strictly, 5) < 1e-10


@pytest.mark.parametrize("uneven", ["shifted", "narrow", "wide"])
def test_uneven_ranks_are_refuted(uneven: str) -> None:
    rng = np.random.default_rng(7)
    even = rng.integers(0, 21, size=1000)
    known = {"shifted": np.minimum(even + 2, 20), "narrow": even // 2 + 5, "wide": np.where(even > 10, 20, 0)}
    assert uniform_p_value(even, 20) > 0.01
    assert uniform_p_value(known[uneven], 20) < 1e-4


def test_another_design_has_no_candidates() -> None:
    with pytest.raises(DesignError, match=r"Evidence\.matched"):
        Candidates.of(Evidence(score=[0.0, 1.0], member=[0, 1], design="one-run"))


def test_contrasts_hold_each_string_k_times() -> None:
    one = contrasts(Evidence.matched(true=[1.0, 2.0], decoys=[[0.0, 0.5], [1.0, 1.5]]))
    assert (one.n_members, one.n_nonmembers, one.n_units) == (4, 4, 2)

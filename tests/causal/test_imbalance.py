"""The balance of products of all pairs of columns: the moments against one column for each pair, levels and power."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import special

from miaudit import Evidence
from miaudit.causal import imbalance
from miaudit.causal.imbalance import Imbalance
from worlds import hidden_products


def sides(member: np.ndarray, odds: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    weight = np.where(member, 0.0, odds)
    return member / member.sum(), weight / weight.sum()


def one_by_one(s: np.ndarray, member: np.ndarray, odds: np.ndarray, code: np.ndarray) -> np.ndarray:
    """The slow twin: a column for each pair, its weighted means, and the squares of what each unit adds."""
    z = np.zeros((s.shape[1],) * 2)
    for i in range(s.shape[1]):
        for j in range(s.shape[1]):
            product = s[:, i] * s[:, j]
            inside, outside = product[member].mean(), np.average(product[~member], weights=odds[~member])
            parts = np.where(
                member, (product - inside) / member.sum(), -odds * (product - outside) / odds[~member].sum()
            )
            totals = [parts[code == unit].sum() for unit in np.unique(code)]
            z[i, j] = abs(inside - outside) / np.sqrt(np.sum(np.square(totals)))
    return z


@pytest.mark.parametrize("repeated", [1, 3])
def test_moments_are_as_if_each_pair_had_a_column(repeated: int) -> None:
    rng = np.random.default_rng(0)
    n, d = 300, 5
    s = np.clip(rng.standard_t(3, size=(n, d)), -(6**0.5), 6**0.5)
    s[:, 4] = rng.random(n) < 0.3  # of two values
    member, odds, code = rng.random(n) < 0.4, rng.exponential(size=n), np.arange(n) // repeated
    z, tried = imbalance.of_pairs(s, sides(member, odds), None if repeated == 1 else code)
    np.testing.assert_allclose(z, one_by_one(s, member, odds, code), rtol=1e-9)
    assert np.array_equal(tried, np.triu(np.ones((d, d), dtype=bool)))


def test_without_units_their_variance_is_that_of_records() -> None:
    rng = np.random.default_rng(1)
    s, member, odds = rng.normal(size=(200, 4)), rng.random(200) < 0.5, rng.exponential(size=200)
    plain, _ = imbalance.of_pairs(s, sides(member, odds))
    units, _ = imbalance.of_pairs(s, sides(member, odds), np.arange(200))
    np.testing.assert_allclose(plain, units, rtol=1e-9)


def test_a_pair_that_hardly_varies_is_not_tried() -> None:
    rng = np.random.default_rng(2)
    s = np.column_stack([np.where(np.arange(1000) == 0, 0.5, 0.0), np.clip(rng.normal(size=1000), -2.4, 2.4)])
    _, tried = imbalance.of_pairs(s, sides(rng.random(1000) < 0.5, np.ones(1000)))
    assert tried.tolist() == [[False, False], [False, True]]


@pytest.mark.parametrize(("size", "expected"), [(0.06, True), (0.2, True), (0.04, False)])
def test_a_pair_is_tried_where_its_standard_deviation_is_a_twentieth(size: float, expected: bool) -> None:
    signs = np.where(np.arange(1000) % 2 == 0, 1.0, -1.0)
    other = np.where(np.arange(1000) % 4 < 2, 1.0, -1.0)
    _, tried = imbalance.of_pairs(np.column_stack([size * signs, other]), sides(np.arange(1000) < 500, np.ones(1000)))
    assert tried.tolist() == [[False, expected], [False, False]]  # squares of two values do not vary


def test_a_shift_of_one_column_is_its_own_and_no_product() -> None:
    rng = np.random.default_rng(5)
    x = rng.normal(size=(800, 3))
    member = rng.random(800) < special.expit(1.5 * x[:, 1])
    evidence = Evidence(score=x[:, 0], member=member, covariates=x)
    largest = Imbalance.largest(evidence, np.ones(800), ("age", "pay", "hours"))
    s = special.ndtri((x[:, 1].argsort().argsort() + 0.5) / 800)
    error = np.sqrt(sum(s[side].var() / side.sum() for side in (member, ~member)))
    assert largest.names == ("pay",)
    assert largest.z == pytest.approx((s[member].mean() - s[~member].mean()) / error)


def test_the_order_of_columns_decides_nothing() -> None:
    rng = np.random.default_rng(3)
    evidence = hidden_products.late_product(1500, rng)
    assert evidence.covariates is not None
    first = Imbalance.largest(evidence, np.ones(1500), evidence.covariate_names)
    for _ in range(3):
        order = rng.permutation(evidence.covariates.shape[1])
        names = tuple(evidence.covariate_names[i] for i in order)
        moved = evidence.replace(covariates=evidence.covariates[:, order], covariate_names=names)
        found = Imbalance.largest(moved, np.ones(1500), names)
        assert found.names == first.names == ("x23", "x7")
        assert found.limit == first.limit
        assert found.z == pytest.approx(first.z, rel=1e-9)


def test_the_limit_counts_functions_and_pairs() -> None:
    """Of 50 columns 50 scores, 150 bends and 1,275 pairs: 4.15 standard errors. Of few columns 3.5 at least."""
    rng = np.random.default_rng(4)
    evidence = hidden_products.late_product(1000, rng)
    assert Imbalance.largest(evidence, np.ones(1000), evidence.covariate_names).limit == pytest.approx(
        -special.ndtri(0.05 / (2 * 1475)), rel=1e-12
    )
    assert Imbalance.largest(evidence, np.ones(1000), evidence.covariate_names).limit == pytest.approx(4.15, abs=0.01)
    few = hidden_products.smooth(1000, rng)
    assert Imbalance.largest(few, np.ones(1000), few.covariate_names).limit == imbalance.LEAST_LIMIT


@pytest.mark.thorough
@pytest.mark.long
@pytest.mark.parametrize("tails", ["normal", "exponential"])
def test_right_weights_are_refuted_in_one_audit_of_twenty_at_most(tails: str) -> None:
    """Known odds, 60 draws of 1,500 records and 20 columns; the control leaves the product out of the weights."""
    right, wrong = [], []
    for seed in range(60):
        rng = np.random.default_rng([seed, len(tails)])
        x = rng.normal(size=(1500, 20)) if tails == "normal" else rng.exponential(size=(1500, 20))
        pull = 1.5 * np.tanh((x[:, 14] - x[:, 14].mean()) * (x[:, 18] - x[:, 18].mean()))
        member = rng.random(1500) < special.expit(pull)
        evidence = Evidence(score=pull, member=member, covariates=x)
        names = [f"x{i}" for i in range(20)]
        for odds, found in ((np.exp(pull), right), (np.ones(1500), wrong)):
            one = Imbalance.largest(evidence, odds, names)
            found.append(one.z > one.limit)
    assert sum(right) <= 9  # a rate of .05 gives more in 1 of 1,000 runs
    assert sum(wrong) >= 55

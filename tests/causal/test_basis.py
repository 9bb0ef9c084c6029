"""The basis: ranks, natural splines, levels, and the products that membership goes with."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import special, stats
from scipy.interpolate import CubicSpline

from miaudit.causal.basis import Basis, Design, Products, Scale, product_scores


def test_scores_are_the_normal_scores_of_mid_ranks() -> None:
    values = np.array([3.0, 1.0, 2.0, 2.0, 9.0, 2.0])
    expected = special.ndtri((stats.rankdata(values) - 0.5) / 6)
    levels, place, counts = np.unique(values, return_inverse=True, return_counts=True)
    scale, of_levels = Scale.of(levels, counts)
    assert np.allclose(scale.scores(values), expected)
    assert np.array_equal(of_levels[place], scale.scores(values))


def test_scores_of_other_rows_stay_inside_those_of_the_training_rows() -> None:
    scale, _ = Scale.of(np.arange(10.0), np.ones(10, dtype=np.int64))
    low, middle, high = scale.scores(np.array([-1e300, 4.5, 1e300]))
    assert (low, high) == (scale.scores(np.array([0.0]))[0], scale.scores(np.array([9.0]))[0])
    assert middle == 0


def test_the_bends_and_a_line_span_every_natural_cubic_spline() -> None:
    rng = np.random.default_rng(0)
    scale, _ = Scale.of(np.unique(rng.normal(size=500)), np.ones(500, dtype=np.int64))
    t, z = scale.knots, np.linspace(-4, 4, 201)
    inside = np.clip(z, t[0], t[-1])
    functions = np.column_stack([np.ones_like(z), z, scale.bends(z)])
    for values in rng.normal(size=(5, len(t))):
        spline = CubicSpline(t, values, bc_type="natural")
        wanted = spline(inside) + spline(inside, 1) * (z - inside)  # a line beyond the outer knots
        fitted = functions @ np.linalg.lstsq(functions, wanted, rcond=None)[0]
        assert np.abs(fitted - wanted).max() < 1e-8
    assert np.linalg.lstsq(functions, np.sin(3 * z), rcond=None)[1] > 1  # the control: no spline of these knots


def test_rare_levels_are_pooled_and_unknown_ones_are_rare() -> None:
    site = np.r_[np.repeat([0.0, 1.0, 2.0], 20), 7.0, 8.0]
    basis = Basis.fitted(site[:, None], ["site"], declared=(0,))[0]
    assert basis.names == ("site = 0", "site = 1", "site = 2", "site: rare levels")
    seen = basis(np.array([[1.0], [7.0], [99.0]])) > 0
    assert seen.tolist() == [[False, True, False, False], [False, False, False, True], [False, False, False, True]]


def test_a_level_of_two_rows_is_no_rare_one() -> None:
    site = np.r_[np.repeat([0.0, 1.0], 20), 7.0, 7.0]
    assert Basis.fitted(site[:, None], ["site"], declared=(0,))[0].names == ("site = 0", "site = 1", "site = 7")


def test_normal_scores_are_shrunken_a_tenth_as_much_as_the_others() -> None:
    x = np.column_stack([np.arange(60.0), np.arange(60) % 3])
    basis = Basis.fitted(x, ["n", "site"])[0]
    assert basis.sorts[0] == 2
    assert basis.ridge.tolist() == [0.1] * 2 + [1.0] * (len(basis.names) - 2)


@pytest.mark.parametrize(("levels", "indicators"), [(2, 0), (3, 3), (40, 40), (41, 0)])
def test_whole_numbers_of_few_levels_are_codes_and_amounts(levels: int, indicators: int) -> None:
    x = (np.arange(400.0) % levels)[:, None]
    basis = Basis.fitted(x, ["n"])[0]
    assert (basis.sorts[0], basis.sorts[2]) == (1, indicators)


def test_constant_columns_have_no_function() -> None:
    assert Basis.fitted(np.c_[np.ones(50), np.arange(50.0)], ["one", "n"])[0].sorts[0] == 1


def test_functions_are_standardised_on_the_training_rows() -> None:
    x = np.random.default_rng(0).lognormal(sigma=3, size=(300, 3))
    basis, made = Basis.fitted(x, list("abc"))
    assert np.allclose(basis(x), made)
    assert np.allclose(made.mean(axis=0), 0, atol=1e-9)
    assert np.allclose(made.std(axis=0), 1)


@pytest.mark.long
def test_the_product_that_membership_goes_with_is_found_and_hardly_any_other() -> None:
    found, others = 0, 0
    for rng in np.random.default_rng(1).spawn(40):
        x = rng.normal(size=(1500, 8))
        member = rng.random(1500) < special.expit(0.7 * x[:, 2] * x[:, 5] + 0.8 * x[:, 0])
        basis = Basis.fitted(x, [str(i) for i in range(8)])[0]
        pairs = {tuple(pair) for pair in Products.of(basis(x), basis, member).pairs.tolist()}
        found += (2, 5) in pairs
        others += len(pairs - {(2, 5)})
    assert found == 40
    assert others <= 9  # 27 others a world, each with a chance of 0.0027: 2.9 expected, 9 in one of 500


def test_products_are_tried_after_the_main_effects() -> None:
    """A line in two covariates that go together makes their product no news."""
    rng = np.random.default_rng(2)
    x = rng.normal(size=(3000, 2))
    x[:, 1] += x[:, 0]
    member = rng.random(3000) < special.expit(2 * (x[:, 0] > 0.5) - 0.6)
    basis = Basis.fitted(x, ["u", "v"])[0]
    assert len(Products.of(basis(x), basis, member).pairs) == 0


def test_a_design_does_not_look_at_the_rows_that_it_is_applied_to() -> None:
    rng = np.random.default_rng(3)
    x, member = rng.normal(size=(400, 3)), rng.random(400) < 0.5
    design = Design.fitted(x[:300], member[:300], list("abc"))[0]
    one = design(x[300:])
    assert np.array_equal(one[:50], design(x[300:350]))
    assert one.shape[1] == len(design.ridge)


def test_products_are_held_within_six_on_both_sides() -> None:
    products = Products(np.array([[0, 1], [0, 2]]), np.array([0.0, 1.0]), np.array([1.0, 2.0]))
    main = np.array([[4.0, 3.0, 1.0], [-4.0, 3.0, 5.0], [1.0, 2.0, -3.0]])
    assert products(main).tolist() == [[6.0, (4 - 1) / 2], [-6.0, (-6 - 1) / 2], [2.0, (-3 - 1) / 2]]


@pytest.mark.parametrize(("levels", "tried"), [(12, 13), (13, 1)])
def test_products_with_each_level_are_tried_of_codes_with_twelve_at_most(levels: int, tried: int) -> None:
    x = (np.arange(400.0) % levels)[:, None]
    assert len(Basis.fitted(x, ["n"])[0].factors) == tried


def test_scores_of_products_are_as_if_each_had_a_column() -> None:
    """Sum of residuals times the product less its weighted mean, over the root of its weighted sum of squares."""
    rng = np.random.default_rng(4)
    s, residual, weight = rng.normal(size=(80, 4)), rng.normal(0.3, 1, 80), rng.uniform(0.05, 0.25, 80)
    z = product_scores(s, residual, weight)
    for i in range(4):
        for j in range(4):
            p = s[:, i] * s[:, j]
            p = p - np.average(p, weights=weight)
            assert z[i, j] == pytest.approx((residual @ p) / np.sqrt(weight @ p**2))


@pytest.mark.long
def test_copies_of_a_record_add_no_corners() -> None:
    rng = np.random.default_rng(4)
    x, member = rng.normal(size=(400, 3)), rng.random(400) < 0.5
    many, labels = np.repeat(x, 5, axis=0), np.repeat(member, 5)
    one, fooled, sound = (
        Design.fitted(rows, label, list("abc"), independent=share)[0]
        for rows, label, share in ((x, member, 1.0), (many, labels, 1.0), (many, labels, 0.2))
    )
    assert len(fooled.corners.boxes) > len(one.corners.boxes) == len(sound.corners.boxes)
    assert sound.products.pairs.tolist() == one.products.pairs.tolist()

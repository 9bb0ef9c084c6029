"""Trade-offs against integration over the simplex, closed forms and draws."""

from __future__ import annotations

import time

import numpy as np
import pytest
from scipy import integrate, stats

from disclosure import truths
from miaudit.disclosure import tradeoff
from miaudit.disclosure.dirichlet import World, marginal
from miaudit.disclosure.tradeoff import TradeOff
from miaudit.errors import InputError

PAIRS = [
    ([3.0, 1.0, 1.0], [2.0, 1.5, 1.5]),
    ([2.4, 0.7, 0.9], [2.0, 0.9, 1.4]),
    ([6.0, 2.0, 2.0], [2.0, 1.5, 1.1]),  # every parameter larger: the ratio has a largest value
    ([1.0, 1.0, 3.0], [1.0, 2.0, 1.0]),  # two labels alike
]


@pytest.mark.long
@pytest.mark.parametrize(("a", "b"), PAIRS)
def test_three_classes_agree_with_integration_over_the_triangle(a: list[float], b: list[float]) -> None:
    masses = [truths.masses_on_triangle(np.array(law), 600)[1] for law in (b, a)]
    area, largest = truths.area_and_largest(*masses)
    curve = tradeoff.confidence_vector(a, b)
    assert tradeoff.averaged_confidence_vector(a, b) == pytest.approx(area, abs=3e-4)
    assert curve.averaged() == pytest.approx(area, abs=3e-4)
    assert curve.largest() == pytest.approx(largest, abs=5e-4)
    truth = TradeOff.of_masses(*masses)
    rates = np.array([0.01, 0.2, 0.5, 0.9, 0.99, 0.999])
    np.testing.assert_allclose(curve(rates), truth(rates), atol=1.5e-3)
    assert np.all(curve.error(rates) < 1e-3)


def test_the_triangle_would_see_other_parameters() -> None:
    """Control: 5% in one parameter is beyond the tolerance."""
    masses = [truths.masses_on_triangle(np.array(law), 600)[1] for law in PAIRS[0][::-1]]
    area = truths.area_and_largest(*masses)[0]
    assert abs(float(tradeoff.averaged_confidence_vector([3.15, 1.0, 1.0], [2.0, 1.5, 1.5])) - area) > 3e-3


@pytest.mark.long
@pytest.mark.parametrize("values", truths.GRID, ids=str)
def test_the_grid_agrees_with_draws_of_scipy(values: tuple[int, float, float, float]) -> None:
    world = World(*values)
    truth, error = truths.drawn_area(world.alpha_in, world.alpha_out, 400_000 // world.classes, seed=1)
    assert float(tradeoff.averaged_confidence_vector(world.alpha_in, world.alpha_out)) == pytest.approx(
        truth, abs=4 * error
    )


@pytest.mark.parametrize("values", truths.GRID, ids=str)
def test_the_curve_and_the_closed_integral_agree(values: tuple[int, float, float, float]) -> None:
    """Two routes that share the transform but neither the quadrature nor the inversion."""
    world = World(*values)
    curve = tradeoff.confidence_vector(world.alpha_in, world.alpha_out)
    exact = float(tradeoff.averaged_confidence_vector(world.alpha_in, world.alpha_out))
    assert curve.averaged() == pytest.approx(exact, abs=2e-5)
    assert np.all(curve.error([0.01, 0.5, 0.9, 0.999]) < 1e-3)


@pytest.mark.long
@pytest.mark.parametrize("values", truths.GRID, ids=str)
def test_true_label_agrees_with_quadrature_of_beta_laws(values: tuple[int, float, float, float]) -> None:
    world = World(*values)
    into, out = (stats.beta(*marginal(law, 0)) for law in (world.alpha_in, world.alpha_out))
    # the ratio grows with the confidence: beta at alpha is F_in(F_out^-1(alpha))
    rates = np.array([0.001, 0.1, 0.5, 0.9, 0.999])
    curve = tradeoff.true_label(world.alpha_in, world.alpha_out)
    np.testing.assert_allclose(curve(rates), into.cdf(out.ppf(rates)), atol=2e-4)
    area = integrate.quad(lambda u: float(into.cdf(out.ppf(u))), 0, 1, limit=200, epsabs=1e-6)[0]
    assert curve.averaged() == pytest.approx(0.5 - area, abs=2e-5)
    both = [marginal(law, 0) for law in (world.alpha_in, world.alpha_out)]
    assert float(tradeoff.averaged_confidence_vector(*both)) == pytest.approx(0.5 - area, abs=2e-6)


@pytest.mark.long
@pytest.mark.parametrize(("a", "b"), [([20.0, 20.0], [2.0, 2.0]), ([0.7, 0.6], [3.0, 5.0]), ([9.0, 3.0], [3.0, 1.0])])
def test_true_label_whose_ratio_is_not_monotone(a: list[float], b: list[float]) -> None:
    x, width = truths.cells_of_unit(20_000)
    x, width = x[20:-20], width[20:-20]  # the outermost round to 0 and 1
    masses = [stats.beta(*law).pdf(x) * width for law in (b, a)]
    area, largest = truths.area_and_largest(*masses)
    curve = tradeoff.true_label(a, b)
    assert curve.averaged() == pytest.approx(area, abs=1e-4)
    assert curve.largest() == pytest.approx(largest, abs=1e-4)
    monotone = 0.5 - integrate.quad(lambda u: float(stats.beta(*a).cdf(stats.beta(*b).ppf(u))), 0, 1, limit=200)[0]
    assert abs(monotone - area) > 0.01  # control: a single threshold on the confidence is not the best attack


@pytest.mark.long
@pytest.mark.parametrize(
    ("a", "b"),
    [
        ([50.0, 0.05, 0.02, 0.01], [5.0, 0.3, 0.5, 0.02]),
        ([2.4, 1e-6, 1e-6], [2.0, 0.2, 0.2]),
        ([3e3, 2e3, 1e3], [3e3, 2e3, 1.1e3]),
        ([1e4, 1.0, 1.0, 1.0], [1.0, 1e4, 1.0, 1.0]),
        ([1.0 + 1e-9, 2.0, 3.0], [1.0, 2.0, 3.0]),
        ([1e6, 1e-3, 1e-3], [1e5, 1e-3, 2e-3]),
    ],
)
def test_extreme_parameters_give_a_curve_all_the_same(a: list[float], b: list[float]) -> None:
    curve = tradeoff.confidence_vector(a, b)
    exact = float(tradeoff.averaged_confidence_vector(a, b))
    assert 0 <= exact <= 0.5
    assert curve.averaged() == pytest.approx(exact, abs=1e-4)
    assert np.all(np.diff(curve.tnr) > 0)
    assert np.all(np.diff(curve.fnr) >= 0)
    assert np.all(curve.fnr <= curve.tnr + 1e-9)
    for label in range(len(a)):
        single = tradeoff.true_label(a, b, label)
        assert single.averaged() <= curve.averaged() + 1e-3
        both = [marginal(law, label) for law in (a, b)]
        assert single.averaged() == pytest.approx(float(tradeoff.averaged_confidence_vector(*both)), abs=2e-4)


def test_the_same_law_tells_nothing() -> None:
    for curve in (
        tradeoff.confidence_vector([1.0, 2.0, 3.0], [1.0, 2.0, 3.0]),
        tradeoff.true_label([1, 2.0], [1, 2.0]),
    ):
        np.testing.assert_array_equal(curve([0.0, 0.3, 1.0]), [0.0, 0.3, 1.0])
        assert curve.averaged() == 0
    assert tradeoff.averaged_confidence_vector([1.0, 2.0, 3.0], [1.0, 2.0, 3.0]) == 0


def test_swapping_the_laws_mirrors_the_curve() -> None:
    a, b = np.array(PAIRS[1])
    assert tradeoff.averaged_confidence_vector(a, b) == pytest.approx(tradeoff.averaged_confidence_vector(b, a))
    there, back = tradeoff.confidence_vector(a, b), tradeoff.confidence_vector(b, a)
    # a test of one order with errors (1 - alpha, beta) has (beta, 1 - alpha) in the other
    np.testing.assert_allclose(1 - back(1 - there.fnr), there.tnr, atol=2e-3)


def test_many_records_at_once() -> None:
    a, b = (np.array([p[i] for p in PAIRS]) for i in (0, 1))
    together = tradeoff.averaged_confidence_vector(a, b)
    np.testing.assert_allclose(
        together, [float(tradeoff.averaged_confidence_vector(x, y)) for x, y in PAIRS], rtol=1e-12
    )


@pytest.mark.long
def test_curves_are_quick() -> None:
    world = World(10, 0.5, 0.25, 0.2)
    start = time.process_time()
    for _ in range(5):
        tradeoff.confidence_vector(world.alpha_in, world.alpha_out)
        tradeoff.true_label(world.alpha_in, world.alpha_out)
    assert (time.process_time() - start) / 5 < 0.2  # measured: 0.01


def test_draws_agree_with_the_inversion_within_their_error() -> None:
    rng = np.random.default_rng(3)
    world = World(10, 0.5, 0.25, 0.2)
    drawn = tradeoff.simulated_confidence(world.alpha_in, world.alpha_out, draws=50_000, rng=rng)
    exact = tradeoff.confidence_vector(world.alpha_in, world.alpha_out)
    rates = np.array([0.1, 0.5, 0.9, 0.99])
    assert np.all(np.abs(drawn(rates) - exact(rates)) < drawn.error(rates))
    assert np.all(drawn.error(rates) < 0.02)


def test_drawn_sets_agree_with_their_law_within_their_error() -> None:
    rng = np.random.default_rng(4)
    a, b = np.array([5.0, 1.0, 0.5, 0.2, 0.1]), np.array([3.0, 1.5, 0.5, 0.4, 0.3])
    for q, temperature in ((0.2, 0.0), (0.3, 0.1)):
        drawn = tradeoff.simulated_sets(a, b, threshold=q, temperature=temperature, draws=40_000, rng=rng)
        exact = tradeoff.decision_set(a, b, threshold=q, temperature=temperature)
        rates = np.array([0.1, 0.5, 0.9])
        assert np.all(np.abs(drawn(rates) - exact(rates)) < drawn.error(rates) + 0.01)
        assert drawn.averaged() == pytest.approx(exact.averaged(), abs=0.006)


def test_outcomes_of_members_only_stand_at_the_end() -> None:
    curve = TradeOff.of_masses([0.4, 0.6, 0.0], [0.1, 0.4, 0.5])
    assert curve(1.0) == pytest.approx(0.5)
    assert curve.averaged() == pytest.approx(0.5 * 1 + 0.5 * truths_area() - 0.5)


def truths_area() -> float:
    """AUC within the first two outcomes of the test above, by counting."""
    out, into = np.array([0.4, 0.6]), np.array([0.1, 0.4]) / 0.5
    return float(into[1] * (out[0] + out[1] / 2) + into[0] * out[0] / 2)


def test_what_cannot_be_read_is_refused() -> None:
    curve = tradeoff.true_label([2.0, 1.0], [1.0, 1.0])
    with pytest.raises(InputError, match=r"true-negative rates in \[0, 1\], received 1.2"):
        curve(1.2)
    with pytest.raises(InputError, match="of one record"):
        tradeoff.confidence_vector([[2.0, 1.0]], [[1.0, 1.0]])
    with pytest.raises(InputError, match="always be empty"):
        tradeoff.decision_set([2.0, 1.0], [1.0, 1.0], threshold=1.5)
    with pytest.raises(InputError, match="always be full"):
        tradeoff.decision_set([2.0, 1.0], [1.0, 1.0], threshold=-0.5)
    with pytest.raises(InputError, match="temperature"):
        tradeoff.decision_set([2.0, 1.0], [1.0, 1.0], threshold=0.5, temperature=-1.0)
    with pytest.raises(InputError, match="draws are needed"):
        tradeoff.decision_set([2.0, 1.0, 1.0], [1.0, 1.0, 1.0], threshold=0.5, temperature=1e-4)

"""Trade-off functions against arbitrary precision, plain searches and an independent accountant."""

from __future__ import annotations

import math

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from miaudit.dp import tradeoff
from miaudit.dp.composition import compose
from miaudit.dp.tradeoff import Custom, EpsilonDelta, Gaussian, TradeOff
from miaudit.errors import InputError

GRID = np.unique(np.concatenate([np.linspace(0, 1, 501), np.logspace(-15, -1, 57), 1 - np.logspace(-12, -1, 45)]))
CLAIMS: list[TradeOff] = [
    EpsilonDelta(0.0),
    EpsilonDelta(1.0),
    EpsilonDelta(0.5, 0.1),
    EpsilonDelta(30.0, 1e-12),
    EpsilonDelta(2000.0, 1e-3),
    EpsilonDelta(0.0, 0.3),
    Gaussian(0.0),
    Gaussian(1e-6),
    Gaussian(1.0),
    Gaussian(30.0),
    compose(Gaussian(1.0), EpsilonDelta(0.0, 0.05)),
]


def exact_delta(mu: float, epsilon: float) -> mpmath.mpf:
    with mpmath.workdps(400):
        m, e = mpmath.mpf(mu), mpmath.mpf(epsilon)
        return mpmath.ncdf(m / 2 - e / m) - mpmath.exp(e) * mpmath.ncdf(-m / 2 - e / m)


@pytest.mark.parametrize("claim", CLAIMS, ids=str)
def test_the_laws_of_a_trade_off_function(claim: TradeOff) -> None:
    values = claim(GRID)
    assert np.all((values >= 0) & (values <= 1 - GRID + 1e-15))
    assert np.all(np.diff(values) <= 1e-15)
    left, middle, right = GRID[:-2], GRID[1:-1], GRID[2:]
    chord = values[:-2] + (values[2:] - values[:-2]) * (middle - left) / (right - left)
    assert np.all(values[1:-1] <= chord + 1e-14)
    np.testing.assert_allclose(claim.tpr_at_fpr(GRID), 1 - values, atol=1e-15)
    dyadic = np.arange(513) / 512  # 1 - y is exact
    np.testing.assert_allclose(claim.fpr_at_tpr(1 - dyadic), claim.inverse(dyadic), rtol=1e-9, atol=1e-14)


@pytest.mark.parametrize("claim", CLAIMS, ids=str)
def test_the_inverse_is_the_smallest_rate_that_reaches(claim: TradeOff) -> None:
    """inf{a: f(a) <= y}, against a plain bisection that uses f only."""
    for y in (0.0, 1e-9, 0.01, 0.3, 0.5, 0.9, 0.95, 0.99, 1.0):
        low, high = 0.0, 1.0 if claim(0.0) > y else 0.0
        if y == 0 and claim in (CLAIMS[4], CLAIMS[9]):
            continue  # e^-2000 and Phi(-38) are 0 in floating point
        while high - low > 1e-13:
            middle = (low + high) / 2
            low, high = (low, middle) if claim(middle) <= y else (middle, high)
        assert claim.inverse(y) == pytest.approx(high, abs=1e-6 if y == 0 else 1e-9)


@pytest.mark.parametrize("mu", [1e-8, 1e-3, 0.1, 0.49, 0.51, 1.0, 3.0, 10.0, 30.0])
def test_delta_of_mu_against_400_digits(mu: float) -> None:
    for epsilon in (0.0, 0.1 * mu, mu, mu * mu / 2, mu * mu / 2 + 3 * mu, mu * mu / 2 + 7 * mu, mu * mu / 2 + 30 * mu):
        truth = exact_delta(mu, epsilon)
        assert Gaussian(mu).delta_at(epsilon) == pytest.approx(float(truth), rel=1e-11), epsilon


def test_the_textbook_formula_loses_its_digits() -> None:
    """Control: the difference as printed is wrong by far where delta is 1e-12 or less."""
    from scipy.stats import norm

    epsilon = 27.0
    printed = norm.cdf(0.5 - epsilon / 1.0) - math.exp(epsilon) * norm.cdf(-0.5 - epsilon / 1.0)
    truth = float(exact_delta(1.0, epsilon))
    assert abs(printed / truth - 1) > 1e-12
    tiny = norm.cdf(0.5e-8 - 5) - math.exp(5e-8) * norm.cdf(-0.5e-8 - 5)
    assert abs(tiny / float(exact_delta(1e-8, 5e-8)) - 1) > 1e-6


@pytest.mark.parametrize("mu", [0.01, 1.0, 5.0, 30.0])
@pytest.mark.parametrize("delta", [1e-300, 1e-12, 1e-5, 0.01, 0.3])
def test_epsilon_delta_and_mu_lead_back_to_each_other(mu: float, delta: float) -> None:
    claim = Gaussian(mu)
    epsilon = claim.epsilon_at(delta)
    if epsilon == 0:
        assert claim.total_variation <= delta
        return
    assert float(exact_delta(mu, epsilon)) == pytest.approx(delta, rel=1e-9)
    assert tradeoff.mu_of_epsilon_delta(epsilon, delta) == pytest.approx(mu, rel=1e-9)
    assert claim.delta_at(epsilon) == pytest.approx(delta, rel=1e-9)


def test_epsilon_of_mu_against_the_accountant() -> None:
    pytest.importorskip("dp_accounting", reason="the accountant is the extra `dp`")
    from dp_accounting.pld.privacy_loss_mechanism import GaussianPrivacyLoss

    for sigma in (0.2, 1.0, 4.0):
        theirs = GaussianPrivacyLoss(sigma)
        for delta in (1e-10, 1e-5, 0.01):
            epsilon = Gaussian(1 / sigma).epsilon_at(delta)
            assert theirs.get_delta_for_epsilon(epsilon) == pytest.approx(delta, rel=1e-6)


@pytest.mark.long
@pytest.mark.parametrize("claim", CLAIMS, ids=str)
def test_delta_is_the_largest_gap_of_the_curve(claim: TradeOff) -> None:
    """delta(eps) = max over alpha of 1 - f(alpha) - e^eps alpha, on a grid that a lower value may miss slightly."""
    alpha = np.concatenate([[0.0], np.logspace(-320, 0, 400_001), np.linspace(0, 1, 100_001)])
    if isinstance(claim, EpsilonDelta):
        alpha = np.append(alpha, (1 - claim.delta) / (1 + math.exp(min(claim.epsilon, 700))))
    for epsilon in (0.0, 0.3, 1.0, 4.0, 20.0):
        searched = float(np.max(claim.tpr_at_fpr(alpha) - math.exp(epsilon) * alpha))
        assert claim.delta_at(epsilon) == pytest.approx(searched, abs=2e-6)
        assert claim.delta_at(epsilon) >= searched - 1e-13


@pytest.mark.long
@pytest.mark.parametrize("claim", CLAIMS, ids=str)
def test_the_bayes_risk_is_the_least_error_of_any_point(claim: TradeOff) -> None:
    alpha = np.concatenate([[0.0], np.logspace(-320, -4, 100_001), np.linspace(1e-4, 1, 1_000_001)])
    for prior in (0.01, 0.3, 0.5, 0.9):
        searched = float(np.min(prior * claim(alpha) + (1 - prior) * alpha))
        assert claim.bayes_risk(prior) == pytest.approx(searched, abs=2e-6)
        assert claim.bayes_risk(prior) <= searched + 1e-13


@pytest.mark.long
@settings(max_examples=100, deadline=None)
@given(st.floats(0.05, 12), st.sampled_from([0.0, 1e-9, 0.01, 0.2]), st.sampled_from([0.02, 0.3, 0.5, 0.8]))
def test_bayes_risk_leads_back(value: float, delta: float, prior: float) -> None:
    for claim, back in (
        (EpsilonDelta(value, delta), lambda risk: tradeoff.epsilon_of_bayes_risk(risk, delta=delta, prior=prior)),
        (Gaussian(value), lambda risk: tradeoff.mu_of_bayes_risk(risk, prior=prior)),
    ):
        risk = claim.bayes_risk(prior)
        if risk < (1 - delta) * min(prior, 1 - prior) * (1 - 1e-6):  # else the claim permits no better than the prior
            assert back(risk) == pytest.approx(value, rel=1e-6)
        else:
            assert back(risk) <= value * (1 + 1e-3)  # so near the prior the parameter hangs on the last digits


@pytest.mark.parametrize("epsilon", [0.0, 1e-6, 0.3, 1.0, 5.0, 40.0])
def test_pure_epsilon_implies_this_mu_and_no_smaller(epsilon: float) -> None:
    mu = tradeoff.mu_of_pure(epsilon)
    assert np.all(Gaussian(mu)(GRID) <= EpsilonDelta(epsilon)(GRID) + 1e-14)
    kink = 1 / (1 + math.exp(epsilon))
    if epsilon > 0:
        assert Gaussian(mu * (1 - 1e-3))(kink) > EpsilonDelta(epsilon)(kink)


def test_the_roc_limit_is_that_of_erratum_a8() -> None:
    epsilon, delta = 1.2, 0.03
    printed = np.clip(np.minimum(np.exp(epsilon) * GRID + delta, 1 - np.exp(-epsilon) * (1 - delta - GRID)), 0.0, 1.0)
    np.testing.assert_allclose(tradeoff.roc_limit(EpsilonDelta(epsilon, delta), GRID), printed, atol=1e-15)
    with mpmath.workdps(60):
        z = mpmath.findroot(lambda x: mpmath.ncdf(x) - mpmath.mpf("1e-12"), -7)
        assert Gaussian(4.0).tpr_at_fpr(1e-12) == pytest.approx(float(mpmath.ncdf(z + 4)), rel=1e-12)


def test_gaussians_compose_by_squares_not_sums() -> None:
    """Erratum B1, simulated: the likelihood-ratio test of two independent releases is a normal of the root."""
    rng = np.random.default_rng(0)
    one, two, n = 0.8, 1.1, 400_000
    ratio = np.column_stack([rng.normal(size=(n, 2)), rng.normal(size=(n, 2)) + [one, two]])
    out, inside = ratio[:, :2] @ [one, two], ratio[:, 2:] @ [one, two]
    tpr = float(np.mean(inside > np.quantile(out, 0.9)))
    error = 4 * math.sqrt(2 * 0.25 / n)
    both = compose(Gaussian(one), Gaussian(two))
    assert both == Gaussian(math.hypot(one, two))
    assert abs(both.tpr_at_fpr(0.1) - tpr) < error
    assert abs(Gaussian(one + two).tpr_at_fpr(0.1) - tpr) > 10 * error  # control: as the paper's text prints


def test_composition_with_a_failure_is_a_mixture_of_curves() -> None:
    """(0, d) reveals all with probability d: with a free point at FPR 0 the curve is a scaled one."""
    both = compose(EpsilonDelta(0.0, 0.1), Gaussian(1.0), EpsilonDelta(0.0, 0.2))
    rate = 1 - 0.9 * 0.8
    for a in (0.0, 0.01, 0.3, 0.7):
        assert both(a) == pytest.approx((1 - rate) * Gaussian(1.0)(a / (1 - rate)), abs=1e-15)
    assert both(1 - rate) == pytest.approx(0.0, abs=1e-15)
    assert both(0.9) == 0
    assert both.epsilon_at(rate - 1e-9) == math.inf
    assert both.delta_at(both.epsilon_at(0.4)) == pytest.approx(0.4)
    assert compose(EpsilonDelta(1.0, 0.1), EpsilonDelta(0.0, 0.2)).delta == pytest.approx(1 - 0.9 * 0.8)
    assert compose(both, Gaussian(1.0)).epsilon_at(0.5) == pytest.approx(
        compose(EpsilonDelta(0, rate), Gaussian(math.sqrt(2))).epsilon_at(0.5)
    )


def test_a_function_of_ones_own_agrees_with_the_built_in_ones() -> None:
    from scipy.special import ndtr, ndtri

    own = Custom(lambda a: ndtr(ndtri(1 - a) - 1.0))
    assert own.symmetric
    np.testing.assert_allclose(own(GRID), Gaussian(1.0)(GRID), atol=1e-9)
    for delta in (1e-10, 1e-6, 0.01, 0.3):
        assert own.epsilon_at(delta) == pytest.approx(Gaussian(1.0).epsilon_at(delta), rel=1e-4)
        assert own.delta_at(own.epsilon_at(delta)) <= delta
    assert own.bayes_risk(0.3) == pytest.approx(Gaussian(1.0).bayes_risk(0.3), abs=1e-9)
    assert compose(own, EpsilonDelta(0.0, 0.1)).epsilon_at(0.2) == pytest.approx(
        compose(Gaussian(1.0), EpsilonDelta(0.0, 0.1)).epsilon_at(0.2), rel=1e-6
    )


def test_a_function_that_is_not_symmetric_is_made_so() -> None:
    """Subsampling one of two Gaussians: both orders of neighbours hold, so the larger of f and its inverse does."""
    one_order = Custom(lambda a: 0.5 * Gaussian(2.0)(a) + 0.5 * (1 - a))
    assert not one_order.symmetric
    alpha = np.linspace(0.001, 0.999, 99)
    np.testing.assert_allclose(one_order.inverse(one_order(alpha)), alpha, atol=1e-9)
    np.testing.assert_allclose(one_order.inverse(alpha), one_order(alpha), atol=1e-12)
    plain = 0.5 * Gaussian(2.0)(alpha) + 0.5 * (1 - alpha)
    assert np.all(one_order(alpha) >= plain)
    assert np.any(one_order(alpha) > plain + 0.01)


@pytest.mark.parametrize(
    ("function", "said"),
    [
        (lambda a: 1 - a / 2, "1 - a"),
        (lambda a: np.where(a < 0.5, 0.4 - 0.4 * a * a, 0.6 * (1 - a)), "convex"),
        (lambda a: np.minimum(0.5 + 0 * a, 1 - a), "convex"),
        (lambda a: np.maximum(0, (1 - a) * (0.6 + 0.2 * np.sin(12 * a))), "non-increasing|convex"),
        (lambda a: np.where(a > 0.4, np.nan, 1 - a), r"\[0, 1\]"),
        (lambda a: -a, r"\[0, 1\]"),
        (lambda a: np.zeros(3), "shape"),
        (lambda a: 0.2 * a * (a < 0.5), "non-increasing"),
    ],
)
def test_what_is_no_trade_off_function_is_refused(function, said: str) -> None:
    with pytest.raises(InputError, match=said):
        Custom(function)


def test_nan_between_grid_points_is_refused_when_met() -> None:
    own = Custom(lambda a: np.where((a > 0.30001) & (a < 0.30002), np.nan, 1 - a))
    with pytest.raises(InputError, match="values in"):
        own(0.300015)


def test_a_function_resolves_no_delta_below_rounding() -> None:
    with pytest.raises(InputError, match="at least 1e-12"):
        Custom(lambda a: 1 - a).epsilon_at(0.0)


@pytest.mark.parametrize("bad", [-0.1, math.nan, math.inf, "1", None, True])
def test_bad_parameters_are_refused(bad) -> None:
    for make in (EpsilonDelta, Gaussian, Gaussian(1.0).delta_at, tradeoff.mu_of_pure, lambda v: EpsilonDelta(1.0, v)):
        with pytest.raises(InputError):
            make(bad)
    if not isinstance(bad, bool):
        for ask in (Gaussian(1.0), Gaussian(1.0).inverse, lambda v: tradeoff.mu_of_point(tpr=0.5, fpr=v)):
            with pytest.raises(InputError):
                ask(bad)


def test_shapes_and_plain_numbers() -> None:
    for claim in CLAIMS:
        assert isinstance(claim(0.3), float)
        assert claim(np.full((2, 3), 0.3)).shape == (2, 3)
        assert claim([]).shape == (0,)
        assert claim.tpr_at_fpr([0.1, 0.2]).shape == (2,)

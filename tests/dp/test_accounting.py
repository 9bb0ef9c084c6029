"""Upper bounds against closed forms, exact hockey-sticks and errata A7's figures; what is refused."""

from __future__ import annotations

import importlib.util
import math
import sys

import numpy as np
import pytest
from scipy import optimize, stats

from miaudit.dp import accounting
from miaudit.dp.accounting import calibrate_noise, dp_sgd, upper_bound
from miaudit.dp.mechanism import Composed, GaussianNoise, LaplaceNoise, PoissonSubsampled, Repeated
from miaudit.dp.tradeoff import Gaussian
from miaudit.errors import InputError, MiauditError

needs_accountant = pytest.mark.skipif(
    importlib.util.find_spec("dp_accounting") is None, reason="the accountant is the extra `dp`"
)


def hockey_stick_epsilon(p, q, delta: float) -> float:
    """Epsilon at delta of two densities by plain sums over a fine grid: the larger of both directions."""
    x = np.linspace(-40, 41, 1_000_001)
    dx, px, qx = x[1] - x[0], p(x), q(x)

    def excess(epsilon: float) -> float:
        forth = np.maximum(px - math.exp(epsilon) * qx, 0).sum() * dx
        back = np.maximum(qx - math.exp(epsilon) * px, 0).sum() * dx
        return float(max(forth, back)) - delta

    return float(optimize.brentq(excess, 0.0, 20.0))


@pytest.mark.long
@needs_accountant
@pytest.mark.parametrize("noise", [0.7, 1.0, 5.0])
def test_gaussian_noise_agrees_with_the_accountant(noise: float) -> None:
    for delta in (1e-10, 1e-5, 0.01):
        bound = upper_bound(GaussianNoise(noise), delta=delta)
        theirs = accounting._by_accountant(GaussianNoise(noise), delta)
        assert bound.value == pytest.approx(theirs, abs=2e-4)
        assert bound.value <= theirs + 1e-9  # the accountant rounds upwards


def test_laplace_noise_is_pure() -> None:
    assert upper_bound(LaplaceNoise(0.5), delta=0.0).value == 2.0
    assert upper_bound(Repeated(LaplaceNoise(10.0), 7), delta=0.0).value == pytest.approx(0.7)
    sampled = upper_bound(PoissonSubsampled(LaplaceNoise(1.0), 0.1), delta=0.0).value
    assert sampled == pytest.approx(math.log(1 + 0.1 * (math.e - 1)), rel=1e-12)
    assert upper_bound(PoissonSubsampled(LaplaceNoise(1e-3), 0.1), delta=0.0).value == pytest.approx(
        1000 + math.log(0.1), rel=1e-12
    )
    assert upper_bound(GaussianNoise(1.0), delta=0.0).value == math.inf
    assert upper_bound(Composed((LaplaceNoise(1.0), GaussianNoise(1.0))), delta=0.0).value == math.inf


@pytest.mark.long
@needs_accountant
def test_laplace_noise_at_a_delta_has_a_closed_form() -> None:
    for delta in (1e-6, 0.05, 0.3):
        exact = 1.0 + 2 * math.log(1 - delta)  # delta = 1 - exp((epsilon - 1) / 2)
        assert upper_bound(LaplaceNoise(1.0), delta=delta).value == pytest.approx(exact, abs=2e-4)


def test_gaussians_compose_by_squares() -> None:
    parts = Composed((GaussianNoise(2.0), Repeated(GaussianNoise(4.0), 8), GaussianNoise(1.0)))
    mu = math.sqrt(0.25 + 8 / 16 + 1)
    assert upper_bound(parts, parameter="mu").value == pytest.approx(mu)
    assert upper_bound(parts, delta=1e-6).value == pytest.approx(Gaussian(mu).epsilon_at(1e-6))


@needs_accountant
def test_a_composition_agrees_with_the_accountant() -> None:
    parts = Composed((GaussianNoise(2.0), Repeated(GaussianNoise(4.0), 8)))
    assert accounting._by_accountant(parts, 1e-5) == pytest.approx(upper_bound(parts, delta=1e-5).value, abs=1e-3)


@pytest.mark.thorough
@pytest.mark.long
@needs_accountant
@pytest.mark.parametrize(("noise", "rate", "delta"), [(1.0, 0.1, 1e-3), (0.6, 0.5, 1e-4), (2.0, 0.064, 1e-3)])
def test_one_subsampled_step_against_its_hockey_stick(noise: float, rate: float, delta: float) -> None:
    exact = hockey_stick_epsilon(
        lambda x: rate * stats.norm.pdf(x, 1, noise) + (1 - rate) * stats.norm.pdf(x, 0, noise),
        lambda x: stats.norm.pdf(x, 0, noise),
        delta,
    )
    found = upper_bound(PoissonSubsampled(GaussianNoise(noise), rate), delta=delta).value
    assert exact - 1e-6 <= found <= exact + 1e-3
    one_way = optimize.brentq(  # control: without the other order of neighbours it is smaller
        lambda e: _removal_only(e, noise, rate) - delta, 0.0, 20.0
    )
    assert one_way < exact - 1e-3


def _removal_only(epsilon: float, noise: float, rate: float) -> float:
    x = np.linspace(-40, 41, 400_001)
    mixed = rate * stats.norm.pdf(x, 1, noise) + (1 - rate) * stats.norm.pdf(x, 0, noise)
    return float(np.maximum(stats.norm.pdf(x, 0, noise) - math.exp(epsilon) * mixed, 0).sum() * (x[1] - x[0]))


@pytest.mark.long
@needs_accountant
def test_the_guarantee_of_the_printed_training_is_that_of_erratum_a7() -> None:
    for noise, epsilon in ((math.sqrt(3), 3.6), (3.0, 1.6)):
        found = upper_bound(dp_sgd(records=2000, batch=128, epochs=75, noise=noise), delta=0.01)
        assert found.value == pytest.approx(epsilon, abs=0.05)
        assert "Poisson" in found.mechanism
        assert "dp-accounting" in found.accountant


@pytest.mark.long
@needs_accountant
def test_more_privacy_comes_from_more_noise_fewer_steps_and_smaller_batches() -> None:
    def epsilon(**changes) -> float:
        return upper_bound(
            dp_sgd(**{"records": 1000, "batch": 50, "steps": 100, "noise": 1.0, **changes}), delta=1e-5
        ).value

    base = epsilon()
    assert epsilon(noise=1.5) < base
    assert epsilon(steps=50) < base
    assert epsilon(batch=25) < base
    unsampled = upper_bound(dp_sgd(records=1000, batch=1000, steps=100, noise=1.0), parameter="mu").value
    assert unsampled == pytest.approx(10.0)
    assert base < Gaussian(10.0).epsilon_at(1e-5)


@pytest.mark.thorough
@pytest.mark.long
@needs_accountant
def test_noise_is_calibrated_to_a_target() -> None:
    def training(noise: float):
        return dp_sgd(records=500, batch=50, steps=30, noise=noise)

    noise = calibrate_noise(training, epsilon=2.0, delta=1e-3)
    assert upper_bound(training(noise), delta=1e-3).value <= 2.0
    assert upper_bound(training(noise / 1.005), delta=1e-3).value > 2.0


def test_noise_of_closed_forms_is_calibrated_exactly() -> None:
    assert calibrate_noise(LaplaceNoise, epsilon=0.25, delta=0.0, tolerance=1e-9) == pytest.approx(4.0)
    assert calibrate_noise(LaplaceNoise, epsilon=40.0, delta=0.0, tolerance=1e-9) == pytest.approx(1 / 40)
    noise = calibrate_noise(GaussianNoise, epsilon=1.0, delta=1e-5, tolerance=1e-9)
    assert Gaussian(1 / noise).epsilon_at(1e-5) == pytest.approx(1.0, abs=1e-6)
    with pytest.raises(InputError, match="larger epsilon"):
        calibrate_noise(GaussianNoise, epsilon=1.0, delta=0.0)
    with pytest.raises(InputError, match="no noise"):
        calibrate_noise(GaussianNoise, epsilon=1e9, delta=1e-5)
    for bad in ({"epsilon": 0.0}, {"epsilon": math.inf}, {"tolerance": 0.0}, {"delta": 1.0}):
        with pytest.raises(InputError):
            calibrate_noise(GaussianNoise, **{"epsilon": 1.0, "delta": 1e-5, **bad})


def test_without_the_accountant_the_message_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "dp_accounting", None)
    with pytest.raises(MiauditError, match=r"pip install '.*\[dp\]'"):
        upper_bound(PoissonSubsampled(GaussianNoise(1.0), 0.1), delta=1e-5)
    assert upper_bound(GaussianNoise(1.0), delta=1e-5).value == pytest.approx(4.3772, abs=1e-4)


@pytest.mark.thorough
@pytest.mark.long
def test_little_noise_is_accounted_for_on_a_wider_grid_that_is_still_an_upper_bound() -> None:
    pld = pytest.importorskip("dp_accounting.pld")
    event = pytest.importorskip("dp_accounting.dp_event")
    mechanism = Repeated(PoissonSubsampled(GaussianNoise(0.15), 0.05), 5)
    fine = pld.PLDAccountant()
    fine.compose(event.SelfComposedDpEvent(event.PoissonSampledDpEvent(0.05, event.GaussianDpEvent(0.15)), 5))
    found, exact = upper_bound(mechanism, delta=1e-5).value, fine.get_epsilon(1e-5)
    assert exact <= found * (1 + 1e-9)
    assert found <= exact + 5 * 2e-4
    # Unaccountable in memory on the fine grid; every use shows a record nearly whole.
    assert upper_bound(Repeated(PoissonSubsampled(GaussianNoise(0.01), 0.05), 2), delta=1e-5).value > 5_000

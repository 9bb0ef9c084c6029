"""Upper bounds against closed forms, exact hockey-sticks and errata A7's figures; what is refused."""

from __future__ import annotations

import importlib.util
import math
import sys

import numpy as np
import pytest
from scipy import optimize, stats

from miaudit.dp import accounting, loss_distribution, sampling_bounds
from miaudit.dp.accounting import calibrate_noise, dp_sgd, tradeoff, upper_bound
from miaudit.dp.loss_distribution import Released
from miaudit.dp.mechanism import Composed, GaussianNoise, LaplaceNoise, PoissonSubsampled, Repeated, Selection
from miaudit.dp.tradeoff import Gaussian
from miaudit.errors import InputError

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


def on_the_grid(mechanism, delta: float) -> float:
    parts = accounting._released(mechanism)
    return loss_distribution.epsilon(parts, delta, spread=50.0)


@pytest.mark.long
@pytest.mark.parametrize("noise", [0.7, 1.0, 5.0])
def test_the_losses_of_gaussian_noise_give_its_closed_form(noise: float) -> None:
    for delta in (1e-30, 1e-10, 1e-5, 0.01, 0.3):
        exact = upper_bound(GaussianNoise(noise), delta=delta).value
        assert exact <= on_the_grid(GaussianNoise(noise), delta) <= exact + 1e-5


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
def test_laplace_noise_at_a_delta_has_a_closed_form() -> None:
    for delta in (1e-12, 1e-6, 0.05, 0.3):
        exact = 1.0 + 2 * math.log(1 - delta)  # delta = 1 - exp((epsilon - 1) / 2)
        found = upper_bound(LaplaceNoise(1.0), delta=delta).value
        assert exact - 1e-12 <= found <= exact + 1e-5


def test_gaussians_compose_by_squares() -> None:
    parts = Composed((GaussianNoise(2.0), Repeated(GaussianNoise(4.0), 8), GaussianNoise(1.0)))
    mu = math.sqrt(0.25 + 8 / 16 + 1)
    assert upper_bound(parts, parameter="mu").value == pytest.approx(mu)
    assert upper_bound(parts, delta=1e-6).value == pytest.approx(Gaussian(mu).epsilon_at(1e-6))


@needs_accountant
@pytest.mark.long
@pytest.mark.parametrize(
    ("noise", "rate", "steps", "delta"),
    [(1.0, 0.01, 1000, 1e-5), (5.0, 0.5, 300, 1e-8), (0.5, 0.01, 100, 1e-5), (2.0, 0.001, 1000, 1e-9)],
)
def test_sampled_steps_agree_with_dp_accounting(noise: float, rate: float, steps: int, delta: float) -> None:
    pld, event = pytest.importorskip("dp_accounting.pld"), pytest.importorskip("dp_accounting.dp_event")
    theirs = pld.PLDAccountant(value_discretization_interval=1e-4)
    step = event.PoissonSampledDpEvent(rate, event.GaussianDpEvent(noise))
    theirs.compose(event.SelfComposedDpEvent(step, steps))
    found = upper_bound(Repeated(PoissonSubsampled(GaussianNoise(noise), rate), steps), delta=delta).value
    assert found == pytest.approx(theirs.get_epsilon(delta), rel=3e-3)  # both round upwards


@pytest.mark.parametrize("parts", [1, 2, 3])
def test_gaussian_noise_in_parts_is_convolved_to_its_closed_form(parts: int) -> None:
    """Rates just below 1 keep the parts apart, so that the grid convolves them; the closed form then limits them."""
    noises = [2.0, 3.0, 4.0][:parts]
    rate = 1 - 1e-12
    mechanism = Composed(tuple(Repeated(PoissonSubsampled(GaussianNoise(n), rate), 40) for n in noises))
    exact = Gaussian(math.sqrt(sum(40 / n**2 for n in noises))).epsilon_at(1e-20)
    assert exact - 1e-6 <= on_the_grid(mechanism, 1e-20) <= exact + 2e-3


def test_pure_mechanisms_compose_to_their_binomial() -> None:
    """Laplace noise is no randomised response, but never gives away more than one of its epsilon."""
    pure, times, delta = 0.2, 30, 1e-6
    weight = stats.binom.pmf(np.arange(times + 1), times, 1 / (1 + math.exp(-pure)))
    losses = (2 * np.arange(times + 1) - times) * pure
    limit = optimize.brentq(lambda e: (weight * np.maximum(0, 1 - np.exp(e - losses))).sum() - delta, 0.0, times * pure)
    found = upper_bound(Repeated(LaplaceNoise(1 / pure), times), delta=delta).value
    assert 0.7 * limit < found < limit
    assert upper_bound(Repeated(LaplaceNoise(1 / pure), times), delta=0.0).value == pytest.approx(times * pure)


@pytest.mark.long
@pytest.mark.parametrize(("noise", "rate", "delta"), [(1.0, 0.1, 1e-3), (0.6, 0.5, 1e-4), (2.0, 0.064, 1e-3)])
def test_one_subsampled_step_against_its_hockey_stick(noise: float, rate: float, delta: float) -> None:
    exact = hockey_stick_epsilon(
        lambda x: rate * stats.norm.pdf(x, 1, noise) + (1 - rate) * stats.norm.pdf(x, 0, noise),
        lambda x: stats.norm.pdf(x, 0, noise),
        delta,
    )
    found = upper_bound(PoissonSubsampled(GaussianNoise(noise), rate), delta=delta).value
    assert exact - 1e-6 <= found <= exact + 1e-4
    one_way = optimize.brentq(  # control: without the other order of neighbours it is smaller
        lambda e: _removal_only(e, noise, rate) - delta, 0.0, 20.0
    )
    assert one_way < exact - 1e-3


def _removal_only(epsilon: float, noise: float, rate: float) -> float:
    x = np.linspace(-40, 41, 400_001)
    mixed = rate * stats.norm.pdf(x, 1, noise) + (1 - rate) * stats.norm.pdf(x, 0, noise)
    return float(np.maximum(stats.norm.pdf(x, 0, noise) - math.exp(epsilon) * mixed, 0).sum() * (x[1] - x[0]))


@pytest.mark.long
def test_the_guarantee_of_the_printed_training_is_that_of_erratum_a7() -> None:
    for noise, epsilon in ((math.sqrt(3), 3.6), (3.0, 1.6)):
        found = upper_bound(dp_sgd(records=2000, batch=128, epochs=75, noise=noise), delta=0.01)
        assert found.value == pytest.approx(epsilon, abs=0.05)
        assert "each record taken with probability 6.4%" in found.mechanism
        assert "privacy losses" in found.accountant


@pytest.mark.long
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


@pytest.mark.parametrize("sampling", [1.0, 0.1])
def test_a_core_install_accounts_for_everything(sampling: float, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "dp_accounting", None)
    assert 0 < upper_bound(PoissonSubsampled(GaussianNoise(1.0), sampling), delta=1e-5).value < 4.378


@pytest.mark.long
def test_little_noise_shows_every_sample_of_a_record() -> None:
    """At a noise of 0.05 a record is seen as often as it is sampled, in 100 steps 8 times with a chance above delta."""
    training = dp_sgd(records=60_000, batch=600, noise=0.05, epochs=1)
    sampled = int(stats.binom.isf(1e-5, 100, 0.01))
    found = upper_bound(training, delta=1e-5).value
    assert Gaussian(math.sqrt(sampled - 1) / 0.05).epsilon_at(0.5) < found
    assert found < Gaussian(math.sqrt(sampled + 1) / 0.05).epsilon_at(1e-6)
    assert upper_bound(Repeated(PoissonSubsampled(GaussianNoise(0.01), 0.05), 2), delta=1e-5).value > 5_000


@pytest.mark.long
def test_a_delta_far_below_rounding_has_an_epsilon() -> None:
    training = dp_sgd(records=750_000, batch=250, noise=4, steps=10_000)
    found = [upper_bound(training, delta=delta).value for delta in (1e-14, 1e-15, 1e-18, 1e-30)]
    assert found == sorted(found)
    assert 0.055 < found[0] < 0.0643
    assert found[1] < 0.07
    assert found[3] < 0.1


RANGES = {"noise": (-3.0, 4.0), "rate": (-9.0, 0.0), "steps": (0.0, 9.0), "delta": (-30.0, math.log10(0.5))}
MORE = {"noise": 1, "rate": -1, "steps": -1, "delta": 1}  # direction in which epsilon falls


def epsilon_of(kind, noise: float, rate: float, steps: float, delta: float) -> float:
    mechanism = Repeated(PoissonSubsampled(kind(10**noise), min(1.0, 10**rate)), max(1, int(10**steps)))
    return upper_bound(mechanism, delta=min(0.5, 10**delta)).value


def check_one(seed: int) -> None:
    """Any parameters have an epsilon, within what is proven of them, that falls with each step towards more privacy."""
    rng = np.random.default_rng(seed)
    kind = LaplaceNoise if rng.random() < 0.2 else GaussianNoise
    at = {name: float(rng.uniform(*ends)) for name, ends in RANGES.items()}
    found = epsilon_of(kind, **at)
    every = max(1, int(10 ** at["steps"]))
    plain = sampling_bounds.gaussian(math.sqrt(every) / 10 ** at["noise"], min(0.5, 10 ** at["delta"]))
    assert 0 <= found <= (plain if kind is GaussianNoise else every / 10 ** at["noise"]) * (1 + 1e-9)
    for name, sign in MORE.items():
        more = {**at, name: at[name] + sign * float(rng.choice([1e-4, 0.01, 0.1, 1.0]))}
        rounding = 1e-9 if at["delta"] > -20 else 0.005  # what rounding adds to so small a delta differs between grids
        assert epsilon_of(kind, **more) <= found * (1 + rounding), (kind, at, name)


@pytest.mark.long
@pytest.mark.parametrize("seed", [1, 2])
def test_any_parameters_have_a_bound_that_falls_with_privacy(seed: int) -> None:
    check_one(seed)


@pytest.mark.thorough
@pytest.mark.parametrize("seed", range(100, 140))
def test_many_parameters_have_a_bound_that_falls_with_privacy(seed: int) -> None:
    check_one(seed)


@pytest.mark.long
@pytest.mark.parametrize("noise", [1e-3, 1e4])
@pytest.mark.parametrize("rate", [1e-9, 1.0])
@pytest.mark.parametrize("steps", [1, 10**9])
@pytest.mark.parametrize("delta", [1e-30, 0.5])
def test_the_corners_have_a_finite_bound(noise: float, rate: float, steps: int, delta: float) -> None:
    mechanism = Repeated(PoissonSubsampled(GaussianNoise(noise), rate), steps)
    found = upper_bound(mechanism, delta=delta).value
    assert 0 <= found < math.inf
    if steps * rate < delta:  # the record is in no sample
        assert found == 0


@pytest.mark.long
def test_what_cannot_be_counted_is_refused_in_one_line() -> None:
    with pytest.raises(InputError, match="times: expected at most"):
        upper_bound(Repeated(Repeated(GaussianNoise(1.0), 10**9), 10**300), delta=1e-5)
    with pytest.raises(InputError, match="noise: expected at least 1e-06"):
        upper_bound(PoissonSubsampled(GaussianNoise(1e-200), 0.1), delta=1e-5)
    many = Composed(tuple(PoissonSubsampled(GaussianNoise(1 + k / 1e4), 0.1) for k in range(101)))
    with pytest.raises(InputError, match="parts of different noise"):
        upper_bound(many, delta=1e-5)
    assert upper_bound(Composed(many.parts[:20]), delta=1e-5).value < math.inf
    assert upper_bound(Selection(300.0), delta=1e-5).value <= 300


@pytest.mark.long
def test_the_trade_off_of_any_training_is_drawn() -> None:
    for noise, steps in ((0.01, 1000), (1.0, 10**7), (100.0, 100)):
        training = Repeated(PoissonSubsampled(GaussianNoise(noise), 0.01), steps)
        drawn = tradeoff(training)
        mu = math.sqrt(steps) / noise
        for fpr in (0.01, 0.5):
            assert Gaussian(min(mu, 1e6))(fpr) - 1e-9 <= drawn(fpr) <= 1 - fpr


# -- closed forms by their definition ----------------------------------------------------------------------------------


def by_renyi(parts: list[Released], delta: float) -> float:
    """Epsilon by Renyi divergences of the orders 2 to 50, term by term.

    Mironov, Talwar and Zhang (2019), and proposition 12 of Canonne, Kamath and Steinke (2020).
    """

    def moment(part: Released, order: int) -> float:
        q, noise = part.rate, part.noise
        if part.kind == "laplace":
            p = 1 / (1 + math.exp(-math.log1p(q * math.expm1(1 / noise))))
            return math.log(p**order * (1 - p) ** (1 - order) + (1 - p) ** order * p ** (1 - order))
        terms = [
            math.comb(order, k) * (1 - q) ** (order - k) * q**k * math.exp(k * (k - 1) / (2 * noise**2))
            for k in range(order + 1)
        ]
        return math.log(math.fsum(terms))

    found = []
    for order in range(2, 51):
        total = sum(part.times * moment(part, order) for part in parts)
        found.append((total - math.log(delta * order)) / (order - 1) + math.log(1 - 1 / order))
    return min(found)


@pytest.mark.parametrize(
    "parts",
    [
        [Released("gaussian", 2.0, 1.0, 3)],
        [Released("gaussian", 1.5, 0.05, 400)],
        [Released("laplace", 3.0, 1.0, 50)],
        [Released("laplace", 2.0, 0.2, 30), Released("gaussian", 3.0, 0.3, 20)],
    ],
)
def test_the_bound_by_moments_is_that_of_its_sum_term_by_term(parts: list[Released]) -> None:
    for delta in (1e-8, 1e-4):
        expected = by_renyi(parts, delta)
        found = sampling_bounds.by_moments(iter(parts), delta)
        assert found == pytest.approx(expected, rel=1e-7)
        assert found >= expected * (1 - 1e-12)  # rounded to the safe side


def by_uses(part: Released, delta: float) -> float:
    """Epsilon by how often a record is sampled, with binomial quantiles of scipy."""
    best = math.inf
    for share in (0.0, 0.001, 0.01, 0.1, 0.5, 0.9, 0.99, 0.999):
        uses = part.times if share == 0 else stats.binom.isf(delta * share, part.times, part.rate)
        best = min(best, sampling_bounds.gaussian(math.sqrt(uses) / part.noise, delta * (1 - share)))
    return best


@pytest.mark.parametrize("rate", [0.01, 0.6])
@pytest.mark.parametrize("times", [1, 50])
def test_the_bound_by_samplings_is_that_of_binomial_quantiles(rate: float, times: int) -> None:
    part = Released("gaussian", 1.5, rate, times)
    for delta in (1e-6, 0.02):
        assert sampling_bounds.by_samplings([part], delta) == pytest.approx(by_uses(part, delta), rel=1e-9)


def test_without_sampling_every_use_is_seen() -> None:
    seen = [Released("gaussian", 2.0, 1.0, 9), Released("gaussian", 4.0, 1.0, 16)]
    mu = math.sqrt(9 / 4 + 16 / 16)
    assert sampling_bounds.by_samplings(seen, 1e-5) == pytest.approx(Gaussian(mu).epsilon_at(1e-5), rel=1e-12)
    pure = [Released("laplace", 4.0, 1.0, 20), *seen]
    added = Gaussian(mu).epsilon_at(1e-5) + 20 / 4
    flat = 2 * stats.norm.ppf(1 / (1 + math.exp(-1 / 4)))  # mu of a randomised response
    together = Gaussian(math.sqrt(mu**2 + 20 * flat**2)).epsilon_at(1e-5)
    assert together < added
    assert sampling_bounds.by_samplings(pure, 1e-5) == pytest.approx(together, rel=1e-9)
    one = [Released("laplace", 0.1, 1.0, 1), *seen]
    assert sampling_bounds.by_samplings(one, 1e-5) == pytest.approx(Gaussian(mu).epsilon_at(1e-5) + 10, rel=1e-9)


def test_a_gaussian_of_huge_mu_has_an_epsilon_above_its_smallest() -> None:
    for mu in (1e5, 1e5 * (1 + 1e-9), 1e6):
        found = sampling_bounds.gaussian(mu, 1e-5)
        exact = mu * (mu / 2 - stats.norm.ppf(1e-5))  # where the first term alone is delta
        assert exact * (1 - 1e-9) <= found <= exact * (1 + 1e-4)


@pytest.mark.long
def test_a_mixture_with_laplace_noise_gives_away_what_the_laplace_noise_alone_does() -> None:
    """Next to no Gaussian noise beside it: at least delta of one Laplace mechanism, in closed form, and little more."""
    claim = tradeoff(Composed((LaplaceNoise(1.0), GaussianNoise(10.0))))
    for epsilon in (0.0, 0.1, 0.3, 0.6):
        alone = 1 - math.exp((epsilon - 1) / 2)
        assert alone <= claim.delta_at(epsilon) <= alone + 0.02

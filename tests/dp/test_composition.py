"""Composed claims: against the binomial of Kairouz, Oh and Viswanath, by enumeration, and another accountant."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from scipy import stats

from miaudit.dp.composition import compose
from miaudit.dp.directed_profile import DirectedProfile
from miaudit.dp.privacy_profile import PrivacyProfile
from miaudit.dp.tradeoff import Custom, EpsilonDelta, Gaussian, TradeOff
from miaudit.errors import InputError


def by_enumeration(claims: list[EpsilonDelta], epsilon: float) -> float:
    """Delta at an epsilon of randomised responses that may fail, all outputs one by one."""
    failing = 1 - math.prod(1 - claim.delta for claim in claims)
    inside = 0.0
    for signs in itertools.product((1, -1), repeat=len(claims)):
        loss = sum(sign * claim.epsilon for sign, claim in zip(signs, claims, strict=True))
        chance = math.prod(1 / (1 + math.exp(-sign * claim.epsilon)) for sign, claim in zip(signs, claims, strict=True))
        inside += chance * max(0.0, 1 - math.exp(epsilon - loss))
    return failing + (1 - failing) * inside


@pytest.mark.parametrize(
    "claims",
    [
        [EpsilonDelta(1.0), EpsilonDelta(1.0)],
        [EpsilonDelta(1.0, 0.01), EpsilonDelta(0.5, 0.02), EpsilonDelta(0.2)],
        [EpsilonDelta(3.0, 1e-9), EpsilonDelta(0.0, 1e-3), EpsilonDelta(3.0, 1e-6), EpsilonDelta(0.7)],
    ],
)
def test_claims_compose_to_their_worst_mechanisms(claims: list[EpsilonDelta]) -> None:
    composed = compose(*claims)
    for epsilon in (0.0, 0.1, 0.35, 0.5, 1.3, 1.7, 2.0, 4.0, 7.0):
        assert composed.delta_at(epsilon) == pytest.approx(by_enumeration(claims, epsilon), abs=1e-12)
    failing = 1 - math.prod(1 - claim.delta for claim in claims)
    assert composed.epsilon_at(failing * (1 + 1e-9)) <= sum(claim.epsilon for claim in claims) + 1e-9
    assert composed.epsilon_at(failing / 2) == (math.inf if failing else sum(claim.epsilon for claim in claims))
    assert compose(*claims[::-1]).delta_at(0.4) == pytest.approx(composed.delta_at(0.4), abs=1e-12)
    for fpr in (0.01, 0.2):  # together they promise less than each alone
        assert composed(fpr) <= min(claim(fpr) for claim in claims) + 1e-12


def test_fifty_equal_claims_compose_to_a_binomial() -> None:
    times, epsilon, delta = 50, 0.1, 1e-6
    composed = compose(*[EpsilonDelta(epsilon, delta)] * times)
    weights = stats.binom.pmf(range(times + 1), times, 1 / (1 + math.exp(-epsilon)))
    failing = -math.expm1(times * math.log1p(-delta))
    for at in (0.0, 0.5, 2.0):
        inside = sum(w * max(0.0, 1 - math.exp(at - (2 * k - times) * epsilon)) for k, w in enumerate(weights))
        assert composed.delta_at(at) == pytest.approx(failing + (1 - failing) * inside, abs=1e-10)
    assert composed.epsilon_at(1e-3) < times * epsilon / 1.5  # control: less than the plain sum


def test_losses_beyond_numbers_are_refused_in_one_line() -> None:
    with pytest.raises(InputError, match="epsilons that sum to at most 700, received 900"):
        compose(EpsilonDelta(500.0), EpsilonDelta(400.0))
    with pytest.raises(InputError, match="epsilons that sum to at most 700, received 800"):
        compose(DirectedProfile((400.0,), (0.0,), (0.1,)), EpsilonDelta(400.0))


# -- numerically: against brute force, a closed form, another accountant, and a rounding that is wrong ---------------

RATES = np.concatenate([np.logspace(-6, -1, 21), np.linspace(0.1, 1.0, 46)])


def best_power(p: np.ndarray, q: np.ndarray, rates: np.ndarray) -> np.ndarray:
    """Neyman and Pearson: the largest P(E) of (randomised) events with Q(E) at most a rate; of laws (k,)."""
    order = np.argsort(-np.where(q > 0, p / np.maximum(q, 1e-300), np.inf), kind="stable")
    x, y = np.append(0.0, np.cumsum(q[order])), np.append(0.0, np.cumsum(p[order]))
    return np.interp(rates, x, y, right=1.0) if x[1] > 0 else np.maximum(np.interp(rates, x, y), y[x == 0].max())


def product(pairs: list[tuple[np.ndarray, np.ndarray]]) -> tuple[np.ndarray, np.ndarray]:
    """Laws of every combination of outputs."""
    p, q = np.array([1.0]), np.array([1.0])
    for one, other in pairs:
        p, q = np.multiply.outer(p, one).ravel(), np.multiply.outer(q, other).ravel()
    return p, q


def brute(pairs: list[tuple[np.ndarray, np.ndarray]], rates: np.ndarray) -> np.ndarray:
    """The smaller of the composed trade-off functions of laws in both orders, by the tests of Neyman and Pearson."""
    p, q = product(pairs)
    return np.minimum(1 - best_power(p, q, rates), 1 - best_power(q, p, rates))


def brute_delta(pairs: list[tuple[np.ndarray, np.ndarray]], epsilon: float) -> float:
    """The larger delta of composed laws in both orders, summed over all outputs."""
    p, q = product(pairs)
    over = math.exp(epsilon)
    return max(float(np.maximum(p - over * q, 0).sum()), float(np.maximum(q - over * p, 0).sum()))


def discretised(cdf_p, cdf_q, low: float, high: float, cells: int) -> tuple[np.ndarray, np.ndarray]:
    """Laws of the cell in which an output lies: post-processing, which gives away less than the output itself."""
    edges = np.concatenate([[-np.inf], np.linspace(low, high, cells - 1), [np.inf]])
    return np.diff(cdf_p(edges)), np.diff(cdf_q(edges))


def gaussian_cells(mu: float, cells: int = 1200):
    return discretised(lambda x: stats.norm.cdf(x - mu), stats.norm.cdf, -6.5, 6.5 + mu, cells)


def laplace_cells(epsilon: float, cells: int = 1200):
    law = stats.laplace(scale=1 / epsilon)
    return discretised(lambda x: law.cdf(x - 1), law.cdf, -0.001, 1.001, cells)


def laplace(epsilon: float) -> Custom:
    """The trade-off function of Laplace noise (Dong, Roth and Su, section 2), in closed form."""
    law = stats.laplace(scale=1 / epsilon)
    return Custom(lambda a: law.cdf(law.ppf(1 - np.clip(a, 0.0, 1.0)) - 1))


KINK = ((0.0, 0.05, 0.3, 1.0), (0.02, 0.4, 0.75, 1.0))  # FPR and TPR of a best test, its order matters
kinked = (np.diff(KINK[1], prepend=0.0), np.diff(KINK[0], prepend=0.0))


@pytest.mark.parametrize(
    ("first", "second", "pairs", "near"),
    [
        (Gaussian(1.0), EpsilonDelta(1.0, 0.01), "gaussian epsilon-delta", 3e-4),
        (Gaussian(0.4), DirectedProfile.of_roc(*KINK), "gaussian kinked", 3e-4),
        (laplace(1.0), DirectedProfile.of_roc(*KINK), "laplace kinked", 3e-4),
        (laplace(0.8), Gaussian(0.7), "laplace gaussian", 4e-4),
        (DirectedProfile.of_roc(*KINK), DirectedProfile.of_roc(*KINK), "kinked kinked", 3e-4),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_numbers_are_below_brute_force_and_close(first: TradeOff, second: TradeOff, pairs: str, near: float) -> None:
    """All outputs of two pairs of laws, enumerated: the composed claim never promises more, and hardly less."""
    e, delta = 1.0, 0.01
    response = (1 - delta) * np.array([np.exp(e), 1]) / (1 + np.exp(e))
    laws = {
        "epsilon-delta": (np.append(response, [delta, 0]), np.append(response[::-1], [0, delta])),
        "kinked": kinked,
        "laplace": laplace_cells(getattr(first, "epsilon", 0.8 if "gaussian" in pairs else 1.0)),
        "gaussian": gaussian_cells({"gaussian epsilon-delta": 1.0, "gaussian kinked": 0.4}.get(pairs, 0.7)),
    }
    laws_of_both = [laws[name] for name in pairs.split()]
    exact = brute(laws_of_both, RATES)
    for composed in (compose(first, second), compose(second, first)):
        assert (composed(RATES) <= exact + 1e-12).all()
        for epsilon in (0.0, 0.07, 0.3, 0.55, 1.0, 1.7, 2.4):
            over = composed.delta_at(epsilon) - brute_delta(laws_of_both, epsilon)
            assert -1e-12 <= over < near


@pytest.mark.parametrize(("one", "two"), [(1.0, 0.5), (2.0, 1.0), (0.1, 0.05), (0.3, 3.0)])
def test_a_gaussian_in_disguise_composes_to_the_root_of_squares(one: float, two: float) -> None:
    """The closed form as a second truth: below it everywhere, by at most 3e-4."""
    exact, composed = Gaussian(math.hypot(one, two)), compose(Gaussian(one), Custom(Gaussian(two)))
    assert isinstance(composed, PrivacyProfile)
    assert (composed(RATES) <= exact(RATES)).all()
    assert (composed(RATES) >= exact(RATES) - 3e-4).all()
    assert (composed(RATES) > Gaussian(one + two)(RATES) - 1e-12)[:-1].all()  # erratum B1
    for delta in (1e-6, 1e-3, 0.1):
        assert exact.epsilon_at(delta) <= composed.epsilon_at(delta) <= exact.epsilon_at(delta) * 1.005 + 1e-3


def test_rounding_the_other_way_promises_too_much() -> None:
    """Controls: losses rounded down, and the milder order of a pair alone, lie above brute force."""
    shift = DirectedProfile.of_roc(*KINK)
    exact = brute([gaussian_cells(0.4), kinked], RATES)
    step = 0.25
    ratio = np.array([math.floor(x / step) * step for x in np.log(kinked[0][1:] / kinked[1][1:])])  # towards less
    q = kinked[1][1:]
    optimistic = DirectedProfile.of_laws(
        np.append(q * np.exp(ratio), 0.0) / (q * np.exp(ratio)).sum(), np.append(q, 0.0) / q.sum()
    )
    assert (compose(Gaussian(0.4), optimistic)(RATES) > exact + 1e-3).any()
    knots = np.unique(np.append(0.0, shift.epsilons))
    one_order = PrivacyProfile(tuple(knots.tolist()), tuple(shift.orders[1].deltas(knots).tolist()))
    assert (compose(Gaussian(0.4), one_order)(RATES) > exact + 1e-3).any()
    assert (compose(Gaussian(0.4), shift)(RATES) <= exact + 1e-12).all()


def test_keeping_the_orders_loses_less_than_the_worse_of_both() -> None:
    shift = DirectedProfile.of_roc(*KINK)
    worse = shift._claim
    assert isinstance(worse, PrivacyProfile)
    assert shift(RATES) == pytest.approx(worse(RATES), abs=1e-9)
    kept, lost = compose(Gaussian(0.4), shift), compose(Gaussian(0.4), worse)
    assert (kept(RATES) >= lost(RATES) - 3e-4).all()  # but for lines between the same corners
    assert (kept(RATES) > lost(RATES) + 5e-3).any()


def test_pairs_of_an_accountant_that_are_not_convex_compose_as_the_function_they_draw() -> None:
    """Of pairs that lie above a chord the chord holds; a mass below 0 set to 0 promised too much."""
    profile = PrivacyProfile((0.0, 1.0, 1.5, 3.0), (0.35, 0.34, 0.1, 0.001))
    alpha = np.linspace(0, 1, 2001)
    f = profile(alpha)
    laws = np.append(-np.diff(f), 1 - f[0]), np.append(np.diff(alpha), 0.0)
    for other in (EpsilonDelta(1.0), Gaussian(0.5), profile):
        mate = {Gaussian(0.5): gaussian_cells(0.5, 600), profile: laws}.get(other)
        pairs = [laws, mate or (np.array([0.7310585786, 0.2689414214]), np.array([0.2689414214, 0.7310585786]))]
        composed = compose(profile, other)
        for epsilon in (0.0, 0.5, 1.0, 2.0):
            assert composed.delta_at(epsilon) >= brute_delta(pairs, epsilon) - 1e-9
            assert composed.delta_at(epsilon) <= brute_delta(pairs, epsilon) + 2e-3


def test_a_larger_claim_composes_to_a_larger_one() -> None:
    """What a search for mu or epsilon rests on: the test of a larger one rejects no more."""
    shift = DirectedProfile.of_roc(*KINK)
    for family in (Gaussian, EpsilonDelta):
        curves = np.array([compose(family(x), shift)(RATES) for x in (0.0, 1e-4, 0.01, 0.1, 0.5, 0.500001, 1.0, 7.0)])
        assert (np.diff(curves, axis=0) <= 1e-12).all()
        assert curves[0] == pytest.approx(shift(RATES), abs=1e-9)  # nothing else is given away at 0


def test_numbers_agree_with_dp_accounting() -> None:
    """Another accountant's pessimistic privacy loss distributions, composed by Fourier transforms."""
    pld = pytest.importorskip("dp_accounting.pld", reason="the accountant is the extra `dp`")
    losses = pld.privacy_loss_distribution
    gauss = losses.from_gaussian_mechanism(1 / 0.9, value_discretization_interval=1e-4)
    noise = losses.from_laplace_mechanism(1 / 0.7, value_discretization_interval=1e-4)
    theirs, ours = gauss.compose(noise), compose(Gaussian(0.9), laplace(0.7))
    for epsilon in (0.1, 0.5, 1.0, 2.0, 3.0):
        their_delta, our_delta = theirs.get_delta_for_epsilon(epsilon), ours.delta_at(epsilon)
        assert our_delta == pytest.approx(their_delta, rel=2e-3, abs=2e-4)


def test_many_claims_compose_where_their_losses_are_too_many_to_add() -> None:
    claims = [EpsilonDelta(0.1 + math.sqrt(k) / 50) for k in range(20)]
    composed = compose(*claims)
    steps = sum(claim.epsilon**2 for claim in claims)  # sum of +-e with mean e tanh(e / 2): nearly Gaussian of this mu
    assert composed.delta_at(0.5) == pytest.approx(Gaussian(math.sqrt(steps)).delta_at(0.5), rel=0.05)
    assert composed.epsilon_at(0.0) <= sum(claim.epsilon for claim in claims) + 1e-9

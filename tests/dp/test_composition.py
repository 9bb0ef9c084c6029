"""Claims of (epsilon, delta) composed: against the binomial of Kairouz, Oh and Viswanath, and by enumeration."""

from __future__ import annotations

import itertools
import math

import pytest
from scipy import stats

from miaudit.dp.composition import compose
from miaudit.dp.tradeoff import EpsilonDelta, Gaussian
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


def test_what_does_not_compose_is_refused_in_one_line() -> None:
    with pytest.raises(InputError, match=r"EpsilonDelta with Gaussian.*accounting"):
        compose(EpsilonDelta(1.0), Gaussian(1.0))
    with pytest.raises(InputError, match="epsilons that sum to at most 700, received 900"):
        compose(EpsilonDelta(500.0), EpsilonDelta(400.0))
    with pytest.raises(InputError, match="losses"):
        compose(*[EpsilonDelta(0.1 + math.sqrt(k) / 50) for k in range(20)])

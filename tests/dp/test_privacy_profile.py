from __future__ import annotations

import math

import numpy as np
import pytest

from miaudit.dp.privacy_profile import PrivacyProfile
from miaudit.dp.tradeoff import EpsilonDelta, Gaussian
from miaudit.errors import InputError

GRID = np.linspace(0, 6, 121)


def gaussian_pairs(mu: float) -> PrivacyProfile:
    exact = Gaussian(mu)
    return PrivacyProfile(tuple(GRID.tolist()), tuple(exact.delta_at(float(eps)) for eps in GRID))


def test_it_is_the_best_of_its_pairs() -> None:
    pairs = [(0.0, 0.3), (0.5, 0.1), (2.0, 1e-4)]
    profile = PrivacyProfile(*zip(*pairs, strict=True))
    alpha = np.linspace(0, 1, 101)
    each = [EpsilonDelta(eps, delta)(alpha) for eps, delta in pairs]
    np.testing.assert_allclose(profile(alpha), np.max(each, axis=0), atol=1e-12)


@pytest.mark.parametrize("mu", [0.3, 1.0])
def test_many_pairs_of_a_gaussian_draw_its_function_from_below(mu: float) -> None:
    profile, exact = gaussian_pairs(mu), Gaussian(mu)
    alpha = np.linspace(0.001, 0.999, 200)
    assert (profile(alpha) <= exact(alpha) + 1e-12).all()
    np.testing.assert_allclose(profile(alpha), exact(alpha), atol=1e-3)
    np.testing.assert_allclose(profile(profile(alpha)), alpha, atol=2e-3)  # its own inverse


def test_epsilon_and_delta_are_those_of_the_pairs_and_larger_between_them() -> None:
    profile, exact = gaussian_pairs(1.0), Gaussian(1.0)
    assert profile.delta_at(0.5) == pytest.approx(exact.delta_at(0.5), abs=1e-12)
    assert exact.delta_at(0.525) <= profile.delta_at(0.525) <= exact.delta_at(0.525) + 2e-4
    assert exact.epsilon_at(1e-3) <= profile.epsilon_at(1e-3) <= exact.epsilon_at(1e-3) + 1e-2
    assert profile.delta_at(profile.epsilon_at(1e-3)) == pytest.approx(1e-3)
    assert profile.epsilon_at(0.9) == 0.0
    assert profile.epsilon_at(1e-12) == math.inf


@pytest.mark.parametrize(
    ("epsilons", "deltas", "word"),
    [((), (), "epsilons"), ((0.1,), (0.1,), "epsilons"), ((0.0, 1.0, 1.0), (0.3, 0.2, 0.1), "epsilons"),
     ((0.0, 1.0), (0.1, 0.2), "deltas"), ((0.0,), (1.0,), "deltas"), ((0.0, math.nan), (0.2, 0.1), "epsilons")],
)  # fmt: skip
def test_pairs_out_of_order_are_refused(epsilons: tuple[float, ...], deltas: tuple[float, ...], word: str) -> None:
    with pytest.raises(InputError, match=word):
        PrivacyProfile(epsilons, deltas)

"""Losses between bounds of delta: never below the truth, exact where it is known, and convex where bounds are not."""

from __future__ import annotations

import math

import numpy as np
import pytest

from miaudit.dp.privacy_losses import PrivacyLosses
from miaudit.dp.tradeoff import EpsilonDelta, Gaussian

EPSILONS = np.linspace(-6, 6, 241)


def laws(rng: np.random.Generator, values: int = 5) -> tuple[np.ndarray, np.ndarray]:
    return rng.dirichlet(np.full(values, 0.7)), rng.dirichlet(np.full(values, 0.7))


def hockey_stick(p: np.ndarray, q: np.ndarray, epsilon: float) -> float:
    return float(np.maximum(p - math.exp(epsilon) * q, 0).sum())


def test_losses_of_exact_bounds_are_those_of_the_pair() -> None:
    for rng in np.random.default_rng(0).spawn(40):
        p, q = laws(rng)
        knots = np.unique(np.abs(np.log(p / q)))
        knots = knots[knots < 600]
        forward, backward = ([hockey_stick(a, b, e) for e in knots] for a, b in ((p, q), (q, p)))
        losses = PrivacyLosses.between(knots, forward, backward)
        assert losses.p.sum() + losses.failing == pytest.approx(1)
        exact = [hockey_stick(p, q, e) for e in EPSILONS]
        np.testing.assert_allclose(losses.deltas(EPSILONS), exact, atol=1e-11)


def test_losses_of_few_bounds_give_away_more_never_less() -> None:
    """The control: lines between points that lie below the truth give away less."""
    for rng in np.random.default_rng(1).spawn(40):
        p, q = laws(rng)
        exact = np.array([hockey_stick(p, q, e) for e in EPSILONS])
        knots = np.array([0.0, 0.4, 1.3, 3.0])
        forward, backward = (np.array([hockey_stick(a, b, e) for e in knots]) for a, b in ((p, q), (q, p)))
        assert (PrivacyLosses.between(knots, forward, backward).deltas(EPSILONS) >= exact - 1e-13).all()
        less = PrivacyLosses.between(knots, forward * 0.9, backward * 0.9).deltas(EPSILONS)
        assert (less < exact - 1e-4).any()


def test_bounds_that_no_pair_has_are_replaced_by_smaller_ones_that_still_hold() -> None:
    """Limits from samples neither fall nor bend as a delta does: what lies above a chord is cut off."""
    mu, knots = 1.0, np.array([0.05, 0.3, 0.8, 1.5, 2.5])
    exact = np.array([Gaussian(mu).delta_at(e) for e in knots])
    rough = exact + np.array([0.0, 0.3, 0.0, 0.0, 0.02])
    losses = PrivacyLosses.between(knots, rough, exact)
    assert losses.p.min() >= 0
    found = losses.deltas(knots)
    assert (found >= exact - 1e-12).all()
    assert found[1] < rough[1] - 0.1
    assert (np.diff(losses.deltas(EPSILONS)) <= 1e-12).all()


def test_a_symmetric_claim_has_mirrored_losses() -> None:
    claim = EpsilonDelta(2.0, 0.1)
    losses = PrivacyLosses.between([0.0, 2.0], [claim.delta_at(0.0), 0.1], [claim.delta_at(0.0), 0.1])
    large = losses.p > 1e-12
    assert losses.at[large].tolist() == [-2.0, 2.0]
    assert losses.p[large][0] / losses.p[large][1] == pytest.approx(math.exp(-2))
    assert losses.deltas([0.0, 1.0, 5.0]) == pytest.approx([claim.delta_at(e) for e in (0.0, 1.0, 5.0)])
    negative = losses.deltas([-1.0])[0]
    assert negative == pytest.approx(1 - math.exp(-1) * (1 - claim.delta_at(1.0)))

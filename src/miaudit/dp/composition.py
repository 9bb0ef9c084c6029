"""Composition of claims: what several claims about one data set promise together."""

from __future__ import annotations

import math

import numpy as np

from miaudit.arrays import FloatArray
from miaudit.dp.privacy_profile import PrivacyProfile
from miaudit.dp.tradeoff import EpsilonDelta, Failing, Gaussian, TradeOff
from miaudit.errors import InputError

__all__ = ["compose"]

_MOST_LOSSES = 10_000  # of two claims multiplied
_LARGEST_EPSILON = 700.0  # whose exponential is a number
_EQUAL = 1e-12  # of losses, which differ by rounding only


def compose(first: TradeOff, *others: TradeOff) -> TradeOff:
    """Compose claims about one data set, exactly: the smallest claim that all of them together imply.

    Gaussians compose to the root of the sum of their squares (Dong, Roth and Su, Corollary 3.3; **not** the sum of mu
    that the text after zero-run's Corollary 1 prints, erratum B1). (0, delta) composes with anything. Of several
    (epsilon, delta) the worst mechanisms are randomised responses that may fail, whose losses add up (Kairouz, Oh and
    Viswanath, "The composition theorem for differential privacy", 2015; Murtagh and Vadhan, 2016).

    Raises
    ------
    InputError
        For other pairs, whose composition is no member of these families: see ``accounting.upper_bound``.

    Examples
    --------
    >>> compose(Gaussian(3.0), Gaussian(4.0))
    Gaussian(mu=5.0)
    >>> weak = compose(Gaussian(1.0), EpsilonDelta(0.0, 0.1))
    >>> weak(0.0), weak(0.9), weak.epsilon_at(0.05)
    (0.9, 0.0, inf)
    >>> twice = compose(EpsilonDelta(1.0), EpsilonDelta(1.0))
    >>> twice.epsilon_at(0.0), round(twice.epsilon_at(0.1), 4)
    (2.0, 1.7928)
    """
    total = first
    for other in others:
        total = _compose_two(total, other)
    return total


def _compose_two(one: TradeOff, other: TradeOff) -> TradeOff:
    match one, other:
        case Gaussian(), Gaussian():
            return Gaussian(math.hypot(one.mu, other.mu))
        case (EpsilonDelta(), EpsilonDelta()) if 0 in (one.epsilon, other.epsilon):
            return EpsilonDelta(one.epsilon + other.epsilon, _either(one.delta, other.delta))
        case (EpsilonDelta() | PrivacyProfile(), EpsilonDelta() | PrivacyProfile()):
            return _added(one, other)
        case (EpsilonDelta(epsilon=0.0, delta=rate), kept) | (kept, EpsilonDelta(epsilon=0.0, delta=rate)):
            return kept if rate == 0 else _failing(kept, rate)
        case (Failing(), _):
            return _failing(_compose_two(one.tradeoff, other), one.rate)
        case (_, Failing()):
            return _failing(_compose_two(one, other.tradeoff), other.rate)
    allowed = "Gaussian with Gaussian, (epsilon, delta) with (epsilon, delta), or (0, delta) with anything"
    received = f"{type(one).__name__} with {type(other).__name__}"
    raise InputError("tradeoff", allowed, received, "describe the mechanism and use accounting.upper_bound")


def _failing(tradeoff: TradeOff, rate: float) -> TradeOff:
    if isinstance(tradeoff, Failing):
        return Failing(tradeoff.tradeoff, _either(tradeoff.rate, rate))
    if isinstance(tradeoff, EpsilonDelta):
        return EpsilonDelta(tradeoff.epsilon, _either(tradeoff.delta, rate))
    return Failing(tradeoff, rate)


def _either(one: float, other: float) -> float:
    """Return the probability that one of two independent events happens, without rounding small ones away."""
    return one + other - one * other


def _added(one: EpsilonDelta | PrivacyProfile, other: EpsilonDelta | PrivacyProfile) -> TradeOff:
    """Add the privacy losses of two independent mechanisms that are the worst of their claims."""
    (losses, p, failing), (others, q, failing_too) = _losses(one), _losses(other)
    hint = "describe the mechanism and use accounting.upper_bound"
    if len(losses) * len(others) > _MOST_LOSSES:
        received = f"claims that bend at {len(losses):,} and {len(others):,} losses"
        raise InputError("tradeoff", f"claims of at most {_MOST_LOSSES:,} losses together", received, hint)
    if (total := float(losses[-1] + others[-1])) > _LARGEST_EPSILON:
        raise InputError("tradeoff", f"epsilons that sum to at most {_LARGEST_EPSILON:g}", f"{total:g}", hint)
    added, mass = np.add.outer(losses, others).ravel(), np.multiply.outer(p, q).ravel()
    order = np.argsort(added)
    added, mass = added[order], mass[order]
    starts = np.flatnonzero(np.diff(added, prepend=-math.inf) > _EQUAL)
    ends = np.append(starts[1:], len(added)) - 1
    return _profile(added[ends], np.add.reduceat(mass, starts), _either(failing, failing_too))


def _losses(claim: EpsilonDelta | PrivacyProfile) -> tuple[FloatArray, FloatArray, float]:
    """Return the losses of a claim's worst mechanism and their probabilities (k,), and how often it fails altogether.

    The worst mechanism has the claim's delta at every epsilon. Between its losses, which are the epsilons and their
    negatives, delta is linear in e^epsilon, with a slope of minus the mass of the other output above.
    """
    if isinstance(claim, EpsilonDelta):
        epsilons, deltas = np.unique([0.0, claim.epsilon]), np.array([claim.delta_at(e) for e in (0.0, claim.epsilon)])
        deltas = deltas[-len(epsilons) :]
    else:
        epsilons, deltas = np.array(claim.epsilons), np.array(claim.deltas)
    points = np.concatenate([-epsilons[:0:-1], epsilons])
    # delta at -epsilon is 1 - e^-epsilon (1 - delta at epsilon), the mechanism being symmetric
    values = np.concatenate([1 - np.exp(-epsilons[:0:-1]) * (1 - deltas[:0:-1]), deltas])
    odds = np.exp(points)
    slopes = np.diff(values) / np.diff(odds) if len(points) > 1 else np.empty(0)
    # below the first loss delta is 1 - e^epsilon (1 - failing), above the last it is the chance of failing
    steps = np.diff(np.concatenate([[-(1 - deltas[-1])], slopes, [0.0]]))
    mass = np.maximum(steps * odds, 0.0)
    return points, mass * (1 - deltas[-1]) / mass.sum(), float(deltas[-1])


def _profile(losses: FloatArray, mass: FloatArray, failing: float) -> TradeOff:
    """Return the claim of losses and their probabilities, at every epsilon where it bends."""
    epsilons = np.unique(np.concatenate([[0.0], losses[losses > _EQUAL]]))
    mass = mass * ((1 - failing) / mass.sum())
    above = [failing + float((mass * -np.expm1(np.minimum(e - losses, 0.0))).sum()) for e in epsilons]
    above[-1] = failing
    return PrivacyProfile(tuple(epsilons.tolist()), tuple(np.minimum.accumulate(above).tolist()))

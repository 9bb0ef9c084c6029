"""Composition of claims: what several claims about one data set promise together."""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from scipy import special

from miaudit.arrays import FloatArray
from miaudit.dp.directed_profile import EPSILONS, DirectedProfile
from miaudit.dp.privacy_losses import LARGEST_LOSS, PrivacyLosses
from miaudit.dp.privacy_profile import PrivacyProfile
from miaudit.dp.tradeoff import EpsilonDelta, Failing, Gaussian, TradeOff
from miaudit.errors import InputError

__all__ = ["compose"]

_MOST_LOSSES = 10_000  # of two claims multiplied
_MOST_CORNERS = 1_000  # of a numerical composition that is exact
_EQUAL = 1e-12  # of losses, which differ by rounding only
_ROUNDED = 1e-12  # of a Gaussian tail, relative
_SEARCHED = 1e-9  # how far a search may miss the delta of a function, as in ``tradeoff.Custom``
_UPWARDS = 1 + 1e-12  # what a mean of as many deltas rounds away
_BELOW_ONE = 1 - 1e-15


def compose(first: TradeOff, *others: TradeOff) -> TradeOff:
    """Compose claims about one data set: what all of them together imply (zero-run, Theorem 4.1).

    Gaussians compose to the root of the sum of their squares (Dong, Roth and Su, Corollary 3.3; **not** the sum of mu
    that the text after zero-run's Corollary 1 prints, erratum B1). (0, delta) composes with anything. Of several
    (epsilon, delta) the worst mechanisms are randomised responses that may fail, whose losses add up (Kairouz, Oh and
    Viswanath, "The composition theorem for differential privacy", 2015; Murtagh and Vadhan, 2016). These are exact.

    All other pairs are composed numerically. One claim is replaced by finitely many privacy losses that give away at
    least as much, and delta(epsilon) of both is the mean of the other's delta at epsilon less the loss. Every rounding
    goes up, so the result is a lower bound of the composed trade-off function. An audit that refutes it refutes the
    exact one, too.

    Parameters
    ----------
    first, others : trade-off functions
        The orders of a :class:`~miaudit.dp.directed_profile.DirectedProfile` are kept: several of them are composed in
        the same order, as for independent covariates of one record.

    Returns
    -------
    TradeOff
        A ``DirectedProfile`` if one of the claims is; else a ``PrivacyProfile`` where it was composed numerically.

    Raises
    ------
    InputError
        Where the largest losses add up to more than 700.

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
    >>> round(compose(Gaussian(1.0), EpsilonDelta(1.0))(0.05), 4)
    0.6012
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
        case (EpsilonDelta() | PrivacyProfile(), EpsilonDelta() | PrivacyProfile()) if _few(one, other):
            return _added(one, other)
        case (EpsilonDelta(epsilon=0.0, delta=rate), kept) | (kept, EpsilonDelta(epsilon=0.0, delta=rate)):
            return kept if rate == 0 else _failing(kept, rate)
        case (Failing(tradeoff=inner, rate=rate), kept) | (kept, Failing(tradeoff=inner, rate=rate)):
            return _failing(_compose_two(inner, kept), rate)
    return _together(other, one) if isinstance(one, Gaussian) else _together(one, other)


# -- numerically ------------------------------------------------------------------------------------------------------


def _together(one: TradeOff, other: TradeOff) -> TradeOff:
    """Average the deltas of a claim over the losses of the other, in both orders."""
    largest = _largest_loss(one) + _largest_loss(other)
    _check_largest(largest if largest < math.inf else 0.0)
    epsilons = _corners(one, other, largest)
    directed = isinstance(one, DirectedProfile) or isinstance(other, DirectedProfile)
    deltas = []
    for order in (0, 1) if directed else (0,):
        losses = _orders(one)[order]
        averaged = _deltas(other, order, np.subtract.outer(epsilons, losses.at)) @ losses.p + losses.failing
        if largest < math.inf:  # without what rounding adds, so that pure claims stay pure
            averaged[-1] = _either(losses.failing, _orders(other)[order].failing)
        deltas.append(tuple(np.minimum(np.minimum.accumulate(averaged * _UPWARDS), _BELOW_ONE).tolist()))
    if directed:
        return DirectedProfile(tuple(epsilons.tolist()), *deltas)
    return PrivacyProfile(tuple(epsilons.tolist()), *deltas)


def _corners(one: TradeOff, other: TradeOff, largest: float) -> FloatArray:
    """Return where delta of both is computed: where it bends, or close to each other and where that of ``one`` does."""
    first = np.abs(np.concatenate([losses.at for losses in _orders(one)]))
    if largest == math.inf:
        return np.unique(np.concatenate([EPSILONS, first[:_MOST_CORNERS]]))
    second = np.concatenate([losses.at for losses in _orders(other)])
    if len(first) * len(second) <= _MOST_CORNERS:
        added = np.unique(np.abs(np.concatenate([np.add.outer(sign * first, second).ravel() for sign in (1, -1)])))
        return np.append(0.0, added[np.diff(added, prepend=0.0) > _EQUAL])
    return np.append(EPSILONS[largest - _EQUAL > EPSILONS], largest)


@lru_cache(maxsize=64)
def _orders(claim: TradeOff) -> tuple[PrivacyLosses, PrivacyLosses]:
    """Return losses of a claim in both orders that give away at least as much as it allows."""
    if isinstance(claim, DirectedProfile):
        return claim.orders
    if isinstance(claim, EpsilonDelta | PrivacyProfile):
        return (losses := _losses(claim)), losses
    epsilons, deltas = [], []
    for epsilon in EPSILONS.tolist():  # a function of the caller's own, whose deltas a search finds
        epsilons.append(epsilon)
        deltas.append(min(claim.delta_at(epsilon) + _SEARCHED, _BELOW_ONE))
        if deltas[-1] <= 2 * _SEARCHED:
            break
    losses = PrivacyLosses.between(epsilons, deltas, deltas)
    return losses, losses


def _deltas(claim: TradeOff, order: int, epsilons: FloatArray) -> FloatArray:
    """Return delta at any epsilons, negative ones too, rounded up."""
    if not isinstance(claim, Gaussian):
        return _orders(claim)[order].deltas(epsilons)
    if claim.mu == 0:
        return np.maximum(0.0, -np.expm1(np.minimum(epsilons, 0.0)))
    scaled = epsilons / claim.mu
    inside = np.exp(special.log_ndtr(claim.mu / 2 - scaled))
    outside = np.exp(np.minimum(epsilons + special.log_ndtr(-claim.mu / 2 - scaled), 0.0))
    return np.asarray(np.clip(inside - outside, 0.0, 1.0) + _ROUNDED * inside)


def _largest_loss(claim: TradeOff) -> float:
    match claim:
        case DirectedProfile():
            return claim.largest_loss
        case EpsilonDelta():
            return claim.epsilon
        case PrivacyProfile():
            return claim.epsilons[-1]
    return math.inf


def _failing(tradeoff: TradeOff, rate: float) -> TradeOff:
    if isinstance(tradeoff, Failing):
        return Failing(tradeoff.tradeoff, _either(tradeoff.rate, rate))
    if isinstance(tradeoff, EpsilonDelta):
        return EpsilonDelta(tradeoff.epsilon, _either(tradeoff.delta, rate))
    return Failing(tradeoff, rate)


def _either(one: float, other: float) -> float:
    """Return the probability that one of two independent events happens, without rounding small ones away."""
    return one + other - one * other


def _few(one: EpsilonDelta | PrivacyProfile, other: EpsilonDelta | PrivacyProfile) -> bool:
    """Return whether the losses are few enough to be added one by one."""
    return math.prod(2 if isinstance(c, EpsilonDelta) else 2 * len(c.epsilons) for c in (one, other)) <= _MOST_LOSSES


def _check_largest(total: float) -> None:
    if total > LARGEST_LOSS:
        hint = "describe the mechanism and use accounting.upper_bound"
        raise InputError("tradeoff", f"epsilons that sum to at most {LARGEST_LOSS:g}", f"{total:g}", hint)


def _added(one: EpsilonDelta | PrivacyProfile, other: EpsilonDelta | PrivacyProfile) -> TradeOff:
    """Add the privacy losses of two independent mechanisms that are the worst of their claims."""
    first, second = _losses(one), _losses(other)
    _check_largest(float(first.at[-1] + second.at[-1]))
    added, mass = np.add.outer(first.at, second.at).ravel(), np.multiply.outer(first.p, second.p).ravel()
    order = np.argsort(added)
    added, mass = added[order], mass[order]
    starts = np.flatnonzero(np.diff(added, prepend=-math.inf) > _EQUAL)
    ends = np.append(starts[1:], len(added)) - 1
    return _profile(added[ends], np.add.reduceat(mass, starts), _either(first.failing, second.failing))


def _losses(claim: EpsilonDelta | PrivacyProfile) -> PrivacyLosses:
    """Return the losses of a claim's worst mechanism, which has the claim's delta at every epsilon."""
    pairs = ((claim.epsilon,), (claim.delta,)) if isinstance(claim, EpsilonDelta) else (claim.epsilons, claim.deltas)
    return PrivacyLosses.between(*pairs, pairs[1])


def _profile(losses: FloatArray, mass: FloatArray, failing: float) -> TradeOff:
    """Return the claim of losses and their probabilities, at every epsilon where it bends."""
    epsilons = np.unique(np.concatenate([[0.0], losses[losses > _EQUAL]]))
    mass = mass * ((1 - failing) / mass.sum())
    above = [failing + float((mass * -np.expm1(np.minimum(e - losses, 0.0))).sum()) for e in epsilons]
    above[-1] = failing
    return PrivacyProfile(tuple(epsilons.tolist()), tuple(np.minimum.accumulate(above).tolist()))

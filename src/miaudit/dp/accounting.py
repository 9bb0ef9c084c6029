"""Upper bounds on a described mechanism: the smallest of several that all hold.

Neighbouring data sets differ in one record, added or removed. Closed forms serve where they are exact (Gaussian noise,
pure epsilon). Else the distribution of privacy losses (:mod:`miaudit.dp.loss_distribution`) gives a bound that is
nearly exact, and the closed forms of :mod:`miaudit.dp.sampling_bounds` take over where its grid ends. Every one of them
answers in seconds and falls as noise grows, so their minimum does, too, whichever method it comes from.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from typing import Any

import numpy as np

from miaudit.dp import loss_distribution, noise_search, sampling_bounds
from miaudit.dp.loss_distribution import Released, amplified
from miaudit.dp.mechanism import (
    Composed,
    GaussianNoise,
    LaplaceNoise,
    Mechanism,
    PoissonSubsampled,
    Repeated,
    Selection,
    described,
    dp_sgd,
    from_mapping,
)
from miaudit.dp.privacy_profile import PrivacyProfile
from miaudit.dp.tradeoff import LARGEST_MU, Gaussian, TradeOff, mu_of_pure
from miaudit.dp.verdict import Parameter, UpperBound
from miaudit.errors import InputError
from miaudit.errors.checks import check_delta, positive

__all__ = ["calibrate_noise", "dp_sgd", "from_mapping", "tradeoff", "upper_bound"]

_CLOSED_FORM = "the closed form of Gaussian DP"
_MOST_USES = 10**12
_NOISE_COUNTED = 1e-6  # with less, squares of losses would be lost
_MOST_PARTS = 100  # of different noise or rate
_GRID_PARTS = 16  # that the distribution of losses takes
_PAIRS = 129  # of epsilon and delta that draw a trade-off function
_FINEST_DELTA = 1e-12  # where the drawing ends
_LARGEST_EPSILON = 512.0
_BELOW_ONE = 1 - 1e-15


def upper_bound(
    mechanism: Mechanism | Mapping[str, Any], *, delta: float | None = None, parameter: Parameter = "epsilon"
) -> UpperBound:
    """Return an upper bound on the epsilon at a delta, or on the mu, of a mechanism.

    Parameters
    ----------
    mechanism : a description, see :mod:`miaudit.dp.mechanism`, or the mapping that :func:`from_mapping` reads
    delta : in [0, 1), needed for epsilon; at 0 only pure mechanisms have a finite one
    parameter : "epsilon", or "mu", which only Gaussian noise, repeated and composed, has: a subsampled Gaussian is
        mu-GDP only in a limit of many steps, and a limit is no bound

    Raises
    ------
    InputError
        For a mechanism that cannot be accounted for, or that has no mu.

    Examples
    --------
    >>> bound = upper_bound(GaussianNoise(1.0), delta=1e-5)
    >>> print(f"{bound.value:.4f} by {bound.accountant}")
    4.3772 by the closed form of Gaussian DP
    >>> upper_bound(LaplaceNoise(2.0), delta=0.0).value
    0.5
    >>> upper_bound(Repeated(GaussianNoise(10.0), 25), parameter="mu").value
    0.5
    """
    parts = _countable(described(mechanism))
    words = f"{parts}; one record added or removed"
    if parameter == "mu":
        return UpperBound("mu", _exact_mu(parts), 0.0, words, _CLOSED_FORM)
    if parameter != "epsilon":
        raise InputError("parameter", "'epsilon' or 'mu'", repr(parameter), "epsilon is the default")
    if delta is None:
        raise InputError("delta", "a number in [0, 1)", "none", "an epsilon means nothing without its delta")
    value, accountant = _epsilon(parts, check_delta(delta))
    return UpperBound("epsilon", value, float(delta), words, accountant)


def tradeoff(mechanism: Mechanism | Mapping[str, Any]) -> TradeOff:
    """Return what a mechanism promises at every false-positive rate: its trade-off function, or one just below it.

    Exact for Gaussian noise, repeated and composed; for all else the lines that pairs of epsilon and delta draw, which
    lie below the mechanism's own function by what the distribution of its losses rounds.

    Parameters
    ----------
    mechanism : as of :func:`upper_bound`

    Examples
    --------
    >>> tradeoff(Repeated(GaussianNoise(10.0), 25))
    Gaussian(mu=0.5)
    >>> sampled = tradeoff(dp_sgd(records=1_000, batch=100, noise=1.0, steps=100))
    >>> round(sampled(0.05), 2), round(Gaussian(10.0)(0.05), 2)
    (0.66, 0.0)
    """
    parts = _countable(described(mechanism))
    mu = _mu(parts)
    return _profile(parts) if mu is None else Gaussian(mu)


@lru_cache(maxsize=64)
def _profile(mechanism: Mechanism) -> PrivacyProfile:
    parts = _released(mechanism)
    spread = _epsilon(mechanism, _FINEST_DELTA)[0]
    epsilons = np.linspace(0.0, min(max(spread, 1e-6), _LARGEST_EPSILON), _PAIRS)
    deltas = loss_distribution.deltas(parts, epsilons, spread=spread) if len(parts) <= _GRID_PARTS else None
    known = np.full(_PAIRS, _BELOW_ONE) if deltas is None else np.minimum(deltas, _BELOW_ONE)
    squared = sum(
        part.times * (mu_of_pure(1 / part.noise) if part.kind == "laplace" else 1 / part.noise) ** 2 for part in parts
    )
    if squared <= LARGEST_MU**2:  # all records in all samples
        known = np.minimum(known, [Gaussian(math.sqrt(squared)).delta_at(eps) for eps in epsilons])
    return PrivacyProfile(tuple(epsilons.tolist()), tuple(np.minimum.accumulate(known).tolist()))


def calibrate_noise(
    family: Callable[[float], Mechanism], *, epsilon: float, delta: float, tolerance: float = 1e-3
) -> float:
    """Find the smallest noise, to a relative tolerance, with which a mechanism is (epsilon, delta)-DP.

    Parameters
    ----------
    family : noise -> mechanism, the more private the larger the noise
    epsilon : above 0
    delta : in [0, 1)
    tolerance : relative, of the noise, in (0, 0.1]; the noise returned keeps the target

    Raises
    ------
    InputError
        If no noise from 0.001 to a million fits, or an option is out of range.

    Examples
    --------
    >>> noise = calibrate_noise(GaussianNoise, epsilon=1.0, delta=1e-5, tolerance=1e-6)
    >>> print(f"{noise:.4f}: {upper_bound(GaussianNoise(noise), delta=1e-5).value:.4f}")
    3.7306: 1.0000
    """
    positive("epsilon", epsilon, "8 or less is usual")
    if not 0 < tolerance <= 0.1:
        raise InputError("tolerance", "a number in (0, 0.1]", repr(tolerance), "0.001 is the default")

    def value(noise: float) -> float:
        return upper_bound(family(noise), delta=delta).value

    try:
        return noise_search.smallest(value, epsilon, tolerance)
    except noise_search.OutOfRange as end:
        received = f"{'kept' if end.kept else 'missed'} with a noise of {end.noise:g}"
        hint = "a larger epsilon needs no noise" if end.kept else "take a larger epsilon or delta"
        allowed = f"a mechanism that some noise brings to epsilon {epsilon:g} at delta {delta:g}"
        raise InputError("family", allowed, f"one whose target is {received}", hint) from None


def _epsilon(mechanism: Mechanism, delta: float) -> tuple[float, str]:
    """Return the smallest upper bound of epsilon at delta, and its method."""
    pure = _pure_epsilon(mechanism)
    if delta == 0:
        return pure, "the sum of pure epsilons" if pure < math.inf else "Gaussian noise, which has no pure epsilon"
    mu = _mu(mechanism)
    by_method = {_CLOSED_FORM: sampling_bounds.gaussian(mu, delta)} if mu is not None else _by_losses(mechanism, delta)
    method = min(by_method, key=lambda name: by_method[name])
    return (by_method[method], method) if by_method[method] <= pure else (pure, "the sum of pure epsilons")


@lru_cache(maxsize=256)
def _by_losses(mechanism: Mechanism, delta: float) -> dict[str, float]:
    """Return upper bounds of epsilon at a delta in (0, 1), by method."""
    parts = _released(mechanism)
    by_method = {
        "Renyi divergences": sampling_bounds.by_moments(parts, delta),
        "the number of times that a record is sampled": sampling_bounds.by_samplings(parts, delta),
    }
    if len(parts) <= _GRID_PARTS:
        spread = min(*by_method.values(), _pure_epsilon(mechanism))
        by_method["the distribution of privacy losses"] = loss_distribution.epsilon(parts, delta, spread=spread)
    return by_method


def _released(mechanism: Mechanism) -> tuple[Released, ...]:
    """Return what a mechanism releases, equal parts together and all Gaussian noise without samples as one.

    Raises
    ------
    InputError
        For more different parts than can be accounted for in seconds.
    """
    uses, squared = dict[tuple[Any, float, float], int](), 0.0
    for one, times in _uses(mechanism, 1):
        inner, rate = (one.mechanism, one.rate) if isinstance(one, PoissonSubsampled) else (one, 1.0)
        if rate == 1 and not isinstance(inner, LaplaceNoise):
            squared += times * (inner.mu if isinstance(inner, Selection) else 1 / inner.noise) ** 2
        else:
            key = ("laplace" if isinstance(inner, LaplaceNoise) else "gaussian", inner.noise, rate)
            uses[key] = uses.get(key, 0) + times
        if len(uses) > _MOST_PARTS:
            allowed = f"at most {_MOST_PARTS} parts of different noise or sampling rate"
            raise InputError("mechanism", allowed, "more", "describe steps of equal noise and rate as one, repeated")
    plain = [Released("gaussian", 1 / math.sqrt(squared), 1.0, 1)] if squared else []
    return (*plain, *(Released(*key, times=times) for key, times in uses.items()))


def _countable(mechanism: Mechanism) -> Mechanism:
    """Return a mechanism whose losses are numbers that can be added; refuse others."""
    for one, times in _uses(mechanism, 1):
        if times > _MOST_USES:
            received = "more" if times > 10**30 else f"{times:,}"
            raise InputError("times", f"at most {_MOST_USES:,} altogether", received, "check the number of steps")
        inner = one.mechanism if isinstance(one, PoissonSubsampled) else one
        if not isinstance(inner, Selection) and inner.noise < _NOISE_COUNTED:
            hint = "nothing is private at such a noise"
            raise InputError("noise", f"at least {_NOISE_COUNTED:g} sensitivities", f"{inner.noise:g}", hint)
    return mechanism


def _uses(mechanism: Mechanism, times: int) -> Iterator[tuple[Any, int]]:
    match mechanism:
        case Repeated():
            yield from _uses(mechanism.mechanism, times * mechanism.times)
        case Composed():
            for part in mechanism.parts:
                yield from _uses(part, times)
        case _:
            yield mechanism, times


def _exact_mu(mechanism: Mechanism) -> float:
    mu = _mu(mechanism)
    if mu is None:
        allowed = "Gaussian noise and private choices, repeated and composed but not subsampled"
        raise InputError("mechanism", allowed, str(mechanism), "ask for its epsilon at a delta")
    return mu


def _mu(mechanism: Mechanism) -> float | None:
    """Return the mu of Gaussian noise, which is exact, of private choices and of their compositions, or None."""
    match mechanism:
        case GaussianNoise():
            return 1 / mechanism.noise
        case Selection():
            return mechanism.mu
        case Repeated():
            mu = _mu(mechanism.mechanism)
            return None if mu is None else mu * math.sqrt(mechanism.times)
        case Composed():
            parts = [_mu(part) for part in mechanism.parts]
            return None if None in parts else math.hypot(*(mu for mu in parts if mu is not None))
    return _mu(mechanism.mechanism) if isinstance(mechanism, PoissonSubsampled) and mechanism.rate == 1 else None


def _pure_epsilon(mechanism: Mechanism) -> float:
    """Return the pure epsilon of a mechanism, infinite where Gaussian noise is involved."""
    match mechanism:
        case GaussianNoise():
            return math.inf
        case LaplaceNoise():
            return 1 / mechanism.noise
        case Selection():
            return mechanism.epsilon
        case PoissonSubsampled():
            inner = _pure_epsilon(mechanism.mechanism)
            return inner if math.isinf(inner) else amplified(inner, mechanism.rate)
        case Repeated():
            return mechanism.times * _pure_epsilon(mechanism.mechanism)
        case Composed():
            return math.fsum(_pure_epsilon(part) for part in mechanism.parts)

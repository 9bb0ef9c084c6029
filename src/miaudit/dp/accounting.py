"""Upper bounds on a described mechanism, by closed forms or an existing accountant.

Neighbouring data sets differ in one record, added or removed. Closed forms serve where they are exact (Gaussian noise,
pure epsilon); everything else goes to the privacy-loss distributions of ``dp-accounting`` (extra ``dp``), which
round pessimistically, so that its epsilon is an upper bound too.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

import numpy as np

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
from miaudit.dp.tradeoff import Gaussian, TradeOff
from miaudit.dp.verdict import Parameter, UpperBound
from miaudit.errors import InputError, MiauditError, check_delta, pip_line

__all__ = ["calibrate_noise", "dp_sgd", "from_mapping", "tradeoff", "upper_bound"]

_CLOSED_FORM = "the closed form of Gaussian DP"
_MOST_NOISE = 1e6
_LEAST_NOISE = 1e-3
_LOSS_STEP = 1e-4  # the accountant's default
_MOST_LOSSES = 1e6  # on the grid of one use
_PAIRS = 129  # of epsilon and delta that draw a trade-off function
_COARSER = 10.0  # grid of losses for it: ten times as fast, and no delta larger by more than 1e-4 in 1,000 steps
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
    MiauditError
        If the mechanism needs ``dp-accounting`` and it is not installed.

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
    found = described(mechanism)
    words = f"{found}; one record added or removed"
    if parameter == "mu":
        return UpperBound("mu", _exact_mu(found), 0.0, words, _CLOSED_FORM)
    if parameter != "epsilon":
        raise InputError("parameter", "'epsilon' or 'mu'", repr(parameter), "epsilon is the default")
    if delta is None:
        raise InputError("delta", "a number in [0, 1)", "none", "an epsilon means nothing without its delta")
    value, accountant = _epsilon(found, check_delta(delta))
    return UpperBound("epsilon", value, float(delta), words, accountant)


def tradeoff(mechanism: Mechanism | Mapping[str, Any]) -> TradeOff:
    """Return what a mechanism promises at every false-positive rate: its trade-off function, or one just below it.

    Exact for Gaussian noise, repeated and composed; for all else the lines that ``dp-accounting``'s pairs of epsilon
    and delta draw, which lie below the mechanism's own function by what the accountant rounds.

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
    found = described(mechanism)
    mu = _mu(found)
    return _profile(found) if mu is None else Gaussian(mu)


@lru_cache(maxsize=64)
def _profile(mechanism: Mechanism) -> PrivacyProfile:
    deltas_at = _accountant(mechanism, coarser=_COARSER).get_delta
    last = 1.0
    while deltas_at(last) > _FINEST_DELTA and last < _LARGEST_EPSILON:
        last *= 2
    pairs = [(float(eps), float(deltas_at(eps))) for eps in np.linspace(0.0, last, _PAIRS)]
    falling = np.minimum.accumulate([min(delta, _BELOW_ONE) for _, delta in pairs])
    return PrivacyProfile(tuple(eps for eps, _ in pairs), tuple(falling.tolist()))


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
    if isinstance(epsilon, bool) or not isinstance(epsilon, int | float) or not 0 < epsilon < math.inf:
        raise InputError("epsilon", "a finite number above 0", repr(epsilon), "8 or less is usual")
    if not 0 < tolerance <= 0.1:
        raise InputError("tolerance", "a number in (0, 0.1]", repr(tolerance), "0.001 is the default")

    def keeps(noise: float) -> bool:
        return upper_bound(family(noise), delta=delta).value <= epsilon

    high = 1.0
    if keeps(high):
        while keeps(high / 2):
            high /= 2
            if high < _LEAST_NOISE:
                _refuse_target(epsilon, delta, f"kept with a noise of {high:g}", "a larger epsilon needs no noise")
        low = high / 2
    else:
        while not keeps(2 * high):
            high *= 2
            if high > _MOST_NOISE:
                _refuse_target(epsilon, delta, f"missed with a noise of {high:g}", "take a larger epsilon or delta")
        low, high = high, 2 * high
    while high > low * (1 + tolerance):
        middle = math.sqrt(low * high)
        low, high = (low, middle) if keeps(middle) else (middle, high)
    return high


def _epsilon(mechanism: Mechanism, delta: float) -> tuple[float, str]:
    """Return the smallest upper bound of epsilon at delta, and its method."""
    mu, pure = _mu(mechanism), _pure_epsilon(mechanism)
    if mu is not None and (value := Gaussian(mu).epsilon_at(delta)) <= pure:
        return value, _CLOSED_FORM
    if mu is None and delta > 0 and (value := _by_accountant(mechanism, delta)) < pure:
        return value, "dp-accounting's privacy-loss distributions"
    return pure, "the sum of pure epsilons"


def _exact_mu(mechanism: Mechanism) -> float:
    mu = _mu(mechanism)
    if mu is None:
        allowed = "Gaussian noise and private choices, repeated and composed but not subsampled"
        raise InputError("mechanism", allowed, str(mechanism), "ask for its epsilon at a delta")
    return mu


def _refuse_target(epsilon: float, delta: float, received: str, hint: str) -> None:
    allowed = f"a mechanism that some noise brings to epsilon {epsilon:g} at delta {delta:g}"
    raise InputError("family", allowed, f"one whose target is {received}", hint)


def needs_accountant(mechanism: Mechanism) -> bool:
    """Tell whether a guarantee at a positive delta has no closed form here: it takes the extra ``dp``."""
    return _mu(mechanism) is None


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
            # log(1 + rate (e^inner - 1)), without overflow
            return inner if math.isinf(inner) else inner + math.log(mechanism.rate + (1 - mechanism.rate) / _exp(inner))
        case Repeated():
            return mechanism.times * _pure_epsilon(mechanism.mechanism)
        case Composed():
            return math.fsum(_pure_epsilon(part) for part in mechanism.parts)


def _exp(x: float) -> float:
    return math.exp(min(x, 700.0))


@lru_cache(maxsize=64)
def _by_accountant(mechanism: Mechanism, delta: float) -> float:
    """Return epsilon at delta from ``dp-accounting``'s privacy-loss distributions."""
    return float(_accountant(mechanism).get_epsilon(delta))


def _accountant(mechanism: Mechanism, *, coarser: float = 1.0) -> Any:
    """Return ``dp-accounting``'s accountant with the mechanism's privacy-loss distributions."""
    try:
        from dp_accounting import (  # type: ignore[import-untyped,import-not-found,unused-ignore]  # noqa: PLC0415
            dp_event,
            pld,
        )
    except ImportError:
        raise MiauditError(
            f"this mechanism needs the accountant dp-accounting, which is not installed; run: {pip_line('dp')}"
        ) from None
    accountant = pld.PLDAccountant(value_discretization_interval=coarser * _loss_step(mechanism))
    accountant.compose(_event(mechanism, dp_event))
    return accountant


def _loss_step(mechanism: Mechanism) -> float:
    """Return the step of the grid of privacy losses: the accountant's own, wider where little noise spreads them far.

    Losses are rounded up to the grid, so a wide one is an upper bound too, and dearer by at most a step for each use.
    """
    noise = _least_noise(mechanism)
    return max(_LOSS_STEP, (1 / noise**2 + 18 / noise) / _MOST_LOSSES)


def _least_noise(mechanism: Mechanism) -> float:
    match mechanism:
        case GaussianNoise() | LaplaceNoise():
            return mechanism.noise
        case Selection():
            return 1 / mechanism.mu
        case Composed():
            return min(map(_least_noise, mechanism.parts))
    return _least_noise(mechanism.mechanism)


def _event(mechanism: Mechanism, dp_event: Any) -> Any:
    """Translate a mechanism into an event of ``dp-accounting``."""
    match mechanism:
        case GaussianNoise():
            return dp_event.GaussianDpEvent(mechanism.noise)
        case LaplaceNoise():
            return dp_event.LaplaceDpEvent(mechanism.noise)
        case Selection():
            return dp_event.GaussianDpEvent(1 / mechanism.mu)  # which gives away no less
        case PoissonSubsampled():
            return dp_event.PoissonSampledDpEvent(mechanism.rate, _event(mechanism.mechanism, dp_event))
        case Repeated():
            return dp_event.SelfComposedDpEvent(_event(mechanism.mechanism, dp_event), mechanism.times)
        case Composed():
            return dp_event.ComposedDpEvent([_event(part, dp_event) for part in mechanism.parts])

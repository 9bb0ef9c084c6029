"""Upper bounds of epsilon for repeated noise on Poisson samples, in closed forms that answer at once for any parameter.

Both are looser than the distribution of privacy losses, which they bound and, where its grid ends, replace. Each is a
minimum over fixed choices, so it never falls where a mechanism gives away more.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from functools import lru_cache

import numpy as np
from scipy import special

from miaudit.arrays import FloatArray
from miaudit.dp.loss_distribution import Noise, Released, amplified
from miaudit.dp.tradeoff import Gaussian, mu_of_pure

__all__ = ["by_moments", "by_samplings", "gaussian"]

_SHARES = (0.001, 0.01, 0.1, 0.5, 0.9, 0.99, 0.999)  # of delta, the chance of more samplings than that count
_EXACT_MU = 1e5
_MOST_DRAWS = 1e10


def _orders() -> tuple[int, ...]:
    grown = (round(64 * 1.12**k) for k in range(56))
    return tuple(sorted({*range(2, 64), *grown}))


_ORDERS = _orders()


def gaussian(mu: float, delta: float) -> float:
    """Return an epsilon of mu-GDP at a delta in (0, 1): the smallest, up to a mu at which rounding would show."""
    if mu <= _EXACT_MU:
        return Gaussian(mu).epsilon_at(delta)
    return mu * (mu / 2 + math.sqrt(-2 * math.log(delta)))  # where Phi(mu / 2 - epsilon / mu) is below delta


def by_moments(parts: Iterable[Released], delta: float) -> float:
    """Return epsilon by Renyi divergences of whole orders.

    Of Gaussian noise on a Poisson sample: Mironov, Talwar and Zhang, "Renyi differential privacy of the sampled
    Gaussian mechanism", 2019, section 3.3. Of pure mechanisms: of a randomised response. To epsilon: Canonne, Kamath
    and Steinke, "The discrete Gaussian for differential privacy", 2020, proposition 12.
    """
    moments = np.zeros(len(_ORDERS))
    for part in parts:
        moments += part.times * _moments(part.kind, part.noise, part.rate)
    orders = np.array(_ORDERS, dtype=float)
    epsilons = (moments - math.log(delta) - np.log(orders)) / (orders - 1) + np.log1p(-1 / orders)
    return max(0.0, float(epsilons.min()))


def by_samplings(parts: Iterable[Released], delta: float) -> float:
    """Return epsilon by how often a record is sampled: beyond some count it fails, up to it every use is seen.

    The output is a mixture over the samples, and a divergence of mixtures is at most the mixture of the divergences.
    """
    parts = tuple(parts)
    return min(_sampled(parts, delta, share) for share in (0.0, *_SHARES))


def _sampled(parts: tuple[Released, ...], delta: float, share: float) -> float:
    squared, pure, squared_of_pure = 0.0, 0.0, 0.0
    for part in parts:
        sampled = part.rate < 1 and share > 0
        count = _most(part, delta * share / len(parts)) if sampled else part.times
        if part.kind == "gaussian":
            squared += count / part.noise**2
        else:
            pure += count / part.noise
            squared_of_pure += count * mu_of_pure(1 / part.noise) ** 2
    left = delta * (1 - share)
    return min(gaussian(math.sqrt(squared), left) + pure, gaussian(math.sqrt(squared + squared_of_pure), left))


def _most(part: Released, chance: float) -> int:
    """Return how many samplings of a record are exceeded with at most this chance."""
    if part.times > _MOST_DRAWS:
        return part.times
    low, high = -1, part.times
    while high - low > 1:
        middle = (low + high) // 2
        if special.betainc(middle + 1.0, float(part.times - middle), part.rate) * (1 + 1e-6) <= chance:
            high = middle
        else:
            low = middle
    return high


@lru_cache(maxsize=256)  # one mechanism is asked about at several deltas
def _moments(kind: Noise, noise: float, rate: float) -> FloatArray:
    """Return the logarithm of E_Q (P/Q)^order of one use, for each of the orders."""
    one = Released(kind, noise, rate, 1)
    return np.array([_moment(one, order) for order in _ORDERS])


@lru_cache(maxsize=256)  # a search for a noise asks about one rate at many noises
def _chosen(order: int, rate: float) -> FloatArray:
    """Return the logarithm of the chance that k of so many samples hold a record, k = 2, 3, ..., order."""
    k = np.arange(2.0, order + 1)
    choose = special.gammaln(order + 1) - special.gammaln(k + 1) - special.gammaln(order - k + 1)
    return np.asarray(choose + k * math.log(rate) + (order - k) * math.log1p(-rate))


def _moment(part: Released, order: int) -> float:
    """Return the logarithm of E_Q (P/Q)^order of one use, for an order from 2 up."""
    if part.kind == "laplace":
        pure = amplified(1 / part.noise, part.rate)
        high, low = special.log_expit(pure), special.log_expit(-pure)
        return float(np.logaddexp(order * high + (1 - order) * low, order * low + (1 - order) * high))
    if part.rate == 1:
        return order * (order - 1) / (2 * part.noise**2)
    k = np.arange(2.0, order + 1)
    loss = k * (k - 1) / (2 * part.noise**2)
    chosen = _chosen(order, part.rate)
    # the chances sum to 1, so that sum (e^loss - 1) keeps every digit of a divergence near 0
    above_one = float(special.logsumexp(chosen + loss + np.log(-np.expm1(-loss))))
    return float(np.logaddexp(0.0, above_one)) * (1 + 1e-9)

"""The one-run tests written out plainly: no early stop, no bisection of a maximum, no special functions by hand."""

from __future__ import annotations

from collections.abc import Callable
from math import exp

import numpy as np
from scipy import optimize, stats


def f_dp_rejects(inverse: Callable[[float], float], c: int, r: int, m: int, p: float) -> bool:
    """Algorithm 2 with erratum B5's running maximum, down to k = 0; power above 1 is a contradiction at once."""
    h, mass = np.zeros(r + 1), np.zeros(r + 1)
    mass[c], h[c] = p * c / m, p * (r - c) / m
    for k in range(c - 1, -1, -1):
        if mass[k + 1] >= 1:
            return True
        h[k] = max(h[k + 1], inverse(mass[k + 1]))
        mass[k] = mass[k + 1] + k / (r - k) * (h[k] - h[k + 1])
    return bool(mass[0] + h[0] >= r / m)


def gaussian_inverse(mu: float) -> Callable[[float], float]:
    return lambda y: float(stats.norm.cdf(stats.norm.ppf(y) - mu))


def quick_gaussian_inverse(mu: float) -> Callable[[float], float]:
    """The same through scipy.special, for benchmarks: scipy.stats would make the loop look slower than it need be."""
    from scipy.special import ndtr, ndtri

    return lambda y: float(ndtr(ndtri(y) - mu))


def epsilon_delta_inverse(epsilon: float, delta: float) -> Callable[[float], float]:
    """The smallest x in [0, 1] with 1 - f(x) >= y, f(x) = max(0, 1 - delta - e^eps x, e^-eps (1 - delta - x))."""
    return lambda y: max(0.0, (y - delta) * exp(-epsilon), 1 - delta - exp(epsilon) * (1 - y))


def steinke_p_value(epsilon: float, c: int, r: int, m: int, delta: float) -> float:
    """P(Z >= c) + 2 m delta max over i = 1..m of P(c > Z >= c - i) / i, by summing the mass function."""
    mass = stats.binom.pmf(np.arange(r + 1), r, 1 / (1 + exp(-epsilon)))
    tail = mass[c:].sum()
    below = np.cumsum(mass[:c][::-1])
    worst = max((below[min(i, c) - 1] / i for i in range(1, m + 1)), default=0.0) if c else 0.0
    return float(min(1.0, tail + 2 * m * delta * worst))


def largest_tail(mu: float, c: int, r: int, m: int, slopes: list[float]) -> float:
    """The primal: the largest P(C >= c) of any law with sum_k max(0, k p_k - e^eps (r-k+1) p_{k-1}) <= m delta(eps)."""
    n = len(slopes)
    cost = np.concatenate([-(np.arange(r + 1) >= c).astype(float), np.zeros(n * r)])
    rows, limits = [], []
    for j, epsilon in enumerate(slopes):
        total = np.zeros(len(cost))
        for k in range(1, r + 1):
            row = np.zeros(len(cost))
            row[k], row[k - 1] = k, -exp(epsilon) * (r - k + 1)
            row[r + 1 + j * r + k - 1] = -1
            total[r + 1 + j * r + k - 1] = 1
            rows.append(row)
            limits.append(0.0)
        rows.append(total)
        limits.append(
            m * (stats.norm.cdf(mu / 2 - epsilon / mu) - exp(epsilon) * stats.norm.cdf(-mu / 2 - epsilon / mu))
        )
    sums = np.concatenate([np.ones(r + 1), np.zeros(n * r)])[None]
    found = optimize.linprog(cost, np.array(rows), limits, sums, [1.0], bounds=(0, None), method="highs-ds")
    return -float(found.fun)


def last_rejected(refuted: Callable[[float], bool], width: float = 1e-7) -> float:
    if not refuted(0.0):
        return 0.0
    low, high = 0.0, 64.0
    while high - low > width:
        middle = (low + high) / 2
        low, high = (middle, high) if refuted(middle) else (low, middle)
    return low

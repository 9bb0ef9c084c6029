"""The best that the counts of one run can give: a linear program over the law of how many guesses are right."""

# ruff: noqa: PLC0415 - the heavier parts of scipy load when used
from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from miaudit.arrays import FloatArray
from miaudit.dp import one_run
from miaudit.dp.tradeoff import Gaussian
from miaudit.dp.verdict import LowerBound
from miaudit.errors import InputError

__all__ = ["mu_lower_bound", "mu_p_value"]


def mu_p_value(mu: float, *, correct: int, guesses: int, canaries: float, slopes: int = 16) -> float:
    """Upper limit of P(as many correct guesses) under mu-GDP, in (0, 1], by a linear program over the count's law.

    The theorem's constraints hold for every set T of counts, not only for {k, ..., r} as in Algorithm 2. With 1 - f
    below each of its tangents, delta(eps) + e^eps x, they read sum_k max(0, k p_k - e^eps (r - k + 1) p_{k-1})
    <= m delta(eps) (experiments/methods.md, section 6). Any feasible point of the dual gives an upper limit: the
    solver's is clipped into its range and the objective computed again, so an inexact solution costs power and
    never validity.

    Parameters
    ----------
    mu : float, 0 or more
    correct, guesses, canaries : as in :func:`miaudit.dp.one_run.mu_lower_bound`
    slopes : int, 1 or more
        How many tangents; more are closer to the best and slower (a second or so at 500 guesses and 16 slopes).

    Examples
    --------
    >>> counts = {"correct": 45, "guesses": 50, "canaries": 1_000}
    >>> round(mu_p_value(0.5, **counts), 3), round(one_run.p_value(0.5, **counts), 3)
    (0.053, 0.059)
    """
    c, r, m = one_run.check_counts(correct, guesses, canaries)
    one_run.inverse_of(mu)  # refuses what is no mu
    if isinstance(slopes, bool) or not isinstance(slopes, int) or slopes < 1:
        raise InputError("slopes", "a whole number from 1 up", repr(slopes), "16 is the default")
    if mu == 0:
        return one_run.epsilon_p_value(0.0, correct=c, guesses=r, canaries=m)
    # Tangents that bind lie between a fraction of the log-odds of the accuracy and a little above them.
    epsilon = np.linspace(0.1, 1.1, slopes) * max(0.5, math.log((c + 0.5) / (r - c + 0.5)))
    delta = np.array([Gaussian(mu).delta_at(float(e)) for e in epsilon])
    return min(1.0, _certified(c, r, m, np.exp(epsilon), delta))


def mu_lower_bound(
    *, correct: int, guesses: int, canaries: float, confidence: float = 0.95, slopes: int = 16
) -> LowerBound:
    """Lower bound on mu by the linear program: up to 4% above the recursion's, for seconds in place of a millisecond.

    Parameters
    ----------
    correct, guesses, canaries, confidence : as in :func:`miaudit.dp.one_run.mu_lower_bound`
    slopes : as in :func:`mu_p_value`

    Notes
    -----
    Both tests reject where the count is large, so the larger of the two bounds is as valid as either.

    Examples
    --------
    >>> bound = mu_lower_bound(correct=45, guesses=50, canaries=1_000)
    >>> plain = one_run.mu_lower_bound(correct=45, guesses=50, canaries=1_000)
    >>> 1.01 < bound.value / plain.value < 1.06
    True
    """
    plain = one_run.mu_lower_bound(correct=correct, guesses=guesses, canaries=canaries, confidence=confidence)
    counts = {"correct": correct, "guesses": guesses, "canaries": canaries}

    def refuted(mu: float) -> bool:
        return mu_p_value(mu, slopes=slopes, **counts) <= 1 - confidence  # type: ignore[arg-type]

    low, high = plain.value, max(1.1 * plain.value, plain.value + 0.02)
    while refuted(high):
        low, high = high, high + (high - plain.value)
    while high - low > 5e-4 * max(1.0, low):
        middle = (low + high) / 2
        low, high = (middle, high) if refuted(middle) else (low, middle)
    return replace(plain, value=low, method=f"one run, f-DP by a linear program with {slopes} slopes", reachable=None)


def _certified(c: int, r: int, m: int, b: FloatArray, delta: FloatArray) -> float:
    """Minimise z + m sum_j delta_j y_j over z + sum_j (k w_jk - b_j (r - k) w_j,k+1) >= 1{k >= c}, 0 <= w_jk <= y_j."""
    from scipy import optimize, sparse

    n, k = len(b), np.arange(1, r + 1)
    w = 1 + n + np.arange(n)[:, None] * r + (k - 1)  # columns: z, y_1..y_n, then w_jk row by row
    rows = np.concatenate([np.arange(r + 1), np.tile(k, n), np.tile(k - 1, n)])
    columns = np.concatenate([np.zeros(r + 1, int), w.ravel(), w.ravel()])
    gain = np.broadcast_to(k.astype(float), w.shape)
    cost = b[:, None] * (r - k + 1)
    cover = sparse.csr_array(
        (np.concatenate([np.ones(r + 1), gain.ravel(), -cost.ravel()]), (rows, columns)), shape=(r + 1, 1 + n + n * r)
    )
    each = np.arange(n * r)
    within = sparse.csr_array(
        (np.repeat([1.0, -1.0], n * r), (np.tile(each, 2), np.concatenate([1 + n + each, 1 + each // r]))),
        shape=(n * r, 1 + n + n * r),
    )
    event = (np.arange(r + 1) >= c).astype(float)
    solution = optimize.linprog(  # type: ignore[call-overload]  # the stubs know dense constraints only
        np.concatenate([[1.0], m * delta, np.zeros(n * r)]),
        A_ub=sparse.vstack([-cover, within]),
        b_ub=np.concatenate([-event, np.zeros(n * r)]),
        bounds=(0, None),
        method="highs-ipm",
    )
    if solution.x is None or not np.isfinite(solution.x).all():
        return 1.0
    y = np.maximum(0.0, solution.x[1 : 1 + n])
    weights = np.clip(solution.x[1 + n :].reshape(n, r), 0.0, y[:, None])
    covered = np.zeros(r + 1)
    covered[1:] += (weights * gain).sum(axis=0)
    covered[:-1] -= (weights * cost).sum(axis=0)
    return max(0.0, float((event - covered).max())) + m * float(y @ delta)

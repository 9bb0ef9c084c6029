"""Error counts of an attack and the exact tests of a claim by them: what many runs prove at a threshold that is given.

True and false positives are independent binomial counts, and a claim is a curve that limits their rates, TPR <= g(FPR)
(:mod:`miaudit.dp.tradeoff`). :mod:`miaudit.dp.multi_run` inverts these tests into bounds, and chooses thresholds.
"""

# ruff: noqa: PLC0415 - the heavier parts of scipy load when used
from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from miaudit.arrays import FloatArray, IntArray
from miaudit.dp.tradeoff import EpsilonDelta, Gaussian, TradeOff
from miaudit.dp.verdict import Parameter
from miaudit.errors import InputError

_NUISANCE = 1e-6  # probability given up so that only plausible rates need be searched
_TAIL = 8.5  # standard deviations kept of a Beta law; 1e-17 lies beyond and is added


@dataclass(frozen=True)
class ClopperPearson:
    """Exact limits of both rates, each with half of the error; the claim is refuted if they are outside its curve."""


@dataclass(frozen=True)
class Joint:
    """Both counts at once: the probability, at the worst rates the claim permits, of anything as extreme (default).

    Extreme is what leaves the curve further when both rates are moved to their limits. Those limits serve as an order
    only, so the test is exact, and it gives up less than a confidence split over two errors (Buehler, 1957; Berger and
    Boos, 1994, for the rate that the claim leaves open). Its p-value is never below 1e-6, which pays for the search.
    """


Method = ClopperPearson | Joint


@dataclass(frozen=True)
class Counts:
    """What an attack did: ``true_positives`` of ``members`` and ``false_positives`` of ``nonmembers`` called members.

    Examples
    --------
    >>> Counts(40, 50, 10, 50).tpr
    0.8
    """

    true_positives: int
    members: int
    false_positives: int
    nonmembers: int

    def __post_init__(self) -> None:
        for hits, trials in (("true_positives", "members"), ("false_positives", "nonmembers")):
            n = _count(trials, getattr(self, trials), 1, None)
            object.__setattr__(self, trials, n)
            object.__setattr__(self, hits, _count(hits, getattr(self, hits), 0, n))

    @property
    def tpr(self) -> float:
        """Share of the members called members."""
        return self.true_positives / self.members

    @property
    def fpr(self) -> float:
        """Share of the non-members called members."""
        return self.false_positives / self.nonmembers

    @property
    def correct(self) -> int:
        """Right guesses about members and non-members."""
        return self.true_positives + self.nonmembers - self.false_positives


@dataclass(frozen=True)
class Family:
    """Claims of one kind, weaker as their parameter grows."""

    parameter: Parameter
    delta: float = 0.0

    def claim(self, value: float) -> TradeOff:
        """Return the claim with a parameter, 0 or more."""
        return EpsilonDelta(value, self.delta) if self.parameter == "epsilon" else Gaussian(value)

    def of_point(self, tpr: float, fpr: float) -> float:
        """Return what :meth:`of_points` says of one point, without arrays."""
        if self.parameter == "mu":
            return float(special.ndtri(tpr) - special.ndtri(fpr))
        up = math.log((tpr - self.delta) / fpr) if tpr > self.delta and fpr > 0 else math.inf * (tpr - self.delta or -1)
        left, missed = 1 - fpr - self.delta, 1 - tpr
        down = math.log(left / missed) if left > 0 and missed > 0 else math.inf * (left or -1)
        return max(up, down)

    def of_points(self, tpr: ArrayLike, fpr: ArrayLike) -> FloatArray:
        """Return the parameter at whose curve points lie (k,), negative below that of 0, rates strictly in (0, 1)."""
        t, a = np.asarray(tpr, dtype=np.float64), np.asarray(fpr, dtype=np.float64)
        if self.parameter == "mu":
            return np.asarray(special.ndtri(t) - special.ndtri(a))
        with np.errstate(divide="ignore", invalid="ignore"):
            up = np.where(t > self.delta, np.log(np.maximum(t - self.delta, 0.0) / a), -np.inf)
            down = np.where(1 - a > self.delta, np.log(np.maximum(1 - a - self.delta, 0.0) / (1 - t)), -np.inf)
        return np.maximum(up, down)


# -- tests of a claim -------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ClaimTest:
    """A test whose p-value grows as the claim gets weaker."""

    p_value: Callable[[TradeOff], float]
    start: float  # a parameter near the bound

    def invert(self, family: Family, level: float) -> float:
        """Return the largest parameter rejected at a level, from below to 1e-9, or 0."""
        from scipy import optimize

        def excess(value: float) -> float:
            return math.log(max(self.p_value(family.claim(value)), 1e-300) / level)

        if excess(0.0) > 0:
            return 0.0
        low, high = 0.0, max(self.start, 0.1)
        while excess(high) <= 0:
            low, high = high, 2 * high
        root = float(optimize.brentq(excess, low, high, xtol=1e-10, rtol=1e-12))
        while root > low and excess(root) > 0:  # the end of the bracket that is rejected (erratum B16)
            root = max(low, root - 1e-9)
        return root


def exact_test(method: Method, counts: Counts, order: Family, level: float) -> ClaimTest:
    """Return the test of a method; ``order`` says which outcomes are extreme, ``level`` where it shall be sharp."""
    if isinstance(method, ClopperPearson):
        return clopper_pearson_test(counts, order, level)
    return joint_test(counts, order, level)


def clopper_pearson_test(counts: Counts, order: Family, level: float) -> ClaimTest:
    """Twice the share of the error at which the limits of both rates meet the curve.

    At the rates where they do, P(Bin(n1, g(a)) >= true positives) = P(Bin(n0, a) <= false positives): the first rises
    with a and the second falls, so one root is to be found, and no limit is inverted.
    """
    tp, fp, n1, n0 = counts.true_positives, counts.false_positives, counts.members, counts.nonmembers

    def p_value(claim: TradeOff) -> float:
        from scipy import optimize

        shift = claim.delta if isinstance(claim, EpsilonDelta) else 0.0
        null = claim in (EpsilonDelta(0.0, shift), Gaussian(0.0))  # TPR = FPR + delta, without the checks of a claim

        def inside(rate: float) -> float:
            reached = min(rate + shift, 1.0) if null else float(claim.tpr_at_fpr(rate))
            return float(special.betainc(tp, n1 - tp + 1, reached))

        def outside(rate: float) -> float:
            return float(special.betaincc(fp + 1, n0 - fp, rate)) if fp < n0 else 1.0

        def apart(rate: float) -> float:
            return math.log(max(inside(rate), 1e-300)) - math.log(max(outside(rate), 1e-300))

        median_in, median_out = limits(counts, 0.5)
        bottom = median_out
        top = median_in - shift if null else float(claim.fpr_at_tpr(median_in))
        if top <= bottom:
            return 1.0
        rate = optimize.brentq(apart, bottom, top, xtol=1e-15, rtol=1e-12)
        return min(1.0, 2 * max(inside(rate), outside(rate)))

    low, high = limits(counts, level / 2)
    return ClaimTest(p_value, max(0.0, order.of_point(low, high)))


def joint_test(counts: Counts, order: Family, level: float) -> ClaimTest:
    """Exact test of both counts, ordered by where their limits at a lax level lie (:class:`Joint`).

    The set of outcomes at least as extreme holds with (tp, fp) every outcome with more true or fewer false positives,
    so its probability is largest on the claim's curve, TPR = g(FPR), and one rate remains to be searched, as far as
    both rates are plausible: they lie in limits that fail with probability gamma, which is added.
    """
    lax = float(special.ndtr(special.ndtri(min(level, 0.4)) / math.sqrt(2)))
    n1, n0 = counts.members, counts.nonmembers
    extreme = order.of_point(*limits(counts, lax))
    if extreme <= 0:
        return ClaimTest(lambda _claim: 1.0, 0.0)
    gamma = min(_NUISANCE, level / 1000)
    low, high = _plausible(counts.false_positives, n0, gamma / 2)
    least, most = _plausible(counts.true_positives, n1, gamma / 2)
    # where scipy cannot tell a quantile so far out, nothing is cut off
    first = int(np.nan_to_num(special.bdtrik(1e-17, n0, low), nan=0)) if low > 0 else 0
    last = int(np.nan_to_num(special.bdtrik(1 - 1e-16, n0, high), nan=n0))
    fp = np.arange(max(first - 1, 0), min(last + 2, n0) + 1)
    # the smallest number of true positives that is as extreme, for each number of false ones
    reach = order.claim(extreme).tpr_at_fpr(upper_limit(fp, n0, lax))
    lowest = lower_limit(np.arange(n1 + 1), n1, lax)
    needed = np.searchsorted(lowest, reach * (1 - 1e-12))
    needed[fp == counts.false_positives] = np.minimum(needed[fp == counts.false_positives], counts.true_positives)
    needed = np.minimum.accumulate(needed[::-1])[::-1]

    def probability(rates: FloatArray, claim: TradeOff) -> FloatArray:
        mass = _binomial_mass(fp, n0, rates[:, None])
        tail = _binomial_tail(needed[None, :], n1, np.minimum(claim.tpr_at_fpr(rates), most)[:, None])
        left_out = 1.0 - _binomial_tail(fp[:1], n0, rates) + _binomial_tail(fp[-1:] + 1, n0, rates)
        return np.asarray(np.einsum("ij,ij->i", mass, tail) + np.maximum(left_out, 0.0))

    def p_value(claim: TradeOff) -> float:
        bottom = max(low, claim.fpr_at_tpr(least))
        if bottom > high:
            return gamma
        corners = (*_corners(claim), claim.fpr_at_tpr(most))
        return min(1.0, _largest(lambda rates: probability(rates, claim), bottom, high, corners) + gamma)

    return ClaimTest(p_value, extreme)


def _largest(
    function: Callable[[FloatArray], FloatArray], low: float, high: float, corners: tuple[float, ...]
) -> float:
    """Return the maximum over [low, high] of a function, smooth on a binomial's scale but for corners."""
    inside = np.array([rate for rate in corners if low <= rate <= high])
    best = float(np.max(function(inside), initial=0.0))
    bottom, top = math.asin(math.sqrt(low)), math.asin(math.sqrt(high))  # where that scale is the same everywhere
    points = 41
    for _ in range(4):
        angles = np.linspace(bottom, top, points)
        values = function(np.clip(np.sin(angles) ** 2, low, high))
        peak = int(np.argmax(values))
        best = max(best, float(values[peak]))
        bottom, top = float(angles[max(peak - 1, 0)]), float(angles[min(peak + 1, points - 1)])
        points = 7
    return best


def _corners(claim: TradeOff) -> tuple[float, ...]:
    """Return the false-positive rates at which a claim's curve has a corner, where a maximum likes to sit."""
    if not isinstance(claim, EpsilonDelta):
        return ()
    return ((1 - claim.delta) * float(special.expit(-claim.epsilon)), 1 - claim.delta)


def rank_test(method: Method, counts: Counts, order: Family, level: float) -> ClaimTest:
    """Exact test above the (j + 1)-th largest non-member, with j = counts.false_positives and ties broken at random.

    The false-positive rate there is Beta(j + 1, n0 - j), and true positives are binomial given the threshold, which
    no member had a part in: p = E P(Bin(n1, g(rate)) >= true positives), with nothing left open. Clopper-Pearson's
    upper limit of FPR with j false positives is a quantile of the same Beta law.
    """
    if isinstance(method, ClopperPearson):
        return clopper_pearson_test(counts, order, level)
    rates, weights = _beta_nodes(counts.false_positives, counts.nonmembers)

    def p_value(claim: TradeOff) -> float:
        tail = _binomial_tail(np.array([counts.true_positives]), counts.members, claim.tpr_at_fpr(rates))
        return min(1.0, float(weights @ tail) + 1e-15)

    lax = float(special.ndtr(special.ndtri(min(level, 0.4)) / math.sqrt(2)))
    return ClaimTest(p_value, max(0.0, order.of_point(*limits(counts, lax))))


@lru_cache(maxsize=512)
def _beta_nodes(rank: int, trials: int) -> tuple[FloatArray, FloatArray]:
    """Return nodes and weights of an expectation under Beta(rank + 1, trials - rank), by panels of its probit."""
    x, w = np.polynomial.legendre.leggauss(8)
    edges = np.linspace(-_TAIL, _TAIL, 41)
    half = (edges[1] - edges[0]) / 2
    z = ((edges[:-1] + edges[1:]) / 2)[:, None] + half * x
    weights = (half * w * np.exp(-z * z / 2) / math.sqrt(2 * math.pi)).ravel()
    upper = z.ravel() > 0
    rates = np.empty(z.size)
    rates[~upper] = special.betaincinv(rank + 1, trials - rank, special.ndtr(z.ravel()[~upper]))
    rates[upper] = special.betainccinv(rank + 1, trials - rank, special.ndtr(-z.ravel()[upper]))
    return rates, weights / weights.sum()


def order_of(claim: TradeOff) -> Family:
    """Return the family in whose order outcomes are extreme for a claim."""
    return Family("epsilon", claim.delta) if isinstance(claim, EpsilonDelta) else Family("mu")


# -- binomial rates ---------------------------------------------------------------------------------------------------


def limits(counts: Counts, error: float) -> tuple[float, float]:
    """Return the lower limit of TPR and the upper limit of FPR, each exceeded with probability at most ``error``."""
    tp, fp, n1, n0 = counts.true_positives, counts.false_positives, counts.members, counts.nonmembers
    low = float(special.betaincinv(tp, n1 - tp + 1, error)) if tp else 0.0
    high = float(special.betainccinv(fp + 1, n0 - fp, error)) if fp < n0 else 1.0
    return low, high


def _plausible(successes: int, trials: int, error: float) -> tuple[float, float]:
    """Return limits of a rate that fail, both together, with probability at most ``error``."""
    return float(lower_limit(successes, trials, error / 2)), float(upper_limit(successes, trials, error / 2))


def lower_limit(successes: ArrayLike, trials: float, error: float) -> FloatArray:
    """Return the exact lower limit of a rate (k,), exceeded by the rate but for a probability ``error``."""
    k = np.asarray(successes, dtype=np.float64)
    return np.where(k > 0, special.betaincinv(np.maximum(k, 1e-9), trials - k + 1, error), 0.0)


def upper_limit(successes: ArrayLike, trials: float, error: float) -> FloatArray:
    """Return the exact upper limit of a rate (k,), above the rate but for a probability ``error``."""
    k = np.asarray(successes, dtype=np.float64)
    return np.where(k < trials, special.betainccinv(k + 1, np.maximum(trials - k, 1e-9), error), 1.0)


def _binomial_mass(k: IntArray, n: int, p: FloatArray) -> FloatArray:
    """Return P(Bin(n, p) = k)."""
    log_choose = special.gammaln(n + 1) - special.gammaln(k + 1) - special.gammaln(n - k + 1)
    return np.asarray(np.exp(log_choose + special.xlogy(k, p) + special.xlog1py(n - k, -p)))


def _binomial_tail(k: IntArray, n: int, p: FloatArray) -> FloatArray:
    """Return P(Bin(n, p) >= k)."""
    inside = (k > 0) & (k <= n)
    tail = special.betainc(np.where(inside, k, 1), np.where(inside, n - k + 1, 1), p)
    return np.where(k <= 0, 1.0, np.where(inside, tail, 0.0))


# -- checks -----------------------------------------------------------------------------------------------------------


def _count(name: str, value: object, low: int, high: int | None) -> int:
    allowed = f"a whole number from {low}" + (" up" if high is None else f" to {high:,}")
    whole = isinstance(value, int | np.integer) and not isinstance(value, bool)
    if isinstance(value, float) and value.is_integer():
        whole = True
    if not whole or int(value) < low or (high is not None and int(value) > high):  # type: ignore[call-overload]
        raise InputError(name, allowed, repr(value), "count again")
    return int(value)  # type: ignore[call-overload,no-any-return]


def check_method(method: object) -> Method:
    """Return a test of counts, if it is one."""
    if not isinstance(method, ClopperPearson | Joint):
        raise InputError("method", "Joint() or ClopperPearson()", repr(method), "the default is Joint()")
    return method

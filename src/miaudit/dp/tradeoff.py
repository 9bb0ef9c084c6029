"""Trade-off functions of differential privacy, and conversions between claims.

A trade-off function f gives the smallest false-negative rate f(alpha) that any attack with false-positive rate alpha
can have (Dong, Roth and Su, 2022). All of them here are **symmetric**, f = f^-1, since a claim holds for neighbouring
data sets in both orders; so the ROC curve that a claim permits is its own mirror image in the anti-diagonal.
"""

# ruff: noqa: PLC0415 - the heavier parts of scipy load when used
from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, overload

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from miaudit.arrays import BoolArray, FloatArray
from miaudit.dp.operating_point import check_prior, check_rate, check_rates, epsilon_of_point, mu_of_point
from miaudit.errors import InputError
from miaudit.errors.checks import check_delta, finite

__all__ = [
    "Custom",
    "EpsilonDelta",
    "Failing",
    "Gaussian",
    "TradeOff",
    "epsilon_of_bayes_risk",
    "epsilon_of_point",
    "mu_of_bayes_risk",
    "mu_of_epsilon_delta",
    "mu_of_point",
    "mu_of_pure",
    "roc_limit",
]

_ROOT_TWO = math.sqrt(2)
LARGEST_MU = 1e6  # beyond it nothing is left to protect, and squares are still far from overflow
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(16)
_FINEST_DELTA = 1e-12
_TOLERANCE = 1e-9  # of a user's function: rounding and quadrature, not a wrong shape


@dataclass(frozen=True)
class TradeOff(ABC):
    """A symmetric trade-off function f: convex, non-increasing, 0 <= f(alpha) <= 1 - alpha on [0, 1]."""

    @overload
    def __call__(self, fpr: float) -> float: ...
    @overload
    def __call__(self, fpr: ArrayLike) -> Any: ...
    def __call__(self, fpr: ArrayLike) -> Any:
        """Smallest false-negative rate f(alpha) at a false-positive rate, both in [0, 1]; arrays of any shape."""
        return _like(fpr, self._fnr(check_rates("fpr", fpr)))

    @overload
    def inverse(self, fnr: float) -> float: ...
    @overload
    def inverse(self, fnr: ArrayLike) -> Any: ...
    def inverse(self, fnr: ArrayLike) -> Any:
        """Smallest false-positive rate inf{a in [0, 1]: f(a) <= fnr}; equal to f(fnr), f being symmetric."""
        return _like(fnr, self._fnr(check_rates("fnr", fnr)))

    @overload
    def tpr_at_fpr(self, fpr: float) -> float: ...
    @overload
    def tpr_at_fpr(self, fpr: ArrayLike) -> Any: ...
    def tpr_at_fpr(self, fpr: ArrayLike) -> Any:
        """Largest true-positive rate 1 - f(alpha), without the rounding of that subtraction where it is tiny."""
        return _like(fpr, self._tpr(check_rates("fpr", fpr)))

    @overload
    def fpr_at_tpr(self, tpr: float) -> float: ...
    @overload
    def fpr_at_tpr(self, tpr: ArrayLike) -> Any: ...
    def fpr_at_tpr(self, tpr: ArrayLike) -> Any:
        """Smallest false-positive rate at a true-positive rate: the papers' fbar^-1, which is f.inverse(1 - tpr)."""
        return _like(tpr, self._fpr(check_rates("tpr", tpr)))

    @abstractmethod
    def epsilon_at(self, delta: float) -> float:
        """Smallest epsilon of (epsilon, delta)-DP that the claim implies, possibly infinite; delta in [0, 1)."""

    @abstractmethod
    def delta_at(self, epsilon: float) -> float:
        """Smallest delta of (epsilon, delta)-DP that the claim implies, in [0, 1]; epsilon 0 or more."""

    @property
    def total_variation(self) -> float:
        """Largest sup(TPR - FPR) of any attack, in [0, 1]: the delta at epsilon 0."""
        return self.delta_at(0.0)

    def bayes_risk(self, prior: float = 0.5) -> float:
        """Smallest error probability of any guess "member or not" when a share ``prior`` in (0, 1) are members.

        min over alpha of prior f(alpha) + (1 - prior) alpha. By symmetry the prior may be the smaller of the two, and
        the minimum is then prior (1 - delta(epsilon)) at epsilon = log((1 - prior) / prior).
        """
        smaller = min(check_prior(prior), 1 - prior)
        return smaller * (1 - self.delta_at(math.log1p(-smaller) - math.log(smaller)))

    @abstractmethod
    def _fnr(self, fpr: FloatArray) -> FloatArray: ...

    def _tpr(self, fpr: FloatArray) -> FloatArray:
        return 1 - self._fnr(fpr)

    def _fpr(self, tpr: FloatArray) -> FloatArray:
        return self._fnr(1 - tpr)


@dataclass(frozen=True)
class EpsilonDelta(TradeOff):
    """(epsilon, delta)-DP: f(a) = max(0, 1 - delta - e^eps a, e^-eps (1 - delta - a)).

    Wasserman and Zhou (2010); the ROC limit 1 - f is erratum A8.

    Parameters
    ----------
    epsilon : 0 or more, finite
    delta : in [0, 1)

    Examples
    --------
    >>> claim = EpsilonDelta(1.0, 1e-5)
    >>> round(claim.tpr_at_fpr(0.01), 6)  # e * 0.01 + 0.00001
    0.027193
    >>> claim.epsilon_at(1e-5), claim.epsilon_at(1e-6)
    (1.0, inf)
    """

    epsilon: float
    delta: float = 0.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", check_epsilon(self.epsilon))
        object.__setattr__(self, "delta", check_delta(self.delta))

    def epsilon_at(self, delta: float) -> float:
        """Smallest epsilon at a delta; infinite below the claim's own delta, smaller than its epsilon above."""
        if check_delta(delta) < self.delta:
            return math.inf
        # The kink of f, at (1 - delta) / (1 + e^eps), is the only point that a larger delta leaves to pass through.
        log_odds = _softplus(self.epsilon) + math.log1p(-delta) - math.log1p(-self.delta)
        return min(self.epsilon, _inverse_softplus(log_odds)) if delta > self.delta else self.epsilon

    def delta_at(self, epsilon: float) -> float:
        """Smallest delta at an epsilon: the claim's own from its epsilon on, larger below."""
        epsilon = check_epsilon(epsilon)
        if epsilon >= self.epsilon:
            return self.delta
        # (e^eps0 - e^eps) / (1 + e^eps0), without overflow or cancellation
        pure = -math.expm1(epsilon - self.epsilon) / (1 + math.exp(-self.epsilon))
        return pure + self.delta * (1 - pure)

    def _fnr(self, fpr: FloatArray) -> FloatArray:
        left = 1 - self.delta - self._times_exp_epsilon(fpr)
        right = math.exp(-self.epsilon) * (1 - self.delta - fpr)
        return np.maximum(0.0, np.maximum(left, right))

    def _tpr(self, fpr: FloatArray) -> FloatArray:
        steep = self._times_exp_epsilon(fpr) + self.delta
        flat = 1 - math.exp(-self.epsilon) * (1 - self.delta - fpr)
        return np.minimum(1.0, np.minimum(steep, flat))

    def _fpr(self, tpr: FloatArray) -> FloatArray:
        steep = math.exp(-self.epsilon) * (tpr - self.delta)
        flat = 1 - self.delta - self._times_exp_epsilon(1 - tpr)
        return np.maximum(0.0, np.maximum(steep, flat))

    def _times_exp_epsilon(self, rate: FloatArray) -> FloatArray:
        """Return e^eps times a rate, or any number above 2 where that is larger: it would overflow at eps = 710."""
        if self.epsilon < 700:
            return math.exp(self.epsilon) * rate
        return np.where(rate > 0, 3.0, 0.0)  # the smallest positive double is e^-745


@dataclass(frozen=True)
class Gaussian(TradeOff):
    """mu-GDP: f(a) = Phi(Phi^-1(1 - a) - mu), what one draw of N(mu, 1) against N(0, 1) gives away.

    Dong, Roth and Su (2022), section 2.3. The ROC limit is Phi(Phi^-1(a) + mu).

    Parameters
    ----------
    mu : from 0 to a million

    Examples
    --------
    >>> round(Gaussian(1.0)(0.05), 4), round(Gaussian(1.0).tpr_at_fpr(1e-12) / 1e-12, 1)
    (0.7405, 797.4)
    >>> round(Gaussian(1.0).epsilon_at(1e-5), 4)
    4.3772
    """

    mu: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "mu", check_mu(self.mu))

    def epsilon_at(self, delta: float) -> float:
        """Smallest epsilon at a delta: infinite at 0 unless mu is 0; solves Dong, Roth and Su, Corollary 2.13."""
        from scipy import optimize

        if check_delta(delta) >= self.total_variation:
            return 0.0
        if delta == 0:
            return math.inf
        # delta(eps) < Phi(mu / 2 - eps / mu) <= exp(-(eps / mu - mu / 2)^2 / 2), hence the upper end
        high = self.mu * math.sqrt(-2 * math.log(delta)) + self.mu**2 / 2
        root = optimize.brentq(lambda e: self._log_delta(e) - math.log(delta), 0.0, high, xtol=1e-15, rtol=1e-14)
        return float(root)

    def delta_at(self, epsilon: float) -> float:
        """Smallest delta at an epsilon, Phi(mu/2 - eps/mu) - e^eps Phi(-mu/2 - eps/mu) (Corollary 2.13)."""
        return math.exp(self._log_delta(check_epsilon(epsilon)))

    def _log_delta(self, epsilon: float) -> float:
        """Return the logarithm of delta(epsilon) without cancellation.

        With a = eps/mu - mu/2 and b = a + mu, e^eps phi(b) = phi(a), so delta = phi(a) (m(a) - m(b)) where m is Mills'
        ratio. Since m' = x m - 1, the difference is the integral of 1 - x m over [a, b], used where m hardly changes.
        """
        if self.mu == 0:
            return -math.inf
        a, b = epsilon / self.mu - self.mu / 2, epsilon / self.mu + self.mu / 2
        log_phi = -a * a / 2 - math.log(2 * math.pi) / 2
        if self.mu < 0.5 or a > self.mu:
            x = epsilon / self.mu + self.mu / 2 * _NODES
            return log_phi + math.log(self.mu / 2) + math.log(float(_WEIGHTS @ _mills_fall(x)))
        if a >= 0:
            return log_phi + math.log(float(_mills(a) - _mills(b)))
        if epsilon == 0:
            return math.log(math.erf(self.mu / 2 / _ROOT_TWO))
        return math.log(float(special.ndtr(-a)) - math.exp(log_phi) * float(_mills(b)))

    def _fnr(self, fpr: FloatArray) -> FloatArray:
        return 1 - fpr if self.mu == 0 else np.asarray(special.ndtr(-special.ndtri(fpr) - self.mu))

    def _tpr(self, fpr: FloatArray) -> FloatArray:
        return fpr if self.mu == 0 else np.asarray(special.ndtr(special.ndtri(fpr) + self.mu))

    def _fpr(self, tpr: FloatArray) -> FloatArray:
        return tpr if self.mu == 0 else np.asarray(special.ndtr(special.ndtri(tpr) - self.mu))


@dataclass(frozen=True)
class Failing(TradeOff):
    """A claim that may fail altogether with probability ``rate``: f composed with (0, rate)-DP.

    (1 - rate) f(alpha / (1 - rate)) below 1 - rate, 0 above it (Dong, Roth and Su, section 3; zero-run, Eq. (5)).
    Made by :func:`miaudit.dp.composition.compose`.
    """

    tradeoff: TradeOff
    rate: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "rate", check_delta(self.rate))

    def delta_at(self, epsilon: float) -> float:
        """Smallest delta at an epsilon: rate + (1 - rate) times that of the claim."""
        return self.rate + (1 - self.rate) * self.tradeoff.delta_at(epsilon)

    def epsilon_at(self, delta: float) -> float:
        """Smallest epsilon at a delta: that of the claim at what the failure leaves of delta."""
        if check_delta(delta) < self.rate:
            return math.inf
        return self.tradeoff.epsilon_at((delta - self.rate) / (1 - self.rate))

    def _fnr(self, fpr: FloatArray) -> FloatArray:
        return (1 - self.rate) * self.tradeoff._fnr(np.minimum(1.0, fpr / (1 - self.rate)))

    def _tpr(self, fpr: FloatArray) -> FloatArray:
        inner = self.tradeoff._tpr(np.minimum(1.0, fpr / (1 - self.rate)))
        return self.rate + (1 - self.rate) * inner

    def _fpr(self, tpr: FloatArray) -> FloatArray:
        inner = np.clip((tpr - self.rate) / (1 - self.rate), 0.0, 1.0)
        return (1 - self.rate) * self.tradeoff._fpr(inner)


@dataclass(frozen=True)
class Custom(TradeOff):
    """A user's trade-off function, checked on a fine grid and made symmetric.

    Parameters
    ----------
    function : alpha (k,) in [0, 1] -> smallest false-negative rate (k,)
        Convex, non-increasing, with values in [0, 1 - alpha] to within 1e-9. If it is not its own inverse, what it
        implies in both orders of neighbours is used: max(f, f^-1) (Dong, Roth and Su, Proposition 2.4).

    Raises
    ------
    InputError
        If the function is not a trade-off function on the grid, or gives NaN anywhere it is asked.

    Examples
    --------
    >>> laplace = Custom(lambda a: np.where(a < 0.5 / np.e, 1 - np.e * a,
    ...     np.where(a <= 0.5, 0.25 / np.e / np.maximum(a, 1e-9), (1 - a) / np.e)))
    >>> round(laplace(0.1), 4), round(laplace.epsilon_at(0.1), 4)  # 1 + 2 log(1 - 0.1)
    (0.7282, 0.7893)
    """

    function: Callable[[FloatArray], ArrayLike]
    symmetric: bool = field(init=False, repr=False)

    def __post_init__(self) -> None:
        tiny = np.logspace(-300, -4, 149)
        grid = np.unique(np.concatenate([[0.0, 1.0], tiny, 1 - tiny, np.linspace(0, 1, 4001)]))
        values = self._values(grid)
        _check_shape(grid, values)
        alpha = grid[:: max(1, len(grid) // 400)]
        mirrored = self._inverted(alpha)
        object.__setattr__(self, "symmetric", bool(np.allclose(mirrored, self._values(alpha), rtol=0, atol=1e-7)))

    def delta_at(self, epsilon: float) -> float:
        """Smallest delta at an epsilon: the maximum over alpha of 1 - f(alpha) - e^eps alpha, by golden section."""
        slope = check_epsilon(epsilon)

        def excess(log_odds: FloatArray) -> FloatArray:
            alpha = special.expit(log_odds)
            return self._tpr(alpha) - np.exp(np.minimum(slope + special.log_expit(log_odds), 700.0))

        # A concave function of alpha is unimodal in the log-odds of alpha too, where no tail is lost: a fine grid,
        # then finer ones around its best point. At alpha = 0 it is 1 - f(0).
        low, high = -740.0, 40.0
        best = float(self._tpr(np.zeros(1))[0])
        for _ in range(8):
            grid = np.linspace(low, high, 401)
            values = excess(grid)
            top = int(np.argmax(values))
            best = max(best, float(values[top]))
            low, high = float(grid[max(top - 1, 0)]), float(grid[min(top + 1, 400)])
        return min(1.0, max(0.0, best))

    def epsilon_at(self, delta: float) -> float:
        """Smallest epsilon at a delta, to 1e-10 and rounded up; infinite where no epsilon below 700 will do.

        Raises
        ------
        InputError
            For a delta below 1e-12: the values of a function next to 1 do not resolve it.
        """
        delta = check_delta(delta)
        if delta < _FINEST_DELTA:
            hint = "use Gaussian or EpsilonDelta for smaller ones"
            raise InputError("delta", f"at least {_FINEST_DELTA:g} for a function of your own", f"{delta:g}", hint)
        if self.delta_at(0.0) <= delta:
            return 0.0
        low, high = 0.0, 1.0
        while self.delta_at(high) > delta:
            low, high = high, 2 * high
            if low > 700:
                return math.inf
        while high - low > 1e-10 * max(1.0, high):
            middle = (low + high) / 2
            low, high = (middle, high) if self.delta_at(middle) > delta else (low, middle)
        return high

    def _fnr(self, fpr: FloatArray) -> FloatArray:
        direct = self._values(fpr)
        return direct if self.symmetric else np.maximum(direct, self._inverted(fpr))

    def _values(self, alpha: FloatArray) -> FloatArray:
        flat = np.atleast_1d(alpha).ravel()
        values = np.asarray(self.function(flat), dtype=np.float64)
        if values.shape != flat.shape:
            hint = "give one value for each alpha"
            raise InputError("function", f"values of shape {flat.shape}", f"shape {values.shape}", hint)
        inside = (values >= -_TOLERANCE) & (values <= 1 + _TOLERANCE)
        if not inside.all():
            worst = int(np.argmin(inside))
            received = f"{values[worst]:g} at alpha = {flat[worst]:g}"
            raise InputError("function", "values in [0, 1]", received, "give false-negative rates")
        return np.clip(values, 0.0, 1.0).reshape(np.shape(alpha))

    def _inverted(self, fnr: FloatArray) -> FloatArray:
        """Return inf{a: f(a) <= fnr} by bisection, the end that satisfies it: too large by at most 2^-60."""
        low, high = np.zeros_like(fnr), np.ones_like(fnr)
        for _ in range(60):
            middle = (low + high) / 2
            reached = self._values(middle) <= fnr
            low, high = np.where(reached, low, middle), np.where(reached, middle, high)
        return np.where(self._values(np.zeros_like(fnr)) <= fnr, 0.0, high)


def roc_limit(tradeoff: TradeOff, fpr: ArrayLike) -> FloatArray:
    """Return the largest TPR (k,) that a claim permits at each FPR (k,): a ROC curve above it refutes the claim.

    Examples
    --------
    >>> roc_limit(EpsilonDelta(0.602, 0.01), [0.0, 0.1, 1.0]).round(4)  # erratum A8
    array([0.01  , 0.1926, 1.    ])
    """
    return np.asarray(tradeoff.tpr_at_fpr(fpr), dtype=np.float64)


def mu_of_epsilon_delta(epsilon: float, delta: float) -> float:
    """Return the mu whose mu-GDP implies (epsilon, delta)-DP and no smaller delta: the curve through that point.

    It is **not** implied by (epsilon, delta)-DP: that limits the curve at one slope only. See :func:`mu_of_pure`.

    Examples
    --------
    >>> mu = mu_of_epsilon_delta(4.377178, 1e-5)
    >>> round(mu, 4), mu_of_epsilon_delta(1.0, 0.0)
    (1.0, 0.0)
    """
    epsilon, delta = check_epsilon(epsilon), check_delta(delta)
    if delta == 0:
        return 0.0
    # delta(eps) <= erf(mu / sqrt 8), so the mu of epsilon 0 is a lower end.
    low = 2 * float(special.ndtri(0.5 + delta / 2)) if delta > 1e-3 else math.sqrt(8) * float(special.erfinv(delta))
    high = max(2 * low, 1.0)
    while Gaussian(high)._log_delta(epsilon) < math.log(delta):
        low, high = high, 2 * high
    if epsilon == 0:
        return low

    from scipy import optimize

    def excess(log_mu: float) -> float:
        return max(Gaussian(math.exp(log_mu))._log_delta(epsilon), -1e300) - math.log(delta)

    return math.exp(optimize.brentq(excess, math.log(low) - 1e-6, math.log(high), xtol=1e-15, rtol=1e-15, maxiter=500))


def mu_of_pure(epsilon: float) -> float:
    """Return the smallest mu such that pure epsilon-DP implies mu-GDP: -2 Phi^-1(1 / (1 + e^epsilon)).

    Both curves run from (0, 1) to (1, 0) and are convex, so they need comparing at the kink of epsilon-DP only.

    Examples
    --------
    >>> round(mu_of_pure(1.0), 4), mu_of_pure(0.0)
    (1.232, 0.0)
    """
    return abs(2 * float(special.ndtri_exp(-_softplus(check_epsilon(epsilon)))))


def epsilon_of_bayes_risk(risk: float, *, delta: float = 0.0, prior: float = 0.5) -> float:
    """Return the smallest epsilon >= 0 at which (epsilon, delta)-DP permits a guess to err this rarely.

    Examples
    --------
    >>> round(epsilon_of_bayes_risk(EpsilonDelta(1.5, 1e-3).bayes_risk(0.4), delta=1e-3, prior=0.4), 6)
    1.5
    """
    risk, delta, smaller = check_rate("risk", risk), check_delta(delta), min(check_prior(prior), 1 - prior)
    if risk >= (1 - delta) * smaller:
        return 0.0
    return math.inf if risk == 0 else max(0.0, math.log((1 - delta - risk) / risk))


def mu_of_bayes_risk(risk: float, *, prior: float = 0.5) -> float:
    """Return the smallest mu >= 0 at which mu-GDP permits a guess to err this rarely.

    Examples
    --------
    >>> round(mu_of_bayes_risk(Gaussian(1.5).bayes_risk(0.4), prior=0.4), 6)
    1.5
    """
    risk, smaller = check_rate("risk", risk), min(check_prior(prior), 1 - prior)
    if risk >= smaller:
        return 0.0
    if risk == 0:
        return math.inf
    return mu_of_epsilon_delta(math.log1p(-smaller) - math.log(smaller), (smaller - risk) / smaller)


def check_epsilon(epsilon: object) -> float:
    """Return an epsilon, or refuse one that is not a finite number of at least 0."""
    return _at_least_zero("epsilon", epsilon, math.inf)


def check_mu(mu: object) -> float:
    """Return a mu, or refuse one outside 0 to a million."""
    return _at_least_zero("mu", mu, LARGEST_MU)


def _check_shape(grid: FloatArray, values: FloatArray) -> None:
    """Refuse grid values that no trade-off function has."""
    if (above := values > 1 - grid + _TOLERANCE).any():
        raise InputError("function", "f(a) <= 1 - a", _where(grid, values, above), "guessing at random reaches 1 - a")
    if (rising := np.diff(values) > _TOLERANCE).any():
        raise InputError(
            "function", "a non-increasing function", _where(grid[1:], values[1:], rising), "check its sign"
        )
    for stride in (1, 7, 61):  # neighbours show a dent, distant points a slow bend
        x, y = grid[::stride], values[::stride]
        chord = y[:-2] + (y[2:] - y[:-2]) * (x[1:-1] - x[:-2]) / (x[2:] - x[:-2])
        if (bent := y[1:-1] > chord + _TOLERANCE).any():
            raise InputError("function", "a convex function", _where(x[1:-1], y[1:-1], bent), "use its convex minorant")


def _where(grid: FloatArray, values: FloatArray, wrong: BoolArray) -> str:
    first = int(np.argmax(wrong))
    return f"{values[first]:g} at alpha = {grid[first]:g}"


def _mills(x: ArrayLike) -> FloatArray:
    """Return Mills' ratio (1 - Phi(x)) / phi(x)."""
    return math.sqrt(math.pi / 2) * np.asarray(special.erfcx(np.asarray(x) / _ROOT_TWO))


def _mills_fall(x: FloatArray) -> FloatArray:
    """Return 1 - x m(x), the rate at which Mills' ratio falls, by its asymptotic series where x is large."""
    y = 1 / np.square(np.clip(x, 50.0, 1e150))
    series = y * (1 - 3 * y * (1 - 5 * y * (1 - 7 * y * (1 - 9 * y))))
    return np.where(x > 50, series, 1 - np.minimum(x, 50.0) * _mills(np.minimum(x, 50.0)))


def _softplus(x: float) -> float:
    """Return log(1 + e^x)."""
    return float(np.logaddexp(0.0, x))


def _inverse_softplus(y: float) -> float:
    """Return log(e^y - 1), or 0 where that is negative (y below log 2)."""
    return 0.0 if y <= math.log(2) else y + math.log(-math.expm1(-y))


def _like(given: ArrayLike, values: FloatArray) -> Any:
    return float(values) if np.ndim(given) == 0 else values


def _at_least_zero(name: str, value: object, largest: float) -> float:
    allowed = "a finite number from 0 up" if largest == math.inf else f"a number from 0 to {largest:,.0f}"
    number = finite(name, value, allowed, "pass a number")
    if not 0 <= number <= largest:
        raise InputError(name, allowed, repr(value), "pass a number")
    return number

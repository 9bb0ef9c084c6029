"""The published composition audits: the shift is a mechanism of its own, composed with the algorithm (Corollary 1).

What an attack gains from the covariates alone is bounded by the same number for every record: with probability
1 - delta_DS their log-odds lie within eps_DS. The one-run tests then apply to algorithm and shift together, and the
shift's part is taken off. Simple, and weak where the shift is strong or unbounded.
"""

# ruff: noqa: PLC0415 - scipy loads when used
from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from miaudit.dp import one_run
from miaudit.dp.bounds import LowerBound
from miaudit.dp.guesses import GUESSES_FIRST
from miaudit.dp.tradeoff import EpsilonDelta, Gaussian, TradeOff, compose, mu_of_pure
from miaudit.errors import InputError
from miaudit.wording import at_most

FloatArray = NDArray[np.float64]
BoolArray = NDArray[np.bool_]

GRID = tuple(round(0.05 * 1.25**k, 4) for k in range(22))  # eps_DS from 0.05 to 5.4
_EQUAL_SIZES = (
    "members and non-members are equally many by subsampling: an approximation of the independent fair coins of the "
    "theorem (erratum B15)"
)


@dataclass(frozen=True)
class Shift:
    """How much the covariates alone say about membership: (epsilon, delta)-DP of the shift.

    Attributes
    ----------
    epsilon : eps_DS, 0 or more; log((1 - eta) / eta) of the paper's eta
    delta : delta_DS in [0, 1), chance that a record's log-odds lie outside
    cost : error probability that ``delta`` was estimated with
    how : in words
    """

    epsilon: float
    delta: float = 0.0
    cost: float = 0.0
    how: str = "stated"

    @classmethod
    def of_overlap(cls, eta: float, delta: float = 0.0) -> Shift:
        """From Assumption 2: propensities within [eta, 1 - eta] with probability 1 - delta.

        Examples
        --------
        >>> round(Shift.of_overlap(0.25).epsilon, 4)
        1.0986
        """
        if isinstance(eta, bool | str) or not 0 < eta <= 0.5:
            raise InputError("eta", "a number in (0, 0.5]", repr(eta), "propensities lie within [eta, 1 - eta]")
        if isinstance(delta, bool | str) or not 0 <= delta < 1:
            raise InputError("delta_ds", "a number in [0, 1)", repr(delta), "0 if all propensities lie within")
        return cls(max(0.0, math.log1p(-eta) - math.log(eta)), float(delta), how=f"eta = {eta:g} stated")

    @classmethod
    def of_closeness(cls, closeness: float) -> Shift:
        """From c-closeness: the densities differ by a factor of e^c at most (non-members drawn from a generator).

        Examples
        --------
        >>> Shift.of_closeness(0.5).epsilon
        0.5
        """
        if isinstance(closeness, bool | str) or not (closeness >= 0 and math.isfinite(closeness)):
            raise InputError(
                "closeness", "a finite number, 0 or more", repr(closeness), "it is a log-ratio of densities"
            )
        return cls(float(closeness), how=f"{closeness:g}-closeness of non-members to members assumed")

    @property
    def mu(self) -> float:
        """Return mu_DS of Corollary 1, with which the (epsilon, 0) part is Gaussian DP: 2 Phi^-1(sigma(epsilon))."""
        return mu_of_pure(self.epsilon)


# -- the curve ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class ShiftCurve:
    """delta_DS(epsilon) of Proposition 2: the chance that a record's log-odds exceed epsilon, in the worse class.

    Attributes
    ----------
    epsilon : array (k,), ascending
    delta : array (k,), as observed
    upper : array (k,), upper limits that hold together with probability ``confidence``
    confidence : in (0, 1)
    """

    epsilon: FloatArray
    delta: FloatArray
    upper: FloatArray
    confidence: float


def shift_curve(
    logit: ArrayLike, member: ArrayLike, *, epsilon: ArrayLike = GRID, confidence: float = 0.95
) -> ShiftCurve:
    """Estimate delta_DS(epsilon) from a propensity sample (Proposition 2), with upper limits by Clopper and Pearson.

    Parameters
    ----------
    logit : array (n,), log-odds of membership when both classes are equally frequent
    member : array (n,) of bool
    epsilon : array (k,), where
    confidence : that all 2 k limits hold together (Bonferroni)

    Examples
    --------
    >>> curve = shift_curve([0.2, -0.3, 2.0, 0.1], [True, False, True, False], epsilon=[0.1, 1.0, 3.0])
    >>> curve.delta.tolist()
    [1.0, 0.5, 0.0]
    """
    from scipy.special import betaincinv

    size, grid = np.abs(np.asarray(logit, dtype=np.float64)), np.asarray(epsilon, dtype=np.float64)
    inside = np.asarray(member, dtype=bool)
    level = (1 - confidence) / (2 * len(grid))
    delta, upper = np.zeros(len(grid)), np.zeros(len(grid))
    for label in (True, False):
        n = int(np.count_nonzero(inside == label))
        if n == 0:
            raise InputError("sample", "members and non-members", "one of them only", "pass both")
        beyond = n - np.searchsorted(np.sort(size[inside == label]), grid, side="right")
        limit = np.where(beyond < n, betaincinv(beyond + 1.0, np.maximum(n - beyond, 1e-9), 1 - level), 1.0)
        delta, upper = np.maximum(delta, beyond / n), np.maximum(upper, limit)
    return ShiftCurve(grid, delta, upper, confidence)


def choose_shift(curve: ShiftCurve, planned: Callable[[Shift], float]) -> Shift:
    """Return the point of the curve's upper limits at which an attack without errors would show most.

    Any point may be chosen, since the limits hold together; their error probability is charged to the audit.

    Parameters
    ----------
    curve : of a propensity sample, not of the audited records
    planned : from a shift to the bound that an attack with no error would reach

    Examples
    --------
    >>> curve = shift_curve(np.linspace(-1, 1, 2000), np.arange(2000) % 2 == 0)
    >>> choose_shift(curve, lambda shift: -shift.epsilon - 10 * shift.delta).epsilon
    1.1369
    """
    cost = 1 - curve.confidence
    points = [
        Shift(
            float(e),
            float(u),
            cost,
            f"eps_DS = {e:g} chosen on a propensity sample, delta_DS at most {at_most(u)} there",
        )
        for e, u in zip(curve.epsilon, curve.upper, strict=True)
        if u < 1
    ]
    if not points:
        return Shift(float(curve.epsilon[-1]), 1 - 1e-9, cost, "no overlap within the range of eps_DS")
    return max(points, key=planned)


# -- the audits -----------------------------------------------------------------------------------------------------


def epsilon_lower_bound(
    shift: Shift, *, correct: int, guesses: int, canaries: int, delta: float = 0.0, confidence: float = 0.95
) -> LowerBound:
    """Algorithm 6 with erratum B2: what algorithm and shift leak together, less eps_DS.

    Parameters
    ----------
    shift : of the covariates
    correct, guesses, canaries, delta, confidence : as in :func:`miaudit.dp.one_run.epsilon_lower_bound`

    Examples
    --------
    >>> round(epsilon_lower_bound(Shift(0.5), correct=90, guesses=100, canaries=1_000).value, 3)  # 1.631 - 0.5
    1.131
    """
    together = one_run.epsilon_lower_bound(
        correct=correct,
        guesses=guesses,
        canaries=canaries,
        delta=1 - (1 - delta) * (1 - shift.delta),
        confidence=confidence,
    )
    reachable = None if together.reachable is None else max(0.0, together.reachable - shift.epsilon)
    p_value = one_run.epsilon_p_value(
        shift.epsilon, correct=correct, guesses=guesses, canaries=canaries, delta=together.delta
    )
    return replace(
        together,
        value=max(0.0, together.value - shift.epsilon),
        delta=delta,
        p_value=p_value,
        method="zero run, composition audit (Algorithm 6)",
        reachable=reachable,
        assumptions=_assumptions(shift),
    )


def mu_lower_bound(shift: Shift, *, correct: int, guesses: int, canaries: int, confidence: float = 0.95) -> LowerBound:
    """Algorithm 7 with Eq. (5): delta_DS stands inside the trade-off function (errata B1, B12).

    Parameters
    ----------
    shift : of the covariates
    correct, guesses, canaries, confidence : as in :func:`miaudit.dp.one_run.mu_lower_bound`

    Examples
    --------
    >>> round(mu_lower_bound(Shift(0.1), correct=416, guesses=500, canaries=10_000, confidence=0.975).value, 3)
    0.418
    """
    found = _mu_bound(shift, correct, guesses, canaries, confidence)
    return replace(
        found,
        p_value=one_run.p_value(_together(0.0, shift), correct=correct, guesses=guesses, canaries=canaries),
        method="zero run, composition audit (Algorithm 7)",
        assumptions=_assumptions(shift),
    )


def _mu_bound(shift: Shift, correct: int, guesses: int, canaries: int, confidence: float) -> LowerBound:
    if shift.delta > 0:
        return one_run.lower_bound(
            lambda mu: _together(mu, shift),
            correct=correct,
            guesses=guesses,
            canaries=canaries,
            confidence=confidence,
            parameter="mu",
        )
    found = one_run.mu_lower_bound(correct=correct, guesses=guesses, canaries=canaries, confidence=confidence)
    reachable = None if found.reachable is None else _less(found.reachable, shift.mu)
    return replace(found, value=_less(found.value, shift.mu), reachable=reachable)


def _together(mu: float, shift: Shift) -> TradeOff:
    both = Gaussian(math.hypot(mu, shift.mu))
    return both if shift.delta == 0 else compose(both, EpsilonDelta(0.0, shift.delta))


def _less(mu: float, mu_ds: float) -> float:
    return math.sqrt(max(0.0, mu * mu - mu_ds * mu_ds))


def _assumptions(shift: Shift) -> tuple[str, ...]:
    within = f"with probability {1 - shift.delta:g}" if shift.delta else "always"
    return (
        f"covariates move the log-odds of membership by {at_most(shift.epsilon)} at most, {within} ({shift.how})",
        _EQUAL_SIZES,
        GUESSES_FIRST,
    )

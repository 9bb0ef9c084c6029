"""The published composition audits: the shift is a mechanism of its own, composed with the algorithm (Corollary 1).

What an attack gains from the covariates alone is bounded by the same two numbers for every record: the shift is
(eps_DS, delta_DS)-DP. The one-run tests then apply to algorithm and shift together, and the shift's part is taken off.
Simple, and weak where the shift is strong or unbounded.
"""

# ruff: noqa: PLC0415 - scipy loads when used
from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from miaudit.arrays import FloatArray
from miaudit.dp import one_run
from miaudit.dp.composition import compose
from miaudit.dp.directed_profile import DirectedProfile
from miaudit.dp.selection import GUESSES_FIRST
from miaudit.dp.tradeoff import Custom, EpsilonDelta, Gaussian, TradeOff, mu_of_pure
from miaudit.dp.verdict import LowerBound
from miaudit.errors import InputError
from miaudit.metrics.rounding import upper_text

LARGEST_EPSILON = 100.0  # that a bound with a whole function can show
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
    delta : delta_DS in [0, 1) at that epsilon; the chance that a record's log-odds lie outside is enough
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


@dataclass(frozen=True)
class ShiftFunction:
    """How much the covariates alone say about membership: a whole trade-off function (Theorem 4.1).

    Attributes
    ----------
    tradeoff : a lower bound of the shift's trade-off function in both orders of members and non-members, such as a
        :class:`~miaudit.dp.directed_profile.DirectedProfile` of members against non-members
    cost : error probability that it was estimated with
    how : in words
    """

    tradeoff: TradeOff
    cost: float = 0.0
    how: str = "stated"

    def __post_init__(self) -> None:
        checked: object = self.tradeoff
        if not isinstance(checked, TradeOff):
            hint = "miaudit.dp.tradeoff and directed_profile have them"
            raise InputError("tradeoff", "a trade-off function", type(checked).__name__, hint)
        if isinstance(self.tradeoff, Custom) and not self.tradeoff.symmetric:
            # Custom takes the larger of f and its inverse, which a shift that is known in one order does not promise.
            hint = "use DirectedProfile.of_roc or of_laws, which keep the order"
            raise InputError("tradeoff", "a function that is its own inverse", "another", hint)


AnyShift = Shift | ShiftFunction


@dataclass(frozen=True, eq=False)
class Composition:
    """The published composition audits (Algorithms 6 and 7 with Eq. 5; errata B1, B2, B12).

    By default they take one pair (eps_DS, delta_DS) of the shift off. With ``whole`` or ``tradeoff`` they compose with
    all of its trade-off function (Theorem 4.1), by the f-DP test also for epsilon.

    Attributes
    ----------
    eta, delta_ds : propensities lie within [eta, 1 - eta] but for probability delta_ds, in equally many of both classes
    closeness : c, where non-members came from a generator that was fitted on other members: densities within e^c
    sample : (log-odds (k,), member (k,) of bool), a propensity sample to choose eta on; its records are not audited
    share : without any of these, that share of the records is set aside at random to choose eta on
    spend : share of the error probability for the upper limit on delta_DS then (Proposition 2)
    half_width : how far the log-odds may be off that eta is chosen on, as in :class:`Thinning`; None of a sample: 0
    """

    eta: float | None = None
    delta_ds: float = 0.0
    closeness: float | None = None
    sample: tuple[ArrayLike, ArrayLike] | None = None
    share: float = 0.2
    spend: float = 0.1
    half_width: Any = None
    whole: bool = False
    tradeoff: TradeOff | None = None

    def __post_init__(self) -> None:
        if sum(option is not None for option in (self.eta, self.closeness, self.sample, self.tradeoff)) > 1:
            allowed = "one of eta, closeness, sample and tradeoff"
            raise InputError("composition", allowed, "several", "say how close in one way")
        if not isinstance(self.whole, bool):
            raise InputError("whole", "true or false", repr(self.whole), "true composes with all of the function")
        if self.stated() is not None and self.whole:
            raise InputError(
                "whole", "false where the shift is stated", "true", "leave eta, closeness and tradeoff out"
            )
        for name in ("share", "spend"):
            if not (isinstance(getattr(self, name), int | float) and 0 < getattr(self, name) < 1):
                raise InputError(name, "a number strictly between 0 and 1", repr(getattr(self, name)), "0.2 is usual")

    def stated(self) -> AnyShift | None:
        """Return the shift that was stated, or None where it has to be estimated."""
        if self.tradeoff is not None:
            return ShiftFunction(self.tradeoff, how="a trade-off function of the shift was stated")
        if self.closeness is not None:
            return Shift.of_closeness(self.closeness)
        if self.eta is not None:
            return Shift.of_overlap(self.eta, self.delta_ds)
        Shift.of_overlap(0.5, self.delta_ds)
        return None


# -- the curve ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class ShiftCurve:
    """delta_DS(epsilon) of the shift alone: how far covariates exceed an odds ratio of e^epsilon, in the worse class.

    Proposition 2 prints the chance of an excess, with one sign for each class. Its proof gives what is smaller and
    exact: the hockey stick E_a[(1 - e^(epsilon - L))_+], where L is the log-odds of the class a that a record is of.

    Attributes
    ----------
    epsilon : array (k,), ascending
    delta : array (k,), as observed
    upper : array (k,), upper limits that hold together with probability ``confidence``
    confidence : in (0, 1)
    by_class : array (2, k), the upper limits of members and of non-members, of which ``upper`` is the larger
    """

    epsilon: FloatArray
    delta: FloatArray
    upper: FloatArray
    confidence: float
    by_class: FloatArray

    @property
    def function(self) -> ShiftFunction:
        """The trade-off function of all the upper limits together, members against non-members.

        Examples
        --------
        >>> curve = shift_curve(np.linspace(-1, 1, 2000), np.arange(2000) % 2 == 0)
        >>> round(curve.function.tradeoff.delta_at(0.5), 3)
        0.084
        """
        members, others = (tuple(np.minimum(limits, 1 - 1e-9).tolist()) for limits in self.by_class)
        how = f"the trade-off function below {len(self.epsilon)} upper limits of delta_DS on a propensity sample"
        return ShiftFunction(DirectedProfile(tuple(self.epsilon.tolist()), members, others), 1 - self.confidence, how)


def shift_curve(
    logit: ArrayLike,
    member: ArrayLike,
    *,
    epsilon: ArrayLike = GRID,
    confidence: float = 0.95,
    half_width: ArrayLike = 0.0,
) -> ShiftCurve:
    """Estimate delta_DS(epsilon) from a propensity sample (proof of Proposition 2), with upper limits of Hoeffding's.

    Parameters
    ----------
    logit : array (n,), log-odds of membership when both classes are equally frequent
    member : array (n,) of bool
    epsilon : array (k,), where
    confidence : that all 2 k limits hold together (Bonferroni)
    half_width : number or array (n,), 0 or more
        How far the log-odds may be off. It raises those of the record's own class, which is the worse side for both.

    Examples
    --------
    >>> curve = shift_curve([0.2, -0.3, 2.0, 0.1], [True, False, True, False], epsilon=[0.1, 1.0, 3.0])
    >>> curve.delta.round(3).tolist()  # members exceed 0.1 by 0.1 and 1.9, the one non-member that does by 0.2
    [0.473, 0.316, 0.0]
    """
    inside, grid = np.asarray(member, dtype=bool), np.asarray(epsilon, dtype=np.float64)
    if inside.all() or not inside.any():
        raise InputError("sample", "members and non-members", "one of them only", "pass both")
    own = np.where(inside, 1.0, -1.0) * np.asarray(logit, dtype=np.float64) + np.asarray(half_width, dtype=np.float64)
    # 1 - e^(epsilon - L) lies in [0, 1]: e^-excess never overflows.
    means = np.array([[_beyond(own[inside == label], float(e)) for e in grid] for label in (True, False)])
    numbers = np.array([[np.count_nonzero(inside == label)] for label in (True, False)])
    limits = _upper_limit_of_mean(means, numbers, (1 - confidence) / (2 * len(grid)))
    return ShiftCurve(grid, means.max(axis=0), limits.max(axis=0), confidence, limits)


def _beyond(log_odds: FloatArray, epsilon: float) -> float:
    return float((-np.expm1(-np.maximum(log_odds - epsilon, 0.0))).mean())


def _upper_limit_of_mean(mean: FloatArray, n: ArrayLike, level: float) -> FloatArray:
    """Upper limits for means of n independent values in [0, 1]: where KL(mean, q) = log(1 / level) / n.

    Hoeffding (1963), Theorem 1. At a mean of 0 it is 1 - level^(1/n), as for a count.
    """
    from scipy.special import rel_entr

    most = -math.log(level) / np.asarray(n, dtype=np.float64)
    low, high = mean, np.ones_like(mean)
    for _ in range(60):
        q = (low + high) / 2
        near = rel_entr(mean, q) + rel_entr(1 - mean, 1 - q) <= most
        low, high = np.where(near, q, low), np.where(near, high, q)
    return high


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
    0.9095
    """
    cost = 1 - curve.confidence
    points = [
        Shift(
            float(e),
            float(u),
            cost,
            f"eps_DS = {e:g} chosen on a propensity sample, delta_DS at most {upper_text(u)} there",
        )
        for e, u in zip(curve.epsilon, curve.upper, strict=True)
        if u < 1
    ]
    if not points:
        return Shift(float(curve.epsilon[-1]), 1 - 1e-9, cost, "no overlap within the range of eps_DS")
    return max(points, key=planned)


# -- the audits -----------------------------------------------------------------------------------------------------


def epsilon_lower_bound(
    shift: AnyShift, *, correct: int, guesses: int, canaries: int, delta: float = 0.0, confidence: float = 0.95
) -> LowerBound:
    """Algorithm 6 with erratum B2: what algorithm and shift leak together, less eps_DS.

    Parameters
    ----------
    shift : of the covariates; of a whole function the f-DP test of both together is inverted
    correct, guesses, canaries, delta, confidence : as in :func:`miaudit.dp.one_run.epsilon_lower_bound`

    Examples
    --------
    >>> round(epsilon_lower_bound(Shift(0.5), correct=90, guesses=100, canaries=1_000).value, 3)  # 1.631 - 0.5
    1.131
    """
    if isinstance(shift, ShiftFunction):
        bound = one_run.lower_bound(
            lambda epsilon: compose(EpsilonDelta(epsilon, delta), shift.tradeoff),
            correct=correct,
            guesses=guesses,
            canaries=canaries,
            confidence=confidence,
            delta=delta,
            largest=LARGEST_EPSILON,
        )
        return _of_function(bound, shift)
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


def mu_lower_bound(
    shift: AnyShift, *, correct: int, guesses: int, canaries: int, confidence: float = 0.95
) -> LowerBound:
    """Algorithm 7 with Eq. (5): delta_DS stands inside the trade-off function (errata B1, B12).

    Parameters
    ----------
    shift : of the covariates; with a whole function the claim that is tested is that of Theorem 4.1
    correct, guesses, canaries, confidence : as in :func:`miaudit.dp.one_run.mu_lower_bound`

    Examples
    --------
    >>> round(mu_lower_bound(Shift(0.1), correct=416, guesses=500, canaries=10_000, confidence=0.975).value, 3)
    0.418
    >>> whole = ShiftFunction(Gaussian(0.1))  # what a Gaussian shift of mu 0.1 really is
    >>> round(mu_lower_bound(whole, correct=416, guesses=500, canaries=10_000, confidence=0.975).value, 3)
    0.425
    """
    if isinstance(shift, ShiftFunction):
        return _of_function(
            one_run.lower_bound(
                lambda mu: compose(Gaussian(mu), shift.tradeoff),
                correct=correct,
                guesses=guesses,
                canaries=canaries,
                confidence=confidence,
                parameter="mu",
            ),
            shift,
        )
    bound = _mu_bound(shift, correct, guesses, canaries, confidence)
    return replace(
        bound,
        p_value=one_run.p_value(_together(0.0, shift), correct=correct, guesses=guesses, canaries=canaries),
        method="zero run, composition audit (Algorithm 7)",
        assumptions=_assumptions(shift),
    )


def _of_function(bound: LowerBound, shift: ShiftFunction) -> LowerBound:
    stated = f"the covariates' part is within a trade-off function ({shift.how})"
    return replace(
        bound,
        method="zero run, composition audit with the shift's trade-off function (Theorem 4.1)",
        assumptions=(stated, _EQUAL_SIZES, GUESSES_FIRST),
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
    bound = one_run.mu_lower_bound(correct=correct, guesses=guesses, canaries=canaries, confidence=confidence)
    reachable = None if bound.reachable is None else _less(bound.reachable, shift.mu)
    return replace(bound, value=_less(bound.value, shift.mu), reachable=reachable)


def _together(mu: float, shift: Shift) -> TradeOff:
    both = Gaussian(math.hypot(mu, shift.mu))
    return both if shift.delta == 0 else compose(both, EpsilonDelta(0.0, shift.delta))


def _less(mu: float, mu_ds: float) -> float:
    return math.sqrt(max(0.0, mu * mu - mu_ds * mu_ds))


def _assumptions(shift: Shift) -> tuple[str, ...]:
    but = f"but for delta_DS = {upper_text(shift.delta)}" if shift.delta else "always"
    return (
        f"covariates move the log-odds of membership by {upper_text(shift.epsilon)} at most, {but} ({shift.how})",
        _EQUAL_SIZES,
        GUESSES_FIRST,
    )

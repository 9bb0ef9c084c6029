"""The trade-off function of two laws that differ by their order: of covariates of members against those of others."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike

from miaudit.arrays import FloatArray
from miaudit.dp.privacy_losses import LARGEST_LOSS, PrivacyLosses
from miaudit.dp.privacy_profile import PrivacyProfile
from miaudit.dp.tradeoff import TradeOff
from miaudit.errors import InputError

__all__ = ["EPSILONS", "DirectedProfile"]

EPSILONS = np.concatenate([[0.0], np.geomspace(1e-3, 60.0, 600), np.geomspace(66.0, LARGEST_LOSS, 26)])
"""Where numerical compositions know delta exactly. Lines between them err on the side of more leakage."""
_MOST_KNOTS = 2_000
_SUM = 1e-9


@dataclass(frozen=True)
class DirectedProfile(TradeOff):
    """Upper bounds of delta of a pair of laws P and Q, in both orders.

    As a claim it is the smaller of the two trade-off functions at each point, T(P, Q) and T(Q, P): neighbours come in
    both orders. :func:`miaudit.dp.composition.compose` keeps the orders apart, which loses less.

    Parameters
    ----------
    epsilons : rising, 0 or more
    deltas : in [0, 1), of P against Q: sup over events of P(E) - e^epsilon Q(E)
    reverse : in [0, 1), of Q against P

    Raises
    ------
    InputError
        For epsilons that do not rise from 0 or more, and deltas of another length or outside [0, 1).

    Examples
    --------
    >>> rare = DirectedProfile.of_laws([0.90, 0.10], [0.99, 0.01])  # one member in ten has a trait, one other in 100
    >>> round(rare.delta_at(1.0), 4), [round(float(x.deltas(1.0)), 4) for x in rare.orders]
    (0.0728, [0.0728, 0.0])
    """

    epsilons: tuple[float, ...]
    deltas: tuple[float, ...]
    reverse: tuple[float, ...]
    orders: tuple[PrivacyLosses, PrivacyLosses] = field(init=False, repr=False, compare=False)
    _claim: PrivacyProfile = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        eps = np.array(self.epsilons, dtype=np.float64)
        rising = eps.ndim == 1 and len(eps) > 0 and bool((np.diff(eps) > 0).all())
        if not (rising and eps[0] >= 0 and eps[-1] <= LARGEST_LOSS):
            allowed = f"rising numbers from 0 to {LARGEST_LOSS:g}"
            raise InputError("epsilons", allowed, "others, or none", "sort them")
        for name in ("deltas", "reverse"):
            delta = np.array(getattr(self, name), dtype=np.float64)
            if delta.shape != eps.shape or not ((delta >= 0) & (delta < 1)).all():
                allowed = "numbers in [0, 1), one for each epsilon"
                raise InputError(name, allowed, f"{len(delta):,} for {len(eps):,}", "pass upper bounds of delta")
        orders = (
            PrivacyLosses.between(eps, self.deltas, self.reverse),
            PrivacyLosses.between(eps, self.reverse, self.deltas),
        )
        knots = _crossings(np.unique(np.concatenate([[0.0], eps])), orders)
        worse = np.minimum.accumulate(np.maximum(*(order.deltas(knots) for order in orders)))
        claim = PrivacyProfile(tuple(knots.tolist()), tuple(np.minimum(worse, 1 - 1e-15).tolist()))
        object.__setattr__(self, "orders", orders)
        object.__setattr__(self, "_claim", claim)

    @classmethod
    def of_laws(cls, first: ArrayLike, second: ArrayLike) -> DirectedProfile:
        """From the probabilities (k,) of the same k values under P and under Q.

        Exact for up to 2,000 different likelihood ratios; of more, straight lines between fixed epsilons, which only
        add to the leakage.

        Examples
        --------
        >>> DirectedProfile.of_laws([0.5, 0.5], [0.25, 0.75])(0.25)  # the value of larger ratio, a power of 0.5
        0.5
        """
        p, q = (np.array(law, dtype=np.float64) for law in (first, second))
        for name, law in (("first", p), ("second", q)):
            if law.ndim != 1 or law.shape != p.shape or not (law >= 0).all() or abs(law.sum() - 1) > _SUM:
                allowed = "probabilities (k,) of the same values that add up to 1"
                raise InputError(name, allowed, f"shape {law.shape}, sum {law.sum():g}", "divide counts by their sum")
        both = (p > 0) & (q > 0)
        ratio = np.log(p[both] / q[both])
        if (np.abs(ratio) > LARGEST_LOSS).any():
            raise InputError("first", f"log-ratios within {LARGEST_LOSS:g}", "larger", "join values that are this rare")
        knots = np.unique(np.abs(ratio))
        if len(knots) > _MOST_KNOTS or not len(knots):
            largest = knots[-1:] if len(knots) else np.array([1.0])
            knots = np.concatenate([EPSILONS[largest > EPSILONS], largest])
        order = np.argsort(ratio)
        forward = PrivacyLosses(ratio[order], p[both][order], float(p[q == 0].sum()))
        backward = PrivacyLosses(-ratio[order[::-1]], q[both][order[::-1]], float(q[p == 0].sum()))
        deltas = [np.minimum(losses.deltas(knots), 1 - 1e-15) for losses in (forward, backward)]
        return cls(tuple(knots.tolist()), *(tuple(delta.tolist()) for delta in deltas))

    @classmethod
    def of_roc(cls, fpr: ArrayLike, tpr: ArrayLike) -> DirectedProfile:
        """From the corners (k,) of the ROC curve of the best test of P (positive) against Q, or of a curve above it.

        Parameters
        ----------
        fpr, tpr : arrays (k,), rising together from (0, 0) to (1, 1), which may be left out
            The curve of one classifier is no bound: a better one may exist. Dents only add to the leakage.

        Examples
        --------
        >>> shift = DirectedProfile.of_roc(fpr=[0.0, 0.1], tpr=[0.05, 0.4])
        >>> round(shift.orders[0].failing, 3), round(shift.delta_at(0.0), 3)
        (0.05, 0.3)
        """
        x, y = (np.asarray(rate, dtype=np.float64).ravel() for rate in (fpr, tpr))
        if x.shape != y.shape or not len(x):
            raise InputError("tpr", "one for each fpr", f"{len(y):,} for {len(x):,}", "pass corners of one curve")
        x, y = np.concatenate([[0.0], x, [1.0]]), np.concatenate([[0.0], y, [1.0]])
        for name, rate in (("fpr", x), ("tpr", y)):
            if not (np.diff(rate) >= 0).all() or not np.isfinite(rate).all():
                raise InputError(name, "rates that rise from 0 to 1", "others", "sort the corners")
        return cls.of_laws(np.diff(y), np.diff(x))

    def delta_at(self, epsilon: float) -> float:
        """Smallest delta at an epsilon that holds in both orders."""
        return self._claim.delta_at(epsilon)

    def epsilon_at(self, delta: float) -> float:
        """Smallest epsilon at a delta that holds in both orders; infinite below the larger chance of failing."""
        return self._claim.epsilon_at(delta)

    def _fnr(self, fpr: FloatArray) -> FloatArray:
        return self._claim._fnr(fpr)

    def _tpr(self, fpr: FloatArray) -> FloatArray:
        return self._claim._tpr(fpr)

    def _fpr(self, tpr: FloatArray) -> FloatArray:
        return self._claim._fpr(tpr)

    def scalar_fpr_at_tpr(self) -> Callable[[float], float]:
        """Return :meth:`fpr_at_tpr` for one unchecked power in [0, 1] at a time."""
        return self._claim.scalar_fpr_at_tpr()

    @property
    def largest_loss(self) -> float:
        """The largest loss in either order that is no failure."""
        return max(0.0, *(float(order.at[-1]) if len(order.at) else -math.inf for order in self.orders))


def _crossings(epsilons: FloatArray, orders: tuple[PrivacyLosses, PrivacyLosses]) -> FloatArray:
    """Return epsilons, and those between them at which the larger delta becomes that of the other order."""
    apart = orders[0].deltas(epsilons) - orders[1].deltas(epsilons)
    before = np.flatnonzero(apart[1:] * apart[:-1] < 0)
    odds = np.exp(epsilons)
    share = apart[before] / (apart[before] - apart[before + 1])
    crossed = np.log(odds[before] + (odds[before + 1] - odds[before]) * share)
    return np.unique(np.concatenate([epsilons, crossed]))

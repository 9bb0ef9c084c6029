"""The Gaussian likelihood ratio of threshold-post, from statistics of members and non-members alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

import numpy as np
from numpy.typing import ArrayLike

from miaudit.arrays import BoolArray, FloatArray, IndexArray, IntArray
from miaudit.errors import InputError
from miaudit.errors.options import Option, check_options

__all__ = ["GaussianLira", "GaussianStatistics", "cross_fitted", "log_ratio"]

Variance = Literal["separate", "pooled"]
Statistic = Literal["loss", "logit_confidence"]
_VARY = "compute it from losses that vary"
_APPLIES = ("gaussian_lira", "outputs")


@dataclass(frozen=True)
class GaussianStatistics:
    """Mean and standard deviation of a statistic among members (in) and non-members (out).

    Raises
    ------
    InputError
        For numbers that are not finite, or standard deviations that are not positive.
    """

    mu_in: Annotated[float, Option("Mean of the statistic among members, from elsewhere.", _VARY, applies=_APPLIES)]
    sigma_in: Annotated[float, Option("Its standard deviation among members.", _VARY, gt=0, applies=_APPLIES)]
    mu_out: Annotated[float, Option("Its mean among non-members.", _VARY, applies=_APPLIES)]
    sigma_out: Annotated[float, Option("Its standard deviation among non-members.", _VARY, gt=0, applies=_APPLIES)]

    def __post_init__(self) -> None:
        check_options(self)

    @classmethod
    def fit(cls, statistic: FloatArray, member: BoolArray, variance: Variance = "separate") -> GaussianStatistics:
        """Estimate from a statistic (n,) and membership (n,); ``variance`` is "separate" or "pooled".

        A spread of zero (all training losses exactly 0, say) is replaced by a millionth of the spread of all.
        """
        inside, outside = statistic[member], statistic[~member]
        floor = max(1e-6 * float(np.std(statistic)), float(np.finfo(np.float64).tiny) ** 0.25)
        sigma_in, sigma_out = max(float(inside.std()), floor), max(float(outside.std()), floor)
        if variance == "pooled":
            share = len(inside) / len(statistic)
            sigma_in = sigma_out = float(np.sqrt(share * sigma_in**2 + (1 - share) * sigma_out**2))
        return cls(float(inside.mean()), sigma_in, float(outside.mean()), sigma_out)

    def monotone_between(self, low: float, high: float) -> bool:
        """Return whether the log ratio is monotone between two values of the statistic (erratum C1).

        With equal variances it always does, and thresholding it is thresholding the statistic; with unequal ones it is
        a parabola, whose vertex decides.

        Examples
        --------
        >>> GaussianStatistics(0.1, 1.0, 2.0, 1.0).monotone_between(0, 9)
        True
        >>> GaussianStatistics(0.1, 0.5, 2.0, 1.0).monotone_between(-2, 9)
        False
        """
        inside, outside = 1 / self.sigma_in**2, 1 / self.sigma_out**2
        if np.isclose(inside, outside, rtol=1e-12):
            return True
        vertex = (self.mu_in * inside - self.mu_out * outside) / (inside - outside)
        return not low < vertex < high


@dataclass(frozen=True)
class GaussianLira:
    """Options of the Gaussian likelihood ratio.

    Parameters
    ----------
    variance : "separate" or "pooled"
        With pooled variances the ratio orders records as the statistic does, so the statistic itself is the score (C1).
    statistic : "loss" or "logit_confidence"
        What is taken to be Gaussian; losses seldom are, the logit-scaled confidence is nearer (C4).
    folds : int, 2 to 50
        Cross-fitting, so that no record is scored with statistics that it helped to estimate (C2).
    given : GaussianStatistics, optional
        Statistics from elsewhere (of the statistic named above): nothing is fitted, nothing is cross-fitted.
    """

    variance: Annotated[
        Variance, Option("Of gaussian_lira: separate, or pooled for both classes.", "choose one", applies=_APPLIES)
    ] = "separate"
    statistic: Annotated[
        Statistic, Option("What gaussian_lira takes to be Gaussian.", "choose one", applies=_APPLIES)
    ] = "loss"
    folds: Annotated[
        int, Option("Of the cross-fitting of gaussian_lira.", "5 is the default", ge=2, le=50, applies=_APPLIES)
    ] = 5
    given: GaussianStatistics | None = None

    def __post_init__(self) -> None:
        check_options(self)

    @property
    def orders_as_statistic(self) -> bool:
        """Whether the ratio orders records as the statistic does: equal variances (erratum C1)."""
        if self.given is not None:
            return bool(np.isclose(self.given.sigma_in, self.given.sigma_out, rtol=1e-12))
        return self.variance == "pooled"


def logit_confidence_of(loss: ArrayLike) -> FloatArray:
    """Return the logit-scaled confidence log(p / (1 - p)) (n,) from the cross-entropy loss -log p (n,).

    Losses of exactly 0 (p rounded to 1) take the value of the smallest positive loss.

    Raises
    ------
    InputError
        If a loss is negative: then it is no cross-entropy of a class.

    Examples
    --------
    >>> logit_confidence_of([np.log(2), 0.0]).round(4).tolist()
    [0.0, 0.0]
    """
    x = np.asarray(loss, dtype=np.float64)
    if (x < 0).any():
        received = f"a smallest value of {x.min():.4g}"
        raise InputError("loss", "cross-entropies, 0 or more", received, "use statistic: loss")
    positive = x[x > 0]
    smallest = float(positive.min()) if len(positive) else 1.0
    x = np.maximum(x, smallest)
    # -log(expm1(x)), without overflow for large x.
    return np.asarray(0.0 - (x + np.log(-np.expm1(-x))))


def log_ratio(statistic: ArrayLike, given: GaussianStatistics) -> FloatArray:
    """Return log N(l; mu_in, sigma_in) - log N(l; mu_out, sigma_out) of each record (threshold-post).

    Parameters
    ----------
    statistic : array (n,), for example the loss
    given : summary statistics of members and non-members

    Returns
    -------
    array (n,), any real; higher is more member-like

    Examples
    --------
    >>> log_ratio([0.0, 2.0], GaussianStatistics(0.0, 1.0, 2.0, 1.0)).tolist()
    [2.0, -2.0]
    """
    x = np.asarray(statistic, dtype=np.float64)
    inside = -0.5 * ((x - given.mu_in) / given.sigma_in) ** 2 - np.log(given.sigma_in)
    outside = -0.5 * ((x - given.mu_out) / given.sigma_out) ** 2 - np.log(given.sigma_out)
    return np.asarray(inside - outside)


def cross_fitted(
    statistic: ArrayLike,
    member: ArrayLike,
    *,
    variance: Variance = "separate",
    folds: int = 5,
    unit_codes: IntArray | None = None,
    rng: np.random.Generator,
) -> FloatArray:
    """Score each record with means and variances that were fitted without it (erratum C2).

    Parameters
    ----------
    statistic : array (n,)
    member : array (n,) of bool
    variance : "separate" or "pooled"
    folds : int, 2 or more
        Drawn at random within members and non-members; records of one unit stay together.
    unit_codes : array (n,) of int, optional
    rng : generator of the folds

    Returns
    -------
    array (n,), higher is more member-like

    Raises
    ------
    InputError
        If a class has fewer units than twice the folds.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> losses = np.r_[rng.exponential(0.1, 500), rng.exponential(1.0, 500)]
    >>> member = np.arange(1000) < 500
    >>> scores = cross_fitted(losses, member, rng=rng)
    >>> bool(scores[member].mean() > scores[~member].mean())
    True
    """
    x, inside = np.asarray(statistic, dtype=np.float64), np.asarray(member, dtype=np.bool_)
    fold = _fold_of(inside, unit_codes, folds, rng)
    scores = np.empty(len(x))
    for k in range(folds):
        held = fold == k
        scores[held] = log_ratio(x[held], GaussianStatistics.fit(x[~held], inside[~held], variance))
    return scores


def _fold_of(member: BoolArray, unit_codes: IntArray | None, folds: int, rng: np.random.Generator) -> IndexArray:
    """Draw a fold for each record: balanced within each class, units kept whole where they are given."""
    codes = np.arange(len(member)) if unit_codes is None else unit_codes
    has_member = np.bincount(codes[member], minlength=int(codes.max()) + 1) > 0
    fold_of_unit = np.empty(len(has_member), dtype=np.intp)
    for name, units in (("members", np.flatnonzero(has_member)), ("non-members", np.flatnonzero(~has_member))):
        if unit_codes is None and len(units) < 2 * folds:
            received = f"{folds} folds for {len(units)}"
            raise InputError("folds", f"at most half the {name}", received, "use fewer folds or more records")
        fold_of_unit[units] = rng.permutation(np.arange(len(units)) % folds)
    fold = fold_of_unit[codes]
    for k in range(folds):
        rest = member[fold != k]
        if rest.all() or not rest.any():
            raise InputError("folds", "members and non-members in every training part", "one class", "use fewer folds")
    return fold

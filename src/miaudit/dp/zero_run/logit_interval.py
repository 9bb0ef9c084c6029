"""How far learned log-odds of membership may be from the true ones: the half-widths that thinning needs."""

# ruff: noqa: PLC0415 - scipy loads when used
from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from miaudit.arrays import FloatArray
from miaudit.causal import crossfit
from miaudit.causal.propensity import Propensity
from miaudit.errors import InputError, is_number


@dataclass(frozen=True)
class StandardErrors:
    """So many standard errors of each record's log-odds, pointwise (the default, with two; statistics.md, section 8).

    Attributes
    ----------
    multiple : above 0
    """

    multiple: float = 2.0

    def __post_init__(self) -> None:
        if not (is_number(self.multiple) and 0 < self.multiple < math.inf):
            raise InputError("multiple", "a number above 0", repr(self.multiple), "2 is the default")


@dataclass(frozen=True)
class Scheffe:
    """Half-widths that hold for all records at once, se_i sqrt(chi2_{d+1}), but for a probability that is paid for.

    Attributes
    ----------
    share : part of the audit's error probability that is spent here, in (0, 1)
    """

    share: float = 0.5

    def __post_init__(self) -> None:
        if not (is_number(self.share) and 0 < self.share < 1):
            raise InputError("share", "a number strictly between 0 and 1", repr(self.share), "0.5 is the default")


@dataclass(frozen=True, eq=False)
class HalfWidth:
    """Half-widths (n,), 0 or more, what they are in words, and the error probability that they cost."""

    values: FloatArray
    how: str
    cost: float = 0.0


def half_width(
    chosen: Any, propensity: Propensity, level: float, replicates: ArrayLike | None = None, units: float = 1.0
) -> HalfWidth:
    """Resolve what was asked for into a half-width for each record.

    Parameters
    ----------
    chosen : number, array (n,), StandardErrors, Scheffe or None
        None: 0 for given propensities, ``StandardErrors(2)`` for learned ones.
    propensity : Propensity of n records
    level : error probability of the whole audit, in (0, 1)
    replicates : array (K, n), bootstrap replicates of the propensities, optional
        Where they are passed, or the model is not the default one, the standard error is their spread.
    units : share of the rows that count as independent, in (0, 1]

    Raises
    ------
    InputError
        For a negative or infinite half-width, one of another length, or where no standard error is known.

    Examples
    --------
    >>> half_width(0.2, Propensity.given([0.5, 0.6]), 0.05).values.tolist()
    [0.2, 0.2]
    >>> half_width(None, Propensity.given([0.5, 0.6]), 0.05).values.tolist()
    [0.0, 0.0]
    """
    n = len(propensity.values)
    match chosen:
        case None:
            if is_given(propensity):
                return HalfWidth(np.zeros(n), "the propensities were given: log-odds taken as known")
            return half_width(StandardErrors(), propensity, level, replicates, units)
        case StandardErrors(multiple):
            spread = standard_errors(propensity, replicates, units)
            return HalfWidth(
                multiple * spread, f"log-odds within {multiple:g} standard errors of the learned ones, pointwise"
            )
        case Scheffe(share):
            return _scheffe(share * level, propensity, replicates, units)
        case _:
            return HalfWidth(_stated(chosen, n), "log-odds within the half-width that was stated")


def is_given(propensity: Propensity) -> bool:
    """Whether the propensities were given and not learned from rows."""
    return propensity.rows_per_covariate is None


def standard_errors(propensity: Propensity, replicates: ArrayLike | None = None, units: float = 1.0) -> FloatArray:
    """Standard error (n,) of each record's log-odds; 0 for given propensities.

    The spread over bootstrap replicates where there are any; else, for the default logistic model, sqrt(x' H^-1 x) with
    the information H of its features, scaled to the rows that each fold's model was learned from.

    Raises
    ------
    InputError
        For another classifier without replicates.

    Examples
    --------
    >>> from miaudit import Evidence
    >>> from miaudit.causal import propensity
    >>> rng = np.random.default_rng(0)
    >>> x = rng.normal(size=(2000, 1))
    >>> evidence = Evidence(score=x[:, 0], member=rng.random(2000) < 0.5, covariates=x, design="zero-run")
    >>> round(float(np.median(standard_errors(propensity.fit(evidence, rng=rng)))), 2)  # 2 / sqrt(1600) and a slope
    0.06
    """
    if is_given(propensity):
        return np.zeros(len(propensity.values))
    if replicates is not None:
        return np.asarray(logit(check_replicates(replicates, len(propensity.values))).std(axis=0, ddof=1))
    if not propensity.logistic or propensity.features is None:
        raise InputError(
            "half_width",
            "a number, or bootstrap replicates of a propensity that is not the default logistic model",
            "neither",
            "pass replicates=propensity.bootstrap(...), or half_width=",
        )
    ones = crossfit.with_ones(propensity.features)
    information = (ones * (propensity.values * (1 - propensity.values))[:, None]).T @ ones
    information *= _rows_learned_from(propensity) / len(ones) * units
    # Features that are copies of each other leave directions without information, in which no record lies either.
    values, vectors = np.linalg.eigh(information)
    seen = values > 1e-10 * values[-1]
    return np.asarray(np.linalg.norm((ones @ vectors[:, seen]) / np.sqrt(values[seen]), axis=1))


def check_replicates(replicates: ArrayLike, n: int) -> FloatArray:
    """Return bootstrap replicates of propensities (K, n), each strictly between 0 and 1, at least 20 of them."""
    drawn = np.asarray(replicates, dtype=np.float64)
    if drawn.ndim != 2 or drawn.shape[1] != n or len(drawn) < 20:
        raise InputError(
            "replicates", f"(K, {n}) propensities with K of at least 20", f"shape {drawn.shape}", "use 600"
        )
    if not ((drawn > 0) & (drawn < 1)).all():
        raise InputError(
            "replicates", "probabilities strictly between 0 and 1", "others, or NaN", "pass propensity.bootstrap(...)"
        )
    return drawn


def logit(p: FloatArray) -> FloatArray:
    """Log-odds of probabilities, any shape."""
    return np.asarray(np.log(p) - np.log1p(-p))


def _rows_learned_from(propensity: Propensity) -> float:
    assert propensity.features is not None and propensity.rows_per_covariate is not None  # noqa: S101
    rows = propensity.rows_per_covariate * propensity.features.shape[1]
    if propensity.folds is None:
        return float(rows)
    largest = float(np.bincount(propensity.folds - propensity.folds.min()).max())
    return float(rows) * (1 - largest / len(propensity.folds))


def _scheffe(cost: float, propensity: Propensity, replicates: ArrayLike | None, units: float) -> HalfWidth:
    from scipy.special import chdtri

    if is_given(propensity):
        return HalfWidth(np.zeros(len(propensity.values)), "the propensities were given: log-odds taken as known")
    if propensity.features is None:
        raise InputError("half_width", "a learned logistic propensity for Scheffe()", "another", "use StandardErrors()")
    factor = math.sqrt(float(chdtri(propensity.features.shape[1] + 1, cost)))
    spread = standard_errors(propensity, replicates, units)
    how = f"log-odds within Scheffe's band of the learned ones, for all records at once but for probability {cost:.3g}"
    return HalfWidth(factor * spread, how, cost)


def _stated(chosen: Any, n: int) -> FloatArray:
    try:
        values = np.asarray(chosen, dtype=np.float64)
    except (TypeError, ValueError):
        raise _unusable(repr(chosen), n) from None
    if isinstance(chosen, str | bool) or values.shape not in ((), (n,)):
        raise _unusable(repr(chosen) if values.ndim == 0 else f"shape {values.shape}", n)
    if not (np.isfinite(values) & (values >= 0)).all():
        raise _unusable(f"{values[~(np.isfinite(values) & (values >= 0))].flat[0]:g}", n)
    return np.broadcast_to(values, (n,)).astype(np.float64)


def _unusable(received: str, n: int) -> InputError:
    return InputError(
        "half_width",
        f"a finite number, 0 or more, or one for each of {n:,} records, or StandardErrors(), or Scheffe()",
        received,
        "it is in units of log-odds",
    )

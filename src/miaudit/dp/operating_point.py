"""An operating point of an attack: its true- and false-positive rate, and the smallest claims that permit it."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from miaudit.arrays import FloatArray
from miaudit.errors import InputError
from miaudit.errors.checks import check_delta


def epsilon_of_point(*, tpr: float, fpr: float, delta: float = 0.0) -> float:
    """Return the smallest epsilon >= 0 at which (epsilon, delta)-DP permits an attack with these rates.

    The larger of log((TPR - delta) / FPR) and log((TNR - delta) / FNR); infinite where a rate in a denominator is 0.

    Examples
    --------
    >>> round(epsilon_of_point(tpr=0.3, fpr=0.1), 4), epsilon_of_point(tpr=0.1, fpr=0.3), epsilon_of_point(tpr=1, fpr=0)
    (1.0986, 0.0, inf)
    """
    t, a, d = check_rate("tpr", tpr), check_rate("fpr", fpr), check_delta(delta)
    return max(0.0, _log_ratio(t - d, a), _log_ratio((1 - a) - d, 1 - t))


def mu_of_point(*, tpr: float, fpr: float) -> float:
    """Return the smallest mu >= 0 at which mu-GDP permits an attack with these rates: Phi^-1(TPR) - Phi^-1(FPR).

    Examples
    --------
    >>> round(mu_of_point(tpr=0.5, fpr=0.1), 4), mu_of_point(tpr=0.1, fpr=0.5), mu_of_point(tpr=0.5, fpr=0.0)
    (1.2816, 0.0, inf)
    """
    t, a = check_rate("tpr", tpr), check_rate("fpr", fpr)
    return 0.0 if t <= a else float(special.ndtri(t) - special.ndtri(a))


def check_rates(name: str, values: ArrayLike) -> FloatArray:
    """Return rates of any shape as float64, or refuse some outside [0, 1]."""
    array = np.asarray(values)
    if array.dtype.kind not in "fiu":
        raise InputError(name, "rates in [0, 1]", repr(values)[:80], "pass numbers")
    rates = array.astype(np.float64, copy=False)
    if not bool(np.all((rates >= 0) & (rates <= 1))):
        outside = rates[~((rates >= 0) & (rates <= 1))]
        raise InputError(name, "rates in [0, 1]", f"{outside.flat[0]:g}", "0.01 is 1%")
    return rates


def check_rate(name: str, value: float) -> float:
    """Return a rate, or refuse one outside [0, 1]."""
    return float(check_rates(name, value))


def check_prior(prior: float) -> float:
    """Return the share of members among those who are guessed, or refuse one outside (0, 1)."""
    if not 0 < check_rate("prior", prior) < 1:
        raise InputError("prior", "a number strictly between 0 and 1", repr(prior), "0.5 is a fair coin")
    return prior


def _log_ratio(above: float, below: float) -> float:
    if above <= 0:
        return -math.inf
    return math.inf if below <= 0 else math.log(above) - math.log(below)

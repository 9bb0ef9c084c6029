"""Metrics and their numbers in words, the same on the page, in the verdict and on the terminal.

An estimate is rounded to the nearest number; a limit outward, so that what is printed still holds: a lower limit is
rounded down, an upper limit up. All of it goes through :func:`written`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from miaudit.dp.bounds import LowerBound
from miaudit.metrics.definition import of
from miaudit.metrics.rounding import Rounding, at_least, at_most, percent, written

_FINEST = (3, 6, 9, 15)  # digits to try until a limit reads otherwise than the threshold beyond which it lies


def describe(metric: str) -> str:
    """Say what a metric measures: 'the share of members found at a false-positive rate of 0.1%'."""
    return of(metric).description


def label(metric: str) -> str:
    """Name a metric for a reader: 'TPR at 0.1% FPR'."""
    return of(metric).label


def chance(metric: str) -> float | None:
    """Return what a metric is for an attack that knows nothing, or None for a name that is not known."""
    return of(metric).chance


def amount(metric: str, value: float | None, rounding: Rounding = "nearest", digits: int = 3) -> str:
    """Write a value of a metric: rates as percentages, the rest with three or four digits.

    Parameters
    ----------
    metric : its name
    value : None where there is none
    rounding : "down" for a lower limit, "up" for an upper one
    digits : of a rate (significant) and of the rest (decimals)

    Examples
    --------
    >>> amount("tpr_at_fpr_0.01", 0.0912), amount("auc", 0.86984), amount("ate", None)
    ('9.12%', '0.870', '–')
    >>> amount("auc", 0.86984, "down"), amount("auc", 0.9999, "up")
    ('0.869', '0.999900')
    """
    if value is None:
        return "–"
    form = of(metric).form
    if form == "percent":
        return percent(value, rounding, digits)
    if form == "digits":
        return written(value, f".{digits + 1}g", rounding)
    text = written(value, f".{digits}f", rounding)
    # never 1.000 for less than one
    return written(value, f".{max(digits, 6)}f", rounding) if value < 1 and float(text) == 1 else text


def beyond(metric: str, limit: float, threshold: float, rounding: Rounding) -> str:
    """Write a limit with as many digits as it takes to read otherwise than the threshold beyond which it lies.

    Examples
    --------
    >>> beyond("auc", 0.5996, 0.6, "up"), beyond("auc", 0.56, 0.6, "up")
    ('0.599600', '0.560')
    """
    other = float(amount(metric, threshold).rstrip("%"))
    texts = [amount(metric, limit, rounding, digits) for digits in _FINEST]
    return next((text for text in texts if float(text.rstrip("%")) != other), texts[0])


def between(metric: str, low: float, high: float) -> str:
    """Write the limits of a metric, rounded outward.

    Examples
    --------
    >>> between("auc", 0.70089, 0.80011)
    '0.700 to 0.801'
    """
    return f"{amount(metric, low, 'down')} to {amount(metric, high, 'up')}"


def difference(value: float, low: float, high: float) -> str:
    """Write a difference of a metric between two, with its limits.

    Examples
    --------
    >>> difference(0.05, -0.01232, 0.11)
    '+0.0500 (-0.0124 to +0.1100)'
    """
    return f"{value:+.4f} ({difference_limits(low, high)})"


def difference_limits(low: float, high: float) -> str:
    """Write the limits of a difference of a metric, rounded outward."""
    return f"{written(low, '+.4f', 'down')} to {written(high, '+.4f', 'up')}"


def interval(metric: Mapping[str, Any]) -> str:
    """Write the interval of a metric, or the upper limit alone where there is no value.

    Examples
    --------
    >>> interval({"name": "auc", "value": 0.75, "low": 0.7, "high": 0.8})
    '0.700 to 0.800'
    >>> interval({"name": "tpr_at_fpr_0.001", "value": None, "low": 0.0, "high": 0.2})
    'at most 20%'
    """
    name, low, high = metric["name"], metric["low"], metric["high"]
    if metric["value"] is None:
        return "not resolved" if high is None else f"at most {amount(name, high, 'up')}"
    if low is None or high is None:
        return "no interval"
    return between(name, low, high)


def reading(metric: Mapping[str, Any]) -> str:
    """Write a metric's value with its interval; an unresolved one as an upper limit, never a value."""
    if metric["value"] is None:
        return interval(metric)
    return f"{amount(metric['name'], metric['value'])} ({interval(metric)})"


def bound_reading(bound: LowerBound) -> str:
    """Write a lower bound with how sure it is and what it rests on."""
    where = f" at delta = {bound.delta:g}" if bound.parameter == "epsilon" else ""
    name = bound.parameter
    shown = f"{name} >= {at_least(bound.value)}{where}" if bound.value > 0 else f"{name}{where}: nothing shown"
    sure = "exploratory, at no confidence" if bound.exploratory else f"{100 * bound.confidence:.6g}%"
    details = [sure]
    if bound.correct is not None and bound.guesses is not None:
        details.append(f"{bound.correct:,} of {bound.guesses:,} guesses right")
    if bound.reachable is not None:
        details.append(f"at most {at_most(bound.reachable)} could have been shown")
    return f"{shown} ({'; '.join(details)})"

"""Metrics and their numbers in words, the same on the page, in the verdict and on the terminal.

An estimate is rounded to the nearest number; a limit outward, so that what is printed still holds: a lower limit is
rounded down, an upper limit up. All of it goes through :func:`written`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from typing import Any, Literal

Rounding = Literal["nearest", "down", "up"]

_TPR = "tpr_at_fpr_"
_OUTWARD = {"down": ROUND_FLOOR, "up": ROUND_CEILING}
_FINEST = (3, 6, 9, 15)  # digits to try until a limit reads otherwise than the threshold beyond which it lies


def describe(metric: str) -> str:
    """Say in words what a metric measures.

    Examples
    --------
    >>> describe("tpr_at_fpr_0.001")
    'the share of members found at a false-positive rate of 0.1%'
    """
    if metric.startswith("tpr_at_fpr_"):
        fpr = float(metric.removeprefix("tpr_at_fpr_"))
        return f"the share of members found at a false-positive rate of {percent(fpr)}"
    return {
        "auc": "the area under the ROC curve (0.5 is chance)",
        "advantage": "the largest TPR - FPR (0 is chance)",
        "balanced_accuracy": "the balanced accuracy at the best threshold (0.5 is chance)",
        "ate": "the average effect of membership on the score (0 is none)",
    }[metric]


def written(value: float | Decimal, form: str, rounding: Rounding = "nearest") -> str:
    """Write a number by a format, rounded to the nearest number of its digits, or outward as a limit has to be.

    Parameters
    ----------
    value : the number; one that is not finite is written as it is
    form : a format specification that ends in ``.3f`` (decimals) or ``.3g`` (significant digits), sign included
    rounding : "nearest" for an estimate, "down" for a lower limit, "up" for an upper limit

    Returns
    -------
    str
        "down": never above the value; "up": never below it. A float counts as the shortest decimal that is read as it,
        so that a limit of 0.05 stays 0.05.

    Examples
    --------
    >>> written(0.07416, ".3f"), written(0.07416, ".3f", "up"), written(-0.07416, "+.3f", "down")
    ('0.074', '0.075', '-0.075')
    >>> written(3.8912, ".3g", "up"), written(1234.5, ".3g", "down"), written(0.05, ".2g", "up")
    ('3.9', '1.23e+03', '0.05')
    """
    if rounding == "nearest" or not math.isfinite(value):
        return f"{float(value):{form}}"
    exact = value if isinstance(value, Decimal) else Decimal(repr(float(value)))
    digits, kind = int(form[form.index(".") + 1 : -1]), form[-1]
    last = -digits if kind == "f" else exact.adjusted() - digits + 1
    step = Decimal(1).scaleb(last)
    # 400 digits: a float has at most 309 before the point, and none is lost before it is rounded
    rounded = exact.quantize(step, rounding=_OUTWARD[rounding], context=Context(prec=400)) if exact else exact
    rounded = rounded or abs(rounded)  # no minus before a zero
    return f"{rounded:{form}}" if kind == "f" else f"{float(rounded):{form}}"


def at_least(value: float, digits: int = 3) -> str:
    """Write a lower bound with so many significant digits, never above it.

    Examples
    --------
    >>> at_least(1.2399), at_least(0.3)
    ('1.23', '0.3')
    """
    return written(value, f".{digits}g", "down")


def at_most(value: float, digits: int = 3) -> str:
    """Write an upper bound, a claim or a p-value with so many significant digits, never below it.

    Examples
    --------
    >>> at_most(3.8912), at_most(2.0), at_most(8.5335e-05), at_most(0.0)
    ('3.9', '2', '8.54e-05', '0')
    """
    return written(value, f".{digits}g", "up")


def percent(rate: float, rounding: Rounding = "nearest", digits: int = 3) -> str:
    """Write a rate, or a difference of rates, as a percentage with three significant digits.

    Examples
    --------
    >>> percent(0.001), percent(0.1234567), percent(0.99996)
    ('0.1%', '12.3%', '99.996%')
    >>> percent(0.0741606, "down"), percent(0.0741606, "up")
    ('7.41%', '7.42%')
    """
    exact = Decimal(repr(float(rate))) * 100 if rounding != "nearest" else 100 * rate
    text = written(exact, f".{digits}g", rounding)
    if rate < 1 and float(text) == 100:  # never all for less than all
        text = written(exact, f".{max(digits, 6)}g", rounding)
    return text + "%"


def rate_with_limits(rate: float, low: float, high: float) -> str:
    """Write a rate with its limits.

    Examples
    --------
    >>> rate_with_limits(0.5, 0.33333, 0.66666)
    '50% (33.3% to 66.7%)'
    """
    return f"{percent(rate)} ({percent(low, 'down')} to {percent(high, 'up')})"


def points(difference: float, rounding: Rounding = "nearest") -> str:
    """Write a difference of rates as a percentage with its sign.

    Examples
    --------
    >>> points(0.05), points(-0.04321, "down"), points(-0.04321, "up"), points(0.0)
    ('+5%', '−4.33%', '−4.32%', '0%')
    """
    text = percent(difference, rounding).replace("-", "−", 1) if difference < 0 else percent(difference, rounding)
    return f"+{text}" if difference > 0 else text


def in_points(difference: float, rounding: Rounding = "nearest", *, sign: bool = True) -> str:
    """Write a difference of rates in points, hundredths, with one decimal; no sign where it rounds to zero.

    Examples
    --------
    >>> in_points(0.1234), in_points(-0.0001), in_points(0.02, sign=False), in_points(0.0201, "up")
    ('+12.3', '0.0', '2.0', '+2.1')
    """
    exact = Decimal(repr(float(difference))) * 100 if rounding != "nearest" else round(100 * difference, 1)
    text = written(exact, "+.1f" if sign else ".1f", rounding)
    return text.lstrip("+-") if float(text) == 0 else text


def label(metric: str) -> str:
    """Name a metric for a reader.

    Examples
    --------
    >>> label("tpr_at_fpr_0.001"), label("auc")
    ('TPR at 0.1% FPR', 'AUC')
    """
    if metric.startswith(_TPR):
        return f"TPR at {percent(target(metric))} FPR"
    return {
        "auc": "AUC",
        "advantage": "Advantage, largest TPR − FPR",
        "balanced_accuracy": "Balanced accuracy",
        "ate": "Average effect on the score",
    }.get(metric, metric)


def target(metric: str) -> float:
    """Return the FPR of a ``tpr_at_fpr_...`` metric."""
    return float(metric.removeprefix(_TPR))


def chance(metric: str) -> float | None:
    """Return what a metric is for an attack that knows nothing, or None for a name that is not known."""
    if metric.startswith(_TPR):
        return target(metric)
    return {"auc": 0.5, "advantage": 0.0, "balanced_accuracy": 0.5, "ate": 0.0}.get(metric)


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
    if metric.startswith(_TPR):
        return percent(value, rounding, digits)
    if metric == "ate":
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

"""Numbers as text: rounded outward where they are limits, so that no text claims more than its number."""

from __future__ import annotations

import math
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from typing import Literal

__all__ = [
    "Rounding",
    "difference",
    "difference_limits",
    "in_points",
    "lower_text",
    "percent",
    "points",
    "rate_with_limits",
    "upper_text",
    "written",
]

Rounding = Literal["nearest", "down", "up"]


_OUTWARD = {"down": ROUND_FLOOR, "up": ROUND_CEILING}


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


def lower_text(value: float, digits: int = 3) -> str:
    """Write a lower bound with so many significant digits, never above it.

    Examples
    --------
    >>> lower_text(1.2399), lower_text(0.3)
    ('1.23', '0.3')
    """
    return written(value, f".{digits}g", "down")


def upper_text(value: float, digits: int = 3) -> str:
    """Write an upper bound, a claim or a p-value with so many significant digits, never below it.

    Examples
    --------
    >>> upper_text(3.8912), upper_text(2.0), upper_text(8.5335e-05), upper_text(0.0)
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

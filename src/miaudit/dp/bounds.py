"""Lower and upper bounds on privacy parameters: two types that only a verdict may compare."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated, Literal

from annotated_types import Interval

from miaudit.arrays import Count, Inside, NotNegative, Share, Text
from miaudit.errors import InputError

__all__ = ["LowerBound", "UpperBound"]

Parameter = Literal["epsilon", "mu"]
Delta = Annotated[float, Interval(ge=0, lt=1)]


@dataclass(frozen=True)
class LowerBound:
    """A statement about runs: it lies above the true parameter in at most ``1 - confidence`` of them.

    Attributes
    ----------
    parameter : "epsilon" of (epsilon, delta)-DP, or "mu" of Gaussian DP
    value : 0 or more; 0 shows nothing, which is not the same as no leakage
    confidence : in (0, 1), after every correction
    method : the test that was inverted, by name
    delta : of an epsilon, in [0, 1); 0 for a mu
    p_value : of "nothing leaks at all" (parameter 0), in [0, 1]; None where the method gives none
    correct, guesses, canaries : counts behind it, where it comes from counts; canaries may be an effective number
    reachable : the largest value that an attack with no error could have shown at this size; None if not known
    assumptions : what has to hold beyond the data, in sentences
    corrections : what was paid for or adjusted, in sentences
    exploratory : whether a choice made on the same data was left unpaid, so that the confidence does not hold
    """

    parameter: Parameter
    value: NotNegative
    confidence: Inside
    method: Text
    delta: Delta = 0.0
    p_value: Share | None = None
    correct: Count | None = None
    guesses: Count | None = None
    canaries: NotNegative | None = None
    reachable: NotNegative | None = None
    assumptions: tuple[str, ...] = ()
    corrections: tuple[str, ...] = ()
    exploratory: bool = False


@dataclass(frozen=True)
class UpperBound:
    """A theorem about an algorithm: its parameter is at most ``value`` in every run.

    Attributes
    ----------
    parameter : "epsilon" or "mu"
    value : 0 or more
    delta : of an epsilon, in [0, 1); 0 for a mu
    mechanism : what was accounted for, in words
    accountant : by what
    """

    parameter: Parameter
    value: float
    delta: float
    mechanism: str
    accountant: str


def check_confidence(confidence: object) -> float:
    """Return a confidence, or refuse one outside (0, 1)."""
    return _inside("confidence", confidence, "0.95 is usual")


def check_delta(delta: object) -> float:
    """Return a delta, or refuse one outside [0, 1)."""
    number = _number("delta", delta, "a number in [0, 1)", "1e-5 is usual, 0 is pure epsilon")
    if not 0 <= number < 1:
        raise InputError("delta", "a number in [0, 1)", repr(delta), "1e-5 is usual, 0 is pure epsilon")
    return number


def check_counts(correct: object, guesses: object, canaries: object) -> tuple[int, int, int]:
    """Return counts 0 <= correct <= guesses <= canaries with at least one guess, as whole numbers."""
    c, r, m = (_whole(name, x) for name, x in (("correct", correct), ("guesses", guesses), ("canaries", canaries)))
    if m < 1:
        raise InputError("canaries", "a whole number from 1 up", repr(canaries), "audit at least one record")
    if not 1 <= r <= m:
        raise InputError("guesses", f"a whole number from 1 to the {m:,} canaries", repr(guesses), "guess for some")
    if not 0 <= c <= r:
        raise InputError("correct", f"a whole number from 0 to the {r:,} guesses", repr(correct), "count them again")
    return c, r, m


def _whole(name: str, value: object) -> int:
    number = _number(name, value, "a whole number", "pass a count")
    if number != math.floor(number):
        raise InputError(name, "a whole number", repr(value), "pass a count")
    return int(number)


def _inside(name: str, value: object, hint: str) -> float:
    number = _number(name, value, "a number strictly between 0 and 1", hint)
    if not 0 < number < 1:
        raise InputError(name, "a number strictly between 0 and 1", repr(value), hint)
    return number


def _number(name: str, value: object, allowed: str, hint: str) -> float:
    try:
        number = float(value)  # type: ignore[arg-type]  # refused below if it is none
    except (TypeError, ValueError):
        raise InputError(name, allowed, repr(value), hint) from None
    if isinstance(value, bool | str) or not math.isfinite(number):
        raise InputError(name, allowed, repr(value), hint)
    return number

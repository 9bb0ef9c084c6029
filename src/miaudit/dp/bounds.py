"""Lower and upper bounds on privacy parameters: two types that only a verdict may compare."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from annotated_types import Interval

from miaudit.arrays import Count, Inside, NotNegative, Share, Text

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

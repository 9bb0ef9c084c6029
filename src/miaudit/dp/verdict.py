"""Lower and upper bounds on privacy parameters, claims, and the verdict on a claim.

Lower and upper bounds are two types, which only the verdict compares.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Literal

import numpy as np
from annotated_types import Interval, MinLen

from miaudit.arrays import Count, Inside, NotNegative, Share, Text
from miaudit.dp.tradeoff import EpsilonDelta, Gaussian, TradeOff, roc_limit
from miaudit.errors import InputError
from miaudit.errors.checks import check_delta
from miaudit.errors.options import Option
from miaudit.metrics.rounding import lower_text, upper_text

Parameter = Literal["epsilon", "mu"]
Neighbours = Literal["add-or-remove", "replace-one"]
Delta = Annotated[float, Interval(ge=0, lt=1)]
Status = Literal["refuted", "not-refuted", "not-testable"]
Rates = Annotated[tuple[Share, ...], MinLen(2)]
_EXIT_CODES: dict[Status, int] = {"not-refuted": 0, "refuted": 3, "not-testable": 4}
_LIMIT_POINTS = np.unique(np.r_[0.0, np.geomspace(1e-5, 1.0, 41), np.linspace(0.02, 1.0, 50)])


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
    neighbours : "add-or-remove" or "replace-one", how data sets differ that the parameter compares, where bounds for
        both are given; None elsewhere: a record is added or removed
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
    neighbours: Neighbours | None = None

    @property
    def changes(self) -> str:
        """What the parameter compares, in words, where bounds for both kinds of neighbours are given; else nothing."""
        words = {"add-or-remove": "add or remove", "replace-one": "replace", None: ""}
        return words[self.neighbours]


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


@dataclass(frozen=True)
class Claim:
    """A privacy claim: (epsilon, delta)-DP or mu-Gaussian DP.

    Attributes
    ----------
    parameter : "epsilon" or "mu"
    value : 0 or more
    delta : of an epsilon, in [0, 1)

    Examples
    --------
    >>> str(Claim.epsilon_delta(1.0, 1e-5)), str(Claim.gaussian(0.5))
    ('(epsilon = 1, delta = 1e-05)-DP', '0.5-Gaussian DP')
    """

    parameter: Parameter
    value: float
    delta: float = 0.0

    def __post_init__(self) -> None:
        if self.parameter not in ("epsilon", "mu"):
            raise InputError("parameter", "epsilon or mu", repr(self.parameter), "claim one of these")
        number = isinstance(self.value, int | float) and not isinstance(self.value, bool)
        if not (number and 0 <= self.value < math.inf):
            raise InputError(self.parameter, "a number from 0 up", repr(self.value), "claim a finite parameter")
        check_delta(self.delta)
        if self.parameter == "mu" and self.delta:
            raise InputError("delta", "0 beside mu", repr(self.delta), "claim epsilon and delta, or mu alone")

    @classmethod
    def epsilon_delta(
        cls,
        epsilon: Annotated[
            float, Option("Somebody claims (epsilon, delta)-DP: is it refuted?", "claim a finite parameter", ge=0)
        ],
        delta: Annotated[
            float,
            Option("The delta of that claim; without it, --delta.", "1e-5 is usual, 0 is pure epsilon", ge=0, lt=1),
        ] = 0.0,
    ) -> Claim:
        """Claim (epsilon, delta)-DP."""
        return cls("epsilon", epsilon, delta)

    @classmethod
    def gaussian(
        cls,
        mu: Annotated[
            float, Option("Somebody claims mu-Gaussian DP: is it refuted?", "claim a finite parameter", ge=0)
        ],
    ) -> Claim:
        """Claim mu-Gaussian DP."""
        return cls("mu", mu)

    @property
    def tradeoff(self) -> TradeOff:
        """The trade-off function that the claim promises: its ROC limit is drawn beside the attack's."""
        return Gaussian(self.value) if self.parameter == "mu" else EpsilonDelta(self.value, self.delta)

    def __str__(self) -> str:
        if self.parameter == "mu":
            return f"{upper_text(self.value, 6)}-Gaussian DP"
        return f"(epsilon = {upper_text(self.value, 6)}, delta = {upper_text(self.delta, 6)})-DP"


@dataclass(frozen=True)
class RocLimit:
    """The largest TPR that a claim allows at each FPR, both rising from 0 to 1 and of the same length."""

    fpr: Rates
    tpr: Rates


@dataclass(frozen=True)
class ClaimVerdict:
    """A privacy claim with its lower bound from runs and upper bound from a theorem.

    A claim that is not refuted is not thereby proved.

    Attributes
    ----------
    parameter, value, delta : what is claimed: "epsilon" at a delta, or "mu" (delta 0), is at most ``value``
    status : "refuted", "not-refuted" or "not-testable"
    text : the same as a sentence
    lower : the lower bound on the claim's own scale; None where there is none
    upper : the upper bound on the claim's own scale; None where no mechanism was described
    upper_from : the mechanism and the accountant behind it; empty if there is none
    gap : ``upper`` - ``lower``, what neither the runs nor the theorem settle, 0 or more where nothing contradicts; None
        without both
    reachable : the largest lower bound, on the claim's own scale, that an attack with no error could have shown
    limit : the ROC curve that the claim allows at most
    """

    parameter: Parameter
    value: NotNegative
    delta: Delta
    status: Status
    text: Text
    lower: NotNegative | None = None
    upper: NotNegative | None = None
    upper_from: str = ""
    gap: float | None = None
    reachable: NotNegative | None = None
    limit: RocLimit | None = None

    @property
    def exit_code(self) -> int:
        """0 not refuted, 3 refuted, 4 not testable."""
        return _EXIT_CODES[self.status]


def judge(
    claim: Claim, lower: LowerBound | None, *, upper: UpperBound | None = None, reasons: Sequence[str] = ()
) -> ClaimVerdict:
    """Compare a claim with its lower bound and, if a mechanism was described, its upper bound.

    A bound on epsilon at a delta of its own refutes claims at that delta and at smaller ones: whatever is not
    (epsilon, delta)-DP is not (epsilon, delta')-DP for delta' <= delta either. An exploratory bound refutes nothing.

    Parameters
    ----------
    claim : the claim
    lower : a lower bound of the same parameter; None if the evidence allows none
    upper : what an accountant gives for the described mechanism, in the same parameter
    reasons : why there is no lower bound, in sentences

    Raises
    ------
    InputError
        If a bound is of another parameter, or of an epsilon at a delta that says nothing of the claim's.

    Examples
    --------
    >>> shown = LowerBound("epsilon", 1.4, 0.95, "Steinke et al.", delta=1e-5, reachable=3.2)
    >>> judge(Claim.epsilon_delta(1.0, 1e-5), shown).status
    'refuted'
    >>> print(judge(Claim.epsilon_delta(2.0, 1e-5), shown).text.split(";")[0])
    Not refuted: (epsilon = 2, delta = 1e-05)-DP. The largest value shown with 95% confidence is epsilon = 1.4
    """
    for name, bound in (("lower", lower), ("upper", upper)):
        if bound is not None:
            _check_comparable(name, claim, bound)
    gap = None if lower is None or upper is None else upper.value - lower.value
    status, text = _answer(claim, lower, reasons)
    return ClaimVerdict(
        claim.parameter,
        claim.value,
        claim.delta,
        status,
        text + _proved(claim, upper, gap),
        lower=None if lower is None else lower.value,
        upper=None if upper is None else upper.value,
        upper_from="" if upper is None else f"{upper.mechanism}, {upper.accountant}",
        gap=gap,
        reachable=None if lower is None else lower.reachable,
        limit=RocLimit(tuple(_LIMIT_POINTS.tolist()), tuple(roc_limit(claim.tradeoff, _LIMIT_POINTS).tolist())),
    )


def _answer(claim: Claim, lower: LowerBound | None, reasons: Sequence[str]) -> tuple[Status, str]:
    """Return whether a lower bound refutes the claim, and the same in words."""
    if lower is None:
        why = " ".join(reasons) or "the evidence allows no lower bound."
        return "not-testable", f"Not testable: {claim}. {why}"
    if lower.exploratory:
        why = "the bound is exploratory: a choice made on the same data was not paid for, so it holds at no confidence."
        return "not-testable", f"Not testable: {claim}; {why}"
    shown = f"{claim.parameter} = {lower_text(lower.value)}"
    sure = f"{100 * lower.confidence:.6g}"
    if lower.value > claim.value:
        sentence = f"With {sure}% confidence, {claim.parameter} is at least {lower_text(lower.value)}."
        return "refuted", f"Refuted: {claim}. {sentence}"
    size = ""
    if lower.reachable is not None:
        size = f"; an attack without errors would have shown {upper_text(lower.reachable)} on so many records"
    text = (
        f"Not refuted: {claim}. The largest value shown with {sure}% confidence is {shown}{size}. "
        "What is not refuted is not proved."
    )
    if lower.reachable is not None and lower.reachable <= claim.value:
        text += " So few records could not have refuted it."
    return "not-refuted", text


def _check_comparable(name: str, claim: Claim, bound: LowerBound | UpperBound) -> None:
    if bound.parameter != claim.parameter:
        raise InputError(name, f"a bound on {claim.parameter}", f"one on {bound.parameter}", "bound what was claimed")
    says_too_little = bound.delta < claim.delta if isinstance(bound, LowerBound) else bound.delta > claim.delta
    if says_too_little:
        allowed = f"a bound at a delta of {claim.delta:g} or {'more' if isinstance(bound, LowerBound) else 'less'}"
        raise InputError(name, allowed, f"one at {bound.delta:g}", "bound epsilon at the delta of the claim")


def _proved(claim: Claim, upper: UpperBound | None, gap: float | None) -> str:
    """Describe the guarantee of the described mechanism, and whether the evidence contradicts it."""
    if upper is None:
        return ""
    if gap is not None and gap < 0:
        return (
            f" The described mechanism ({upper.mechanism}) would guarantee {upper_text(upper.value)}, less than was "
            "shown: what was run is not what was described."
        )
    relation = "which proves the claim of it" if upper.value <= claim.value else "which does not prove the claim"
    value = f"{claim.parameter} = {upper_text(upper.value)}"
    return f" The described mechanism ({upper.mechanism}) guarantees {value}, {relation}."

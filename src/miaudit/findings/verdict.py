"""The verdict: every limit of the policy, and what was measured against it."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal, Protocol

from miaudit.arrays import Inside, Share, Text
from miaudit.findings.kind import Pattern
from miaudit.metrics.definition import BUILT_IN, METRICS
from miaudit.metrics.surest_members import SurestMembers

Status = Literal["flagged", "clear", "inconclusive", "not-testable", "refused"]
Outcome = Literal["exceeded", "within", "open", "silent"]


@dataclass(frozen=True)
class _Metric(Pattern):
    """Marks the name of a metric: one that follows the pattern, or one that an installed package defines."""

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> Any:
        """Return what pydantic checks such a name by."""
        from pydantic_core import core_schema

        named = super().__get_pydantic_core_schema__(source, handler)
        return core_schema.no_info_wrap_validator_function(_defined, named)


def _defined(name: Any, follows: Callable[[Any], str]) -> str:
    return name if isinstance(name, str) and name in METRICS else follows(name)


_METRIC = "|".join([*BUILT_IN, "tpr_at_fpr_[0-9][0-9.e+-]*"])
MetricName = Annotated[str, _Metric(f"^({_METRIC})$")]
LimitName = Annotated[str, _Metric(f"^({_METRIC}|epsilon|mu|surest_members|copies|extraction|used|secret: .+)$")]
LEVEL_NAMES = ("low", "moderate", "elevated", "material")
_EXIT_CODES: dict[str, int] = {"clear": 0, "flagged": 3, "inconclusive": 4, "not-testable": 4, "refused": 4}
CONCERN, WITHIN, NOT_ANSWERED = "Concern", "Within the limits", "Not answered"
_REASONS = {"not-testable": "not testable"}
TURN = (
    "if they are losses, --signal loss (signal: loss in a configuration file) turns them; any other score is turned by "
    "its sign"
)
NOT_CAUSAL = (
    "Members and non-members were not assigned at random (zero-run), so raw numbers mix memorisation with the "
    "difference between the two populations."
)
CONDITIONS: dict[str | None, str] = {
    "zero-run": "if the covariates account for how members and non-members differ",
    "given": "if the given propensities account for how members and non-members differ",
}
NOT_DECLARED = "It is not declared how membership was decided."
DECLARE = (
    "Declare it: --design one-run or multi-run if inclusion was decided at random, --design zero-run if it was not "
    "(design: in a configuration file)."
)


def code_of(status: str) -> int | None:
    """Return the exit code of a verdict with this status; None for a status that does not exist."""
    return _EXIT_CODES.get(status)


def word_of(status: str, reason: str | None = None) -> str:
    """Return the word that people read for a status, and why there is no answer where there is none.

    Examples
    --------
    >>> word_of("clear"), word_of("not-testable"), word_of("not-testable", "undeclared")
    ('Within the limits', 'Not answered (not testable)', 'Not answered (undeclared)')
    """
    if status in ("flagged", "clear"):
        return CONCERN if status == "flagged" else WITHIN
    return f"{NOT_ANSWERED} ({reason or _REASONS.get(status, status)})"


@dataclass(frozen=True)
class LimitResult:
    """One limit of the policy, and what one score shows of it.

    Attributes
    ----------
    limit : name of the limit
    score : name of the score that was measured; of ``epsilon`` and ``mu``, of all that count
    low : lower confidence limit that was compared, after the correction for the number of limits and scores; of
        ``surest_members`` the members on the list; None where there is none
    high : upper confidence limit at the confidence of the audit; of ``surest_members`` the length of the list
    threshold : the limit itself
    p : of "the limit is not exceeded", one-sided, before any correction
    outcome : "exceeded" (the lower limit lies above), "within" (the upper limit lies below) or "open"; of
        ``surest_members`` "silent" where the list is not shown to be more right: that clears nothing
    resolved : whether so many records can exceed the limit at all; else the upper limit alone counts
    level : one-sided, of the lower limit; None where it is not that of a metric
    of : what a list of ``surest_members`` holds: "records", or "pairs" of a true string and a decoy (design "matched")
    """

    limit: LimitName
    score: str
    low: float | None
    high: float | None
    threshold: float
    p: Share | None
    outcome: Outcome
    resolved: bool = True
    level: Share | None = None
    of: Literal["records", "pairs"] = "records"

    @classmethod
    def of_list(cls, found: SurestMembers, *, score: str | None = None) -> LimitResult:
        """Return what the list of the surest members shows; ``score`` in the place of its name."""
        name, outcome = found.score if score is None else score, "exceeded" if found.exceeded else "silent"
        counts = float(found.members), float(found.listed)
        return cls("surest_members", name, *counts, found.sure, found.p, outcome, of=found.of)  # type: ignore[arg-type]


class Conclusion:
    """What the verdicts of all kinds have in common: an exit code, and limits that are exceeded or open."""

    status: str
    limits: tuple[LimitResult, ...]

    @property
    def exit_code(self) -> int:
        """0 within the limits, 3 concern, 4 not answered."""
        return _EXIT_CODES[self.status]

    @property
    def exceeded(self) -> tuple[LimitResult, ...]:
        """The limits that are exceeded."""
        return tuple(one for one in self.limits if one.outcome == "exceeded")

    @property
    def unresolved(self) -> tuple[LimitResult, ...]:
        """The limits that are open, or that so few records cannot show to be exceeded."""
        return tuple(one for one in self.limits if one.outcome == "open" or not one.resolved)


@dataclass(frozen=True)
class Verdict(Conclusion):
    """What an audit concludes.

    Attributes
    ----------
    status : "flagged", "clear", "inconclusive", "not-testable" or "refused"
    reason : "undeclared" where it is not declared how membership was decided, else None
    metric : name of the limit that the text leads with
    threshold : that limit
    low, high : confidence limits that were compared with it
    confidence : of two-sided intervals
    level : the wording that the limits support (erratum C5); empty for limits other than a TPR at a low FPR
    condition : what the verdict assumes without a declaration; empty if nothing
    exploratory : whether the score was chosen on the same data without correction
    text : the verdict as a sentence or more
    stated : whether they are limits of this audit; else they are the default limits
    limits : every limit and score that counts; empty without an answer
    proven : what is proven all the same where no limit is exceeded, in sentences
    not_excluded : what a verdict within the limits does not exclude, as a sentence
    """

    status: Status
    reason: Literal["undeclared"] | None
    metric: LimitName
    threshold: float
    low: float | None
    high: float | None
    confidence: Inside
    level: str
    condition: str
    exploratory: bool
    text: Text
    stated: bool = True
    limits: tuple[LimitResult, ...] = ()
    proven: str = ""
    not_excluded: str = ""

    @property
    def word(self) -> str:
        """What people read: Concern, Within the limits, or Not answered with the reason."""
        return word_of(self.status, self.reason)

    @property
    def tone(self) -> str:
        """How its box looks: as the status, but "warned" within limits that hold on a condition, or beside a leak.

        No data can show that covariates account for all that sets members and non-members apart.
        """
        return "warned" if self.status == "clear" and (self.proven or self.condition) else self.status

    @property
    def even_so(self) -> tuple[str, ...]:
        """What goes with the text wherever a verdict is printed: what is proven even so, and what is not excluded."""
        proven = f"Proven even so: {self.proven}" if self.proven else ""
        return tuple(text for text in (proven, self.not_excluded) if text)

    def beside(self, proven: str, not_excluded: str = "") -> Verdict:
        """Add what is proven all the same, and what is not excluded, where the verdict alone would hide it."""
        if self.status not in ("clear", "inconclusive"):
            return self
        return replace(self, proven=proven, not_excluded=not_excluded if self.status == "clear" else "")


class Measured(Protocol):
    """A metric of a score, as much of it as a verdict needs: a value, if it has one, and confidence limits."""

    @property
    def value(self) -> float | None:
        """The metric; None where it is not resolved."""

    @property
    def low(self) -> float | None:
        """Lower confidence limit; None if there is none."""

    @property
    def high(self) -> float | None:
        """Upper confidence limit; None if there is none."""


def limits(measured: Measured) -> tuple[float, float]:
    """Return the confidence limits of a metric, infinite where it has none."""
    low, high = measured.low, measured.high
    return -math.inf if low is None else low, math.inf if high is None else high


def no_answer(
    status: Literal["not-testable", "refused"],
    reason: str,
    *,
    metric: str,
    threshold: float,
    confidence: float,
    stated: bool = True,
) -> Verdict:
    """Return the verdict of an audit that the evidence does not allow; the reason is its text."""
    text = f"{word_of(status)}: {reason}"
    return Verdict(status, None, metric, threshold, None, None, confidence, "", "", False, text, stated)


def undeclared(would_be: Verdict, declare: str = DECLARE) -> Verdict:
    """Return the verdict on evidence whose design was not declared: not answered, and what the answer would be.

    Parameters
    ----------
    would_be : what :func:`miaudit.findings.judge.judge` says as if membership was decided at random
    declare : how it is declared, as a sentence
    """
    word = word_of("not-testable", "undeclared")
    if would_be.status == "not-testable":
        why = would_be.text.removeprefix(f"{would_be.word}: ")
        text = f"{word}: {why} Nor did anybody declare how membership was decided. {declare}"
    else:
        sentence = f"If membership was decided at random, the verdict would be: {would_be.text}"
        text = f"{word}: {NOT_DECLARED} {declare} {sentence}"
    hidden: dict[str, Any] = {"low": None, "high": None, "level": "", "condition": "", "limits": ()}
    return replace(would_be, status="not-testable", reason="undeclared", text=text, **hidden)

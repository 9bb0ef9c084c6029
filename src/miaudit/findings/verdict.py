"""The verdict: one metric against one threshold, in words that never say more than the interval does."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal, Protocol

from miaudit.arrays import Inside, Text
from miaudit.findings.kind import Pattern
from miaudit.metrics.definition import METRICS, amount, beyond, describe, of, percent

Status = Literal["flagged", "clear", "inconclusive", "not-testable", "refused"]


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


MetricName = Annotated[str, _Metric("^(auc|advantage|balanced_accuracy|ate|tpr_at_fpr_[0-9][0-9.e+-]*)$")]
LEVEL_NAMES = ("low", "moderate", "elevated", "material")
_EXIT_CODES: dict[str, int] = {"clear": 0, "flagged": 3, "inconclusive": 4, "not-testable": 4, "refused": 4}
TURN = (
    "if they are losses, --signal loss (signal: loss in a configuration file, signal= in Python) turns them; any other "
    "score is turned by its sign"
)
NOT_CAUSAL = (
    "No answer: members and non-members were not assigned at random (zero-run), so raw numbers mix memorisation with "
    "the difference between the two populations."
)
CONDITIONS: dict[str | None, str] = {
    "zero-run": "if the covariates account for how members and non-members differ",
}
NOT_DECLARED = "No answer: nobody declared how membership came about."
DECLARE = (
    "Declare it: --design one-run or multi-run if inclusion was decided at random, --design zero-run if it was not "
    "(design: in a configuration file, design= in Python)."
)


def code_of(status: str) -> int | None:
    """Return the exit code of a verdict with this status; None for a status that none has."""
    return _EXIT_CODES.get(status)


@dataclass(frozen=True)
class Verdict:
    """What an audit concludes.

    Attributes
    ----------
    status : "flagged", "clear", "inconclusive", "not-testable" or "refused"
    metric : name of the primary metric
    threshold : for concern
    low, high : confidence limits of the metric, for the score that the verdict is about
    confidence : of the interval
    level : the wording that the limits support (erratum C5); empty for metrics other than a TPR
    condition : what the verdict assumes and nobody declared; empty if nothing
    exploratory : whether the score was chosen on the same data without correction
    text : the verdict as a sentence
    besides : what else lies above chance, where the verdict raises no concern
    """

    status: Status
    metric: MetricName
    threshold: float
    low: float | None
    high: float | None
    confidence: Inside
    level: str
    condition: str
    exploratory: bool
    text: Text
    besides: str = ""

    @property
    def exit_code(self) -> int:
        """0 no concern, 3 concern, 4 no answer."""
        return _EXIT_CODES[self.status]

    def beside(self, above: str) -> Verdict:
        """Name what else lies above chance, in words, where the verdict alone would hide it."""
        if not above or self.status not in ("clear", "inconclusive"):
            return self
        return replace(self, besides=f"The verdict is about one metric and its threshold. Above chance: {above}.")


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


def judge(
    measured: Mapping[str, Mapping[str, Measured]],
    *,
    metric: str,
    threshold: float,
    confidence: float,
    levels: tuple[float, float, float],
    condition: str = "",
    exploratory: bool = False,
    turn: str = TURN,
) -> Verdict:
    """Compare the primary metric of each score that counts with the threshold.

    ``measured`` holds of each score its metrics by name: the primary one, and the AUC, corrected where that is.
    Flagged when the lower limit of one exceeds the threshold; clear when the upper limits of all are below it;
    otherwise inconclusive. The limits must already hold for all scores together. Below its resolution a metric never
    flags. Unless one is flagged, a score whose AUC is shown to be below one half leaves nothing to test: turned round
    it is an attack that was not measured. ``turn`` then says how it is turned.

    Examples
    --------
    >>> from miaudit.metrics.classical import Estimate
    >>> found = {"tpr_at_fpr_0.01": Estimate(0.1, 0.08, 0.12, 0.95), "auc": Estimate(0.7, 0.6, 0.8, 0.95)}
    >>> verdict = judge({"loss": found}, metric="tpr_at_fpr_0.01", threshold=0.06, confidence=0.95,
    ...                 levels=(0.02, 0.05, 0.1))
    >>> verdict.status, verdict.level, verdict.exit_code
    ('flagged', 'at least elevated', 3)
    """
    primary = [found[metric] for found in measured.values()]
    loudest = max(primary, key=lambda m: (-1.0 if m.value is None else limits(m)[0], limits(m)[1]))
    widest = max(primary, key=lambda m: limits(m)[1])
    inverted = list(_inverted(measured, metric))
    status: Status
    if loudest.value is not None and limits(loudest)[0] > threshold:
        status, about = "flagged", loudest
    elif inverted:
        reason = _inverted_sentence(inverted, confidence, turn)
        none = no_answer("not-testable", reason, metric=metric, threshold=threshold, confidence=confidence)
        return replace(none, exploratory=exploratory)
    elif limits(widest)[1] < threshold:
        status, about = "clear", widest
    else:
        status, about = "inconclusive", widest
    low, high = limits(about)
    return Verdict(
        status=status,
        metric=metric,
        threshold=threshold,
        low=low,
        high=high,
        confidence=confidence,
        level=_level(status, low, high, levels) if of(metric).has_levels else "",
        condition=condition,
        exploratory=exploratory,
        text=_sentence(status, about, metric, threshold, confidence, condition, exploratory),
    )


def no_answer(
    status: Literal["not-testable", "refused"], reason: str, *, metric: str, threshold: float, confidence: float
) -> Verdict:
    """Return the verdict of an audit that the evidence does not allow; the reason is its text."""
    return Verdict(status, metric, threshold, None, None, confidence, "", "", False, reason)


def undeclared(would_be: Verdict, declare: str = DECLARE) -> Verdict:
    """Return the verdict on evidence whose design nobody declared: no answer, and what the answer would be.

    Parameters
    ----------
    would_be : what :func:`judge` says as if membership was randomised
    declare : how it is declared, as a sentence
    """
    if would_be.status == "not-testable":
        text = f"{would_be.text} Nor did anybody declare how membership came about. {declare}"
    else:
        said = f"If membership was randomised it would be: {would_be.text}"
        text = f"{NOT_DECLARED} {declare} {said}"
    return replace(would_be, status="not-testable", low=None, high=None, level="", condition="", text=text)


def _level(status: Status, low: float, high: float, levels: tuple[float, float, float]) -> str:
    def name(rate: float) -> str:
        return LEVEL_NAMES[sum(rate >= level for level in levels)]

    if status == "flagged":
        return f"at least {name(low)}" if name(low) != "material" else "material"
    if status == "clear":
        return f"at most {name(high)}" if name(high) != "low" else "low"
    return name(low) if name(low) == name(high) else f"anything from {name(low)} to {name(high)}"


def _sentence(
    status: Status, about: Measured, metric: str, threshold: float, confidence: float, condition: str, exploratory: bool
) -> str:
    what, sure = describe(metric), f"{percent(confidence)} confidence"
    bottom, top = limits(about)
    limit, high = amount(metric, threshold), amount(metric, top, "up")
    if status == "flagged":
        low = beyond(metric, bottom, threshold, "down")
        text = f"Concern: with {sure}, {what} is at least {low}, above the threshold of {limit}."
    elif status == "clear":
        high = beyond(metric, top, threshold, "up")
        text = (
            f"No concern at this threshold: with {sure}, {what} is at most {high}, below the threshold of {limit}. "
            "Leakage below that limit, or to a stronger attack, was not looked for."
        )
    elif about.value is not None:
        text = (
            f"Inconclusive: with {sure}, {what} lies between {amount(metric, bottom, 'down')} and {high}; the "
            f"threshold of {limit} is in between."
        )
    else:
        text = (
            f"Inconclusive: there are too few non-members to measure {what}; "
            f"it can only be said to be at most {high} ({sure}), and the threshold is {limit}."
        )
    if condition:
        text = f"{text} This holds {condition}."
    return f"Exploratory, not evidence: {text}" if exploratory else text


def _inverted(measured: Mapping[str, Mapping[str, Measured]], metric: str) -> Iterator[str]:
    """Yield of each score that is shown to point the wrong way, lower for members, how it shows."""
    for score, found in measured.items():
        auc_high, high = (limits(found[name])[1] for name in ("auc", metric))
        if auc_high < 0.5:
            yield f"the AUC of {score} is at most {amount('auc', auc_high, 'up')}"
        elif not of(metric).bounded and high < (of(metric).chance or 0):
            what = describe(metric).partition(" (")[0].replace("the score", score)
            yield f"{what} is at most {amount(metric, high, 'up')}"


def _inverted_sentence(inverted: list[str], confidence: float, turn: str) -> str:
    said = ", ".join(inverted)
    return (
        f"No answer: scores point the wrong way (with {percent(confidence)} confidence {said}); {turn}. Scores must be "
        "higher for members: where they are lower, an attacker turns them round, and that attack was not measured. "
        f"(Of scores that say nothing, {percent((1 - confidence) / 2)} look so by chance.)"
    )

"""The verdict: one metric against one threshold, in words that never say more than the interval does."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from miaudit.wording import amount, describe, percent

Status = Literal["flagged", "clear", "inconclusive", "not-testable", "refused"]
LEVEL_NAMES = ("low", "moderate", "elevated", "material")
_EXIT_CODES: dict[Status, int] = {"clear": 0, "flagged": 3, "inconclusive": 4, "not-testable": 4, "refused": 4}


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
    metric: str
    threshold: float
    low: float | None
    high: float | None
    confidence: float
    level: str
    condition: str
    exploratory: bool
    text: str
    besides: str = ""

    @property
    def exit_code(self) -> int:
        """0 no concern, 3 concern, 4 no answer."""
        return _EXIT_CODES[self.status]


@dataclass(frozen=True)
class Measured:
    """The primary metric of one score, as much of it as a verdict needs."""

    score: str
    low: float
    high: float
    resolved: bool


def default_threshold(metric: str) -> float:
    """Return the threshold for concern where none was set: 5% of the members up to an FPR of 1%, as in threshold-post.

    At larger FPRs, and for the other metrics, it is five points above what a coin achieves.

    Examples
    --------
    >>> default_threshold("tpr_at_fpr_0.01"), default_threshold("auc"), default_threshold("balanced_accuracy")
    (0.05, 0.55, 0.525)
    """
    if metric.startswith("tpr_at_fpr_"):
        fpr = float(metric.removeprefix("tpr_at_fpr_"))
        return 0.05 if fpr <= 0.01 else min(round(fpr + 0.05, 12), 1.0)
    return {"auc": 0.55, "advantage": 0.05, "balanced_accuracy": 0.525}[metric]


def judge(
    measured: list[Measured],
    *,
    metric: str,
    threshold: float,
    confidence: float,
    levels: tuple[float, float, float],
    condition: str = "",
    exploratory: bool = False,
) -> Verdict:
    """Compare the primary metric of each score that counts with the threshold.

    Flagged when the lower limit of one exceeds the threshold; clear when the upper limits of all are below it;
    otherwise inconclusive. The limits must already hold for all scores together. Below its resolution a metric never
    flags.

    Examples
    --------
    >>> verdict = judge([Measured("loss", 0.08, 0.12, True)], metric="tpr_at_fpr_0.01", threshold=0.06,
    ...                 confidence=0.95, levels=(0.02, 0.05, 0.1))
    >>> verdict.status, verdict.level, verdict.exit_code
    ('flagged', 'at least elevated', 3)
    """
    loudest = max(measured, key=lambda m: (m.low if m.resolved else -1.0, m.high))
    widest = max(measured, key=lambda m: m.high)
    status: Status
    if loudest.resolved and loudest.low > threshold:
        status, about = "flagged", loudest
    elif widest.high < threshold:
        status, about = "clear", widest
    else:
        status, about = "inconclusive", widest
    return Verdict(
        status=status,
        metric=metric,
        threshold=threshold,
        low=about.low,
        high=about.high,
        confidence=confidence,
        level=_level(status, about, levels) if metric.startswith("tpr_at_fpr_") else "",
        condition=condition,
        exploratory=exploratory,
        text=_sentence(status, about, metric, threshold, confidence, condition, exploratory),
    )


def no_answer(
    status: Literal["not-testable", "refused"], reason: str, *, metric: str, threshold: float, confidence: float
) -> Verdict:
    """Return the verdict of an audit that the evidence does not allow; the reason is its text."""
    return Verdict(status, metric, threshold, None, None, confidence, "", "", False, reason)


def _level(status: Status, about: Measured, levels: tuple[float, float, float]) -> str:
    def name(rate: float) -> str:
        return LEVEL_NAMES[sum(rate >= level for level in levels)]

    if status == "flagged":
        return f"at least {name(about.low)}" if name(about.low) != "material" else "material"
    if status == "clear":
        return f"at most {name(about.high)}" if name(about.high) != "low" else "low"
    low, high = name(about.low), name(about.high)
    return low if low == high else f"anything from {low} to {high}"


def _sentence(
    status: Status, about: Measured, metric: str, threshold: float, confidence: float, condition: str, exploratory: bool
) -> str:
    what, sure = describe(metric), f"{percent(confidence)} confidence"
    low, high, limit = (amount(metric, x) for x in (about.low, about.high, threshold))
    if status == "flagged":
        text = f"Concern: with {sure}, {what} is at least {low}, above the threshold of {limit}."
    elif status == "clear":
        text = (
            f"No concern at this threshold: with {sure}, {what} is at most {high}, below the threshold of {limit}. "
            "Leakage below that limit, or to a stronger attack, was not looked for."
        )
    elif about.resolved:
        text = (
            f"Inconclusive: with {sure}, {what} lies between {low} and {high}; the threshold of {limit} is in between."
        )
    else:
        text = (
            f"Inconclusive: there are too few non-members to measure {what}; "
            f"it can only be said to be at most {high} ({sure}), and the threshold is {limit}."
        )
    if condition:
        text = f"{text} This holds {condition}."
    return f"Exploratory, not evidence: {text}" if exploratory else text

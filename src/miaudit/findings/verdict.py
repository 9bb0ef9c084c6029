"""The verdict: one metric against one threshold, in words that never say more than the interval does."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal

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
_EXIT_CODES: dict[Status, int] = {"clear": 0, "flagged": 3, "inconclusive": 4, "not-testable": 4, "refused": 4}
TURN = (
    "if they are losses, --signal loss (signal: loss in a configuration file) turns them; any other score is turned by "
    "its sign"
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
    "(design: in a configuration file)."
)


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


@dataclass(frozen=True)
class Measured:
    """The primary metric of one score, as much of it as a verdict needs.

    Attributes
    ----------
    score : its name
    low, high : confidence limits of the primary metric
    resolved : whether it has a value
    auc_high : upper limit of the AUC, at the same confidence and corrected where the primary metric is
    """

    score: str
    low: float
    high: float
    resolved: bool
    auc_high: float = 1.0

    def is_inverted(self, metric: str) -> bool:
        """Whether the score is shown to point the wrong way: lower for members."""
        return self.auc_high < 0.5 or (not of(metric).bounded and self.high < (of(metric).chance or 0))


def judge(
    measured: list[Measured],
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

    Flagged when the lower limit of one exceeds the threshold; clear when the upper limits of all are below it;
    otherwise inconclusive. The limits must already hold for all scores together. Below its resolution a metric never
    flags. Unless one is flagged, a score whose AUC is shown to be below one half leaves nothing to test: turned round
    it is an attack that was not measured. ``turn`` then says how it is turned.

    Examples
    --------
    >>> verdict = judge([Measured("loss", 0.08, 0.12, True)], metric="tpr_at_fpr_0.01", threshold=0.06,
    ...                 confidence=0.95, levels=(0.02, 0.05, 0.1))
    >>> verdict.status, verdict.level, verdict.exit_code
    ('flagged', 'at least elevated', 3)
    """
    loudest = max(measured, key=lambda m: (m.low if m.resolved else -1.0, m.high))
    widest = max(measured, key=lambda m: m.high)
    inverted = [m for m in measured if m.is_inverted(metric)]
    status: Status
    if loudest.resolved and loudest.low > threshold:
        status, about = "flagged", loudest
    elif inverted:
        reason = _inverted_sentence(inverted, metric, confidence, turn)
        none = no_answer("not-testable", reason, metric=metric, threshold=threshold, confidence=confidence)
        return replace(none, exploratory=exploratory)
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
        level=_level(status, about, levels) if of(metric).has_levels else "",
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
    limit, high = amount(metric, threshold), amount(metric, about.high, "up")
    if status == "flagged":
        low = beyond(metric, about.low, threshold, "down")
        text = f"Concern: with {sure}, {what} is at least {low}, above the threshold of {limit}."
    elif status == "clear":
        high = beyond(metric, about.high, threshold, "up")
        text = (
            f"No concern at this threshold: with {sure}, {what} is at most {high}, below the threshold of {limit}. "
            "Leakage below that limit, or to a stronger attack, was not looked for."
        )
    elif about.resolved:
        text = (
            f"Inconclusive: with {sure}, {what} lies between {amount(metric, about.low, 'down')} and {high}; the "
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


def _inverted_sentence(inverted: list[Measured], metric: str, confidence: float, turn: str) -> str:
    def shown(m: Measured) -> str:
        if m.auc_high < 0.5:
            return f"the AUC of {m.score} is at most {amount('auc', m.auc_high, 'up')}"
        what = describe(metric).partition(" (")[0].replace("the score", m.score)
        return f"{what} is at most {amount(metric, m.high, 'up')}"

    said = ", ".join(map(shown, inverted))
    return (
        f"No answer: scores point the wrong way (with {percent(confidence)} confidence {said}); {turn}. Scores must be "
        "higher for members: where they are lower, an attacker turns them round, and that attack was not measured. "
        f"(Of scores that say nothing, {percent((1 - confidence) / 2)} look so by chance.)"
    )

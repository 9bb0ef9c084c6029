"""A metric of the findings: one number with its interval, and the one of several that counts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Annotated

from annotated_types import Gt

from miaudit.arrays import Inside, Positive, Share
from miaudit.findings.kind import Entries, Pattern, Rule
from miaudit.findings.verdict import MetricName
from miaudit.metrics import definition
from miaudit.metrics.definition import amount, between
from miaudit.metrics.rounding import written

__all__ = ["WITHHELD", "Measured", "Metric", "foremost", "named"]

WITHHELD = "withheld: "
_BOOTSTRAP = Entries({"low": float | None, "high": float | None, "replicates": Positive})
_PRECISION = Entries({"prior": Inside, **dict.fromkeys(("value", "low", "high"), Share | None)})


@dataclass(frozen=True)
class Metric:
    """One number of the findings, with its interval.

    Attributes
    ----------
    name : ``auc``, ``tpr_at_fpr_0.001``, ``advantage``, ``balanced_accuracy`` or ``ate``
    estimator : ``raw`` for the classical estimate
    value : None where only an upper limit can be given, or where the metric is withheld
    low, high : confidence limits; None where there is none
    confidence : of the interval
    note : what must be said with it
    step_value : of a TPR, without a randomised threshold inside tie blocks
    bootstrap : limits and number of replicates of the stratified bootstrap, where it was asked for
    precision : of a TPR, precision of an accusation at the stated prior: value, low, high
    standard_error : of the value, on its own scale, to pool audits by; None where there is none
    """

    name: MetricName
    estimator: Annotated[str, Pattern("^(raw|hajek|horvitz-thompson|g|aipw|tilted)$")]
    value: float | None
    low: float | None
    high: float | None
    confidence: Inside
    note: str = ""
    step_value: Share | None = None
    bootstrap: Annotated[Mapping[str, float], _BOOTSTRAP] | None = None
    precision: Annotated[Mapping[str, float | None], _PRECISION] | None = None
    standard_error: Annotated[float, Gt(0)] | None = None

    @property
    def withheld(self) -> bool:
        """Whether it must not be judged, for the reason in the note."""
        return self.value is None and self.low is None and self.high is None and self.note.startswith(WITHHELD)

    @property
    def interval(self) -> str:
        """The interval in words, or the upper limit alone where there is no value.

        Examples
        --------
        >>> Metric("auc", "raw", 0.75, 0.7, 0.8, 0.95).interval
        '0.700 to 0.800'
        """
        if self.withheld:
            return "withheld"
        if self.value is None:
            return "not resolved" if self.high is None else f"at most {amount(self.name, self.high, 'up')}"
        if self.low is None or self.high is None:
            return "no interval"
        return between(self.name, self.low, self.high)

    @property
    def reading(self) -> str:
        """The value with its interval in words; an unresolved one as an upper limit, never a value."""
        return self.interval if self.value is None else f"{amount(self.name, self.value)} ({self.interval})"

    def __str__(self) -> str:
        """Name, value, limits and confidence, in a line.

        Examples
        --------
        >>> print(Metric("auc", "raw", 0.75, 0.7, 0.8, 0.95))
        auc 0.75 [0.7, 0.8], 95% confidence
        """
        sentence = self.interval if self.value is None else f"{self.value:.4g}"
        if self.value is not None and self.low is not None and self.high is not None:
            sentence += f" [{written(self.low, '.4g', 'down')}, {written(self.high, '.4g', 'up')}]"
        return f"{self.name} {sentence}, {100 * self.confidence:.6g}% confidence"


def _share_or_effect(metric: Metric) -> Metric:
    numbers = (metric.value, metric.low, metric.high)
    if definition.of(metric.name).bounded and any(x is not None and not 0 <= x <= 1 for x in numbers):
        raise ValueError("value and limits should be between 0 and 1")
    return metric


Measured = Annotated[Metric, Rule(_share_or_effect)]


def foremost(metrics: Iterable[Metric]) -> list[Metric]:
    """Return one metric of each name: of the corrected ones where there are any, else of the raw ones."""
    metrics = list(metrics)
    corrected = [metric for metric in metrics if metric.estimator != "raw"] or metrics
    return list({metric.name: metric for metric in reversed(corrected)}.values())[::-1]


def named(metrics: Iterable[Metric], name: str) -> Metric | None:
    """Return the metric of that name, a raw one only where nothing was corrected, or None."""
    return next((metric for metric in foremost(metrics) if metric.name == name), None)

"""Metrics and their numbers in words, the same on the page, in the verdict and on the terminal."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_TPR = "tpr_at_fpr_"


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


def percent(rate: float) -> str:
    """Write a rate as a percentage with three significant digits.

    Examples
    --------
    >>> percent(0.001), percent(0.1234567), percent(0.99996)
    ('0.1%', '12.3%', '99.996%')
    """
    digits = f"{100 * rate:.3g}"
    if digits == "100" and rate < 1:
        digits = f"{100 * rate:.6g}"
    return digits + "%"


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


def amount(metric: str, value: float | None) -> str:
    """Write a value of a metric: rates as percentages, the rest with three or four digits.

    Examples
    --------
    >>> amount("tpr_at_fpr_0.01", 0.0912), amount("auc", 0.86984), amount("ate", None)
    ('9.12%', '0.870', '–')
    """
    if value is None:
        return "–"
    if metric.startswith(_TPR):
        return percent(value)
    if metric == "ate":
        return f"{value:.4g}"
    # Three decimals, and never 1.000 for less than one.
    return f"{value:.3f}" if not 0.9995 <= value < 1 else f"{value:.6f}"


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
        return "not resolved" if high is None else f"at most {amount(name, high)}"
    if low is None or high is None:
        return "no interval"
    return f"{amount(name, low)} to {amount(name, high)}"


def reading(metric: Mapping[str, Any]) -> str:
    """Write a metric's value with its interval; an unresolved one as an upper limit, never a value."""
    if metric["value"] is None:
        return interval(metric)
    return f"{amount(metric['name'], metric['value'])} ({interval(metric)})"

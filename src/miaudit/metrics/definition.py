"""What each metric is: its name, its chance level, how it is estimated, and how a reader is told of it.

Everything that knows metrics by name reads these records. All of them grow with what an attack reveals: the verdict
raises a concern where a lower limit lies above a threshold. :data:`METRICS` has those of one name; TPR at an FPR is a
family, with one metric for each rate.

In words an estimate is rounded to the nearest number; a limit outward, so that what is printed still holds: a lower one
down, an upper one up. All of it goes through :func:`written`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import Literal

from miaudit.arrays import FloatArray
from miaudit.errors import share
from miaudit.errors.entry_points import Offered
from miaudit.metrics.classical import Estimate, Sample, tpr_name
from miaudit.metrics.rounding import Rounding, percent, written

_TPR = "tpr_at_fpr_"
_LARGEST_FPR_OF_LEVELS = 0.01
_FINEST = (3, 6, 9, 15)  # digits to try until a limit reads otherwise than the threshold beyond which it lies


@dataclass(frozen=True)
class Definition:
    """A metric.

    Attributes
    ----------
    name : in plans and findings
    label : in tables and charts
    description : what it measures, in words that follow "with 95% confidence, ..."
    estimate : function of a :class:`~miaudit.metrics.classical.Sample` and of ``confidence`` (by keyword)
    chance : its value for an attack that knows nothing; None if there is no such value
    threshold : for concern, where none is set; infinite where the plan has to set one
    form : how it is written: a "percent" or "decimals" of a number in [0, 1], or "digits" of one in units of the score
    causal : function of evidence, propensity, ``method``, ``outcome``, ``confidence`` and ``rng``, as those of
        :mod:`miaudit.causal.effects`, which has the metrics that are built in; None: not for zero-run evidence
    outcome_model : whether its causal estimate may use the plan's estimator; else it has Hajek weights
    fpr : of a TPR at an FPR
    influence : function of a :class:`~miaudit.metrics.classical.Sample`, the influence (n,) of each record on the
        estimate; None where it is not known: two audits that share records are then compared by wide limits
    """

    name: str
    label: str
    description: str
    estimate: Callable[..., Estimate]
    chance: float | None = None
    threshold: float = math.inf
    form: Literal["percent", "decimals", "digits"] = "decimals"
    causal: Callable[..., Estimate] | None = None
    outcome_model: bool = False
    fpr: float | None = None
    influence: Callable[[Sample], FloatArray] | None = None

    @property
    def bounded(self) -> bool:
        """Whether it lies in [0, 1]."""
        return self.form != "digits"

    @property
    def has_levels(self) -> bool:
        """Whether the reading levels are about it: a TPR at an FPR of at most 1%.

        The levels (2%, 5%, 10% of the members) are of the region where chance finds almost no member. At an FPR of 10%
        a coin finds 10% of the members, which the levels would call material; taking chance off first would leave a
        number for which no levels are set. So above 1% there are none.
        """
        return self.fpr is not None and self.fpr <= _LARGEST_FPR_OF_LEVELS


_AUC = Definition(
    "auc",
    "AUC",
    "the area under the ROC curve (0.5 is chance)",
    Sample.auc,
    0.5,
    0.55,
    outcome_model=True,
    influence=Sample.influence_on_auc,
)
_ADVANTAGE = Definition(
    "advantage", "Advantage, largest TPR − FPR", "the largest TPR - FPR (0 is chance)", Sample.advantage, 0.0, 0.05
)
_BALANCED_ACCURACY = Definition(
    "balanced_accuracy",
    "Balanced accuracy",
    "the balanced accuracy at the best threshold (0.5 is chance)",
    Sample.balanced_accuracy,
    0.5,
    0.525,
)
_ATE = Definition(
    "ate",
    "Average effect on the score",
    "the average effect of membership on the score (0 is none)",
    Sample.difference,
    0.0,
    form="digits",
    outcome_model=True,
    influence=Sample.influence_on_difference,
)
BUILT_IN = {metric.name: metric for metric in (_AUC, _ADVANTAGE, _BALANCED_ACCURACY, _ATE)}
METRICS = Offered("miaudit.metrics", Definition, BUILT_IN)


def tpr_at_fpr(fpr: float) -> Definition:
    """Define the TPR at an FPR: its threshold is 5% of the members up to 1%, as in threshold-post, then FPR + 5%.

    Examples
    --------
    >>> metric = tpr_at_fpr(0.1)
    >>> metric.name, metric.label, metric.threshold, metric.has_levels, of("auc").threshold
    ('tpr_at_fpr_0.1', 'TPR at 10% FPR', 0.15, False, 0.55)
    """
    return Definition(
        tpr_name(fpr),
        f"TPR at {percent(fpr)} FPR",
        f"the share of members found at a false-positive rate of {percent(fpr)}",
        partial(Sample.tpr_at_fpr, fpr=fpr),
        fpr,
        0.05 if fpr <= _LARGEST_FPR_OF_LEVELS else min(round(fpr + 0.05, 12), 1.0),
        form="percent",
        fpr=fpr,
        influence=partial(Sample.influence_on_tpr, fpr=fpr),
    )


def of(name: str) -> Definition:
    """Return the metric of a name; of an undefined one, as old findings may have, only the name.

    Examples
    --------
    >>> of("auc").chance, of("tpr_at_fpr_0.010").name, of("tpr_at_fpr_1%").name, of("unheard-of").label
    (0.5, 'tpr_at_fpr_0.01', 'tpr_at_fpr_0.01', 'unheard-of')
    """
    if name.startswith(_TPR):
        try:
            return tpr_at_fpr(float(share.read(name.removeprefix(_TPR))))
        except ValueError:
            pass
    return METRICS[name] if name in METRICS else Definition(name, name, name, _undefined, form="digits")


def estimates(sample: Sample, names: Iterable[str], confidence: float) -> dict[str, Estimate]:
    """Estimate metrics with their intervals, by name; no resampling."""
    return {name: of(name).estimate(sample, confidence=confidence) for name in names}


def estimator(sample: Sample) -> Callable[[str, float], Estimate]:
    """Return the function that estimates a metric of a sample, by its name, at a two-sided confidence."""
    return lambda name, confidence: of(name).estimate(sample, confidence=confidence)


def names(fpr_targets: Iterable[float]) -> tuple[str, ...]:
    """Return the names of the metrics of every audit: ``tpr_at_fpr_...`` for each target, then those of one name."""
    return (*map(tpr_name, fpr_targets), *BUILT_IN)


def _undefined(sample: Sample, *, confidence: float) -> Estimate:
    raise LookupError(f"no definition to estimate this metric by, at {confidence} of {len(sample.score)} records")


# -- metrics in words --------------------------------------------------------------------------------------------------


def describe(metric: str) -> str:
    """Say what a metric measures: 'the share of members found at a false-positive rate of 0.1%'."""
    return of(metric).description


def label(metric: str) -> str:
    """Name a metric for a reader: 'TPR at 0.1% FPR'."""
    return of(metric).label


def chance(metric: str) -> float | None:
    """Return what a metric is for an attack that knows nothing, or None for a name that is not known."""
    return of(metric).chance


def amount(metric: str, value: float | None, rounding: Rounding = "nearest", digits: int = 3) -> str:
    """Write a value of a metric: rates as percentages, the rest with three or four digits.

    Parameters
    ----------
    metric : its name
    value : None where there is none
    rounding : "down" for a lower limit, "up" for an upper one
    digits : of a rate (significant) and of the rest (decimals)

    Examples
    --------
    >>> amount("tpr_at_fpr_0.01", 0.0912), amount("auc", 0.86984), amount("ate", None)
    ('9.12%', '0.870', '–')
    >>> amount("auc", 0.86984, "down"), amount("auc", 0.9999, "up")
    ('0.869', '0.999900')
    """
    if value is None:
        return "–"
    form = of(metric).form
    if form == "percent":
        return percent(value, rounding, digits)
    if form == "digits":
        return written(value, f".{digits + 1}g", rounding)
    text = written(value, f".{digits}f", rounding)
    # never 1.000 for less than one
    return written(value, f".{max(digits, 6)}f", rounding) if value < 1 and float(text) == 1 else text


def beyond(metric: str, limit: float, threshold: float, rounding: Rounding) -> str:
    """Write a limit with as many digits as it takes to read otherwise than the threshold beyond which it lies.

    Examples
    --------
    >>> beyond("auc", 0.5996, 0.6, "up"), beyond("auc", 0.56, 0.6, "up")
    ('0.599600', '0.560')
    """
    other = float(amount(metric, threshold).rstrip("%"))
    texts = [amount(metric, limit, rounding, digits) for digits in _FINEST]
    return next((text for text in texts if float(text.rstrip("%")) != other), texts[0])


def between(metric: str, low: float, high: float) -> str:
    """Write the limits of a metric, rounded outward.

    Examples
    --------
    >>> between("auc", 0.70089, 0.80011)
    '0.700 to 0.801'
    """
    return f"{amount(metric, low, 'down')} to {amount(metric, high, 'up')}"


# -- numbers in words --------------------------------------------------------------------------------------------------

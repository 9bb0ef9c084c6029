"""Which kinds of records leak, as findings: groups that covariates describe, and the line of the effect in them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from annotated_types import Interval

from miaudit.arrays import Count, Inside, NotNegative, Share, Text
from miaudit.metrics.definition import amount, between
from miaudit.metrics.rounding import written

__all__ = ["ByCovariates", "CovariateGroup", "CovariateSlope", "GroupDifference"]

Effect = Annotated[float, Interval(ge=-1, le=1)]


@dataclass(frozen=True)
class CovariateGroup:
    """Records of one kind, counted and measured on the half of the records that did not choose the groups.

    Attributes
    ----------
    group : the kind in words, such as "age above 63 and visits at most 3"
    members, nonmembers : of the measuring half
    value, low, high : AUC of its members against its own non-members, each score compared with what is expected of a
        non-member like the record; the limits hold for all groups together. None where there are too few records
    """

    group: Text
    members: Count
    nonmembers: Count
    value: Share | None
    low: Share | None
    high: Share | None

    @property
    def reading(self) -> str:
        """The AUC with its limits."""
        if self.value is None or self.low is None or self.high is None:
            return "too few records"
        return f"{amount('auc', self.value)} ({between('auc', self.low, self.high)})"


@dataclass(frozen=True)
class GroupDifference:
    """AUC of the first of two groups less that of the second.

    Attributes
    ----------
    first, second : groups in words, the one with the larger AUC first
    value, low, high : the difference with its limits
    visible : difference that would have been established in 4 of 5 audits of this size; None where nothing is known
        of it
    established : whether the limits exclude 0
    """

    first: Text
    second: Text
    value: float
    low: float
    high: float
    visible: NotNegative | None
    established: bool

    @property
    def reading(self) -> str:
        """The difference with its limits."""
        return _change(self.value, self.low, self.high, ".3f")


@dataclass(frozen=True)
class CovariateSlope:
    """How much the effect of membership on a record's percentile changes with one covariate, the others kept equal.

    Attributes
    ----------
    step : the covariate, and what the change is for
    value, low, high : change of the share of non-members like it that the record exceeds; the limits hold for all
        slopes together
    """

    step: Text
    value: float
    low: float
    high: float

    @property
    def reading(self) -> str:
        """The slope with its limits."""
        return _change(self.value, self.low, self.high, "+.3f")

    @property
    def established(self) -> bool:
        """Whether the limits exclude 0."""
        return self.low > 0 or self.high < 0


@dataclass(frozen=True)
class ByCovariates:
    """Which kinds of records leak more than others, by one score; this informs and never decides the verdict.

    Attributes
    ----------
    score : its name
    confidence : in (0, 1), of the limits of all groups together; and that neither the difference nor any slope is
        established where there is none
    groups : the one with the largest predicted effect first; empty where nothing was measured
    difference : of the two groups that the other half predicted to differ most; None where nothing was measured
    slopes : best linear predictor of the effect; empty where there is none
    learned, measured : records of the half that chose the groups, and of the half that measured them
    text : the same in words, or why nothing was measured
    notes : what was left out, in sentences
    """

    score: str
    confidence: Inside
    groups: tuple[CovariateGroup, ...]
    difference: GroupDifference | None
    slopes: tuple[CovariateSlope, ...]
    learned: Count
    measured: Count
    text: Text
    notes: tuple[str, ...] = ()


def _change(value: float, low: float, high: float, form: str) -> str:
    """Write a change of an AUC with its limits, rounded outward."""
    return f"{written(value, form)} ({written(low, form, 'down')} to {written(high, form, 'up')})"

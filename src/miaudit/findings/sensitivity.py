"""How strong an unmeasured trait would have to be to change what an audit of zero-run evidence concludes."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Annotated, Literal

from annotated_types import MinLen

from miaudit.arrays import AtLeastOne, Text
from miaudit.findings.policy import label_of, written_limit
from miaudit.findings.verdict import LimitName

__all__ = ["MOST", "CovariateStrength", "LimitSensitivity", "Sensitivity"]

MOST = 100.0  # no larger factor is looked for
_LEAST_POINTS = 0.05  # what is written as 0.1
_LARGE = 10  # factors from here up have no decimals
Side = Literal["low", "high"]


@dataclass(frozen=True)
class LimitSensitivity:
    """How strong a trait would have to be to bring one confidence limit to a threshold.

    Attributes
    ----------
    limit : name of the metric or parameter
    score : name of the score
    side : "low", a limit above the threshold that leakage explains, or "high", a limit below it
    threshold : of the policy, or what chance gives
    factor : by which the trait would have to multiply or divide the odds of membership (1 or more), and be aligned
        with the score as far as the covariates leave it free; None: more than 100 times
    """

    limit: LimitName
    score: str
    side: Side
    threshold: float
    factor: AtLeastOne | None

    @property
    def size(self) -> float:
        """The factor, as large as one that was looked for in vain."""
        return MOST if self.factor is None else self.factor


@dataclass(frozen=True)
class CovariateStrength:
    """What leaving out one covariate would change.

    Attributes
    ----------
    covariate : its name
    odds : factor by which the odds of membership of nine records in ten change at most, 1 or more
    moved : what the metric of the first limit would gain, by the weights alone; None where it has no value
    """

    covariate: Text
    odds: AtLeastOne
    moved: float | None


@dataclass(frozen=True)
class Sensitivity:
    """How strong an unmeasured trait would have to be, and how strong the covariates are.

    Attributes
    ----------
    limits : what the verdict rests on, the one that decides first
    covariates : the one that moves the metric most first; where they move it alike, the one with the largest odds
    text : the same as a sentence or more
    """

    limits: Annotated[tuple[LimitSensitivity, ...], MinLen(1)]
    covariates: tuple[CovariateStrength, ...]
    text: Text

    @classmethod
    def first(cls, limits: Iterable[LimitSensitivity]) -> LimitSensitivity:
        """Return the limit that decides."""
        return min(limits, key=_rank)

    @classmethod
    def of(cls, limits: tuple[LimitSensitivity, ...], covariates: tuple[CovariateStrength, ...]) -> Sensitivity:
        """Put what decides and what is strongest first, and say it."""
        ordered = tuple(sorted(limits, key=_rank))
        strongest = tuple(sorted(covariates, key=_strength, reverse=True))
        texts = [_in_words(ordered[0], strongest), *(_of_mu(one) for one in ordered[1:] if one.limit == "mu")]
        return cls(ordered, strongest, " ".join(texts))


def _rank(one: LimitSensitivity) -> tuple[bool, float]:
    """A concern stands while one limit is exceeded, and a verdict within the limits needs all of them.

    A bound on mu that exceeds no limit comes last.
    """
    return one.limit == "mu" and not one.threshold, -one.size if one.side == "low" else one.size


def _strength(one: CovariateStrength) -> tuple[float, float]:
    return (0.0 if one.moved is None else round(abs(one.moved), 3)), one.odds


def _in_words(deciding: LimitSensitivity, covariates: tuple[CovariateStrength, ...]) -> str:
    label = label_of(deciding.limit)
    does = "explain" if deciding.side == "low" else "hide"
    what = f"{does} {label} above {written_limit(deciding.limit, deciding.threshold)}"
    if deciding.factor is None:
        start = f"No unmeasured trait that multiplies or divides the odds of membership by up to {MOST:g} could {what}."
    else:
        start = (
            f"An unmeasured trait could {what} only if it multiplied or divided the odds of membership by "
            f"{_written(deciding.factor)} or more, and decided the score as well."
        )
    if not covariates:
        return start
    first = covariates[0]
    strong = f"The covariate that matters most, {first.covariate}, multiplies or divides them by {_written(first.odds)}"
    if deciding.size > first.odds:
        compared = f"It would have to matter more than {first.covariate} does. {strong}."
    else:
        compared = f"{strong}: a trait as strong as that could do it."
    return " ".join(text for text in (start, compared, _moved_in_words(label, first)) if text)


def _of_mu(bound: LimitSensitivity) -> str:
    """Say how far the odds may be wrong before nothing is left of a bound that does not decide."""
    threshold = written_limit(bound.limit, bound.threshold)
    return f"The lower bound on mu stays above {threshold} up to a factor of {_written(bound.size)}."


def _moved_in_words(label: str, covariate: CovariateStrength) -> str:
    """Say what the metric would be without a covariate; empty of one that is not a rate."""
    if covariate.moved is None:
        return ""
    points, way = abs(100 * covariate.moved), "higher" if covariate.moved > 0 else "lower"
    change = f"{points:.1f} points {way}" if points >= _LEAST_POINTS else "the same"
    return f"Without {covariate.covariate}, {label} would be {change}."


def _written(factor: float) -> str:
    """Write a factor with two decimals, or as a whole number from 10 up.

    Examples
    --------
    >>> _written(1.338), _written(15.66)
    ('1.34', '16')
    """
    return f"{factor:.2f}" if factor < _LARGE else f"{factor:.0f}"

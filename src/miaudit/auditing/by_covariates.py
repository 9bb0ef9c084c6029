"""Which kinds of records leak, as findings: what is measured, why not, and the words for it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from miaudit.auditing.case import Case
from miaudit.auditing.corrected_score import WEIGHTS
from miaudit.auditing.zero_run import Correction
from miaudit.causal import heterogeneity
from miaudit.causal.heterogeneity import Heterogeneity, Measured
from miaudit.causal.outcome import FEWEST_NONMEMBERS
from miaudit.errors import InputError
from miaudit.findings.by_covariates import ByCovariates, CovariateGroup, CovariateSlope, GroupDifference
from miaudit.metrics.rounding import written

__all__ = ["measure"]

_MOST_SLOPES_NAMED = 3


@threadpool_limits.wrap(limits=1)  # type: ignore[untyped-decorator]
def measure(
    case: Case, score: str, correction: Correction | None, obstacle: str, *, rng: np.random.Generator
) -> ByCovariates:
    """Measure which kinds of records leak by one score, or say why not.

    Parameters
    ----------
    case : what is audited
    score : the one of the verdict
    correction : of zero-run evidence; None where there is none that holds
    obstacle : why the audit has no answer; empty where it has one
    rng : divides the records, and draws folds
    """
    audited, confidence = case.audited.only(score), case.confidence
    reason = _reason(case, correction, obstacle)
    if reason:
        return _unmeasured(score, confidence, reason)
    options: dict[str, Any] = {} if correction is None else _estimator(case, correction)
    propensity = None if correction is None else correction.propensity
    try:
        result = heterogeneity.measure(
            audited, propensity, categories=case.plan.categories, confidence=confidence, rng=rng, **options
        )
    except InputError as error:
        return _unmeasured(score, confidence, f"{error}")
    slopes = tuple(CovariateSlope(one.step, one.value, one.low, one.high) for one in result.slopes)
    difference = _difference(result)
    return ByCovariates(
        score=score,
        confidence=confidence,
        groups=tuple(_group(one) for one in result.kinds),
        difference=difference,
        slopes=slopes,
        learned=result.learned,
        measured=result.measured,
        text=_in_words(result, difference, slopes, exploratory=case.exploratory),
        notes=result.notes,
    )


def _estimator(case: Case, correction: Correction) -> dict[str, Any]:
    """Return how groups of zero-run evidence are measured: as the whole is."""
    method = case.plan.estimator if case.audited.n_nonmembers >= FEWEST_NONMEMBERS else WEIGHTS
    return {"method": method, "outcome": None if method == WEIGHTS else correction.nuisance.outcome}


def _reason(case: Case, correction: Correction | None, obstacle: str) -> str:
    """Say why nothing can be measured; empty where it can."""
    audited = case.audited
    if audited.covariates is None:
        return "there are no covariates to describe them by"
    if audited.design is None:
        return "it is not declared how membership was decided"
    if audited.design == "matched":
        return "strings and their decoys have the same covariates"
    if obstacle or (audited.design == "zero-run" and correction is None):
        return "the audit has no answer"
    return ""


def _unmeasured(score: str, confidence: float, reason: str) -> ByCovariates:
    return ByCovariates(
        score, confidence, (), None, (), 0, 0, f"Which kinds of records leak was not measured: {reason}."
    )


def _group(one: Measured) -> CovariateGroup:
    if one.auc is None:
        return CovariateGroup(one.text or "all records", one.members, one.nonmembers, None, None, None)
    auc = one.auc
    return CovariateGroup(one.text or "all records", one.members, one.nonmembers, auc.value, auc.low, auc.high)


def _difference(result: Heterogeneity) -> GroupDifference | None:
    """Return the difference of the two groups, the one with the larger AUC first."""
    if result.difference is None or result.extremes is None:
        return None
    first, second = result.extremes
    value, low, high = float(result.difference.value or 0.0), result.difference.low, result.difference.high
    if value < 0:
        value, low, high = -value, -high, -low
    visible = None if math.isnan(result.visible) else result.visible
    return GroupDifference(first.text, second.text, value, low, high, visible, result.established)


def _in_words(
    result: Heterogeneity, difference: GroupDifference | None, slopes: Sequence[CovariateSlope], *, exploratory: bool
) -> str:
    """The two most different groups where their difference is established, and slopes; else what would have been."""
    strong = sorted((one for one in slopes if one.established), key=lambda one: -abs(one.value))
    sentences = ["Exploratory, since the score was chosen on the same records."] if exploratory else []
    if difference is not None and difference.established:
        readings = {one.text: _group(one).reading for one in result.kinds}
        sentences += [
            "Some kinds of records leak more than others.",
            f"Records with {difference.first}: AUC {readings[difference.first]}.",
            f"Records with {difference.second}: AUC {readings[difference.second]}.",
            f"The difference is {difference.reading}.",
        ]
    elif difference is not None:
        seen = "No difference between kinds of records was seen."
        seen = "No difference between two groups of records was established." if strong else seen
        sentences += [seen, *_resolution(difference)]
    else:
        sentences.append("No two groups of records could be compared.")
    if strong:
        sentences.append(f"The AUC among alike changes with covariates, the others kept equal: {_named(strong)}.")
    elif difference is not None and not difference.established and slopes:
        sentences.append("No covariate is seen to go with the effect.")
    return " ".join(sentences)


def _resolution(difference: GroupDifference) -> tuple[str, ...]:
    """Say what difference would have been seen."""
    if difference.visible is None:
        return ()
    size = written(difference.visible, ".2f", "up")
    return (f"A difference in AUC of {size} between the two compared groups is established in 4 of 5 such audits.",)


def _named(strong: Sequence[CovariateSlope]) -> str:
    named = "; ".join(f"{one.step}, {one.reading}" for one in strong[:_MOST_SLOPES_NAMED])
    more = len(strong) - _MOST_SLOPES_NAMED
    return f"{named}; and {more} more" if more > 0 else named

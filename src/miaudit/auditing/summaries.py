"""Descriptive parts of findings: curve, distribution, counts, and rows on request."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from miaudit.arrays import FloatArray, IndexArray
from miaudit.auditing.plan import Plan
from miaudit.causal.duplicates import Repeats
from miaudit.evidence import Evidence
from miaudit.findings.audit import Counts, Curve
from miaudit.metrics import intervals
from miaudit.metrics.classical import Sample
from miaudit.metrics.roc import Roc

_FEWEST_PAIRS = 20
_OPPOSED = -3.7  # of a standard normal number: once in 10,000 audits


def grid(plan: Plan, nonmembers: float, resolved: float) -> FloatArray:
    """Return the FPRs (k,) inside (0, 1) at which a curve is shown.

    They are fine where they are low, and hold every target and ``resolved``, the smallest FPR that so many non-members
    resolve.
    """
    smallest = min(0.1 / nonmembers, plan.fpr_targets[0] / 2)
    spread = np.r_[np.geomspace(smallest, 1, 50), np.linspace(0.04, 0.98, 33)]
    points = np.unique(np.r_[spread, plan.fpr_targets, resolved])
    return points[points < 1]


def smallest_fpr(nonmembers: float, confidence: float) -> float:
    """Return the smallest resolvable FPR of a number of non-members (erratum C3), at most 1."""
    return min(1.0, intervals.resolution(confidence) / nonmembers)


def curve(roc: Roc, fpr: FloatArray, low: FloatArray, high: FloatArray, resolved: float) -> Curve:
    """Return a ROC curve on a grid (k,) with its pointwise band.

    Below the FPR that is ``resolved`` there is an upper limit only, and no TPR (erratum C3).
    """
    tpr = roc.tpr_at(fpr)
    # The band is pointwise; a running maximum keeps its drawn edges as monotone as the curve that they enclose.
    columns = (fpr, tpr, np.maximum.accumulate(np.minimum(low, tpr)), np.maximum.accumulate(np.maximum(high, tpr)))
    ends = ((0.0, 1.0), (0.0, 1.0), (0.0, 1.0), (float(columns[3][0].round(9)), 1.0))
    x, y, below, above = (
        (first, *np.round(column, 9).tolist(), last) for column, (first, last) in zip(columns, ends, strict=True)
    )
    known = (False, *(fpr >= resolved * (1 - 1e-12)), True)
    return Curve(x, tuple(rate if shown else None for rate, shown in zip(y, known, strict=True)), below, above)


def counts(audited: Evidence, sample: Sample, effective_nonmembers: float, confidence: float) -> Counts:
    """Count records and units, with the smallest resolvable FPR."""
    smallest = smallest_fpr(effective_nonmembers, confidence)
    of = "records" if sample.units is None else "units"
    return Counts(
        sample.independent_members,
        sample.independent_nonmembers,
        audited.n_members,
        audited.n_nonmembers,
        smallest,
        of,
    )


def independence(sample: Sample) -> str:
    """Describe the assumption on dependence between records."""
    if sample.units is None:
        return (
            "Records are independent: no person or account stands behind several of them (give unit ids if one does)."
        )
    share = sample.units.largest_share
    giant = f" One unit holds {share:.0%} of the records of a class, which costs much of them." if share > 0.1 else ""
    both = sample.units.spanning
    giant += f" {both:,} units hold both: what their records share, or oppose, is in the intervals." if both else ""
    return (
        f"Records of one unit may depend on each other, units do not: intervals and counts are of "
        f"{sample.independent_members:,} units of members and {sample.independent_nonmembers:,} of non-members.{giant}"
    )


def equal_rows(evidence: Evidence) -> tuple[str, ...]:
    """Say where equal covariates (texts) stand on one side beyond chance though no unit holds several records.

    A remark of whoever has the covariates: where these are withheld, an audit that is repeated cannot make it.
    """
    described = evidence.covariates if evidence.covariates is not None else evidence.text
    one_class = evidence.member.all() or not evidence.member.any()
    if evidence.unit_codes is not None or described is None or one_class:
        return ()
    equal = Repeats.of(described, evidence.member)
    said = equal.forbids("zero-run") if evidence.design == "zero-run" else equal.beyond_chance
    return (equal.text(),) if said else ()


def opposed(sample: Sample) -> Iterator[str]:
    """Say where the scores of the i-th member and the i-th non-member oppose each other, with as many of both.

    No part of the verdict: pairs in the order of a file are a guess.
    """
    if sample.units is not None:
        return
    inside, outside = _ranks(sample.score[sample.member]), _ranks(sample.score[~sample.member])
    if len(inside) != len(outside) or len(inside) < _FEWEST_PAIRS or not (np.ptp(inside) and np.ptp(outside)):
        return
    correlation = float(np.corrcoef(inside, outside)[0, 1])
    if correlation * math.sqrt(len(inside) - 1) < _OPPOSED:
        yield (
            "In their order the scores of members and non-members oppose each other (rank correlation "
            f"{correlation:.2f} of the first with the first, and so on). If they come in such pairs, the variance of "
            f"the AUC is about {1 - correlation:.1f} times as large as its interval says: name the pair as the unit."
        )


def _ranks(values: FloatArray) -> FloatArray:
    """Ranks (n,), equal values with their mean."""
    _, code, count = np.unique(values, return_inverse=True, return_counts=True)
    return np.asarray((np.cumsum(count) - (count - 1) / 2)[code])


def most_exposed(audited: Evidence, count: int, numbers: IndexArray | None) -> tuple[dict[str, Any], ...]:
    """Return the rows of the members with the highest scores, on request only."""
    rows = np.flatnonzero(audited.member)
    top = rows[np.argsort(-audited.score[rows], kind="stable")[:count]]
    return tuple(
        {
            "row": int(row if numbers is None else numbers[row]),
            "unit": None if audited.unit is None else str(audited.unit[row]),
            "score": float(audited.score[row]),
        }
        for row in top
    )

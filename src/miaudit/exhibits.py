"""What findings show of a sample: the curve with its band, the distribution, counts, and rows where asked for."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from miaudit.causal import intervals
from miaudit.causal.classical import Sample
from miaudit.evidence import Evidence
from miaudit.plan import Plan
from miaudit.report.findings import Counts, Curve, Distribution

FloatArray = NDArray[np.float64]


def curve(sample: Sample, plan: Plan, confidence: float) -> Curve:
    """Read the ROC curve and its pointwise band on a grid of FPRs, fine where it is low."""
    smallest = min(0.1 / sample.independent_nonmembers, plan.fpr_targets[0] / 2)
    grid = np.unique(np.r_[np.geomspace(smallest, 1, 50), np.linspace(0.04, 0.98, 33), plan.fpr_targets])
    inner = grid[grid < 1]
    low, high = sample.tpr_band(inner, confidence)
    tpr = sample.roc.tpr_at(inner)
    # The band is pointwise; a running maximum keeps its drawn edges as monotone as the curve that they enclose.
    columns = (inner, tpr, np.maximum.accumulate(np.minimum(low, tpr)), np.maximum.accumulate(np.maximum(high, tpr)))
    ends = ((0.0, 1.0), (0.0, 1.0), (0.0, 1.0), (float(columns[3][0].round(9)), 1.0))
    return Curve(
        *((first, *np.round(column, 9).tolist(), last) for column, (first, last) in zip(columns, ends, strict=True))
    )


def distribution(score: FloatArray, member: NDArray[np.bool_]) -> Distribution:
    """Bin the scores between round numbers, so that no edge is the score of a record."""
    low, high = np.quantile(score, [0.005, 0.995])
    finest = 1e-9 * float(np.abs(score).max())  # edges are written with 12 digits
    step = _round_step(max((high - low) / 30, finest))
    first = math.floor(low / step) * step
    bins = max(1, math.ceil((high - first) / step))
    edges = first + step * np.arange(bins + 1)
    shares = []
    for kept in (member, ~member):
        counts, _ = np.histogram(np.clip(score[kept], edges[0], edges[-1]), edges)
        shares.append(tuple(np.round(counts / np.count_nonzero(kept), 6).tolist()))
    return Distribution(tuple(float(f"{edge:.12g}") for edge in edges), shares[0], shares[1])


def counts(audited: Evidence, sample: Sample, confidence: float) -> Counts:
    """Count records and units, and say which FPR so many non-members resolve."""
    smallest = min(1.0, intervals.resolution(confidence) / sample.independent_nonmembers)
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
    """Say what was assumed of the dependence between records."""
    if sample.units is None:
        return (
            "Records are independent: no person or account stands behind several of them (give unit ids if one does)."
        )
    return (
        f"Records of one unit may depend on each other, units do not: intervals and counts are of "
        f"{sample.independent_members:,} units of members and {sample.independent_nonmembers:,} of non-members."
    )


def most_exposed(audited: Evidence, count: int) -> tuple[dict[str, Any], ...]:
    """Rows of the members with the highest scores; only when the plan asks for them."""
    rows = np.flatnonzero(audited.member)
    top = rows[np.argsort(-audited.score[rows], kind="stable")[:count]]
    return tuple(
        {
            "row": int(row),
            "unit": None if audited.unit is None else str(audited.unit[row]),
            "score": float(audited.score[row]),
        }
        for row in top
    )


def _round_step(width: float) -> float:
    """Return the largest of 1, 2, 5 times a power of ten that is at most ``width``; 1 where there is no width."""
    if not width > 0:
        return 1.0
    power = 10.0 ** math.floor(math.log10(width))
    return float(power * max(factor for factor in (1, 2, 5) if factor * power <= width * (1 + 1e-9)))

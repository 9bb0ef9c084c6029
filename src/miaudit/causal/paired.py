"""Paired differences between two scores on the same records, with intervals."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from miaudit.arrays import FloatArray
from miaudit.causal import effects
from miaudit.causal.crossfit import resample
from miaudit.causal.fiducial import Ranked
from miaudit.errors import InputError
from miaudit.evidence import Evidence
from miaudit.metrics.classical import Estimate, tpr_name
from miaudit.metrics.units import Units

FEWEST = 10
FEWEST_ALARMS = 5
_BLOCK = 50


def difference(
    first: Evidence,
    second: Evidence,
    *,
    odds: ArrayLike | None = None,
    fpr_targets: tuple[float, ...] = (),
    confidence: float = 0.95,
    replicates: int = 2000,
    rng: np.random.Generator,
    progress: Callable[[int, int], None] | None = None,
) -> dict[str, Estimate]:
    """Estimate metrics of the first score less those of the second, from shared resamples.

    Parameters
    ----------
    first, second : Evidence with one score each, on the same records in the same order
    odds : array (n,), optional
        Odds of membership that weigh non-members (zero-run evidence); all 1 by default.
    fpr_targets : FPRs in (0, 1)
    confidence : of the two-sided intervals, in (0, 1)
    replicates : of the bootstrap by units within members and non-members, 100 or more
    progress : function of replicates done and their number, optional

    Returns
    -------
    dict
        ``auc`` and ``tpr_at_fpr_...``, each in [-1, 1]; above 0 means that the first is stronger. A limit is the outer
        one of a percentile and of a normal interval: single percentiles of a TPR at a low FPR are too short.

    Raises
    ------
    InputError
        If the two are about other records, or a class has fewer than 10.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> member = np.arange(600) % 2 == 0
    >>> noise = rng.normal(size=600)
    >>> strong, weak = (Evidence(score=noise + gap * member, member=member) for gap in (2.0, 0.5))
    >>> found = difference(strong, weak, replicates=200, rng=rng)["auc"]
    >>> found.low > 0
    True
    """
    _check(first, second, replicates)
    weights = np.ones(first.n) if odds is None else np.asarray(odds, dtype=np.float64)
    if weights.shape != (first.n,):
        raise InputError("odds", f"({first.n},)", str(weights.shape), "one for each record")
    drawn = np.empty((replicates, 2 + len(fpr_targets)))
    for start in range(0, replicates, _BLOCK):
        counts = resample(first, min(_BLOCK, replicates - start), rng=rng)
        drawn[start : start + len(counts)] = _difference(first, second, weights, counts, fpr_targets)
        if progress is not None:
            progress(start + len(counts), replicates)
    once = np.ones((1, first.n), dtype=np.uint16)
    values = _difference(first, second, weights, once, fpr_targets)[0]
    places = {"auc": 0} | {tpr_name(alpha): 2 + j for j, alpha in enumerate(fpr_targets)}
    return {
        name: Estimate(float(values[i]), *_limits(float(values[i]), drawn[:, i], confidence), confidence)
        for name, i in places.items()
    }


def resolves(evidence: Evidence, fpr: float, odds: ArrayLike | None = None) -> bool:
    """Return whether 5 or more false alarms are expected at an FPR; below, TPR intervals are too short.

    Units count, not their records, and weighted non-members as so many equally heavy ones (Kish), or as so many as the
    heaviest above the threshold where that is fewer. The simulation is tests/slow/test_challenge_validity.py.

    Examples
    --------
    >>> member = np.arange(2000) % 2 == 0
    >>> evidence = Evidence(score=np.zeros(2000), member=member)
    >>> resolves(evidence, 0.01), resolves(evidence, 0.001)
    (True, False)
    """
    outside = np.flatnonzero(~evidence.member)
    weights = np.ones(len(outside)) if odds is None else np.asarray(odds, dtype=np.float64)[outside]
    if evidence.unit_codes is not None:
        weights = np.bincount(evidence.unit_codes[outside], weights).astype(np.float64)
    shares = weights / weights.sum()
    expected = fpr / (shares**2).sum()
    if odds is not None:
        units = None if evidence.unit_codes is None else Units.of(evidence.unit_codes, evidence.member)
        ranked = Ranked.of(evidence.score, evidence.member, np.asarray(odds, dtype=np.float64), units)
        expected = min(expected, fpr * ranked.total / ranked.heaviest_above(fpr))
    return bool(expected >= FEWEST_ALARMS)


def _difference(
    first: Evidence, second: Evidence, odds: FloatArray, counts: NDArray[np.uint16], targets: tuple[float, ...]
) -> FloatArray:
    repeated = np.broadcast_to(odds, counts.shape)
    one, other = (effects.replicated(e, repeated, counts, fpr_targets=targets) for e in (first, second))
    return one - other


def _limits(value: float, drawn: FloatArray, confidence: float) -> tuple[float, float]:
    tails = np.array([(1 - confidence) / 2, (1 + confidence) / 2])
    percentile = np.quantile(drawn, tails)
    normal = value + special.ndtri(tails) * drawn.std(ddof=1)
    low, high = min(percentile[0], normal[0]), max(percentile[1], normal[1])
    return max(-1.0, float(low)), min(1.0, float(high))


def _check(first: Evidence, second: Evidence, replicates: int) -> None:
    if first.n != second.n or not np.array_equal(first.member, second.member):
        received = f"{first.n:,} and {second.n:,} records" if first.n != second.n else "other memberships"
        raise InputError("second", "scores of the same records in the same order", received, "sort them alike")
    fewest = min(first.n_members, first.n_nonmembers)
    if fewest < FEWEST:
        raise InputError("first", f"at least {FEWEST} members and non-members", str(fewest), "compare on more records")
    if replicates < 100 or not math.isfinite(replicates):
        raise InputError("replicates", "100 or more", str(replicates), "2000 is the default")

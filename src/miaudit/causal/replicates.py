"""Hajek estimates of resamples: their limits, and the difference between two scores on the same records."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from miaudit.arrays import FloatArray
from miaudit.causal.fiducial import Ranked
from miaudit.causal.resamples import Resamples, together
from miaudit.errors import InputError
from miaudit.errors.checks import check_confidence
from miaudit.evidence import Evidence
from miaudit.metrics.classical import Estimate, tpr_name
from miaudit.metrics.roc import Roc
from miaudit.metrics.units import Units

_FEWEST = 10  # members and non-members
_FEWEST_ALARMS = 5
_BLOCK = 50


def bootstrap_limits(
    evidence: Evidence,
    odds: ArrayLike,
    counts: ArrayLike,
    *,
    fpr_targets: tuple[float, ...] = (),
    confidence: float = 0.95,
) -> dict[str, tuple[float, float]]:
    """Return Hajek limits from a bootstrap that refits the propensity.

    Parameters
    ----------
    evidence : with one score
    odds : array (K, n), the odds of membership of the records in each replicate, fitted on that replicate
    counts : array (K, n) of int, how often each record was drawn (within its class, or by whole units)
    fpr_targets : FPRs at which the TPR is wanted; check their resolution first
    confidence : two-sided, in (0, 1)

    Returns
    -------
    dict
        ``auc``, ``ate`` and ``tpr_at_fpr_...`` with (low, high).

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> evidence = Evidence(score=rng.normal(size=200) + (np.arange(200) < 100), member=np.arange(200) < 100)
    >>> half = [rng.multinomial(100, np.full(100, 0.01), size=300) for _ in range(2)]
    >>> by_metric = bootstrap_limits(evidence, np.ones((300, 200)), np.hstack(half))
    >>> by_metric["auc"][0] < 0.76 < by_metric["auc"][1]
    True
    """
    return limits(estimates(evidence, odds, counts, fpr_targets=fpr_targets), fpr_targets, confidence)


def estimates(
    evidence: Evidence, odds: ArrayLike, counts: ArrayLike, *, fpr_targets: tuple[float, ...] = ()
) -> FloatArray:
    """Compute the Hajek estimates of each replicate: AUC, ATE, then the TPR at each target.

    Parameters
    ----------
    evidence, odds, counts, fpr_targets : as :func:`bootstrap_limits`

    Returns
    -------
    array (K, 2 + targets)

    Examples
    --------
    >>> evidence = Evidence(score=[3.0, 2.0, 1.0, 0.0], member=[1, 0, 1, 0])
    >>> estimates(evidence, np.ones((2, 4)), [[1, 1, 1, 1], [2, 1, 0, 1]]).tolist()
    [[0.75, 1.0], [1.0, 2.0]]
    """
    w, weights = np.asarray(odds), np.asarray(counts)
    if w.ndim != 2 or w.shape != weights.shape or w.shape[1] != evidence.n:
        received = f"{w.shape} and {weights.shape}"
        raise InputError("odds", f"(K, {evidence.n}), as the counts", received, "one row a replicate")
    a, y, targets = evidence.member, evidence.score, np.array(fpr_targets)
    values = np.empty((len(w), 2 + len(targets)))
    for k, (odds_k, count) in enumerate(zip(w, weights, strict=True)):
        weight = count * np.where(a, 1.0, odds_k)
        curve = Roc.of(y, a, weight, ascending=evidence.ascending)
        means = [float(weight[rows] @ y[rows] / weight[rows].sum()) for rows in (a, ~a)]
        values[k] = [curve.auc, means[0] - means[1], *curve.tpr_at(targets)]
    return values


def limits(
    replicates: FloatArray, fpr_targets: tuple[float, ...] = (), confidence: float = 0.95
) -> dict[str, tuple[float, float]]:
    """Turn the estimates of :func:`estimates` (K, 2 + targets) into the limits of :func:`bootstrap_limits`.

    Examples
    --------
    >>> limits(np.array([[0.5, 0.0], [0.6, 0.2]]), confidence=0.5)["ate"]
    (0.05, 0.15...)
    """
    check_confidence(confidence)
    if len(replicates) < 2:
        raise InputError("odds", "at least 2 replicates", str(len(replicates)), "1000 are customary")
    tails = [(1 - confidence) / 2, (1 + confidence) / 2]
    quantiles = np.quantile(replicates, tails, axis=0).T
    areas = replicates[:, 0]
    if areas.min() > 0 and areas.max() < 1:
        logits = special.logit(areas)
        quantiles[0] = special.expit(logits.mean() + special.ndtri(tails) * logits.std(ddof=1))
    names = ("auc", "ate", *map(tpr_name, fpr_targets))
    return {name: (float(low), float(high)) for name, (low, high) in zip(names, quantiles, strict=True)}


# -- the difference of two scores -------------------------------------------------------------------------------------


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
    >>> gain = difference(strong, weak, replicates=200, rng=rng)["auc"]
    >>> gain.low > 0
    True
    """
    _check(first, second, replicates)
    weights = np.ones(first.n) if odds is None else np.asarray(odds, dtype=np.float64)
    if weights.shape != (first.n,):
        raise InputError("odds", f"({first.n},)", str(weights.shape), "one for each record")
    differences, few = np.empty((replicates, 2 + len(fpr_targets))), together(first.n)
    for start in range(0, replicates, _BLOCK):
        counts = Resamples(first, min(_BLOCK, replicates - start), rng=rng)
        for some in range(0, len(counts), few):
            part = counts[some : some + few]
            differences[start + some : start + some + len(part)] = _difference(
                first, second, weights, part, fpr_targets
            )
        if progress is not None:
            progress(start + len(counts), replicates)
    once = np.ones((1, first.n), dtype=np.uint16)
    values = _difference(first, second, weights, once, fpr_targets)[0]
    places = {"auc": 0} | {tpr_name(alpha): 2 + j for j, alpha in enumerate(fpr_targets)}
    return {
        name: Estimate(float(values[i]), *_outer_limits(float(values[i]), differences[:, i], confidence), confidence)
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
    return bool(expected >= _FEWEST_ALARMS)


def _difference(
    first: Evidence, second: Evidence, odds: FloatArray, counts: NDArray[np.uint16], targets: tuple[float, ...]
) -> FloatArray:
    repeated = np.broadcast_to(odds, counts.shape)
    one, other = (estimates(e, repeated, counts, fpr_targets=targets) for e in (first, second))
    return one - other


def _outer_limits(value: float, replicates: FloatArray, confidence: float) -> tuple[float, float]:
    tails = np.array([(1 - confidence) / 2, (1 + confidence) / 2])
    percentile = np.quantile(replicates, tails)
    normal = value + special.ndtri(tails) * replicates.std(ddof=1)
    low, high = min(percentile[0], normal[0]), max(percentile[1], normal[1])
    return max(-1.0, float(low)), min(1.0, float(high))


def _check(first: Evidence, second: Evidence, replicates: int) -> None:
    if first.n != second.n or not np.array_equal(first.member, second.member):
        received = f"{first.n:,} and {second.n:,} records" if first.n != second.n else "other memberships"
        raise InputError("second", "scores of the same records in the same order", received, "sort them alike")
    fewest = min(first.n_members, first.n_nonmembers)
    if fewest < _FEWEST:
        raise InputError("first", f"at least {_FEWEST} members and non-members", str(fewest), "compare on more records")
    if replicates < 100 or not math.isfinite(replicates):
        raise InputError("replicates", "100 or more", str(replicates), "2000 is the default")

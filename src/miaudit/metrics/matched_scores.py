"""Scores of true strings beside those of decoys of the same law: on one scale, and by their ranks.

Where nothing leaks, a true string and its K decoys are exchangeable. A score is compared with the other decoys of its
record: with the K - 1 that are left when one decoy is set apart, so that the true string and that decoy are treated
alike. Ranks of true strings among their candidates need no scale, and their law is known exactly.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from miaudit.arrays import FloatArray, IntArray
from miaudit.errors import DesignError
from miaudit.evidence import Evidence

__all__ = ["FEWEST_STANDARDISED", "Candidates", "contrasts", "rank_p_value", "ranks", "standardised", "uniform_p_value"]

FEWEST_STANDARDISED = 4  # decoys; with fewer, scores are compared as they are
_PRIOR = 4.0  # degrees of freedom of the standard deviation that records have in common
_CELLS = 10  # of the test for uniform ranks
_FEWEST_IN_CELL = 5
_SMALLEST = 1e-300
_HALVINGS = 80


@dataclass(frozen=True, eq=False)
class Candidates:
    """Scores of the true string (n,) and of the decoys (n, K) of each unit, by one score."""

    true: FloatArray
    decoys: FloatArray

    @classmethod
    def of(cls, evidence: Evidence, name: str | None = None) -> Candidates:
        """Read them off evidence of the design "matched".

        Parameters
        ----------
        evidence : of the design "matched"
        name : of the score; None where there is but one

        Raises
        ------
        DesignError
            For another design.
        """
        if evidence.design != "matched":
            raise DesignError(
                f"true strings and decoys need the design 'matched', received {evidence.design!r}; make such evidence "
                "with Evidence.matched(true=, decoys=)"
            )
        score = (evidence.score if name is None else evidence.scores[name])[evidence.candidate_rows]
        return cls(score[:, 0], score[:, 1:])


def standardised(true: FloatArray, decoys: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return z of the true string and of decoy b (n, K) each, both against the K - 1 other decoys.

    Column b is symmetric in the true string and decoy b. The standard deviation of the K - 1 others is shrunk towards
    the median m over the records: sd^2 becomes ((K - 2) sd^2 + 4 m^2) / (K + 2). With fewer than four decoys the scores
    stay as they are.

    Parameters
    ----------
    true, decoys : arrays (n,) and (n, K), higher is more member-like

    Examples
    --------
    >>> inside, outside = standardised(np.array([9.0]), np.array([[1.0, 2.0, 3.0, 4.0, 6.0]]))
    >>> inside.round(2).tolist()[0][:2], outside.round(2).tolist()[0][:2]
    ([3.07, 2.64], [-1.61, -0.72])
    """
    k = decoys.shape[1]
    if k < FEWEST_STANDARDISED:
        return np.repeat(true[:, None], k, axis=1), np.array(decoys)
    centre = decoys.mean(axis=1, keepdims=True)
    one, others = true[:, None] - centre, decoys - centre  # or large scores would cancel in the squares
    mean = -others / (k - 1)
    squares = (others**2).sum(axis=1, keepdims=True)
    variance = np.maximum((squares - others**2) - (k - 1) * mean**2, 0.0) / (k - 2)
    common = np.median(np.sqrt(variance), axis=0, keepdims=True) ** 2
    spread = np.sqrt(((k - 2) * variance + _PRIOR * common) / (k - 2 + _PRIOR))
    spread = np.where(spread > 0, spread, 1.0)
    return (one - mean) / spread, (others - mean) / spread


def contrasts(evidence: Evidence) -> Evidence:
    """Return standardised scores of true strings (members) and decoys (non-members), K of each for each unit.

    Parameters
    ----------
    evidence : of the design "matched", with one score
    """
    candidates = Candidates.of(evidence)
    inside, outside = standardised(candidates.true, candidates.decoys)
    n, k = inside.shape
    unit = np.tile(np.repeat(np.arange(n), k), 2)
    name = next(iter(evidence.scores))
    values = np.concatenate([inside.ravel(), outside.ravel()])
    return Evidence(score={name: values}, member=np.arange(2 * n * k) < n * k, unit=unit)


# -- ranks -------------------------------------------------------------------------------------------------------------


def ranks(true: FloatArray, decoys: FloatArray, rng: np.random.Generator) -> IntArray:
    """Return how many decoys each true string exceeds (n,), 0 to K; among equal scores its place is drawn at random.

    Counting the decoys that are strictly lower would be wrong with ties: the ranks would not be uniform.

    Examples
    --------
    >>> ranks(np.array([3.0, 0.0]), np.array([[1.0, 2.0], [1.0, 2.0]]), np.random.default_rng(0)).tolist()
    [2, 0]
    """
    lower, equal = (decoys < true[:, None]).sum(axis=1), (decoys == true[:, None]).sum(axis=1)
    return np.asarray(lower + rng.integers(0, equal, endpoint=True), dtype=np.int64)


def rank_p_value(rank: IntArray, decoys: int) -> float:
    """Return the probability of a sum of ranks at least as large, where each rank is uniform on 0, ..., K: exact.

    The law of the sum is a convolution, which is computed after an exponential tilt that puts its mean at what was
    observed, so that small probabilities keep their digits.

    Parameters
    ----------
    rank : array (n,), 0 to K
    decoys : K

    Examples
    --------
    >>> round(rank_p_value(np.array([2, 2, 1]), 2), 6), 4 / 27  # of 27 outcomes, 4 have a sum of 5 or more
    (0.148148, 0.14814814814814814)
    """
    n, total = len(rank), int(rank.sum())
    if 2 * total < n * decoys:  # below the middle the other tail is the smaller one
        return 1.0 if total == 0 else 1.0 - rank_p_value(decoys - rank, decoys) + _exactly(n, decoys, total)
    law, tilt, log_scale = _tilted(n, decoys, total)
    steps = np.arange(total, n * decoys + 1)
    p = float((law[total:] * np.exp(-tilt * (steps - total))).sum()) * math.exp(log_scale - tilt * total)
    return min(1.0, max(_SMALLEST, p))


def _exactly(n: int, decoys: int, total: int) -> float:
    """The probability of this very sum of ranks."""
    law, tilt, log_scale = _tilted(n, decoys, total)
    return float(law[total]) * math.exp(log_scale - tilt * total)


def _tilted(n: int, decoys: int, total: int) -> tuple[FloatArray, float, float]:
    """The law (n K + 1,) of the sum, tilted so that its mean is ``total``; the tilt, and the logarithm of its scale."""
    values = np.arange(decoys + 1)
    low, high = -60.0, 60.0
    for _ in range(_HALVINGS):
        tilt = (low + high) / 2
        weight = np.exp(tilt * (values - (decoys if tilt > 0 else 0)))
        mean = n * float(values @ weight) / float(weight.sum())
        low, high = (tilt, high) if mean < total else (low, tilt)
    weight = np.exp(tilt * (values - (decoys if tilt > 0 else 0)))
    log_scale = n * (math.log(weight.sum() / (decoys + 1)) + (tilt * decoys if tilt > 0 else 0.0))
    size = n * decoys + 1
    power = np.fft.rfft(weight / weight.sum(), size) ** n
    return np.maximum(np.fft.irfft(power, size), 0.0), tilt, log_scale


def uniform_p_value(rank: IntArray, decoys: int) -> float:
    """Return the p-value of "ranks are uniform on 0, ..., K", against a shifted mean or any other uneven law.

    Twice the smaller of two tests: of the mean, exact and two-sided, and Pearson's of counts in up to ten cells.

    Parameters
    ----------
    rank : array (n,), 0 to K
    decoys : K

    Examples
    --------
    >>> even = np.tile(np.arange(21), 50)
    >>> uniform_p_value(even, 20), uniform_p_value(np.minimum(even + 3, 20), 20) < 1e-6
    (1.0, True)
    """
    from scipy import special  # noqa: PLC0415 - here alone

    n, cells = len(rank), min(_CELLS, decoys + 1, max(2, len(rank) // _FEWEST_IN_CELL))
    above, below = rank_p_value(rank, decoys), rank_p_value(decoys - rank, decoys)
    cell = np.arange(decoys + 1) * cells // (decoys + 1)
    expected = n * np.bincount(cell, minlength=cells) / (decoys + 1)
    observed = np.bincount(cell[rank], minlength=cells)
    pearson = float(special.chdtrc(cells - 1, float(((observed - expected) ** 2 / expected).sum())))
    return min(1.0, 2 * min(2 * min(above, below), pearson))

"""What a question about used or deleted records can show, before any score is collected.

Scores of used records are normal ones, shifted by a separation in standard deviations of the decoys' scores. An audit
with the expected number of hits has about the expected bound. A deletion without a trace leaves uniform ranks, of which
some are drawn.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import special

from miaudit.arrays import FloatArray, Inside, NotNegative, Positive, Share
from miaudit.errors import InputError
from miaudit.errors.checks import check_confidence
from miaudit.metrics import deletion, usage

__all__ = ["SHARES", "UsageReach", "reach"]

SHARES, SEPARATIONS = (0.1, 0.3, 1.0), (1.0, 2.0, 3.0)
_DRAWS = 300
_NODES, _WEIGHTS = np.polynomial.hermite_e.hermegauss(80)


@dataclass(frozen=True)
class UsageReach:
    """The bound to expect of so many records with so many decoys each, and how often a clean deletion passes.

    Attributes
    ----------
    records, decoys : how many, and of each
    confidence : one-sided, of the bound and of each limit of a deletion
    bounds : array-like (3, 3): lower bound of the share of used records, by true share and by separation
    shares, separations : true shares, and shifts in standard deviations
    passes : probability that a deletion without a trace passes; None for fewer decoys or records than it needs
    margin : of that deletion
    """

    records: Positive
    decoys: Positive
    confidence: Inside
    bounds: tuple[tuple[Share, ...], ...]
    shares: tuple[Share, ...]
    separations: tuple[NotNegative, ...]
    passes: Share | None
    margin: Inside


def reach(records: int, decoys: int, *, confidence: float = 0.95, rng: np.random.Generator) -> UsageReach:
    """Forecast the bound on used records, and the power of a deletion's test.

    Parameters
    ----------
    records, decoys : at least 1
    confidence : one-sided, in (0.5, 1)
    rng : draws ranks of deletions without a trace

    Examples
    --------
    >>> found = reach(2000, 19, rng=np.random.default_rng(0))
    >>> [round(share[1], 2) for share in found.bounds], found.passes > 0.95
    ([0.06, 0.23, 0.81], True)
    """
    check_confidence(confidence, above=0.5)
    for name, count in (("records", records), ("decoys", decoys)):
        if count < 1:
            raise InputError(name, "a whole number of at least 1", str(count), "name how many there are")
    bounds = tuple(
        tuple(_bound(records, decoys, share, separation, confidence) for separation in SEPARATIONS) for share in SHARES
    )
    passes = _passes(records, decoys, confidence, rng)
    return UsageReach(records, decoys, confidence, bounds, SHARES, SEPARATIONS, passes, deletion.MARGIN)


def _bound(records: int, decoys: int, share: float, separation: float, confidence: float) -> float:
    """Return the bound of an audit in which as many strings are at each rank as are expected."""
    law = share * _ranks(decoys, separation) + (1 - share) / (decoys + 1)
    cumulative = np.minimum(np.rint(records * np.cumsum(law)), records).astype(np.int64)
    rank = np.searchsorted(cumulative, np.arange(records), side="right")
    places = np.arange(decoys + 1)[::-1]  # decoys that score higher, as scores themselves
    own = places[np.minimum(rank, decoys)] - 0.5
    return usage.among_decoys(own, np.tile(np.arange(decoys), (records, 1)), confidence=confidence).share


def _ranks(decoys: int, separation: float) -> FloatArray:
    """Return the law (K + 1,) of how many of K normal scores are above one that is shifted."""
    above = special.ndtr(-(_NODES + separation))
    counts = np.arange(decoys + 1)[:, None]
    choose = special.gammaln(decoys + 1) - special.gammaln(counts + 1) - special.gammaln(decoys - counts + 1)
    law = np.exp(choose + special.xlogy(counts, above) + special.xlog1py(decoys - counts, -above))
    return np.asarray(law @ _WEIGHTS / _WEIGHTS.sum())


def _passes(records: int, decoys: int, confidence: float, rng: np.random.Generator) -> float | None:
    """Return the share of deletions without a trace that pass, where the records were found before."""
    if not deletion.can_test(records, decoys):
        return None
    own, others = np.arange(float(records)), np.full((records, decoys), -1.0)
    known, strings = np.tile(np.arange(float(decoys)), (records, 1)), decoys + 1
    passed = 0
    for _ in range(_DRAWS):
        clean = rng.integers(0, strings, records) - 0.5
        tested = deletion.among_decoys((clean, known), (own, others), confidence=confidence, rng=rng)
        passed += tested.status == "equivalent"
    return passed / _DRAWS

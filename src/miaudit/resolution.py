"""What an audit will be able to resolve, before any data is collected."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import special

from miaudit.causal import intervals
from miaudit.errors import InputError

FloatArray = NDArray[np.float64]

_REPLICATES = 300
# From so many expected false alarms on, normal limits differ from the simulated ones by less than the simulation does.
_MANY_ALARMS = 200
_MOST_RECORDS = 10**8


@dataclass(frozen=True)
class Resolution:
    """What so many records can show at one FPR.

    Attributes
    ----------
    fpr, members, nonmembers, confidence, power : what was asked
    nonmembers_needed : from how many non-members the TPR has a lower limit at all (erratum C3)
    smallest_tpr : the smallest true TPR whose lower limit exceeds chance (or the threshold) with the stated power, for
        an attack with Gaussian scores of equal variance; None where the non-members cannot resolve the FPR
    clear_from : the upper limit that a model without any leakage stays below with the stated power
    """

    fpr: float
    members: int
    nonmembers: int
    confidence: float
    power: float
    against: float
    nonmembers_needed: int
    smallest_tpr: float | None
    clear_from: float

    @property
    def resolvable(self) -> bool:
        """Whether a TPR can be measured, and not only limited from above."""
        return self.smallest_tpr is not None


def at_fpr(
    fpr: float,
    *,
    members: int,
    nonmembers: int,
    confidence: float = 0.95,
    power: float = 0.8,
    threshold: float | None = None,
    rng: np.random.Generator,
) -> Resolution:
    """Find the smallest TPR that an audit would tell from chance, or from a threshold for concern.

    The audit's own interval is computed on simulated ranks of Gaussian scores, whose separation is bisected; with many
    expected false alarms its normal approximation is used.

    Parameters
    ----------
    fpr : in (0, 1)
    members, nonmembers : numbers of independent records (or units), 1 or more
    confidence : of the two-sided interval
    power : in (0, 1), the share of audits that would succeed
    threshold : TPR to exceed; default the FPR itself, which is chance
    rng : generator of the simulated ranks

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> found = at_fpr(0.01, members=2000, nonmembers=2000, rng=rng)
    >>> found.resolvable, 0.02 < found.smallest_tpr < 0.04
    (True, True)
    >>> at_fpr(0.001, members=2000, nonmembers=2000, rng=rng).nonmembers_needed
    3690
    """
    _check(fpr=fpr, members=members, nonmembers=nonmembers, confidence=confidence, power=power)
    chance = fpr if threshold is None else threshold
    if not 0 < chance < 1:
        raise InputError("threshold", "a number in (0, 1)", str(threshold), "write 0.05 for 5%")
    seed = int(rng.integers(2**62))

    def limit(tpr: float, *, upper: bool) -> FloatArray:
        same = np.random.default_rng(seed)  # the same ranks for every separation, so that the search is monotone
        return _limits(fpr, tpr, members, nonmembers, confidence, upper=upper, rng=same)

    smallest = None
    if intervals.resolvable(fpr, nonmembers, confidence):
        smallest = _bisect_tpr(lambda tpr: float(np.mean(limit(tpr, upper=False) > chance)) >= power, chance)
    return Resolution(
        fpr,
        members,
        nonmembers,
        confidence,
        power,
        chance,
        intervals.nonmembers_needed(fpr, confidence),
        smallest,
        float(np.quantile(limit(fpr, upper=True), power)),
    )


def records_needed(
    fpr: float,
    tpr: float,
    *,
    confidence: float = 0.95,
    power: float = 0.8,
    threshold: float | None = None,
    rng: np.random.Generator,
) -> int:
    """Return how many members, and as many non-members, tell a true TPR from chance (or a threshold) at an FPR.

    Raises
    ------
    InputError
        If the TPR is not above what it is to be told from, or more than 1e8 records would be needed.

    Examples
    --------
    >>> 3690 <= records_needed(0.001, 0.05, rng=np.random.default_rng(0)) < 6000
    True
    """
    _check(fpr=fpr, confidence=confidence, power=power, members=1, nonmembers=1)
    chance = fpr if threshold is None else threshold
    if not chance < tpr < 1:
        raise InputError("tpr", f"a number above {chance:g}, which it is to be told from", str(tpr), "wish for more")
    seed = int(rng.integers(2**62))

    def enough(n: int) -> bool:
        same = np.random.default_rng(seed)
        low = _limits(fpr, tpr, n, n, confidence, upper=False, rng=same)
        return float(np.mean(low > chance)) >= power

    low = intervals.nonmembers_needed(fpr, confidence)
    if enough(low):
        return low
    high = 2 * low
    while not enough(high):
        low, high = high, 2 * high
        if high > _MOST_RECORDS:
            raise InputError("tpr", "a wish that 1e8 records can meet", str(tpr), "wish for a larger TPR or FPR")
    while high - low > max(1, low // 100):
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high


def smallest_auc(members: int, nonmembers: int, confidence: float = 0.95, power: float = 0.8) -> float:
    """Return the smallest AUC told from one half, by the null variance (n1 + n0 + 1) / (12 n1 n0) of the rank sum.

    Examples
    --------
    >>> round(smallest_auc(1000, 1000), 3)
    0.536
    """
    deviation = math.sqrt((members + nonmembers + 1) / (12 * members * nonmembers))
    return min(1.0, 0.5 + (float(special.ndtri((1 + confidence) / 2)) + float(special.ndtri(power))) * deviation)


def _limits(
    fpr: float, tpr: float, members: int, nonmembers: int, confidence: float, *, upper: bool, rng: np.random.Generator
) -> FloatArray:
    """Limits of the TPR in simulated audits of Gaussian scores whose true TPR at the FPR is ``tpr`` (replicates,)."""
    shift = float(special.ndtri(tpr) - special.ndtri(fpr))
    if fpr * nonmembers > _MANY_ALARMS:
        spread = _standard_error(fpr, tpr, shift, members, nonmembers)
        z = float(special.ndtri((1 + confidence) / 2)) * (1 if upper else -1)
        return tpr + spread * (z + special.ndtri((np.arange(_REPLICATES) + 0.5) / _REPLICATES))
    counts, mass = intervals.binomial_nodes(nonmembers, fpr, intervals.MOST_NODES)
    last = min(int(counts[-1]) + 1, nonmembers)
    resolved = intervals.resolvable(fpr, nonmembers, confidence)
    level = (1 + confidence) / 2 if upper else (1 - confidence) / 2
    found = np.empty(_REPLICATES)
    for r in range(_REPLICATES):
        # True FPRs of the highest non-members are the first order statistics of uniforms: ratios of exponential sums.
        spacing = np.cumsum(rng.standard_exponential(last))
        uniform = spacing / (spacing[-1] + rng.standard_gamma(nonmembers + 1 - last))
        above = special.ndtr(special.ndtri(uniform) + shift)
        shares = np.diff(above, prepend=0.0)
        hits = np.cumsum(rng.multinomial(members, np.append(shares, max(0.0, 1.0 - shares.sum()))))
        outer = np.append(hits[:last], members).astype(np.float64)
        row = counts.astype(np.intp)
        most = outer[np.minimum(row, last)]
        fewest = np.where(row > 0, outer[np.maximum(row - 1, 0)], 0.0)
        middle = (fewest + most) / 2 if resolved else most
        found[r] = intervals.beta_mixture_quantile(mass, middle, members, level, at_zero=not upper)
    return found


def _standard_error(fpr: float, tpr: float, shift: float, members: int, nonmembers: int) -> float:
    """Combine the standard error of the TPR at a threshold with that of its FPR, times the slope of the curve."""
    z = float(special.ndtri(fpr))
    slope = math.exp((z * z - (z + shift) ** 2) / 2)
    return math.sqrt(tpr * (1 - tpr) / members + slope**2 * fpr * (1 - fpr) / nonmembers)


def _bisect_tpr(succeeds: Callable[[float], bool], chance: float) -> float:
    low, high = float(special.logit(chance)), 20.0
    while high - low > 0.005:
        middle = (low + high) / 2
        low, high = (low, middle) if succeeds(float(special.expit(middle))) else (middle, high)
    return float(special.expit(high))


def _check(*, fpr: float, members: int, nonmembers: int, confidence: float, power: float) -> None:
    for name, value, low in (("fpr", fpr, 0.0), ("confidence", confidence, 0.5), ("power", power, 0.0)):
        if not low < value < 1:
            raise InputError(name, f"a number in ({low:g}, 1)", str(value), "write 0.01 for 1%")
    for name, count in (("members", members), ("nonmembers", nonmembers)):
        if not 1 <= count <= _MOST_RECORDS:
            raise InputError(name, "1 to 100000000", str(count), "give the number of records planned")

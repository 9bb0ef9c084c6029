"""Poisson-binomial test of pure epsilon: one vector of log-odds, or many at once.

The i-th guess T_i of a record with log-odds of membership lambda_i is right with probability at most
sigma(epsilon + T_i lambda_i), whatever the guesses before it turned out to be, if the algorithm is epsilon-DP
(Theorem D.1 of the zero-run paper, with the sign kept: statistics.md, section 7).
"""

# ruff: noqa: PLC0415 - scipy loads when used
from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from miaudit.arrays import BoolArray, FloatArray, IntArray
from miaudit.causal.crossfit import expit
from miaudit.dp.selection import GUESSES_FIRST
from miaudit.dp.verdict import LowerBound
from miaudit.errors import InputError
from miaudit.metrics.trials import approximate_tail, tail

_TOLERANCE = 1e-4  # of a bound on epsilon
_EXACT = 1e-12  # error of a tail
_LARGEST = 700.0  # exp overflows above


# -- the bound ------------------------------------------------------------------------------------------------------


def epsilon_bound(toward: ArrayLike, correct: int, level: float) -> float:
    """Return the largest epsilon at which the number of correct guesses is still too large, 0 if there is none.

    Parameters
    ----------
    toward : array (r,), T lambda: log-odds before the algorithm is asked that each guess is right; higher is easier
    correct : number of right guesses, 0 to r
    level : error probability in (0, 1)

    Returns
    -------
    float, 0 or more: the exact tail there is at most ``level``; within 1e-4 of the largest such value

    Examples
    --------
    >>> round(epsilon_bound(np.zeros(100), 80, 0.05), 2)
    0.96
    """
    return quantile_bound(np.asarray(toward, dtype=np.float64)[None, :], correct, level, 0)


def quantile_bound(toward: FloatArray, correct: int, level: float, below: int) -> float:
    """Return a value that all but ``below`` replicates reach with their exact bounds, to 1e-4, 0 or more.

    The search starts at the normal approximation, but only exact tails decide. A replicate that was rejected at a
    larger epsilon, or kept at a smaller one, needs no second test.

    Parameters
    ----------
    toward : array (K, r), T lambda of each guess under each replicate of a bootstrap, or a single one
    correct : number of right guesses
    level : error probability in (0, 1)
    below : 0 for the smallest bound of all; floor(K p') gives their plain p'-quantile (B7)
    """
    _check_finite(toward)
    if correct <= 0:
        return 0.0
    kept_low = np.zeros(len(toward), dtype=np.bool_)  # replicates (K,) that are not rejected at either end
    low, high, kept_high, probed = 0.0, math.inf, ~kept_low, False
    step = max(_TOLERANCE, 0.1 / toward.shape[1])  # about the error of the approximation
    at = max(0.0, float(np.sort(approximate_bounds(toward, correct, level))[below]) - step / 2)
    while high - low > _TOLERANCE:
        kept = kept_low.copy()
        open_ = np.flatnonzero(kept_high & ~kept_low)
        kept[open_] = tail(expit(toward[open_] + at), correct) > level
        if np.count_nonzero(kept) > below:
            if at == 0.0:
                return 0.0
            high, kept_high = at, kept
        else:
            low, kept_low, probed = at, kept, True
        # Outwards until both ends were tested, then halve.
        inwards = (low + high) / 2 if probed else max(low, high - step)
        at, step = inwards if math.isfinite(high) else low + step, 4 * step
    return low


def approximate_bounds(toward: FloatArray, correct: int, level: float) -> FloatArray:
    """Return bounds (K,) by the normal approximation: where a search starts, never a result.

    A few secant steps on the normal scale, where the tail is nearly linear in epsilon. Arguments as for
    :func:`quantile_bound`.
    """
    from scipy.special import ndtri

    n = toward.shape[1]
    share = min(max(correct / n, 0.5 / n), 1 - 0.5 / n)
    wanted = ndtri(level)

    def miss(at: FloatArray) -> FloatArray:
        p = approximate_tail(expit(toward + at[:, None]), correct)
        return np.asarray(ndtri(np.clip(p, 1e-12, 1 - 1e-12)) - wanted)

    before = np.clip(math.log(share / (1 - share)) - toward.mean(axis=1) - 0.5, 0.0, _LARGEST)
    at, missed = before + 0.2, miss(before)
    for _ in range(6):
        now = miss(at)
        slope = np.where(np.abs(now - missed) > 1e-9, (now - missed) / np.where(at == before, 1.0, at - before), 1.0)
        before, missed = at, now
        at = np.clip(at - np.clip(now / np.where(slope > 0, slope, 1.0), -1.0, 1.0), 0.0, _LARGEST)
    return np.asarray(at)


def _check_finite(toward: FloatArray) -> None:
    if toward.ndim != 2 or toward.size == 0 or not np.isfinite(toward).all():
        raise InputError(
            "toward", "finite log-odds (replicates, guesses)", f"shape {toward.shape}", "check the propensity"
        )


# -- the audit ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class PoissonBinomial:
    """Pure epsilon from the number of right guesses, without coins (Theorem D.1, erratum B9); its default.

    Attributes
    ----------
    margin : pessimism on the log-odds, 0 or more; None: 0 for given propensities, 0.1 for learned ones
    signed : T lambda (statistics.md, section 7), or with False the paper's |lambda|
    smallest : use only so many records of smallest |lambda|; for given propensities only
    """

    margin: float | None = None
    signed: bool = True
    smallest: int | None = None

    def __post_init__(self) -> None:
        check_margin(self.margin)


@dataclass(frozen=True, eq=False)
class UntamperedTest:
    """Test of pure epsilon on ranked guesses, with the number of right ones and no coins (Theorem D.1, erratum B9).

    Attributes
    ----------
    name : how the guesses are made, in words
    places : ints (m,), record numbers, the surest guess first
    correct : array (m,) of bool, in that order
    toward : array (m,), log-odds that each guess is right before the algorithm is asked, margin included
    replicates : from places (r,) to the same log-odds (K, r) under bootstrap replicates of the propensity; None without
        Half of the error probability then goes to the bootstrap: the bound is the plain quantile (erratum B7).
    """

    name: str
    places: IntArray
    correct: BoolArray
    toward: FloatArray
    replicates: Callable[[IntArray], FloatArray] | None = None

    def bound(self, rows: IntArray, guesses: int, confidence: float) -> LowerBound:
        """Return the bound of the first so many guesses among these rows."""
        chosen = rows[:guesses]
        right = int(np.count_nonzero(self.correct[chosen]))
        level, cost = (1 - confidence, 0.0) if self.replicates is None else ((1 - confidence) / 2, (1 - confidence) / 2)
        toward = self.toward[None, chosen] if self.replicates is None else self.replicates(chosen)
        below = math.floor(cost * len(toward))
        silent = np.sort(tail(expit(toward), right))  # exact p-values of epsilon = 0
        return LowerBound(
            parameter="epsilon",
            value=quantile_bound(toward, right, level, below),
            confidence=confidence,
            method="zero run, Poisson-binomial test of pure epsilon (Theorem D.1)",
            p_value=min(1.0, max(_EXACT, float(silent[-1 - below])) + cost),
            correct=right,
            guesses=guesses,
            canaries=len(rows),
            reachable=epsilon_bound(self.toward[chosen], guesses, level),
            assumptions=(GUESSES_FIRST,),
        )

    def share_right(self, rows: IntArray, guesses: int) -> tuple[int, int]:
        """Return right and made guesses among the first so many of these rows."""
        chosen = rows[:guesses]
        return int(np.count_nonzero(self.correct[chosen])), len(chosen)

    def foreseen(self, rows: IntArray, guesses: int, share: float, confidence: float) -> float:
        """Return the approximate bound if this share of the guesses were right."""
        toward = self.toward[None, rows[:guesses]]
        _check_finite(toward)
        return float(approximate_bounds(toward, math.floor(share * guesses), 1 - confidence)[0])

    def canaries(self, rows: IntArray) -> int:
        """Return the number of rows."""
        return len(rows)


def check_margin(margin: Any) -> None:
    """Refuse what is no margin on log-odds; None is: the default."""
    if margin is None:
        return
    if isinstance(margin, bool | str) or not (margin >= 0 and math.isfinite(margin)):
        raise InputError(
            "margin", "a finite number, 0 or more", repr(margin), "0.1 is the default for learned log-odds"
        )

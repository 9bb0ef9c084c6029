"""Guesses as independent trials: thinned to fair coins, or each with a probability of its own.

**Thinning** (Theorem Z) makes one-run evidence of zero-run evidence. A record is dropped at random with a probability
that depends on its label, so that membership of the kept ones is a fair coin given the covariates, or nearly one where
the log-odds are known within a half-width only. The theorem and what it gains over the paper's tampering are in
``docs/bounds.md``, its proof in ``experiments/zero_run/theorem_z.md``.

**Poisson-binomial**, of pure epsilon: the i-th guess T_i of a record with log-odds of membership lambda_i is right with
probability at most sigma(epsilon + T_i lambda_i), whatever the guesses before it turned out to be, if the algorithm is
epsilon-DP (Theorem D.1 of the zero-run paper, with the sign kept: experiments/methods.md, section 3).
"""

# ruff: noqa: PLC0415 - scipy loads when used
from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from miaudit.arrays import BoolArray, FloatArray, IntArray
from miaudit.causal import crossfit, progress
from miaudit.causal.crossfit import expit
from miaudit.causal.propensity import Propensity
from miaudit.dp.selection import GUESSES_FIRST, CountBound
from miaudit.dp.verdict import LowerBound
from miaudit.errors import InputError
from miaudit.errors.checks import is_number, positive
from miaudit.evidence import Evidence
from miaudit.metrics.trials import approximate_tail, kish_share, largest_tail, tail_exceeds

LEAST_ROWS_PER_COVARIATE = 40
_STANDARD_ERRORS = 2.0  # of learned log-odds, where nothing else is asked for
_TOLERANCE = 1e-4  # of a bound on epsilon
_EXACT = 1e-12  # error of a tail
_LARGEST = 700.0  # exp overflows above

# -- the coins ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class SeedStable:
    """Many sets of coins: a claim falls if at least three quarters of them refute it at three quarters of the level.

    The share of coin sets that refute a true claim at 3/4 of the level is at most 3/4 of the level on average, so by
    Markov's inequality it is 3/4 or more with at most the level's probability. Costs about 0.025 in mu.

    Attributes
    ----------
    sets : number of coin sets, 4 or more
    """

    sets: int = 40

    def __post_init__(self) -> None:
        if isinstance(self.sets, bool) or not isinstance(self.sets, int) or self.sets < 4:
            raise InputError("sets", "a whole number from 4 up", repr(self.sets), "40 is the default")

    @property
    def share_of_level(self) -> float:
        """Level of each coin set, as a share of the whole."""
        return 0.75

    def settle(self, bounds: list[float]) -> float:
        """Return the largest value that at least three quarters of the bounds reach."""
        needed = math.ceil(0.75 * len(bounds))
        return sorted(bounds, reverse=True)[needed - 1]


@dataclass(frozen=True, eq=False)
class Thinning:
    """Drop records at random until membership of the rest is a fair coin (Theorem Z); the default.

    Attributes
    ----------
    half_width : how far the log-odds may be off
        A number, one for each record (n,), ``StandardErrors(2)``, ``Scheffe()``; None: 0 for given propensities and two
        standard errors for learned ones.
    seeds : 1, or ``SeedStable()``
        One set of coins, or forty of which three quarters must agree. There is no choosing the best of several.
    """

    half_width: Any = None
    seeds: int | SeedStable = 1

    def __post_init__(self) -> None:
        if not isinstance(self.seeds, SeedStable) and (isinstance(self.seeds, bool) or self.seeds != 1):
            raise InputError(
                "seeds",
                "1, or SeedStable()",
                repr(self.seeds),
                "the best of several sets of coins would be multiple testing: SeedStable(sets=40) pays for it",
            )


def keeping_probability(member: BoolArray, guess: IntArray, low: FloatArray, high: FloatArray) -> FloatArray:
    """Probability (n,) in (0, 1] with which Theorem Z keeps each record.

    Parameters
    ----------
    member : array (n,) of bool
    guess : array (n,), +1 for a guess "member", -1 for "non-member"
    low, high : arrays (n,), bounds on the log-odds of membership; equal where they are known

    Returns
    -------
    array (n,)
        After a guess "member": min(1, e^-high) of members and min(1, e^high) of non-members. After a guess
        "non-member" the same with ``low``. With known log-odds it depends on the label alone.

    Examples
    --------
    >>> at = np.log([3.0])
    >>> [keeping_probability(np.array([a]), np.array([1]), at, at).round(3).item() for a in (True, False)]
    [0.333, 1.0]
    """
    logit = np.where(guess > 0, high, low)
    return np.asarray(np.exp(np.minimum(0.0, np.where(member, -logit, logit))))


def coins_worth(low: FloatArray, high: FloatArray) -> FloatArray:
    """Return s_i of Theorem Z (n,) in (0, 1]: how much of a fair coin each record is; their sum is M.

    1 for a record whose interval holds 0, else twice the chance of its unlikelier label at the end nearer to 0.

    Examples
    --------
    >>> coins_worth(np.array([-0.1, np.log(3)]), np.array([0.1, np.log(3)])).tolist()
    [1.0, 0.5]
    """
    return 2 * expit(-np.maximum(0.0, np.maximum(low, -high)))


def tossed(
    member: BoolArray, guess: IntArray, low: FloatArray, high: FloatArray, rng: np.random.Generator
) -> BoolArray:
    """Toss a coin for each record, arguments as for :func:`keeping_probability`; return which are kept (n,)."""
    return np.asarray(rng.random(len(member)) < keeping_probability(member, guess, low, high))


@dataclass(frozen=True, eq=False)
class SeedStableTest:
    """A one-run test on many sets of coins (:class:`SeedStable`).

    Attributes
    ----------
    name : how the guesses are made, in words
    places : ints (m,), record numbers, the surest guess first
    correct : bools (m,), in that order
    size : (m,), in that order: how much of a fair coin each record is
    coins : bools (m,) for each set: the records that were kept, in that order
    stable : the rule
    from_counts : bound from counts
    """

    name: str
    places: IntArray
    correct: BoolArray
    size: FloatArray
    coins: tuple[BoolArray, ...]
    stable: SeedStable
    from_counts: CountBound

    def bound(self, rows: IntArray, guesses: int, confidence: float) -> LowerBound:
        """Return what at least three quarters of the coin sets show."""
        whole, inner = self.canaries(rows), 1 - self.stable.share_of_level * (1 - confidence)
        limits = [
            self.from_counts(correct=right, guesses=guesses, canaries=max(whole, guesses), confidence=inner)
            for right in (self._right(coins, rows, guesses)[0] for coins in self.coins)
        ]
        middle = sorted(limits, key=lambda bound: bound.value, reverse=True)[math.ceil(0.75 * len(limits)) - 1]
        p_values = sorted(1.0 if bound.p_value is None else bound.p_value for bound in limits)
        return replace(
            middle,
            value=self.stable.settle([bound.value for bound in limits]),
            confidence=confidence,
            p_value=min(1.0, p_values[math.ceil(0.75 * len(limits)) - 1] / self.stable.share_of_level),
            corrections=(*middle.corrections, f"{len(limits)} sets of coins, of which three quarters must agree"),
        )

    def share_right(self, rows: IntArray, guesses: int) -> tuple[int, int]:
        """Return right and made guesses among the first kept ones of the first set of coins."""
        return self._right(self.coins[0], rows, guesses)

    def foreseen(self, rows: IntArray, guesses: int, share: float, confidence: float) -> float:
        """Return the bound if this share of the guesses were right."""
        whole, inner = self.canaries(rows), 1 - self.stable.share_of_level * (1 - confidence)
        right = math.floor(share * guesses)
        return self.from_counts(correct=right, guesses=guesses, canaries=max(whole, guesses), confidence=inner).value

    def canaries(self, rows: IntArray) -> int:
        """Return the effective number of fair coins, rounded up."""
        return max(1, math.ceil(float(self.size[rows].sum()) - 1e-9))

    def _right(self, kept: BoolArray, rows: IntArray, guesses: int) -> tuple[int, int]:
        guessed_rows = rows[kept[rows]][:guesses]
        return int(np.count_nonzero(self.correct[guessed_rows])), len(guessed_rows)


# -- how far the log-odds may be off --------------------------------------------------------------------------------


@dataclass(frozen=True)
class StandardErrors:
    """So many standard errors of each record's log-odds, pointwise (the default, with two).

    See experiments/methods.md, section 4.

    Attributes
    ----------
    multiple : above 0
    """

    multiple: float = _STANDARD_ERRORS

    def __post_init__(self) -> None:
        positive("multiple", self.multiple, "2 is the default")


@dataclass(frozen=True)
class Scheffe:
    """Half-widths that hold for all records at once, se_i sqrt(chi2_{d+1}), but for a probability that is paid for.

    Attributes
    ----------
    share : part of the audit's error probability that is spent here, in (0, 1)
    """

    share: float = 0.5

    def __post_init__(self) -> None:
        if not (is_number(self.share) and 0 < self.share < 1):
            raise InputError("share", "a number strictly between 0 and 1", repr(self.share), "0.5 is the default")


def half_width(
    chosen: Any, propensity: Propensity, level: float, replicates: ArrayLike | None = None, units: float = 1.0
) -> tuple[FloatArray, str, float]:
    """Return half-widths (n,), 0 or more, what they are in words, and the error probability that they cost.

    Parameters
    ----------
    chosen : number, array (n,), StandardErrors, Scheffe or None
        None: 0 for given propensities, ``StandardErrors(2)`` for learned ones.
    propensity : Propensity of n records
    level : error probability of the whole audit, in (0, 1)
    replicates : array (K, n), bootstrap replicates of the propensities, optional
        Where they are passed, or the model is not the default one, the standard error is their spread.
    units : share of the rows that count as independent, in (0, 1]

    Raises
    ------
    InputError
        For a negative or infinite half-width, one of another length, or where no standard error is known.

    Examples
    --------
    >>> half_width(0.2, Propensity.given([0.5, 0.6]), 0.05)[0].tolist()
    [0.2, 0.2]
    >>> half_width(None, Propensity.given([0.5, 0.6]), 0.05)[0].tolist()
    [0.0, 0.0]
    """
    n = len(propensity.values)
    match chosen:
        case None | Scheffe() if is_given(propensity):
            return np.zeros(n), "the propensities were given: log-odds taken as known", 0.0
        case None | StandardErrors():
            multiple = _STANDARD_ERRORS if chosen is None else chosen.multiple
            sentence = f"log-odds within {multiple:g} standard errors of the learned ones, pointwise"
            return multiple * standard_errors(propensity, replicates, units), sentence, 0.0
        case Scheffe(share):
            return _scheffe(share * level, propensity, replicates, units)
        case _:
            return _stated(chosen, n), "log-odds within the half-width that was stated", 0.0


def is_given(propensity: Propensity) -> bool:
    """Whether the propensities were given and not learned from rows."""
    return propensity.rows_per_covariate is None


def standard_errors(propensity: Propensity, replicates: ArrayLike | None = None, units: float = 1.0) -> FloatArray:
    """Standard error (n,) of each record's log-odds; 0 for given propensities.

    The spread over bootstrap replicates where there are any; else, for the default logistic model, sqrt(x' H^-1 x) with
    the information H of its features, scaled to the rows that each fold's model was learned from. A screened model
    brings the spread over its own resamples.

    Raises
    ------
    InputError
        For another classifier without replicates.

    Examples
    --------
    >>> from miaudit import Evidence
    >>> from miaudit.causal import propensity
    >>> rng = np.random.default_rng(0)
    >>> x = rng.normal(size=(2000, 1))
    >>> evidence = Evidence(score=x[:, 0], member=rng.random(2000) < 0.5, covariates=x, design="zero-run")
    >>> round(float(np.median(standard_errors(propensity.fit(evidence, rng=rng)))), 2)  # 2 / sqrt(1600) and a slope
    0.06
    """
    if is_given(propensity):
        return np.zeros(len(propensity.values))
    if replicates is not None:
        return np.asarray(logit(check_replicates(replicates, len(propensity.values))).std(axis=0, ddof=1))
    if propensity.errors is not None:
        return propensity.errors
    if not propensity.logistic or propensity.features is None:
        raise InputError(
            "half_width",
            "a number, or bootstrap replicates of a propensity that is not the default logistic model",
            "neither",
            "pass replicates=propensity.bootstrap(...), or half_width=",
        )
    ones = crossfit.with_ones(propensity.features)
    information = (ones * (propensity.values * (1 - propensity.values))[:, None]).T @ ones
    information *= _rows_learned_from(propensity) / len(ones) * units
    # Features that are copies of each other leave directions without information, in which no record lies either.
    values, vectors = np.linalg.eigh(information)
    seen = values > 1e-10 * values[-1]
    return np.asarray(np.linalg.norm((ones @ vectors[:, seen]) / np.sqrt(values[seen]), axis=1))


def check_replicates(replicates: ArrayLike, n: int) -> FloatArray:
    """Return bootstrap replicates of propensities (K, n), each strictly between 0 and 1, at least 20 of them."""
    array = np.asarray(replicates, dtype=np.float64)
    if array.ndim != 2 or array.shape[1] != n or len(array) < 20:
        raise InputError(
            "replicates", f"(K, {n}) propensities with K of at least 20", f"shape {array.shape}", "use 600"
        )
    if not ((array > 0) & (array < 1)).all():
        raise InputError(
            "replicates", "probabilities strictly between 0 and 1", "others, or NaN", "pass propensity.bootstrap(...)"
        )
    return array


def logit(p: FloatArray) -> FloatArray:
    """Log-odds of probabilities, any shape."""
    return np.asarray(np.log(p) - np.log1p(-p))


def _rows_learned_from(propensity: Propensity) -> float:
    assert propensity.features is not None and propensity.rows_per_covariate is not None  # noqa: S101
    rows = propensity.rows_per_covariate * propensity.features.shape[1]
    if propensity.folds is None:
        return float(rows)
    largest = float(np.bincount(propensity.folds - propensity.folds.min()).max())
    return float(rows) * (1 - largest / len(propensity.folds))


def _scheffe(
    cost: float, propensity: Propensity, replicates: ArrayLike | None, units: float
) -> tuple[FloatArray, str, float]:
    from scipy.special import chdtri

    if propensity.features is None:
        raise InputError("half_width", "a learned logistic propensity for Scheffe()", "another", "use StandardErrors()")
    columns = propensity.features.shape[1] + len(propensity.added)
    factor = math.sqrt(float(chdtri(columns + 1, cost)))
    spread = standard_errors(propensity, replicates, units)
    how = f"log-odds within Scheffe's band of the learned ones, for all records at once but for probability {cost:.3g}"
    return factor * spread, how, cost


def _stated(chosen: Any, n: int) -> FloatArray:
    try:
        values = np.asarray(chosen, dtype=np.float64)
    except (TypeError, ValueError):
        raise _unusable(repr(chosen), n) from None
    if isinstance(chosen, str | bool) or values.shape not in ((), (n,)):
        raise _unusable(repr(chosen) if values.ndim == 0 else f"shape {values.shape}", n)
    if not (np.isfinite(values) & (values >= 0)).all():
        raise _unusable(f"{values[~(np.isfinite(values) & (values >= 0))].flat[0]:g}", n)
    return np.broadcast_to(values, (n,)).astype(np.float64)


def _unusable(received: str, n: int) -> InputError:
    return InputError(
        "half_width",
        f"a finite number, 0 or more, or one for each of {n:,} records, or StandardErrors(), or Scheffe()",
        received,
        "it is in units of log-odds",
    )


def independent(ev: Evidence) -> float:
    """Share of the records that count as independent, at worst: Kish's, with the records of a unit all alike."""
    return 1.0 if ev.unit_codes is None else kish_share(ev.unit_codes)


def rows_for_each(propensity: Propensity, ev: Evidence) -> float | None:
    """Rows for each covariate that the propensity was learned from, counted as independent; None if it was given."""
    rows = propensity.rows_per_covariate
    return rows if rows is None or propensity.folds is None else rows * independent(ev)


def too_few_rows(propensity: Propensity, ev: Evidence) -> tuple[str, ...]:
    """Say that the propensity was learned from too few rows for each covariate, if it was."""
    rows = rows_for_each(propensity, ev)
    if rows is None or rows >= LEAST_ROWS_PER_COVARIATE:
        return ()
    return (
        f"the propensity was learned from {rows:.3g} {_kind(ev)} for each covariate, and bounds need "
        f"{LEAST_ROWS_PER_COVARIATE} unless bounds on the log-odds are stated; add records, or leave out covariates "
        "that say nothing of membership",
    )


def _kind(ev: Evidence) -> str:
    return "rows" if ev.unit_codes is None else "independent rows"


# -- each with its probability ----------------------------------------------------------------------------------------


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
        unrejected = kept_low.copy()
        open_ = np.flatnonzero(kept_high & ~kept_low)
        unrejected[open_] = tail_exceeds(expit(toward[open_] + at), correct, level)
        if np.count_nonzero(unrejected) > below:
            if at == 0.0:
                return 0.0
            high, kept_high = at, unrejected
        else:
            low, kept_low, probed = at, unrejected, True
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
    signed : T lambda (experiments/methods.md, section 3), or with False the paper's |lambda|
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
    from_counts : bound from counts, by which a schedule is laid out
    toward : array (m,), log-odds that each guess is right before the algorithm is asked, margin included
    replicates : from places (r,) to the same log-odds (K, r) under bootstrap replicates of the propensity; None without
        Half of the error probability then goes to the bootstrap: the bound is the plain quantile (erratum B7).
    """

    name: str
    places: IntArray
    correct: BoolArray
    from_counts: CountBound
    toward: FloatArray
    replicates: Callable[[IntArray], FloatArray] | None = None

    def bound(self, rows: IntArray, guesses: int, confidence: float) -> LowerBound:
        """Return the bound of the first so many guesses among these rows."""
        chosen = rows[:guesses]
        right = int(np.count_nonzero(self.correct[chosen]))
        level, cost = (1 - confidence, 0.0) if self.replicates is None else ((1 - confidence) / 2, (1 - confidence) / 2)
        toward = self.toward[None, chosen] if self.replicates is None else self.replicates(chosen)
        below = math.floor(cost * len(toward))
        silent = largest_tail(expit(toward), right, below)  # exact p-value of epsilon = 0
        progress.piece()
        return LowerBound(
            parameter="epsilon",
            value=quantile_bound(toward, right, level, below),
            confidence=confidence,
            method="zero run, Poisson-binomial test of pure epsilon (Theorem D.1)",
            p_value=min(1.0, max(_EXACT, silent) + cost),
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
        raise InputError("margin", "a finite number from 0 up", repr(margin), "0.1 is the default for learned log-odds")

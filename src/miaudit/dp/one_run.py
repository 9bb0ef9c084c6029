"""Lower bounds from one run: how many guesses were right, of records whose inclusion was a fair coin.

Two tests of a claim, inverted into bounds. **Steinke et al.** test (epsilon, delta): among r guesses the number of
correct ones is dominated by Binomial(r, e^eps / (1 + e^eps)), up to a term in delta. **Mahloujifar et al.** test a
whole trade-off function, such as that of mu-Gaussian DP, and gain from abstention: the fewer records are guessed, the
surer the guesses. Both hold whatever the attack is, and however its guesses depend on each other.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache, partial
from typing import get_args

import numpy as np
from scipy.special.cython_special import betainc, ndtr, ndtri

from miaudit.dp.counted_run import CountedRun
from miaudit.dp.directed_profile import DirectedProfile
from miaudit.dp.privacy_profile import PrivacyProfile
from miaudit.dp.ranked_run import RankedRun
from miaudit.dp.selection import GUESSES_FIRST, CountBound, Option
from miaudit.dp.tradeoff import Gaussian, TradeOff
from miaudit.dp.verdict import LowerBound, Parameter
from miaudit.errors import InputError
from miaudit.errors.checks import check_confidence, check_delta, is_number, positive, whole
from miaudit.evidence import Evidence
from miaudit.metrics.counted_evidence import CountedEvidence

__all__ = ["Inverse", "audit", "epsilon_lower_bound", "lower_bound", "mu_lower_bound", "p_value"]

TOLERANCE = 1e-7
LARGEST = 1e6
FAIR_COINS = "inclusion of each record was an independent fair coin, tossed by the auditor"

Inverse = Callable[[float], float]
"""The inverse of 1 - f: the largest false-positive rate at which the power is still at most the argument."""


def mu_lower_bound(*, correct: int, guesses: int, canaries: float, confidence: float = 0.95) -> LowerBound:
    """Lower bound on mu of Gaussian DP (Mahloujifar et al. 2024).

    Parameters
    ----------
    correct : int in [0, guesses]
        How many guesses were right.
    guesses : int in [1, canaries]
        How many records were guessed at; fixed before the labels were seen.
    canaries : int or float
        Records whose inclusion was a fair coin, guessed or not; an effective number (experiments/methods.md, section 3)
        is rounded up.
    confidence : float in (0, 1)
        One-sided. The p = 0.025 of the zero-run paper is 0.975 here.

    Returns
    -------
    LowerBound
        The value is a mu that the test rejects, or 0 where it rejects none; ``reachable`` is what as many guesses would
        have shown had all been right.

    Notes
    -----
    Algorithm 2 of the zero-run paper with errata B5 and B16; see :func:`rejects`.

    Examples
    --------
    >>> bound = mu_lower_bound(correct=416, guesses=500, canaries=10_000, confidence=0.975)
    >>> round(bound.value, 4), round(bound.reachable, 2)
    (0.4366, 1.47)
    """
    c, r, m = check_counts(correct, guesses, canaries)
    level = 1 - check_confidence(confidence)
    return LowerBound(
        parameter="mu",
        value=_largest_mu(c, r, m, level),
        confidence=confidence,
        method="one run, f-DP test of Mahloujifar et al.",
        p_value=_p_value_of_silence(c, r),
        correct=c,
        guesses=r,
        canaries=canaries,
        reachable=_largest_mu(r, r, m, level),
        assumptions=(FAIR_COINS, GUESSES_FIRST),
    )


def epsilon_lower_bound(
    *, correct: int, guesses: int, canaries: float, delta: float = 0.0, confidence: float = 0.95
) -> LowerBound:
    """Lower bound on epsilon of (epsilon, delta)-DP (Steinke, Nasr and Jagielski 2023).

    Parameters
    ----------
    correct, guesses, canaries : as in :func:`mu_lower_bound`
    delta : float in [0, 1)
        Of the claim. Its price grows with delta times the number of canaries: keep that well below 1.
    confidence : float in (0, 1), one-sided

    Returns
    -------
    LowerBound
        The value is an epsilon that the test rejects, or 0 where it rejects none.

    Notes
    -----
    Claims are nested: (eps, delta)-DP implies (eps', delta)-DP for eps' > eps. So any rejected epsilon is a valid
    bound, even where the p-value should not rise with epsilon throughout.

    Examples
    --------
    >>> round(epsilon_lower_bound(correct=90, guesses=100, canaries=1_000).value, 3)
    1.631
    >>> round(epsilon_lower_bound(correct=90, guesses=100, canaries=1_000, delta=1e-5).value, 3)
    1.626
    """
    c, r, m = check_counts(correct, guesses, canaries)
    delta = check_delta(delta)
    level = 1 - check_confidence(confidence)
    return LowerBound(
        parameter="epsilon",
        value=_largest_epsilon(c, r, m, delta, level),
        confidence=confidence,
        method="one run, (epsilon, delta) test of Steinke et al.",
        delta=delta,
        p_value=epsilon_p_value(0.0, correct=c, guesses=r, canaries=m, delta=delta),
        correct=c,
        guesses=r,
        canaries=canaries,
        reachable=_largest_epsilon(r, r, m, delta, level),
        assumptions=(FAIR_COINS, GUESSES_FIRST),
    )


def lower_bound(
    family: Callable[[float], TradeOff],
    *,
    correct: int,
    guesses: int,
    canaries: float,
    confidence: float = 0.95,
    parameter: Parameter = "epsilon",
    delta: float = 0.0,
    largest: float = LARGEST,
) -> LowerBound:
    """Lower bound on the parameter of any ordered family of trade-off functions, by the f-DP test.

    Parameters
    ----------
    family : callable
        From a parameter in [0, ``largest``] to a trade-off function that falls (leaks more) as the parameter rises.
    correct, guesses, canaries, confidence : as in :func:`mu_lower_bound`
    parameter, delta : what the family's parameter is called in the result, and its delta
    largest : float
        Where the family ends; a bound never exceeds it.

    Examples
    --------
    >>> from miaudit.dp.tradeoff import EpsilonDelta
    >>> claim = lambda epsilon: EpsilonDelta(epsilon, 1e-5)
    >>> round(lower_bound(claim, correct=90, guesses=100, canaries=1_000, delta=1e-5).value, 2)
    1.61
    """
    c, r, m = check_counts(correct, guesses, canaries)
    level = 1 - check_confidence(confidence)
    positive("largest", largest, "where does the family end?")

    def bound(right: int) -> float:
        return last_rejected(lambda x: _rejects(inverse_of(family(x)), right, r, m, level), largest)

    return LowerBound(
        parameter=parameter,
        value=bound(c),
        confidence=confidence,
        method="one run, f-DP test of Mahloujifar et al., family of trade-off functions",
        delta=check_delta(delta),
        p_value=_smallest_level(inverse_of(family(0.0)), c, r, m),
        correct=c,
        guesses=r,
        canaries=canaries,
        reachable=bound(r),
        assumptions=(FAIR_COINS, GUESSES_FIRST, "the family falls as its parameter rises"),
    )


def rejects(tradeoff: TradeOff | float, *, correct: int, guesses: int, canaries: float, level: float) -> bool:
    """Whether the f-DP test refutes a trade-off function at a level in (0, 1).

    Suppose that as many correct guesses have a probability of ``level``. The constraints that f-DP puts on the law of
    the count (Theorem 5.1.2 of the zero-run paper, on the sets {k, ..., r}) then force probability onto every smaller
    count. If that comes to more than 1 in all, the claim and the count do not go together.

    Parameters
    ----------
    tradeoff : TradeOff, or a float mu for Gaussian DP
    correct, guesses, canaries : as in :func:`mu_lower_bound`
    level : float in (0, 1)

    Notes
    -----
    Algorithm 2 of the zero-run paper. h is kept monotone (erratum B5), and the recursion stops as soon as the answer is
    known: with rejection when r + h reaches guesses / canaries, without it when h no longer rises (erratum B16).

    Examples
    --------
    >>> rejects(0.43, correct=416, guesses=500, canaries=10_000, level=0.025)
    True
    >>> rejects(0.44, correct=416, guesses=500, canaries=10_000, level=0.025)
    False
    """
    c, r, m = check_counts(correct, guesses, canaries)
    return _rejects(inverse_of(tradeoff), c, r, m, check_level(level))


def p_value(tradeoff: TradeOff | float, *, correct: int, guesses: int, canaries: float) -> float:
    """Smallest level at which the f-DP test refutes a trade-off function, in (0, 1]; at least 1e-300.

    Parameters
    ----------
    tradeoff : TradeOff, or a float mu for Gaussian DP
    correct, guesses, canaries : as in :func:`mu_lower_bound`

    Examples
    --------
    >>> round(p_value(0.4366, correct=416, guesses=500, canaries=10_000), 4)
    0.025
    """
    c, r, m = check_counts(correct, guesses, canaries)
    inverse = inverse_of(tradeoff)
    if tradeoff == 0 or tradeoff == Gaussian(0.0):
        return _p_value_of_silence(c, r)
    return _smallest_level(inverse, c, r, m)


def epsilon_p_value(epsilon: float, *, correct: int, guesses: int, canaries: float, delta: float = 0.0) -> float:
    """Bound on the probability of as many correct guesses under (epsilon, delta)-DP, in (0, 1] (Steinke et al.).

    P(Z >= v) + 2 m delta max_i P(v > Z >= v - i) / i with Z ~ Binomial(guesses, e^eps / (1 + e^eps)): the maximum of
    Steinke et al. (erratum B14), with the sign of erratum B2.

    Parameters
    ----------
    epsilon : float, 0 or more
    correct, guesses, canaries, delta : as in :func:`epsilon_lower_bound`

    Examples
    --------
    >>> round(epsilon_p_value(1.0, correct=90, guesses=100, canaries=1_000, delta=1e-5), 6)
    0.000841
    """
    c, r, m = check_counts(correct, guesses, canaries)
    if not (is_number(epsilon) and 0 <= epsilon < math.inf):
        raise InputError("epsilon", "a finite number, 0 or more", repr(epsilon), "0 is the claim that nothing leaks")
    return _tail(float(epsilon), c, r, m, check_delta(delta))


def check_level(level: object) -> float:
    """Return the level of a test, if it lies strictly between 0 and 1."""
    if isinstance(level, bool) or not isinstance(level, int | float) or not 0 < level < 1:
        raise InputError("level", "a number strictly between 0 and 1", repr(level), "it is 1 - confidence")
    return float(level)


# -- from evidence ----------------------------------------------------------------------------------------------------


def audit(
    evidence: Evidence,
    *,
    parameter: Parameter = "mu",
    delta: float = 0.0,
    guesses: Option | int | None = None,
    confidence: float = 0.95,
    rng: np.random.Generator,
) -> LowerBound:
    """Lower bound from one run whose records were included by independent fair coins.

    Parameters
    ----------
    evidence : Evidence of design "one-run", with one score
    parameter : "mu" (f-DP test, Gaussian DP) or "epsilon" ((epsilon, delta) test)
    delta : float in [0, 1)
        For "epsilon" only.
    guesses : int, an option of :mod:`miaudit.dp.selection`, or None
        How many guesses; None is Hedged(). Guesses are on both sides of the median, the farthest first. Hedged()
        guesses from both ends in turn where the scores are lopsided. A pilot also chooses between both sides and one
        side, and exceeds its level in large audits (see :class:`~miaudit.dp.selection.Pilot`).
    confidence : float in (0, 1), one-sided
    rng : draws the order of ties, the record of a unit, the records left out for balance, and a pilot

    Returns
    -------
    LowerBound
        ``corrections`` says what was left out, chosen or paid for.

    Raises
    ------
    DesignError
        For evidence of another design, or of none that was declared.
    InputError
        For several scores, and for options outside their range.

    Notes
    -----
    Fixed halves (as many members as non-members by design) are not independent coins: the theorems then hold as an
    approximation only (erratum B15).

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> member = rng.random(4_000) < 0.5
    >>> evidence = Evidence(score=rng.normal(2.0 * member), member=member, design="one-run")
    >>> bound = audit(evidence, rng=rng)
    >>> 0.5 < bound.value < 2, bound.guesses
    (True, 400)
    """
    check_confidence(confidence)
    bound = count_bound(parameter, delta)
    if isinstance(evidence, CountedEvidence) and evidence.design == "one-run":
        return CountedRun.of(evidence, bound, rng).lower_bound(guesses, confidence)
    run = RankedRun.of(evidence, bound, rng)
    return run.lower_bound(guesses, confidence)


def count_bound(parameter: object, delta: float = 0.0) -> CountBound:
    """Return the bound of a parameter from counts: :func:`mu_lower_bound`, or the one on epsilon at a delta."""
    if parameter == "mu":
        if check_delta(delta) > 0:
            raise InputError("delta", "0 for mu", repr(delta), 'ask for parameter="epsilon"')
        return mu_lower_bound
    if parameter == "epsilon":
        return _epsilon_bound(check_delta(delta))
    raise InputError("parameter", " or ".join(map(repr, get_args(Parameter))), repr(parameter), "choose one of them")


@lru_cache(maxsize=64)  # one object per delta, so that what is worked out for it beforehand can be remembered
def _epsilon_bound(delta: float) -> CountBound:
    return partial(epsilon_lower_bound, delta=delta)


# -- the f-DP test ----------------------------------------------------------------------------------------------------


def _rejects(inverse: Inverse, c: int, r: int, m: int, level: float) -> bool:
    """Run Algorithm 2 downwards from c; a NaN of a user's function counts as no rise, so as no rejection."""
    total = r / m
    mass, h = level * c / m, level * (r - c) / m
    for k in range(c - 1, -1, -1):
        if mass + h >= total:
            return True
        following = inverse(mass)
        if not following > h:
            return False
        mass += k / (r - k) * (following - h)
        h = following
    return mass + h >= total


def inverse_of(tradeoff: TradeOff | float) -> Inverse:
    """Return the inverse of 1 - f of a trade-off function, or of mu-GDP."""
    if isinstance(tradeoff, bool):
        raise InputError("tradeoff", "a trade-off function, or a mu", repr(tradeoff), "pass 0.5 for 0.5-GDP")
    if isinstance(tradeoff, int | float):
        if not 0 <= tradeoff < math.inf:
            raise InputError("tradeoff", "a finite mu, 0 or more", repr(tradeoff), "0 is the claim that nothing leaks")
        return _gaussian(float(tradeoff))
    if isinstance(tradeoff, Gaussian):
        return _gaussian(tradeoff.mu)
    if isinstance(tradeoff, PrivacyProfile | DirectedProfile):
        return tradeoff.scalar_fpr_at_tpr()
    return lambda power: float(tradeoff.fpr_at_tpr(power))


def _gaussian(mu: float) -> Inverse:
    # The scalar forms of scipy cost 0.1 microseconds; the array forms, and so TradeOff.fpr_at_tpr, ten times as much.
    return lambda power: ndtr(ndtri(power) - mu)


@lru_cache(maxsize=65_536)
def _largest_mu(c: int, r: int, m: int, level: float) -> float:
    return last_rejected(lambda mu: _rejects(_gaussian(mu), c, r, m, level), LARGEST)


@lru_cache(maxsize=65_536)
def _p_value_of_silence(c: int, r: int) -> float:
    """The smallest rejected level at mu = 0, where the recursion is linear in the level: one pass gives it.

    Growth that is left out, once it no longer shows in a double, can only make the p-value larger.
    """
    mass, h = c / r, (r - c) / r
    for k in range(c - 1, -1, -1):
        rise = mass - h
        if rise <= 1e-16 * mass or mass > 1e300:
            break
        mass += k / (r - k) * rise
        h += rise
    return max(1e-300, min(1.0, (1 + 1e-12) / (mass + h)))


def _smallest_level(inverse: Inverse, c: int, r: int, m: int) -> float:
    """Bisect the exponent of the level; level 1 is always rejected, and the end that comes back is."""
    rejected, accepted = 0.0, 1.0
    while _rejects(inverse, c, r, m, 10.0**-accepted):
        rejected, accepted = accepted, 2 * accepted
        if accepted > 300:
            return 1e-300
    while accepted - rejected > 1e-9:
        middle = (rejected + accepted) / 2
        if _rejects(inverse, c, r, m, 10.0**-middle):
            rejected = middle
        else:
            accepted = middle
    return float(10.0**-rejected)


# -- the (epsilon, delta) test ----------------------------------------------------------------------------------------


@lru_cache(maxsize=65_536)
def _largest_epsilon(c: int, r: int, m: int, delta: float, level: float) -> float:
    return last_rejected(lambda epsilon: _tail(epsilon, c, r, m, delta) <= level, LARGEST)


def _tail(epsilon: float, c: int, r: int, m: int, delta: float) -> float:
    q = 1 / (1 + math.exp(-epsilon))
    tail = _at_least(c, r, q)
    if delta > 0:
        tail += 2 * m * delta * _densest(c, r, q, tail)
    return min(1.0, tail)


def _densest(c: int, r: int, q: float, tail: float) -> float:
    """max_i P(c > Z >= c - i) / i: the largest mean of the mass function over a stretch that ends just below c.

    The mass function is unimodal, so the running mean is too: it rises while the next mass is above it. It rises at
    least as far as the mode, where the search starts: farther up the masses may be too small to be told from 0.
    """
    if c == 0:
        return 0.0
    mode = math.floor((r + 1) * q)
    low, high = max(1, c - mode), c

    def mean(i: int) -> float:
        return (_at_least(c - i, r, q) - tail) / i

    while low < high:
        middle = (low + high) // 2
        if _exactly(c - 1 - middle, r, q) > mean(middle):
            low = middle + 1
        else:
            high = middle
    return mean(low)


def _at_least(k: int, r: int, q: float) -> float:
    return 1.0 if k <= 0 else float(betainc(float(k), float(r - k + 1), q))


def _exactly(k: int, r: int, q: float) -> float:
    if q == 1:
        return float(k == r)
    choose = math.lgamma(r + 1) - math.lgamma(k + 1) - math.lgamma(r - k + 1)
    return math.exp(choose + k * math.log(q) + (r - k) * math.log1p(-q))


# -- the search -------------------------------------------------------------------------------------------------------


def last_rejected(refuted: Callable[[float], bool], largest: float) -> float:
    """Return the rejected end of a bracket no wider than 1e-7 (relative above 1), or 0 where 0 is not rejected."""
    if not refuted(0.0):
        return 0.0
    low, high = 0.0, min(1.0, largest)
    while refuted(high):
        if high >= largest:
            return largest
        low, high = high, min(2 * high, largest)
    while high - low > TOLERANCE * max(1.0, low):
        middle = (low + high) / 2
        if refuted(middle):
            low = middle
        else:
            high = middle
    return low


def check_counts(correct: object, guesses: object, canaries: object) -> tuple[int, int, int]:
    """Return counts 0 <= correct <= guesses <= canaries with at least one guess, as whole numbers."""
    if isinstance(canaries, float) and math.isfinite(canaries):
        canaries = math.ceil(canaries)
    c, r, m = (
        whole(name, x, "pass a count", low=None)
        for name, x in (("correct", correct), ("guesses", guesses), ("canaries", canaries))
    )
    if m < 1:
        raise InputError("canaries", "a whole number from 1 up", repr(canaries), "audit at least one record")
    if not 1 <= r <= m:
        raise InputError("guesses", f"a whole number from 1 to the {m:,} canaries", repr(guesses), "guess for some")
    if not 0 <= c <= r:
        raise InputError("correct", f"a whole number from 0 to the {r:,} guesses", repr(correct), "count them again")
    return c, r, m

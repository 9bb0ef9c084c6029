"""Power of an audit: what it can resolve, before any data is collected."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Literal, Protocol

import numpy as np
from scipy import special

from miaudit.arrays import FloatArray, IndexArray
from miaudit.auditing.planned_guesses import PlannedGuesses
from miaudit.causal.progress import piece, stage
from miaudit.dp import multi_run, one_run, schedule
from miaudit.dp.ranked_run import UNFAIR
from miaudit.dp.selection import Option
from miaudit.dp.tradeoff import Gaussian
from miaudit.dp.verdict import Claim, LowerBound
from miaudit.errors import InputError, share
from miaudit.errors.checks import check_delta
from miaudit.metrics import classical

__all__ = [
    "Reach",
    "Refutation",
    "Resolution",
    "Typical",
    "at_fpr",
    "reach",
    "records_needed",
    "refutation",
    "smallest_auc",
]

_REPLICATES = 300
# From so many expected false alarms on, normal limits differ from the simulated ones by less than the simulation does.
_MANY_ALARMS = 200
_MOST_RECORDS = 10**8
TRUE_MUS = (0.5, 1.0, 2.0)
"""Algorithms whose typical bounds are shown when a plan is made."""
# From so many models of a kind on, limits of both rates in closed form take the place of the joint test.
_MANY_MODELS = 10_000
_LARGEST_MU = 40.0
BoundedDesign = Literal["one-run", "multi-run"]


@dataclass(frozen=True)
class Resolution:
    """Resolution of a number of records at one FPR.

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
    """Return the smallest TPR distinguishable from chance, or from a threshold for concern.

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
        hint = share.meant(threshold) or "write 0.05 for 5%"
        raise InputError("threshold", "a number in (0, 1)", str(threshold), hint)
    seed = int(rng.integers(2**62))

    def limit(tpr: float, *, upper: bool) -> FloatArray:
        same = np.random.default_rng(seed)  # the same ranks for every separation, so that the search is monotone
        return _limits(fpr, tpr, members, nonmembers, confidence, upper=upper, rng=same)

    smallest = None
    if classical.resolvable(fpr, nonmembers, confidence):
        with stage(f"TPR at {fpr:g}"):
            smallest = _bisect_tpr(lambda tpr: float(np.mean(limit(tpr, upper=False) > chance)) >= power, chance)
    return Resolution(
        fpr,
        members,
        nonmembers,
        confidence,
        power,
        chance,
        classical.nonmembers_needed(fpr, confidence),
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
    """Return the members, and as many non-members, needed to tell a true TPR from chance.

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
        raise InputError("tpr", f"a number above {chance:g}", str(tpr), "wish for more")
    seed = int(rng.integers(2**62))

    def enough(n: int) -> bool:
        same = np.random.default_rng(seed)
        low = _limits(fpr, tpr, n, n, confidence, upper=False, rng=same)
        piece()
        return float(np.mean(low > chance)) >= power

    with stage(f"records for {fpr:g}"):
        return _fewest(enough, classical.nonmembers_needed(fpr, confidence), tpr)


def _fewest(enough: Callable[[int], bool], low: int, tpr: float) -> int:
    """Return about the smallest number, from ``low`` up, that is enough for a TPR."""
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


# -- privacy bounds ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Typical:
    """Typical result of the best attack on Gaussian noise, beside the truth.

    Attributes
    ----------
    mu, epsilon : of the algorithm; epsilon at the delta of the plan, None where no finite one is
    mu_shown, epsilon_shown : lower bounds, 0 or more
    """

    mu: float
    epsilon: float | None
    mu_shown: float
    epsilon_shown: float


@dataclass(frozen=True)
class Reach:
    """Largest lower bounds that a number of records of a design can show.

    Attributes
    ----------
    design : "one-run", or "multi-run" (one model for each record)
    audited : records behind a bound; a pilot's are left out
    confidence : one-sided, of each bound
    delta : of epsilon
    mu, epsilon : shown by an attack without any error
    mu_guesses, epsilon_guesses : with so many guesses
    typical : what algorithms of a known mu would show
    """

    design: str
    audited: int
    confidence: float
    delta: float
    mu: float
    mu_guesses: int
    epsilon: float
    epsilon_guesses: int
    typical: tuple[Typical, ...]


@dataclass(frozen=True)
class Refutation:
    """Whether a number of records of a design can refute a claim, and by how many guesses.

    Attributes
    ----------
    parameter, value, delta : what is claimed
    design : as in :class:`Reach`
    reachable : the largest bound on the claimed parameter
    refutable : whether that lies above the claim
    correct, guesses, accuracy : about the fewest right guesses of the best attack that would do, as a count and as a
        share; None where none would
    true_mu : the smallest mu of Gaussian noise on which the best attack would typically do that; None likewise
    """

    parameter: str
    value: float
    delta: float
    design: str
    reachable: float
    refutable: bool
    correct: int | None = None
    guesses: int | None = None
    accuracy: float | None = None
    true_mu: float | None = None


@stage("bounds")
def reach(
    design: BoundedDesign,
    *,
    members: int,
    nonmembers: int,
    delta: float = 1e-5,
    confidence: float = 0.95,
    true_mus: Sequence[float] = TRUE_MUS,
    guesses: Option | int | None = None,
) -> Reach:
    """Return the largest bounds that an audit can show, and those for algorithms of known mu.

    One run: the best of the numbers of guesses that the option tests is taken, each at its part of the level. Many
    runs: the best of eight thresholds, each at an eighth of the error. Both as ``miaudit audit`` does by default.

    Parameters
    ----------
    design : "one-run" or "multi-run"
    members, nonmembers : numbers of independent records (or units); of models, with many runs
    delta : in [0, 1), of epsilon
    confidence : in (0.5, 1), one-sided
    true_mus : above 0
    guesses : int, an option of :mod:`miaudit.dp.selection`, or None for Hedged()
        Of one run.

    Examples
    --------
    >>> found = reach("one-run", members=5000, nonmembers=5000, confidence=0.975)
    >>> [f"{t.mu:g}: {t.mu_shown:.2f}" for t in found.typical], round(found.mu, 1)
    (['0.5: 0.31', '1: 0.67', '2: 1.31'], 2.6)
    """
    trials = _trials(design, members, nonmembers, confidence, check_delta(delta), guesses)
    perfect = trials.typical("mu", _LARGEST_MU), trials.typical("epsilon", _LARGEST_MU)
    return Reach(
        design,
        trials.audited,
        confidence,
        delta,
        perfect[0].value,
        perfect[0].guesses or 0,
        perfect[1].value,
        perfect[1].guesses or 0,
        tuple(_typical(trials, mu, delta) for mu in true_mus),
    )


def refutation(
    claim: Claim,
    design: BoundedDesign,
    *,
    members: int,
    nonmembers: int,
    confidence: float = 0.95,
    guesses: Option | int | None = None,
) -> Refutation:
    """Return whether an audit can refute a claim, and by how many right guesses.

    Parameters
    ----------
    claim : of an epsilon at its delta, or of a mu
    design, members, nonmembers, confidence, guesses : as in :func:`reach`

    Examples
    --------
    >>> found = refutation(Claim.gaussian(0.5), "one-run", members=1000, nonmembers=1000)
    >>> found.refutable, found.guesses, round(found.accuracy, 2)
    (True, 200, 0.86)
    >>> refutation(Claim.gaussian(3.0), "one-run", members=1000, nonmembers=1000).refutable
    False
    """
    trials = _trials(design, members, nonmembers, confidence, claim.delta, guesses)
    reachable = trials.typical(claim.parameter, _LARGEST_MU).value
    arguments = claim.parameter, claim.value, claim.delta, design, reachable
    if reachable <= claim.value:
        return Refutation(*arguments, False)
    low, high = 0.01, _LARGEST_MU
    while high > low * 1.01:
        middle = math.sqrt(low * high)
        enough = trials.typical(claim.parameter, middle).value > claim.value
        low, high = (low, middle) if enough else (middle, high)
    typical = trials.typical(claim.parameter, high)
    accuracy = (typical.correct or 0) / (typical.guesses or 1)
    return Refutation(*arguments, True, typical.correct, typical.guesses, accuracy, high)


class _Trials(Protocol):
    """Records of a design, and what the best attack on Gaussian noise of a mu would typically show with them."""

    @property
    def audited(self) -> int: ...

    def typical(self, parameter: str, mu: float) -> LowerBound:
        """Return the best bound; at the largest mu the attack makes no error."""
        ...


@dataclass(frozen=True)
class _OneRun:
    """Canaries of one run, and the numbers of guesses of an option, of which the best stands for what it chooses."""

    planned: PlannedGuesses
    confidence: float
    delta: float

    @classmethod
    def of(
        cls, members: int, nonmembers: int, confidence: float, delta: float, guesses: Option | int | None
    ) -> _OneRun:
        n = members + nonmembers
        if abs(members - nonmembers) > UNFAIR * math.sqrt(n):
            n = 2 * min(members, nonmembers)
        return cls(PlannedGuesses.of(guesses, n, confidence), confidence, delta)

    @property
    def audited(self) -> int:
        return self.planned.audited

    def typical(self, parameter: str, mu: float) -> LowerBound:
        return max(self._bounds(parameter, mu), key=lambda bound: bound.value)

    def _bounds(self, parameter: str, mu: float) -> Iterator[LowerBound]:
        bound = one_run.count_bound(parameter, 0.0 if parameter == "mu" else self.delta)
        for r, at in self.planned.tests:
            right = round(r * schedule.gaussian_accuracy(mu, r / self.audited))
            yield bound(correct=right, guesses=r, canaries=self.audited, confidence=at)


@dataclass(frozen=True)
class _MultiRun:
    """Models of many runs, with thresholds at fixed ranks among the non-members, each at its share of the error."""

    members: int
    nonmembers: int
    confidence: float
    delta: float

    @property
    def audited(self) -> int:
        return self.members + self.nonmembers

    def typical(self, parameter: str, mu: float) -> LowerBound:
        ranks = multi_run.Bonferroni().ranks(self.nonmembers)
        quick = [self._bound(parameter, j, mu, len(ranks), multi_run.ClopperPearson()) for j in ranks]
        best = max(range(len(ranks)), key=lambda i: quick[i].value)
        if max(self.members, self.nonmembers) > _MANY_MODELS:
            return quick[best]
        return self._bound(parameter, ranks[best], mu, len(ranks), multi_run.Joint())

    def _bound(self, parameter: str, rank: int, mu: float, tests: int, method: multi_run.Method) -> LowerBound:
        fpr = (rank + 1) / (self.nonmembers + 1)  # the mean false-positive rate above that many non-members
        right = round(self.members * float(special.ndtr(mu + special.ndtri(fpr))))
        bound = multi_run.mu_lower_bound
        if parameter == "epsilon":
            bound = partial(multi_run.epsilon_lower_bound, delta=self.delta)
        return bound(
            true_positives=right,
            members=self.members,
            false_positives=rank,
            nonmembers=self.nonmembers,
            confidence=1 - (1 - self.confidence) / tests,
            method=method,
        )


def _trials(
    design: str, members: int, nonmembers: int, confidence: float, delta: float, guesses: Option | int | None
) -> _Trials:
    _check(fpr=0.5, members=members, nonmembers=nonmembers, confidence=confidence, power=0.5)
    if design == "one-run":
        return _OneRun.of(members, nonmembers, confidence, delta, guesses)
    if design == "multi-run":
        return _MultiRun(members, nonmembers, confidence, delta)
    hint = "zero-run bounds depend on the shift between members and non-members, and reach less than one-run"
    raise InputError("design", "one-run or multi-run", repr(design), hint)


def _typical(trials: _Trials, mu: float, delta: float) -> Typical:
    epsilon = float(Gaussian(mu).epsilon_at(delta))
    return Typical(
        mu,
        epsilon if math.isfinite(epsilon) else None,
        trials.typical("mu", mu).value,
        trials.typical("epsilon", mu).value,
    )


# -- simulated limits -------------------------------------------------------------------------------------------------


def _limits(
    fpr: float, tpr: float, members: int, nonmembers: int, confidence: float, *, upper: bool, rng: np.random.Generator
) -> FloatArray:
    """Limits of the TPR in simulated audits of Gaussian scores whose true TPR at the FPR is ``tpr`` (replicates,)."""
    shift = float(special.ndtri(tpr) - special.ndtri(fpr))
    if fpr * nonmembers > _MANY_ALARMS:
        z = float(special.ndtri((1 + confidence) / 2)) * (1 if upper else -1)
        return _normal_limits(tpr, _standard_error(fpr, tpr, shift, members, nonmembers), z)
    counts, mass = classical.binomial_nodes(nonmembers, fpr, classical.MOST_NODES)
    last = min(int(counts[-1]) + 1, nonmembers)
    resolved = classical.resolvable(fpr, nonmembers, confidence)
    level = (1 + confidence) / 2 if upper else (1 - confidence) / 2
    simulated = np.empty(_REPLICATES)
    for r in range(_REPLICATES):
        hits = _hits(last, shift, members, nonmembers, rng)
        above = _hits_above(counts.astype(np.intp), hits, resolved=resolved)
        simulated[r] = classical.beta_mixture_quantile(mass, above, members, level, at_zero=not upper)
    return simulated


def _hits(last: int, shift: float, members: int, nonmembers: int, rng: np.random.Generator) -> FloatArray:
    """Members above each of the ``last`` highest non-members of one simulated audit, and at the end all of them."""
    # True FPRs of the highest non-members are the first order statistics of uniforms: ratios of exponential sums.
    spacing = np.cumsum(rng.standard_exponential(last))
    uniform = spacing / (spacing[-1] + rng.standard_gamma(nonmembers + 1 - last))
    above = special.ndtr(special.ndtri(uniform) + shift)
    shares = np.diff(above, prepend=0.0)
    hits = np.cumsum(rng.multinomial(members, np.append(shares, max(0.0, 1.0 - shares.sum()))))
    return np.append(hits[:last], members).astype(np.float64)


def _hits_above(row: IndexArray, hits: FloatArray, *, resolved: bool) -> FloatArray:
    """Members above a threshold that lies below this many non-members: half-way between two ranks, where resolved."""
    most = hits[np.minimum(row, len(hits) - 1)]
    fewest = np.where(row > 0, hits[np.maximum(row - 1, 0)], 0.0)
    return (fewest + most) / 2 if resolved else most


def _normal_limits(tpr: float, standard_error: float, z: float) -> FloatArray:
    """Limits at z standard errors from estimates at the quantiles of their normal law (replicates,)."""
    return tpr + standard_error * (z + special.ndtri((np.arange(_REPLICATES) + 0.5) / _REPLICATES))


def _standard_error(fpr: float, tpr: float, shift: float, members: int, nonmembers: int) -> float:
    """Combine the standard error of the TPR at a threshold with that of its FPR, times the slope of the curve."""
    z = float(special.ndtri(fpr))
    slope = math.exp((z * z - (z + shift) ** 2) / 2)
    return math.sqrt(tpr * (1 - tpr) / members + slope**2 * fpr * (1 - fpr) / nonmembers)


def _bisect_tpr(succeeds: Callable[[float], bool], chance: float) -> float:
    low, high = float(special.logit(chance)), 20.0
    while high - low > 0.005:
        middle = (low + high) / 2
        piece()
        low, high = (low, middle) if succeeds(float(special.expit(middle))) else (middle, high)
    return float(special.expit(high))


def _check(*, fpr: float, members: int, nonmembers: int, confidence: float, power: float) -> None:
    for name, value, low in (
        ("fpr", fpr, classical.SMALLEST_FPR),
        ("confidence", confidence, 0.5),
        ("power", power, 0.0),
    ):
        if not low < value < 1:
            raise InputError(name, f"a number in ({low:g}, 1)", str(value), "write 0.01 for 1%")
    for name, count in (("members", members), ("nonmembers", nonmembers)):
        if not 1 <= count <= _MOST_RECORDS:
            raise InputError(name, "1 to 100000000", str(count), "give the number of records planned")

"""Lower bounds from many runs: one model per record, inclusion randomised, so that the trials are independent.

Given a threshold that was not chosen on them, true and false positives are independent binomial counts, and a claim is
a curve that limits their rates, TPR <= g(FPR) (:mod:`miaudit.dp.tradeoff`). A bound inverts an exact test of that
claim. Choosing the threshold on the audited scores is paid for, or labelled exploratory (erratum B19).
"""

# ruff: noqa: PLC0415 - the heavier parts of scipy load when used
from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import overload

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from miaudit.causal.crossfit import one_of_each
from miaudit.dp.bounds import LowerBound, Parameter, check_confidence, check_delta
from miaudit.dp.tradeoff import EpsilonDelta, Gaussian, TradeOff
from miaudit.errors import DesignError, InputError
from miaudit.evidence import Evidence

FloatArray = NDArray[np.float64]

_NUISANCE = 1e-6  # probability given up so that only plausible rates need be searched
_TAIL = 8.5  # standard deviations kept of a Beta law; 1e-17 lies beyond and is added
_SAME_RATES = (
    "the trials are independent and their records drawn from one population, or one record throughout,"
    " with inclusion decided by coins that nothing else depends on"
)


@dataclass(frozen=True)
class Threshold:
    """A threshold fixed before the scores were seen: a score of at least ``value`` is called a member."""

    value: float

    def __post_init__(self) -> None:
        _require(_is_number(self.value), "threshold", "a finite number", self.value, "it is compared with the scores")


@dataclass(frozen=True)
class Split:
    """The best threshold on a random share of the trials of each class, measured on the others."""

    share: float = 0.5

    def __post_init__(self) -> None:
        inside = _is_number(self.share) and 0.05 <= self.share <= 0.95
        _require(inside, "share", "a number in [0.05, 0.95]", self.share, "0.5 is the default")


@dataclass(frozen=True)
class Bonferroni:
    """Thresholds at fixed quantiles of the non-members' scores, each tested at its share of the error (the default).

    ``quantiles`` in [0, 1]: 0.99 is the threshold that about 1% of the non-members exceed, 1 lies above them all.
    """

    quantiles: tuple[float, ...] = (0.1, 0.3, 0.5, 0.7, 0.9, 0.95, 0.99, 1.0)

    def __post_init__(self) -> None:
        object.__setattr__(self, "quantiles", tuple(self.quantiles))
        inside = bool(self.quantiles) and all(_is_number(q) and 0 <= q <= 1 for q in self.quantiles)
        _require(inside, "quantiles", "numbers in [0, 1]", self.quantiles, "0.99 is an FPR of about 1%")


@dataclass(frozen=True)
class Exploratory:
    """The best of all thresholds, uncorrected: its error is not what it says, and the bound is labelled so."""


ThresholdRule = Threshold | Split | Bonferroni | Exploratory


@dataclass(frozen=True)
class ClopperPearson:
    """Exact limits of both rates, each with half of the error; the claim is refuted if they are outside its curve."""


@dataclass(frozen=True)
class Joint:
    """Both counts at once: the probability, at the worst rates the claim permits, of anything as extreme (default).

    Extreme is what leaves the curve further when both rates are moved to their limits. Those limits serve as an order
    only, so the test is exact, and it gives up less than a confidence split over two errors (Buehler, 1957; Berger and
    Boos, 1994, for the rate that the claim leaves open). Its p-value is never below 1e-6, which pays for the search.
    """


Method = ClopperPearson | Joint


@dataclass(frozen=True)
class Counts:
    """What an attack did: ``true_positives`` of ``members`` and ``false_positives`` of ``nonmembers`` called members.

    Examples
    --------
    >>> Counts(40, 50, 10, 50).tpr
    0.8
    """

    true_positives: int
    members: int
    false_positives: int
    nonmembers: int

    def __post_init__(self) -> None:
        for hits, trials in (("true_positives", "members"), ("false_positives", "nonmembers")):
            n = _count(trials, getattr(self, trials), 1, None)
            object.__setattr__(self, trials, n)
            object.__setattr__(self, hits, _count(hits, getattr(self, hits), 0, n))

    @property
    def tpr(self) -> float:
        """Share of the members called members."""
        return self.true_positives / self.members

    @property
    def fpr(self) -> float:
        """Share of the non-members called members."""
        return self.false_positives / self.nonmembers

    @property
    def correct(self) -> int:
        """Right guesses about members and non-members."""
        return self.true_positives + self.nonmembers - self.false_positives


@dataclass(frozen=True)
class _Family:
    """Claims of one kind, weaker as their parameter grows."""

    parameter: Parameter
    delta: float = 0.0

    def claim(self, value: float) -> TradeOff:
        return EpsilonDelta(value, self.delta) if self.parameter == "epsilon" else Gaussian(value)

    def of_point(self, tpr: float, fpr: float) -> float:
        """Return what :meth:`of_points` says of one point, without arrays."""
        if self.parameter == "mu":
            return float(special.ndtri(tpr) - special.ndtri(fpr))
        up = math.log((tpr - self.delta) / fpr) if tpr > self.delta and fpr > 0 else math.inf * (tpr - self.delta or -1)
        left, missed = 1 - fpr - self.delta, 1 - tpr
        down = math.log(left / missed) if left > 0 and missed > 0 else math.inf * (left or -1)
        return max(up, down)

    def of_points(self, tpr: ArrayLike, fpr: ArrayLike) -> FloatArray:
        """Return the parameter at whose curve points lie (k,), negative below that of 0, rates strictly in (0, 1)."""
        t, a = np.asarray(tpr, dtype=np.float64), np.asarray(fpr, dtype=np.float64)
        if self.parameter == "mu":
            return np.asarray(special.ndtri(t) - special.ndtri(a))
        with np.errstate(divide="ignore", invalid="ignore"):
            up = np.where(t > self.delta, np.log(np.maximum(t - self.delta, 0.0) / a), -np.inf)
            down = np.where(1 - a > self.delta, np.log(np.maximum(1 - a - self.delta, 0.0) / (1 - t)), -np.inf)
        return np.maximum(up, down)


@overload
def epsilon_lower_bound(
    evidence: Evidence,
    *,
    delta: float = ...,
    confidence: float = ...,
    threshold: ThresholdRule | None = ...,
    method: Method = ...,
    rng: np.random.Generator,
) -> LowerBound: ...
@overload
def epsilon_lower_bound(
    *,
    true_positives: int,
    members: int,
    false_positives: int,
    nonmembers: int,
    delta: float = ...,
    confidence: float = ...,
    method: Method = ...,
) -> LowerBound: ...
def epsilon_lower_bound(
    evidence: Evidence | None = None,
    *,
    true_positives: int | None = None,
    members: int | None = None,
    false_positives: int | None = None,
    nonmembers: int | None = None,
    delta: float = 0.0,
    confidence: float = 0.95,
    threshold: ThresholdRule | None = None,
    method: Method = Joint(),
    rng: np.random.Generator | None = None,
) -> LowerBound:
    """Bound the epsilon of (epsilon, delta)-DP from below, from evidence of many runs or from its error counts.

    Both directions of the claim count: TPR <= e^eps FPR + delta and TNR <= e^eps FNR + delta.

    Parameters
    ----------
    evidence : of design "multi-run", with one score; or the four counts instead
    true_positives, members, false_positives, nonmembers : counts at a threshold that was **not** chosen on them
    delta : in [0, 1)
    confidence : in (0, 1), one-sided: the bound exceeds the truth in at most 1 - confidence of all audits
    threshold : Bonferroni() by default; Split(), Threshold(value) or Exploratory(); with evidence only
    method : Joint() or ClopperPearson(): the test of counts (of ranks under Bonferroni)
    rng : for the split, ties and the record of each unit; required with evidence

    Raises
    ------
    DesignError
        If the evidence is not of many runs.
    InputError
        For counts or options outside their range.

    Examples
    --------
    >>> bound = epsilon_lower_bound(true_positives=90, members=100, false_positives=10, nonmembers=100)
    >>> print(f"{bound.value:.3f} at {bound.confidence:.0%}")
    1.664 at 95%
    >>> both = epsilon_lower_bound(
    ...     true_positives=90, members=100, false_positives=10, nonmembers=100, method=ClopperPearson())
    >>> print(f"{both.value:.3f}")
    1.542
    """
    counts = (true_positives, members, false_positives, nonmembers)
    return _bound(evidence, counts, _Family("epsilon", check_delta(delta)), confidence, threshold, method, rng)


@overload
def mu_lower_bound(
    evidence: Evidence,
    *,
    confidence: float = ...,
    threshold: ThresholdRule | None = ...,
    method: Method = ...,
    rng: np.random.Generator,
) -> LowerBound: ...
@overload
def mu_lower_bound(
    *,
    true_positives: int,
    members: int,
    false_positives: int,
    nonmembers: int,
    confidence: float = ...,
    method: Method = ...,
) -> LowerBound: ...
def mu_lower_bound(
    evidence: Evidence | None = None,
    *,
    true_positives: int | None = None,
    members: int | None = None,
    false_positives: int | None = None,
    nonmembers: int | None = None,
    confidence: float = 0.95,
    threshold: ThresholdRule | None = None,
    method: Method = Joint(),
    rng: np.random.Generator | None = None,
) -> LowerBound:
    """Bound the mu of Gaussian DP from below: as :func:`epsilon_lower_bound`, with the Gaussian trade-off.

    Under Clopper-Pearson it is Phi^-1(lower limit of TPR) - Phi^-1(upper limit of FPR), at least 0.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> member = rng.random(2000) < 0.5
    >>> evidence = Evidence(score=rng.normal(size=2000) + member, member=member, design="multi-run")
    >>> bound = mu_lower_bound(evidence, rng=rng)  # the truth is 1
    >>> print(f"{bound.value:.3f}: {bound.corrections[0]}")
    1.000: the best of 8 thresholds fixed beforehand, each at an error of 0.00625 (Bonferroni)
    """
    counts = (true_positives, members, false_positives, nonmembers)
    return _bound(evidence, counts, _Family("mu"), confidence, threshold, method, rng)


def p_value(
    claim: TradeOff,
    *,
    true_positives: int,
    members: int,
    false_positives: int,
    nonmembers: int,
    method: Method = Joint(),
) -> float:
    """Return the p-value, in (0, 1], of a claim against counts at a threshold that was not chosen on them.

    Examples
    --------
    >>> counts = dict(true_positives=90, members=100, false_positives=10, nonmembers=100)
    >>> p_value(Gaussian(1.5), **counts) < 0.001 < p_value(Gaussian(2.2), **counts)
    True
    """
    counts = Counts(true_positives, members, false_positives, nonmembers)
    return _test(_check_method(method), counts, _order(claim), 0.05).p_value(claim)


# -- tests of a claim -------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Test:
    """A test whose p-value grows as the claim gets weaker."""

    p_value: Callable[[TradeOff], float]
    start: float  # a parameter near the bound

    def invert(self, family: _Family, level: float) -> float:
        """Return the largest parameter rejected at a level, from below to 1e-9, or 0."""
        from scipy import optimize

        def excess(value: float) -> float:
            return math.log(max(self.p_value(family.claim(value)), 1e-300) / level)

        if excess(0.0) > 0:
            return 0.0
        low, high = 0.0, max(self.start, 0.1)
        while excess(high) <= 0:
            low, high = high, 2 * high
        root = float(optimize.brentq(excess, low, high, xtol=1e-10, rtol=1e-12))
        while root > low and excess(root) > 0:  # the end of the bracket that is rejected (erratum B16)
            root = max(low, root - 1e-9)
        return root


def _test(method: Method, counts: Counts, order: _Family, level: float) -> _Test:
    return (
        _clopper_pearson(counts, order, level) if isinstance(method, ClopperPearson) else _joint(counts, order, level)
    )


def _clopper_pearson(counts: Counts, order: _Family, level: float) -> _Test:
    """Twice the share of the error at which the limits of both rates meet the curve.

    At the rates where they do, P(Bin(n1, g(a)) >= true positives) = P(Bin(n0, a) <= false positives): the first rises
    with a and the second falls, so one root is to be found, and no limit is inverted.
    """
    tp, fp, n1, n0 = counts.true_positives, counts.false_positives, counts.members, counts.nonmembers

    def p_value(claim: TradeOff) -> float:
        from scipy import optimize

        shift = claim.delta if isinstance(claim, EpsilonDelta) else 0.0
        null = claim in (EpsilonDelta(0.0, shift), Gaussian(0.0))  # TPR = FPR + delta, without the checks of a claim

        def inside(rate: float) -> float:
            reached = min(rate + shift, 1.0) if null else float(claim.tpr_at_fpr(rate))
            return float(special.betainc(tp, n1 - tp + 1, reached))

        def outside(rate: float) -> float:
            return float(special.betaincc(fp + 1, n0 - fp, rate)) if fp < n0 else 1.0

        def apart(rate: float) -> float:
            return math.log(max(inside(rate), 1e-300)) - math.log(max(outside(rate), 1e-300))

        median_in, median_out = _limits(counts, 0.5)
        bottom = median_out
        top = median_in - shift if null else float(claim.fpr_at_tpr(median_in))
        if top <= bottom:
            return 1.0
        rate = optimize.brentq(apart, bottom, top, xtol=1e-15, rtol=1e-12)
        return min(1.0, 2 * max(inside(rate), outside(rate)))

    low, high = _limits(counts, level / 2)
    return _Test(p_value, max(0.0, order.of_point(low, high)))


def _joint(counts: Counts, order: _Family, level: float) -> _Test:
    """Exact test of both counts, ordered by where their limits at a lax level lie (:class:`Joint`).

    The set of outcomes at least as extreme holds with (tp, fp) every outcome with more true or fewer false positives,
    so its probability is largest on the claim's curve, TPR = g(FPR), and one rate remains to be searched, as far as
    both rates are plausible: they lie in limits that fail with probability gamma, which is added.
    """
    lax = float(special.ndtr(special.ndtri(min(level, 0.4)) / math.sqrt(2)))
    n1, n0 = counts.members, counts.nonmembers
    extreme = order.of_point(*_limits(counts, lax))
    if extreme <= 0:
        return _Test(lambda _claim: 1.0, 0.0)
    gamma = min(_NUISANCE, level / 1000)
    low, high = _plausible(counts.false_positives, n0, gamma / 2)
    least, most = _plausible(counts.true_positives, n1, gamma / 2)
    first = int(special.bdtrik(1e-17, n0, low)) if low > 0 else 0
    fp = np.arange(max(first - 1, 0), min(int(special.bdtrik(1 - 1e-16, n0, high)) + 2, n0) + 1)
    # the smallest number of true positives that is as extreme, for each number of false ones
    reach = order.claim(extreme).tpr_at_fpr(_upper_limit(fp, n0, lax))
    limits = _lower_limit(np.arange(n1 + 1), n1, lax)
    needed = np.searchsorted(limits, reach * (1 - 1e-12))
    needed[fp == counts.false_positives] = np.minimum(needed[fp == counts.false_positives], counts.true_positives)
    needed = np.minimum.accumulate(needed[::-1])[::-1]

    def probability(rates: FloatArray, claim: TradeOff) -> FloatArray:
        mass = _binomial_mass(fp, n0, rates[:, None])
        tail = _binomial_tail(needed[None, :], n1, np.minimum(claim.tpr_at_fpr(rates), most)[:, None])
        left_out = 1.0 - _binomial_tail(fp[:1], n0, rates) + _binomial_tail(fp[-1:] + 1, n0, rates)
        return np.asarray(np.einsum("ij,ij->i", mass, tail) + np.maximum(left_out, 0.0))

    def p_value(claim: TradeOff) -> float:
        bottom = max(low, claim.fpr_at_tpr(least))
        if bottom > high:
            return gamma
        corners = (*_corners(claim), claim.fpr_at_tpr(most))
        return min(1.0, _largest(lambda rates: probability(rates, claim), bottom, high, corners) + gamma)

    return _Test(p_value, extreme)


def _largest(
    function: Callable[[FloatArray], FloatArray], low: float, high: float, corners: tuple[float, ...]
) -> float:
    """Return the maximum over [low, high] of a function, smooth on a binomial's scale but for corners."""
    inside = np.array([rate for rate in corners if low <= rate <= high])
    best = float(np.max(function(inside), initial=0.0))
    bottom, top = math.asin(math.sqrt(low)), math.asin(math.sqrt(high))  # where that scale is the same everywhere
    points = 41
    for _ in range(4):
        angles = np.linspace(bottom, top, points)
        values = function(np.clip(np.sin(angles) ** 2, low, high))
        peak = int(np.argmax(values))
        best = max(best, float(values[peak]))
        bottom, top = float(angles[max(peak - 1, 0)]), float(angles[min(peak + 1, points - 1)])
        points = 7
    return best


def _corners(claim: TradeOff) -> tuple[float, ...]:
    """Return the false-positive rates at which a claim's curve has a corner, where a maximum likes to sit."""
    if not isinstance(claim, EpsilonDelta):
        return ()
    return ((1 - claim.delta) * float(special.expit(-claim.epsilon)), 1 - claim.delta)


def _rank_test(method: Method, counts: Counts, order: _Family, level: float) -> _Test:
    """Exact test above the (j + 1)-th largest non-member, with j = counts.false_positives and ties broken at random.

    The false-positive rate there is Beta(j + 1, n0 - j), and true positives are binomial given the threshold, which
    no member had a part in: p = E P(Bin(n1, g(rate)) >= true positives), with nothing left open. Clopper-Pearson's
    upper limit of FPR with j false positives is a quantile of the same Beta law.
    """
    if isinstance(method, ClopperPearson):
        return _clopper_pearson(counts, order, level)
    rates, weights = _beta_nodes(counts.false_positives, counts.nonmembers)

    def p_value(claim: TradeOff) -> float:
        tail = _binomial_tail(np.array([counts.true_positives]), counts.members, claim.tpr_at_fpr(rates))
        return min(1.0, float(weights @ tail) + 1e-15)

    lax = float(special.ndtr(special.ndtri(min(level, 0.4)) / math.sqrt(2)))
    return _Test(p_value, max(0.0, order.of_point(*_limits(counts, lax))))


@lru_cache(maxsize=512)
def _beta_nodes(rank: int, trials: int) -> tuple[FloatArray, FloatArray]:
    """Return nodes and weights of an expectation under Beta(rank + 1, trials - rank), by panels of its probit."""
    x, w = np.polynomial.legendre.leggauss(8)
    edges = np.linspace(-_TAIL, _TAIL, 41)
    half = (edges[1] - edges[0]) / 2
    z = ((edges[:-1] + edges[1:]) / 2)[:, None] + half * x
    weights = (half * w * np.exp(-z * z / 2) / math.sqrt(2 * math.pi)).ravel()
    upper = z.ravel() > 0
    rates = np.empty(z.size)
    rates[~upper] = special.betaincinv(rank + 1, trials - rank, special.ndtr(z.ravel()[~upper]))
    rates[upper] = special.betainccinv(rank + 1, trials - rank, special.ndtr(-z.ravel()[upper]))
    return rates, weights / weights.sum()


def _order(claim: TradeOff) -> _Family:
    """Return the family in whose order outcomes are extreme for a claim."""
    return _Family("epsilon", claim.delta) if isinstance(claim, EpsilonDelta) else _Family("mu")


# -- from counts ------------------------------------------------------------------------------------------------------


def _bound(
    evidence: Evidence | None,
    numbers: tuple[int | None, int | None, int | None, int | None],
    family: _Family,
    confidence: float,
    threshold: ThresholdRule | None,
    method: Method,
    rng: np.random.Generator | None,
) -> LowerBound:
    level = 1 - check_confidence(confidence)
    _check_method(method)
    if evidence is not None:
        if any(number is not None for number in numbers):
            raise InputError("evidence", "evidence or counts", "both", "pass one of them")
        rule = Bonferroni() if threshold is None else _check_rule(threshold)
        return _from_evidence(evidence, family, level, rule, method, rng)
    if any(number is None for number in numbers):
        names = "true_positives, members, false_positives and nonmembers"
        raise InputError("evidence", f"evidence, or {names}", "neither in full", "pass one of them")
    if threshold is not None:
        raise InputError("threshold", "no threshold with counts", repr(threshold), "counts come from one already")
    counts = Counts(*numbers)  # type: ignore[arg-type]  # none is None, and the record checks the rest
    fixed = "the counts come from a threshold that was not chosen on them"
    return _from_counts(counts, family, level, method, assumptions=(_SAME_RATES, fixed))


def _from_counts(
    counts: Counts,
    family: _Family,
    level: float,
    method: Method,
    *,
    assumptions: tuple[str, ...] = (_SAME_RATES,),
    corrections: tuple[str, ...] = (),
) -> LowerBound:
    if isinstance(method, ClopperPearson):
        # in closed form: where the two limits lie
        value = max(0.0, family.of_point(*_limits(counts, level / 2)))
        p = _clopper_pearson(counts, family, level).p_value(family.claim(0.0))
        corrections = (*corrections, "the error is split in two halves, one for each rate")
    else:
        value, p = _joint_bound(counts, family, level)
    return LowerBound(
        parameter=family.parameter,
        value=value,
        confidence=1 - level,
        method=_named(method, family),
        delta=family.delta,
        p_value=p,
        correct=counts.correct,
        guesses=counts.members + counts.nonmembers,
        canaries=counts.members + counts.nonmembers,
        reachable=_reachable(counts.members, counts.nonmembers, family, level, method),
        assumptions=assumptions,
        corrections=corrections,
    )


@lru_cache(maxsize=4096)
def _joint_bound(counts: Counts, family: _Family, level: float) -> tuple[float, float]:
    """Return the bound of the joint test and its p-value of "nothing leaks"; repeated audits share their counts."""
    test = _joint(counts, family, level)
    return test.invert(family, level), test.p_value(family.claim(0.0))


@lru_cache(maxsize=512)
def _reachable(members: int, nonmembers: int, family: _Family, level: float, method: Method) -> float:
    """Return the bound of an attack that makes no error."""
    perfect = Counts(members, members, 0, nonmembers)
    if isinstance(method, ClopperPearson):
        return max(0.0, family.of_point(*_limits(perfect, level / 2)))
    return _joint_bound(perfect, family, level)[0]


def _named(method: Method, family: _Family) -> str:
    test = "Clopper-Pearson limits of both rates" if isinstance(method, ClopperPearson) else "exact joint test"
    return f"many runs, {test}, {'(epsilon, delta)' if family.parameter == 'epsilon' else 'Gaussian'} trade-off"


# -- from evidence ----------------------------------------------------------------------------------------------------


def _from_evidence(
    evidence: Evidence,
    family: _Family,
    level: float,
    rule: ThresholdRule,
    method: Method,
    rng: np.random.Generator | None,
) -> LowerBound:
    _check_design(evidence)
    if not isinstance(rng, np.random.Generator):
        raise InputError("rng", "a numpy.random.Generator", repr(rng), "pass rng=numpy.random.default_rng(seed)")
    evidence, corrections = _one_record_each(evidence, rng)
    inside, outside = evidence.score[evidence.member], evidence.score[~evidence.member]
    match rule:
        case Threshold():
            found = _from_counts(_at(rule.value, inside, outside), family, level, method)
        case Split():
            found = _split(inside, outside, family, level, rule.share, method, rng)
        case Bonferroni():
            found = _bonferroni(inside, outside, family, level, rule.quantiles, method, rng)
        case Exploratory():
            value = _best(inside, outside, family, level, 1.0)
            found = _from_counts(_at(value, inside, outside), family, level, method)
            paid = "none: the threshold was chosen on the scores that it is judged on, so the confidence does not hold"
            found = replace(found, corrections=(*found.corrections, paid), exploratory=True)
    return replace(found, corrections=(*found.corrections, *corrections))


def _check_design(evidence: Evidence) -> None:
    right = {
        "one-run": "evidence of one run needs dp.one_run",
        "zero-run": "evidence of no run of one's own needs dp.zero_run",
        None: "declare the design: Evidence(..., design='multi-run') if one model was trained for each record",
    }
    if evidence.design != "multi-run":
        raise DesignError(f"dp.multi_run assumes one model per record, inclusion randomised; {right[evidence.design]}")


def _one_record_each(evidence: Evidence, rng: np.random.Generator) -> tuple[Evidence, tuple[str, ...]]:
    """Keep one random record of each unit, since records of one unit are not independent trials."""
    codes = evidence.unit_codes
    if codes is None:
        return evidence, ()
    rows = one_of_each(codes, rng)
    members = int(np.count_nonzero(evidence.member[rows]))
    if not 0 < members < len(rows):
        hint = "audit more units"
        raise InputError("unit", "units of members and of non-members", "one kind only, one record of each kept", hint)
    return evidence.take(rows), (
        f"one random record was kept of each of {len(rows):,} units, of {evidence.n:,} records",
    )


def _at(value: float, inside: FloatArray, outside: FloatArray) -> Counts:
    true, false = int(np.count_nonzero(inside >= value)), int(np.count_nonzero(outside >= value))
    return Counts(true, len(inside), false, len(outside))


def _best(inside: FloatArray, outside: FloatArray, family: _Family, level: float, scale: float) -> float:
    """Return the threshold with the largest bound to be expected from ``scale`` times as many trials.

    Bounds rise with true and fall with false positives, so the best threshold is a member's score, and the lowest
    among members between whom no non-member lies.
    """
    n1, n0 = len(inside), len(outside)
    values = np.sort(inside)
    false = n0 - np.searchsorted(np.sort(outside), values)
    first = np.r_[True, (values[1:] > values[:-1]) & (false[1:] < false[:-1])]
    values, true, false = values[first], n1 - np.flatnonzero(first), false[first]
    tpr, fpr = (true + 0.5) / (n1 + 1), (false + 0.5) / (n0 + 1)
    lax = float(special.ndtr(special.ndtri(min(level, 0.4)) / math.sqrt(2)))
    low = _lower_limit(scale * n1 * tpr, scale * n1, lax)
    high = _upper_limit(scale * n0 * fpr, scale * n0, lax)
    expected = family.of_points(low, high)
    return float(values[int(np.argmax(expected))])


def _split(
    inside: FloatArray,
    outside: FloatArray,
    family: _Family,
    level: float,
    share: float,
    method: Method,
    rng: np.random.Generator,
) -> LowerBound:
    (choose_in, rest_in), (choose_out, rest_out) = (_halves(x, share, rng) for x in (inside, outside))
    value = _best(choose_in, choose_out, family, level, (1 - share) / share)
    paid = f"the threshold was chosen on a random {share:.0%} of the trials and measured on the others"
    return _from_counts(_at(value, rest_in, rest_out), family, level, method, corrections=(paid,))


def _halves(values: FloatArray, share: float, rng: np.random.Generator) -> tuple[FloatArray, FloatArray]:
    if len(values) < 2:
        allowed = "at least two members and two non-members to split"
        raise InputError("evidence", allowed, "one of a kind", "use Bonferroni() or Threshold(value)")
    size = min(max(round(share * len(values)), 1), len(values) - 1)
    shuffled = rng.permutation(values)
    return shuffled[:size], shuffled[size:]


def _bonferroni(
    inside: FloatArray,
    outside: FloatArray,
    family: _Family,
    level: float,
    quantiles: tuple[float, ...],
    method: Method,
    rng: np.random.Generator,
) -> LowerBound:
    ranks = sorted({min(math.floor((1 - q) * len(outside) + 1e-9), len(outside) - 1) for q in quantiles})
    counts = _above_ranks(ranks, inside, outside, rng)
    each = level / len(ranks)
    tests = [_rank_test(method, c, family, each) for c in counts]
    none = family.claim(0.0)
    values = _rank_values(tests, family, each, method)
    ps = [1.0] * len(ranks)
    for i in sorted(range(len(ranks)), key=lambda i: -values[i]):
        smallest = min(ps)
        if isinstance(method, ClopperPearson) and smallest < 1.0:
            low, high = _limits(counts[i], smallest / 2)
            if low <= min(1.0, high + family.delta):  # the curve of nothing: TPR = FPR + delta
                continue  # its p-value is no smaller
        ps[i] = tests[i].p_value(none)
    best = max(range(len(ranks)), key=lambda i: (values[i], -ps[i]))
    return LowerBound(
        parameter=family.parameter,
        value=values[best],
        confidence=1 - level,
        method=_named(method, family).replace("joint test", "rank test"),
        delta=family.delta,
        p_value=min(1.0, len(ranks) * min(ps)),
        correct=counts[best].correct,
        guesses=len(inside) + len(outside),
        canaries=len(inside) + len(outside),
        reachable=_reachable_by_rank(tuple(ranks), len(inside), len(outside), family, each, method),
        assumptions=(_SAME_RATES,),
        corrections=(
            f"the best of {len(ranks)} thresholds fixed beforehand, each at an error of {each:.3g} (Bonferroni)",
        ),
    )


def _rank_values(tests: Sequence[_Test], family: _Family, level: float, method: Method) -> list[float]:
    """Return the bound at each rank; 0 for a rank whose bound is not above that of another, which is not worked out."""
    if isinstance(method, ClopperPearson):
        return [test.start for test in tests]
    values, best = [0.0] * len(tests), 0.0
    for i in sorted(range(len(tests)), key=lambda i: -tests[i].start):
        if best == 0.0 or tests[i].p_value(family.claim(best)) <= level:  # claims are nested: else its bound is lower
            values[i] = tests[i].invert(family, level)
            best = max(best, values[i])
    return values


@lru_cache(maxsize=512)
def _reachable_by_rank(
    ranks: tuple[int, ...], members: int, nonmembers: int, family: _Family, level: float, method: Method
) -> float:
    """Return the bound when every member lies above every non-member."""
    counts = [Counts(members, members, j, nonmembers) for j in ranks]
    return max(_rank_values([_rank_test(method, c, family, level) for c in counts], family, level, method))


def _above_ranks(
    ranks: Sequence[int], inside: FloatArray, outside: FloatArray, rng: np.random.Generator
) -> list[Counts]:
    """Count members above the (rank + 1)-th largest non-members, ties broken by one coin per record."""
    coins_in, coins_out = rng.random(len(inside)), rng.random(len(outside))
    order = np.lexsort((coins_out, outside))
    found = []
    for rank in ranks:
        place = order[-(rank + 1)]
        above = np.count_nonzero(inside > outside[place])
        level = inside == outside[place]
        tied = np.count_nonzero(coins_in[level] > coins_out[place]) if level.any() else 0
        found.append(Counts(int(above + tied), len(inside), rank, len(outside)))
    return found


# -- binomial rates ---------------------------------------------------------------------------------------------------


def _limits(counts: Counts, error: float) -> tuple[float, float]:
    """Return the lower limit of TPR and the upper limit of FPR, each exceeded with probability at most ``error``."""
    tp, fp, n1, n0 = counts.true_positives, counts.false_positives, counts.members, counts.nonmembers
    low = float(special.betaincinv(tp, n1 - tp + 1, error)) if tp else 0.0
    high = float(special.betainccinv(fp + 1, n0 - fp, error)) if fp < n0 else 1.0
    return low, high


def _plausible(successes: int, trials: int, error: float) -> tuple[float, float]:
    """Return limits of a rate that fail, both together, with probability at most ``error``."""
    return float(_lower_limit(successes, trials, error / 2)), float(_upper_limit(successes, trials, error / 2))


def _lower_limit(successes: ArrayLike, trials: float, error: float) -> FloatArray:
    k = np.asarray(successes, dtype=np.float64)
    return np.where(k > 0, special.betaincinv(np.maximum(k, 1e-9), trials - k + 1, error), 0.0)


def _upper_limit(successes: ArrayLike, trials: float, error: float) -> FloatArray:
    k = np.asarray(successes, dtype=np.float64)
    return np.where(k < trials, special.betainccinv(k + 1, np.maximum(trials - k, 1e-9), error), 1.0)


def _binomial_mass(k: NDArray[np.int64], n: int, p: FloatArray) -> FloatArray:
    """Return P(Bin(n, p) = k)."""
    log_choose = special.gammaln(n + 1) - special.gammaln(k + 1) - special.gammaln(n - k + 1)
    return np.asarray(np.exp(log_choose + special.xlogy(k, p) + special.xlog1py(n - k, -p)))


def _binomial_tail(k: NDArray[np.int64], n: int, p: FloatArray) -> FloatArray:
    """Return P(Bin(n, p) >= k)."""
    inside = (k > 0) & (k <= n)
    tail = special.betainc(np.where(inside, k, 1), np.where(inside, n - k + 1, 1), p)
    return np.where(k <= 0, 1.0, np.where(inside, tail, 0.0))


# -- checks -----------------------------------------------------------------------------------------------------------


def _count(name: str, value: object, low: int, high: int | None) -> int:
    allowed = f"a whole number from {low}" + (" up" if high is None else f" to {high:,}")
    whole = isinstance(value, int | np.integer) and not isinstance(value, bool)
    if isinstance(value, float) and value.is_integer():
        whole = True
    if not whole or int(value) < low or (high is not None and int(value) > high):  # type: ignore[call-overload]
        raise InputError(name, allowed, repr(value), "count again")
    return int(value)  # type: ignore[call-overload,no-any-return]


def _check_method(method: object) -> Method:
    if not isinstance(method, ClopperPearson | Joint):
        raise InputError("method", "Joint() or ClopperPearson()", repr(method), "the default is Joint()")
    return method


def _check_rule(rule: object) -> ThresholdRule:
    if not isinstance(rule, Threshold | Split | Bonferroni | Exploratory):
        allowed = "Bonferroni(), Split(), Threshold(value) or Exploratory()"
        raise InputError("threshold", allowed, repr(rule), "the default is Bonferroni()")
    return rule


def _is_number(value: object) -> bool:
    return isinstance(value, int | float | np.number) and not isinstance(value, bool) and math.isfinite(value)


def _require(condition: bool, argument: str, allowed: str, received: object, next_step: str) -> None:
    if not condition:
        raise InputError(argument, allowed, repr(received), next_step)

"""Lower bounds from many runs: one model per record, inclusion randomised, so that the trials are independent.

Given a threshold that was not chosen on them, true and false positives are independent binomial counts, and a claim is
a curve that limits their rates, TPR <= g(FPR) (:mod:`miaudit.dp.tradeoff`). A bound inverts an exact test of that
claim (:mod:`miaudit.dp.error_counts`). Choosing the threshold on the audited scores is paid for, or labelled
exploratory (erratum B19).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
from scipy import special

from miaudit.arrays import FloatArray
from miaudit.dp.error_counts import (
    ClaimTest,
    ClopperPearson,
    Counts,
    Family,
    Joint,
    Method,
    check_method,
    clopper_pearson_test,
    exact_test,
    joint_test,
    limits,
    lower_limit,
    order_of,
    rank_test,
    upper_limit,
)
from miaudit.dp.tradeoff import TradeOff
from miaudit.dp.verdict import LowerBound
from miaudit.errors import DesignError, InputError
from miaudit.errors.checks import check_confidence, check_delta, check_generator
from miaudit.evidence import Evidence
from miaudit.metrics.trials import one_of_each

__all__ = [
    "Bonferroni",
    "ClopperPearson",
    "Counts",
    "Exploratory",
    "Joint",
    "Method",
    "Split",
    "Threshold",
    "ThresholdRule",
    "epsilon_lower_bound",
    "mu_lower_bound",
    "p_value",
]


_JOINT = Joint()
_SAME_RATES = (
    "the trials are independent and their records drawn from one population, or one record throughout,"
    " with inclusion decided by coins that nothing else depends on"
)


# -- how the threshold is chosen --------------------------------------------------------------------------------------


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

    def ranks(self, nonmembers: int) -> list[int]:
        """Return how many non-members lie above each threshold, in rising order."""
        return sorted({min(math.floor((1 - q) * nonmembers + 1e-9), nonmembers - 1) for q in self.quantiles})


@dataclass(frozen=True)
class Exploratory:
    """The best of all thresholds, uncorrected: its error is not what it says, and the bound is labelled so."""


ThresholdRule = Threshold | Split | Bonferroni | Exploratory


def _check_rule(rule: object) -> ThresholdRule:
    """Return a rule for thresholds, if it is one."""
    if not isinstance(rule, Threshold | Split | Bonferroni | Exploratory):
        allowed = "Bonferroni(), Split(), Threshold(value) or Exploratory()"
        raise InputError("threshold", allowed, repr(rule), "the default is Bonferroni()")
    return rule


# -- the bounds -------------------------------------------------------------------------------------------------------


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
    method: Method = _JOINT,
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
    return _bound(evidence, counts, Family("epsilon", check_delta(delta)), confidence, threshold, method, rng)


def mu_lower_bound(
    evidence: Evidence | None = None,
    *,
    true_positives: int | None = None,
    members: int | None = None,
    false_positives: int | None = None,
    nonmembers: int | None = None,
    confidence: float = 0.95,
    threshold: ThresholdRule | None = None,
    method: Method = _JOINT,
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
    return _bound(evidence, counts, Family("mu"), confidence, threshold, method, rng)


def p_value(
    claim: TradeOff,
    *,
    true_positives: int,
    members: int,
    false_positives: int,
    nonmembers: int,
    method: Method = _JOINT,
) -> float:
    """Return the p-value, in (0, 1], of a claim against counts at a threshold that was not chosen on them.

    Examples
    --------
    >>> from miaudit.dp.tradeoff import Gaussian
    >>> counts = dict(true_positives=90, members=100, false_positives=10, nonmembers=100)
    >>> p_value(Gaussian(1.5), **counts) < 0.001 < p_value(Gaussian(2.2), **counts)
    True
    """
    counts = Counts(true_positives, members, false_positives, nonmembers)
    return exact_test(check_method(method), counts, order_of(claim), 0.05).p_value(claim)


# -- from counts ------------------------------------------------------------------------------------------------------


def _bound(
    evidence: Evidence | None,
    numbers: tuple[int | None, int | None, int | None, int | None],
    family: Family,
    confidence: float,
    threshold: ThresholdRule | None,
    method: Method,
    rng: np.random.Generator | None,
) -> LowerBound:
    level = 1 - check_confidence(confidence)
    check_method(method)
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
    family: Family,
    level: float,
    method: Method,
    *,
    assumptions: tuple[str, ...] = (_SAME_RATES,),
    corrections: tuple[str, ...] = (),
) -> LowerBound:
    if isinstance(method, ClopperPearson):
        # in closed form: where the two limits lie
        value = max(0.0, family.of_point(*limits(counts, level / 2)))
        p = clopper_pearson_test(counts, family, level).p_value(family.claim(0.0))
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
def _joint_bound(counts: Counts, family: Family, level: float) -> tuple[float, float]:
    """Return the bound of the joint test and its p-value of "nothing leaks"; repeated audits share their counts."""
    test = joint_test(counts, family, level)
    return test.invert(family, level), test.p_value(family.claim(0.0))


@lru_cache(maxsize=512)
def _reachable(members: int, nonmembers: int, family: Family, level: float, method: Method) -> float:
    """Return the bound of an attack that makes no error."""
    perfect = Counts(members, members, 0, nonmembers)
    if isinstance(method, ClopperPearson):
        return max(0.0, family.of_point(*limits(perfect, level / 2)))
    return _joint_bound(perfect, family, level)[0]


def _named(method: Method, family: Family) -> str:
    test = "Clopper-Pearson limits of both rates" if isinstance(method, ClopperPearson) else "exact joint test"
    return f"many runs, {test}, {'(epsilon, delta)' if family.parameter == 'epsilon' else 'Gaussian'} trade-off"


# -- from evidence ----------------------------------------------------------------------------------------------------


def _from_evidence(
    evidence: Evidence,
    family: Family,
    level: float,
    rule: ThresholdRule,
    method: Method,
    rng: np.random.Generator | None,
) -> LowerBound:
    _check_design(evidence)
    rng = check_generator(rng)
    evidence, corrections = _one_record_each(evidence, rng)
    inside, outside = evidence.score[evidence.member], evidence.score[~evidence.member]
    match rule:
        case Threshold():
            bound = _from_counts(_at_threshold(rule.value, inside, outside), family, level, method)
        case Split():
            bound = _split(inside, outside, family, level, rule.share, method, rng)
        case Bonferroni():
            bound = _bonferroni(inside, outside, family, level, rule, method, rng)
        case Exploratory():
            value = _best_threshold(inside, outside, family, level, 1.0)
            bound = _from_counts(_at_threshold(value, inside, outside), family, level, method)
            paid = "none: the threshold was chosen on the scores that it is judged on, so the confidence does not hold"
            bound = replace(bound, corrections=(*bound.corrections, paid), exploratory=True)
    return replace(bound, corrections=(*bound.corrections, *corrections))


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


def _split(
    inside: FloatArray,
    outside: FloatArray,
    family: Family,
    level: float,
    share: float,
    method: Method,
    rng: np.random.Generator,
) -> LowerBound:
    (choose_in, rest_in), (choose_out, rest_out) = (_halves(x, share, rng) for x in (inside, outside))
    value = _best_threshold(choose_in, choose_out, family, level, (1 - share) / share)
    paid = f"the threshold was chosen on a random {share:.0%} of the trials and measured on the others"
    return _from_counts(_at_threshold(value, rest_in, rest_out), family, level, method, corrections=(paid,))


def _bonferroni(
    inside: FloatArray,
    outside: FloatArray,
    family: Family,
    level: float,
    rule: Bonferroni,
    method: Method,
    rng: np.random.Generator,
) -> LowerBound:
    ranks = rule.ranks(len(outside))
    counts = _above_ranks(ranks, inside, outside, rng)
    each = level / len(ranks)
    tests = [rank_test(method, c, family, each) for c in counts]
    none = family.claim(0.0)
    values = _rank_values(tests, family, each, method)
    ps = [1.0] * len(ranks)
    for i in sorted(range(len(ranks)), key=lambda i: -values[i]):
        smallest = min(ps)
        if isinstance(method, ClopperPearson) and smallest < 1.0:
            low, high = limits(counts[i], smallest / 2)
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


def _rank_values(tests: Sequence[ClaimTest], family: Family, level: float, method: Method) -> list[float]:
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
    ranks: tuple[int, ...], members: int, nonmembers: int, family: Family, level: float, method: Method
) -> float:
    """Return the bound when every member lies above every non-member."""
    counts = [Counts(members, members, j, nonmembers) for j in ranks]
    return max(_rank_values([rank_test(method, c, family, level) for c in counts], family, level, method))


# -- thresholds -------------------------------------------------------------------------------------------------------


def _at_threshold(value: float, inside: FloatArray, outside: FloatArray) -> Counts:
    """Count the errors of a threshold."""
    true, false = int(np.count_nonzero(inside >= value)), int(np.count_nonzero(outside >= value))
    return Counts(true, len(inside), false, len(outside))


def _best_threshold(inside: FloatArray, outside: FloatArray, family: Family, level: float, scale: float) -> float:
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
    low = lower_limit(scale * n1 * tpr, scale * n1, lax)
    high = upper_limit(scale * n0 * fpr, scale * n0, lax)
    expected = family.of_points(low, high)
    return float(values[int(np.argmax(expected))])


def _halves(values: FloatArray, share: float, rng: np.random.Generator) -> tuple[FloatArray, FloatArray]:
    """Divide scores at random: a share of them to choose on, and the others."""
    if len(values) < 2:
        allowed = "at least two members and two non-members to split"
        raise InputError("evidence", allowed, "one of a kind", "use Bonferroni() or Threshold(value)")
    size = min(max(round(share * len(values)), 1), len(values) - 1)
    shuffled = rng.permutation(values)
    return shuffled[:size], shuffled[size:]


def _above_ranks(
    ranks: Sequence[int], inside: FloatArray, outside: FloatArray, rng: np.random.Generator
) -> list[Counts]:
    """Count members above the (rank + 1)-th largest non-members, ties broken by one coin per record."""
    coins_in, coins_out = rng.random(len(inside)), rng.random(len(outside))
    order = np.lexsort((coins_out, outside))
    bounds = []
    for rank in ranks:
        place = order[-(rank + 1)]
        above = np.count_nonzero(inside > outside[place])
        level = inside == outside[place]
        tied = np.count_nonzero(coins_in[level] > coins_out[place]) if level.any() else 0
        bounds.append(Counts(int(above + tied), len(inside), rank, len(outside)))
    return bounds


def _is_number(value: object) -> bool:
    return isinstance(value, int | float | np.number) and not isinstance(value, bool) and math.isfinite(value)


def _require(condition: bool, argument: str, allowed: str, received: object, next_step: str) -> None:
    if not condition:
        raise InputError(argument, allowed, repr(received), next_step)

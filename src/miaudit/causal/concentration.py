"""Non-asymptotic bounds of the causal-mia paper, with the constants of its proofs.

The bounds are always valid, and wide. They are theorems under conditions that **the caller states** (bounded scores,
stability of the training algorithm, overlap). They are not the intervals of an audit. Those intervals are calibrated
but asymptotic (:mod:`miaudit.causal.effects`). ``width`` rescales scores in an interval of another length than 1.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from miaudit.errors import InputError
from miaudit.evidence import Evidence

MEASURED = "Stability of training was measured"  # first words of a note on measured stability
_HALVINGS = 200
_OVERLAP = 0.1  # eta of Theorem 6.4 in messages: propensities up to 0.9


class Measured(Protocol):
    """Measured stability of training, in score units (:class:`miaudit.collect.stability.Stability`)."""

    @property
    def alpha(self) -> float: ...  # noqa: D102
    @property
    def beta(self) -> float: ...  # noqa: D102
    @property
    def pairs(self) -> int: ...  # noqa: D102


@dataclass(frozen=True)
class Bound:
    """Radius around an estimate that includes the truth with probability at least ``confidence``.

    Attributes
    ----------
    radius : in units of the metric; a radius that exceeds the range of the metric says nothing
    confidence : of the two-sided statement, in (0, 1)
    source : theorem, and which constants are used
    conditions : what the caller stated
    """

    radius: float
    confidence: float
    source: str
    conditions: str


def multi_run_ate(*, members: int, nonmembers: int, confidence: float, width: float = 1.0, sharp: bool = True) -> Bound:
    """Bound the difference in means of independent runs (Propositions 4.2 and C.1).

    The paper prints sqrt(2t/n1) + sqrt(2t/n0) with probability 1 - 4 exp(-t). Its proof uses Hoeffding's inequality,
    which gives sqrt(t / (2 n1)) + sqrt(t / (2 n0)). This is half of the printed bound at the same probability.

    Parameters
    ----------
    members, nonmembers : n1, n0
    confidence : 1 - 4 exp(-t)
    width : length of the interval that scores lie in
    sharp : whether to use Hoeffding's constants instead of the printed ones

    Examples
    --------
    >>> round(multi_run_ate(members=1000, nonmembers=1000, confidence=0.95).radius, 3)
    0.094
    """
    t = _tail(confidence, 4)
    _check(members=members, nonmembers=nonmembers, width=width)
    factor = 0.5 if sharp else 2.0
    radius = math.sqrt(factor * t / members) + math.sqrt(factor * t / nonmembers)
    name = "Hoeffding's constants" if sharp else "as printed"
    return Bound(
        width * radius, confidence, f"Proposition 4.2, {name}", "multi-run; independent records; bounded scores"
    )


def multi_run_rate(*, trials: int, confidence: float) -> Bound:
    """Bound a TPR or FPR at a threshold fixed beforehand, from independent runs (Proposition C.1).

    The paper prints a sum over both classes. The rate of one class depends on that class only (Hoeffding).

    Examples
    --------
    >>> round(multi_run_rate(trials=1000, confidence=0.95).radius, 3)
    0.043
    """
    t = _tail(confidence, 2)
    _check(trials=trials)
    return Bound(math.sqrt(t / (2 * trials)), confidence, "Proposition C.1", "multi-run; fixed threshold")


def multi_run_auc(*, members: int, nonmembers: int, confidence: float) -> Bound:
    """Bound the AUC as a two-sample U-statistic (Hoeffding 1963; Proposition C.1).

    Examples
    --------
    >>> round(multi_run_auc(members=1000, nonmembers=4000, confidence=0.95).radius, 3)
    0.043
    """
    t = _tail(confidence, 2)
    _check(members=members, nonmembers=nonmembers)
    radius = math.sqrt(t / (2 * min(members, nonmembers)))
    return Bound(
        radius, confidence, "two-sample U-statistic, Hoeffding (1963), (5.7)", "multi-run; independent records"
    )


def one_run_ate(
    *,
    members: int,
    nonmembers: int,
    confidence: float,
    error_stability: float,
    training_stability: float,
    width: float = 1.0,
) -> Bound:
    """Bound the difference in means of one randomised run (Theorem 5.4).

    The radius is the sum of five terms, for scores in [0, 1] and a deterministic algorithm. The non-members contribute
    sqrt(t / (2 n0)) + alpha sqrt(n1 t / 2) + alpha sqrt((n - 1) t / 2). The members contribute
    (1 / n1 + beta) sqrt(n1 t / 2) + beta sqrt((n - 1) t / 2). Each term fails with probability at most 2 exp(-t), so
    confidence = 1 - 10 exp(-t). The proof uses stability also when a record is added or removed. So does this bound.

    Parameters
    ----------
    error_stability : alpha of Definition 5.2, in units of the score
    training_stability : beta of Definition 5.3, in units of the score
    width : length of the interval that scores lie in

    Examples
    --------
    >>> bound = one_run_ate(members=5000, nonmembers=5000, confidence=0.95, error_stability=0, training_stability=0)
    >>> round(bound.radius, 3)
    0.046
    """
    t = _tail(confidence, 10)
    _check(members=members, nonmembers=nonmembers, width=width)
    alpha, beta = _stabilities(error_stability, training_stability, width)
    outside = math.sqrt(t / (2 * nonmembers)) + _interference(alpha, members, nonmembers, t)
    radius = outside + _members_term(beta, members, nonmembers, t)
    conditions = f"error stability {error_stability:g}, training stability {training_stability:g}, width {width:g}"
    return Bound(width * radius, confidence, "Theorem 5.4, constants of Appendix E.1", conditions)


def zero_run_ate(
    *,
    members: int,
    nonmembers: int,
    confidence: float,
    error_stability: float,
    training_stability: float,
    overlap: float,
    propensity_error: float = 0.0,
    width: float = 1.0,
) -> Bound:
    """Bound the Horvitz-Thompson effect of a zero-run audit with divisor n1 (Theorem 6.4; errata A1).

    The divisor n1 multiplies a mean over non-members by n0 / n1. The proof has six deviations. Each fails with
    probability at most 2 exp(-t), so confidence = 1 - 12 exp(-t). Five are those of :func:`one_run_ate`, with
    (n0 / n1) (1 / eta) sqrt(t / (2 n0)) in place of sqrt(t / (2 n0)) for the non-members. The sixth is the same term
    once more, for the propensity. The radius is their sum plus (n0 / n1) Delta.

    Parameters
    ----------
    overlap : eta, in (0, 1): true and estimated propensities are at most 1 - eta (Assumption 6.3)
    propensity_error : Delta, mean absolute error of the odds among non-members, of a propensity fitted elsewhere
    error_stability, training_stability, width : as in :func:`one_run_ate`

    Examples
    --------
    >>> bound = zero_run_ate(
    ...     members=5000, nonmembers=5000, confidence=0.95, error_stability=0, training_stability=0, overlap=0.2
    ... )
    >>> round(bound.radius, 2)
    0.26
    """
    t = _tail(confidence, 12)
    _check(members=members, nonmembers=nonmembers, width=width)
    if not 0 < overlap < 1:
        raise InputError("overlap", "a number in (0, 1)", f"{overlap}", "state eta with propensities <= 1 - eta")
    if not 0 <= propensity_error < math.inf:
        raise InputError("propensity_error", "a finite number from 0", f"{propensity_error}", "0 if pi is known")
    alpha, beta = _stabilities(error_stability, training_stability, width)
    share = nonmembers / members
    weighted = share / overlap * math.sqrt(t / (2 * nonmembers))
    radius = share * propensity_error + 2 * weighted + _interference(alpha, members, nonmembers, t)
    radius += _members_term(beta, members, nonmembers, t)
    conditions = (
        f"overlap {overlap:g}, propensity error {propensity_error:g}, error stability {error_stability:g}, "
        f"training stability {training_stability:g}, width {width:g}"
    )
    return Bound(width * radius, confidence, "Theorem 6.4, constants of Appendix F, divisor n1", conditions)


def of_one_model(evidence: Evidence, stability: Measured, confidence: float) -> str:
    """Say what measured stability guarantees about the average effect of one model.

    Parameters
    ----------
    evidence : one-run or zero-run, with the score whose stability was measured
    stability : in units of the score; if the evidence has several scores, ``stability.score`` names the right one
    confidence : of the statement, in (0, 1)

    Raises
    ------
    InputError
        If the design is not one-run or zero-run, if all values of the score are equal, or if the evidence has several
        scores and the stability names none of them.

    Examples
    --------
    >>> from types import SimpleNamespace
    >>> evidence = Evidence(score=np.arange(4000.0) % 7, member=np.arange(4000) % 2, design="one-run")
    >>> said = of_one_model(evidence, SimpleNamespace(alpha=1e-3, beta=1e-3, pairs=20), 0.95)
    >>> said.partition(" with 95%")[0].rpartition("If ")[2]
    'no record moves them more, the average effect on the score is within 0.788 of the estimate'
    """
    name = getattr(stability, "score", "") if len(evidence.scores) > 1 else ""
    evidence = evidence.only(name) if name else evidence
    width = float(np.ptp(next(iter(evidence.scores.values()))))
    if evidence.design not in ("one-run", "zero-run") or len(evidence.scores) > 1 or width == 0:
        varied = "" if width else " without any difference"
        received = f"{len(evidence.scores)}{varied} of design {evidence.design}"
        allowed = "none, but for one score of one-run or zero-run evidence"
        raise InputError("stability", allowed, received, "leave it out, or choose one with evidence.only(name)")
    sizes: dict[str, int] = {"members": evidence.n_members, "nonmembers": evidence.n_nonmembers}
    moved: dict[str, Any] = {"error_stability": stability.alpha, "training_stability": stability.beta}
    one_run = evidence.design == "one-run"
    bound = (
        one_run_ate(**sizes, **moved, confidence=confidence, width=width)
        if one_run
        else zero_run_ate(**sizes, **moved, confidence=confidence, width=width, overlap=_OVERLAP)
    )
    seen = (
        f"{MEASURED}{f' (of {name})' if name else ''}: one record of {stability.pairs} moved the average test score "
        f"by up to {stability.alpha:.3g} (alpha) and the score of another training record by up to "
        f"{stability.beta:.3g} (beta)."
    )
    if bound.radius >= width:
        return (
            f"{seen} With that Theorem {'5.4' if one_run else '6.4'} of causal-mia guarantees nothing for so many "
            "records: the intervals are asymptotic ones, and rest on more stability than was seen or on more records."
        )
    theorem = "5.4" if one_run else f"6.4, for known propensities up to {1 - _OVERLAP:g} and Horvitz-Thompson weights"
    return (
        f"{seen} If no record moves them more, the average effect on {name or 'the score'} is within "
        f"{bound.radius:.3g} of the estimate with {confidence:.0%} confidence at any number of records (causal-mia, "
        f"Theorem {theorem}; scores in a range of {width:.3g}, as seen). A few replacements are a lower estimate of "
        "alpha and beta, no guarantee."
    )


def underparametrised_effect(
    *, records: int, parameters: int, radius: float, lipschitz: float, width: float = 1.0
) -> float:
    """Bound the average effect on the loss of a model with few parameters (Theorem B.1).

    |effect| <= 2 sqrt(2 lambda / n1) + sqrt(t / (2 n0)) + P(failure), with lambda = t + D/2 log(n1) + D log(6 B L),
    minimised over t. The proof conditions on n1, n0 >= n/4 (probability 1 - 4 exp(-t), t <= n/8). Failures add up to
    8 exp(-t). The proof covers the ball with (2B/eps)^D points. Only (3B/eps)^D points are certainly enough, so the
    constant is 6 and not 4.

    Parameters
    ----------
    records : n, members and non-members of a one-run audit
    parameters : D
    radius : B, bound on the norm of the parameters
    lipschitz : L, of the loss in the parameters, for losses in an interval of length ``width``

    Returns
    -------
    float
        At most ``width``; a bound of ``width`` says nothing.

    Examples
    --------
    >>> round(underparametrised_effect(records=10_000_000, parameters=10, radius=1.0, lipschitz=1.0), 3)
    0.02
    >>> underparametrised_effect(records=1000, parameters=1000, radius=1.0, lipschitz=1.0)
    1.0
    """
    _check(records=records, parameters=parameters, radius=radius, lipschitz=lipschitz, width=width)
    slope = lipschitz / width

    def total(t: float) -> float:
        n1 = records / 4
        log_n1 = math.log(max(3 * records / 4, 1.0))
        exponent = max(t + parameters * (log_n1 / 2 + math.log(6 * radius * slope)), 0.5)
        grain = math.sqrt(2 * exponent / n1) / (2 * slope)
        if grain > radius:
            return 1.0
        return 2 * math.sqrt(2 * exponent / n1) + math.sqrt(t / (2 * n1)) + 8 * math.exp(-t)

    tails = [records / 8 * (k + 1) / _HALVINGS for k in range(_HALVINGS)]
    tails += [0.1 * (k + 1) for k in range(_HALVINGS) if 0.1 * (k + 1) <= records / 8]
    return width * min(1.0, *(total(t) for t in tails))


def _tail(confidence: float, failures: int) -> float:
    """Return t with failures * exp(-t) = 1 - confidence."""
    if not 0 < confidence < 1:
        raise InputError("confidence", "a number in (0, 1)", f"{confidence}", "write 0.95 for 95%")
    return math.log(failures / (1 - confidence))


def _check(**numbers: float) -> None:
    for name, number in numbers.items():
        if not 0 < number < math.inf:
            raise InputError(name, "a positive number", f"{number}", "state it")


def _stabilities(error: float, training: float, width: float) -> tuple[float, float]:
    for name, number in (("error_stability", error), ("training_stability", training)):
        if not 0 <= number < math.inf:
            raise InputError(name, "a finite number from 0", f"{number}", "state it in units of the score")
    return error / width, training / width


def _interference(alpha: float, members: int, nonmembers: int, t: float) -> float:
    return alpha * (math.sqrt(members * t / 2) + math.sqrt((members + nonmembers - 1) * t / 2))


def _members_term(beta: float, members: int, nonmembers: int, t: float) -> float:
    own = (1 / members + beta) * math.sqrt(members * t / 2)
    return own + beta * math.sqrt((members + nonmembers - 1) * t / 2)

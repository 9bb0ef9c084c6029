"""A challenge to a propensity: whether another model foresees membership better than it allows (Theorem C.1)."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from miaudit.arrays import BoolArray, FloatArray
from miaudit.causal import propensity
from miaudit.causal.covariates import Encoding
from miaudit.causal.logistic import expit
from miaudit.causal.one_per_unit import drawn_alike, sizes
from miaudit.causal.propensity import Propensity
from miaudit.errors import InputError
from miaudit.evidence import Evidence
from miaudit.metrics.poisson_binomial import tail


@dataclass(frozen=True)
class Challenge:
    """Whether another model foresees membership better than the propensity allows (Theorem C.1 with epsilon = 0).

    Attributes
    ----------
    p_value : of the hypothesis that the true log-odds lie within ``gamma`` of the learned ones; after Bonferroni
    gamma : the margin on the log-odds that was stated beforehand
    smallest_gamma : the smallest margin that is not rejected at ``level``
    level : of the test
    correct, guesses : of the competitor with the smallest p-value, on held-out rows
    competitor : its name
    """

    p_value: float
    gamma: float
    smallest_gamma: float
    level: float
    correct: int
    guesses: int
    competitor: str

    @property
    def rejected(self) -> bool:
        """Whether the propensity is refuted at its stated margin."""
        return self.p_value <= self.level


def challenge(
    evidence: Evidence,
    competitors: Sequence[Any],
    *,
    classifier: Any = None,
    encoding: Encoding | None = None,
    given: Propensity | None = None,
    gamma: float = 0.1,
    level: float = 0.05,
    rng: np.random.Generator,
) -> Challenge:
    """Let competitors bet against the propensity, once, on rows that none of them has seen (statistics.md, section 6).

    One half of the units trains the propensity and the competitors. On the other half a competitor guesses "member"
    where its log-odds are above the propensity's, and the number of correct guesses is compared with the
    Poisson-binomial tail of sigma(T logit + gamma). Of a unit with several records one is drawn at random,
    and where units differ in size the large ones are represented more often, as in the rows that were learned from.

    Parameters
    ----------
    evidence, classifier, encoding, rng : as in :func:`miaudit.causal.propensity.fit`
    competitors : scikit-learn classifiers with ``predict_proba``; p-values are multiplied by their number
    given : the propensity of each record, where it is known or was learned elsewhere; it is challenged as it is
    gamma : margin on the log-odds, 0 or more; at 0 about one sound learned propensity in eight is refuted
    level : of the test, in (0, 1)

    Raises
    ------
    InputError
        Without competitors, for a gamma or level outside its range, and as ``propensity.fit`` does.

    Examples
    --------
    >>> from sklearn.naive_bayes import GaussianNB
    >>> rng = np.random.default_rng(0)
    >>> x = 2 * rng.normal(size=2000)
    >>> member = rng.random(2000) < 1 / (1 + np.exp(2 - x**2))  # a scale shift, which no line in x can see
    >>> challenge(Evidence(score=x, member=member, covariates=x), [GaussianNB()], rng=rng).rejected
    True
    """
    _check(competitors, gamma, level)
    models = competitors if given is not None else (classifier, *competitors)
    rows, logits = propensity.held_out_logits(evidence, models, encoding=encoding, rng=rng)
    if evidence.unit_codes is not None and (given is None or given.rows_per_covariate is not None):
        # Log-odds learned from records speak of records that all have the same chance to be drawn.
        alike = drawn_alike(evidence.unit_codes[rows], rng, of=sizes(evidence.unit_codes)[rows])
        rows, logits = rows[alike], [logit[alike] for logit in logits]
    own, others = (logits[0], logits[1:]) if given is None else (given.matched(evidence).logit[rows], logits)
    bets = [
        _Bet.of(model, own, other, evidence.member[rows], len(competitors))
        for model, other in zip(competitors, others, strict=True)
    ]
    p_values = [bet.p_value(gamma) for bet in bets]
    best = bets[int(np.argmin(p_values))]
    smallest = max(bet.smallest_gamma(level) for bet in bets)
    return Challenge(min(p_values), gamma, smallest, level, best.correct, len(own), best.competitor)


def against(
    own: FloatArray,
    other: FloatArray,
    member: BoolArray,
    *,
    gamma: float = 0.1,
    level: float = 0.05,
    tests: int = 1,
    competitor: str = "challenger",
) -> Challenge:
    """Let log-odds that somebody submits bet against a propensity's, on records whose labels they had not seen.

    Parameters
    ----------
    own, other : arrays (n,), log-odds of membership by the propensity and by its challenger
    member : array (n,) of bool
        Labels; independent given the covariates, and unknown to whoever submitted ``other``.
    gamma, level : as in :func:`challenge`
    tests : number of challenges that were ever made to this propensity, this one included: the p-value is multiplied
    competitor : what to call the challenger

    Examples
    --------
    >>> truth = np.repeat([2.0, -2.0], 500)
    >>> member = np.random.default_rng(0).random(1000) < expit(truth)
    >>> against(np.zeros(1000), truth, member).rejected, against(truth, np.zeros(1000), member).rejected
    (True, False)
    """
    _check([competitor], gamma, level)
    if not (own.shape == other.shape == member.shape and own.ndim == 1 and len(own)):
        received = f"shapes {own.shape}, {other.shape} and {member.shape}"
        raise InputError("other", "one number for each record, as own and member", received, "sort them alike")
    bet = _Bet.between(competitor, own, other, member, tests)
    return Challenge(bet.p_value(gamma), gamma, bet.smallest_gamma(level), level, bet.correct, len(own), competitor)


def _check(competitors: Sequence[Any], gamma: float, level: float) -> None:
    if not competitors:
        raise InputError("competitors", "at least one classifier", "none", "pass [HistGradientBoostingClassifier()]")
    if not (gamma >= 0 and math.isfinite(gamma)):
        raise InputError("gamma", "a number from 0 up", repr(gamma), "0.1 is the default")
    if not 0 < level < 1:
        raise InputError("level", "a number in (0, 1)", repr(level), "0.05 is the default")


@dataclass(frozen=True, eq=False)
class _Bet:
    """One competitor's guesses of membership, and how sure the propensity is of each of them.

    Attributes
    ----------
    competitor : name of its class
    correct : number of guesses that were right
    toward : array (m,), T logit: the propensity's log-odds that each guess is right
    tests : number of competitors, for Bonferroni
    """

    competitor: str
    correct: int
    toward: FloatArray
    tests: int

    @classmethod
    def of(cls, model: Any, own: FloatArray, other: FloatArray, member: BoolArray, tests: int) -> _Bet:
        return cls.between(type(model).__name__, own, other, member, tests)

    @classmethod
    def between(cls, name: str, own: FloatArray, other: FloatArray, member: BoolArray, tests: int) -> _Bet:
        guess = np.where(other > own, 1, -1)
        correct = int(np.count_nonzero(guess == np.where(member, 1, -1)))
        return cls(name, correct, guess * own, tests)

    def p_value(self, margin: float) -> float:
        """Chance of as many correct guesses if the true log-odds are within the margin of the propensity's."""
        return min(1.0, self.tests * float(tail(expit(self.toward + margin), self.correct)))

    def smallest_gamma(self, level: float) -> float:
        """Return the smallest margin that is not rejected."""
        return _smallest(self.p_value, level)


def _smallest(p_value: Callable[[float], float], level: float) -> float:
    """Find the smallest margin (to 0.001) whose p-value exceeds the level; infinite above 50."""
    if p_value(0.0) > level:
        return 0.0
    low, high = 0.0, 0.1
    while p_value(high) <= level:
        low, high = high, 2 * high
        if high > 50:
            return math.inf
    while high - low > 1e-3:
        middle = (low + high) / 2
        low, high = (middle, high) if p_value(middle) <= level else (low, middle)
    return high

"""A challenge: another model bets against a propensity on records that neither has seen (Theorem C.1)."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
from annotated_types import MinLen

from miaudit.arrays import (
    BoolArray,
    Count,
    FloatArray,
    Inside,
    NotNegative,
    Positive,
    Share,
    Text,
)
from miaudit.causal import crossfit, propensity
from miaudit.causal.covariates import Encoding
from miaudit.causal.logistic import expit
from miaudit.causal.propensity import Propensity
from miaudit.errors import InputError
from miaudit.evidence import Evidence
from miaudit.metrics.trials import drawn_alike, sizes, tail


@dataclass(frozen=True)
class Bet:
    """Another model's guesses of membership, tested against the propensity (Theorem C.1, epsilon = 0).

    Attributes
    ----------
    p_value : of "the true log-odds lie within ``gamma`` of the propensity's", in [0, 1], after Bonferroni
    gamma : the margin on the log-odds that was stated beforehand
    smallest_gamma : the smallest margin that is not rejected at ``level``; None where there is none
    level : of the test, in (0, 1)
    correct, guesses : of the competitor with the smallest p-value, on held-out rows
    competitor : its name
    """

    p_value: Share
    gamma: NotNegative
    smallest_gamma: NotNegative | None
    level: Inside
    correct: Count
    guesses: Positive
    competitor: str

    @property
    def refutes(self) -> bool:
        """Whether the propensity is refuted at its stated margin."""
        return self.p_value <= self.level


@dataclass(frozen=True)
class Challenge(Bet):
    """Result of a challenge by another model; if it refutes the propensity, no bound holds.

    Attributes
    ----------
    competitors : names of all that were tried
    rejected : whether the propensity is refuted at its stated margin
    text : the same as a sentence
    """

    competitors: Annotated[tuple[str, ...], MinLen(1)]
    rejected: bool
    text: Text


def challenge(
    evidence: Evidence,
    competitors: Sequence[Any],
    *,
    classifier: Any = None,
    encoding: Encoding | None = None,
    given: Propensity | None = None,
    screened: bool = False,
    gamma: float = 0.1,
    level: float = 0.05,
    inner: int = crossfit.INNER_FOLDS,
    rng: np.random.Generator,
) -> Challenge:
    """Test the propensity once against competitors, on rows that none of them has seen.

    One half of the units trains the propensity and the competitors. On the other half a competitor guesses "member"
    where its log-odds are above the propensity's, and the number of correct guesses is compared with the
    Poisson-binomial tail of sigma(T logit + gamma). Of a unit with several records one is drawn at random,
    and where units differ in size the large ones are represented more often, as in the rows that were learned from.

    Parameters
    ----------
    evidence, classifier, encoding, screened, rng : as in :func:`miaudit.causal.propensity.fit`
    competitors : scikit-learn classifiers with ``predict_proba``; p-values are multiplied by their number
    given : the propensity of each record, where it is known or was learned elsewhere; it is challenged unchanged
    gamma : margin on the log-odds, 0 or more; at 0 about one sound learned propensity in eight is refuted
    level : of the test, in (0, 1)
    inner : folds of the training half on which a competitor is calibrated, 2 or more: its cost

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
    options: dict[str, Any] = {"encoding": encoding, "inner": inner, "screened": screened}
    rows, logits = propensity.held_out_logits(evidence, models, **options, rng=rng)
    if evidence.unit_codes is not None and (given is None or given.rows_per_covariate is not None):
        # Log-odds learned from records describe records that all have the same chance to be drawn.
        alike = drawn_alike(evidence.unit_codes[rows], rng, of=sizes(evidence.unit_codes)[rows])
        rows, logits = rows[alike], [logit[alike] for logit in logits]
    own, others = (logits[0], logits[1:]) if given is None else (given.matched(evidence).logit[rows], logits)
    names, member = [type(model).__name__ for model in competitors], evidence.member[rows]
    return _strongest(
        [
            _bet(own, other, member, gamma=gamma, level=level, tests=len(names), competitor=name)
            for other, name in zip(others, names, strict=True)
        ]
    )


def against(
    own: FloatArray,
    other: FloatArray,
    member: BoolArray,
    *,
    gamma: float = 0.1,
    level: float = 0.05,
    tests: int = 1,
    competitor: str = "challenger",
) -> Bet:
    """Test the propensity against submitted log-odds, on records with labels unknown to the submitter.

    Parameters
    ----------
    own, other : arrays (n,), log-odds of membership by the propensity and by its challenger
    member : array (n,) of bool
        Labels; independent given the covariates, and unknown to whoever submitted ``other``.
    gamma, level : as in :func:`challenge`
    tests : number of all challenges of this propensity, this one included; multiplies the p-value
    competitor : name of the challenger

    Examples
    --------
    >>> truth = np.repeat([2.0, -2.0], 500)
    >>> member = np.random.default_rng(0).random(1000) < expit(truth)
    >>> against(np.zeros(1000), truth, member).refutes, against(truth, np.zeros(1000), member).refutes
    (True, False)
    """
    _check([competitor], gamma, level)
    if not (own.shape == other.shape == member.shape and own.ndim == 1 and len(own)):
        received = f"shapes {own.shape}, {other.shape} and {member.shape}"
        raise InputError("other", "one number for each record, as own and member", received, "sort them alike")
    return _bet(own, other, member, gamma=gamma, level=level, tests=tests, competitor=competitor)


def _check(competitors: Sequence[Any], gamma: float, level: float) -> None:
    if not competitors:
        raise InputError("competitors", "at least one classifier", "none", "pass [HistGradientBoostingClassifier()]")
    if not (gamma >= 0 and math.isfinite(gamma)):
        raise InputError("gamma", "a number from 0 up", repr(gamma), "0.1 is the default")
    if not 0 < level < 1:
        raise InputError("level", "a number in (0, 1)", repr(level), "0.05 is the default")


def _bet(
    own: FloatArray,
    other: FloatArray,
    member: BoolArray,
    *,
    gamma: float,
    level: float,
    tests: int,
    competitor: str,
) -> Bet:
    """Test a competitor's guesses against the propensity's certainty of each; p-values are multiplied by ``tests``."""
    guess = np.where(other > own, 1, -1)
    correct, toward = int(np.count_nonzero(guess == np.where(member, 1, -1))), guess * own

    def p_value(margin: float) -> float:
        """Return the chance of as many correct guesses if log-odds are within the margin, after Bonferroni."""
        return min(1.0, tests * float(tail(expit(toward + margin), correct)))

    return Bet(p_value(gamma), gamma, _smallest(p_value, level), level, correct, len(own), competitor)


def _strongest(bets: Sequence[Bet]) -> Challenge:
    """Report the bet with the smallest p-value, and the smallest margin that none of the bets rejects."""
    best = min(bets, key=lambda bet: bet.p_value)
    margins = [bet.smallest_gamma for bet in bets if bet.smallest_gamma is not None]
    return Challenge(
        best.p_value,
        best.gamma,
        max(margins) if len(margins) == len(bets) else None,
        best.level,
        best.correct,
        best.guesses,
        best.competitor,
        tuple(bet.competitor for bet in bets),
        rejected=best.refutes,
        text=f"{best.competitor} won {best.correct:,} of {best.guesses:,} bets on records that no model had seen.",
    )


def _smallest(p_value: Callable[[float], float], level: float) -> float | None:
    """Find the smallest margin (to 0.001) whose p-value exceeds the level; None above 50."""
    if p_value(0.0) > level:
        return 0.0
    low, high = 0.0, 0.1
    while p_value(high) <= level:
        low, high = high, 2 * high
        if high > 50:
            return None
    while high - low > 1e-3:
        middle = (low + high) / 2
        low, high = (middle, high) if p_value(middle) <= level else (low, middle)
    return high

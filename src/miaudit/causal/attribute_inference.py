"""Attribute inference as an effect: how much more often a secret is guessed right because the record was learned.

An attacker who knows a part of a record and sees what the model returns guesses a secret attribute. Most right guesses
would be right about anybody, since attributes go together in the population (Jayaraman and Evans 2022). What the model
gives away about its members is the effect of membership on a right guess: members against comparable non-members
(causal-mia, section 9, names this extension of its effects).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike

from miaudit.causal import effects
from miaudit.causal.estimators import METHODS, Comparison, Estimator, PropensityLike, estimator_of
from miaudit.causal.outcome import Regression, law_of
from miaudit.causal.propensity import Propensity
from miaudit.errors import InputError
from miaudit.errors.options import check_choice
from miaudit.evidence import Evidence
from miaudit.metrics.classical import Estimate, joined

__all__ = ["AttributeEffect", "effect"]

RIGHT = 1.0  # the score of a record whose secret was guessed right


@dataclass(frozen=True)
class AttributeEffect:
    """How often an attacker guesses a secret right, of members and of comparable non-members.

    Attributes
    ----------
    members : accuracy on members, 0 to 1, as attacks usually report it
    controls : accuracy on the non-members, weighted to be like the members: what the attacker infers about anybody
    difference : members - controls, -1 to 1; above 0 the model gives away its members' secret, 0 at no effect
    effective_controls : Kish's effective number of weighted non-members, or of their units
    method : name of the estimator, one of ``miaudit.causal.effects.METHODS``
    """

    members: Estimate
    controls: Estimate
    difference: Estimate
    effective_controls: float
    method: str


def effect(
    evidence: Evidence,
    propensity: PropensityLike | ArrayLike | None = None,
    *,
    method: str | None = None,
    confidence: float = 0.95,
    rng: np.random.Generator,
) -> AttributeEffect:
    """Estimate the effect of membership on a right guess of a secret attribute.

    Parameters
    ----------
    evidence : with a declared design and one score: 1 where the attacker guessed the record's secret right, else 0
        Of zero-run evidence the covariates are all that is known of a record apart from the model. The secret itself is
        one of them: where it is more frequent among the members, a guess of the most frequent value is right more often
        about them.
    propensity : P(A=1|X) of the same records, as of :func:`miaudit.causal.effects.ate`; zero-run evidence needs it
    method : "difference", "horvitz-thompson", "hajek", "g" or "aipw"
        Default "difference" for a randomised design without a propensity, else "hajek". "g" and "aipw" learn the
        accuracy on non-members from the covariates by :class:`miaudit.causal.outcome.Regression`. "difference" of
        zero-run evidence is not causal, and its note says so.
    confidence : two-sided, in (0, 1), of each interval
    rng : draws the folds of the regressions

    Returns
    -------
    AttributeEffect
        The interval of the difference holds that of :func:`miaudit.causal.effects.ate` and Newcombe's of two rates
        (1998), which has a width also where all guesses are right.

    Raises
    ------
    InputError
        For a score that is neither 0 nor 1, an undeclared design, zero-run evidence without a propensity, an unknown
        method, or a propensity that :func:`miaudit.causal.effects.ate` refuses.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> usual = rng.normal(size=4000)  # how usual a record is: such secrets are easy to guess
    >>> pi = 1 / (1 + np.exp(-1.5 * usual))  # and such records are members more often
    >>> member, guess_is_right = rng.random(4000) < pi, rng.random(4000) < pi  # membership changes nothing
    >>> evidence = Evidence(score=guess_is_right, member=member, covariates=usual, design="zero-run")
    >>> raw = effect(evidence, method="difference", rng=rng)
    >>> round(raw.members.value, 1), round(raw.controls.value, 1), raw.difference.low > 0
    (0.6, 0.4, True)
    >>> corrected = effect(evidence, pi, rng=rng)
    >>> round(corrected.members.value, 1), round(corrected.controls.value, 1), corrected.difference.low > 0
    (0.6, 0.6, False)
    """
    _check_guesses(evidence)
    name = _method(evidence, propensity, method)
    even = Propensity.of(np.full(evidence.n, 0.5))
    known = even if propensity is None else Propensity.of(propensity)
    chosen = _estimator(name, evidence, known, rng)
    members = effects.tpr_at_threshold(evidence, threshold=RIGHT, confidence=confidence)
    controls = effects.fpr_at_threshold(evidence, known, threshold=RIGHT, method=chosen, confidence=confidence, rng=rng)
    average = effects.ate(evidence, known, method=chosen, confidence=confidence, rng=rng)
    return AttributeEffect(
        members=members,
        controls=controls,
        difference=_difference(average, members, controls),
        effective_controls=Comparison.of(evidence, even if name == "difference" else known).effective_nonmembers,
        method=name,
    )


def _check_guesses(evidence: Evidence) -> None:
    """Refuse a score that does not say whether a guess was right, and an undeclared design."""
    other = evidence.score[(evidence.score != RIGHT) & (evidence.score != 0)]
    if len(other):
        allowed, hint = "1 where the secret was guessed right, else 0", "other scores have miaudit.causal.effects.ate"
        raise InputError("score", allowed, f"{other[0]:g}", hint)
    if evidence.design is None:
        allowed, hint = "one-run, multi-run or zero-run", "state how membership came about: Evidence(..., design=)"
        raise InputError("design", allowed, "None", hint)


def _method(evidence: Evidence, propensity: PropensityLike | ArrayLike | None, method: str | None) -> str:
    """Return the name of the estimator; refuse one that lacks the propensity."""
    randomised = propensity is None and evidence.design != "zero-run"
    name = method or ("difference" if randomised else "hajek")
    check_choice("method", name, METHODS)
    if propensity is None and name != "difference":
        allowed, hint = "the propensity of each record", "pass miaudit.causal.propensity.fit(evidence, rng=rng)"
        raise InputError("propensity", allowed, "None", hint)
    return name


def _estimator(name: str, evidence: Evidence, propensity: PropensityLike, rng: np.random.Generator) -> Estimator:
    """Return the estimator, its regressions fitted once, so that rates and difference agree."""
    learns = name in ("g", "aipw")
    return estimator_of(name, law_of(Regression(), evidence, propensity, rng) if learns else None)


def _difference(average: Estimate, members: Estimate, controls: Estimate) -> Estimate:
    """Return the difference of two rates with the outer limits of the effect's interval and Newcombe's."""
    inside, outside = float(members.value or 0.0), float(controls.value or 0.0)
    value = inside - outside
    low = value - joined(inside - members.low, controls.high - outside)
    high = value + joined(members.high - inside, outside - controls.low)
    return replace(average, value=value, low=max(min(average.low, low), -1.0), high=min(max(average.high, high), 1.0))

"""Weights that carry the regressions of a score, for metrics that no outcome model corrects.

AIPW corrects the AUC and the average effect where the propensity misses a part of the shift. A TPR at an FPR, the
advantage and the curve rest on weights alone. The tilt multiplies the odds of each non-member by exp(lambda' Q), where
Q are functions of what regressions predict of the score. It chooses lambda so that the weighted non-members have the
mean of the members in each of them. The weights are then right where the propensity or the regressions are, at the
thresholds that are among the functions (experiments/methods.md, section 11).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import special

from miaudit.arrays import BoolArray, FloatArray
from miaudit.causal.estimators import PropensityLike
from miaudit.causal.outcome import AnyLaw, share_above
from miaudit.evidence import Evidence
from miaudit.metrics import classical

__all__ = ["Tilted", "tilted"]

_NEW = 0.2  # share of a function's variance that the functions before it do not have; with less it is left out
_MOST_SPREAD = 3.0  # standard deviations at which a function is clipped
_MOST_TILT = 1.5  # of a function of variance 1; with more the last function is left out
_RIDGE = 1e-4
_CONFIDENCE = 0.95  # at which an FPR has to be resolved to have a function
_STEPS, _ENOUGH, _SMALLEST_PART = 50, 1e-9, 1e-6
_LEAST_VARIANCE = 1e-8


@dataclass(frozen=True, eq=False)
class Tilted:
    """Odds of membership after a tilt, as the estimators read a propensity.

    Attributes
    ----------
    odds : array (n,); those of members stay as they were
    features : None, since the tilt adds no score term to a variance
    """

    odds: FloatArray
    features: None = None
    logistic: bool = False

    @property
    def values(self) -> FloatArray:
        """P(A=1|X) of each record (n,), in (0, 1)."""
        return np.asarray(self.odds / (1 + self.odds))


def tilted(
    evidence: Evidence, propensity: PropensityLike, law: AnyLaw, fprs: Sequence[float]
) -> tuple[Tilted, Tilted] | None:
    """Tilt the weights of non-members along what regressions predict of the score.

    Parameters
    ----------
    evidence : with one score
    propensity : whose odds are tilted
    law : of a non-member's score given the covariates, cross-fitted
    fprs : at whose thresholds the weighted share of non-members is corrected, as far as there are enough non-members

    Returns
    -------
    (once, twice) or None
        The tilted odds, and those tilted by as much again. A metric has its value by the first. Its limits are those of
        both, since the first leaves as much bias again as a slow regression leaves. None where nothing can be tilted.

    Examples
    --------
    >>> from types import SimpleNamespace
    >>> from miaudit.causal.stack import Folds, Regressed
    >>> rng = np.random.default_rng(0)
    >>> x = rng.normal(size=(2000, 1))
    >>> member = rng.random(2000) < 1 / (1 + np.exp(-x[:, 0]))
    >>> evidence = Evidence(score=x[:, 0] + 0.5 * rng.normal(size=2000), member=member, covariates=x)
    >>> folds = Folds.of(x, member, np.arange(2000) % 5, names=["u"], seed=0)
    >>> ignorant = SimpleNamespace(odds=np.ones(2000))  # it knows nothing of x
    >>> once, _ = tilted(evidence, ignorant, Regressed(folds, evidence.score), (0.1,))
    >>> means = [np.average(x[~member, 0], weights=w[~member]) for w in (ignorant.odds, once.odds)]
    >>> [round(float(x[member, 0].mean() - mean), 1) for mean in means]
    [0.8, 0.0]
    """
    member = evidence.member
    before = np.asarray(propensity.odds, dtype=np.float64)[~member]
    effective = before.sum() ** 2 / (before @ before)
    rates = [fpr for fpr in sorted(fprs, reverse=True) if classical.resolvable(fpr, effective, _CONFIDENCE)]
    above = law.expected(share_above(evidence.score[member]))
    # The thresholds are those of weights that carry one function: to look for them again with all moves a TPR by less
    # than a fiftieth of its interval (experiments/methods.md, section 11).
    exponent = _exponent(above[:, None], member, before)
    weight = before if exponent is None else before * np.exp(exponent - exponent.max())
    thresholds = [_threshold(evidence.score[~member], weight, fpr) for fpr in rates]
    functions = np.column_stack([above, *(law.exceedance(t) for t in dict.fromkeys(thresholds))])
    exponent = _exponent(functions, member, before)
    if exponent is None:
        return None
    return _with(propensity, member, exponent), _with(propensity, member, 2 * exponent)


def _with(propensity: PropensityLike, member: BoolArray, exponent: FloatArray) -> Tilted:
    """The odds with those of non-members times exp(exponent); their sum stays as it was."""
    odds = np.array(propensity.odds, dtype=np.float64)
    weight = odds[~member] * np.exp(exponent - exponent.max())
    odds[~member] = weight * odds[~member].sum() / weight.sum()
    return Tilted(odds)


def _threshold(score: FloatArray, weight: FloatArray, fpr: float) -> float:
    """The score at which the weighted share of non-members above first reaches the FPR."""
    order = np.argsort(-score, kind="stable")
    share = np.cumsum(weight[order]) / weight.sum()
    return float(score[order][min(int(np.searchsorted(share, fpr)), len(order) - 1)])


def _exponent(functions: FloatArray, member: BoolArray, weight: FloatArray) -> FloatArray | None:
    """Return lambda' (Q - mean of Q over members) of each non-member (m,); None where no function is left.

    Parameters
    ----------
    functions : array (n, k), in the order in which they may stay
    weight : array (m,) of non-members, before the tilt
    """
    share = weight / weight.sum()
    new = _orthogonal(functions, ~member, share)
    centred = new[~member] - new[member].mean(axis=0)
    while centred.shape[1]:
        tilt = _balancing(centred, share)
        if np.abs(tilt).max() <= _MOST_TILT:
            return np.asarray(centred @ tilt)
        centred = centred[:, :-1]
    return None


def _orthogonal(functions: FloatArray, outside: BoolArray, share: FloatArray) -> FloatArray:
    """Functions (n, k) made orthogonal in their order, of variance 1 under the weights, and clipped.

    One that has little variance which those before it do not have is left out (weighted Gram-Schmidt).
    """
    orthogonal: list[FloatArray] = []
    for function in functions.T:
        rest = function - share @ function[outside]
        before = float(share @ rest[outside] ** 2)
        for one in orthogonal:
            rest = rest - float(share @ (rest[outside] * one[outside])) * one
        rest = rest - share @ rest[outside]
        left = float(share @ rest[outside] ** 2)
        if before > _LEAST_VARIANCE and left >= _NEW * before:
            orthogonal.append(np.clip(rest / np.sqrt(left), -_MOST_SPREAD, _MOST_SPREAD))
    return np.column_stack(orthogonal) if orthogonal else np.empty((len(functions), 0))


def _balancing(centred: FloatArray, share: FloatArray) -> FloatArray:
    """Return the lambda (k,) of least log sum of share * exp(centred @ lambda): the weighted mean is then 0 (Newton).

    Where no weights have that mean, lambda grows, and the caller leaves functions out.
    """

    def loss(tilt: FloatArray) -> float:
        return float(special.logsumexp(centred @ tilt, b=share) + _RIDGE * (tilt @ tilt) / 2)

    tilt = np.zeros(centred.shape[1])
    for _ in range(_STEPS):
        weight = special.softmax(centred @ tilt + np.log(share))
        mean = weight @ centred
        gradient = mean + _RIDGE * tilt
        if np.abs(gradient).max() < _ENOUGH:
            break
        curvature = (centred * weight[:, None]).T @ centred - np.outer(mean, mean) + _RIDGE * np.eye(len(tilt))
        step, part = np.linalg.solve(curvature, gradient), 1.0
        while loss(tilt - part * step) > loss(tilt) and part > _SMALLEST_PART:
            part /= 2
        tilt = tilt - part * step
    return tilt

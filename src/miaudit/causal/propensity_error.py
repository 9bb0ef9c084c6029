"""The propensity error of causal-mia, Theorem 6.4: how far learned weights are from the true ones, on average.

Delta = E[ |w(X) - w'(X)| given A = 0 and w' ], with w = pi / (1 - pi) the true weights and w' the learned ones. It is
the largest of E[(w - w') g] over functions g within [-1, 1], and E[w g] over non-members is n1 / n0 times the mean of g
over members. So a function that was learned on other records shows a **lower** limit of Delta without any model. No
upper limit can be without one: a shift in a region that no record marks moves Delta and no statistic. What is
estimated here is what a bootstrap of the model and rival models see, and its coverage was measured
(``experiments/causal_mia/propensity_error.md``).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from miaudit.arrays import FloatArray
from miaudit.causal import covariates
from miaudit.causal import propensity as propensities
from miaudit.causal.propensity import Propensity
from miaudit.errors import InputError
from miaudit.errors.checks import check_confidence, check_generator
from miaudit.evidence import Evidence

__all__ = ["PropensityError", "Rival", "estimate", "of_known"]

_FEWEST = 20  # replicates
_REPLICATES = 100


@dataclass(frozen=True, eq=False)
class Rival:
    """Another model of the same propensities.

    Attributes
    ----------
    propensity : Propensity of the same records, each value learned from other records
    noise : how far it may itself be from the truth, as a mean distance of weights over non-members
    """

    propensity: Propensity
    noise: float = 0.0

    @classmethod
    def stack(cls, evidence: Evidence, folds: int | ArrayLike, *, rng: np.random.Generator) -> Rival:
        """Fit the stack of :func:`miaudit.causal.propensity.stacked`; its noise is what halves of the records change.

        Parameters
        ----------
        evidence : with covariates
        folds : of the propensity that it rivals, or their number
        rng : generator of the halves and of the fits
        """
        whole_rng, half_rng = rng.spawn(2)
        fitted = propensities.stacked(evidence, folds=folds, rng=whole_rng)
        return cls(fitted, float(np.mean(_halves(evidence, fitted, half_rng))))


@dataclass(frozen=True)
class PropensityError:
    """What is known of Delta of one propensity: mean distances of weights over non-members, 0 or more.

    The whole radius of Theorem 6.4, with constants, is that of :func:`miaudit.causal.concentration.zero_run_ate` with
    ``propensity_error=error.upper`` and ``overlap=error.eta``. Its terms of stability belong to the training algorithm.

    Attributes
    ----------
    noise : mean distance of bootstrap replicates from the fit: what chance moves, if the model is right
    noise_upper : their quantile at ``confidence``, a limit of Delta **if the model is right**
    rivals : mean distance of each rival from the fit
    at_least : lower confidence limit of Delta, whatever the model: what the rivals show to be missing
    upper : an upper estimate: the larger of ``noise_upper`` and of any rival's distance plus the rival's own noise
    confidence : of ``at_least`` and ``noise_upper``, one-sided
    ratio : n0 / n1, by which Delta is multiplied where weights represent members (erratum A1)
    eta : 1 - the largest learned propensity (Assumption 6.3, which the true ones must keep as well)
    """

    noise: float
    noise_upper: float
    rivals: tuple[float, ...]
    at_least: float
    upper: float
    confidence: float
    ratio: float
    eta: float

    @property
    def metric_error(self) -> float:
        """How far a corrected mean of values in [0, 1] may be off if Delta is ``upper``: an AUC, an FPR, an ATE.

        It holds for weights over n1 and for weights that are divided by their sum.
        """
        return self.upper * self.ratio


def of_known(evidence: Evidence, propensity: Propensity | ArrayLike, truth: Propensity | ArrayLike) -> float:
    """Return Delta over the non-members of some evidence where the true propensities are known, as in a simulation.

    Examples
    --------
    >>> evidence = Evidence(score=range(4), member=[0, 0, 1, 1])
    >>> of_known(evidence, [0.5, 0.5, 0.5, 0.5], [0.75, 0.5, 0.5, 0.5])  # one of two weights is 1 and should be 3
    1.0
    """
    learned, true = (Propensity.of(one).matched(evidence).odds for one in (propensity, truth))
    return float(np.abs(learned - true)[~evidence.member].mean())


def estimate(
    evidence: Evidence,
    propensity: Propensity,
    *,
    replicates: ArrayLike | None = None,
    rivals: Sequence[Rival] | None = None,
    confidence: float = 0.95,
    rng: np.random.Generator,
) -> PropensityError:
    """Estimate the propensity error Delta of causal-mia, Theorem 6.4.

    A bootstrap shows what chance moves and never that a model is wrong. Rivals, fitted to the same folds, show what
    they can learn of the rest. **What neither sees is not in the estimate**, so ``upper`` is no confidence limit of
    Delta: its coverage is in ``experiments/causal_mia/propensity_error.md``.

    Parameters
    ----------
    evidence : n records, with covariates where replicates or rivals are not passed
    propensity : Propensity, learned; its values for a record must rest on other records (cross-fitted or separate)
    replicates : array (K, n), K at least 20, bootstrap replicates of it
        Default: 100 of a cross-fitted line. A stack is compared with the stacks of two halves of the records.
    rivals : default: the stack on the same folds for a cross-fitted line, the line for a stack, and else none
    confidence : in (0, 1), one-sided
    rng : generator of resamples and folds

    Raises
    ------
    InputError
        For given propensities, replicates of another shape or fewer than 20, and where the default replicates are not
        of this model.

    Notes
    -----
    ``at_least`` is the largest over rivals (Bonferroni) of T - z SE(T), with g = 1 where the rival's weight is larger
    and -1 elsewhere, and T = n1 / n0 mean of g over members - mean of w' g over non-members. Units are clusters.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> x = rng.normal(size=2000)
    >>> pi = np.where(np.abs(x) < 0.5, 0.75, 0.4)  # a band, which no line describes
    >>> member = rng.random(2000) < pi
    >>> evidence = Evidence(score=x, member=member, covariates=x, design="zero-run")
    >>> line = propensities.fit(evidence, rng=rng)
    >>> error = estimate(evidence, line, rng=rng)
    >>> error.noise_upper < error.at_least < of_known(evidence, line, pi) < error.upper
    True
    """
    check_generator(rng)
    checked = check_confidence(confidence)
    values = propensity.matched(evidence)
    if values.folds is None and values.rows_per_covariate is None:
        raise InputError("propensity", "a learned one", "given values", "Delta of known propensities is 0")
    rival_rng, noise_rng = rng.spawn(2)
    moved = _moved(evidence, values, replicates, noise_rng)
    others = _default_rivals(evidence, values, rival_rng) if rivals is None else tuple(rivals)
    level = (1 - checked) / max(1, len(others))
    apart = tuple(of_known(evidence, values, other.propensity) for other in others)
    noise_upper = float(np.quantile(moved, checked))
    return PropensityError(
        noise=float(moved.mean()),
        noise_upper=noise_upper,
        rivals=apart,
        at_least=max([0.0, *(_shown(evidence, values, other.propensity, level) for other in others)]),
        upper=max([noise_upper, *(far + other.noise for far, other in zip(apart, others, strict=True))]),
        confidence=checked,
        ratio=evidence.n_nonmembers / evidence.n_members,
        eta=float(1 - values.values.max()),
    )


def _moved(
    evidence: Evidence, propensity: Propensity, replicates: ArrayLike | None, rng: np.random.Generator
) -> FloatArray:
    """Return the distance of each replicate from the propensity (K,)."""
    if replicates is None and propensity.stacked:
        return np.array(_halves(evidence, propensity, rng))
    if replicates is None:
        if not propensity.logistic or propensity.folds is None:
            allowed = f"an array (K, {evidence.n}) for a propensity of another model, or of separate records"
            raise InputError("replicates", allowed, "none", "pass causal.propensity.bootstrap(...)")
        options: dict[str, Any] = {"folds": propensity.folds, "screened": propensity.screened}
        replicates = propensities.bootstrap(evidence, replicates=_REPLICATES, **options, rng=rng)
    resampled = np.asarray(replicates, dtype=np.float64)
    if resampled.ndim != 2 or resampled.shape[1] != evidence.n or len(resampled) < _FEWEST:
        allowed = f"an array (K, {evidence.n}) of at least {_FEWEST} replicates"
        raise InputError("replicates", allowed, f"shape {resampled.shape}", "see causal.propensity.bootstrap")
    if not ((resampled > 0) & (resampled < 1)).all():
        raise InputError("replicates", "probabilities strictly between 0 and 1", "others, or NaN", "clip them")
    outside = ~evidence.member
    weights = resampled[:, outside] / (1 - resampled[:, outside])
    return np.asarray(np.abs(weights - propensity.odds[outside]).mean(axis=1))


def _halves(evidence: Evidence, fitted: Propensity, rng: np.random.Generator) -> list[float]:
    """Return how far stacks of two halves of the records are from the stack of all, each on its own half."""
    code = covariates.codes(evidence)
    half = covariates.folds_of(2, evidence.member, code, rng)
    distances = []
    for side in (0, 1):
        rows = np.flatnonzero(half == side)
        part = evidence.take(rows)
        distances.append(of_known(part, fitted.values[rows], propensities.stacked(part, rng=rng)))
    return distances


def _default_rivals(evidence: Evidence, propensity: Propensity, rng: np.random.Generator) -> tuple[Rival, ...]:
    if propensity.line is not None:
        return (Rival(propensity.line),)
    if propensity.folds is None:
        return ()
    return (Rival.stack(evidence, propensity.folds, rng=rng),)


def _shown(evidence: Evidence, propensity: Propensity, rival: Propensity, level: float) -> float:
    """Return a lower limit of E[(w - w') g] over non-members, with g the sign of a rival's difference."""
    weights = propensity.odds
    sign = np.where(rival.matched(evidence).odds > weights, 1.0, -1.0)
    inside, n0 = evidence.member, evidence.n_nonmembers
    terms = np.where(inside, sign, -weights * sign) / n0
    centred = terms - np.where(inside, terms[inside].mean(), terms[~inside].mean())
    totals = centred if evidence.unit_codes is None else np.bincount(evidence.unit_codes, weights=centred)
    return float(terms.sum() + special.ndtri(level) * np.sqrt(totals @ totals))

"""Corrected metrics if a share of the records has the wrong label."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike

from miaudit.causal import effects
from miaudit.causal.estimators import Comparison, PropensityLike
from miaudit.causal.propensity import Propensity
from miaudit.errors import InputError
from miaudit.evidence import Evidence
from miaudit.metrics.classical import Estimate, tpr_name
from miaudit.metrics.roc import Roc

__all__ = ["solved_curve", "under_mislabelling"]


def under_mislabelling(
    evidence: Evidence,
    propensity: PropensityLike | ArrayLike,
    *,
    members: float,
    nonmembers: float,
    fpr_targets: tuple[float, ...] = (),
    confidence: float = 0.95,
    rng: np.random.Generator,
) -> dict[str, Estimate]:
    """Return Hajek metrics under a share of wrong labels among members and among non-members.

    The observed laws are taken as mixtures P1' = (1 - e1) P1 + e1 P0 and P0' = (1 - e0) P0 + e0 P1. Then AUC - 1/2,
    the average effect and TPR - FPR at any threshold shrink by 1 - e1 - e0, and so do their limits. The curve is
    solved for (FPR, TPR) at each threshold and read at the target; its limits are those T for which the observed
    interval, at the FPR that T would give there, contains the mixture of T and the target.

    Parameters
    ----------
    members : e1, share of labelled members that are none, 0 to 1
    nonmembers : e0, share of labelled non-members that are members; e0 + e1 < 1
    fpr_targets : FPRs at which the TPR is wanted

    Returns
    -------
    dict
        ``auc``, ``advantage``, ``ate`` and ``tpr_at_fpr_...``; larger effects the larger the shares.

    Examples
    --------
    >>> from types import SimpleNamespace
    >>> evidence = Evidence(score=[2.0, 4.0, 1.0, 3.0], member=[1, 1, 0, 0])
    >>> known = SimpleNamespace(values=np.full(4, 0.5), odds=np.ones(4), features=None)
    >>> found = under_mislabelling(evidence, known, members=0.1, nonmembers=0.1, rng=np.random.default_rng(0))
    >>> found["auc"].value, found["ate"].value
    (0.8125, 1.25)
    """
    propensity = Propensity.of(propensity)
    right_share = 1 - members - nonmembers
    for name, share in (("members", members), ("nonmembers", nonmembers)):
        if not 0 <= share < 1 or right_share <= 0:
            received = f"{members}, {nonmembers}"
            raise InputError(name, "shares from 0 that add up to less than 1", received, "write 0.02 for 2%")
    chance = {"auc": 0.5, "advantage": 0.0, "ate": 0.0}
    estimates: dict[str, Estimate] = {}
    for name, metric in (("auc", effects.auc), ("advantage", effects.advantage), ("ate", effects.ate)):
        observed = metric(evidence, propensity, confidence=confidence, rng=rng)
        estimates[name] = _stretched(observed, right_share, chance[name], 1.0 if name != "ate" else math.inf)
    for alpha in fpr_targets:
        effects._check_rate(alpha)
        estimates[tpr_name(alpha)] = _solved_tpr(evidence, propensity, alpha, members, nonmembers, confidence, rng)
    return estimates


# -- parts -------------------------------------------------------------------------------------------------------------


def _stretched(observed: Estimate, right_share: float, chance: float, most: float) -> Estimate:
    def of(value: float) -> float:
        return min(max(chance + (value - chance) / right_share, 0.0 if math.isfinite(most) else -math.inf), most)

    value = None if observed.value is None else of(observed.value)
    return replace(observed, value=value, low=of(observed.low), high=of(observed.high))


def _solved_tpr(
    evidence: Evidence,
    propensity: PropensityLike,
    alpha: float,
    members: float,
    nonmembers: float,
    confidence: float,
    rng: np.random.Generator,
) -> Estimate:
    """Return the TPR at alpha of the solved curve, with limits."""
    curve = solved_curve(Comparison.of(evidence, propensity).roc, members, nonmembers)
    value = float(curve.tpr_at(alpha))
    accepted, resolved = [], True
    for candidate in np.linspace(0, 1, 81):
        level = nonmembers * candidate + (1 - nonmembers) * alpha
        rate = (1 - members) * candidate + members * alpha
        observed = effects.tpr_at_fpr(evidence, propensity, fpr=float(level), confidence=confidence, rng=rng)
        if observed.low <= rate <= observed.high:
            accepted.append(float(candidate))
            resolved = resolved and observed.resolved
    low, high = (min(accepted), max(accepted)) if accepted else (value, value)
    if not resolved:
        return Estimate(None, 0.0, max(high, value), confidence, "upper limit only: too few effective non-members")
    return Estimate(value, min(low, value), max(high, value), confidence, "limits on a grid of 1/80")


def solved_curve(roc: Roc, members: float, nonmembers: float) -> Roc:
    """Undo the mixture at each threshold: the curve if all labels were right.

    Parameters
    ----------
    roc : observed curve, weighted or not
    members, nonmembers : shares of wrong labels, with a sum below 1

    Returns
    -------
    Roc
        Clipped to [0, 1] and made monotone, since sampling noise is magnified.
    """
    right_share = 1 - members - nonmembers
    fpr = ((1 - members) * roc.fpr - nonmembers * roc.tpr) / right_share
    tpr = ((1 - nonmembers) * roc.tpr - members * roc.fpr) / right_share
    fpr, tpr = (np.maximum.accumulate(np.clip(rate, 0.0, 1.0)) for rate in (fpr, tpr))
    return Roc(roc.threshold, fpr * roc.n_nonmembers, tpr * roc.n_members)

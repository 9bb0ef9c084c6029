"""Learning curve of a propensity: the AUC of covariates alone, learned from half of the rows and from all of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from miaudit.arrays import BoolArray, FloatArray, Share
from miaudit.causal import covariates, crossfit, logistic
from miaudit.causal.covariates import Encoding, Part, Table
from miaudit.causal.crossfit import FOLDS
from miaudit.errors.checks import check_generator
from miaudit.evidence import Evidence
from miaudit.metrics.roc import Roc

_HALVES = 2  # random halves of each training part on the learning curve, each with its complement
_RISE_Z = 3.0  # the rise must exceed this many standard errors ...
_RISE_LEAST = 0.01  # ... and this much AUC; see LearningCurve


@dataclass(frozen=True)
class LearningCurve:
    """AUC of the covariates alone, learned from half of the rows and from all of them.

    Both are AUCs on the same held-out folds, so their difference has little noise. It is called **rising** when the
    difference exceeds both 3 of its standard errors and 0.01: a propensity that would gain from more rows is not
    trusted (errata A10 and B20). The simulation of the rule is in ``experiments/validity/propensity.md``.

    Attributes
    ----------
    half, full : AUC of the covariates alone, 0.5 at no shift
    rising : whether the propensity still gains from more rows
    """

    half: Share
    full: Share
    rising: bool


def learning_curve(
    evidence: Evidence,
    *,
    classifier: Any = None,
    encoding: Encoding | None = None,
    folds: int | ArrayLike = FOLDS,
    rng: np.random.Generator,
) -> LearningCurve:
    """Compare the AUC of covariates alone when learned from half of the rows and from all of them.

    Each fold is held out once. On its rows, the predictions of the model that learned from the whole training part are
    compared, pair by pair, with those of models that learned from random halves of it (the variance is DeLong's for
    paired curves, or of units).

    Parameters
    ----------
    evidence, classifier, encoding, folds, rng : as in :func:`miaudit.causal.propensity.fit`

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> x = rng.normal(size=(1000, 3))
    >>> member = rng.random(1000) < 1 / (1 + np.exp(-x[:, 0]))
    >>> learning_curve(Evidence(score=x[:, 1], member=member, covariates=x), rng=rng).rising
    False
    """
    check_generator(rng)
    chosen = crossfit.encoding_of(evidence, encoding, classifier)
    place, learn = rng.spawn(2)
    audited, parts, _ = covariates.divide(evidence, None, chosen, folds, place)
    strength = _strength_of_all(chosen, audited, evidence, place) if classifier is None else None
    influence = np.zeros(evidence.n)
    half = full = 0.0
    for part, seed in zip(parts, learn.spawn(len(parts)), strict=True):
        rise = _Rise.of(part, evidence.member[part.held_out], chosen, classifier, strength, seed)
        full += rise.full / len(parts)
        half += rise.half / len(parts)
        influence[part.held_out] = rise.influence / len(parts)
    totals = influence if evidence.unit_codes is None else np.bincount(evidence.unit_codes, weights=influence)
    error = float(np.sqrt(totals @ totals))
    return LearningCurve(half, full, bool(full - half > max(_RISE_Z * error, _RISE_LEAST)))


@dataclass(frozen=True, eq=False)
class _Rise:
    """AUCs on the records of one fold, and the influence (m,) of each record on their difference.

    Attributes
    ----------
    half : mean AUC of the models that learned from halves of the training part
    full : AUC of the model that learned from the whole training part
    influence : array (m,), on ``full`` less ``half``
    """

    half: float
    full: float
    influence: FloatArray

    @classmethod
    def of(
        cls,
        part: Part,
        member: BoolArray,
        encoding: Encoding,
        classifier: Any,
        strength: float | None,
        rng: np.random.Generator,
    ) -> _Rise:
        """Learn from the part and its halves, and compare on the held-out records with memberships (m,)."""
        whole, halves = _curve_scores(part, encoding, classifier, strength, rng)
        full, of_whole = _auc_influence(whole, member)
        aucs, of_halves = zip(*(_auc_influence(score, member) for score in halves), strict=True)
        return cls(float(np.mean(aucs)), full, of_whole - np.mean(of_halves, axis=0))


def _strength_of_all(encoding: Encoding, table: Table, evidence: Evidence, rng: np.random.Generator) -> float:
    """Choose C of the default model on all rows, for every point of the curve."""
    x = covariates.fit(encoding, table, seed=crossfit.seed_of(rng))(table)
    crossfit.refuse_wide(x)
    inner = covariates.assign(evidence.member, covariates.codes(evidence), crossfit.INNER_FOLDS, rng)
    y = evidence.member.astype(np.float64)
    return logistic.choose_strength(logistic.with_ones(x), y, inner)[0]


def _curve_scores(
    part: Part, encoding: Encoding, classifier: Any, strength: float | None, rng: np.random.Generator
) -> tuple[FloatArray, list[FloatArray]]:
    """Return scores of held-out rows, learned from the whole training part and from halves of it."""
    encoder = covariates.fit(encoding, part.table, seed=crossfit.seed_of(rng))
    x, out = encoder(part.table), encoder(part.apply)
    if strength is None:
        crossfit.refuse_wide(x)

    def scores(rows: BoolArray) -> FloatArray:
        if strength is None:
            estimator = crossfit.fit_classifier(classifier, x[rows], part.member[rows], crossfit.seed_of(rng))
            return crossfit.raw_logit(estimator, out)
        ones, y = logistic.with_ones(x[rows]), part.member[rows].astype(np.float64)
        start = np.zeros(ones.shape[1])
        beta, _ = logistic.minimise(ones, y, logistic.penalty_of(ones, strength), start, tolerance=1e-5)
        return logistic.with_ones(out) @ beta

    whole = scores(np.ones(len(x), dtype=np.bool_))
    halves = []
    for _ in range(_HALVES):
        side = covariates.assign(part.member, part.code, 2, rng)
        halves += [scores(side == 0), scores(side == 1)]
    return whole, halves


def _auc_influence(score: FloatArray, member: BoolArray) -> tuple[float, FloatArray]:
    """Return the AUC and the influence of each record (n,), zero on average in each class (DeLong)."""
    roc = Roc.of(score, member)
    vertex = roc.blocks_of(score)
    below = 1 - (roc.fpr[vertex] + roc.fpr[vertex - 1]) / 2
    above = (roc.tpr[vertex] + roc.tpr[vertex - 1]) / 2
    return roc.auc, np.where(member, (below - roc.auc) / roc.n_members, (above - roc.auc) / roc.n_nonmembers)

"""Propensity P(A=1 | X): cross-fitted and calibrated, with a learning curve as a diagnostic."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from miaudit.arrays import BoolArray, FloatArray, IntArray, Share
from miaudit.causal import covariates, crossfit, logistic
from miaudit.causal.covariates import Custom, Encoding, Table, Text
from miaudit.causal.crossfit import CLIP, FOLDS, Model, Part, Way, bootstrap, resample
from miaudit.errors import InputError
from miaudit.evidence import Evidence
from miaudit.metrics.roc import Roc
from miaudit.metrics.trials import one_of_each

__all__ = [
    "CLIP",
    "FOLDS",
    "LearningCurve",
    "Propensity",
    "bootstrap",
    "fit",
    "held_out_logits",
    "learning_curve",
    "resample",
    "rows_per_covariate",
]


_HALVES = 2  # random halves of each training part on the learning curve, each with its complement
_RISE_Z = 3.0  # the rise must exceed this many standard errors ...
_RISE_LEAST = 0.01  # ... and this much AUC; see LearningCurve


@dataclass(frozen=True, eq=False)
class Propensity:
    """P(A=1 | X) of each record in the pooled sample of members and non-members (errata A1).

    Attributes
    ----------
    values : array (n,) in (0, 1), higher means more like the members
    how : how they came about, in words
    clip : values are held between ``clip`` and 1 - ``clip``; 0 if they were given
    clipped : share of the records whose value was moved by that, 0 to 1
    folds : array (n,) of int or None
        Fold in which each record was held out; None for given values and for a separate training sample.
    features : array (n, p) or None
        Encoded covariates, standardised, no intercept; the encoding is fitted on all rows, without labels.
    dropped : names of constant covariates that were left out
    logistic : whether the model is the default, linear in ``features`` (the score term of statistics.md, section 3)
    rows_per_covariate : rows that the propensity was learned from, for each feature; None if given

    Examples
    --------
    >>> Propensity.given([0.5, 0.8]).odds.round(3).tolist()
    [1.0, 4.0]
    """

    values: FloatArray
    how: str
    clip: float = 0.0
    clipped: float = 0.0
    folds: IntArray | None = None
    features: FloatArray | None = None
    dropped: tuple[str, ...] = ()
    logistic: bool = False
    rows_per_covariate: float | None = None

    @classmethod
    def given(cls, values: ArrayLike, how: str = "given") -> Propensity:
        """Take known propensities (n,), each strictly between 0 and 1.

        Raises
        ------
        InputError
            For probabilities of exactly 0 or 1, NaN, or more than one dimension.
        """
        pi = np.array(values, dtype=np.float64)
        if pi.ndim != 1 or pi.size == 0:
            raise InputError("values", "one probability for each record, (n,)", f"shape {pi.shape}", "pass one column")
        outside = ~((pi > 0) & (pi < 1))
        if outside.any():
            row = int(np.argmax(outside))
            raise InputError(
                "values",
                "probabilities strictly between 0 and 1",
                f"{pi[row]:g} in row {row} ({np.count_nonzero(outside):,} such rows)",
                "records that can only be members, or only non-members, have no counterfactual: leave them out",
            )
        pi.flags.writeable = False
        return cls(pi, how)

    @property
    def odds(self) -> FloatArray:
        """Weights w = pi / (1 - pi) (n,) by which non-members represent members."""
        return self.values / (1 - self.values)

    @property
    def logit(self) -> FloatArray:
        """Log-odds of membership (n,)."""
        return np.asarray(np.log(self.odds))

    def of_rows(self, rows: NDArray[Any]) -> Propensity:
        """Return the propensities of some rows (indices or a mask) as given ones.

        Odds that differ by a factor give the same self-normalised weights, so a part keeps its meaning. Learned from
        separate records, it also keeps how many those were: what they leave uncertain is as uncertain in a part.
        """
        features = None if self.features is None else self.features[rows]
        part = replace(Propensity.given(self.values[rows], self.how), features=features)
        if self.folds is not None or self.rows_per_covariate is None:
            return part
        return replace(part, logistic=self.logistic, rows_per_covariate=self.rows_per_covariate)

    def matched(self, evidence: Evidence) -> Propensity:
        """Return these propensities if their number is that of the evidence's records, else refuse.

        Raises
        ------
        InputError
            If the lengths differ.
        """
        if len(self.values) != evidence.n:
            raise InputError(
                "propensity", f"{evidence.n:,} values, one for each record", f"{len(self.values):,}", "fit it again"
            )
        return self


@dataclass(frozen=True)
class LearningCurve:
    """AUC of the covariates alone, learned from half of the rows and from all of them.

    Both are AUCs on the same held-out folds, so their difference has little noise. It is called **rising** when the
    difference exceeds both 3 of its standard errors and 0.01: a propensity that would gain from more rows is not
    trusted (errata A10 and B20). The simulation of the rule is in ``docs/propensity.md``.

    Attributes
    ----------
    half, full : AUC of the covariates alone, 0.5 at no shift
    rising : whether the propensity still gains from more rows
    """

    half: Share
    full: Share
    rising: bool


# -- learning a propensity ------------------------------------------------------------------------------------------


def fit(
    evidence: Evidence,
    *,
    classifier: Any = None,
    encoding: Encoding | None = None,
    folds: int | ArrayLike = FOLDS,
    clip: float = CLIP,
    train: Evidence | None = None,
    strength: float | None = None,
    refuse_few_rows: bool = True,
    rng: np.random.Generator,
) -> Propensity:
    """Fit the propensity of each record on other records.

    Parameters
    ----------
    evidence : the audited records, with covariates (n, d) or texts
    classifier : scikit-learn classifier with ``predict_proba``, optional
        Default: L2 logistic regression, its strength chosen by cross-validation. Either is Platt-calibrated on
        log-odds that were cross-fitted inside the training rows.
    encoding : record of :mod:`miaudit.causal.covariates`, fitted on the training rows only
        Default: ``Text()`` where the evidence has texts, else ``Numbers()``.
    folds : number of folds, or the fold of each record (n,); whole units stay in one fold
    clip : propensities are held in [clip, 1 - clip], 0 < clip < 0.5
    train : separate records to learn from instead of cross-fitting
        Their share of members may differ; the log-odds are moved to the share of ``evidence`` (errata A1).
    strength : C of the logistic regression, more than 0; default: chosen by cross-validation
    refuse_few_rows : bool
        False fits even with more features than rows, which is never valid (errata B20): for reproductions only.
    rng : generator of the folds and of the classifier's seeds

    Raises
    ------
    InputError
        Without covariates, with too few records for the folds, with as many features as training rows, or if
        ``train`` holds audited rows.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> x = rng.normal(size=(2000, 2))
    >>> member = rng.random(2000) < 1 / (1 + np.exp(-x[:, 0]))
    >>> evidence = Evidence(score=x[:, 1], member=member, covariates=x, design="zero-run")
    >>> propensity = fit(evidence, rng=rng)
    >>> propensity.values.shape, bool(abs(propensity.logit - x[:, 0]).mean() < 0.15), propensity.clipped
    ((2000,), True, 0.0)
    """
    way = Way.of(evidence, classifier, encoding, refuse_few_rows, strength)
    crossfit.check_clip(clip)
    place, learn = rng.spawn(2)
    audited, parts, fold = crossfit.divide(evidence, train, way, folds, place)
    models = [crossfit.learn(way, part, seed) for part, seed in zip(parts, learn.spawn(len(parts)), strict=True)]
    logit = np.empty(evidence.n)
    for part, model in zip(parts, models, strict=True):
        logit[part.held_out] = model.logit(part.apply) + part.prior_shift
    values, clipped = crossfit.clipped(logistic.expit(logit), clip)
    encoder = models[0].encoder
    if fold is not None:
        encoder = covariates.fit(way.encoding, audited, seed=crossfit.seed_of(place))
    features = encoder(audited)
    rows = evidence.n if train is None else train.n
    how = _how(way, rows, fold, models)
    linear, ratio = way.classifier is None, rows / features.shape[1]
    return Propensity(values, how, clip, clipped, fold, features, audited.dropped, linear, ratio)


def held_out_logits(
    evidence: Evidence,
    classifiers: Sequence[Any],
    *,
    encoding: Encoding | None = None,
    rng: np.random.Generator,
) -> tuple[IntArray, list[FloatArray]]:
    """Fit each classifier on a random half of the units and apply it to the other half.

    Parameters
    ----------
    evidence, encoding, rng : as in :func:`fit`
    classifiers : scikit-learn classifiers with ``predict_proba``; None is the default model

    Returns
    -------
    rows : array (m,), ascending: one record, drawn at random, of each unit of the other half
    logits : for each classifier an array (m,), the calibrated log-odds of membership of those records

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> x = rng.normal(size=100)
    >>> evidence = Evidence(score=x, member=x + rng.normal(size=100) > 0, covariates=x)
    >>> rows, (logit,) = held_out_logits(evidence, [None], rng=rng)
    >>> rows.shape, logit.shape
    ((50,), (50,))
    """
    ways = [Way.of(evidence, classifier, encoding) for classifier in classifiers]
    place, learn = rng.spawn(2)
    table = covariates.table_of(evidence, ways[0].encoding)
    code = crossfit.codes(evidence)
    part = crossfit.fold_part(
        table, evidence.member, code, crossfit.folds_of(2, evidence.member, code, place) == 0, 0.0
    )
    logits = [
        crossfit.learn(way, part, seed).logit(part.apply)
        for way, seed in zip(ways, learn.spawn(len(ways)), strict=True)
    ]
    chosen = one_of_each(code[part.held_out], place)
    return np.flatnonzero(part.held_out)[chosen], [logit[chosen] for logit in logits]


def rows_per_covariate(evidence: Evidence, *, encoding: Encoding | None = None, seed: int = 0) -> float:
    """Return the number of rows for each encoded covariate; below 40, bounds are not testable.

    Examples
    --------
    >>> rows_per_covariate(Evidence(score=range(6), member=[0, 1] * 3, covariates=np.eye(6)[:, :2]))
    3.0
    """
    way = Way.of(evidence, None, encoding)
    table = covariates.table_of(evidence, way.encoding)
    features = covariates.fit(way.encoding, table, seed=seed)(table)
    return float(evidence.n / features.shape[1])


def learning_curve(
    evidence: Evidence,
    *,
    classifier: Any = None,
    encoding: Encoding | None = None,
    folds: int | ArrayLike = FOLDS,
    rng: np.random.Generator,
) -> LearningCurve:
    """Compare the AUC of covariates alone when learned from half of the rows and from all of them.

    Each fold is held out once; what the model learned from the whole training part, and from random halves of it,
    says of those rows is compared pair by pair (the variance is DeLong's for paired curves, or of units).

    Parameters
    ----------
    evidence, classifier, encoding, folds, rng : as in :func:`fit`

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> x = rng.normal(size=(1000, 3))
    >>> member = rng.random(1000) < 1 / (1 + np.exp(-x[:, 0]))
    >>> learning_curve(Evidence(score=x[:, 1], member=member, covariates=x), rng=rng).rising
    False
    """
    way = Way.of(evidence, classifier, encoding)
    place, learn = rng.spawn(2)
    audited, parts, _ = crossfit.divide(evidence, None, way, folds, place)
    strength = _strength_of_all(way, audited, evidence, place)
    influence = np.zeros(evidence.n)
    half = full = 0.0
    for part, seed in zip(parts, learn.spawn(len(parts)), strict=True):
        whole, halves = _curve_scores(way, part, strength, seed)
        member = evidence.member[part.held_out]
        auc_full, above_full = _auc_influence(whole, member)
        found = [_auc_influence(score, member) for score in halves]
        full += auc_full / len(parts)
        half += float(np.mean([auc for auc, _ in found])) / len(parts)
        change = above_full - np.mean([above for _, above in found], axis=0)
        influence[part.held_out] = change / len(parts)
    totals = influence if evidence.unit_codes is None else np.bincount(evidence.unit_codes, weights=influence)
    error = float(np.sqrt(totals @ totals))
    return LearningCurve(half, full, bool(full - half > max(_RISE_Z * error, _RISE_LEAST)))


def _how(way: Way, rows: int, fold: IntArray | None, models: Sequence[Model]) -> str:
    where = f"on {rows:,} separate records" if fold is None else f"cross-fitted in {len(models)} folds"
    what = type(way.classifier).__name__
    if way.classifier is None:
        low, high = (pick(m.strength or 0.0 for m in models) for pick in (min, max))
        chosen = f"C {low:.2g}" if low == high else f"C {low:.2g} to {high:.2g}"
        what = f"L2 logistic regression ({chosen})"
    few = "" if way.refuse_few_rows else "; with more features than rows allowed"
    return f"{where}: {_named(way.encoding)}, {what}, Platt calibration{few}"


def _named(encoding: Encoding) -> str:
    """Name an encoding and the caller's own models."""
    name = type(encoding).__name__
    match encoding:
        case Custom(function=function):
            return f"{name} ({getattr(function, '__name__', type(function).__name__)})"
        case Text(beside=beside):
            return name if beside == Text().beside else f"{name} beside {_named(beside)}"
    return name


# -- the learning curve ---------------------------------------------------------------------------------------------


def _strength_of_all(way: Way, table: Table, evidence: Evidence, rng: np.random.Generator) -> float | None:
    """Choose C on all rows, for every point of the curve; None for the caller's classifiers."""
    if way.classifier is not None:
        return None
    x = covariates.fit(way.encoding, table, seed=crossfit.seed_of(rng))(table)
    crossfit.refuse_wide(x, way)
    inner = crossfit.assign(evidence.member, crossfit.codes(evidence), crossfit.INNER_FOLDS, rng)
    y = evidence.member.astype(np.float64)
    return logistic.choose_strength(logistic.with_ones(x), y, inner, way.strengths)[0]


def _curve_scores(
    way: Way, part: Part, strength: float | None, rng: np.random.Generator
) -> tuple[FloatArray, list[FloatArray]]:
    """Return scores of held-out rows, learned from the whole training part and from halves of it."""
    encoder = covariates.fit(way.encoding, part.table, seed=crossfit.seed_of(rng))
    x, out = encoder(part.table), encoder(part.apply)
    if strength is None:
        crossfit.refuse_wide(x, way)

    def scores(rows: BoolArray) -> FloatArray:
        if strength is None:
            return crossfit.raw_logit(
                crossfit.fit_classifier(way.classifier, x[rows], part.member[rows], crossfit.seed_of(rng)), out
            )
        ones, y = logistic.with_ones(x[rows]), part.member[rows].astype(np.float64)
        start = np.zeros(ones.shape[1])
        beta, _ = logistic.minimise(ones, y, logistic.penalty_of(ones, strength), start, tolerance=1e-5)
        return logistic.with_ones(out) @ beta

    whole = scores(np.ones(len(x), dtype=np.bool_))
    halves = []
    for _ in range(_HALVES):
        side = crossfit.assign(part.member, part.code, 2, rng)
        halves += [scores(side == 0), scores(side == 1)]
    return whole, halves


def _auc_influence(score: FloatArray, member: BoolArray) -> tuple[float, FloatArray]:
    """Return the AUC and the influence of each record (n,), zero on average in each class (DeLong)."""
    roc = Roc.of(score, member)
    vertex = roc.blocks_of(score)
    below = 1 - (roc.fpr[vertex] + roc.fpr[vertex - 1]) / 2
    above = (roc.tpr[vertex] + roc.tpr[vertex - 1]) / 2
    return roc.auc, np.where(member, (below - roc.auc) / roc.n_members, (above - roc.auc) / roc.n_nonmembers)

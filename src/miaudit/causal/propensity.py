"""Propensity P(A=1 | X): cross-fitted and calibrated, its learning curve, and all its bootstrap replicates at once."""

# ruff: noqa: PLC0415 - scikit-learn and joblib load when used
from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from miaudit.causal import covariates, logistic
from miaudit.causal.covariates import Encoder, Encoding, Numbers, Table
from miaudit.causal.roc import Roc
from miaudit.errors import InputError
from miaudit.evidence import Evidence

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

CLIP = 1e-3
FOLDS = 5
_INNER_FOLDS = 5
_HALVES = 2  # random halves of each training part on the learning curve, each with its complement
_RISE_Z = 3.0  # the rise must exceed this many standard errors ...
_RISE_LEAST = 0.01  # ... and this much AUC; see LearningCurve
_LOGIT_FLOOR = 1e-6  # a classifier's certainty is taken as 1 - 1e-6 before calibration


@dataclass(frozen=True, eq=False)
class Propensity:
    """P(A=1 | X) of each record in the pooled sample, members and non-members together (errata A1).

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
        """Weights w = pi / (1 - pi) (n,) that make non-members look like members."""
        return self.values / (1 - self.values)

    @property
    def logit(self) -> FloatArray:
        """Log-odds of membership (n,)."""
        return np.asarray(np.log(self.odds))

    def matched(self, evidence: Evidence) -> Propensity:
        """Return these propensities if there is one for each record of the evidence.

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
    """How well covariates alone tell members from non-members, learned from half of the rows and from all of them.

    Both are AUCs on the same held-out folds, so their difference has little noise. It is called **rising** when the
    difference exceeds both 3 of its standard errors and 0.01: a propensity that would gain from more rows is not
    trusted (errata A10 and B20). The simulation of the rule is in ``docs/propensity.md``.

    Attributes
    ----------
    half, full : AUC of the covariates alone, 0.5 at no shift
    standard_error : of ``full`` - ``half``
    rising : whether the propensity still gains from more rows
    """

    half: float
    full: float
    standard_error: float
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
    text: ArrayLike | None = None,
    train_text: ArrayLike | None = None,
    strength: float | None = None,
    refuse_few_rows: bool = True,
    rng: np.random.Generator,
) -> Propensity:
    """Learn the propensity of each record from other records.

    Parameters
    ----------
    evidence : the audited records, with covariates (n, d)
    classifier : scikit-learn classifier with ``predict_proba``, optional
        Default: L2 logistic regression, its strength chosen by cross-validation. Either is Platt-calibrated on
        log-odds that were cross-fitted inside the training rows.
    encoding : record of :mod:`miaudit.causal.covariates`, fitted on the training rows only; default ``Numbers()``
    folds : number of folds, or the fold of each record (n,); whole units stay in one fold
    clip : propensities are held in [clip, 1 - clip], 0 < clip < 0.5
    train : separate records to learn from instead of cross-fitting
        Their share of members may differ; the log-odds are moved to the share of ``evidence`` (errata A1).
    text, train_text : arrays of str beside ``evidence`` and ``train``, for ``encoding=Text()``
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
    way = _Way.of(classifier, encoding, refuse_few_rows, strength)
    _check_clip(clip)
    place, learn = rng.spawn(2)
    task = _Task.of(evidence, train, way, folds, text, train_text, place)
    models = [_learn(way, part, seed) for part, seed in zip(task.parts, learn.spawn(len(task.parts)), strict=True)]
    logit = np.empty(evidence.n)
    for part, model in zip(task.parts, models, strict=True):
        logit[part.held_out] = model.logit(part.apply) + part.prior_shift
    values, clipped = _clip(logistic.expit(logit), clip)
    encoder = models[0].encoder
    if task.folds is not None:
        encoder = covariates.fit(way.encoding, task.audited, seed=_seed(place))
    features = encoder.transform(task.audited)
    return Propensity(
        values,
        _how(way, task, models),
        clip,
        clipped,
        task.folds,
        features,
        task.audited.dropped,
        way.classifier is None,
        task.rows / features.shape[1],
    )


def held_out_logits(
    evidence: Evidence,
    classifiers: Sequence[Any],
    *,
    encoding: Encoding | None = None,
    text: ArrayLike | None = None,
    rng: np.random.Generator,
) -> tuple[IntArray, list[FloatArray]]:
    """Learn one propensity with each classifier from a random half of the units, and apply it to the other half.

    Parameters
    ----------
    evidence, encoding, text, rng : as in :func:`fit`
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
    ways = [_Way.of(classifier, encoding) for classifier in classifiers]
    place, learn = rng.spawn(2)
    table = covariates.table_of(evidence, ways[0].encoding, text)
    code = _codes(evidence)
    part = _fold_part(table, evidence.member, code, _folds(2, evidence.member, code, place) == 0, 0.0)
    logits = [_learn(way, part, seed).logit(part.apply) for way, seed in zip(ways, learn.spawn(len(ways)), strict=True)]
    chosen = _one_of_each(code[part.held_out], place)
    return np.flatnonzero(part.held_out)[chosen], [logit[chosen] for logit in logits]


def rows_per_covariate(
    evidence: Evidence, *, encoding: Encoding | None = None, text: ArrayLike | None = None, seed: int = 0
) -> float:
    """Count the rows for each encoded covariate; below 40, bounds are not testable (statistics.md, section 8).

    Examples
    --------
    >>> rows_per_covariate(Evidence(score=range(6), member=[0, 1] * 3, covariates=np.eye(6)[:, :2]))
    3.0
    """
    way = _Way.of(None, encoding)
    table = covariates.table_of(evidence, way.encoding, text)
    features = covariates.fit(way.encoding, table, seed=seed).transform(table)
    return float(evidence.n / features.shape[1])


def learning_curve(
    evidence: Evidence,
    *,
    classifier: Any = None,
    encoding: Encoding | None = None,
    folds: int | ArrayLike = FOLDS,
    text: ArrayLike | None = None,
    rng: np.random.Generator,
) -> LearningCurve:
    """Compare the AUC of covariates alone when learned from half of the rows and from all of them.

    Each fold is held out once; what the model learned from the whole training part, and from random halves of it,
    says of those rows is compared pair by pair (the variance is DeLong's for paired curves, or of units).

    Parameters
    ----------
    evidence, classifier, encoding, folds, text, rng : as in :func:`fit`

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> x = rng.normal(size=(1000, 3))
    >>> member = rng.random(1000) < 1 / (1 + np.exp(-x[:, 0]))
    >>> learning_curve(Evidence(score=x[:, 1], member=member, covariates=x), rng=rng).rising
    False
    """
    way = _Way.of(classifier, encoding)
    place, learn = rng.spawn(2)
    task = _Task.of(evidence, None, way, folds, text, None, place)
    strength = _strength_of_all(way, task.audited, evidence, place)
    influence = np.zeros(evidence.n)
    half = full = 0.0
    for part, seed in zip(task.parts, learn.spawn(len(task.parts)), strict=True):
        whole, halves = _curve_scores(way, part, strength, seed)
        member = evidence.member[part.held_out]
        auc_full, above_full = _auc_influence(whole, member)
        found = [_auc_influence(score, member) for score in halves]
        full += auc_full / len(task.parts)
        half += float(np.mean([auc for auc, _ in found])) / len(task.parts)
        change = above_full - np.mean([above for _, above in found], axis=0)
        influence[part.held_out] = change / len(task.parts)
    totals = influence if evidence.unit_codes is None else np.bincount(evidence.unit_codes, weights=influence)
    error = float(np.sqrt(totals @ totals))
    return LearningCurve(half, full, error, bool(full - half > max(_RISE_Z * error, _RISE_LEAST)))


# -- all bootstrap replicates ---------------------------------------------------------------------------------------


def bootstrap(
    evidence: Evidence,
    train: Evidence | None = None,
    replicates: int = 600,
    *,
    classifier: Any = None,
    encoding: Encoding | None = None,
    folds: int | ArrayLike = FOLDS,
    clip: float = CLIP,
    text: ArrayLike | None = None,
    train_text: ArrayLike | None = None,
    strength: float | None = None,
    counts: ArrayLike | None = None,
    workers: int = 1,
    rng: np.random.Generator,
) -> FloatArray:
    """Learn the propensity again on resamples of the records it was learned from; the audited records stay.

    Encoding, strength and calibration are those of the original fit; the model's coefficients are refitted. A
    replicate lies about the calibrated value as far as the uncalibrated log-odds moved: a calibration that shrinks them
    says that they are poor, not that they are certain. The logistic model is solved for all replicates together: one
    Hessian, that of the original fit, serves every replicate, and a replicate for which that is not enough gets Newton
    steps of its own. Any other classifier is fitted replicate by replicate, in ``workers`` processes; the result does
    not depend on their number.

    Parameters
    ----------
    evidence, classifier, encoding, folds, clip, text, train_text, strength : as in :func:`fit`
    train : separate records to learn from and to resample; default: cross-fitted on ``evidence``
    replicates : number of resamples
    counts : array (replicates, rows) of how often each record was drawn, optional; default :func:`resample`
    workers : number of processes for a classifier other than the default
    rng : generator of resamples, folds and seeds

    Returns
    -------
    array (replicates, n)
        Propensities of the records of ``evidence``, clipped; higher means more like the members.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> x = rng.normal(size=(500, 2))
    >>> evidence = Evidence(score=x[:, 1], member=rng.random(500) < 0.5, covariates=x)
    >>> bootstrap(evidence, replicates=20, rng=rng).shape
    (20, 500)
    """
    way = _Way.of(classifier, encoding, strength=strength)
    _check_clip(clip)
    if replicates < 1 or workers < 1:
        name = "replicates" if replicates < 1 else "workers"
        raise InputError(name, "a whole number from 1 up", str(min(replicates, workers)), "ask for at least one")
    place, learn, draw = rng.spawn(3)
    task = _Task.of(evidence, train, way, folds, text, train_text, place)
    source = evidence if train is None else train
    drawn = resample(source, replicates, strata=task.folds, rng=draw) if counts is None else _counts(counts, source)
    out = np.empty((len(drawn), evidence.n))
    for part, seed in zip(task.parts, learn.spawn(len(task.parts)), strict=True):
        model = _learn(way, part, seed)
        again = _replicate_logits(model, part, drawn[:, part.rows], workers, seed)
        for block, logit in again:
            values, _ = _clip(logistic.expit(logit + part.prior_shift), clip)
            out[block, part.held_out] = values
    return out


def resample(
    evidence: Evidence, replicates: int, *, strata: ArrayLike | None = None, rng: np.random.Generator
) -> NDArray[np.uint16]:
    """Draw how often each record stands in each resample: stratified by membership, whole units together.

    Parameters
    ----------
    evidence : the records to resample
    replicates : number of resamples
    strata : array (n,) of int, optional; resample inside these too (folds, so that each keeps its size)

    Returns
    -------
    array (replicates, n) of counts

    Examples
    --------
    >>> evidence = Evidence(score=range(5), member=[1, 1, 0, 0, 0])
    >>> resample(evidence, 3, rng=np.random.default_rng(0))[:, :2].sum(axis=1).tolist()
    [2, 2, 2]
    """
    code = _codes(evidence)
    kind = _unit_kind(evidence.member, code)
    if strata is not None:
        of_unit = np.zeros(len(kind), dtype=np.int64)
        of_unit[code] = np.asarray(strata)
        kind = kind + 3 * of_unit
    found = np.empty((replicates, len(kind)), dtype=np.uint16)
    for label in np.unique(kind):
        units = np.flatnonzero(kind == label)
        for k in range(replicates):
            drawn = rng.integers(0, len(units), len(units), dtype=np.int32)
            found[k, units] = np.bincount(drawn, minlength=len(units))
    return found[:, code]


# -- what is asked, and of which rows -------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class _Way:
    """How a propensity is learned: encoding, then the default logistic model (None) or a classifier."""

    classifier: Any
    encoding: Encoding
    refuse_few_rows: bool
    strengths: tuple[float, ...]

    @classmethod
    def of(
        cls,
        classifier: Any,
        encoding: Encoding | None,
        refuse_few_rows: bool = True,
        strength: float | None = None,
    ) -> _Way:
        chosen = Numbers() if encoding is None else encoding
        covariates.check(chosen)
        if classifier is not None and not (hasattr(classifier, "predict_proba") and hasattr(classifier, "get_params")):
            raise InputError(
                "classifier",
                "a scikit-learn classifier with predict_proba",
                type(classifier).__name__,
                "wrap it in sklearn.calibration.CalibratedClassifierCV, or leave it out",
            )
        if strength is not None and not (0 < strength < math.inf and classifier is None):
            raise InputError("strength", "a number above 0, for the default model", repr(strength), "leave it out")
        return cls(classifier, chosen, refuse_few_rows, logistic.STRENGTHS if strength is None else (float(strength),))


@dataclass(frozen=True, eq=False)
class _Part:
    """Rows to learn from, and the audited rows that the result is applied to: never the same ones."""

    rows: NDArray[np.bool_]  # of the source, to learn from
    table: Table
    member: NDArray[np.bool_]
    code: IntArray
    held_out: NDArray[np.bool_]  # of the evidence
    apply: Table
    prior_shift: float  # log-odds of membership in the audited sample less those in the training rows


@dataclass(frozen=True, eq=False)
class _Task:
    """Everything that has to be fitted: one part for each fold, or one for a separate sample."""

    audited: Table
    parts: tuple[_Part, ...]
    folds: IntArray | None
    rows: int

    @classmethod
    def of(
        cls,
        evidence: Evidence,
        train: Evidence | None,
        way: _Way,
        folds: int | ArrayLike,
        text: ArrayLike | None,
        train_text: ArrayLike | None,
        rng: np.random.Generator,
    ) -> _Task:
        prior = _log_odds(evidence.member)
        if train is None:
            table = covariates.table_of(evidence, way.encoding, text)
            code = _codes(evidence)
            fold = _folds(folds, evidence.member, code, rng)
            parts = tuple(_fold_part(table, evidence.member, code, fold != k, prior) for k in np.unique(fold))
            return cls(table, parts, fold, evidence.n)
        table = covariates.table_of(train, way.encoding, train_text)
        audited = covariates.like(evidence, text, way.encoding, table)
        _refuse_audited_rows(evidence, audited, train, table)
        part = _Part(
            np.ones(train.n, dtype=np.bool_),
            table,
            train.member,
            _codes(train),
            np.ones(evidence.n, dtype=np.bool_),
            audited,
            prior - _log_odds(train.member),
        )
        return cls(audited, (part,), None, train.n)


def _fold_part(table: Table, member: NDArray[np.bool_], code: IntArray, rows: NDArray[np.bool_], prior: float) -> _Part:
    held_out = ~rows
    if np.intersect1d(code[rows], code[held_out]).size:
        raise InputError("folds", "folds that keep each unit whole", "a unit in two folds", "pass a number of folds")
    inside = member[rows]
    if not 0 < inside.sum() < len(inside):
        raise InputError("folds", "members and non-members beside each fold", "one of them only", "use fewer folds")
    shift = prior - _log_odds(inside)
    return _Part(rows, table.take(rows), inside, code[rows], held_out, table.take(held_out), shift)


def _codes(evidence: Evidence) -> IntArray:
    code = evidence.unit_codes
    return np.arange(evidence.n) if code is None else code


def _log_odds(member: NDArray[np.bool_]) -> float:
    inside = int(np.count_nonzero(member))
    return math.log(inside / (len(member) - inside))


def _unit_kind(member: NDArray[np.bool_], code: IntArray) -> IntArray:
    """Of each unit: 0 non-members only, 1 members only, 2 both."""
    inside = np.bincount(code, weights=member)
    size = np.bincount(code)
    return np.where(inside == 0, 0, np.where(inside == size, 1, 2))


def _folds(folds: int | ArrayLike, member: NDArray[np.bool_], code: IntArray, rng: np.random.Generator) -> IntArray:
    """Number of folds or fold of each record -> fold of each record (n,)."""
    given = np.asarray(folds)
    if given.ndim == 0:
        count = int(given)
        fewest = min(len(np.unique(code[member])), len(np.unique(code[~member])))
        if count < 2 or count != given:
            raise InputError("folds", "a whole number from 2 up", str(folds), "5 is the default")
        if fewest < 2 * count:
            raise InputError(
                "evidence",
                f"at least {2 * count} members and {2 * count} non-members (units) for {count} folds",
                f"{fewest}",
                "collect more records, or learn the propensity from a separate sample with train=",
            )
        return _assign(member, code, count, rng)
    if given.shape != member.shape or given.dtype.kind not in "iu" or len(np.unique(given)) < 2:
        raise InputError(
            "folds", f"integers ({len(member)},), two folds or more", f"shape {given.shape}", "pass a number"
        )
    return given.astype(np.int64)


def _assign(member: NDArray[np.bool_], code: IntArray, count: int, rng: np.random.Generator) -> IntArray:
    """Deal units to folds at random: each kind of unit in turn, the larger units first, back and forth."""
    kind, size = _unit_kind(member, code), np.bincount(code)
    order = np.lexsort((rng.permutation(len(kind)), -size, kind))
    there_and_back = np.r_[np.arange(count), np.arange(count)[::-1]]
    fold = np.empty(len(kind), dtype=np.int64)
    fold[order] = there_and_back[np.arange(len(kind)) % (2 * count)]
    return rng.permutation(count)[fold][code]


def _one_of_each(code: IntArray, rng: np.random.Generator) -> NDArray[np.intp]:
    """Row of one record of each unit, drawn at random; ascending."""
    order = rng.permutation(len(code))
    return np.sort(order[np.unique(code[order], return_index=True)[1]])


def _refuse_audited_rows(evidence: Evidence, audited: Table, train: Evidence, table: Table) -> None:
    """Refuse a training sample that shares more rows with the audited one than rows repeat by chance."""
    if train is evidence or train.digest == evidence.digest:
        share = 1.0
        by_chance = 0.0
    else:
        seen, mine = _row_keys(table), _row_keys(audited)
        names, counts = np.unique(seen, return_counts=True)
        by_chance = float(counts[counts > 1].sum() / len(seen))
        share = float(np.isin(mine, names).mean())
    if share > by_chance + 0.1:
        raise InputError(
            "train",
            "records other than the audited ones",
            f"a sample that holds {share:.0%} of the audited rows",
            "leave train out for cross-fitting, or pass a separate sample",
        )


def _row_keys(table: Table) -> NDArray[Any]:
    parts = []
    if table.numbers is not None:
        parts.append([row.tobytes() for row in np.ascontiguousarray(table.numbers + 0.0)])
    if table.text is not None:
        parts.append([word.encode() for word in table.text.tolist()])
    return np.array([hash(key) for key in zip(*parts, strict=True)])


def _check_clip(clip: float) -> None:
    if not 0 < clip < 0.5:
        raise InputError("clip", "a number in (0, 0.5)", repr(clip), f"{CLIP:g} is the default")


def _clip(values: FloatArray, clip: float) -> tuple[FloatArray, float]:
    outside = (values < clip) | (values > 1 - clip)
    return np.clip(values, clip, 1 - clip), float(outside.mean())


def _counts(counts: ArrayLike, source: Evidence) -> NDArray[np.uint16]:
    drawn = np.asarray(counts)
    if drawn.ndim != 2 or drawn.shape[1] != source.n or drawn.dtype.kind not in "iu" or drawn.min() < 0:
        raise InputError(
            "counts", f"non-negative integers (replicates, {source.n})", f"shape {drawn.shape}", "see resample"
        )
    return drawn.astype(np.uint16)


def _how(way: _Way, task: _Task, models: Sequence[_Model]) -> str:
    where = f"on {task.rows:,} separate records" if task.folds is None else f"cross-fitted in {len(models)} folds"
    what = type(way.classifier).__name__
    if way.classifier is None:
        low, high = (pick(m.strength or 0.0 for m in models) for pick in (min, max))
        chosen = f"C {low:.2g}" if low == high else f"C {low:.2g} to {high:.2g}"
        what = f"L2 logistic regression ({chosen})"
    few = "" if way.refuse_few_rows else "; with more features than rows allowed"
    return f"{where}: {type(way.encoding).__name__}, {what}, Platt calibration{few}"


# -- one model ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class _Model:
    """A fitted model: features -> log-odds, then the line of Platt's calibration."""

    encoder: Encoder
    slope: float
    offset: float
    coefficients: FloatArray | None = None  # intercept first
    strength: float | None = None
    estimator: Any = None

    def logit(self, table: Table) -> FloatArray:
        """Calibrated log-odds (n,) of membership."""
        x = self.encoder.transform(table)
        if self.coefficients is None:
            return self.offset + self.slope * _raw_logit(self.estimator, x)
        return self.offset + self.slope * (logistic.with_ones(x) @ self.coefficients)

    def spread(self, point: FloatArray, raw: FloatArray) -> FloatArray:
        """Calibrated log-odds of replicates (k, n): about the calibrated value, as far as the model itself moves."""
        return self.offset + self.slope * point + max(1.0, self.slope) * (raw - point)


def _learn(way: _Way, part: _Part, rng: np.random.Generator) -> _Model:
    """Fit encoder, model and calibration on training rows only."""
    encoder = covariates.fit(way.encoding, part.table, seed=_seed(rng))
    x, member = encoder.transform(part.table), part.member
    _refuse_wide(x, way)
    y = member.astype(np.float64)
    inner = _assign(member, part.code, _INNER_FOLDS, rng)
    if way.classifier is None:
        ones = logistic.with_ones(x)
        strength, held, start = logistic.choose_strength(ones, y, inner, way.strengths)
        coefficients, _ = logistic.minimise(ones, y, logistic.penalty_of(ones, strength), start)
        slope, offset = logistic.platt(held, y)
        return _Model(encoder, slope, offset, coefficients, strength)
    held = np.empty(len(y))
    for k in np.unique(inner):
        some = _fit_classifier(way.classifier, x[inner != k], member[inner != k], _seed(rng))
        held[inner == k] = _raw_logit(some, x[inner == k])
    slope, offset = logistic.platt(held, y)
    return _Model(encoder, slope, offset, estimator=_fit_classifier(way.classifier, x, member, _seed(rng)))


def _refuse_wide(x: FloatArray, way: _Way) -> None:
    if way.refuse_few_rows and x.shape[1] >= len(x):
        raise InputError(
            "evidence.covariates",
            f"fewer features than the {len(x):,} rows to learn from",
            f"{x.shape[1]:,} features",
            "reduce them with encoding=Reduced(components), or collect more records: "
            "a propensity that cannot be learned makes every bound invalid",
        )


def _seed(rng: np.random.Generator) -> int:
    return int(rng.integers(0, 2**31 - 1))


def _fit_classifier(classifier: Any, x: FloatArray, member: NDArray[np.bool_], seed: int) -> Any:
    """Fit a copy of the caller's classifier; a random state that it left open is set."""
    from sklearn.base import clone

    copy = clone(classifier)
    options = copy.get_params(deep=True)
    open_states = [key for key in options if key.split("__")[-1] == "random_state" and options[key] is None]
    copy.set_params(**dict.fromkeys(open_states, seed))
    return copy.fit(x, member)


def _raw_logit(estimator: Any, x: FloatArray) -> FloatArray:
    inside = np.flatnonzero(np.asarray(estimator.classes_, dtype=bool))[0]
    p = np.clip(estimator.predict_proba(x)[:, inside].astype(np.float64), _LOGIT_FLOOR, 1 - _LOGIT_FLOOR)
    return np.asarray(np.log(p) - np.log1p(-p), dtype=np.float64)


# -- replicates -----------------------------------------------------------------------------------------------------


def _replicate_logits(
    model: _Model, part: _Part, counts: NDArray[np.uint16], workers: int, rng: np.random.Generator
) -> Iterator[tuple[slice, FloatArray]]:
    """Yield blocks of replicates and the calibrated log-odds (block, rows) of the audited rows."""
    x, target = model.encoder.transform(part.table), model.encoder.transform(part.apply)
    if model.coefficients is not None:
        ones, beyond = logistic.with_ones(x), logistic.with_ones(target)
        penalty = logistic.penalty_of(ones, model.strength or 1.0)
        found = logistic.replicates(ones, part.member, counts, penalty, model.coefficients)
        size = max(1, logistic.BLOCK // len(beyond))
        for first in range(0, len(counts), size):
            block = slice(first, min(first + size, len(counts)))
            yield block, model.spread(beyond @ model.coefficients, found[block] @ beyond.T)
        return
    from joblib import Parallel, delayed  # type: ignore[import-untyped]

    point = _raw_logit(model.estimator, target)
    seeds = rng.integers(0, 2**31 - 1, len(counts))
    jobs = (
        delayed(_one_replicate)(model.estimator, x, part.member, drawn, target, int(seed))
        for drawn, seed in zip(counts, seeds, strict=True)
    )
    for k, raw in enumerate(Parallel(n_jobs=workers, return_as="generator")(jobs)):
        yield slice(k, k + 1), model.spread(point, raw[None, :])


def _one_replicate(
    estimator: Any, x: FloatArray, member: NDArray[np.bool_], drawn: NDArray[np.uint16], target: FloatArray, seed: int
) -> FloatArray:
    rows = np.repeat(np.arange(len(x)), drawn)
    return _raw_logit(_fit_classifier(estimator, x[rows], member[rows], seed), target)


# -- the learning curve ---------------------------------------------------------------------------------------------


def _strength_of_all(way: _Way, table: Table, evidence: Evidence, rng: np.random.Generator) -> float | None:
    """Choose C on all rows, for every point of the curve; None for a classifier other than the default."""
    if way.classifier is not None:
        return None
    x = covariates.fit(way.encoding, table, seed=_seed(rng)).transform(table)
    _refuse_wide(x, way)
    inner = _assign(evidence.member, _codes(evidence), _INNER_FOLDS, rng)
    y = evidence.member.astype(np.float64)
    return logistic.choose_strength(logistic.with_ones(x), y, inner, way.strengths)[0]


def _curve_scores(
    way: _Way, part: _Part, strength: float | None, rng: np.random.Generator
) -> tuple[FloatArray, list[FloatArray]]:
    """Scores of the held-out rows: learned from the whole training part, and from random halves of it."""
    encoder = covariates.fit(way.encoding, part.table, seed=_seed(rng))
    x, out = encoder.transform(part.table), encoder.transform(part.apply)
    if strength is None:
        _refuse_wide(x, way)

    def scores(rows: NDArray[np.bool_]) -> FloatArray:
        if strength is None:
            return _raw_logit(_fit_classifier(way.classifier, x[rows], part.member[rows], _seed(rng)), out)
        ones, y = logistic.with_ones(x[rows]), part.member[rows].astype(np.float64)
        start = np.zeros(ones.shape[1])
        beta, _ = logistic.minimise(ones, y, logistic.penalty_of(ones, strength), start, tolerance=1e-5)
        return logistic.with_ones(out) @ beta

    whole = scores(np.ones(len(x), dtype=np.bool_))
    halves = []
    for _ in range(_HALVES):
        side = _assign(part.member, part.code, 2, rng)
        halves += [scores(side == 0), scores(side == 1)]
    return whole, halves


def _auc_influence(score: FloatArray, member: NDArray[np.bool_]) -> tuple[float, FloatArray]:
    """AUC (ties count one half) and each record's influence on it (n,), zero on average in each class (DeLong)."""
    roc = Roc.of(score, member)
    vertex = roc.blocks_of(score)
    below = 1 - (roc.fpr[vertex] + roc.fpr[vertex - 1]) / 2
    above = (roc.tpr[vertex] + roc.tpr[vertex - 1]) / 2
    return roc.auc, np.where(member, (below - roc.auc) / roc.n_members, (above - roc.auc) / roc.n_nonmembers)

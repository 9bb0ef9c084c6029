"""Cross-fitted models of membership: training rows, audited rows, folds, fits, and fits again on resamples.

The propensity (:mod:`miaudit.causal.propensity`) is what they say of the audited rows.
"""

# ruff: noqa: PLC0415 - scikit-learn and joblib load when used
from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Required, TypedDict, Unpack

import numpy as np
from numpy.typing import ArrayLike, NDArray

from miaudit.arrays import BoolArray, FloatArray, IntArray
from miaudit.causal import covariates, logistic
from miaudit.causal.covariates import Encoding, Table
from miaudit.errors import InputError
from miaudit.evidence import Evidence

CLIP = 1e-3
FOLDS = 5
INNER_FOLDS = 5
_FEWEST = 50  # replicates solved together: every block computes its Hessian again
_PER_WORKER = 4
_LOGIT_FLOOR = 1e-6  # a classifier's certainty is taken as 1 - 1e-6 before calibration


# -- what is asked, and of which rows -------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Way:
    """Options of a propensity: the encoding, and the default logistic model (None) or a classifier."""

    classifier: Any
    encoding: Encoding
    refuse_few_rows: bool
    strengths: tuple[float, ...]

    @classmethod
    def of(
        cls,
        evidence: Evidence,
        classifier: Any,
        encoding: Encoding | None,
        refuse_few_rows: bool = True,
        strength: float | None = None,
    ) -> Way:
        """Return checked options, with the default encoding of the evidence where none is given."""
        chosen = covariates.default_of(evidence) if encoding is None else encoding
        covariates.check(chosen)
        check_classifier(classifier)
        if strength is not None and not (0 < strength < math.inf and classifier is None):
            raise InputError("strength", "a number above 0, for the default model", repr(strength), "leave it out")
        return cls(classifier, chosen, refuse_few_rows, logistic.STRENGTHS if strength is None else (float(strength),))


def check_classifier(classifier: Any) -> None:
    """Refuse anything but None and scikit-learn classifiers with probabilities."""
    if classifier is not None and not (hasattr(classifier, "predict_proba") and hasattr(classifier, "get_params")):
        raise InputError(
            "classifier",
            "a scikit-learn classifier with predict_proba",
            type(classifier).__name__,
            "wrap it in sklearn.calibration.CalibratedClassifierCV, or leave it out",
        )


@dataclass(frozen=True, eq=False)
class Part:
    """Training rows and the audited rows that the fit is applied to; always disjoint."""

    rows: BoolArray  # of the source, to learn from
    table: Table
    member: BoolArray
    code: IntArray
    held_out: BoolArray  # of the evidence
    apply: Table
    prior_shift: float  # log-odds of membership in the audited sample less those in the training rows


def divide(
    evidence: Evidence, train: Evidence | None, way: Way, folds: int | ArrayLike, rng: np.random.Generator
) -> tuple[Table, list[Part], IntArray | None]:
    """Divide the evidence into folds, or take a separate training sample.

    Returns
    -------
    audited : covariates of the evidence
    parts : one for each fold, or one for a separate sample
    fold : array (n,) in which each record is held out; None for a separate sample
    """
    prior = _log_odds(evidence.member)
    if train is None:
        table = covariates.table_of(evidence, way.encoding)
        code = codes(evidence)
        fold = folds_of(folds, evidence.member, code, rng)
        return table, [fold_part(table, evidence.member, code, fold != k, prior) for k in np.unique(fold)], fold
    table = covariates.table_of(train, way.encoding)
    audited = covariates.like(evidence, way.encoding, table)
    _refuse_audited_rows(evidence, audited, train, table)
    every, all_audited = np.ones(train.n, dtype=np.bool_), np.ones(evidence.n, dtype=np.bool_)
    shift = prior - _log_odds(train.member)
    return audited, [Part(every, table, train.member, codes(train), all_audited, audited, shift)], None


def fold_part(table: Table, member: BoolArray, code: IntArray, rows: BoolArray, prior: float) -> Part:
    """Return the part for one mask of training rows; ``prior`` is the log-odds of membership."""
    held_out = ~rows
    if np.intersect1d(code[rows], code[held_out]).size:
        raise InputError("folds", "folds that keep each unit whole", "a unit in two folds", "pass a number of folds")
    inside = member[rows]
    if not 0 < inside.sum() < len(inside):
        raise InputError("folds", "members and non-members beside each fold", "one of them only", "use fewer folds")
    shift = prior - _log_odds(inside)
    return Part(rows, table.take(rows), inside, code[rows], held_out, table.take(held_out), shift)


def codes(evidence: Evidence) -> IntArray:
    """Return units as integers (n,); each record is one where no units are given."""
    code = evidence.unit_codes
    return np.arange(evidence.n) if code is None else code


def _log_odds(member: BoolArray) -> float:
    inside = int(np.count_nonzero(member))
    return math.log(inside / (len(member) - inside))


def unit_kind(member: BoolArray, code: IntArray) -> IntArray:
    """Return for each unit 0 if it has non-members only, 1 members only, 2 both."""
    inside = np.bincount(code, weights=member)
    size = np.bincount(code)
    return np.where(inside == 0, 0, np.where(inside == size, 1, 2))


def folds_of(folds: int | ArrayLike, member: BoolArray, code: IntArray, rng: np.random.Generator) -> IntArray:
    """Return the fold of each record (n,), from a number of folds or given folds."""
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
        return assign(member, code, count, rng)
    if given.shape != member.shape or given.dtype.kind not in "iu" or len(np.unique(given)) < 2:
        raise InputError(
            "folds", f"integers ({len(member)},), two folds or more", f"shape {given.shape}", "pass a number"
        )
    return given.astype(np.int64)


def assign(member: BoolArray, code: IntArray, count: int, rng: np.random.Generator) -> IntArray:
    """Assign units to folds at random: by kind of unit, larger units first."""
    kind, size = unit_kind(member, code), np.bincount(code)
    order = np.lexsort((rng.permutation(len(kind)), -size, kind))
    there_and_back = np.r_[np.arange(count), np.arange(count)[::-1]]
    fold = np.empty(len(kind), dtype=np.int64)
    fold[order] = there_and_back[np.arange(len(kind)) % (2 * count)]
    return rng.permutation(count)[fold][code]


def _refuse_audited_rows(evidence: Evidence, audited: Table, train: Evidence, table: Table) -> None:
    """Refuse a training sample that shares more rows with the audited one than chance would."""
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


def check_clip(clip: float) -> None:
    """Refuse clipping bounds outside (0, 0.5)."""
    if not 0 < clip < 0.5:
        raise InputError("clip", "a number in (0, 0.5)", repr(clip), f"{CLIP:g} is the default")


def clipped(values: FloatArray, clip: float) -> tuple[FloatArray, float]:
    """Return probabilities clipped to [clip, 1 - clip] and the share of them that changed."""
    outside = (values < clip) | (values > 1 - clip)
    return np.clip(values, clip, 1 - clip), float(outside.mean())


# -- one model ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Model:
    """A fitted model: features to log-odds, then Platt's calibration."""

    encoder: Callable[[Table], FloatArray]
    slope: float
    offset: float
    coefficients: FloatArray | None = None  # intercept first
    strength: float | None = None
    estimator: Any = None

    def logit(self, table: Table) -> FloatArray:
        """Return calibrated log-odds (n,) of membership."""
        x = self.encoder(table)
        if self.coefficients is None:
            return self.offset + self.slope * raw_logit(self.estimator, x)
        return self.offset + self.slope * (logistic.with_ones(x) @ self.coefficients)

    def spread(self, point: FloatArray, raw: FloatArray) -> FloatArray:
        """Return calibrated log-odds of replicates (k, n), centred at the calibrated value."""
        return self.offset + self.slope * point + max(1.0, self.slope) * (raw - point)


def learn(way: Way, part: Part, rng: np.random.Generator) -> Model:
    """Fit encoder, model and calibration on training rows."""
    encoder = covariates.fit(way.encoding, part.table, seed=seed_of(rng))
    x, member = encoder(part.table), part.member
    refuse_wide(x, way)
    y = member.astype(np.float64)
    inner = assign(member, part.code, INNER_FOLDS, rng)
    if way.classifier is None:
        ones = logistic.with_ones(x)
        strength, held, start = logistic.choose_strength(ones, y, inner, way.strengths)
        coefficients, _ = logistic.minimise(ones, y, logistic.penalty_of(ones, strength), start)
        slope, offset = logistic.platt(held, y)
        return Model(encoder, slope, offset, coefficients, strength)
    held = np.empty(len(y))
    for k in np.unique(inner):
        some = fit_classifier(way.classifier, x[inner != k], member[inner != k], seed_of(rng))
        held[inner == k] = raw_logit(some, x[inner == k])
    slope, offset = logistic.platt(held, y)
    return Model(encoder, slope, offset, estimator=fit_classifier(way.classifier, x, member, seed_of(rng)))


def refuse_wide(x: FloatArray, way: Way) -> None:
    """Refuse features x (n, p) with p >= n (errata B20)."""
    if way.refuse_few_rows and x.shape[1] >= len(x):
        raise InputError(
            "evidence.covariates",
            f"fewer features than the {len(x):,} rows to learn from",
            f"{x.shape[1]:,} features",
            "condense them into fewer components (the option components), or collect more records: "
            "a propensity that cannot be learned makes every bound invalid",
        )


def seed_of(rng: np.random.Generator) -> int:
    """Draw a seed for libraries that take no generator."""
    return int(rng.integers(0, 2**31 - 1))


def fit_classifier(classifier: Any, x: FloatArray, member: BoolArray, seed: int) -> Any:
    """Fit a copy of the caller's classifier; set its random state if it has none."""
    from sklearn.base import clone

    copy = clone(classifier)
    options = copy.get_params(deep=True)
    open_states = [key for key in options if key.split("__")[-1] == "random_state" and options[key] is None]
    copy.set_params(**dict.fromkeys(open_states, seed))
    return copy.fit(x, member)


def raw_logit(estimator: Any, x: FloatArray) -> FloatArray:
    """Return uncalibrated log-odds (n,) of membership by a fitted classifier."""
    inside = np.flatnonzero(np.asarray(estimator.classes_, dtype=bool))[0]
    p = np.clip(estimator.predict_proba(x)[:, inside].astype(np.float64), _LOGIT_FLOOR, 1 - _LOGIT_FLOOR)
    return np.asarray(np.log(p) - np.log1p(-p), dtype=np.float64)


# -- bootstrap replicates --------------------------------------------------------------------------------------------


class Refitting(TypedDict, total=False):
    """Keywords of :func:`refits`, see :func:`bootstrap`."""

    classifier: Any
    encoding: Encoding | None
    folds: int | ArrayLike
    clip: float
    strength: float | None
    counts: ArrayLike | None
    workers: int
    rng: Required[np.random.Generator]


def bootstrap(
    evidence: Evidence, train: Evidence | None = None, replicates: int = 600, **options: Unpack[Refitting]
) -> FloatArray:
    """Refit the propensity on resamples of its training records; the audited records stay.

    Encoding, strength and calibration are those of the original fit; the model's coefficients are refitted. A
    replicate lies about the calibrated value as far as the uncalibrated log-odds moved: a calibration that shrinks them
    says that they are poor, not that they are certain. The logistic model is solved for all replicates together: one
    Hessian, that of the original fit, serves every replicate, and a replicate for which that is not enough gets Newton
    steps of its own. Any other classifier is fitted replicate by replicate, in ``workers`` processes; the result does
    not depend on their number.

    Parameters
    ----------
    evidence, classifier, encoding, folds, clip, strength : as in :func:`miaudit.causal.propensity.fit`
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
    drawn, blocks = refits(evidence, train, replicates, **options)
    out = np.empty((len(drawn), evidence.n))
    for block, values in blocks:
        out[block] = values
    return out


def refits(
    evidence: Evidence,
    train: Evidence | None,
    replicates: int,
    *,
    classifier: Any = None,
    encoding: Encoding | None = None,
    folds: int | ArrayLike = FOLDS,
    clip: float = CLIP,
    strength: float | None = None,
    counts: ArrayLike | None = None,
    workers: int = 1,
    rng: np.random.Generator,
) -> tuple[NDArray[np.uint16], Iterator[tuple[slice, FloatArray]]]:
    """Yield the replicates of :func:`bootstrap` in blocks, one block in memory at a time.

    A generator in the state in which :func:`miaudit.causal.propensity.fit` had it, and the folds found there, give
    replicates of that very fit.

    Returns
    -------
    counts : array (replicates, rows), how often each record was drawn
    blocks : iterator of which replicates these are, and their propensities (block, n)

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> x = rng.normal(size=(500, 2))
    >>> evidence = Evidence(score=x[:, 1], member=rng.random(500) < 0.5, covariates=x)
    >>> counts, blocks = refits(evidence, None, 20, rng=rng)
    >>> counts.shape, [values.shape for _, values in blocks]
    ((20, 500), [(20, 500)])
    """
    if replicates < 1 or workers < 1:
        name = "replicates" if replicates < 1 else "workers"
        raise InputError(name, "a whole number from 1 up", str(min(replicates, workers)), "ask for at least one")
    way = Way.of(evidence, classifier, encoding, strength=strength)
    check_clip(clip)
    place, learning, draw = rng.spawn(3)
    _, parts, fold = divide(evidence, train, way, folds, place)
    source = evidence if train is None else train
    drawn = resample(source, replicates, strata=fold, rng=draw) if counts is None else _counts(counts, source)
    again = [
        _replicates_of(learn(way, part, seed), part, drawn, workers, seed)
        for part, seed in zip(parts, learning.spawn(len(parts)), strict=True)
    ]
    size = max(_FEWEST, logistic.BLOCK // evidence.n) if classifier is None else _PER_WORKER * workers

    def blocks() -> Iterator[tuple[slice, FloatArray]]:
        for first in range(0, len(drawn), size):
            block = slice(first, min(first + size, len(drawn)))
            out = np.empty((block.stop - first, evidence.n))
            for part, logits in zip(parts, again, strict=True):
                out[:, part.held_out] = clipped(logistic.expit(logits(block) + part.prior_shift), clip)[0]
            yield block, out

    return drawn, blocks()


def resample(
    evidence: Evidence, replicates: int, *, strata: ArrayLike | None = None, rng: np.random.Generator
) -> NDArray[np.uint16]:
    """Draw the count of each record in each resample: stratified by membership, units whole.

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
    code = codes(evidence)
    kind = unit_kind(evidence.member, code)
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


def _counts(counts: ArrayLike, source: Evidence) -> NDArray[np.uint16]:
    drawn = np.asarray(counts)
    if drawn.ndim != 2 or drawn.shape[1] != source.n or drawn.dtype.kind not in "iu" or drawn.min() < 0:
        raise InputError(
            "counts", f"non-negative integers (replicates, {source.n})", f"shape {drawn.shape}", "see resample"
        )
    return drawn.astype(np.uint16)


def _replicates_of(
    model: Model, part: Part, counts: NDArray[np.uint16], workers: int, rng: np.random.Generator
) -> Callable[[slice], FloatArray]:
    """Return the function that gives calibrated log-odds (block, rows) of some replicates."""
    x, target = model.encoder(part.table), model.encoder(part.apply)
    if model.coefficients is not None:
        start = model.coefficients
        ones, beyond = logistic.with_ones(x), logistic.with_ones(target)
        penalty = logistic.penalty_of(ones, model.strength or 1.0)

        def solved(block: slice) -> FloatArray:
            found = logistic.replicates(ones, part.member, counts[block][:, part.rows], penalty, start)
            return model.spread(beyond @ start, found @ beyond.T)

        return solved
    from joblib import Parallel, delayed  # type: ignore[import-untyped]

    point = raw_logit(model.estimator, target)
    seeds = rng.integers(0, 2**31 - 1, len(counts))

    def fitted(block: slice) -> FloatArray:
        jobs = (
            delayed(_one_replicate)(model.estimator, x, part.member, drawn[part.rows], target, int(seed))
            for drawn, seed in zip(counts[block], seeds[block], strict=True)
        )
        return model.spread(point, np.stack(Parallel(n_jobs=workers)(jobs)))

    return fitted


def _one_replicate(
    estimator: Any, x: FloatArray, member: BoolArray, drawn: NDArray[np.uint16], target: FloatArray, seed: int
) -> FloatArray:
    rows = np.repeat(np.arange(len(x)), drawn)
    return raw_logit(fit_classifier(estimator, x[rows], member[rows], seed), target)

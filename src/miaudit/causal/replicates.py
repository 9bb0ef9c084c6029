"""Bootstrap replicates of a propensity, refitted on resamples of its training records."""

# ruff: noqa: PLC0415 - joblib loads when used
from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from miaudit.arrays import BoolArray, FloatArray
from miaudit.causal import crossfit, logistic
from miaudit.causal.covariates import Encoding
from miaudit.causal.crossfit import CLIP, FOLDS, Model, Part, Task, Way
from miaudit.errors import InputError
from miaudit.evidence import Evidence

_FEWEST = 50  # replicates solved together: every block computes its Hessian again
_PER_WORKER = 4


def bootstrap(
    evidence: Evidence,
    train: Evidence | None = None,
    replicates: int = 600,
    *,
    classifier: Any = None,
    encoding: Encoding | None = None,
    folds: int | ArrayLike = FOLDS,
    clip: float = CLIP,
    strength: float | None = None,
    counts: ArrayLike | None = None,
    workers: int = 1,
    rng: np.random.Generator,
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
    if replicates < 1 or workers < 1:
        name = "replicates" if replicates < 1 else "workers"
        raise InputError(name, "a whole number from 1 up", str(min(replicates, workers)), "ask for at least one")
    drawn, blocks = refits(
        evidence,
        train,
        replicates,
        classifier=classifier,
        encoding=encoding,
        folds=folds,
        clip=clip,
        strength=strength,
        counts=counts,
        workers=workers,
        rng=rng,
    )
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
    way = Way.of(evidence, classifier, encoding, strength=strength)
    crossfit.check_clip(clip)
    place, learn, draw = rng.spawn(3)
    task = Task.of(evidence, train, way, folds, place)
    source = evidence if train is None else train
    drawn = resample(source, replicates, strata=task.folds, rng=draw) if counts is None else _counts(counts, source)
    seeds = learn.spawn(len(task.parts))
    models = [crossfit.learn(way, part, seed) for part, seed in zip(task.parts, seeds, strict=True)]
    again = [
        _replicates_of(model, part, drawn, workers, seed)
        for model, part, seed in zip(models, task.parts, seeds, strict=True)
    ]
    size = max(_FEWEST, logistic.BLOCK // evidence.n) if classifier is None else _PER_WORKER * workers

    def blocks() -> Iterator[tuple[slice, FloatArray]]:
        for first in range(0, len(drawn), size):
            block = slice(first, min(first + size, len(drawn)))
            out = np.empty((block.stop - first, evidence.n))
            for part, logits in zip(task.parts, again, strict=True):
                out[:, part.held_out] = crossfit.clipped(logistic.expit(logits(block) + part.prior_shift), clip)[0]
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
    code = crossfit.codes(evidence)
    kind = crossfit.unit_kind(evidence.member, code)
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
    x, target = model.encoder.transform(part.table), model.encoder.transform(part.apply)
    if model.coefficients is not None:
        start = model.coefficients
        ones, beyond = logistic.with_ones(x), logistic.with_ones(target)
        penalty = logistic.penalty_of(ones, model.strength or 1.0)

        def solved(block: slice) -> FloatArray:
            found = logistic.replicates(ones, part.member, counts[block][:, part.rows], penalty, start)
            return model.spread(beyond @ start, found @ beyond.T)

        return solved
    from joblib import Parallel, delayed  # type: ignore[import-untyped]

    point = crossfit.raw_logit(model.estimator, target)
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
    return crossfit.raw_logit(crossfit.fit_classifier(estimator, x[rows], member[rows], seed), target)

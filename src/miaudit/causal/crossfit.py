"""Cross-fitted models of membership: a logistic model or a classifier, calibrated, and fitted again on resamples.

:mod:`miaudit.causal.propensity` turns their log-odds for the audited records into the propensity.
"""

# ruff: noqa: PLC0415 - scikit-learn and joblib load when used
from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from operator import methodcaller
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from miaudit.arrays import BoolArray, FloatArray, IntArray
from miaudit.causal import covariates, logistic, resamples
from miaudit.causal.cores import at_once
from miaudit.causal.covariates import Encoding, Part, Table
from miaudit.causal.logistic import expit, with_ones
from miaudit.errors import InputError
from miaudit.evidence import Evidence

__all__ = [
    "CLIP",
    "FOLDS",
    "INNER_FOLDS",
    "Enlarge",
    "FoldModels",
    "Learner",
    "Model",
    "check_classifier",
    "check_clip",
    "clipped",
    "encoding_of",
    "expit",
    "fit_classifier",
    "raw_logit",
    "refits",
    "refuse_wide",
    "replicates_of",
    "seed_of",
    "with_ones",
]

BlockLogits = Callable[[slice], FloatArray]  # from some replicates of a block to their log-odds (k, rows)
Solver = Callable[[slice], BlockLogits]  # from a block of replicates, which it fits
Enlarge = Callable[[Part, FloatArray], Any]  # from training rows and their features to a screen, which adds features
CLIP = 1e-3
FOLDS = 5
INNER_FOLDS = 5
_FEWEST_TOGETHER = 50  # replicates solved together: every block computes its Hessian again
_NUMBERS = 2**20  # in one block of replicates times rows
_PER_WORKER = 4
_LOGIT_FLOOR = 1e-6  # a classifier's certainty is taken as 1 - 1e-6 before calibration


# -- options --------------------------------------------------------------------------------------------------------


def encoding_of(
    evidence: Evidence, encoding: Encoding | None, classifier: Any = None, strength: float | None = None
) -> Encoding:
    """Return the encoding of a propensity, by default that of the evidence; refuse options outside their range."""
    chosen = covariates.default_of(evidence) if encoding is None else encoding
    covariates.check(chosen)
    check_classifier(classifier)
    if strength is not None and not (0 < strength < math.inf and classifier is None):
        raise InputError("strength", "a number above 0, for the default model", repr(strength), "leave it out")
    return chosen


def check_classifier(classifier: Any) -> None:
    """Refuse anything but None and scikit-learn classifiers with probabilities."""
    if classifier is not None and not (hasattr(classifier, "predict_proba") and hasattr(classifier, "get_params")):
        raise InputError(
            "classifier",
            "a scikit-learn classifier with predict_proba",
            type(classifier).__name__,
            "wrap it in sklearn.calibration.CalibratedClassifierCV, or leave it out",
        )


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
    """A fitted model: features to log-odds, then Platt's calibration.

    Attributes
    ----------
    encoder : from covariates to features
    slope, offset : of the calibration
    coefficients : array (p + 1,) of the logistic model, intercept first; None of a classifier
    strength : C of the logistic model
    estimator : the fitted classifier, where there is one
    screen : what enlarged the features, where they were enlarged
    """

    encoder: Callable[[Table], FloatArray]
    slope: float
    offset: float
    coefficients: FloatArray | None = None
    strength: float | None = None
    estimator: Any = None
    screen: Any = None

    def logit(self, table: Table) -> FloatArray:
        """Return calibrated log-odds (n,) of membership."""
        x = self.encoder(table)
        if self.coefficients is None:
            return self.offset + self.slope * raw_logit(self.estimator, x)
        return self.offset + self.slope * (with_ones(x) @ self.coefficients)

    def spread(self, point: FloatArray, raw: FloatArray) -> FloatArray:
        """Return calibrated log-odds of replicates (k, n), centred at the calibrated value."""
        return self.offset + self.slope * point + max(1.0, self.slope) * (raw - point)


@dataclass(frozen=True, eq=False)
class Learner:
    """How a model of membership is learned.

    Attributes
    ----------
    encoding : from covariates to features
    classifier : scikit-learn classifier; None is the logistic model
    strength : C of the logistic model; None chooses it by cross-validation
    enlarge : adds further features to the logistic model
    inner : folds of the training rows on which a classifier is calibrated
    refuse_few_rows : whether as many features as rows are refused
    """

    encoding: Encoding
    classifier: Any = None
    strength: float | None = None
    enlarge: Enlarge | None = None
    inner: int = INNER_FOLDS
    refuse_few_rows: bool = True

    def learn(self, part: Part, rng: np.random.Generator) -> Model:
        """Fit encoder, model and calibration on training rows."""
        encoder, screen = covariates.fit(self.encoding, part.table, seed=seed_of(rng)), None
        if self.enlarge is not None and self.classifier is None:
            screen = self.enlarge(part, encoder(part.table))
            encoder = screen.after(encoder)
        x = encoder(part.table)
        if self.refuse_few_rows:
            refuse_wide(x)
        inner = INNER_FOLDS if self.classifier is None else self.inner
        fold = covariates.assign(part.member, part.code, inner, rng)
        if self.classifier is not None:
            held = self._held_out(x, part.member, fold, rng)
            slope, offset = logistic.platt(held, part.member.astype(np.float64))
            estimator = fit_classifier(self.classifier, x, part.member, seed_of(rng))
            return Model(encoder, slope, offset, estimator=estimator)
        ones, y = with_ones(x), part.member.astype(np.float64)
        strengths = logistic.STRENGTHS if self.strength is None else (float(self.strength),)
        strength, held, start = logistic.choose_strength(ones, y, fold, strengths)
        coefficients, _ = logistic.minimise(ones, y, logistic.penalty_of(ones, strength), start)
        slope, offset = logistic.platt(held, y)
        return Model(encoder, slope, offset, coefficients, strength, screen=screen)

    def _held_out(self, x: FloatArray, member: BoolArray, fold: IntArray, rng: np.random.Generator) -> FloatArray:
        """Return the classifier's log-odds (n,) of rows that it has not seen, not calibrated."""
        held = np.empty(len(x))
        for k in np.unique(fold):
            estimator = fit_classifier(self.classifier, x[fold != k], member[fold != k], seed_of(rng))
            held[fold == k] = raw_logit(estimator, x[fold == k])
        return held


def refuse_wide(x: FloatArray) -> None:
    """Refuse features x (n, p) with p >= n (errata B20)."""
    if x.shape[1] >= len(x):
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


# -- a model for each fold --------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class FoldModels:
    """A model for each fold, learned from the other records; or one model, learned from a separate sample.

    Attributes
    ----------
    learner : how each was learned
    audited : covariates of the audited records
    parts : the training rows of each model, and the audited records that it is applied to
    fold : array (n,), in which each record is held out; None for a separate sample
    models : one for each part
    """

    learner: Learner
    audited: Table
    parts: Sequence[Part]
    fold: IntArray | None
    models: Sequence[Model]

    @classmethod
    def of(
        cls,
        learner: Learner,
        evidence: Evidence,
        train: Evidence | None,
        folds: int | ArrayLike,
        *,
        rng: np.random.Generator,
        learn: np.random.Generator,
    ) -> FoldModels:
        """Learn them; ``rng`` draws the folds, and ``learn`` the random numbers of the models."""
        audited, parts, fold = covariates.divide(evidence, train, learner.encoding, folds, rng)

        def model_of(task: tuple[Part, np.random.Generator]) -> Model:
            return learner.learn(*task)

        tasks = zip(parts, learn.spawn(len(parts)), strict=True)
        return cls(learner, audited, parts, fold, at_once(model_of, tasks, learner.classifier))

    @cached_property
    def logit(self) -> FloatArray:
        """Log-odds (n,) of the audited records, each by a model that has not seen it."""
        logit = np.empty(len(self.parts[0].held_out))
        for part, model in zip(self.parts, self.models, strict=True):
            logit[part.held_out] = model.logit(part.apply) + part.prior_shift
        return logit

    def features(self, rng: np.random.Generator) -> FloatArray:
        """Return the features (n, p) of the audited records, whose encoding is fitted on them, or on the sample."""
        if self.fold is None:
            return self.models[0].encoder(self.audited)
        return covariates.fit(self.learner.encoding, self.audited, seed=seed_of(rng))(self.audited)

    @property
    def strengths(self) -> list[float]:
        """C of each logistic model."""
        return [model.strength for model in self.models if model.strength is not None]

    @property
    def added(self) -> tuple[str, ...]:
        """The functions that a screen added to the features of at least one model, in words, each once."""
        screens = [model.screen for model in self.models if model.screen is not None]
        return tuple(dict.fromkeys(name for screen in screens for name in screen.added))


# -- fits again on resamples ------------------------------------------------------------------------------------------


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
    enlarge: Enlarge | None = None,
    rng: np.random.Generator,
) -> tuple[resamples.Counts, Iterator[tuple[slice, FloatArray]]]:
    """Yield the replicates of :func:`miaudit.causal.propensity.bootstrap` in blocks of bounded size, one at a time.

    With a generator in the state in which :func:`miaudit.causal.propensity.fit` received it, and with the folds of that
    fit, the replicates are those of that fit.

    Returns
    -------
    counts : (replicates, rows), how often each record is in a resample
    blocks : iterator of slices of the replicates with their propensities (block, n)

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> x = rng.normal(size=(500, 2))
    >>> evidence = Evidence(score=x[:, 1], member=rng.random(500) < 0.5, covariates=x)
    >>> counts, blocks = refits(evidence, None, 20, rng=rng)
    >>> counts[0:20].shape, [values.shape for _, values in blocks]
    ((20, 500), [(20, 500)])
    """
    _check_numbers(replicates, workers)
    learner = Learner(encoding_of(evidence, encoding, classifier, strength), classifier, strength, enlarge)
    check_clip(clip)
    place, learning, draw = rng.spawn(3)
    _, parts, fold = covariates.divide(evidence, train, learner.encoding, folds, place)
    resampled = resamples.of(evidence if train is None else train, replicates, counts, strata=fold, rng=draw)
    return resampled, _Refits.of(learner, parts, resampled, workers, learning).blocks(evidence.n, clip)


def _check_numbers(replicates: int, workers: int) -> None:
    if replicates < 1 or workers < 1:
        name = "replicates" if replicates < 1 else "workers"
        raise InputError(name, "a whole number from 1 up", str(min(replicates, workers)), "ask for at least one")


@dataclass(frozen=True, eq=False)
class _Refits:
    """The replicates of the models of all parts.

    Attributes
    ----------
    parts : the training rows of each model, and the audited records that it is applied to
    solvers : for each part the function that fits a block of replicates
    replicates : how many there are in all
    workers : processes that fit a classifier
    classifier : None is the logistic model
    """

    parts: Sequence[Part]
    solvers: Sequence[Solver]
    replicates: int
    workers: int
    classifier: Any

    @classmethod
    def of(
        cls,
        learner: Learner,
        parts: Sequence[Part],
        counts: resamples.Counts,
        workers: int,
        rng: np.random.Generator,
    ) -> _Refits:
        """Learn the model of each part, from which its replicates start."""

        def solver_of(task: tuple[Part, np.random.Generator]) -> Solver:
            part, seed = task
            return replicates_of(learner.learn(part, seed), part, counts, workers, seed)

        tasks = zip(parts, rng.spawn(len(parts)), strict=True)
        solvers = at_once(solver_of, tasks, learner.classifier)
        return cls(parts, solvers, len(counts), workers, learner.classifier)

    def blocks(self, n: int, clip: float) -> Iterator[tuple[slice, FloatArray]]:
        """Yield slices of the replicates with their propensities (block, n), clipped."""
        size = max(_FEWEST_TOGETHER, _NUMBERS // n) if self.classifier is None else _PER_WORKER * self.workers
        few = resamples.together(n)
        for first in range(0, self.replicates, size):
            block = slice(first, min(first + size, self.replicates))
            solved = at_once(methodcaller("__call__", block), self.solvers, self.classifier)
            for start in range(first, block.stop, few):
                some = slice(start, min(start + few, block.stop))
                values = np.empty((some.stop - start, n))
                logits_of = methodcaller("__call__", slice(start - first, some.stop - first))
                for part, logits in zip(self.parts, at_once(logits_of, solved, self.classifier), strict=True):
                    values[:, part.held_out] = clipped(expit(logits + part.prior_shift), clip)[0]
                yield some, values


def replicates_of(model: Model, part: Part, counts: resamples.Counts, workers: int, rng: np.random.Generator) -> Solver:
    """Return the function that fits a block of replicates, and returns one from some of them to log-odds (k, rows)."""
    if model.coefficients is not None:
        return _reweighted_model(model, model.coefficients, part, counts)
    return _refitted_classifier(model, part, counts, workers, rng)


def _reweighted_model(model: Model, start: FloatArray, part: Part, counts: resamples.Counts) -> Solver:
    """Return the solver of replicates of the logistic model, whose coefficients are ``start`` (p,)."""
    ones, beyond = with_ones(model.encoder(part.table)), with_ones(model.encoder(part.apply))
    penalty = logistic.penalty_of(ones, model.strength or 1.0)
    rescreen = None if model.screen is None else model.screen.rescreen(part.member, (ones, beyond), penalty, start)

    def solve(block: slice) -> BlockLogits:
        weights = resamples.Columns(counts, block, part.rows)
        coefficients = logistic.reweighted(ones, part.member, weights, penalty, start)
        moved = None if rescreen is None else rescreen(weights[:], coefficients)

        def logits(some: slice) -> FloatArray:
            raw = coefficients[some] @ beyond.T
            return model.spread(beyond @ start, raw if moved is None else raw + moved[some])

        return logits

    return solve


def _refitted_classifier(
    model: Model, part: Part, counts: resamples.Counts, workers: int, rng: np.random.Generator
) -> Solver:
    """Return the solver of replicates of a classifier, each fitted by itself in one of the workers."""
    from joblib import Parallel, delayed  # type: ignore[import-untyped]

    x, target = model.encoder(part.table), model.encoder(part.apply)
    point = raw_logit(model.estimator, target)
    seeds = rng.integers(0, 2**31 - 1, len(counts))

    def solve(block: slice) -> BlockLogits:
        jobs = (
            delayed(_one_replicate)(model.estimator, x, part.member, weights[part.rows], target, int(seed))
            for weights, seed in zip(counts[block], seeds[block], strict=True)
        )
        return model.spread(point, np.stack(Parallel(n_jobs=workers)(jobs))).__getitem__

    return solve


def _one_replicate(
    estimator: Any, x: FloatArray, member: BoolArray, counts: NDArray[np.uint16], target: FloatArray, seed: int
) -> FloatArray:
    rows = np.repeat(np.arange(len(x)), counts)
    return raw_logit(fit_classifier(estimator, x[rows], member[rows], seed), target)

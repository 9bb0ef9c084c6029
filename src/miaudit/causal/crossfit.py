"""Cross-fitted models of membership: a logistic model or a classifier, calibrated, and fitted again on resamples.

The propensity (:mod:`miaudit.causal.propensity`) is what they say of the audited rows. The logistic model is log-odds =
x b, the first column of x being ones, and the objective sum weight * (log(1 + exp(x b)) - y x b) + sum penalty *
b^2 / 2 with penalty 1 / C, as scikit-learn has it.
"""

# ruff: noqa: PLC0415 - scikit-learn, joblib and scipy.linalg load when used
from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from operator import methodcaller
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from miaudit.arrays import BoolArray, Float32Array, FloatArray, IntArray
from miaudit.causal import covariates, resamples
from miaudit.causal.cores import at_once
from miaudit.causal.covariates import Encoding, Part, Table
from miaudit.errors import InputError
from miaudit.evidence import Evidence

Shown = Callable[[slice], FloatArray]  # from some replicates of a block to their log-odds (k, rows)
Enlarge = Callable[[Part, FloatArray], Any]  # from training rows and their features to what makes further features
CLIP = 1e-3
FOLDS = 5
INNER_FOLDS = 5
STRENGTHS = tuple(10.0 ** (k / 2) for k in range(-10, 5))  # C of scikit-learn: a larger one shrinks less
_FEWEST_TOGETHER = 50  # replicates solved together: every block computes its Hessian again
_NUMBERS = 2**20  # in one block of replicates times rows
_PER_WORKER = 4
_RIDGES = (1e-10, 1e-7, 1e-4, 0.1)  # of the largest curvature, tried in turn
_MOST_STEPS = 500
_MANY_ROWS = 5_000
_PATIENCE = 3  # strengths without a better held-out loss before the search stops
_LOGIT_FLOOR = 1e-6  # a classifier's certainty is taken as 1 - 1e-6 before calibration


# -- what is asked --------------------------------------------------------------------------------------------------


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


# -- logistic regression -------------------------------------------------------------------------------------------


def with_ones(x: FloatArray) -> FloatArray:
    """Prepend the intercept's column of ones: (n, p) -> (n, p + 1)."""
    return np.asarray(np.column_stack([np.ones(len(x)), x]), dtype=np.float64)


def penalty_of(x: FloatArray, strength: float) -> FloatArray:
    """Return the penalty's diagonal (p + 1,) for x (n, p + 1): 1 / C, and 0 for the intercept.

    Examples
    --------
    >>> penalty_of(np.ones((2, 3)), strength=4.0).tolist()
    [0.0, 0.25, 0.25]
    """
    penalty = np.full(x.shape[1], 1 / strength)
    penalty[0] = 0.0
    return penalty


def expit(x: FloatArray) -> FloatArray:
    """Return the probability of any log-odds, 1 / (1 + exp(-x)), same shape."""
    with np.errstate(over="ignore"):
        return np.asarray(1 / (1 + np.exp(-x)), dtype=np.float64)


def log_loss(eta: FloatArray, y: FloatArray) -> FloatArray:
    """Return the log-loss (n,) of log-odds eta against targets y in [0, 1]; better when smaller."""
    return np.logaddexp(0.0, eta) - y * eta


# -- one fit --------------------------------------------------------------------------------------------------------


def minimise(
    x: FloatArray,
    y: FloatArray,
    penalty: FloatArray,
    start: FloatArray,
    *,
    weight: NDArray[Any] | None = None,
    curvature: FloatArray | None = None,
    tolerance: float = 1e-8,
) -> tuple[FloatArray, FloatArray]:
    """Minimise weighted log-loss plus sum penalty b^2 / 2 by Newton steps.

    A Hessian is computed again when a step fails to lower the objective, or is longer than a fifth of the one before
    (Shamanskii's modification of Newton's method).

    Parameters
    ----------
    x : array (n, p), y : targets (n,) in [0, 1], penalty, start : arrays (p,), weight : array (n,), default ones
    curvature : X' W X (p, p) at a nearby point, to start with
    tolerance : largest last step of a coefficient

    Returns
    -------
    coefficients (p,), the last X' W X (p, p)

    Raises
    ------
    InputError
        If the features are so large that nothing finite comes of them.

    Examples
    --------
    >>> x, y = np.ones((4, 1)), np.array([1.0, 1.0, 1.0, 0.0])
    >>> minimise(x, y, np.zeros(1), np.zeros(1))[0].round(6).item() == round(math.log(3), 6)
    True
    """
    from scipy.linalg import cho_solve

    rows_weight = np.ones(len(y)) if weight is None else weight.astype(np.float64)

    def value_at(beta: FloatArray, eta: FloatArray) -> float:
        return float(rows_weight @ log_loss(eta, y) + penalty @ beta**2 / 2)

    beta, eta = start, x @ start
    value, fresh, factor, previous = value_at(beta, eta), False, None, math.inf
    for _ in range(_MOST_STEPS):
        p = expit(eta)
        if factor is None:
            if curvature is None:
                curvature, fresh = _curvature(x, rows_weight * p * (1 - p)), True
            factor = _factor(curvature + np.diag(penalty))
        step = cho_solve(factor, x.T @ (rows_weight * (p - y)) + penalty * beta, check_finite=False)
        size = float(np.abs(step).max())
        if size < tolerance:
            break
        for scale in 0.25 ** np.arange(8 if fresh else 1):  # with a fresh Hessian, quarters of a step are tried
            candidate = beta - scale * step
            there = x @ candidate
            lower = value_at(candidate, there)
            if lower <= value + 1e-9 * abs(value):
                beta, eta, value = candidate, there, lower
                if size > 0.2 * previous:
                    curvature, factor = None, None
                else:
                    fresh = False
                break
        else:
            curvature, factor = None, None
            if fresh:  # nothing curves where fitted probabilities are 0 and 1: a step that cannot fail (Boehning 1992)
                factor, fresh = _factor(_curvature(x, rows_weight / 4) + np.diag(penalty)), False
        previous = size
    if curvature is None:
        p = expit(eta)
        curvature = _curvature(x, rows_weight * p * (1 - p))
    return beta, curvature


def _curvature(x: FloatArray, weight: FloatArray) -> FloatArray:
    """Return X' W X (p, p): the Hessian without the penalty; of many rows in single precision, which steers as well."""
    if len(x) > _MANY_ROWS:
        with np.errstate(over="ignore", invalid="ignore"):
            rough = x.astype(np.float32) * np.sqrt(weight).astype(np.float32)[:, None]
            curvature = np.asarray(rough.T @ rough, dtype=np.float64)  # by symmetry half of the work
        if np.isfinite(curvature).all():
            return curvature
    return np.asarray((x * weight[:, None]).T @ x)


def _factor(hessian: FloatArray) -> Any:
    """Return the Cholesky factor of a Hessian (p, p), with a ridge where columns are constant or repeated.

    Where every fitted probability is 0 or 1 to the last digit nothing curves, and only a larger ridge makes a step; the
    line search keeps such a step from doing harm.
    """
    from scipy.linalg import LinAlgError, cho_factor

    largest = float(np.diag(hessian).max())
    if math.isfinite(largest):
        for ridge in _RIDGES:
            try:
                return cho_factor(hessian + ridge * (largest or 1.0) * np.eye(len(hessian)), check_finite=False)
            except LinAlgError:
                continue
    raise InputError(
        "x", "features that a logistic model can be fitted to", "numbers beyond its range", "scale the covariates"
    )


# -- strength and calibration ---------------------------------------------------------------------------------------


def choose_strength(
    x: FloatArray, y: FloatArray, inner: IntArray, strengths: Sequence[float] = STRENGTHS
) -> tuple[float, FloatArray, FloatArray]:
    """Choose C by held-out log-loss, from strong to weak shrinkage.

    Parameters
    ----------
    x : array (n, p), the column of ones included
    y : targets (n,), 0 or 1
    inner : array (n,), the fold in which each row is held out
    strengths : values of C, ascending; each fit starts from the one before

    Returns
    -------
    C, held-out log-odds (n,) at that C, coefficients (p,) near the solution on all rows
    """
    base = np.zeros(x.shape[1])
    mean = float(y.mean())
    base[0] = math.log(mean / (1 - mean))
    splits = [(inner != k, inner == k) for k in np.unique(inner)]
    data = [(x[rows], y[rows], x[out]) for rows, out in splits]
    states: list[tuple[FloatArray, FloatArray | None]] = [(base, None)] * len(splits)
    best, worse = (math.inf, strengths[0], np.zeros(len(y)), base), 0
    for strength in strengths:
        held, penalty = np.empty(len(y)), penalty_of(x, strength)
        for k, (some_x, some_y, out_x) in enumerate(data):
            start, curvature = states[k]
            states[k] = minimise(some_x, some_y, penalty, start, curvature=curvature, tolerance=1e-4)
            held[splits[k][1]] = out_x @ states[k][0]
        loss = float(log_loss(held, y).mean())
        if loss < best[0]:
            best, worse = (loss, strength, held, np.mean([beta for beta, _ in states], axis=0)), 0
        else:
            worse += 1
            if worse == _PATIENCE:
                break
    return best[1], best[2], best[3]


def platt(held: FloatArray, y: FloatArray) -> tuple[float, float]:
    """Return slope (not negative) and offset of a logistic line through held-out log-odds (Platt 1999).

    Parameters
    ----------
    held : log-odds (n,) of rows that the model had not seen
    y : targets (n,), 0 or 1

    Examples
    --------
    >>> slope, offset = platt(np.array([2.0, -2.0, 2.0, -2.0]), np.array([0.0, 1.0, 0.0, 1.0]))  # upside down
    >>> slope, offset
    (0.0, 0.0)
    """
    n1 = y.sum()
    n0 = len(y) - n1
    target = np.where(y > 0, (n1 + 1) / (n1 + 2), 1 / (n0 + 2))
    x = np.column_stack([np.ones(len(y)), held])
    start = np.array([math.log(n1 / n0), 0.0])
    (offset, slope), _ = minimise(x, target, np.array([0.0, 1e-9]), start)
    return (float(slope), float(offset)) if slope > 0 else (0.0, math.log(n1 / n0))


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
    screen: Any = None  # what enlarged the features

    def logit(self, table: Table) -> FloatArray:
        """Return calibrated log-odds (n,) of membership."""
        x = self.encoder(table)
        if self.coefficients is None:
            return self.offset + self.slope * raw_logit(self.estimator, x)
        return self.offset + self.slope * (with_ones(x) @ self.coefficients)

    def spread(self, point: FloatArray, raw: FloatArray) -> FloatArray:
        """Return calibrated log-odds of replicates (k, n), centred at the calibrated value."""
        return self.offset + self.slope * point + max(1.0, self.slope) * (raw - point)


def learn(
    part: Part,
    encoding: Encoding,
    classifier: Any,
    strength: float | None = None,
    *,
    refuse_few_rows: bool = True,
    inner: int = INNER_FOLDS,
    enlarge: Enlarge | None = None,
    rng: np.random.Generator,
) -> Model:
    """Fit encoder, model (the logistic one where the classifier is None) and calibration on training rows."""
    encoder = covariates.fit(encoding, part.table, seed=seed_of(rng))
    screen = None if enlarge is None or classifier is not None else enlarge(part, encoder(part.table))
    encoder = encoder if screen is None else screen.after(encoder)
    x, member = encoder(part.table), part.member
    if refuse_few_rows:
        refuse_wide(x)
    y = member.astype(np.float64)
    fold = covariates.assign(member, part.code, INNER_FOLDS if classifier is None else inner, rng)
    if classifier is None:
        ones = with_ones(x)
        strengths = STRENGTHS if strength is None else (float(strength),)
        chosen, held, start = choose_strength(ones, y, fold, strengths)
        coefficients, _ = minimise(ones, y, penalty_of(ones, chosen), start)
        slope, offset = platt(held, y)
        return Model(encoder, slope, offset, coefficients, chosen, screen=screen)
    held = np.empty(len(y))
    for k in np.unique(fold):
        some = fit_classifier(classifier, x[fold != k], member[fold != k], seed_of(rng))
        held[fold == k] = raw_logit(some, x[fold == k])
    slope, offset = platt(held, y)
    return Model(encoder, slope, offset, estimator=fit_classifier(classifier, x, member, seed_of(rng)))


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
    """Yield the replicates of :func:`bootstrap` in blocks, one block in memory at a time, of bounded size.

    A generator in the state in which :func:`miaudit.causal.propensity.fit` had it, and the folds found there, give
    replicates of that very fit.

    Returns
    -------
    counts : of (replicates, rows), how often each record was drawn
    blocks : iterator of which replicates these are, and their propensities (block, n)

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> x = rng.normal(size=(500, 2))
    >>> evidence = Evidence(score=x[:, 1], member=rng.random(500) < 0.5, covariates=x)
    >>> counts, blocks = refits(evidence, None, 20, rng=rng)
    >>> counts[0:20].shape, [values.shape for _, values in blocks]
    ((20, 500), [(20, 500)])
    """
    if replicates < 1 or workers < 1:
        name = "replicates" if replicates < 1 else "workers"
        raise InputError(name, "a whole number from 1 up", str(min(replicates, workers)), "ask for at least one")
    chosen = encoding_of(evidence, encoding, classifier, strength)
    check_clip(clip)
    place, learning, draw = rng.spawn(3)
    _, parts, fold = covariates.divide(evidence, train, chosen, folds, place)
    resampled = resamples.of(evidence if train is None else train, replicates, counts, strata=fold, rng=draw)

    def learned(task: tuple[Part, np.random.Generator]) -> Callable[[slice], Shown]:
        part, seed = task
        model = learn(part, chosen, classifier, strength, enlarge=enlarge, rng=seed)
        return replicates_of(model, part, resampled, workers, seed)

    again = at_once(learned, zip(parts, learning.spawn(len(parts)), strict=True), classifier)
    size = max(_FEWEST_TOGETHER, _NUMBERS // evidence.n) if classifier is None else _PER_WORKER * workers
    few = resamples.together(evidence.n)

    def blocks() -> Iterator[tuple[slice, FloatArray]]:
        for first in range(0, len(resampled), size):
            block = slice(first, min(first + size, len(resampled)))
            solved = at_once(methodcaller("__call__", block), again, classifier)
            for start in range(first, block.stop, few):
                some = slice(start, min(start + few, block.stop))
                out = np.empty((some.stop - start, evidence.n))
                ask = methodcaller("__call__", slice(start - first, some.stop - first))
                for part, logits in zip(parts, at_once(ask, solved, classifier), strict=True):
                    out[:, part.held_out] = clipped(expit(logits + part.prior_shift), clip)[0]
                yield some, out

    return resampled, blocks()


def replicates_of(
    model: Model, part: Part, counts: resamples.Counts, workers: int, rng: np.random.Generator
) -> Callable[[slice], Shown]:
    """Return the function that fits a block of replicates, and returns what gives log-odds (k, rows) of some of it."""
    x, target = model.encoder(part.table), model.encoder(part.apply)
    if model.coefficients is not None:
        start, ones, beyond = model.coefficients, with_ones(x), with_ones(target)
        penalty = penalty_of(ones, model.strength or 1.0)
        ask = None if model.screen is None else model.screen.asked_again(part.member, (ones, beyond), penalty, start)

        def solved(block: slice) -> Shown:
            weights = resamples.Columns(counts, block, part.rows)
            coefficients = reweighted(ones, part.member, weights, penalty, start)
            more = None if ask is None else ask(weights[:], coefficients)

            def shown(some: slice) -> FloatArray:
                raw = coefficients[some] @ beyond.T
                return model.spread(beyond @ start, raw if more is None else raw + more[some])

            return shown

        return solved
    from joblib import Parallel, delayed  # type: ignore[import-untyped]

    point = raw_logit(model.estimator, target)
    seeds = rng.integers(0, 2**31 - 1, len(counts))

    def fitted(block: slice) -> Shown:
        jobs = (
            delayed(_one_replicate)(model.estimator, x, part.member, weights[part.rows], target, int(seed))
            for weights, seed in zip(counts[block], seeds[block], strict=True)
        )
        return model.spread(point, np.stack(Parallel(n_jobs=workers)(jobs))).__getitem__

    return fitted


def _one_replicate(
    estimator: Any, x: FloatArray, member: BoolArray, drawn: NDArray[np.uint16], target: FloatArray, seed: int
) -> FloatArray:
    rows = np.repeat(np.arange(len(x)), drawn)
    return raw_logit(fit_classifier(estimator, x[rows], member[rows], seed), target)


def reweighted(
    x: FloatArray,
    member: BoolArray,
    counts: NDArray[Any] | resamples.Columns,
    penalty: FloatArray,
    start: FloatArray,
    *,
    tolerance: float = 3e-6,
) -> FloatArray:
    """Solve the L2 logistic model for many weightings of the same rows.

    Every replicate takes the steps H^-1 gradient with the Hessian H at ``start`` (the chord method); the error of a
    replicate shrinks by about sqrt(p / n) a step. Steps are in single precision until they are small, then in double.
    A replicate whose steps do not shrink gets its own Newton steps.

    Parameters
    ----------
    x : array (n, p), the intercept's column of ones included
    member : array (n,) of bool
    counts : array (K, n), non-negative weights
    penalty : array (p,), 1 / C and 0 for the intercept
    start : array (p,), the solution with weights 1
    tolerance : largest estimated error of a coefficient

    Returns
    -------
    array (K, p)
    """
    from scipy.linalg import cho_solve

    y = member.astype(np.float64)
    p0 = expit(x @ start)
    factor = _factor(_curvature(x, p0 * (1 - p0)) + np.diag(penalty))
    inverse = np.asarray(cho_solve(factor, np.eye(x.shape[1]), check_finite=False), dtype=np.float64)
    rows = x, x.astype(np.float32)
    coefficients = np.empty((len(counts), x.shape[1]))
    size = max(1, _NUMBERS // len(x))
    for first in range(0, len(counts), size):
        block = slice(first, first + size)
        weights = counts[block].astype(np.float32)
        gradient = (weights * (p0 - y).astype(np.float32)) @ rows[1] + (penalty * start)[None, :]
        beta, stuck = _descend(rows, y, weights, start - gradient @ inverse, penalty, inverse, tolerance)
        for k in np.flatnonzero(stuck):
            beta[k], _ = minimise(x, y, penalty, start, weight=weights[k], tolerance=1e-6)
        coefficients[block] = beta
    return coefficients


def _descend(
    rows: tuple[FloatArray, Float32Array],
    y: FloatArray,
    drawn: Float32Array,
    beta: FloatArray,
    penalty: FloatArray,
    inverse: FloatArray,
    tolerance: float,
) -> tuple[FloatArray, BoolArray]:
    """Take steps by one inverse Hessian for replicates with weights drawn (k, n), from beta (k, p), overwritten.

    Returns
    -------
    coefficients (k, p), and which replicates (k,) did not settle
    """
    active, previous = np.arange(len(beta)), np.full(len(beta), np.inf)
    stuck, rough = np.zeros(len(beta), dtype=np.bool_), True
    hits = drawn * y.astype(np.float32)
    for _ in range(60):
        weight, hit = (drawn, hits) if len(active) == len(beta) else (drawn[active], hits[active])
        step = (_gradients(rows[rough], weight, hit, beta[active]) + penalty * beta[active]) @ inverse
        beta[active] -= step
        change = np.abs(step).max(axis=1)
        error, failed = _progress(change, previous[active], tolerance)
        previous[active] = change
        stuck[active[failed]] = True
        done = failed | ((error < tolerance) & (not rough))
        if rough and float(error[~failed].max(initial=0.0)) < 10 * tolerance:
            rough = False
        active = active[~done]
        if not len(active):
            return beta, stuck
    stuck[active] = True
    return beta, stuck


def _gradients(rows: NDArray[Any], weight: Float32Array, hit: Float32Array, beta: FloatArray) -> FloatArray:
    """Return the gradients (k, p) of the loss of all replicates, in the precision of the rows and in place."""
    with np.errstate(over="ignore"):
        residual = beta.astype(rows.dtype) @ rows.T
        np.negative(residual, out=residual)
        np.exp(residual, out=residual)
    residual += 1
    np.divide(weight, residual, out=residual)
    residual -= hit
    return np.asarray((residual @ rows).astype(np.float64))


def _progress(change: FloatArray, previous: FloatArray, tolerance: float) -> tuple[FloatArray, BoolArray]:
    """Return the remaining error (k,), by how steps shrink, and the replicates whose steps do not."""
    ratio = np.divide(change, previous, out=np.ones_like(change), where=previous > 0)  # a step may be exactly 0
    rate = np.clip(ratio, 0.25, 0.9)
    return change * rate / (1 - rate), ~(ratio < 0.9) & (change > 10 * tolerance)

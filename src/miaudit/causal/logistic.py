"""L2 logistic regression: one fit, its strength, its calibration, and fits to many weightings of the same rows.

Log-odds are x b, where the first column of x is ones. The objective is sum weight * (log(1 + exp(x b)) - y x b) +
sum penalty * b^2 / 2 with penalty 1 / C, as in scikit-learn.
"""

# ruff: noqa: PLC0415 - scipy.linalg loads when used
from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from miaudit.arrays import BoolArray, Float32Array, FloatArray, IntArray
from miaudit.causal import resamples
from miaudit.errors import InputError

STRENGTHS = tuple(10.0 ** (k / 2) for k in range(-10, 5))  # C of scikit-learn: a larger one shrinks less
_NUMBERS = 2**20  # in one block of replicates times rows
_RIDGES = (1e-10, 1e-7, 1e-4, 0.1)  # of the largest curvature, tried in turn
_MOST_STEPS = 500
_MOST_QUARTERS = 8  # lengths of a step that are tried with a fresh Hessian, each a quarter of the one before
_MOST_CHORDS = 60  # steps of a replicate before it gets Newton steps of its own
_MANY_ROWS = 5_000
_PATIENCE = 3  # strengths without a better held-out loss before the search stops


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

    objective = _Objective(x, y, np.ones(len(y)) if weight is None else weight.astype(np.float64), penalty)
    point, fresh, factor, previous = objective.at(start), False, None, math.inf
    for _ in range(_MOST_STEPS):
        p = expit(point.eta)
        if factor is None:
            if curvature is None:
                curvature, fresh = objective.curvature(p), True
            factor = _factor(curvature + np.diag(penalty))
        step = cho_solve(factor, objective.gradient(point.beta, p), check_finite=False)
        size = float(np.abs(step).max())
        if size < tolerance:
            break
        lower = objective.lower(point, step, _MOST_QUARTERS if fresh else 1)
        if lower is None:
            curvature, factor = None, None
            if fresh:  # nothing curves where fitted probabilities are 0 and 1: a step that cannot fail (Boehning 1992)
                factor, fresh = _factor(_curvature(x, objective.weight / 4) + np.diag(penalty)), False
        else:
            point = lower
            if size > 0.2 * previous:
                curvature, factor = None, None
            else:
                fresh = False
        previous = size
    return point.beta, objective.curvature(expit(point.eta)) if curvature is None else curvature


@dataclass(frozen=True, eq=False)
class _Point:
    """Coefficients (p,), the log-odds (n,) of the rows, and the objective there."""

    beta: FloatArray
    eta: FloatArray
    value: float


@dataclass(frozen=True, eq=False)
class _Objective:
    """Weighted log-loss of rows x (n, p) with targets y (n,), plus the penalty (p,)."""

    x: FloatArray
    y: FloatArray
    weight: FloatArray
    penalty: FloatArray

    def at(self, beta: FloatArray) -> _Point:
        """Evaluate the objective at coefficients (p,)."""
        eta = self.x @ beta
        return _Point(beta, eta, float(self.weight @ log_loss(eta, self.y) + self.penalty @ beta**2 / 2))

    def gradient(self, beta: FloatArray, p: FloatArray) -> FloatArray:
        """Return the gradient (p,), from the fitted probabilities (n,)."""
        return np.asarray(self.x.T @ (self.weight * (p - self.y)) + self.penalty * beta)

    def curvature(self, p: FloatArray) -> FloatArray:
        """Return X' W X (p, p), from the fitted probabilities (n,)."""
        return _curvature(self.x, self.weight * p * (1 - p))

    def lower(self, point: _Point, step: FloatArray, tries: int) -> _Point | None:
        """Return the first point that is not higher, of the whole step, its quarter and so on; None if all are."""
        for scale in 0.25 ** np.arange(tries):
            candidate = self.at(point.beta - scale * step)
            if candidate.value <= point.value + 1e-9 * abs(point.value):
                return candidate
        return None


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
    mean = float(y.mean())
    base = np.zeros(x.shape[1])
    base[0] = math.log(mean / (1 - mean))
    splits = [_Split.of(x, y, inner == k) for k in np.unique(inner)]
    fits: list[tuple[FloatArray, FloatArray | None]] = [(base, None)] * len(splits)
    best, worse = _Choice(math.inf, strengths[0], np.zeros(len(y)), base), 0
    for strength in strengths:
        penalty = penalty_of(x, strength)
        fits = [split.fit(penalty, start, curvature) for split, (start, curvature) in zip(splits, fits, strict=True)]
        held = np.empty(len(y))
        for split, (beta, _) in zip(splits, fits, strict=True):
            held[split.out] = split.beyond @ beta
        loss = float(log_loss(held, y).mean())
        if loss < best.loss:
            best, worse = _Choice(loss, strength, held, np.mean([beta for beta, _ in fits], axis=0)), 0
        else:
            worse += 1
            if worse == _PATIENCE:
                break
    return best.strength, best.held, best.coefficients


@dataclass(frozen=True, eq=False)
class _Choice:
    """A strength, its mean held-out loss, its held-out log-odds (n,), and the mean coefficients (p,) of the splits."""

    loss: float
    strength: float
    held: FloatArray
    coefficients: FloatArray


@dataclass(frozen=True, eq=False)
class _Split:
    """Rows to learn from with their targets, which rows (n,) are held out, and the features of these."""

    x: FloatArray
    y: FloatArray
    out: BoolArray
    beyond: FloatArray

    @classmethod
    def of(cls, x: FloatArray, y: FloatArray, out: BoolArray) -> _Split:
        return cls(x[~out], y[~out], out, x[out])

    def fit(
        self, penalty: FloatArray, start: FloatArray, curvature: FloatArray | None
    ) -> tuple[FloatArray, FloatArray]:
        """Return coefficients and curvature, from those at a nearby penalty."""
        return minimise(self.x, self.y, penalty, start, curvature=curvature, tolerance=1e-4)


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


# -- many weightings of the same rows --------------------------------------------------------------------------------


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
    y = member.astype(np.float64)
    p = expit(x @ start)
    chord = _Chord.of(x, y, p, penalty, tolerance)
    coefficients = np.empty((len(counts), x.shape[1]))
    size = max(1, _NUMBERS // len(x))
    for first in range(0, len(counts), size):
        block = slice(first, first + size)
        weights = counts[block].astype(np.float32)
        gradient = (weights * (p - y).astype(np.float32)) @ chord.rough_x + (penalty * start)[None, :]
        beta, stuck = chord.descend(weights, start - gradient @ chord.inverse)
        for k in np.flatnonzero(stuck):
            beta[k], _ = minimise(x, y, penalty, start, weight=weights[k], tolerance=1e-6)
        coefficients[block] = beta
    return coefficients


@dataclass(frozen=True, eq=False)
class _Chord:
    """Steps by one inverse Hessian, for many replicates at a time.

    Attributes
    ----------
    x, rough_x : arrays (n, p), the rows in double and in single precision
    y : array (n,)
    penalty : array (p,)
    inverse : array (p, p), of the Hessian
    tolerance : largest estimated error of a coefficient
    """

    x: FloatArray
    rough_x: Float32Array
    y: FloatArray
    penalty: FloatArray
    inverse: FloatArray
    tolerance: float

    @classmethod
    def of(cls, x: FloatArray, y: FloatArray, p: FloatArray, penalty: FloatArray, tolerance: float) -> _Chord:
        """Invert the Hessian where the fitted probabilities are p (n,)."""
        from scipy.linalg import cho_solve

        factor = _factor(_curvature(x, p * (1 - p)) + np.diag(penalty))
        inverse = np.asarray(cho_solve(factor, np.eye(x.shape[1]), check_finite=False), dtype=np.float64)
        return cls(x, x.astype(np.float32), y, penalty, inverse, tolerance)

    def descend(self, weights: Float32Array, beta: FloatArray) -> tuple[FloatArray, BoolArray]:
        """Take steps for replicates with weights (k, n), from beta (k, p), which is overwritten.

        Returns
        -------
        coefficients (k, p), and which replicates (k,) did not settle
        """
        active, previous = np.arange(len(beta)), np.full(len(beta), np.inf)
        stuck, rough = np.zeros(len(beta), dtype=np.bool_), True
        hits = weights * self.y.astype(np.float32)
        for _ in range(_MOST_CHORDS):
            weight, hit = (weights, hits) if len(active) == len(beta) else (weights[active], hits[active])
            gradient = _gradients(self.rough_x if rough else self.x, weight, hit, beta[active])
            step = (gradient + self.penalty * beta[active]) @ self.inverse
            beta[active] -= step
            change = np.abs(step).max(axis=1)
            error, failed = _progress(change, previous[active], self.tolerance)
            previous[active] = change
            stuck[active[failed]] = True
            settled = failed | ((error < self.tolerance) & (not rough))
            if rough and float(error[~failed].max(initial=0.0)) < 10 * self.tolerance:
                rough = False
            active = active[~settled]
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

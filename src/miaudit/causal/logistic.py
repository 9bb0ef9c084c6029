"""L2 logistic regression: a fit, its strength, Platt's calibration, and all bootstrap replicates at once.

Everywhere the model is log-odds = x b, the first column of x being ones, and the objective
sum weight * (log(1 + exp(x b)) - y x b) + sum penalty * b^2 / 2 with penalty 1 / C, as scikit-learn has it.
"""

# ruff: noqa: PLC0415 - scipy.linalg loads when used
from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from miaudit.arrays import BoolArray, Float32Array, FloatArray, IntArray
from miaudit.errors import InputError

STRENGTHS = tuple(10.0 ** (k / 2) for k in range(-10, 5))  # C of scikit-learn: a larger one shrinks less
BLOCK = 2**20  # numbers in one block of replicates times rows
_RIDGES = (1e-10, 1e-7, 1e-4, 0.1)  # of the largest curvature, tried in turn
_MOST_STEPS = 500
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


def _loss(eta: FloatArray, y: FloatArray) -> FloatArray:
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
        return float(rows_weight @ _loss(eta, y) + penalty @ beta**2 / 2)

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
    """Return X' W X (p, p): the Hessian without the penalty."""
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
        loss = float(_loss(held, y).mean())
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


# -- all replicates -------------------------------------------------------------------------------------------------


def replicates(
    x: FloatArray,
    member: BoolArray,
    counts: NDArray[Any],
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
    found = np.empty((len(counts), x.shape[1]))
    size = max(1, BLOCK // len(x))
    for first in range(0, len(counts), size):
        block = slice(first, first + size)
        drawn = counts[block].astype(np.float32)
        gradient = (drawn * (p0 - y).astype(np.float32)) @ rows[1] + (penalty * start)[None, :]
        beta, stuck = _descend(rows, y, drawn, start - gradient @ inverse, penalty, inverse, tolerance)
        for k in np.flatnonzero(stuck):
            beta[k], _ = minimise(x, y, penalty, start, weight=drawn[k], tolerance=1e-6)
        found[block] = beta
    return found


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
    stuck = np.zeros(len(beta), dtype=np.bool_)
    rough = True
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

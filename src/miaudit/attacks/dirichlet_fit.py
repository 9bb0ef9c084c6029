"""Dirichlet laws of confidence vectors by maximum likelihood, thousands of records at once.

The likelihood of a record reads its shadow outputs through the means of log p_k alone and is concave in the
parameters, so a damped Newton iteration reaches its maximum from anywhere. The Hessian is a diagonal plus a constant,
which makes a step as cheap as a gradient (Minka 2000, "Estimating a Dirichlet distribution").
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from miaudit.arrays import BoolArray, FloatArray, IntArray
from miaudit.errors import InputError

SMOOTHING = 1e-15  # about what float64 resolves beside 1
LEAST_MODELS = 2  # one confidence vector has no spread: its likelihood grows without end
LARGEST_TOTAL = 1e7  # of the parameters; a standard deviation below 0.0002 is taken as none
_SMALLEST = 1e-6
_SUM_TOLERANCE = 2e-3  # float16 outputs of a thousand classes
_BLOCK = 2**20  # numbers in a block of rows
_ITERATIONS = 200
_DECREMENT = 1e-13  # of the mean log-likelihood that one more Newton step would gain


@dataclass(frozen=True, eq=False)
class Fit:
    """Dirichlet laws fitted to the outputs of many models on each record.

    Attributes
    ----------
    alpha : array (n, K), above 0
        Parameters; their sum is the concentration, 1 / (epistemic uncertainty) in uncertainty-mia, Eq. (28).
    converged : array (n,) of bool
        False where outputs (nearly) coincide, so that the concentration was stopped at 1e7, or where a row did not
        settle.
    models : array (n,) of int
        Models that counted for each record.
    log_likelihood : array (n,)
        Mean log density (nats) of the smoothed outputs under the fitted law.
    smoothing : float
        Smallest probability that was let through.
    smoothed : float
        Share of the probabilities that were raised to it.
    """

    alpha: FloatArray
    converged: BoolArray
    models: IntArray
    log_likelihood: FloatArray
    smoothing: float
    smoothed: float


def fit(p: ArrayLike, mask: ArrayLike | None = None, *, smoothing: float = SMOOTHING) -> Fit:
    """Fit a Dirichlet law to each record's confidence vectors by maximum likelihood.

    Parameters
    ----------
    p : array (n, M, K)
        Probabilities of K classes that M models give to n records; rows add up to 1. May be float32, float16 or a
        memory map: it is read in blocks.
    mask : array (n, M) of bool, optional
        Which models count for which record, for example those that were trained on it; by default all. At least two
        have to.
    smoothing : float in (0, 1/K)
        Probabilities below it, zeros included, are raised to it and their row is divided by its new sum, since the
        logarithm of 0 would put every parameter at 0. For float16 it is at least 6e-8, the smallest number above 0
        there. The share that was raised is in the result.

    Returns
    -------
    Fit
        Started from moments; each row iterates until a Newton step would gain less than 1e-13.

    Raises
    ------
    InputError
        For one class, numbers that are no probabilities, or a record for which fewer than two models count.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> found = fit(rng.dirichlet([4.0, 1.0, 1.5], size=(3, 5000)))
    >>> found.alpha.round(1).tolist()[0], bool(found.converged.all()), found.smoothed
    ([4.0, 1.0, 1.5], True, 0.0)
    """
    outputs = np.asarray(p)
    counted = check(outputs, mask, smoothing)
    smoothing = max(smoothing, float(np.finfo(outputs.dtype).smallest_subnormal))
    n, _, classes = outputs.shape
    mean, variance, log_mean = np.zeros((n, classes)), np.zeros((n, classes)), np.zeros((n, classes))
    raised = total = 0
    for rows in _blocks(outputs.shape):
        inside = counted[rows]
        block = smooth(np.where(inside[:, :, None], outputs[rows], 1 / classes), smoothing)
        raised += int(((outputs[rows] < smoothing) & inside[:, :, None]).sum())
        total += int(inside.sum()) * classes
        weight = inside / inside.sum(axis=1, keepdims=True)
        mean[rows] = np.einsum("nm,nmk->nk", weight, block)
        variance[rows] = np.einsum("nm,nmk->nk", weight, (block - mean[rows, None]) ** 2)
        log_mean[rows] = np.einsum("nm,nmk->nk", weight, np.log(block))
    alpha, converged = maximise(log_mean, _from_moments(mean, variance))
    return Fit(alpha, converged, counted.sum(axis=1), _mean_log_likelihood(alpha, log_mean), smoothing, raised / total)


def check(p: NDArray[np.generic], mask: ArrayLike | None, smoothing: float) -> BoolArray:
    """Return which models count (n, M), after checking probabilities (n, M, K), mask and smoothing."""
    if p.dtype.kind != "f" or p.ndim != 3 or not p.size:
        raise InputError.of_array("p", "probabilities of shape (n, M, K)", p, "records, then models, then classes")
    n, models, classes = p.shape
    if classes < 2:
        raise InputError("p", "at least two classes", "K = 1", "a single probability says nothing: pass both classes")
    if isinstance(smoothing, bool) or not 0 < smoothing < 1 / classes:
        raise InputError("smoothing", f"a number in (0, 1/{classes})", repr(smoothing), "1e-15 is the default")
    counted = np.ones((n, models), dtype=np.bool_) if mask is None else np.asarray(mask)
    if counted.shape != (n, models) or counted.dtype.kind != "b":
        raise InputError.of_array("mask", f"True or False of shape {(n, models)}", counted, "a column for each model")
    few = counted.sum(axis=1) < LEAST_MODELS
    if few.any():
        row = int(np.argmax(few))
        allowed, received = (
            f"at least {LEAST_MODELS} models for every record",
            f"{int(counted[row].sum())} for record {row}",
        )
        raise InputError("mask", allowed, received, "train more shadow models, or leave this record out")
    for rows in _blocks(p.shape):
        _check_probabilities(p[rows], counted[rows], rows.start)
    return counted


def _check_probabilities(p: NDArray[np.generic], counted: BoolArray, first: int) -> None:
    numbers = np.where(counted[:, :, None], p, 1 / p.shape[2]).astype(np.float64)
    bad = ~((numbers >= 0) & (numbers <= 1 + _SUM_TOLERANCE)).all(axis=2)
    bad |= np.abs(numbers.sum(axis=2) - 1) > _SUM_TOLERANCE
    if bad.any():
        row, model = np.argwhere(bad)[0]
        received = f"record {first + row}, model {model}: sum {numbers[row, model].sum():.4g}"
        raise InputError("p", "probabilities that add up to 1", received, "apply softmax to logits first")


def smooth(p: NDArray[np.generic], smoothing: float) -> FloatArray:
    """Raise probabilities (..., K) below ``smoothing`` to it and divide each row by its sum.

    Examples
    --------
    >>> smooth(np.array([1.0, 0.0]), 1e-3).round(5).tolist()
    [0.999, 0.001]
    """
    lifted = np.maximum(p, smoothing, dtype=np.float64)
    return np.asarray(lifted / lifted.sum(axis=-1, keepdims=True))


def _blocks(shape: tuple[int, ...]) -> list[slice]:
    size = max(1, _BLOCK // int(np.prod(shape[1:])))
    return [slice(start, min(shape[0], start + size)) for start in range(0, shape[0], size)]


def _from_moments(mean: FloatArray, variance: FloatArray) -> FloatArray:
    """Return parameters (n, K) that match the mean and total variance of the outputs (Eqs. 26 and 27)."""
    with np.errstate(divide="ignore"):
        total = (mean * (1 - mean)).sum(axis=1) / variance.sum(axis=1) - 1
    return np.asarray(np.maximum(_SMALLEST, mean * np.clip(total, 1e-2, LARGEST_TOTAL)[:, None]))


def maximise(log_mean: FloatArray, start: FloatArray) -> tuple[FloatArray, BoolArray]:
    """Return the maximum-likelihood parameters (n, K), from means of log p (n, K), and what converged (n,)."""
    alpha = start.copy()
    converged = np.zeros(len(alpha), dtype=np.bool_)
    active = np.arange(len(alpha))
    for _ in range(_ITERATIONS):
        if not len(active):
            break
        here, target = alpha[active], log_mean[active]
        direction, decrement = _newton(here, target)
        moved = _line_search(here, target, direction, decrement)
        done = decrement < _DECREMENT
        moved[done] = np.maximum(here[done] + direction[done], here[done] / 2)
        total = moved.sum(axis=1)
        over = total >= LARGEST_TOTAL
        moved[over] *= (LARGEST_TOTAL / total[over])[:, None]
        alpha[active] = moved
        converged[active] = done & ~over
        active = active[~(done | over)]
    return alpha, converged


def _newton(alpha: FloatArray, log_mean: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the Newton direction (n, K) and the decrement (n,), twice the gain of the quadratic model."""
    total = alpha.sum(axis=1, keepdims=True)
    gradient = special.digamma(total) - special.digamma(alpha) + log_mean
    curvature = special.polygamma(1, alpha)
    shared = special.polygamma(1, total)
    # (diag(curvature) - shared)^-1 by Sherman-Morrison; 1 - shared * sum(1 / curvature) is positive for every
    # Dirichlet.
    inverse = 1 / curvature
    left = np.maximum(1 / shared - inverse.sum(axis=1, keepdims=True), np.finfo(np.float64).tiny)
    correction = (gradient * inverse).sum(axis=1, keepdims=True) / left
    direction = (gradient + correction) * inverse
    return direction, np.maximum((gradient * direction).sum(axis=1), 0.0)


def _line_search(alpha: FloatArray, log_mean: FloatArray, direction: FloatArray, decrement: FloatArray) -> FloatArray:
    """Take the Newton step, halved until the likelihood rises enough; no parameter falls below a tenth."""
    fall = np.max(-direction / alpha, axis=1)
    step = np.minimum(1.0, 0.9 / np.maximum(fall, 0.9))
    now = _mean_log_likelihood(alpha, log_mean)
    slack = 1e-12 * (1 + np.abs(now))
    for _ in range(40):
        moved = alpha + step[:, None] * direction
        short = _mean_log_likelihood(moved, log_mean) < now + 0.1 * step * decrement - slack
        if not short.any():
            break
        step[short] /= 2
    return np.asarray(alpha + step[:, None] * direction)


def log_normaliser(alpha: FloatArray) -> FloatArray:
    """Return the logarithm of the constant of Dirichlet densities (n,) with parameters (n, K)."""
    return np.asarray(special.gammaln(alpha.sum(axis=1)) - special.gammaln(alpha).sum(axis=1))


def _mean_log_likelihood(alpha: FloatArray, log_mean: FloatArray) -> FloatArray:
    return np.asarray(log_normaliser(alpha) + ((alpha - 1) * log_mean).sum(axis=1))

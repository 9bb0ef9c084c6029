"""The logit-normal model of confidence vectors (uncertainty-mia, Section IV-A).

The additive log-ratios z_k = log(p_k / p_0), k = 1 .. K - 1, are jointly Gaussian (Aitchison and Shen 1980). Unlike the
Dirichlet it lets classes be confused with one another, at the price of K (K - 1) / 2 covariances. Confidences of
networks have lighter tails than Dirichlet laws with small parameters: :func:`log_density` on held-out models says
which fits.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from miaudit.arrays import FloatArray, IntArray
from miaudit.attacks.dirichlet_fit import SMOOTHING, check, smooth
from miaudit.disclosure.dirichlet import Goodness, goodness_of
from miaudit.errors import InputError

__all__ = ["Fit", "Law", "divergence", "fit", "goodness", "label_margin", "log_density", "sample"]

_RIDGE = 1e-6  # variance below which outputs coincide
_STEP = 0.1


@dataclass(frozen=True, eq=False)
class Law:
    """Logit-normal laws of one record or many.

    Attributes
    ----------
    mean : array (..., K - 1)
        Of log(p_k / p_0).
    covariance : array (..., K - 1, K - 1), positive definite
    """

    mean: FloatArray
    covariance: FloatArray

    def __post_init__(self) -> None:
        mean, covariance = np.asarray(self.mean, float), np.asarray(self.covariance, float)
        if not mean.ndim or covariance.shape != (*mean.shape, mean.shape[-1]):
            raise InputError(
                "covariance", f"shape {(*mean.shape, *mean.shape[-1:])}", f"{covariance.shape}", "one matrix per record"
            )
        if not (np.isfinite(mean).all() and np.isfinite(covariance).all()):
            raise InputError("mean, covariance", "finite numbers", "NaN or infinity", "see logit_normal.fit")
        if not (np.linalg.eigvalsh(covariance) > 0).all():
            raise InputError("covariance", "positive definite matrices", "another", "fit with shrinkage above 0")
        object.__setattr__(self, "mean", mean)
        object.__setattr__(self, "covariance", covariance)


@dataclass(frozen=True, eq=False)
class Fit:
    """Logit-normal laws fitted to the outputs of many models on each record.

    Attributes
    ----------
    law : Law, of n records
    models : array (n,), models that counted
    log_likelihood : array (n,), mean log density (nats) of the smoothed outputs
    smoothing, smoothed : as in :class:`miaudit.attacks.dirichlet_fit.Fit`
    shrinkage : float, how far covariances were drawn toward zero
    """

    law: Law
    models: IntArray
    log_likelihood: FloatArray
    smoothing: float
    smoothed: float
    shrinkage: float


def fit(p: ArrayLike, mask: ArrayLike | None = None, *, smoothing: float = SMOOTHING, shrinkage: float = 0.1) -> Fit:
    """Fit a logit-normal law to each record's confidence vectors, by moments of the log-ratios.

    Parameters
    ----------
    p, mask, smoothing : as in :func:`miaudit.disclosure.dirichlet.fit`
    shrinkage : float in [0, 1]
        Weight of the diagonal: covariances between labels are multiplied by 1 minus it. Above 0 the matrix is positive
        definite however few models there are.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> law = Law([1.0, -1.0], [[1.0, 0.5], [0.5, 2.0]])
    >>> found = fit(sample(law, 20_000, rng=rng)[None], shrinkage=0.0)
    >>> found.law.mean.round(1).tolist(), found.law.covariance.round(1).tolist()
    ([[1.0, -1.0]], [[[1.0, 0.5], [0.5, 2.0]]])
    """
    outputs = np.asarray(p)
    counted = check(outputs, mask, smoothing)
    if isinstance(shrinkage, bool) or not 0 <= shrinkage <= 1:
        raise InputError("shrinkage", "a number in [0, 1]", repr(shrinkage), "0.1 is the default")
    z = log_ratios(smooth(outputs, smoothing))
    weight = counted / counted.sum(axis=1, keepdims=True)
    mean = np.einsum("nm,nmk->nk", weight, z)
    apart = z - mean[:, None]
    covariance = np.einsum("nm,nmi,nmj->nij", weight, apart, apart, optimize=True)
    keep = np.eye(z.shape[2]) * shrinkage + (1 - shrinkage)
    covariance = covariance * keep + _RIDGE * np.eye(z.shape[2])
    law = Law(mean, covariance)
    density = log_density(smooth(outputs, smoothing), Law(mean[:, None], covariance[:, None]))
    raised = float(((outputs < smoothing) & counted[:, :, None]).sum() / (counted.sum() * outputs.shape[2]))
    return Fit(law, counted.sum(axis=1), (weight * density).sum(axis=1), smoothing, raised, shrinkage)


def log_ratios(p: FloatArray) -> FloatArray:
    """Return log(p_k / p_0), k = 1 .. K - 1, of confidence vectors (..., K) above 0."""
    logs = np.log(p)
    result: FloatArray = logs[..., 1:] - logs[..., :1]
    return result


def log_density(p: ArrayLike, law: Law) -> FloatArray:
    """Return the log density (nats) of confidence vectors (..., K) above 0, on the simplex.

    Examples
    --------
    >>> log_density([0.5, 0.5], Law([0.0], [[1.0]])).round(4).item()  # log(4 / sqrt(2 pi))
    0.4674
    """
    vector = np.asarray(p, dtype=np.float64)
    apart = log_ratios(vector) - law.mean
    inverse = np.linalg.inv(law.covariance)
    square = np.einsum("...i,...ij,...j->...", apart, inverse, apart)
    size = law.mean.shape[-1] * math.log(2 * math.pi) + np.linalg.slogdet(law.covariance)[1]
    result: FloatArray = -0.5 * (square + size) - np.log(vector).sum(axis=-1)
    return result


def sample(law: Law, n: int, *, rng: np.random.Generator) -> FloatArray:
    """Draw confidence vectors: (n, K) for one law, (records, n, K) for many.

    Examples
    --------
    >>> sample(Law([0.0], [[1.0]]), 20_000, rng=np.random.default_rng(0)).mean(axis=0).round(2).tolist()
    [0.5, 0.5]
    """
    root = np.linalg.cholesky(law.covariance)
    noise = rng.normal(size=(*law.mean.shape[:-1], n, law.mean.shape[-1]))
    z = law.mean[..., None, :] + np.einsum("...ij,...nj->...ni", root, noise)
    result: FloatArray = special.softmax(np.concatenate([np.zeros((*z.shape[:-1], 1)), z], axis=-1), axis=-1)
    return result


def divergence(first: Law, second: Law) -> FloatArray:
    """Return D(first || second) in nats: the divergence of the Gaussian laws of the log-ratios.

    Examples
    --------
    >>> divergence(Law([0.0], [[1.0]]), Law([1.0], [[1.0]])).round(4).item()
    0.5
    """
    inverse = np.linalg.inv(second.covariance)
    apart = second.mean - first.mean
    trace = np.einsum("...ij,...ji->...", inverse, first.covariance)
    square = np.einsum("...i,...ij,...j->...", apart, inverse, apart)
    log = np.linalg.slogdet(second.covariance)[1] - np.linalg.slogdet(first.covariance)[1]
    result: FloatArray = 0.5 * (trace + square - first.mean.shape[-1] + log)
    return np.maximum(result, 0.0)


def label_margin(law: Law, *, draws: int = 20_000, rng: np.random.Generator) -> Law:
    """Return the logit-normal law of class 0's confidence alone with the right mean and variance of its log-odds.

    With two classes this is the law itself. With more, log(p_0 / (1 - p_0)) = -log sum exp z_k is not Gaussian, so the
    law is an approximation, by draws.

    Parameters
    ----------
    law : of one record or many
    draws : of each law
    rng : generator of the draws

    Returns
    -------
    Law of shape (..., 1), of log((1 - p_0) / p_0)

    Examples
    --------
    >>> margin = label_margin(Law([0.0, 0.0], np.eye(2)), rng=np.random.default_rng(0))
    >>> margin.mean.round(1).tolist(), margin.covariance.round(1).tolist()
    ([0.9], [[0.6]])
    """
    if law.mean.shape[-1] == 1:
        return law
    root = np.linalg.cholesky(law.covariance)
    noise = rng.normal(size=(*law.mean.shape[:-1], draws, law.mean.shape[-1]))
    odds = special.logsumexp(law.mean[..., None, :] + np.einsum("...ij,...nj->...ni", root, noise), axis=-1)
    return Law(odds.mean(axis=-1)[..., None], odds.var(axis=-1)[..., None, None])


def averaged_confidence_vector(law_in: Law, law_out: Law) -> FloatArray:
    """Return AUC - 1/2, the averaged advantage when the confidence vector is disclosed, without draws.

    1/2 - (1 / 2 pi) int |M(t)|^2 / (1/4 + t^2) dt with M(t) = int f_in^(1/2 + it) f_out^(1/2 - it), which for Gaussian
    laws is an integral of a Gaussian with a complex precision matrix (see :mod:`miaudit.disclosure.tradeoff`).

    Examples
    --------
    >>> shifted = averaged_confidence_vector(Law([1.0], [[1.0]]), Law([0.0], [[1.0]]))
    >>> round(float(shifted), 4)  # Phi(1 / sqrt(2)) - 1/2
    0.2602
    """
    u = _STEP * np.arange(2 * (round(math.asinh(2e9) / _STEP) // 2) + 1)
    t = np.sinh(u) / 2
    share_in, share_out = 0.5 + 1j * t, 0.5 - 1j * t
    p_in, p_out = np.linalg.inv(law_in.covariance), np.linalg.inv(law_out.covariance)
    apart = law_in.mean - law_out.mean
    # Eigenvalues of both at once: p_in = V diag(r) V', p_out = V V'
    root = np.linalg.cholesky(p_out)
    whitened = np.linalg.solve(root, np.swapaxes(np.linalg.solve(root, p_in), -1, -2))
    ratio, vectors = np.linalg.eigh((whitened + np.swapaxes(whitened, -1, -2)) / 2)
    y = np.einsum("...ji,...kj,...k->...i", vectors, root, apart)
    mixed = share_in * ratio[..., None] + share_out
    log_size = 0.5 * (np.log(ratio)[..., None] * share_in - np.log(mixed)).sum(axis=-2)
    exponent = -0.5 * (y[..., None] ** 2 * share_in * share_out * ratio[..., None] / mixed).sum(axis=-2)
    square = np.exp(2 * (log_size + exponent).real) / np.cosh(u)
    square[..., 0] /= 2
    value: FloatArray = 0.5 - _STEP * square.sum(axis=-1) / math.pi
    return np.clip(value, 0.0, 0.5)


def goodness(
    p: ArrayLike,
    law: Law,
    mask: ArrayLike | None = None,
    *,
    smoothing: float = SMOOTHING,
    shrinkage: float = 0.1,
    replicates: int = 0,
    rng: np.random.Generator | None = None,
) -> Goodness:
    """Compare log-ratios with their law: of two classes their probability transforms, of more their distances.

    With two classes the log-ratio's standardised values are compared with a Gaussian law, which sees skewness. With
    more, squared Mahalanobis distances are compared with their chi-squared law.

    Parameters
    ----------
    p, mask, smoothing : as in :func:`fit`
    law : Law of n records, as fitted
    shrinkage : as in the fit; read with replicates
    replicates : simulated data sets of the parametric bootstrap, to which laws are fitted again; 0: no p-values
    rng : generator of the bootstrap, required with replicates

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> p = sample(Law(np.zeros((30, 2)), np.tile(np.eye(2), (30, 1, 1))), 400, rng=rng)
    >>> bool(goodness(p, fit(p, shrinkage=0.0).law).pooled < 0.02)
    True
    """
    outputs = np.asarray(p)
    counted = check(outputs, mask, smoothing)
    u = _transforms(smooth(outputs, smoothing), law)

    def simulated(rng: np.random.Generator) -> FloatArray:
        sampled = sample(law, outputs.shape[1], rng=rng)
        again = fit(sampled, counted, smoothing=smoothing, shrinkage=shrinkage).law
        return _transforms(smooth(sampled, smoothing), again)

    return goodness_of(u, counted, simulated, replicates, rng)


def _transforms(p: FloatArray, law: Law) -> FloatArray:
    """Return numbers (n, M) that are uniform if the law is right."""
    apart = log_ratios(p) - law.mean[:, None]
    if law.mean.shape[-1] == 1:
        return np.asarray(special.ndtr(apart[..., 0] / np.sqrt(law.covariance[:, :, 0])))
    square = np.einsum("nmi,nij,nmj->nm", apart, np.linalg.inv(law.covariance), apart, optimize=True)
    return np.asarray(special.gammainc(law.mean.shape[-1] / 2, square / 2))

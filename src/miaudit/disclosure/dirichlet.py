"""The Dirichlet model of confidence vectors: parameters from uncertainty and calibration, laws, fit to data.

uncertainty-mia, Section IV-A: the outputs of models that were trained without a record (out) and with it (in) follow
two Dirichlet laws; the true label is class 0.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from miaudit.arrays import BoolArray, FloatArray
from miaudit.attacks.dirichlet_fit import SMOOTHING, Fit, check, fit
from miaudit.errors import InputError
from miaudit.errors.checks import finite

__all__ = [
    "SMOOTHING",
    "Fit",
    "Goodness",
    "World",
    "divergence",
    "fit",
    "goodness",
    "kolmogorov",
    "log_beta",
    "log_density",
    "marginal",
    "parameters",
    "sample",
]


@dataclass(frozen=True)
class World:
    """A record of the Dirichlet model: number of classes, two uncertainties and a calibration error.

    Parameters
    ----------
    classes : int, K, at least 2
    aleatoric : float
        eps_a = 1 - p*(true label), Eq. (23); in (Delta / (1 + Delta), 1 - 1/K] (erratum E5).
    epistemic : float, above 0
        eps_e, one over the sum of the parameters of either law, Eq. (28).
    calibration_error : float, 0 or more
        Delta, by how much models that learned the record are too sure of its label, relatively, Eq. (24).

    Raises
    ------
    InputError
        Outside the domain; the message says which inequality fails, with its values.

    Examples
    --------
    >>> world = World(classes=10, aleatoric=0.5, epistemic=0.25, calibration_error=0.2)
    >>> world.alpha_out[:2].round(4).tolist(), world.alpha_in[:2].round(4).tolist()
    ([2.0, 0.2222], [2.4, 0.1778])
    >>> World(10, aleatoric=0.1, epistemic=0.25, calibration_error=0.2)
    Traceback (most recent call last):
    miaudit.errors.InputError: aleatoric: expected Delta / (1 + Delta) < aleatoric, which is 0.166667 at
    calibration_error = 0.2, received 0.1; raise it, or lower calibration_error below 0.111111
    """

    classes: int
    aleatoric: float
    epistemic: float
    calibration_error: float

    def __post_init__(self) -> None:
        if isinstance(self.classes, bool) or self.classes != int(self.classes) or self.classes < 2:
            raise InputError("classes", "a whole number K >= 2", repr(self.classes), "with K = 1 nothing is disclosed")
        object.__setattr__(self, "classes", int(self.classes))
        for name in ("aleatoric", "epistemic", "calibration_error"):
            object.__setattr__(self, name, finite(name, getattr(self, name), "a finite number", "pass a number"))
        if self.epistemic <= 0:
            raise InputError("epistemic", "epistemic > 0", f"{self.epistemic:g}", "it is 1 / (sum of the parameters)")
        if self.calibration_error < 0:
            raise InputError(
                "calibration_error",
                "calibration_error >= 0",
                f"{self.calibration_error:g}",
                "models less sure of what they learned lie outside the paper's: pass parameters to advantage_of",
            )
        highest = 1 - 1 / self.classes
        if not 0 < self.aleatoric <= highest + 1e-12:
            raise InputError(
                "aleatoric",
                f"0 < aleatoric <= 1 - 1/K, which is {highest:.6g} for K = {self.classes}",
                f"{self.aleatoric:g}",
                "it is 1 - p*(true label)",
            )
        lowest = self.calibration_error / (1 + self.calibration_error)
        if self.aleatoric <= lowest:
            raise InputError(
                "aleatoric",
                f"Delta / (1 + Delta) < aleatoric, which is {lowest:.6g} at calibration_error = "
                f"{self.calibration_error:g}",
                f"{self.aleatoric:g}",
                f"raise it, or lower calibration_error below {self.aleatoric / (1 - self.aleatoric):.6g}",
            )

    @property
    def alpha_out(self) -> FloatArray:
        """Parameters (K,) of models trained without the record, Eq. (29)."""
        others = self.aleatoric / (self.classes - 1) / self.epistemic
        return np.array([(1 - self.aleatoric) / self.epistemic] + [others] * (self.classes - 1))

    @property
    def alpha_in(self) -> FloatArray:
        """Parameters (K,) of models trained with the record, Eq. (30)."""
        mean = (1 + self.calibration_error) * (1 - self.aleatoric)
        others = (1 - mean) / (self.classes - 1) / self.epistemic
        return np.array([mean / self.epistemic] + [others] * (self.classes - 1))


def parameters(name: str, alpha: ArrayLike) -> FloatArray:
    """Return Dirichlet parameters (..., K) as float64; refuse those not finite and above 0, and K below 2."""
    array = np.asarray(alpha, dtype=np.float64)
    if not array.ndim or array.shape[-1] < 2 or not array.size:
        raise InputError(
            name, "parameters of shape (K,) or (n, K) with K >= 2", f"shape {array.shape}", "one per class"
        )
    if not ((array > 0) & (array < 1e15)).all():
        received = array[~((array > 0) & (array < 1e15))][0]
        raise InputError(name, "finite parameters above 0", f"{received:g}", "see miaudit.disclosure.dirichlet.fit")
    return array


def log_beta(alpha: FloatArray) -> FloatArray:
    """Return the logarithm of the multivariate Beta function along the last axis, under Eq. (25)."""
    result: FloatArray = special.gammaln(alpha).sum(axis=-1) - special.gammaln(alpha.sum(axis=-1))
    return result


def log_density(p: ArrayLike, alpha: ArrayLike) -> FloatArray:
    """Return the log density (nats) of confidence vectors, uncertainty-mia, Eq. (25).

    Parameters
    ----------
    p : array (..., K)
        Probabilities; a zero has density 0 or infinity: smooth first (:func:`miaudit.attacks.dirichlet_fit.smooth`).
    alpha : array (K,) or (..., K), above 0

    Examples
    --------
    >>> log_density([0.2, 0.3, 0.5], [1.0, 1.0, 1.0]).round(4).item()  # log 2: uniform on the triangle
    0.6931
    """
    shape = parameters("alpha", alpha)
    result: FloatArray = special.xlogy(shape - 1, np.asarray(p, dtype=np.float64)).sum(axis=-1) - log_beta(shape)
    return result


def sample(alpha: ArrayLike, n: int, *, rng: np.random.Generator) -> FloatArray:
    """Draw confidence vectors: (n, K) for parameters (K,), (records, n, K) for parameters (records, K).

    By logarithms of gamma variates, so that parameters far below 1 give no 0/0.

    Examples
    --------
    >>> sample([2.0, 1.0, 1.0], 20_000, rng=np.random.default_rng(0)).mean(axis=0).round(2).tolist()
    [0.5, 0.25, 0.25]
    """
    shape = parameters("alpha", alpha)[..., None, :]
    size = (*shape.shape[:-2], n, shape.shape[-1])
    # If g ~ Gamma(a + 1) and u is uniform, g u^(1/a) ~ Gamma(a).
    logs = np.log(rng.standard_gamma(shape + 1, size=size)) + np.log1p(-rng.random(size)) / shape
    result: FloatArray = special.softmax(logs, axis=-1)
    return result


def divergence(alpha: ArrayLike, beta: ArrayLike) -> FloatArray:
    """Return the Kullback-Leibler divergence D(Dirichlet(alpha) || Dirichlet(beta)) in nats, Eq. (42).

    Parameters
    ----------
    alpha, beta : arrays (..., K), above 0

    Returns
    -------
    array (...), 0 or more

    Examples
    --------
    >>> divergence([2.0, 1.0], [1.0, 1.0]).round(4).item()  # of 2 x from 1: log 2 - 1/2
    0.1931
    """
    a, b = parameters("alpha", alpha), parameters("beta", beta)
    score = special.digamma(a) - special.digamma(a.sum(axis=-1, keepdims=True))
    result: FloatArray = log_beta(b) - log_beta(a) + ((a - b) * score).sum(axis=-1)
    return np.maximum(result, 0.0)


def marginal(alpha: ArrayLike, label: ArrayLike = 0) -> FloatArray:
    """Return the Beta parameters (..., 2) of one label's confidence: its own, and the others' sum (E3).

    Parameters
    ----------
    alpha : array (K,) or (n, K)
    label : int, or array (n,) of int

    Examples
    --------
    >>> marginal([2.0, 0.5, 0.5], 0).tolist()
    [2.0, 1.0]
    """
    shape, which = parameters("alpha", alpha), np.asarray(label)
    if which.dtype.kind not in "iu" or (which < 0).any() or (which >= shape.shape[-1]).any():
        raise InputError("label", f"classes from 0 to {shape.shape[-1] - 1}", repr(label), "count classes from 0")
    if which.ndim > 1 or (which.ndim == 1 and shape.shape[:-1] not in ((), which.shape)):
        raise InputError("label", "one label, or one for each record", f"shape {which.shape}", "pass shape (n,)")
    shape = np.broadcast_to(shape, (*which.shape, shape.shape[-1])) if shape.ndim == 1 else shape
    own = np.take_along_axis(shape, np.broadcast_to(which, shape.shape[:-1])[..., None], axis=-1)[..., 0]
    mine = np.arange(shape.shape[-1]) == np.broadcast_to(which, shape.shape[:-1])[..., None]
    others: FloatArray = np.where(mine, 0.0, shape).sum(axis=-1)  # not total - own: that cancels for sure models
    return np.stack([own, others], axis=-1)


@dataclass(frozen=True, eq=False)
class Goodness:
    """Goodness of fit of Dirichlet laws to one label's confidence.

    Attributes
    ----------
    distance : array (n,), in [0, 1]
        Largest distance between the empirical distribution of the label's confidence and its Beta marginal
        (Kolmogorov's). For parameters that were fitted to the same outputs it is about 0.6 / sqrt(models) when the law
        is right.
    pooled : float, in [0, 1]
        The same distance between the uniform law and the probability transforms of all records together.
    p_value : array (n,) or None
        Of the fitted law, by a parametric bootstrap that fits again; None without replicates.
    """

    distance: FloatArray
    pooled: float
    p_value: FloatArray | None


def goodness(
    p: ArrayLike,
    alpha: ArrayLike,
    mask: ArrayLike | None = None,
    *,
    label: ArrayLike = 0,
    replicates: int = 0,
    smoothing: float = SMOOTHING,
    rng: np.random.Generator | None = None,
) -> Goodness:
    """Compare the confidence of a label with the Beta marginal of fitted laws.

    Parameters
    ----------
    p, mask : as in :func:`fit`
    alpha : array (n, K), as fitted
    label : int, or array (n,)
    replicates : int
        Simulated data sets of the parametric bootstrap; 0: no p-values. Costs that many fits.
    smoothing : as in the fit
    rng : numpy.random.Generator, required with replicates

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> p = rng.dirichlet([4.0, 1.0, 0.5], size=(50, 40))
    >>> bool(0.05 < goodness(p, fit(p).alpha).distance.mean() < 0.13)
    True
    """
    outputs = np.asarray(p)
    counted, laws = check(outputs, mask, smoothing), parameters("alpha", alpha)
    if laws.shape != (len(outputs), outputs.shape[2]):
        expected = f"parameters of shape {(len(outputs), outputs.shape[2])}"
        raise InputError("alpha", expected, f"shape {laws.shape}", "pass what fit returned for the same outputs")
    transforms = _transforms(outputs, laws, label)

    def simulated(rng: np.random.Generator) -> FloatArray:
        sampled = sample(laws, outputs.shape[1], rng=rng)
        return _transforms(sampled, fit(sampled, counted, smoothing=smoothing).alpha, label)

    return goodness_of(transforms, counted, simulated, replicates, rng)


def goodness_of(
    u: FloatArray,
    counted: BoolArray,
    simulated: Callable[[np.random.Generator], FloatArray],
    replicates: int,
    rng: np.random.Generator | None,
) -> Goodness:
    """Return the goodness of fit of laws, by the probability transforms of the outputs under them.

    Parameters
    ----------
    u : array (n, M), uniform in each row if the laws are right
    counted : bools (n, M)
    simulated : transforms (n, M) of one data set from the fitted laws, under the laws fitted to that data set
    replicates, rng : as in :func:`goodness`
    """
    distance = kolmogorov(u, counted)
    pooled = float(kolmogorov(u[counted][None, :], np.ones((1, int(counted.sum())), dtype=np.bool_))[0])
    if not replicates:
        return Goodness(distance, pooled, None)
    if rng is None:
        raise InputError("rng", "a numpy Generator where replicates are drawn", "None", "pass np.random.default_rng(0)")
    beyond = np.zeros(len(u))
    for _ in range(replicates):
        beyond += kolmogorov(simulated(rng), counted) >= distance
    return Goodness(distance, pooled, (1 + beyond) / (1 + replicates))


def _transforms(p: NDArray[np.generic], alpha: FloatArray, label: ArrayLike) -> FloatArray:
    """Return the probability transforms (n, M) of a label's confidence, from the tail with more digits."""
    own, others = np.moveaxis(marginal(alpha, label), -1, 0)
    which = np.broadcast_to(np.asarray(label), len(p))
    confidence = np.take_along_axis(p, which[:, None, None], axis=2)[..., 0].astype(np.float64)
    rest = np.where(np.arange(p.shape[2]) == which[:, None, None], 0.0, p).sum(axis=2, dtype=np.float64)
    high = 1 - special.betainc(others[:, None], own[:, None], np.clip(rest, 0, 1))
    low = special.betainc(own[:, None], others[:, None], np.clip(confidence, 0, 1))
    result: FloatArray = np.where(confidence > 0.5, high, low)
    return result


def kolmogorov(u: FloatArray, counted: BoolArray) -> FloatArray:
    """Return the Kolmogorov distances (n,) from the uniform law of the counted numbers in each row (n, M)."""
    count = counted.sum(axis=1, keepdims=True)
    ordered = np.sort(np.where(counted, u, np.inf), axis=1)
    rank = np.arange(1, u.shape[1] + 1)
    inside = rank <= count
    with np.errstate(invalid="ignore"):
        above, below = rank / count - ordered, ordered - (rank - 1) / count
    worst: FloatArray = np.where(inside, np.maximum(above, below), 0.0).max(axis=1)
    return worst

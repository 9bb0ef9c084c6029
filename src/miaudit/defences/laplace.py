"""Bayesian learning of a network's last layer by Laplace's approximation (MacKay 1992; Daxberger et al. 2021)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy import special

from miaudit.arrays import Float32Array, FloatArray, IndexArray
from miaudit.defences.ensemble import OnBase
from miaudit.errors import InputError
from miaudit.errors.options import Option, check_options
from miaudit.models.outputs import checked_outputs
from miaudit.models.protocol import Target
from miaudit.models.torch_target import TorchTarget

__all__ = ["LastLayerLaplace", "Posterior", "curvature_of_classes", "full_curvature", "kronecker_curvature"]

_LARGEST_FULL = 2048  # parameters whose curvature is kept as one matrix, unless asked for otherwise
_PRECISIONS = (1e-6, 1e6)  # of the prior; evidence may rise without end
_ITERATIONS = 200
_CLOSE = 1e-6


@dataclass(frozen=True, eq=False)
class LastLayerLaplace(OnBase):
    """A network whose last layer is drawn from its approximate posterior several times, and the mean probability.

    The layers below stay as trained. The posterior of the last layer's weights is a Gaussian around the trained ones,
    whose precision is the curvature of the loss on the training records plus that of a Gaussian prior around 0. For
    this layer the generalised Gauss-Newton matrix is the Hessian itself.

    Parameters
    ----------
    base : a network, trained here, that ends in a linear layer
    draws : of the weights, 1 or more. 1 returns the outputs of one draw
    curvature : "full", one matrix of all weights; "kronecker", a product of one over the features and one over the
        classes, an approximation; "auto": full up to 2,048 weights
    prior_precision : of the prior, above 0; by default the one with the largest evidence (MacKay 1992)

    Examples
    --------
    >>> from miaudit.models.nets import mlp
    >>> from miaudit.models.train_config import TrainConfig
    >>> rng = np.random.default_rng(0)
    >>> x, y = rng.normal(size=(60, 2)), np.arange(60) % 2
    >>> target = LastLayerLaplace(TorchTarget(mlp(2, 2, (4,)), TrainConfig(epochs=2)), draws=5)
    >>> target.outputs(target.fit(x, y, np.arange(40), seed=0), x).shape
    (60, 2)
    """

    base: TorchTarget
    draws: Annotated[int, Option(ge=1, allowed="a whole number from 1 up", next_step="20 is the default")] = 20
    curvature: Annotated[Literal["auto", "full", "kronecker"], Option(next_step="auto is the default")] = "auto"
    prior_precision: Annotated[float | None, Option(gt=0, next_step="leave it out for the largest evidence")] = None

    def __post_init__(self) -> None:
        check_network(self.base)
        check_options(self)

    @property
    def name(self) -> str:
        """The base's name, and how many draws."""
        return f"{self.base.name} with a Bayesian last layer of {self.draws} draw{'s' if self.draws > 1 else ''}"

    def identity(self) -> str:
        """The base's, the draws and the posterior."""
        return f"laplace {self.draws} {self.curvature} {self.prior_precision} {self.base.identity()}"

    def fit(self, x: Any, y: NDArray[Any], rows: IndexArray, *, seed: int) -> tuple[Any, FloatArray]:
        """Train the network; return its weights and draws (draws, C, d + 1) of the last layer's."""
        from miaudit.models.last_layer import last_layer  # noqa: PLC0415 - torch is loaded only where it is used

        own, children = np.random.SeedSequence(seed).spawn(2)
        state = self.base.fit(x, y, rows, seed=int(own.generate_state(1)[0]))
        layer = last_layer(self.base.build, state, np.asarray(x)[rows], device=self.base.config.device)
        posterior = Posterior.of(layer.weights, layer.features, self.curvature, self.prior_precision)
        heads = posterior.draw(self.draws, rng=np.random.default_rng(children))
        if not layer.biased:
            heads[..., -1] = 0.0
        return state, heads

    def outputs(self, fitted: tuple[Any, FloatArray], x: Any) -> Float32Array:
        """Logarithm of the mean probability over the draws (n, C)."""
        from miaudit.models.last_layer import last_layer  # noqa: PLC0415

        state, heads = fitted
        features = last_layer(self.base.build, state, x, device=self.base.config.device).features
        return checked_outputs(mean_log_probability(features, heads), len(features), self.name)


def check_network(base: Any) -> None:
    """Refuse what is no network that is trained here and gives classes."""
    if not isinstance(base, TorchTarget) or base.kind != "logits":
        received = base.name if isinstance(base, Target) else type(base).__name__
        hint = "the posterior is one of its weights"
        raise InputError("base", "a network that is trained here, of classes", received, hint)


def mean_log_probability(features: FloatArray, drawn: FloatArray) -> FloatArray:
    """Return the logarithm of the mean probability (n, C) over draws (S, C, D) of weights, from features (n, D)."""
    total = np.full((len(features), drawn.shape[1]), -np.inf)
    for weights in drawn:  # one after another: all at once would take S times the memory
        total = np.logaddexp(total, special.log_softmax(features @ weights.T, axis=1))
    return np.asarray(total - np.log(len(drawn)))


@dataclass(frozen=True, eq=False)
class Posterior:
    """A Gaussian of weights around the trained ones, in the directions in which its precision is diagonal.

    Attributes
    ----------
    mean : array (C, D), the trained weights
    curvature : Curvature, of the loss summed over the training records
    prior_precision : above 0
    """

    mean: FloatArray
    curvature: FullCurvature | KroneckerCurvature
    prior_precision: float

    @classmethod
    def of(
        cls, weights: FloatArray, features: FloatArray, curvature: str = "auto", prior_precision: float | None = None
    ) -> Posterior:
        """Return that of weights (C, D) with the features (n, D) of the training records."""
        by_class = curvature_of_classes(special.softmax(features @ weights.T, axis=1))
        full = curvature == "full" or (curvature == "auto" and weights.size <= _LARGEST_FULL)
        of_loss = full_curvature(features, by_class) if full else kronecker_curvature(features, by_class)
        if prior_precision is None:
            prior_precision = largest_evidence(weights, of_loss.values)
        return cls(weights, of_loss, float(prior_precision))

    def draw(self, count: int, *, rng: np.random.Generator) -> FloatArray:
        """Draw weights (count, C, D)."""
        scale = 1 / np.sqrt(self.curvature.values + self.prior_precision)
        return np.stack([self.mean + self.curvature.turned(scale * rng.normal(size=scale.shape)) for _ in range(count)])


@dataclass(frozen=True, eq=False)
class FullCurvature:
    """Eigenvalues (C D,) and eigenvectors (C D, C D) of the curvature in all weights, class by class."""

    values: FloatArray
    vectors: FloatArray
    classes: int

    def turned(self, amounts: FloatArray) -> FloatArray:
        """Return weights (C, D) of amounts (C D,) along the eigenvectors."""
        return (self.vectors @ amounts).reshape(self.classes, -1)


@dataclass(frozen=True, eq=False)
class KroneckerCurvature:
    """Eigenvalues (C, D) of a Kronecker product, and eigenvectors of its factors over classes and features."""

    values: FloatArray
    of_classes: FloatArray
    of_features: FloatArray

    def turned(self, amounts: FloatArray) -> FloatArray:
        """Return weights (C, D) of amounts (C, D) along the products of eigenvectors."""
        return np.asarray(self.of_classes @ amounts @ self.of_features.T)


def curvature_of_classes(p: FloatArray) -> FloatArray:
    """Return diag(p) - p p' (n, C, C), the Hessian of the cross-entropy in the logits, for probabilities (n, C).

    Examples
    --------
    >>> curvature_of_classes(np.array([[0.5, 0.5]])).tolist()
    [[[0.25, -0.25], [-0.25, 0.25]]]
    """
    return np.asarray(p[:, :, None] * (np.eye(p.shape[1]) - p[:, None, :]))


def full_curvature(features: FloatArray, by_class: FloatArray) -> FullCurvature:
    """Return the sum over records of by_class (n, C, C) times the outer products of features (n, D), by eigenvalues."""
    width, classes = features.shape[1], by_class.shape[1]
    total = np.empty((classes, width, classes, width))
    for k in range(classes):
        for other in range(k + 1):
            total[k, :, other] = total[other, :, k] = (features * by_class[:, k, other, None]).T @ features
    values, vectors = np.linalg.eigh(total.reshape(classes * width, -1))
    return FullCurvature(np.maximum(values, 0.0), vectors, classes)


def kronecker_curvature(features: FloatArray, by_class: FloatArray) -> KroneckerCurvature:
    """Return the mean of by_class times the sum of outer products of features (Ritter et al. 2018), by eigenvalues."""
    small, of_classes = np.linalg.eigh(by_class.mean(axis=0))
    large, of_features = np.linalg.eigh(features.T @ features)
    return KroneckerCurvature(np.outer(np.maximum(small, 0.0), np.maximum(large, 0.0)), of_classes, of_features)


def largest_evidence(weights: FloatArray, curvature: FloatArray) -> float:
    """Return the prior precision tau with the largest Laplace evidence, by MacKay's fixed point (1992, Eq. 4.9).

    tau = gamma / |w|^2, with gamma = sum of h / (h + tau) the number of well-determined weights.

    Parameters
    ----------
    weights : array, the trained ones
    curvature : array, eigenvalues h of the curvature, 0 or more

    Examples
    --------
    >>> round(largest_evidence(np.array([2.0, 1.0]), np.array([1e9, 1e9])), 3)  # both determined: 2 / 5
    0.4
    """
    square, tau = max(float((weights**2).sum()), 1e-12), 1.0
    for _ in range(_ITERATIONS):
        before, gamma = tau, float((curvature / (curvature + tau)).sum())
        tau = float(np.clip(gamma / square, *_PRECISIONS))
        if abs(tau - before) <= _CLOSE * before:
            break
    return tau

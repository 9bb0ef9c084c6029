"""Bayesian learning of all weights of a network by SWAG (Maddox et al. 2019): draws around the path of its training."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray
from scipy import special

from miaudit.arrays import Float32Array, FloatArray, IndexArray
from miaudit.defences.ensemble import OnBase
from miaudit.defences.laplace import check_network
from miaudit.errors import InputError
from miaudit.errors.options import Option, check_options
from miaudit.models.outputs import checked_outputs
from miaudit.models.torch_target import TorchTarget

__all__ = ["Moments", "Swag"]

_LEAST = 2
Several = Annotated[int, Option(ge=_LEAST, allowed="a whole number from 2 up", next_step="10 is the default")]


@dataclass(frozen=True, eq=False)
class Swag(OnBase):
    """A network that is trained on for some epochs at a constant rate, and the mean probability over draws of weights.

    The weights at the end of each of these epochs give a mean, variances and a few directions of a Gaussian, from which
    the draws are made. The momentum of the optimiser starts anew in each of these epochs.

    Parameters
    ----------
    base : a network without running statistics, trained here; not with DP-SGD or pruning
    draws : of the weights, 1 or more. 1 returns the outputs of one draw
    epochs : more epochs whose weights are collected, 2 or more
    rank : how many of the last of them give directions, 2 to ``epochs``
    learning_rate : in these epochs; by default the base's

    Examples
    --------
    >>> from miaudit.models.nets import mlp
    >>> from miaudit.models.train_config import TrainConfig
    >>> rng = np.random.default_rng(0)
    >>> x, y = rng.normal(size=(60, 2)), np.arange(60) % 2
    >>> target = Swag(TorchTarget(mlp(2, 2, (4,)), TrainConfig(epochs=2)), draws=3, epochs=3, rank=2)
    >>> target.outputs(target.fit(x, y, np.arange(40), seed=0), x).shape
    (60, 2)
    """

    base: TorchTarget
    draws: Annotated[int, Option(ge=1, allowed="a whole number from 1 up", next_step="20 is the default")] = 20
    epochs: Several = 10
    rank: Several = 10
    learning_rate: Annotated[float | None, Option(gt=0, next_step="leave it out for that of the training")] = None

    def __post_init__(self) -> None:
        check_network(self.base)
        check_options(self)
        if self.rank > self.epochs:
            hint = "each direction is an epoch's weights less their mean"
            raise InputError("rank", f"2 to epochs, which is {self.epochs}", str(self.rank), hint)
        for name in ("private", "pruning"):
            if getattr(self.base.config, name) is not None:
                hint = "leave one out: more epochs would undo it"
                raise InputError("base", f"a training without {name}", f"one with {name}", hint)

    @property
    def name(self) -> str:
        """The base's name, and how many draws."""
        return f"{self.base.name} with SWAG of {self.draws} draw{'s' if self.draws > 1 else ''}"

    def identity(self) -> str:
        """The base's, the draws and the epochs."""
        return f"swag {self.draws} {self.epochs} {self.rank} {self.learning_rate} {self.base.identity()}"

    def fit(self, x: Any, y: NDArray[Any], rows: IndexArray, *, seed: int) -> list[dict[str, Any]]:
        """Train the network, collect its weights, and return draws of them, by name."""
        import torch  # noqa: PLC0415 - torch is loaded only where it is used

        own, later, drawing = np.random.SeedSequence(seed).spawn(3)
        state = self.base.fit(x, y, rows, seed=int(own.generate_state(1)[0]))
        trainable = {name for name, _ in self.base.build().named_parameters()}
        if set(state) != trainable:
            received = f"one with {sorted(set(state) - trainable)[0]}"
            hint = "they would belong to other weights: build it with normalisation by group, or none"
            raise InputError("base", "a network without running statistics", received, hint)
        moments = Moments.of(
            (_flat(one) for one in self._path(x, y, rows, state, [int(i) for i in later.generate_state(self.epochs)])),
            self.rank,
        )
        rng = np.random.default_rng(drawing)
        return [_by_name(torch, moments.draw(rng=rng), state) for _ in range(self.draws)]

    def _path(
        self, x: Any, y: NDArray[Any], rows: IndexArray, state: Mapping[str, Any], seeds: list[int]
    ) -> Iterator[Mapping[str, Any]]:
        """Yield the weights after each more epoch."""
        rate = self.base.config.learning_rate if self.learning_rate is None else self.learning_rate
        config = replace(self.base.config, epochs=1, schedule="constant", learning_rate=rate, early_stopping=None)
        for seed in seeds:
            start = dict(state)

            def continued(start: dict[str, Any] = start) -> Any:
                net = self.base.build()
                net.load_state_dict(start)
                return net

            state = TorchTarget(continued, config, called=self.base.name).fit(x, y, rows, seed=seed)
            yield state

    def outputs(self, fitted: list[dict[str, Any]], x: Any) -> Float32Array:
        """Logarithm of the mean probability over the draws (n, C)."""
        logs = [special.log_softmax(self.base.outputs(one, x).astype(np.float64), axis=1) for one in fitted]
        return checked_outputs(special.logsumexp(logs, axis=0) - np.log(len(logs)), len(x), self.name)


@dataclass(frozen=True, eq=False)
class Moments:
    """A Gaussian of P weights from weights along a path (Maddox et al. 2019, Algorithm 1 and Eq. 1).

    Attributes
    ----------
    mean, variance : arrays (P,), of the path
    deviations : array (rank, P), the last weights, each less the mean of the path up to it
    """

    mean: FloatArray
    variance: FloatArray
    deviations: FloatArray

    @classmethod
    def of(cls, path: Iterator[FloatArray], rank: int) -> Moments:
        """Return those of a path, of which only ``rank`` weights are kept at a time.

        Examples
        --------
        >>> moments = Moments.of(iter(np.array([[0.0], [2.0], [4.0]])), 2)
        >>> moments.mean.tolist(), moments.variance.round(3).tolist(), moments.deviations.tolist()
        ([2.0], [2.667], [[1.0], [2.0]])
        """
        mean = square = np.zeros(1)
        deviations: list[FloatArray] = []
        for i, weights in enumerate(path):
            mean = (i * mean + weights) / (i + 1)
            square = (i * square + weights**2) / (i + 1)
            deviations = [*deviations, weights - mean][-rank:]
        return cls(mean, np.maximum(square - mean**2, 0.0), np.stack(deviations))

    @property
    def covariance(self) -> FloatArray:
        """Covariance of the draws (P, P): half of the variances, half of that of the deviations."""
        low = self.deviations.T @ self.deviations / (2 * (len(self.deviations) - 1))
        return np.asarray(np.diag(self.variance / 2) + low)

    def draw(self, *, rng: np.random.Generator) -> FloatArray:
        """Draw weights (P,)."""
        own = np.sqrt(self.variance / 2) * rng.normal(size=len(self.mean))
        along = rng.normal(size=len(self.deviations)) @ self.deviations
        return np.asarray(self.mean + own + along / np.sqrt(2 * (len(self.deviations) - 1)))


def _flat(state: Mapping[str, Any]) -> FloatArray:
    return np.concatenate([one.numpy().astype(np.float64).ravel() for one in state.values()])


def _by_name(torch: Any, weights: FloatArray, like: Mapping[str, Any]) -> dict[str, Any]:
    parts = np.split(weights.astype(np.float32), np.cumsum([one.numel() for one in like.values()])[:-1])
    return {
        name: torch.from_numpy(part.copy()).reshape(one.shape)
        for (name, one), part in zip(like.items(), parts, strict=True)
    }

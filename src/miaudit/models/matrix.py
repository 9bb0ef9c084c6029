"""Parameters of equal networks in one matrix, with its optimisers and pruning."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from miaudit.arrays import IntArray
from miaudit.errors import InputError
from miaudit.models.weights import State


@dataclass(frozen=True, eq=False)
class Weights:
    """The trained parameters of M equal networks in one matrix.

    Attributes
    ----------
    nets : the networks; the parameters of the first are views of the first row
    parameters : of the first network, by name
    values : (M, P)
    """

    nets: list[nn.Module]
    parameters: dict[str, nn.Parameter]
    values: Tensor

    @classmethod
    def of(cls, nets: list[nn.Module]) -> Weights:
        """Gather the parameters of equal networks; the first network then uses its row."""
        rows = [torch.cat([p.detach().reshape(-1) for _, p in trained_parameters(net)]) for net in nets]
        weights = cls(nets, dict(trained_parameters(nets[0])), torch.stack(rows))
        for name, view in weights.views().items():
            weights.parameters[name].data = view[0]
        return weights

    def views(self) -> State:
        """Return each parameter of all networks, (M, *shape), without a copy."""
        sizes = [p.numel() for p in self.parameters.values()]
        parts = torch.split(self.values, sizes, dim=1)
        shapes = [p.shape for p in self.parameters.values()]
        return {
            name: part.reshape(len(part), *shape)
            for name, part, shape in zip(self.parameters, parts, shapes, strict=True)
        }

    def states(self) -> list[State]:
        """Return the weights of each network, on the CPU, independent of each other."""
        views = self.views()
        for m, net in enumerate(self.nets):
            if m:
                for name, p in trained_parameters(net):
                    p.data = views[name][m]
        return [{name: t.detach().cpu().clone() for name, t in net.state_dict().items()} for net in self.nets]


class Sgd:
    """Stochastic gradient descent with momentum and L2 weight decay, as ``torch.optim.SGD``."""

    def __init__(self, values: Tensor, *, momentum: float, decay: float) -> None:
        self._momentum, self._decay = momentum, decay
        self._values, self._velocity = values, torch.zeros_like(values)

    def step(self, slopes: Tensor, rates: Tensor) -> None:
        """Move the weights (M, P) against the slopes (M, P), each model at its own rate (M, 1)."""
        if self._decay:
            slopes = slopes.add(self._values, alpha=self._decay)
        self._velocity.mul_(self._momentum).add_(slopes)
        self._values.sub_(self._velocity * rates)


class Adam:
    """Adam with decoupled weight decay, as ``torch.optim.AdamW``."""

    _SECOND, _SMALL = 0.999, 1e-8

    def __init__(self, values: Tensor, *, momentum: float, decay: float) -> None:
        self._momentum, self._decay, self._steps = momentum, decay, 0
        self._values, self._mean, self._square = values, torch.zeros_like(values), torch.zeros_like(values)

    def step(self, slopes: Tensor, rates: Tensor) -> None:
        """Move the weights (M, P) against the slopes (M, P), each model at its own rate (M, 1)."""
        self._steps += 1
        self._mean.lerp_(slopes, 1 - self._momentum)
        self._square.mul_(self._SECOND).addcmul_(slopes, slopes, value=1 - self._SECOND)
        scale = (self._square / (1 - self._SECOND**self._steps)).sqrt_().add_(self._SMALL)
        if self._decay:
            self._values.mul_(1 - rates * self._decay)
        self._values.sub_(self._mean / (1 - self._momentum**self._steps) / scale * rates)


OPTIMISERS: dict[str, type[Sgd] | type[Adam]] = {"sgd": Sgd, "adam": Adam}


class Pruned:
    """Which weights of M networks stay 0.

    Parameters
    ----------
    weights : of the networks
    sparsity : share of a network's weights with two axes or more that becomes 0
    at : after which step each network is pruned (M,), steps counted from 0

    Raises
    ------
    InputError
        For a network without such weights.
    """

    def __init__(self, weights: Weights, sparsity: float, at: IntArray) -> None:
        sizes = [(p.numel(), p.ndim > 1) for p in weights.parameters.values()]
        eligible = np.repeat([wide for _, wide in sizes], [size for size, _ in sizes])
        if not eligible.any():
            hint = "leave out pruning, or unfreeze a layer"
            raise InputError("pruning", "a network with weights of two axes or more to train", "one without", hint)
        self._values, self._at = weights.values, at
        self._eligible = torch.from_numpy(np.flatnonzero(eligible)).to(weights.values.device)
        self._count = round(sparsity * len(self._eligible))
        self._kept: Tensor | None = None

    def after(self, step: int) -> None:
        """Prune the networks due at this step, and reset the pruned weights of the others to 0.

        The weights of least magnitude go, each network's over all its layers together.
        """
        for m in np.flatnonzero(self._at == step):
            if self._kept is None:
                self._kept = torch.ones_like(self._values)
            order = torch.argsort(self._values[m, self._eligible].abs(), stable=True)
            self._kept[m, self._eligible[order[: self._count]]] = 0
        if self._kept is not None:
            self._values.mul_(self._kept)


def trained_parameters(net: nn.Module) -> list[tuple[str, nn.Parameter]]:
    """Return the parameters with gradients, by name; refuse a network without any."""
    found = [(name, p) for name, p in net.named_parameters() if p.requires_grad]
    if not found:
        raise InputError("factory", "a network with parameters to train", "one without", "unfreeze a layer")
    return found

"""The last linear layer of a network: its weights, and what it receives of each record."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor, nn

from miaudit.arrays import FloatArray
from miaudit.errors import InputError
from miaudit.models.devices import device_of, fixed_order
from miaudit.models.loop import kept, numbers
from miaudit.models.weights import Factory, network

__all__ = ["LastLayer", "last_layer"]

_SAME = 1e-4  # of the largest logit, by which the layer's own outputs may differ from the network's


@dataclass(frozen=True, eq=False)
class LastLayer:
    """What a network's last layer makes its logits of.

    Attributes
    ----------
    weights : array (C, d + 1), the bias (0 if there is none) behind the weights
    features : array (n, d + 1), what the layer receives of n records, with a 1 behind it
        The logits are ``features @ weights.T``.
    biased : whether the layer has a bias
    """

    weights: FloatArray
    features: FloatArray
    biased: bool


def last_layer(
    factory: Factory, state: Mapping[str, Tensor], x: ArrayLike | Tensor, *, batch: int = 1024, device: str = "auto"
) -> LastLayer:
    """Return the last linear layer of a trained network and its inputs for some records, in evaluation mode.

    Parameters
    ----------
    factory, state, x, batch, device : as of :func:`miaudit.models.train.logits`

    Raises
    ------
    InputError
        For a network whose logits are not the outputs of its last linear layer.

    Examples
    --------
    >>> from miaudit.models.nets import mlp
    >>> net = mlp(3, 2, (4,))()
    >>> found = last_layer(mlp(3, 2, (4,)), net.state_dict(), np.ones((5, 3)))
    >>> found.weights.shape, found.features.shape
    ((2, 5), (5, 5))
    """
    place = device_of(device)
    net = network(factory, state).to(place)
    layers = [module for module in net.modules() if isinstance(module, nn.Linear)]
    if not layers:
        raise _refused("one without a linear layer")
    top = layers[-1]
    with fixed_order(place):
        inputs, logits = _watched(net, top, torch.split(kept(x, net), batch), place)
    bias = torch.zeros(top.out_features) if top.bias is None else top.bias.detach().cpu()
    weights = torch.cat([top.weight.detach().cpu(), bias[:, None]], dim=1).double().numpy()
    layer = LastLayer(weights, np.column_stack([inputs, np.ones(len(inputs))]), top.bias is not None)
    expected = layer.features @ weights.T
    if expected.shape != logits.shape or np.abs(expected - logits).max() > _SAME * max(1.0, np.abs(logits).max()):
        raise _refused("one that changes its outputs")
    return layer


def _watched(net: nn.Module, layer: nn.Linear, parts: Sequence[Tensor], place: torch.device) -> tuple[Any, Any]:
    """Return what a layer receives of all records (n, d), and the network's outputs (n, C)."""
    received: list[Tensor] = []
    inputs, outputs = [], []
    with layer.register_forward_pre_hook(lambda _, given: received.append(given[0])), torch.inference_mode():
        for part in parts:
            received.clear()
            outputs.append(net(numbers(part.to(place))).double().cpu())
            if len(received) != 1 or received[0].ndim != 2:
                raise _refused("one that calls it otherwise than once for each record")
            inputs.append(received[0].double().cpu())
    return torch.cat(inputs).numpy(), torch.cat(outputs).numpy()


def _refused(received: str) -> InputError:
    hint = "let the network return the outputs of a torch.nn.Linear as its logits"
    return InputError("base", "a network that ends in a linear layer", received, hint)

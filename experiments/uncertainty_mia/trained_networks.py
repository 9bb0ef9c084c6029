"""The convolutional network of uncertainty-mia: two convolutions with pooling, 128 units, and the classes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from torch import nn

from miaudit.models import nets


@dataclass(frozen=True)
class TwoConvolutions:
    """A network to be built: 32 and 64 filters of 3 x 3 with 2 x 2 pooling behind each, 128 units, the classes.

    The paper names the layers and, for MNIST, the filters; not their size, the padding (none here) or the initial
    weights (PyTorch's here).

    Attributes
    ----------
    channels, side : of the square images
    classes : of the output
    activation : "relu", or "tanh" as the paper has for CIFAR-10
    """

    channels: int
    side: int
    classes: int
    activation: Literal["relu", "tanh"] = "relu"

    def __call__(self) -> nn.Module:
        """Build one, with fresh weights."""
        acting = {"relu": nn.ReLU, "tanh": nn.Tanh}[self.activation]
        left = ((self.side - 2) // 2 - 2) // 2
        return nn.Sequential(
            *(nn.Conv2d(self.channels, 32, 3), acting(), nn.MaxPool2d(2)),
            *(nn.Conv2d(32, 64, 3), acting(), nn.MaxPool2d(2)),
            *(nn.Flatten(), nn.Linear(64 * left * left, 128), acting(), nn.Linear(128, self.classes)),
        )


Built = nets.Network | TwoConvolutions


def network(settings: Mapping[str, Any]) -> Built:
    """Build the network that ``network`` in trained.yaml describes."""
    described = dict(settings["network"])
    name = described.pop("name")
    if name == "two_convolutions":
        return TwoConvolutions(**described)
    found: nets.Network = getattr(nets, name)(**described)
    return found

"""The few networks that audits and experiments need, without batch normalisation unless it is asked for.

Membership, and DP-SGD, treat records one at a time; batch normalisation makes the output for a record depend on the
others of its batch. These networks use group normalisation, which does not. ``resnet16`` can have the other too, since
what is published about residual networks mostly has: see :func:`resnet16` for what differs.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from torch import Tensor, nn

from miaudit.errors import InputError, nearest
from miaudit.errors.checks import whole

_GROUPS = 8


@dataclass(frozen=True)
class Network:
    """A network to be built: each call builds one, with fresh weights from torch's generator.

    Equal descriptions are equal, hashable and picklable, so that they travel to processes and into fingerprints.

    Attributes
    ----------
    name : of the function in this module that describes it
    arguments : its arguments, name and value
    """

    name: str
    arguments: tuple[tuple[str, Any], ...]

    def __call__(self) -> nn.Module:
        """Build one, with fresh weights."""
        return _BUILDERS[self.name](**dict(self.arguments))

    def __str__(self) -> str:
        return f"{self.name}({', '.join(f'{name}={value}' for name, value in self.arguments)})"


def mlp(inputs: int, classes: int, hidden: tuple[int, ...] = (128,), dropout: float = 0.0) -> Network:
    """Describe fully connected layers with ReLU between them.

    Parameters
    ----------
    inputs : numbers in a record; records of other shapes are flattened first
    classes : of the output, logits (n, classes)
    hidden : width of each hidden layer; empty for logistic regression
    dropout : share of the numbers behind each hidden layer that is dropped in training, in [0, 1)

    Raises
    ------
    InputError
        Unless all sizes are whole numbers from 1 up and dropout is in its range, 0 without hidden layers.

    Examples
    --------
    >>> factory = mlp(446, 30, hidden=(128,))
    >>> print(factory)
    mlp(inputs=446, classes=30, hidden=(128,))
    >>> sum(p.numel() for p in factory().parameters())
    61086
    """
    widths = tuple(whole(f"hidden[{i}]", width, "it is the size of a layer") for i, width in enumerate(hidden))
    if dropout and not widths:
        raise InputError("dropout", "0 without hidden layers", repr(dropout), "name widths in hidden")
    sizes = {
        "inputs": whole("inputs", inputs, "it is the size of a layer"),
        "classes": whole("classes", classes, "it is the size of a layer"),
    }
    return _describe("mlp", **sizes, hidden=widths, **_dropping(dropout))


def small_convnet(channels: int, classes: int, width: int = 16, dropout: float = 0.0) -> Network:
    """Describe three 3 x 3 convolutions with group normalisation, ReLU and pooling, and one linear layer.

    Parameters
    ----------
    channels : of the images (n, channels, height, width), each side at least 4
    classes : of the output
    width : channels of the first convolution; the others have two and four times as many
    dropout : share of the channels behind each pooling that is dropped in training, in [0, 1) (Tompson et al., 2015)

    Examples
    --------
    >>> import torch
    >>> small_convnet(1, 10, width=8)()(torch.zeros(2, 1, 28, 28)).shape
    torch.Size([2, 10])
    """
    sizes = {"channels": channels, "classes": classes, "width": width}
    return _describe(
        "small_convnet",
        **{name: whole(name, n, "it is the size of a layer") for name, n in sizes.items()},
        **_dropping(dropout),
    )


def resnet16(
    channels: int = 3,
    classes: int = 10,
    width: int = 1,
    dropout: float = 0.0,
    normalisation: Literal["group", "batch"] = "group",
) -> Network:
    """Describe the residual network of depth 16 = 6n + 4 with n = 2 (erratum A9).

    A wide residual network (Zagoruyko and Komodakis, 2016): three stages of two pre-activation blocks with 16, 32 and
    64 times ``width`` channels, the second and third halving the image; width 4 has 2.7 million weights. As there,
    ``dropout`` is the share of the numbers between the two convolutions of a block that is dropped in training.

    Parameters
    ----------
    normalisation : "group", by the image's own mean and variance, or "batch", by those of the batch in training and by
        averages over the training afterwards, as residual networks are published (He et al., 2016). Images of another
        contrast or with noise disturb the second more, for group normalisation scales each image anew. Batch
        normalisation cannot be trained with DP-SGD, nor many networks at once.

    Raises
    ------
    InputError
        Unless all sizes are whole numbers from 1 up, dropout is in [0, 1) and the normalisation one of the two.

    Examples
    --------
    >>> sum(p.numel() for p in resnet16(width=1)().parameters())
    175066
    >>> print(resnet16(normalisation="batch"))
    resnet16(channels=3, classes=10, width=1, normalisation=batch)
    """
    sizes = {
        name: whole(name, n, "it is the size of a layer")
        for name, n in (("channels", channels), ("classes", classes), ("width", width))
    }
    return _describe("resnet16", **sizes, **_dropping(dropout), **_normalised(normalisation))


def _describe(name: str, **arguments: Any) -> Network:
    return Network(name, tuple(arguments.items()))


def _dropping(dropout: object) -> dict[str, float]:
    """Return the argument, if there is dropout: networks without it are described as if there were no such option."""
    if isinstance(dropout, bool) or not isinstance(dropout, int | float) or not 0 <= dropout < 1:
        raise InputError("dropout", "a number in [0, 1)", repr(dropout), "0.5 is usual, 0 leaves it out")
    return {"dropout": float(dropout)} if dropout else {}


def _dropped(layer: nn.Module, dropping: nn.Dropout | nn.Dropout2d) -> nn.Module:
    """Put dropout behind a layer without weights; the names of the weights around it stay as they are."""
    return nn.Sequential(layer, dropping) if dropping.p else layer


def _normalised(normalisation: object) -> dict[str, str]:
    """Return the argument, if it is not the usual one: see :func:`_dropping`."""
    if normalisation not in ("group", "batch"):
        hint = nearest(str(normalisation), ("group", "batch")) or "'group' is the default"
        raise InputError("normalisation", "'group' or 'batch'", repr(normalisation), hint)
    return {"normalisation": "batch"} if normalisation == "batch" else {}


def _norm(channels: int, normalisation: str = "group") -> nn.Module:
    if normalisation == "batch":
        return nn.BatchNorm2d(channels)
    return nn.GroupNorm(math.gcd(_GROUPS, channels), channels)


def _conv(inputs: int, outputs: int, *, size: int = 3, stride: int = 1) -> nn.Conv2d:
    layer = nn.Conv2d(inputs, outputs, size, stride=stride, padding=size // 2, bias=False)
    nn.init.kaiming_normal_(layer.weight, mode="fan_out", nonlinearity="relu")
    return layer


def _mlp(inputs: int, classes: int, hidden: tuple[int, ...], dropout: float = 0.0) -> nn.Module:
    layers: list[nn.Module] = [nn.Flatten()]
    for width in hidden:
        layers += [nn.Linear(inputs, width), _dropped(nn.ReLU(), nn.Dropout(dropout))]
        inputs = width
    return nn.Sequential(*layers, nn.Linear(inputs, classes))


def _small_convnet(channels: int, classes: int, width: int, dropout: float = 0.0) -> nn.Module:
    layers: list[nn.Module] = []
    for i, outputs in enumerate((width, 2 * width, 4 * width)):
        pool = nn.MaxPool2d(2) if i < 2 else nn.AdaptiveAvgPool2d(1)
        layers += [_conv(channels, outputs), _norm(outputs), nn.ReLU(), _dropped(pool, nn.Dropout2d(dropout))]
        channels = outputs
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(channels, classes))


class _Block(nn.Module):
    """Normalisation, ReLU, convolution, twice, beside a shortcut: the identity, or 1 x 1 where the shape changes."""

    def __init__(self, inputs: int, outputs: int, stride: int, dropout: float, normalisation: str) -> None:
        super().__init__()
        self.norm1, self.conv1 = _norm(inputs, normalisation), _conv(inputs, outputs, stride=stride)
        self.norm2, self.conv2 = _norm(outputs, normalisation), _conv(outputs, outputs)
        self.relu = nn.ReLU()
        self.inner = _dropped(nn.ReLU(), nn.Dropout(dropout))
        self.shortcut = None
        if inputs != outputs or stride != 1:
            self.shortcut = _conv(inputs, outputs, size=1, stride=stride)

    def forward(self, x: Tensor) -> Tensor:
        inner = self.relu(self.norm1(x))
        around = x if self.shortcut is None else self.shortcut(inner)
        out: Tensor = around + self.conv2(self.inner(self.norm2(self.conv1(inner))))
        return out


def _resnet16(channels: int, classes: int, width: int, dropout: float = 0.0, normalisation: str = "group") -> nn.Module:
    layers: list[nn.Module] = [_conv(channels, 16)]
    inputs = 16
    for outputs, stride in ((16 * width, 1), (32 * width, 2), (64 * width, 2)):
        layers += [_Block(inputs, outputs, stride, dropout, normalisation)]
        layers += [_Block(outputs, outputs, 1, dropout, normalisation)]
        inputs = outputs
    head = (_norm(inputs, normalisation), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(inputs, classes))
    return nn.Sequential(*layers, *head)


_BUILDERS: dict[str, Callable[..., nn.Module]] = {
    "mlp": _mlp,
    "small_convnet": _small_convnet,
    "resnet16": _resnet16,
}

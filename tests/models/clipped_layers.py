"""Networks with each kind of layer that DP-SGD can clip, and how far one record moves the clipped sum.

The tests and ``benchmarks/gpu/sensitivity.py`` measure the same ones.
"""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import nn
from torch.nn import functional as F

from miaudit.models import nets
from miaudit.models.private import ClippedSum


class Words(nn.Module):
    """A small sequence model: embedding with padding, layer normalisation, linear over positions, 1-d convolution."""

    def __init__(self, scale: bool = True) -> None:
        super().__init__()
        self.embed = nn.Embedding(11, 6, padding_idx=0)
        self.norm = nn.LayerNorm(6, elementwise_affine=scale)
        self.inner = nn.Linear(6, 8)
        self.conv = nn.Conv1d(8, 6, 3, padding="same", dilation=2)
        self.head = nn.Linear(6, 3, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = torch.tanh(self.inner(self.norm(self.embed(x))))
        return self.head(torch.relu(self.conv(x.transpose(1, 2))).mean(2))


class Attention(nn.Module):
    """One head of attention written with linear layers, and a layer normalisation over two axes."""

    def __init__(self) -> None:
        super().__init__()
        self.query, self.key, self.value = (nn.Linear(4, 4) for _ in range(3))
        self.norm = nn.LayerNorm((5, 4))
        self.head = nn.Linear(4, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        weight = torch.softmax(self.query(x) @ self.key(x).transpose(1, 2), -1)
        return self.head(self.norm(x + weight @ self.value(x)).mean(1))


def convolutions() -> nn.Module:
    """Strides, groups, dilation, padding of every kind, sizes on both sides of the choice between Gram and gradient."""
    return nn.Sequential(
        nn.Conv2d(2, 4, 3, stride=2, padding=1),
        nn.GroupNorm(2, 4),
        nn.ReLU(),
        nn.Conv2d(4, 8, (3, 2), padding="same", groups=2, padding_mode="reflect"),
        nn.Tanh(),
        nn.Conv2d(8, 40, 3, dilation=2, padding=(2, 1), bias=False),
        nn.GELU(),
        nn.Conv2d(40, 40, 2, padding_mode="circular", padding=1, stride=3),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(40, 3),
    )


def images(*shape: int) -> torch.Tensor:
    return torch.randn(7, *shape)


CASES = {
    "mlp": (lambda: nets.mlp(5, 3, hidden=(9, 4))(), lambda: images(5)),
    "convolutions": (convolutions, lambda: images(2, 9, 8)),
    "convnet": (lambda: nets.small_convnet(1, 3, width=4)(), lambda: images(1, 8, 8)),
    "resnet": (lambda: nets.resnet16(3, 3)(), lambda: images(3, 8, 8)),
    "words": (Words, lambda: torch.randint(0, 11, (7, 6))),
    "long words": (Words, lambda: torch.randint(0, 11, (7, 30))),
    "attention": (Attention, lambda: images(5, 4)),
}


class Pooled(nn.Module):
    """One layer with parameters, whose output, averaged over positions, is three logits or more."""

    def __init__(self, layer: nn.Module, channels_last: bool = True) -> None:
        super().__init__()
        self.layer, self.last = layer, channels_last

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out = self.layer(x)
        return out.flatten(1, -2).mean(1) if self.last else out.flatten(2).mean(2)


KINDS = {
    "linear": (lambda: nn.Linear(20, 9), lambda: images(20)),
    "linear over positions": (lambda: Pooled(nn.Linear(20, 9)), lambda: images(6, 20)),
    "conv1d": (lambda: Pooled(nn.Conv1d(4, 9, 3), False), lambda: images(4, 12)),
    "conv2d": (lambda: Pooled(nn.Conv2d(4, 9, 3, padding=1), False), lambda: images(4, 6, 6)),
    "conv2d in groups": (lambda: Pooled(nn.Conv2d(4, 8, 3, groups=2), False), lambda: images(4, 6, 6)),
    "group norm": (lambda: Pooled(nn.GroupNorm(2, 6), False), lambda: images(6, 5)),
    "layer norm": (lambda: Pooled(nn.LayerNorm(9)), lambda: images(4, 9)),
    "embedding": (lambda: Pooled(nn.Embedding(11, 9, padding_idx=0)), lambda: torch.randint(0, 11, (7, 30))),
    "parameters in bfloat16": (lambda: nn.Sequential(*convolutions()).bfloat16(), lambda: images(2, 9, 8).bfloat16()),
}


def moved(
    net: nn.Module, x: torch.Tensor, y: torch.Tensor, clip: float, leaving: Iterable[int] | None = None
) -> list[float]:
    """How far the clipped sum moves when a record leaves, in units of ``clip``: for each record, or some of them."""

    def total(rows: list[int]) -> torch.Tensor:
        with ClippedSum(net, clip=clip) as clipped:
            _, found = clipped(x[rows], lambda out: F.cross_entropy(out.float(), y[rows], reduction="none"))
        assert all(t.dtype == torch.float32 for t in found.values())
        return torch.cat([t.reshape(-1) for t in found.values()]).double()

    every = list(range(len(x)))
    leaving = every if leaving is None else leaving
    whole = total(every)
    return [float((whole - total([j for j in every if j != i])).norm()) / clip for i in leaving]

"""A factory of one's own."""

from __future__ import annotations

from torch import nn


class Small(nn.Module):
    """Two layers."""

    def __init__(self, hidden: int) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(4, hidden), nn.ReLU(), nn.Linear(hidden, 2))

    def forward(self, x):
        return self.layers(x)


def build(hidden: int = 8) -> nn.Module:
    return Small(hidden)


def linear() -> nn.Module:
    return nn.Sequential(nn.Linear(4, 2))

"""The last layer of a network gives the network's own logits, or is refused."""

from __future__ import annotations

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402

from miaudit.errors import InputError  # noqa: E402
from miaudit.models import nets  # noqa: E402
from miaudit.models.last_layer import last_layer  # noqa: E402
from miaudit.models.train import logits  # noqa: E402

X = np.random.default_rng(0).normal(size=(23, 6)).astype(np.float32)


class Head(nn.Module):
    """A layer on top, and what becomes of its outputs."""

    def __init__(self, *, bias: bool = True, twice: bool = False, scale: float = 1.0) -> None:
        super().__init__()
        self.body, self.top, self.twice, self.scale = nn.Linear(6, 6), nn.Linear(6, 6, bias=bias), twice, scale

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        found = self.top(torch.tanh(self.body(x)))
        return self.scale * (self.top(found) if self.twice else found)


@pytest.mark.parametrize(
    ("factory", "shape"),
    [
        (nets.mlp(6, 3, (5,)), (6,)),
        (nets.mlp(6, 3, ()), (6,)),
        (nets.mlp(6, 3, (5,), dropout=0.5), (6,)),
        (nets.small_convnet(1, 3, width=2), (1, 8, 8)),
        (lambda: Head(bias=False), (6,)),
    ],
)
def test_features_times_weights_are_the_logits(factory, shape: tuple[int, ...]) -> None:
    x = np.random.default_rng(1).normal(size=(23, *shape)).astype(np.float32)
    state = factory().state_dict()
    found = last_layer(factory, state, x, batch=7)
    assert np.allclose(found.features @ found.weights.T, logits(factory, state, x), atol=1e-5)
    assert (found.features[:, -1] == 1).all()
    assert found.biased == ("top.bias" in state or "top.weight" not in state)


@pytest.mark.parametrize(
    ("factory", "message"),
    [
        (lambda: Head(twice=True), "calls it otherwise than once"),
        (lambda: Head(scale=2.0), "changes its outputs"),
        (lambda: nn.Sequential(nn.Unflatten(1, (1, 6)), nn.Conv1d(1, 3, 6), nn.Flatten()), "without a linear layer"),
    ],
)
def test_other_networks_are_refused_in_one_line(factory, message: str) -> None:
    with pytest.raises(InputError, match=f"base: expected a network that ends in a linear layer.*{message}") as caught:
        last_layer(factory, factory().state_dict(), X)
    assert "\n" not in str(caught.value)

"""Pruning in the matrix of weights: which become 0 and stay so, against slow twins; test_train has the optimisers."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402
from torch.nn import functional as F  # noqa: E402

from miaudit.errors import InputError  # noqa: E402
from miaudit.models import loop, nets  # noqa: E402
from miaudit.models.train import Private, Pruning, TrainConfig, fit, fit_many, guarantee, logits  # noqa: E402

RNG = np.random.default_rng(0)
X = RNG.normal(size=(120, 6)).astype(np.float32)
Y = np.digitize(X[:, 0] + X[:, 1], [-0.5, 0.5])
MLP = nets.mlp(6, 3, hidden=(16,))
CONFIG = TrainConfig(epochs=4, batch=16, pruning=Pruning(0.7, finetuning=0.5))


def far(a: dict, b: dict) -> float:
    assert list(a) == list(b)
    return max(float((a[name] - b[name]).abs().max()) for name in a)


def zeros(state: dict) -> tuple[int, int]:
    """Weights of two axes or more that are 0, and other parameters that are."""
    wide = [value for value in state.values() if value.ndim > 1]
    return (
        sum(int((v == 0).sum()) for v in wide),
        sum(int((v == 0).sum()) for v in state.values()) - sum(int((v == 0).sum()) for v in wide),
    )


def smallest_to_zero(weights: list[torch.Tensor], sparsity: float) -> list[torch.Tensor]:
    """Return what is kept of each of these weights when the least of all of them together go."""
    magnitudes = torch.cat([w.detach().abs().flatten() for w in weights])
    limit = magnitudes.sort().values[round(sparsity * len(magnitudes))]
    return [w.detach().abs() >= limit for w in weights]


@pytest.mark.parametrize("sparsity", [0.001, 0.3, 0.7, 0.99])
def test_exactly_that_share_of_the_weights_of_all_layers_together_is_zero(sparsity) -> None:
    state = fit(MLP, replace(CONFIG, pruning=Pruning(sparsity)), X, Y, np.arange(100), seed=1)
    assert zeros(state) == (round(sparsity * (6 * 16 + 16 * 3)), 0)
    images = np.random.default_rng(0).normal(size=(40, 1, 8, 8))
    factory = nets.small_convnet(1, 3, width=4)
    state = fit(factory, replace(CONFIG, epochs=1, pruning=Pruning(sparsity)), images, Y[:40], np.arange(40), seed=1)
    wide = sum(v.numel() for v in state.values() if v.ndim > 1)
    assert zeros(state)[0] == round(sparsity * wide)


def test_without_fine_tuning_it_is_the_plain_model_without_its_smallest_weights() -> None:
    plain = fit(MLP, replace(CONFIG, pruning=None), X, Y, np.arange(100), seed=2)
    pruned = fit(MLP, replace(CONFIG, pruning=Pruning(0.7, finetuning=0.0)), X, Y, np.arange(100), seed=2)
    names = [name for name, value in plain.items() if value.ndim > 1]
    for name, kept in zip(names, smallest_to_zero([plain[name] for name in names], 0.7), strict=True):
        plain[name] = plain[name] * kept
    assert far(plain, pruned) == 0


@pytest.mark.long
@pytest.mark.parametrize("optimiser", ["sgd", "adam"])
def test_fine_tuning_is_that_of_a_slow_twin(optimiser) -> None:
    """torch.optim on the same batches, the chosen weights set to 0 again after each step."""
    config = replace(CONFIG, optimiser=optimiser, learning_rate=0.02, schedule="constant", weight_decay=0.01)
    source = loop.Sources.of(0, 3)
    with torch.random.fork_rng([]):
        torch.manual_seed(source.initial)
        net = MLP()
    options = {"lr": 0.02, "weight_decay": 0.01}
    twin = (
        torch.optim.SGD(net.parameters(), momentum=0.9, **options)
        if optimiser == "sgd"
        else torch.optim.AdamW(net.parameters(), betas=(0.9, 0.999), **options)
    )
    wide, kept = [p for p in net.parameters() if p.ndim > 1], None
    steps = list(loop.shuffled(np.arange(100), batch=16, epochs=4, rng=source.order))
    assert len(steps) == config.steps(100) == 25
    for step, own in enumerate(steps, start=1):
        loss = F.cross_entropy(net(torch.tensor(X[own])), torch.tensor(Y[own]))
        twin.zero_grad()
        loss.backward()
        twin.step()
        if step == 25 - 12:  # half of 25 steps, rounded down, are left for fine-tuning
            kept = smallest_to_zero(wide, 0.7)
        if kept is not None:
            with torch.no_grad():
                for p, own_kept in zip(wide, kept, strict=True):
                    p.mul_(own_kept)
    found = fit(MLP, config, X, Y, np.arange(100), seed=3)
    assert far(found, net.state_dict()) < 1e-5
    assert zeros(found) == zeros(net.state_dict())


@pytest.mark.long
def test_fine_tuning_makes_up_for_what_pruning_took() -> None:
    losses = []
    for share in (0.0, 0.5):
        config = replace(CONFIG, epochs=40, pruning=Pruning(0.85, finetuning=share))
        out = torch.tensor(logits(MLP, fit(MLP, config, X, Y, np.arange(120), seed=0), X))
        losses.append(float(F.cross_entropy(out, torch.tensor(Y))))
    assert losses[1] < 0.7 * losses[0]


def test_each_stacked_model_is_pruned_as_it_would_be_alone() -> None:
    """Unequal numbers of steps: each is pruned at its own time."""
    included = np.random.default_rng(5).random((3, 120)) < [[0.9], [0.5], [0.2]]
    looped = fit_many(MLP, CONFIG, X, Y, included, seeds=[7, 8, 7], stacked=False)
    stacked = fit_many(MLP, CONFIG, X, Y, included, seeds=[7, 8, 7], stacked=True)
    for m, seed in enumerate([7, 8, 7]):
        alone = fit(MLP, CONFIG, X, Y, included[m], seed=seed)
        assert far(looped[m], alone) == 0
        assert far(stacked[m], alone) < 1e-4, m
        assert zeros(stacked[m]) == zeros(alone) == (round(0.7 * 144), 0)


@pytest.mark.long
def test_with_dp_sgd_the_guarantee_stays_for_pruning_looks_at_noisy_weights_alone() -> None:
    private = Private(noise=1.0, clip=1.0, delta=0.01, records=60, repeatable=True)
    config = replace(CONFIG, private=private)
    assert guarantee(config).value == guarantee(replace(config, pruning=None)).value
    assert zeros(fit(MLP, config, X, Y, np.arange(60), seed=0))[0] == round(0.7 * 144)


def test_what_cannot_be_pruned_is_refused() -> None:
    class Scales(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer, self.scale = nn.Linear(6, 3), nn.Parameter(torch.ones(3))
            self.layer.requires_grad_(False)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.layer(x) * self.scale

    with pytest.raises(InputError, match="pruning: expected a network with weights of two axes or more to train"):
        fit(Scales, CONFIG, X, Y, np.arange(60), seed=0)
    for given in ((0.0, 0.1), (1.0, 0.1), (float("nan"), 0.1), ("half", 0.1)):
        with pytest.raises(InputError, match=r"pruning\.sparsity"):
            Pruning(*given)
    for share in (-0.1, 1.0):
        with pytest.raises(InputError, match=r"pruning\.finetuning"):
            Pruning(0.5, finetuning=share)
    with pytest.raises(InputError, match="pruning: expected Pruning"):
        TrainConfig(pruning=0.5)

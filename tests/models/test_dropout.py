"""Dropout: its masks against the laws of dropout, training against a slow twin, stacked against alone, under DP-SGD."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402
from torch.nn import functional as F  # noqa: E402

from miaudit.errors import InputError  # noqa: E402
from miaudit.models import loop, nets  # noqa: E402
from miaudit.models.dropout import Dropout  # noqa: E402
from miaudit.models.train import Private, TrainConfig, fit, fit_many, logits  # noqa: E402

CPU = torch.device("cpu")
MLP = nets.mlp(6, 3, hidden=(16, 8), dropout=0.4)
RNG = np.random.default_rng(0)
X, Y = RNG.normal(size=(80, 6)).astype(np.float32), RNG.integers(0, 3, 80)


def far(a: dict, b: dict) -> float:
    assert list(a) == list(b)
    return max(float((a[name] - b[name]).abs().max()) for name in a)


# --- masks ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rate", [0.1, 0.5, 0.9])
def test_a_number_is_dropped_with_its_rate_and_the_mean_stays(rate) -> None:
    net = nn.Sequential(nn.Dropout(rate))
    with Dropout(net, [3], CPU):
        found = net(torch.ones(400, 500))
    assert sorted(found.unique().tolist()) == pytest.approx([0.0, 1 / (1 - rate)])
    error = np.sqrt(rate * (1 - rate) / found.numel())
    assert float((found == 0).double().mean()) == pytest.approx(rate, abs=5 * error)
    assert float(found.double().mean()) == pytest.approx(1.0, abs=5 * error / (1 - rate))
    columns = (found == 0).double().mean(0).numpy()  # independent: the columns' shares vary as a binomial's do
    assert columns.var() == pytest.approx(rate * (1 - rate) / 400, rel=0.3)


def test_dropout_of_channels_drops_them_whole() -> None:
    net = nn.Sequential(nn.Dropout2d(0.5))
    with Dropout(net, [0], CPU):
        found = net(torch.ones(50, 40, 3, 4)).flatten(2)
    assert bool((found == found[:, :, :1]).all())
    assert 0.45 < float((found[:, :, 0] == 0).double().mean()) < 0.55
    line = nn.Sequential(nn.Dropout1d(0.5))
    with Dropout(line, [0], CPU):
        assert bool((line(torch.ones(5, 4, 7)).std(2) == 0).all())


def test_evaluation_lets_everything_pass_and_afterwards_the_layer_is_torchs_again() -> None:
    net, x = nn.Sequential(nn.Dropout(0.5), nn.Dropout(1.0), nn.Dropout(0.0)), torch.ones(20, 10)
    with Dropout(net, [0], CPU):
        assert not net(x).any()  # all of it is dropped, nothing is NaN
        assert torch.equal(net.eval()(x), x)
        net.train()
    assert "forward" not in net[0].__dict__
    with torch.random.fork_rng([]):
        torch.manual_seed(1)
        own = net[0](x)
        torch.manual_seed(1)
        assert torch.equal(own, F.dropout(x, 0.5))


def test_masks_of_a_stack_are_those_of_the_models_alone_and_padding_stays() -> None:
    layer = nn.Dropout(0.5)
    net = nn.Sequential(nn.Linear(4, 4), layer, nn.Linear(4, 6), layer)  # one layer, called twice
    with Dropout(net, [5, 6], CPU) as stack:
        stack.learn(torch.ones(2, 4))
        first, second = stack.draw([3, 2])
        third, _ = stack.draw([2, 2])
    assert (first.shape, second.shape) == ((2, 3, 4), (2, 3, 6))
    assert bool((first[1, 2] == 1).all())
    assert bool((second[1, 2] == 1).all())
    with Dropout(layer, [6], CPU):
        assert torch.equal(layer(torch.ones(2, 4)), first[1, :2])
        assert torch.equal(layer(torch.ones(2, 6)), second[1, :2])
        assert torch.equal(layer(torch.ones(2, 4)), third[1])


# --- training ---------------------------------------------------------------------------------------------------------


def by_hand(seed: int, config: TrainConfig, rows: np.ndarray) -> nn.Module:
    """The slow twin: torch.optim, and masks multiplied by hand, from the generators that the model is said to have."""
    source = loop.Sources.of(config.seed, seed)
    with torch.random.fork_rng([]):
        torch.manual_seed(source.initial)
        net = nets.mlp(6, 3, hidden=(16, 8))()
    generator = torch.Generator().manual_seed(source.dropout)
    optimiser = torch.optim.SGD(net.parameters(), lr=config.learning_rate, momentum=0.9)
    linear = [layer for layer in net if isinstance(layer, nn.Linear)]
    for own in loop.shuffled(rows, batch=config.batch, epochs=config.epochs, rng=source.order):
        inner = torch.tensor(X[own])
        for layer in linear[:-1]:
            inner = torch.relu(layer(inner))
            inner = inner * (torch.rand(inner.shape, generator=generator) >= 0.4) / 0.6
        loss = F.cross_entropy(linear[-1](inner), torch.tensor(Y[own]))
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    return net


@pytest.mark.long
def test_training_is_that_of_a_slow_twin_with_masks_by_hand() -> None:
    config = TrainConfig(epochs=3, batch=16, learning_rate=0.05, schedule="constant", seed=2, device="cpu")
    found = fit(MLP, config, X, Y, np.arange(70), seed=9)
    assert far(found, by_hand(9, config, np.arange(70)).state_dict()) < 1e-5
    assert far(found, fit(nets.mlp(6, 3, hidden=(16, 8)), config, X, Y, np.arange(70), seed=9)) > 0.01


@pytest.mark.thorough
@pytest.mark.long
@pytest.mark.parametrize(
    ("factory", "shape"),
    [
        (MLP, (6,)),
        (nets.small_convnet(1, 3, width=2, dropout=0.3), (1, 8, 8)),
        (nets.resnet16(1, 3, dropout=0.3), (1, 8, 8)),
    ],
    ids=str,
)
def test_each_stacked_model_is_the_one_alone(factory, shape) -> None:
    """Unequal numbers of records, so that batches are padded and steps differ."""
    rng = np.random.default_rng(1)
    x, y = rng.normal(size=(30, *shape)), rng.integers(0, 3, 30)
    included = rng.random((3, 30)) < [[0.8], [0.5], [0.2]]
    config = TrainConfig(epochs=2, batch=8, learning_rate=0.02, device="cpu")
    stacked = fit_many(factory, config, x, y, included, seeds=[3, 1, 4], stacked=True)
    looped = fit_many(factory, config, x, y, included, seeds=[3, 1, 4])
    for m, seed in enumerate([3, 1, 4]):
        alone = fit(factory, config, x, y, included[m], seed=seed)
        assert far(looped[m], alone) == 0
        assert far(stacked[m], alone) < 1e-4, m
    assert far(stacked[0], fit(factory, config, x, y, included[0], seed=4)) > 1e-3


def test_dropout_that_depends_on_the_mode_is_stacked_too_and_foreign_kinds_are_refused_by_name() -> None:
    class Sometimes(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.drop, self.inner, self.head = nn.Dropout(0.5), nn.Linear(6, 6), nn.Linear(6, 3)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            x = self.inner(self.drop(x))
            return self.head(self.drop(x) if self.training else x)

    config, every = TrainConfig(epochs=1, batch=16), np.ones((2, 80), dtype=bool)
    found = fit_many(Sometimes, config, X, Y, every, seeds=[0, 1], stacked=True)
    assert far(found[1], fit(Sometimes, config, X, Y, every[1], seed=1)) < 1e-5

    def foreign() -> nn.Module:
        return nn.Sequential(nn.Linear(6, 4), nn.AlphaDropout(0.5), nn.Linear(4, 3))

    alone = fit(foreign, config, X, Y, every[1], seed=1)
    assert far(alone, fit(foreign, config, X, Y, every[1], seed=1)) == 0
    with pytest.raises(InputError, match="layers of type AlphaDropout"):
        fit_many(foreign, config, X, Y, every, seeds=[0, 1], stacked=True)


def test_a_network_whose_dropout_mixes_records_is_not_stacked() -> None:
    class Turned(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.drop, self.head = nn.Dropout(0.5), nn.Linear(6, 3)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.head(self.drop(x.T).T)

    config, every = TrainConfig(epochs=1, batch=16), np.ones((2, 80), dtype=bool)
    assert len(fit_many(Turned, config, X, Y, every, seeds=[0, 1])) == 2
    with pytest.raises(InputError, match="stacked: expected False"):
        fit_many(Turned, config, X, Y, every, seeds=[0, 1], stacked=True)


@pytest.mark.long
def test_dropout_lowers_what_a_network_memorises() -> None:
    """Classes drawn at random can only be memorised: the loss on members falls less with dropout."""
    config = TrainConfig(optimiser="adam", learning_rate=0.01, epochs=250, batch=20)
    losses = []
    for rate in (0.0, 0.5):
        factory = nets.mlp(6, 3, hidden=(64,), dropout=rate)
        out = torch.tensor(logits(factory, fit(factory, config, X, Y, np.arange(60), seed=0), X[:60]))
        losses.append(float(F.cross_entropy(out, torch.tensor(Y[:60]))))
    assert losses[0] < 0.5 * losses[1]


# --- with DP-SGD ------------------------------------------------------------------------------------------------------


def test_each_record_is_clipped_under_its_own_mask() -> None:
    """The slow twin: one backward pass for each record under its mask, clipped, summed, the same noise added."""
    private = Private(noise=0.5, clip=0.3, delta=0.01, records=40, repeatable=True)
    plain = TrainConfig(epochs=1, batch=10, learning_rate=0.1, momentum=0.0, schedule="constant", device="cpu")
    config = replace(plain, private=private)
    found = fit(MLP, config, X, Y, np.arange(40), seed=4)
    source = loop.Sources.of(0, 4)
    with torch.random.fork_rng([]):
        torch.manual_seed(source.initial)
        net = nets.mlp(6, 3, hidden=(16, 8))()
    linear, parameters = [layer for layer in net if isinstance(layer, nn.Linear)], list(net.parameters())
    masks, noise = torch.Generator().manual_seed(source.dropout), torch.Generator().manual_seed(source.noise)
    size = sum(p.numel() for p in parameters)
    clipped = 0
    for own in loop.poisson(np.arange(40), rate=0.25, steps=4, rng=source.order):
        total = 0.5 * 0.3 * torch.randn((1, size), generator=noise)[0]
        drawn = [(torch.rand((len(own), width), generator=masks) >= 0.4) / 0.6 for width in (16, 8)]
        for i, row in enumerate(own):
            inner = torch.tensor(X[row])
            for layer, mask in zip(linear[:-1], drawn, strict=True):
                inner = torch.relu(layer(inner)) * mask[i]
            slopes = torch.autograd.grad(F.cross_entropy(linear[-1](inner), torch.tensor(Y[row])), parameters)
            flat = torch.cat([slope.flatten() for slope in slopes])
            clipped += float(flat.norm()) > 0.3
            total += flat * min(1.0, 0.3 / float(flat.norm()))
        with torch.no_grad():
            for p, slope in zip(parameters, torch.split(total, [p.numel() for p in parameters]), strict=True):
                p.sub_(0.1 * slope.reshape(p.shape) / 10)
    assert clipped > 10
    assert far(found, net.state_dict()) < 1e-5

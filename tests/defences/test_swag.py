"""SWAG: its moments and draws against a slow twin, and a network's draws along the path of its training."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy import special
from sklearn.naive_bayes import GaussianNB

from miaudit.defences.swag import Moments, Swag
from miaudit.errors import InputError
from miaudit.models.targets import SklearnTarget
from miaudit.models.train_config import Private, Pruning, TrainConfig

RNG = np.random.default_rng(0)


def test_moments_are_those_of_a_slow_twin() -> None:
    path = RNG.normal(size=(9, 5)).cumsum(axis=0)
    found = Moments.of(iter(path), 4)
    assert np.allclose(found.mean, path.mean(axis=0))
    assert np.allclose(found.variance, path.var(axis=0))
    slow = np.array([path[i] - path[: i + 1].mean(axis=0) for i in range(9)])[-4:]
    assert np.allclose(found.deviations, slow)
    assert np.allclose(found.covariance, np.diag(path.var(axis=0)) / 2 + sum(np.outer(d, d) for d in slow) / 6)
    assert not np.allclose(found.deviations, path[-4:] - path.mean(axis=0))  # the control that must fail


def test_draws_have_the_mean_and_the_covariance() -> None:
    moments, rng = Moments.of(iter(RNG.normal(size=(9, 4)).cumsum(axis=0)), 4), np.random.default_rng(1)
    drawn = np.stack([moments.draw(rng=rng) for _ in range(40_000)])
    assert np.allclose(drawn.mean(axis=0), moments.mean, atol=0.05)
    assert np.allclose(np.cov(drawn.T), moments.covariance, rtol=0.05, atol=0.1)
    still = Moments.of(iter(np.ones((3, 4))), 2)
    assert (still.draw(rng=rng) == 1).all()  # weights that do not move are drawn as they are


def target(**options):
    pytest.importorskip("torch")
    from miaudit.models import nets
    from miaudit.models.torch_target import TorchTarget

    base = TorchTarget(nets.mlp(4, 3, (8,)), TrainConfig(epochs=10, batch=16, learning_rate=0.05, device="cpu"))
    return Swag(base, **options)


def data() -> tuple[np.ndarray, np.ndarray]:
    y = np.arange(150) % 3
    return (np.random.default_rng(3).normal(size=(150, 4)) + 2 * np.eye(4)[y]).astype(np.float32), y


def test_a_network_is_drawn_around_its_path_and_its_probabilities_are_averaged() -> None:
    (x, y), made = data(), target(draws=6, epochs=4, rank=3)
    fitted = made.fit(x, y, np.arange(100), seed=1)
    assert len(fitted) == 6
    each = [special.softmax(made.base.outputs(one, x), axis=1) for one in fitted]
    assert np.allclose(np.exp(made.outputs(fitted, x)), np.mean(each, axis=0), atol=1e-6)
    assert (made.outputs(fitted, x).argmax(1) == y).mean() > 0.7
    assert np.std(each, axis=0).max() > 1e-3
    again, other = (made.outputs(made.fit(x, y, np.arange(100), seed=seed), x) for seed in (1, 2))
    assert np.array_equal(again, made.outputs(fitted, x))
    assert not np.array_equal(other, again)


def test_the_path_goes_on_from_the_trained_weights_by_torchs_own_steps() -> None:
    """The slow twin: torch.optim for one more epoch, on the batches that this epoch's seed gives."""
    torch = pytest.importorskip("torch")
    from miaudit.models import loop, weights

    (x, y), made = data(), target(epochs=2, rank=2, learning_rate=0.01)
    rows = np.arange(100)
    state = made.base.fit(x, y, rows, seed=5)
    (found, *_) = made._path(x, y, rows, state, [7])
    net = weights.network(made.base.build, state).train()
    twin = torch.optim.SGD(net.parameters(), lr=0.01, momentum=0.9)
    for own in loop.shuffled(rows, batch=16, epochs=1, rng=loop.Sources.of(0, 7).order):
        twin.zero_grad()
        torch.nn.functional.cross_entropy(net(torch.tensor(x[own])), torch.tensor(y[own])).backward()
        twin.step()
    for name, value in net.state_dict().items():
        assert torch.allclose(found[name], value, atol=1e-6)
        assert not torch.allclose(found[name], state[name], atol=1e-5)


def test_identities_differ_and_bad_input_is_refused_in_one_line() -> None:
    made = target()
    others = [target(draws=1), target(epochs=12), target(rank=3), target(learning_rate=0.5)]
    assert len({one.identity() for one in (made, *others, made.base)}) == 6
    for options, message in (
        ({"draws": 0}, "draws: expected a whole number from 1 up"),
        ({"epochs": 1}, "epochs: expected a whole number from 2 up"),
        ({"rank": 11}, "rank: expected 2 to epochs, which is 10, received 11"),
        ({"learning_rate": 0.0}, "learning_rate"),
    ):
        with pytest.raises(InputError, match=message):
            target(**options)
    with pytest.raises(InputError, match="base: expected a network that is trained here"):
        Swag(SklearnTarget(GaussianNB()))
    for change in ({"private": Private(1.0, 1.0, 1e-5, 200)}, {"pruning": Pruning(0.5)}):
        with pytest.raises(InputError, match=f"base: expected a training without {next(iter(change))}"):
            Swag(replace(made.base, config=replace(made.base.config, **change)))


def test_running_statistics_are_refused() -> None:
    torch = pytest.importorskip("torch")
    from miaudit.models.torch_target import TorchTarget

    def net() -> torch.nn.Module:
        return torch.nn.Sequential(torch.nn.Linear(4, 5), torch.nn.BatchNorm1d(5), torch.nn.Linear(5, 3))

    x, y = data()
    made = Swag(TorchTarget(net, TrainConfig(epochs=1, batch=16, device="cpu")), epochs=2, rank=2)
    with pytest.raises(InputError, match="a network without running statistics, received one with 1"):
        made.fit(x, y, np.arange(100), seed=0)

"""Adversarially made training samples: their gradient by finite differences, the rise of the loss, and a slow twin."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402
from torch.nn import functional as F  # noqa: E402

from miaudit.errors import InputError  # noqa: E402
from miaudit.models import loop, nets  # noqa: E402
from miaudit.models.adversarial import adversarial_samples  # noqa: E402
from miaudit.models.losses import RecordLoss  # noqa: E402
from miaudit.models.torch_target import TorchTarget  # noqa: E402
from miaudit.models.train import Adversarial, EarlyStopping, Private, TrainConfig, fit, fit_many, logits  # noqa: E402

RNG = np.random.default_rng(0)
X = RNG.normal(size=(90, 6)).astype(np.float32)
Y = np.digitize(X[:, 0] + X[:, 1], [-0.5, 0.5])
MLP = nets.mlp(6, 3, hidden=(16,))
LOSS = RecordLoss("cross_entropy", smoothing=0.3)  # samples are made for the plain loss


def network() -> nn.Module:
    with torch.random.fork_rng([]):
        torch.manual_seed(3)
        return MLP().double().eval()


def made(net: nn.Module, options: Adversarial) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    x, y = torch.tensor(X[None], dtype=torch.float64), torch.tensor(Y[None])
    return x, y, adversarial_samples(x, y, outputs=lambda x: net(x[0])[None], loss=LOSS, options=options)


def losses(net: nn.Module, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return F.cross_entropy(net(x[0]).detach(), y[0], reduction="none")


def test_one_step_is_the_sign_of_the_gradient_by_finite_differences() -> None:
    net = network()
    x, y, found = made(net, Adversarial(0.25))
    slope = torch.zeros_like(x[0])
    for k in range(6):
        ahead, behind = x.clone(), x.clone()
        ahead[0, :, k] += 1e-5
        behind[0, :, k] -= 1e-5
        slope[:, k] = (losses(net, ahead, y) - losses(net, behind, y)) / 2e-5
    clear = slope.abs() > 1e-7
    assert clear.float().mean() > 0.95
    assert torch.allclose((found - x)[0][clear], 0.25 * slope.sign()[clear])


@pytest.mark.parametrize("steps", [1, 2, 5])
def test_the_loss_rises_within_the_radius_and_more_than_by_a_random_move(steps: int) -> None:
    net = network()
    x, y, found = made(net, Adversarial(0.3, steps))
    assert (found - x).abs().max() <= 0.3 + 1e-12
    plain, raised = losses(net, x, y), losses(net, found, y)
    assert (raised > plain).float().mean() > 0.95
    noise = torch.tensor(RNG.choice([-0.3, 0.3], size=x.shape))
    assert (raised - plain).mean() > 2 * (losses(net, x + noise, y) - plain).abs().mean()
    # The control that must fail: against the gradient the loss falls.
    assert (losses(net, 2 * x - found, y) < plain).float().mean() > 0.9


def test_more_steps_find_more_and_small_ones_agree_with_the_linear_rise() -> None:
    net = network()
    x, y, one = made(net, Adversarial(1.0))
    _, _, many = made(net, Adversarial(1.0, 20))
    assert losses(net, many, y).mean() > losses(net, one, y).mean()
    tiny = made(net, Adversarial(1e-6))[2]  # so near that hardly a record crosses an edge of the network
    at = x.clone().requires_grad_()
    (slope,) = torch.autograd.grad(F.cross_entropy(net(at[0]), y[0], reduction="sum"), at)
    rise = losses(net, tiny, y) - losses(net, x, y)
    assert torch.allclose(rise, 1e-6 * slope[0].abs().sum(1), rtol=1e-3)


def test_training_on_them_is_that_of_a_slow_twin() -> None:
    """torch.optim on batches whose records were moved by hand, from the weights as they were at that step."""
    config = TrainConfig(
        epochs=2, batch=16, schedule="constant", learning_rate=0.05, adversarial=Adversarial(0.2), seed=5
    )
    source = loop.Sources.of(5, 9)
    with torch.random.fork_rng([]):
        torch.manual_seed(source.initial)
        net = MLP()
    twin = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9)
    for own in loop.shuffled(np.arange(70), batch=16, epochs=2, rng=source.order):
        at, y = torch.tensor(X[own]).requires_grad_(), torch.tensor(Y[own])
        (slope,) = torch.autograd.grad(F.cross_entropy(net(at), y), at)
        loss = F.cross_entropy(net(at.detach() + 0.2 * slope.sign()), y)
        twin.zero_grad()
        loss.backward()
        twin.step()
    found, twins = fit(MLP, config, X, Y, np.arange(70), seed=9), net.state_dict()
    assert max(float((found[name] - twins[name]).abs().max()) for name in twins) < 1e-5
    plain = fit(MLP, replace(config, adversarial=None), X, Y, np.arange(70), seed=9)
    assert max(float((found[name] - plain[name]).abs().max()) for name in twins) > 0.01


@pytest.mark.parametrize("stacked", [False, True])
def test_many_models_are_each_as_alone_with_dropout_and_early_stopping(stacked: bool) -> None:
    factory = nets.mlp(6, 3, hidden=(7,), dropout=0.3)
    config = TrainConfig(epochs=3, batch=16, adversarial=Adversarial(0.1, 2), early_stopping=EarlyStopping(0.2, 2))
    included = np.random.default_rng(1).random((3, 90)) < 0.6
    states = fit_many(factory, config, X, Y, included, seeds=[4, 5, 6], stacked=stacked)
    for m, seed in enumerate([4, 5, 6]):
        alone = fit(factory, config, X, Y, included[m], seed=seed)
        assert max(float((states[m][name] - alone[name]).abs().max()) for name in alone) < (1e-4 if stacked else 1e-12)


def test_running_statistics_and_small_images_are_left_alone() -> None:
    images = RNG.integers(0, 255, (40, 1, 8, 8)).astype(np.uint8)
    before = images.copy()
    factory = nets.small_convnet(1, 3, width=2)
    config = TrainConfig(epochs=1, batch=10, adversarial=Adversarial(8.0))
    state = fit(factory, config, images, Y[:40], np.arange(40), seed=0)
    assert np.array_equal(images, before)
    assert np.isfinite(logits(factory, state, images)).all()


def test_a_model_trained_on_them_withstands_them_better() -> None:
    rng = np.random.default_rng(4)
    y = np.arange(400) % 2
    x = (rng.normal(size=(400, 20)) + np.where(y[:, None], 0.4, -0.4)).astype(np.float32)
    factory = nets.mlp(20, 2, hidden=(32,))
    rates = {}
    for name, options in (("plain", None), ("moved", Adversarial(0.3))):
        config = TrainConfig(epochs=30, batch=32, learning_rate=0.05, adversarial=options)
        state = fit(factory, config, x, y, np.arange(200), seed=1)
        with torch.random.fork_rng([]):
            net = factory()
        net.load_state_dict(state)
        net.eval()
        moved = adversarial_samples(
            torch.tensor(x[None, :200]), torch.tensor(y[None, :200]), outputs=lambda x, net=net: net(x[0])[None],
            loss=LOSS, options=Adversarial(0.3),
        )  # fmt: skip
        rates[name] = float((net(moved[0]).argmax(1).numpy() == y[:200]).mean())
    assert rates["moved"] > rates["plain"] + 0.03


def test_models_kept_before_the_option_existed_stay_those_of_the_same_training() -> None:
    plain, moved = (TorchTarget(MLP, TrainConfig(adversarial=options)) for options in (None, Adversarial(0.1)))
    assert "adversarial" not in plain.identity()
    assert "adversarial=Adversarial(radius=0.1, steps=1)" in moved.identity()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Adversarial(0.0), "adversarial.radius: expected a positive number, received 0.0"),
        (lambda: Adversarial(-1.0), "adversarial.radius"),
        (lambda: Adversarial(float("nan")), "adversarial.radius"),
        (lambda: Adversarial(0.1, 0), "adversarial.steps: expected a whole number from 1 up"),
        (lambda: TrainConfig(adversarial=0.1), r"adversarial: expected Adversarial\(...\) or none, received float"),
        (
            lambda: TrainConfig(adversarial=Adversarial(0.1), private=Private(1.0, 1.0, 1e-5, 200)),
            "adversarial: expected none beside DP-SGD",
        ),
    ],
)
def test_bad_options_are_refused_in_one_line(make, message: str) -> None:
    with pytest.raises(InputError, match=message):
        make()


def test_tokens_are_refused() -> None:
    def bag() -> nn.Module:
        return nn.Sequential(nn.Embedding(9, 4), nn.Flatten(), nn.Linear(20, 3))

    tokens = np.random.default_rng(0).integers(0, 9, (20, 5))
    with pytest.raises(InputError, match="adversarial: expected none for tokens, received radius"):
        fit(bag, TrainConfig(epochs=1, adversarial=Adversarial(0.1)), tokens, Y[:20], np.arange(20), seed=0)

from __future__ import annotations

import copy
import warnings

import numpy as np
import pytest
import torch
from step_audit.zoo import ZOO
from torch import nn

from miaudit.dp.mechanism import GaussianNoise, PoissonSubsampled, Repeated
from miaudit.dp.step_audit import Steps, audit, check_sampling
from miaudit.errors import InputError
from miaudit.models.step_canaries import StepCanaries
from miaudit.models.train import Private, TrainConfig, fit

CANARIES, CLIP = 60, 2.0


def net() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 3), nn.ReLU(), nn.Linear(3, 2))


def natural(n: int = 40) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    return rng.normal(size=(n, 4)).astype("float32"), rng.integers(0, 2, n)


def canaries(seed: int = 0, **options: object) -> StepCanaries:
    given = {"count": CANARIES, "clip": CLIP, "rng": np.random.default_rng(seed), **options}
    return StepCanaries(net(), *natural(), **given)  # type: ignore[arg-type]


# -- the wrapped model -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("loss", "labels"),
    [(nn.functional.cross_entropy, "classes"), (nn.functional.binary_cross_entropy_with_logits, "numbers"),
     (nn.functional.mse_loss, "numbers")],
)  # fmt: skip
@pytest.mark.parametrize("spread", [1, 3])
def test_a_canarys_gradient_has_its_own_coordinates_alone(loss: object, labels: str, spread: int) -> None:
    x, y = natural()
    y = y if labels == "classes" else np.stack([y, 1 - y], 1).astype("float32")
    made = StepCanaries(net(), x, y, count=CANARIES, clip=CLIP, spread=spread, rng=np.random.default_rng(0))
    records, targets = made.data.tensors
    lowest = records.amin(1)
    row = int(torch.nonzero(lowest < -1e6)[0])
    place = round(-float(lowest[row]) - 2**22)
    loss(made.model(records[row : row + 1]), targets[row : row + 1]).backward()  # type: ignore[operator]
    own = made.model.canaries.weight.grad
    assert own is not None
    assert own.norm() > CLIP
    assert torch.nonzero(own.abs().sum(1))[:, 0].tolist() == [place]
    assert own[place].abs().std(correction=0) == 0
    assert made.coins[place]
    assert all(p.grad is None or not p.grad.any() for p in made.model.net.parameters())


def test_natural_records_learn_as_without_canaries() -> None:
    made, (x, y) = canaries(), natural()
    bare = copy.deepcopy(made.model.net)
    for model in (made.model, bare):
        nn.functional.cross_entropy(model(torch.from_numpy(x)), torch.from_numpy(y)).backward()
    for p, q in zip(made.model.net.parameters(), bare.parameters(), strict=True):
        torch.testing.assert_close(p.grad, q.grad)
    assert made.model.canaries.weight.grad is None or not made.model.canaries.weight.grad.any()
    with torch.no_grad():
        torch.testing.assert_close(made.model(torch.from_numpy(x)), bare(torch.from_numpy(x)))


def test_the_sign_alternates_from_step_to_step_and_the_release_does_not() -> None:
    made = canaries(coins=np.arange(CANARIES) % 2 == 0)
    records, labels = made.data.tensors
    seen = []
    for _ in range(4):
        made.model.zero_grad()
        nn.functional.cross_entropy(made.model(records), labels, reduction="sum").backward()
        grad = made.model.canaries.weight.grad
        seen.append(float(grad.sum().sign()))
        made.after_step()
    assert seen in ([1, -1, 1, -1], [-1, 1, -1, 1])
    sums = made.released(divided_by=1.0).sums
    assert (sums[:, made.coins] > 0).all()
    assert not sums[:, ~made.coins].any()


def test_tokens_are_marked_by_numbers_below_zero() -> None:
    embed = nn.Sequential(nn.Embedding(10, 4), nn.Flatten(), nn.Linear(20, 2))
    tokens = np.random.default_rng(0).integers(0, 10, (30, 5))
    made = StepCanaries(embed, tokens, tokens[:, 0] % 2, count=20, clip=1.0, rng=np.random.default_rng(0))
    records, labels = made.data.tensors
    nn.functional.cross_entropy(made.model(records), labels).backward()
    touched = made.model.canaries.weight.grad.abs().sum(1) > 0
    assert touched.tolist() == made.coins.tolist()


# -- three trainings, as they are --------------------------------------------------------------------------------------


def check_right(run: object, claim: Repeated) -> None:
    steps = Steps.of(claim)
    check_sampling(run, steps)  # type: ignore[arg-type]
    found = audit(run, claim, rng=np.random.default_rng(0))  # type: ignore[arg-type]
    assert not found.refuted
    assert not found.strange
    joined = run.joined  # type: ignore[attr-defined]
    share = run.sums[joined].mean()  # type: ignore[attr-defined]
    assert share == pytest.approx(1.0, abs=5 * steps.noise / np.sqrt(joined.sum()))
    assert found.noise_seen == pytest.approx(1.0, abs=0.15)


@pytest.mark.long
def test_our_own_dp_sgd_releases_clipped_canaries_and_noise() -> None:
    x, y = natural(170)
    made = StepCanaries(net(), x, y, count=CANARIES, clip=CLIP, rng=np.random.default_rng(0))
    records, labels = made.data.tensors
    config = TrainConfig(
        batch=50, epochs=4, learning_rate=0.1, private=Private(noise=0.5, clip=CLIP, delta=1e-5, records=200)
    )
    fit(lambda: made.model, config, records, labels.numpy(), np.arange(len(records)), seed=1)
    run = made.released(divided_by=50)
    assert run.sums.shape == (16, CANARIES)
    check_right(run, Repeated(PoissonSubsampled(GaussianNoise(0.5), 0.25), 16))


@pytest.mark.long
def test_opacus_releases_clipped_canaries_and_noise() -> None:
    opacus = pytest.importorskip("opacus")
    torch.manual_seed(0)
    made = canaries(1)
    optimiser = made.follow(torch.optim.SGD(made.model.parameters(), lr=0.1))
    loader = torch.utils.data.DataLoader(made.data, batch_size=round(0.25 * len(made.data)))
    rate = 1 / len(loader)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of random numbers that are not cryptographic
        model, private, loader = opacus.PrivacyEngine().make_private(
            module=made.model, optimizer=optimiser, data_loader=loader, noise_multiplier=0.5, max_grad_norm=CLIP
        )
        for _ in range(4):
            for records, labels in loader:
                private.zero_grad()
                nn.functional.cross_entropy(model(records), labels).backward()
                private.step()
    run = made.released(divided_by=private.expected_batch_size)
    check_right(run, Repeated(PoissonSubsampled(GaussianNoise(0.5), rate), len(run.sums)))


@pytest.mark.thorough
@pytest.mark.long
@pytest.mark.parametrize("name", ["no clipping", "noise scaled by the batch size twice", "a seed that is known"])
def test_a_plain_loop_with_a_bug_is_refuted_and_the_right_one_is_not(name: str) -> None:
    from dataclasses import replace

    rng = np.random.default_rng(3)
    for loop in (ZOO[0], next(loop for loop in ZOO if loop.name == name)):
        small = replace(loop, setting=replace(loop.setting, steps=20, canaries=300, noise=1.0))
        found = audit(small.train(rng), small.setting.claim(20), sampling=True, rng=rng)
        assert found.refuted == (loop is not ZOO[0])


# -- what is refused ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "word"),
    [
        ({"count": 1}, "count"),
        ({"count": True}, "count"),
        ({"clip": 0.0}, "clip"),
        ({"times": -1.0}, "times"),
        ({"spread": 0}, "spread"),
        ({"coins": np.ones(3, dtype=bool)}, "one coin for each canary"),
    ],
)
def test_options_out_of_range_are_refused(options: dict[str, object], word: str) -> None:
    with pytest.raises(InputError, match=word):
        canaries(**options)


def test_records_that_look_like_canaries_and_images_of_8_bits_are_refused() -> None:
    x, y = natural()
    for wrong, word in (
        (np.full_like(x, -3e6), "mark the canaries"),
        (x.astype("uint8"), "astype"),
        (x[:, 0], "shape"),
        (np.full((40, 4), -1), "tokens from 0 up"),
    ):
        with pytest.raises(InputError, match=word):
            StepCanaries(net(), wrong, y, count=10, clip=1.0, rng=np.random.default_rng(0))
    with pytest.raises(InputError, match="a label for each record"):
        StepCanaries(net(), x, y[:-1], count=10, clip=1.0, rng=np.random.default_rng(0))


def test_a_network_that_mixes_records_is_refused_by_what_it_does() -> None:
    mixing = nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3), nn.ReLU(), nn.Linear(3, 2))
    before = copy.deepcopy(mixing.state_dict())
    with pytest.raises(InputError, match="GroupNorm"):
        StepCanaries(mixing, *natural(), count=10, clip=1.0, rng=np.random.default_rng(0))
    for name, value in mixing.state_dict().items():
        torch.testing.assert_close(value, before[name])
    dropping = nn.Sequential(nn.Linear(4, 3), nn.Dropout(0.5), nn.Linear(3, 2))
    StepCanaries(dropping, *natural(), count=10, clip=1.0, rng=np.random.default_rng(0))
    StepCanaries(mixing, *natural(), count=10, clip=1.0, apart=False, rng=np.random.default_rng(0))


def test_steps_that_nobody_heard_are_missed() -> None:
    made = canaries()
    with pytest.raises(InputError, match="at least one step that was heard"):
        made.released(divided_by=1.0)
    with pytest.raises(InputError, match="what the step released"):
        made.after_step()
    with pytest.raises(InputError, match="the canaries' parameter"):
        made.follow(torch.optim.SGD(made.model.net.parameters(), lr=0.1))
    made.after_step(torch.zeros(CANARIES))
    with pytest.raises(InputError, match="sums that steps released"):
        made.released(divided_by=1.0)

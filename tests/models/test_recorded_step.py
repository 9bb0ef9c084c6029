"""Opacus, miaudit's own training, loops of one's own and the zoo of bugs, replayed step by step."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
import torch
from step_audit.replayed import compared
from step_audit.zoo import ZOO
from torch import Tensor, nn, randn  # one draw by a name of its own

from miaudit.dp import replay
from miaudit.errors import InputError
from miaudit.models.recorded_step import RecordedStep
from miaudit.models.train import Private, TrainConfig, fit

CLIP, NOISE, RECORDS = 0.5, 1.3, 10
CLAIM = replay.Claim(clip=CLIP, noise_multiplier=NOISE)
ROWS = np.arange(RECORDS)


def net() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 3), nn.ReLU(), nn.Linear(3, 2))


def records() -> tuple[Tensor, Tensor]:
    source = torch.Generator().manual_seed(1)
    return 5 * torch.randn(RECORDS, 4, generator=source), torch.arange(RECORDS) % 2


def replayed(recorded: RecordedStep, *, steps: int = 2, claim: replay.Claim = CLAIM) -> replay.Comparison:
    return replay.check(recorded, ROWS, replay.without_one(ROWS), claim, state=recorded.state(), steps=steps)


def own_step(model: nn.Module, optimizer: torch.optim.Optimizer, draw: Any, *, divided_by: float) -> Any:
    """Return a loop over records, as in many tutorials."""

    def step(x: Tensor, y: Tensor) -> None:
        weights = list(model.parameters())
        total = [torch.zeros_like(w) for w in weights]
        for one, label in zip(x, y, strict=True):
            loss = nn.functional.cross_entropy(model(one[None]), label[None])
            gradients = torch.autograd.grad(loss, weights)
            norm = torch.sqrt(sum((g.square().sum() for g in gradients), torch.zeros(())))
            for at, g in zip(total, gradients, strict=True):
                at.add_(g * (CLIP / norm).clamp_max(1.0))
        for w, at in zip(weights, total, strict=True):
            w.grad = (at + draw(w)) / divided_by
        optimizer.step()

    return step


GENERATOR = torch.Generator()
RIGHT = {
    "torch.normal": lambda w: torch.normal(0.0, CLIP * NOISE, w.shape),
    "torch.normal, tensors": lambda w: torch.normal(torch.zeros_like(w), torch.full_like(w, CLIP * NOISE)),
    "torch.normal, size by name": lambda w: torch.normal(mean=0, std=CLIP * NOISE, size=w.shape, generator=GENERATOR),
    "torch.randn": lambda w: CLIP * NOISE * torch.randn(w.shape, generator=GENERATOR),
    "a name of its own": lambda w: CLIP * NOISE * randn(*w.shape),
    "torch.randn_like": lambda w: CLIP * NOISE * torch.randn_like(w),
    "Tensor.normal_": lambda w: torch.empty_like(w).normal_(0, CLIP * NOISE),
    "a view": lambda w: torch.zeros_like(w).data.normal_(std=CLIP * NOISE, generator=GENERATOR),
    "distributions": lambda w: torch.distributions.Normal(0.0, CLIP * NOISE).sample(w.shape),
    "distributions, rsample": lambda w: torch.distributions.Normal(torch.zeros(w.shape), CLIP * NOISE).rsample(),
    "nn.init": lambda w: nn.init.normal_(torch.empty_like(w), 0.0, CLIP * NOISE),
}


@pytest.mark.parametrize("name", RIGHT)
def test_a_right_loop_passes_with_every_kind_of_draw(name: str) -> None:
    model = net()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
    step = own_step(model, optimizer, RIGHT[name], divided_by=20.0)
    result = replayed(RecordedStep(step, model, records(), optimizer=optimizer, divided_by=20.0))
    assert result.passed, str(result)
    assert result.largest.ratio == pytest.approx(1.0, abs=1e-5)
    assert [each.silent for each in result.noise] == [0, 0]


WRONG = {
    "half the noise": (lambda w: torch.normal(0.0, CLIP * NOISE / 2, w.shape), "0.5 of the claimed deviation"),
    "no noise": (torch.zeros_like, "no fresh noise"),
    "noise in matrices only": (lambda w: CLIP * NOISE * torch.randn_like(w) * (w.ndim > 1), "no noise at 5 of 23"),
    "one number for each layer": (lambda _: CLIP * NOISE * torch.randn(()), "23 noisy coordinates share 4"),
    "a seed in the loop": (
        lambda w: CLIP * NOISE * torch.randn(w.shape, generator=torch.Generator().manual_seed(0)),
        "already used",
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_noise_in_a_loop_of_ones_own_is_named(name: str) -> None:
    draw, text = WRONG[name]
    model = net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    recorded = RecordedStep(own_step(model, optimizer, draw, divided_by=1.0), model, records(), optimizer=optimizer)
    result = replayed(recorded)
    assert not result.passed
    assert text in str(result)


def test_a_wrong_clip_and_a_mean_over_the_sampled_records_are_named() -> None:
    model = net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    draw = RIGHT["torch.randn"]

    def by_size(x: Tensor, y: Tensor) -> None:
        own_step(model, optimizer, draw, divided_by=float(len(x)))(x, y)

    recorded = RecordedStep(by_size, model, records(), optimizer=optimizer, divided_by=float(RECORDS))
    assert 1.001 < replayed(recorded, steps=1).largest.ratio <= 2.0
    half = replay.Claim(clip=CLIP / 2, noise_multiplier=2 * NOISE)
    right = RecordedStep(own_step(model, optimizer, draw, divided_by=1.0), model, records(), optimizer=optimizer)
    assert replayed(right, claim=half).largest.ratio == pytest.approx(2.0, abs=1e-5)


# -- trainings, as they are --------------------------------------------------------------------------------------------


@pytest.mark.long
@pytest.mark.parametrize("per_layer", [False, True])
def test_opacus_passes_and_its_per_layer_clipping_is_named_against_a_flat_claim(per_layer: bool) -> None:
    opacus = pytest.importorskip("opacus")
    x, y = records()
    model = net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(x, y), batch_size=5)
    options: dict[str, Any] = {"clipping": "per_layer", "max_grad_norm": [CLIP] * 4} if per_layer else {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        private, own, _ = opacus.PrivacyEngine().make_private(
            module=model, optimizer=optimizer, data_loader=loader,
            **{"noise_multiplier": NOISE, "max_grad_norm": CLIP, **options},
        )  # fmt: skip

        def step(x: Tensor, y: Tensor) -> None:
            own.zero_grad()
            nn.functional.cross_entropy(private(x), y).backward()
            own.step()

        divided_by = float(own.expected_batch_size)
        recorded = RecordedStep(step, private, (x, y), optimizer=optimizer, divided_by=divided_by)
        result = replayed(recorded)
    if per_layer:  # four parameters, each with the whole clip; Opacus adds noise for the root of the sum of squares
        assert 1.5 < result.largest.ratio <= 2.0 + 1e-5
        assert result.noise[0].lowest == pytest.approx(2.0, rel=1e-3)
    else:
        assert result.passed, str(result)
        assert result.largest.ratio == pytest.approx(1.0, abs=1e-4)


@pytest.mark.long
def test_our_own_dp_sgd_passes() -> None:
    x, y = records()
    rate, nominal = 1.0, RECORDS
    private = Private(noise=NOISE, clip=CLIP, delta=1e-5, records=RECORDS, repeatable=True)
    config = TrainConfig(batch=nominal, epochs=1, learning_rate=rate, momentum=0.0, weight_decay=0.0, private=private)
    model = net()
    start = torch.cat([w.detach().reshape(-1) for w in model.parameters()])

    def step(x: Tensor, y: Tensor) -> Tensor:
        state = fit(net, config, x.numpy(), y.numpy(), np.arange(len(x)), seed=3)
        end = torch.cat([torch.as_tensor(value).reshape(-1) for value in state.values()])
        return (start - end) * nominal / rate

    result = replayed(RecordedStep(step, model, (x, y)), steps=1)
    assert result.largest.ratio == pytest.approx(1.0, abs=1e-4)
    assert result.noise[0].lowest == pytest.approx(1.0, abs=1e-3)


class NoisySGD(torch.optim.SGD):
    """An optimizer that clips nothing and adds noise when it steps, as in many repositories."""

    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        for group in self.param_groups:
            for w in group["params"]:
                w.grad.add_(CLIP * NOISE * torch.randn_like(w))
        super().step(closure)


def test_an_optimizer_that_adds_its_noise_when_it_steps_is_heard_after_it() -> None:
    torch.optim.SGD(net().parameters(), lr=0.1)  # its class is watched too from now on
    model = net()
    optimizer = NoisySGD(model.parameters(), lr=0.1)

    def step(x: Tensor, y: Tensor) -> None:
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x), y, reduction="sum").backward()
        optimizer.step()

    result = replayed(RecordedStep(step, model, records(), optimizer=optimizer))
    assert result.largest.ratio > 2
    assert [each.lowest for each in result.noise] == pytest.approx([1.0, 1.0], rel=1e-3)


# -- the zoo of bugs ---------------------------------------------------------------------------------------------------


CHANGES = {
    "no clipping": 5.0,
    "clipping after averaging": 5.0,
    "clipping per micro-batch, by its size": 5.0,
    "clipping per micro-batch": 2.1,
    "augmented views clipped one by one": 1.999,
    "each layer clipped to the whole norm": 1.41,
    "batch normalisation": 1.5,
    "norms in half precision": 1.5,
    "norms in half precision, canaries spread over 4,096": 1.5,
}
NOISES = {
    "noise scaled by the batch size twice": [1 / 20.4] * 4,
    "variance in place of the deviation": [0.5**0.5] * 4,
    "noise without the clip": [0.25] * 4,
    "noise missing under accumulation": [1, 0, 0, 0],
    "noise shared out over micro-batches": [0.5] * 4,
}


@pytest.mark.long
@pytest.mark.parametrize("loop", ZOO, ids=lambda loop: loop.name)
def test_the_zoo(loop: Any) -> None:
    results = compared(loop)
    largest = max(each.largest.ratio for each in results)
    if loop.name in CHANGES:
        assert largest > CHANGES[loop.name]
    else:
        assert largest == pytest.approx(1.0, abs=1e-4)
    for result in results:
        lows = [each.lowest for each in result.noise]
        assert lows == pytest.approx(NOISES.get(loop.name, [1.0] * 4), rel=2e-3)
        assert [each.reused for each in result.noise[1:]] == [loop.name == "noise drawn once and reused"] * 3


# -- bad input ---------------------------------------------------------------------------------------------------------


def test_dropout_is_refused() -> None:
    model = nn.Sequential(nn.Linear(4, 3), nn.Dropout(0.5), nn.Linear(3, 2))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    recorded = RecordedStep(
        own_step(model, optimizer, torch.randn_like, divided_by=1.0), model, records(), optimizer=optimizer
    )
    with pytest.raises(InputError, match="turn dropout off"):
        replayed(recorded)


def test_bad_input_is_refused() -> None:
    model, (x, y) = net(), records()
    with pytest.raises(InputError, match="records: expected tensors of one length"):
        RecordedStep(print, model, (x, y[:3]))
    with pytest.raises(InputError, match="records: expected"):
        RecordedStep(print, model, ())
    with pytest.raises(InputError, match="divided_by"):
        RecordedStep(print, model, (x, y), divided_by=0.0)
    silent = RecordedStep(lambda *_: None, model, (x, y))
    with pytest.raises(InputError, match="pass optimizer="):
        replayed(silent)
    with pytest.raises(InputError, match=r"state=recorded\.state"):
        silent(ROWS, None, replay.Draws())
    with pytest.raises(InputError, match="record numbers"):
        silent(x, silent.state(), replay.Draws())
    with pytest.raises(InputError, match="a released sum"):
        replayed(RecordedStep(lambda *_: [1.0], model, (x, y)))  # type: ignore[arg-type, return-value]


def test_history_and_memory_are_written_back_at_each_replay() -> None:
    model, memory = net(), {"step": 0}
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
    seen: list[int] = []
    own = own_step(model, optimizer, torch.zeros_like, divided_by=1.0)

    def step(x: Tensor, y: Tensor) -> None:
        seen.append(memory["step"])
        memory["step"] += 1
        own(x, y)

    recorded = RecordedStep(step, model, records(), optimizer=optimizer, memory=memory)
    state = recorded.state()
    first = recorded(ROWS, state, replay.Draws())
    second = recorded(ROWS, state, replay.Draws())
    again = recorded(ROWS, recorded_start(recorded), replay.Draws())
    assert seen == [0, 1, 0]
    assert not np.allclose(first, second)
    assert np.allclose(first, again)


def recorded_start(recorded: RecordedStep) -> Any:
    """Return the history of a new model, as a training begins."""
    model = net()
    state = recorded.state()
    state.model = dict(model.state_dict())
    state.optimizer = torch.optim.Adam(model.parameters(), lr=0.1).state_dict()
    state.memory = {"step": 0}
    return state

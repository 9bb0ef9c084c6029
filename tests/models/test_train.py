"""Training: the loop against torch's own optimisers, stacked against alone, repeatable, and refusing what cannot be."""

from __future__ import annotations

import copy
import dataclasses
import multiprocessing
import pickle
import random
from concurrent.futures import ProcessPoolExecutor

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402
from torch.nn import functional as F  # noqa: E402

from miaudit.errors import InputError  # noqa: E402
from miaudit.models import loop, nets, targets, train  # noqa: E402
from miaudit.models.train import Adversarial, EarlyStopping, Pruning, TrainConfig, TrainingError, fit, fit_many, logits  # noqa: E402
from miaudit.models.train_config import Private  # noqa: E402

MLP = nets.mlp(6, 3, hidden=(7,))
PRIVATE = Private(noise=1.0, clip=1.0, delta=0.01, records=40, repeatable=True)


def data(n: int = 80, shape: tuple[int, ...] = (6,), classes: int = 3) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    return rng.normal(size=(n, *shape)).astype(np.float32), rng.integers(0, classes, n)


def same(a: dict, b: dict) -> bool:
    return list(a) == list(b) and all(torch.equal(a[name], b[name]) for name in a)


def far(a: dict, b: dict) -> float:
    return max(float((a[name] - b[name]).abs().max()) for name in a)


# --- the loop ---------------------------------------------------------------------------------------------------------


@pytest.mark.long
@pytest.mark.parametrize("schedule", ["constant", "cosine"])
@pytest.mark.parametrize("optimiser", ["sgd", "adam"])
def test_the_loop_is_that_of_torchs_optimisers(optimiser, schedule) -> None:
    """The slow twin: torch.optim on the same batches, from the same weights."""
    x, y = data()
    rows = np.arange(0, 70)
    config = TrainConfig(
        optimiser=optimiser, weight_decay=0.01, schedule=schedule, epochs=4, batch=16, label_smoothing=0.1, seed=5
    )
    source = loop.Sources.of(5, 9)
    with torch.random.fork_rng([]):
        torch.manual_seed(source.initial)
        net = MLP()
    options = {"lr": config.learning_rate, "weight_decay": 0.01}
    twin = (
        torch.optim.SGD(net.parameters(), momentum=0.9, **options)
        if optimiser == "sgd"
        else torch.optim.AdamW(net.parameters(), betas=(0.9, 0.999), **options)
    )
    steps = config.steps(len(rows))
    streams = list(loop.shuffled(rows, batch=16, epochs=4, rng=source.order))
    assert len(streams) == steps == 18
    for step, own in enumerate(streams):
        if schedule == "cosine":
            twin.param_groups[0]["lr"] = config.learning_rate * (1 + np.cos(np.pi * step / steps)) / 2
        loss = F.cross_entropy(net(torch.tensor(x[own])), torch.tensor(y[own]), label_smoothing=0.1)
        twin.zero_grad()
        loss.backward()
        twin.step()
    found = fit(MLP, config, x, y, rows, seed=9)
    assert far(found, net.state_dict()) < 1e-5
    other = fit(MLP, TrainConfig(optimiser=optimiser, epochs=4, batch=16, seed=5), x, y, rows, seed=9)
    assert far(found, other) > 1e-3


def test_every_pass_holds_every_row_once_and_only_the_last_step_is_smaller() -> None:
    rows = np.arange(5, 28)
    found = list(loop.shuffled(rows, batch=10, epochs=4, rng=np.random.default_rng(0)))
    assert [len(own) for own in found] == [10] * 9 + [2]
    joined = np.concatenate(found).reshape(4, 23)
    assert all(sorted(own) == list(rows) for own in joined)
    assert not np.array_equal(joined[0], joined[1])


def test_a_batch_above_the_rows_takes_them_all() -> None:
    x, y = data(10)
    config = TrainConfig(epochs=3, batch=128)
    assert config.steps(10) == 3
    assert fit(MLP, config, x, y, np.arange(10), seed=0).keys() == MLP().state_dict().keys()


def test_augmentation_moves_and_mirrors_images() -> None:
    images = torch.arange(2 * 3 * 16 * 16.0).reshape(2, 3, 16, 16)
    still = loop.moved(images, torch.tensor([[2, 2, 0], [2, 2, 0]]))
    assert torch.equal(still, images)
    mirrored = loop.moved(images, torch.tensor([[2, 2, 1], [2, 2, 0]]))
    assert torch.equal(mirrored[0], images[0].flip(-1))
    assert torch.equal(mirrored[1], images[1])
    shifted = loop.moved(images, torch.tensor([[3, 0, 0], [2, 2, 0]]))
    assert torch.equal(shifted[0, :, :15, 2:], images[0, :, 1:, :14])
    assert not shifted[0, :, 15].any()
    wide = torch.arange(16 * 32.0).reshape(1, 1, 16, 32)
    assert torch.equal(loop.moved(wide, torch.tensor([[2, 4, 0]])), wide)
    assert torch.equal(loop.moved(wide, torch.tensor([[4, 8, 0]]))[..., :14, :28], wide[..., 2:, 4:])
    draws = loop.draw_moves(4000, 16, 32, rng=np.random.default_rng(0))
    assert draws.min(0).tolist() == [0, 0, 0]
    assert draws.max(0).tolist() == [4, 8, 1]
    assert abs(draws.mean(0) - [2, 4, 0.5]).max() < 0.2


def test_augmentation_changes_the_training_and_not_the_order() -> None:
    x, y = data(30, (1, 8, 8))
    factory = nets.small_convnet(1, 3, width=2)
    plain, moved = (
        fit(factory, TrainConfig(epochs=1, batch=10, augmentation=a), x, y, np.arange(30), seed=0)
        for a in ("none", "flip-crop")
    )
    assert not same(plain, moved)
    one, other = (loop.Sources.of(0, 0) for _ in range(2))
    loop.draw_moves(10, 8, 8, rng=one.augmentation)
    assert np.array_equal(one.order.permutation(30), other.order.permutation(30))


def test_input_noise_is_added_anew_in_each_step() -> None:
    """The slow twin: torch.optim on batches with noise added by hand, from the generator the model is said to have."""
    x, y = data()
    config = TrainConfig(epochs=2, batch=16, schedule="constant", learning_rate=0.05, input_noise=0.7, seed=5)
    source = loop.Sources.of(5, 9)
    with torch.random.fork_rng([]):
        torch.manual_seed(source.initial)
        net = MLP()
    generator = torch.Generator().manual_seed(source.input_noise)
    twin = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9)
    drawn = []
    for own in loop.shuffled(np.arange(70), batch=16, epochs=2, rng=source.order):
        drawn.append(torch.randn((len(own), 6), generator=generator))
        loss = F.cross_entropy(net(torch.tensor(x[own]) + 0.7 * drawn[-1]), torch.tensor(y[own]))
        twin.zero_grad()
        loss.backward()
        twin.step()
    before = x.copy()
    found = fit(MLP, config, x, y, np.arange(70), seed=9)
    assert far(found, net.state_dict()) < 1e-5
    assert np.array_equal(x, before)
    assert float(torch.cat(drawn).std()) == pytest.approx(1.0, abs=0.1)
    assert far(found, fit(MLP, dataclasses.replace(config, input_noise=0.0), x, y, np.arange(70), seed=9)) > 0.01


def test_input_noise_comes_after_augmentation_and_is_refused_for_tokens() -> None:
    images, y = data(30, (1, 8, 8))
    factory = nets.small_convnet(1, 3, width=2)
    found = {
        (a, noise): fit(
            factory,
            TrainConfig(epochs=1, batch=10, augmentation=a, input_noise=noise),
            images,
            y,
            np.arange(30),
            seed=0,
        )
        for a in ("none", "flip-crop")
        for noise in (0.0, 0.2)
    }
    assert len({tuple(state["0.weight"].flatten().tolist()) for state in found.values()}) == 4
    tokens = np.random.default_rng(0).integers(0, 9, (20, 5))

    def bag() -> nn.Module:
        return nn.Sequential(nn.Embedding(9, 4), nn.Flatten(), nn.Linear(20, 3))

    with pytest.raises(InputError, match="input_noise: expected 0 for tokens"):
        fit(bag, TrainConfig(epochs=1, input_noise=0.1), tokens, y[:20], np.arange(20), seed=0)


# --- seeds ------------------------------------------------------------------------------------------------------------

CONFIGS = {
    "plain": (MLP, TrainConfig(epochs=2, batch=16), (6,)),
    "private": (MLP, TrainConfig(epochs=2, batch=10, private=PRIVATE), (6,)),
    "defended": (
        nets.mlp(6, 3, hidden=(7,), dropout=0.2),
        TrainConfig(epochs=3, batch=16, input_noise=0.1, early_stopping=EarlyStopping(0.2, 2)),
        (6,),
    ),
    "private and pruned": (
        nets.mlp(6, 3, hidden=(7,), dropout=0.2),
        TrainConfig(epochs=2, batch=10, input_noise=0.1, pruning=Pruning(0.5), private=PRIVATE),
        (6,),
    ),
    "images": (
        nets.small_convnet(1, 3, width=2),
        TrainConfig(optimiser="adam", epochs=1, batch=16, augmentation="flip-crop"),
        (1, 8, 8),
    ),
}


@pytest.mark.parametrize("name", CONFIGS)
def test_the_same_seed_gives_the_same_weights_and_another_seed_others(name) -> None:
    factory, config, shape = CONFIGS[name]
    x, y = data(60, shape)
    first = fit(factory, config, x, y, np.arange(40), seed=7)
    torch.manual_seed(99)  # what torch's own generator has done before makes no difference
    np.random.seed(3)  # noqa: NPY002
    random.seed(4)
    state = torch.random.get_rng_state()
    threads = torch.get_num_threads()
    assert same(first, fit(factory, config, x, y, np.arange(40), seed=7))
    assert torch.equal(state, torch.random.get_rng_state())
    assert threads == torch.get_num_threads()
    assert not same(first, fit(factory, config, x, y, np.arange(40), seed=8))
    assert not same(first, fit(factory, dataclasses.replace(config, seed=1), x, y, np.arange(40), seed=7))


@pytest.mark.thorough
@pytest.mark.long
def test_workers_in_processes_give_the_same_weights_bit_for_bit() -> None:
    jobs = [
        (*CONFIGS[name][:2], *data(60, CONFIGS[name][2]), np.arange(40), seed) for name in CONFIGS for seed in (1, 2)
    ]
    with ProcessPoolExecutor(2, mp_context=multiprocessing.get_context("spawn")) as pool:
        found = list(pool.map(in_process, jobs))
    for job, weights in zip(jobs, found, strict=True):
        alone = fit(*job[:5], seed=job[5])
        assert all(np.array_equal(weights[name], alone[name].numpy()) for name in alone)


def in_process(job: tuple) -> dict[str, np.ndarray]:
    return {name: t.numpy() for name, t in fit(*job[:5], seed=job[5]).items()}


def test_rows_decide_and_their_order_does_not() -> None:
    x, y = data()
    config = TrainConfig(epochs=1, batch=16)
    member = np.zeros(80, dtype=bool)
    member[::2] = True
    rows = np.flatnonzero(member)
    first = fit(MLP, config, x, y, rows, seed=0)
    assert same(first, fit(MLP, config, x, y, member, seed=0))
    assert same(first, fit(MLP, config, x, y, rows[::-1].copy(), seed=0))
    changed = x.copy()
    changed[1::2] = 5.0
    assert same(first, fit(MLP, config, changed, y, rows, seed=0))  # records left out have no influence
    changed[0] += 1.0
    assert not same(first, fit(MLP, config, changed, y, rows, seed=0))


# --- many at once -----------------------------------------------------------------------------------------------------


@pytest.mark.long
@pytest.mark.parametrize("mode", ["sgd", "adam", "images", "defended"])
def test_each_stacked_model_is_the_one_that_is_trained_alone(mode) -> None:
    """Models of unequal numbers of records, hence of steps, one with fewer records than a batch."""
    factory, shape = (MLP, (6,)) if mode != "images" else (nets.small_convnet(1, 3, width=2), (1, 8, 8))
    if mode == "defended":
        factory = nets.mlp(6, 3, hidden=(7,), dropout=0.3)
    optimiser, augmentation = ("adam", "none") if mode == "adam" else ("sgd", "none")
    if mode == "images":
        augmentation = "flip-crop"
    x, y = data(80, shape)
    config = TrainConfig(
        optimiser=optimiser, epochs=3, batch=16, weight_decay=1e-3, augmentation=augmentation, label_smoothing=0.05
    )
    if mode == "defended":
        config = dataclasses.replace(config, input_noise=0.3, pruning=Pruning(0.5))
    included = np.random.default_rng(1).random((5, 80)) < [[0.5], [0.6], [0.4], [0.1], [0.9]]
    included[3, 12:] = False
    assert 0 < included[3].sum() < 16
    stacked = fit_many(factory, config, x, y, included, seeds=[3, 1, 4, 1, 5], stacked=True, at_once=3)
    looped = fit_many(factory, config, x, y, included, seeds=[3, 1, 4, 1, 5], stacked=False)
    for m, seed in enumerate([3, 1, 4, 1, 5]):
        alone = fit(factory, config, x, y, included[m], seed=seed)
        assert same(looped[m], alone)
        assert far(stacked[m], alone) < 2e-5, m
    assert far(stacked[1], stacked[3]) > 2e-3  # one seed, other records


@pytest.mark.long
def test_a_network_of_residual_blocks_is_stacked() -> None:
    x, y = data(12, (3, 8, 8))
    config = TrainConfig(epochs=1, batch=6)
    included = np.ones((2, 12), dtype=bool)
    found = fit_many(nets.resnet16(3, 3), config, x, y, included, seeds=[0, 1], stacked=True)
    for seed in (0, 1):
        assert far(found[seed], fit(nets.resnet16(3, 3), config, x, y, np.arange(12), seed=seed)) < 1e-3


def test_many_private_models_are_those_alone() -> None:
    x, y = data()
    config = TrainConfig(epochs=1, batch=10, private=PRIVATE)
    included = np.random.default_rng(0).random((2, 80)) < 0.5
    found = fit_many(MLP, config, x, y, included, seeds=[1, 2])
    assert same(found[1], fit(MLP, config, x, y, included[1], seed=2))
    with pytest.raises(InputError, match="DP-SGD"):
        fit_many(MLP, config, x, y, included, seeds=[1, 2], stacked=True)


class Dropping(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Sequential(nn.Linear(6, 8), nn.Dropout(0.5), nn.Linear(8, 3))
        self.register_buffer("scale", torch.ones(()))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.inner(x) * self.scale


def test_dropout_and_buffers_are_repeatable_and_buffers_refuse_to_be_stacked() -> None:
    x, y = data()
    config = TrainConfig(epochs=1, batch=10)
    first = fit(Dropping, config, x, y, np.arange(40), seed=0)
    assert same(first, fit(Dropping, config, x, y, np.arange(40), seed=0))
    assert first["scale"] == 1
    with pytest.raises(InputError, match="True with buffers;"):
        fit_many(Dropping, config, x, y, np.ones((1, 80), dtype=bool), seeds=[0], stacked=True)


@pytest.mark.long
def test_operations_that_cannot_be_stacked_are_found_beforehand() -> None:
    class Random(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(6, 3)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return F.dropout(self.layer(x), 0.5, self.training)

    x, y = data()
    with pytest.raises(InputError, match=r"stacked: .*such as random ones"):
        fit_many(Random, TrainConfig(epochs=1), x, y, np.ones((1, 80), dtype=bool), seeds=[0], stacked=True)
    with pytest.raises(InputError, match=r"records of shape \(6,\)"):
        fit_many(nets.mlp(7, 3), TrainConfig(epochs=1), x, y, np.ones((1, 80), dtype=bool), seeds=[0], stacked=True)


def test_parameters_of_any_shape_and_frozen_ones() -> None:
    class Odd(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.frozen, self.scale, self.unused = nn.Linear(6, 3), nn.Parameter(torch.ones(())), nn.Linear(2, 2)
            self.frozen.requires_grad_(False)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.frozen(x) * self.scale

    x, y = data()
    found = fit(Odd, TrainConfig(epochs=1, batch=10), x, y, np.arange(40), seed=0)
    with torch.random.fork_rng([]):
        torch.manual_seed(loop.Sources.of(0, 0).initial)
        before = Odd().state_dict()
    assert [name for name in found if not torch.equal(found[name], before[name])] == ["scale"]

    class Scaled(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner, self.scale = nn.Linear(6, 3), nn.Parameter(torch.ones(()))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.inner(x) * self.scale

    config = TrainConfig(epochs=1, batch=10)
    stacked = fit_many(Scaled, config, x, y, np.ones((2, 80), dtype=bool), seeds=[0, 1], stacked=True)
    assert far(stacked[1], fit(Scaled, config, x, y, np.arange(80), seed=1)) < 1e-4


# --- outputs ----------------------------------------------------------------------------------------------------------


def test_logits_are_float32_in_evaluation_mode_whatever_the_batch() -> None:
    x, y = data()
    state = fit(Dropping, TrainConfig(epochs=1, batch=10), x, y, np.arange(40), seed=0)
    before = copy.deepcopy(state)
    found = logits(Dropping, state, x, batch=7)
    assert found.shape == (80, 3)
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, logits(Dropping, state, x.astype(float)), atol=1e-6)
    net = Dropping()
    net.load_state_dict(state)
    np.testing.assert_allclose(found, net.eval()(torch.tensor(x)).detach().numpy(), atol=1e-6)
    assert same(state, before)


def test_a_memory_map_that_is_read_only_and_unsigned_bytes_are_read(tmp_path) -> None:
    x, y = data()
    np.save(tmp_path / "x.npy", x)
    opened = np.load(tmp_path / "x.npy", mmap_mode="r")
    config = TrainConfig(epochs=1, batch=10)
    assert same(fit(MLP, config, opened, y, np.arange(40), seed=0), fit(MLP, config, x, y, np.arange(40), seed=0))
    counts = (x > 0).astype(np.uint8)
    a, b, c = (
        fit(MLP, config, v, y, np.arange(40), seed=0) for v in (counts, counts.astype(bool), counts.astype(">f8"))
    )
    assert same(a, b)
    assert same(a, c)


def test_tokens_stay_whole_numbers_for_an_embedding() -> None:
    class Bag(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embed, self.head = nn.Embedding(9, 4), nn.Linear(4, 2)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.head(self.embed(x).mean(1))

    rng = np.random.default_rng(0)
    x = rng.integers(0, 9, (50, 5)).astype(np.uint16)
    state = fit(Bag, TrainConfig(epochs=1, batch=10), x, (x[:, 0] > 4).astype(int), np.arange(50), seed=0)
    assert logits(Bag, state, x).shape == (50, 2)


# --- what goes wrong --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("stacked", [True, False])
def test_a_loss_that_is_no_number_names_model_seed_and_epoch_and_keeps_the_others(stacked) -> None:
    x, y = data()
    x[0] = 1e20  # one record that only model 1 is trained on
    included = np.ones((3, 80), dtype=bool)
    included[[0, 2], 0] = False
    config = TrainConfig(epochs=4, batch=16)
    with pytest.raises(TrainingError, match=r"model 1 \(seed 22\) in epoch [12];") as caught:
        fit_many(MLP, config, x, y, included, seeds=[11, 22, 33], stacked=stacked)
    assert [failure[:2] for failure in caught.value.failed] == [(1, 22)]
    assert caught.value.states[1] is None
    kept = caught.value.states[2]
    assert kept is not None
    assert far(kept, fit(MLP, config, x, y, included[2], seed=33)) < 2e-4
    travelled = pickle.loads(pickle.dumps(caught.value))
    assert str(travelled) == str(caught.value)
    assert "\n" not in str(travelled)


def test_a_single_model_whose_loss_explodes_is_named() -> None:
    x, y = data()
    with pytest.raises(TrainingError, match=r"\(seed 5\) in epoch \d"):
        fit(MLP, TrainConfig(learning_rate=1e30, epochs=3, batch=16), x, y, np.arange(40), seed=5)
    with pytest.raises(TrainingError, match=r"in epoch 1"):  # weights that break in the only step have no later loss
        fit(MLP, TrainConfig(learning_rate=1e38, epochs=1, batch=40), x * 1e10, y, np.arange(40), seed=5)


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("optimiser", "lbfgs"),
        ("schedule", "linear"),
        ("augmentation", "mixup"),
        ("device", "tpu"),
        ("learning_rate", 0.0),
        ("learning_rate", 1e39),
        ("learning_rate", float("nan")),
        ("momentum", 1.0),
        ("weight_decay", -1.0),
        ("label_smoothing", 1.0),
        ("input_noise", -0.1),
        ("input_noise", float("inf")),
        ("early_stopping", 5),
        ("pruning", {"sparsity": 0.5}),
        ("epochs", 0),
        ("epochs", 2.5),
        ("batch", True),
        ("seed", -1),
    ],
)
def test_options_out_of_range_are_refused_by_name(option, value) -> None:
    with pytest.raises(InputError, match=f"^{option}: "):
        TrainConfig(**{option: value})


CHANGES = {
    "optimiser": "adam",
    "learning_rate": 0.2,
    "momentum": 0.5,
    "weight_decay": 0.1,
    "schedule": "constant",
    "epochs": 3,
    "batch": 7,
    "augmentation": "flip-crop",
    "label_smoothing": 0.1,
    "input_noise": 0.1,
    "adversarial": Adversarial(0.1),
    "early_stopping": EarlyStopping(),
    "pruning": Pruning(0.5),
    "private": PRIVATE,
    "mixed_precision": True,
    "tf32": True,
    "seed": 3,
    "loss": "squared_error",
}


def test_every_option_changes_the_fingerprint_of_a_store() -> None:
    """Stores are kept under the identity of their target: no two trainings may share one."""
    plain = TrainConfig(batch=16, learning_rate=0.1)
    assert set(CHANGES) | {"device"} == {
        field.name for field in dataclasses.fields(TrainConfig)
    }  # its kind: shadow.Fits
    configs = [plain, *(dataclasses.replace(plain, **{name: value}) for name, value in CHANGES.items())]
    configs += [
        dataclasses.replace(plain, early_stopping=EarlyStopping(share=0.2)),
        dataclasses.replace(plain, early_stopping=EarlyStopping(patience=2)),
        dataclasses.replace(plain, adversarial=Adversarial(0.2)),
        dataclasses.replace(plain, adversarial=Adversarial(0.1, steps=7)),
        dataclasses.replace(plain, pruning=Pruning(0.6)),
        dataclasses.replace(plain, pruning=Pruning(0.5, finetuning=0.1)),
    ]
    found = {targets.TorchTarget(MLP, config).identity() for config in configs}
    found |= {targets.TorchTarget(nets.mlp(6, 3, hidden=(7,), dropout=rate), plain).identity() for rate in (0.1, 0.2)}
    assert len(found) == len(configs) + 2


X, Y = data()


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"factory": "module:function"}, "factory.*str"),
        ({"factory": lambda: 1 / 0}, "raises ZeroDivisionError"),
        ({"factory": lambda: [1]}, "returns list"),
        ({"factory": nets.mlp(7, 3)}, r"records of shape \(6,\).*RuntimeError"),
        ({"factory": lambda: nn.Unflatten(1, (2, 3))}, r"logits \(n, classes\).*shape \(2, 2, 3\)"),
        ({"factory": lambda: nn.Identity()}, "without"),
        ({"factory": nets.mlp(6, 2)}, "classes from 0 to 1"),
        ({"x": X[:, 0]}, r"records \(n, ...\)"),
        ({"x": np.where(X > 2, np.nan, X)}, "finite"),
        ({"x": X.astype(str)}, "numbers"),
        ({"y": Y[:-1]}, "one class for each of the 80 records"),
        ({"y": Y - 1}, "from 0 up"),
        ({"y": Y.astype(float)}, "whole numbers"),
        ({"rows": [0, 80]}, "0 to 79"),
        ({"rows": [3, 3]}, "twice"),
        ({"rows": []}, "at least one"),
        ({"rows": np.zeros(80, dtype=bool)}, "at least one"),
        ({"rows": np.ones(79, dtype=bool)}, "indices of records"),
        ({"seed": -1}, "seed"),
        ({"seed": 1.5}, "seed"),
        ({"config": TrainConfig(augmentation="flip-crop")}, "images"),
    ],
)
def test_bad_input_is_one_line_that_names_the_argument(change, words) -> None:
    given = {"factory": MLP, "config": TrainConfig(epochs=1), "x": X, "y": Y, "rows": np.arange(40), "seed": 0} | change
    with pytest.raises(InputError, match=words) as caught:
        fit(given["factory"], given["config"], given["x"], given["y"], given["rows"], seed=given["seed"])
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("included", "options", "words"),
    [
        (np.ones((2, 79), dtype=bool), {}, r"\(2, 80\)"),
        (np.ones((2, 80)), {}, "float64"),
        (np.stack([np.ones(80, dtype=bool), np.zeros(80, dtype=bool)]), {}, "none for model 1"),
        (np.ones((2, 80), dtype=bool), {"at_once": 0}, "at_once"),
    ],
)
def test_inclusions_that_do_not_fit_are_refused(included, options, words) -> None:
    with pytest.raises(InputError, match=words):
        fit_many(MLP, TrainConfig(epochs=1), X, Y, included, seeds=[0, 1], **options)


def test_a_stack_too_large_for_the_gpu_says_what_to_do(monkeypatch) -> None:
    def full(*_: object, **__: object) -> None:
        raise torch.OutOfMemoryError("CUDA out of memory")

    monkeypatch.setattr(train, "train_together", full)
    with pytest.raises(InputError, match=r"at_once.*received 2, and it is too small for one .*smaller batches"):
        fit_many(MLP, TrainConfig(), X, Y, np.ones((2, 80), dtype=bool), seeds=[0, 1], stacked=True)


@pytest.mark.long
def test_a_stack_too_large_for_the_gpu_names_the_number_that_fits(monkeypatch) -> None:
    tried: list[tuple[int, int]] = []

    def small(factory, config, data, rows, seeds, *, stacked=False):
        tried.append((len(seeds), config.epochs))
        if len(seeds) > 3:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return train_together(factory, config, data, rows, seeds, stacked=stacked)

    train_together = train.train_together
    monkeypatch.setattr(train, "train_together", small)
    config, included = TrainConfig(batch=8, epochs=2), np.ones((9, 80), dtype=bool)
    with pytest.raises(InputError, match=r"^at_once: expected at most 2, which fit .*, received 9, .*too small"):
        fit_many(MLP, config, X, Y, included, seeds=list(range(9)), stacked=True, at_once=9)
    assert tried == [(9, 2), (4, 1), (2, 1)]
    assert len(fit_many(MLP, config, X, Y, included, seeds=list(range(9)), stacked=True, at_once=2)) == 9


def test_a_target_trains_as_many_together_as_it_is_given(monkeypatch) -> None:
    stacks: list[int] = []

    def watched(factory, config, data, rows, seeds, *, stacked=False):
        stacks.append(len(seeds))
        return train_together(factory, config, data, rows, seeds, stacked=stacked)

    train_together = train.train_together
    monkeypatch.setattr(train, "train_together", watched)
    monkeypatch.setattr(train, "_stacking", lambda *_: True)  # as on a GPU
    target = targets.TorchTarget(MLP, TrainConfig(epochs=1, batch=40, device="cpu"))
    assert len(target.fit_many(X, Y, np.ones((70, 80), dtype=bool), seeds=list(range(70)))) == 70
    assert stacks == [70]


def test_whole_numbers_serve_as_options() -> None:
    config = TrainConfig(learning_rate=1, momentum=0, epochs=1)
    floats = TrainConfig(learning_rate=1.0, momentum=0.0, epochs=1)
    assert same(fit(MLP, config, X, Y, [0, 1, 2], seed=0), fit(MLP, floats, X, Y, [0, 1, 2], seed=0))


def test_bad_outputs_are_refused() -> None:
    state = MLP().state_dict()
    with pytest.raises(InputError, match=r"shape \(7, 6\) instead of \(9, 6\)"):
        logits(nets.mlp(6, 3, hidden=(9,)), state, X)
    with pytest.raises(InputError, match="x: expected at least one record"):
        logits(MLP, state, X[:0])
    with pytest.raises(InputError, match="batch"):
        logits(MLP, state, X, batch=0)
    with pytest.raises(InputError, match=r"records of shape \(5,\)"):
        logits(MLP, state, X[:, :5])


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_a_gpu_that_is_not_there_is_refused() -> None:
    with pytest.raises(InputError, match="no GPU"):
        fit(MLP, TrainConfig(device="cuda"), X, Y, np.arange(40), seed=0)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize("mixed", [False, True])
def test_a_gpu_gives_nearly_the_same_models(mixed) -> None:
    included = np.random.default_rng(0).random((3, 80)) < 0.5
    gpu = TrainConfig(epochs=1, batch=16, device="cuda", mixed_precision=mixed)
    cpu = TrainConfig(epochs=1, batch=16, device="cpu")
    for a, b in zip(
        fit_many(MLP, gpu, X, Y, included, seeds=[0, 1, 2]),
        fit_many(MLP, cpu, X, Y, included, seeds=[0, 1, 2]),
        strict=True,
    ):
        assert far(a, b) < (0.05 if mixed else 1e-3)

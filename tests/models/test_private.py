"""DP-SGD: the analytic clipped sum against a loop over records and Opacus; noise, sampling and guarantee."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402
from torch.nn import functional as F  # noqa: E402

from miaudit.errors import InputError  # noqa: E402
from miaudit.models import loop, nets, private, train  # noqa: E402
from miaudit.models.private import ClippedSum, check_records_stay_apart  # noqa: E402
from miaudit.models.train import TrainConfig, fit, guarantee  # noqa: E402
from miaudit.models.train_config import Private  # noqa: E402
from models.clipped_layers import CASES, KINDS, Pooled, moved  # noqa: E402


def batch_of(name: str):
    make, draw = CASES[name]
    with torch.random.fork_rng([]):
        torch.manual_seed(5)
        return make(), draw(), torch.randint(0, 3, (7,))


def one_by_one(net: nn.Module, x: torch.Tensor, y: torch.Tensor) -> list[dict[str, torch.Tensor]]:
    """One backward pass for each record: the slow twin."""
    found = []
    for i in range(len(x)):
        loss = F.cross_entropy(net(x[i : i + 1]), y[i : i + 1])
        named = dict(net.named_parameters())
        found.append(dict(zip(named, torch.autograd.grad(loss, list(named.values())), strict=True)))
    return found


def norms(gradients: list[dict[str, torch.Tensor]]) -> torch.Tensor:
    return torch.stack([torch.cat([g.reshape(-1) for g in own.values()]).norm() for own in gradients])


@pytest.mark.thorough
@pytest.mark.long
@pytest.mark.parametrize("by_gram", [None, True, False])
@pytest.mark.parametrize("name", CASES)
def test_the_clipped_sum_is_that_of_a_loop_over_records(name, by_gram, monkeypatch) -> None:
    if by_gram is not None:
        monkeypatch.setattr(private, "_by_gram", lambda *_: by_gram)
    net, x, y = batch_of(name)
    each = one_by_one(net, x, y)
    length = norms(each)
    clip = float(length.median())  # some are clipped, some are not
    with ClippedSum(net, clip=clip) as clipped:
        losses, total = clipped(x, lambda out: F.cross_entropy(out, y, reduction="none"))
        _, slopes = clipped._slopes(x, lambda out: F.cross_entropy(out, y, reduction="none"))
        with torch.no_grad(), private.in_float32("cpu"):
            parts = clipped._parts(slopes)
    assert torch.allclose(losses, F.cross_entropy(net(x), y, reduction="none"), atol=1e-6)
    assert list(total) == list(each[0])
    for key in total:
        squared = torch.stack([own[key].square().sum() for own in each])
        assert torch.allclose(parts[key].squared, squared, rtol=1e-3, atol=1e-6), key
        expected = sum(own[key] * min(1.0, clip / float(n)) for own, n in zip(each, length, strict=True))
        assert torch.allclose(total[key], expected, rtol=1e-3, atol=1e-5 * clip), key
    unclipped = sum(own[key] for own in each)
    assert not torch.allclose(total[key], unclipped, rtol=1e-2, atol=1e-4 * clip)


@pytest.mark.thorough
@pytest.mark.long
@pytest.mark.parametrize("name", CASES)
def test_the_clipped_sum_is_that_of_opacus(name) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        opacus = pytest.importorskip("opacus")
        net, x, y = batch_of(name)
        for layer in net.modules():
            if isinstance(layer, nn.Conv2d):
                layer.padding_mode = "zeros"  # Opacus knows no other
            if isinstance(layer, nn.Embedding):
                layer.padding_idx = None  # for which Opacus has gradients all the same
        sampled = opacus.GradSampleModule(net, loss_reduction="sum")
        F.cross_entropy(sampled(x), y, reduction="sum").backward()
        samples = {key: p.grad_sample.detach().clone() for key, p in net.named_parameters()}
        sampled.to_standard_module()
    length = torch.stack([s.flatten(1).square().sum(1) for s in samples.values()]).sum(0).sqrt()
    clip = float(length.median())
    with ClippedSum(net, clip=clip) as clipped:
        _, total = clipped(x, lambda out: F.cross_entropy(out, y, reduction="none"))
    for key, own in samples.items():
        expected = torch.einsum("b,b...->...", (clip / length).clamp(max=1), own)
        assert torch.allclose(total[key], expected, rtol=1e-3, atol=1e-5 * clip), key


@pytest.mark.long
@pytest.mark.parametrize("name", CASES)
def test_one_record_moves_the_sum_by_at_most_the_clipping_norm(name) -> None:
    net, x, y = batch_of(name)
    clip = float(norms(one_by_one(net, x, y)).min()) / 2

    def total(rows: slice) -> torch.Tensor:
        with ClippedSum(net, clip=clip) as clipped:
            _, found = clipped(x[rows], lambda out: F.cross_entropy(out, y[rows], reduction="none"))
        return torch.cat([t.reshape(-1) for t in found.values()])

    moved = float((total(slice(0, 7)) - total(slice(1, 7))).norm())
    assert moved == pytest.approx(clip, rel=1e-3)  # it is clipped, so by exactly that


def test_every_layer_that_can_be_clipped_is_among_the_kinds() -> None:
    tried = {type(layer) for make, _ in KINDS.values() for layer in make().modules()}
    assert tried >= set(private._RULES)


@pytest.mark.thorough
@pytest.mark.long
@pytest.mark.parametrize("by_gram", [True, False])
@pytest.mark.parametrize("name", [*KINDS, *CASES])
def test_under_autocast_one_record_moves_the_sum_by_at_most_the_clipping_norm(name, by_gram, monkeypatch) -> None:
    monkeypatch.setattr(private, "_by_gram", lambda *_: by_gram)
    make, draw = (KINDS | CASES)[name]
    with torch.random.fork_rng([]):
        torch.manual_seed(5)
        net, x, y = make(), draw(), torch.randint(0, 3, (7,))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found = moved(net, x, y, clip=1e-3)  # far below all gradients, so each record moves it by just that
    assert min(found) > 1 - 1e-3 and max(found) <= 1 + 1e-5


def test_products_in_bfloat16_or_tf32_do_not_loosen_the_clip() -> None:
    before = torch.get_float32_matmul_precision()
    torch.manual_seed(0)
    net, x, y = nets.mlp(512, 10, hidden=(512,))(), torch.randn(64, 512), torch.randint(0, 10, (64,))
    try:
        torch.set_float32_matmul_precision("medium")  # what a processor without bfloat16 ignores
        with private.in_float32("cpu"):
            inside = torch.backends.cuda.matmul.fp32_precision
        with ClippedSum(net, clip=1e-3) as clipped:
            alone = [clipped(x[i : i + 1], lambda out: out[:, 0])[1] for i in range(3)]
            whole = clipped(x, lambda out: F.cross_entropy(out, y, reduction="none"))[1]
            rest = clipped(x[1:], lambda out: F.cross_entropy(out, y[1:], reduction="none"))[1]
        assert torch.get_float32_matmul_precision() == "medium"  # the caller's, as it was
    finally:
        torch.set_float32_matmul_precision(before)
    assert inside == "ieee"
    away = torch.cat([(whole[key] - rest[key]).reshape(-1) for key in whole]).double().norm()
    assert float(away) <= 1e-3 * (1 + 1e-5)
    for own in alone:
        assert float(torch.cat([t.reshape(-1) for t in own.values()]).double().norm()) <= 1e-3 * (1 + 1e-5)


@pytest.mark.parametrize("size", [1e2, 1e4, 1e6])
@pytest.mark.parametrize("layer", ["linear", "embedding"])
def test_positions_that_cancel_do_not_hide_a_gradient(size, layer) -> None:
    """Gram matrices of terms far above their sum leave nothing of its norm, and so of the clipping, in float32."""
    torch.manual_seed(0)
    if layer == "linear":
        net = Pooled(nn.Linear(64, 64))
        u = torch.randn(1, 2, 64)
        x = torch.cat([size * u, -size * u], 1) + 3 * torch.randn(1, 4, 64)
        with torch.no_grad():
            net.layer.weight /= size
        slope = torch.randn(64)
        answer = lambda out: out @ slope  # noqa: E731
    else:
        net, x = nn.Embedding(2, 8), torch.tensor([[0, 0]])
        u, v = torch.randn(2, 8)
        answer = lambda out: out[:, 0] @ (size * u + v) - out[:, 1] @ (size * u)  # noqa: E731
    with ClippedSum(net, clip=1.0) as clipped:
        _, total = clipped(x, answer)
    assert float(torch.cat([t.reshape(-1) for t in total.values()]).double().norm()) <= 1 + 1e-5


@pytest.mark.thorough
@pytest.mark.long
@pytest.mark.parametrize("bad", [float("nan"), float("inf"), 3e38])
@pytest.mark.parametrize("name", [name for name in CASES if "words" not in name])
def test_a_record_whose_gradient_is_no_number_adds_nothing(name, bad) -> None:
    net, x, y = batch_of(name)
    x[2] = bad
    found = moved(net, x, y, clip=1e-3)
    assert found[2] < 1e-3
    assert max(found) <= 1 + 1e-5 and min(found[:2] + found[3:]) > 1 - 1e-3


def test_gram_matrices_are_taken_where_they_are_smaller_and_gradients_not_cheap() -> None:
    assert not private._by_gram(64, 100, 20, 20)  # 20,000 numbers against 400
    assert private._by_gram(64, 2, 1000, 1000)
    assert not private._by_gram(64, 64, 576, 64)
    assert private._by_gram(64, 64, 2304, 1024)  # gradients of 600 MB


def test_frozen_parameters_have_no_part() -> None:
    net, x, y = batch_of("mlp")
    net[1].weight.requires_grad_(False)
    net[3].requires_grad_(False)
    with ClippedSum(net, clip=1e9) as clipped:
        _, total = clipped(x, lambda out: F.cross_entropy(out, y, reduction="none"))
    F.cross_entropy(net(x), y, reduction="sum").backward()
    trained = {key: p.grad for key, p in net.named_parameters() if p.requires_grad}
    assert set(total) == set(trained) == {"1.bias", "5.weight", "5.bias"}
    assert all(torch.allclose(total[key], trained[key], atol=1e-5) for key in trained)


class Twice(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(5, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layer(torch.relu(self.layer(x)))


class Unused(Twice):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.linear(x, self.layer.weight)


class InPlace(Twice):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(5, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out = self.layer(self.first(x))
        return out.add_(1.0)


class Own(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(5, 3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x @ self.weight


class Folded(Twice):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layer(x[:, None].expand(-1, 2, -1).reshape(-1, 5)).reshape(len(x), 2, 5).mean(1)


class Counting(Twice):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("mean", torch.zeros(5))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.training:
            self.mean.lerp_(x.detach().mean(0), 0.1)
        return self.layer(x)


class Tied(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Linear(5, 5), nn.Linear(5, 5)
        self.b.weight = self.a.weight

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.b(self.a(x))


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: nn.Sequential(nn.Linear(5, 5), nn.BatchNorm1d(5)), "layer 1 of type BatchNorm1d.*nn.GroupNorm"),
        (lambda: nn.Sequential(nn.Linear(5, 5), nn.BatchNorm1d(5, affine=False)), "BatchNorm1d"),
        (lambda: nn.Sequential(nn.Linear(5, 5), nn.ReLU(inplace=True)), "layer 1 of type ReLU.*inplace=True"),
        (lambda: nn.MultiheadAttention(4, 1), "MultiheadAttention.*attention with nn.Linear"),
        (lambda: nn.LSTM(5, 3), "LSTM"),
        (Own, r"type Own, which has parameters of its own.*nn\.Linear"),
        (Twice, "layer layer of type Linear, which is called twice"),
        (Unused, "is not called in a pass"),
        (InPlace, "changed in place"),
        (Folded, r"receives \(14, 5\) in a batch of 7"),
        (Counting, "changes them"),
        (Tied, "layer b of type Linear, which shares its weight with a"),
        (lambda: nn.Sequential(nn.Flatten(), nn.Identity()), "without"),
    ],
)
def test_what_cannot_be_clipped_is_refused_by_name(make, words) -> None:
    x = torch.randn(7, 5)
    with pytest.raises(InputError, match=words), ClippedSum(make(), clip=1.0) as clipped:
        for _ in range(2):
            clipped(x, lambda out: out.sum(1))


@pytest.mark.parametrize("option", [{"max_norm": 1.0}, {"scale_grad_by_freq": True}])
def test_embeddings_that_mix_records_are_refused(option) -> None:
    with pytest.raises(InputError, match="Embedding"):
        ClippedSum(nn.Embedding(3, 2, **option), clip=1.0)


def test_a_network_that_mixes_records_is_refused() -> None:
    class Centred(Twice):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.layer(x - x.mean(0))

    with pytest.raises(InputError, match="treats each record by itself"):
        check_records_stay_apart(Centred(), torch.randn(4, 5))
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(20, 5)), rng.integers(0, 2, 20)
    config = TrainConfig(batch=5, private=Private(noise=1.0, clip=1.0, delta=0.01, records=20))
    with pytest.raises(InputError, match="treats each record by itself"):
        fit(Centred, config, x, y, np.arange(20), seed=0)


class OfItsOwnPrecision(nn.Module):
    """Computes in bfloat16 whatever is asked for around it; with ``mixes`` logits are centred in the batch."""

    def __init__(self, *, mixes: bool) -> None:
        super().__init__()
        self.layers, self.mixes = nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 10)), mixes

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            found: torch.Tensor = self.layers(x)
        return found - found.mean(0) if self.mixes else found


@pytest.mark.long
def test_networks_that_round_are_no_networks_that_mix_records() -> None:
    for seed in range(30):
        torch.manual_seed(seed)
        check_records_stay_apart(OfItsOwnPrecision(mixes=False), torch.randn(8, 64))
        with pytest.raises(InputError, match="treats each record by itself"):
            check_records_stay_apart(OfItsOwnPrecision(mixes=True), torch.randn(8, 64))


def test_the_check_that_records_stay_apart_is_exact_where_rounding_was_asked_for() -> None:
    seen: list[tuple[str, bool]] = []

    class Watched(nn.Linear):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            seen.append((torch.backends.cudnn.conv.fp32_precision, torch.is_autocast_enabled("cpu")))
            return super().forward(x)

    with torch.autocast("cpu", dtype=torch.bfloat16):
        check_records_stay_apart(Watched(5, 2), torch.randn(4, 5))
    assert set(seen) == {("ieee", False)}


class OfAGpu(nn.Module):
    """Where TF32 is allowed it cuts what comes in to ten bits in larger batches, as kernels of a GPU may."""

    asked: list[str] = []  # noqa: RUF012

    def __init__(self, mixes: bool = False) -> None:
        super().__init__()
        self.layer, self.mixes = nn.Linear(50, 2), mixes
        with torch.no_grad():
            self.layer.weight -= self.layer.weight.mean(1, keepdim=True)  # what is common to the numbers cancels

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        asked = torch.backends.cuda.matmul.fp32_precision
        self.asked.append(asked)
        if asked == "tf32" and len(x) > 1:
            x = (x.view(torch.int32) & ~0x1FFF).view(torch.float32)
        return self.layer(x - x.mean(0) if self.mixes else x)


@pytest.mark.parametrize("tf32", [False, True])
def test_records_stay_apart_under_tf32_and_networks_that_mix_them_are_still_refused(
    tf32: bool, asked_for_tf32: None
) -> None:
    x, y = 1e3 + np.random.default_rng(0).normal(size=(20, 50)), np.arange(20) % 2
    few = torch.from_numpy(x[:8]).float()
    rounding = OfAGpu()
    with torch.no_grad():
        rounded, exact = rounding(few)[:1], rounding(few[:1])
    assert not torch.allclose(rounded, exact, rtol=1e-3, atol=1e-4)  # a check in TF32 would refuse it
    options = Private(noise=1.0, clip=1.0, delta=0.01, records=20)
    config = TrainConfig(epochs=1, batch=5, learning_rate=1e-9, device="cpu", tf32=tf32, private=options)
    OfAGpu.asked.clear()
    for seed in range(5):
        fit(OfAGpu, config, x, y, np.arange(20), seed=seed)
    assert set(OfAGpu.asked) == {"ieee", "tf32" if tf32 else "ieee"}
    with pytest.raises(InputError, match="treats each record by itself"):
        fit(lambda: OfAGpu(mixes=True), config, x, y, np.arange(20), seed=0)


# --- sampling, noise and guarantee ------------------------------------------------------------------------------------


def test_poisson_samples_hold_each_record_with_its_rate_independently() -> None:
    rng = np.random.default_rng(0)
    table = np.zeros((4000, 30), dtype=bool)
    for step, rows in enumerate(loop.poisson(np.arange(30), rate=0.2, steps=4000, rng=rng)):
        table[step, rows] = True
    sizes = table.sum(1)
    assert abs(table.mean(0) - 0.2).max() < 4.5 * np.sqrt(0.16 / 4000)
    assert sizes.var() == pytest.approx(30 * 0.16, rel=0.1)  # a fixed size would have none
    correlation = np.corrcoef(table.T) - np.eye(30)
    assert abs(correlation).max() < 4.5 / np.sqrt(4000)


def moves(noise: float, *, seed: int, steps: int = 40) -> np.ndarray:
    """Weights after training without momentum on records whose gradient is zero: a sum of noise alone."""
    options = Private(noise=noise, clip=0.5, delta=0.01, records=10 * steps, repeatable=True)
    config = TrainConfig(
        learning_rate=1.0, momentum=0.0, schedule="constant", epochs=1, batch=10, private=options, seed=3
    )
    x, y = np.zeros((50, 40)), np.zeros(50, dtype=int)
    factory = nets.mlp(40, 25, hidden=())
    after = fit(factory, config, x, y, np.arange(50), seed=seed)["1.weight"]
    source = loop.Sources.of(3, seed)
    with torch.random.fork_rng([]):
        torch.manual_seed(source.initial)
        before = factory().state_dict()["1.weight"]
    return (after - before).numpy().ravel()


@pytest.mark.parametrize(("share", "accepted"), [(1.0, True), (2 / 3, False), (3 / 2, False)])
def test_the_noise_has_the_stated_scale_over_the_nominal_batch(share, accepted) -> None:
    """Inputs are zero, so weights move by noise alone: normal, with sd noise clip sqrt(steps) / batch."""
    from scipy import stats

    found = np.concatenate([moves(2.0, seed=s) for s in range(2)])
    scale = 2.0 * share * 0.5 * np.sqrt(40) / 10
    assert (stats.kstest(found / scale, "norm").pvalue > 0.001) == accepted


def test_steps_rate_and_normaliser_follow_from_the_nominal_number_alone() -> None:
    options = Private(noise=1.0, clip=1.0, delta=0.01, records=100)
    config = TrainConfig(epochs=3, batch=8, private=options)
    assert config.steps(10) == config.steps(99) == config.steps(100) == 38
    assert TrainConfig(epochs=3, batch=8).steps(99) == 38
    assert TrainConfig(epochs=3, batch=8).steps(10) == 4
    sizes = [len(rows) for rows in loop._stream(config, np.arange(50), loop.Sources.of(0, 0))]
    assert len(sizes) == 38
    assert np.mean(sizes) == pytest.approx(4, abs=1.2)


@pytest.mark.parametrize("repeatable", [False, True])
def test_who_knows_the_seeds_of_a_private_training_cannot_take_its_noise_away(repeatable: bool) -> None:
    """An attacker who knows all records but whether the last is one trains both ways, and compares with what is out."""
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(60, 40)), rng.integers(0, 2, 60)
    options = Private(noise=2.0, clip=1.0, delta=0.01, records=60, repeatable=repeatable)
    config, factory = TrainConfig(epochs=3, batch=20, private=options, seed=3), nets.mlp(40, 2, hidden=(8,))

    def trained(n: int) -> torch.Tensor:
        return torch.cat([t.ravel() for t in fit(factory, config, x, y, np.arange(n), seed=5).values()])

    out = trained(60)
    with_it, without = (float((trained(n) - out).norm()) for n in (60, 59))
    assert (with_it == 0 < without) == repeatable
    if not repeatable:  # two draws of the noise apart
        assert 0.7 < with_it / without < 1.4


def test_all_but_the_initial_weights_of_a_private_training_come_from_the_operating_system() -> None:
    private = Private(noise=2.0, clip=1.0, delta=0.01, records=600)
    known, others = loop.Sources.of(3, 5), [loop._sources(TrainConfig(private=private, seed=3), 5) for _ in range(2)]
    assert {one.initial for one in others} == {known.initial}
    for name in ("forward", "noise", "dropout", "input_noise"):
        assert len({getattr(one, name) for one in (known, *others)}) == 3
    assert len({one.order.random() for one in (known, *others)}) == 3
    assert len({one.augmentation.random() for one in (loop.Sources.of(3, 5), *others)}) == 3
    assert loop._sources(TrainConfig(seed=3), 5).noise == known.noise
    with pytest.raises(InputError, match="true or false"):
        Private(noise=2.0, clip=1.0, delta=0.01, records=60, repeatable=1)


def test_without_any_record_in_the_sample_the_step_is_noise() -> None:
    options = Private(noise=1.0, clip=1.0, delta=0.01, records=10_000, repeatable=True)
    config = TrainConfig(epochs=1, batch=100, private=options)
    state = fit(nets.mlp(3, 2), config, np.ones((2, 3)), np.array([0, 1]), [0], seed=1)
    assert all(t.isfinite().all() for t in state.values())


def test_the_noise_is_float32_whatever_the_default() -> None:
    """In bfloat16 the noise would have 8 bits, and the sum that it is added to would be rounded to as many."""
    weights = loop.Weights.of([nets.mlp(3, 2)().float()])
    options = Private(noise=1.0, clip=1.0, delta=0.01, records=10)
    config = TrainConfig(batch=5, private=options)
    empty = torch.zeros(1, 0, 3), torch.zeros(1, 0, dtype=torch.long), torch.zeros(1, 0), (0,)
    before = torch.get_default_dtype()
    try:
        torch.set_default_dtype(torch.bfloat16)
        with ClippedSum(weights.nets[0], clip=1.0) as clipped:
            _, slope = loop.private_gradient(clipped, weights, config, options, 1)(*empty)
    finally:
        torch.set_default_dtype(before)
    assert slope.dtype == torch.float32


def test_one_record_without_a_finite_loss_does_not_stop_a_private_training() -> None:
    """A failure would say that it is among the records, without any noise."""
    options = Private(noise=1.0, clip=1.0, delta=0.01, records=20)
    config = TrainConfig(epochs=2, batch=10, private=options)
    x, y = np.random.default_rng(0).normal(size=(20, 5)), np.arange(20) % 2
    x[3] = 1e38
    state = fit(nets.mlp(5, 2, hidden=(8,)), config, x, y, np.arange(20), seed=0)
    assert all(t.isfinite().all() for t in state.values())
    with pytest.raises(train.TrainingError):  # without privacy it is no secret, and an error
        fit(nets.mlp(5, 2, hidden=(8,)), TrainConfig(epochs=2, batch=10), x, y, np.arange(20), seed=0)


@pytest.mark.long
def test_with_little_noise_and_a_wide_clip_it_learns_and_with_much_noise_it_does_not() -> None:
    rng = np.random.default_rng(1)
    x = rng.normal(size=(400, 5))
    y = (x @ [1, -1, 2, 0, 1] > 0).astype(int)

    def accuracy(noise: float) -> float:
        options = Private(noise=noise, clip=1.0, delta=1e-3, records=300, repeatable=True)
        config = TrainConfig(learning_rate=0.5, epochs=10, batch=30, private=options)
        state = fit(nets.mlp(5, 2, hidden=(8,)), config, x, y, np.arange(300), seed=0)
        return float((train.logits(nets.mlp(5, 2, hidden=(8,)), state, x[300:]).argmax(1) == y[300:]).mean())

    assert accuracy(0.5) > 0.85
    assert accuracy(500.0) < 0.8


@pytest.mark.long
def test_the_guarantee_is_the_accountants_for_the_steps_that_are_taken() -> None:
    from miaudit.dp import accounting

    options = Private(noise=3.0, clip=1.0, delta=0.01, records=2000)
    config = TrainConfig(epochs=75, batch=128, private=options)
    bound = guarantee(config)
    assert bound == guarantee(config, 2000)
    mechanism = accounting.dp_sgd(records=2000, batch=128, noise=3, epochs=75)
    assert bound.value == pytest.approx(accounting.upper_bound(mechanism, delta=0.01).value)
    assert bound.value == pytest.approx(1.6, abs=0.05)  # erratum A7
    with pytest.raises(InputError, match="nominal 2,000 records"):
        guarantee(config, 1999)
    with pytest.raises(InputError, match="DP-SGD"):
        guarantee(TrainConfig())


@pytest.mark.parametrize(
    ("name", "value"),
    [("noise", 0.0), ("noise", float("nan")), ("clip", -1), ("clip", True), ("delta", 1.0), ("records", 0.5)],
)
def test_options_out_of_range_are_refused(name, value) -> None:
    good = {"noise": 1.0, "clip": 1.0, "delta": 0.01, "records": 10}
    with pytest.raises(InputError, match=name):
        Private(**{**good, name: value})


def test_a_batch_above_the_nominal_number_is_refused() -> None:
    with pytest.raises(InputError, match="at most the nominal 10 records"):
        TrainConfig(batch=11, private=Private(noise=1.0, clip=1.0, delta=0.01, records=10))
    with pytest.raises(InputError, match="private"):
        TrainConfig(private={"noise": 1.0})

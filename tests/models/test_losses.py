"""Losses of labels and of numbers: against classes, against loops over records, and in every way of training."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from scipy import stats  # noqa: E402
from torch.nn import functional as F  # noqa: E402

from miaudit.collect.campaign import Campaign, Shadows  # noqa: E402
from miaudit.collect.records import Records  # noqa: E402
from miaudit.collect.run_campaign import collect  # noqa: E402
from miaudit.errors import InputError  # noqa: E402
from miaudit.models import loop, nets  # noqa: E402
from miaudit.models.losses import RecordLoss  # noqa: E402
from miaudit.models.private import ClippedSum  # noqa: E402
from miaudit.models.targets import SavedTorch, TorchTarget  # noqa: E402
from miaudit.models.train import fit, fit_many, logits  # noqa: E402
from miaudit.models.train_config import EarlyStopping, Private, TrainConfig  # noqa: E402
from miaudit.models.weights import Weights, build, save  # noqa: E402

N, WIDTH = 60, 3
NET = nets.mlp(5, WIDTH, hidden=(16,))
OF = ("binary_cross_entropy", "squared_error")


def data(loss: str, n: int = N, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, 5)).astype(np.float32)
    numbers = rng.normal(size=(n, WIDTH))
    return x, numbers if loss == "squared_error" else (numbers > 0).astype(int)


@pytest.mark.parametrize("smoothing", [0.0, 0.2])
def test_one_label_is_two_classes(smoothing: float) -> None:
    rng = np.random.default_rng(0)
    z, y = torch.from_numpy(5 * rng.normal(size=50)).float(), torch.from_numpy(rng.integers(0, 2, 50))
    of_labels = RecordLoss("binary_cross_entropy", smoothing)(z[:, None], y[:, None].float())
    of_classes = RecordLoss("cross_entropy", smoothing)(torch.stack([torch.zeros(50), z], 1), y)
    torch.testing.assert_close(of_labels, of_classes)


def test_losses_are_means_over_columns_by_hand() -> None:
    z, y = torch.tensor([[0.3, -2.0]]), torch.tensor([[1.0, 0.0]])
    p = torch.sigmoid(z)
    by_hand = -(torch.log(p[0, 0]) + torch.log(1 - p[0, 1])) / 2
    torch.testing.assert_close(RecordLoss("binary_cross_entropy")(z, y)[0], by_hand)
    torch.testing.assert_close(RecordLoss("squared_error")(z, y)[0], torch.tensor((0.7**2 + 2.0**2) / 2))


def test_the_default_is_what_it_was() -> None:
    z, y = torch.randn(9, 4, generator=torch.Generator().manual_seed(0)), torch.arange(9) % 4
    ours = RecordLoss.of(TrainConfig(label_smoothing=0.1))(z, y)
    assert torch.equal(ours, F.cross_entropy(z, y, reduction="none", label_smoothing=0.1))


@pytest.mark.long
@pytest.mark.parametrize("loss", OF)
@pytest.mark.parametrize("stopping", [None, EarlyStopping(0.2, 2)])
def test_stacked_and_looped_trainings_are_alike(loss: str, stopping: EarlyStopping | None) -> None:
    x, y = data(loss)
    config = TrainConfig(epochs=3, batch=10, loss=loss, early_stopping=stopping, device="cpu")
    included = np.random.default_rng(1).random((3, N)) < [[0.5], [0.6], [0.3]]
    looped = fit_many(NET, config, x, y, included, seeds=[0, 1, 2], stacked=False)
    stacked = fit_many(NET, config, x, y, included, seeds=[0, 1, 2], stacked=True)
    for m in range(3):
        alone = fit(NET, config, x, y, included[m], seed=m)
        assert all(torch.equal(alone[name], looped[m][name]) for name in alone)
        assert max(float((alone[name] - stacked[m][name]).abs().max()) for name in alone) < 2e-5
    other = fit(NET, dataclasses.replace(config, seed=7), x, y, included[0], seed=0)
    assert max(float((other[name] - stacked[0][name]).abs().max()) for name in other) > 1e-2  # the control


@pytest.mark.parametrize("loss", OF)
def test_a_training_is_that_of_a_plain_loop(loss: str) -> None:
    x, y = data(loss)
    config = TrainConfig(epochs=4, batch=N, loss=loss, schedule="constant", learning_rate=0.1, momentum=0.0)
    torch.manual_seed(loop.Sources.of(0, 3).initial)
    net = build(NET)
    wanted = torch.from_numpy(y.astype(np.float32))
    for _ in range(4):
        outputs = net(torch.from_numpy(x))
        values = F.binary_cross_entropy_with_logits(outputs, wanted) if loss == OF[0] else F.mse_loss(outputs, wanted)
        net.zero_grad()
        values.backward()
        with torch.no_grad():
            for p in net.parameters():
                p.copy_(p - 0.1 * p.grad)
    found = fit(NET, config, x, y, np.arange(N), seed=3)
    assert all(torch.allclose(found[name], p, atol=1e-5) for name, p in net.state_dict().items())


@pytest.mark.parametrize("loss", OF)
def test_the_private_gradient_is_that_of_a_loop_over_records(loss: str) -> None:
    x, y = data(loss, 12)
    options = Private(noise=1e-12, clip=0.05, delta=0.01, records=12)
    config = TrainConfig(batch=12, private=options, loss=loss)
    net = build(NET)
    wanted = torch.from_numpy(y.astype(np.float32))
    total = torch.zeros(sum(p.numel() for p in net.parameters()))
    norms = []
    for i in range(12):
        each = RecordLoss(loss)(net(torch.from_numpy(x[i : i + 1])), wanted[i : i + 1]).sum()
        slope = torch.cat([g.reshape(-1) for g in torch.autograd.grad(each, list(net.parameters()))])
        norms.append(float(slope.norm()))
        total += slope * min(1.0, options.clip / norms[-1])
    weights = Weights.of([net])
    with ClippedSum(weights.nets[0], clip=options.clip) as clipped:
        gradient = loop.private_gradient(clipped, weights, config, options, 0)
        _, found = gradient(torch.from_numpy(x)[None], wanted[None], torch.ones(1, 12), [12])
    assert max(norms) > options.clip  # something is clipped
    torch.testing.assert_close(found[0] * 12, total, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("loss", OF)
def test_a_private_training_without_noise_or_clipping_is_a_plain_one(loss: str) -> None:
    x, y = data(loss)
    config = TrainConfig(epochs=4, batch=N, loss=loss, learning_rate=0.1, device="cpu")
    plain = fit(NET, config, x, y, np.arange(N), seed=0)

    def private(clip: float) -> dict[str, torch.Tensor]:
        options = Private(noise=1e-12, clip=clip, delta=0.01, records=N, repeatable=True)
        return fit(NET, dataclasses.replace(config, private=options), x, y, np.arange(N), seed=0)

    assert max(float((plain[name] - values).abs().max()) for name, values in private(1e4).items()) < 1e-5
    assert max(float((plain[name] - values).abs().max()) for name, values in private(1e-2).items()) > 1e-3  # control


def auc(found: object) -> float:
    scores, inside = found.evidence.scores, found.evidence.member
    score = next(iter(scores.values()))
    ranks, m = stats.rankdata(score), inside.sum()
    return float((ranks[inside].sum() - m * (m + 1) / 2) / (m * (len(score) - m)))


@pytest.mark.long
@pytest.mark.parametrize("loss", OF)
def test_a_network_that_memorises_is_seen_and_one_that_never_saw_the_members_is_not(loss: str, tmp_path) -> None:
    x, y = data(loss, 120)
    config = TrainConfig(optimiser="adam", learning_rate=0.01, epochs=200, batch=60, loss=loss, device="cpu")
    factory = nets.mlp(5, WIDTH, hidden=(64,))
    records = Records(x, y, None, {}, "noise")
    target = TorchTarget(factory, config)
    assert target.kind == {"binary_cross_entropy": "multi-label", "squared_error": "predictions"}[loss]
    assert auc(collect(Campaign(target, records), rng=np.random.default_rng(0))) > 0.75
    path = tmp_path / "other.safetensors"
    save(fit(factory, config, *data(loss, 60, seed=8), np.arange(60), seed=0), path)
    given = "predictions" if loss == "squared_error" else "logits"
    member = np.random.default_rng(1).random(120) < 0.5
    stands = Campaign(SavedTorch(factory, path, given=given), dataclasses.replace(records, member=member), "one-run")
    assert abs(auc(collect(stands, rng=np.random.default_rng(0))) - 0.5) < 0.12


@pytest.mark.long
@pytest.mark.parametrize("loss", OF)
def test_shadow_models_of_both_losses(loss: str) -> None:
    x, y = data(loss, 60)
    config = TrainConfig(optimiser="adam", learning_rate=0.01, epochs=80, batch=30, loss=loss, device="cpu")
    target = TorchTarget(nets.mlp(5, WIDTH, hidden=(64,)), config)
    campaign = Campaign(target, Records(x, y, None, {}, "noise"), attacks=("lira_online",), shadows=Shadows(8))
    assert auc(collect(campaign, rng=np.random.default_rng(0))) > 0.7


def test_one_number_for_each_record_is_one_column() -> None:
    x, y = data("squared_error")
    config = TrainConfig(optimiser="adam", epochs=150, learning_rate=0.01, batch=N, loss="squared_error")
    net = nets.mlp(5, 1, hidden=(64,))
    state = fit(net, config, x, y[:, 0], np.arange(N), seed=0)
    again = fit(net, config, x, y[:, :1], np.arange(N), seed=0)
    assert all(torch.equal(state[name], again[name]) for name in state)
    assert ((logits(net, state, x)[:, 0] - y[:, 0]) ** 2).mean() < 0.5 * y[:, 0].var()


def test_another_loss_is_another_training() -> None:
    plain, squares = (
        TorchTarget(NET, TrainConfig(loss=loss)).identity() for loss in ("cross_entropy", "squared_error")
    )
    assert plain == TorchTarget(NET, TrainConfig()).identity()
    assert squares == plain.replace("loss='cross_entropy'", "loss='squared_error'") != plain


@pytest.mark.parametrize(
    ("loss", "y", "said"),
    [
        ("cross_entropy", np.zeros((N, 2), dtype=int), "set loss: binary_cross_entropy where each record has several"),
        ("cross_entropy", np.zeros(N), "set loss: squared_error for numbers"),
        ("binary_cross_entropy", np.full((N, WIDTH), 2), "expected 0 and 1 in every column"),
        ("binary_cross_entropy", np.zeros((N, 2), dtype=int), "expected 3 columns, as the network has outputs, rec"),
        ("squared_error", np.full((N, WIDTH), np.nan), "expected finite numbers"),
        ("squared_error", np.array(["a"] * N), "expected numbers"),
        ("squared_error", np.zeros((N - 1, WIDTH)), "expected numbers"),
    ],
)
def test_labels_that_do_not_fit_the_loss_are_refused(loss: str, y: np.ndarray, said: str) -> None:
    with pytest.raises(InputError, match=said) as error:
        fit(NET, TrainConfig(loss=loss), data(loss)[0], y, np.arange(N), seed=0)
    assert "\n" not in str(error.value)


def test_options_that_do_not_go_together_are_refused() -> None:
    with pytest.raises(InputError, match="label_smoothing: expected 0 beside loss: squared_error"):
        TrainConfig(loss="squared_error", label_smoothing=0.1)
    with pytest.raises(InputError, match="loss"):
        TrainConfig(loss="mse")
    x, y = data("binary_cross_entropy")
    with pytest.raises(InputError, match=r"training\.loss: expected binary_cross_entropy, or squared_error"):
        Campaign(TorchTarget(NET, TrainConfig()), Records(x, y, None, {}, "noise"))


@pytest.mark.long
def test_one_output_for_two_classes_is_one_label() -> None:
    x, y = data(OF[0], 80)
    config = TrainConfig(optimiser="adam", learning_rate=0.01, epochs=80, batch=40, loss=OF[0], device="cpu")
    target = TorchTarget(nets.mlp(5, 1, hidden=(64,)), config)
    records = Records(x, y[:, 0], None, {}, "noise")
    attacks = ("lira_online", "logit_confidence")
    found = collect(Campaign(target, records, attacks=attacks, shadows=Shadows(4)), rng=np.random.default_rng(0))
    assert auc(found) > 0.65
    columns = Campaign(target, dataclasses.replace(records, y=y[:, :1]), attacks=attacks, shadows=Shadows(4))
    again = collect(columns, rng=np.random.default_rng(0))
    for name in attacks:
        np.testing.assert_array_equal(found.evidence.scores[name], again.evidence.scores[name])
    classes = dataclasses.replace(records, y=np.arange(80) % 3)
    with pytest.raises(InputError, match=r"data\.y: expected 0 and 1, whether a record has each label, received 2"):
        collect(Campaign(target, classes), rng=np.random.default_rng(0))

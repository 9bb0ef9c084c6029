"""Early stopping: which records are held out, when an epoch ends, and the weights that are kept, against slow twins."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402
from torch.nn import functional as F  # noqa: E402

from miaudit.errors import InputError  # noqa: E402
from miaudit.models import loop, nets, stopping  # noqa: E402
from miaudit.models.train import (  # noqa: E402
    EarlyStopping,
    Private,
    Pruning,
    TrainConfig,
    TrainingError,
    fit,
    fit_many,
    logits,
)
from miaudit.models.weights import Weights  # noqa: E402

RNG = np.random.default_rng(0)
X = RNG.normal(size=(120, 6)).astype(np.float32)
Y = np.where(RNG.random(120) < 0.3, RNG.integers(0, 3, 120), np.digitize(X[:, 0], [-0.5, 0.5]))
CONFIG = TrainConfig(
    optimiser="adam",
    learning_rate=0.02,
    schedule="constant",
    epochs=12,
    batch=16,
    early_stopping=EarlyStopping(0.2, 3),
)
MLP = nets.mlp(6, 3, hidden=(32,))


def far(a: dict, b: dict) -> float:
    assert list(a) == list(b)
    return max(float((a[name] - b[name]).abs().max()) for name in a)


# --- which records, and when -----------------------------------------------------------------------------------------


def test_each_row_is_trained_on_or_held_out_and_each_as_often_as_any_other() -> None:
    rows, rng = np.arange(100, 125), np.random.default_rng(3)
    seen = np.zeros(25)
    for _ in range(2000):
        trained, out = stopping.held_out(rows, share=0.2, rng=rng)
        assert len(out) == 5
        assert np.array_equal(np.sort(np.r_[trained, out]), rows)
        assert np.array_equal(np.sort(trained), trained)
        seen[out - 100] += 1
    assert abs(seen / 2000 - 0.2).max() < 5 * np.sqrt(0.16 / 2000)


@pytest.mark.parametrize(("n", "share", "count"), [(2, 0.01, 1), (2, 0.99, 1), (10, 0.999, 9), (3, 0.5, 2)])
def test_at_least_one_record_is_held_out_and_one_is_left(n, share, count) -> None:
    trained, out = stopping.held_out(np.arange(n), share=share, rng=np.random.default_rng(0))
    assert (len(trained), len(out)) == (n - count, count)


@pytest.mark.parametrize("batch", [1, 3, 7, 16, 50])
def test_epochs_end_where_counting_says(batch) -> None:
    sizes, epochs = [16, 1, 23, 7], 5
    found = stopping.ends_of_epochs(sizes, batch=batch, epochs=epochs)
    config = TrainConfig(batch=batch, epochs=epochs)
    assert len(found) == max(config.steps(n) for n in sizes)
    for m, n in enumerate(sizes):
        seen, expected = 0, []
        for step in range(config.steps(n)):
            before = seen // n
            seen = min(seen + min(batch, n), epochs * n)
            expected += [step] if seen // n > before else []
        assert np.flatnonzero(found[:, m]).tolist() == expected
        assert expected[-1] == config.steps(n) - 1


def test_the_best_weights_are_kept_and_stopped_models_no_longer_looked_at() -> None:
    weights = Weights.of([nn.Linear(1, 1, bias=False) for _ in range(2)])
    both = np.array([True, True])
    never = {"ends": ~both[None], "losses": lambda: torch.zeros(2)}  # the losses are given one by one
    best = stopping.BestWeights(weights, patience=2, **never)
    first, second = [3.0, 2.0, 2.5, 2.0, 1.0], [5.0, 4.0, float("nan"), 3.0, 2.0]
    for epoch, losses in enumerate(zip(first, second, strict=True)):
        weights.values.fill_(float(epoch))
        best.see(torch.tensor(losses), both)
    assert best.stopped.tolist() == [True, False]  # an equal loss is no lower one
    best.restore()
    assert weights.values[:, 0].tolist() == [1.0, 4.0]
    assert best.never.tolist() == [False, False]
    partly = stopping.BestWeights(weights, patience=1, **never)
    partly.see(torch.tensor([1.0, 1.0]), np.array([True, False]))
    assert partly.never.tolist() == [False, True]
    assert not partly.stopped.any()


# --- training ---------------------------------------------------------------------------------------------------------


def by_hand(factory, config: TrainConfig, rows: np.ndarray, seed: int) -> tuple[dict, int, int]:
    """The slow twin: train anew for 1, 2, 3, ... epochs on what is left; return the best, its epoch and the last one.

    With a constant rate and batches that fill an epoch, a shorter training is the beginning of a longer one.
    """
    asked = config.early_stopping
    trained, out = stopping.held_out(rows, share=asked.share, rng=loop.Sources.of(config.seed, seed).held_out)
    assert len(trained) % config.batch == 0
    least, best, at = np.inf, {}, 0
    for epochs in range(1, config.epochs + 1):
        state = fit(factory, replace(config, early_stopping=None, epochs=epochs), X, Y, trained, seed=seed)
        loss = float(F.cross_entropy(torch.tensor(logits(factory, state, X[out])), torch.tensor(Y[out])))
        if loss < least:
            least, best, at = loss, state, epochs
        if epochs - at == asked.patience:
            break
    return best, at, epochs


class Normalised(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Sequential(nn.Linear(6, 32), nn.BatchNorm1d(32), nn.ReLU(), nn.Linear(32, 3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.inner(x)


@pytest.mark.long
@pytest.mark.parametrize("factory", [MLP, nets.mlp(6, 3, hidden=(32,), dropout=0.3), Normalised], ids=str)
def test_what_is_returned_is_the_best_of_the_trainings_of_every_length(factory) -> None:
    """Of plain networks, of some with dropout and of some with buffers, which are put back as well."""
    ends = []
    for seed in range(3):
        best, at, last = by_hand(factory, CONFIG, np.arange(100), seed)
        found = fit(factory, CONFIG, X, Y, np.arange(100), seed=seed)
        assert far(found, best) == 0
        ends.append((at, last))
    assert any(last < CONFIG.epochs for _, last in ends)
    assert any(at < last for at, last in ends)


def test_stopping_early_keeps_a_network_from_memorising() -> None:
    config = replace(CONFIG, epochs=60)
    rows = np.arange(100)
    trained, _ = stopping.held_out(rows, share=0.2, rng=loop.Sources.of(0, 0).held_out)
    losses = []
    for own, used in ((config, rows), (replace(config, early_stopping=None), trained)):
        out = torch.tensor(logits(MLP, fit(MLP, own, X, Y, used, seed=0), X[trained]))
        losses.append(float(F.cross_entropy(out, torch.tensor(Y[trained]))))
    assert losses[1] < 0.5 * losses[0]


@pytest.mark.long
def test_each_stacked_model_stops_where_it_would_alone() -> None:
    included = np.random.default_rng(5).random((4, 120)) < [[0.9], [0.5], [0.3], [0.1]]
    config = replace(CONFIG, epochs=25)
    looped = fit_many(MLP, config, X, Y, included, seeds=[7, 8, 9, 7], stacked=False)
    stacked = fit_many(MLP, config, X, Y, included, seeds=[7, 8, 9, 7], stacked=True)
    for m, seed in enumerate([7, 8, 9, 7]):
        alone = fit(MLP, config, X, Y, included[m], seed=seed)
        assert far(looped[m], alone) == 0
        assert far(stacked[m], alone) < 1e-3, m
    full = fit(MLP, replace(config, early_stopping=None), X, Y, included[0], seed=7)
    assert far(looped[0], full) > 0.1


def test_a_model_without_a_finite_loss_on_its_held_out_records_is_named() -> None:
    x = X.copy()
    _, out = stopping.held_out(np.arange(100), share=0.2, rng=loop.Sources.of(0, 1).held_out)
    x[out] = 3e38
    with pytest.raises(TrainingError, match=r"seed 1"):
        fit(MLP, CONFIG, x, Y, np.arange(100), seed=1)
    assert fit(MLP, replace(CONFIG, early_stopping=None), x, Y, np.setdiff1d(np.arange(100), out), seed=1)


def test_what_does_not_go_together_is_refused() -> None:
    with pytest.raises(
        InputError, match=r"early_stopping: expected none beside DP-SGD, .*not covered by the guarantee"
    ):
        replace(CONFIG, private=Private(noise=1.0, clip=1.0, delta=0.01, records=100))
    with pytest.raises(InputError, match="early_stopping: expected none beside pruning"):
        replace(CONFIG, pruning=Pruning(0.5))
    with pytest.raises(InputError, match="rows: expected at least two with early_stopping"):
        fit(MLP, CONFIG, X, Y, [3], seed=0)
    for option in ({"share": 0.0}, {"share": 1.0}, {"share": float("nan")}, {"patience": 0}, {"patience": 1.5}):
        with pytest.raises(InputError, match=f"early_stopping.{next(iter(option))}"):
            EarlyStopping(**option)
    with pytest.raises(InputError, match="early_stopping: expected EarlyStopping"):
        TrainConfig(early_stopping=3)

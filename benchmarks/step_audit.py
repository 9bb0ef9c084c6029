"""What a step audit costs: a training with 5,000 canaries beside the same training without.

``python benchmarks/step_audit.py`` trains an MLP and a small convolutional network, by miaudit's own DP-SGD and by
Opacus, with batches of the same size on 20,000 records. Time is process CPU of the steps; the ratio is the median of
pairs that were run one after the other. The bound itself, from what was released, stands beside it.
"""

from __future__ import annotations

import os

os.environ["OPENBLAS_NUM_THREADS"] = "1"  # before numpy

import argparse
import statistics
import time
import warnings

import numpy as np
import torch
from torch import nn

from miaudit.dp import several_runs, step_audit
from miaudit.dp.mechanism import GaussianNoise, PoissonSubsampled, Repeated
from miaudit.models.step_canaries import StepCanaries
from miaudit.models.train import Private, TrainConfig, fit

N, BATCH, CANARIES, NOISE, CLIP = 20_000, 500, 5_000, 1.0, 1.0


def mlp() -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(784, 256), nn.ReLU(), nn.Linear(256, 10))


def convnet() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(1, 16, 8, 2, padding=3), nn.ReLU(), nn.MaxPool2d(2, 1),
        nn.Conv2d(16, 32, 4, 2), nn.ReLU(), nn.MaxPool2d(2, 1),
        nn.Flatten(), nn.Linear(32 * 4 * 4, 32), nn.ReLU(), nn.Linear(32, 10),
    )  # fmt: skip


def cpu(call: object, *given: object) -> float:
    start = time.process_time()
    call(*given)  # type: ignore[operator]
    return time.process_time() - start


def ours(model: nn.Module, x: torch.Tensor, y: torch.Tensor, steps: int) -> None:
    config = TrainConfig(
        batch=BATCH, epochs=1, learning_rate=0.1, device="cpu",
        private=Private(noise=NOISE, clip=CLIP, delta=1e-5, records=BATCH * steps),
    )  # fmt: skip
    few = np.arange(min(len(x), BATCH * steps))
    fit(lambda: model, config, x, y.numpy(), few, seed=0)


def by_opacus(model: nn.Module, optimiser: torch.optim.Optimizer, x: torch.Tensor, y: torch.Tensor, steps: int) -> None:
    from opacus import PrivacyEngine

    loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(x, y), batch_size=BATCH)
    private, optimiser, loader = PrivacyEngine().make_private(
        module=model, optimizer=optimiser, data_loader=loader, noise_multiplier=NOISE, max_grad_norm=CLIP
    )
    for step, (records, labels) in enumerate(loader):
        if step == steps:
            break
        optimiser.zero_grad()
        nn.functional.cross_entropy(private(records), labels).backward()
        optimiser.step()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--pairs", type=int, default=5)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    rng = np.random.default_rng(0)
    x, y = torch.randn(N, 1, 28, 28), torch.randint(0, 10, (N,))
    for name, net in (("MLP", mlp), ("convnet", convnet)):
        for way in ("miaudit", "Opacus"):
            ratios = []
            for _ in range(options.pairs):
                made = StepCanaries(net(), x, y, count=CANARIES, clip=CLIP, rng=rng)
                watched = made.data.tensors
                bare = net()
                if way == "miaudit":
                    plain = cpu(ours, bare, x, y, options.steps)
                    seen = cpu(ours, made.model, *watched, options.steps)
                else:
                    plain = cpu(by_opacus, bare, torch.optim.SGD(bare.parameters(), lr=0.1), x, y, options.steps)
                    follow = made.follow(torch.optim.SGD(made.model.parameters(), lr=0.1))
                    seen = cpu(by_opacus, made.model, follow, *watched, options.steps)
                ratios.append(seen / plain)
            print(
                f"{name} by {way}: {statistics.median(ratios):.2f} times the training (at most 1.3); "
                + ", ".join(f"{one:.2f}" for one in sorted(ratios))
            )
    coins = rng.random(CANARIES) < 0.5
    run = step_audit.Released(coins + 4 * rng.normal(size=(options.steps, CANARIES)), coins)
    claim = Repeated(PoissonSubsampled(GaussianNoise(4.0), 0.1), options.steps)
    first = cpu(lambda: step_audit.audit(run, claim, sampling=False, rng=rng))
    again = cpu(lambda: step_audit.audit(run, claim, sampling=False, rng=rng))
    print(f"one audit of {CANARIES:,} canaries: {first:.2f} CPU s, of which the accountant {first - again:.2f}")
    counts = [(int(c), 500, 10_000) for c in rng.integers(380, 430, 8)]
    several_runs.mu_lower_bound([(400, 500, 9_999)] * 8)
    took = cpu(lambda: several_runs.mu_lower_bound(counts))
    print(f"a bound from the counts of 8 runs of 10,000 canaries: {1000 * took:.1f} ms (at most 10)")


if __name__ == "__main__":
    main()

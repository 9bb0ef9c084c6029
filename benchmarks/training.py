"""Stacked against looped training of 64 small networks, and a step of DP-SGD against a plain one, beside Opacus.

``python benchmarks/training.py`` prints the ratios on the CPU and, where there is one, on a GPU; it needs torch, and
prints Opacus' figures where that is installed. Everything is measured in one run, process CPU time of one thread
(wall time on a GPU), the fastest of several rounds, since other programs can only slow it down.
"""

from __future__ import annotations

import os

os.environ["OPENBLAS_NUM_THREADS"] = "1"  # before numpy
os.environ["OMP_NUM_THREADS"] = "1"

import argparse
import importlib.util
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

MODELS = 64


def seconds(call: Callable[[], Any], device: str, rounds: int) -> float:
    """Fastest of several rounds: process CPU time, or wall time with the work of the GPU."""
    import torch

    clock = time.perf_counter if device == "cuda" else time.process_time
    best = float("inf")
    for _ in range(rounds):
        start = clock()
        call()
        if device == "cuda":
            torch.cuda.synchronize()
        best = min(best, clock() - start)
    return best


def stacking(device: str, quick: bool) -> None:
    """Train 64 networks stacked and one after the other; the loop of larger networks is timed on a part of them."""
    from miaudit.models import nets
    from miaudit.models.train import TrainConfig, fit_many

    rng = np.random.default_rng(0)
    cases = [
        ("mlp 100-64-10, 1,000 records of half", nets.mlp(100, 10, hidden=(64,)), (1000, 100), 4, 64),
        ("mlp 446-128-30, 4,000 records of half", nets.mlp(446, 30), (4000, 446), 2, 16),
        ("convnet on 1 x 28 x 28, 1,000 records of half", nets.small_convnet(1, 10, width=8), (1000, 1, 28, 28), 1, 8),
    ]
    for name, factory, shape, epochs, part in cases[: 1 if quick else None]:
        x, y = rng.normal(size=shape).astype(np.float32), rng.integers(0, 10, shape[0])
        included = rng.random((MODELS, shape[0])) < 0.5
        config = TrainConfig(epochs=epochs, batch=64, device="cuda" if device == "cuda" else "cpu")
        # A stack of all, and a loop over a part, scaled: on the CPU convolutions would take minutes.
        stacked_models = MODELS if device == "cuda" or epochs > 1 else part

        def train(models: int, stacked: bool, f: Any = factory, c: Any = config, inc: Any = included) -> Any:
            return fit_many(f, c, x, y, inc[:models], seeds=list(range(models)), stacked=stacked)  # noqa: B023

        train(2, True), train(2, False)
        looped = seconds(lambda part=part, train=train: train(part, False), device, 2) / part
        together = seconds(lambda m=stacked_models, train=train: train(m, True), device, 2) / stacked_models
        print(
            f"{device}: {name}, {epochs} epochs: looped {1e3 * looped:.1f} ms, stacked {1e3 * together:.1f} ms a model "
            f"({stacked_models} at once); looped / stacked {looped / together:.2f} times"
        )


def private_steps(device: str, rounds: int) -> None:
    """Time one step on the same batch: plain, DP-SGD here, DP-SGD of Opacus by hooks and by ghost clipping."""
    import torch
    from torch.nn import functional as F

    from miaudit.models import nets
    from miaudit.models.loop import plain_gradient, private_gradient
    from miaudit.models.private import ClippedSum
    from miaudit.models.train import Private, TrainConfig
    from miaudit.models.weights import OPTIMISERS, Weights

    cases = [
        ("mlp 446-128-30", nets.mlp(446, 30), (446,), 128, 20),
        ("mlp 600-256-256-100", nets.mlp(600, 100, hidden=(256, 256)), (600,), 128, 20),
        ("mlp 3072-512-10", nets.mlp(3072, 10, hidden=(512,)), (3072,), 128, 5),
        ("convnet on 1 x 28 x 28", nets.small_convnet(1, 10), (1, 28, 28), 64, 2),
        ("resnet16 on 3 x 32 x 32", nets.resnet16(3, 10), (3, 32, 32), 32, 1),
    ]
    for name, factory, shape, size, repeats in cases:
        net = factory().to(device)
        x, y = torch.randn(size, *shape, device=device), torch.randint(0, 10, (size,), device=device)
        batch = x[None], y[None], torch.full((1, size), 1 / size, device=device), (size,)
        private = Private(noise=1.0, clip=1.0, delta=1e-5, records=10 * size)
        config = TrainConfig(batch=size, private=private)
        weights = Weights.of([net])
        optimiser = OPTIMISERS["sgd"](weights.values, momentum=0.9, decay=0.0)
        rate = torch.full((1, 1), 1e-6, device=device)

        def steps(gradient: Any, count: int = repeats, b: Any = batch, o: Any = optimiser, r: Any = rate) -> None:
            for _ in range(count):
                o.step(gradient(*b)[1], r)

        plain = plain_gradient(weights, config)
        steps(plain)
        usual = seconds(lambda s=steps, g=plain: s(g), device, rounds) / repeats
        with ClippedSum(net, clip=1.0) as clipped:
            ours = private_gradient(clipped, weights, config, private, 0)
            steps(ours)
            own = seconds(lambda s=steps, g=ours: s(g), device, rounds) / repeats
        line = f"{device}: {name}, batch {size}: plain {1e3 * usual:.2f} ms, DP-SGD {1e3 * own:.2f} ms, "
        line += f"{own / usual:.2f} times"
        torchs = torchs_own(factory().to(device), x, y, device, rounds, repeats)
        others = [f"plain by torch.optim {1e3 * torchs:.2f} ms"]
        if importlib.util.find_spec("opacus"):
            for mode in ("hooks", "ghost"):
                step = opacus_step(mode, factory().to(device), x, y, size, F.cross_entropy)
                step()
                spent = seconds(lambda s=step, n=repeats: [s() for _ in range(n)], device, rounds) / repeats
                others.append(f"Opacus by {mode} {1e3 * spent:.2f} ms, {spent / usual:.2f} times")
        target = " (target: at most 3)" if name.startswith("mlp") else ""
        print("; ".join([line + target, *others]))


def torchs_own(net: Any, x: Any, y: Any, device: str, rounds: int, repeats: int) -> float:
    """Seconds of a plain step as it is usually written, so that the ratio is not flattered by a slow loop of ours."""
    import torch

    optimiser = torch.optim.SGD(net.parameters(), lr=1e-6, momentum=0.9)

    def steps() -> None:
        for _ in range(repeats):
            optimiser.zero_grad()
            torch.nn.functional.cross_entropy(net(x), y).backward()
            optimiser.step()

    steps()
    return seconds(steps, device, rounds) / repeats


def opacus_step(mode: str, net: Any, x: Any, y: Any, size: int, loss: Any) -> Callable[[], None]:
    """Opacus' own step on a fixed batch: per-example gradients by hooks, or two backward passes by ghost clipping."""
    import torch

    warnings.simplefilter("ignore")
    plain = torch.optim.SGD(net.parameters(), lr=1e-6, momentum=0.9)
    options = {"noise_multiplier": 1.0, "max_grad_norm": 1.0, "expected_batch_size": size}
    if mode == "hooks":
        from opacus import GradSampleModule
        from opacus.optimizers import DPOptimizer

        module, optimiser = GradSampleModule(net), DPOptimizer(plain, **options)
        criterion = loss
    else:
        from opacus.grad_sample import GradSampleModuleFastGradientClipping
        from opacus.optimizers import DPOptimizerFastGradientClipping
        from opacus.utils.fast_gradient_clipping_utils import DPLossFastGradientClipping

        module = GradSampleModuleFastGradientClipping(net, max_grad_norm=1.0, use_ghost_clipping=True)
        optimiser = DPOptimizerFastGradientClipping(plain, **options)
        criterion = DPLossFastGradientClipping(module, optimiser, torch.nn.CrossEntropyLoss())

    def step() -> None:
        optimiser.zero_grad()
        criterion(module(x), y).backward()
        optimiser.step()

    return step


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="the smallest case of each, a few rounds")
    options = parser.parse_args()
    if not importlib.util.find_spec("torch"):
        print("training: skipped, torch is not installed")
        return
    import torch

    torch.set_num_threads(1)
    print(f"torch {torch.__version__}; CPU in one thread")
    devices = ["cpu"]
    if torch.cuda.is_available():
        print(f"GPU: {torch.cuda.get_device_name()}")
        devices.append("cuda")
    else:
        print("no GPU: its lines are skipped")
    for device in devices:
        private_steps(device, 2 if options.quick else 7)
        stacking(device, options.quick)


if __name__ == "__main__":
    main()

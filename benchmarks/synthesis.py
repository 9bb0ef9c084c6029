"""50 generators with differential privacy: stacked, with analytic norms, against looping over Opacus' hooks.

``python benchmarks/synthesis.py`` prints the ratios for the plain and the causal VAE separately; it needs torch, and
Opacus for the comparison. The whole work is 50 models x 100 epochs x 5,000 records of 222 binary columns, in steps of
100 records: 250,000 model-steps. A part of the steps of each way is timed and scaled; which part is printed. Process
CPU time of one thread, the fastest of several rounds, since other programs can only slow it down; same network, loss,
clipping, noise and optimiser both ways.
"""

from __future__ import annotations

import os

os.environ["OPENBLAS_NUM_THREADS"] = "1"  # before numpy
os.environ["OMP_NUM_THREADS"] = "1"

import argparse
import importlib.util
import sys
import time
import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

MODELS, EPOCHS, RECORDS, COLUMNS, BATCH = 50, 100, 5_000, 222, 100
STEPS = MODELS * EPOCHS * RECORDS // BATCH
SPLIT, HIDDEN, LATENT = 79, 64, 10
NOISE, CLIP, RATE = 1.4, 1.0, 0.001


def fastest(call: Callable[[], Any], rounds: int) -> float:
    """Process CPU time of the fastest of several rounds."""
    best = float("inf")
    for _ in range(rounds):
        start = time.process_time()
        call()
        best = min(best, time.process_time() - start)
    return best


def world() -> tuple[Any, dict[str, Any]]:
    """The stand-in of Pain5000, and the graphs along which its generators factorise."""
    sys.path.insert(0, str(Path(__file__).parents[1] / "experiments"))
    from causal_synthesis.pain import pain

    model = pain()
    table = model.sample(RECORDS, rng=np.random.default_rng(0))
    return table, {"plain": None, "causal, X1 -> X2": model.partial["causes"], "causal, full graph": model.graph}


def stacked(table: Any, graph: Any, *, private: bool, at_once: int, epochs: int, rounds: int) -> float:
    """CPU seconds of a model-step of ours: everything from encoding to the last step, sampling and noise included."""
    from miaudit.synthesis import GeneratorConfig, Privacy, fit_many

    models = max(1, min(MODELS, at_once))
    config = GeneratorConfig(epochs=epochs, batch=BATCH, hidden=HIDDEN, latent=LATENT, at_once=at_once)
    privacy = Privacy(records=RECORDS, noise=NOISE, clip=CLIP) if private else None
    rows = np.ones((models, len(table)), dtype=bool)
    steps = models * epochs * RECORDS // BATCH

    def train() -> None:
        fit_many(table, graph, privacy, rows=rows, rng=np.random.default_rng(0), config=config, repeatable=True)

    # the first call of a process pays for what torch sets up once
    fit_many(table, graph, privacy, rows=rows[:2], rng=np.random.default_rng(0), config=replace(config, epochs=1))
    return fastest(train, rounds) / steps


def network(causal: bool) -> Any:
    """The same VAE from torch's own layers; the causal one decodes X1 from z, and X2 from z and X1."""
    import torch
    from torch import nn
    from torch.nn import functional as F

    def three(a: int, b: int) -> nn.Sequential:
        layers = (nn.Linear(a, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, b))
        return nn.Sequential(*layers)

    class Vae(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.encoder = three(COLUMNS, 2 * LATENT)
            self.first = three(LATENT, SPLIT if causal else COLUMNS)
            self.second = three(LATENT + SPLIT, COLUMNS - SPLIT) if causal else None

        def forward(self, x: Any) -> Any:
            mean, raw = self.encoder(x).chunk(2, -1)
            log_variance = 8.0 * torch.tanh(raw / 8.0)
            z = mean + (0.5 * log_variance).exp() * torch.randn_like(mean)
            logits = self.first(z)
            if self.second is not None:
                logits = torch.cat([logits, self.second(torch.cat([z, x[:, :SPLIT]], -1))], -1)
            likelihood = -F.binary_cross_entropy_with_logits(logits, x, reduction="none").sum(-1)
            return 0.5 * (mean.square() + log_variance.exp() - log_variance - 1).sum(-1) - likelihood

    return Vae()


def hooks(table: Any, *, causal: bool, steps: int, rounds: int) -> float:
    """CPU seconds of a model-step of Opacus: gradients of records by hooks, clipped and noised by its optimiser."""
    import torch
    from opacus import GradSampleModule
    from opacus.optimizers import DPOptimizer

    torch.manual_seed(0)
    wrapped = GradSampleModule(network(causal), loss_reduction="sum")
    adam = torch.optim.Adam(wrapped.parameters(), lr=RATE, fused=True)
    optimiser = DPOptimizer(adam, noise_multiplier=NOISE, max_grad_norm=CLIP, expected_batch_size=BATCH)
    x = torch.from_numpy(table.values.astype(np.float32))
    rng = np.random.default_rng(0)

    def train() -> None:
        for _ in range(steps):
            rows = torch.from_numpy(np.flatnonzero(rng.random(RECORDS) < BATCH / RECORDS))
            optimiser.zero_grad()
            wrapped(x[rows]).sum().backward()
            optimiser.step()

    train()
    return fastest(train, rounds) / steps


def generators(quick: bool) -> None:
    """Print what a model-step costs each way, the whole work, and the ratios."""
    import torch

    torch.set_num_threads(1)
    table, graphs = world()
    epochs, rounds, steps = (1, 1, 20) if quick else (2, 3, 60)
    opacus = importlib.util.find_spec("opacus") is not None
    part = 25 * epochs * RECORDS // BATCH
    print(
        f"timed: {part:,} of {STEPS:,} model-steps stacked (25 at once), {steps} of Opacus; fastest of {rounds} rounds"
    )
    for name, graph in graphs.items():
        options = {"epochs": epochs, "rounds": rounds}
        ours = stacked(table, graph, private=True, at_once=25, **options)
        line = f"{name}: stacked {1e3 * ours:.2f} ms a model-step, {STEPS * ours:,.0f} CPU s for all"
        if opacus and "full" not in name:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                theirs = hooks(table, causal=graph is not None, steps=steps, rounds=rounds)
            line += (
                f"; Opacus' hooks {1e3 * theirs:.2f} ms, {STEPS * theirs:,.0f} CPU s; ratio {theirs / ours:.1f} times"
            )
        print(line, flush=True)
        alone = stacked(table, graph, private=True, at_once=1, **options)
        free = stacked(table, graph, private=False, at_once=25, **options)
        loop = stacked(table, graph, private=False, at_once=1, **options)
        print(
            f"{name}: one at a time {1e3 * alone:.2f} ms; without privacy stacked {1e3 * free:.2f} ms, one at a time "
            f"{1e3 * loop:.2f} ms",
            flush=True,
        )
    if not opacus:
        print("Opacus is not installed: no comparison")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer steps and one round")
    generators(parser.parse_args().quick)

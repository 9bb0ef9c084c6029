"""Replay the zoo's loops exactly: what one record changes, and how much noise there is, without statistics.

The model is one vector, whose gradient for a record is the record itself. So a batch can hold the gradients at which a
wrong rule of clipping shows: of very different lengths, one far longer than all others, one that is spread evenly, and
an order in which each micro-batch depends on its first record.
"""

from __future__ import annotations

import math
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from miaudit.dp import replay
from miaudit.models.recorded_step import RecordedStep

sys.path.insert(0, str(Path(__file__).parents[1]))

from step_audit.zoo import MICRO, RATE, Loop, Setting, apart, mixed

RECORDS, WIDTH, STEPS, BATCHES = 16, 4_104, 4, 4


class Product(nn.Module):
    """A model whose output is the product of a record with its weights: the gradient is the record."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(width))

    def forward(self, x: Tensor) -> Tensor:
        return x @ self.weight


def compared(loop: Loop, *, batches: int = BATCHES) -> list[replay.Comparison]:
    """Replay steps of a loop on several batches, with all neighbours that lack one record."""
    claimed = replace(loop.setting, canaries=8, spread=1)
    rows = np.arange(RECORDS)
    claim = replay.Claim(clip=claimed.clip, noise_multiplier=claimed.noise)
    results = []
    for seed in range(batches):
        recorded = _recorded(loop, claimed, seed)
        neighbours = replay.without_one(rows)
        results.append(replay.check(recorded, rows, neighbours, claim, state=recorded.state(), steps=STEPS))
    return results


def cells(results: list[replay.Comparison]) -> tuple[str, str]:
    """Return the largest change in clips, and the noise of each step over the claimed one, for the table."""
    largest = max(each.largest.ratio for each in results)
    noise = [max((each.noise[step] for each in results), key=_away) for step in range(STEPS)]
    lows = [f"{each.lowest:.2g}" for each in noise]
    text = lows[0] if len(set(lows)) == 1 else ", ".join(lows)
    reused = " (used again)" if any(each.reused for each in noise) else ""
    return f"{largest:.2f}" if largest < 100 else "over 100", text + reused


def _away(noise: replay.StepNoise) -> float:
    return abs(noise.lowest - 1)


def _recorded(loop: Loop, claimed: Setting, seed: int) -> RecordedStep:
    source = torch.Generator().manual_seed(seed)
    own = torch.Generator().manual_seed(99 if loop.seed is None else loop.seed)
    memory = {"step": 0}
    if loop.mixes:
        model: nn.Module = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 2))
        torch.nn.init.normal_(model[0].weight, generator=source)  # type: ignore[index]
        records = (torch.randn(RECORDS, 4, generator=source), torch.arange(RECORDS) % 2)
    else:
        model = Product(WIDTH)
        records = (_gradients(seed, claimed.clip, source), torch.zeros(RECORDS, dtype=torch.long))
    weights = list(model.parameters())

    def step(x: Tensor, y: Tensor) -> Tensor:
        gradients = mixed(model, x, y) if loop.mixes else _rows(model, x, y)
        total = loop.summed(gradients, claimed)
        released = total + loop.noise(total, memory["step"], claimed, own)
        memory["step"] += 1
        with torch.no_grad():
            for weight, part in zip(weights, released.split([w.numel() for w in weights]), strict=True):
                weight.sub_(RATE * part.reshape(weight.shape) / RECORDS)
        return released

    return RecordedStep(step, model, records, memory=memory)


def _rows(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
    return apart(model, x, y, of=lambda outputs, _: outputs.sum())


def _gradients(kind: int, clip: float, source: torch.Generator) -> Tensor:
    """Return gradients (16, 4,104) of one of four kinds.

    They have many lengths, or one is far longer, or one is spread evenly, or their order decides what a micro-batch is.
    """
    gradients = 3 * clip / math.sqrt(WIDTH) * torch.randn(RECORDS, WIDTH, generator=source)
    gradients *= torch.exp(2 * torch.randn(RECORDS, 1, generator=source))
    if kind % 4 == 1:
        gradients[0] = 1e3 * clip * torch.randn(WIDTH, generator=source)
    if kind % 4 == 2:
        gradients[0] = 20 * clip / math.sqrt(WIDTH)
    if kind % 4 == 3:  # without record 0 every micro-batch of four points the other way
        gradients[:] = 0
        for part in range(RECORDS // MICRO):
            gradients[MICRO * part, 0] = clip * 10.0 ** (8 - 2 * part)
            gradients[MICRO * part + 1, 0] = -clip * 10.0 ** (7 - 2 * part)
    return gradients

"""DP-SGD as a plain loop, right and wrong in ways that were met in practice, each audited in the same way.

A loop has three stages, and a bug replaces one of them: which records are in a step, what becomes of the gradients of
records, and the noise. Natural records are noise of a few classes: the canaries stand at coordinates of their own.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor, nn

from miaudit.dp.mechanism import GaussianNoise, Mechanism, PoissonSubsampled, Repeated
from miaudit.dp.step_audit import Released
from miaudit.models.step_canaries import StepCanaries

NATURAL, FEATURES, CLASSES = 200, 8, 2
MICRO = 4  # records of a micro-batch, or micro-batches of a step
RATE = 0.5  # of learning


@dataclass(frozen=True)
class Setting:
    """What is claimed: so many steps of DP-SGD at a rate and a noise; and with what it is audited."""

    steps: int = 160
    rate: float = 0.1
    noise: float = 2.0
    clip: float = 1.0
    canaries: int = 1_000
    times: float = 100.0
    spread: int = 1

    def claim(self, steps: int) -> Mechanism:
        each = GaussianNoise(self.noise)
        return Repeated(each if self.rate == 1 else PoissonSubsampled(each, self.rate), steps)

    @property
    def batch(self) -> float:
        return self.rate * (NATURAL + self.canaries / 2)


# -- the stages, right -------------------------------------------------------------------------------------------------


def poisson(n: int, claimed: Setting, rng: torch.Generator) -> Iterator[Tensor]:
    for _ in range(claimed.steps):
        yield torch.nonzero(torch.rand(n, generator=rng) < claimed.rate)[:, 0]


def clipped(gradients: Tensor, claimed: Setting) -> Tensor:
    """Sum gradients of records (B, P), each clipped by itself."""
    norms = gradients.norm(dim=1, keepdim=True).clamp_min(1e-12)
    return (gradients * (claimed.clip / norms).clamp_max(1.0)).sum(0)


def fresh(like: Tensor, _step: int, claimed: Setting, rng: torch.Generator) -> Tensor:
    return claimed.noise * claimed.clip * torch.randn(like.shape, generator=rng)


# -- which records are in a step ---------------------------------------------------------------------------------------


def same_batches(n: int, claimed: Setting, rng: torch.Generator) -> Iterator[Tensor]:
    parts = torch.randperm(n, generator=rng).chunk(round(1 / claimed.rate))
    for step in range(claimed.steps):
        yield parts[step % len(parts)]


def shuffled(n: int, claimed: Setting, rng: torch.Generator) -> Iterator[Tensor]:
    period = round(1 / claimed.rate)
    for start in range(0, claimed.steps, period):
        yield from torch.randperm(n, generator=rng).chunk(period)[: claimed.steps - start]


def physical_rate(n: int, claimed: Setting, rng: torch.Generator) -> Iterator[Tensor]:
    yield from poisson(n, replace(claimed, rate=MICRO * claimed.rate), rng)


# -- what becomes of the gradients of records --------------------------------------------------------------------------


def unclipped(gradients: Tensor, _claimed: Setting) -> Tensor:
    return gradients.sum(0)


def clipped_mean(gradients: Tensor, claimed: Setting) -> Tensor:
    return len(gradients) * clipped(gradients.mean(0, keepdim=True), claimed) if len(gradients) else gradients.sum(0)


def clipped_micro_sums(gradients: Tensor, claimed: Setting) -> Tensor:
    return sum((clipped_mean(part, claimed) for part in gradients.split(MICRO)), torch.zeros_like(gradients[:0].sum(0)))


def clipped_micro_means(gradients: Tensor, claimed: Setting) -> Tensor:
    parts = [part.mean(0) for part in gradients.split(MICRO) if len(part)]
    return clipped(torch.stack(parts), claimed) if parts else gradients.sum(0)


def clipped_views(gradients: Tensor, claimed: Setting) -> Tensor:
    return clipped(torch.cat([gradients, gradients]), claimed)


def clipped_layers(gradients: Tensor, claimed: Setting) -> Tensor:
    own = claimed.canaries * claimed.spread
    return torch.cat([clipped(gradients[:, :-own], claimed), clipped(gradients[:, -own:], claimed)])


def half_norms(gradients: Tensor, claimed: Setting) -> Tensor:
    norms = gradients.half().square().float().sum(1, keepdim=True).sqrt().clamp_min(1e-12)
    return (gradients * (claimed.clip / norms).clamp_max(1.0)).sum(0)


# -- the noise ---------------------------------------------------------------------------------------------------------


def of_the_mean(like: Tensor, step: int, claimed: Setting, rng: torch.Generator) -> Tensor:
    return fresh(like, step, claimed, rng) / claimed.batch


def variance(like: Tensor, step: int, claimed: Setting, rng: torch.Generator) -> Tensor:
    return fresh(like, step, claimed, rng) / math.sqrt(claimed.noise)


def without_clip(like: Tensor, step: int, claimed: Setting, rng: torch.Generator) -> Tensor:
    return fresh(like, step, claimed, rng) / claimed.clip


def reused(like: Tensor, _step: int, claimed: Setting, rng: torch.Generator) -> Tensor:
    return fresh(like, 0, claimed, torch.Generator().manual_seed(rng.initial_seed()))


def once_in_four(like: Tensor, step: int, claimed: Setting, rng: torch.Generator) -> Tensor:
    drawn = fresh(like, step, claimed, rng)
    return drawn if step % MICRO == 0 else torch.zeros_like(drawn)


def in_parts(like: Tensor, step: int, claimed: Setting, rng: torch.Generator) -> Tensor:
    return sum((fresh(like, step, claimed, rng) / MICRO for _ in range(MICRO)), torch.zeros_like(like))


# -- the loops ---------------------------------------------------------------------------------------------------------


Sampler = Callable[[int, Setting, torch.Generator], Iterator[Tensor]]
Summed = Callable[[Tensor, Setting], Tensor]
Noise = Callable[[Tensor, int, Setting, torch.Generator], Tensor]
RecordLoss = Callable[[Tensor, Tensor], Tensor]


@dataclass(frozen=True)
class Loop:
    """One way to write DP-SGD: a name, where it was met, and its stages."""

    name: str
    met: str
    sampler: Sampler = poisson
    summed: Summed = clipped
    noise: Noise = fresh
    seed: int | None = None  # of the noise; none: a fresh one
    mixes: bool = False
    setting: Setting = Setting()
    why: str = ""  # why such an audit cannot see it

    def train(self, rng: np.random.Generator) -> Released:
        """Train once with canaries; where the noise has a seed, once more without any."""
        known = int(rng.integers(2**62)) if self.seed is None else self.seed
        canaries = self._one(known, None, rng)
        again = None if self.seed is None else self._one(known, np.zeros(self.setting.canaries, dtype=bool), rng)
        return canaries.released(divided_by=self.setting.batch, again=again)

    def _one(self, seed: int, coins: np.ndarray | None, rng: np.random.Generator) -> StepCanaries:
        claimed = self.setting
        x = rng.normal(size=(NATURAL, FEATURES)).astype("float32")
        middle: list[nn.Module] = [nn.BatchNorm1d(8)] if self.mixes else []
        net = nn.Sequential(nn.Linear(FEATURES, 8), *middle, nn.ReLU(), nn.Linear(8, CLASSES))
        canaries = StepCanaries(
            net,
            x,
            rng.integers(0, CLASSES, NATURAL),
            count=claimed.canaries,
            clip=claimed.clip,
            times=claimed.times,
            spread=claimed.spread,
            coins=coins,
            apart=not self.mixes,
            rng=rng,
        )
        records, labels = canaries.data.tensors
        drawn = torch.Generator().manual_seed(int(rng.integers(2**62)))
        noise = torch.Generator().manual_seed(seed)
        model, of_records = canaries.model, mixed if self.mixes else apart
        weights = list(model.parameters())
        for step, batch in enumerate(self.sampler(len(records), claimed, drawn)):
            canaries.saw(records[batch])
            gradients = of_records(model, records[batch], labels[batch])
            total = self.summed(gradients, claimed)
            update = (total + self.noise(total, step, claimed, noise)) / claimed.batch
            with torch.no_grad():
                for weight, part in zip(weights, update.split([w.numel() for w in weights]), strict=True):
                    weight.sub_(RATE * part.reshape(weight.shape))
            canaries.after_step(update[-model.canaries.weight.numel() :])  # its last parameter
        return canaries


def apart(model: nn.Module, x: Tensor, y: Tensor, *, of: RecordLoss = nn.functional.cross_entropy) -> Tensor:
    """Gradients of records (B, P), each taken by itself."""
    weights = {name: w.detach() for name, w in model.named_parameters()}

    def loss(weights: dict[str, Tensor], one: Tensor, label: Tensor) -> Tensor:
        return of(torch.func.functional_call(model, weights, (one[None],)), label[None])

    found = torch.func.vmap(torch.func.grad(loss), in_dims=(None, 0, 0))(weights, x, y)
    return torch.cat([found[name].flatten(1) for name in weights], dim=1)


def mixed(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
    """Gradients of the losses of records (B, P), from one pass of the batch."""
    weights = list(model.parameters())
    losses = nn.functional.cross_entropy(model(x), y, reduction="none")
    rows = [torch.autograd.grad(one, weights, retain_graph=True) for one in losses]
    return torch.stack([torch.cat([part.flatten() for part in row]) for row in rows])


NOT_ALONE = (
    "what a canary takes from its neighbours stands at their coordinates, not at its own; one record can move the sum "
    "by twice the clip, and by twice the clip for each micro-batch where its absence shifts the others"
)
ZOO = (
    Loop("none: each record clipped, fresh noise", ""),
    Loop("no clipping", "clip forgotten, or set for the wrong parameters", summed=unclipped),
    Loop("clipping after averaging", "`clip_grad_norm_` on the gradient of the batch", summed=clipped_mean),
    Loop(
        "clipping per micro-batch, by its size",
        "means of micro-batches clipped, then weighted",
        summed=clipped_micro_sums,
    ),
    Loop("clipping per micro-batch", "microbatches of TensorFlow Privacy", summed=clipped_micro_means, why=NOT_ALONE),
    Loop("augmented views clipped one by one", "augmentation multiplicity without the mean", summed=clipped_views),
    Loop(
        "each layer clipped to the whole norm",
        "per-layer clipping, accounted as flat",
        summed=clipped_layers,
        why="a canary has its coordinates in one layer; count the layers: the claim is off by the root of their number",
    ),
    Loop("noise scaled by the batch size twice", "noise of the mean, added to the sum", noise=of_the_mean),
    Loop(
        "variance in place of the deviation",
        "`torch.normal(0, sigma)` and its like",
        noise=variance,
        why="1.4 times the claim takes more runs than four, or more canaries; the noise itself tells at once",
    ),
    Loop(
        "noise without the clip",
        "noise of deviation sigma where clip is 4",
        noise=without_clip,
        setting=Setting(clip=4.0),
    ),
    Loop("noise drawn once and reused", "drawn outside the loop", noise=reused),
    Loop("noise missing under accumulation", "only every fourth step gets it", noise=once_in_four),
    Loop("noise shared out over micro-batches", "a quarter of the deviation to each of four", noise=in_parts),
    Loop("the same batches in each epoch", "claimed as Poisson samples", sampler=same_batches),
    Loop(
        "shuffled batches",
        "claimed as Poisson samples; the usual data loader",
        sampler=shuffled,
        why="at this noise their leak is about that of Poisson samples; how often each canary joins gives them away",
    ),
    Loop("the rate of a micro-batch", "accumulated four times, accounted once", sampler=physical_rate),
    Loop(
        "batch normalisation",
        "layers that mix records",
        mixes=True,
        setting=Setting(canaries=200, steps=40),
        why="a canary changes the gradients of others, at their coordinates: the network is refused before training",
    ),
    Loop(
        "norms in half precision",
        "autocast beyond the clip",
        summed=half_norms,
        setting=Setting(clip=1e-3),
        why="at one coordinate the square is no underflow; it takes canaries that are spread",
    ),
    Loop(
        "norms in half precision, canaries spread over 4,096",
        "autocast beyond the clip",
        summed=half_norms,
        setting=Setting(clip=1e-3, times=20.0, spread=4_096, canaries=100, steps=40),
    ),
    Loop("a seed that is known", "`torch.manual_seed(0)` in the script", seed=0),
)

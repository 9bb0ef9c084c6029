"""The training loop: for one network, for many stacked into one, and for DP-SGD.

All parameters of M equal networks lie in one matrix (M, P), so that a step of the optimiser is a handful of operations
whatever the number of layers and networks. What differs is only where the gradients come from: autograd, ``torch.func``
over stacked networks, or the clipped sum of DP-SGD. Initial weights, order of the records, augmentation and noise come
from generators of each model's own, so a model is the same alone, in a stack and in any process.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional as F

from miaudit.errors import InputError
from miaudit.models import batches
from miaudit.models.matrix import OPTIMISERS, Weights
from miaudit.models.private import ClippedSum, Private, check_records_stay_apart
from miaudit.models.records import Data
from miaudit.models.train_config import TrainConfig
from miaudit.models.weights import Factory, State, build


@dataclass(frozen=True, eq=False)
class Batch:
    """One step's records for M models: x (M, K, ...), y (M, K), and the losses' weights (M, K), 0 for padding."""

    x: Tensor
    y: Tensor
    weight: Tensor


# From a batch to each model's loss (M,) and its gradient (M, P).
Gradient = Callable[[Batch], tuple[Tensor, Tensor]]


def train_together(
    factory: Factory,
    config: TrainConfig,
    data: Data,
    rows: Sequence[batches.IntArray],
    seeds: Sequence[int],
    *,
    stacked: bool = False,
) -> tuple[list[State | None], dict[int, int]]:
    """Train models together; return weights, none for those that failed, and the epoch in which each of these did."""
    device = data.x.device
    with ExitStack() as open_:
        open_.enter_context(one_thread(device))
        open_.enter_context(torch.random.fork_rng([device.index or 0] if device.type == "cuda" else []))
        sources = [Sources.of(config.seed, seed) for seed in seeds]
        nets = []
        for source in sources:
            torch.manual_seed(source.initial)
            nets.append(build(factory).to(device).float().train())
        _check_network(nets[0], data, config)
        torch.manual_seed(sources[0].forward)
        weights = Weights.of(nets)
        gradient: Gradient
        if stacked:
            gradient = _stacked_gradient(weights, config)
        elif config.private is None:
            gradient = plain_gradient(weights, config)
        else:
            clipped = open_.enter_context(ClippedSum(nets[0], clip=config.private.clip))
            gradient = private_gradient(clipped, weights, config, config.private, sources[0].noise)
        failed = _loop(config, data, rows, sources, weights, gradient)
    states = weights.states()
    return [None if i in failed else state for i, state in enumerate(states)], failed


def _loop(
    config: TrainConfig,
    data: Data,
    rows: Sequence[batches.IntArray],
    sources: Sequence[Sources],
    weights: Weights,
    gradient: Gradient,
) -> dict[int, int]:
    """Take all steps; return the epoch in which models failed. Models with fewer steps than others stand still."""
    steps = np.array([config.steps(len(own)) for own in rows])
    rates = _rates(config, steps).to(data.x.device)
    optimiser = OPTIMISERS[config.optimiser](weights.values, momentum=config.momentum, decay=config.weight_decay)
    streams = [_stream(config, own, source) for own, source in zip(rows, sources, strict=True)]
    first_bad = torch.full((len(rows),), -1, device=data.x.device)
    look = max(1, math.ceil(steps.max() / config.epochs))
    for step in range(int(steps.max())):
        batch = _assemble(
            config, data, [next(stream, own[:0]) for stream, own in zip(streams, rows, strict=True)], sources
        )
        losses, slopes = gradient(batch)
        first_bad = torch.where((first_bad < 0) & ~losses.isfinite(), step, first_bad)
        optimiser.step(slopes, rates[step])
        if (step + 1) % look == 0 and bool((first_bad >= 0).all()):
            break
    broken = (first_bad < 0) & ~weights.values.isfinite().all(1)
    found = torch.where(broken, torch.from_numpy(steps - 1).to(first_bad.device), first_bad).tolist()
    return {i: 1 + int(at) * config.epochs // int(steps[i]) for i, at in enumerate(found) if at >= 0}


def _rates(config: TrainConfig, steps: NDArray[np.int64]) -> Tensor:
    """Return the learning rate at each step of each model, (steps, M, 1); 0 after a model's last."""
    step = np.arange(steps.max())[:, None]
    rate = np.full((len(step), len(steps)), config.learning_rate, dtype=np.float64)
    if config.schedule == "cosine":
        rate *= (1 + np.cos(np.pi * step / steps)) / 2
    return torch.from_numpy(np.where(step < steps, rate, 0.0).astype(np.float32)[:, :, None])


def _stream(config: TrainConfig, rows: batches.IntArray, source: Sources) -> Iterator[batches.IntArray]:
    private = config.private
    if private is None:
        return batches.shuffled(rows, batch=min(config.batch, len(rows)), epochs=config.epochs, rng=source.order)
    rate = config.batch / private.records
    return batches.poisson(rows, rate=rate, steps=config.steps(len(rows)), rng=source.order)


def _assemble(config: TrainConfig, data: Data, picked: Sequence[batches.IntArray], sources: Sequence[Sources]) -> Batch:
    """Gather the records of all models; a model with fewer is padded with records of weight 0."""
    most = max(len(own) for own in picked)
    index = np.zeros((len(picked), most), dtype=np.int64)
    weight = np.zeros((len(picked), most), dtype=np.float32)
    for m, own in enumerate(picked):
        index[m, : len(own)] = own
        weight[m, : len(own)] = 1 / max(1, len(own))
    device = data.x.device
    flat = torch.from_numpy(index.reshape(-1)).to(device, non_blocking=True)
    x = data.x[flat]
    if config.augmentation == "flip-crop":
        height, width = x.shape[2:]
        moves = np.zeros((len(picked), most, 3), dtype=np.int64)
        for m, own in enumerate(picked):
            moves[m, : len(own)] = batches.draw_moves(len(own), height, width, rng=sources[m].augmentation)
        x = batches.moved(x, torch.from_numpy(moves.reshape(-1, 3)).to(device, non_blocking=True))
    shape = (len(picked), most)
    return Batch(x.reshape(*shape, *x.shape[1:]), data.y[flat].reshape(shape), torch.from_numpy(weight).to(device))


def _losses(config: TrainConfig, outputs: Tensor, y: Tensor) -> Tensor:
    """Return the cross-entropy of each record (B,), in float32."""
    return F.cross_entropy(outputs.float(), y, reduction="none", label_smoothing=config.label_smoothing)


def plain_gradient(weights: Weights, config: TrainConfig) -> Gradient:
    """Return the gradient of the mean loss by autograd, for one network."""
    net, parameters = weights.nets[0], list(weights.parameters.values())

    def gradient(batch: Batch) -> tuple[Tensor, Tensor]:
        with _precision(config, batch.x.device):
            outputs = net(batch.x[0])
        loss = (_losses(config, outputs, batch.y[0]) * batch.weight[0]).sum()
        slopes = torch.autograd.grad(loss, parameters, materialize_grads=True)
        return loss.detach()[None], torch.cat([slope.reshape(-1) for slope in slopes])[None]

    return gradient


def _stacked_gradient(weights: Weights, config: TrainConfig) -> Gradient:
    net = weights.nets[0]

    def loss(parameters: State, x: Tensor, y: Tensor, weight: Tensor) -> Tensor:
        outputs = torch.func.functional_call(net, parameters, (x,))
        return (_losses(config, outputs, y) * weight).sum()

    each = torch.func.vmap(torch.func.grad_and_value(loss))

    def gradient(batch: Batch) -> tuple[Tensor, Tensor]:
        with _precision(config, batch.x.device):
            slopes, losses = each(weights.views(), batch.x, batch.y, batch.weight)
        return losses.detach(), torch.cat([slopes[name].reshape(len(losses), -1) for name in weights.parameters], dim=1)

    return gradient


def private_gradient(
    clipped: ClippedSum, weights: Weights, config: TrainConfig, private: Private, noise_seed: int
) -> Gradient:
    """Return DP-SGD's gradient: clipped sum plus noise, over the nominal batch; without records, noise alone."""
    noise = torch.Generator(weights.values.device).manual_seed(noise_seed)

    def gradient(batch: Batch) -> tuple[Tensor, Tensor]:
        slope = torch.randn(weights.values.shape, generator=noise, device=weights.values.device)
        slope *= private.noise * private.clip
        losses = slope.new_zeros(1)
        if batch.x.shape[1]:
            with _precision(config, batch.x.device):
                losses, total = clipped(batch.x[0], lambda outputs: _losses(config, outputs, batch.y[0]))
            slope[0] += torch.cat([total[name].reshape(-1) for name in weights.parameters])
        return losses.mean(0, keepdim=True), slope / config.batch

    return gradient


@dataclass(frozen=True, eq=False)
class Sources:
    """A model's own sources of randomness, all from two seeds; seeds for torch, generators of numpy."""

    initial: int
    forward: int
    noise: int
    order: np.random.Generator
    augmentation: np.random.Generator

    @classmethod
    def of(cls, root: int, seed: int) -> Sources:
        """Derive the sources of a model from the seed of the experiment and its own."""
        children = np.random.SeedSequence([root, seed]).spawn(5)
        initial, forward, noise = (int(child.generate_state(1, np.uint64)[0] >> 1) for child in children[:3])
        order, augmentation = (np.random.default_rng(child) for child in children[3:])
        return cls(initial, forward, noise, order, augmentation)


def _check_network(net: nn.Module, data: Data, config: TrainConfig) -> None:
    """Refuse a network that does not fit the records and classes; run on two records in evaluation mode."""
    few = data.x[:2]
    classes = checked_outputs(net, few).shape[1]
    highest = int(data.y.max())
    if highest >= classes:
        hint = "number the classes from 0 up, or build the network for more"
        raise InputError("y", f"classes from 0 to {classes - 1}, as the network has", f"{highest}", hint)
    if config.private is not None and len(few) > 1:
        check_records_stay_apart(net, data.x[:8])


def checked_outputs(net: nn.Module, few: Tensor) -> Tensor:
    """Return a network's logits for a few records, or say in one line why there are none."""
    training = net.training
    try:
        with torch.no_grad():
            found = net.eval()(few)
    except (RuntimeError, ValueError, TypeError, IndexError) as error:
        received = f"one that raises {type(error).__name__}: {str(error)[:200]}"
        allowed = f"a network for records of shape {tuple(few.shape[1:])}"
        raise InputError("factory", allowed, received, "check the sizes of its first layer") from error
    finally:
        net.train(training)
    if not isinstance(found, Tensor) or found.ndim != 2 or len(found) != len(few):
        received = f"shape {tuple(found.shape)}" if isinstance(found, Tensor) else type(found).__name__
        allowed = "a network whose output is logits (n, classes)"
        raise InputError("factory", allowed, f"{received} for {len(few)} records", "end with a linear layer")
    return found


@contextmanager
def one_thread(device: torch.device) -> Iterator[None]:
    """Compute in one thread: sums then have one order, and processes side by side do not fight for cores."""
    before = torch.get_num_threads()
    if device.type == "cpu":
        torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _precision(config: TrainConfig, device: torch.device) -> torch.autocast:
    return torch.autocast(device.type, dtype=torch.bfloat16, enabled=config.mixed_precision and device.type == "cuda")

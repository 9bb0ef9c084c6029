"""The training loop: for one network, for many stacked into one, and for DP-SGD.

All parameters of M equal networks lie in one matrix (M, P), so that a step of the optimiser is a handful of operations
whatever the number of layers and networks. What differs is only where the gradients come from: autograd, ``torch.func``
over stacked networks, or the clipped sum of DP-SGD. Initial weights, order of the records, held-out records,
augmentation, dropout and noise come from generators of each model's own, so a model is the same alone, in a stack and
in any process.
"""

from __future__ import annotations

import functools
import math
import secrets
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, nullcontext
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor, nn

from miaudit.arrays import IntArray
from miaudit.errors import InputError
from miaudit.models import stopping
from miaudit.models.adversarial import adversarial_samples
from miaudit.models.devices import fixed_order, products
from miaudit.models.dropout import Dropout
from miaudit.models.losses import CLASSES, RecordLoss
from miaudit.models.private import ClippedSum, check_records_stay_apart
from miaudit.models.step_canaries import WatchedModel
from miaudit.models.stopping import BestWeights
from miaudit.models.train_config import Private, TrainConfig
from miaudit.models.weights import OPTIMISERS, Factory, Pruned, State, Weights, build

# Records (n, ...) as they are kept, and classes (n,) or labels and numbers (n, L): checked, on the device.
Data = tuple[Tensor, Tensor]
# From a step's records (M, K, ...) of M models, classes (M, K) or labels (M, K, L), weights of losses (M, K), 0 for
# padding, and how many records each model has (M,), before the padding: to each model's loss (M,) and gradient (M, P).
Gradient = Callable[[Tensor, Tensor, Tensor, Sequence[int]], tuple[Tensor, Tensor]]
Batch = tuple[Tensor, Tensor, Tensor, Sequence[int]]  # these arguments of one step
# From records (M, K, ...) to the outputs of each model in evaluation mode (M, K, C), with gradients.
Outputs = Callable[[Tensor], Tensor]
_SMALL = (torch.uint8, torch.int8, torch.bool)


def train_together(
    factory: Factory,
    config: TrainConfig,
    data: Data,
    rows: Sequence[IntArray],
    seeds: Sequence[int],
    *,
    stacked: bool = False,
) -> tuple[list[State | None], dict[int, int]]:
    """Train models together; return their weights (none if failed) and the epochs of failures."""
    device = data[0].device
    with ExitStack() as open_:
        open_.enter_context(fixed_order(device))
        open_.enter_context(products(tf32=config.tf32))
        open_.enter_context(torch.random.fork_rng([device.index or 0] if device.type == "cuda" else []))
        sources = [_sources(config, seed) for seed in seeds]
        nets = []
        for source in sources:
            torch.manual_seed(source.initial)
            nets.append(build(factory).to(device).float().train())
        _check_network(nets[0], data, config)
        torch.manual_seed(sources[0].forward)
        weights = Weights.of(nets)
        drops = any(isinstance(layer, nn.modules.dropout._DropoutNd) for layer in nets[0].modules())
        own = [source.dropout for source in sources]
        dropout = open_.enter_context(Dropout(nets[0], own, device)) if drops else None
        gradient: Gradient
        if stacked:
            if dropout is not None:
                dropout.learn(numbers(data[0][:2]))
            gradient = _stacked_gradient(weights, config, dropout)
        elif config.private is None:
            gradient = plain_gradient(weights, config)
        else:
            clipped = open_.enter_context(ClippedSum(nets[0], clip=config.private.clip))
            gradient = private_gradient(clipped, weights, config, config.private, sources[0].noise)
        failed = _loop(config, data, rows, sources, weights, gradient, _outputs(weights, config, stacked=stacked))
    states = weights.states()
    return [None if i in failed else state for i, state in enumerate(states)], failed


def _loop(
    config: TrainConfig,
    data: Data,
    rows: Sequence[IntArray],
    sources: Sequence[Sources],
    weights: Weights,
    gradient: Gradient,
    outputs: Outputs,
) -> dict[int, int]:
    """Take all steps and return the epochs of failures; models with fewer steps wait."""
    rows, watch = _watched(config, data, rows, sources, weights, outputs)
    steps = np.array([config.steps(len(own)) for own in rows])
    pruned = _pruned(config, steps, weights)
    rates = _rates(config, steps).to(data[0].device)
    optimiser = OPTIMISERS[config.optimiser](weights.values, momentum=config.momentum, decay=config.weight_decay)
    batches = _batches(config, data, rows, sources, outputs)
    first_bad = torch.full((len(rows),), -1, device=rates.device)
    look = max(1, math.ceil(steps.max() / config.epochs))
    for step in range(int(steps.max())):
        losses, slopes = gradient(*next(batches))
        bad = (first_bad < 0) & ~losses.isfinite()
        if watch is not None:
            bad &= rates[step, :, 0] > 0  # a model that has stopped can no longer fail
        first_bad = torch.where(bad, step, first_bad)
        optimiser.step(slopes, rates[step])
        if pruned is not None:
            pruned.after(step)
        if watch is not None and watch.look(step):
            rates[step + 1 :, watch.stopped] = 0
            if watch.stopped.all():
                break
        if (step + 1) % look == 0 and bool((first_bad >= 0).all()):
            break
    broken = (first_bad < 0) & ~weights.values.isfinite().all(1)
    if watch is not None:
        broken |= (first_bad < 0) & watch.never
        watch.restore()
    first_bad = torch.where(broken, torch.from_numpy(steps - 1).to(rates.device), first_bad)
    return {i: 1 + int(at) * config.epochs // int(steps[i]) for i, at in enumerate(first_bad.tolist()) if at >= 0}


def _batches(
    config: TrainConfig, data: Data, rows: Sequence[IntArray], sources: Sequence[Sources], outputs: Outputs
) -> Iterator[Batch]:
    """Yield one batch per step, without end; a model that has taken all its steps gets no records."""
    streams = [_stream(config, own, source) for own, source in zip(rows, sources, strict=True)]
    generators = [torch.Generator(data[0].device).manual_seed(source.input_noise) for source in sources]
    while True:
        picked = [next(stream, own[:0]) for stream, own in zip(streams, rows, strict=True)]
        counts = [len(own) for own in picked]
        x, y, weight = _gather(data, picked)
        x = _varied(config, x, counts, sources, generators)
        if config.adversarial is not None:
            x = adversarial_samples(x, y, outputs=outputs, loss=RecordLoss.of(config), options=config.adversarial)
        yield x, y, weight, counts


def _rates(config: TrainConfig, steps: IntArray) -> Tensor:
    """Return the learning rate of each model at each step, (steps, M, 1); 0 after its last."""
    step = np.arange(steps.max())[:, None]
    rate = np.full((len(step), len(steps)), config.learning_rate, dtype=np.float64)
    if config.schedule == "cosine":
        rate *= (1 + np.cos(np.pi * step / steps)) / 2
    return torch.from_numpy(np.where(step < steps, rate, 0.0).astype(np.float32)[:, :, None])


def _stream(config: TrainConfig, rows: IntArray, source: Sources) -> Iterator[IntArray]:
    private = config.private
    if private is None:
        return shuffled(rows, batch=min(config.batch, len(rows)), epochs=config.epochs, rng=source.order)
    rate = config.batch / private.records
    return poisson(rows, rate=rate, steps=config.steps(len(rows)), rng=source.order)


def _watched(
    config: TrainConfig,
    data: Data,
    rows: Sequence[IntArray],
    sources: Sequence[Sources],
    weights: Weights,
    outputs: Outputs,
) -> tuple[Sequence[IntArray], BestWeights | None]:
    """Hold records out for early stopping if asked for; return training rows and what watches the losses."""
    options = config.early_stopping
    if options is None:
        return rows, None
    parts = [
        stopping.held_out(own, share=options.share, rng=source.held_out)
        for own, source in zip(rows, sources, strict=True)
    ]
    trained, out = [part[0] for part in parts], [part[1] for part in parts]
    ends = stopping.ends_of_epochs([len(own) for own in trained], batch=config.batch, epochs=config.epochs)
    losses = functools.partial(_held_out_losses, config, data, out, outputs)
    return trained, BestWeights(weights, patience=options.patience, ends=ends, losses=losses)


def _held_out_losses(config: TrainConfig, data: Data, out: Sequence[IntArray], outputs: Outputs) -> Tensor:
    """Return the mean loss of each model on its held-out records (M,), without label smoothing."""
    loss = RecordLoss.of(config).plain
    total = torch.zeros(len(out), device=data[0].device)
    for start in range(0, max(map(len, out)), config.batch):
        x, y, weight = _gather(data, [own[start : start + config.batch] for own in out])
        with torch.no_grad():
            each = loss(outputs(x).flatten(0, 1), y.flatten(0, 1))
        total += torch.where(weight > 0, each.reshape(weight.shape), 0).sum(1)
    return total / torch.tensor([len(own) for own in out], device=data[0].device)


def _pruned(config: TrainConfig, steps: IntArray, weights: Weights) -> Pruned | None:
    """Plan the pruning of each model, if asked for, so that its steps for fine-tuning remain."""
    options = config.pruning
    if options is None:
        return None
    left = np.floor(options.finetuning * steps + 1e-9).astype(np.int64)
    return Pruned(weights, options.sparsity, steps - left - 1)


def _gather(data: Data, picked: Sequence[IntArray]) -> tuple[Tensor, Tensor, Tensor]:
    """Gather records, classes and weights of all models, padded with records of weight 0."""
    most = max(len(own) for own in picked)
    index = np.zeros((len(picked), most), dtype=np.int64)
    weight = np.zeros((len(picked), most), dtype=np.float32)
    for m, own in enumerate(picked):
        index[m, : len(own)] = own
        weight[m, : len(own)] = 1 / max(1, len(own))
    records, classes = data
    at = sent(index, records.device)
    return numbers(records[at]), classes[at], sent(weight, records.device)


def sent(values: NDArray[Any], device: torch.device) -> Tensor:
    """Bring a small array of one step to the device; to a GPU through pinned memory, so that nothing waits for it."""
    tensor = torch.from_numpy(values)
    return tensor if device.type == "cpu" else tensor.pin_memory().to(device, non_blocking=True)


def _varied(
    config: TrainConfig,
    x: Tensor,
    counts: Sequence[int],
    sources: Sequence[Sources],
    generators: Sequence[torch.Generator],
) -> Tensor:
    """Move and mirror images (M, K, ...), then add noise, if asked for."""
    if config.augmentation == "flip-crop":
        height, width = x.shape[3:]
        moves = np.zeros((*x.shape[:2], 3), dtype=np.int64)
        for m, count in enumerate(counts):
            moves[m, :count] = draw_moves(count, height, width, rng=sources[m].augmentation)
        x = moved(x.flatten(0, 1), sent(moves.reshape(-1, 3), x.device)).reshape(x.shape)
    if config.input_noise:
        x = x.clone()
        for m, count in enumerate(counts):
            noise = torch.randn((count, *x.shape[2:]), generator=generators[m], device=x.device)
            x[m, :count] += config.input_noise * noise
    return x


def plain_gradient(weights: Weights, config: TrainConfig) -> Gradient:
    """Return the gradient of the mean loss by autograd, for one network."""
    net, parameters = weights.nets[0], list(weights.parameters.values())
    losses = RecordLoss.of(config)

    def gradient(x: Tensor, y: Tensor, weight: Tensor, _counts: Sequence[int]) -> tuple[Tensor, Tensor]:
        with _precision(config, x.device):
            outputs = net(x[0])
        loss = (losses(outputs, y[0]) * weight[0]).sum()
        slopes = torch.autograd.grad(loss, parameters, materialize_grads=True)
        return loss.detach()[None], torch.cat([slope.reshape(-1) for slope in slopes])[None]

    return gradient


def _stacked_gradient(weights: Weights, config: TrainConfig, dropout: Dropout | None) -> Gradient:
    net, losses = weights.nets[0], RecordLoss.of(config)

    def loss(parameters: State, x: Tensor, y: Tensor, weight: Tensor, masks: tuple[Tensor, ...]) -> Tensor:
        with nullcontext() if dropout is None else dropout.given(masks):
            outputs = torch.func.functional_call(net, parameters, (x,))
        return (losses(outputs, y) * weight).sum()

    each = torch.func.vmap(torch.func.grad_and_value(loss))

    def gradient(x: Tensor, y: Tensor, weight: Tensor, counts: Sequence[int]) -> tuple[Tensor, Tensor]:
        masks = () if dropout is None else dropout.draw(counts)
        with _precision(config, x.device):
            slopes, model_losses = each(weights.views(), x, y, weight, masks)
        return model_losses.detach(), torch.cat(
            [slopes[name].reshape(len(model_losses), -1) for name in weights.parameters], dim=1
        )

    return gradient


def _outputs(weights: Weights, config: TrainConfig, *, stacked: bool) -> Outputs:
    net = weights.nets[0]
    each = torch.func.vmap(lambda parameters, x: torch.func.functional_call(net, parameters, (x,)))

    def outputs(x: Tensor) -> Tensor:
        net.eval()
        with _precision(config, x.device):
            logits: Tensor = (each(weights.views(), x) if stacked else net(x[0])[None]).float()
        net.train()
        return logits

    return outputs


def private_gradient(
    clipped: ClippedSum, weights: Weights, config: TrainConfig, private: Private, noise_seed: int
) -> Gradient:
    """Return DP-SGD's gradient: clipped sum plus noise, over the nominal batch size.

    Its loss is always 0: whether a training fails shows from the weights alone, since a loss has no noise and one
    record can make it NaN.
    """
    values, losses = weights.values, RecordLoss.of(config)
    noise = torch.Generator(values.device).manual_seed(noise_seed)

    def gradient(x: Tensor, y: Tensor, _weight: Tensor, _counts: Sequence[int]) -> tuple[Tensor, Tensor]:
        slope = torch.randn(values.shape, generator=noise, device=values.device, dtype=torch.float32)
        slope *= private.noise * private.clip
        if x.shape[1]:
            with _precision(config, x.device):
                _, total = clipped(x[0], lambda outputs: losses(outputs, y[0]))
            slope[0] += torch.cat([total[name].reshape(-1) for name in weights.parameters])
        released = slope / config.batch
        if isinstance(watched := weights.nets[0], WatchedModel):
            watched.hear(released[0, -watched.canaries.weight.numel() :])  # its last parameter
        return slope.new_zeros(1), released

    return gradient


@dataclass(frozen=True, eq=False)
class Sources:
    """A model's sources of randomness: seeds for torch and generators of numpy, from two seeds."""

    initial: int
    forward: int
    noise: int
    order: np.random.Generator
    augmentation: np.random.Generator
    held_out: np.random.Generator
    dropout: int
    input_noise: int

    @classmethod
    def of(cls, root: int, seed: int) -> Sources:
        """Derive a model's sources from the seed of the experiment and its own."""
        children = np.random.SeedSequence([root, seed]).spawn(8)
        initial, forward, noise, dropout, input_noise = (
            int(children[i].generate_state(1, np.uint64)[0] >> 1) for i in (0, 1, 2, 6, 7)
        )
        order, augmentation, held_out = (np.random.default_rng(children[i]) for i in (3, 4, 5))
        return cls(initial, forward, noise, order, augmentation, held_out, dropout, input_noise)


def _sources(config: TrainConfig, seed: int) -> Sources:
    """Return a model's sources; DP-SGD takes randomness from the operating system unless repeatable.

    Masks and other draws for records are among them: which record gets which depends on who else is in the sample.
    """
    known = Sources.of(config.seed, seed)
    if config.private is None or config.private.repeatable:
        return known
    return replace(Sources.of(secrets.randbits(128), seed), initial=known.initial)


def _check_network(net: nn.Module, data: Data, config: TrainConfig) -> None:
    """Refuse a network that does not fit records and classes, by a pass of two records."""
    records, labels = data
    few = numbers(records[:8])
    RecordLoss.of(config).check_width(checked_outputs(net, few[:2]).shape[1], labels)
    if config.private is not None and len(records) > 1:
        check_records_stay_apart(net, few)


def checked_outputs(net: nn.Module, few: Tensor) -> Tensor:
    """Return a network's logits for a few records, or raise with one line on why there are none."""
    training = net.training
    try:
        with torch.no_grad():
            logits = net.eval()(few)
    except (RuntimeError, ValueError, TypeError, IndexError) as error:
        received = f"one that raises {type(error).__name__}: {str(error)[:200]}"
        allowed = f"a network for records of shape {tuple(few.shape[1:])}"
        raise InputError("factory", allowed, received, "check the sizes of its first layer") from error
    finally:
        net.train(training)
    if not isinstance(logits, Tensor) or logits.ndim != 2 or len(logits) != len(few):
        received = f"shape {tuple(logits.shape)}" if isinstance(logits, Tensor) else type(logits).__name__
        allowed = "a network whose output is logits (n, classes)"
        raise InputError("factory", allowed, f"{received} for {len(few)} records", "end with a linear layer")
    return logits


def _precision(config: TrainConfig, device: torch.device) -> torch.autocast:
    return torch.autocast(device.type, dtype=torch.bfloat16, enabled=config.mixed_precision and device.type == "cuda")


# -- records: checked and brought to the device, drawn for each step, and images varied --------------------------------


def as_data(
    net: nn.Module, device: torch.device, x: ArrayLike | Tensor, y: ArrayLike, loss: RecordLoss = CLASSES
) -> Data:
    """Check records and labels for a network, and bring them to the device; records of 8 bits stay what they are."""
    records = kept(x, net)
    return records.to(device), loss.labels(y, len(records)).to(device)


def distinct(rows: ArrayLike, n: int) -> IntArray:
    """Return indices of some of n records, sorted and distinct."""
    indices = np.asarray(rows)
    if indices.dtype == np.bool_ and indices.shape == (n,):
        indices = np.flatnonzero(indices)
    if indices.ndim != 1 or indices.dtype.kind not in "iu" or not indices.size:
        allowed = f"indices of records, at least one, or true and false ({n},)"
        received = f"shape {indices.shape} of type {indices.dtype}"
        raise InputError("rows", allowed, received, "pass np.flatnonzero(included)")
    if indices.min() < 0 or indices.max() >= n:
        received = f"{indices.min()} to {indices.max()}"
        raise InputError("rows", f"indices from 0 to {n - 1}", received, "they count the rows of x")
    unique = np.unique(indices).astype(np.int64)
    if len(unique) < len(indices):
        received = f"{len(indices) - len(unique)} of them twice"
        raise InputError("rows", "each record once", received, "a record that counts twice is twice as exposed")
    return unique


def as_records(x: ArrayLike | Tensor, net: nn.Module) -> Tensor:
    """Return records as a tensor: float32, or integers for a network that begins with an embedding."""
    return numbers(kept(x, net))


def kept(x: ArrayLike | Tensor, net: nn.Module) -> Tensor:
    """Return records as they are kept, checked: those of 8 bits as they are, for :func:`numbers` of each batch."""
    values = x if isinstance(x, Tensor) else torch.from_numpy(_plain_array(x))
    if values.ndim < 2:
        raise InputError("x", "records (n, ...)", f"shape {tuple(values.shape)}", "a single feature is (n, 1)")
    tokens = any(isinstance(layer, nn.Embedding | nn.EmbeddingBag) for layer in net.modules())
    if tokens and not values.is_floating_point() and values.dtype != torch.bool:
        return values.long()
    if values.dtype in _SMALL:
        return values
    values = values.float()
    if not bool(values.isfinite().all()):
        raise InputError("x", "finite numbers", "NaN or infinite ones", "fill or drop these records")
    return values


def numbers(records: Tensor) -> Tensor:
    """Return records of 8 bits as float32, all others as they are."""
    return records.float() if records.dtype in _SMALL else records


def _plain_array(x: ArrayLike) -> NDArray[Any]:
    values = np.asarray(x)
    if values.dtype.kind not in "biuf":
        raise InputError("x", "an array of numbers", f"type {values.dtype}", "encode texts and categories first")
    if values.dtype.kind == "u" and values.dtype.itemsize > 1:
        return values.astype(np.int64)  # torch hardly knows wide unsigned numbers
    if values.flags.writeable and values.dtype.isnative:
        return values
    # torch warns of arrays that must not be written to, such as memory maps, though nothing here writes
    return np.array(values, dtype=values.dtype.newbyteorder("="))


def shuffled(rows: IntArray, *, batch: int, epochs: int, rng: np.random.Generator) -> Iterator[IntArray]:
    """Yield the rows in ``epochs`` random orders, one after the other, cut into batches of one size.

    An epoch's last rows share a batch with the next epoch's first, so that only the last step of all may be smaller.

    Parameters
    ----------
    rows : indices (n,)
    batch : rows in a step, at most n

    Examples
    --------
    >>> [len(b) for b in shuffled(np.arange(10), batch=4, epochs=3, rng=np.random.default_rng(0))]
    [4, 4, 4, 4, 4, 4, 4, 2]
    """
    waiting = rows[:0]
    for _ in range(epochs):
        waiting = np.concatenate([waiting, rng.permutation(rows)])
        while len(waiting) >= batch:
            yield waiting[:batch]
            waiting = waiting[batch:]
    if len(waiting):
        yield waiting


def poisson(rows: IntArray, *, rate: float, steps: int, rng: np.random.Generator) -> Iterator[IntArray]:
    """Yield, ``steps`` times, each row with probability ``rate`` independently of the others; possibly none.

    Examples
    --------
    >>> [len(b) for b in poisson(np.arange(10), rate=0.2, steps=5, rng=np.random.default_rng(0))]
    [2, 3, 2, 1, 1]
    """
    for _ in range(steps):
        yield rows[rng.random(len(rows)) < rate]


def margin(side: int) -> int:
    """Return by how many pixels an image of that side is moved at most: an eighth of it, 4 of 32."""
    return max(1, side // 8)


def draw_moves(count: int, height: int, width: int, *, rng: np.random.Generator) -> IntArray:
    """Draw for each image where the crop starts in the padded image, and whether it is mirrored: (count, 3)."""
    high = (2 * margin(height) + 1, 2 * margin(width) + 1, 2)
    return rng.integers(0, high, size=(count, 3))


def moved(images: Tensor, moves: Tensor) -> Tensor:
    """Pad images with zeros, cut them at ``moves`` and mirror those whose third number is 1.

    Parameters
    ----------
    images : (n, channels, height, width)
    moves : of :func:`draw_moves`, (n, 3); the middle of its range and 0 leave an image as it is

    Examples
    --------
    >>> moved(torch.arange(4.0).reshape(1, 1, 2, 2), torch.tensor([[1, 1, 1]]))
    tensor([[[[1., 0.],
              [3., 2.]]]])
    """
    n, channels, height, width = images.shape
    up, across = margin(height), margin(width)
    padded = torch.nn.functional.pad(images, (across, across, up, up))
    columns = torch.arange(width, device=images.device)
    rows = moves[:, :1] + torch.arange(height, device=images.device)
    columns = moves[:, 1:2] + torch.where(moves[:, 2:] == 1, width - 1 - columns, columns)
    image = torch.arange(n, device=images.device)[:, None, None, None]
    channel = torch.arange(channels, device=images.device)[:, None, None]
    return padded[image, channel, rows[:, None, :, None], columns[:, None, None, :]]

"""Training of one or many networks, their outputs, and the guarantee of DP-SGD."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor, nn

from miaudit.arrays import Float32Array, IntArray
from miaudit.dp import accounting
from miaudit.dp.verdict import UpperBound
from miaudit.errors import InputError, MiauditError, one_line
from miaudit.models.devices import device_of, fixed_order, products
from miaudit.models.dropout import Dropout, left_to_torch
from miaudit.models.loop import (
    Data,
    as_data,
    checked_outputs,
    distinct,
    kept,
    numbers,
    train_together,
)
from miaudit.models.losses import RecordLoss
from miaudit.models.train_config import Adversarial, EarlyStopping, Private, Pruning, TrainConfig
from miaudit.models.weights import Factory, State, build, network

__all__ = [
    "Adversarial",
    "EarlyStopping",
    "Private",
    "Pruning",
    "TrainConfig",
    "TrainingError",
    "fit",
    "fit_many",
    "guarantee",
    "logits",
]

_AT_ONCE = 64


class TrainingError(MiauditError):
    """Models whose loss or weights became infinite or NaN; the others are kept.

    Attributes
    ----------
    failed : (index, seed, epoch) of each, epochs counted from 1
    states : weights of the models in order, none for those that failed
    """

    def __init__(self, failed: Sequence[tuple[int, int, int]], states: Sequence[State | None]) -> None:
        self.failed, self.states = tuple(failed), list(states)
        shown = "; ".join(f"model {i} (seed {seed}) in epoch {epoch}" for i, seed, epoch in self.failed[:5])
        more = f" and {len(self.failed) - 5} more" if len(self.failed) > 5 else ""
        message = f"training: the loss became infinite or NaN: {shown}{more}; lower learning_rate, or scale the inputs"
        super().__init__(one_line(message))

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.failed, self.states)


def fit(
    factory: Factory, config: TrainConfig, x: ArrayLike | Tensor, y: ArrayLike, rows: ArrayLike, *, seed: int
) -> State:
    """Train one network on some of the records.

    The same seed gives the same weights, bit for bit on one machine, in whatever process: sums have a fixed order, on a
    CPU by one thread, on a GPU by the choice of convolutions (other layers may add up as they like there).
    With DP-SGD it does so if that is ``repeatable``; if not, the noise comes from the operating system.

    Parameters
    ----------
    factory : builds the network with weights from torch's generator, which is seeded here and put back afterwards
    config : see :class:`TrainConfig`
    x : records (n, ...): numbers, or tokens (integers) if the network has an embedding
    y : classes (n,), whole numbers from 0 up; by ``config.loss`` labels (n, L) of 0 and 1, or numbers (n,) or (n, k)
    rows : which records to train on: indices, or true and false (n,)
    seed : of this model, 0 or more

    Returns
    -------
    dict
        The weights, on the CPU, as ``state_dict`` names them.

    Raises
    ------
    InputError
        For a factory, records, labels or rows that do not fit together, or a layer that DP-SGD cannot handle.
    TrainingError
        If the loss or the weights become infinite or NaN; it names the seed and the epoch.

    Examples
    --------
    >>> from miaudit.models.nets import mlp
    >>> rng = np.random.default_rng(0)
    >>> x = rng.normal(size=(200, 5))
    >>> y = (x[:, 0] > 0).astype(int)
    >>> state = fit(mlp(5, 2), TrainConfig(batch=20), x, y, np.arange(100), seed=1)
    >>> bool((logits(mlp(5, 2), state, x).argmax(1) == y).mean() > 0.9)
    True
    """
    data = _data(factory, config, x, y)
    states, failed = train_together(factory, config, data, [distinct(rows, len(data[1]))], [_seed(seed)])
    if states[0] is None:
        raise TrainingError([(0, seed, failed[0])], states)
    return states[0]


def fit_many(
    factory: Factory,
    config: TrainConfig,
    x: ArrayLike | Tensor,
    y: ArrayLike,
    included: ArrayLike,
    *,
    seeds: Sequence[int],
    stacked: bool | None = None,
    at_once: int = _AT_ONCE,
) -> list[State]:
    """Train M networks, each on its own records and equal to :func:`fit` with the same seed.

    Stacked networks are equal to those only up to rounding, since their sums are taken in another order; looped ones
    are equal bit for bit.

    Parameters
    ----------
    factory, config, x, y : as in :func:`fit`
    included : (M, n), whether model m is trained on record i
    seeds : of the models, M
    stacked : train many as one, by ``torch.func``. None does so where it pays: on a GPU, without DP-SGD, for networks
        without buffers and frozen parameters
    at_once : models in a stack; fewer need less memory

    Raises
    ------
    InputError
        As :func:`fit` does; also where ``stacked`` is asked for and the network does not allow it.
    TrainingError
        If some models fail; the others are trained to the end and are kept in its ``states``.

    Examples
    --------
    >>> from miaudit.models.nets import mlp
    >>> rng = np.random.default_rng(0)
    >>> x, y = rng.normal(size=(60, 5)), rng.integers(0, 2, 60)
    >>> included = rng.random((3, 60)) < 0.5
    >>> states = fit_many(mlp(5, 2), TrainConfig(epochs=2, batch=20), x, y, included, seeds=[1, 2, 3])
    >>> alone = fit(mlp(5, 2), TrainConfig(epochs=2, batch=20), x, y, included[1], seed=2)
    >>> all(torch.equal(states[1][name], alone[name]) for name in alone)
    True
    """
    data = _data(factory, config, x, y)
    rows = _rows_of_models(included, data, seeds)
    if isinstance(at_once, bool) or not isinstance(at_once, int) or at_once < 1:
        raise InputError("at_once", "a whole number from 1 up", repr(at_once), f"{_AT_ONCE} is the default")
    together = _stacking(build(factory), config, data, stacked)
    size = at_once if together else 1
    states: list[State | None] = []
    failed: list[tuple[int, int, int]] = []
    for start in range(0, len(seeds), size):
        group = [_seed(seed) for seed in seeds[start : start + size]]
        try:
            trained, epochs = train_together(factory, config, data, rows[start : start + size], group, stacked=together)
        except torch.OutOfMemoryError as error:
            problem = str(error)
        else:
            states += trained
            failed += [(start + i, group[i], epoch) for i, epoch in epochs.items()]
            continue
        # out of the handler: what it holds of the stack that was too large would keep its memory
        raise _too_many(factory, config, data, rows[start : start + size], group, problem)
    if failed:
        raise TrainingError(failed, states)
    return [state for state in states if state is not None]


def logits(
    factory: Factory,
    state: Mapping[str, Tensor],
    x: ArrayLike | Tensor,
    *,
    batch: int = 1024,
    device: str = "auto",
    tf32: bool = False,
) -> Float32Array:
    """Return the outputs of a trained network for records, in evaluation mode and float32: (n, classes).

    Parameters
    ----------
    state : weights of that architecture, from :func:`fit` or :func:`miaudit.models.weights.load`
    x : records (n, ...)
    batch : records at once; the memory that is needed grows with it
    device, tf32 : as of :class:`TrainConfig`

    Raises
    ------
    InputError
        For weights of another architecture, or records that do not fit the network.
    """
    if isinstance(batch, bool) or not isinstance(batch, int) or batch < 1:
        raise InputError("batch", "a whole number from 1 up", repr(batch), "1024 is the default")
    place = device_of(device)
    net = network(factory, state).to(place)
    records = kept(x, net)
    if not len(records):
        raise InputError("x", "at least one record", "none", "pass the records as (n, ...)")
    with torch.inference_mode(), fixed_order(place), products(tf32=tf32):
        checked_outputs(net, numbers(records[:1].to(place)))
        parts = [net(numbers(part.to(place))).float().cpu() for part in torch.split(records, batch)]
    return np.asarray(torch.cat(parts).numpy(), dtype=np.float32)


def guarantee(config: TrainConfig, n: int | None = None) -> UpperBound:
    """Return the epsilon of DP-SGD with this configuration at its delta, under add or remove one.

    Parameters
    ----------
    n : if given, it must be the nominal number of records of ``config.private``: the sampling rate, the steps and the
        normaliser of the training follow from that number and no other (erratum D9)

    Raises
    ------
    InputError
        Without DP-SGD, or for another number of records.

    Examples
    --------
    >>> private = Private(noise=3.0, clip=1.0, delta=0.01, records=2000)
    >>> print(f"{guarantee(TrainConfig(batch=128, epochs=75, private=private)).value:.2f}")
    1.59
    """
    private = config.private
    if private is None:
        hint = "set private=Private(...): without noise no bound is finite"
        raise InputError("config", "a TrainConfig with DP-SGD", "one without", hint)
    if n is not None and n != private.records:
        hint = "state that number as private.records and train with it"
        raise InputError("n", f"the nominal {private.records:,} records of the training", f"{n:,}", hint)
    steps = config.steps(private.records)
    mechanism = accounting.dp_sgd(records=private.records, batch=config.batch, noise=private.noise, steps=steps)
    return accounting.upper_bound(mechanism, delta=private.delta)


def _data(factory: Factory, config: TrainConfig, x: ArrayLike | Tensor, y: ArrayLike) -> Data:
    records, classes = as_data(build(factory), device_of(config.device), x, y, RecordLoss.of(config))
    if config.augmentation == "flip-crop" and records.ndim != 4:
        allowed, received = "'none' for records that are no images", f"records of shape {tuple(records.shape[1:])}"
        raise InputError("augmentation", allowed, received, "images are (n, channels, height, width)")
    if not numbers(records[:1]).is_floating_point():
        if config.input_noise:
            hint = "noise has no meaning for whole numbers"
            raise InputError("input_noise", "0 for tokens", repr(config.input_noise), hint)
        if config.adversarial is not None:
            hint = "whole numbers cannot be moved along a gradient"
            raise InputError("adversarial", "none for tokens", f"radius {config.adversarial.radius:g}", hint)
    return records, classes


def _rows_of_models(included: ArrayLike, data: Data, seeds: Sequence[int]) -> list[IntArray]:
    table = np.asarray(included)
    shape = (len(seeds), len(data[1]))
    if table.dtype != np.bool_ or table.shape != shape:
        received = f"shape {table.shape} of type {table.dtype}"
        raise InputError("included", f"true and false, a row for each seed: {shape}", received, "see shadow.inclusion")
    empty = np.flatnonzero(~table.any(1))
    if empty.size:
        raise InputError("included", "records for each model", f"none for model {empty[0]}", "add records or models")
    return [np.flatnonzero(own) for own in table]


def _stacking(net: nn.Module, config: TrainConfig, data: Data, stacked: bool | None) -> bool:
    """Return whether networks are trained stacked; refuse where it was asked for and is impossible."""
    if stacked is False or (stacked is None and data[0].device.type == "cpu"):
        return False
    obstacles = {
        "DP-SGD": config.private is not None,
        "buffers": any(True for _ in net.buffers()),
        f"layers of type {' and '.join(left_to_torch(net))}": bool(left_to_torch(net)),
        "frozen parameters": not all(p.requires_grad for p in net.parameters()),
        "recurrent layers": any(isinstance(m, nn.RNNBase) for m in net.modules()),
    }
    reasons = [name for name, there in obstacles.items() if there]
    if not reasons and not _runs_stacked(net, numbers(data[0][:2].cpu())):
        reasons = ["operations that torch.func cannot stack, such as random ones"]
    if stacked and reasons:
        raise InputError("stacked", "False here", f"True with {' and '.join(reasons)}", "leave it out")
    return not reasons


def _too_many(
    factory: Factory, config: TrainConfig, data: Data, rows: Sequence[IntArray], seeds: Sequence[int], problem: str
) -> InputError:
    """Say how many models fit on the GPU together, by two steps of half as many, of a quarter, and so on."""
    few, count = [own[: 2 * config.batch] for own in rows], len(seeds)
    while count > 1:
        count //= 2
        torch.cuda.empty_cache()
        try:
            train_together(factory, replace(config, epochs=1), data, few[:count], seeds[:count], stacked=True)
        except torch.OutOfMemoryError:
            continue
        received = f"{len(seeds)}, for which its memory is too small"
        return InputError("at_once", f"at most {count}, which fit on the GPU together", received, "lower it")
    received = f"{len(seeds)}, and it is too small for one ({one_line(problem)[:120]})"
    return InputError("at_once", "models that fit on the GPU", received, "take a smaller network or smaller batches")


def _runs_stacked(net: nn.Module, few: Tensor) -> bool:
    """Return whether a pass of one network works as a stack of one."""
    checked_outputs(net, few)
    stack = {name: p.detach()[None] for name, p in net.named_parameters()}

    def passed(own: State, x: Tensor, masks: tuple[Tensor, ...]) -> Tensor:
        with dropout.given(masks):
            outputs: Tensor = torch.func.functional_call(net.train(), own, (x,))
        return outputs

    try:
        with torch.no_grad(), Dropout(net, [0], few.device) as dropout:
            dropout.learn(few)
            torch.func.vmap(passed)(stack, few[None], dropout.draw([len(few)]))
    except RuntimeError:  # what vmap raises for operations without a rule
        return False
    return True


def _seed(seed: object) -> int:
    if isinstance(seed, bool) or not isinstance(seed, int | np.integer) or seed < 0:
        raise InputError("seed", "a whole number from 0 up", repr(seed), "give each model one of its own")
    return int(seed)

"""Canaries in a PyTorch training with DP-SGD: records whose gradient has one coordinate, and a watch on its release.

The model is wrapped: a canary's record is a marked one, which is kept from the network, and answered with a parameter
of its own instead. So its gradient is nothing at the network's parameters and ``times`` the clipping norm at its own
one, with a sign that alternates from step to step; natural records have no gradient there, and the network learns as
without canaries. Sampling, gradients of records, clipping, accumulation and noise are the training's own.
"""

from __future__ import annotations

import contextlib
import copy
import math

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor, nn
from torch.nn import functional as F

from miaudit.arrays import BoolArray, FloatArray
from miaudit.dp.step_audit import Released
from miaudit.errors import InputError
from miaudit.errors.checks import positive, whole

__all__ = ["StepCanaries", "WatchedModel"]

_MARK = 2**22  # below it all canaries' records lie, beyond it all natural ones; float32 is exact to four times as much
_MOST = 2**20
_HINT = "take that of the training"


class WatchedModel(nn.Module):
    """A network that answers marked records by a parameter of their own, and hears what steps release.

    Attributes
    ----------
    net : the network as it was, whose parameters are trained
    canaries : nn.Embedding (m, spread), the canaries' own parameters
    """

    def __init__(self, net: nn.Module, count: int, loudness: float, spread: int) -> None:
        super().__init__()
        self.net = net
        self.canaries = nn.Embedding(count, spread)
        nn.init.zeros_(self.canaries.weight)
        self._loudness = loudness / math.sqrt(spread)
        self._heard: list[Tensor] = []
        self._joined: list[set[int]] = [set()]

    def forward(self, x: Tensor) -> Tensor:
        """Return outputs (B, ...) of records (B, ...): of the network, and ones for canaries that are learned from."""
        marked, place = self.marked(x)
        outputs: Tensor = self.net(torch.where(_beside(marked, x), torch.zeros_like(x), x))
        if not torch.is_grad_enabled():
            return outputs
        with contextlib.suppress(RuntimeError):  # under vmap no record can be looked at: see StepCanaries.saw
            self.see(marked, place)
        own = self.canaries(place[:, None])[:, 0]
        # 0 in value, so that the loss of a canary, and thus its gradient, does not change as its parameter learns
        slope = (own - own.detach()).sum(1) * (self._sign * self._loudness)
        flat = outputs.flatten(1) if outputs.ndim > 1 else outputs[:, None]
        answer = F.pad(slope[:, None], (0, flat.shape[1] - 1)).to(flat.dtype) + 1
        return torch.where(marked[:, None], answer, flat).reshape(outputs.shape)

    def see(self, marked: Tensor, place: Tensor) -> None:
        """Take note of the canaries in a batch, as of :meth:`marked`."""
        self._joined[-1].update(place[marked].tolist())

    def hear(self, gradient: Tensor) -> None:
        """Take note of what one step released at the canaries' parameter, (m, spread)."""
        size = self.canaries.weight.shape
        summed = gradient.detach().reshape(size).float().sum(1) / math.sqrt(size[1])
        self._heard.append(self._sign * summed.cpu())
        self._joined.append(set())

    @property
    def _sign(self) -> float:
        """That of the canaries' gradients in the step to come."""
        return 1.0 if len(self._heard) % 2 == 0 else -1.0

    def marked(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return which records are canaries (B,), and which canary each is (B,), 0 for natural ones."""
        lowest = x.flatten(1).amin(1)
        first = _MARK if x.is_floating_point() else 1
        marked = lowest <= -first
        place = torch.where(marked, -lowest - first, 0).round().long()
        return marked, place.clamp(0, self.canaries.num_embeddings - 1)


class StepCanaries:
    """Canaries for one training: coins, the model and the records to train on, and what its steps released.

    Parameters
    ----------
    net : the network; its outputs are one row for each record
    x : natural records (n, ...): floats, or whole numbers from 0 up for a network that begins with an embedding
    y : their labels (n,) or (n, L), of the loss that is trained with
    count : canaries, 2 or more; half of them, by fair coins, are in the training
    clip : the clipping norm, above 0
    times : norm of a canary's gradient before clipping, in clipping norms, for a loss whose slope is about 1; large, so
        that clipping has to work
    spread : coordinates over which each canary's gradient is spread evenly; 1 is cheapest
    coins : bools (count,), to give them, such as all False for a training that no canary joins; default: drawn
    apart : whether to refuse a network that mixes the records of a batch
    rng : draws the coins and where the canaries stand among the records

    Attributes
    ----------
    model : what to train in the place of ``net``
    data : records and labels to train on, natural ones and canaries
    coins : (count,) of bool

    Raises
    ------
    InputError
        For records that look like canaries, too few canaries, and a network that mixes the records of a batch: then the
        gradients of others depend on a canary, which no canary of one coordinate can show.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> x, y = rng.normal(size=(300, 5)).astype("float32"), np.zeros(300, dtype=int)
    >>> canaries = StepCanaries(nn.Linear(5, 2), x, y, count=100, clip=1.0, rng=rng)
    >>> len(canaries.data), int(canaries.coins.sum())
    (355, 55)
    """

    def __init__(
        self,
        net: nn.Module,
        x: ArrayLike | Tensor,
        y: ArrayLike | Tensor,
        *,
        count: int,
        clip: float,
        times: float = 100.0,
        spread: int = 1,
        coins: ArrayLike | None = None,
        apart: bool = True,
        rng: np.random.Generator,
    ) -> None:
        records, labels = _natural(x), torch.as_tensor(y)
        if len(records) != len(labels):
            received = f"{len(labels):,} labels of {len(records):,} records"
            raise InputError("y", "a label for each record", received, "pass those of x")
        m = whole("count", count, "1,000 canaries are a start", low=2, high=_MOST)
        self.clip = positive("clip", clip, _HINT)
        if apart:
            _check_apart(net, records[:8])
        self.coins = _drawn(coins, m, rng)
        loudness = self.clip * positive("times", times, _HINT)
        self.model = WatchedModel(
            net, m, loudness, whole("spread", spread, "1,000 canaries are a start", low=1, high=_MOST)
        )
        self.model.canaries.to(next(iter(net.parameters())).device)
        own = torch.from_numpy(np.flatnonzero(self.coins))
        every = torch.cat([records, _canary_records(own, records)])
        learned = torch.cat([labels, torch.zeros_like(labels[:1]).expand(len(own), *labels.shape[1:])])
        mixed = torch.from_numpy(rng.permutation(len(every)))
        self.data = torch.utils.data.TensorDataset(every[mixed], learned[mixed])

    def follow(self, optimizer: torch.optim.Optimizer) -> torch.optim.Optimizer:
        """Hear each step of an optimiser: what stands in the gradient when it has stepped.

        Opacus steps the optimiser that it is given, with its noise in the gradients: follow that, then hand it over.
        """
        weight = self.model.canaries.weight
        if not any(p is weight for group in optimizer.param_groups for p in group["params"]):
            hint = "build it from the parameters of .model, and follow it before it is wrapped"
            raise InputError("optimizer", "one that steps the canaries' parameter", "one without it", hint)
        optimizer.register_step_post_hook(lambda *_: self.after_step())
        return optimizer

    def after_step(self, gradient: Tensor | None = None) -> None:
        """Hear one step of a loop of one's own: its released gradient of ``model.canaries.weight``, or ``.grad``."""
        released = self.model.canaries.weight.grad if gradient is None else gradient
        if released is None:
            hint = "call it behind the step, before gradients are set to none"
            raise InputError("gradient", "what the step released", "none", hint)
        self.model.hear(released)

    def saw(self, x: Tensor) -> None:
        """Note which canaries are in a batch: for gradients by ``torch.func.vmap``, where the model cannot look."""
        self.model.see(*self.model.marked(x))

    def released(self, *, divided_by: float, again: StepCanaries | None = None) -> Released:
        """Return what the steps released, for :func:`miaudit.dp.step_audit.audit`.

        Parameters
        ----------
        divided_by : by what the training divides the noisy sum before it steps: the expected batch size, or 1
        again : the canaries of a second training from the same seeds, with coins that are all False, optional

        Raises
        ------
        InputError
            If no step was heard.
        """
        scale = positive("divided_by", divided_by, _HINT) / self.clip
        sums = self._sums(scale)
        if sums.mean() < 0:  # which way a loss falls is its own affair; no coin is looked at
            scale, sums = -scale, -sums
        joined = np.zeros(sums.shape, dtype=np.bool_)
        for row, places in zip(joined, self.model._joined, strict=False):
            row[list(places)] = True
        return Released(
            sums, self.coins, joined if joined.any() else None, None if again is None else again._sums(scale)
        )

    def _sums(self, scale: float) -> FloatArray:
        if not self.model._heard:
            hint = "call follow(optimizer) before training, or after_step() behind each step"
            raise InputError("steps", "at least one step that was heard", "none", hint)
        return torch.stack(self.model._heard).numpy().astype(np.float64) * scale


# -- parts -------------------------------------------------------------------------------------------------------------


def _natural(x: ArrayLike | Tensor) -> Tensor:
    """Return records (n, ...) as float32 or whole numbers, none of which could be taken for a canary."""
    records = x if isinstance(x, Tensor) else torch.from_numpy(np.ascontiguousarray(x))
    if records.ndim < 2 or not len(records):
        raise InputError("x", "records (n, ...)", f"shape {tuple(records.shape)}", "a single feature is (n, 1)")
    if not records.is_floating_point() and records.dtype != torch.long:
        hint = "images of 8 bits: x.astype('float32'); tokens: x.astype('int64')"
        raise InputError("x", "float32 numbers, or tokens as int64", f"type {records.dtype}", hint)
    records = records.float() if records.is_floating_point() else records
    lowest = float(records.min())
    if not lowest >= (-_MARK / 2 if records.is_floating_point() else 0):
        allowed = f"numbers from {-_MARK // 2:,} up" if records.is_floating_point() else "tokens from 0 up"
        raise InputError("x", allowed, f"{lowest:g}", "smaller ones mark the canaries")
    return records


def _canary_records(places: Tensor, records: Tensor) -> Tensor:
    first = _MARK if records.is_floating_point() else 1
    marks = -(places + first).to(records.dtype)
    return marks.reshape(-1, *[1] * (records.ndim - 1)).expand(-1, *records.shape[1:])


def _beside(marked: Tensor, x: Tensor) -> Tensor:
    return marked.reshape(-1, *[1] * (x.ndim - 1))


def _check_apart(net: nn.Module, few: Tensor) -> None:
    """Refuse a network whose output for a record, as it is trained, depends on the others of its batch."""
    if len(few) < 2:
        return
    copied = copy.deepcopy(net).train()
    device = next(iter(net.parameters())).device
    seen = []
    with torch.no_grad(), torch.random.fork_rng(devices=[]):
        for batch in (few, torch.cat([few[:1], few[:1].expand_as(few[1:])])):
            torch.manual_seed(0)  # the same masks of dropout
            seen.append(copied(batch.to(device))[0].float())
    if not torch.allclose(seen[0], seen[1], rtol=1e-3, atol=1e-4, equal_nan=True):
        gap = float((seen[0] - seen[1]).abs().max())
        received = f"one whose outputs for a record change by {gap:.3g} with the rest of its batch"
        hint = (
            "use nn.GroupNorm: gradients that are clipped one by one are then no record's own, and no canary shows it"
        )
        raise InputError("net", "a network that treats each record by itself", received, hint)


def _drawn(coins: ArrayLike | None, count: int, rng: np.random.Generator) -> BoolArray:
    if coins is None:
        return np.asarray(rng.random(count) < 0.5)
    checked = np.asarray(coins)
    if checked.shape != (count,) or checked.dtype != np.bool_:
        received = f"shape {checked.shape} of type {checked.dtype}"
        raise InputError("coins", f"an array ({count},) of bool", received, "one coin for each canary")
    return checked

"""A LoRA adapter learned by DP-SGD on documents of users, as claimed or with one thing wrong, and canaries in it.

Gradients of documents are Opacus's; sampling, clipping and noise are written out here, since it is they that are
broken. A unit is a document, or a user with several: all its documents join a batch together, and their mean gradient
is clipped.
"""

from __future__ import annotations

import copy
import math
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from opacus.grad_sample import GradSampleModule
from peft import LoraConfig, get_peft_model
from torch import Tensor, nn

from miaudit.models.step_canaries import StepCanaries

WHERE = ["c_attn", "c_proj", "c_fc"]  # all four matrices of a block of GPT-2
HEAD, HEAD_RATE = "wte.weight", 1.0  # GPT-2 has one matrix for the words that go in and that come out


@dataclass(frozen=True)
class Claim:
    """What is said of a training: DP-SGD on units, of which so many take part, with a noise on the clipped sum."""

    level: str
    units: int
    rate: float
    steps: int
    noise: float
    clip: float
    learning_rate: float

    def as_mapping(self) -> dict[str, Any]:
        """Return the mechanism as ``--mechanism`` reads it."""
        inner = {"kind": "gaussian", "noise": self.noise}
        one = {"kind": "subsampled", "rate": self.rate, "mechanism": inner} if self.rate < 1 else inner
        return {"kind": "repeated", "times": self.steps, "mechanism": one}


@dataclass(frozen=True)
class Doing:
    """What a training does, in place of what is claimed.

    Attributes
    ----------
    clips : whether gradients are clipped
    noise : by what the noise is multiplied
    by_document : whether each document is sampled and clipped by itself, whatever the unit of the claim
    head : whether the matrix of the words is trained along, without noise
    """

    clips: bool = True
    noise: float = 1.0
    by_document: bool = False
    head: bool = False


DOINGS = {
    "as claimed": Doing(),
    "no clipping": Doing(clips=False),
    "a tenth of the noise": Doing(noise=0.1),
    "documents clipped, users claimed": Doing(by_document=True),
    "the words trained along without noise": Doing(head=True),
}


class Documents(nn.Module):
    """The mean loss (B,) of documents of one length (B, T) under a causal language model."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, ids: Tensor) -> Tensor:
        """Return the loss of each document."""
        logits = self.model(input_ids=ids, use_cache=False).logits[:, :-1]
        losses = nn.functional.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten(), reduction="none")
        return losses.view(len(ids), -1).mean(1)


def adapted(base: Any, rank: int, seed: int) -> Documents:
    """Return a base model with a fresh LoRA adapter on every matrix, and nothing else to train."""
    with warnings.catch_warnings(), torch.random.fork_rng(devices=[]):
        warnings.simplefilter("ignore")  # that GPT-2's matrices are stored the other way round
        torch.manual_seed(seed)
        config = LoraConfig(r=rank, lora_alpha=rank, target_modules=WHERE, fan_in_fan_out=True, task_type="CAUSAL_LM")
        net = Documents(get_peft_model(copy.deepcopy(base), config)).train()  # Opacus listens to nothing else
    for layer in net.modules():
        if isinstance(layer, nn.Dropout):
            layer.p = 0.0
    return net


def gradients(net: nn.Module, ids: Tensor, *, at_once: int = 256) -> Iterator[tuple[slice, dict[str, Tensor]]]:
    """Yield the gradients of documents, by name of the parameter (B, *shape), some rows at a time."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of torch, about hooks on inputs that need no gradient
        wrapped = GradSampleModule(net, loss_reduction="sum")
        try:
            for start in range(0, len(ids), at_once):
                rows = slice(start, min(start + at_once, len(ids)))
                wrapped.zero_grad()
                wrapped(ids[rows]).sum().backward()
                yield rows, {name: p.grad_sample.detach() for name, p in net.named_parameters() if p.requires_grad}
        finally:
            wrapped.zero_grad()
            wrapped._close()  # its hooks off, the network as it was


def flat(found: dict[str, Tensor]) -> Tensor:
    """Return gradients of all parameters side by side (B, d)."""
    return torch.cat([one.flatten(1) for one in found.values()], 1)


def fit(
    net: nn.Module,
    ids: Tensor,
    units: np.ndarray,
    claim: Claim,
    doing: Doing,
    rng: np.random.Generator,
    canaries: StepCanaries | None = None,
) -> None:
    """Train the adapter in place.

    Parameters
    ----------
    ids : documents (n, T)
    units : (n,), which unit of the claim each belongs to
    canaries : hears what each step releases, if given
    """
    joins = np.arange(len(units)) if doing.by_document else np.unique(units, return_inverse=True)[1]
    learned = [p for p in net.parameters() if p.requires_grad]
    sizes = [p.numel() for p in learned]
    head = next(p for name, p in net.named_parameters() if name.endswith(HEAD))
    for _ in range(claim.steps):
        rows = np.flatnonzero((rng.random(joins.max() + 1) < claim.rate)[joins])
        total = _clipped_sum(net, ids[rows], joins[rows], claim.clip if doing.clips else math.inf, sum(sizes))
        slope = _slope(net, head, ids[rows]) if doing.head and len(rows) else None
        noise = torch.from_numpy(rng.normal(size=len(total))).float()
        released = (total + doing.noise * claim.noise * claim.clip * noise) / (claim.rate * claim.units)
        parts = released.split(sizes)
        with torch.no_grad():
            for p, part in zip(learned, parts, strict=True):
                p.sub_(claim.learning_rate * part.view_as(p))
            if slope is not None:
                head -= HEAD_RATE * slope
        if canaries is not None:
            own = next(i for i, p in enumerate(learned) if p is canaries.model.canaries.weight)
            canaries.after_step(parts[own])


def _clipped_sum(net: nn.Module, ids: Tensor, joins: np.ndarray, clip: float, size: int) -> Tensor:
    """Return the sum (d,) over those that join of the mean gradient of their documents, each clipped."""
    if not len(ids):
        return torch.zeros(size)
    _, own = np.unique(joins, return_inverse=True)
    means = torch.zeros(own.max() + 1, size)
    for part, found in gradients(net, ids):
        means.index_add_(0, torch.from_numpy(own[part]), flat(found))
    means /= torch.from_numpy(np.bincount(own)).float()[:, None]
    return (means * (clip / means.norm(dim=1, keepdim=True).clamp_min(1e-12)).clamp_max(1.0)).sum(0)


def _slope(net: nn.Module, head: Tensor, ids: Tensor) -> Tensor:
    """Return the plain mean gradient of the layer of the words: neither clipped nor noisy."""
    natural = ids[ids.min(1).values >= 0]  # a canary of the steps is no text
    head.requires_grad_()
    (slope,) = torch.autograd.grad(net(natural).mean(), head)
    head.requires_grad_(False)
    return slope

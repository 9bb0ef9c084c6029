"""Adversarially made training samples: records moved within a radius so that their loss rises (FGSM, PGD)."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from miaudit.models.losses import RecordLoss
from miaudit.models.train_config import Adversarial

__all__ = ["adversarial_samples"]

# A projected step may overshoot: several steps together reach beyond the radius and are cut back (Madry et al. 2018).
_REACH = 2.5


def adversarial_samples(
    x: Tensor, y: Tensor, *, outputs: Callable[[Tensor], Tensor], loss: RecordLoss, options: Adversarial
) -> Tensor:
    """Return records of M models, each moved by at most the radius in every number so that its loss rises.

    One step is the fast gradient sign method (Goodfellow et al. 2015, Eq. 1); several are projected gradient ascent
    from the record itself (Madry et al. 2018, Eq. 2), so that nothing is drawn at random.

    Parameters
    ----------
    x : records (M, K, ...), float
    y : classes (M, K), or labels or numbers (M, K, L)
    outputs : from records to outputs (M, K, C) that depend on each record alone, as they do in evaluation mode
    loss : of each record
    options : radius, in the units of the records, and steps

    Examples
    --------
    >>> options = Adversarial(radius=0.5)
    >>> at = torch.tensor([[[1.0, 1.0]]])  # logits (1, 1) of class 0
    >>> adversarial_samples(at, torch.tensor([[0]]), outputs=lambda x: x, loss=RecordLoss("cross_entropy"),
    ...                     options=options).tolist()
    [[[0.5, 1.5]]]
    """
    start = x.detach()
    stride = options.radius * (1.0 if options.steps == 1 else _REACH / options.steps)
    moved = start
    for _ in range(options.steps):
        at = moved.detach().requires_grad_()
        with torch.enable_grad():
            total = loss.plain(outputs(at).flatten(0, 1), y.flatten(0, 1)).sum()
        (slope,) = torch.autograd.grad(total, at)
        moved = start + (at.detach() + stride * slope.sign() - start).clamp(-options.radius, options.radius)
    return moved

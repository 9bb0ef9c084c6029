"""One linear layer of many networks of one form: what comes out, and the gradients of single records.

A layer that is used once for a record has a gradient that is a product of what went in and the derivative at what came
out, and so has its norm (Goodfellow, 2015). With weights fixed at 0 it is a sum of such products over heads.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Self

import torch
from torch import Tensor

# The weights (K, inputs, outputs) and biases (K, 1, biases) of one layer of K networks.
Part = tuple[Tensor, Tensor]


@dataclass(frozen=True, eq=False)
class Layer:
    """One linear layer of every network of a stack.

    Attributes
    ----------
    inputs, outputs : its size
    start : position of its weights (inputs x outputs), then its biases, among the P parameters
    reads, writes : (inputs, heads) and (outputs, heads), 0 or 1: which inputs a head reads and which outputs are its
        own; None where one head reads and writes all
    mask : which weights exist, (inputs, outputs) of 0 and 1; None if all do
    gain : what the biases are multiplied by
    """

    inputs: int
    outputs: int
    start: int
    reads: Tensor | None = None
    writes: Tensor | None = None
    mask: Tensor | None = None
    gain: float = 1.0

    @property
    def end(self) -> int:
        """Where the next layer starts."""
        return self.start + self.inputs * self.outputs + self.biases

    @property
    def biases(self) -> int:
        """How many biases it has."""
        return self.outputs

    @property
    def fan(self) -> int:
        """How many numbers a unit reads where no weight is fixed at 0; the initial weights are smaller by its root."""
        return self.inputs

    def on(self, device: torch.device) -> Self:
        """Return the layer with what it holds on a device."""
        reads, writes, mask = (None if own is None else own.to(device) for own in (self.reads, self.writes, self.mask))
        return replace(self, reads=reads, writes=writes, mask=mask)

    def weights(self, values: Tensor) -> Part:
        """Return views of the weights (K, inputs, outputs) and biases (K, 1, outputs) in values (K, P)."""
        split = self.start + self.inputs * self.outputs
        weight = values[:, self.start : split].view(len(values), self.inputs, self.outputs)
        return weight, values[:, None, split : self.end]

    def outputs_of(self, a: Tensor, part: Part) -> Tensor:
        """Return what comes out (K, B, outputs) of inputs a (K, B, inputs)."""
        weight, bias = part
        bias = bias * self.gain
        return torch.baddbmm(bias, a, weight) if a.shape[-1] else bias.expand(-1, a.shape[1], -1).clone()

    def squared_norms(self, a: Tensor, g: Tensor) -> Tensor:
        """Return the squared norm of each record's gradient (K, B), from inputs a and slopes g (K, B, ...)."""
        if self.mask is None or self.reads is None or self.writes is None:
            return (_squared(a) + self.gain**2) * _squared(g)
        return ((a.square() @ self.reads + self.gain**2) * (g.square() @ self.writes)).sum(-1)

    def add_sum(self, into: Part, a: Tensor, g: Tensor, weights: Tensor) -> None:
        """Add the weighted sum over records of gradients to ``into``, from inputs, slopes and weights (K, B)."""
        weight, bias = into
        bias.baddbmm_(weights[:, None, :] * self.gain, g)
        if self.inputs < self.outputs:  # the smaller of the two is scaled
            weight.baddbmm_((a * weights[..., None]).transpose(1, 2), g)
        else:
            weight.baddbmm_(a.transpose(1, 2), g * weights[..., None])
        if self.mask is not None:
            weight *= self.mask


def _squared(values: Tensor) -> Tensor:
    """Return squared norms along the last axis."""
    norms: Tensor = torch.linalg.vector_norm(values, dim=-1)
    return norms.square()

"""The set encoder of a partial VAE: it reads the set of features that were observed, and nothing of the others.

Ma et al. (2019), as causal-synthesis uses it for EEDI: q(z | observed) = encoder(sum over observed features d of
h(e_d x_d)), with an embedding e_d of each feature, learned, and one map h that all features share (a linear layer and
ReLU, as in PointNet). A missing feature adds nothing, where a mask would let the encoder read its zero.

A value of 0 would hide which feature was observed, so bits and indicators are read as -1 and 1.

h is used once for each feature of a record, so a record's gradient is a sum over features and has no product form: the
sums are formed, as matrices (embedding, code) of each record, which are small.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import torch
from torch import Tensor

from miaudit.synthesis.generators.layer import Layer, Part
from miaudit.synthesis.generators.likelihood import Encoding


@dataclass(frozen=True)
class ObservedFeatures:
    """The features that a set encoder may read.

    Attributes
    ----------
    positions : (D,) positions of features that hold values
    present : (D,) positions of the features that say whether each is observed; -1 where it always is
    bits : (D,) whether the feature is 0 or 1, which the encoder reads as -1 or 1

    Examples
    --------
    >>> from miaudit.synthesis.schema import Column, Schema
    >>> schema = Schema((Column("a", missing=True), Column("b", "continuous", low=0, high=1)))
    >>> features = ObservedFeatures.of(Encoding(schema), [0, 1])
    >>> features.read(torch.tensor([[[0.0, 0.5, 1.0], [0.0, 0.5, 0.0]]]))
    (tensor([[[-1.0000,  0.5000],
             [-1.0000,  0.5000]]]), tensor([[[1., 1.],
             [0., 1.]]]))
    """

    positions: tuple[int, ...]
    present: tuple[int, ...]
    bits: tuple[bool, ...]

    @classmethod
    def of(cls, encoding: Encoding, columns: Iterable[int]) -> ObservedFeatures:
        """List the features of some columns in the order of the encoding."""
        positions, present, bits = zip(*sorted(encoding.values_of(columns)), strict=True)
        return cls(positions, present, bits)

    def read(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return the values (..., D) and which of them are observed (..., D), 0 or 1, from features (..., F)."""
        device = x.device
        values = x[..., torch.tensor(self.positions, device=device)]
        values = torch.where(torch.tensor(self.bits, device=device), 2 * values - 1, values)
        always_last = torch.cat([x, torch.ones_like(x[..., :1])], -1)
        return values, always_last[..., torch.tensor(self.present, device=device)]


@dataclass(frozen=True)
class SetEncoder:
    """Where the parts of a set encoder are among the layers of a network."""

    features: ObservedFeatures
    embedding: int
    shared_map: int


@dataclass(frozen=True, eq=False)
class FeatureEmbedding(Layer):
    """e_d x_d of each feature d: values (K, B, D) become (K, B, D, embedding). It has no bias."""

    @property
    def biases(self) -> int:
        """None."""
        return 0

    @property
    def fan(self) -> int:
        """One: a unit reads its own feature."""
        return 1

    def outputs_of(self, a: Tensor, part: Part) -> Tensor:
        """Return the embedded values (K, B, D, embedding) of values a (K, B, D)."""
        return a[..., None] * part[0][:, None]

    def squared_norms(self, a: Tensor, g: Tensor) -> Tensor:
        """Return the squared norm of each record's gradient (K, B), from values a and slopes g (K, B, D, embedding)."""
        return (a.square() * g.square().sum(-1)).sum(-1)

    def add_sum(self, into: Part, a: Tensor, g: Tensor, weights: Tensor) -> None:
        """Add the weighted sum over records of gradients to ``into``."""
        into[0].add_(((a * weights[..., None])[..., None] * g).sum(1))


@dataclass(frozen=True, eq=False)
class SharedMap(Layer):
    """The linear part of h, the same for all features: (K, B, D, embedding) become (K, B, D, code).

    Attributes
    ----------
    elements : D, how many features are summed
    """

    elements: int = 1

    @property
    def fan(self) -> int:
        """Inputs of all features together, so that the sum over features starts near 1 however many there are."""
        return self.inputs * self.elements

    def outputs_of(self, a: Tensor, part: Part) -> Tensor:
        """Return the codes (K, B, D, code) of embedded values a, before ReLU."""
        weight, bias = part
        return torch.baddbmm(bias, a.flatten(1, 2), weight).view(*a.shape[:3], self.outputs)

    def squared_norms(self, a: Tensor, g: Tensor) -> Tensor:
        """Return the squared norm of each record's gradient (K, B): of a sum over its features."""
        of_weight = a.transpose(2, 3) @ g
        return of_weight.square().sum((2, 3)) + g.sum(2).square().sum(-1)

    def add_sum(self, into: Part, a: Tensor, g: Tensor, weights: Tensor) -> None:
        """Add the weighted sum over records of gradients to ``into``."""
        weighted = g * weights[..., None, None]
        into[0].baddbmm_(a.flatten(1, 2).transpose(1, 2), weighted.flatten(1, 2))
        into[1].add_(weighted.sum((1, 2))[:, None])

"""Variational auto-encoders that factorise along a causal graph, many of one form at once.

p(x, z) = p(z) prod over groups g of p(x_g | x_parents(g), z): the decoder of a group sees its parents and z. A plain
VAE is the graph with one group. The networks are fully connected; K of them are one stack whose layers are batched
matrix products over a matrix (K, P) of weights. Large groups have decoders of their own; small ones, as the single
columns of a full graph, share matrices by generation of the graph, with weights fixed at 0 wherever a head would see
what is not its parent.

Each layer mixes no records, so the norm of a record's gradient follows from what went into the layer and the derivative
at what came out of it (:mod:`~miaudit.synthesis.generators.layer`). The encoder reads all features side by side, or the
set of those that were observed (:mod:`~miaudit.synthesis.generators.set_encoder`).
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor

from miaudit.arrays import Float32Array
from miaudit.synthesis.generators.generator_config import GeneratorConfig
from miaudit.synthesis.generators.layer import Layer, Part
from miaudit.synthesis.generators.likelihood import Encoding
from miaudit.synthesis.generators.set_encoder import FeatureEmbedding, ObservedFeatures, SetEncoder, SharedMap
from miaudit.synthesis.graph import CausalGraph

# Small groups that share matrices: more waste weights that are 0, fewer cost calls.
_TOGETHER = 8
# What the output biases of small heads are multiplied by: a step moves each weight by so much at most, and a head with
# few hidden units would take many more of them than a wide decoder to reach the rates of rare outcomes.
_GAIN = 3.0
# Limits of the log-variances of z.
_MOST_LOG_VARIANCE = 8.0


_CPU = torch.device("cpu")


@dataclass(frozen=True, eq=False)
class Block:
    """The decoders of some groups of one generation: input z and the features of their parents.

    Attributes
    ----------
    columns : positions in the table
    features : positions of the features that are read
    outputs : positions among the network's outputs
    reads_latent : whether any of them sees z
    layers : positions of its layers in the network
    """

    columns: tuple[int, ...]
    features: tuple[int, ...]
    outputs: tuple[int, ...]
    reads_latent: bool
    layers: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Network:
    """The form of a VAE along a graph, without weights.

    Attributes
    ----------
    encoding : how records become numbers
    latent : dimension of z
    layers : all layers
    encoder : positions of the encoder's layers
    read : positions of the features that the encoder reads
    blocks : decoders, causes before effects
    set_encoder : where the layers of a set encoder are; None where the encoder reads features side by side
    device : where passes over it are computed
    """

    encoding: Encoding
    latent: int
    layers: tuple[Layer, ...]
    encoder: tuple[int, ...]
    read: tuple[int, ...]
    blocks: tuple[Block, ...]
    set_encoder: SetEncoder | None = None
    device: torch.device = _CPU

    @classmethod
    def of(cls, graph: CausalGraph, config: GeneratorConfig) -> Network:
        """Build the network of a graph.

        Examples
        --------
        >>> from miaudit.synthesis.schema import Column, Schema
        >>> schema = Schema((Column("a"), Column("b"), Column("c")))
        >>> graph = CausalGraph(schema, None, [("a", "c"), ("b", "c")])
        >>> [block.columns for block in Network.of(graph, GeneratorConfig()).blocks]
        [(0, 1), (2,)]
        """
        config.check_graph(graph)
        return _Builder(graph, config).build()

    def on(self, device: torch.device) -> Network:
        """Return the network for passes on a device."""
        if device == self.device:
            return self
        return replace(self, layers=tuple(layer.on(device) for layer in self.layers), device=device)

    @property
    def size(self) -> int:
        """P, the length of a network's vector of weights."""
        return self.layers[-1].end

    @cached_property
    def exists(self) -> Tensor | None:
        """Which of the P parameters exist, (P,) of 0 and 1; None if all do."""
        if all(layer.mask is None for layer in self.layers):
            return None
        present = torch.ones(1, self.size)
        for layer in self.layers:
            if layer.mask is not None:
                layer.weights(present)[0][0] = layer.mask
        return present[0]

    @cached_property
    def parameters(self) -> int:
        """How many parameters exist."""
        return self.size if self.exists is None else int(self.exists.sum())

    @cached_property
    def order(self) -> tuple[Tensor, Tensor] | None:
        """How the blocks' outputs are put in the order of the encoding, and back; None if they are in order."""
        positions = [position for block in self.blocks for position in block.outputs]
        if positions == list(range(self.encoding.outputs)):
            return None
        back = torch.tensor(positions, device=self.device)
        return torch.argsort(back), back

    def views(self, values: Tensor) -> list[Part]:
        """Return views of each layer's weights and biases in values (K, P)."""
        return [layer.weights(values) for layer in self.layers]

    def initial(self, rng: np.random.Generator) -> Float32Array:
        """Draw weights (P,), uniform within 1 / sqrt(inputs that a unit reads), as ``torch.nn.Linear`` does."""
        weights = np.zeros(self.size, dtype=np.float32)
        for layer in self.layers:
            mask = None if layer.mask is None else layer.mask.numpy()
            fan = np.full(layer.outputs, float(layer.fan)) if mask is None else mask.sum(0)
            limit = 1 / np.sqrt(np.maximum(fan, 1))
            weight = rng.uniform(-limit, limit, (layer.inputs, layer.outputs))
            split = layer.start + weight.size
            weights[layer.start : split] = (weight if mask is None else weight * mask).ravel()
            limit = limit[: layer.biases]
            weights[split : layer.end] = rng.uniform(-limit, limit) / layer.gain
        return weights


class Stack:
    """The weights of K networks in one buffer, each layer's of all networks side by side, as matrix products like them.

    Attributes
    ----------
    buffer : (K P,)
    parts : of each layer, views of it
    """

    def __init__(self, network: Network, count: int) -> None:
        self._network, self._count = network, count
        self.buffer = torch.zeros(count * network.size, device=network.device)
        self.parts: list[Part] = []
        for layer in network.layers:
            whole = self.buffer[count * layer.start : count * layer.end]
            weight, bias = torch.split(whole, [count * layer.inputs * layer.outputs, count * layer.biases])
            self.parts.append((weight.view(count, layer.inputs, layer.outputs), bias.view(count, 1, layer.biases)))

    def put(self, values: Tensor) -> None:
        """Fill in values (K, P)."""
        for into, part in zip(self.parts, self._network.views(values), strict=True):
            into[0].copy_(part[0])
            into[1].copy_(part[1])

    def values(self) -> Tensor:
        """Return a copy as (K, P)."""
        flat = torch.empty(self._count, self._network.size, device=self.buffer.device)
        for into, part in zip(self._network.views(flat), self.parts, strict=True):
            into[0].copy_(part[0])
            into[1].copy_(part[1])
        return flat


class Pass:
    """One pass of K networks over B records each, with what the gradients of records need.

    Parameters
    ----------
    network : of all K
    parts : their weights, as :meth:`Network.views` or a :class:`Stack` gives them
    tapped : whether gradients of records will be needed
    """

    def __init__(self, network: Network, parts: Sequence[Part], *, tapped: bool) -> None:
        self._network, self._parts, self._tapped = network, parts, tapped
        self._taps: list[tuple[int, Tensor, Tensor]] = []
        self._slopes: tuple[Tensor, ...] = ()

    def negative_elbo(self, x: Tensor, noise: Tensor) -> Tensor:
        """Return the losses (K, B): minus log p(x | z) plus the divergence of q(z | x) from N(0, I).

        Parameters
        ----------
        x : features (K, B, features)
        noise : standard normal (K, B, latent), one draw of z for each record
        """
        divergence, outputs = self._through_all(x, noise)
        return divergence - self._network.encoding.log_likelihood(outputs, x)

    def backward(self, x: Tensor, noise: Tensor) -> None:
        """Find the slopes of the losses at the outputs of all layers, without the losses themselves."""
        divergence, outputs = self._through_all(x, noise)
        gradients = [torch.ones_like(divergence), self._network.encoding.slopes(outputs.detach(), x)]
        taps = [out for _, _, out in self._taps]
        self._slopes = torch.autograd.grad([divergence, outputs], taps, gradients)

    def _through_all(self, x: Tensor, noise: Tensor) -> tuple[Tensor, Tensor]:
        """Return the divergence (K, B) and the outputs (K, B, outputs)."""
        network = self._network
        mean, log_variance = self.posterior(x)
        z = mean + (0.5 * log_variance).exp() * noise
        outputs = torch.cat([self.block(block, x, z) for block in network.blocks], -1)
        if network.order is not None:
            outputs = _rearranged(outputs, *network.order)
        return 0.5 * (mean.square() + log_variance.exp() - log_variance - 1).sum(-1), outputs

    def posterior(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return mean and log-variance of q(z | x), (K, B, latent) each."""
        network = self._network
        parameters = self._through(network.encoder, self._encoder_input(x))
        mean, raw = parameters.chunk(2, -1)
        return mean, _MOST_LOG_VARIANCE * torch.tanh(raw / _MOST_LOG_VARIANCE)

    def _encoder_input(self, x: Tensor) -> Tensor:
        """Return what the encoder's layers read: features (K, B, read), or the sum over observed ones (K, B, code)."""
        encoder = self._network.set_encoder
        if encoder is None:
            return _picked(x, self._network.read)
        values, observed = encoder.features.read(x)
        codes = torch.relu(self._layer(encoder.shared_map, self._layer(encoder.embedding, values)))
        return (codes * observed[..., None]).sum(2)

    def block(self, block: Block, x: Tensor, z: Tensor) -> Tensor:
        """Return the outputs of a block (K, B, len(block.outputs))."""
        parts = [z] if block.reads_latent else []
        if block.features:
            parts.append(_picked(x, block.features))
        entering = torch.cat(parts, -1) if parts else x[..., :0]
        return self._through(block.layers, entering)

    def _through(self, layers: Sequence[int], a: Tensor) -> Tensor:
        for step, position in enumerate(layers):
            if step:
                a = torch.relu(a)
            a = self._layer(position, a)
        return a

    def _layer(self, position: int, a: Tensor) -> Tensor:
        out = self._network.layers[position].outputs_of(a, self._parts[position])
        if self._tapped:
            if not out.requires_grad:  # nothing before it has a gradient to pass on
                out.requires_grad_()
            self._taps.append((position, a.detach(), out))
        return out

    def add_clipped(self, into: Sequence[Part], present: Tensor, *, clip: float | None) -> None:
        """Add the sums over records of gradients, clipped to norm ``clip`` if one is given; after :meth:`backward`.

        Parameters
        ----------
        into : of each layer, views like the weights
        present : (K, B), what each record's gradient is multiplied by after clipping; 0 for padding
        """
        weights = present
        if clip is not None:
            weights = present * (clip / self.norms().clamp_min(1e-30)).clamp_max(1.0)
        for (position, a, _), g in zip(self._taps, self._slopes, strict=True):
            self._network.layers[position].add_sum(into[position], a, g, weights)

    def norms(self) -> Tensor:
        """Return the norm of each record's gradient over all parameters together, (K, B); after :meth:`backward`."""
        parts = [
            self._network.layers[position].squared_norms(a, g)
            for (position, a, _), g in zip(self._taps, self._slopes, strict=True)
        ]
        return torch.stack(parts).sum(0).sqrt()


class _Rearranged(torch.autograd.Function):
    """The last axis in another order; the way back is an order too, which is much cheaper than a scattered sum."""

    @staticmethod
    def forward(ctx: Any, values: Tensor, there: Tensor, back: Tensor) -> Tensor:
        ctx.back = back
        return values[..., there]

    @staticmethod
    def backward(ctx: Any, *slopes: Tensor) -> tuple[Tensor, None, None]:
        return slopes[0][..., ctx.back], None, None


def _rearranged(values: Tensor, there: Tensor, back: Tensor) -> Tensor:
    rearranged: Tensor = _Rearranged.apply(values, there, back)  # type: ignore[no-untyped-call]
    return rearranged


def _picked(x: Tensor, positions: Sequence[int]) -> Tensor:
    """Return some features; a view where they are consecutive."""
    if list(positions) == list(range(positions[0], positions[0] + len(positions))):
        return x[..., positions[0] : positions[0] + len(positions)]
    return x[..., torch.tensor(positions, device=x.device)]


@dataclass(frozen=True)
class _HiddenUnits:
    """Hidden units of one group of a block: the group's place in the block, the inputs they read, their number."""

    group: int
    reads: list[int]
    width: int


class _Builder:
    """Lays the layers of a network one after the other."""

    def __init__(self, graph: CausalGraph, config: GeneratorConfig) -> None:
        self._graph, self._config = graph, config
        self._encoding = Encoding(graph.schema, config.draws_missing)
        self._layers: list[Layer] = []

    def build(self) -> Network:
        graph, config = self._graph, self._config
        groups = graph.groups if config.encoder_reads is None else config.encoder_reads
        columns = [i for group in groups for i in graph.positions(group)]
        read = sorted(self._encoding.features_of(columns))
        set_encoder = self._set_encoder(columns) if config.encoder == "set" else None
        entering = len(read) if set_encoder is None else config.embedding
        widths = [entering, *[config.hidden] * config.layers, 2 * config.latent]
        encoder = tuple(self._add(a, b) for a, b in itertools.pairwise(widths))
        blocks = tuple(block for generation in graph.generations for block in self._blocks(generation))
        layers = tuple(self._layers)
        return Network(self._encoding, config.latent, layers, encoder, tuple(read), blocks, set_encoder)

    def _set_encoder(self, columns: Sequence[int]) -> SetEncoder:
        """Lay an embedding of each feature and the map that all features share."""
        size, features = self._config.embedding, ObservedFeatures.of(self._encoding, columns)
        count = len(features.positions)
        self._layers.append(FeatureEmbedding(count, size, 0))
        self._layers.append(SharedMap(size, size, self._layers[-1].end, elements=count))
        return SetEncoder(features, 0, 1)

    def _blocks(self, generation: Sequence[str]) -> list[Block]:
        """Return a block for each large group, and shared blocks for the small ones."""
        large = [group for group in generation if self._width(group) >= self._config.hidden]
        small = [group for group in generation if group not in large]
        shared = [small[at : at + _TOGETHER] for at in range(0, len(small), _TOGETHER)]
        return [self._block([group], self._config.layers) for group in large] + [self._block(own, 1) for own in shared]

    def _width(self, group: str) -> int:
        return min(self._config.hidden, self._config.head * len(self._graph.groups[group]))

    def _block(self, groups: Sequence[str], depth: int) -> Block:
        """Lay the layers of some groups: each has hidden units and outputs of its own in shared matrices."""
        graph, config = self._graph, self._config
        columns = [graph.positions(group) for group in groups]
        outputs = [self._encoding.outputs_of(own) for own in columns]
        parents = [self._parent_features(group) for group in groups]
        features = sorted({feature for own in parents for feature in own})
        latent = any(group not in config.without_latent for group in groups)
        shift = config.latent if latent else 0
        units = self._hidden_units(groups, [[shift + features.index(feature) for feature in own] for own in parents])
        layers = self._layers_of(units, shift + len(features), [len(own) for own in outputs], depth)
        return Block(
            tuple(column for own in columns for column in own),
            tuple(features),
            tuple(position for own in outputs for position in own),
            latent,
            layers,
        )

    def _hidden_units(self, groups: Sequence[str], parents: Sequence[list[int]]) -> list[_HiddenUnits]:
        """Return the hidden units of each group, which read z and the group's parents; with "product" each apart."""
        units = []
        for place, (group, from_parents) in enumerate(zip(groups, parents, strict=True)):
            from_latent = [] if group in self._config.without_latent else list(range(self._config.latent))
            apart = self._config.decoder == "product" and from_latent and from_parents
            for reads in (from_latent, from_parents) if apart else (from_latent + from_parents,):
                units.append(_HiddenUnits(place, reads, self._width(group)))
        return units

    def _layers_of(
        self, units: Sequence[_HiddenUnits], inputs: int, sizes: Sequence[int], depth: int
    ) -> tuple[int, ...]:
        """Lay the layers of hidden units and of so many outputs for each group, and return where the layers are."""
        widths = [own.width for own in units]
        runs, width = _runs(widths), sum(widths)
        layers = [self._add(inputs, width, [own.reads for own in units], runs)]
        layers += [self._add(width, width, runs, runs) for _ in range(depth - 1)]
        read_by = [
            [unit for run, own in zip(runs, units, strict=True) if own.group == group for unit in run]
            for group in range(len(sizes))
        ]
        large = depth == self._config.layers and len(sizes) == 1 and widths[0] >= self._config.hidden
        layers.append(self._add(width, sum(sizes), read_by, _runs(sizes), 1.0 if large else _GAIN))
        return tuple(layers)

    def _parent_features(self, group: str) -> list[int]:
        graph = self._graph
        return self._encoding.features_of(i for parent in graph.parents(group) for i in graph.positions(parent))

    def _add(
        self,
        inputs: int,
        outputs: int,
        reads: Sequence[Sequence[int]] = ((),),
        writes: Sequence[Sequence[int]] = ((),),
        gain: float = 1.0,
    ) -> int:
        """Lay a layer whose heads read and write these positions, and return its position."""
        start = self._layers[-1].end if self._layers else 0
        if len(reads) == 1:
            self._layers.append(Layer(inputs, outputs, start, gain=gain))
        else:
            own = (_indicators(inputs, reads), _indicators(outputs, writes))
            mask = torch.from_numpy(
                own[0].numpy() @ own[1].numpy().T
            )  # exact, whatever precision torch uses for products
            self._layers.append(Layer(inputs, outputs, start, *own, None if bool((mask == 1).all()) else mask, gain))
        return len(self._layers) - 1


def _runs(sizes: Sequence[int]) -> list[list[int]]:
    """Return consecutive positions, in runs of these sizes."""
    ends = np.cumsum([0, *sizes])
    return [list(range(start, end)) for start, end in zip(ends[:-1].tolist(), ends[1:].tolist(), strict=True)]


def _indicators(count: int, members: Sequence[Sequence[int]]) -> Tensor:
    """Return a matrix (count, sets) with 1 where a position belongs to a set."""
    indicators = torch.zeros(count, len(members))
    for column, own in enumerate(members):
        indicators[torch.tensor(list(own), dtype=torch.long), column] = 1.0
    return indicators

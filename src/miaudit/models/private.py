"""DP-SGD's clipped sum of gradients at the price of little more than one backward pass.

The gradient of a record with respect to a linear layer is the outer product of what went in and of the derivative at
what came out. Its norm needs no gradient (Goodfellow, 2015), and the clipped sum over records is one matrix product
once the norms are known, so one backward pass down to the layers' outputs serves both (Bu et al., 2023,
"book-keeping"). Over positions (convolutions, sequences) the norm comes from two Gram matrices or from the gradients
themselves, whichever is smaller (Bu et al., 2022, "mixed ghost clipping").
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from miaudit.errors import InputError
from miaudit.models.devices import products

# Gram matrices may cost this many operations for each number of the gradient that is not written and read.
_CHEAP = 8
# Numbers of one layer's gradients of records that are held at once, 256 MB.
_MOST_HELD = 2**26
# What float32 may lose of a squared norm from Gram matrices, as a share of what it would be if nothing cancelled: five
# times the most that was measured, over 16,384 inputs.
_LOST = 1e-6
# Roundings of half precision by which a network of its own precision may differ between batches.
_HALF_ROUNDS = 8
_NORMALISATION = (nn.modules.batchnorm._BatchNorm, nn.modules.instancenorm._InstanceNorm)
_INSTEAD: tuple[tuple[type[nn.Module], str], ...] = (
    (nn.modules.batchnorm._BatchNorm, "use nn.GroupNorm: batch normalisation mixes the records of a batch"),
    (nn.modules.instancenorm._InstanceNorm, "use nn.GroupNorm with as many groups as channels"),
    (nn.MultiheadAttention, "write attention with nn.Linear for queries, keys, values and output"),
    (nn.RNNBase, "use convolutions or attention written with nn.Linear"),
    (nn.EmbeddingBag, "use nn.Embedding and take the mean"),
)


@dataclass(frozen=True, eq=False)
class Part:
    """What the gradients of a batch of B records with respect to one parameter are needed for.

    Attributes
    ----------
    squared : squared norms (B,)
    total : weights (B,) -> the weighted sum of the gradients, shaped as the parameter
    """

    squared: Tensor
    total: Callable[[Tensor], Tensor]


class ClippedSum:
    """The sum over records of gradients clipped to norm ``clip``, for one network.

    One record moves the sum by at most ``clip``, up to the rounding of float32: norms and sum are computed in float32
    also under autocast, where norms could be lost to cancellation they are rounded up, and a record whose gradient is
    NaN or infinite adds nothing.

    Its layers with parameters must be linear, convolutional (1-d, 2-d), embeddings, group or layer normalisation, each
    called once in a pass with the records on the first axis. Everything else is refused by name: a gradient that was
    forgotten or mixed would void the guarantee. Use it inside ``with``; parameters that need no gradient are left out.

    Raises
    ------
    InputError
        For a layer whose gradients cannot be had, an operation in place, or a network that mixes records.

    Examples
    --------
    >>> net = nn.Linear(2, 2, bias=False)
    >>> with ClippedSum(net, clip=1.0) as clipped:
    ...     losses, total = clipped(torch.tensor([[30.0, 40.0]]), lambda logits: logits[:, 0])
    >>> total["weight"]
    tensor([[0.6000, 0.8000],
            [0.0000, 0.0000]])
    """

    def __init__(self, net: nn.Module, *, clip: float) -> None:
        self._net, self._clip = net, clip
        self._layers = _layers(net)
        # what went into a layer and came out of it in one pass, and how often both had been changed by then
        self._seen: dict[str, tuple[Tensor, Tensor, tuple[int, int]]] = {}
        self._handles: list[torch.utils.hooks.RemovableHandle] = []
        self._buffers = _versions(net)

    def __enter__(self) -> ClippedSum:
        for name, (layer, _) in self._layers.items():
            self._handles.append(layer.register_forward_hook(self._keep(name)))
        return self

    def __exit__(self, *_: object) -> None:
        for handle in self._handles:
            handle.remove()
        self._handles.clear()
        self._seen.clear()

    def __call__(self, x: Tensor, loss: Callable[[Tensor], Tensor]) -> tuple[Tensor, dict[str, Tensor]]:
        """Return the losses (B,) and, by name of the parameter, the clipped sum.

        Parameters
        ----------
        x : B records on the first axis, at least one
        loss : logits of these records -> their losses (B,), each a function of its own row only
        """
        losses, slopes = self._slopes(x, loss)
        with torch.no_grad(), in_float32(x.device.type):
            parts = self._parts(slopes)
            norms = _norms(parts)
            finite = norms.isfinite()
            if not bool(finite.all()):  # a weight of 0 would not do: 0 times infinity is NaN, for all records
                parts = self._parts(slopes, finite)
                norms = _norms(parts)
            weights = (self._clip / norms.clamp_min(1e-30)).clamp_max(1.0)
            total = {name: part.total(weights) for name, part in parts.items()}
        self._seen.clear()
        return losses, total

    def _slopes(self, x: Tensor, loss: Callable[[Tensor], Tensor]) -> tuple[Tensor, tuple[Tensor, ...]]:
        """Pass forward and back; return the losses (B,) and their slopes at the output of each layer."""
        self._seen.clear()
        with _without_gradients(self._net):
            losses = loss(self._net(x))
            self._check_pass(len(x))
            outputs = [self._seen[name][1] for name in self._layers]
            slopes = torch.autograd.grad(losses.sum(), outputs, materialize_grads=True)
        return losses.detach(), slopes

    def _parts(self, slopes: tuple[Tensor, ...], kept: Tensor | None = None) -> dict[str, Part]:
        """Return the part of each parameter, with gradients of 0 for records that are not kept (B,)."""
        by_parameter: dict[str, Part] = {}
        for (name, (layer, wanted)), slope in zip(self._layers.items(), slopes, strict=True):
            a, g = self._seen[name][0], slope.float()
            if kept is not None:
                a, g = (torch.where(kept.view(-1, *[1] * (t.ndim - 1)), t, 0) for t in (a, g))
            parts = _RULES[type(layer)](layer, a, g)
            by_parameter |= {f"{name}.{own}" if name else own: make() for own, make in parts.items() if own in wanted}
        return by_parameter

    def _keep(self, name: str) -> Callable[[nn.Module, tuple[Any, ...], Tensor], None]:
        def hook(_: nn.Module, inputs: tuple[Any, ...], output: Tensor) -> None:
            if not torch.is_grad_enabled():
                return
            if name in self._seen:
                hint = "build one layer for each call"
                raise _refused(name, self._layers[name][0], "is called twice in a pass", hint)
            if not output.requires_grad:  # nothing before it has a gradient to pass on
                output.requires_grad_()
            self._seen[name] = (inputs[0].detach(), output, (inputs[0]._version, output._version))

        return hook

    def _check_pass(self, count: int) -> None:
        if _versions(self._net) != self._buffers:
            hint = "keep no running statistics: they give away records without noise"
            raise InputError("factory", "a network whose buffers stay as they are", "one that changes them", hint)
        for name, (layer, _) in self._layers.items():
            if name not in self._seen:
                hint = "call the layer itself, or freeze or remove it"
                raise _refused(name, layer, "is not called in a pass", hint)
            into, out, versions = self._seen[name]
            if (into._version, out._version) != versions:
                hint = "write it without operations in place (nn.ReLU(), x = x + y)"
                raise _refused(name, layer, "has its input or output changed in place", hint)
            if into.shape[0] != count or out.shape[0] != count:
                received = f"receives {tuple(into.shape)} in a batch of {count}"
                raise _refused(name, layer, received, "keep the records on the first axis of every layer")


@contextmanager
def in_float32(device: str) -> Iterator[None]:
    """Compute in float32 whatever was asked for around it: no autocast, no products in TF32 or bfloat16.

    Parameters
    ----------
    device : type of the device of the tensors, "cpu" or "cuda"
    """
    with torch.autocast(device, enabled=False), products(tf32=False):
        yield


def check_records_stay_apart(net: nn.Module, x: Tensor) -> None:
    """Refuse a network whose output for a record depends on the other records of the batch.

    Parameters
    ----------
    x : at least two records on the first axis; the outputs of the first, alone and among them, are compared
    """
    training = net.training
    net.eval()
    with torch.no_grad(), in_float32(x.device.type):
        together, alone = net(x)[:1], net(x[:1])
    net.train(training)
    # What is asked of the network itself is exact; one that computes in half precision by its own will rounds more.
    rough = together.dtype in (torch.float16, torch.bfloat16)
    rtol, atol = (_HALF_ROUNDS * torch.finfo(together.dtype).eps, _HALF_ROUNDS * 1e-3) if rough else (1e-3, 1e-4)
    together, alone = together.float(), alone.float()
    if not torch.allclose(together, alone, rtol=rtol, atol=atol, equal_nan=True):
        gap = float((together - alone).abs().max())
        received = f"one whose logits for a record change by {gap:.3g} with the rest of its batch"
        hint = "take no means or maxima over the first axis"
        raise InputError("factory", "a network that treats each record by itself", received, hint)


def _layers(net: nn.Module) -> dict[str, tuple[nn.Module, frozenset[str]]]:
    """Return the layers with parameters to train, by name, and the names of these parameters."""
    layers: dict[str, tuple[nn.Module, frozenset[str]]] = {}
    owners: dict[int, str] = {}
    for name, layer in net.named_modules():
        if isinstance(layer, _NORMALISATION):
            raise _refused(name, layer, "keeps statistics of batches", _instead(layer))
        if getattr(layer, "inplace", False):
            raise _refused(name, layer, "works in place", "leave out inplace=True")
        own = {key: p for key, p in layer.named_parameters(recurse=False) if p.requires_grad}
        if not own:
            continue
        if type(layer) not in _RULES:
            raise _refused(name, layer, "has parameters of its own", _instead(layer))
        for key, p in own.items():
            if id(p) in owners:
                hint = "give each layer parameters of its own"
                raise _refused(name, layer, f"shares its {key} with {owners[id(p)]}", hint)
            owners[id(p)] = name
        if isinstance(layer, nn.Embedding) and (layer.max_norm is not None or layer.scale_grad_by_freq):
            raise _refused(name, layer, "has max_norm or scale_grad_by_freq", "leave both out: they mix the records")
        layers[name] = (layer, frozenset(own))
    if not layers:
        raise InputError("factory", "a network with parameters to train", "one without", "unfreeze a layer")
    return layers


def _norms(parts: Mapping[str, Part]) -> Tensor:
    """Return the norm of each record's gradient over all parameters together (B,); NaN or infinite if that is."""
    return torch.stack([part.squared for part in parts.values()]).sum(0).clamp_min(0).sqrt()


def _versions(net: nn.Module) -> list[tuple[int, int]]:
    return [(id(buffer), buffer._version) for buffer in net.buffers()]


def _instead(layer: nn.Module) -> str:
    known = ", ".join(f"nn.{kind.__name__}" for kind in _RULES)
    hints = [hint for kind, hint in _INSTEAD if isinstance(layer, kind)]
    return hints[0] if hints else f"put them into {known}"


def _refused(name: str, layer: nn.Module, what: str, hint: str) -> InputError:
    received = f"layer {name or '(the network itself)'} of type {type(layer).__name__}, which {what}"
    return InputError("factory", "layers whose gradients DP-SGD can clip record by record", received, hint)


@contextmanager
def _without_gradients(net: nn.Module) -> Iterator[None]:
    """Keep autograd from computing gradients of parameters: the backward pass stops at the layers' outputs."""
    trained = [p for p in net.parameters() if p.requires_grad]
    for p in trained:
        p.requires_grad_(False)
    try:
        yield
    finally:
        for p in trained:
            p.requires_grad_()


def _product(a: Tensor, g: Tensor) -> Part:
    """Return the part of a matrix (p, d) applied at T positions, from inputs a (B, T, d) and slopes g (B, T, p)."""
    positions, d, p = a.shape[1], a.shape[2], g.shape[2]
    if positions == 1:
        squared = a.square().sum((1, 2)) * g.square().sum((1, 2))
        return Part(squared, lambda w: (g[:, 0] * w[:, None]).T @ a[:, 0])
    if _by_gram(len(a), positions, d, p):
        squared = _rounded_up(torch.bmm(a, a.transpose(1, 2)) * torch.bmm(g, g.transpose(1, 2)))
        return Part(squared, lambda w: (g * w[:, None, None]).flatten(0, 1).T @ a.flatten(0, 1))
    return _explicit(torch.bmm(g.transpose(1, 2), a))


def _rounded_up(products: Tensor) -> Tensor:
    """Return squared norms (B,) of sums over positions, from the inner products of their terms (B, T, T).

    Where terms cancel, what float32 leaves of the norm is noise around it, and the record would be clipped too little.
    """
    lengths = products.diagonal(dim1=1, dim2=2).clamp_min(0).sqrt().sum(1)
    return products.sum((1, 2)).clamp_min(0) + _LOST * lengths.square()


def _by_gram(count: int, positions: int, d: int, p: int) -> bool:
    """Choose Gram matrices (T, T) where they are smaller than gradients (p, d), unless these are cheap to hold.

    Given the gradients their weighted sum costs next to nothing, but beyond some memory they cost more than they save.
    """
    smaller = 2 * positions**2 <= p * d
    return smaller and (positions**2 * (d + p) <= _CHEAP * p * d or count * p * d > _MOST_HELD)


def _explicit(gradients: Tensor) -> Part:
    """Return the part of a parameter whose gradients (B, *shape) are small enough to be held."""
    rows = gradients.flatten(1)
    return Part(rows.square().sum(1), lambda w: (w @ rows).reshape(gradients.shape[1:]))


# -- rules: from a layer, its inputs a and the slopes g at its output to the part of each parameter, made when asked for


_Parts = dict[str, Callable[[], Part]]


def _linear(layer: nn.Module, a: Tensor, g: Tensor) -> _Parts:
    assert isinstance(layer, nn.Linear)  # noqa: S101 - by the table of rules
    a, g = a.float().reshape(len(a), -1, a.shape[-1]), g.reshape(len(g), -1, g.shape[-1])
    return {"weight": lambda: _product(a, g), "bias": lambda: _explicit(g.sum(1))}


def _convolution(layer: nn.Module, a: Tensor, g: Tensor) -> _Parts:
    assert isinstance(layer, nn.Conv1d | nn.Conv2d)  # noqa: S101 - by the table of rules
    g = g.flatten(2)
    return {
        "weight": lambda: _kernel(layer, _patches(layer, a.float()), g),
        "bias": lambda: _explicit(g.sum(2)),
    }


def _kernel(layer: nn.Conv1d | nn.Conv2d, patches: Tensor, g: Tensor) -> Part:
    """Return the part of a kernel from patches (B, inputs x kernel, T) and slopes (B, outputs, T)."""
    shape = layer.weight.shape
    if layer.groups > 1:
        a, b = (t.reshape(len(t), layer.groups, -1, t.shape[-1]) for t in (patches, g))
        return _explicit(torch.einsum("bgdt,bgpt->bgpd", a, b).reshape(len(g), *shape))
    part = _product(patches.transpose(1, 2), g.transpose(1, 2))
    return Part(part.squared, lambda w: part.total(w).reshape(shape))


def _patches(layer: nn.Conv1d | nn.Conv2d, a: Tensor) -> Tensor:
    """Return what the kernel sees at each of the T positions: (B, inputs x kernel, T)."""
    pads: list[int] = []
    for i, size in enumerate(layer.kernel_size):
        total = layer.dilation[i] * (size - 1) if layer.padding == "same" else 0
        own = (total // 2, total - total // 2) if isinstance(layer.padding, str) else (int(layer.padding[i]),) * 2
        pads = [*own, *pads]  # the last axis comes first
    a = F.pad(a, pads, mode="constant" if layer.padding_mode == "zeros" else layer.padding_mode).contiguous()
    reach = [dilation * (size - 1) for dilation, size in zip(layer.dilation, layer.kernel_size, strict=True)]
    places = [(side - r - 1) // step + 1 for side, r, step in zip(a.shape[2:], reach, layer.stride, strict=True)]
    along = a.stride()[2:]
    within = [s * dilation for s, dilation in zip(along, layer.dilation, strict=True)]
    between = [s * step for s, step in zip(along, layer.stride, strict=True)]
    # a view, copied once below: several times faster than F.unfold on the CPU, and the same for any number of axes
    shape = (*a.shape[:2], *layer.kernel_size, *places)
    view = a.as_strided(shape, (*a.stride()[:2], *within, *between))
    return view.reshape(len(a), -1, math.prod(places))


def _group_norm(layer: nn.Module, a: Tensor, g: Tensor) -> _Parts:
    assert isinstance(layer, nn.GroupNorm)  # noqa: S101 - by the table of rules
    standard = F.group_norm(a.float(), layer.num_groups, eps=layer.eps)
    return {
        "weight": lambda: _explicit((g * standard).flatten(2).sum(2)),
        "bias": lambda: _explicit(g.flatten(2).sum(2)),
    }


def _layer_norm(layer: nn.Module, a: Tensor, g: Tensor) -> _Parts:
    assert isinstance(layer, nn.LayerNorm)  # noqa: S101 - by the table of rules
    shape = tuple(layer.normalized_shape)
    standard = F.layer_norm(a.float(), shape, eps=layer.eps)
    return {
        "weight": lambda: _explicit((g * standard).reshape(len(g), -1, *shape).sum(1)),
        "bias": lambda: _explicit(g.reshape(len(g), -1, *shape).sum(1)),
    }


def _embedding(layer: nn.Module, a: Tensor, g: Tensor) -> _Parts:
    assert isinstance(layer, nn.Embedding)  # noqa: S101 - by the table of rules
    tokens, g = a.flatten(1), g.reshape(len(g), -1, layer.embedding_dim)
    if layer.padding_idx is not None:
        g = g * (tokens != layer.padding_idx)[:, :, None]
    same = tokens[:, :, None] == tokens[:, None, :]
    squared = _rounded_up(torch.bmm(g, g.transpose(1, 2)) * same)
    shape = layer.weight.shape

    def total(w: Tensor) -> Tensor:
        return g.new_zeros(shape).index_add_(0, tokens.flatten(), (g * w[:, None, None]).flatten(0, 1))

    return {"weight": lambda: Part(squared, total)}


_RULES: Mapping[type[nn.Module], Callable[[nn.Module, Tensor, Tensor], _Parts]] = {
    nn.Linear: _linear,
    nn.Conv1d: _convolution,
    nn.Conv2d: _convolution,
    nn.GroupNorm: _group_norm,
    nn.LayerNorm: _layer_norm,
    nn.Embedding: _embedding,
}

"""Dropout with masks from each model's own generator, also for stacked models.

What ``nn.Dropout`` draws itself comes from torch's one global generator: stacked models would then differ from the same
models alone. Here the forward pass of dropout layers is replaced during training, in looped and stacked models alike.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Self

import torch
from torch import Tensor, nn

_WHOLE_CHANNELS = (nn.Dropout1d, nn.Dropout2d, nn.Dropout3d)
_KINDS = (nn.Dropout, *_WHOLE_CHANNELS)


def left_to_torch(net: nn.Module) -> list[str]:
    """Return the kinds of dropout in a network that this module does not replace, such as AlphaDropout."""
    layers = [layer for layer in net.modules() if isinstance(layer, nn.modules.dropout._DropoutNd) and layer.p > 0]
    return sorted({type(layer).__name__ for layer in layers if type(layer) not in _KINDS})


class Dropout:
    """The dropout layers of one network, with masks from the generators of the models that use it.

    Use it inside ``with``: until then and afterwards the layers do what torch made them for. In evaluation mode they
    let everything pass throughout.

    Parameters
    ----------
    net : whose ``nn.Dropout``, ``nn.Dropout1d``, ``nn.Dropout2d`` and ``nn.Dropout3d`` layers are taken over
    seeds : one for each model that the network stands for; several for stacked models
    device : where the masks are drawn

    Examples
    --------
    >>> net = nn.Sequential(nn.Dropout(0.5))
    >>> with Dropout(net, [0], torch.device("cpu")):
    ...     first = net(torch.ones(1, 8))
    >>> with Dropout(net, [0], torch.device("cpu")):
    ...     bool((net(torch.ones(1, 8)) == first).all()), sorted(set(first[0].tolist()))
    (True, [0.0, 2.0])
    """

    def __init__(self, net: nn.Module, seeds: Sequence[int], device: torch.device) -> None:
        self._net, self._device = net, device
        layers = [layer for layer in net.modules() if type(layer) in _KINDS]
        self._layers = [layer for layer in layers if isinstance(layer, nn.modules.dropout._DropoutNd) and layer.p > 0]
        self._generators = [torch.Generator(device).manual_seed(seed) for seed in seeds]
        # the layer of each call of a pass, and the shape of its input without the record axis
        self._calls: list[tuple[nn.modules.dropout._DropoutNd, tuple[int, ...]]] = []
        self._given: Iterator[Tensor] | None = None
        self._recording = False

    def __enter__(self) -> Self:
        for layer in self._layers:
            layer.__dict__["forward"] = functools.partial(self._forward, layer)
        return self

    def __exit__(self, *_: object) -> None:
        for layer in self._layers:
            del layer.__dict__["forward"]

    def learn(self, few: Tensor) -> None:
        """Note the order and shapes of the calls of a training pass, for masks of stacked models.

        Raises
        ------
        RuntimeError
            If what reaches a layer does not have the records on its first axis.
        """
        self._calls.clear()
        self._recording = True
        try:
            with torch.no_grad(), torch.random.fork_rng([]):
                self._net.train()(few)
        finally:
            self._recording = False

    def draw(self, counts: Sequence[int]) -> tuple[Tensor, ...]:
        """Draw masks for a pass of stacked models: (M, K, ...) for each call, 1 for padding.

        Parameters
        ----------
        counts : records of each model in this step, M; K is the most
        """
        if not self._calls:
            return ()
        shapes = [_mask_shape(layer, (max(counts), *shape)) for layer, shape in self._calls]
        masks = [torch.ones((len(counts), *shape), device=self._device) for shape in shapes]
        for m, (count, generator) in enumerate(zip(counts, self._generators, strict=True)):
            for (layer, shape), mask in zip(self._calls, masks, strict=True):
                mask[m, :count] = self._mask(layer, (count, *shape), generator)
        return tuple(masks)

    @contextmanager
    def given(self, masks: Sequence[Tensor]) -> Iterator[None]:
        """Use these masks in order during one pass."""
        self._given = iter(masks)
        try:
            yield
        finally:
            self._given = None

    def _forward(self, layer: nn.modules.dropout._DropoutNd, x: Tensor) -> Tensor:
        if not layer.training:
            return x
        if self._recording:
            self._calls.append((layer, tuple(x.shape[1:])))
            return x
        if self._given is None:
            return x * self._mask(layer, tuple(x.shape), self._generators[0]).to(x.dtype)
        mask: Any = next(self._given, None)
        if mask is None or mask.shape != _mask_shape(layer, tuple(x.shape)):
            raise RuntimeError("the calls of dropout layers differ between passes, or mix records")
        masked: Tensor = x * mask.to(x.dtype)
        return masked

    def _mask(self, layer: nn.modules.dropout._DropoutNd, shape: tuple[int, ...], generator: torch.Generator) -> Tensor:
        """Draw 0 with probability p and else 1 / (1 - p), for each channel or each number."""
        uniform = torch.rand(_mask_shape(layer, shape), generator=generator, device=self._device)
        return (uniform >= layer.p).float() * (1 / (1 - layer.p) if layer.p < 1 else 0.0)


def _mask_shape(layer: nn.Module, shape: tuple[int, ...]) -> tuple[int, ...]:
    if isinstance(layer, _WHOLE_CHANNELS):
        return (*shape[:2], *(1 for _ in shape[2:]))
    return shape

"""The losses that networks are trained with: of classes, of several labels, and of numbers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor
from torch.nn import functional as F

from miaudit.errors import InputError
from miaudit.models.train_config import TrainConfig

# From outputs (B, C), labels (B,) or (B, C) and the label smoothing to one loss for each record (B,).
Loss = Callable[[Tensor, Tensor, float], Tensor]


def cross_entropy(outputs: Tensor, y: Tensor, smoothing: float) -> Tensor:
    """Return the cross-entropy (B,) of logits (B, C) with classes (B,)."""
    return F.cross_entropy(outputs, y, reduction="none", label_smoothing=smoothing)


def binary_cross_entropy(outputs: Tensor, y: Tensor, smoothing: float) -> Tensor:
    """Return the mean over L labels of the binary cross-entropies (B,) of log-odds (B, L) with labels (B, L).

    The mean, and not the sum that is the record's signal: a learning rate then serves any number of labels, as it does
    with ``torch.nn.BCEWithLogitsLoss``.

    Examples
    --------
    >>> binary_cross_entropy(torch.zeros(1, 3), torch.tensor([[0.0, 1.0, 1.0]]), 0.0)
    tensor([0.6931])
    """
    wanted = y * (1 - smoothing) + smoothing / 2
    return F.binary_cross_entropy_with_logits(outputs, wanted, reduction="none").mean(-1)


def squared_error(outputs: Tensor, y: Tensor, smoothing: float) -> Tensor:  # noqa: ARG001 - refused before
    """Return the mean over k numbers of the squared errors (B,) of predictions (B, k) of values (B, k).

    Examples
    --------
    >>> squared_error(torch.tensor([[1.0, 4.0]]), torch.tensor([[0.0, 1.0]]), 0.0)
    tensor([5.])
    """
    return (outputs - y).square().mean(-1)


LOSSES: Mapping[str, Loss] = {
    "cross_entropy": cross_entropy,
    "binary_cross_entropy": binary_cross_entropy,
    "squared_error": squared_error,
}


@dataclass(frozen=True)
class RecordLoss:
    """The loss of a training, of each record by itself.

    Attributes
    ----------
    name : of :data:`LOSSES`
    smoothing : of the labels, in [0, 1)
    """

    name: str
    smoothing: float = 0.0

    @classmethod
    def of(cls, config: TrainConfig) -> RecordLoss:
        """Return that of a configuration."""
        return cls(config.loss, config.label_smoothing)

    @property
    def plain(self) -> RecordLoss:
        """The same without smoothing, by which held-out records are compared."""
        return RecordLoss(self.name)

    def __call__(self, outputs: Tensor, y: Tensor) -> Tensor:
        """Return the loss of each record (B,), in float32."""
        return LOSSES[self.name](outputs.float(), y, self.smoothing)

    def labels(self, y: ArrayLike, n: int) -> Tensor:
        """Return checked labels of n records: classes (n,), or float32 (n, L) of labels or numbers.

        Raises
        ------
        InputError
            For labels of another shape, type or range.
        """
        values = np.asarray(y)
        if self.name == "cross_entropy":
            return torch.from_numpy(_classes(values, n))
        values = values[:, None] if values.ndim == 1 else values
        received = f"values of type {np.asarray(y).dtype}, shape {np.shape(y)}"
        if values.ndim != 2 or len(values) != n or values.dtype.kind not in "biuf" or not values.shape[1]:
            hint = f"{self.name} takes one column for each label or number"
            raise InputError("y", f"numbers ({n},) or ({n}, columns)", received, hint)
        if self.name == "binary_cross_entropy" and not np.isin(values, (0, 1)).all():
            hint = "set loss: cross_entropy for classes, squared_error for numbers"
            raise InputError("y", "0 and 1 in every column, for binary_cross_entropy", "others", hint)
        columns = torch.from_numpy(values.astype(np.float32))
        if not bool(columns.isfinite().all()):
            raise InputError("y", "finite numbers", "NaN or infinite ones", "drop these records, or scale the values")
        return columns

    def check_width(self, width: int, y: Tensor) -> None:
        """Refuse a network with fewer outputs than classes, or others than labels.

        Raises
        ------
        InputError
            If so.
        """
        if self.name != "cross_entropy":
            if width != y.shape[1]:
                hint = "build the network for as many outputs"
                raise InputError("y", f"{width} columns, as the network has outputs", str(y.shape[1]), hint)
            return
        highest = int(y.max())
        if highest >= width:
            hint = "number the classes from 0 up, or build the network for more"
            raise InputError("y", f"classes from 0 to {width - 1}, as the network has", f"{highest}", hint)


CLASSES = RecordLoss("cross_entropy")


def _classes(labels: Any, n: int) -> Any:
    if labels.shape != (n,):
        received = f"shape {labels.shape} beside {n:,} records"
        hint = "pass (n,), or set loss: binary_cross_entropy where each record has several labels"
        raise InputError("y", f"one class for each of the {n:,} records", received, hint)
    if labels.dtype.kind not in "iub" or (labels.size and labels.min() < 0):
        received = f"values of type {labels.dtype}" if labels.dtype.kind not in "iub" else f"{labels.min()}"
        hint = "number the classes 0, 1, 2, ..., or set loss: squared_error for numbers"
        raise InputError("y", "classes as whole numbers from 0 up", received, hint)
    return labels.astype(np.int64)

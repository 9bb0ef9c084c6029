"""Early stopping: each model's weights at the smallest loss on its held-out records."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import torch
from torch import Tensor

from miaudit.arrays import BoolArray, IntArray
from miaudit.errors import InputError
from miaudit.models.weights import Weights


def held_out(rows: IntArray, *, share: float, rng: np.random.Generator) -> tuple[IntArray, IntArray]:
    """Divide a model's rows into training rows and held-out rows, both sorted.

    Parameters
    ----------
    rows : indices (n,), at least two
    share : of the rows to hold out, rounded to whole records, at least one and not all

    Raises
    ------
    InputError
        For a single row.

    Examples
    --------
    >>> trained, out = held_out(np.arange(10), share=0.2, rng=np.random.default_rng(0))
    >>> len(trained), len(out), sorted([*trained, *out]) == list(range(10))
    (8, 2, True)
    """
    if len(rows) < 2:
        raise InputError("rows", "at least two with early_stopping", "one", "leave out early_stopping")
    count = min(max(1, round(share * len(rows))), len(rows) - 1)
    chosen = np.zeros(len(rows), dtype=bool)
    chosen[rng.permutation(len(rows))[:count]] = True
    return rows[~chosen], rows[chosen]


def ends_of_epochs(records: Sequence[int], *, batch: int, epochs: int) -> BoolArray:
    """Return after which steps each model completes an epoch, (steps, M).

    Only the last step of a model is smaller than a batch, and the others wait for the model with the most steps.

    Parameters
    ----------
    records : that each model is trained on, M
    batch : records in a step, at most all of a model's

    Examples
    --------
    >>> ends_of_epochs([10], batch=4, epochs=2)[:, 0].tolist()
    [False, False, True, False, True]
    """
    n = np.asarray(records)
    size = np.minimum(batch, n)
    steps = np.arange(int((-(-epochs * n // size)).max()) + 1)[:, None]
    seen = np.minimum(steps * size, epochs * n) // n
    ended: BoolArray = np.diff(seen, axis=0) > 0
    return ended


class BestWeights:
    """Weights of M models at the smallest loss on their held-out records so far.

    Parameters
    ----------
    weights : of the models, as training changes them
    patience : epochs without a lower loss after which a model stops
    ends : of epochs, (steps, M)
    losses : -> the losses of all models on their held-out records (M,), as the weights are now

    Attributes
    ----------
    stopped : which models have stopped (M,)
    """

    def __init__(self, weights: Weights, *, patience: int, ends: BoolArray, losses: Callable[[], Tensor]) -> None:
        self._weights, self._patience, self._ends, self._losses = weights, patience, ends, losses
        self._values, self._buffers = weights.values.clone(), self._copies()
        self._least = torch.full((len(weights.values),), torch.inf, device=weights.values.device)
        self._since = np.zeros(len(weights.values), dtype=np.int64)
        self.stopped = np.zeros(len(weights.values), dtype=bool)

    @property
    def never(self) -> Tensor:
        """Models that never had a finite loss on held-out records (M,)."""
        return self._least.isinf()

    def look(self, step: int) -> bool:
        """Compare the losses of models that end an epoch at this step; return whether there were any."""
        due = self._ends[step] & ~self.stopped
        if due.any():
            self.see(self._losses(), due)
        return bool(due.any())

    def see(self, losses: Tensor, models: BoolArray) -> None:
        """Compare the losses (M,) of models (M,) that completed an epoch and have not stopped."""
        looked = models & ~self.stopped
        better = torch.from_numpy(looked).to(losses.device) & (losses < self._least)
        self._least = torch.where(better, losses, self._least)
        self._values = torch.where(better[:, None], self._weights.values, self._values)
        improved = better.cpu().numpy()
        if improved[0]:
            self._buffers = self._copies()
        self._since = np.where(improved, 0, self._since + looked)
        self.stopped = self.stopped | (self._since >= self._patience)

    def restore(self) -> None:
        """Restore the best weights of the models."""
        self._weights.values.copy_(self._values)
        for buffer, best in zip(self._weights.nets[0].buffers(), self._buffers, strict=True):
            buffer.copy_(best)

    def _copies(self) -> list[Tensor]:
        """Copy the buffers of the first network; only models trained alone have any."""
        return [buffer.detach().clone() for buffer in self._weights.nets[0].buffers()]

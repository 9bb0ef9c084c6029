"""The records of a training: checked and brought to the device, drawn for each step, and their images varied.

All draws come from the model's own generators.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor, nn

from miaudit.arrays import IntArray
from miaudit.errors import InputError

Data = tuple[Tensor, Tensor]  # records (n, ...) and classes (n,), checked and on the device


def as_data(net: nn.Module, device: torch.device, x: ArrayLike | Tensor, y: ArrayLike) -> Data:
    """Check records and classes for a network, and bring them to the device."""
    records = as_records(x, net)
    labels = np.asarray(y)
    if labels.shape != records.shape[:1]:
        received = f"shape {labels.shape} beside x of shape {tuple(records.shape)}"
        raise InputError("y", f"one class for each of the {len(records):,} records", received, "pass (n,)")
    if labels.dtype.kind not in "iub" or (labels.size and labels.min() < 0):
        received = f"values of type {labels.dtype}" if labels.dtype.kind not in "iub" else f"{labels.min()}"
        raise InputError("y", "classes as whole numbers from 0 up", received, "number the classes 0, 1, 2, ...")
    return records.to(device), torch.from_numpy(labels.astype(np.int64)).to(device)


def distinct(rows: ArrayLike, n: int) -> IntArray:
    """Return indices of some of n records, sorted and distinct."""
    given = np.asarray(rows)
    if given.dtype == np.bool_ and given.shape == (n,):
        given = np.flatnonzero(given)
    if given.ndim != 1 or given.dtype.kind not in "iu" or not given.size:
        allowed = f"indices of records, at least one, or true and false ({n},)"
        received = f"shape {given.shape} of type {given.dtype}"
        raise InputError("rows", allowed, received, "pass np.flatnonzero(included)")
    if given.min() < 0 or given.max() >= n:
        received = f"{given.min()} to {given.max()}"
        raise InputError("rows", f"indices from 0 to {n - 1}", received, "they count the rows of x")
    found = np.unique(given).astype(np.int64)
    if len(found) < len(given):
        received = f"{len(given) - len(found)} of them twice"
        raise InputError("rows", "each record once", received, "a record that counts twice is twice as exposed")
    return found


def as_records(x: ArrayLike | Tensor, net: nn.Module) -> Tensor:
    """Return records as a tensor: float32, or integers for a network that begins with an embedding."""
    values = x if isinstance(x, Tensor) else torch.from_numpy(_plain_array(x))
    if values.ndim < 2:
        raise InputError("x", "records (n, ...)", f"shape {tuple(values.shape)}", "a single feature is (n, 1)")
    tokens = any(isinstance(layer, nn.Embedding | nn.EmbeddingBag) for layer in net.modules())
    if tokens and not values.is_floating_point() and values.dtype != torch.bool:
        return values.long()
    values = values.float()
    if not bool(values.isfinite().all()):
        raise InputError("x", "finite numbers", "NaN or infinite ones", "fill or drop these records")
    return values


def _plain_array(x: ArrayLike) -> NDArray[Any]:
    values = np.asarray(x)
    if values.dtype.kind not in "biuf":
        raise InputError("x", "an array of numbers", f"type {values.dtype}", "encode texts and categories first")
    if values.dtype.kind == "u" and values.dtype.itemsize > 1:
        return values.astype(np.int64)  # torch hardly knows wide unsigned numbers
    if values.flags.writeable and values.dtype.isnative:
        return values
    # torch warns of arrays that must not be written to, such as memory maps, though nothing here writes
    return np.array(values, dtype=values.dtype.newbyteorder("="))


def shuffled(rows: IntArray, *, batch: int, epochs: int, rng: np.random.Generator) -> Iterator[IntArray]:
    """Yield the rows in ``epochs`` random orders, one after the other, cut into batches of one size.

    An epoch's last rows share a batch with the next epoch's first, so that only the last step of all may be smaller.

    Parameters
    ----------
    rows : indices (n,)
    batch : rows in a step, at most n

    Examples
    --------
    >>> [len(b) for b in shuffled(np.arange(10), batch=4, epochs=3, rng=np.random.default_rng(0))]
    [4, 4, 4, 4, 4, 4, 4, 2]
    """
    waiting = rows[:0]
    for _ in range(epochs):
        waiting = np.concatenate([waiting, rng.permutation(rows)])
        while len(waiting) >= batch:
            yield waiting[:batch]
            waiting = waiting[batch:]
    if len(waiting):
        yield waiting


def poisson(rows: IntArray, *, rate: float, steps: int, rng: np.random.Generator) -> Iterator[IntArray]:
    """Yield, ``steps`` times, each row with probability ``rate`` independently of the others; possibly none.

    Examples
    --------
    >>> [len(b) for b in poisson(np.arange(10), rate=0.2, steps=5, rng=np.random.default_rng(0))]
    [2, 3, 2, 1, 1]
    """
    for _ in range(steps):
        yield rows[rng.random(len(rows)) < rate]


def margin(side: int) -> int:
    """Return by how many pixels an image of that side is moved at most: an eighth of it, 4 of 32."""
    return max(1, side // 8)


def draw_moves(count: int, height: int, width: int, *, rng: np.random.Generator) -> IntArray:
    """Draw for each image where the crop starts in the padded image, and whether it is mirrored: (count, 3)."""
    high = (2 * margin(height) + 1, 2 * margin(width) + 1, 2)
    return rng.integers(0, high, size=(count, 3))


def moved(images: Tensor, moves: Tensor) -> Tensor:
    """Pad images with zeros, cut them at ``moves`` and mirror those whose third number is 1.

    Parameters
    ----------
    images : (n, channels, height, width)
    moves : of :func:`draw_moves`, (n, 3); the middle of its range and 0 leave an image as it is

    Examples
    --------
    >>> moved(torch.arange(4.0).reshape(1, 1, 2, 2), torch.tensor([[1, 1, 1]]))
    tensor([[[[1., 0.],
              [3., 2.]]]])
    """
    n, channels, height, width = images.shape
    up, across = margin(height), margin(width)
    padded = torch.nn.functional.pad(images, (across, across, up, up))
    columns = torch.arange(width, device=images.device)
    rows = moves[:, :1] + torch.arange(height, device=images.device)
    columns = moves[:, 1:2] + torch.where(moves[:, 2:] == 1, width - 1 - columns, columns)
    image = torch.arange(n, device=images.device)[:, None, None, None]
    channel = torch.arange(channels, device=images.device)[:, None, None]
    return padded[image, channel, rows[:, None, :, None], columns[:, None, None, :]]

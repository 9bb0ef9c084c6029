"""Which records each training step sees, and how their images are varied; all from the model's own generators."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor

from miaudit.arrays import IntArray


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

"""A local copy of the public WILDS iWildCam files, with embeddings that were computed beforehand.

Nothing is downloaded. The folder holds

- ``metadata.csv`` of the WILDS release (version 2.0): at least the columns ``split``, ``filename``,
  ``location_remapped`` and ``y``;
- ``embeddings.npy``, (n, d), one row for each row of ``metadata.csv``; or ``embeddings.npz`` with the arrays
  ``filename`` and ``embedding``, in any order (the paper: a ViT-base).

Members are pictures of the split ``train``. Non-members of the same cameras come from ``id_test`` (no shift beyond the
date), non-members of other cameras from ``test``.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl

NEEDED = ("split", "filename", "location_remapped", "y")
MEMBERS, SAME_CAMERAS, OTHER_CAMERAS = "train", "id_test", "test"


@dataclass(frozen=True, eq=False)
class Pictures:
    """Embeddings (n, d), class labels (n,), cameras (n,) and split (n,) of every picture of the release."""

    embedding: np.ndarray
    label: np.ndarray
    camera: np.ndarray
    split: np.ndarray

    def rows(self, split: str) -> np.ndarray:
        return np.flatnonzero(self.split == split)


def load(folder: Path) -> Pictures:
    """Read the metadata and join the embeddings to it by row, or by file name."""
    table = pl.read_csv(folder / "metadata.csv", infer_schema_length=10_000)
    missing = [name for name in NEEDED if name not in table.columns]
    if missing:
        raise ValueError(f"metadata.csv: expected the columns {', '.join(NEEDED)}, missing {', '.join(missing)}")
    embedding = _embeddings(folder, table["filename"].cast(pl.String).to_numpy().astype(str))
    split = table["split"].cast(pl.String).to_numpy().astype(str)
    absent = {MEMBERS, SAME_CAMERAS, OTHER_CAMERAS} - set(split.tolist())
    if absent:
        raise ValueError(
            f"metadata.csv: no picture of the split {', '.join(sorted(absent))}; use the file of WILDS 2.0"
        )
    return Pictures(embedding, table["y"].to_numpy(), table["location_remapped"].to_numpy(), split)


def _embeddings(folder: Path, names: np.ndarray) -> np.ndarray:
    by_row, by_name = folder / "embeddings.npy", folder / "embeddings.npz"
    if by_row.is_file():
        found = np.load(by_row, mmap_mode="r", allow_pickle=False)
        if found.ndim != 2 or len(found) != len(names):
            raise ValueError(f"embeddings.npy: expected {len(names):,} rows as in metadata.csv, found {found.shape}")
        return found
    if not by_name.is_file():
        raise FileNotFoundError(f"neither embeddings.npy nor embeddings.npz in {folder}; compute them beforehand")
    with np.load(by_name, allow_pickle=False) as data:
        known, found = data["filename"].astype(str), data["embedding"]
    order = np.argsort(known)
    place = np.searchsorted(known, names, sorter=order)
    place = order[np.minimum(place, len(known) - 1)]
    if not np.array_equal(known[place], names):
        lost = int(np.count_nonzero(known[place] != names))
        raise ValueError(f"embeddings.npz: {lost:,} pictures of metadata.csv have no embedding; compute theirs too")
    return found[place]

"""How near a synthetic table is to real records: what findings of tables and of releases hold of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from miaudit.arrays import Count, Share

Shares = tuple[tuple[tuple[Share, ...], ...], ...]


@dataclass(frozen=True)
class Marginal:
    """One column: total variation distance, 0 to 1, of the synthetic from the real shares, and of two real samples."""

    column: str
    distance: float
    floor: float


@dataclass(frozen=True)
class Pair:
    """Two columns: total variation distance of the joint shares, its floor, and Cramer's V of both tables, 0 to 1."""

    left: str
    right: str
    distance: float
    floor: float
    real_association: float
    synthetic_association: float


@dataclass(frozen=True)
class PairPlot:
    """Joint shares of some columns, for drawing.

    Attributes
    ----------
    columns : names
    levels : of each column, what its levels are called
    real, synthetic : for each pair (i, j) with i < j, in order, its shares as rows: levels of i by levels of j
    """

    columns: tuple[str, ...]
    levels: tuple[tuple[str, ...], ...]
    real: Shares
    synthetic: Shares


@dataclass(frozen=True)
class Fidelity:
    """How near a synthetic table is to real records.

    Attributes
    ----------
    marginals, pairs : each with the floor: the same distance between the real records and other real ones
    records : rows of each sample that was compared; equal, since distances of shares grow as samples shrink
    plot : joint shares of a few columns
    """

    marginals: tuple[Marginal, ...]
    pairs: tuple[Pair, ...]
    records: Count
    plot: PairPlot

    @property
    def summary(self) -> Mapping[str, float]:
        """Means over columns and over pairs: distances, their floors, and the error of the association."""
        by_name = {
            "marginal_distance": _mean(m.distance for m in self.marginals),
            "marginal_floor": _mean(m.floor for m in self.marginals),
        }
        if self.pairs:
            by_name |= {
                "pair_distance": _mean(p.distance for p in self.pairs),
                "pair_floor": _mean(p.floor for p in self.pairs),
                "association_error": _mean(abs(p.synthetic_association - p.real_association) for p in self.pairs),
            }
        return by_name


def _mean(values: Iterable[float]) -> float:
    return float(np.mean(list(values)))

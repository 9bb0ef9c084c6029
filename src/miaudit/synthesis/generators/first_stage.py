"""The first of two stages: noisy counts of single columns on fine public cells. Everything later rests on them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from miaudit.arrays import FloatArray
from miaudit.errors import InputError
from miaudit.synthesis.generators.count_noise import CountNoise
from miaudit.synthesis.generators.levels import Levels
from miaudit.synthesis.generators.noisy_tables import measured
from miaudit.synthesis.schema import Table


@dataclass(frozen=True, eq=False)
class FirstStage:
    """Noisy counts of each column by its public cells, and the noise on them.

    Attributes
    ----------
    counts : for each column (cells,), whole numbers; the cell of missing values is the last
    sds : of the noise on each column's cells
    """

    counts: tuple[FloatArray, ...]
    sds: tuple[float, ...]

    def check(self, sizes: Sequence[int]) -> None:
        """Refuse counts that are not one for each cell, or are no finite numbers."""
        shapes = [counts.shape for counts in self.counts]
        whole = shapes == [(size,) for size in sizes] and len(self.sds) == len(sizes)
        if not whole or not all(np.isfinite(part).all() for part in (*self.counts, np.array(self.sds))):
            hint = "write them again, by the same columns"
            raise InputError("first", "counts of each column's cells", f"{len(shapes)} columns of others", hint)

    def to_mapping(self) -> dict[str, Any]:
        """Return plain values, as :meth:`from_mapping` reads them."""
        return {"counts": [counts.tolist() for counts in self.counts], "sds": list(self.sds)}

    @classmethod
    def from_mapping(cls, content: Mapping[str, Any]) -> Self:
        """Read what :meth:`to_mapping` returns."""
        counts = tuple(np.array(own, dtype=np.float64) for own in content["counts"])
        return cls(counts, tuple(map(float, content["sds"])))


def counted(table: Table, cells: Sequence[Levels], sds: Sequence[float], noise: CountNoise) -> FirstStage:
    """Count the records of a table by each column's cells, with noise: one record changes one count of each column.

    Parameters
    ----------
    table : the private records
    cells : of each column, public
    sds : standard deviation of the noise on each column's counts
    noise : where it comes from
    """
    counts = []
    for column, (own, sd) in enumerate(zip(cells, sds, strict=True)):
        level = own.encode(table.values[:, column])
        codes = np.broadcast_to(level[:, None], (*level.shape, column + 1))  # so that it has its own position
        counts.append(measured(codes, (column,), (own.count,) * (column + 1), sd, noise).counts)
    return FirstStage(tuple(counts), tuple(sds))

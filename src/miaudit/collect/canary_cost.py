"""What canaries cost the model: how well it does on records that no model learned, with them and without."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from miaudit.arrays import IndexArray
from miaudit.attacks import output_kinds

__all__ = ["CanaryCost", "measured"]


@dataclass(frozen=True)
class CanaryCost:
    """What several trainings with canaries and several without reach on the same records that none of them learned.

    Attributes
    ----------
    measure : "accuracy" (higher is better), or "loss" (lower is better)
    records : on how many records
    with_canaries, without : of each training

    Examples
    --------
    >>> cost = CanaryCost("accuracy", 200, (0.90, 0.92), (0.95, 0.95))
    >>> round(cost.difference, 3), round(cost.standard_error, 3)
    (-0.04, 0.01)
    """

    measure: str
    records: int
    with_canaries: tuple[float, ...]
    without: tuple[float, ...]

    @property
    def difference(self) -> float:
        """Mean with canaries less mean without."""
        return float(np.mean(self.with_canaries) - np.mean(self.without))

    @property
    def standard_error(self) -> float:
        """Of the difference, over trainings; NaN with a single one on either side."""
        parts = [np.var(side, ddof=1) / len(side) for side in (self.with_canaries, self.without) if len(side) > 1]
        return math.sqrt(sum(parts)) if len(parts) == 2 else math.nan

    @property
    def sentence(self) -> str:
        """The numbers in words, with what they do not tell."""
        sides = [
            f"{np.mean(side):.4g} {what} canaries ({len(side)} trainings, {min(side):.4g} to {max(side):.4g})"
            for side, what in ((self.with_canaries, "with"), (self.without, "without"))
        ]
        return (
            f"What the canaries cost: on {self.records:,} records that no model learned the {self.measure} is "
            f"{' and '.join(sides)}, a difference of {self.difference:+.2g} (standard error over trainings "
            f"{self.standard_error:.1g}). Records that left for a canary with another label are in neither."
        )


def measured(
    with_canaries: Iterable[NDArray[Any]],
    without: Iterable[NDArray[Any]],
    held_out: IndexArray,
    labels: NDArray[Any],
    kind: str,
) -> CanaryCost:
    """Compare models by their outputs on all records, at those that were held out.

    Parameters
    ----------
    with_canaries, without : outputs (n, C) of each model
    held_out : rows (h,)
    labels : array (n,) or (n, L)
    kind : what the outputs are, as of :class:`miaudit.models.protocol.Target`
    """
    measure = "accuracy" if kind == output_kinds.LOGITS else "loss"

    def of(outputs: NDArray[Any]) -> float:
        values, y = np.asarray(outputs)[held_out], labels[held_out]
        if measure == "accuracy":
            return float((values.argmax(axis=1) == y).mean())
        if kind == "signals":
            return float(-values.reshape(len(values), -1)[:, 0].mean())
        return float(-output_kinds.member_scores(kind, values, y, ["loss"])["loss"].mean())

    return CanaryCost(
        measure, len(held_out), tuple(of(one) for one in with_canaries), tuple(of(one) for one in without)
    )

"""A value with its confidence limits from the bootstrap over records."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from miaudit.arrays import FloatArray
from miaudit.errors import InputError


@dataclass(frozen=True)
class Interval:
    """A value with its confidence limits."""

    low: float
    value: float
    high: float

    @classmethod
    def of(cls, value: float, replicates: FloatArray, confidence: float) -> Interval:
        """Return the percentile limits of bootstrap replicates (Efron 1981).

        Examples
        --------
        >>> Interval.of(0.5, np.linspace(0, 1, 101), 0.9)
        Interval(low=0.05, value=0.5, high=0.95)
        """
        low, high = np.quantile(replicates, [(1 - confidence) / 2, (1 + confidence) / 2]).round(12)
        return cls(float(low), float(value), float(high))

    def to_dict(self) -> dict[str, float]:
        """Return plain values, for findings and charts."""
        return asdict(self)


def plain_values(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Make a dictionary of plain values from the fields of a record, for ``dict_factory`` of ``asdict``."""
    return {name: value.tolist() if isinstance(value, np.ndarray) else value for name, value in pairs}


def check_options(confidence: float, replicates: int) -> None:
    """Refuse a confidence outside (0, 1) and fewer than 100 replicates."""
    if not 0 < confidence < 1:
        raise InputError("confidence", "a number in (0, 1)", repr(confidence), "write 0.95 for 95%")
    if replicates < 100:
        raise InputError("replicates", "100 or more", repr(replicates), "limits of so few are noise")

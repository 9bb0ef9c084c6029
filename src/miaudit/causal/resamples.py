"""Resamples in blocks: counts of each record for some replicates at a time, in bounded memory.

A thousand replicates of a million records take 2 GB for counts and 8 GB for propensities. A large set of counts is
therefore not stored. Each access draws the counts again from the saved state of the generator, with the same result.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from miaudit.arrays import IndexArray
from miaudit.causal.covariates import codes, resample, unit_kind
from miaudit.errors import InputError
from miaudit.evidence import Evidence

_NUMBERS = 2**23  # in memory at the same time: 64 MB in double precision
_COUNTS = 2**25  # largest number of counts that are stored, of 2 bytes each


def together(n: int) -> int:
    """Return how many replicates of n numbers fit in memory at the same time, at least 1.

    Examples
    --------
    >>> together(1000), together(1_000_000)
    (8388, 8)
    """
    return max(1, _NUMBERS // max(1, n))


class Resamples:
    """Counts of :func:`miaudit.causal.covariates.resample`, one block of replicates at a time.

    Parameters
    ----------
    evidence, replicates, strata : as in :func:`miaudit.causal.covariates.resample`
    rng : generator; afterwards it is in the same state as after ``resample``

    Examples
    --------
    >>> evidence = Evidence(score=range(5), member=[1, 1, 0, 0, 0])
    >>> counts = Resamples(evidence, 300, rng=np.random.default_rng(0))
    >>> len(counts), counts[100:102].shape, counts[100:102].sum(axis=1).tolist()
    (300, (2, 5), [5, 5])
    """

    def __init__(
        self, evidence: Evidence, replicates: int, *, strata: ArrayLike | None = None, rng: np.random.Generator
    ) -> None:
        self._n, self._replicates = evidence.n, replicates
        self._kept: NDArray[np.uint16] | None = None
        if replicates * evidence.n <= _COUNTS:
            self._kept = resample(evidence, replicates, strata=strata, rng=rng)
            return
        self._code = codes(evidence)
        kind = unit_kind(evidence.member, self._code)
        if strata is not None:
            of_unit = np.zeros(len(kind), dtype=np.int64)
            of_unit[self._code] = np.asarray(strata)
            kind = kind + 3 * of_unit
        self._rng = np.random.Generator(type(rng.bit_generator)(0))
        self._strata: list[tuple[IndexArray, list[Any]]] = []
        for label in np.unique(kind):
            units, states = np.flatnonzero(kind == label), []
            for _ in range(replicates):
                states.append(rng.bit_generator.state)
                rng.integers(0, len(units), len(units), dtype=np.int32)
            self._strata.append((units, states))
        self._units = len(kind)

    def __len__(self) -> int:
        return self._replicates

    def __getitem__(self, block: slice) -> NDArray[np.uint16]:
        """Return the counts (k, n) of a block of replicates."""
        if self._kept is not None:
            return self._kept[block]
        numbers = range(self._replicates)[block]
        rng = np.random.Generator(type(self._rng.bit_generator)(0))  # one for each call, because threads read blocks
        resampled = np.empty((len(numbers), self._units), dtype=np.uint16)
        for units, states in self._strata:
            for row, number in enumerate(numbers):
                rng.bit_generator.state = states[number]
                units_drawn = rng.integers(0, len(units), len(units), dtype=np.int32)
                resampled[row, units] = np.bincount(units_drawn, minlength=len(units))
        return resampled[:, self._code]

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        """Return the counts (replicates, n) of all replicates as one array."""
        whole = self[:]
        return whole if dtype is None else whole.astype(dtype, copy=bool(copy))


Counts = Resamples | NDArray[np.uint16]
"""Counts (replicates, n), whole or a block at a time."""


class Columns:
    """Counts of some replicates and rows, read only when they are accessed."""

    def __init__(self, counts: Counts, block: slice, rows: Any) -> None:
        self._counts, self._numbers, self._rows = counts, range(len(counts))[block], rows

    def __len__(self) -> int:
        return len(self._numbers)

    def __getitem__(self, block: slice) -> NDArray[np.uint16]:
        some = self._numbers[block]
        return self._counts[some.start : some.stop][:, self._rows]


def of(
    evidence: Evidence, replicates: int, counts: ArrayLike | None, *, strata: ArrayLike | None, rng: np.random.Generator
) -> Counts:
    """Check and return the counts (replicates, n) of the caller, or draw them if there are none."""
    if counts is None:
        return Resamples(evidence, replicates, strata=strata, rng=rng)
    array = np.asarray(counts)
    if array.ndim != 2 or array.shape[1] != evidence.n or array.dtype.kind not in "iu" or array.min() < 0:
        allowed = f"non-negative integers (replicates, {evidence.n})"
        raise InputError("counts", allowed, f"shape {array.shape}", "see resample")
    return array.astype(np.uint16)

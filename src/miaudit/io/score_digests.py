"""Digests of scores, which say later what was in before coins were revealed; and the order of coins."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["in_order", "of_scores", "runs_of", "scores_of_runs"]

_SCORES = b"miaudit coins scores\x00"


def in_order(unit: NDArray[Any] | None, records: int) -> NDArray[np.int64]:
    """Return which coin each record (n,) has: units are numbered as they first appear.

    Pseudonyms for units keep that order, sorted names do not.

    Examples
    --------
    >>> in_order(np.array(["b", "a", "b"]), 3).tolist()
    [0, 1, 0]
    """
    if unit is None:
        return np.arange(records, dtype=np.int64)
    _, first, codes = np.unique(unit, return_index=True, return_inverse=True)
    place = np.empty(len(first), dtype=np.int64)
    place[np.argsort(first)] = np.arange(len(first))
    return place[codes]


def of_scores(runs: Sequence[NDArray[np.float64]], units: Sequence[NDArray[Any] | None] | None = None) -> str:
    """Return the digest of the scores (n,) of each run, in the order of the runs: what says which ones were in.

    It covers which records share a coin: who could say so afterwards would choose the coin of each score.

    Parameters
    ----------
    units : whose each record is, of each run; None where each is its own

    Examples
    --------
    >>> of_scores([np.array([0.5, 1.0])])[:12]
    'ae984e7700ff'
    """
    state = hashlib.sha256(_SCORES + len(runs).to_bytes(8, "little"))
    for values, unit in zip(runs, units or [None] * len(runs), strict=True):
        plain = np.asarray(values, dtype="<f8") + 0.0  # -0.0 is 0.0, as in digests of evidence
        state.update(len(plain).to_bytes(8, "little") + plain.astype("<f8").tobytes())
        state.update(in_order(unit, len(plain)).astype("<i8").tobytes())
    return state.hexdigest()


def scores_of_runs(values: NDArray[np.float64], run: NDArray[Any] | None, unit: NDArray[Any] | None) -> str:
    """Return the digest of scores (n,), whose runs the labels (n,) tell apart, as :func:`of_scores` does."""
    parts = list(runs_of(run, len(values)))
    return of_scores([values[rows] for rows in parts], [None if unit is None else unit[rows] for rows in parts])


def runs_of(run: NDArray[Any] | None, records: int) -> Iterator[NDArray[np.int64]]:
    """Yield the rows of each run, in the order in which runs first appear, as of ``Evidence.runs``."""
    if run is None:
        yield np.arange(records, dtype=np.int64)
        return
    codes = in_order(run, records)
    rows, ends = np.argsort(codes, kind="stable").astype(np.int64), np.bincount(codes).cumsum()
    yield from np.split(rows, ends[:-1])

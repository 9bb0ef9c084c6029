"""Which models learn which records."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from miaudit.arrays import BoolArray
from miaudit.errors import InputError

_BLOCK_BYTES = 1 << 26


def inclusion(n: int, models: int, *, unit: ArrayLike | None = None, rng: np.random.Generator) -> BoolArray:
    """Draw which records each model learns: every record is in exactly half of the models, drawn by itself.

    Since every record is in exactly half, its membership in one model follows from the others: an attack on one of
    these models must not look at how many of the others learnt a record (:func:`vulnerability` does not).

    Parameters
    ----------
    n : records
    models : even, at least 2
    unit : array (n,), optional
        Who or what a record belongs to: the records of a unit are in a model together or not at all.

    Returns
    -------
    array (models, n) of bool

    Examples
    --------
    >>> drawn = inclusion(5, 4, rng=np.random.default_rng(0))
    >>> drawn.shape, drawn.sum(axis=0).tolist()
    ((4, 5), [2, 2, 2, 2, 2])
    """
    if n < 1:
        raise InputError("n", "at least one record", str(n), "pass the number of records")
    if models < 2 or models % 2:
        hint = f"use {max(2, models + 1)}"
        raise InputError("models", "an even number, so that each record is in half of them", str(models), hint)
    if unit is not None:
        names, codes = np.unique(np.asarray(unit), return_inverse=True)
        if codes.shape != (n,):
            raise InputError("unit", f"one for each of {n} records", f"shape {codes.shape}", "pass (n,)")
        return np.ascontiguousarray(inclusion(len(names), models, rng=rng)[:, codes])
    drawn = np.zeros((models, n), dtype=np.bool_)
    step = max(1, _BLOCK_BYTES // (8 * models))
    for start in range(0, n, step):
        order = rng.random((models, min(step, n - start))).argsort(axis=0)
        drawn[:, start : start + step] = order < models // 2
    return drawn


def checked_included(included: ArrayLike, n: int) -> BoolArray:
    """Return inclusion (M, n) of bool, or say what is wrong with it: type, shape, a model without records."""
    array = np.asarray(included)
    if array.dtype != np.bool_ or array.ndim != 2 or array.shape[1] != n or not len(array):
        received = f"{array.dtype} of shape {array.shape}"
        raise InputError("included", f"true or false of shape (models, {n})", received, "draw it with shadow.inclusion")
    empty = np.flatnonzero(~array.any(axis=1))
    if len(empty):
        raise InputError("included", "records for every model", f"none for model {empty[0]}", "use shadow.inclusion")
    return array

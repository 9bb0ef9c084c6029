"""Which models learn which records: every draw of memberships, by coins or in halves, of records or of whole units."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from miaudit.arrays import BoolArray, IndexArray
from miaudit.errors import InputError
from miaudit.errors.checks import check_generator

_BLOCK_BYTES = 1 << 26
OUT, IN, NEITHER = 0, 1, -1  # of a model and a target: learned all but it, learned it too, is not about it


def coins(
    records: int, *, inclusion: float = 0.5, unit: ArrayLike | None = None, rng: np.random.Generator
) -> BoolArray:
    """Draw which records are members (n,): each with probability ``inclusion``, in (0, 1), independently.

    Parameters
    ----------
    unit : array (n,), optional
        Who or what a record belongs to: the records of a unit share one coin.

    Raises
    ------
    InputError
        If the draw has members only, or none: better before training than after.

    Examples
    --------
    >>> coins(5, rng=np.random.default_rng(0)).tolist()
    [False, True, True, True, False]
    """
    check_generator(rng)
    if unit is not None:
        names, codes = np.unique(np.asarray(unit), return_inverse=True)
        return coins(len(names), inclusion=inclusion, rng=rng)[codes]
    if not 0 < inclusion < 1:
        raise InputError("inclusion", "a probability in (0, 1)", str(inclusion), "0.5 is the most informative")
    member = rng.random(records) < inclusion
    if member.all() or not member.any():
        raise InputError("records", "enough for members and non-members", f"{records}, all drawn alike", "use more")
    return member


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
    >>> included = inclusion(5, 4, rng=np.random.default_rng(0))
    >>> included.shape, included.sum(axis=0).tolist()
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
    included = np.zeros((models, n), dtype=np.bool_)
    step = max(1, _BLOCK_BYTES // (8 * models))
    for start in range(0, n, step):
        order = rng.random((models, min(step, n - start))).argsort(axis=0)
        included[:, start : start + step] = order < models // 2
    return included


def audited_and_shadows(
    n: int,
    rows: IndexArray,
    member: BoolArray | None,
    shadows: int,
    *,
    unit: ArrayLike | None = None,
    rng: np.random.Generator,
) -> BoolArray:
    """Return what the audited model learns, unless it stands (None), and draw what each of its shadow models learns.

    Parameters
    ----------
    n, rows : all records, and the numbers (a,) of those that are audited; the others are not told
    member, unit : arrays (a,)

    Returns
    -------
    array (1 + shadows, n) of bool, or (shadows, n) beside a model that stands
    """
    first = 0 if member is None else 1
    included = np.zeros((first + shadows, n), dtype=np.bool_)
    if member is not None:
        included[0, rows] = member
    if shadows:
        included[first:, rows] = inclusion(len(rows), shadows, unit=unit, rng=rng)
    return included


def with_and_without(targets: int, repeats: int, *, shared: bool, rng: np.random.Generator) -> NDArray[np.int8]:
    """Return which models learn which targets (M, T): -1 where a model is not about a target (causal-synthesis).

    Parameters
    ----------
    targets, repeats : T, and models with and as many without each target
    shared : whether each of 2 x repeats models learns a random half of the targets and is about all of them; else the
        2 x repeats x T models are about one target each, in the order of Algorithm 1, and nothing is drawn

    Examples
    --------
    >>> with_and_without(2, 1, shared=False, rng=np.random.default_rng(0)).tolist()
    [[0, -1], [1, -1], [-1, 0], [-1, 1]]
    """
    if shared:
        halves = np.tile(np.repeat([OUT, IN], repeats)[:, None], (1, targets))
        return np.asarray(rng.permuted(halves, axis=0), dtype=np.int8)
    assignment = np.full((targets, repeats, 2, targets), NEITHER, dtype=np.int8)
    for target in range(targets):
        assignment[target, :, :, target] = (OUT, IN)
    return assignment.reshape(-1, targets)


def checked_included(included: ArrayLike, n: int) -> BoolArray:
    """Return inclusion (M, n) of bool, or say what is wrong with it: type, shape, a model without records."""
    array = np.asarray(included)
    if array.dtype != np.bool_ or array.ndim != 2 or array.shape[1] != n or not len(array):
        allowed = f"true or false of shape (models, {n})"
        raise InputError.of_array("included", allowed, array, "draw it with shadow.inclusion")
    empty = np.flatnonzero(~array.any(axis=1))
    if len(empty):
        raise InputError("included", "records for every model", f"none for model {empty[0]}", "use shadow.inclusion")
    return array

"""Chances of inclusion: the probability with which each record became a member, where chance decided."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from miaudit.errors import InputError
from miaudit.errors.checks import is_number
from miaudit.io import numeric
from miaudit.io.labels import frozen, one_each, same_length

__all__ = ["ALLOWED", "chances", "check_units", "column_or_chance", "one_chance", "one_for_all"]

ALLOWED = "probabilities strictly between 0 and 1"
_NEXT = {
    "multi-run": "leave it out: bounds from many runs count each run by itself",
    "matched": "leave it out: which of the strings is the true one is a fair coin already",
    "zero-run": "name known chances of a zero-run audit as its propensity",
    None: "declare the design one-run if chance decided about each record",
}


def chances(inclusion: ArrayLike | None, design: str | None, n: int) -> NDArray[np.float64] | None:
    """Return the chance of inclusion of each record (n,), of one number for all records or of one for each.

    Parameters
    ----------
    inclusion : number or array (n,), strictly between 0 and 1; None where no chance is stated
    design : only one-run evidence has chances of inclusion
    n : number of records

    Raises
    ------
    InputError
        For another design, another number of values, and values that are no chances.

    Examples
    --------
    >>> chances(0.8, "one-run", 3)
    array([0.8, 0.8, 0.8])
    """
    if inclusion is None:
        return None
    if design != "one-run":
        received = "chances of inclusion, and no design" if design is None else f"chances of inclusion with {design}"
        raise InputError("inclusion", "none, unless the design is one-run", received, _NEXT[design])
    values = one_each(np.asarray(inclusion))
    if values.ndim == 0:
        return frozen(np.full(n, one_chance(values.item())))
    if values.dtype.kind not in "iuf":
        raise InputError("inclusion", ALLOWED, f"values of type {values.dtype}", "write 0.8 for 80%")
    checked = numeric.finite(values, "inclusion", 1)
    same_length("inclusion", checked, n)
    outside = checked[(checked <= 0) | (checked >= 1)]
    if len(outside):
        hint = "leave out records that chance did not decide about, and write 0.8 for 80%"
        raise InputError("inclusion", ALLOWED, f"{outside[0]:g}", hint)
    return frozen(checked)


def one_chance(value: Any) -> float:
    """Return a number that is one chance for all records.

    Examples
    --------
    >>> one_chance(80)
    Traceback (most recent call last):
    miaudit.errors.InputError: inclusion: expected a probability strictly between 0 and 1, received 80; write 0.8 ...
    """
    if is_number(value) and 0 < value < 1:
        return float(value)
    received = repr(value) if isinstance(value, str) else f"{value}"
    raise InputError("inclusion", "a probability strictly between 0 and 1", received[:60], "write 0.8 for 80%")


def column_or_chance(value: object, known: Sequence[str] = ()) -> str | float:
    """Return the name of a column, or one chance for all records, whichever a text is.

    Examples
    --------
    >>> column_or_chance("0.8"), column_or_chance("chance"), column_or_chance("0.8", ["0.8"])
    (0.8, 'chance', '0.8')
    """
    if not isinstance(value, str) or value in known:
        return value if isinstance(value, str) else one_chance(value)
    try:
        number = float(value)
    except ValueError:
        return value
    return one_chance(number) if math.isfinite(number) else value


def one_for_all(value: str | float | None) -> float | None:
    """Return one chance for all records of files that have no column of chances; None where none is stated.

    Examples
    --------
    >>> one_for_all("0.8")
    0.8
    """
    chance = None if value is None else column_or_chance(value)
    if isinstance(chance, str):
        hint = "put all records into one table with a column of chances"
        raise InputError("inclusion", "one number, for files without a table", repr(chance)[:60], hint)
    return chance


def check_units(inclusion: NDArray[np.float64], code: NDArray[np.int64] | None) -> None:
    """Refuse chances (n,) that differ within a unit, by unit codes (n,): chance decides about a unit once.

    Examples
    --------
    >>> check_units(np.array([0.2, 0.3, 0.3]), np.array([0, 1, 1]))
    >>> check_units(np.array([0.2, 0.3, 0.3]), np.array([0, 0, 1]))
    Traceback (most recent call last):
    miaudit.errors.InputError: inclusion: expected one chance for all records of a unit, received 0.2 and 0.3 in one ...
    """
    if code is None:
        return
    of_unit = np.empty(int(code.max()) + 1)
    of_unit[code] = inclusion
    other = np.flatnonzero(inclusion != of_unit[code])
    if len(other):
        received = f"{inclusion[other[0]]:g} and {of_unit[code[other[0]]]:g} in one unit"
        hint = "state the chance with which the unit was included, or leave the units out"
        raise InputError("inclusion", "one chance for all records of a unit", received, hint)

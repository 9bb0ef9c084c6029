"""Columns of a table as numbers: categories, dates, and what is missing."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from miaudit.errors import InputError

_DATE = re.compile(r"\d{4}-\d{2}-\d{2}([T ]\d{2}:\d{2}(:\d{2}(\.\d+)?)?Z?)?")
_DAY = np.timedelta64(1, "D")
_START = np.datetime64("1970-01-01", "ms")
MISSING = "missing"


def coded(values: NDArray[Any]) -> NDArray[Any]:
    """Return the levels of a category (n,) as codes 0, 1, ... in their order; numbers stay where none is missing.

    What is missing, NaN or an empty text, is a level of its own.

    Examples
    --------
    >>> coded(np.array(["b", "", "a"])), coded(np.array([7.0, np.nan, 3.0])), coded(np.array([7, 3]))
    (array([2, 0, 1]), array([1, 2, 0]), array([7, 3]))
    """
    whole = values.dtype.kind in "biu" or (values.dtype.kind == "f" and not np.isnan(values).any())
    return values if whole else np.unique(values, return_inverse=True)[1]


def days(values: NDArray[Any], name: str) -> NDArray[Any]:
    """Return dates (n,), or texts that are all dates of ISO 8601, as days since 1970, NaN where empty; else the values.

    Raises
    ------
    InputError
        Where texts look like dates, and one is none.

    Examples
    --------
    >>> days(np.array(["1970-01-02", "", "1970-01-03 12:00"]), "seen")
    array([1. , nan, 2.5])
    """
    if values.dtype.kind == "U" and values.ndim == 1:
        filled = values != ""
        if not filled.any() or not all(map(_DATE.fullmatch, values[filled].tolist())):
            return values
        plain = np.full(len(values), np.datetime64("NaT"), "datetime64[ms]")
        try:
            plain[filled] = np.char.rstrip(values[filled], "Z").astype("datetime64[ms]")
        except ValueError as error:
            raise InputError(name, "dates of the calendar, like 2024-02-29", str(error), "mend that row") from error
        values = plain
    return (values - _START) / _DAY if values.dtype.kind == "M" else values


def completed(columns: Mapping[str, NDArray[np.float64]]) -> tuple[list[NDArray[np.float64]], list[str]]:
    """Fill gaps (NaN) by the median of what is there, and add for each column with gaps one that says where they are.

    Neither looks at membership or at scores, so that what is learned from them may be cross-fitted as ever. That a
    value is missing is itself known of a record, and tells members from non-members where files were kept differently.

    Parameters
    ----------
    columns : by name an array (n,)

    Returns
    -------
    list, list
        Columns without gaps, then the 0/1 columns of gaps; their names, the latter ending in "missing".

    Raises
    ------
    InputError
        Where all of a column is missing, or another column has the name of one that is added.

    Examples
    --------
    >>> completed({"age": np.array([30.0, np.nan, 50.0])})
    ([array([30., 40., 50.]), array([0., 1., 0.])], ['age', 'age missing'])
    """
    filled, gaps = dict(columns), {}
    for name, values in columns.items():
        absent = np.isnan(values)
        if not absent.any():
            continue
        if absent.all():
            raise InputError(name, "a number in some rows", "none", "it says nothing: leave it out")
        if f"{name} {MISSING}" in columns:
            raise InputError(name, "no column of the name of its gaps", f"{name} {MISSING}", "rename that one")
        filled[name] = np.where(absent, np.median(values[~absent]), values)
        gaps[f"{name} {MISSING}"] = absent.astype(np.float64)
    return [*filled.values(), *gaps.values()], [*filled, *gaps]


def refused(name: str) -> InputError:
    """Say what to do about a text that is neither a category nor a date."""
    step = "name it in categories too, convert it to numbers, or choose another column"
    return InputError(name, "numbers or dates like 2024-02-29", "text", step)

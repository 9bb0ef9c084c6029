"""Columns of a table as numbers: categories, dates, what is missing, and what is none."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from miaudit.errors import InputError
from miaudit.io import cells

_DATE = re.compile(r"\d{4}-\d{2}-\d{2}([T ]\d{2}:\d{2}(:\d{2}(\.\d+)?)?Z?)?")
_DAY = np.timedelta64(1, "D")
_START = np.datetime64("1970-01-01", "ms")
_WHOLE = 2.0**53  # from which float64 does not hold every whole number
LARGEST = 1e150
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
        present = values != ""
        if not present.any() or not all(map(_DATE.fullmatch, values[present].tolist())):
            return values
        plain = np.full(len(values), np.datetime64("NaT", "ms"), "datetime64[ms]")
        try:
            plain[present] = np.char.rstrip(values[present], "Z").astype("datetime64[ms]")
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
    without_gaps, gaps = dict(columns), {}
    for name, values in columns.items():
        absent = np.isnan(values)
        if not absent.any():
            continue
        if absent.all():
            raise InputError(name, "a number in some rows", "none", "it says nothing: leave it out")
        if f"{name} {MISSING}" in columns:
            raise InputError(name, "no column of the name of its gaps", f"{name} {MISSING}", "rename that one")
        without_gaps[name] = np.where(absent, np.median(values[~absent]), values)
        gaps[f"{name} {MISSING}"] = absent.astype(np.float64)
    return [*without_gaps.values(), *gaps.values()], [*without_gaps, *gaps]


def joined(
    data: Mapping[str, NDArray[Any]], columns: Sequence[str], categories: Sequence[str], numbered: str = "{}[{}]"
) -> tuple[NDArray[Any] | None, tuple[str, ...] | None]:
    """Join columns of covariates, each (n,) or (n, k), into one array without gaps and its names.

    Text is a category or a date. A missing number is replaced by the median, and one more column says where. Columns of
    an array (n, k) are ``numbered``.

    Raises
    ------
    InputError
        For other texts, infinite numbers, and columns of one name.

    Examples
    --------
    >>> joined({"age": np.array([30.0, np.nan]), "site": np.array(["b", "a"])}, ["age", "site"], ["site"])[1]
    ('age', 'site', 'age missing')
    """
    if not columns:
        return None, None
    parts: dict[str, NDArray[Any]] = {}
    for column in columns:
        name = column.removeprefix("covariate.")
        values_of = data[column]
        category = values_of.ndim == 1 and not {name, column}.isdisjoint(categories)
        values_of = coded(values_of) if category else days(values_of, column)
        if values_of.dtype.kind == "U" and values_of.ndim == 1:
            raise _refused(column, values_of)
        values = finite(values_of, column, 1 if values_of.ndim == 1 else 2, gaps=True)
        flat = values.reshape(len(values), -1)
        by_name = {name if values.ndim == 1 else numbered.format(name, i): each for i, each in enumerate(flat.T)}
        if twice := parts.keys() & by_name.keys():
            raise InputError("covariates", "columns of different names", f"{min(twice)} twice", "name it once")
        parts |= by_name
    complete, names = completed(parts)
    default = [str(i) for i in range(len(names))]
    return np.column_stack(complete), None if names == default else tuple(names)


def finite(values: ArrayLike, name: str, ndim: int, *, gaps: bool = False) -> NDArray[np.float64]:
    """Copy into a read-only float64 array of finite numbers (or NaN, with gaps), or raise with the first problem."""
    array = plain(values, name)
    if array.ndim and len(array) == 0:
        raise InputError(name, "at least one member and one non-member", "no rows", "check the input")
    if array.dtype.kind not in "biuf":
        cells.refuse_text(array, name)
        step = "convert the column to numbers, or choose another"
        raise InputError(name, "numbers", f"values of type {array.dtype}", step)
    if ndim == 1 and array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    if array.ndim != ndim:
        raise InputError(
            name,
            "one number for each record" if ndim == 1 else "a two-dimensional array (records, columns)",
            f"an array of shape {array.shape}",
            "choose one column of it" if array.ndim > ndim else "pass an array of the right shape",
        )
    result = np.array(array, dtype=np.float64)
    refuse_rounding(array, result, name)
    # Written so that NaN fails too. Beyond the limit squares overflow, and no score means anything by such a number.
    bad, missing = ~(np.abs(result) <= LARGEST), np.isnan(result)
    if gaps and not missing.all():
        bad &= ~missing
    if bad.any():
        what = "missing (NaN)" if (bad == missing).all() else "NaN, infinite or larger"
        received = f"{np.count_nonzero(bad):,} {what}, the first in row {int(np.argwhere(bad)[0][0])}"
        step = "it says nothing: leave it out" if missing.all() else "fill them, or leave these records out"
        raise InputError(name, f"finite numbers up to {LARGEST:g}", received, step)
    result.flags.writeable = False
    return result


def refuse_rounding(values: NDArray[Any] | Iterable[Any], result: NDArray[np.float64], name: str) -> None:
    """Refuse numbers that differ, and that float64 makes equal.

    Parameters
    ----------
    values, result : numbers of any shape, and the same ones as float64
    """
    wide = not isinstance(values, np.ndarray) or (values.dtype.kind in "iuO" and values.dtype.itemsize >= 8)
    longer = isinstance(values, np.ndarray) and values.dtype.kind == "f" and values.dtype.itemsize > 8
    large = np.ones(result.shape, dtype=np.bool_) if longer else np.abs(result) >= _WHOLE
    if not (wide or longer) or not large.any():
        return
    if isinstance(values, np.ndarray) and values.dtype.kind in "iuf":
        exact, distinct = len(np.unique(values[large])), len(np.unique(result[large]))
    else:
        numbers = values.flat if isinstance(values, np.ndarray) else values
        pairs = [(one, near) for one, near in zip(numbers, result.flat, strict=True) if abs(near) >= _WHOLE]
        exact, distinct = len({one for one, _ in pairs}), len({near for _, near in pairs})
    if exact > distinct:
        received = f"numbers such as {result[large].flat[0]:.17g}, of which it makes some equal that differ"
        raise InputError(name, "numbers that float64 keeps apart", received, "subtract one number from all of them")


def plain(values: ArrayLike, name: str) -> NDArray[Any]:
    """Return an array of numbers or text, or raise for gaps, rows of unequal length and Python objects."""
    if np.ma.is_masked(values):
        raise InputError(name, "an array without gaps", "masked values", "drop or fill the masked records")
    try:
        array = np.asarray(values)
    except (ValueError, TypeError) as error:
        raise InputError(name, "an array", "rows of unequal length", "pass one value for each record") from error
    if isinstance(values, list | tuple) and array.dtype == np.float64 and array.ndim == 1:
        refuse_rounding(values, array, name)
    if array.dtype.kind == "O":  # as pandas keeps texts, and numbers that may be missing
        kinds = {type(value) for value in array.flat}
        for one, kind in ((str, np.str_), (bool | np.bool_, np.bool_), (int | float | np.number, np.float64)):
            if kinds and all(issubclass(each, one) for each in kinds):
                converted = array.astype(kind)
                if converted.dtype.kind == "f":
                    refuse_rounding(array, converted.astype(np.float64), name)
                return converted
        gaps = [row for row, value in enumerate(array.flat) if str(value) in ("None", "<NA>", "nan", "NaT")]
        if gaps:
            received = f"{len(gaps):,} missing, the first in row {gaps[0]}"
            raise InputError(name, "a value for each record", received, "fill them, or leave these records out")
        raise InputError(name, "numbers or text", "an array of Python objects", "convert it, e.g. values.astype(float)")
    return array


def _refused(name: str, texts: NDArray[np.str_]) -> InputError:
    """Say what to do about a text that is neither a category nor a date."""
    if cells.mostly_numbers(texts.tolist()):
        return InputError(name, "numbers or dates like 2024-02-29", *cells.not_numbers(texts))
    named = f"name it in categories too (--categories {shlex.quote(name)})"
    step = f"{named}, convert it to numbers, or choose another column"
    return InputError(name, "numbers or dates like 2024-02-29", "text", step)

"""Names of the levels of categories, as a file has them: in evidence a level is a number."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["MISSING", "Levels", "checked", "columns", "from_columns", "is_saved", "of_categories", "spelled"]

MISSING = "(missing)"  # the level of the records without a value
_PREFIX = "level."
_COVARIATE = "covariate."
_LONGEST = 200  # characters of a name
Levels = Mapping[str, Mapping[float, str]]


def of_categories(
    data: Mapping[str, NDArray[Any]], names: Sequence[str], categories: Collection[str]
) -> dict[str, Mapping[float, str]]:
    """Return the names of the codes that :func:`miaudit.io.numeric.coded` gives to the levels of categories.

    A category of numbers without a missing value keeps its numbers, which are its names.

    Parameters
    ----------
    data : columns by name
    names : the columns of covariates
    categories : those that are categories

    Examples
    --------
    >>> of_categories({"race": np.array(["r1", "", "r0"]), "site": np.array([7, 3, 7])}, ["race", "site"], ["race"])
    {'race': {0.0: '(missing)', 1.0: 'r0', 2.0: 'r1'}}
    """
    levels: dict[str, Mapping[float, str]] = {}
    for column in names:
        name, values = column.removeprefix(_COVARIATE), data[column]
        if {name, column}.isdisjoint(categories) or values.ndim != 1 or values.dtype.kind not in "fU":
            continue
        distinct = np.unique(values)
        if values.dtype.kind == "U":
            levels[name] = {float(code): _name(text) for code, text in enumerate(distinct.tolist())}
        elif np.isnan(distinct).any():
            levels[name] = {float(code): _number(value) for code, value in enumerate(distinct.tolist())}
    return levels


def checked(levels: Levels | None, covariate_names: Collection[str]) -> dict[str, Mapping[float, str]]:
    """Return the levels of these covariates; names of other columns are left out.

    Examples
    --------
    >>> checked({"race": {0: "r0"}, "gone": {0: "a"}}, ["age", "race"])
    {'race': {0.0: 'r0'}}
    """
    return {
        str(name): {float(value): str(text)[:_LONGEST] for value, text in of_column.items()}
        for name, of_column in (levels or {}).items()
        if name in covariate_names
    }


def columns(levels: Levels, covariate_names: Sequence[str], x: NDArray[np.float64]) -> dict[str, NDArray[Any]]:
    """Return for each category the name (n,) of the level of each record, by the name of a saved column.

    Examples
    --------
    >>> columns({"race": {0.0: "r0", 1.0: "r1"}}, ["age", "race"], np.array([[30.0, 1.0], [40.0, 0.0]]))
    {'level.race': array(['r1', 'r0'], dtype='<U2')}
    """
    named = {}
    for name, of_column in levels.items():
        values, place = np.unique(x[:, list(covariate_names).index(name)], return_inverse=True)
        texts = [of_column.get(value, f"{value:g}") for value in values.tolist()]
        named[f"{_PREFIX}{name}"] = np.array(texts, dtype=np.str_)[place]
    return named


def from_columns(data: Mapping[str, NDArray[Any]]) -> dict[str, Mapping[float, str]]:
    """Return the levels that saved columns name.

    Examples
    --------
    >>> from_columns({"covariate.race": np.array([1.0, 0.0]), "level.race": np.array(["r1", "r0"])})
    {'race': {0.0: 'r0', 1.0: 'r1'}}
    """
    levels: dict[str, Mapping[float, str]] = {}
    for column, texts in data.items():
        name = column.removeprefix(_PREFIX)
        codes = data.get(f"{_COVARIATE}{name}")
        if name == column or codes is None or codes.ndim != 1 or codes.dtype.kind not in "biuf":
            continue
        values, first = np.unique(codes.astype(np.float64), return_index=True)
        levels[name] = dict(zip(values.tolist(), map(str, texts[first].tolist()), strict=True))
    return levels


def is_saved(column: str, names: Collection[str]) -> bool:
    """Whether a column of a file names the levels of a saved covariate."""
    return column.startswith(_PREFIX) and f"{_COVARIATE}{column.removeprefix(_PREFIX)}" in names


def _name(text: str) -> str:
    return text[:_LONGEST] if text else MISSING


def _number(value: float) -> str:
    return MISSING if np.isnan(value) else f"{value:g}"


def spelled(term: str, levels: Levels) -> str:
    """Return a term such as "race = 1" with the name of the level.

    Examples
    --------
    >>> spelled("race = 1", {"race": {1.0: "r1"}}), spelled("age, curved", {"race": {1.0: "r1"}})
    ('race = r1', 'age, curved')
    """
    for name, of_column in levels.items():
        value = term.removeprefix(f"{name} = ")
        if value != term:
            return next((f"{name} = {text}" for code, text in of_column.items() if f"{code:g}" == value), term)
    return term

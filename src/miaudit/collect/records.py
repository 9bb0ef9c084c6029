"""The records that a model is trained and audited on, from one file with columns by name."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from miaudit.errors import InputError, nearest
from miaudit.io import numeric, tables

_LARGEST_LINE = 16 * 2**20


@dataclass(frozen=True, eq=False)
class Records:
    """Records with what is known of them; all in one order.

    Attributes
    ----------
    x : array (n, ...) of numbers, or list of n str: what goes into the model
    y : array (n,) of labels, or None
    member : array (n,), whether the audited model was trained on the record; None where that is still to be drawn
    fields : further fields of :class:`miaudit.Evidence`: covariates, covariate_names, text, unit, group
    source : str, where they came from
    ids : array (n,), what each record is called; None where nobody says
    """

    x: Any
    y: NDArray[Any] | None
    member: NDArray[Any] | None
    fields: Mapping[str, Any]
    source: str
    ids: NDArray[Any] | None = None

    @property
    def n(self) -> int:
        """How many records there are."""
        return len(self.x)

    @classmethod
    def load(
        cls,
        path: str | Path,
        *,
        x: str | Sequence[str] | None = None,
        y: str | None = None,
        text: str | None = None,
        member: str | None = None,
        unit: str | None = None,
        group: str | None = None,
        covariates: str | Sequence[str] | None = None,
        categories: str | Sequence[str] = (),
        ids: str | None = None,
    ) -> Records:
        """Read an .npz, .parquet, .csv or .jsonl file; each argument names columns of it.

        Parameters
        ----------
        x : one array or column, or several columns of numbers; the text itself where there is none; row numbers where
            there is neither
        covariates, categories : columns, or two-dimensional arrays, as in :meth:`miaudit.Evidence.load`
            Columns of an array "c" are "c.0", "c.1", ...
        ids : column of what each record is called, each of them once

        Raises
        ------
        InputError
            For a file or column that is not there or not readable, and unequal lengths.
        """
        several = [names for names in (_listed(x), _listed(covariates)) if names]
        single = [name for name in (y, text, member, unit, group, ids) if name is not None]
        numbers = {y, member, *(name for names in several for name in names)}
        labels = [name for name in (text, unit, group, ids) if name is not None and name not in numbers]
        wanted = list(dict.fromkeys([*(name for names in several for name in names), *single]))
        if not wanted:
            raise InputError("data", "names of columns (x, y, text, member, ...)", "none", "name the columns")
        known = _listed(covariates)
        found = _columns(Path(path), wanted, labels, [name for name in known if name not in {*_listed(x), *single}])
        n = len(found[wanted[0]])
        for name in wanted:
            if found[name].ndim == 0 or len(found[name]) != n:
                received = f"shape {found[name].shape}"
                raise InputError(name, f"{n} rows, as {wanted[0]}", received, "give one value for each record")
        texts = None if text is None else [str(one) for one in found[text]]
        matrix, names = numeric.joined(found, known, _listed(categories), "{}.{}")
        fields = {
            "covariates": matrix,
            "covariate_names": names,
            "text": None if texts is None else np.asarray(texts, dtype=np.str_),
            "unit": None if unit is None else found[unit],
            "group": None if group is None else found[group],
        }
        inputs = _joined(found, _listed(x)) if x is not None else np.arange(n) if texts is None else texts
        return cls(
            x=inputs,
            y=None if y is None else found[y],
            member=None if member is None else found[member],
            fields={name: values for name, values in fields.items() if values is not None},
            source=Path(path).name,
            ids=None if ids is None else _distinct(found[ids], ids),
        )


def _distinct(ids: NDArray[Any], name: str) -> NDArray[Any]:
    if ids.ndim != 1 or len(np.unique(ids)) != len(ids):
        raise InputError(name, "an id for each record, each of them once", "some twice", "name a column of ids")
    return ids


def _listed(names: str | Sequence[str] | None) -> list[str]:
    return [] if names is None else [names] if isinstance(names, str) else list(names)


def _joined(found: Mapping[str, NDArray[Any]], names: Sequence[str]) -> NDArray[Any] | None:
    """One array of all named columns: as it is where it is one array of more dimensions, else (n, columns)."""
    if not names:
        return None
    for name in names:
        if found[name].dtype.kind not in "biuf":
            hint = "code categories as 0, 1, ...; texts go into text, for a language model"
            raise InputError(name, "numbers", f"values of type {found[name].dtype}", hint)
    if len(names) == 1 and found[names[0]].ndim > 1:
        return found[names[0]]
    return np.concatenate([found[n] if found[n].ndim > 1 else found[n][:, None] for n in names], axis=1)


def _columns(path: Path, wanted: Sequence[str], labels: Sequence[str], gaps: Sequence[str]) -> dict[str, NDArray[Any]]:
    path = tables.existing_file(path, "data", (*tables.FORMATS, ".jsonl"))
    if path.suffix.lower() != ".jsonl":
        found = tables.read_columns(path, wanted, "data", as_text=labels, gaps=gaps)
        if not len(found[wanted[0]]):
            raise InputError("data", "a record or more", f"none in {path.name}", "it has a header and no rows")
        return found
    values: dict[str, list[Any]] = {name: [] for name in wanted}
    try:
        with path.open("rb") as handle:
            for number, line in enumerate(handle, start=1):
                if line.strip():
                    row = _object(line, path.name, number)
                    for name in wanted:
                        empty = name in gaps and name in row and row[name] is None
                        values[name].append(None if empty else _value(row, name, path.name, number))
    except OSError as error:
        raise InputError("data", "a readable file", f"{path.name} ({error.strerror})", "check it") from error
    if not values[wanted[0]]:
        raise InputError("data", "a record or more", f"none in {path.name}", "write one object on each line")
    return {name: _array(column, name) for name, column in values.items()}


def _object(line: bytes, file: str, number: int) -> dict[str, Any]:
    if len(line) > _LARGEST_LINE:
        raise InputError("data", "lines of at most 16 MB", f"a longer line {number} of {file}", "part the record")
    try:
        row = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise InputError(
            "data", "one JSON object on each line", f"line {number} of {file}: {str(error)[:80]}", "correct that line"
        ) from error
    if not isinstance(row, dict):
        received = f"{type(row).__name__} in line {number} of {file}"
        raise InputError("data", "one JSON object on each line", received, "correct that line")
    return row


def _value(row: Mapping[str, Any], name: str, file: str, number: int) -> Any:
    if row.get(name) is None:
        hint = nearest(name, row) or f"it has {', '.join(list(row)[:12]) or 'none'}"
        raise InputError(name, f"a value in every line of {file}", f"none in line {number}", hint)
    return row[name]


def _array(values: list[Any], name: str) -> NDArray[Any]:
    kinds = {type(value) for value in values if value is not None}
    if kinds and None in values:
        values = [
            "" if value is None and kinds <= {str} else float("nan") if value is None else value for value in values
        ]
    if not (kinds <= {str} or kinds <= {bool} or kinds <= {int, float} or kinds <= {list}):
        received = " and ".join(sorted(kind.__name__ for kind in kinds))
        raise InputError(name, "texts, numbers, true/false or lists of numbers", received, "write one kind of value")
    try:
        return np.asarray(values)
    except (ValueError, OverflowError) as error:
        raise InputError(name, "lists of one length", "lists of unequal length", "pad the lists") from error

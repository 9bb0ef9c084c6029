"""The records that a model is trained and audited on, from one file with columns by name."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from miaudit.arrays import IntArray
from miaudit.errors import InputError, nearest
from miaudit.io import atomic, frames, numeric, tables
from miaudit.io.labels import one_each

_LARGEST_LINE = 16 * 2**20
EVERY = "*"  # as x: all columns that are nothing else
_SINGLE = ("text", "member", "unit", "group", "ids", "canary", "times")  # roles of one column each
_NUMBERS = ("member", "canary", "times")  # those of them that hold no labels


@dataclass(frozen=True, eq=False)
class Records:
    """Records with what is known of them; all in one order.

    Attributes
    ----------
    x : array (n, ...) of numbers, list of n str, or data frame of n rows: what goes into the model
        A frame of polars or arrow becomes one of pandas (:func:`miaudit.io.frames.to_pandas`).
    y : array (n,) of labels, or None; texts are numbered 0, 1, ... in their order
        (n, L) of 0 and 1 where each record has several labels, or of several numbers.
    member : array (n,), whether the audited model was trained on the record; None where that is still to be drawn
    fields : further fields of :class:`miaudit.Evidence`: covariates, covariate_names, text, unit, group
    source : str, where they came from
    ids : array (n,), what each record is called; None where they have no names
    classes : what the numbers of y stand for, where the labels are texts
    canary : array (n,) of bool, which records were made for the audit: only these are audited, all others are in every
        training (:mod:`miaudit.collect.canaries`); None where all are audited
    made : what the canaries are, in words
    times : array (n,) of int, how often each record stands in a training that it is in, from 1, or 0 for records that
        are known to be no members; None for once
    natural : whether the canaries are records of the data as they are, drawn at random
    """

    x: Any
    y: NDArray[Any] | None
    member: NDArray[Any] | None
    fields: Mapping[str, Any]
    source: str
    ids: NDArray[Any] | None = None
    classes: tuple[str, ...] = ()
    canary: NDArray[Any] | None = None
    made: str = ""
    times: NDArray[Any] | None = None
    natural: bool = False

    def __post_init__(self) -> None:
        if frames.is_frame(self.x):
            object.__setattr__(self, "x", frames.to_pandas(self.x, "data.x"))
        if self.canary is not None:
            object.__setattr__(self, "canary", _canaries(np.asarray(self.canary), self.n))
        if self.times is not None:
            object.__setattr__(self, "times", _times(np.asarray(self.times), self.member, self.n))
        labels = None if self.y is None else one_each(np.asarray(self.y))
        if labels is not None and labels.ndim != np.ndim(self.y):  # type: ignore[arg-type]
            object.__setattr__(self, "y", labels)
        if labels is None or labels.dtype.kind not in "OU":
            return
        if labels.ndim == 2:
            hint = "write 1 where a record has the label and 0 where not"
            raise InputError("data.y", "numbers in each of several columns", "texts", hint)
        empty = [one in (None, "") or isinstance(one, float) for one in labels.tolist()]
        if any(empty) or not all(isinstance(one, str) for one in labels.tolist()):
            received = f"none in {sum(empty)} rows" if any(empty) else "Python objects"
            raise InputError("data.y", "a label in every row: a number or a text", received, "drop or fill these rows")
        classes, codes = np.unique(labels.astype(np.str_), return_inverse=True)
        object.__setattr__(self, "y", codes.astype(np.int64))
        object.__setattr__(self, "classes", tuple(classes.tolist()))

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
        y: str | Sequence[str] | None = None,
        text: str | None = None,
        member: str | None = None,
        unit: str | None = None,
        group: str | None = None,
        covariates: str | Sequence[str] | None = None,
        categories: str | Sequence[str] = (),
        ids: str | None = None,
        frame: bool | None = None,
        levels: Collection[str] = (),
        canary: str | None = None,
        times: str | None = None,
    ) -> Records:
        """Read an .npz, .parquet, .csv or .jsonl file; each argument names columns of it.

        Parameters
        ----------
        x : one array or column, or several columns; "*" for all that are named as nothing else; the text itself where
            there is none; row numbers where there is neither
            Columns of numbers without gaps are an array (n, columns). With one of text, categories or dates, or with
            values that are missing, they are a data frame of pandas.
        frame : true for a data frame in any case, false for an array of numbers or a refusal
        levels : columns of x that are categories, of all their values; then x is a data frame
        y : one column of labels or numbers, or several: one for each label of a record, or for each number
        covariates, categories : columns, or two-dimensional arrays, as in :meth:`miaudit.Evidence.load`
            Columns of an array "c" are "c.0", "c.1", ...
        ids : column of what each record is called, each of them once
        canary : column of 0 and 1 (or true and false): the records that were made for the audit
        times : column of whole numbers: how often a record stands in a training that it is in, from 1; 0 for records
            that are known to be no members

        Raises
        ------
        InputError
            For a file or column that is not there or not readable, and unequal lengths.
        """
        if x == EVERY:
            x = every_other(path, [text, member, unit, group, ids, canary, times, *_listed(y), *_listed(covariates)])
        columns: dict[str, Any] = {"y": y, "text": text, "member": member, "unit": unit, "group": group, "ids": ids}
        columns |= {"covariates": covariates, "categories": categories, "canary": canary, "times": times}
        if _as_frame(Path(path), _listed(x), frame, levels):
            return cls._with_frame(Path(path), _listed(x), levels, columns)
        return cls._with_array(Path(path), x, columns)

    @classmethod
    def _with_array(cls, path: Path, x: str | Sequence[str] | None, named: Mapping[str, Any]) -> Records:
        """Read x as an array; without it the texts are x, or else the row numbers."""
        several = [names for names in map(_listed, (x, named["y"], named["covariates"])) if names]
        single = [named[role] for role in _SINGLE if named[role] is not None]
        numbers = {*(named[role] for role in _NUMBERS), *(name for names in several for name in names)}
        labels = [name for name in single if name not in numbers]
        wanted = list(dict.fromkeys([*(name for names in several for name in names), *single]))
        if not wanted:
            raise InputError("data", "names of columns (x, y, text, member, ...)", "none", "name the columns")
        known = _listed(named["covariates"])
        gaps = [name for name in known if name not in {*_listed(x), *_listed(named["y"]), *single}]
        columns = _columns(path, wanted, labels, gaps)
        n = _rows_of_all(columns, wanted)
        one = {role: None if named[role] is None else columns[named[role]] for role in _SINGLE}
        texts = None if one["text"] is None else [str(value) for value in one["text"]]
        matrix, names = numeric.joined(columns, known, _listed(named["categories"]), "{}.{}")
        fields = {
            "covariates": matrix,
            "covariate_names": names,
            "text": None if texts is None else np.asarray(texts, dtype=np.str_),
            "unit": one["unit"],
            "group": one["group"],
        }
        return cls(
            x=_joined(columns, _listed(x)) if x is not None else np.arange(n) if texts is None else texts,
            y=None if named["y"] is None else _labels(columns, _listed(named["y"])),
            member=one["member"],
            fields={name: values for name, values in fields.items() if values is not None},
            source=path.name,
            ids=None if one["ids"] is None else _distinct(one["ids"], named["ids"]),
            canary=one["canary"],
            times=one["times"],
        )

    @property
    def written_labels(self) -> NDArray[Any] | None:
        """Labels as they stand in a file: classes that are texts as texts."""
        return np.take(np.asarray(self.classes), self.y) if self.classes and self.y is not None else self.y

    def numbered(self, classes: Sequence[str]) -> Records:
        """Return the records with labels of text numbered as in a model's list of classes; others as they are.

        Raises
        ------
        InputError
            For a label that is not in the list.

        Examples
        --------
        >>> Records(["a", "b"], np.array(["good", "bad"]), None, {}, "here").numbered(["good", "so-so", "bad"]).y
        array([0, 2])
        """
        if not self.classes or not classes:
            return self
        number = {name: i for i, name in enumerate(classes)}
        unknown = [name for name in self.classes if name not in number]
        if unknown:
            known = ", ".join(classes[:8]) + (", ..." if len(classes) > 8 else "")
            hint = "write labels as the model calls them, or their numbers"
            raise InputError("data.y", f"classes of the model ({known})", unknown[0], hint)
        y = np.array([number[name] for name in self.classes], dtype=np.int64)[self.y]
        renumbered = replace(self, y=y)
        object.__setattr__(renumbered, "classes", tuple(classes))
        return renumbered

    def columns(self, x: Sequence[str], y: Sequence[str] = (), **more: str | None) -> dict[str, NDArray[Any]]:
        """Return the records as columns by name, from which :meth:`load` with these names makes them again.

        Parameters
        ----------
        x : one name for an array or for texts, or one for each column
        more : names of unit, group, ids, canary and times, of which those that the records have not are left out

        Raises
        ------
        InputError
            For other numbers of names than columns.
        """
        names = list(x)
        if frames.is_frame(self.x):
            columns = {name: frames.written(self.x[name]) for name in self.x.columns}
        elif isinstance(self.x, list) or (len(names) == 1 and self.x.shape[1:] != (1,)):
            columns = {names[0]: np.asarray(self.x)}
        elif self.x.ndim == 2 and self.x.shape[1] == len(names):
            columns = {name: self.x[:, i] for i, name in enumerate(names)}
        else:
            received = f"{len(names)} names for {self.x.shape[1]} columns"
            raise InputError("data.x", "one array, or columns of one number each", received, "join them to one array")
        if self.y is not None:
            labels = np.asarray(self.written_labels)
            columns |= {name: labels if len(y) == 1 else labels[:, i] for i, name in enumerate(y)}
        known = {name: self.fields.get(name) for name in ("unit", "group")}
        known |= {"ids": self.ids, "canary": self.canary, "times": self.times}
        return columns | {str(more[key]): one for key, one in known.items() if one is not None and more.get(key)}

    @classmethod
    def _with_frame(cls, path: Path, x: Sequence[str], levels: Collection[str], columns: Mapping[str, Any]) -> Records:
        """Read x as a data frame, and everything else as it is read without it."""
        if not x:
            raise InputError("data.x", "names of columns, for a data frame", "none", "name them, or write '*'")
        if path.suffix.lower() == ".jsonl":
            inputs = frames.of_columns(_columns(path, x, [], x), "data.x")
        else:
            inputs = frames.read(path, x, "data.x")
        inputs = frames.to_pandas(inputs, "data.x", levels)
        if any(columns[name] is not None for name in columns if name != "categories"):
            rest = cls.load(path, **columns)
            return replace(rest, x=inputs)
        return cls(inputs, None, None, {}, path.name)


def write_lines(path: Path, columns: Mapping[str, NDArray[Any]]) -> None:
    """Write columns as a .jsonl file, one object on each line, under a temporary name that is then renamed.

    Letters beyond ASCII are escaped, so that no separator of lines within a text ends one.
    """
    names = list(columns)

    def write(target: Path) -> None:
        with target.open("w", encoding="ascii", newline="\n") as handle:
            for values in zip(*(columns[name].tolist() for name in names), strict=True):
                handle.write(json.dumps(dict(zip(names, values, strict=True)), allow_nan=False) + "\n")

    atomic.write_atomically(path, write)


def every_other(path: str | Path, named: Collection[str | None]) -> list[str]:
    """Names of all columns of a file but these."""
    return [name for name in _names(Path(path)) if name not in named]


def _canaries(values: NDArray[Any], n: int) -> NDArray[Any]:
    """Which records are canaries (n,): two or more, of 0 and 1, or true and false."""
    if values.shape != (n,) or values.dtype.kind not in "biuf" or not np.isin(values, (0, 1)).all():
        allowed = f"0 or 1 for each of {n:,} records, 1 for those that were made for the audit"
        raise InputError.of_array("data.canary", allowed, values, "name a column of 0 and 1, or of true and false")
    if np.count_nonzero(values) < 2:
        received = f"{np.count_nonzero(values)} of {n:,} records"
        raise InputError("data.canary", "two canaries or more", received, "miaudit canaries makes some")
    return values.astype(np.bool_)


def _times(values: NDArray[Any], member: NDArray[Any] | None, n: int) -> IntArray:
    """How often each record stands in a training that it is in (n,): 0 only where it is known to be no member."""
    allowed = f"a whole number from 1 for each of {n:,} records, how often it stands in a training that it is in"
    hint = "write 1 for once, and 0 for none but those that are no members"
    if values.shape != (n,) or values.dtype.kind not in "biuf" or not np.isfinite(values).all():
        raise InputError.of_array("data.times", allowed, values, hint)
    least = 1 if member is None else np.asarray(member).astype(np.bool_).astype(np.int64)
    odd = np.flatnonzero((values < least) | (values % 1 != 0))
    if len(odd):
        raise InputError("data.times", allowed, f"{values[odd[0]]:g} in row {odd[0] + 1}", hint)
    return values.astype(np.int64)


def _names(path: Path) -> list[str]:
    """Names of all columns of a file."""
    if path.suffix.lower() != ".jsonl":
        return tables.column_names(path, "data")
    with tables.existing_file(path, "data", (".jsonl",)).open("rb") as handle:
        return list(_object(handle.readline(), path.name, 1))


def _as_frame(path: Path, x: Sequence[str], frame: bool | None, levels: Collection[str]) -> bool:
    """Whether columns of x become a data frame: if it is wanted, or an array of numbers cannot hold them."""
    wanted = bool(levels) if frame is None else frame
    if frame is False or not x or path.suffix.lower() == ".jsonl":
        return wanted
    return wanted or not _are_numbers(path, x)


def _are_numbers(path: Path, names: Sequence[str]) -> bool:
    """Whether columns are numbers without gaps, or with gaps (NaN) that an array of numbers holds as well."""
    import polars as pl

    path = tables.existing_file(path, "data", tables.FORMATS)
    if path.suffix.lower() not in (".parquet", ".csv"):
        columns = tables.read_columns(path, names, "data")
        return all(values.dtype.kind in "biuf" for values in columns.values()) or any(
            values.ndim > 1 for values in columns.values()
        )
    frame = tables.read_frame(path, names, "data")
    return not len(frame) or all(
        kind.is_float() or kind.is_nested() or ((kind.is_integer() or kind == pl.Boolean) and not gaps)
        for kind, gaps in zip(frame.dtypes, frame.null_count().row(0), strict=True)
    )


def _rows_of_all(columns: Mapping[str, NDArray[Any]], wanted: Sequence[str]) -> int:
    """How many rows all columns have."""
    n = len(columns[wanted[0]])
    for name in wanted:
        if columns[name].ndim == 0 or len(columns[name]) != n:
            received = f"shape {columns[name].shape}"
            raise InputError(name, f"{n} rows, as {wanted[0]}", received, "give one value for each record")
    return n


def _distinct(ids: NDArray[Any], name: str) -> NDArray[Any]:
    if ids.ndim != 1 or len(np.unique(ids)) != len(ids):
        raise InputError(name, "an id for each record, each of them once", "some twice", "name a column of ids")
    return ids


def _listed(names: str | Sequence[str] | None) -> list[str]:
    return [] if names is None else [names] if isinstance(names, str) else list(names)


def _labels(columns: Mapping[str, NDArray[Any]], names: Sequence[str]) -> NDArray[Any]:
    """Labels as they are in one column, (n, L) of several."""
    if len(names) == 1:
        return columns[names[0]]
    for name in names:
        if columns[name].ndim != 1 or columns[name].dtype.kind not in "biuf":
            hint = "write 1 where a record has the label and 0 where not"
            raise InputError.of_array(
                f"data.y: {name}", "a column of numbers, for one label of several", columns[name], hint
            )
    return np.stack([columns[name] for name in names], axis=1)


def _joined(columns: Mapping[str, NDArray[Any]], names: Sequence[str]) -> NDArray[Any] | None:
    """One array of all named columns: as it is where it is one array of more dimensions, else (n, columns)."""
    if not names:
        return None
    for name in names:
        if columns[name].dtype.kind not in "biuf":
            hint = "write frame: true, for a data frame of the columns; texts go into text, for a language model"
            raise InputError(name, "numbers", f"values of type {columns[name].dtype}", hint)
    if len(names) == 1 and columns[names[0]].ndim > 1:
        return columns[names[0]]
    return np.concatenate([columns[n] if columns[n].ndim > 1 else columns[n][:, None] for n in names], axis=1)


def _columns(path: Path, wanted: Sequence[str], labels: Sequence[str], gaps: Sequence[str]) -> dict[str, NDArray[Any]]:
    path = tables.existing_file(path, "data", (*tables.FORMATS, ".jsonl"))
    if path.suffix.lower() != ".jsonl":
        columns = tables.read_columns(path, wanted, "data", as_text=labels, gaps=gaps)
        if not len(columns[wanted[0]]):
            raise InputError("data", "a record or more", f"none in {path.name}", "it has a header and no rows")
        return columns
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
        array = np.asarray(values)
        if kinds <= {int, float} and array.dtype == np.float64:
            numeric.refuse_rounding([value for value in values if value is not None], array, name)
        return array
    except (ValueError, OverflowError) as error:
        raise InputError(name, "lists of one length", "lists of unequal length", "pad the lists") from error

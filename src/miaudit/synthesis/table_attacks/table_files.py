"""A synthetic table, its members and control records, read from files under one schema."""

# ruff: noqa: PLC0415 - polars loads when files are read
from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from miaudit.errors import InputError, nearest
from miaudit.io import cells
from miaudit.io.tables import column_names
from miaudit.io.yaml_file import read_yaml
from miaudit.synthesis.schema import Column, Schema, Table, read_frame
from miaudit.synthesis.table_attacks.copies import ELSEWHERE
from miaudit.synthesis.table_attacks.file_columns import SHOWN, alike, comparable, named
from miaudit.synthesis.table_attacks.keys import is_key

if TYPE_CHECKING:
    import polars as pl

_MOST_LEVELS = 1000  # a column of text with more is an identifier, or free text
_WHOLE = re.compile(r"([-+]?\d+)\.0+")
_LARGEST = 1e30  # distances are of single precision
_NO_NUMBER = "write NA or nothing where a value is missing, or list the texts as categories in a schema (--schema)"


@dataclass(frozen=True, eq=False)
class Tables:
    """A synthetic table, members and control records under one schema, and the schema's origin.

    ``units`` are the labels of the members' units (n1,) and of the control records' (n0,), where a column names them.
    ``left_out`` says of each column of a file that no attack sees why not.
    """

    synthetic: Table
    members: Table
    control: Table
    schema_source: str
    notes: tuple[str, ...] = ()
    units: tuple[NDArray[np.str_], NDArray[np.str_]] | None = None
    left_out: Mapping[str, str] = field(default_factory=dict)


def read(
    synthetic: str | Path,
    members: str | Path,
    control: str | Path,
    *,
    schema: str | Path | Schema | None = None,
    unit: str | None = None,
) -> Tables:
    """Read three .csv or .parquet files.

    Parameters
    ----------
    synthetic, members, control : paths; members and control records may have further columns, which are left alone
    schema : Schema, or path of a YAML file with a list of columns (:meth:`Schema.from_mapping`), alone or under the key
        ``columns``; without one it is inferred from the **synthetic** table, which is public, and from nothing else
    unit : column of members and control records that names the person, account or household of each. The
        synthetic table need not have it; it is not a column of the schema, and no attack sees it

    Raises
    ------
    InputError
        For files that cannot be read, a column that is missing, or values that the schema does not allow.
    """
    import polars as pl

    declared = schema if isinstance(schema, Schema | None) else read_schema(schema)
    marks: dict[str, list[str]] = {}
    released = _frame(synthetic, "synthetic", marks, () if declared is None else declared.text_columns)
    # Codes such as 007 are text where they are text in the synthetic table, or nothing would be equal to anything.
    text = released.select(pl.col(pl.String)).columns if declared is None else declared.text_columns
    text_columns = (*text, *(() if unit is None else (unit,)))
    inside = _frame(members, "members", marks, text_columns)
    outside = _frame(control, "nonmembers", marks, text_columns)
    tables = of_frames(released, inside, outside, schema=declared, unit=unit)
    seen = (
        f"Column {name}: {', '.join(counts)} count as missing values. To make a text a category, list it in a schema "
        "(--schema)."
        for name, counts in marks.items()
        if name in tables.synthetic.schema.names
    )
    return replace(tables, notes=(*tables.notes, *seen))


def of_frames(
    synthetic: pl.DataFrame,
    members: pl.DataFrame,
    control: pl.DataFrame,
    *,
    schema: Schema | None = None,
    unit: str | None = None,
) -> Tables:
    """Encode three polars frames under one schema; see :func:`read`.

    Notes
    -----
    An inferred schema takes names, kinds and categories from the synthetic table. Texts that differ only in capitals,
    or in blanks, are one category. A category that only real records have becomes one level more, which no synthetic
    record has. The ends of the range of a number are taken over all three tables: they take part in no attack, and a
    table keeps to its range.

    Examples
    --------
    >>> import polars as pl
    >>> synthetic = pl.DataFrame({"job": ["cook", "clerk"], "age": [30, 40]})
    >>> tables = of_frames(synthetic, pl.DataFrame({"job": ["smith"], "age": [77]}), synthetic)
    >>> [column.kind for column in tables.synthetic.schema.columns], tables.members.values.tolist()
    (['categorical', 'continuous'], [[2.0, 77.0]])
    >>> tables.schema_source
    'The schema was inferred from the synthetic table.'
    """
    if unit is not None:
        units = _units(members, unit, "members"), _units(control, unit, "nonmembers")
        without_units = (frame.drop(unit, strict=False) for frame in (synthetic, members, control))
        if schema is not None:
            schema = Schema(tuple(column for column in schema.columns if column.name != unit))
        tables = of_frames(*without_units, schema=schema)
        return replace(tables, units=units, left_out={**tables.left_out, unit: "it names the units"})
    frames = {"synthetic": synthetic, "members": members, "nonmembers": control}
    unnamed = named(frames)
    if schema is not None:
        return _declared(frames, schema)
    absent, reasons = comparable(frames)
    inferred, notes, left_out = _inferred_schema(frames)
    released, inside, outside = (
        _table(_with_elsewhere(frame, inferred), inferred, name) for name, frame in frames.items()
    )
    source = "The schema was inferred from the synthetic table."
    return Tables(released, inside, outside, source, (*unnamed, *absent, *notes), left_out={**reasons, **left_out})


def _declared(frames: dict[str, pl.DataFrame], schema: Schema) -> Tables:
    """Encode three frames under a declared schema; texts count as the category that they differ from in capitals."""
    synthetic, *real = frames.values()
    notes: list[str] = []
    for column in schema.columns:
        lacks = [name for name, frame in frames.items() if column.name not in frame.columns]
        if lacks:
            received = f"none of this name, which the schema has, in {' and '.join(lacks)}"
            step = nearest(column.name, frames[lacks[0]].columns) or "add it"
            hint = f"{step}, or leave it out of the schema (--schema): a column that one file lacks shows nothing"
            raise InputError(column.name, "a column in all three files", received, hint)
        if column.name in schema.text_columns:
            notes += _write_alike(frames, column.name, tuple(map(str, column.categories)))
    for name, frame in frames.items():
        _check_ranges(frame, schema, name)
    released, inside, outside = (_table(frame, schema, name) for name, frame in frames.items())
    others = {name: "the schema does not have it" for frame in (synthetic, *real) for name in frame.columns}
    left_out = {name: why for name, why in others.items() if name not in schema.names}
    return Tables(released, inside, outside, "The schema was given.", tuple(notes), left_out=left_out)


def _check_ranges(frame: pl.DataFrame, schema: Schema, argument: str) -> None:
    """Refuse numbers outside the range of a declared column, with what helps in an audit."""
    import polars as pl

    for column in schema.columns:
        if column.kind != "continuous" or not frame[column.name].dtype.is_numeric():
            continue
        values = frame[column.name].cast(pl.Float64).to_numpy()
        assert column.low is not None and column.high is not None  # noqa: S101 - by its check
        rows = np.flatnonzero((values < column.low) | (values > column.high))
        if len(rows):
            received = f"{len(rows):,} other value{'s' * (len(rows) > 1)}, the first in row {rows[0]}"
            hint = "write a wider range into the schema (--schema): it plays no part in the attacks"
            allowed = f"numbers from {column.low:g} to {column.high:g}, as the schema says"
            raise InputError(f"{argument}: {column.name}", allowed, received, hint)


def _inferred_schema(frames: dict[str, pl.DataFrame]) -> tuple[Schema, tuple[str, ...], dict[str, str]]:
    """Infer the columns that vary; also return notes, and why columns are left out. Texts are written alike."""
    import polars as pl

    selected, notes, left_out = [], [], {}
    for name in frames["synthetic"].columns:
        notes += alike(frames, name)
        if frames["synthetic"][name].dtype == pl.String:
            notes += _write_alike(frames, name)
            if why := _no_category(frames, name):
                left_out[name] = f"{why} (a schema, --schema, that lists them keeps it)"
                notes.append(
                    f"Column {name} looks like an identifier or free text and was left out, because {why}. A schema "
                    "(--schema) that lists its texts keeps it."
                )
                continue
        columns = [frame[name] for frame in frames.values()]
        if len({value for column in columns for value in column.cast(pl.String).unique().to_list()}) < 2:
            left_out[name] = "it has one value in all three tables"
            notes.append(f"Column {name} has one value in all three tables and was left out.")
            continue
        selected.append(_inferred(name, columns))
    if not selected:
        raise InputError("synthetic", "a column that varies", "none", "give the table with its columns")
    lacking = [name for name in frames["members"].columns if name not in frames["synthetic"].columns]
    if lacking:
        left_out |= dict.fromkeys(lacking, "the synthetic table does not have it")
        more = f" and {len(lacking) - SHOWN:,} more" if len(lacking) > SHOWN else ""
        notes.append(
            f"The synthetic table lacks {', '.join(lacking[:SHOWN])}{more} of the members: no attack uses what is "
            "not in all three files."
        )
    return Schema(tuple(selected)), tuple(notes), left_out


def read_schema(path: str | Path) -> Schema:
    """Read a schema from YAML: a list of columns, alone or under the key ``columns``.

    Raises
    ------
    InputError
        If the file is missing, no YAML, or does not describe columns.
    """
    content = read_yaml(path, "schema")
    return Schema.from_mapping(content["columns"] if isinstance(content, Mapping) and "columns" in content else content)


def _frame(path: str | Path, argument: str, marks: dict[str, list[str]], text: Collection[str] = ()) -> pl.DataFrame:
    """Read a file with rows, and count the texts of columns of numbers that mark a missing value."""
    import polars as pl

    raw = read_frame(path, argument, column_names(path, argument))  # texts, of a .csv
    if not raw.height:
        raise InputError(argument, "at least one row", f"none in {Path(path).name}", "give records")
    if Path(path).suffix.lower() != ".csv":
        return raw
    columns = [column if column.name in text else cells.typed(column) for column in raw]
    for column in columns:
        count, _, mark = cells.missing(raw[column.name], column) if column.dtype != pl.String else (0, 0, "")
        if count:
            marks.setdefault(column.name, []).append(f"{count:,} cells of {argument} ({mark})")
    return raw.with_columns(columns)


def _units(frame: pl.DataFrame, unit: str, argument: str) -> NDArray[np.str_]:
    """Return the labels (n,) of the units of a frame."""
    import polars as pl

    if unit not in frame.columns:
        hint = nearest(unit, frame.columns) or f"it has {', '.join(frame.columns[:SHOWN])}"
        raise InputError("unit", f"a column of {argument}", repr(unit), hint)
    labels = frame[unit]
    if labels.dtype.is_float():
        labels = labels.fill_nan(None)
    if labels.null_count():
        received = f"{labels.null_count():,} missing of {frame.height:,} in {argument}"
        raise InputError(unit, "a unit for every record", received, "give a record without one a unit of its own")
    return labels.cast(pl.String).to_numpy().astype(np.str_)


def _table(frame: pl.DataFrame, schema: Schema, argument: str) -> Table:
    try:
        return Table.from_frame(frame, schema)
    except InputError as error:
        raise InputError(f"{argument}: {error.argument}", error.allowed, error.received, error.next_step) from error


def _inferred(name: str, columns: Sequence[pl.Series]) -> Column:
    """Infer one column: kind and categories from the synthetic table, range from all tables."""
    import polars as pl

    released = columns[0]
    missing = any(column.null_count() or (column.dtype.is_float() and column.is_nan().any()) for column in columns)
    if released.dtype.is_numeric() and (strange := [one for one in columns if not one.dtype.is_numeric()]):
        text, step = cells.not_numbers(strange[0].cast(pl.String).fill_null("").to_numpy(), shown=False)
        received = f"{text} among the members or control records"
        raise InputError(name, "numbers, as in the synthetic table", received, _steps(step))
    if released.dtype == pl.String and cells.mostly_numbers(released.unique()):
        text, step = cells.not_numbers(released.fill_null("").to_numpy())
        raise InputError(name, "numbers, or categories", text, _steps(step))
    if released.dtype == pl.Boolean:
        return Column(name, "binary", missing=missing)
    if released.dtype.is_numeric():
        values = np.concatenate([column.cast(pl.Float64).fill_null(np.nan).to_numpy() for column in columns])
        known = values[~np.isnan(values)]
        if (strange := ~(np.abs(known) <= _LARGEST)).any():
            received = f"infinite or larger ones in {np.count_nonzero(strange):,} of {len(known):,} rows"
            raise InputError(name, f"finite numbers up to {_LARGEST:g}", received, "correct them, or leave them empty")
        if set(np.unique(known)) <= {0.0, 1.0}:
            return Column(name, "binary", missing=missing)
        return Column(name, "continuous", low=float(known.min()), high=float(known.max()), missing=missing)
    levels = sorted(str(value) for value in released.cast(pl.String).unique().drop_nulls().to_list())
    elsewhere = any(not set(column.cast(pl.String).drop_nulls()) <= set(levels) for column in columns[1:])
    if elsewhere or len(levels) < 2:
        levels.append(ELSEWHERE)
    return Column(name, "categorical", tuple(levels), missing=missing)


def _steps(step: str) -> str:
    """Return what helps where texts are among numbers; that a column is converted as a whole helps least."""
    return _NO_NUMBER if step.startswith("convert") else f"{step}; {_NO_NUMBER}"


def _write_alike(frames: dict[str, pl.DataFrame], name: str, declared: Sequence[str] = ()) -> list[str]:
    """Write the texts of a column alike in all frames where they differ only in capitals, blanks or Unicode form.

    The categories of a declared column are spelled as they are declared, also those that differ only in capitals.
    """
    import polars as pl

    texts = {key: frame[name].cast(pl.String) for key, frame in frames.items()}
    spelled = {_folded(text): text for text in declared}
    if len(spelled) < len(declared):
        return []
    for column in texts.values():  # the spelling of the synthetic table comes first
        for text in sorted(column.drop_nulls().unique()):
            spelled.setdefault(_folded(text), text)
    changed: dict[str, str] = {}
    for column in texts.values():
        levels = column.drop_nulls().unique().to_list()
        changed |= {text: spelled[_folded(text)] for text in levels if spelled[_folded(text)] != text}
    if not changed:
        return []
    for key, column in texts.items():
        frames[key] = frames[key].with_columns(column.replace(changed).alias(name))
    return [
        f"Column {name}: {len(changed):,} text{'s' * (len(changed) > 1)} that differed only in capitals, blanks or "
        "a decimal zero counted as equal."
    ]


def _folded(text: str) -> str:
    """Return the text without what files write differently: capitals, blanks, and the zero of 1.0."""
    bare = " ".join(unicodedata.normalize("NFKC", text).casefold().split())
    whole = _WHOLE.fullmatch(bare)
    return whole[1] if whole else bare


def _no_category(frames: Mapping[str, pl.DataFrame], name: str) -> str:
    """Return why a column of texts is no category: it names the records, or has very many texts; else nothing."""
    import polars as pl

    released, *real = (frame[name].cast(pl.String).to_numpy() for frame in frames.values())
    if is_key(released, np.concatenate(real)):
        return "all texts of real records differ"
    if frames["synthetic"][name].n_unique() > _MOST_LEVELS and not cells.mostly_numbers(frames["synthetic"][name]):
        return f"the synthetic table has more than {_MOST_LEVELS:,} texts"
    return ""


def _with_elsewhere(frame: pl.DataFrame, schema: Schema) -> pl.DataFrame:
    """Map texts without a category to the level for other values."""
    import polars as pl

    changed = []
    for column in schema.columns:
        if column.kind == "categorical" and ELSEWHERE in column.categories:
            text = pl.col(column.name).cast(pl.String)
            known = text.is_in(list(column.categories)) | text.is_null()
            changed.append(pl.when(known).then(text).otherwise(pl.lit(ELSEWHERE)).alias(column.name))
        elif column.kind == "categorical":
            changed.append(pl.col(column.name).cast(pl.String))
    return frame.with_columns(changed)

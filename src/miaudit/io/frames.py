"""Records as a data frame of pandas: made of files and of other frames, cut into rows, and described for digests.

Models with named columns (a ``ColumnTransformer``, a boosting library) are given such frames. Only values, types and
names of columns count; the index is that of the rows.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from miaudit.errors import InputError, nearest
from miaudit.io import numeric, tables

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl

KINDS = ("pandas", "polars", "pyarrow")


def is_frame(values: Any) -> bool:
    """Whether something is a data frame of pandas, polars or arrow.

    Examples
    --------
    >>> import polars as pl
    >>> is_frame(pl.DataFrame({"a": [1]})), is_frame(np.zeros((2, 2)))
    (True, False)
    """
    kind = type(values)
    return kind.__module__.split(".")[0] in KINDS and kind.__name__ in ("DataFrame", "LazyFrame", "Table")


def named(values: Any) -> dict[Any, Any]:
    """Return the columns of a mapping, or of a data frame, by name.

    Examples
    --------
    >>> import polars as pl
    >>> list(named(pl.DataFrame({"loss": [1.0], "lira": [2.0]})))
    ['loss', 'lira']
    """
    if isinstance(values, Mapping):
        return dict(values)
    tables.frame_names(values)  # refuses a name that stands twice
    if hasattr(values, "iloc"):
        return {name: values[name] for name in values.columns}  # with their index
    values = values.collect() if hasattr(values, "collect") else values
    return {name: values[name] for name in tables.frame_names(values)}


def like(values: NDArray[Any], frame: Any) -> Any:
    """Return rows (n, columns) as a frame of pandas or polars with the names and the types of another.

    Raises
    ------
    ValueError, TypeError, AttributeError
        If they do not fit.

    Examples
    --------
    >>> import pandas as pd
    >>> like(np.array([[1.0, 2.5]]), pd.DataFrame({"a": [7], "b": [0.5]})).to_dict("list")
    {'a': [1], 'b': [2.5]}
    """
    if hasattr(frame, "iloc"):
        result_frame = type(frame)(values, columns=frame.columns)
        return result_frame.astype(dict(zip(frame.columns, frame.dtypes, strict=True)))
    if values.ndim != 2 or values.shape[1] != frame.width:
        raise ValueError("another number of columns")
    columns = zip(frame.columns, values.T, strict=True)
    return type(frame)({name: column.tolist() for name, column in columns}).cast(dict(frame.schema))


def taken(values: Any, rows: NDArray[Any]) -> Any:
    """Return some rows of records: by number, or by a mask (n,) of what is no frame of polars.

    Examples
    --------
    >>> taken(["a", "b", "c"], np.array([2, 0])), taken(np.arange(3), np.array([True, False, True])).tolist()
    (['c', 'a'], [0, 2])
    """
    if is_frame(values):
        return values.iloc[rows] if hasattr(values, "iloc") else values[rows]
    if isinstance(values, list):
        return [values[i] for i in (np.flatnonzero(rows) if rows.dtype == np.bool_ else rows)]
    return values[rows]


def to_pandas(frame: Any, argument: str = "x", categories: Collection[str] = ()) -> pd.DataFrame:
    """Return a data frame of pandas, with rows numbered from 0 and columns named by text.

    Of pandas columns stay what they are; of polars and arrow texts stay texts, categories and enumerations become
    categories, dates become dates, what is missing becomes NaN, and whole numbers or true/false with gaps numbers.

    Parameters
    ----------
    frame : data frame of pandas, polars or arrow
    argument : what to call it in an error
    categories : columns that become categories, of all their values in their order

    Raises
    ------
    InputError
        Without pandas, and for columns that are lists or Python objects.
    """
    pandas = _pandas(argument)
    names = tables.frame_names(frame)
    if type(frame).__module__.split(".")[0] == "pandas":
        converted = frame.reset_index(drop=True).set_axis(names, axis=1)
    else:
        converted = pandas.DataFrame({column.name: _plain(column, argument) for column in _polars(frame)})
    for name in categories:
        if name not in names:
            hint = nearest(name, names) or f"there are {', '.join(names[:12])}"
            raise InputError("categories", f"columns of {argument}", repr(name), hint)
        converted[name] = converted[name].astype("category")
    if not len(converted.columns):
        raise InputError(argument, "a column or more", "a data frame without any", "name the columns")
    _parts(converted, argument)  # what cannot be digested is refused at the door
    return converted


def read(path: Path, names: Sequence[str], argument: str) -> pd.DataFrame:
    """Read columns of an .npz, .parquet or .csv file as they are; texts of a .csv that are all dates become dates.

    Raises
    ------
    InputError
        As :func:`miaudit.io.tables.read_columns`, and for arrays of more dimensions.
    """
    suffix = path.suffix.lower()
    if suffix in (".parquet", ".csv"):
        frame = to_pandas(tables.read_frame(path, names, argument), argument)
        return dated(frame) if suffix == ".csv" else frame
    return of_columns(tables.read_columns(path, names, argument), argument)


def of_columns(columns: Mapping[str, NDArray[Any]], argument: str) -> pd.DataFrame:
    """Make a frame of arrays (n,) by name; an empty text is a missing one."""
    wide = next((name for name, values in columns.items() if values.ndim != 1), None)
    if wide is not None:
        received = f"shape {columns[wide].shape} beside columns of text or with gaps"
        raise InputError(wide, "one value for each record", received, "give it as columns of numbers")
    arrays = {name: _texts(values.tolist()) if values.dtype.kind == "U" else values for name, values in columns.items()}
    return dated(_pandas(argument).DataFrame(arrays))


def dated(frame: pd.DataFrame) -> pd.DataFrame:
    """Return the frame with columns of texts that are all dates of ISO 8601 as dates."""
    for name in frame.columns:
        if frame[name].dtype.kind == "O" and not isinstance(frame[name].dtype, _pandas("x").CategoricalDtype):
            texts = np.array(frame[name].fillna("").tolist(), dtype=np.str_)
            days = numeric.days(texts, name)
            if days.dtype.kind == "f":
                frame[name] = (days * 86_400_000).round().astype("datetime64[ms]")
    return frame


def texts_of(values: Any) -> list[str]:
    """Return the columns of a data frame of pandas that hold texts; none of records that are no frame."""
    if not is_frame(values):
        return []
    return [str(name) for name in values.columns if _kind(values[name]) == "texts"]


def same_columns(first: pd.DataFrame, second: pd.DataFrame, name: str, of: str) -> pd.DataFrame:
    """Return the second frame with the columns of the first in their order, or refuse others and other types.

    Parameters
    ----------
    name, of : what the second and the first frame are called
    """
    missing = [column for column in first.columns if column not in second.columns]
    more = [column for column in second.columns if column not in first.columns]
    if missing or more:
        received = f"none named {missing[0]!r}" if missing else f"also {more[0]!r}"
        raise InputError(name, f"the columns of {of}", received, "give both frames the same columns")
    for column in first.columns:
        kinds = _kind(first[column]), _kind(second[column])
        if kinds[0] != kinds[1]:
            received = f"{kinds[1]} in column {column!r}, and {kinds[0]} there"
            raise InputError(name, f"the types of {of}", received, "read both with the same types")
    return second[list(first.columns)]


def joined(first: Any, second: Any) -> Any:
    """Return the rows of one frame, then those of another of the same library, with the same columns.

    Categories are those of both.
    """
    if not hasattr(first, "iloc"):
        import polars as pl

        return pl.concat([first, second.select(first.columns)], how="vertical_relaxed")
    pandas = _pandas("x")
    parts = {}
    for name in first.columns:
        one, other = first[name], second[name]
        if isinstance(one.dtype, pandas.CategoricalDtype) and one.dtype != other.dtype:
            every = [*one.cat.categories, *other.cat.categories.difference(one.cat.categories)]
            one, other = one.cat.set_categories(every), other.cat.set_categories(every)
        parts[name] = pandas.concat([one, other], ignore_index=True)
    return pandas.DataFrame(parts)


def written(column: pd.Series[Any]) -> NDArray[Any]:
    """Return a column of a frame as files hold it (:func:`miaudit.io.tables.write_columns`): a missing text is empty.

    Dates are texts of ISO 8601.
    """
    if column.dtype.kind in "biuf" and isinstance(column.dtype, np.dtype):
        return np.asarray(column.to_numpy())
    if column.dtype.kind in "mM":
        return np.asarray(np.datetime_as_string(column.to_numpy(), unit="auto"), dtype=np.str_)
    gaps = column.isna().to_numpy()
    return np.array(["" if gap else str(one) for one, gap in zip(column.tolist(), gaps, strict=True)], dtype=np.str_)


def described(frame: pd.DataFrame) -> list[Any]:
    """Return names, types and values of all columns as texts and arrays, the same in every process, for a digest."""
    return ["frame", [str(name) for name in frame.columns], *_parts(frame, "x")]


def _parts(frame: pd.DataFrame, argument: str) -> list[Any]:
    pandas, parts = _pandas(argument), list[Any]()
    for name in frame.columns:
        column = frame[name]
        if isinstance(column.dtype, pandas.CategoricalDtype):
            levels = [str(level) for level in column.cat.categories]
            codes = column.cat.codes.to_numpy().astype(np.int64)
            parts.append([f"category {column.cat.ordered}", ["levels", *levels], codes])
        elif column.dtype.kind in "biuf" and isinstance(column.dtype, np.dtype):
            parts.append([str(column.dtype), np.ascontiguousarray(column.to_numpy())])
        elif column.dtype.kind in "mM":
            values = column.dt.tz_convert("UTC").dt.tz_localize(None) if hasattr(column.dtype, "tz") else column
            parts.append([str(column.dtype), values.to_numpy().astype(np.int64)])
        else:
            parts.append([str(column.dtype), *_written(column, name)])
    return parts


def _written(column: pd.Series[Any], name: str) -> list[Any]:
    """Texts, and other plain values, with where they are missing."""
    missing = column.isna().to_numpy()
    plain = [None if gap else value for value, gap in zip(column.tolist(), missing, strict=True)]
    for value in plain:
        if value is not None and not isinstance(value, str | bool | int | float | np.generic):
            allowed = "numbers, true/false, dates, categories or text"
            raise InputError(name, allowed, f"Python objects ({type(value).__name__})", "convert the column first")
    return [missing, ["" if value is None else value if isinstance(value, str) else repr(value) for value in plain]]


def _kind(column: pd.Series[Any]) -> str:
    """What a column holds in one word; numbers are numbers, with gaps or without."""
    if str(column.dtype) == "category":
        return "categories"
    kind = column.dtype.kind
    return "numbers" if kind in "biuf" else "dates" if kind in "mM" else "texts"


def _polars(frame: Any) -> pl.DataFrame:
    import polars as pl

    if type(frame).__module__.split(".")[0] == "pyarrow":
        return pl.DataFrame(frame)
    return frame.lazy().collect()  # type: ignore[no-any-return]


def _plain(column: pl.Series, argument: str) -> Any:
    """Return a column as pandas takes it, without arrow, which may not be installed."""
    import polars as pl

    pandas = _pandas(argument)
    kind, gaps = column.dtype, column.null_count()
    if isinstance(kind, pl.Enum | pl.Categorical):
        own = column.cast(pl.String)
        levels = kind.categories.to_list() if isinstance(kind, pl.Enum) else sorted(own.drop_nulls().unique())
        return pandas.Categorical(own.to_list(), categories=levels)
    if kind == pl.String:
        return _texts(column.to_list())
    if isinstance(kind, pl.Date | pl.Datetime):
        return column.dt.timestamp("ms").cast(pl.Datetime("ms")).to_numpy()
    if kind.is_decimal() or (gaps and (kind == pl.Boolean or kind.is_integer())) or kind == pl.Null:
        column = column.cast(pl.Float64)
    if not (kind.is_numeric() or kind in (pl.Boolean, pl.Null)):
        allowed = "numbers, true/false, dates, categories or text"
        raise InputError(column.name, allowed, f"a column of type {kind}", "convert the column first")
    return column.to_numpy().copy()


def _texts(values: list[Any]) -> Any:
    """Texts as pandas reads them: as objects, NaN where one is missing."""
    objects = np.empty(len(values), dtype=object)
    objects[:] = [np.nan if value in (None, "") else value for value in values]
    return objects


def _pandas(argument: str) -> Any:
    try:
        import pandas
    except ImportError as error:
        received = "an installation without it"
        raise InputError(
            argument, "pandas, for columns of text or with gaps", received, "pip install pandas"
        ) from error
    return pandas

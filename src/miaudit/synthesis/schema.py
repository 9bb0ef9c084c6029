"""Declared columns of a table, and tables that conform to them.

The schema is public input: names, kinds, categories and ranges are stated by the publisher and never read off the
private table, since whatever is read off it would have to be accounted for.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from miaudit.arrays import FloatArray
from miaudit.errors import InputError, nearest
from miaudit.errors.checks import is_number, is_whole
from miaudit.io import cells, csv_file
from miaudit.io.tables import column_names, existing_file
from miaudit.synthesis.undeclared import Undeclared, UndeclaredCategories

if TYPE_CHECKING:
    import polars as pl

Kind = Literal["binary", "categorical", "ordinal", "continuous"]
Category = str | int | float

TABLE_SUFFIXES = (".csv", ".parquet")
_KINDS = ("binary", "categorical", "ordinal", "continuous")
_MOST_WHOLE = 2**63
_NEAR = 1e-6  # of a step between rounded values, for ends of a range that floating point moved
MARK = "unchecked"  # of a drafted column whose values were read off the private table; such a schema is refused
_KEYS = ("name", "names", "kind", "categories", "low", "high", "missing", "decimals", MARK)


@dataclass(frozen=True)
class Column:
    """One column of a table, as declared by its publisher.

    Attributes
    ----------
    name : not empty
    kind : "binary", "categorical" (levels without an order), "ordinal" (levels in order) or "continuous"
    categories : the levels, text or numbers, in order for an ordinal column; a table holds their positions 0, 1, ...
        Needed for categorical and ordinal columns; a binary column without them holds 0 and 1
    low, high : range of a continuous column, both needed and from public knowledge; None for other kinds
    missing : whether values may be missing
    decimals : digits after the point that released values of a continuous column are rounded to; None keeps all

    Raises
    ------
    InputError
        For an unknown kind, categories that were not declared or repeat, fewer than two of them, or an empty range: a
        column with one value teaches nothing and needs no generator.

    Examples
    --------
    >>> Column("smoker").levels
    2
    >>> Column("dose", "ordinal", categories=("low", "high")).categories
    ('low', 'high')
    >>> Column("age", "continuous", low=18)
    Traceback (most recent call last):
    miaudit.errors.InputError: age.high: expected a finite number for a continuous column, received None; state a range
    from public knowledge: it is never read off the private table
    """

    name: str
    kind: Kind = "binary"
    categories: tuple[Category, ...] = ()
    low: float | None = None
    high: float | None = None
    missing: bool = False
    decimals: int | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name.strip():
            raise InputError("name", "the name of a column", repr(self.name), "give each column a name")
        if self.kind not in _KINDS:
            hint = nearest(str(self.kind), _KINDS) or "declare what the column holds"
            raise InputError(f"{self.name}.kind", " or ".join(_KINDS), repr(self.kind), hint)
        if not isinstance(self.missing, bool):
            raise InputError(f"{self.name}.missing", "true or false", repr(self.missing), "write true or false")
        object.__setattr__(self, "categories", _checked_categories(self.name, self.kind, self.categories))
        self._check_range()
        self._check_decimals()

    @property
    def levels(self) -> int:
        """Number of categories of the column; 0 for a continuous one."""
        return len(self.categories)

    def _check_range(self) -> None:
        continuous = self.kind == "continuous"
        for name in ("low", "high"):
            value = getattr(self, name)
            if not continuous:
                if value is not None:
                    hint = "a range belongs to a continuous column"
                    raise InputError(f"{self.name}.{name}", f"none for a {self.kind} column", repr(value), hint)
                continue
            if not _is_number(value):
                hint = "state a range from public knowledge: it is never read off the private table"
                raise InputError(f"{self.name}.{name}", "a finite number for a continuous column", repr(value), hint)
            object.__setattr__(self, name, float(value))
        if continuous and not self.low < self.high:  # type: ignore[operator]  # both are numbers here
            received = f"{self.low:g} and {self.high:g}"
            hint = "leave a constant column out of the schema and add it to the release"
            raise InputError(f"{self.name}.low", "less than high", received, hint)

    def _check_decimals(self) -> None:
        digits = self.decimals
        if digits is None:
            return
        if self.kind != "continuous" or not is_whole(digits) or not 0 <= digits <= 15:
            allowed = "a whole number from 0 to 15, for a continuous column"
            raise InputError(f"{self.name}.decimals", allowed, repr(digits), "leave it out to keep all digits")

    def to_mapping(self) -> dict[str, Any]:
        """Return the column as in YAML and JSON, without fields at their default."""
        by_name: dict[str, Any] = {"name": self.name, "kind": self.kind}
        if self.categories and not (self.kind == "binary" and self.categories == (0, 1)):
            by_name["categories"] = list(self.categories)
        for key in ("low", "high", "decimals"):
            if getattr(self, key) is not None:
                by_name[key] = getattr(self, key)
        return by_name | ({"missing": True} if self.missing else {})


@dataclass(frozen=True)
class Schema:
    """Columns of a table, in order, with distinct names.

    Examples
    --------
    >>> schema = Schema((Column("a"), Column("b", "continuous", low=0, high=1)))
    >>> schema.names, len(schema), schema.position("b")
    (('a', 'b'), 2, 1)
    """

    columns: tuple[Column, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "columns", tuple(self.columns))
        if not self.columns:
            raise InputError("columns", "at least one column", "none", "declare the columns of the table")
        for column in self.columns:
            if not isinstance(column, Column):
                raise InputError("columns", "Column(...) records", type(column).__name__, "or use Schema.from_mapping")
        seen: set[str] = set()
        for name in self.names:
            if name in seen:
                raise InputError("columns", "names of their own", f"{name!r} twice", "declare each column once")
            seen.add(name)

    @classmethod
    def from_mapping(cls, columns: Sequence[Mapping[str, Any]]) -> Schema:
        """Read the columns from YAML: mappings with fields of :class:`Column`, or ``names`` for several.

        Raises
        ------
        InputError
            For columns that cannot be read, and for a draft of ``miaudit synthesise TABLE`` in which a column still has
            ``unchecked: true``: its content was read off the private table, which no guarantee covers.

        Examples
        --------
        >>> Schema.from_mapping([{"names": ["a", "b"], "kind": "binary"}, {"name": "c", "categories": ["x", "y"],
        ...     "kind": "categorical", "missing": True}]).names
        ('a', 'b', 'c')
        """
        if isinstance(columns, str | Mapping) or not isinstance(columns, Sequence):
            raise InputError("columns", "a list of columns", type(columns).__name__, "write '- {name: ..., kind: ...}'")
        schema = cls(tuple(column for place, entry in enumerate(columns) for column in _read_columns(place, entry)))
        _check_marks(columns)
        return schema

    def to_mapping(self) -> list[dict[str, Any]]:
        """Return the columns as :meth:`from_mapping` reads them."""
        return [column.to_mapping() for column in self.columns]

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Names of the columns, in order."""
        return tuple(column.name for column in self.columns)

    @cached_property
    def text_columns(self) -> tuple[str, ...]:
        """Names of columns with text categories, which readers must not convert (007 is not 7)."""
        return tuple(c.name for c in self.columns if c.categories and isinstance(c.categories[0], str))

    @cached_property
    def _positions(self) -> dict[str, int]:
        return {name: i for i, name in enumerate(self.names)}

    def __len__(self) -> int:
        return len(self.columns)

    def position(self, name: str) -> int:
        """Return the position of a column; refuse an unknown name."""
        try:
            return self._positions[name]
        except KeyError:
            hint = nearest(name, self.names) or f"the schema has {', '.join(self.names[:8])}{' ...' * (len(self) > 8)}"
            raise InputError("column", "a column of the schema", repr(name), hint) from None

    def column(self, name: str) -> Column:
        """Return a column by its name."""
        return self.columns[self.position(name)]


@dataclass(frozen=True, eq=False)
class Table:
    """Records with a schema.

    Attributes
    ----------
    schema : what the columns are
    values : float64 (n, d), read-only; NaN is missing; categories are positions 0, 1, ... in ``Column.categories``

    Raises
    ------
    InputError
        For another shape, infinite values, positions that no category has, values outside a declared range, or missing
        values in a column that declares none. A column that is constant in the table is not an error: to refuse it
        would reveal something about the records.

    Examples
    --------
    >>> table = Table(Schema((Column("a"), Column("b", missing=True))), [[0, 1], [1, np.nan]])
    >>> len(table), len(table.subset([0])), table.frame().rows()
    (2, 1, [(0, 1), (1, None)])
    """

    schema: Schema
    values: FloatArray

    def __post_init__(self) -> None:
        try:
            values = np.array(self.values, dtype=np.float64)
        except (TypeError, ValueError) as error:
            hint = "use Table.from_frame for text"
            raise InputError("values", "numbers (n, d)", str(error)[:100], hint) from error
        if values.ndim != 2 or values.shape[1] != len(self.schema):
            allowed = f"shape (n, {len(self.schema)}), as the schema has columns"
            raise InputError("values", allowed, f"shape {values.shape}", "a row for each record")
        _check_values(self.schema, values)
        values.setflags(write=False)
        object.__setattr__(self, "values", values)

    def __len__(self) -> int:
        return len(self.values)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.schema, self.values)

    @classmethod
    def from_frame(
        cls,
        frame: pl.DataFrame,
        schema: Schema,
        *,
        outside: Literal["refuse", "clip"] = "refuse",
        others: Mapping[str, Category] | None = None,
    ) -> Table:
        """Read the columns of the schema from a polars frame; ignore others.

        Parameters
        ----------
        frame : n rows; null and NaN are missing
        schema : what the columns are
        outside : whether values of a continuous column outside its range are refused, or moved to its nearest end
        others : by column, the category that stands for all values that none is declared for; they are refused without

        Raises
        ------
        InputError
            For a column that is not there, or of another type.
        UndeclaredCategories
            An InputError for values that no category has, of all columns at once.

        Examples
        --------
        >>> import polars as pl
        >>> schema = Schema((Column("who", "categorical", categories=("me", "you")),))
        >>> Table.from_frame(pl.DataFrame({"who": ["you", "me"]}), schema).values.tolist()
        [[1.0], [0.0]]
        """
        if outside not in ("refuse", "clip"):
            raise InputError("outside", "'refuse' or 'clip'", repr(outside), "refuse is the default")
        values, undeclared = np.empty((frame.height, len(schema))), []
        rest = _checked_others(schema, others or {})
        for column in schema.columns:
            if column.name not in frame.columns:
                hint = nearest(column.name, frame.columns) or f"it has {', '.join(frame.columns[:8])}"
                raise InputError(column.name, "a column of the table", "a name that is not there", hint)
        for i, column in enumerate(schema.columns):
            if column.kind == "continuous":
                continue
            values[:, i], unknown = _encoded(frame[column.name], column, rest.get(column.name))
            undeclared += [] if unknown is None else [unknown]
        if undeclared:  # of all columns, before anything else of them is looked at
            raise UndeclaredCategories(undeclared)
        for i, column in enumerate(schema.columns):
            if column.kind != "continuous":
                continue
            values[:, i] = _numbers(frame[column.name], column)
            if outside == "clip":
                inside = np.clip(values[:, i], column.low, column.high)
                values[:, i] = np.where(
                    np.isinf(values[:, i]), values[:, i], inside
                )  # infinite values are refused below
        return cls(schema, values)

    def frame(self) -> pl.DataFrame:
        """Return a polars frame: categories by name, missing as null, continuous columns rounded to their decimals."""
        import polars as pl  # noqa: PLC0415 - loads when a file or frame is needed

        return pl.DataFrame([_decoded(self.values[:, i], column) for i, column in enumerate(self.schema.columns)])

    def subset(self, rows: ArrayLike) -> Table:
        """Return some of the rows, by positions or by a mask (n,)."""
        chosen = np.asarray(rows)
        if chosen.size == 0:
            chosen = chosen.astype(np.int64)
        if chosen.dtype.kind not in "iub" or chosen.ndim != 1:
            received = f"shape {chosen.shape} of type {chosen.dtype}"
            raise InputError("rows", "positions, or true and false (n,)", received, "number rows from 0")
        try:
            return Table(self.schema, self.values[chosen])
        except IndexError as error:
            raise InputError("rows", f"rows of a table of {len(self):,}", str(error)[:80], "count from 0") from error

    def without(self, names: Collection[str]) -> Table:
        """Return the table without some columns."""
        places = [j for j, name in enumerate(self.schema.names) if name not in names]
        return Table(Schema(tuple(self.schema.columns[j] for j in places)), self.values[:, places])

    def column(self, name: str) -> FloatArray:
        """Return the values (n,) of one column."""
        values: FloatArray = self.values[:, self.schema.position(name)]
        return values


def read_table(
    path: str | Path,
    schema: Schema,
    *,
    argument: str = "table",
    outside: Literal["refuse", "clip"] = "refuse",
    others: Mapping[str, Category] | None = None,
) -> Table:
    """Read the columns of a schema from a .csv or .parquet file; columns of text keep leading zeros.

    Raises
    ------
    InputError
        If the file cannot be read, a column is missing, or a value is not allowed by the schema.
    """
    frame = read_frame(path, argument, schema.text_columns, schema.names)
    return Table.from_frame(frame, schema, outside=outside, others=others)


def read_frame(path: str | Path, argument: str, text: Collection[str] = (), only: Collection[str] = ()) -> pl.DataFrame:
    """Read a .csv or .parquet file; columns named in ``text`` keep their leading zeros.

    Parameters
    ----------
    only : columns to read, if the file has them all; what the others hold cannot stop the reader

    Raises
    ------
    InputError
        If the file cannot be read.
    """
    import polars as pl  # noqa: PLC0415 - loads when a file is read
    import polars.exceptions as errors  # noqa: PLC0415

    path = existing_file(path, argument, TABLE_SUFFIXES)
    # this also refuses what would end the process
    names = column_names(path, argument)
    selected = {*text, *(set(names) - set(only) if only else ())}
    wanted = [name for name in names if name in only] if only and set(only) <= set(names) else None
    try:
        if path.suffix.lower() == ".parquet":
            return pl.read_parquet(path, glob=False, columns=wanted)
        frame = csv_file.opened(path, argument).frame(wanted)
        return frame.with_columns([column if column.name in selected else cells.typed(column) for column in frame])
    except (errors.PolarsError, errors.PanicException, OSError, ValueError) as error:  # polars panics on damaged files
        first = (str(error).splitlines() or [type(error).__name__])[0][:120]
        first = re.sub(r"`[^`]*(`|$)|\"[^\"]*(\"|$)", "...", first)  # polars quotes values, which may be private
        received = f"{path.name}, which cannot be read ({first})"
        raise InputError(argument, f"a complete {path.suffix} file", received, "write it again") from error


def check_alike(**tables: Table) -> None:
    """Refuse tables, by name, of another schema than the first one, and tables without rows."""
    schema = next(iter(tables.values())).schema
    for name, table in tables.items():
        if table.schema != schema:
            raise InputError(name, "the schema of the synthetic table", "another one", "read all with one schema")
        if not len(table):
            raise InputError(name, "at least one row", "none", "give records")


def _checked_categories(name: str, kind: str, declared: Any) -> tuple[Category, ...]:
    if kind == "continuous":
        if declared:
            raise InputError(f"{name}.categories", "none for a continuous column", repr(declared), "leave them out")
        return ()
    if isinstance(declared, str) or not isinstance(declared, Sequence):
        raise InputError(f"{name}.categories", "a list of text or numbers", repr(declared), "write [first, second]")
    if not declared and kind == "binary":
        return (0, 1)
    categories = tuple(declared)
    if not categories:
        hint = "declare every category: they are never read off the private table"
        raise InputError(f"{name}.categories", f"the categories of a {kind} column", "none", hint)
    for category in categories:
        if isinstance(category, bool):
            hint = "quote them in YAML, where true and false without quotation marks are no texts"
            raise InputError(f"{name}.categories", "text or numbers", repr(category), hint)
        if category == "" or (not isinstance(category, str) and not _is_number(category)):
            raise InputError(f"{name}.categories", "text or finite numbers", repr(category), "write them out")
    numbers = [not isinstance(category, str) for category in categories]
    if any(numbers) and not all(numbers):
        raise InputError(f"{name}.categories", "all text or all numbers", repr(categories), "quote the numbers")
    if len(set(categories)) != len(categories):
        raise InputError(f"{name}.categories", "categories that differ", repr(categories), "declare each once")
    if kind == "binary" and len(categories) != 2:
        raise InputError(f"{name}.categories", "two categories", f"{len(categories)}", "declare it as categorical")
    if len(categories) < 2:
        hint = "leave a constant column out of the schema and add it to the release"
        raise InputError(f"{name}.categories", "at least two categories", repr(categories), hint)
    return categories


def _read_columns(place: int, entry: object) -> list[Column]:
    """Return the columns declared by one item of the list."""
    if not isinstance(entry, Mapping):
        raise InputError(f"columns[{place}]", "a mapping", repr(entry)[:60], "write {name: ..., kind: ...}")
    for key in entry:
        if key not in _KEYS:
            hint = nearest(str(key), _KEYS) or f"keys are {', '.join(_KEYS)}"
            raise InputError(f"columns[{place}]", "known keys", repr(key), hint)
    options = {key: value for key, value in entry.items() if key not in ("name", "names", MARK)}
    if ("name" in entry) == ("names" in entry):
        received = "both" if "name" in entry else "neither"
        raise InputError(f"columns[{place}]", "name, or names for several alike", received, "give one of them")
    names = entry["names"] if "names" in entry else [entry["name"]]
    if isinstance(names, str) or not isinstance(names, Sequence):
        raise InputError(f"columns[{place}].names", "a list of names", repr(names)[:60], "write [a, b, c]")
    for name in names:
        if not isinstance(name, str):
            hint = "quote names that YAML reads as something else"
            raise InputError(f"columns[{place}].name", "text", repr(name), hint)
    if not isinstance(entry.get(MARK, False), bool):
        received = repr(entry[MARK])[:60]
        raise InputError(f"columns[{place}].{MARK}", "true or false", received, "delete it once the column was checked")
    return [Column(name, **options) for name in names]


def _check_marks(columns: Sequence[Mapping[str, Any]]) -> None:
    """Refuse columns of a draft that nobody has checked."""
    marked = [name for entry in columns if entry.get(MARK) for name in entry.get("names", [entry.get("name")])]
    if marked:
        more = f" and {len(marked) - 3} more" if len(marked) > 3 else ""
        hint = f"it was read off the private table: state what is publicly known, then delete the column's {MARK}"
        received = f"{MARK}: true at {', '.join(marked[:3])}{more}"
        raise InputError("columns", "columns that were checked", received, hint)


def _check_values(schema: Schema, values: FloatArray) -> None:
    if np.isinf(values).any():
        row, place = np.argwhere(np.isinf(values))[0]
        hint = "infinite values have no place in a range; NaN is missing"
        raise InputError(schema.names[place], "finite numbers", f"{values[row, place]} in row {row}", hint)
    for i, column in enumerate(schema.columns):
        own = values[:, i]  # of a private table: a message names none of its values
        gone = np.isnan(own)
        if gone.any() and not column.missing:
            received = f"{np.count_nonzero(gone):,} missing of {len(values):,}"
            raise InputError(column.name, "a value in every row", received, "declare missing: true, or fill them")
        if column.kind == "continuous":
            assert column.low is not None and column.high is not None  # noqa: S101 - by its check
            bad = (own < column.low) | (own > column.high)
            allowed = f"numbers from {column.low:g} to {column.high:g}"
            hint = "state a wider public range, or set outside to clip"
        else:
            bad = ~gone & ((own < 0) | (own >= column.levels) | (own != np.floor(own)))
            allowed = f"positions 0 to {column.levels - 1} of its categories"
            hint = "declare every category, or read text with Table.from_frame"
        if bad.any():
            rows = np.flatnonzero(bad)
            received = f"{_counted(len(rows), 'other value')}, the first in row {rows[0]}"
            raise InputError(column.name, allowed, received, hint)


def _counted(count: int, what: str) -> str:
    return f"{count:,} {what}{'s' * (count != 1)}"


def _checked_others(schema: Schema, others: Mapping[str, Category]) -> dict[str, int]:
    """Return by column the position of the category that stands for all values that none is declared for."""
    positions = {}
    for name, category in others.items():
        declared = schema.column(name).categories
        if category not in declared:
            allowed = f"one of its categories, {', '.join(map(str, declared[:8]))}" if declared else "a column with any"
            hint = "declare it in the graph first, such as other"
            raise InputError(f"others.{name}", allowed, repr(category), hint)
        positions[name] = declared.index(category)
    return positions


def _encoded(series: pl.Series, column: Column, rest: int | None) -> tuple[FloatArray, Undeclared | None]:
    """Return a column of a frame in the coding of the table, and its values that no category has."""
    import polars as pl  # noqa: PLC0415

    if series.dtype == pl.Boolean and column.categories == (0, 1):
        series = series.cast(pl.Int8)
    if isinstance(column.categories[0], str):
        if not isinstance(series.dtype, pl.String | pl.Categorical | pl.Enum) and not series.dtype.is_integer():
            allowed = "text, as its categories are"
            raise InputError(column.name, allowed, f"a column of type {series.dtype}", "read it as text")
        values: list[Any] = [value or None for value in series.cast(pl.String).to_list()]  # no category is empty
        known: dict[Any, int] = {category: i for i, category in enumerate(column.categories)}
    else:
        values = [None if math.isnan(value) else value for value in _numbers(series, column).tolist()]
        known = {float(category): i for i, category in enumerate(column.categories)}
    known[None] = -1
    codes = np.array([known.get(value, column.levels if rest is None else rest) for value in values], dtype=np.float64)
    rows = np.flatnonzero(codes == column.levels).tolist()
    codes[codes < 0] = np.nan
    return codes, Undeclared.of(column.name, column.categories, values, rows) if rows else None


def _numbers(series: pl.Series, column: Column) -> FloatArray:
    import polars as pl  # noqa: PLC0415

    if series.null_count() == len(series):  # of whatever type: an empty column of a .csv is one of texts
        return np.full(len(series), np.nan)
    if series.dtype == pl.String:  # of a private table: a message names none of its values
        received, step = cells.not_numbers(series.drop_nulls().to_numpy(), shown=False)
        raise InputError(column.name, "numbers", received, f"{step}; or declare categories")
    if not series.dtype.is_numeric():
        raise InputError(
            column.name, "numbers", f"a column of type {series.dtype}", "convert it, or declare categories"
        )
    numbers: FloatArray = series.cast(pl.Float64).fill_null(float("nan")).to_numpy()
    return numbers


def _decoded(values: FloatArray, column: Column) -> pl.Series:
    """Return a column of the table in the values of a frame."""
    import polars as pl  # noqa: PLC0415

    gone = np.isnan(values)
    if column.kind == "continuous":
        shown = _rounded(values, column)
        if column.decimals == 0 and np.array_equal(shown, np.round(shown), equal_nan=True):  # 79 and not 79.0
            whole = [None if lost else int(value) for value, lost in zip(shown.tolist(), gone.tolist(), strict=True)]
            if all(value is None or abs(value) < _MOST_WHOLE for value in whole):
                return pl.Series(column.name, whole, dtype=pl.Int64)
        return pl.Series(column.name, shown.tolist(), dtype=pl.Float64).fill_nan(None)
    kind: Any = pl.Float64
    if isinstance(column.categories[0], str):
        kind = pl.String
    elif all(isinstance(category, int) for category in column.categories):
        kind = pl.Int64
    codes = np.where(gone, 0, values).astype(np.int64).tolist()
    shown_ = [None if lost else column.categories[code] for code, lost in zip(codes, gone.tolist(), strict=True)]
    return pl.Series(column.name, shown_, dtype=kind)


def _rounded(values: FloatArray, column: Column) -> FloatArray:
    """Return numbers (n,) with the decimals of their column: of its range the nearest ones that have no more."""
    digits = column.decimals
    if digits is None:
        return values
    assert column.low is not None and column.high is not None  # noqa: S101 - by its check
    scale = 10.0**digits
    low, high = column.low, column.high
    if max(abs(low), abs(high)) * scale < 2**53:
        low = max(low, math.ceil(low * scale - _NEAR) / scale)
        high = min(high, math.floor(high * scale + _NEAR) / scale)
    if low > high:  # the range holds no number of so few decimals
        low, high = column.low, column.high
    fine = np.abs(values) < 2**53 / scale  # others have no digits beyond
    return np.asarray(np.clip(np.where(fine, np.round(np.where(fine, values, 0.0), digits), values), low, high))


def _is_number(value: object) -> bool:
    return is_number(value) and math.isfinite(value)

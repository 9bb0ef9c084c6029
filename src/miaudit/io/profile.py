"""What the columns of a table look like: guesses for a draft, made of its first rows.

A profile is made so that little of any one record is in it: categories that few rows have are left out, a range is
rounded outward to round numbers, and nothing of a column that looks like an identifier, a text, a date or a secret is
kept. It is still read off the table, and no guarantee of privacy covers that.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from miaudit.errors import InputError
from miaudit.io import cells, csv_file
from miaudit.io.secret_names import looks_secret, words
from miaudit.io.tables import check_names, existing_file, guarded

if TYPE_CHECKING:
    import polars as pl

Modelled = Literal["binary", "categorical", "ordinal", "continuous"]
LeftOut = Literal["identifier", "text", "date", "secret", "constant", "empty", "unusable"]
SUFFIXES = (".csv", ".parquet")
ROWS = 200_000  # that are looked at, or fewer of a wide table
RARE = 10  # rows; a value that fewer have is not named
MOST = 50  # categories of a column
_CELLS = 20_000_000
_LEVELS = 10  # of an ordinal column of numbers
_FEW = 20  # values, below which nothing is said of how many differ
_LONGEST = 100  # characters of a category
_LARGEST = 1e15
_DIGITS = 6
_DATE = r"^\s*(\d{4}[-/.]\d{1,2}[-/.]\d{1,2}|\d{1,2}[-/.]\d{1,2}[-/.]\d{2,4})([T ]|\s*$)"
_ONE = "every row has the same value, which teaches nothing"
_OWN = "nearly every row has a value of its own, as an identifier has"
_DAYS = "dates: write them as numbers first, such as years, or days since a fixed one"
# Words of a name by which a column is left out, whatever it holds.
_SECRET = re.compile(
    "names?|surname|firstname|lastname|fullname|forename|username|login|e?mail|phone|telephone|fax|address|street|"
    "zip|zipcode|postcode|postal|ssn|passport|iban|password|passwd|pwd|secret|token|uuid|guid|ids?|ip|url|dob|"
    "birthday|birthdate|latitude|longitude|lat|lon|lng|gps|signature"
)


@dataclass(frozen=True)
class ColumnProfile:
    """What one column looks like; a guess.

    Attributes
    ----------
    name : of the column
    kind : "binary", "categorical", "ordinal" or "continuous" for a column that can be modelled, else why it cannot:
        "identifier", "text", "date", "secret" (by its name), "constant", "empty" or "unusable"
    reason : in words, why a column cannot be modelled; empty for others
    categories : of a binary, categorical or ordinal column, those that enough rows have, sorted; none for 0 and 1
    low, high : round numbers beyond the least and the largest value of a continuous column, never these themselves
        (but 0 where nothing is negative, or nothing positive)
    decimals : digits after the point of a continuous column; None if there are more than six
    missing : whether a value was missing
    rare : whether there are categories that too few rows have, which are not named here
    text : whether the values are texts
    """

    name: str
    kind: Modelled | LeftOut
    reason: str = ""
    categories: tuple[str | int | float, ...] = ()
    low: float | None = None
    high: float | None = None
    decimals: int | None = None
    missing: bool = False
    rare: bool = False
    text: bool = False

    @property
    def usable(self) -> bool:
        """Whether the column can be modelled as it is."""
        return self.kind in get_args(Modelled)


def head(
    path: str | Path, argument: str = "table", rows: int = ROWS, *, counted: bool = True
) -> tuple[pl.DataFrame, int]:
    """Return the first rows of a .csv or .parquet file, and the number of all its rows; the rest is never loaded.

    Parameters
    ----------
    path : a table; columns of a .csv in which each of these rows has a number become numbers, others stay texts, and so
        do numbers with leading zeros (007 is not 7)
    argument : what to call the file in an error
    rows : how many, or fewer of a table with more than a hundred columns
    counted : whether all rows are counted, which takes reading a .csv once; else the number is of these rows alone

    Raises
    ------
    InputError
        If the file cannot be read, has no row, or a name stands twice.
    """
    import polars as pl

    path = existing_file(path, argument, SUFFIXES)
    csv = csv_file.opened(path, argument) if path.suffix.lower() == ".csv" else None
    if csv is not None:
        _check_header(csv.names, path, argument)

    def read() -> tuple[pl.DataFrame, int]:
        if csv is not None:
            check_names(csv.names, path, argument)
            head_rows = csv.frame(rows=min(rows, max(1, _CELLS // len(csv.names))))
            return head_rows, csv.rows if counted else head_rows.height
        lazy = pl.scan_parquet(path, glob=False)
        names = lazy.collect_schema().names()
        check_names(names, path, argument)
        wanted = min(rows, max(1, _CELLS // len(names)))
        head_rows = lazy.head(wanted).collect()
        if head_rows.height < wanted or not counted:
            return head_rows, head_rows.height
        return head_rows, int(lazy.select(pl.len()).collect().item())

    frame, total = guarded(path, argument, read)
    if not total:
        raise InputError(argument, "at least one row", f"{path.name}, which has none", "give a table with records")
    return (frame if csv is None else frame.with_columns([_typed(column) for column in frame])), total


def _check_header(names: Sequence[str], path: Path, argument: str) -> None:
    """Refuse a first row of values in the place of names; counting numbers, such as years, may be names."""
    numbers = [float(name) for name in names if re.fullmatch(r"\s*[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?\s*", name)]
    rising = all(before < after for before, after in itertools.pairwise(numbers))
    if any(not number.is_integer() for number in numbers) or (2 * len(numbers) > len(names) and not rising):
        received = f"{path.name}, whose first row holds numbers"
        raise InputError(argument, "names of the columns in the first row", received, "add that row")


def profile(frame: pl.DataFrame, rare: int = RARE) -> tuple[ColumnProfile, ...]:
    """Return what each column of a frame looks like.

    Parameters
    ----------
    frame : such as :func:`head` gives
    rare : a category that fewer rows have is not named; 1 names all, for records that are no secret

    Examples
    --------
    >>> import polars as pl
    >>> ages = [17, 90, 35, 52, 35] * 8
    >>> frame = pl.DataFrame({"age": ages, "smoker": ["yes", "no"] * 20, "key": [f"k{i}" for i in range(40)]})
    >>> age, smoker, key = profile(frame, rare=9)
    >>> (age.low, age.high, age.decimals), smoker.categories, key.kind
    ((0.0, 100.0, 0), ('no', 'yes'), 'identifier')
    """
    return tuple(_profile_of(column, rare) for column in frame)


def outward(low: float, high: float) -> tuple[float, float]:
    """Return round numbers below ``low`` and above ``high``: multiples of 1, 2 or 5 times a power of ten.

    They are never the two themselves, but for 0, where nothing is on its other side.

    Examples
    --------
    >>> outward(17, 90), outward(0, 14), outward(36.1, 40.9), outward(-3.2, 0)
    ((0.0, 100.0), (0.0, 15.0), (36.0, 42.0), (-4.0, 0.0))
    """
    least, most = Fraction(repr(float(low))), Fraction(repr(float(high)))  # as they are written: 0.6 is three times 0.2
    ten = Fraction(10) ** math.floor(math.log10((high - low) / 4))
    step = next((times * ten for times in (1, 2, 5) if 4 * times * ten >= most - least), 10 * ten)
    below, above = math.ceil(least / step) - 1, math.floor(most / step) + 1
    below, above = max(0, below) if low >= 0 else below, min(0, above) if high <= 0 else above
    return float(below * step), float(above * step)


def _typed(column: pl.Series) -> pl.Series:
    """Return a column of texts as numbers, if each of them is one; codes such as 007, and +49, stay texts."""
    import polars as pl

    if column.str.contains(r"^\s*(\+|-?0\d)").any():
        return column
    typed = cells.typed(column)
    return typed.cast(pl.Float64) if typed.dtype.is_integer() else typed


def _profile_of(column: pl.Series, rare: int) -> ColumnProfile:
    name = column.name
    if column.dtype.is_float():
        column = column.fill_nan(None)
    by_values = _of_values(name, column.drop_nulls(), rare)
    if not name.strip():
        guess = ColumnProfile(name, "unusable", "it has no name")
    elif _named_secret(name) and not (by_values.kind == "binary" and not by_values.categories):
        guess = ColumnProfile(name, "secret", "its name is that of a secret, or of what names or locates a person")
    else:
        guess = by_values
    return replace(guess, missing=column.null_count() > 0)


def _of_values(name: str, present: pl.Series, rare: int) -> ColumnProfile:
    """What the values of a column look like, none of them missing."""
    import polars as pl

    kind = present.dtype
    if present.is_empty():
        return ColumnProfile(name, "empty", "no row has a value")
    if kind.is_temporal():
        return ColumnProfile(name, "date", _DAYS)
    if kind == pl.Boolean:
        return ColumnProfile(name, "binary")
    if kind.is_numeric():
        return _of_numbers(name, present.cast(pl.Float64).to_numpy(), rare, single=kind == pl.Float32)
    if kind in (pl.String, pl.Categorical, pl.Enum):
        return _of_texts(name, present.cast(pl.String), rare)
    return ColumnProfile(name, "unusable", f"its values are of type {kind.base_type()}")


def _named_secret(name: str) -> bool:
    """Whether a word of a name, first_name or firstName, is one of those."""
    return any(_SECRET.fullmatch(word) for word in words(name)) or looks_secret(name)


def _of_numbers(name: str, values: NDArray[np.float64], rare: int, *, single: bool) -> ColumnProfile:
    """What numbers (n,) look like; ``single``: they were of single precision."""
    levels, counts = np.unique(values, return_counts=True)
    against = next(_against_numbers(values, levels), None)
    if against is not None:
        return ColumnProfile(name, *against)
    if np.isin(levels, (0, 1)).all():
        return ColumnProfile(name, "binary")
    whole = bool((levels == np.floor(levels)).all())
    if len(levels) <= _LEVELS and counts.min() >= rare:
        if whole and len(levels) > 2 and levels[-1] - levels[0] < _LEVELS:
            levels = np.arange(levels[0], levels[-1] + 1)  # also those between that no row has
        categories = tuple(int(level) if whole else float(level) for level in levels)
        return ColumnProfile(name, "binary" if len(levels) == 2 else "ordinal", categories=categories)
    low, high = outward(float(levels[0]), float(levels[-1]))
    kind = np.float32 if single else np.float64
    fits = (d for d in range(_DIGITS + 1) if (np.round(levels, d).astype(kind) == levels.astype(kind)).all())
    return ColumnProfile(name, "continuous", low=low, high=high, decimals=next(fits, None))


def _against_numbers(values: NDArray[np.float64], levels: NDArray[np.float64]) -> Iterator[tuple[LeftOut, str]]:
    """What speaks against modelling numbers (n,), of which there are these."""
    if not np.isfinite(levels).all():
        yield "unusable", "it has infinite values"
    elif np.abs(levels).max() > _LARGEST:
        yield "unusable", "it has numbers beyond 10^15"
    elif len(levels) == 1 and levels[0] not in (0, 1):
        yield "constant", _ONE
    elif (levels == np.floor(levels)).all():
        month, day = levels // 100 % 100, levels % 100
        if (
            levels[0] >= 19000101
            and levels[-1] <= 21001231
            and ((month > 0) & (month < 13) & (day > 0) & (day < 32)).all()
        ):
            yield "date", _DAYS
        if len(values) >= _FEW and len(levels) >= 0.95 * len(values):
            yield "identifier", _OWN


def _of_texts(name: str, values: pl.Series, rare: int) -> ColumnProfile:
    """What texts look like, none of them missing."""
    counts = values.alias("value").value_counts(name="rows")
    texts: pl.Series = counts["value"]
    words = _truth(texts[0])
    if set(texts.head(3)) <= set(words):
        return ColumnProfile(name, "binary", categories=words, text=True)
    against = next(_against_texts(texts, len(values)), None)
    if against is not None:
        return ColumnProfile(name, *against, text=True)
    common = sorted(counts.filter(counts["rows"] >= rare)["value"])
    if len(common) < 2:
        reason = f"no two values that {rare} rows have: declare its categories by hand"
        return ColumnProfile(name, "unusable", reason, text=True)
    kind: Modelled = "binary" if len(texts) == 2 else "categorical"
    return ColumnProfile(name, kind, categories=tuple(common), rare=len(common) < len(texts), text=True)


def _against_texts(texts: pl.Series, rows: int) -> Iterator[tuple[LeftOut, str]]:
    """What speaks against modelling texts, of which there are these in so many rows."""
    many = len(texts) > MOST
    if len(texts) == 1:
        yield "constant", _ONE
    if (texts.str.strip_chars() == "").any():
        yield "unusable", "it has empty texts: save them as missing values, or name them"
    if _share(texts, _DATE) > 0.9:
        yield "date", _DAYS
    why, step = next((reason for reason in map(cells.reason, texts) if reason[0]), ("", ""))
    if why and cells.mostly_numbers(texts):
        yield "unusable", f"numbers with {why}: {step}"
    if many and _share(texts, r"^-?[\d.,]+$") > 0.8:
        yield "unusable", "numbers beside words, or with commas: leave missing ones empty, and write 1234.5"
    if _share(texts, rf"(?s)^.{{{_LONGEST + 1}}}") or (many and _share(texts, r"\S\s+\S+\s+\S+\s+\S") > 0.5):
        yield "text", "free text"
    if rows >= _FEW and len(texts) >= 0.9 * rows:
        yield "identifier", _OWN
    if many:
        yield "text", f"more than {MOST} categories: put them into fewer first"


def _share(texts: pl.Series, pattern: str) -> float:
    """Return the share of texts in which a pattern is found."""
    return float(texts.str.contains(pattern).mean())  # type: ignore[arg-type]  # there are texts


def _truth(one: str) -> tuple[str, str]:
    """Return the words for false and true as one of them is written."""
    write = str.upper if one.isupper() else str.title if one[:1].isupper() else str.lower
    return write("false"), write("true")

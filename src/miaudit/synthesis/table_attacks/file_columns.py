"""Columns of three files made comparable: without row numbers, dates as days, true and false as numbers.

What is done to a column follows from the synthetic table and from members and control records together, never from one
of these alone. A rule for each of their files would see who is a member.
"""

# ruff: noqa: PLC0415 - polars loads when files are read
from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from miaudit.errors import InputError, nearest
from miaudit.io.cells import MARKS, is_number
from miaudit.synthesis.table_attacks.keys import is_key

if TYPE_CHECKING:
    import polars as pl

__all__ = ["SHOWN", "alike", "comparable", "named"]

SHOWN = 6  # names in a message
_DATES = ("%Y-%m-%d", "%Y/%m/%d", "%d/%m/%Y", "%m/%d/%Y", "%d.%m.%Y", "%d-%m-%Y", "%m-%d-%Y")
_TIMES = ("", " %H:%M", " %H:%M:%S", "T%H:%M:%S", " %H:%M:%S%.f", "T%H:%M:%S%.f")
_EXAMPLE = datetime(2024, 12, 31, tzinfo=UTC)
_DAY = 86_400_000_000  # microseconds
_WHERE = "the synthetic table", "members and control records"


def named(frames: dict[str, pl.DataFrame]) -> list[str]:
    """Leave out columns without a name that number the rows, as pandas writes its index; return notes.

    Raises
    ------
    InputError
        If another column has no name.
    """
    notes = []
    for argument, frame in frames.items():
        if "" not in frame.columns:
            continue
        values = frame[""].to_numpy()
        if not is_key(values, values) and frame[""].n_unique() < frame.height:
            step = "name it, or write the table without its index"
            raise InputError(argument, "a name for each column", "a column without one", step)
        frames[argument] = frame.drop("")
        notes.append(f"A column of {argument} has no name and numbers the rows. It was left out.")
    return notes


def comparable(frames: dict[str, pl.DataFrame]) -> tuple[list[str], dict[str, str]]:
    """Leave out columns in which no copy can be seen.

    These are identifiers that only the synthetic table has, columns that are empty there, and numbers of the synthetic
    table where members and control records have texts alone.

    Parameters
    ----------
    frames : of the synthetic table, members and control records, by argument; they are replaced

    Returns
    -------
    notes, and why each column was left out

    Raises
    ------
    InputError
        If members or control records lack another column of the synthetic table.
    """
    synthetic, *real = frames.values()
    reasons = {}
    for name in synthetic.columns:
        column = synthetic[name]
        if not any(name in frame.columns for frame in real) and is_key(column.to_numpy(), column.to_numpy()):
            reasons[name] = "only the synthetic table has it, and all its values differ"
        elif column.null_count() == len(column):
            reasons[name] = "it is empty in the synthetic table"
        elif column.dtype.is_numeric() and all(_is_text(frame, name) for frame in real):
            reasons[name] = "it has numbers in the synthetic table and texts in the other files; write it alike"
    frames |= {argument: frame.drop(*reasons, strict=False) for argument, frame in frames.items()}
    _check_columns(frames)
    return [f"Column {name} was left out: {why}." for name, why in reasons.items()], reasons


def _is_text(frame: pl.DataFrame, name: str) -> bool:
    """Whether a column has texts of which none is a number."""
    import polars as pl

    if name not in frame.columns or frame[name].dtype != pl.String:
        return False
    return not any(is_number(text) for text in frame[name].drop_nulls().unique() if text.lower() not in MARKS)


def _check_columns(frames: Mapping[str, pl.DataFrame]) -> None:
    """Refuse members or control records that lack a column of the synthetic table."""
    for name, frame in frames.items():
        missing = next((column for column in frames["synthetic"].columns if column not in frame.columns), None)
        if missing is not None:
            same = (column for column in frame.columns if column.strip().lower() == missing.strip().lower())
            like = next(same, None)
            step = nearest(missing, frame.columns) or f"{name} have {', '.join(frame.columns[:SHOWN])}"
            hint = f"{step}; add it, or give a schema (--schema) without it"
            hint = hint if like is None else f"did you mean {like}? Write the name alike in all three files"
            received = f"none of this name, which the synthetic table has, in {name}"
            raise InputError(missing, "a column in all three files", received, hint)


def alike(frames: dict[str, pl.DataFrame], name: str) -> list[str]:
    """Write dates of a column as days since 1970, or as seconds, and true and false as numbers where others are.

    Examples
    --------
    >>> import polars as pl
    >>> iso = pl.DataFrame({"born": ["1999-12-31", "2001-02-03"]})
    >>> frames = {"synthetic": pl.DataFrame({"born": ["31/12/1999"]}), "members": iso, "nonmembers": iso}
    >>> print(*alike(frames, "born"))  # doctest: +NORMALIZE_WHITESPACE
    Column born holds dates, which count in days. The files write them differently: 31/12/2024 in the synthetic table
    and 2024-12-31 in members and control records.
    >>> frames["synthetic"]["born"].to_list(), frames["members"]["born"].to_list()
    ([10956], [10956, 11356])

    Returns
    -------
    list of notes; the frames are replaced
    """
    import polars as pl

    for argument, frame in frames.items():
        if frame[name].dtype in (pl.Categorical, pl.Enum):
            frames[argument] = frame.with_columns(pl.col(name).cast(pl.String))
    columns = [frame[name] for frame in frames.values()]
    if any(column.dtype == pl.Boolean for column in columns) and any(column.dtype.is_numeric() for column in columns):
        for argument, column in zip(frames, columns, strict=True):
            if column.dtype == pl.Boolean:
                frames[argument] = frames[argument].with_columns(column.cast(pl.Int64))
        return []
    return _dated(frames, name, columns) or _emptied(frames, name)


def _emptied(frames: dict[str, pl.DataFrame], name: str) -> list[str]:
    """Empty the cells with a text such as NA, where the other side leaves cells empty and has no such text."""
    import polars as pl

    if any(frame[name].dtype != pl.String for frame in frames.values()):
        return []
    own, real = frames["synthetic"][name], pl.concat([frames[key][name] for key in ("members", "nonmembers")])
    first, second = _marked(own), _marked(real)
    sides = ((first, own, second, real, ("synthetic",)), (second, real, first, own, ("members", "nonmembers")))
    for marks, column, others, other, arguments in sides:
        if marks and not others and other.null_count() and not column.null_count():
            for argument in arguments:
                empty = pl.when(pl.col(name).is_in(marks)).then(None).otherwise(pl.col(name)).alias(name)
                frames[argument] = frames[argument].with_columns(empty)
            where = " and ".join(arguments)
            return [f"Column {name}: {', '.join(marks)} in {where} counts as missing, as empty cells elsewhere do."]
    return []


def _marked(column: pl.Series) -> list[str]:
    return sorted(text for text in column.drop_nulls().unique() if text.strip().lower() in MARKS)


def _dated(frames: dict[str, pl.DataFrame], name: str, columns: Sequence[pl.Series]) -> list[str]:
    import polars as pl

    if not all(column.dtype == pl.String or isinstance(column.dtype, pl.Date | pl.Datetime) for column in columns):
        return []
    of_synthetic, *of_real = (_unmarked(column) for column in columns)
    written = _ways(of_synthetic), _ways(pl.concat(of_real, how="vertical") if _one_type(of_real) else of_real[0])
    if not (written[0] and written[1] and _one_type(of_real)):
        return []
    both = [way for way in written[0] if way in written[1]]
    first, second = (both[0], both[0]) if both else (written[0][0], written[1][0])
    if not both and max(map(len, written)) > 1:
        return []  # 03/04/2024 is a day of March, or of April
    moments = [_moments(of_synthetic, first), *(_moments(column, second) for column in of_real)]
    whole = all(((moment % _DAY) == 0).all() for moment in moments)
    for argument, moment in zip(frames, moments, strict=True):
        numbers = (moment // _DAY) if whole else moment / 1e6
        frames[argument] = frames[argument].with_columns(numbers.alias(name))
    unit = "days" if whole else "seconds"
    differ = ""
    if first != second:
        ways = zip((first, second), _WHERE, strict=True)
        examples = (f"{_EXAMPLE.strftime(way.removesuffix('%.f'))} in {where}" for way, where in ways)
        differ = f" The files write them differently: {' and '.join(examples)}."
    return [f"Column {name} holds dates, which count in {unit}.{differ}"]


def _one_type(columns: Sequence[pl.Series]) -> bool:
    return all(column.dtype == columns[0].dtype for column in columns)


def _is_typed(column: pl.Series) -> bool:
    import polars as pl

    return column.dtype != pl.String


def _unmarked(column: pl.Series) -> pl.Series:
    """Return texts without blanks around them, and without marks of missing values."""
    if _is_typed(column):
        return column
    bare = column.str.strip_chars()
    return bare.set(bare.str.to_lowercase().is_in([*MARKS, ""]), None)


def _ways(column: pl.Series) -> list[str]:
    """Return the ways of writing dates by which all texts can be read, one of those that give the same dates."""
    if _is_typed(column):
        return [_DATES[0]]
    texts = column.drop_nulls().unique()
    ways: list[str] = []
    for way in (date + time for date in _DATES for time in _TIMES if len(texts)):
        if _read(texts.head(1), way).null_count() or _read(texts, way).null_count():
            continue
        if not any(_read(texts, one).equals(_read(texts, way)) for one in ways):
            ways.append(way)
    return ways


def _read(texts: pl.Series, way: str) -> pl.Series:
    import polars as pl

    return texts.str.strptime(pl.Datetime("us"), way, strict=False, exact=True)


def _moments(column: pl.Series, way: str) -> pl.Series:
    """Return microseconds since 1970."""
    import polars as pl

    dates = column.cast(pl.Datetime("us")) if _is_typed(column) else _read(column, way)
    return dates.dt.timestamp("us")

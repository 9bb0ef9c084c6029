"""Named columns in and out of .npz, .parquet and .csv files, and single arrays of .npy files.

Nothing here knows what a column means. Nothing is ever unpickled, and a file that cannot be read gives one line that
says why. Files are written under a temporary name and renamed, so a killed process leaves no half of one.
"""

from __future__ import annotations

import json
import math
import re
import subprocess
import sys
import tokenize
import zipfile
import zlib
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from functools import lru_cache
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from miaudit.errors import InputError, nearest
from miaudit.errors.entry_points import Offered
from miaudit.io import cells, content, csv_file, numeric
from miaudit.io.atomic import write_atomically as write_atomically  # noqa: PLC0414 - its callers find it here
from miaudit.io.secret_names import looks_secret

if TYPE_CHECKING:
    import polars as pl

_NPY = b"\x93NUMPY"
_LARGE = 200_000_000  # an array below this may be as compressed as it likes
_SMALL = 20_000_000  # bytes of a file that is tried as a whole
_TRIAL = """
import json, sys
sys.path[:] = json.loads(sys.argv[4])
import polars as pl
try:
    found, names = pl.scan_parquet(sys.argv[1], glob=False), json.loads(sys.argv[2])
    if names is None and sys.argv[3] == "False":
        found.collect_schema()
    else:
        (found if names is None else found.select(names)).collect()
except BaseException as error:
    print((str(error).splitlines() or [type(error).__name__])[0][:200])
    sys.exit(3)
"""
_RATIO = 200  # bombs grow a thousandfold
# What numpy and zipfile raise for damaged files, and for files that were made to be damaged.
DAMAGED = (
    *(OSError, EOFError, KeyError, zipfile.BadZipFile, zlib.error, NotImplementedError, RuntimeError),
    *(SyntaxError, TypeError, MemoryError, OverflowError, tokenize.TokenError),
)


@dataclass(frozen=True)
class Format:
    """Reader and writer of a table format, from an entry point in ``miaudit.formats`` named by the ending.

    Attributes
    ----------
    read : function of a path; returns columns by name, arrays (n,) or (n, k)
    write : function of a path and of columns by name
    """

    read: Callable[[Path], Mapping[str, ArrayLike]]
    write: Callable[[Path, Mapping[str, NDArray[Any]]], None]


# By ending, as entry points name it too; those that are built in are read and written below.
FORMATS: Offered[Format | None] = Offered("miaudit.formats", Format, dict.fromkeys((".npz", ".parquet", ".csv")))


def existing_file(path: str | Path, argument: str, suffixes: Collection[str]) -> Path:
    """Return the path of a readable file with one of the suffixes, or raise with the problem."""
    path = Path(path)
    if path.is_dir():
        raise InputError(argument, f"a file ({', '.join(suffixes)})", f"the directory {path}", "name a file inside it")
    if not path.is_file():
        what = "is no plain file" if path.exists() else "does not exist"
        raise InputError(argument, "an existing file", f"{path}, which {what}", "check the spelling and the folder")
    require_suffix(path, argument, suffixes)
    content.refuse_other(path, argument)
    return path


def require_suffix(path: str | Path, argument: str, suffixes: Collection[str]) -> Path:
    """Return the path if its name ends in one of the suffixes, else raise with the possible ones."""
    path = Path(path)
    if path.suffix.lower() not in suffixes:
        raise InputError(
            argument, f"a name ending in {' or '.join(suffixes)}", f"{path.name!r}", "use one of these formats"
        )
    return path


def read_array(path: str | Path, argument: str) -> NDArray[Any]:
    """Read one array from a .npy file without unpickling.

    Raises
    ------
    InputError
        If the file is missing, truncated, no .npy file, or holds Python objects.
    """
    path = existing_file(path, argument, (".npy",))
    try:
        with path.open("rb") as handle:
            if handle.read(len(_NPY)) == _NPY:  # else numpy says what it is
                handle.seek(0)
                read_header(handle, path.stat().st_size)
        loaded = np.load(path, allow_pickle=False)
    except (ValueError, *DAMAGED) as error:
        raise unreadable(path, argument, error) from error
    if not isinstance(loaded, np.ndarray):
        loaded.close()
        raise InputError(argument, "one array (.npy)", f"an archive named {path.name}", "rename it to .npz")
    return loaded


def column_names(path: str | Path, argument: str = "file") -> list[str]:
    """Return the names of the arrays of an .npz, or of the columns of a .parquet or .csv file."""
    path = existing_file(path, argument, FORMATS)
    if other := FORMATS[path.suffix.lower()]:
        names = list(_elsewhere(other, path, argument))
    elif path.suffix.lower() == ".npz":
        try:
            with zipfile.ZipFile(path) as archive:
                names = [name.removesuffix(".npy") for name in archive.namelist()]
        except (ValueError, *DAMAGED) as error:
            raise unreadable(path, argument, error) from error
    elif path.suffix.lower() == ".csv":
        names = list(csv_file.opened(path, argument).names)
    else:
        names = guarded(path, argument, lambda: list(_parquet(path).collect_schema().names()))
    check_names(names, path, argument)
    return names


def check_names(names: Sequence[str], path: Path, argument: str) -> None:
    """Refuse a table in which a name stands twice."""
    twice = next((name for name in names if names.count(name) > 1), None) if len(set(names)) < len(names) else None
    if twice is not None:
        received = f"{path.name}, where {'a name' if looks_secret(twice) else repr(twice)} stands twice"
        raise InputError(argument, "columns with names of their own", received, "rename one: only one would be read")


def read_columns(
    path: str | Path,
    names: Iterable[str],
    argument: str = "file",
    as_text: Iterable[str] = (),
    gaps: Collection[str] = (),
) -> dict[str, NDArray[Any]]:
    """Read the named columns; lists of equal length become two-dimensional arrays.

    Parameters
    ----------
    path : path of an .npz, .parquet or .csv file
    names : iterable of str
        Columns (arrays of an .npz) to read; no other is touched.
    argument : str
        What to call the file in an error.
    as_text : iterable of str
        Columns of a .csv that are labels: read as text, so that "007" stays distinct from "7".
    gaps : collection of str
        Columns that may hold empty rows, NaN or "" then, and dates, days since 1970 then (:func:`numeric.days`).

    Raises
    ------
    InputError
        If the file cannot be read or a column is missing; a near name is suggested.
    """
    path, wanted = _with_columns(path, names, argument)
    if other := FORMATS[path.suffix.lower()]:
        columns = _elsewhere(other, path, argument)
        return {name: columns[name] for name in wanted}
    if path.suffix.lower() == ".npz":
        return {name: _dated(_read_member(path, name), name, gaps) for name in wanted}
    frame = _frame(path, argument, wanted)
    if path.suffix.lower() == ".csv":
        text = set(as_text)
        typed_columns = [column if column.name in text else cells.typed(column) for column in frame]
        for column, values in zip(frame, typed_columns, strict=True):
            if column.name not in gaps:
                cells.refuse_missing(column, values)
        frame = frame.with_columns(typed_columns)
    return {name: _dated(to_numpy(frame[name], gaps=name in gaps), name, gaps) for name in wanted}


def read_frame(path: str | Path, names: Iterable[str], argument: str = "file") -> pl.DataFrame:
    """Return the named columns of a .parquet or .csv file, null where a value is missing; else as read_columns."""
    path, wanted = _with_columns(path, names, argument)
    frame = _frame(path, argument, wanted)
    return frame.with_columns(map(cells.typed, frame)) if path.suffix.lower() == ".csv" else frame


def _frame(path: Path, argument: str, wanted: Sequence[str]) -> pl.DataFrame:
    """Return columns of a .parquet as they are, those of a .csv as texts."""
    if path.suffix.lower() == ".csv":
        table = csv_file.opened(path, argument)
        return guarded(path, argument, lambda: table.frame(wanted))  # type: ignore[no-any-return]
    return guarded(path, argument, lambda: _parquet(path).select(wanted).collect(), wanted)  # type: ignore[no-any-return]


def _with_columns(path: str | Path, names: Iterable[str], argument: str) -> tuple[Path, list[str]]:
    """Return the path of a table and the names asked for, each once, or refuse one that it does not have."""
    path = existing_file(path, argument, FORMATS)
    wanted = list(dict.fromkeys(names))
    known = column_names(path, argument)
    shown = [name for name in known if not looks_secret(name)]
    for name in wanted:
        if name not in known:
            hint = nearest(name, shown) or f"it has {', '.join(shown[:12]) or 'none'}{', ...' * (len(known) > 12)}"
            if len(known) == 1 and name in (parts := re.split(r"[\s:;|]+", known[0])) and len(parts) > 1:
                hint = "its columns are not separated by commas: save it with commas"
            elif (bare := [one for one in known if one.strip() == name.strip()]) and name not in known:
                hint = f"its name has blanks around it: {bare[0]!r}"
            raise InputError(name, f"a column of {path.name}", "a name that is not there", hint)
    return path, wanted


def frame_names(frame: Any) -> list[str]:
    """Return the names of the columns of a data frame of pandas, polars or arrow.

    Raises
    ------
    InputError
        If it is no such frame, or a name stands twice.
    """
    kind = type(frame).__module__.split(".")[0]
    if kind == "polars" and hasattr(frame, "collect_schema"):
        names = frame.collect_schema().names()
    elif kind == "pandas" and hasattr(frame, "columns"):
        names = [str(name) for name in frame.columns]
    elif kind == "pyarrow" and hasattr(frame, "column_names"):
        names = frame.column_names
    else:
        received = f"a {type(frame).__name__}"
        allowed = "a data frame of pandas, polars or arrow"
        raise InputError("frame", allowed, received, "or pass arrays to Evidence(...)")
    twice = {name for name in names if names.count(name) > 1}
    if twice:
        raise InputError("frame", "columns with names of their own", f"{min(twice)!r} twice", "rename one")
    return list(names)


def frame_columns(frame: Any, names: Iterable[str], gaps: Collection[str] = ()) -> dict[str, NDArray[Any]]:
    """Return the named columns of a data frame as arrays; lists of equal length become two-dimensional ones.

    Parameters
    ----------
    frame, names, gaps : as in :func:`frame_names` and :func:`read_columns`

    Raises
    ------
    InputError
        If a column is missing, or holds Python objects or empty values.
    """
    import polars as pl

    wanted, known = list(dict.fromkeys(names)), frame_names(frame)
    for name in wanted:
        if name not in known:
            hint = nearest(name, known) or f"it has {', '.join(known[:12])}"
            raise InputError(name, "a column of the frame", "a name that is not there", hint)
    kind = type(frame).__module__.split(".")[0]
    if kind == "polars":
        chosen = frame.lazy().select(wanted).collect()
    elif kind == "pyarrow":
        chosen = pl.DataFrame(frame.select(wanted))
    else:
        by_text = {str(name): frame[name] for name in frame.columns}
        chosen = pl.DataFrame([_from_pandas(name, by_text[name], gaps=name in gaps) for name in wanted])
    return {name: _dated(to_numpy(chosen[name], gaps=name in gaps), name, gaps) for name in wanted}


def _from_pandas(name: str, column: Any, *, gaps: bool) -> pl.Series:
    """Return a column of pandas without arrow, which may not be installed."""
    import polars as pl

    empty = column.isna().to_numpy()
    if empty.any() and (not gaps or empty.all()):
        raise InputError(name, "a value in every row", f"{int(empty.sum())} empty rows", "fill or drop them")
    values = column.to_numpy()
    if values.dtype.kind in "biuf":
        return pl.Series(name, values)
    if values.dtype.kind == "M" and gaps:
        return pl.Series(name, values.astype("datetime64[ms]"))
    plain = [None if gap else value for value, gap in zip(column.tolist(), empty, strict=True)]
    there = [value for value in plain if value is not None]
    if all(isinstance(value, str) for value in there):
        return pl.Series(name, plain, dtype=pl.String)
    if all(isinstance(value, bool | int | float) for value in there):
        return pl.Series(name, plain, strict=False)
    if gaps and all(isinstance(value, date) for value in there):
        return pl.Series(name, plain)
    raise InputError(name, "numbers, true/false or text", f"Python objects ({column.dtype})", "convert it first")


def write_columns(path: str | Path, columns: Mapping[str, NDArray[Any]]) -> None:
    """Write named columns to an .npz, .parquet or .csv file, chosen by its ending.

    Two-dimensional columns become list columns in .parquet; a .csv cannot hold them.
    """
    path = require_suffix(path, "path", FORMATS)
    suffix = path.suffix.lower()
    if other := FORMATS[suffix]:
        of_package = other.write
        return write_atomically(path, lambda target: of_package(target, columns))
    if suffix == ".npz":

        def write(target: Path) -> None:
            with target.open("wb") as handle:
                np.savez(handle, allow_pickle=False, **columns)

        return write_atomically(path, write)
    import polars as pl

    # polars does not read back what it wrote of the first; the reader takes blanks off
    odd = [name for name in columns if '"' in name or name != name.strip()] if suffix == ".csv" else []
    if odd:
        expected = "names without quotation marks or blanks around them, for .csv"
        raise InputError("name", expected, repr(odd[0]), "save to .npz or .parquet")
    try:
        frame = pl.DataFrame({name: _series(name, values) for name, values in columns.items()})
    except UnicodeEncodeError:
        received = f"half of one (a lone surrogate), which {suffix} cannot hold"
        raise InputError("path", "texts of whole characters", received, "correct it, or save to .npz") from None
    return write_atomically(path, writer(frame, suffix))


def writer(frame: pl.DataFrame, suffix: str) -> Callable[[Path], None]:
    """Return what writes a frame to a .csv or .parquet file."""
    if suffix != ".csv":
        return frame.write_parquet
    # The only cell of a row is quoted where it is empty: its line would be empty, which readers leave out.
    alone = frame.width == 1 and bool(frame.to_series().null_count())
    return lambda target: frame.write_csv(target, quote_style="always" if alone else "necessary")


def _elsewhere(other: Format, path: Path, argument: str) -> dict[str, NDArray[Any]]:
    """The columns of a file that another package reads."""
    try:
        columns = {str(name): np.asarray(values) for name, values in other.read(path).items()}
    except Exception as error:  # whatever that package raises
        raise unreadable(path, argument, error) from error
    for name, values in columns.items():
        if values.dtype.kind not in "biufU":
            raise InputError(name, "numbers, true/false or text", f"values of type {values.dtype}", "convert it first")
    return columns


def _read_member(path: Path, name: str) -> NDArray[Any]:
    try:
        with zipfile.ZipFile(path) as entries:
            _check_entry(entries, name)
        with np.load(path, allow_pickle=False) as archive:
            values = archive[name]
    except ValueError as error:
        if "allow_pickle" in str(error) or "Object arrays" in str(error):
            raise InputError(
                name,
                "an array of numbers or text",
                f"an array of Python objects in {path.name}",
                "objects are never unpickled: save it with a plain dtype, for example values.astype(float)",
            ) from error
        raise unreadable(path, name, error) from error
    except DAMAGED as error:
        raise unreadable(path, name, error) from error
    if not isinstance(values, np.ndarray):  # numpy hands out the bytes of a member that is no array
        raise InputError(name, "an array", f"a member of {path.name} that is none", "write it with numpy.savez")
    return values


def _check_entry(entries: zipfile.ZipFile, name: str) -> None:
    """Refuse an array that would expand disproportionately, or that the file cannot hold."""
    by_name = {entry.filename: entry for entry in entries.infolist()}
    entry = by_name.get(f"{name}.npy") or by_name.get(name)
    if entry is None:
        return  # numpy says so
    if entry.file_size > _LARGE and entry.file_size > _RATIO * max(1, entry.compress_size):
        raise ValueError(f"{name} would grow from {entry.compress_size:,} to {entry.file_size:,} bytes")
    with entries.open(entry) as handle:
        if handle.read(len(_NPY)) != _NPY:
            return
    with entries.open(entry) as handle:
        read_header(handle, entry.file_size)


def read_header(handle: IO[bytes], size: int) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    """Read a header, and refuse one that promises more numbers than the file holds, before numpy allocates them."""
    version = np.lib.format.read_magic(handle)
    read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    shape, by_column, dtype = read(handle)
    promised = math.prod(shape) * dtype.itemsize
    if promised > size and not dtype.hasobject:  # numpy refuses to unpickle, and its words are known further up
        raise ValueError(f"the header promises {promised:,} bytes, and the file holds {size:,}")
    return shape, by_column, dtype


def unreadable(path: Path, argument: str, error: BaseException) -> InputError:
    """Return the error for a file that its reader refused."""
    detail = str(error)
    if "allow_pickle" in detail or "Object arrays" in detail or "pickled" in detail:
        return InputError(
            argument,
            "an array of plain numbers",
            f"{path.name}, which holds pickled Python objects or no array at all",
            "objects are never unpickled: save it again with numpy.save and a plain dtype",
        )
    first = detail.splitlines()[0][:120] if detail else type(error).__name__
    return InputError(
        argument,
        f"a complete {path.suffix} file",
        f"{path.name}, which cannot be read ({first})",
        "it may be truncated or of another format: write it again",
    )


def _parquet(path: Path) -> pl.LazyFrame:
    import polars as pl

    return pl.scan_parquet(path, glob=False)


def refuse_damaged(path: Path, argument: str, names: Sequence[str] | None = None) -> None:
    """Refuse a .parquet file that crashes its reader, by a trial in another process.

    polars panics on some damaged files, with a backtrace on standard error, and on others ends the process for want of
    memory that a damaged length asked for: no error of Python's says so then.

    Parameters
    ----------
    path, argument : as :func:`existing_file`
    names : columns to read; None for the schema alone, or for all of a small file

    Raises
    ------
    InputError
        If that process cannot read it.
    """
    if path.suffix.lower() == ".parquet" and sys.executable:
        status = path.stat()
        wanted = None if names is None or status.st_size < _SMALL else tuple(names)
        problem = _trial(str(path.absolute()), status.st_size, status.st_mtime_ns, wanted)
        if problem:
            raise unreadable(path, argument, ValueError(problem))


@lru_cache(maxsize=256)
def _trial(path: str, size: int, _changed: int, names: tuple[str, ...] | None) -> str:
    """Return the problem of a file in one line; empty if it can be read."""
    words = [sys.executable, "-I", "-c", _TRIAL, path, json.dumps(names), str(size < _SMALL), json.dumps(sys.path)]
    ran = subprocess.run(words, capture_output=True, stdin=subprocess.DEVNULL, check=False)  # noqa: S603 - our words
    if ran.returncode < 0:
        return f"its reader was ended by signal {-ran.returncode}"
    lines = ran.stdout.decode(errors="replace").splitlines()
    return lines[0] if ran.returncode == 3 and lines else ""


def guarded(path: Path, argument: str, read: Callable[[], Any], names: Sequence[str] | None = None) -> Any:
    """Return what a reader of polars gives, or raise with the problem; ``names`` as :func:`refuse_damaged`."""
    import polars.exceptions as errors

    refuse_damaged(path, argument, names)
    try:
        return read()
    except (errors.PolarsError, errors.PanicException, OSError, ValueError) as error:
        raise unreadable(path, argument, error) from error


def to_numpy(column: pl.Series, *, gaps: bool = False) -> NDArray[Any]:
    """Return a column as an array, or refuse empty rows; with ``gaps`` they are NaN or ""."""
    import polars as pl

    name = column.name
    if gaps and isinstance(column.dtype, pl.Date | pl.Datetime):
        return column.dt.timestamp("ms").cast(pl.Datetime("ms")).to_numpy()  # of UTC; null becomes NaT
    if gaps:
        column = _with_gaps(column)
    if isinstance(column.dtype, pl.List | pl.Array):
        return _lists_to_numpy(column)
    if column.dtype == pl.Object:
        raise InputError(name, "numbers or text", "Python objects", "save plain values")
    if column.null_count():
        if column.dtype.is_float():
            return column.to_numpy()  # nulls become NaN and are refused where finite numbers are needed
        step = "fill or drop them" if column.null_count() < len(column) else "it says nothing: leave the column out"
        received = f"{column.null_count():,} empty rows, the first in row {int(column.is_null().arg_true()[0])}"
        raise InputError(name, "a value in every row", received, step)
    if column.dtype in (pl.String, pl.Categorical, pl.Enum):
        return np.asarray(column.cast(pl.String).to_list(), dtype=np.str_)
    if column.dtype == pl.Int128:  # numpy has no such type; what fits one that it has is as good
        column = _narrowed(column)
    values = column.to_numpy()
    if values.dtype.kind not in "biufU":
        raise InputError(name, "numbers, true/false or text", f"a column of type {column.dtype}", "convert it first")
    return values


def _with_gaps(column: pl.Series) -> pl.Series:
    """Return empty texts as "" and empty numbers as NaN."""
    import polars as pl

    if not 0 < column.null_count() < len(column):
        return column
    if column.dtype in (pl.String, pl.Categorical, pl.Enum):
        return column.cast(pl.String).fill_null("")
    if column.dtype != pl.Boolean and not column.dtype.is_integer():
        return column
    numbers, known = column.cast(pl.Float64), column.drop_nulls()
    if column.dtype.is_integer():
        numeric.refuse_rounding(known.to_numpy(), numbers.drop_nulls().to_numpy(), column.name)
    return numbers


def _dated(values: NDArray[Any], name: str, gaps: Collection[str]) -> NDArray[Any]:
    """Return the dates (n,) of a column that may hold some as days."""
    return numeric.days(values, name) if name in gaps and values.dtype.kind == "M" else values


def _narrowed(column: pl.Series) -> pl.Series:
    import polars as pl

    for kind in (pl.Int64, pl.UInt64):
        narrow = column.cast(kind, strict=False)
        if not narrow.null_count():
            return narrow
    received = f"a column of type {column.dtype} with values beyond 64 bits"
    raise InputError(column.name, "numbers, true/false or text", received, "convert it first")


def _lists_to_numpy(column: pl.Series) -> NDArray[Any]:
    import polars as pl

    lists = column.arr.to_list() if isinstance(column.dtype, pl.Array) else column
    lengths = lists.list.len()
    if column.null_count() or lengths.n_unique() > 1:
        allowed, next_step = "a list of the same length in every row", "pad the lists or split the column"
        raise InputError(column.name, allowed, "lists of unequal length", next_step)
    width = int(lengths[0]) if len(lists) else 0
    return to_numpy(lists.explode()).reshape(len(lists), width) if width else np.empty((len(lists), 0))


def _series(name: str, values: NDArray[Any]) -> pl.Series:
    import polars as pl

    if values.ndim == 2:
        return pl.Series(name, values, dtype=pl.Array(pl.Float64, values.shape[1]))
    if values.dtype.kind == "U":
        return pl.Series(name, values.tolist(), dtype=pl.String)
    return pl.Series(name, values)

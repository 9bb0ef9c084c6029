"""A .csv file of a stranger: read with as many rows as Python's csv module finds, or refused with a line number.

polars reads large files fast, and reads another number of rows than Python where a quotation mark stands inside a cell,
a line is empty, or a line ends too early. So the bytes are checked first. A file of one plain structure goes to polars.
A file with quotation marks inside cells goes through Python's csv module. Every other file is refused.
"""

from __future__ import annotations

import csv
import io
import itertools
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from miaudit.errors import InputError
from miaudit.io import cells
from miaudit.io.content import START

if TYPE_CHECKING:
    import polars as pl

__all__ = ["CsvFile", "opened"]

_BOM = b"\xef\xbb\xbf"
_BLOCK = 1 << 24
_ROWS = 1000  # that say which columns hold numbers
_LONGEST = 1 << 20  # bytes of a first row
_QUOTE, _COMMA, _LINE, _RETURN = b'",\n\r'
_SIGNS = {";": "';'", "\t": "a tab", "|": "'|'"}


@dataclass(frozen=True)
class CsvFile:
    """A file whose structure was checked.

    Attributes
    ----------
    path : of the file
    names : of its columns, without the blanks around them
    rows : records, without the first row
    plain : whether polars reads it as Python's csv module does; else Python reads it
    """

    path: Path
    names: tuple[str, ...]
    rows: int
    plain: bool

    def frame(self, names: Iterable[str] | None = None, rows: int | None = None) -> pl.DataFrame:
        """Return columns, all of them by default, as text: null where a cell is empty.

        Parameters
        ----------
        names : of columns, each once in the file
        rows : the first ones only
        """
        import polars as pl

        places = [self.names.index(name) for name in (self.names if names is None else names)]
        if not self.plain:
            taken: list[list[str]] = [[] for _ in places]
            for number, (_, row) in enumerate(_rows(self.path)):
                if number > (self.rows if rows is None else rows):
                    break
                if number:
                    for column, place in zip(taken, places, strict=True):
                        column.append(row[place])
            text = (pl.Series(self.names[i], column, dtype=pl.String) for i, column in zip(places, taken, strict=True))
            return pl.DataFrame([column.replace("", None) for column in text])
        lazy = pl.scan_csv(self.path, glob=False, infer_schema=False)
        own = lazy.collect_schema().names()  # polars renames columns of one name
        lazy = lazy.select([pl.col(own[place]).alias(self.names[place]) for place in places])
        # Empty lines may end a table of several columns. polars would make a row of each.
        return lazy.head(self.rows if rows is None else min(rows, self.rows)).collect()


def opened(path: Path, argument: str) -> CsvFile:
    """Check the structure of an existing .csv file.

    Raises
    ------
    InputError
        With the number of the line, where a quotation mark is left open or followed by text, a row has more or fewer
        cells than the first one, a line is empty, a byte is no UTF-8, or a name stands twice; and for other separators.
    """
    status = path.stat()
    try:
        return _checked(str(path.absolute()), status.st_size, status.st_mtime_ns)
    except InputError as error:
        raise InputError(argument, error.allowed, error.received, error.next_step) from error
    except OSError as error:
        raise InputError(argument, "a file that can be read", f"{path.name} ({error})", "check its rights") from error


@lru_cache(maxsize=64)
def _checked(name: str, _size: int, _changed: int) -> CsvFile:
    path = Path(name)
    names = _header(path)
    try:
        counted = _counted(path, len(names))
        if counted.spread:
            _python_rows(path, names)
        return CsvFile(path, names, counted.rows - 1, plain=True)
    except _OtherwiseError:
        return CsvFile(path, names, _python_rows(path, names), plain=False)
    except _LineError as error:
        raise _refused(path, *error.args) from None


class _LineError(Exception):
    """A problem of one place: its offset in bytes, what is there, and what to do."""


class _OtherwiseError(Exception):
    """What polars would not read as Python does."""


# -- the first row -----------------------------------------------------------------------------------------------------


def _header(path: Path) -> tuple[str, ...]:
    """Return the names in the first row, or refuse what is none, and other separators."""
    with path.open("rb") as handle:
        start = handle.read(_LONGEST)
    if b"\0" in start[:START]:
        raise _refused(path, start.index(b"\0"), "a NUL character", "write it again as UTF-8 text")
    text = start.removeprefix(_BOM).decode("utf-8", errors="replace")
    lines = re.split(r"\r\n|\n|\r", text, maxsplit=2)
    if not text.strip():
        raise InputError("file", "a complete .csv file", f"{path.name}, which is empty", "write it again")
    if lines[0].startswith("#") and lines[0].count(",") < "".join(lines[1:2]).count(","):
        raise _at(path, 1, "a comment, in the place of names", "delete the lines above the names")
    _check_separator(path, lines)
    try:
        row = next(csv.reader(io.StringIO(text, newline=""), strict=True))
    except csv.Error as error:
        raise _refused(path, 0, "text after a quotation mark, or one that nothing closes", _QUOTES) from error
    if not row:
        raise _refused(path, 0, *_empty(2))
    return tuple(name.strip() for name in row)


def _check_separator(path: Path, lines: Sequence[str]) -> None:
    """Refuse columns that another sign than the comma separates."""
    first, second = lines[0], next((line for line in lines[1:] if line), "")
    if named := re.fullmatch(r"\"?sep=(.)\"?", first):
        sign = named[1]
        if sign == ",":
            raise _at(path, 1, "sep=, in the place of names", "delete that line")
    else:
        sign = max(_SIGNS, key=first.count)
        some = first.count(sign)
        fewer = first.count(",") < some and (not second or second.count(sign) == some)
        if not some or not fewer or not first.replace("\t", "").isprintable():
            return
    received = f"{path.name}, whose columns are separated by {_SIGNS.get(sign, repr(sign))}"
    raise InputError("file", "columns separated by commas", received, "save it with commas, and points in numbers")


# -- the rows ----------------------------------------------------------------------------------------------------------


def _counted(path: Path, width: int) -> _Bytes:
    """Count the rows of a file of plain structure, the first one too, by its bytes.

    Raises
    ------
    _OtherwiseError
        Where a quotation mark stands inside a cell, or a line ends with a carriage return alone.
    _LineError
        For a row of another width, an empty line, and what is no UTF-8.
    """
    state = _Bytes(width)
    with path.open("rb") as handle:
        if handle.read(len(_BOM)) != _BOM:
            handle.seek(0)
        state.offset = handle.tell()
        block = handle.read(_BLOCK)
        while block:
            # one byte more, which says whether a quotation mark at the end of a block is followed by another
            following = handle.read(_BLOCK)
            state.take(block, following[:1])
            block = following
    state.end()
    return state


class _Bytes:
    """What was counted of the bytes so far."""

    def __init__(self, width: int) -> None:
        self.width, self.rows, self.offset = width, 0, 0
        self.spread = False  # whether a cell has several lines
        self._quoted = False  # whether the last byte is inside quotation marks
        self._commas = 0  # of the row that was begun
        self._length = 0  # its bytes
        self._before = _LINE  # the last byte
        self._rest = b""  # of a character that was begun
        self._empty: int | None = None  # offset of an empty line, after which nothing may follow
        self._began = 0  # offset of the row

    def take(self, block: bytes, following: bytes) -> None:
        """Count the next bytes; ``following`` is the first one after them."""
        self._check_characters(block)
        data = np.frombuffer(block, dtype=np.uint8)
        quotes = np.flatnonzero(data == _QUOTE)
        if len(quotes):
            self._check_quotes(data, quotes, following)
        marks = np.flatnonzero((data == _COMMA) | (data == _LINE))
        if len(quotes) or self._quoted:
            inside = (np.searchsorted(quotes, marks) + self._quoted) & 1
            self.spread = self.spread or bool((data[marks[inside == 1]] == _LINE).any())
            marks = marks[inside == 0]
        self._check_returns(block, data, quotes, following)
        self._count(data, marks)
        self._quoted ^= bool(len(quotes) & 1)
        self._before = block[-1]
        self.offset += len(block)

    def end(self) -> None:
        """Count the last row, which may end without a line break."""
        if self._rest:
            raise _LineError(self.offset - len(self._rest), *_ENCODING)
        if self._quoted:
            raise _OtherwiseError
        if self._length:
            self._row(self._commas, self._began)

    def _row(self, commas: int, offset: int) -> None:
        self.rows += 1
        if self._empty is not None:
            raise _LineError(self._empty, *_empty(self.width))
        if commas != self.width - 1:
            raise _LineError(offset, *_uneven(commas + 1, self.width))

    def _check_characters(self, block: bytes) -> None:
        if (place := block.find(0)) >= 0:
            raise _LineError(self.offset + place, "a NUL character", "write it again as UTF-8 text")
        if not self._rest and block.isascii():
            return
        text = self._rest + block
        try:
            text.decode("utf-8")
            self._rest = b""
        except UnicodeDecodeError as error:
            if error.reason != "unexpected end of data":
                raise _LineError(self.offset - len(self._rest) + error.start, *_ENCODING) from None
            self._rest = text[error.start :]

    def _check_quotes(self, data: NDArray[np.uint8], quotes: NDArray[np.intp], following: bytes) -> None:
        """Refuse to leave quotation marks to polars that neither begin nor end a cell."""
        padded = np.concatenate([[self._before], data, [following[0] if following else _LINE]])
        before, after = padded[quotes], padded[quotes + 2]
        closing = (np.arange(len(quotes)) + self._quoted) % 2 == 1
        ends = np.array([_COMMA, _LINE, _RETURN, _QUOTE], dtype=np.uint8)
        if not (np.isin(before[~closing], ends).all() and np.isin(after[closing], ends).all()):
            raise _OtherwiseError

    def _check_returns(self, block: bytes, data: NDArray[np.uint8], quotes: NDArray[np.intp], following: bytes) -> None:
        """Find a carriage return that ends a line alone."""
        if block.count(b"\r") == block.count(b"\r\n"):
            return
        returns = np.flatnonzero(data == _RETURN)
        inside = (np.searchsorted(quotes, returns) + self._quoted) & 1
        after = np.concatenate([data, [following[0] if following else 0]])[returns + 1]
        if ((inside == 0) & (after != _LINE)).any():
            raise _OtherwiseError

    def _count(self, data: NDArray[np.uint8], marks: NDArray[np.intp]) -> None:
        """Compare the commas of each row that ends in these bytes."""
        breaks = np.flatnonzero(data[marks] == _LINE)
        if not len(breaks):
            self._commas += len(marks)
            if not self._length:
                self._began = self.offset
            self._length += len(data)
            return
        ends = marks[breaks]
        commas = np.diff(breaks, prepend=-1) - 1
        commas[0] += self._commas
        lengths = np.diff(ends, prepend=-1) - 1
        last = data[ends - 1]  # of an empty first line it is another byte, which its length tells
        lengths[0] += self._length
        if ends[0] == 0:
            last[0] = self._before
        empty = (lengths == 0) | ((lengths == 1) & (last == _RETURN))
        starts = self.offset + np.concatenate([[0], ends[:-1] + 1])
        starts[0] = self._began if self._length else self.offset
        full = np.flatnonzero(~empty)
        if len(full):
            first = np.flatnonzero(empty & (np.arange(len(empty)) < full[-1]))
            if self._empty is not None or len(first):
                raise _LineError(self._empty if self._empty is not None else int(starts[first[0]]), *_empty(self.width))
        if empty.any() and self._empty is None:
            at = int(starts[np.flatnonzero(empty)[0]])
            if self.width == 1:
                raise _LineError(at, *_empty(1))
            self._empty = at
        uneven = full[commas[full] != self.width - 1]
        if len(uneven):
            raise _LineError(int(starts[uneven[0]]), *_uneven(int(commas[uneven[0]]) + 1, self.width))
        self.rows += len(full)
        self._commas = len(marks) - 1 - int(breaks[-1])
        self._began = self.offset + int(ends[-1]) + 1
        self._length = len(data) - 1 - int(ends[-1])


def _rows(path: Path) -> Iterator[tuple[int, list[str]]]:
    """Yield the rows as Python's csv module reads them, each with the number of its last line, without end lines."""
    limit = csv.field_size_limit(sys.maxsize)
    try:
        with path.open(encoding="utf-8-sig", newline="") as handle:
            reader = csv.reader(handle, strict=True)
            for row in reader:
                yield reader.line_num, row
    finally:
        csv.field_size_limit(limit)


def _python_rows(path: Path, names: Sequence[str]) -> int:
    """Count the rows of a file that Python reads, or refuse it."""
    count, line, empty = -1, 0, 0
    numbers = np.ones(len(names), dtype=np.bool_)  # columns that have numbers in ordinary rows
    spread: list[tuple[int, list[str]]] = []
    try:
        for last, row in _rows(path):
            if not row:
                empty = empty or last
            elif empty:
                raise _at(path, empty, *_empty(len(names)))
            elif len(row) != len(names):
                raise _at(path, line + 1, *_uneven(len(row), len(names)))
            elif last > line + 1 and count >= 0:
                spread.append((line + 1, row))
            elif 0 <= count < _ROWS:
                numbers &= [cells.is_number(cell) for cell in row]
            count, line = count + bool(row), last
    except csv.Error as error:
        never = "end of data" in str(error)
        what = "a quotation mark that nothing closes" if never else "text after a closing quotation mark"
        raise _at(path, line + 1, what, _QUOTES) from error
    except UnicodeDecodeError as error:
        raise _at(path, line + 1, *_ENCODING) from error
    if empty and len(names) == 1:
        raise _at(path, empty, *_empty(1))
    for begins, row in spread if count > len(spread) else ():
        if _swallowed(row, numbers.tolist()):
            raise _at(path, begins, "a quotation mark that opens a cell which holds other rows", _QUOTES)
    return count


def _swallowed(row: Sequence[str], numbers: Sequence[bool]) -> bool:
    """Whether a cell of several lines holds other rows: each line has their commas, and numbers where they have them.

    Parameters
    ----------
    row : of cells
    numbers : of which columns another row has numbers
    """
    spread = [place for place, cell in enumerate(row) if "\n" in cell or "\r" in cell]
    if len(spread) != 1 or not any(numbers):
        return False
    place = spread[0]
    first, *more = row[place].splitlines()
    lines = [[*row[:place], *first.split(",")], *(line.split(",") for line in more)]
    lines[-1] += row[place + 1 :]
    return all(len(line) == len(row) and all(map(cells.is_number, itertools.compress(line, numbers))) for line in lines)


# -- words -------------------------------------------------------------------------------------------------------------

_QUOTES = 'write "" for a quotation mark inside quotation marks, or save the table again'
_ENCODING = ("a byte that is no UTF-8, as of latin-1 or Windows-1252", "save it as UTF-8")


def _uneven(cell_count: int, width: int) -> tuple[str, str]:
    cells_ = f"{cell_count} cell{'s' * (cell_count != 1)}, where the first row has {width}"
    if cell_count > width:
        return cells_, "put quotation marks around cells with commas, and write 0.5 for 0,5"
    return cells_, "complete that row, or delete it"


def _empty(width: int) -> tuple[str, str]:
    return "nothing", "delete the empty line" if width > 1 else 'write "" for a missing value, or delete the empty line'


def _refused(path: Path, offset: int, what: str, step: str) -> InputError:
    """Return the refusal of what is at an offset."""
    lines, left = 1, offset
    with path.open("rb") as handle:
        while left > 0 and (block := handle.read(min(left, _BLOCK))):
            lines += block.count(b"\n")
            left -= len(block)
    return _at(path, lines, what, step)


def _at(path: Path, line: int, what: str, step: str) -> InputError:
    return InputError("file", "a complete .csv file in UTF-8", f"{path.name}, whose line {line:,} has {what}", step)

"""What a text in a table is: a number, the mark of a missing value, or neither, with the reason.

One list of marks and one list of reasons serve every reader: audits, tables, drafts and samples say the same of a cell.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from decimal import Decimal, InvalidOperation
from typing import TYPE_CHECKING, Any

from numpy.typing import NDArray

from miaudit.errors import InputError

if TYPE_CHECKING:
    import polars as pl

__all__ = ["MARKS", "is_number", "missing", "mostly_numbers", "not_numbers", "reason", "refuse_missing", "typed"]

# Small letters, as programs write what is missing; an empty cell is one too.
MARKS = frozenset(
    [
        *("", "na", "n/a", "n.a.", "#na", "#n/a", "#n/a n/a", "<na>", "nan", "-nan", "nat", "null", "none", "nil"),
        *("(null)", "\\n", ".", "-", "--", "?", "missing", "1.#qnan", "1.#ind", "-1.#ind", "-1.#qnan"),
        *("#num!", "#div/0!", "#value!", "#ref!", "#name?", "#null!"),
    ]
)
_NUMBER = re.compile(r"[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?|[-+]?(inf|infinity|nan)", re.IGNORECASE | re.ASCII)
_DIGITS = 16  # significant ones, from which numbers may be rounded
_SHOWN = 40  # characters
_MOSTLY = 0.9  # share of the values of a column that makes it one of numbers
_FEW = 20  # values, below which a column of texts may be codes
_COMMA = "write a point for the decimal comma"
_SEPARATED = "write 1234.5 without separators"
# Texts that mean a number, what they are, and what to do.
_REASONS = tuple(
    (re.compile(pattern, re.IGNORECASE), why, step)
    for pattern, why, step in (
        (r"[-+]?\d{1,3}(,\d{3})+\.\d*|[-+]?\d{1,3}(,\d{3}){2,}", "thousands separators", _SEPARATED),
        (r"[-+]?\d{1,3}(\.\d{3})+,\d*|[-+]?\d{1,3}(\.\d{3}){2,}", "thousands separators", _SEPARATED),
        (r"[-+]?\d{1,3}([ '\u2019_\u00a0\u2009\u202f]\d{3})+([.,]\d*)?", "thousands separators", _SEPARATED),
        (r"[-+]?\d{1,3},\d{3}", "a decimal comma, or thousands separators", "write 1.234 or 1234"),
        (r"[-+]?(\d*,\d+|\d+,)(e[-+]?\d+)?", "a decimal comma", _COMMA),
        (r"[-+]?[\d.,]+\s*%", "a percentage", "divide by 100, and leave the sign out"),
        (r"[-+]?[$\u20ac\u00a3\u00a5]\s*[\d.,]+|[-+]?[\d.,]+\s*[$\u20ac\u00a3\u00a5]", "a currency", "write 1234.5"),
        (r"[\u2212\u2013\u2014]\s*[\d.,]+(e[-+]?\d+)?", "a minus sign that is no hyphen", "write -1.5"),
        (r"\([\d.,]+\)", "a negative number in brackets", "write -1.5"),
        (r"[-+]?0x[0-9a-f]+", "a hexadecimal number", "write it with decimal digits"),
        (r"[-+]?[\d.]+d[-+]?\d+", "an exponent of Fortran", "write 1e-5 for 1d-5"),
        (r"(torch\.|np\.|jnp\.|tf\.)?(tensor|array|float\d*|int\d*)\(.*\)", "a printed object", "save value.item()"),
        (r"\[.*\]", "a list", "write one number in each cell"),
    )
)


def typed(column: pl.Series) -> pl.Series:
    """Return a column of texts as numbers, or as true and false, if each cell is one or is missing; else the texts.

    Blanks around numbers do not count. Whole numbers stay whole. Texts stay, where a float64 would make two numbers
    equal that differ.

    Examples
    --------
    >>> import polars as pl
    >>> typed(pl.Series(["1", "NA", " 2"])).to_list(), typed(pl.Series(["0,5", "1"])).to_list()
    ([1, None, 2], ['0,5', '1'])
    """
    import polars as pl

    absent, numbers = column.null_count(), column.cast(pl.Float64, strict=False)
    if absent == len(column):
        return column
    if numbers.null_count() > absent:
        others = column.filter(numbers.is_null() & column.is_not_null()).unique()
        strange = {text.strip().lower() for text in others} - MARKS
        if strange <= {"true", "false"} and numbers.is_null().all() and strange:
            return (
                column.str.strip_chars().str.to_lowercase().replace_strict({"true": True, "false": False}, default=None)
            )
        if not all(map(_NUMBER.fullmatch, strange)):
            return column
        column = column.str.strip_chars()
        numbers = column.cast(pl.Float64, strict=False)
        absent = numbers.null_count()
    whole = column.cast(pl.Int64, strict=False)
    if whole.null_count() == absent:
        return whole
    long = column.filter(column.str.len_bytes() >= _DIGITS).unique()
    apart = long.cast(pl.Float64, strict=False).n_unique() == len(long)  # as nearly always; decimals take long
    return numbers if apart or not _merged(long.to_list()) else column


def is_number(text: str) -> bool:
    """Whether a text is a number, or the mark of a missing one."""
    bare = text.strip()
    return _NUMBER.fullmatch(bare) is not None or bare.lower() in MARKS


def _merged(texts: Iterable[str]) -> bool:
    """Whether float64 makes two of these numbers equal that differ."""
    exact = set()
    for text in texts:
        try:
            number = Decimal(text)
        except InvalidOperation:
            continue
        if number.is_finite():
            exact.add(number)
    return len({float(number) for number in exact}) < len(exact)


def missing(column: pl.Series, values: pl.Series) -> tuple[int, int, str]:
    """Return how many cells are missing that were not empty, the first row of these, and its text.

    Parameters
    ----------
    column, values : texts, and the column that :func:`typed` returned for them
    """
    rows = (values.is_null() & column.is_not_null()).arg_true()
    marks = [int(row) for row in rows if column[int(row)].strip()]
    return (len(marks), marks[0], str(column[marks[0]]).strip()) if marks else (0, 0, "")


def refuse_missing(column: pl.Series, values: pl.Series) -> None:
    """Refuse a column in which marks stand for missing values, with their number, the first row and the mark."""
    count, row, mark = missing(column, values)
    if count:
        received = f"{count + column.null_count():,} missing ({mark}), the first in row {row}"
        every = values.null_count() == len(values)
        step = "it says nothing: leave it out" if every else "fill them, or leave these records out"
        raise InputError(column.name, "a value in every row", received, step)


def reason(text: str) -> tuple[str, str]:
    """Return why a text is no number, and what to do about it; nothing where no reason is known.

    Examples
    --------
    >>> reason("0,5"), reason("1,234.5")[0], reason("tensor(0.5)")[1], reason("blue")
    (('a decimal comma', 'write a point for the decimal comma'), 'thousands separators', 'save value.item()', ('', ''))
    """
    bare = text.strip()
    return next(((why, step) for pattern, why, step in _REASONS if pattern.fullmatch(bare)), ("", ""))


def not_numbers(values: NDArray[Any], *, shown: bool = True) -> tuple[str, str]:
    """Say of texts (n,) that should be numbers what stands in the way, with the first row; and what to do.

    Parameters
    ----------
    shown : whether the text may be said; not of a private table

    Examples
    --------
    >>> import numpy as np
    >>> not_numbers(np.array(["0.1", "0,5", "0,7"]))
    ("text ('0,5' in row 1, a decimal comma; 2 such rows)", 'write a point for the decimal comma')
    """
    texts = [str(value).strip() for value in values.ravel().tolist()]
    bad = [row for row, text in enumerate(texts) if not _NUMBER.fullmatch(text) and text.lower() not in MARKS]
    if not bad:
        gaps = [row for row, text in enumerate(texts) if text.lower() in MARKS]
        if gaps:
            received = f"{len(gaps):,} missing ({texts[gaps[0]] or 'an empty text'}), the first in row {gaps[0]}"
            return f"text, with {received}", "fill them, or leave these records out"
        if _merged(set(texts)):
            return "text: numbers that float64 cannot keep apart", "subtract one number from all, or save their ranks"
        return "text: numbers that were saved as text", "save them as numbers, for example values.astype(float)"
    first = texts[bad[0]]
    why, step = reason(first)
    place = f"in row {bad[0]}{', ' + why if why else ''}; {len(bad):,} such row{'s' * (len(bad) > 1)}"
    described = f"{first[:_SHOWN]!r} {place}" if shown else place
    return f"text ({described})", step or "convert the column to numbers, or choose another"


def refuse_text(values: NDArray[Any], name: str, allowed: str = "numbers") -> None:
    """Refuse an array of texts where numbers are meant, with the first cell that is none."""
    if values.dtype.kind in "US":
        received, step = not_numbers(values)
        raise InputError(name, allowed, received, step)


def mostly_numbers(texts: Iterable[str | None]) -> bool:
    """Whether texts are numbers as a rule, as of a column in which a few cells, or the way of writing, are wrong.

    Numbers are meant too that are written with a decimal comma or with separators. Codes have few values.

    Examples
    --------
    >>> mostly_numbers(f"{i},5" for i in range(30)), mostly_numbers(["a", "b"] * 30)
    (True, False)
    """
    values = {text.strip() for text in texts if text is not None and text.strip().lower() not in MARKS}
    others = {text for text in values if not _NUMBER.fullmatch(text)}
    strange = [text for text in others if not reason(text)[0]]
    return len(values) >= _FEW and bool(others) and len(strange) <= (1 - _MOSTLY) * len(values)

"""What a cell is: one list of marks and reasons."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from miaudit.errors import InputError
from miaudit.io import cells

MARKED = [
    "NA",
    "N/A",
    "nan",
    "NaN",
    "null",
    "NULL",
    "None",
    ".",
    "#N/A",
    "",
    "-",
    "?",
    " NA ",
    "<NA>",
    "NaT",
    "#DIV/0!",
]


@pytest.mark.parametrize("mark", MARKED)
def test_marks_of_missing_values_leave_numbers_numbers(mark: str) -> None:
    made = cells.typed(pl.Series("x", ["0.5", mark, "2"]))
    assert made.dtype == pl.Float64
    assert np.isnan(made.to_numpy()).tolist() == [False, True, False]


@pytest.mark.parametrize("mark", [one for one in MARKED if one.lower() not in ("nan", "")])
def test_a_mark_is_named_with_its_row(mark: str) -> None:
    column = pl.Series("x", ["0.5", "1", mark, mark])
    with pytest.raises(InputError, match=r"2 missing \(.*\), the first in row 2; fill them"):
        cells.refuse_missing(column, cells.typed(column))


def test_marks_among_texts_are_texts() -> None:
    column = pl.Series("country", ["NA", "DE", "NO"])
    assert cells.typed(column).to_list() == ["NA", "DE", "NO"]


def test_types_of_columns() -> None:
    for values, kind in (
        (["1", " 2", "-3"], pl.Int64),
        (["1", "2.0"], pl.Float64),
        (["1e5", "+.5", "5."], pl.Float64),
        (["True", "false"], pl.Boolean),
        (["true", "NA"], pl.Boolean),
        (["1", "true"], pl.String),
        (["1,5", "2"], pl.String),
        (["0x10", "1"], pl.String),
        ([None, None], pl.String),
    ):
        assert cells.typed(pl.Series("x", values, dtype=pl.String)).dtype == kind, values


@pytest.mark.parametrize(
    "values",
    [
        ["9007199254740993.5", "9007199254740993.25"],
        ["10000000000000000000000001", "10000000000000000000000002"],
        ["0.12345678901234567891", "0.12345678901234567892"],
    ],
)
def test_numbers_that_float64_would_make_equal_stay_texts_and_are_refused(values: list[str]) -> None:
    assert cells.typed(pl.Series("x", values)).dtype == pl.String
    assert "float64 cannot keep apart" in cells.not_numbers(np.array(values))[0]


def test_large_numbers_that_stay_apart_are_numbers() -> None:
    assert cells.typed(pl.Series("x", ["10000000000000000000000001", "2"])).dtype == pl.Float64
    assert cells.typed(pl.Series("x", ["9007199254740993", "9007199254740992"])).dtype == pl.Int64


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("0,5", "a decimal comma"),
        ("-12,25", "a decimal comma"),
        ("1,5e-3", "a decimal comma"),
        ("1,234", "a decimal comma, or thousands separators"),
        ("1,234.5", "thousands separators"),
        ("1,234,567", "thousands separators"),
        ("1.234,5", "thousands separators"),
        ("1 234,5", "thousands separators"),
        ("1'234", "thousands separators"),
        ("72.5%", "a percentage"),
        ("$5", "a currency"),
        ("\u22120.5", "a minus sign that is no hyphen"),
        ("(5.2)", "a negative number in brackets"),
        ("tensor(0.5)", "a printed object"),
        ("tensor(0.5, device='cuda:0')", "a printed object"),
        ("np.float64(0.5)", "a printed object"),
        ("[0.5]", "a list"),
    ],
)
def test_the_first_bad_cell_is_named_with_its_row_and_the_reason(text: str, why: str) -> None:
    received, step = cells.not_numbers(np.array(["0.25", "NA", text, "1"]))
    assert received == f"text ({text!r} in row 2, {why}; 1 such row)"
    assert step


def test_a_private_cell_is_not_said() -> None:
    assert "secret" not in "".join(cells.not_numbers(np.array(["1", "secret"]), shown=False))


def test_a_column_that_is_mostly_numbers_is_found() -> None:
    numbers = [f"{i}.5" for i in range(60)]
    assert cells.mostly_numbers([*numbers, "n/k", None])
    assert cells.mostly_numbers([f"{i},5" for i in range(60)])
    for texts in (["blue", "red"] * 30, [f"site {i}" for i in range(60)], ["1,5", "2,5"] * 30):
        assert not cells.mostly_numbers(texts)

"""Undeclared categories: one error for all columns, which names no value, and a category that may stand for them."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from miaudit.errors import InputError
from miaudit.synthesis.schema import Column, Schema, Table
from miaudit.synthesis.undeclared import UndeclaredCategories


def test_undeclared_categories_of_all_columns_are_one_error_that_names_no_value() -> None:
    schema = Schema(
        (
            Column("job", "categorical", categories=("clerk", "cook")),
            Column("age", "continuous", low=0, high=99),
            Column("town", "categorical", categories=("Ahausen", "other"), missing=True),
        )
    )
    frame = pl.DataFrame(
        {
            "job": ["clerk", "spy", "spy", "cook", "pope"],
            "age": [1, 2, 3, 4, 5],
            "town": ["Ahausen", "Rome", None, "Ahausen", "Ahausen"],
        }
    )
    with pytest.raises(UndeclaredCategories) as refused:
        Table.from_frame(frame, schema)
    text = str(refused.value)
    assert "2 columns: expected categories that are declared" in text
    assert "job: 2 other values in 3 rows, the first in row 1; town: 1 other value in 1 row, the first in row 1" in text
    assert not any(value in text for value in ("spy", "pope", "Rome"))
    assert [(own.column, own.rows) for own in refused.value.columns] == [
        ("job", (("spy", 2), ("pope", 1))),
        ("town", (("Rome", 1),)),
    ]
    read = Table.from_frame(frame, schema, others={"job": "cook", "town": "other"})
    assert read.values[:, 0].tolist() == [0, 1, 1, 1, 1]
    assert np.array_equal(read.values[:, 2], [0, 1, np.nan, 0, 0], equal_nan=True)
    with pytest.raises(InputError, match="job: expected one of clerk, cook, received 2 other values in 3 rows"):
        Table.from_frame(frame, schema, others={"town": "other"})


@pytest.mark.parametrize(
    ("others", "message"),
    [
        ({"who": "me"}, "a column of the schema, received 'who'"),
        ({"job": "baker"}, "others.job: expected one of its categories, clerk, cook, received 'baker'; declare it"),
        ({"age": "old"}, "others.age: expected a column with any"),
    ],
)
def test_a_category_for_others_has_to_be_declared(others: dict[str, str], message: str) -> None:
    schema = Schema(
        (Column("job", "categorical", categories=("clerk", "cook")), Column("age", "continuous", low=0, high=9))
    )
    with pytest.raises(InputError, match=message):
        Table.from_frame(pl.DataFrame({"job": ["clerk"], "age": [1]}), schema, others=others)

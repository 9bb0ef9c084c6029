"""Levels of columns: what is coded comes back within its bin, and bins are public."""

from __future__ import annotations

import numpy as np
import pytest

from miaudit.errors import InputError
from miaudit.synthesis.generators.levels import Levels, levels_of
from miaudit.synthesis.generators.tables_config import TablesConfig
from miaudit.synthesis.schema import Column, Schema

RNG = np.random.default_rng(0)


@pytest.mark.parametrize(
    "column",
    [
        Column("age", "continuous", low=18, high=95, decimals=0),
        Column("few", "continuous", low=0, high=7, decimals=0),
        Column("dose", "continuous", low=-1, high=2.5),
        Column("cash", "continuous", low=0, high=10, decimals=2, missing=True),
    ],
    ids=lambda column: column.name,
)
def test_a_decoded_value_is_of_the_level_it_came_from(column: Column) -> None:
    levels = Levels.of(column, TablesConfig(bins=7))
    codes = RNG.integers(0, levels.count, 4_000)
    values = levels.decode(codes, RNG)
    np.testing.assert_array_equal(levels.encode(values), codes)
    known = values[~np.isnan(values)]
    assert known.min() >= column.low and known.max() <= column.high  # type: ignore[operator]
    if column.decimals is not None:
        np.testing.assert_allclose(known, np.round(known, column.decimals))


def test_each_value_of_a_bin_is_drawn_as_often() -> None:
    levels = Levels.of(Column("n", "continuous", low=0, high=9, decimals=0), TablesConfig(edges={"n": [4]}))
    values = levels.decode(np.repeat([0, 1], 6_000), RNG)
    shares = np.bincount(values.astype(int), minlength=10) / 6_000
    np.testing.assert_allclose(shares, [0.25] * 4 + [1 / 6] * 6, atol=0.02)


def test_few_rounded_values_are_a_level_each_and_categories_too() -> None:
    schema = Schema((Column("n", "continuous", low=1, high=5, decimals=0), Column("c", "categorical", ("x", "y", "z"))))
    one, two = levels_of(schema, TablesConfig())
    assert one.count == 5 and one.encode(np.arange(1.0, 6.0)).tolist() == [0, 1, 2, 3, 4]
    assert two.count == 3 and two.decode(np.array([2]), RNG).tolist() == [2.0]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"edges": {"agee": [30]}}, "did you mean age"),
        ({"edges": {"age": [10, 30]}}, "above 18 and up to 95, its declared range, received 10 to 30"),
        ({"edges": {"age": [30, 30]}}, "sort them, each once"),
        ({"edges": {"age": [30.2, 30.7]}}, "bins that hold rounded values, received a bin from 31 without any"),
        ({"edges": {"sex": [1]}}, "edges of a continuous column, received a binary one"),
        (
            {"edges": {"age": "quantiles"}},
            "received 'quantiles'; bins read off the private table would have to be paid",
        ),
        ({"bins": "auto"}, "received 'auto'; bins read off the private table would have to be paid for"),
        ({"edges": [3]}, "expected a mapping: name of a column to where its bins meet"),
        ({"bins": 0}, "expected a whole number from 1 up"),
        ({"support": -1.0}, "support: expected a positive number, received -1"),
    ],
)
def test_bins_that_data_could_decide_and_edges_outside_are_refused(options: dict, message: str) -> None:
    schema = Schema((Column("age", "continuous", low=18, high=95, decimals=0), Column("sex")))
    with pytest.raises(InputError, match=message):
        levels_of(schema, TablesConfig(**options))

"""Columns as features: the schema fixes their number, the training table their scale."""

from __future__ import annotations

import numpy as np

from miaudit.synthesis.encoding import Features
from miaudit.synthesis.schema import Column, Schema, Table

SCHEMA = Schema(
    (
        Column("job", "categorical", ("a", "b", "c"), missing=True),
        Column("age", "continuous", low=0, high=99, missing=True),
        Column("sex"),
        Column("grade", "ordinal", ("1", "2", "3")),
    )
)


def test_one_hot_standardised_and_missing_marked() -> None:
    table = Table(SCHEMA, [[0, 20, 1, 0], [np.nan, 40, 0, 2], [1, np.nan, 1, 1]])
    features = Features.of(table, range(4))
    x = features.transform(table.values)
    assert features.names == ("job=a", "job=b", "job=c", "job is missing", "age", "age is missing", "sex", "grade")
    assert x[:, :4].tolist() == [[1, 0, 0, 0], [0, 0, 0, 1], [0, 1, 0, 0]]
    assert x[:, 4].tolist() == [-1, 1, 0]
    assert x[:, 5].tolist() == [0, 0, 1]
    assert x[:, 6].tolist() == [1, 0, 1]
    assert np.isclose(x[:, 7].mean(), 0)


def test_columns_without_spread_or_values_stay_finite() -> None:
    table = Table(SCHEMA, [[0, np.nan, 1, 1], [0, np.nan, 1, 1]])
    assert np.isfinite(Features.of(table, range(4)).transform(table.values)).all()

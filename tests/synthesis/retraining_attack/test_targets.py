"""Targets: each choice against its definition, and records that cannot be left out."""

from __future__ import annotations

import numpy as np
import pytest

from miaudit.errors import InputError
from miaudit.synthesis.retraining_attack.targets import (
    GivenTargets,
    LossMaximising,
    Outliers,
    RandomTargets,
    check_targets,
    strangeness,
)
from miaudit.synthesis.schema import Column, Schema, Table

SCHEMA = Schema(
    (
        Column("b"),
        Column("c", "categorical", categories=("x", "y", "z"), missing=True),
        Column("o", "ordinal", categories=(1, 2, 3)),
        Column("g", "continuous", low=-1, high=4),
    )
)


def table(n: int = 60) -> Table:
    rng = np.random.default_rng(0)
    values = np.column_stack(
        [rng.integers(0, 2, n), rng.integers(0, 3, n), rng.integers(0, 3, n), rng.uniform(-1, 4, n)]
    ).astype(float)
    values[::7, 1] = np.nan
    return Table(SCHEMA, values)


def test_strangeness_is_gowers_distance_to_the_fifth_nearest() -> None:
    given = table()
    expected = []
    for i, x in enumerate(given.values):
        distances = []
        for j, y in enumerate(given.values):
            if i == j:
                continue
            gaps = [float(x[0] != y[0]), abs(x[2] - y[2]) / 2, abs(x[3] - y[3]) / 5]
            if not np.isnan(x[1]) and not np.isnan(y[1]):
                gaps.append(float(x[1] != y[1]))
            distances.append(np.mean(gaps))
        expected.append(sorted(distances)[4])
    np.testing.assert_allclose(strangeness(given), expected, atol=1e-6)
    rows = Outliers(3).choose(given, np.random.default_rng(0))
    np.testing.assert_array_equal(rows, np.argsort(-np.array(expected), kind="stable")[:3])


def test_random_targets_are_distinct_and_follow_the_generator() -> None:
    given = table()
    rows = [RandomTargets(10).choose(given, np.random.default_rng(seed)) for seed in (1, 1, 2)]
    assert len(set(rows[0].tolist())) == 10
    assert (rows[0] == rows[1]).all()
    assert (rows[0] != rows[2]).any()


def test_the_worst_fitted_records_come_first() -> None:
    given = table()
    rows = LossMaximising(lambda t: t.values[:, 3], 2).choose(given, np.random.default_rng(0))
    assert rows.tolist() == np.argsort(-given.values[:, 3])[:2].tolist()


def test_targets_are_found_by_their_values() -> None:
    given = table()
    assert GivenTargets.of_records(given.subset([7, 3]), given).rows == (7, 3)  # row 7 has a missing value
    stranger = Table(SCHEMA, [[1, 1, 1, 3.9999]])
    with pytest.raises(InputError, match="not in it"):
        GivenTargets.of_records(stranger, given)
    twice = Table(SCHEMA, np.concatenate([given.values, given.values[:1]]))
    with pytest.raises(InputError, match="2 rows"):
        GivenTargets.of_records(given.subset([0]), twice)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda t: GivenTargets((60,)).choose(t, None), "a target must be in the table"),
        (lambda t: GivenTargets((-1,)).choose(t, None), "rows 0 to 59"),
        (lambda t: GivenTargets((1, 1)), "each row once"),
        (lambda t: GivenTargets(()), "row numbers"),
        (lambda t: RandomTargets(0), "from 1 up"),
        (lambda t: RandomTargets(61).choose(t, np.random.default_rng(0)), "at most the 60"),
        (lambda t: LossMaximising(lambda t: [1.0]).choose(t, None), "a finite number for each of 60"),
        (lambda t: LossMaximising(lambda t: [np.nan] * 60).choose(t, None), "NaN or infinity"),
        (lambda t: check_targets("outliers"), "RandomTargets"),
        (lambda t: strangeness(t.subset([0])), "at least two records"),
    ],
)
def test_bad_input(call, message) -> None:
    with pytest.raises(InputError, match=message):
        call(table())


def test_row_numbers_are_given_targets() -> None:
    assert check_targets([3, 1]) == GivenTargets((3, 1))

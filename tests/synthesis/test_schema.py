"""Schema and tables: round trips through frames, and each bad input refused in one line."""

from __future__ import annotations

import pickle
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from miaudit.errors import InputError
from miaudit.io.tables import writer
from miaudit.synthesis.graph import CausalGraph
from miaudit.synthesis.schema import Column, Schema, Table, read_table

MIXED = Schema(
    (
        Column("smokes"),
        Column("answer", categories=("no", "yes"), missing=True),
        Column("blood", "categorical", categories=("A", "B", "AB", "0"), missing=True),
        Column("stage", "ordinal", categories=(1, 2, 3)),
        Column("age", "continuous", low=18, high=90, missing=True, decimals=0),
    )
)
FRAME = pl.DataFrame(
    {
        "smokes": [0, 1, 1],
        "answer": ["yes", None, "no"],
        "blood": ["AB", "0", None],
        "stage": [3, 1, 2],
        "age": [18.0, None, 90.0],
        "unused": ["x", "y", "z"],
    }
)


def test_a_frame_survives_the_way_in_and_out() -> None:
    table = Table.from_frame(FRAME, MIXED)
    nan = np.nan
    expected = [[0, 1, 2, 2, 18], [1, nan, 3, 0, nan], [1, 0, nan, 1, 90]]
    np.testing.assert_array_equal(table.values, expected)
    assert table.frame().equals(FRAME.drop("unused"))
    assert Table.from_frame(table.frame(), MIXED).values.tobytes() == table.values.tobytes()


def test_other_types_of_the_same_values_are_read_alike() -> None:
    other = FRAME.with_columns(
        pl.col("smokes").cast(pl.Boolean), pl.col("stage").cast(pl.Float64), pl.col("blood").cast(pl.Categorical)
    )
    np.testing.assert_array_equal(Table.from_frame(other, MIXED).values, Table.from_frame(FRAME, MIXED).values)


def test_a_schema_survives_its_mapping() -> None:
    assert Schema.from_mapping(MIXED.to_mapping()) == MIXED


def test_values_are_a_copy_that_cannot_be_written() -> None:
    given = np.zeros((2, 1))
    table = Table(Schema((Column("a"),)), given)
    given[0, 0] = 1
    assert table.values[0, 0] == 0
    with pytest.raises(ValueError, match="read-only"):
        table.values[0, 0] = 1
    again = pickle.loads(pickle.dumps(table))
    assert again.schema == table.schema and not again.values.flags.writeable


def test_released_values_are_rounded_within_the_range() -> None:
    schema = Schema((Column("x", "continuous", low=0.04, high=0.96, decimals=1),))
    assert Table(schema, [[0.04], [0.52], [0.96]]).frame()["x"].to_list() == [
        0.1,
        0.5,
        0.9,
    ]  # one decimal, in the range


def test_values_outside_the_public_range_are_refused_or_moved() -> None:
    schema = Schema((Column("x", "continuous", low=0, high=1),))
    frame = pl.DataFrame({"x": [0.5, 7.0]})
    with pytest.raises(InputError, match="numbers from 0 to 1, received 1 other value, the first in row 1;"):
        Table.from_frame(frame, schema)
    assert Table.from_frame(frame, schema, outside="clip").values.tolist() == [[0.5], [1.0]]
    with pytest.raises(InputError, match="x: expected finite numbers, received inf in row 1"):
        Table.from_frame(pl.DataFrame({"x": [0.5, np.inf]}), schema, outside="clip")


def test_a_constant_column_and_a_row_without_values_are_no_errors() -> None:
    schema = Schema((Column("a", missing=True), Column("b", missing=True)))
    assert len(Table(schema, [[1, np.nan], [1, 0], [np.nan, np.nan]])) == 3


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"name": "a", "kind": "categorical"}, "a.categories: expected the categories of a categorical column"),
        ({"name": "a", "kind": "categorical", "categories": ["x"]}, "at least two categories"),
        ({"name": "a", "kind": "categorical", "categories": ["x", "x"]}, "categories that differ"),
        ({"name": "a", "kind": "categorical", "categories": ["x", 1]}, "all text or all numbers"),
        ({"name": "a", "categories": [True, False]}, "quote them in YAML"),
        ({"name": "a", "categories": ["x", "y", "z"]}, "two categories"),
        ({"name": "a", "kind": "continuous"}, "a.low: expected a finite number"),
        ({"name": "a", "kind": "continuous", "low": 2, "high": 2}, "constant column"),
        ({"name": "a", "kind": "continuous", "low": 0, "high": float("inf")}, "a.high"),
        ({"name": "a", "low": 0}, "none for a binary column"),
        ({"name": "a", "decimals": 2}, "for a continuous column"),
        ({"name": "a", "kind": "number"}, "a.kind"),
        ({"name": "a", "knid": "binary"}, "did you mean kind"),
        ({"name": "a", "missing": 1}, "a.missing"),
        ({"kind": "binary"}, "neither"),
        ({"name": "a", "names": ["b"]}, "both"),
        ({"names": "ab"}, "a list of names"),
        ({"name": 1}, "expected text"),
        ("a", "a mapping"),
    ],
)
def test_bad_declarations_are_refused(given: object, message: str) -> None:
    with pytest.raises(InputError, match=message) as caught:
        Schema.from_mapping([given])  # type: ignore[list-item]
    assert "\n" not in str(caught.value)


def test_names_must_differ_and_a_schema_needs_columns() -> None:
    with pytest.raises(InputError, match="'a' twice"):
        Schema((Column("a"), Column("a")))
    with pytest.raises(InputError, match="at least one column"):
        Schema(())
    with pytest.raises(InputError, match="did you mean smokes"):
        MIXED.position("smoks")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (pl.lit("C").alias("blood"), "declare every category that is publicly known"),
        (pl.lit(4).alias("stage"), "one of 1, 2, 3, received 1 other value in 3 rows, the first in row 0"),
        (pl.lit(None, dtype=pl.Int64).alias("smokes"), "3 missing of 3"),
        (pl.lit("old").alias("age"), "expected numbers"),
        (pl.lit(1.5).alias("answer"), "text, as its categories are"),
    ],
)
def test_bad_values_of_a_frame_are_refused(change: pl.Expr, message: str) -> None:
    with pytest.raises(InputError, match=message):
        Table.from_frame(FRAME.with_columns(change), MIXED)


def test_no_value_of_the_table_is_in_a_message(tmp_path: Path) -> None:
    """It may be a private one, and messages land in logs."""
    schema = Schema((Column("what", "categorical", ("flu", "cold")), Column("age", "continuous", low=0, high=99)))
    for what, age in (("creutzfeldt", 40), ("flu", 123)):
        with pytest.raises(InputError) as caught:
            Table.from_frame(pl.DataFrame({"what": ["flu", what], "age": [40, age]}), schema)
        assert "creutzfeldt" not in str(caught.value) and "123" not in str(caught.value)
    (tmp_path / "t.csv").write_text("what,age\nflu,40\ncreutzfeldt,x\n")
    with pytest.raises(InputError, match="what: expected one of flu, cold, received 1 other value in 1 row, the first"):
        read_table(tmp_path / "t.csv", schema)


def test_a_column_that_the_table_lacks_is_named() -> None:
    with pytest.raises(InputError, match=r"blood: expected a column of the table.*did you mean blod"):
        Table.from_frame(FRAME.rename({"blood": "blod"}), MIXED)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ([[0.5]], "positions 0 to 1"),
        ([[2]], "positions 0 to 1"),
        ([[-1]], "positions 0 to 1"),
        ([[np.nan]], "1 missing of 1"),
        ([[np.inf]], "finite numbers"),
        ([[0, 1]], r"shape \(n, 1\)"),
        ([0, 1], r"shape \(n, 1\)"),
        ([["a"]], "numbers"),
    ],
)
def test_bad_values_are_refused(values: object, message: str) -> None:
    with pytest.raises(InputError, match=message):
        Table(Schema((Column("a"),)), values)  # type: ignore[arg-type]


def test_rows_are_positions_or_marks() -> None:
    table = Table(Schema((Column("a"),)), [[0], [1], [1]])
    assert table.subset([2, 0]).values.tolist() == [[1], [0]]
    assert len(table.subset(np.array([True, False, True]))) == 2
    assert len(table.subset([])) == 0
    for bad in ([5], [0.5], [[0]]):
        with pytest.raises(InputError, match="rows"):
            table.subset(bad)


def test_a_draft_is_refused_until_each_column_was_checked() -> None:
    drafted = [
        {"name": "age", "kind": "continuous", "low": 0, "high": 100, "unchecked": True},
        {"names": ["a", "b", "c"], "kind": "binary", "unchecked": True},
        {"name": "d", "kind": "binary", "unchecked": False},
    ]
    with pytest.raises(
        InputError, match=r"columns: expected .* received unchecked: true at age, a, b and 1 more; it was"
    ):
        Schema.from_mapping(drafted)
    drafted[1].pop("unchecked")
    with pytest.raises(InputError, match=r"received unchecked: true at age; it was read off the private table"):
        CausalGraph.from_mapping({"columns": drafted, "isolated": ["age", "a", "b", "c", "d"]})
    drafted[0].pop("unchecked")
    settled = Schema.from_mapping(drafted)
    assert settled.names == ("age", "a", "b", "c", "d")
    assert Schema.from_mapping(settled.to_mapping()) == settled and "unchecked" not in str(settled.to_mapping())
    with pytest.raises(InputError, match=r"columns\[0\].unchecked: expected true or false, received 'low'"):
        Schema.from_mapping([{"name": "a", "unchecked": "low"}])


def test_columns_that_the_schema_lacks_are_not_read(tmp_path: Path) -> None:
    numbers = "".join(f"{10**19 + i},{i % 2}\n" for i in range(9))  # beyond 64 bits
    (tmp_path / "t.csv").write_text(f"card,a\n{numbers}")
    assert read_table(tmp_path / "t.csv", Schema((Column("a"),))).column("a").tolist() == [0, 1, 0, 1, 0, 1, 0, 1, 0]
    with pytest.raises(InputError, match="float64 cannot keep apart"):
        read_table(tmp_path / "t.csv", Schema((Column("card", "continuous", low=0, high=1e20),)))
    with pytest.raises(InputError, match="a name that is not there; it has card, a"):
        read_table(tmp_path / "t.csv", Schema((Column("A"),)))


@pytest.mark.long
@pytest.mark.parametrize(
    ("range_of", "decimals", "values", "shown"),
    [
        ((0, 100), 0, [79.0, np.nan, 100.0], [79, None, 100]),
        ((0.5, 9.5), 0, [0.5, 9.5, 5.2], [1, 9, 5]),
        ((0.2, 0.8), 0, [0.2, 0.8], [0.2, 0.8]),  # no whole number lies between
        ((-1.25, 1.25), 1, [-1.25, 1.25, 0.04], [-1.2, 1.2, 0.0]),
        ((0, 0.3), 1, [0.3, 0.0], [0.3, 0.0]),
        ((0, 1e300), 0, [1e300, 0.0], [1e300, 0.0]),
        ((0, 1e300), 15, [1e300, 0.0], [1e300, 0.0]),
    ],
)
def test_numbers_come_out_with_their_decimals_and_whole_ones_as_whole(
    tmp_path: Path, range_of: tuple[float, float], decimals: int, values: list[float], shown: list[float | None]
) -> None:
    low, high = range_of
    schema = Schema((Column("n", "continuous", low=low, high=high, decimals=decimals, missing=True),))
    frame = Table(schema, np.array(values)[:, None]).frame()
    found = frame["n"].to_list()
    assert found == shown and list(map(type, found)) == list(map(type, shown))
    for path in (tmp_path / "n.csv", tmp_path / "n.parquet"):
        writer(frame, path.suffix)(path)  # as a release is written
        again = read_table(path, schema).values[:, 0]
        assert np.array_equal(again, [np.nan if value is None else value for value in shown], equal_nan=True)


def test_empty_cells_in_quotation_marks_are_missing(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text('n,c\n"1",x\n"",""\n3,y\n')  # as csv and pandas write a column of their own
    number, text = Column("n", "continuous", low=0, high=9, missing=True), Column("c", categories=("x", "y"))
    with pytest.raises(InputError, match="c: expected a value in every row, received 1 missing"):
        read_table(tmp_path / "t.csv", Schema((number, text)))
    both = Schema((number, Column("c", categories=("x", "y"), missing=True)))
    assert np.array_equal(read_table(tmp_path / "t.csv", both).values, [[1, 0], [np.nan] * 2, [3, 1]], equal_nan=True)
    (tmp_path / "t.csv").write_text("n,c\n1,x\none,x\n")
    with pytest.raises(InputError, match=r"n: expected numbers, received text .in row 1"):
        read_table(tmp_path / "t.csv", both)


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_a_column_without_any_value_is_missing_in_every_row(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"table{suffix}"
    frame = pl.DataFrame({"age": [1.0, 2.0], "gone": pl.Series([None, None], dtype=pl.Float64)})
    frame.write_csv(path) if suffix == ".csv" else frame.write_parquet(path)
    schema = Schema(tuple(Column(name, "continuous", low=0, high=9, missing=True) for name in frame.columns))
    assert np.isnan(read_table(path, schema).column("gone")).all()
    strict = Schema(tuple(Column(name, "continuous", low=0, high=9) for name in frame.columns))
    with pytest.raises(InputError, match="gone: expected a value in every row, received 2 missing of 2"):
        read_table(path, strict)

"""Reading three files: the schema is given, or comes from the synthetic table alone; one line for what is wrong."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest

from miaudit.errors import InputError
from miaudit.synthesis.schema import Column, Schema
from miaudit.synthesis.table_attacks import table_files
from miaudit.synthesis.table_attacks.copies import ELSEWHERE
from miaudit.synthesis.table_attacks.table_files import of_frames, read, read_schema

MADE = pl.DataFrame(
    {"job": ["cook", "clerk", None], "age": [30.5, 40.0, 50.0], "ill": [0, 1, 0], "same": ["a", "a", "a"]}
)
REAL = pl.DataFrame(
    {"job": ["smith", "cook"], "age": [10.0, None], "ill": [1, 1], "same": ["a", "a"], "name": ["x", "y"]}
)


def test_categories_come_from_the_synthetic_table_and_others_are_one_level() -> None:
    found = of_frames(MADE, REAL, REAL)
    kinds = {column.name: column.kind for column in found.synthetic.schema.columns}
    assert kinds == {"job": "categorical", "age": "continuous", "ill": "binary"}
    assert found.synthetic.schema.column("job").categories == ("clerk", "cook", ELSEWHERE)
    assert found.members.column("job").tolist() == [2.0, 1.0]
    assert np.isnan(found.members.column("age")[1])
    assert "inferred from the synthetic table" in found.schema_source
    assert found.notes == ("Column same has one value in all three tables and was left out.",)


def test_a_given_schema_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "schema.yaml"
    path.write_text(
        "columns:\n- {name: job, kind: categorical, categories: [clerk, cook, smith], missing: true}\n"
        "- {name: age, kind: continuous, low: 0, high: 120, missing: true}\n"
    )
    for name, frame in (("s", MADE), ("m", REAL), ("n", REAL)):
        frame.write_csv(tmp_path / f"{name}.csv")
    found = read(*(tmp_path / f"{name}.csv" for name in "smn"), schema=path)
    assert found.schema_source == "The schema was given."
    assert found.members.column("job").tolist() == [2.0, 1.0]
    assert read_schema(path).names == ("job", "age")
    path.write_text("- {name: job, kind: categorical, categories: [clerk, cook], missing: true}\n")
    with pytest.raises(InputError, match="members: job: expected one of clerk, cook, received 1 other value in 1 row"):
        read(*(tmp_path / f"{name}.csv" for name in "smn"), schema=path)


@pytest.mark.long
def test_csv_and_parquet_give_the_same_tables(tmp_path: Path) -> None:
    for name, frame in (("s", MADE), ("m", REAL), ("n", REAL)):
        frame.write_csv(tmp_path / f"{name}.csv")
        frame.write_parquet(tmp_path / f"{name}.parquet")
    a, b = (read(*(tmp_path / f"{name}.{kind}" for name in "smn")) for kind in ("csv", "parquet"))
    assert a.synthetic.schema == b.synthetic.schema
    assert np.array_equal(a.members.values, b.members.values, equal_nan=True)


def test_codes_with_leading_zeros_are_equal_in_all_three_files(tmp_path: Path) -> None:
    # only the synthetic table has a code with a letter: the others look like numbers, and 007 is not 7
    codes = {"s": ["007", "012", "A1"], "m": ["007", "012", "012"], "n": ["031", "007", "012"]}
    for name, own in codes.items():
        pl.DataFrame({"code": own, "age": [30.5, 40.0, 50.0]}).write_csv(tmp_path / f"{name}.csv")
    files = [tmp_path / f"{name}.csv" for name in "smn"]
    found = read(*files)
    assert found.synthetic.schema.column("code").categories == ("007", "012", "A1", ELSEWHERE)
    assert found.members.column("code").tolist() == [0.0, 1.0, 1.0]
    assert found.notes == ()
    path = tmp_path / "schema.yaml"
    path.write_text(
        "- {name: code, kind: categorical, categories: ['007', '012', '031', A1]}\n"
        "- {name: age, kind: continuous, low: 0, high: 99}\n"
    )
    for name in "smn":
        pl.read_csv(tmp_path / f"{name}.csv", schema_overrides={"code": pl.String}).head(2).write_csv(
            tmp_path / f"{name}.csv"
        )
    assert read(*files, schema=path).control.column("code").tolist() == [2.0, 0.0]
    pl.DataFrame({"age": [1.0]}).write_csv(tmp_path / "m.csv")
    with pytest.raises(InputError, match="members: code: expected a column of the table"):
        read(*files, schema=path)


def test_capitals_and_blanks_make_no_other_category() -> None:
    shouted = REAL.with_columns(job=" " + pl.col("job").str.to_uppercase())
    found = of_frames(MADE, shouted, REAL)
    assert found.members.values.tolist()[0] == found.control.values.tolist()[0]
    assert found.synthetic.schema.column("job").categories == ("clerk", "cook", ELSEWHERE)
    assert "Column job: 2 texts that differed only in capitals or blanks counted as equal." in found.notes


@pytest.mark.long
def test_bad_files_are_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, frame in (("s", MADE), ("m", REAL.drop("age")), ("n", REAL)):
        frame.write_csv(tmp_path / f"{name}.csv")
    with pytest.raises(InputError, match="age: expected a column of members") as caught:
        read(*(tmp_path / f"{name}.csv" for name in "smn"))
    assert "\n" not in str(caught.value)
    with pytest.raises(InputError, match="synthetic: expected an existing file"):
        read(tmp_path / "none.csv", tmp_path / "m.csv", tmp_path / "n.csv")
    (tmp_path / "empty.csv").write_text("job,age\n")
    with pytest.raises(InputError, match="nonmembers: expected at least one row"):
        read(tmp_path / "s.csv", tmp_path / "n.csv", tmp_path / "empty.csv")
    (tmp_path / "broken.parquet").write_bytes(b"PAR1 nothing")
    with pytest.raises(InputError, match=r"synthetic: expected a complete \.parquet file"):
        read(tmp_path / "broken.parquet", tmp_path / "n.csv", tmp_path / "n.csv")
    with pytest.raises(InputError, match="age: expected numbers, as in the synthetic table"):
        of_frames(MADE, REAL.with_columns(age=pl.lit("old")), REAL)
    monkeypatch.setattr(table_files, "_MOST_LEVELS", 1)
    with pytest.raises(InputError, match="leave identifiers and free text out"):
        of_frames(MADE, REAL, REAL)
    (tmp_path / "schema.yaml").write_text("a: [b")
    with pytest.raises(InputError, match="schema: expected a YAML file"):
        read_schema(tmp_path / "schema.yaml")


def test_a_unit_column_is_of_members_and_control_records_and_no_attack_sees_it(tmp_path: Path) -> None:
    made = pl.DataFrame({"job": ["cook", "clerk"], "age": [30.0, 40.0]})
    members = made.with_columns(house=pl.Series(["007", "7"]))
    control = made.with_columns(house=pl.Series([7, 8]))
    paths = [tmp_path / name for name in ("s.csv", "m.csv", "n.csv")]
    for path, frame in zip(paths, (made, members, control), strict=True):
        frame.write_csv(path)
    found = read(*paths, unit="house")
    assert found.units is not None
    assert [labels.tolist() for labels in found.units] == [["007", "7"], ["7", "8"]]
    assert found.synthetic.schema.names == ("job", "age")
    with_units = made.with_columns(house=pl.Series([1, 2]))
    declared = Schema(
        (Column("house", "continuous", low=0, high=9), Column("job", "categorical", ("clerk", "cook")), Column("age"))
    )
    one = of_frames(
        with_units.with_columns(age=pl.lit(1)),
        members.with_columns(age=pl.lit(0)),
        control.with_columns(age=pl.lit(0)),
        schema=declared,
        unit="house",
    )
    assert one.members.schema.names == ("job", "age")
    assert of_frames(with_units, members, control, unit="house").synthetic.schema.names == ("job", "age")
    assert read(*paths[:1], paths[0], paths[0]).units is None


def test_a_unit_column_that_is_not_there_or_not_complete_is_refused() -> None:
    made = pl.DataFrame({"job": ["cook", "clerk"], "age": [30.0, 40.0]})
    members = made.with_columns(house=pl.Series([1, 2]))
    with pytest.raises(InputError, match="unit: expected a column of nonmembers, received 'house'"):
        of_frames(made, members, made, unit="house")
    with pytest.raises(InputError, match="unit: expected a column of members, received 'hous'; did you mean house"):
        of_frames(made, members, members, unit="hous")
    for gap in (pl.Series([1, None]), pl.Series([1.0, float("nan")])):
        with pytest.raises(
            InputError, match="house: expected a unit for every record, received 1 missing of 2 in nonm"
        ):
            of_frames(made, members, made.with_columns(house=gap), unit="house")

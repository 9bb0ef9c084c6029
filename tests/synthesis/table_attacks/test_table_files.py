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
    assert found.notes == (
        "Column same has one value in all three tables and was left out.",
        "The synthetic table lacks name of the members: no attack uses what is not in all three files.",
    )
    assert set(found.left_out) == {"same", "name"}


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
    with pytest.raises(InputError, match=r"code: expected a column in all three files, .* in members"):
        read(*files, schema=path)


def test_capitals_and_blanks_make_no_other_category() -> None:
    shouted = REAL.with_columns(job=" " + pl.col("job").str.to_uppercase())
    found = of_frames(MADE, shouted, REAL)
    assert found.members.values.tolist()[0] == found.control.values.tolist()[0]
    assert found.synthetic.schema.column("job").categories == ("clerk", "cook", ELSEWHERE)
    assert (
        "Column job: 2 texts that differed only in capitals, blanks or a decimal zero counted as equal." in found.notes
    )


def test_a_column_of_very_many_texts_is_left_out_with_a_note(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "job" in of_frames(MADE, REAL, REAL).synthetic.schema.names  # the control
    monkeypatch.setattr(table_files, "_MOST_LEVELS", 1)
    found = of_frames(MADE, REAL, REAL)
    assert found.synthetic.schema.names == ("age", "ill")
    assert "Column job looks like an identifier or free text" in found.notes[0] and "(--schema)" in found.notes[0]
    assert "more than 1 texts" in found.left_out["job"]
    typed = (frame.with_columns(pl.col("job").cast(pl.Categorical)) for frame in (MADE, REAL, REAL))
    assert of_frames(*typed).synthetic.schema.names == ("age", "ill")


@pytest.mark.long
def test_bad_files_are_one_line(tmp_path: Path) -> None:
    for name, frame in (("s", MADE), ("m", REAL.drop("age")), ("n", REAL)):
        frame.write_csv(tmp_path / f"{name}.csv")
    with pytest.raises(InputError, match=r"age: expected a column in all three files, .* in members") as caught:
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


# -- what would send a user the wrong way -----------------------------------------------------------------------------

PEOPLE = pl.DataFrame({"age": [20, 30, 40] * 20, "job": ["cook", "clerk", "smith"] * 20})
DECLARED = Schema(
    (
        Column("age", "continuous", low=18, high=35),
        Column("job", "categorical", ("Cook", "clerk", "smith")),
    )
)


def test_texts_differ_from_declared_categories_in_capitals_and_blanks_at_most() -> None:
    young = PEOPLE.filter(pl.col("age") < 35)
    shouted = young.with_columns(pl.col("job").str.to_uppercase() + " ")
    found = of_frames(young, shouted, young, schema=DECLARED)
    assert found.members.values.tolist() == found.control.values.tolist()
    assert found.notes[0].startswith("Column job: ")
    both = Schema((Column("job", "categorical", ("cook", "COOK", "clerk", "smith")),))  # two that differ in capitals
    assert of_frames(PEOPLE, PEOPLE, PEOPLE, schema=both).notes == ()
    unknown = young.with_columns(pl.lit("judge").alias("job"))
    with pytest.raises(InputError, match="members: job: expected one of Cook, clerk, smith"):
        of_frames(young, unknown, young, schema=DECLARED)


@pytest.mark.parametrize(("place", "name"), [(0, "synthetic"), (1, "members"), (2, "nonmembers")])
def test_a_value_outside_the_range_of_the_schema_names_the_file_and_what_helps(place: int, name: str) -> None:
    frames = [PEOPLE.filter(pl.col("age") < 35)] * 3
    of_frames(*frames, schema=DECLARED)  # the control
    frames[place] = PEOPLE
    with pytest.raises(InputError, match=f"{name}: age: expected numbers from 18 to 35, as the schema says") as caught:
        of_frames(*frames, schema=DECLARED)
    assert "20 other values, the first in row 2; write a wider range into the schema (--schema)" in str(caught.value)
    assert "outside" not in str(caught.value)  # no option of an audit


def test_marks_of_missing_numbers_are_counted_in_a_note(tmp_path: Path) -> None:
    files = [tmp_path / f"{name}.csv" for name in "smn"]
    for path in files:
        PEOPLE.write_csv(path)
    assert read(*files).notes == ()
    marked = PEOPLE.with_columns(pl.Series("age", ["NA", "?", *PEOPLE["age"].cast(pl.String)[2:]]))
    marked.write_csv(files[1])
    found = read(*files)
    assert found.synthetic.schema.column("age").kind == "continuous"
    assert np.isnan(found.members.column("age")).sum() == 2
    assert found.notes == (
        "Column age: 2 cells of members (NA) count as missing values. To make a text a category, list it in a schema "
        "(--schema).",
    )


def test_another_text_among_numbers_is_one_line_with_the_option_that_helps(tmp_path: Path) -> None:
    files = [tmp_path / f"{name}.csv" for name in "smn"]
    numbers = pl.DataFrame({"age": list(range(20, 80)), "job": ["cook", "clerk"] * 30})
    odd = numbers.with_columns(pl.Series("age", ["unknown", *numbers["age"].cast(pl.String)[1:]]))
    for place in (0, 1):
        for path in files:
            numbers.write_csv(path)
        odd.write_csv(files[place])
        with pytest.raises(InputError, match=r"age: expected numbers.*in row 0.*write NA or nothing.*\(--schema\)$"):
            read(*files)


def test_a_column_that_is_not_in_all_files_is_a_note_or_a_line() -> None:
    more = PEOPLE.with_columns(pl.lit(1).alias("ill"))
    found = of_frames(PEOPLE, more, PEOPLE)
    assert found.notes == (
        "The synthetic table lacks ill of the members: no attack uses what is not in all three files.",
    )
    assert found.left_out == {"ill": "the synthetic table does not have it"}
    with pytest.raises(
        InputError, match=r"ill: .*which the synthetic table has, in members; .*\(--schema\) without it"
    ):
        of_frames(more, PEOPLE, PEOPLE)
    schema = Schema((*DECLARED.columns, Column("ill")))
    with pytest.raises(InputError, match=r"ill: .*which the schema has, in synthetic and nonmembers; add it, or leave"):
        of_frames(PEOPLE, more, PEOPLE, schema=schema)

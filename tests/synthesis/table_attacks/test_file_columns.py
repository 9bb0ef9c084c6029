"""Columns that three files write differently: each with a control that must stay apart."""

from __future__ import annotations

from datetime import date, datetime

import numpy as np
import polars as pl
import pytest

from miaudit.errors import InputError
from miaudit.synthesis.schema import Table
from miaudit.synthesis.table_attacks.file_columns import alike, comparable, named
from miaudit.synthesis.table_attacks.table_files import Tables, of_frames

RNG = np.random.default_rng(0)
DAYS = [date(1940 + int(RNG.integers(60)), int(RNG.integers(1, 13)), int(RNG.integers(1, 29))) for _ in range(90)]
AGES = list(map(int, RNG.integers(18, 90, 90)))


def three(of_real: list[object], of_synthetic: list[object], name: str = "born") -> Tables:
    """Tables of which the synthetic one has the first 30 members, by age and one more column."""
    real = [pl.DataFrame({"age": AGES[part], name: of_real[part]}) for part in (slice(0, 45), slice(45, 90))]
    return of_frames(pl.DataFrame({"age": AGES[:30], name: of_synthetic[:30]}), *real)


def equal(found: Tables, name: str = "born") -> int:
    """Members of which the synthetic table has the age and the value of the column."""

    def pairs(table: Table) -> set[tuple[float, float]]:
        return set(zip(table.column("age").tolist(), table.column(name).tolist(), strict=True))

    return len(pairs(found.synthetic) & pairs(found.members))


@pytest.mark.parametrize(
    "way", ["%Y-%m-%d", "%d/%m/%Y", "%m/%d/%Y", "%d.%m.%Y", "%Y-%m-%d %H:%M:%S", "%Y-%m-%dT%H:%M:%S"]
)
def test_dates_are_days_however_they_are_written(way: str) -> None:
    iso = [day.isoformat() for day in DAYS]
    found = three(iso, [datetime(day.year, day.month, day.day).strftime(way) for day in DAYS])
    assert found.members.column("born").tolist() == [(day - date(1970, 1, 1)).days for day in DAYS[:45]]
    assert equal(found) == 30
    assert ("The files write them differently" in found.notes[0]) is (way != "%Y-%m-%d")


def test_dates_with_times_count_in_seconds_and_typed_ones_as_texts() -> None:
    moments = [datetime(day.year, day.month, day.day, 13, 45) for day in DAYS]
    found = three([str(moment) for moment in moments], moments)
    assert equal(found) == 30 and "count in seconds" in found.notes[0]
    assert equal(three(DAYS, [day.strftime("%d/%m/%Y") for day in DAYS])) == 30


def test_dates_that_may_be_read_in_two_ways_stay_texts() -> None:
    """03/04/2024 beside ISO dates: of March, or of April. In all files alike, it does not matter."""
    low = [date(day.year, day.month, min(day.day, 12)) for day in DAYS]
    slashes = [day.strftime("%d/%m/%Y") for day in low]
    found = three([day.isoformat() for day in low], slashes)
    assert found.synthetic.schema.names == ("age",) or equal(found) == 0
    assert equal(three(slashes, slashes)) == 30


def test_other_texts_are_no_dates() -> None:
    frames = dict.fromkeys(("synthetic", "members", "nonmembers"), pl.DataFrame({"a": ["2024-01-01", "soon"]}))
    assert alike(frames, "a") == [] and frames["members"]["a"].dtype == pl.String
    marked = dict.fromkeys(frames, pl.DataFrame({"a": ["2024-01-01", "NA", " 2024-01-02"]}))
    assert alike(marked, "a") and marked["members"]["a"].to_list() == [19723, None, 19724]


@pytest.mark.parametrize("truths", ["real", "synthetic"])
def test_true_and_false_equal_one_and_zero(truths: str) -> None:
    numbers = [int(age % 3 == 0) for age in AGES]
    booleans = [bool(number) for number in numbers]
    found = three(*((booleans, numbers) if truths == "real" else (numbers, booleans)), "ill")
    assert equal(found, "ill") == len(set(zip(AGES[:30], numbers, strict=False)))


def test_codes_with_a_decimal_zero_are_the_codes() -> None:
    codes = [str(age % 4) if age % 4 else "x" for age in AGES]
    found = three(codes, [code if code == "x" else f"{code}.0" for code in codes], "code")
    assert equal(found, "code") == len(set(zip(AGES[:30], codes, strict=False)))
    other = three(codes, [code if code == "x" else f"{code}.5" for code in codes], "code")
    assert equal(other, "code") == len({pair for pair in zip(AGES[:30], codes, strict=False) if pair[1] == "x"})


def test_row_numbers_without_a_name_are_left_out() -> None:
    bare = pl.DataFrame({"age": AGES[:40]})
    frames = {"synthetic": bare.with_columns(pl.Series("", range(40))), "members": bare, "nonmembers": bare}
    assert "numbers the rows" in named(frames)[0] and frames["synthetic"].columns == ["age"]
    with pytest.raises(InputError, match="synthetic: expected a name for each column"):
        named({"synthetic": bare.with_columns(pl.Series("", AGES[:40]))})


def test_an_identifier_that_only_the_synthetic_table_has_is_left_out_and_another_column_is_not() -> None:
    bare = pl.DataFrame({"age": AGES[:40]})
    frames = {"synthetic": bare.with_columns(id=pl.Series(range(40))), "members": bare, "nonmembers": bare}
    notes, why = comparable(frames)
    assert "Column id was left out: only the synthetic table has it" in notes[0] and set(why) == {"id"}
    assert frames["synthetic"].columns == ["age"]
    frames["synthetic"] = bare.with_columns(pl.Series("ill", AGES[:40]))
    with pytest.raises(InputError, match=r"ill: .*which the synthetic table has, in members"):
        comparable(frames)
    frames["synthetic"] = bare.rename({"age": " AGE"})
    with pytest.raises(InputError, match="did you mean age"):
        comparable(frames)


def test_a_column_that_is_empty_in_the_synthetic_table_is_left_out() -> None:
    found = three(list(AGES), [None] * 30, "dose")
    assert found.synthetic.schema.names == ("age",)
    assert found.notes == ("Column dose was left out: it is empty in the synthetic table.",)


def test_numbers_beside_texts_alone_are_left_out_and_beside_numbers_they_are_not() -> None:
    words = ["yes" if age % 2 else "no" for age in AGES]
    found = three(words, [int(word == "yes") for word in words], "ill")
    assert found.synthetic.schema.names == ("age",) and "write it alike" in found.notes[0]
    with pytest.raises(InputError, match="ill: expected numbers, as in the synthetic table"):
        three([*words[:-1], "1"], [int(word == "yes") for word in words], "ill")


@pytest.mark.parametrize("side", ["real", "synthetic"])
def test_a_text_for_what_is_missing_equals_an_empty_cell(side: str) -> None:
    texts = ["NA" if age % 3 == 0 else "cook" for age in AGES]
    gaps = [None if text == "NA" else text for text in texts]
    found = three(*((texts, gaps) if side == "real" else (gaps, texts)), "job")
    assert "NA in " in found.notes[0] and found.members.schema.column("job").missing
    assert np.isnan(found.members.column("job")).sum() == texts[:45].count("NA")
    assert np.isnan(found.synthetic.column("job")).sum() == texts[:30].count("NA")
    both = three(texts, texts, "job")  # the control: a category of its own
    assert not both.notes and both.members.schema.column("job").categories == ("NA", "cook")

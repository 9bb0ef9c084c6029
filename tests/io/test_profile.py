"""What columns look like: each kind, what is kept of a column and what never is, and files that are no table."""

from __future__ import annotations

import datetime
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from miaudit.errors import InputError
from miaudit.io import profile as profiles
from miaudit.io.profile import ColumnProfile, head, outward, profile

N = 400
RNG = np.random.default_rng(0)
SMALL = RNG.integers(0, 40, N)


def one(values: object, name: str = "column", rare: int = 10) -> ColumnProfile:
    return profile(pl.DataFrame({name: values}), rare)[0]


@pytest.mark.parametrize(
    ("values", "kind", "kept"),
    [
        ([0, 1] * 50, "binary", ()),
        ([0.0] * 100, "binary", ()),  # what 0 and 1 stand for is named by nobody
        ([True, False] * 50, "binary", ()),
        (["True"] * 100, "binary", ("False", "True")),
        (["yes", "no"] * 50, "binary", ("no", "yes")),
        ([1, 2] * 50, "binary", (1, 2)),
        ([1, 2, 5] * 50, "ordinal", (1, 2, 3, 4, 5)),
        ([0.5, 1.0, 2.5] * 50, "ordinal", (0.5, 1.0, 2.5)),
        ([0, 20, 500] * 50, "ordinal", (0, 20, 500)),
        (["b", "a", "c"] * 50, "categorical", ("a", "b", "c")),
        (["007", "008"] * 50, "binary", ("007", "008")),
        (["x"] * 100, "constant", ()),
        ([7] * 100, "constant", ()),
        ([None] * 100, "empty", ()),
        ([float("nan")] * 100, "empty", ()),
        ([f"P{i}" for i in range(N)], "identifier", ()),
        (list(range(1000, 1000 + N)), "identifier", ()),
        ([datetime.date(2020, 1, 1), datetime.date(2021, 5, 1)] * 50, "date", ()),
        (["2020-01-31", "31.1.2020"] * 50, "date", ()),
        ([20200131, 20211231] * 50, "date", ()),
        ([f"the patient said it hurts {i}" for i in range(60)] * 6, "text", ()),
        (["x" * 200, "y"] * 50, "text", ()),
        ([f"c{i}" for i in range(60)] * 6, "text", ()),
        (["", "a"] * 50, "unusable", ()),
        ([f"{i},5" for i in range(60)] * 6, "unusable", ()),
        ([f"{i}" for i in range(60)] * 6 + ["NA"] * 10, "unusable", ()),
        ([1.0, float("inf")] * 50, "unusable", ()),
        ([1e16, 2.0] * 50, "unusable", ()),
        ([[1], [2]] * 50, "unusable", ()),
        (["a", "b", "c"] * 5, "unusable", ()),  # fewer than ten rows have each
    ],
)
def test_each_kind_is_told_by_its_values(values: list[object], kind: str, kept: tuple[object, ...]) -> None:
    found = one(values)
    assert (found.kind, found.categories) == (kind, kept)
    assert found.usable == (not found.reason)


@pytest.mark.parametrize("name", ["name", "first_name", "lastName", "E-Mail", "patient ID", "user.phone", "password"])
def test_names_and_secrets_are_left_out_by_the_name_of_their_column(name: str) -> None:
    assert one(["a", "b"] * 50, name).kind == "secret"
    assert one([0, 1] * 50, name).kind == "binary"  # whether there is one


@pytest.mark.parametrize("name", ["identity", "renamed", "valid", "shipment", "idea"])
def test_parts_of_words_are_no_such_names(name: str) -> None:
    assert one(["a", "b"] * 50, name).kind == "binary"


def test_a_column_without_a_name_is_left_out() -> None:
    assert one([1, 2] * 50, "").kind == "unusable"


def test_rare_values_are_never_kept() -> None:
    found = one(["north", "south"] * 50 + ["the one hermit"] * 9)
    assert found.kind == "categorical" and found.categories == ("north", "south") and found.rare
    assert "hermit" not in repr(found)
    assert one(["north", "south"] * 50 + ["the one hermit"] * 10).categories == ("north", "south", "the one hermit")
    children = one([0, 1, 2, 3] * 50 + [9])  # a number that one row has makes a range, not a category
    assert (children.kind, children.low, children.high, children.decimals) == ("continuous", 0, 10, 0)
    assert one(["a", "b", "c"], rare=1).categories == ("a", "b", "c")


def test_ranges_are_round_and_beyond_every_value() -> None:
    rng = np.random.default_rng(1)
    for _ in range(500):
        ends = np.sort(np.round(rng.normal(0, 1, 2) * 10.0 ** rng.integers(-5, 8), rng.integers(0, 6)))
        if ends[0] < ends[1]:
            low, high = outward(*ends.tolist())
            assert low <= ends[0] < ends[1] <= high
            assert low < ends[0] or low == 0
            assert high > ends[1] or high == 0
            assert high - low < 3.1 * (ends[1] - ends[0])
            step = 10.0 ** np.floor(np.log10((ends[1] - ends[0]) / 4))
            assert all(abs(end / step - round(end / step)) < 1e-6 for end in (low, high))
    assert outward(1950, 2020) == (1940, 2040)


def test_decimals_are_those_of_the_values() -> None:
    assert one(np.round(RNG.normal(0, 1, N), 2)).decimals == 2
    assert one(pl.Series(np.round(RNG.normal(0, 1, N), 2), dtype=pl.Float32)).decimals == 2
    assert one(RNG.normal(0, 1, N)).decimals is None
    assert one(SMALL.astype(float)).decimals == 0


def test_missing_values_are_seen_in_every_type() -> None:
    for values in ([1.0, None, 2.0] * 20, [1.0, float("nan"), 2.0] * 20, ["a", None, "b"] * 20, [1, None, 2] * 20):
        assert one(values).missing
    assert not one([1.0, 2.0] * 20).missing


def test_a_file_gives_what_its_frame_gives(tmp_path: Path) -> None:
    frame = pl.DataFrame(
        {
            "age": SMALL,
            "count": (SMALL % 3).astype(float),  # names that a table of counts has too
            "rows": [("a", "b")[i % 2] for i in SMALL],
            "value": [None if i % 7 == 0 else float(i) for i in SMALL],
            "code": [f"00{i % 3}" for i in SMALL],
        }
    )
    frame.write_csv(tmp_path / "t.csv")
    frame.write_parquet(tmp_path / "t.parquet")
    found = [(profile(made), total) for made, total in map(head, (tmp_path / "t.csv", tmp_path / "t.parquet"))]
    assert found[0] == found[1] == (profile(frame), N)
    assert [column.kind for column in profile(frame)] == [
        "continuous",
        "ordinal",
        "binary",
        "continuous",
        "categorical",
    ]


def test_only_the_first_rows_are_loaded_and_all_are_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pl.DataFrame({"a": [0, 1] * 500, "b": ['x\n"y"', "z"] * 500}).write_csv(tmp_path / "t.csv")
    for rows in (10, 999, 1000):
        frame, total = head(tmp_path / "t.csv", rows=rows)
        assert (frame.height, total) == (rows, 1000)
    monkeypatch.setattr(profiles, "_CELLS", 60)  # of a wide table fewer
    assert head(tmp_path / "t.csv")[0].height == 30


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("t.csv", "", "a complete .csv file"),
        ("t.csv", "a,b\n", "at least one row"),
        ("t.csv", "a,a\n1,2\n", "stands twice"),
        ("t.csv", "a;b\n1;2,5\n", "separated by ';'; save it with commas"),
        ("t.csv", "a,b\n1,2,3\n", "a complete .csv file"),
        ("t.parquet", "no such thing", "a complete .parquet file"),
        ("t.xlsx", "a", "a name ending in .csv or .parquet"),
    ],
)
def test_what_is_no_table_is_refused_in_one_line(tmp_path: Path, name: str, content: str, message: str) -> None:
    (tmp_path / name).write_text(content)
    with pytest.raises(InputError, match=message) as caught:
        head(tmp_path / name)
    assert "\n" not in str(caught.value)

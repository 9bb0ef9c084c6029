from __future__ import annotations

import datetime
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from miaudit.errors import InputError
from miaudit.io import frames
from miaudit.jobs.resumable import digest

pd = pytest.importorskip("pandas", reason="pandas is not installed")
pa = pytest.importorskip("pyarrow", reason="pyarrow is not installed")

ROWS = pl.DataFrame(
    {
        "age": [30, None, 50],
        "site": ["n", None, "s"],
        "level": pl.Series(["low", "high", None], dtype=pl.Enum(["low", "high"])),
        "seen": [datetime.date(2020, 1, 1), None, datetime.date(2021, 5, 6)],
        "old": [True, False, True],
    }
)


def test_polars_and_arrow_become_the_frame_that_pandas_would_be_given() -> None:
    expected = pd.DataFrame(
        {
            "age": [30.0, np.nan, 50.0],
            "site": ["n", None, "s"],
            "level": pd.Categorical(["low", "high", None], categories=["low", "high"]),
            "seen": pd.to_datetime(["2020-01-01", None, "2021-05-06"]).astype("datetime64[ms]"),
            "old": [True, False, True],
        }
    )
    for given in (ROWS, ROWS.lazy()):
        pd.testing.assert_frame_equal(frames.to_pandas(given), expected)
    plain = ["age", "site", "seen", "old"]
    pd.testing.assert_frame_equal(
        frames.to_pandas(pa.table(ROWS.select(plain).to_dict(as_series=False))), expected[plain]
    )


@pytest.mark.parametrize("suffix", [".parquet", ".csv"])
def test_files_give_the_types_they_hold(suffix: str, tmp_path: Path) -> None:
    path = tmp_path / f"t{suffix}"
    ROWS.write_parquet(path) if suffix == ".parquet" else ROWS.write_csv(path)
    found = frames.read(path, ["seen", "age", "site"], "data")
    assert list(found.columns) == ["seen", "age", "site"]
    assert [one.kind for one in found.dtypes] == ["M", "f", "O"]
    assert found["site"].isna().tolist() == [False, True, False]


def changed() -> dict[str, Any]:
    frame = frames.to_pandas(ROWS)
    return {
        "a value": frame.assign(age=[30.0, np.nan, 51.0]),
        "a gap": frame.assign(age=[30.0, 40.0, 50.0]),
        "a name": frame.rename(columns={"age": "years"}),
        "a type": frame.assign(old=[1, 0, 1]),
        "an order": frame[frame.columns[::-1]],
        "a level": frame.assign(level=frame["level"].cat.add_categories("x")),
        "a date": frame.assign(seen=frame["seen"] + pd.Timedelta(days=1)),
        "a text": frame.assign(site=["n", "s", "s"]),
        "a row": frame.iloc[:2],
    }


@pytest.mark.parametrize("what", changed())
def test_each_change_of_a_frame_changes_its_digest(what: str) -> None:
    frame = frames.to_pandas(ROWS)
    assert digest(frame.set_axis([7, 8, 9])) == digest(frame)  # but for the index, which no model sees
    assert digest(changed()[what]) != digest(frame)


@pytest.mark.long
def test_the_digest_is_the_same_in_another_process() -> None:
    code = (
        "import pandas as pd; from miaudit.jobs.resumable import digest;"
        "print(digest(pd.DataFrame({'a': pd.Categorical(['x', None, 'y']), 'b': ['u', 'v', None]})))"
    )
    here = digest(pd.DataFrame({"a": pd.Categorical(["x", None, "y"]), "b": ["u", "v", None]}))
    there = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert there.stdout.strip() == here


def test_rows_are_taken_alike_from_all_kinds() -> None:
    rows, frame = np.array([2, 0]), frames.to_pandas(ROWS)
    assert frames.taken(frame, rows)["site"].tolist() == ["s", "n"]
    assert frames.taken(["a", "b", "c"], np.array([True, False, True])) == ["a", "c"]
    assert frames.taken(np.arange(3), rows).tolist() == [2, 0]


def test_columns_named_as_categories_keep_all_levels_in_each_part() -> None:
    made = frames.to_pandas(ROWS.select("site"), categories=["site"])
    assert made.iloc[:1]["site"].cat.categories.tolist() == ["n", "s"]
    with pytest.raises(InputError, match="did you mean site"):
        frames.to_pandas(ROWS, categories=["sites"])


def test_other_columns_are_refused_by_name() -> None:
    frame = frames.to_pandas(ROWS)
    for other, word in (
        (frame.drop(columns="age"), "none named 'age'"),
        (frame.assign(more=1), "also 'more'"),
        (frame.assign(age="x"), "texts in column 'age', and numbers there"),
    ):
        with pytest.raises(InputError, match=word):
            frames.same_columns(frame, other, "nonmembers", "members")
    assert list(frames.same_columns(frame, frame[frame.columns[::-1]], "b", "a").columns) == list(frame.columns)


def test_what_no_model_reads_is_refused() -> None:
    for given in (pl.DataFrame({"a": [[1], [2]]}), pd.DataFrame({"a": [object(), object()]})):
        with pytest.raises(InputError, match="convert the column first"):
            frames.to_pandas(given)
    with pytest.raises(InputError, match="a column or more"):
        frames.to_pandas(pd.DataFrame(index=range(3)))
    with pytest.raises(InputError, match="shape"):
        frames.of_columns({"a": np.zeros((2, 2))}, "data.x")


def test_without_pandas_there_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(InputError, match="pip install pandas"):
        frames.to_pandas(ROWS)

"""Dates, categories and missing values of tables become numbers, alike from every kind of table."""

from __future__ import annotations

from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from miaudit import Evidence, Plan, audit
from miaudit.errors import InputError
from miaudit.io import numeric

COLUMNS: dict[str, list[Any]] = {
    "s": [0.1, 0.2, 0.3, 0.4],
    "m": [True, False, True, False],
    "age": [30.0, None, 50.0, 70.0],
    "visits": [3, 4, None, 4],
    "seen": [date(2024, 2, 29), date(1970, 1, 2), None, date(1970, 1, 1)],
    "smokes": [True, None, False, False],
    "site": ["b", None, "a", "b"],
}
NAMES = ("age", "visits", "seen", "smokes", "site", "age missing", "visits missing", "seen missing", "smokes missing")
EXPECTED = np.array([
    [30.0, 3.0, 19782.0, 1.0, 2.0, 0.0, 0.0, 0.0, 0.0],
    [50.0, 4.0, 1.0, 0.0, 0.0, 1.0, 0.0, 0.0, 1.0],
    [50.0, 4.0, 1.0, 0.0, 1.0, 0.0, 1.0, 1.0, 0.0],
    [70.0, 4.0, 0.0, 0.0, 2.0, 0.0, 0.0, 0.0, 0.0],
])  # fmt: skip
ASKED: dict[str, Any] = {"score": "s", "member": "m", "covariates": list(COLUMNS)[2:], "categories": "site"}


@pytest.mark.parametrize("kind", ["csv", "parquet", "polars", "arrow", "pandas"])
def test_gaps_and_dates_are_the_same_numbers_from_every_table(kind: str, tmp_path: Path) -> None:
    frame = pl.DataFrame(COLUMNS)
    if kind in ("csv", "parquet"):
        path = tmp_path / f"table.{kind}"
        (frame.write_csv if kind == "csv" else frame.write_parquet)(path)
        found = Evidence.load(path, **ASKED)
    elif kind == "pandas":
        pandas = pytest.importorskip("pandas")
        table = pandas.DataFrame(COLUMNS)
        table["seen"] = pandas.to_datetime(table["seen"])
        table["visits"] = table["visits"].astype("Int64")
        found = Evidence.from_frame(table, **ASKED)
    else:
        if kind == "arrow":
            pytest.importorskip("pyarrow")
        found = Evidence.from_frame(frame if kind == "polars" else frame.to_arrow(), **ASKED)
    assert found.covariate_names == NAMES
    assert found.covariates is not None
    assert np.array_equal(found.covariates, EXPECTED)


def test_arrays_of_dates_and_with_nan_are_read_from_npz(tmp_path: Path) -> None:
    seen = np.array(["2024-02-29", "NaT", "1970-01-02", "1970-01-03"], dtype="datetime64[D]")
    grid = np.array([[1.0, np.nan], [2, 5], [3, 7], [4, 6]])
    np.savez(tmp_path / "t.npz", s=np.arange(4.0), m=np.arange(4) % 2, seen=seen, grid=grid)
    found = Evidence.load(tmp_path / "t.npz", score="s", member="m", covariates=["seen", "grid"])
    assert found.covariate_names == ("seen", "grid[0]", "grid[1]", "seen missing", "grid[1] missing")
    assert found.covariates is not None
    assert found.covariates[:, 0].tolist() == [19782, 2, 1, 2]
    assert found.covariates[0].tolist() == [19782, 1, 6, 0, 1]


@pytest.mark.parametrize("kind", ["npz", "parquet", "pandas", "polars"])
def test_times_of_every_table_and_zone_are_days_of_one_clock(kind: str, tmp_path: Path) -> None:
    times = np.array(["1969-12-31T12:00:00.0015", "NaT", "2024-02-29T06:00", "1970-01-02"], dtype="datetime64[us]")
    frame = pl.DataFrame({"seen": times, "s": np.arange(4.0), "m": np.arange(4) % 2})
    asked: dict[str, Any] = {"score": "s", "member": "m", "covariates": "seen"}
    if kind == "npz":
        np.savez(tmp_path / "t.npz", **{name: frame[name].to_numpy() for name in frame.columns})
        found = Evidence.load(tmp_path / "t.npz", **asked)
    elif kind == "parquet":
        frame = frame.with_columns(pl.col("seen").dt.replace_time_zone("UTC").dt.convert_time_zone("Asia/Tokyo"))
        frame.write_parquet(tmp_path / "t.parquet")
        found = Evidence.load(tmp_path / "t.parquet", **asked)
    elif kind == "pandas":
        pandas = pytest.importorskip("pandas")
        columns = {name: frame[name].to_numpy() for name in frame.columns}
        found = Evidence.from_frame(pandas.DataFrame(columns), **asked)
    else:
        found = Evidence.from_frame(frame, **asked)
    assert found.covariates is not None
    assert found.covariates[[0, 2, 3], 0].tolist() == pytest.approx([-0.5, 19782.25, 1.0], abs=1e-7)
    assert found.covariates[:, 1].tolist() == [0, 1, 0, 0]


def test_times_of_day_are_parts_of_days() -> None:
    found = numeric.days(np.array(["1970-01-02T12:00Z", "", "1970-01-02 06:00:00.5"]), "seen")
    assert found[0] == 1.5
    assert np.isnan(found[1])
    assert found[2] == pytest.approx(1.25 + 0.5 / 86400)


@pytest.mark.parametrize("text", ["5", "2024", "29.02.2024", "2024-02-29+02:00", "Ada"])
def test_texts_that_are_no_dates_stay_texts(text: str) -> None:
    values = np.array(["2024-02-29", text])
    assert numeric.days(values, "seen") is values


@pytest.mark.parametrize(
    ("column", "values", "message"),
    [
        ("seen", np.array(["2023-02-29", "2024-02-29", "", ""]), "dates of the calendar"),
        ("age", np.full(4, np.nan), "leave it out"),
        ("age", np.array([np.inf, np.nan, 1, 2]), "finite numbers"),
        ("s", np.array([np.nan, 1, 2, 3]), "fill them"),
    ],
)
def test_what_no_column_may_hold_is_one_clear_line(
    column: str, values: np.ndarray, message: str, tmp_path: Path
) -> None:
    given = {"s": np.arange(4.0), "m": np.arange(4) % 2, "age": np.arange(4.0), column: values}
    np.savez(tmp_path / "t.npz", **given)
    asked = "age" if column == "s" else column
    with pytest.raises(InputError, match=message):
        Evidence.load(tmp_path / "t.npz", score="s", member="m", covariates=asked)


def test_the_column_of_gaps_takes_no_name_that_is_there() -> None:
    gap = np.array([np.nan, 1.0])
    with pytest.raises(InputError, match="rename"):
        numeric.completed({"age": gap, "age missing": np.zeros(2)})


@pytest.mark.thorough
@pytest.mark.long
def test_a_shift_in_what_is_missing_is_corrected_and_would_be_a_leak_without_the_column_of_gaps() -> None:
    """Members lack their age more often, and the score goes with the lack; nothing is memorised."""
    rng = np.random.default_rng(3)
    member = rng.random(3000) < 0.5
    age, hours = rng.normal(40, 10, 3000), rng.normal(size=3000)
    lacks = rng.random(3000) < np.where(member, 0.5, 0.2)
    table = pl.DataFrame({"m": member, "s": 1.5 * lacks + rng.normal(size=3000), "hours": hours})
    gaps, filled = table.with_columns(age=np.where(lacks, np.nan, age)), table.with_columns(age=age)
    plan = Plan(primary_metric="auc", bounds=None)
    asked: dict[str, Any] = {"score": "s", "member": "m", "covariates": ["age", "hours"], "design": "zero-run"}
    found, naive = (
        audit(Evidence.from_frame(each, **asked), plan=plan, rng=np.random.default_rng(0)) for each in (gaps, filled)
    )
    corrected, raw, wrong = (
        next(metric for metric in findings.metrics if (metric.name, metric.estimator) == ("auc", estimator))
        for findings, estimator in ((found, "aipw"), (found, "raw"), (naive, "aipw"))
    )
    assert found.verdict.status == "clear"
    assert corrected.low < 0.5 < corrected.high
    assert min(raw.low, wrong.low) > 0.55  # the control: without knowing where the age lacks


@pytest.mark.parametrize(
    "values",
    [
        np.array([2**53, 2**53 + 1]),
        np.array([2**63 + 1, 2**63 + 2], dtype=np.uint64),
        [2**53 + 1, 2**53, 0.5],
        [2**70, 2**70 + 1],
        np.array([2**53 + 1, 2**53], dtype=object),
        np.array(["1", "1.00000000000000000001"], dtype=np.longdouble) + np.longdouble(2) ** -60 * np.array([0, 1]),
    ],
)
def test_numbers_that_float64_makes_equal_are_refused(values: object) -> None:
    with pytest.raises(InputError, match="numbers that float64 keeps apart"):
        numeric.finite(values, "score", 1)


@pytest.mark.parametrize("values", [[2**60, 2**61], np.array([2**53, 2**53 + 2]), [2**53 + 1, 2**53 + 1], [5, 2**70]])
def test_large_numbers_that_stay_apart_keep_their_order(values: object) -> None:
    found = numeric.finite(values, "score", 1)
    assert found.tolist() == [float(value) for value in np.asarray(values, dtype=object)]


def test_a_column_of_one_is_taken_as_it_is() -> None:
    assert numeric.finite([[1.0], [2.0]], "score", 1).tolist() == [1.0, 2.0]
    with pytest.raises(InputError, match="shape"):
        numeric.finite([[1.0, 3.0], [2.0, 4.0]], "score", 1)


def test_texts_that_should_be_numbers_are_named_with_their_row() -> None:
    with pytest.raises(InputError, match=r"text \('0,5' in row 1, a decimal comma; 1 such row\); write a point"):
        numeric.finite(np.array(["0.5", "0,5"]), "score", 1)
    with pytest.raises(InputError, match=r"1 missing \(NA\), the first in row 1"):
        numeric.finite(np.array(["0.5", "NA"]), "score", 1)

"""Columns that an audit does not use: read from every format, bounded, and never a reason to fail."""

from __future__ import annotations

from datetime import date, timedelta
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from miaudit.collect import unused_columns
from miaudit.collect.unused_columns import UnusedValues

N = 60
USED = {"score": "s", "member": "m", "covariates": ["age"]}


def frame() -> pl.DataFrame:
    rng = np.random.default_rng(0)
    numbers = rng.normal(size=N)
    return pl.DataFrame(
        {
            "s": rng.normal(size=N),
            "m": np.arange(N) % 2,
            "age": rng.normal(size=N),
            "size": [None if i % 5 == 0 else float(numbers[i]) for i in range(N)],
            "site": [["", "b", "a"][i % 3] for i in range(N)],
            "name": [f"id{i}" for i in range(N)],
            "row": np.arange(N),
            "same": np.full(N, 7),
            "seen": [str(date(2020, 1, 1) + timedelta(days=i % 9)) for i in range(N)],
            "logit": rng.normal(size=N),
            "in_train": np.arange(N) % 2,
            "source": [["x", "y"][i % 2] for i in range(N)],
        }
    )


def written(path: Path, table: pl.DataFrame) -> Path:
    if path.suffix == ".npz":
        columns = {
            c.name: np.array(["" if v is None else v for v in c]) if c.dtype == pl.String else c.to_numpy()
            for c in table
        }
        np.savez(path, **columns, matrix=np.zeros((N, 2)), short=np.zeros(3))
    elif path.suffix == ".csv":
        table.write_csv(path)
    else:
        table.with_columns(pl.col("seen").str.to_date(), lists=pl.Series([[1.0, 2.0]] * N)).write_parquet(path)
    return path


@pytest.mark.parametrize(("ending", "left"), [("csv", 0), ("parquet", 1), ("npz", 2)])
def test_every_format_is_read(tmp_path: Path, ending: str, left: int) -> None:
    unused = unused_columns.read(written(tmp_path / f"a.{ending}", frame()), N, **USED)
    assert unused is not None
    assert set(unused.numbers) == {"size", "seen"}
    assert set(unused.categories) == {"site", "source"}
    assert set(unused.outputs) == {"logit", "in_train"}
    assert unused.left == left  # lists, matrices and arrays of another length
    assert np.flatnonzero(np.isnan(unused.numbers["size"])).tolist() == list(range(0, N, 5))
    assert unused.categories["site"][:3].tolist() == [-1, 1, 0]
    assert set(np.diff(np.unique(unused.numbers["seen"])).tolist()) == {1.0}


def test_columns_in_use_are_not_unused(tmp_path: Path) -> None:
    path = written(tmp_path / "a.csv", frame())
    also = ["logit", "seen", "in_train"]
    options = {"unit": "site", "text": "source", "group": "size"}
    assert unused_columns.read(path, N, also, **USED, **options) is None


def test_saved_evidence_has_its_own_names(tmp_path: Path) -> None:
    path = tmp_path / "e.npz"
    own = {"score": np.arange(4.0), "member": np.arange(4) % 2, "covariate.age": np.arange(4.0), "id": np.arange(4)}
    np.savez(path, **own, design=np.full(4, "zero-run"), source=np.full(4, "x"), propensity=np.full(4, 0.5))
    assert unused_columns.read(path, 4) is None


def test_thousands_of_columns_are_counted_and_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    wide = frame().select("s", "m", "age").hstack(pl.DataFrame({f"g{i}": rng.normal(size=N) for i in range(1500)}))
    path = tmp_path / "wide.parquet"
    wide.write_parquet(path)
    unused = unused_columns.read(path, N, **USED)
    assert unused is not None
    assert (len(unused.numbers), unused.left) == (200, 1300)
    monkeypatch.setattr(unused_columns, "_CELLS", 10 * N)
    fewer = unused_columns.read(path, N, **USED)
    assert fewer is not None
    assert (len(fewer.numbers), fewer.left) == (10, 1490)


def test_a_column_that_cannot_be_read_is_left(tmp_path: Path) -> None:
    dates = ["2024-02-29", "2023-02-29"] * (N // 2)  # one is no date
    table = frame().select("s", "m", "age", "size").with_columns(odd=pl.Series(dates))
    unused = unused_columns.read(written(tmp_path / "a.csv", table.with_columns(seen=pl.lit("2020-01-01"))), N, **USED)
    assert unused is not None
    assert list(unused.numbers) == ["size"]
    assert unused.left == 1


def test_no_file_is_no_failure(tmp_path: Path) -> None:
    assert unused_columns.read(tmp_path / "none.csv", N, **USED) is None
    (tmp_path / "bad.parquet").write_bytes(b"PAR1")
    assert unused_columns.read(tmp_path / "bad.parquet", N, **USED) is None


def test_infinite_values_are_missing(tmp_path: Path) -> None:
    path = tmp_path / "a.npz"
    np.savez(path, s=np.arange(4.0), m=np.arange(4) % 2, a=np.array([np.inf, 1.5, 2.5, 0.5]), flag=np.arange(4) < 2)
    unused = unused_columns.read(path, 4, score="s", member="m")
    assert isinstance(unused, UnusedValues)
    assert np.isnan(unused.numbers["a"]).tolist() == [True, False, False, False]
    assert unused.numbers["flag"].tolist() == [1.0, 1.0, 0.0, 0.0]

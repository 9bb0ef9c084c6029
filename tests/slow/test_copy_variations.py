"""Copies of 1, 2 and 6% of 2,000 members, in files that differ in what does not describe a person; and no copies.

python -m pytest tests/slow/test_copy_variations.py -s      # prints which tests flag which variation
"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from miaudit.synthesis.table_attacks.copies import CopyTests
from miaudit.synthesis.table_attacks.keys import WithoutKeys
from miaudit.synthesis.table_attacks.table_files import read
from synthesis.table_attacks.test_near_copies import CHANGES, compared, flagged
from worlds.patients import patients

pytestmark = pytest.mark.slow

N = 2000
Rng = np.random.Generator
Write = Callable[[list[pl.DataFrame], Rng], list[pl.DataFrame]]  # synthetic table, members, control records


def with_column(frames: list[pl.DataFrame], name: str, values: list[list[object]]) -> list[pl.DataFrame]:
    return [frame.with_columns(pl.Series(name, own)) for frame, own in zip(frames, values, strict=True)]


def keys(frames: list[pl.DataFrame], rng: Rng, name: str = "patient_id", way: str = "{}") -> list[pl.DataFrame]:
    drawn = rng.permutation(10**6)[: 3 * N].reshape(3, N)
    return with_column(frames, name, [[way.format(key) if way != "{}" else key for key in own] for own in drawn])


def repeated_keys(frames: list[pl.DataFrame], rng: Rng) -> list[pl.DataFrame]:
    """As of a generator that takes the key for a measurement, or draws keys that it saw."""
    real = rng.permutation(2 * N)
    return with_column(frames, "patient_id", [rng.integers(0, 2 * N, N).tolist(), real[:N].tolist(), real[N:].tolist()])


def of_synthetic(change: Callable[[pl.DataFrame], pl.DataFrame]) -> Write:
    return lambda frames, _: [change(frames[0]), *frames[1:]]


def of_real(change: Callable[[pl.DataFrame], pl.DataFrame]) -> Write:
    return lambda frames, _: [frames[0], *map(change, frames[1:])]


def truth(frame: pl.DataFrame) -> pl.DataFrame:
    return frame.with_columns(old=pl.col("age") > 60)


def born(frame: pl.DataFrame, way: str) -> pl.DataFrame:
    """Birthdays by age and income, so that a copy has that of its record."""
    days = (2026 - pl.col("age")) * 365 + (pl.col("income") * 100).cast(pl.Int64) % 365
    return frame.with_columns(born=(days - 1970 * 365).cast(pl.Date).dt.strftime(way))


FILES: dict[str, Write] = {
    "new key": keys,
    "key with a prefix": lambda frames, rng: keys(frames, rng, way="P-{:07d}"),
    "two keys": lambda frames, rng: keys(keys(frames, rng), rng, "visit", "V{}"),
    "uuid": lambda frames, rng: with_column(
        frames, "id", [[str(uuid.UUID(bytes=rng.bytes(16))) for _ in range(N)] for _ in range(3)]
    ),
    "row number": lambda frames, _: [frame.with_row_index("row") for frame in frames],
    "row numbers without a name": lambda frames, _: [frame.with_row_index("") for frame in frames],
    "key that repeats in the synthetic table": repeated_keys,
    "text key that repeats": lambda frames, rng: [
        frame.with_columns(patient_id="P" + pl.col("patient_id").cast(pl.String))
        for frame in repeated_keys(frames, rng)
    ],
    "key of the synthetic table alone": of_synthetic(lambda frame: frame.with_row_index("id")),
    "key of the members and control records alone": lambda frames, rng: [frames[0], *keys(frames, rng)[1:]],
    "key that is empty in the synthetic table": lambda frames, rng: [
        frames[0].with_columns(patient_id=pl.lit(None)),
        *keys(frames, rng)[1:],
    ],
    "other order of columns": of_synthetic(lambda frame: frame.select(sorted(frame.columns))),
    "equal records in the synthetic table": of_synthetic(lambda frame: pl.concat([frame, frame.head(500)])),
    "one column less in the synthetic table": of_synthetic(lambda frame: frame.drop("dose")),
    "whole numbers as 79.0": of_synthetic(lambda frame: frame.with_columns(pl.col("age").cast(pl.Float64))),
    "NA among numbers": of_real(
        lambda frame: frame.with_columns(
            pl.when(pl.int_range(pl.len()) == 1500)
            .then(pl.lit("NA"))
            .otherwise(pl.col("bmi").cast(pl.String))
            .alias("bmi")
        )
    ),
    "true and 1": lambda frames, _: [
        truth(frames[0]).with_columns(pl.col("old").cast(pl.Int8)),
        *map(truth, frames[1:]),
    ],
    "yes and 1": lambda frames, _: [
        truth(frames[0]).with_columns(pl.col("old").replace_strict({True: "yes", False: "no"}, return_dtype=pl.String)),
        *(truth(frame).with_columns(pl.col("old").cast(pl.Int8)) for frame in frames[1:]),
    ],
    "1 and yes": lambda frames, _: [
        truth(frames[0]).with_columns(pl.col("old").cast(pl.Int8)),
        *(
            truth(frame).with_columns(pl.col("old").replace_strict({True: "yes", False: "no"}, return_dtype=pl.String))
            for frame in frames[1:]
        ),
    ],
    "a text for what is missing": lambda frames, _: [
        frames[0].with_columns(pl.col("job").replace({"a": None})),
        *(frame.with_columns(pl.col("job").replace({"a": "NA"})) for frame in frames[1:]),
    ],
    "dates": lambda frames, _: [born(frame, "%Y-%m-%d") for frame in frames],
    "dates written differently": lambda frames, _: [
        born(frames[0], "%d.%m.%Y"),
        *(born(frame, "%Y-%m-%d") for frame in frames[1:]),
    ],
    "free text": lambda frames, _: [
        frame.with_columns(note="at " + pl.col("income").cast(pl.String) + " a year") for frame in frames
    ],
    "numbers with a unit": of_synthetic(lambda frame: frame.with_columns(pl.col("dose").cast(pl.String) + " mg")),
}


def three(share: float, change: str, seed: int) -> list[pl.DataFrame]:
    """A synthetic table of which so many rows are changed copies of the first members, members, control records."""
    rng, copied = np.random.default_rng([seed, round(1000 * share)]), round(share * N)
    members, control, made = (patients(N, rng) for _ in range(3))
    if copied:
        copies = CHANGES[change](members.head(copied), rng)
        made = pl.concat([copies, made.tail(N - copied)], how="vertical_relaxed")
    return [made, members, control]


@pytest.mark.parametrize("share", [0.01, 0.02, 0.06])
@pytest.mark.parametrize("change", CHANGES)
def test_changed_copies_are_flagged(change: str, share: float) -> None:
    names = flagged(compared(*three(share, change, 1)))
    print(f"{change} at {share:.0%}: {', '.join(names)}")
    assert names


def flagged_in(frames: list[pl.DataFrame], folder: Path) -> list[str]:
    """The same from files, as the command line reads them."""
    files = [folder / f"{name}.csv" for name in ("s", "m", "n")]
    for frame, path in zip(frames, files, strict=True):
        frame.write_csv(path)
    found = read(*files)
    tables = WithoutKeys.of(found.synthetic, found.members, found.control)
    return flagged(CopyTests.of(tables, None).comparisons(0.95, None))


@pytest.mark.parametrize("share", [0.01, 0.02, 0.06])
@pytest.mark.parametrize("written", FILES)
def test_files_that_differ_hide_no_copies(written: str, share: float, tmp_path: Path) -> None:
    frames = FILES[written](three(share, "as it is", 2), np.random.default_rng(3))
    names = flagged_in(frames, tmp_path)
    print(f"{written} at {share:.0%}: {', '.join(names)}")
    assert any(name == "copies" or name.startswith("copies without") for name in names)  # exact ones, not only near


@pytest.mark.parametrize("written", FILES)
def test_files_that_differ_make_no_copies(written: str, tmp_path: Path) -> None:
    """The control: other people in the synthetic table, written in the same ways."""
    frames = FILES[written](three(0.0, "as it is", 4), np.random.default_rng(5))
    assert flagged_in(frames, tmp_path) == []

"""A separate sample has the columns, names and codes of the audited records, or is refused by name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from miaudit import Evidence
from miaudit.collect import propensity_sample
from miaudit.collect.records import Records
from miaudit.errors import InputError

N = 60
RNG = np.random.default_rng(0)
TABLE: dict[str, Any] = {
    "score": RNG.normal(size=N),
    "member": RNG.random(N) < 0.5,
    "age": RNG.normal(size=N),
    "site": np.array(["bern", "chur", "genf"])[np.arange(N) % 3],
    "person": np.arange(N) // 2,
}
COLUMNS: dict[str, Any] = {"member": "member", "covariates": ["age", "site"], "categories": ["site"]}


@pytest.fixture
def place(tmp_path: Path) -> Path:
    pl.DataFrame(TABLE).write_csv(tmp_path / "audit.csv")
    return tmp_path


def saved(place: Path, **changes: Any) -> Path:
    columns = {name: values for name, values in {**TABLE, **changes}.items() if values is not None and name != "score"}
    pl.DataFrame(columns).write_csv(place / "sample.csv")
    return place / "sample.csv"


def read(place: Path, path: Path, **more: Any) -> Evidence:
    audited = Evidence.load(place / "audit.csv", score="score", **COLUMNS, **more)
    return propensity_sample.read(path, audited, table=place / "audit.csv", **COLUMNS, **more)


def test_text_has_the_codes_of_the_audited_table_and_new_levels_come_after(place: Path) -> None:
    site = np.array(["arosa", "chur", "genf"])[np.arange(N) % 3]  # bern is missing, arosa is new and sorts first
    found = read(place, saved(place, site=site))
    assert found.covariate_names == ("age", "site") and found.covariates is not None
    assert found.covariates[:3, 1].tolist() == [3.0, 1.0, 2.0]  # bern 0, chur 1, genf 2, then arosa
    assert np.array_equal(found.member, TABLE["member"]) and not found.score.any()


def test_the_same_table_gives_the_same_covariates(place: Path) -> None:
    found = read(place, place / "audit.csv", unit="person")
    audited = Evidence.load(place / "audit.csv", score="score", unit="person", **COLUMNS)
    assert np.array_equal(found.covariates, audited.covariates) and np.array_equal(found.unit, audited.unit)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"age": None}, "propensity sample: age: expected a column of sample.csv, received a name that is not there"),
        ({"member": None}, "propensity sample: member: expected a column of sample.csv"),
        ({"person": None}, "propensity sample: person: expected a column of sample.csv"),
        ({"member": np.ones(N, bool)}, "propensity sample: member: expected members and non-members, .* no non-mem"),
        ({"age": np.full(N, np.nan)}, "propensity sample: age: expected .* received 60 missing .* leave it out"),
        ({"site": np.arange(N) % 3}, "propensity sample: site: expected text, as in audit.csv, received numbers"),
    ],
)
def test_a_column_that_is_missing_or_no_such_column_is_refused(place: Path, changes: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError, match=f"^{said}"):
        read(place, saved(place, **changes), unit="person")


def test_gaps_are_filled_by_what_fills_the_audited_ones(place: Path) -> None:
    ages = {"audit": np.r_[np.nan, np.arange(1.0, N)], "sample": np.r_[np.arange(1.0, N) ** 2, np.nan]}
    for name, age in ages.items():
        pl.DataFrame({**TABLE, "age": age}).write_csv(place / f"{name}.csv")
    found = read(place, place / "sample.csv")
    assert found.covariate_names == ("age", "site", "age missing") and found.covariates is not None
    assert found.covariates[-1].tolist() == [N / 2, 2.0, 1.0]
    assert found.covariates[1].tolist() == [4.0, 1.0, 0.0]
    with pytest.raises(InputError, match="gaps in one of the two only, fill them there"):
        read(place, saved(place))


@pytest.mark.parametrize(
    ("ours", "theirs", "codes"),
    [
        ([7.0, 3.0, 7.0], [np.nan, 3.0, 9.0], [10.0, 3.0, 9.0]),
        ([7.0, np.nan, 3.0], [3.0, np.nan, 9.0], [0.0, 2.0, 3.0]),
        (["b", "", "a"], ["", "b", "c"], [0.0, 2.0, 3.0]),
    ],
)
def test_what_is_missing_of_a_category_is_a_level_of_both(place: Path, ours: Any, theirs: Any, codes: Any) -> None:
    for name, site in (("audit", ours), ("sample", theirs)):
        pl.DataFrame({**TABLE, "site": np.resize(np.array(site), N)}).write_csv(place / f"{name}.csv")
    found = read(place, place / "sample.csv")
    assert found.covariates is not None
    assert found.covariates[:3, 1].tolist() == codes


@pytest.mark.long
@pytest.mark.parametrize("ending", ["npz", "csv", "parquet"])
@pytest.mark.parametrize("names", [("age", "hours"), None])
def test_files_that_save_writes_need_no_names(tmp_path: Path, ending: str, names: tuple[str, str] | None) -> None:
    x = RNG.normal(size=(N, 2))
    audited = Evidence(score=x[:, 0], member=TABLE["member"], covariates=x, covariate_names=names)
    audited.save(tmp_path / f"s.{ending}")
    found = propensity_sample.read(tmp_path / f"s.{ending}", audited)
    assert np.array_equal(found.covariates, x) and found.covariate_names == audited.covariate_names


def test_texts_are_read_and_other_widths_are_refused(tmp_path: Path) -> None:
    words = np.array([f"word{i % 7}" for i in range(N)])
    audited = Evidence(score=TABLE["score"], member=TABLE["member"], text=words)
    audited.save(tmp_path / "s.npz")
    assert propensity_sample.read(tmp_path / "s.npz", audited).text.tolist() == words.tolist()
    one, two = (
        Evidence(score=TABLE["score"], member=TABLE["member"], covariates=RNG.normal(size=(N, k))) for k in (1, 2)
    )
    two.save(tmp_path / "two.npz")
    with pytest.raises(InputError, match=r"^propensity sample: expected 1 column of covariates, received 2"):
        propensity_sample.read(tmp_path / "two.npz", one)


@pytest.mark.parametrize("name", ["covariates", "traits"])
def test_an_array_of_a_campaign_and_that_of_its_sample_are_the_same_columns(name: str, tmp_path: Path) -> None:
    arrays: dict[str, Any] = {"member": TABLE["member"], name: RNG.normal(size=(N, 2))}
    np.savez(tmp_path / "sample.npz", **arrays)
    records = Records.load(tmp_path / "sample.npz", member="member", covariates=name)
    audited = Evidence(score=np.arange(N), member=TABLE["member"], **records.fields)
    found = propensity_sample.read(tmp_path / "sample.npz", audited)
    assert found.covariate_names == audited.covariate_names == (f"{name}.0", f"{name}.1")
    assert np.array_equal(found.covariates, arrays[name])
    np.savez(tmp_path / "other.npz", member=TABLE["member"], **{name: np.zeros((N, 3))})
    with pytest.raises(InputError, match="received 3 columns of covariates"):
        propensity_sample.read(tmp_path / "other.npz", audited)


def test_dates_that_are_a_category_have_the_codes_of_the_audited_array(tmp_path: Path) -> None:
    seen = np.array(["2024-02-29", "1970-01-05", "1970-01-02"], dtype="datetime64[D]")[np.arange(N) % 3]
    np.savez(tmp_path / "a.npz", score=np.arange(N), member=TABLE["member"], seen=seen)
    asked: dict[str, Any] = {"covariates": "seen", "categories": "seen"}
    audited = Evidence.load(tmp_path / "a.npz", score="score", **asked)
    found = propensity_sample.read(tmp_path / "a.npz", audited, table=tmp_path / "a.npz", **asked)
    assert np.array_equal(found.covariates, audited.covariates)

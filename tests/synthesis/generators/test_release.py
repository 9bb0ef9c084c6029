"""Releases: their claim meets the verdict, their files survive, and what is no release is refused."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from miaudit.dp.accounting import upper_bound
from miaudit.dp.mechanism import GaussianNoise
from miaudit.dp.verdict import Claim, LowerBound
from miaudit.errors import InputError
from miaudit.synthesis.generators.release import Release
from miaudit.synthesis.graph import CausalGraph
from miaudit.synthesis.schema import Column, Schema, Table, read_table

SCHEMA = Schema(
    (
        Column("code", "categorical", categories=("007", "7", "none"), missing=True),
        Column("sick"),
        Column("dose", "continuous", low=0, high=5, decimals=2),
    )
)
GRAPH = CausalGraph(SCHEMA, {"x": ["code", "dose"], "y": ["sick"]}, [("x", "y")])
MECHANISM = GaussianNoise(8.0)
BOUND = upper_bound(MECHANISM, delta=1e-5)


def release() -> Release:
    rng = np.random.default_rng(0)
    values = np.column_stack([rng.integers(0, 3, 40), rng.integers(0, 2, 40), np.round(rng.random(40) * 5, 2)])
    values[::7, 0] = np.nan
    claim = Claim.epsilon_delta(0.6, 1e-5)
    return Release(Table(SCHEMA, values), MECHANISM, claim, BOUND, GRAPH, (("epochs", 3), ("clip", 0.5)))


@pytest.mark.long
@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_a_release_survives_its_files(tmp_path: Path, suffix: str) -> None:
    made = release()
    made.save(tmp_path / f"table.{suffix}")
    again = Release.load(tmp_path / f"table.{suffix}")
    np.testing.assert_array_equal(again.table.values, made.table.values)
    assert (again.schema, again.graph, again.mechanism, again.claim, again.parameters) == (
        made.schema,
        made.graph,
        made.mechanism,
        made.claim,
        made.parameters,
    )
    assert again.bound.value == BOUND.value and again.to_mapping() == made.to_mapping()
    assert {path.name for path in tmp_path.iterdir()} == {"table.json", f"table.{suffix}"}


def test_the_claim_goes_to_the_verdict() -> None:
    made = release()
    assert made.verdict().status == "not-testable" and "which proves the claim of it" in made.verdict().text
    shown = LowerBound("epsilon", 1.4, 0.95, "an attack", delta=1e-5)
    refuted = made.verdict(shown)
    assert refuted.status == "refuted" and "what was run is not what was described" in refuted.text
    assert made.verdict(LowerBound("epsilon", 0.2, 0.95, "an attack", delta=1e-5)).status == "not-refuted"


def test_a_release_whose_noise_can_be_repeated_says_so(tmp_path: Path) -> None:
    for made in (release(), replace(release(), repeatable=True)):
        made.save(tmp_path / "t.csv")
        again = Release.load(tmp_path / "t.csv")
        assert again.repeatable == made.repeatable
        assert ("does not hold against who knows the seed" in again.verdict().text) == made.repeatable
    damaged = json.loads((tmp_path / "t.json").read_text())
    del damaged["repeatable"]
    (tmp_path / "t.json").write_text(json.dumps(damaged))
    with pytest.raises(InputError, match="a release of format 1"):
        Release.load(tmp_path / "t.csv")


def test_no_claim_without_a_mechanism_and_none_below_what_is_proved() -> None:
    table = release().table
    with pytest.raises(InputError, match="a claim without a mechanism"):
        Release(table, None, Claim.epsilon_delta(1.0, 1e-5))
    with pytest.raises(InputError, match="a mechanism without a claim"):
        Release(table, MECHANISM)
    with pytest.raises(InputError, match="claim no less than what is proved"):
        Release(table, MECHANISM, Claim.epsilon_delta(0.1, 1e-5), BOUND)
    with pytest.raises(InputError, match="nothing was claimed"):
        Release(table).verdict()


def test_a_release_without_privacy_survives_too(tmp_path: Path) -> None:
    Release(release().table).save(tmp_path / "t.csv")
    found = json.loads((tmp_path / "t.json").read_text())
    assert found["claim"] is None and found["mechanism"] is None
    assert Release.load(tmp_path / "t.csv").claim is None


def test_damaged_releases_are_refused(tmp_path: Path) -> None:
    release().save(tmp_path / "t.csv")
    beside = tmp_path / "t.json"
    good = json.loads(beside.read_text())
    for change in ({"format": 9}, {"claim": {"epsilon": 0.01, "delta": 1e-5}}, {"mechanism": {"kind": "magic"}}):
        beside.write_text(json.dumps(good | change))
        with pytest.raises(InputError):
            Release.load(tmp_path / "t.csv")
    beside.write_text("{")
    with pytest.raises(InputError, match="a release of format 1"):
        Release.load(tmp_path / "t.csv")
    beside.unlink()
    with pytest.raises(InputError, match="an existing file"):
        Release.load(tmp_path / "t.csv")
    with pytest.raises(InputError, match=r"\.csv or \.parquet"):
        release().save(tmp_path / "t.xlsx")


def test_text_keeps_its_zeros_and_damaged_tables_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("code,sick,dose\n007,1,0.5\n7,0,2\n,1,3\n")
    np.testing.assert_array_equal(read_table(path, SCHEMA).values[:, 0], [0, 1, np.nan])
    path.with_suffix(".parquet").write_bytes(b"PAR1 nothing")
    with pytest.raises(InputError, match="cannot be read"):
        read_table(path.with_suffix(".parquet"), SCHEMA)
    path.write_text("code,sick\n007,1\n")
    with pytest.raises(InputError, match="dose: expected a column of the table"):
        read_table(path, SCHEMA)


def test_a_file_with_other_columns_is_refused_and_never_renamed(tmp_path: Path) -> None:
    schema = Schema((Column("code", "categorical", ("007", "012")), Column("sex", "binary", ("f", "m"))))
    path = tmp_path / "other.csv"
    path.write_text("zip,gender\n007,f\n012,m\n")  # as many columns, of which all values would be allowed
    with pytest.raises(InputError, match="code: expected a column of the table"):
        read_table(path, schema)
    path.write_text("sex,code\nf,012\n")
    assert read_table(path, schema).values.tolist() == [[1.0, 0.0]]


def test_a_claim_needs_the_delta_at_which_its_epsilon_is_proved() -> None:
    table = Table(Schema((Column("a"), Column("b"))), [[0, 1]])
    mechanism = GaussianNoise(5.0)
    bound = upper_bound(mechanism, delta=1e-3)
    with pytest.raises(InputError, match=r"claim: expected a delta of at least the 0\.001"):
        Release(table, mechanism, Claim.epsilon_delta(bound.value, 1e-9), bound)
    assert Release(table, mechanism, Claim.epsilon_delta(bound.value, 1e-3), bound).bound == bound

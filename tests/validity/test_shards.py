"""Shards: every claim is in exactly one, they cost about the same, and one claim's shard depends on no other run."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from validity import shards
from validity.shards import SHARDS, Shard, assigned, shard_of

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("text", ["3", "12/12", "-1/12", "a/12", "3/", "3/0"])
def test_what_is_no_shard_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"as in 3/12, from 0/12 to 11/12"):
        Shard.of(text)


def test_a_shard_is_read_as_it_is_written() -> None:
    assert Shard.of("3/12") == Shard(3, 12)
    assert str(Shard(3)) == "3/12"


def test_costs_are_balanced() -> None:
    seconds = {f"claim {k}": 1.0 + k % 7 for k in range(100)}
    known = assigned(seconds, 4)
    sums = [sum(seconds[name] for name in known if known[name] == shard) for shard in range(4)]
    assert known.keys() == seconds.keys()
    assert max(sums) - min(sums) <= 7
    assert assigned(dict(reversed(seconds.items())), 4) == known


def test_a_claim_without_a_cost_has_a_shard_of_its_own_name() -> None:
    known = assigned({"a": 1.0, "b": 2.0}, SHARDS)
    places = {shard_of(f"new {k}", known, SHARDS) for k in range(200)}
    assert places == set(range(SHARDS))
    assert shard_of("new 1", known, SHARDS) == shard_of("new 1", {}, SHARDS)


def test_each_shard_of_the_table_takes_at_most_fifteen_minutes_on_two_cores() -> None:
    seconds = shards.table()
    known = assigned(seconds, SHARDS)
    sums = [sum(cost for name, cost in seconds.items() if known[name] == shard) for shard in range(SHARDS)]
    assert max(sums) <= 2 * 15 * 60
    assert max(seconds.values(), default=0.0) <= 10 * 60  # one claim runs on one core


CLAIMS = """
import pytest

@pytest.mark.validity
@pytest.mark.parametrize("k", range(30))
def test_of_nothing(claim, k):
    seen = []
    claim(lambda rng: seen.append(float(rng.random())) or {"miss": False}, holds={"miss": 0.05})
    claim(lambda rng: {"control": True}, fails={"control": 0.05})
    print(f"DRAW {k} {seen[0]!r}")

@pytest.mark.validity
def test_without_a_control(claim):
    claim(lambda rng: {"miss": False}, holds={"miss": 0.05})

def test_of_another_kind():
    pass
"""


def collected(tmp_path: Path, *options: str) -> str:
    """Run pytest on a file of claims with the hooks of tests/conftest.py."""
    (tmp_path / "test_some.py").write_text(CLAIMS)
    (tmp_path / "conftest.py").write_text(
        "from validity.hooks import claim, pytest_addoption, pytest_collection_modifyitems, pytest_configure\n"
    )
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers = validity\n")
    command = [sys.executable, "-m", "pytest", "-s", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", *options, "."]
    environment = os.environ | {"PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT / 'tests'}"}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    return done.stdout + done.stderr


def draws(text: str) -> dict[str, str]:
    return {line.split()[1]: line.split()[2] for line in text.splitlines() if line.startswith("DRAW")}


@pytest.mark.long
@pytest.mark.thorough
def test_shards_are_a_partition_and_the_seed_repeats_a_run(tmp_path: Path) -> None:
    parts = [draws(collected(tmp_path, "--shard", f"{k}/3", "--validity-seed", "abc123")) for k in range(3)]
    assert sorted(key for part in parts for key in part) == sorted(map(str, range(30)))
    assert all(parts)
    whole = draws(collected(tmp_path, "--validity-seed", "abc123"))
    assert whole == {key: value for part in parts for key, value in part.items()}
    assert not set(whole.values()) & set(draws(collected(tmp_path, "--validity-seed", "abc124")).values())


@pytest.mark.thorough
@pytest.mark.long
def test_a_claim_without_a_control_is_an_error_and_costs_are_written(tmp_path: Path) -> None:
    (tmp_path / "seconds.json").write_text('{"gone": 3.0}')
    text = collected(tmp_path, "--write-seconds", "seconds.json")
    assert "a claim needs a control that has to be rejected" in text
    seconds = json.loads((tmp_path / "seconds.json").read_text())
    assert seconds["gone"] == 3.0
    assert {f"test_some.py::test_of_nothing[{k}]" for k in range(30)} < seconds.keys()
    assert "test_of_another_kind" not in str(seconds)


@pytest.mark.long
def test_a_shard_that_is_none_is_an_error_of_usage(tmp_path: Path) -> None:
    assert "from 0/12 to 11/12" in collected(tmp_path, "--shard", "12/12")

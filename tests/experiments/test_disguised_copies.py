"""Copies in disguise: what each disguise leaves equal, which tests see it, and that the run resumes."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "experiments" / "causal_synthesis"))

import disguised_copies as disguised
import source_tables

from miaudit.synthesis import Table

N = 400


@pytest.fixture(scope="module")
def whole() -> Table:
    return source_tables.measured(Path()).subset(np.arange(3 * N))


@pytest.mark.parametrize("how", list(disguised.DISGUISES))
def test_every_disguise_of_five_percent_is_seen_and_only_plain_copies_are_exact(whole: Table, how: str) -> None:
    flagged = disguised.audited(whole, N, "other people", how, 0.05, 0)
    assert flagged
    assert disguised.exactly(flagged) == (how in ("as it is", "new key", "row number", "single precision"))


@pytest.mark.parametrize("maker", list(disguised.MAKERS))
def test_tables_of_other_people_hold_no_copies(whole: Table, maker: str) -> None:
    assert not any(disguised.audited(whole, N, maker, "as it is", 0.0, seed) for seed in range(3))


def test_a_disguise_changes_what_it_says_and_nothing_else(whole: Table) -> None:
    rng, one = np.random.default_rng(0), whole.values[:50]
    changed = {name: disguise(one.copy(), whole, rng) != one for name, disguise in disguised.DISGUISES.items()}
    assert not changed["as it is"].any()
    assert changed["a blank"].sum(axis=1).tolist() == [1] * 50
    assert changed["one off in two columns"].any(axis=0).sum() == 2
    assert changed["one column rounded"].any(axis=0).sum() == 1
    assert (changed["a foreign cell"].sum(axis=1) <= 1).all()


def test_a_run_that_was_stopped_goes_on(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["--table", "whole numbers", "--members", "100", "--level", "1", "--power", "0", "--out"]
    out = tmp_path / "done.json"
    assert disguised.main([*command, str(out)]) == 0
    done = json.loads(out.read_text())
    first = next(iter(done))
    out.write_text(json.dumps({key: value for key, value in done.items() if key != first}))
    first_print = capsys.readouterr().out
    assert disguised.main([*command, str(out)]) == 0
    assert json.loads(out.read_text()) == done
    assert sorted(capsys.readouterr().out.splitlines()) == sorted(first_print.splitlines())

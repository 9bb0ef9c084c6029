"""What a drafted private table keeps, in a simulated world, and how the page of the experiment is made."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

ROOT = Path(__file__).parents[2]
DATA = ROOT.parent / "shared" / "data"


@pytest.fixture
def drafted(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(ROOT / "experiments" / "causal_synthesis"))
    sys.modules.pop("drafted_tables", None)
    import drafted_tables

    return drafted_tables


@pytest.mark.long
def test_two_stages_keep_what_one_stage_loses(drafted: Any) -> None:
    whole = drafted.world(Path())
    one, two, target = (drafted.release(whole, "world", way, 1.0, 0) for way in drafted.WAYS)
    assert two.off < 0.03 < one.off and two.dependence > 0.6 > one.dependence
    assert target.target > 0.7
    limit = drafted.TablesConfig().most_off
    assert one.foreseen_off is None and max(two.foreseen_off, target.foreseen_off) < limit
    noisy = drafted.release(whole, "world", "two stages", 0.05, 0)
    assert noisy.foreseen_off > limit and noisy.dependence < 0.5 < two.dependence  # what stops would not be useful


def test_the_page_has_a_row_for_each_way_with_its_seeds(drafted: Any) -> None:
    done = {f"world, {way}, 1, {seed}": [0.5 + seed, 0.8, 0.01] for way in drafted.WAYS for seed in range(2)}
    rows = drafted.page(done).splitlines()[2:]
    assert len(rows) == 3 and rows[0] == "| world, 1 | one stage | 1.00 (0.50) | 0.80 | 0.010 | 2 |"
    assert any("two stages, target" in row for row in rows)
    asked = argparse.Namespace(table=["world"], seeds=2, epsilon=[1.0, 3.0], way=list(drafted.WAYS))
    assert len(list(drafted.missing(asked, done))) == 6


def test_the_reserve_counts_the_releases_that_would_have_stopped(drafted: Any) -> None:
    """Releases without a first stage, or kept before the rehearsal was, are not counted."""
    limit = drafted.TablesConfig().most_off
    done = {
        "world, one stage, 1, 0": [0.1, 0.8, 0.3, None, None],
        "world, two stages, 1, 0": [0.5, 0.8, 0.01, limit + 0.01, 0.2],
        "world, two stages, 1, 1": [0.7, 0.9, 0.03, limit - 0.01, 0.4],
        "world, two stages, 3, 0": [0.7, 0.9, 0.03],
    }
    (row,) = drafted.reserve(done).splitlines()[2:]
    assert row.startswith("| world, 1 | two stages | 1 of 2 |")
    assert row.endswith("| 0.020 (0.010 to 0.030) | 0.30 (0.20 to 0.40) | 0.60 (0.50 to 0.70) | 0.85 (0.80 to 0.90) |")


@pytest.mark.skipif(not (DATA / "acs_ct_income").exists(), reason="the records are not here")
def test_raw_tables_have_their_declared_columns(drafted: Any) -> None:
    for name, records in (("adult", 48_842), ("acs", 92_368)):
        table = drafted.TABLES[name](DATA)
        assert len(table) == records and len(table.schema) == 13 and drafted.TARGET[name] in table.schema.names
        assert np.isfinite(table.column(drafted.TARGET[name])).all()

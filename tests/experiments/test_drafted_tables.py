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


def test_the_page_has_a_row_for_each_way_with_its_seeds(drafted: Any) -> None:
    done = {f"world, {way}, 1, {seed}": [0.5 + seed, 0.8, 0.01] for way in drafted.WAYS for seed in range(2)}
    rows = drafted.page(done).splitlines()[2:]
    assert len(rows) == 3 and rows[0] == "| world, 1 | one stage | 1.00 (0.50) | 0.80 | 0.010 | 2 |"
    assert any("two stages, target" in row for row in rows)
    asked = argparse.Namespace(table=["world"], seeds=2, epsilon=[1.0, 3.0])
    assert len(list(drafted.missing(asked, done))) == 6


@pytest.mark.skipif(not (DATA / "acs_ct_income").exists(), reason="the records are not here")
def test_raw_tables_have_their_declared_columns(drafted: Any) -> None:
    for name, records in (("adult", 48_842), ("acs", 92_368)):
        table = drafted.TABLES[name](DATA)
        assert len(table) == records and len(table.schema) == 13 and drafted.TARGET[name] in table.schema.names
        assert np.isfinite(table.column(drafted.TARGET[name])).all()

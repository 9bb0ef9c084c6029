"""Whole audits with bounds: the lines of the table, and one audit of a world."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from zero_run import bounds_worlds

ROWS = [
    {"bounds": {"mu: thinning": 0.5, "epsilon: signed": 0.0}, "screened": True, "uncorrected": 1.0, "line": 0.25},
    {"bounds": {}, "screened": None, "uncorrected": 0.0, "line": None, "withheld": 0.5, "at the margin": 0.0},
]


def test_a_line_counts_bounds_above_0_in_audits_that_have_bounds() -> None:
    cells = bounds_worlds.in_words("product", 1.0, ROWS).strip("| ").split(" | ")
    assert cells == [
        *("product", "1", "2", "1", "1", "1 of 1, 0.50", "0 of 1, 0.00"),
        *("1 of 2, 0.50", "1 of 1, 0.25", "1 of 1, 0.50", "0 of 1, 0.00"),
    ]
    assert bounds_worlds.of_corrections("product", 1.0, ROWS) == ""
    every = [{"bounds": dict.fromkeys(bounds_worlds.ARMS, 0.5)}, *ROWS]
    assert bounds_worlds.of_corrections("x", 0.0, every) == "| x | 0 | 1 | " + " | ".join(["1 of 1, 0.50"] * 5) + " |"


@pytest.mark.long
def test_an_audit_keeps_the_bounds_that_it_does_not_show() -> None:
    """Membership goes with a product, so that a test for fair coins finds a leak where there is none."""
    row = bounds_worlds.audit("product", 800, 0.0, Path(), seed=0)
    assert row["uncorrected"] > 0
    assert set(row["bounds"]) in ({"mu: thinning", "epsilon: signed"}, set())
    assert np.isfinite(row["line"])

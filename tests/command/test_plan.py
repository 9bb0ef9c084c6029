"""``miaudit plan``."""

from __future__ import annotations

import json

import pytest

from command.test_audit import Run


@pytest.mark.long
def test_plan_speaks_and_encodes(run: Run) -> None:
    code, out, _ = run("plan", "--members", "1000", "--nonmembers", "1000", "--tpr", "0.05")
    assert code == 0
    assert "needs 3,690 non-members" in out
    code, out, _ = run("plan", "--members", "1000", "--nonmembers", "1000", "--json")
    assert [t["nonmembers_needed"] for t in json.loads(out)["targets"]] == [3690, 369, 37]


@pytest.mark.long
def test_plan_says_what_bounds_and_claims_are_within_reach(run: Run) -> None:
    size = ("--members", "1000", "--nonmembers", "1000")
    code, out, _ = run("plan", *size, "--claim-mu", "0.5")
    assert code == 0
    assert "one run: at most mu 2.49" in out
    assert "an algorithm with true mu = 1 (epsilon = 4.38) would show, with the best attack, about mu 0.65" in out
    assert "one run: refutable, by about 136 of 160 guesses right (85.0%)" in out
    found = json.loads(run("plan", *size, "--claim-epsilon", "7", "--delta", "1e-6", "--json")[1])
    assert [(b["design"], b["delta"]) for b in found["bounds"]] == [("one-run", 1e-6), ("multi-run", 1e-6)]
    assert [c["refutable"] for c in found["claim"]] == [False, False]
    assert found["claim"][0]["reachable"] == found["bounds"][0]["epsilon"] < 7
    assert "not refutable by so many records" in run("plan", *size, "--claim-epsilon", "7")[1]

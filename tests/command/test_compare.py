"""``miaudit compare`` and ``miaudit history``."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from command import test_bundle
from command.test_bundle import AUDIT, QUICK, N, Run

place = test_bundle.place


@pytest.mark.thorough
@pytest.mark.long
def test_audits_are_compared_and_lined_up(place: Path, run: Run) -> None:
    member = np.arange(N) % 2 == 0
    for i, gap in enumerate((0.3, 0.3, 1.5)):
        np.savez("t.npz", score=np.random.default_rng(i).normal(size=N) + gap * member, member=member)
        run(*QUICK, "--out", f"r{i}", "--bundle", f"b{i}.zip")
    assert run("compare", "r0", "r1")[0] == 0
    code, out, err = run("compare", "r0", "r2/findings.json", "--out", "compared")
    assert (code, err) == (3, "")
    assert "Leakage rose" in out
    assert "Leakage rose" in (place / "compared" / "report.html").read_text()
    code, out, _ = run("compare", "b0.zip", "b2.zip", "--json")
    assert code == 3
    assert json.loads(out)["status"] == "rose"
    assert run("compare", "r2", "r0")[0] == 0
    assert run("history", "r0", "r1")[0] == 0
    code, out, _ = run("history", "r0", "b1.zip", "r2", "--out", "history")
    assert code == 3
    assert [line.split(":")[0].strip() for line in out.splitlines()[2:5]] == ["r0", "b1", "r2"]
    assert run("history", "r0", "r1", "--out", "history")[0] == 1
    assert json.loads(run("history", "r0", "r2", "--json")[1])["kind"] == "history"
    run("audit", "t.npz", "--score", "score", "--member", "member", "--no-bounds", "--confidence", "0.9", "--out", "r9")
    code, out, err = run("compare", "r0", "r9")
    assert (code, out) == (1, "")
    assert err.count("\n") == 1


@pytest.mark.long
def test_what_is_not_resolved_is_not_comparable(place: Path, run: Run) -> None:
    options = ("--fpr", "0.001", "--primary", "tpr_at_fpr_0.001")
    code = run(*AUDIT, "--no-bounds", "--out", "r", *options)[0]
    if code == 2:
        pytest.fail("the options of audit have changed")
    shutil.copytree(place / "r", place / "again")
    assert run("compare", "r", "again")[0] == 4


@pytest.mark.long
def test_a_folder_of_audits_has_a_page_that_every_audit_keeps_up_to_date(place: Path, run: Run) -> None:
    index = place / "results" / "index.html"
    run(*QUICK)
    assert "./audit/report.html" in index.read_text()
    run(*QUICK, "--out", "mine/a")
    assert not (place / "mine" / "index.html").exists()
    code, out, err = run("history", "mine")
    assert (code, err) == (0, "") and out.startswith("1 audit:") and out.endswith("Index: mine/index.html\n")
    run(*QUICK, "--out", "mine/b")
    text = (place / "mine" / "index.html").read_text()
    assert "./b/report.html" in text and 'data-chart="trend-1"' in text
    listed = json.loads(run("history", "mine", "--json")[1])
    assert {one["entry"]["name"] for one in listed} == {"a", "b"}
    assert run("history", "mine", "--out", "x")[0] == 1 and not (place / "x").exists()
    (place / "mine" / "index.html").write_text("<p>of somebody else")
    code, out, err = run("history", "mine")
    assert (code, out, err.count("\n")) == (1, "", 1)
    assert (place / "mine" / "index.html").read_text() == "<p>of somebody else"

"""``miaudit report``."""

from __future__ import annotations

from pathlib import Path

import pytest

from command import test_audit
from command.test_audit import Run, audit, save, text_of

place = test_audit.place


@pytest.mark.thorough
@pytest.mark.long
def test_report_draws_finished_findings_again(place: Path, run: Run) -> None:
    save(place / "t.npz", 1.0)
    run(*audit("--out", "out"))
    code, out, _ = run("report", "out/findings.json", "--out", "again")
    assert code == 0
    assert text_of(place / "again/report.html") == text_of(place / "out/report.html")
    assert "again" in out
    assert run("report", "out/findings.json")[0] == 1  # the page is there already
    assert run("report", "out/findings.json", "--overwrite")[0] == 0

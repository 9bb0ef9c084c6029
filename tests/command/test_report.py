"""``miaudit report``."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from command import test_audit
from command.test_audit import Run, audit, save, text_of
from frozen import make
from miaudit.findings.kinds import BUILT_IN, from_dict
from miaudit.report import drawing, kinds

place = test_audit.place
# One of each kind, and audits whose pages have other parts.
DRAWN = (
    *("one-run", "undeclared", "mechanism", "groups", "run-tree", "zero-run-stack", "refused", "table", "synthesis"),
    *("synthesis-private", "disclosure", "extraction", "comparison", "history", "verification", "verification-failed"),
    *("challenge", "usage", "deletion"),
)

MANY = {"one-run", "mechanism", "groups", "run-tree", "zero-run-stack", "table"}  # these have many charts


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


@pytest.mark.long
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.thorough if name in MANY else ()) for name in DRAWN]
)
def test_every_kind_of_findings_has_a_page(
    name: str, tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(drawing, "png", lambda _: b"no picture")  # pages hold .svg
    content = make.sample(name)
    Path("findings.json").write_text(content, encoding="utf-8")
    code, _, err = run("report", "findings.json", "--out", "page")
    assert (code, err) == (0, "")
    page = Path("page/report.html").read_text(encoding="utf-8")
    figures = {path.stem for path in Path("page/figures").glob("*.svg")}
    findings = from_dict(json.loads(content))
    assert figures == set(kinds.charts(findings))
    assert "<h1" in page and page.rstrip().endswith("</html>")
    assert page.count("data:image/svg") + page.count("<svg") >= len(figures)


def test_the_pages_are_of_every_kind() -> None:
    held = {json.loads(make.sample(name)).get("kind", "audit") for name in DRAWN if name in make.KEPT}
    assert held == {*BUILT_IN}

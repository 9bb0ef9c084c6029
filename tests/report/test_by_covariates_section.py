"""The section on kinds of records: what is compared is marked, and nothing stands there unless it was asked for."""

from __future__ import annotations

from pathlib import Path

import numpy as np

import miaudit as ma
from miaudit.report.by_covariates_section import section
from worlds import leaking_kinds


def _findings(*, asked: bool, effect: str = "step") -> ma.Findings:
    evidence = leaking_kinds.world(effect, 3000, np.random.default_rng(1)).evidence
    return ma.audit(evidence, plan=ma.Plan(fpr_targets=(0.1,), by_covariates=asked, bounds=None), rng=0)


def test_nothing_unless_asked() -> None:
    assert section(_findings(asked=False)) is None


def test_groups_and_slopes(tmp_path: Path) -> None:
    findings = _findings(asked=True)
    shown = section(findings)
    assert shown is not None
    assert findings.by_covariates is not None
    assert sum(row["compared"] for row in shown["groups"]) == 2
    assert f"{findings.by_covariates.learned:,} records, drawn at random, chose the groups" in shown["how"]
    assert any(row["established"] and row["step"].startswith("age") for row in shown["slopes"])
    findings.to_html(tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert '<h2 id="h-kinds">Which kinds of records leak</h2>' in page
    assert page.count('<span class="mark">compared</span>') == 2


def test_a_reason_stands_alone() -> None:
    evidence = leaking_kinds.world("step", 300, np.random.default_rng(1)).evidence
    findings = ma.audit(evidence, plan=ma.Plan(fpr_targets=(0.1,), by_covariates=True, bounds=None), rng=0)
    shown = section(findings)
    assert shown is not None
    assert (shown["groups"], shown["slopes"]) == ([], [])
    assert "was not measured" in shown["text"]

"""Unused columns beside an audit: they say something, and change nothing."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from miaudit import Evidence, Nuisance, Plan, audit
from miaudit.auditing.unused_columns import UnusedValues, shown
from miaudit.bundle import read, record
from miaudit.bundle.verify import verify
from miaudit.findings.audit import Findings

PLAN = Plan(bounds=None, propensity_model="line", estimator="hajek", primary_metric="auc")


def audited(design: str | None = "zero-run", n: int = 900) -> tuple[Evidence, UnusedValues]:
    rng = np.random.default_rng(0)
    x = rng.normal(size=n)
    member = rng.random(n) < 1 / (1 + np.exp(-0.5 * x))
    names = ("age",)
    evidence = Evidence(score=x + rng.normal(size=n), member=member, covariates=x, covariate_names=names, design=design)
    values = {"pay": rng.normal(size=n) + 0.8 * member, "older": x**3}
    return evidence, UnusedValues(values, {"<b>site": (member & (rng.random(n) < 0.5)).astype(int)}, ("loss",), 2)


def test_no_number_and_no_verdict_changes() -> None:
    evidence, unused = audited()
    alone = audit(evidence, plan=PLAN, rng=0).to_dict()
    beside = audit(evidence, plan=PLAN, rng=0, unused=unused).to_dict()
    found = beside.pop("unused_columns")
    assert alone.pop("unused_columns") is None
    assert beside == alone
    assert [one["name"] for one in found["columns"]] == ["<b>site", "pay", "older"]
    assert [one["separates"] for one in found["columns"]] == [True, True, False]


def test_of_given_propensities_no_covariate_is_spoken_of() -> None:
    evidence, unused = audited()
    bare, given = (
        evidence.replace(covariates=None, covariate_names=()),
        1 / (1 + np.exp(-0.5 * evidence.covariates[:, 0])),
    )
    findings = audit(bare, plan=PLAN, nuisance=Nuisance(propensity=given), rng=0, unused=unused)
    assert "give propensities that allow for it" in findings.ahead[0]
    assert "if the given propensities account for" in findings.verdict.text
    assert findings.assumptions[0].startswith("Given its stated propensity, ")


def test_findings_come_back_from_json_and_say_it_first() -> None:
    evidence, unused = audited()
    findings = audit(evidence, plan=PLAN, rng=0, unused=unused)
    back = Findings.from_dict(json.loads(findings.to_json()))
    assert back.unused_columns == findings.unused_columns
    assert back.ahead == findings.ahead
    assert "2 unused columns separate" in findings.ahead[0]


def test_the_page_shows_them_escaped(tmp_path: Path) -> None:
    evidence, unused = audited()
    audit(evidence, plan=PLAN, rng=0, unused=unused).to_html(tmp_path / "p.html")
    page = (tmp_path / "p.html").read_text(encoding="utf-8")
    assert "<b>site" not in page
    assert "&lt;b&gt;site" in page
    assert "Columns of the file that are not used" in page
    assert page.index("separate members from non-members beyond") < page.index("What to do next")
    assert "2 more columns were not looked at." in page


@pytest.mark.parametrize("design", ["one-run", None])
def test_only_zero_run_evidence_is_compared(design: str | None) -> None:
    evidence, unused = audited(design)
    assert audit(evidence, plan=Plan(bounds=None), rng=0, unused=unused).unused_columns is None
    assert shown(None, None, None) is None  # type: ignore[arg-type]


def test_excluded_records_are_not_compared() -> None:
    evidence, unused = audited()
    x = np.c_[np.asarray(evidence.covariates), np.arange(evidence.n) % 3]
    wider = evidence.replace(covariates=x, covariate_names=("age", "site"))
    plan = Plan(bounds=None, propensity_model="line", exclude_levels=("site=2",), primary_metric="auc")
    found = audit(wider, plan=plan, rng=0, unused=unused).unused_columns
    rows = np.flatnonzero(x[:, 1] != 2)
    again = audit(wider.take(rows), plan=PLAN, rng=0, unused=unused.of_rows(rows)).unused_columns
    assert found is not None
    assert again is not None
    assert [one.auc for one in found.columns] == [one.auc for one in again.columns]


@pytest.mark.parametrize(("share", "seal"), [("all", False), ("scores", False), ("all", True)])
def test_a_bundle_verifies_without_the_columns(tmp_path: Path, share: str, seal: bool) -> None:
    evidence, unused = audited()
    rng = np.random.default_rng(0)
    examined, bundle, _ = record(evidence, plan=PLAN, rng=rng, share=share, seal=seal, unused=unused)
    own = examined.findings.unused_columns
    assert own is not None
    assert {one.name for one in own.separating} == {"<b>site", "pay"}  # rows in the right order, shuffled or not
    bundle.write(tmp_path / "b.zip")
    held = read(tmp_path / "b.zip").findings.unused_columns
    assert (held is not None) == (share == "all" and not seal)
    checked = verify(tmp_path / "b.zip")
    assert checked.differences == checked.tampered == ()
    assert checked.status == ("verified" if share == "all" and not seal else "in-part")
    assert any("unused columns" in text for text in checked.not_recomputed) == (held is not None)


def test_missing_values_of_covariates_that_differ_are_said_first() -> None:
    rng = np.random.default_rng(1)
    member = np.arange(2000) % 2 == 0
    pay = rng.normal(size=2000)
    for share, differ in ((0.3, True), (0.1, False)):
        gap = rng.random(2000) < np.where(member, share, 0.1)
        x = np.c_[np.where(gap, 0.0, pay), gap]
        evidence = Evidence(
            score=pay, member=member, covariates=x, covariate_names=("pay", "pay missing"), design="zero-run"
        )
        findings = audit(evidence, plan=PLAN, rng=0)
        assert findings.overlap is not None
        assert [one.name for one in findings.overlap.gaps] == (["pay"] if differ else [])
        assert any("Missing values differ" in text for text in findings.ahead) == differ

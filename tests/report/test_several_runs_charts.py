"""The chart of several runs holds the numbers of the findings."""

import dataclasses

import pytest

from auditing.test_several_runs import runs_of
from miaudit import Evidence, Plan
from miaudit import audit as audit_of
from miaudit.auditing.plan import Bounds
from miaudit.dp.verdict import Claim
from miaudit.findings.audit import Findings
from report.test_audit_charts import charts_of, values
from report.test_audit_page import in_browser, needs_chromium, page_of


def audited(claim: Claim | None = None) -> Findings:
    return audit_of(Evidence.of_runs(runs_of(3, n=300)), plan=Plan(bounds=Bounds(claim=claim)), rng=0)


@pytest.mark.long
def test_bounds_by_number_each_run_and_the_ceiling_of_a_claim() -> None:
    findings = audited(Claim.gaussian(1.8))
    found, drawn = findings.several_runs, values(charts_of(findings.to_dict())["runs"].to_dict())
    rows = [row for row in drawn if "together" in row]
    assert [row["together"] for row in rows[:3]] == list(found.by_number)
    assert [row["alone"] for row in rows[:3]] == list(found.alone)
    assert [row["at"] for row in drawn if "at" in row] == [found.ceiling, 1.8]


@pytest.mark.long
def test_without_a_claim_there_is_no_ceiling_and_without_numbers_no_chart() -> None:
    findings = audited()
    assert not [row for row in values(charts_of(findings.to_dict())["runs"].to_dict()) if "at" in row]
    silent = dataclasses.replace(findings.several_runs, by_number=(), alone=())
    assert "runs" not in charts_of(dataclasses.replace(findings, several_runs=silent).to_dict())


@pytest.mark.long
@needs_chromium
def test_it_is_drawn_in_a_browser(tmp_path) -> None:
    document, console = in_browser(tmp_path, page_of(audited(Claim.gaussian(1.8)).to_dict()))
    assert console == []
    assert 'class="chart drawn" data-chart="runs"' in document

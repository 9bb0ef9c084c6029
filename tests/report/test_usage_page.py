"""The page of usage and deletion: its numbers, its charts, and names that try to be markup."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from auditing.test_usage import decoys, never_seen
from miaudit.auditing.usage import UsagePlan, audit_deletion, audit_usage
from miaudit.report import usage_page
from report.test_audit_page import EVIL, Page


def rows(chart: Any) -> list[dict[str, Any]]:
    spec = chart.to_dict()
    held = spec["layer"][1]["data"]
    return list(held.get("values") or spec["datasets"][held["name"]])


def test_the_page_and_the_lines_state_the_bound() -> None:
    found = audit_usage(decoys(6.0, used=500), source="probes.jsonl")
    page, text = usage_page.page(found), usage_page.text(found)
    for part in (f"At least {found.usage.used:,} of 2,000 records were used", "20 decoys each"):
        assert part in page and part in text
    assert "Lower bound" in page
    for part in (
        f"that the other {2000 - found.usage.used:,} records were not used",
        "from which copy",
        "which records",
    ):
        assert part in page and part in text
    assert "Do not treat this as a pass" not in page
    assert "compared with 20 decoys each" in page


@pytest.mark.parametrize(("after", "word"), [(0.0, "Within the limits"), (0.5, "Concern")])
def test_the_page_of_a_deletion_has_its_three_deviations(after: float, word: str) -> None:
    found = audit_deletion(never_seen(after, seed=1), never_seen(1.0, seed=2), rng=np.random.default_rng(0))
    page, text = usage_page.page(found), usage_page.text(found)
    assert word in page and text.startswith(word)
    assert page.count('<th data-label="Deleted records" scope="row">') == 3
    assert "4,000 non-members" in page and "closer than 0.03" in page


def test_where_nothing_is_shown_or_answered_it_is_no_pass() -> None:
    nothing = audit_usage(decoys())
    few = tuple(replace(one, own=one.own[:60], others=one.others[:60]) for one in (decoys(), decoys(1.0)))
    unseen = audit_deletion(decoys(), decoys(), rng=np.random.default_rng(0))
    unresolved = audit_deletion(*few, rng=np.random.default_rng(0))
    assert [one.verdict.status for one in (nothing, unseen, unresolved)] == ["stated", "not-testable", "inconclusive"]
    for one in (nothing, unseen, unresolved):
        assert "Do not treat this as a pass." in usage_page.page(one)
        assert "Do not treat this as a pass." in usage_page.text(one)


def test_a_passed_deletion_says_what_must_not_be_concluded() -> None:
    passed = audit_deletion(decoys(), decoys(1.0), rng=np.random.default_rng(0))
    assert passed.verdict.status == "clear"
    most = passed.deletion.most_whole
    assert most - 1 < passed.deletion.most_kept * 2000 <= most
    for shown in (usage_page.page(passed), usage_page.text(passed)):
        assert "What you must not conclude" in shown and "Passed does not mean gone." in shown
        assert f"the records are gone. Up to {most} of the 2,000 records may still be fully known" in shown
        assert "in backups, in other models" in shown and "that a certain record is deleted" in shown
    failed = usage_page.page(audit_deletion(decoys(0.5), decoys(1.0), rng=np.random.default_rng(0)))
    assert "Concern" in failed and "Passed" not in failed and "that nothing was deleted" in failed


def test_charts_have_a_point_for_each_share() -> None:
    found = audit_usage(decoys(1.0))
    (chart,) = usage_page.charts(found).values()
    assert len(rows(chart)) == len(found.curve)
    both = audit_deletion(decoys(), decoys(1.0), rng=np.random.default_rng(0))
    (chart,) = usage_page.charts(both).values()
    assert {row["of"] for row in rows(chart)} == {"after the deletion", "before it"}


def test_names_that_try_to_be_markup_are_escaped() -> None:
    for found in (
        audit_usage(decoys(), UsagePlan(limits={"used": 0.1})),
        audit_deletion(decoys(), decoys(1.0), rng=np.random.default_rng(0)),
    ):
        page = Page(usage_page.page(replace(found, source=EVIL, score=EVIL, notes=(EVIL,))))
        assert EVIL in page.text

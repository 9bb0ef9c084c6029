"""The budget of a history: which p-value an audit brings, and what is said of all releases."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest

import miaudit as ma
from miaudit.auditing.headline import Declared
from miaudit.findings.about import About
from miaudit.findings.audit import Findings
from miaudit.findings.budget import Budget, combined_p
from miaudit.findings.comparison import History, history
from miaudit.findings.kinds import from_dict
from miaudit.findings.verdict import LimitResult, no_answer

LIMITS = {"auc": 0.6, "tpr_at_fpr_0.1": 0.3}


@cache
def audited(gap: float = 0.0, seed: int = 0, design: str | None = "one-run") -> Findings:
    rng = np.random.default_rng([seed, round(100 * gap)])
    member = rng.random(800) < 0.5
    evidence = ma.Evidence(score=rng.normal(size=800) + gap * member, member=member, design=design)
    return ma.audit(evidence, plan=ma.Plan(limits=LIMITS, bounds=None), rng=rng)


def release(month: int, p: float | None = None, *, model: str = "triage", **about: Any) -> Findings:
    """An audit of a month whose smallest p-value is p; its evidence is its own."""
    findings = audited()
    if p is not None:
        first, second = findings.verdict.limits
        limits = (replace(first, p=p), replace(second, p=1.0))
        findings = replace(findings, verdict=replace(findings.verdict, limits=limits))
    evidence = {**findings.evidence, "digest": f"{month:064x}"}
    stated = About(**{"model": model, "date": f"2026-{month:02}-01", **about})
    return replace(findings, evidence=evidence, about=stated)


def course(*p_values: float | None, fresh: bool = False) -> History:
    audits = [(f"v{i}", release(i, p)) for i, p in enumerate(p_values, 1)]
    memberships: Any = "fresh" if fresh else "shared"
    return history(audits, budget=Budget.of(audits, 0.05, memberships, "Declared."))


def test_the_p_value_is_the_smallest_times_the_number_of_tests() -> None:
    loud = audited(1.0)
    smallest = min(one.p for one in loud.verdict.limits if one.p is not None)
    assert combined_p(loud) == (2 * smallest, 2, "")
    assert combined_p(audited())[0] == 1.0
    limits = loud.verdict.limits
    unable = (limits[0], replace(limits[1], resolved=False))
    assert combined_p(replace(loud, verdict=replace(loud.verdict, limits=unable))) == (limits[0].p, 1, "")


def test_only_the_declared_headline_counts() -> None:
    """Other scores are listed only where they exceed a limit: their p-values would be chosen by the data."""
    rng = np.random.default_rng(0)
    member = rng.random(800) < 0.5
    noise, strong = rng.normal(size=800), rng.normal(size=800) + 2 * member
    evidence = ma.Evidence(score={"noise": noise, "strong": strong}, member=member, design="one-run")
    plan = ma.Plan(limits=LIMITS, bounds=None, headline=Declared("noise"))
    findings = ma.audit(evidence, plan=plan, rng=0)
    assert {one.score for one in findings.verdict.limits} == {"noise", "strong"}
    assert combined_p(findings)[1] == 2 and combined_p(findings)[0] > 0.1
    both = ma.audit(evidence, plan=replace(plan, headline=ma.Plan().headline), rng=0)
    assert combined_p(both)[1] == 4 and combined_p(both)[0] < 1e-6  # control


def test_a_limit_without_a_p_value_counts_by_its_level() -> None:
    one = LimitResult("epsilon", "loss", 2.0, None, 1.0, None, "exceeded")
    for outcome, p in (("exceeded", 0.025), ("open", 1.0)):
        verdict = replace(audited().verdict, limits=(replace(one, outcome=outcome),))  # type: ignore[arg-type]
        assert combined_p(replace(audited(), verdict=verdict))[0] == pytest.approx(p)


def test_without_an_answer_a_release_spends_its_share_and_the_exit_code_is_4() -> None:
    verdict = audited().verdict
    none = no_answer("refused", "No overlap.", metric="auc", threshold=0.6, confidence=0.95)
    silent = replace(release(3), verdict=none)
    exploratory = replace(release(3), verdict=replace(verdict, exploratory=True))
    unable = replace(verdict, limits=tuple(replace(one, resolved=False) for one in verdict.limits))
    for last, word in ((silent, "refused"), (exploratory, "exploratory"), (replace(release(3), verdict=unable), "few")):
        audits = [("a", release(1, 0.5)), ("b", release(2, 0.5)), ("c", last)]
        budget = Budget.of(audits, 0.05, "shared", "Declared.")
        assert (budget.exit_code, budget.releases[-1].tests, budget.releases[-1].p) == (4, 0, 1.0)
        assert budget.releases[-1].spent > 0 and word in budget.text and budget.text.startswith("Not answered")
    undeclared = audited(1.0, design=None)
    assert combined_p(undeclared)[1] == 0


def test_an_alarm_stays_and_the_budget_alone_decides() -> None:
    quiet = course(0.4, 0.4)
    assert (quiet.exit_code, quiet.text[:22]) == (0, "No alarm in 2 releases")
    loud = course(0.4, 1e-5, 0.4)
    assert loud.exit_code == 3 and loud.text.startswith("Alarm: v2 exceeds a limit (p = 2e-05).")
    both = course(1e-5, 1e-6)
    assert "1 later release raises one too." in both.text
    # each release alone is a concern at its own level, and the budget is not spent on that
    flagged = [
        (name, replace(audit, verdict=replace(audit.verdict, status="flagged")))
        for name, audit in (("v1", release(1, 0.4)), ("v2", release(2, 0.012)))
    ]
    with_budget = history(flagged, budget=Budget.of(flagged, 0.05, "shared", "Declared."))
    assert with_budget.exit_code == 0 and history(flagged).exit_code == 3
    assert with_budget.budget is not None and "In v1, v2 the verdicts are Concern" in " ".join(
        with_budget.budget.cautions
    )


def test_evidence_gathers_with_fresh_memberships_only() -> None:
    p = [0.2, *[0.008] * 4]
    fresh, shared = course(*p, fresh=True), course(*p)
    assert (fresh.exit_code, shared.exit_code) == (3, 0)
    assert "show together that at least one exceeds a limit" in fresh.text
    assert fresh.budget is not None and fresh.budget.alarm_at == 40
    assert shared.budget is not None and shared.budget.alarm_at is None


def test_what_the_rule_does_not_see_is_said() -> None:
    audits = [(f"v{i}", release(i, 0.4, model=None, date="2026-01-01")) for i in (1, 2)]  # type: ignore[arg-type]
    text = " ".join(Budget.of(audits, 0.05, "shared", "Declared.", ["Not counted: x."]).cautions)
    for words in ("does not show that nothing leaks", "No audit names its model", "one date", "Not counted: x."):
        assert words in text


def test_a_history_with_a_budget_is_read_back() -> None:
    for one in (course(0.4), course(0.4, 1e-5, fresh=True)):
        assert from_dict(one.to_dict()).to_dict() == one.to_dict()

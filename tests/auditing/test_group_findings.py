"""Metrics of groups, measured together."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from miaudit import Evidence, Findings, Plan, audit
from miaudit.errors import InputError
from miaudit.metrics import definition
from miaudit.metrics.classical import Sample
from worlds.scores import WORLDS

TEN = Plan(fpr_targets=(0.01, 0.1))


def evidence_of(n: int = 1000, **fields: Any) -> Evidence:
    score, member = WORLDS["gaussian"].draw(n, n, np.random.default_rng(0))
    return Evidence(score=score, member=member, **{"design": "one-run", **fields})


def audited(evidence: Evidence, plan: Plan = TEN) -> Findings:
    return audit(evidence, plan=plan, rng=np.random.default_rng(0))


def test_groups_are_measured_simultaneously() -> None:
    group = np.tile(np.arange(5), 400)
    evidence = evidence_of(group=group)
    findings = audited(evidence)
    assert [g.group for g in findings.groups] == list("01234")
    for g, found in enumerate(findings.groups):
        direct = definition.estimates(
            Sample.of(evidence.take(group == g)), definition.names((0.001, 0.01, 0.1)), 1 - 0.05 / 5
        )
        assert (found.members, found.nonmembers) == (200, 200)
        for metric in found.metrics:
            expected = direct[metric.name]
            assert (metric.value, metric.low, metric.high) == (expected.value, expected.low, expected.high)
        assert "all 5 groups at once" in found.note


def test_a_group_of_one_class_has_no_metrics() -> None:
    evidence = evidence_of(n=20, group=["x"] * 10 + ["y"] * 10 + ["x"] * 10 + ["y"] * 9 + ["z"])
    by_name = {g.group: g for g in audited(evidence).groups}
    assert by_name["x"].metrics
    merged = by_name["other (merged)"]
    assert (merged.members, merged.nonmembers) == (10, 10)
    assert "2 groups with fewer than 10 of a class, merged: y, z" in merged.note
    single = evidence_of(n=20, group=["x"] * 39 + ["y"])
    by_name = {g.group: g for g in audited(single).groups}
    assert by_name["y"].metrics == ()
    assert "fewer than two" in by_name["y"].note
    assert audited(evidence_of(n=20)).groups == ()


def test_ids_passed_for_groups_are_noticed() -> None:
    with pytest.raises(InputError, match="unit"):
        audited(evidence_of(group=np.arange(2000)))

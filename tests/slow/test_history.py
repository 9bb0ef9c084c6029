"""Forty releases without leakage under one budget of false alarms, by the verdicts of audits.

python -m pytest tests/slow/test_history.py -s      # prints the counts
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pytest

import miaudit as ma
from miaudit.findings.audit import Findings
from miaudit.findings.budget import combined_p
from miaudit.findings.judge import Scored, judge
from miaudit.findings.policy import Policy
from miaudit.metrics import definition
from miaudit.metrics.alarm_budget import alarms
from miaudit.metrics.classical import Sample
from validity.claims import Claims
from validity.sequential import SequentialTest

pytestmark = [pytest.mark.slow, pytest.mark.validity]

RELEASES, N, BUDGET = 40, 400, 0.05
POLICY = Policy.of({"auc": 0.5})  # the boundary: without leakage the AUC is exactly the limit
RARE, OFTEN = SequentialTest(BUDGET, 0.12), SequentialTest(0.3, 0.5)


@cache
def template() -> Findings:
    """Findings of an audit, whose verdict is replaced by that of each release."""
    evidence = ma.Evidence(score=np.arange(100.0) % 7, member=np.arange(100) % 2 == 0, design="one-run")
    return ma.audit(evidence, plan=ma.Plan(limits=POLICY.thresholds, bounds=None), rng=0)


def life(rng: np.random.Generator, *, fresh: bool) -> list[float]:
    """The p-values of forty releases: members anew at each, or the same members with almost the same scores."""
    hard, half = rng.normal(size=N), rng.random(N) < 0.5
    values = []
    for _ in range(RELEASES):
        member = rng.random(N) < 0.5 if fresh else half
        evidence = ma.Evidence(score=hard + 0.1 * rng.normal(size=N), member=member, design="one-run")
        estimate = definition.estimator(Sample.of(evidence))
        verdict = judge(POLICY, [Scored("score", estimate, float(np.sum(~member)))], confidence=0.95)
        values.append(combined_p(replace(template(), verdict=verdict))[0])
    return values


def raised(values: list[float], *, fresh: bool) -> bool:
    return any(one.alarm for one in alarms(values, BUDGET, fresh=fresh))


def test_forty_releases_alarm_within_the_budget(claim: Claims) -> None:
    """The same scores of the same people in all releases: fresh memberships alone make the p-values valid."""

    def fresh(rng: np.random.Generator) -> dict[str, bool]:
        return {"alarm": raised(life(rng, fresh=True), fresh=True)}

    def without_the_rule(rng: np.random.Generator) -> dict[str, bool]:
        return {"alarm": min(life(rng, fresh=True)) <= BUDGET}

    claim(fresh, holds={"alarm": RARE})
    claim(without_the_rule, fails={"alarm": OFTEN})


def test_releases_that_share_members_alarm_within_the_budget(claim: Claims) -> None:
    """The control: the rule for fresh memberships, on the same releases."""

    def shared(rng: np.random.Generator) -> dict[str, bool]:
        return {"alarm": raised(life(rng, fresh=False), fresh=False)}

    def wrong_rule(rng: np.random.Generator) -> dict[str, bool]:
        return {"alarm": raised(life(rng, fresh=False), fresh=True)}

    claim(shared, holds={"alarm": RARE})
    claim(wrong_rule, fails={"alarm": RARE})

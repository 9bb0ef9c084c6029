"""The measurements of each score, corrected and raw."""

from __future__ import annotations

import numpy as np

from miaudit import Evidence, Plan
from miaudit.auditing.case import choose
from miaudit.auditing.measurements import Measurements
from miaudit.auditing.plan import Bootstrap
from miaudit.auditing.seed import AuditStreams
from miaudit.causal.progress import TOTAL, Stage, reported
from miaudit.metrics import definition


def evidence() -> Evidence:
    rng = np.random.default_rng(0)
    member = rng.random(400) < 0.5
    scores = {"loss": rng.normal(size=400) + member, "margin": rng.normal(size=400)}
    return Evidence(score=scores, member=member, design="one-run")


def measured(plan: Plan, calls: list[int]) -> Measurements:
    streams = AuditStreams.of(np.random.default_rng(1))
    case = choose(evidence(), plan, rng=streams.choice)
    with reported({"bootstrap": Stage(1.0, 200)}, lambda done, _: calls.append(done)):
        return Measurements.of(case, None, {}, streams)


def test_raw_metrics_are_those_of_each_sample() -> None:
    plan, calls = Plan(), list[int]()
    found = measured(plan, calls)
    assert list(found.metrics) == list(found.nonmembers) == ["loss", "margin"]
    case = choose(evidence(), plan, rng=np.random.default_rng(0))
    for name, sample in case.samples.items():
        direct = definition.estimates(sample, plan.metric_names, case.confidence)
        assert [(one.name, one.value) for one in found.metrics[name]] == [(m, e.value) for m, e in direct.items()]
        assert found.nonmembers[name] == sample.effective_nonmembers
    assert found.corrected == found.disagreements == {}
    assert calls == [TOTAL - 1, TOTAL]


def test_a_bootstrap_counts_the_replicates_of_all_scores_as_one() -> None:
    calls: list[int] = []
    found = measured(Plan(n_bootstrap=100, intervals=Bootstrap()), calls)
    assert calls == [*range(5, TOTAL, 5), TOTAL - 1, TOTAL]
    assert all(one.bootstrap["replicates"] == 100 for one in found.metrics["loss"] if one.bootstrap)

"""pytest-benchmark: ``pytest benchmarks/bench_metrics.py``; each fast way stands beside the straightforward one."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))

import miaudit as ma
from miaudit.metrics import bootstrap, definition
from miaudit.metrics.classical import Sample
from worlds.clusters import Clusters
from worlds.twins import bootstrap_loop

TARGETS = (0.001, 0.01, 0.1)
REPLICATES = 50


@pytest.fixture(scope="module")
def evidence() -> ma.Evidence:
    rng = np.random.default_rng(0)
    member = np.arange(20_000) % 2 == 0
    return ma.Evidence(score=rng.normal(size=20_000) + member, member=member, design="one-run")


@pytest.mark.benchmark(group="intervals of 20,000 scores")
def test_default_intervals(benchmark: Any, evidence: ma.Evidence) -> None:
    found = benchmark(lambda: definition.estimates(Sample.of(evidence), definition.names(TARGETS), 0.95))
    assert found["auc"].low < 0.7602 < found["auc"].high


@pytest.mark.benchmark(group="intervals of 20,000 scores")
def test_full_audit(benchmark: Any, evidence: ma.Evidence) -> None:
    found = benchmark(lambda: ma.audit(evidence, rng=np.random.default_rng(0)))
    assert found.design == "one-run"


@pytest.mark.benchmark(group="50 bootstrap replicates of 20,000 scores")
def test_bootstrap_option(benchmark: Any, evidence: ma.Evidence) -> None:
    sample = Sample.of(evidence)
    found = benchmark(lambda: bootstrap.replicates(sample, TARGETS, REPLICATES, rng=np.random.default_rng(0)))
    assert found.tpr.shape == (REPLICATES, 3)


@pytest.mark.benchmark(group="50 bootstrap replicates of 20,000 scores")
def test_the_straightforward_loop(benchmark: Any, evidence: ma.Evidence) -> None:
    score, member = np.array(evidence.score), np.array(evidence.member)
    run = lambda: bootstrap_loop(score, member, TARGETS, REPLICATES, np.random.default_rng(0))  # noqa: E731
    auc, _, _ = benchmark.pedantic(run, rounds=3, warmup_rounds=1)
    assert auc.mean() == pytest.approx(0.76, abs=0.01)


@pytest.mark.benchmark(group="20,000 scores of 4,000 units")
def test_intervals_of_units(benchmark: Any) -> None:
    score, member, unit = Clusters(2000, 5, 0.5, 1.0).draw(np.random.default_rng(0))
    evidence = ma.Evidence(score=score, member=member, unit=unit)
    found = benchmark(lambda: definition.estimates(Sample.of(evidence), definition.names(TARGETS), 0.95))
    assert found["auc"].value == pytest.approx(0.76, abs=0.02)

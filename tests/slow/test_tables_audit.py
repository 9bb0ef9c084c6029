"""Releases by noisy tables are attacked by who knows all records but one, at a known epsilon: no bound may cross it."""

from __future__ import annotations

import numpy as np
import pytest

from miaudit.dp.multi_run import epsilon_lower_bound
from miaudit.evidence import Evidence
from miaudit.synthesis.generators.generator_config import Privacy
from miaudit.synthesis.generators.tables_config import TablesConfig
from miaudit.synthesis.generators.tables_generator import TablesGenerator, encoded, fit_tables
from miaudit.synthesis.generators.tables_plan import TablesPlan
from miaudit.synthesis.graph import CausalGraph
from miaudit.synthesis.schema import Column, Schema, Table
from validity.claims import Claims

pytestmark = [pytest.mark.slow, pytest.mark.validity]

SCHEMA = Schema(tuple(Column(name) for name in "abc"))
CHAIN = CausalGraph(SCHEMA, None, [("a", "b"), ("b", "c")])
NO_GRAPH = CausalGraph(SCHEMA, {"columns": SCHEMA.names})
TARGET = np.array([[1.0, 0.0, 1.0]])
DELTA, RUNS = 1e-5, 120  # of an audit
COMMON = Table(SCHEMA, np.repeat([[0.0, 0.0, 0.0], [1.0, 1.0, 1.0]], 30, axis=0))
WITH = Table(SCHEMA, np.concatenate([COMMON.values, TARGET]))


def audited(
    graph: CausalGraph, epsilon: float, rng: np.random.Generator, *, runs: int = RUNS, less: float = 1.0
) -> float:
    """Lower bound on epsilon from generators with and without the target, scored by its likelihood under them."""
    privacy = Privacy(records=60, epsilon=epsilon, delta=DELTA)
    plan = TablesPlan(graph, TablesConfig(), privacy, 60)
    made = Quieter(graph, TablesConfig(), privacy, 60, less) if less != 1 else plan
    member = np.arange(runs) % 2 == 0
    target = Table(SCHEMA, TARGET)
    scores = []
    for inside in member:
        generator: TablesGenerator = fit_tables(WITH if inside else COMMON, made, rng=rng, repeatable=True)
        assert encoded(target, plan).tolist() == [[1, 0, 1]]
        scores.append(generator.log_likelihood(target)[0])
    evidence = Evidence(score=np.asarray(scores), member=member, design="multi-run")
    return epsilon_lower_bound(evidence, delta=DELTA, confidence=0.95, rng=rng).value


class Quieter(TablesPlan):
    """A plan that adds only a part of the noise that it accounts for."""

    def __init__(self, graph: CausalGraph, config: TablesConfig, privacy: Privacy, records: int, part: float) -> None:
        super().__init__(graph, config, privacy, records)
        object.__setattr__(self, "part", part)

    def sd(self, share: float) -> float:
        return self.part * super().sd(share)  # type: ignore[attr-defined]


@pytest.mark.parametrize("graph", [CHAIN, NO_GRAPH], ids=["graph", "no graph"])
def test_no_bound_crosses_what_is_claimed(claim: Claims, graph: CausalGraph) -> None:
    """At epsilon 0.5 and a confidence of 95%. The control: a tenth of the noise."""
    claim(lambda rng: {"bound > 0.5": audited(graph, 0.5, rng) > 0.5}, holds={"bound > 0.5": 0.05})
    claim(lambda rng: {"a tenth": audited(graph, 0.5, rng, runs=500, less=0.1) > 0.5}, fails={"a tenth": 0.05})

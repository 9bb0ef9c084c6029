"""Our generator of noisy tables, replayed: right ones pass at their whole budget, and each planted bug is named."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from table_replay.bugs import BUGS, NOISE, RIGHT, SCHEMA, Bug, plan_of, table
from table_replay.run import MEASURED, neighbours, row

from miaudit.dp import query_replay
from miaudit.dp.query_draws import History, QueryDraws
from miaudit.dp.query_replay import QueryComparison
from miaudit.errors import InputError
from miaudit.metrics.rounding import lower_text
from miaudit.synthesis.generators import noisy_tables, private_choice
from miaudit.synthesis.generators.replayed_tables import ReplayedNoise, claimed, replayed
from miaudit.synthesis.generators.tables_config import TablesConfig
from miaudit.synthesis.generators.tables_plan import TablesPlan
from miaudit.synthesis.graph import CausalGraph

ROOT = Path(__file__).parents[3]


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Shorten what follows the noise: laws of several parents, and the records that they rest on."""
    monkeypatch.setattr(noisy_tables, "_MOST_STEPS", 2)
    monkeypatch.setattr(private_choice, "_FEWEST", 100)
    return


def compared(bug: Bug, plan: TablesPlan | None = None, seed: int = 0) -> QueryComparison:
    own, private = plan_of() if plan is None else plan, table()
    others = neighbours(private, replaced=bug.replaced or own.changes == 2, count=4)
    generator = bug.generator() if plan is None else replayed(plan)
    return query_replay.check(generator, private, others, claimed(own), rng=np.random.default_rng(seed))


def with_graph(neighbours: str) -> TablesPlan:
    plan = plan_of(neighbours=neighbours)
    edges = [("age", "sick"), ("site", "sick"), ("sick", "stage")]
    return TablesPlan(CausalGraph(SCHEMA, None, edges), TablesConfig(), plan.privacy, plan.records)


@pytest.mark.parametrize(
    ("plan", "answers", "choices"),
    [
        (plan_of(), 10, 6),
        (plan_of(neighbours="replace-one"), 10, 6),
        (with_graph("add-or-remove"), 5, 0),
        (with_graph("replace-one"), 5, 0),
    ],
    ids=["two stages", "two stages, replaced", "graph", "graph, replaced"],
)
def test_a_right_generator_passes_and_its_ledger_is_the_whole_budget(
    plan: TablesPlan, answers: int, choices: int
) -> None:
    result = compared(RIGHT, plan)
    assert result.passed, str(result)
    is_choice = [query.law == "choice" for query in result.queries]
    assert (len(is_choice) - sum(is_choice), sum(is_choice)) == (answers, choices)
    assert result.ledger == pytest.approx(plan.mu) == pytest.approx(1 / NOISE)
    moved = [query.change for query in result.queries if query.law != "choice"]
    assert moved == pytest.approx([math.sqrt(plan.changes)] * answers)  # the closed form of a table of counts
    if not choices:
        assert result.spent == pytest.approx(plan.mu)


@pytest.mark.parametrize("bug", BUGS, ids=[bug.name for bug in BUGS])
def test_each_planted_bug_is_named(bug: Bug) -> None:
    result = compared(bug)
    assert any(bug.seen_by in sentence for sentence in result.differences), str(result)


def test_the_pages_show_what_was_measured() -> None:
    measured = json.loads(MEASURED.read_text(encoding="utf-8"))
    assert list(measured) == [bug.name for bug in (RIGHT, *BUGS)]
    readme = (MEASURED.parent / "README.md").read_text(encoding="utf-8")
    for bug in (RIGHT, *BUGS):
        shown, mu = row(bug, measured[bug.name]), measured[bug.name]["audit"]["mu"]
        assert shown in readme
        assert ("| refuted" in shown) == (mu > plan_of().mu), bug.name
        assert f"(mu >= {lower_text(mu, 2)}) |" in shown
        for text in re.findall(r"\bspend mu = ([0-9.]+)", shown):
            assert float(text) == pytest.approx(measured[bug.name]["replay"]["spent"], abs=0.005)
    refuted = sum(one["audit"]["mu"] > plan_of().mu for one in measured.values())
    page = (ROOT / "docs" / "private_code.md").read_text(encoding="utf-8")
    assert refuted == 2 and len(BUGS) == 12
    assert "twelve planted bugs" in page and "refutes two of them" in page


def test_bugs_end_with_their_context() -> None:
    for bug in BUGS:
        with bug.planted():
            pass
    assert compared(RIGHT).passed


def test_the_names_are_those_of_the_columns() -> None:
    names = [query.name for query in compared(RIGHT).queries]
    assert names[:4] == ["age", "site", "sick", "stage"]
    assert all(set(name.split(", ")) <= set(SCHEMA.names) for name in names if name)


def test_the_noise_is_that_of_the_draws() -> None:
    history = History()
    noise = ReplayedNoise(QueryDraws(history, rng=np.random.default_rng(0)), ("a", "b"))
    counts = noise.released((1, 0), np.array([3.0, 4.0]) + noise.normal(2, 5.0), 5.0)
    assert history.queries[0].named(1) == "Answer 1 (b, a)" and (counts == history.released[0]).all()
    assert noise.choose([0.0, 1e6], 1.0) == 1
    assert (ReplayedNoise(QueryDraws(history, impulse=0), ("a", "b")).normal(2, 5.0) == 5.0).all()


def test_a_plan_without_privacy_claims_nothing() -> None:
    plan: Any = plan_of()
    with pytest.raises(InputError, match="plan: expected one with differential privacy"):
        claimed(TablesPlan(plan.graph, plan.config, None, plan.records))

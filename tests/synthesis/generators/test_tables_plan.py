"""Plans of tables: their privacy by closed forms, their noise, and what is refused before anything is counted."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from miaudit.dp.accounting import upper_bound
from miaudit.dp.mechanism import Selection
from miaudit.errors import InputError
from miaudit.synthesis.generators.generator_config import Privacy
from miaudit.synthesis.generators.tables_config import TablesConfig
from miaudit.synthesis.generators.tables_plan import TablesPlan
from miaudit.synthesis.graph import CausalGraph
from miaudit.synthesis.schema import Column, Schema
from miaudit.synthesis.worlds import synthetic22


def plan(
    graph: CausalGraph, *, records: int = 1_000, config: TablesConfig | None = None, **privacy: object
) -> TablesPlan:
    asked = Privacy(records=records, **({"epsilon": 1.0} | privacy))  # type: ignore[arg-type]
    return TablesPlan(graph, config or TablesConfig(), asked, records)


GRAPH = synthetic22().graph
NO_GRAPH = CausalGraph(GRAPH.schema, {"columns": GRAPH.schema.names})


def spent(found: TablesPlan) -> float:
    """The mu of all tables by the sensitivity of each count: mu^2 = sum c / s^2 (experiments/methods.md, section 8)."""
    return math.sqrt(sum(found.changes / found.sd(share) ** 2 for share in found.shares))


@pytest.mark.parametrize("neighbours", ["add-or-remove", "replace-one"])
@pytest.mark.parametrize("epsilon", [0.3, 1.0, 3.9])
def test_the_noise_of_all_tables_together_is_what_is_claimed(neighbours: str, epsilon: float) -> None:
    found = plan(GRAPH, epsilon=epsilon, delta=1e-5, neighbours=neighbours)
    bound = upper_bound(found.mechanism, delta=1e-5)  # type: ignore[arg-type]
    assert bound.value == pytest.approx(epsilon, rel=1e-5) and bound.value <= epsilon
    mu = spent(found)
    excess = stats.norm.cdf(-epsilon / mu + mu / 2) - math.exp(epsilon) * stats.norm.cdf(-epsilon / mu - mu / 2)
    assert excess == pytest.approx(1e-5, rel=1e-3)  # the exact conversion (Balle and Wang, 2018)


def test_replace_one_costs_as_much_as_the_methods_say() -> None:
    added = plan(GRAPH, epsilon=3.9, delta=1e-5)
    same = plan(GRAPH, epsilon=None, noise=added.privacy.relative_noise / math.sqrt(2), delta=1e-5)  # type: ignore[union-attr]
    assert upper_bound(same.mechanism, delta=1e-5).value == pytest.approx(5.84, abs=0.01)  # type: ignore[arg-type]
    replaced = plan(GRAPH, epsilon=3.9, delta=1e-5, neighbours="replace-one")
    assert replaced.sd(0.1) == pytest.approx(math.sqrt(2) * added.sd(0.1))


def test_choices_and_tables_together_are_what_is_claimed() -> None:
    found = plan(NO_GRAPH, delta=1e-5)
    bound = upper_bound(found.mechanism, delta=1e-5)  # type: ignore[arg-type]
    assert bound.value == pytest.approx(1.0, rel=1e-4) and bound.value <= 1.0
    noises = [found.sd(share) for share in found.single_shares()]
    pairs = found.candidates[: found.tree_size], found.candidates[: found.further]
    noises += [found.sd(share) for share in found.pair_shares("pairs", pairs[0])]
    noises += [found.sd(share) for share in found.pair_shares("more", pairs[1])]
    chosen = [(found.selection("tree"), found.tree_size), (found.selection("further"), found.further)]
    total = sum(sd**-2.0 for sd in noises) + sum(times * one.mu**2 for one, times in chosen if one is not None)
    assert math.sqrt(total) == pytest.approx(found.mu)
    assert (found.tree_size, found.further, len(found.candidates)) == (21, 22, 231)


@pytest.mark.parametrize("epsilon", [0.01, 0.5, 3.0])
def test_a_choice_is_as_private_as_it_says(epsilon: float) -> None:
    """Of all mechanisms of two answers whose losses lie ``epsilon`` apart, none is told apart better than by mu."""
    mu = Selection(epsilon).mu
    t = np.linspace(0, epsilon, 2_001)[1:-1]
    q = (1 - np.exp(t - epsilon)) / (np.exp(t) - np.exp(t - epsilon))
    needed = stats.norm.ppf(np.exp(t) * q) - stats.norm.ppf(q)
    assert needed.max() <= mu + 1e-9 and needed.max() == pytest.approx(mu, rel=1e-4)
    assert Selection.of_mu(mu).epsilon == pytest.approx(epsilon)


def test_parents_share_tables_while_their_cells_have_records() -> None:
    private = [plan(GRAPH, epsilon=epsilon) for epsilon in (0.3, 3.9, 80.0)]
    tables = [len(found.along) for found in private]
    assert tables[0] > tables[1] > tables[2] == 22  # every edge, some together, all parents of a column in one
    for found in private:
        for name in GRAPH.order:
            column = GRAPH.schema.position(name)
            told = [i for columns in found.along if columns[-1] == column for i in columns[:-1]]
            assert sorted(told) == sorted(GRAPH.schema.position(cause) for cause in GRAPH.parents(name))
    assert sum(private[0].shares) == pytest.approx(1)
    roots = [share for columns, share in zip(private[2].along, private[2].shares, strict=True) if len(columns) == 1]
    leaves = [share for columns, share in zip(private[2].along, private[2].shares, strict=True) if columns[-1] > 13]
    assert min(roots) / 2 ** (1 / 3) > max(leaves) / 16 ** (1 / 3)  # cell for cell what feeds much gets more


def test_groups_say_which_pairs_may_be_measured() -> None:
    schema = Schema(tuple(Column(name) for name in "abcde"))
    graph = CausalGraph(schema, {"x": ["a", "b"], "y": ["c"], "z": ["d", "e"]}, [("x", "y"), ("y", "z")])
    found = plan(graph)
    assert set(found.candidates) == {(0, 1), (0, 2), (1, 2), (2, 3), (2, 4), (3, 4)} and found.tree_size == 4
    alone = plan(CausalGraph(schema, {"x": ["a", "b"], "y": ["c", "d"], "z": ["e"]}, [], ["x", "y", "z"]))
    assert alone.tree_size == 2 and alone.further == 0  # two pairs, and a column beside them


@pytest.mark.parametrize(
    ("found", "message"),
    [
        (
            plan(GRAPH, epsilon=0.003),
            "half of a column's records at most moved by it, received 0.003 for 1,000 records of",
        ),
        (plan(NO_GRAPH, epsilon=0.003), "nothing was spent; take a larger epsilon, fewer columns or levels"),
        (
            plan(GRAPH, config=TablesConfig(combine=False)),
            "at most 5 cells in a table, received M1 with 2 parents, 8 cells",
        ),
    ],
    ids=["noise", "noise without a graph", "large"],
)
def test_what_leaves_nothing_is_refused_before_it_is_paid_for(found: TablesPlan, message: str) -> None:
    with pytest.raises(InputError, match=message):
        found.check()


def test_without_privacy_there_is_no_noise_and_no_claim() -> None:
    found = TablesPlan(NO_GRAPH, TablesConfig(), None, 1_000)
    assert found.mechanism is None and found.sd(0.1) == 0 and found.selection("tree") is None

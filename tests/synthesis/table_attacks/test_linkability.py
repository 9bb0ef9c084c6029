"""Linkability: against a slow twin, blind parties, no false alarm without a leak, and copies found."""

from __future__ import annotations

import numpy as np
import pytest

from miaudit.errors import InputError
from miaudit.synthesis.schema import Column, Schema, Table
from miaudit.synthesis.table_attacks.linkability import _linked_at, linkability

SCHEMA = Schema(tuple(Column(name, "continuous", low=-50, high=50) for name in "abcdef"))


def draw(n: int, rng: np.random.Generator) -> Table:
    z = rng.normal(size=(n, 1))
    return Table(SCHEMA, np.clip(z + rng.normal(size=(n, 6)), -50, 50))


def test_links_are_those_of_a_slow_twin() -> None:
    rng = np.random.default_rng(0)
    left, right = (np.array([rng.permutation(9)[:4] for _ in range(200)]) for _ in range(2))
    found = _linked_at(left, right)
    for a, b, at in zip(left.tolist(), right.tolist(), found.tolist(), strict=True):
        ranks = [max(a.index(x), b.index(x)) + 1 for x in a if x in b]
        assert at == (min(ranks) if ranks else 5)


def test_independent_parts_are_linked_as_often_as_blind_parties_would() -> None:
    rng = np.random.default_rng(1)
    draws = [Table(SCHEMA, rng.normal(size=(n, 6))) for n in (200, 2000, 2000)]
    found = linkability(*draws, parts=("abc", "def"), k=8, rng=rng).comparison  # type: ignore[arg-type]
    assert found.by_chance is not None
    assert abs(found.by_chance.value - (1 - np.prod([(192 - i) / (200 - i) for i in range(8)]))) < 1e-3
    assert found.control.low < found.by_chance.value < found.control.high


@pytest.mark.long
def test_population_knowledge_is_no_leak_and_copies_are() -> None:
    rng = np.random.default_rng(2)
    false_alarms = 0
    for _ in range(60):
        found = linkability(draw(150, rng), draw(200, rng), draw(200, rng), k=10, rng=rng).comparison
        false_alarms += found.leaks
        assert found.by_chance is not None
    assert false_alarms <= 6
    assert not found.weak  # the columns are correlated: parties do better than blindly, about strangers too
    members, control = draw(400, rng), draw(400, rng)
    leaky = Table(SCHEMA, np.r_[draw(300, rng).values, members.values[:100]])
    seen = linkability(leaky, members, control, k=1, rng=rng)
    assert seen.comparison.leaks
    assert (seen.score[:100] == -1).mean() > 0.95
    assert set(seen.score[400:].tolist()) <= {-1.0, -2.0}


def test_bad_input_is_refused() -> None:
    rng = np.random.default_rng(3)
    table = draw(20, rng)
    with pytest.raises(InputError, match="do not share, received a"):
        linkability(table, table, table, parts=(["a"], ["a", "b"]), rng=rng)
    with pytest.raises(InputError, match="parts: expected two lists"):
        linkability(table, table, table, parts=(["a"], []), rng=rng)
    with pytest.raises(InputError, match="column: expected a column of the schema"):
        linkability(table, table, table, parts=(["a"], ["z"]), rng=rng)
    with pytest.raises(InputError, match="k: expected 1 to 20"):
        linkability(table, table, table, k=21, rng=rng)
    one = Table(Schema((Column("a"),)), [[0.0]])
    with pytest.raises(InputError, match="parts: expected a table with two columns"):
        linkability(one, one, one, rng=rng)

"""Singling out: an index against a plain search, predicates that isolate, false alarms without a leak, copies found."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from miaudit.arrays import IntArray
from miaudit.errors import InputError
from miaudit.synthesis.schema import Column, Schema, Table
from miaudit.synthesis.table_attacks.singling_out import Condition, Index, Predicate, singling_out

SCHEMA = Schema(
    (
        Column("age", "continuous", low=-50, high=50, missing=True),
        Column("job", "categorical", tuple("abcdefgh")),
        Column("sex"),
        Column("income", "continuous", low=-50, high=50),
        Column("grade", "ordinal", ("1", "2", "3")),
    )
)


def draw(n: int, rng: np.random.Generator) -> Table:
    values = np.c_[
        rng.normal(size=n),
        rng.integers(0, 8, n),
        rng.integers(0, 2, n),
        rng.standard_t(3, size=n),
        rng.integers(0, 3, n),
    ]
    values[rng.random(n) < 0.05, 0] = np.nan
    return Table(SCHEMA, np.clip(values, [-50, 0, 0, -50, 0], [50, 7, 1, 50, 2]))


def plainly(predicate: Predicate, table: Table) -> IntArray:
    """Return the matching rows of a table, ascending, by a look at every row."""
    rows = np.arange(len(table))
    for condition in predicate.conditions:
        rows = rows[condition.holds(table.values[rows, condition.column])]
    return rows


def test_the_index_finds_what_a_plain_search_finds() -> None:
    rng = np.random.default_rng(0)
    table = draw(300, rng)
    index = Index.of(table)
    for _ in range(300):
        row = table.values[rng.integers(300)]
        conditions = []
        for j in rng.choice(5, size=rng.integers(1, 5), replace=False):
            operator = rng.choice(["=", "<=", ">="]) if not np.isnan(row[j]) else "missing"
            conditions.append(Condition(int(j), str(operator), float(np.nan_to_num(row[j]))))  # type: ignore[arg-type]
        predicate = Predicate(tuple(conditions))
        found = plainly(predicate, table)
        assert len(found)
        assert np.array_equal(np.sort(index.matches(predicate)), found)


@pytest.mark.long
@pytest.mark.parametrize("mode", ["univariate", "multivariate"])
def test_predicates_isolate_a_synthetic_record_and_are_written_for_a_reader(mode: str) -> None:
    rng = np.random.default_rng(1)
    synthetic = draw(400, rng)
    found = singling_out(synthetic, draw(200, rng), draw(200, rng), mode=mode, attempts=80, rng=rng)  # type: ignore[arg-type]
    assert len(found.predicates) == 80
    assert len(set(found.predicates)) == 80
    for predicate in found.predicates:
        extreme = mode == "univariate" and predicate.conditions[0].operator in ("<=", ">=")
        assert extreme or len(plainly(predicate, synthetic)) == 1
    text = found.predicates[0].text(SCHEMA.columns)
    assert any(column.name in text for column in SCHEMA.columns)


@pytest.mark.thorough
@pytest.mark.long
@pytest.mark.parametrize("mode", ["univariate", "multivariate"])
def test_without_a_leak_the_interval_holds_zero_though_predicates_overlap(mode: str) -> None:
    """Newcombe's interval over predicates alone takes dependent trials for independent and fails here (the control).

    Predicates of four columns share more records, so they depend on each other more, than those of six.
    """
    rng = np.random.default_rng(2)
    runs, held, naive = 50, 0, 0
    for _ in range(runs):
        synthetic, members, control = (draw(n, rng) for n in (150, 120, 120))
        part = singling_out(synthetic, members, control, mode=mode, attempts=300, columns=4, rng=rng).comparison  # type: ignore[arg-type]
        held += part.difference.low <= 0 <= part.difference.high
        p1, p0, q = part.members.value, part.control.value, part.members.trials
        half = 1.96 * np.sqrt((p1 * (1 - p1) + p0 * (1 - p0)) / q)
        naive += abs(p1 - p0) <= half
    assert held / runs >= 0.93, held / runs
    if mode == "multivariate":
        assert naive / runs < held / runs - 0.04, naive / runs


@pytest.mark.long
def test_copies_are_singled_out_and_members_play_no_part_in_the_score() -> None:
    rng = np.random.default_rng(3)
    members, control = draw(300, rng), draw(400, rng)
    leaky = Table(SCHEMA, np.r_[draw(150, rng).values, members.values[:150]])
    found = singling_out(leaky, members, control, attempts=500, rng=np.random.default_rng(0))
    assert found.comparison.leaks
    swapped = singling_out(leaky, control, members, attempts=500, rng=np.random.default_rng(0))
    assert np.array_equal(found.score, np.r_[swapped.score[400:], swapped.score[:400]])
    assert found.score[:300].mean() > found.score[300:].mean()
    assert found.score[:150].mean() > 4 * found.score[300:].mean()


def test_attempts_are_predicates_that_are_put_to_records_and_a_note_says_where_the_table_has_fewer() -> None:
    """One draw in thirty is true of one record alone: with 20 draws for each that is wanted there were 89 of 150."""
    schema = Schema(tuple(Column(name, "categorical", tuple("abcdef")) for name in "vwxyz"))
    table = Table(schema, np.clip(np.random.default_rng(5).geometric(0.6, (3000, 5)) - 1, 0, 5))
    found = singling_out(table, table, table, attempts=150, columns=4, rng=np.random.default_rng(0))
    assert found.comparison.members.trials == len(found.predicates) == 150
    assert "wanted" not in found.comparison.note
    few = singling_out(table, table, table, attempts=1000, columns=4, rng=np.random.default_rng(0))
    parts = (
        np.unique(table.values[:, columns], axis=0, return_counts=True)[1] for columns in combinations(range(5), 4)
    )
    possible = sum(int((counts == 1).sum()) for counts in parts)
    assert 0.8 * possible < few.comparison.members.trials == len(few.predicates) <= possible < 1000
    assert f"{len(few.predicates):,} predicates" in few.comparison.note
    assert "1,000 were wanted" in few.comparison.note


def test_a_table_without_anything_unique_says_so() -> None:
    schema = Schema((Column("a"), Column("b")))
    same = Table(schema, np.tile([[0.0, 0.0], [1.0, 1.0]], (10, 1)))
    found = singling_out(same, same, same, attempts=20, columns=2, rng=np.random.default_rng(0))
    assert found.predicates == ()
    assert found.comparison.difference.value is None
    assert "suggests no predicate" in found.comparison.note
    assert not found.comparison.leaks


def test_bad_input_is_refused() -> None:
    rng = np.random.default_rng(4)
    table = draw(10, rng)
    with pytest.raises(InputError, match="mode: expected 'univariate' or 'multivariate'"):
        singling_out(table, table, table, mode="both", rng=rng)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="attempts"):
        singling_out(table, table, table, attempts=0, rng=rng)
    with pytest.raises(InputError, match="columns: expected 2 to 8"):
        singling_out(table, table, table, columns=1, rng=rng)
    with pytest.raises(InputError, match="members: expected at least one row"):
        singling_out(table, table.subset([]), table, rng=rng)

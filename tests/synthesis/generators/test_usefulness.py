"""Verdicts on releases: a real sample is useful, shuffled columns are not, and half of the truth is partly so."""

from __future__ import annotations

import numpy as np
import pytest

from miaudit.findings.release import Usefulness
from miaudit.synthesis.generators import usefulness
from miaudit.synthesis.generators.fitting import fit
from miaudit.synthesis.generators.generator_config import Privacy
from miaudit.synthesis.generators.tables_config import TablesConfig
from miaudit.synthesis.graph import CausalGraph
from miaudit.synthesis.schema import Column, Schema, Table

SCHEMA = Schema(tuple(Column(name) for name in "abc"))
CHAIN = CausalGraph(SCHEMA, None, [("a", "b"), ("b", "c")])


def chain(n: int, seed: int) -> Table:
    rng = np.random.default_rng(seed)
    columns = [rng.random(n) < 0.5]
    for _ in range(2):
        columns.append(np.where(rng.random(n) < 0.886, columns[-1], ~columns[-1]))
    return Table(SCHEMA, np.stack(columns, axis=1))


def verdict(
    synthetic: Table, graph: CausalGraph = CHAIN, *, real: int = 300, trained: Table | None = None
) -> Usefulness:
    generator = fit(trained or synthetic, graph, rng=np.random.default_rng(0), config=TablesConfig())
    rng = np.random.default_rng(0)
    return usefulness.judged(synthetic, generator, chain(1_000, 1), chain(real, 2), on="others", rng=rng)[0]


def shuffled(table: Table) -> Table:
    rng = np.random.default_rng(3)
    return Table(SCHEMA, np.stack([rng.permutation(column) for column in table.values.T], axis=1))


@pytest.mark.long
def test_another_real_sample_is_useful_and_shuffled_columns_are_not() -> None:
    good, bad = verdict(chain(1_000, 5)), verdict(shuffled(chain(1_000, 5)))
    assert good.status == "useful" and not good.advice and all(one.share > 0.8 for one in good.kept)
    assert [one.of for one in good.kept] == [
        "dependence between columns",
        "the prediction of a, b, c",
        "what interventions do along this graph",
    ]
    assert bad.status == "not" and all(one.share < 0.4 for one in bad.kept) and bad.advice
    assert abs(bad.marginals) < 0.05 and bad.text.startswith("Not useful: it keeps 0% (or less) of")


@pytest.mark.long
def test_a_release_that_lost_half_is_partly_useful() -> None:
    mixed = np.concatenate([chain(700, 5).values, shuffled(chain(300, 6)).values])
    found = verdict(Table(SCHEMA, mixed))
    assert found.status == "partly" and 0.5 <= min(one.share for one in found.kept) < 0.8


@pytest.mark.thorough
@pytest.mark.long
def test_one_lost_pair_of_six_is_not_hidden_by_the_mean() -> None:
    schema = Schema(tuple(Column(f"x{i}") for i in range(12)))
    graph = CausalGraph(schema, None, [(f"x{i}", f"x{i + 1}") for i in range(0, 12, 2)])

    def six(n: int, seed: int) -> Table:
        rng = np.random.default_rng(seed)
        left = rng.random((n, 6)) < 0.5
        right = np.where(rng.random((n, 6)) < 0.9, left, ~left)
        return Table(schema, np.stack([left, right], axis=2).reshape(n, 12))

    def judged(synthetic: Table) -> Usefulness:
        generator = fit(six(1_000, 4), graph, rng=np.random.default_rng(0), config=TablesConfig())
        rng = np.random.default_rng(0)
        return usefulness.judged(synthetic, generator, six(2_000, 1), six(600, 2), on="others", rng=rng)[0]

    values = six(2_000, 5).values.copy()
    assert judged(Table(schema, values.copy())).status == "useful"
    values[:, 11] = np.random.default_rng(6).permutation(values[:, 11])
    found = judged(Table(schema, values))
    assert found.kept[0].share > 0.8 and found.status == "partly"
    assert "less than half is kept of how x10 and x11 (0.0" in found.text and "x8" not in found.text


@pytest.mark.long
def test_columns_that_are_far_off_make_a_release_useless() -> None:
    values = chain(1_000, 5).values.copy()
    values[:400] = 1
    found = verdict(Table(SCHEMA, values))
    assert found.marginals > 0.15 and found.status == "not"


def test_few_real_records_judge_nothing() -> None:
    found = verdict(chain(200, 5), real=usefulness.FEWEST - 1)
    assert found.status == "unjudged" and "39 real records are too few" in found.text and not found.kept


@pytest.mark.long
def test_where_nothing_depends_there_is_nothing_to_keep() -> None:
    rng = np.random.default_rng(0)
    private, real, made = (Table(SCHEMA, rng.integers(0, 2, (n, 3))) for n in (3_000, 400, 600))
    generator = fit(made, None, rng=rng, config=TablesConfig())
    found, _ = usefulness.judged(made, generator, private, real, on="others", rng=rng)
    assert found.status == "useful" and found.kept == () and "no dependence that it could keep" in found.text


@pytest.mark.thorough
@pytest.mark.long
def test_a_dependence_too_weak_for_the_records_that_judge_is_not_called_kept() -> None:
    """Nothing kept could be shown, and a release of shuffled columns was called useful for it."""
    schema = Schema(tuple(Column(name, "ordinal", categories=(1, 2, 3, 4, 5)) for name in "abcdefgh"))

    def world(n: int, seed: int) -> Table:
        rng = np.random.default_rng(seed)
        values = rng.integers(0, 5, (n, 8))
        same = rng.random(n) < 0.4
        values[same, 1] = values[same, 0]
        return Table(schema, values)

    private, real = world(800, 1), world(200, 2)
    rng = np.random.default_rng(3)
    made = Table(schema, np.stack([rng.permutation(column) for column in private.values.T], axis=1))
    generator = fit(made, None, rng=rng, config=TablesConfig())
    found, _ = usefulness.judged(made, generator, private, real, on="others", rng=np.random.default_rng(0))
    assert found.status in ("unjudged", "not")
    if found.status == "unjudged":
        assert "a and b depend on each other" in found.text and "more records to judge by" in found.advice[0]


@pytest.mark.long
@pytest.mark.parametrize("seed", range(3))
def test_the_default_release_of_a_chain_keeps_both_dependences(seed: int) -> None:
    """500 rows, epsilon 1: what independent columns once were released for."""
    table, privacy = chain(400, 10 + seed), Privacy(records=500, epsilon=1.0)
    generator = fit(table, CHAIN, privacy, method="tables", rng=np.random.default_rng(seed), repeatable=True)
    drawn = generator.sample(500, rng=np.random.default_rng(seed)).values
    kept = np.mean(drawn[:, 0] == drawn[:, 1]), np.mean(drawn[:, 1] == drawn[:, 2])
    found, _ = usefulness.judged(
        Table(SCHEMA, drawn), generator, table, chain(100, 50 + seed), on="others", rng=np.random.default_rng(0)
    )
    assert max(abs(share - 0.886) for share in kept) <= 0.1 or found.status == "not"

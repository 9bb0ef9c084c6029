"""Generators of noisy tables: useful at small epsilons, interventions by the graph, files that survive."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score

from miaudit.errors import InputError
from miaudit.synthesis.generators.fitting import fit, fit_many
from miaudit.synthesis.generators.generator import Generator
from miaudit.synthesis.generators.generator_config import Privacy
from miaudit.synthesis.generators.tables_config import TablesConfig
from miaudit.synthesis.generators.tables_generator import TablesGenerator, encoded
from miaudit.synthesis.graph import CausalGraph
from miaudit.synthesis.interventions import interventional_error
from miaudit.synthesis.schema import Column, Schema, Table
from miaudit.synthesis.worlds import synthetic22

WORLD = synthetic22()
MIXED = Schema(
    (
        Column("age", "continuous", low=18, high=95, decimals=0),
        Column("site", "categorical", categories=("n", "s", "h")),
        Column("sick", missing=True),
        Column("level", "ordinal", categories=(1, 2, 3)),
    )
)


def records(n: int, seed: int = 0) -> Table:
    """age and site cause sick, which causes level; a fifth of sick is missing where the site is h."""
    rng = np.random.default_rng(seed)
    age, site = rng.integers(18, 96, n), rng.integers(0, 3, n)
    sick = (rng.random(n) < 0.1 + 0.6 * (age > 60) + 0.2 * (site == 1)).astype(float)
    level = np.minimum(rng.binomial(1, 0.2, n) + 2 * (rng.random(n) < 0.8 * sick), 2)
    sick[(site == 2) & (rng.random(n) < 0.6)] = np.nan
    return Table(MIXED, np.column_stack([age, site, sick, level]))


def full(edges: list[tuple[str, str]]) -> CausalGraph:
    return CausalGraph(MIXED, None, edges)


GRAPH = full([("age", "sick"), ("site", "sick"), ("sick", "level")])


def made(table: Table, graph: CausalGraph | None, epsilon: float | None, **options: object) -> TablesGenerator:
    config = options.pop("config", None)
    privacy = None if epsilon is None else Privacy(records=len(table), epsilon=epsilon, **options)  # type: ignore[arg-type]
    given = {"method": "tables", "config": config, "rng": np.random.default_rng(1), "repeatable": True}
    found = fit(table, graph, privacy, **given)  # type: ignore[arg-type]
    assert isinstance(found, TablesGenerator)
    return found


def mean_auc(train: Table, test: Table) -> float:
    found = []
    for j in range(0, 22, 3):
        others = [i for i in range(22) if i != j]
        model = LogisticRegression(max_iter=500).fit(train.values[:, others], train.values[:, j])
        found.append(roc_auc_score(test.values[:, j], model.decision_function(test.values[:, others])))
    return float(np.mean(found))


@pytest.mark.long
@pytest.mark.parametrize(("epsilon", "most"), [(3.9, 0.02), (1.0, 0.05)])
def test_little_is_lost_along_the_true_graph(epsilon: float, most: float) -> None:
    rng = np.random.default_rng(0)
    test, lost = WORLD.sample(4_000, rng=rng), []
    for _ in range(5):
        train = WORLD.sample(1_000, rng=rng)
        generator = made(train, WORLD.graph, epsilon, delta=1e-5)
        lost.append(mean_auc(train, test) - mean_auc(generator.sample(1_000, rng=rng), test))
    assert np.mean(lost) <= most
    assert mean_auc(train, test) > 0.75  # there is something to lose


@pytest.mark.long
def test_interventions_follow_the_true_graph_and_not_a_wrong_one() -> None:
    rng = np.random.default_rng(0)
    below = {name: WORLD.graph.descendants(name) for name in ("R1", "R3", "M2", "M5")}
    errors = []
    for graph in (WORLD.graph, WORLD.graph.reversed()):
        generator = made(WORLD.sample(1_000, rng=rng), graph, 3.9, delta=1e-5)
        do = [(name, 1.0) for name in below]
        found = interventional_error(generator, WORLD, do, outcomes=below, n=4_000, rng=rng)
        errors.append((found.error.value, found.effect.value))
    assert errors[0][0] < 0.045  # means over few columns; the floor of so many draws is .008
    assert errors[1][0] > 0.6 * errors[1][1]  # the control: as if nothing had been set


def test_numbers_categories_and_missing_values_come_back() -> None:
    table = records(6_000)
    drawn = made(table, GRAPH, 3.0).sample(6_000, rng=np.random.default_rng(0))
    for one in (table, drawn):
        age, site, sick, level = one.values.T
        old = np.nanmean(sick[(age > 65) & (site == 0)])
        assert 0.55 < old < 0.85 and np.nanmean(sick[(age < 50) & (site == 0)]) < 0.25
        assert 0.5 < np.isnan(sick[site == 2]).mean() < 0.7 and not np.isnan(sick[site != 2]).mean() > 0.02
        assert np.mean(level[sick == 1] == 2) > 0.6
        assert np.all(age == np.round(age)) and age.min() >= 18 and age.max() <= 95
    complete = made(table, GRAPH, 3.0, config=TablesConfig(draws_missing=False))
    assert not np.isnan(complete.sample(2_000, rng=np.random.default_rng(0)).values).any()


def test_what_is_set_is_seen_by_effects_alone() -> None:
    generator, rng = made(records(6_000), GRAPH, None), np.random.default_rng(0)
    plain, forced = generator.sample(4_000, rng=rng), generator.sample(4_000, rng=rng, do={"sick": 1, "age": 71})
    assert np.all(forced.column("sick") == 1) and np.all(forced.column("age") == 71)
    assert abs(np.mean(forced.column("site") == 1) - np.mean(plain.column("site") == 1)) < 0.03
    assert np.mean(forced.column("level") == 2) > np.mean(plain.column("level") == 2) + 0.2
    # of one group, the others do not see it: what is set is no cause of them
    group = CausalGraph(MIXED, {"x": ["age", "site"], "y": ["sick", "level"]}, [("x", "y")])
    together = made(records(6_000), group, None)
    seen, set_ = together.sample(4_000, rng=rng), together.sample(4_000, rng=rng, do={"sick": 1})
    assert abs(np.mean(set_.column("level") == 2) - np.mean(seen.column("level") == 2)) < 0.03
    with pytest.raises(InputError, match=r"do.sick: expected one of 0, 1, received 2"):
        generator.sample(3, rng=rng, do={"sick": 2})


def test_likelihoods_are_those_of_all_records_together() -> None:
    generator = made(records(900), GRAPH, 2.0, config=TablesConfig(bins=3))
    sizes = generator.plan.sizes
    every = np.array(list(itertools.product(*map(range, sizes))), dtype=np.int32)
    total = np.zeros(len(every))
    for law in generator.laws:
        total += np.log(law.shares(law.cells(every, sizes))[np.arange(len(every)), every[:, law.column]])
    assert np.exp(total).sum() == pytest.approx(1)
    table = records(50, seed=9)
    place = np.ravel_multi_index(encoded(table, generator.plan).T, sizes)
    np.testing.assert_allclose(generator.log_likelihood(table), total[place])
    with pytest.raises(InputError, match="another schema"):
        generator.log_likelihood(WORLD.sample(3, rng=np.random.default_rng(0)))


@pytest.mark.parametrize("graph", [GRAPH, None], ids=["graph", "no graph"])
def test_a_generator_survives_its_file(tmp_path: Path, graph: CausalGraph | None) -> None:
    config = TablesConfig(edges={"age": [30, 50, 70]}, further=0.5)
    one = made(records(800), graph, 1.5, config=config, neighbours="replace-one")
    one.save(tmp_path / "tables.npz")
    other = Generator.load(tmp_path / "tables.npz")
    drawn = [generator.sample(60, rng=np.random.default_rng(0)).values for generator in (one, other)]
    np.testing.assert_array_equal(*drawn)
    assert (other.claim(), other.guarantee(), other.facts) == (one.claim(), one.guarantee(), one.facts)
    assert other.repeatable and other.guarantee().mechanism.endswith("; one record replaced")  # type: ignore[union-attr]


def test_a_damaged_file_is_refused(tmp_path: Path) -> None:
    made(records(300), GRAPH, 1.5).save(tmp_path / "tables.npz")
    with np.load(tmp_path / "tables.npz") as found:
        arrays = dict(found)
    arrays["logits-0-0"] = arrays["logits-0-0"][:, :-1]
    np.savez(tmp_path / "short.npz", **arrays)
    with pytest.raises(InputError, match=r"a file with a generator|logits of shape"):
        Generator.load(tmp_path / "short.npz")


def test_noise_is_secret_unless_it_is_asked_to_repeat() -> None:
    table, privacy = records(400), Privacy(records=400, epsilon=1.0)

    def drawn(*, repeatable: bool) -> np.ndarray:
        rng = np.random.default_rng(5)
        generator = fit(table, GRAPH, privacy, method="tables", rng=rng, repeatable=repeatable)
        assert generator.repeatable == repeatable
        return np.concatenate([part.ravel() for law in generator.laws for part in law.logits])  # type: ignore[attr-defined]

    np.testing.assert_array_equal(drawn(repeatable=True), drawn(repeatable=True))
    assert not np.array_equal(drawn(repeatable=False), drawn(repeatable=False))


def test_generators_of_choices_of_rows_are_those_of_the_rows() -> None:
    table, config = records(200), TablesConfig(records=200)
    rows = np.random.default_rng(0).random((3, 200)) < 0.5
    many = fit_many(table, GRAPH, rows=rows, rng=np.random.default_rng(0), config=config)
    for own, generator in zip(rows, many, strict=True):
        alone = fit(table.subset(own), GRAPH, rng=np.random.default_rng(7), config=config)
        for one, other in zip(generator.laws, alone.laws, strict=True):  # type: ignore[attr-defined]
            assert one.sets == other.sets
        first = generator.laws[0].logits[0], alone.laws[0].logits[0]  # type: ignore[attr-defined]
        np.testing.assert_allclose(*first)


def test_an_empty_table_is_made_of_noise_and_no_error() -> None:
    """An error would tell that there are no records."""
    empty = Table(MIXED, np.zeros((0, 4)))
    for graph in (GRAPH, None):
        privacy = Privacy(records=300, epsilon=1.0)
        generator = fit(empty, graph, privacy, method="tables", rng=np.random.default_rng(0), repeatable=True)
        assert len(generator.sample(20, rng=np.random.default_rng(0))) == 20


def test_a_group_of_one_column_is_measured_as_that_column() -> None:
    """Groups whose names are other columns' were measured as those columns."""
    schema = Schema((Column("a"), Column("b"), Column("c")))
    rng = np.random.default_rng(0)
    a, b = rng.integers(0, 2, (2, 2_000))
    table = Table(schema, np.stack([a, b, np.where(rng.random(2_000) < 0.9, a, 1 - a)], axis=1))
    swapped = CausalGraph(schema, {"a": ["b"], "b": ["a"], "c": ["c"]}, [("b", "c")], ["a"])
    made = fit(table, swapped, rng=rng, method="tables").sample(2_000, rng=rng).values
    assert np.corrcoef(made[:, 0], made[:, 2])[0, 1] > 0.7 and abs(np.corrcoef(made[:, 1], made[:, 2])[0, 1]) < 0.1
    alone = Table(Schema((Column("a"),)), a[:, None])
    assert fit(alone, None, rng=rng, method="tables").sample(100, rng=rng).values.shape == (100, 1)

"""Rehearsals: on simulated records alone, as long and as noisy as it will be, and the better recipe wins."""

from __future__ import annotations

import numpy as np
import pytest

from miaudit.errors import InputError
from miaudit.synthesis.generators import rehearsal
from miaudit.synthesis.generators.generator_config import GeneratorConfig, Privacy
from miaudit.synthesis.generators.recipe import Recipe
from miaudit.synthesis.generators.tables_config import TablesConfig
from miaudit.synthesis.graph import CausalGraph
from miaudit.synthesis.schema import Column, Schema
from miaudit.synthesis.worlds import synthetic22

SCHEMA = Schema((Column("a"), Column("b", "categorical", ("x", "y", "z")), Column("c", "continuous", low=0, high=9)))
GRAPH = CausalGraph(SCHEMA, None, [("a", "b"), ("a", "c"), ("b", "c")])


def test_a_world_follows_the_graph_and_has_effects() -> None:
    world = rehearsal.simulated_world(GRAPH, np.random.default_rng(0))
    parents = {law.column: sorted(i for own in law.sets for i in own) for law in world.laws}
    assert parents == {0: [], 1: [0], 2: [0, 1]}
    rng = np.random.default_rng(0)
    drawn = world.sample(4_000, rng=rng)
    shuffled = type(drawn)(SCHEMA, np.stack([rng.permutation(column) for column in drawn.values.T], axis=1))
    floor = rehearsal._distance(world.sample(4_000, rng=rng), drawn, world)
    assert floor < 0.04 and rehearsal._distance(shuffled, drawn, world) > 3 * floor


@pytest.mark.parametrize("records", [300, 5_000, 400_000])
def test_a_network_is_rehearsed_as_long_as_noisy_and_as_large_as_it_will_be(
    records: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What decides a training under noise: steps, batch and noise multiplier, not how many records are simulated."""
    privacy = Privacy(records=records, noise=1.3)
    told: list[tuple[Recipe, int]] = []

    def watched(self: Recipe, tables: list, graph: CausalGraph, **_: object) -> list:
        told.append((self, len(tables[0])))
        return [None]

    monkeypatch.setattr(Recipe, "fit_many", watched)
    world = rehearsal.simulated_world(GRAPH, np.random.default_rng(0))
    short = rehearsal._short(Recipe("vae", GeneratorConfig(), privacy), records)
    for recipe in (short[0], *rehearsal._longer(short[1], records), *rehearsal._around(short[2], records)[:1]):
        rng = np.random.default_rng(0)
        rehearsal._trained(recipe, world, GRAPH, records, rng, rng)
        config, (tried, few) = recipe.config, told[-1]
        assert isinstance(config, GeneratorConfig) and isinstance(tried.config, GeneratorConfig)
        assert few <= max(2_000, config.batch) and tried.config.batch == config.batch
        assert tried.privacy is not None and tried.privacy.noise == privacy.resolved_noise(config)
        wanted = config.steps(records)
        assert abs(tried.config.steps(few) - wanted) <= 0.5 * few / config.batch + 1


@pytest.mark.long
def test_tables_that_come_near_enough_are_taken_without_trying_networks() -> None:
    privacy = Privacy(records=4_000, epsilon=5.0)
    options: dict = {"methods": ("tables", "vae"), "records": 4_000, "rng": np.random.default_rng(0)}
    found = rehearsal.rehearsed(GRAPH, privacy, **options)
    assert found.method == "tables" and "networks were not tried" in found.rehearsed


@pytest.mark.long
def test_a_hopeless_release_is_told_of_before_anything_is_spent() -> None:
    """Also where the graph says nothing of what goes together, whose worlds would be without dependence."""
    schema = Schema(tuple(Column(f"x{i}", "ordinal", categories=(1, 2, 3, 4, 5, 6)) for i in range(6)))
    chain = [(f"x{i}", f"x{i + 1}") for i in range(5)]
    for graph in (CausalGraph(schema, None, [], isolated=schema.names), CausalGraph(schema, None, chain)):
        for epsilon, hopeless in ((0.5, True), (5.0, False)):
            recipe = Recipe("tables", TablesConfig(), Privacy(records=500, epsilon=epsilon))
            said = rehearsal._foreseen(recipe, graph, 500, np.random.default_rng(0))
            assert "the best keeps" in said and ("useless" in said) == hopeless, said
    assert rehearsal._foreseen(Recipe("vae", GeneratorConfig(), None), graph, 500, np.random.default_rng(0)) == ""


def test_the_better_recipe_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    tried: list[Recipe] = []

    def error(recipe: Recipe, *_: object) -> float:
        tried.append(recipe)
        if isinstance(recipe.config, TablesConfig):
            return tables
        rate, clip = recipe.config.learning_rate, recipe.privacy.clip  # type: ignore[union-attr]
        return networks + abs(rate - 0.01) + 0.01 * abs(clip - 3.0) + recipe.config.epochs / 1e6

    monkeypatch.setattr(rehearsal, "_error", error)
    told: list[tuple[int, int]] = []
    tables, networks, privacy = 0.3, 0.1, Privacy(records=1_000, epsilon=2.0)
    found = rehearsal.rehearsed(
        GRAPH,
        privacy,
        methods=("tables", "vae"),
        records=1_000,
        rng=np.random.default_rng(0),
        progress=lambda *at: told.append(at),
    )
    assert isinstance(found.config, GeneratorConfig) and found.config.learning_rate == 0.01
    assert found.privacy is not None and found.privacy.clip == 3.0 and found.privacy.epsilon == 2.0
    assert "tables 0.300, vae (rate 0.01, 25 epochs, batch 100, clip 3) 0.1" in found.rehearsed
    assert (
        len(tried) == 9
        and told[-1][0] == told[-1][1]
        and [done for done, _ in told] == sorted(done for done, _ in told)
    )
    tables, networks = 0.09, 0.2  # no longer in reach
    tried.clear()
    again = rehearsal.rehearsed(GRAPH, privacy, methods=("tables", "vae"), records=1_000, rng=np.random.default_rng(3))
    assert again.method == "tables" and len(tried) == 5  # tables, three rates, and the best of those once more


def test_networks_that_would_take_too_long_are_left_out_or_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rehearsal, "_MOST_WORK", 1e3)
    monkeypatch.setattr(rehearsal, "_WORTH", -1.0)
    privacy, rng = Privacy(records=1_000, noise=1.3), np.random.default_rng(0)
    found = rehearsal.rehearsed(GRAPH, privacy, methods=("tables", "vae"), records=1_000, rng=rng)
    assert found.method == "tables" and "networks were left out" in found.rehearsed
    with pytest.raises(InputError, match="a table small enough to rehearse networks"):
        rehearsal.rehearsed(GRAPH, privacy, methods=("vae",), records=1_000, rng=rng)


@pytest.mark.slow
def test_a_rehearsed_network_is_better_than_the_paper_s_rate() -> None:
    """synthetic22 at epsilon 3.9: interventional or not, .001 teaches it nothing in so few steps."""
    world, privacy = synthetic22(), Privacy(records=1_000, epsilon=3.9, delta=1e-5)
    rng = np.random.default_rng(0)
    options: dict = {"methods": ("vae",), "records": 1_000, "rng": rng}
    found = rehearsal.rehearsed(world.graph, privacy, **options)
    table, errors = world.sample(1_000, rng=rng), []
    inside = rehearsal.simulated_world(world.graph, rng)
    for recipe in (found, Recipe("vae", GeneratorConfig(epochs=50), privacy)):
        made = recipe.fit_many([table], world.graph, rng=rng, repeatable=True)[0]
        errors.append(rehearsal._distance(made.sample(4_000, rng=rng), world.sample(4_000, rng=rng), inside))
    assert errors[0] < 0.7 * errors[1]

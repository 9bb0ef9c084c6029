"""The door to both methods: options say which is meant, and what is left open is rehearsed."""

from __future__ import annotations

import numpy as np
import pytest

from miaudit.errors import InputError
from miaudit.synthesis.generators import fitting
from miaudit.synthesis.generators.generator_config import GeneratorConfig, Privacy
from miaudit.synthesis.generators.recipe import Recipe
from miaudit.synthesis.generators.tables_config import TablesConfig
from miaudit.synthesis.graph import CausalGraph
from miaudit.synthesis.schema import Column, Schema, Table

SCHEMA = Schema((Column("a"), Column("b")))
GRAPH = CausalGraph(SCHEMA, None, [("a", "b")])
TABLE = Table(SCHEMA, np.random.default_rng(0).integers(0, 2, (300, 2)))
PRIVACY = Privacy(records=300, noise=2.0)


def fitted(**options: object) -> object:
    return fitting.fit(TABLE, GRAPH, PRIVACY, rng=np.random.default_rng(0), repeatable=True, **options)  # type: ignore[arg-type]


def test_options_and_method_say_what_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    small = GeneratorConfig(epochs=1, hidden=4)
    monkeypatch.setattr(fitting, "rehearsed", lambda *_, methods, **__: Recipe("vae", small, PRIVACY, str(methods)))
    found = [fitted(method="tables"), fitted(config=TablesConfig()), fitted(config=small), fitted(method="vae")]
    assert [one.method for one in found] == ["tables", "tables", "vae", "vae"]  # type: ignore[attr-defined]
    assert fitted().rehearsed == "('tables', 'vae')" and found[3].rehearsed == "('vae',)"  # type: ignore[attr-defined]
    assert [one.rehearsed for one in found[:3]] == ["", "", ""]  # type: ignore[attr-defined]
    assert fitted().facts["rehearsed"] == "('tables', 'vae')"  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"method": "table"}, "did you mean tables"),
        ({"method": "vae", "config": TablesConfig()}, "options of the method vae, received TablesConfig"),
        ({"method": "tables", "config": GeneratorConfig()}, "TablesConfig goes with tables, GeneratorConfig with vae"),
    ],
)
def test_what_does_not_go_together_is_refused(options: dict, message: str) -> None:
    with pytest.raises(InputError, match=message):
        fitted(**options)
    with pytest.raises(InputError, match=r"Privacy\(\.\.\.\) or none, received dict"):
        fitting.fit(TABLE, GRAPH, {"epsilon": 1}, method="tables", rng=np.random.default_rng(0))  # type: ignore[arg-type]


def test_a_network_knows_no_replaced_records() -> None:
    privacy = Privacy(records=300, epsilon=2.0, neighbours="replace-one")
    with pytest.raises(InputError, match="'add-or-remove' for a network, received 'replace-one'; take method tables"):
        fitting.fit(TABLE, GRAPH, privacy, rng=np.random.default_rng(0), config=GeneratorConfig(epochs=1))


def test_what_is_made_is_what_was_accounted_for() -> None:
    recipe = fitting.settled(SCHEMA, GRAPH, PRIVACY, method="tables", records=300, rng=np.random.default_rng(0))
    along, plain = (recipe.plan(SCHEMA, graph, 300) for graph in (GRAPH, None))
    assert recipe.mechanism(along) == fitted(method="tables").mechanism  # type: ignore[attr-defined]
    assert recipe.mechanism(plain) is not None and recipe.mechanism(plain) != recipe.mechanism(along)
    network = Recipe("vae", GeneratorConfig(epochs=2), PRIVACY)
    made = network.fit_many([TABLE], GRAPH, rng=np.random.default_rng(0), repeatable=True)[0]
    assert network.plan(SCHEMA, GRAPH, 300) is None and made.mechanism == network.mechanism(None)
    without = Recipe("tables", TablesConfig(), None)
    assert without.mechanism(without.plan(SCHEMA, GRAPH, 300)) is None

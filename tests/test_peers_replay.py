"""The exact check of public generators: how their choices are replaced, and that the page shows what came out."""

from __future__ import annotations

import importlib.util
import json
import math
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from miaudit.dp.query_draws import History, QueryDraws

ROOT = Path(__file__).parents[1]
TABLES = ROOT / "benchmarks" / "peers" / "tables"


@pytest.fixture(scope="module")
def replayed() -> ModuleType:
    spec = importlib.util.spec_from_file_location("peers_replayed", TABLES / "replayed.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_a_choice_by_probabilities_is_private_and_any_other_is_seeded(replayed: ModuleType) -> None:
    history = History()
    draws = QueryDraws(history, rng=np.random.default_rng(0))
    choice = replayed.chosen(draws, "pair")
    assert choice(3, p=[0.0, 0.0, 1.0]) == 2
    assert choice(["a", "b"], size=1, p=[1.0, 0.0]).tolist() == ["a"]
    assert np.exp(history.queries[0].values).tolist() == pytest.approx([0.0, 0.0, 1.0])
    assert [choice(100) for _ in range(3)] == [replayed.chosen(draws)(100)] + [
        replayed.chosen(draws)(100, size=3)[at] for at in (1, 2)
    ]
    assert len(history.queries) == 2


def test_a_measured_table_keeps_its_shape(replayed: ModuleType) -> None:
    history = History()
    first = replayed.stated(np.ones((2, 3)), ("age", "site"), 2.0, QueryDraws(history, rng=np.random.default_rng(0)))
    again = replayed.stated(np.zeros((2, 3)), ("age", "site"), 2.0, QueryDraws(history))
    assert first.shape == again.shape == (2, 3) and (again == 1).all()
    assert history.queries[0].named(1) == "Answer 1 (age, site)"


def test_neighbours_differ_by_one_record(replayed: ModuleType) -> None:
    for data in (replayed.table(), replayed.nearly_constant()):
        lengths = [len(other) - len(data) for other in replayed.neighbours(data, replaced=False, inside=False)]
        assert lengths == [-1] * 4 + [1] * 2
        for other in replayed.neighbours(data, replaced=True, inside=True):
            assert (other != data).any(axis=1).sum() <= 1 and len(other) == len(data)
    assert (replayed.table().max(axis=0) < np.array(replayed.LEVELS)).all()


def test_each_tool_has_its_result_and_its_environment(replayed: ModuleType) -> None:
    kept: dict[str, Any] = json.loads((TABLES / "replayed.json").read_text(encoding="utf-8"))
    assert list(kept) == list(replayed.ROWS)
    files = {path.stem for path in (TABLES / "replay_requirements").glob("*.txt")}
    assert {row[0] for row in replayed.ROWS.values()} == files


def test_the_page_shows_what_each_tool_spent() -> None:
    kept: dict[str, Any] = json.loads((TABLES / "replayed.json").read_text(encoding="utf-8"))
    page = (TABLES.parent / "README.md").read_text(encoding="utf-8")
    table = page.partition("<!-- peers -->")[2].partition("<!-- end of peers -->")[0]
    passes = sum("passes" in line for line in table.splitlines())
    assert passes == sum(not one["differences"] for one in kept.values()) - 1  # PrivBayes has one row for two
    for tool, one in kept.items():
        if one["spent"] and math.isfinite(one["spent"]):
            assert f"{one['spent']:.4f}" in table, tool

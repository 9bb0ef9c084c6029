"""benchmarks/token_attacks.py at a small size: the loop over documents is a second truth of every attack."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from miaudit.attacks import tokens

SCRIPT = Path(__file__).parents[1] / "benchmarks" / "token_attacks.py"
spec = importlib.util.spec_from_file_location("token_attacks", SCRIPT)
assert spec is not None
assert spec.loader is not None
benchmark = importlib.util.module_from_spec(spec)
spec.loader.exec_module(benchmark)
GIVEN = benchmark.drawn(200, 60)


@pytest.mark.parametrize("name", tokens.ATTACKS)
def test_every_attack_equals_the_loop_over_documents(name: str) -> None:
    assert benchmark.measured(name, GIVEN)["apart"] < 1e-9

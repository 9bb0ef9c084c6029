"""The comparison with Synth-MIA, by a stand-in for it: labels, scores, failures, and what is absent."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

HERE = Path(__file__).resolve().parents[1]
STAND_IN = """
class Exact:
    def attack(self, members, controls, synthetic, reference):
        rows = {tuple(row) for row in synthetic}
        scores = [float(tuple(row) in rows) for part in (members, controls) for row in part]
        return [1] * len(members) + [0] * len(controls), scores

class Refused:
    def attack(self, *given):
        raise ValueError("a singular matrix")

class Undefined:
    def attack(self, members, controls, synthetic, reference):
        return [], [float("nan")] * (len(members) + len(controls))

DCR, DOMIAS, MC = Exact, Refused, Undefined
"""
PREPARATION = """
class TabularPreprocessor:
    def __init__(self, **options): pass
    def fit(self, *tables): assert len(tables) == 3
    def transform(self, *tables): return *(table.astype(float).to_numpy() for table in tables), None
"""


@pytest.fixture
def comparison(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The module benchmarks/peers/table_attacks.py, which is gone afterwards."""
    for folder in ("benchmarks/peers", "experiments/causal_synthesis"):
        monkeypatch.syspath_prepend(str(HERE / folder))
    before = set(sys.modules)
    yield importlib.import_module("table_attacks")
    for name in set(sys.modules) - before:
        if str(getattr(sys.modules[name], "__file__", "")).startswith((str(HERE / "bench"), str(HERE / "exper"))):
            del sys.modules[name]


@pytest.fixture
def peer(tmp_path: Path) -> Path:
    (tmp_path / "synth_mia").mkdir()
    for name, text in (("__init__", ""), ("attackers", STAND_IN), ("utils", PREPARATION)):
        (tmp_path / "synth_mia" / f"{name}.py").write_text(text, encoding="utf-8")
    return tmp_path


def people(n: int) -> Any:
    from miaudit.synthesis.schema import Column, Schema, Table

    rng = np.random.default_rng(0)
    columns = (Column("age", "continuous", low=-10, high=10), Column("job", "categorical", ("a", "b", "c")))
    return Table(Schema(columns), np.c_[rng.normal(size=n).clip(-10, 10), rng.integers(0, 3, n)])


def test_a_table_that_copies_its_members_is_found_by_both(
    comparison: Any, peer: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("pandas")
    pytest.importorskip("torch")
    experiment = importlib.import_module("table_generators")
    monkeypatch.setitem(experiment.MAKERS, "kernel", lambda source, n, rng: source.values[rng.permutation(n)])
    table = people(300)
    found = comparison.one_table(table, "kernel", 50, 0, ["DCR", "DOMIAS", "MC"], peer)
    assert found["DCR"]["auc"] == 1
    assert found[comparison.OURS[1]]["auc"] > 0.9
    assert found["DOMIAS"] == {"failed": "ValueError: a singular matrix"}
    assert found["MC"] == {"failed": "scores that are no numbers"}
    others = comparison.one_table(table, comparison.TABLES[-1], 50, 0, ["DCR"], peer)
    assert others["DCR"]["auc"] == 0.5  # the table copies people who are neither members nor controls
    lines = comparison.of_all({"kernel, 50, 0": found, "kernel, 50, 1": found}, 50)
    assert any(line.startswith("| kernel | DCR | 1.000 (0.000) |") and line.endswith("| 2 of 2 |") for line in lines)
    assert "| kernel | DOMIAS | ValueError: a singular matrix |  |  | 0 of 2 |" in lines


def test_the_reference_is_nobody_of_the_table(comparison: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    experiment = importlib.import_module("table_generators")
    monkeypatch.setitem(experiment.MAKERS, "kernel", lambda source, n, rng: source.values)
    parts, _ = comparison.drawn(people(300), comparison.TABLES[-1], 50, 0)
    ages = [set(parts[name].values[:, 0]) for name in comparison.PARTS]
    assert len(set.union(*ages)) == 200  # four groups of 50, and no two of them share a person
    copied, _ = comparison.drawn(people(300), "kernel", 50, 0)
    assert set(copied["synthetic"].values[:, 0]) == set(copied["members"].values[:, 0])


@pytest.mark.parametrize("given", ["nothing", "a folder without it", "no data"])
def test_what_is_absent_is_named_and_nothing_is_measured(
    comparison: Any, peer: Path, given: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = {
        "nothing": [],
        "a folder without it": ["--synth-mia", str(peer / "none")],
        "no data": ["--synth-mia", str(peer)],
    }
    monkeypatch.setattr(sys, "argv", ["table_attacks.py", *folder[given], "--data", str(peer)])
    assert comparison.main() == 0
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("skipped: ")
    assert ("adult_members_control_ctgan.npz" if given == "no data" else "git clone") in err

"""experiments/causal_synthesis: the attack in its smallest form, and the wrong graphs."""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from causal_synthesis.pain import pain

from miaudit.synthesis import chow_liu
from miaudit.synthesis.worlds import synthetic22

pytestmark = pytest.mark.long

FOLDER = Path(__file__).parents[2] / "experiments" / "causal_synthesis"
MODULES = ("attack", "graphs", "figures", "kept", "run")


@pytest.fixture
def parts(monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, ModuleType]]:
    """The modules of the experiment, by name; other experiments have modules of the same names."""
    pytest.importorskip("torch", reason="the extra `torch`")
    monkeypatch.syspath_prepend(str(FOLDER))
    hidden = {name: sys.modules.pop(name) for name in MODULES if name in sys.modules}
    try:
        yield {name: importlib.import_module(name) for name in MODULES}
    finally:
        for name in MODULES:
            sys.modules.pop(name, None)
        sys.modules.update(hidden)


@pytest.mark.slow
@pytest.mark.long
def test_the_tiny_form_runs_from_end_to_end(tmp_path) -> None:
    pytest.importorskip("torch", reason="the extra `torch`")
    command = [
        sys.executable,
        str(FOLDER / "run.py"),
        "--form",
        "tiny",
        "--only",
        "synthetic22",
        "--out",
        str(tmp_path),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found = json.loads((tmp_path / "synthetic22.json").read_text())
    assert set(found["arms"]) == {
        "plain",
        "plain, DP",
        "causal",
        "causal, DP",
        "tables",
        "tables, DP",
        "reversed graph",
    }
    assert found["arms"]["causal, DP"]["verdict"]["status"] == "not-refuted"
    assert found["arms"]["tables, DP"]["verdict"] == {"upper": pytest.approx(3.9, abs=0.001), "status": "not-refuted"}
    assert found["arms"]["causal, DP"]["verdict"]["upper"] == pytest.approx(3.9, abs=0.05)
    assert "causal, DP (Figure 5)" in done.stdout
    assert sorted(path.suffix for path in tmp_path.glob("figure-*")) == [".png"] * 8 + [".svg"] * 8
    assert (tmp_path / "synthetic22.md").read_text() in done.stdout
    assert found["arms"]["tables"]["learned"][0] > 0.5  # and networks of two epochs nothing
    assert found["arms"]["plain"]["learned"][2] < 0.2
    assert not list(tmp_path.glob("*/*unfinished*"))


@pytest.mark.long
def test_wrong_graphs_are_wrong_in_the_stated_way(parts) -> None:
    graph, rng = synthetic22().graph, np.random.default_rng(0)
    public = synthetic22().sample(2000, rng=rng)
    made = {
        kind: parts["graphs"].wrong(kind, graph, public, rng) for kind in ("reversed", "missing", "random", "learned")
    }
    true = set(graph.edges)
    assert {(b, a) for a, b in made["reversed"].edges} == true
    assert set(made["missing"].edges) < true
    assert len(made["missing"].edges) == 20
    assert len(made["random"].edges) == 40
    assert len(true & set(made["random"].edges)) < 10
    assert len(made["learned"].edges) == 21  # a tree


@pytest.mark.slow
@pytest.mark.long
def test_the_learned_tree_finds_the_strongest_pairs() -> None:
    """In the pain form an injury and its radiculopathies belong together."""
    public = pain().sample(4000, rng=np.random.default_rng(1))
    edges = {frozenset(edge) for edge in chow_liu.tree(public).edges}
    pairs = [
        frozenset((f"injury_{i:02d}", f"radiculopathy_{i:02d}_{side}"))
        for i in range(4, 27)
        for side in ("left", "right")
    ]
    assert len(edges) == 221
    assert np.mean([pair in edges for pair in pairs]) > 0.8


@pytest.mark.long
def test_what_is_expected_is_checked(parts) -> None:
    run = parts["run"]
    expected = json.loads((FOLDER / "expected.json").read_text())
    row = {"placebo auc": [0.4, 0.5, 0.6], "auc": [0.85, 0.9, 0.95]}
    null = {"placebo auc": [0.4, 0.5, 0.6], "auc": [0.4, 0.5, 0.6]}
    bound = {"value": 0.0, "reachable": 2.5}
    good = {
        "epsilon": 1.0,
        "arms": {
            "none": {"rows": [row], "bound": bound},
            "dp": {"rows": [null], "bound": bound, "verdict": "not-refuted"},
            "no clipping": {"rows": [row], "bound": bound, "verdict": "refuted"},
        },
    }
    assert run.differences({"outlier": good}, expected) == []
    bad = json.loads(json.dumps(good))
    bad["arms"]["none"]["rows"] = [null]
    bad["arms"]["dp"] = {"rows": [row], "bound": {"value": 1.5, "reachable": 1.9}, "verdict": "refuted"}
    bad["arms"]["no clipping"]["verdict"] = "not-refuted"
    assert len(run.differences({"outlier": bad}, expected)) == 5
    world = {
        "arms": {
            "plain, DP": {
                "rows": [{"placebo auc": [0.6, 0.7, 0.8]}] * 4,
                "bound": bound,
                "verdict": {"status": "refuted", "upper": 1},
            }
        }
    }
    assert len(run.differences({"synthetic22": world}, expected)) == 3


@pytest.mark.long
def test_what_was_learned_is_the_slope_of_true_correlations(parts) -> None:
    """Real records have all of it, shuffled ones none; missing entries leave the correlations of what is there."""
    attack, rng = parts["attack"], np.random.default_rng(5)
    real = synthetic22().sample(20_000, rng=rng).values
    assert np.allclose(attack.correlations(real), np.corrcoef(real.T)[np.triu_indices(22, 1)])
    holes = np.where(rng.random(real.shape) < 0.3, np.nan, real)
    assert np.abs(attack.correlations(holes) - attack.correlations(real)).max() < 0.06
    true = attack.correlations(real)
    for values, slope in (
        (synthetic22().sample(2000, rng=rng).values, 1.0),
        (np.stack([rng.permutation(column) for column in real.T], axis=1), 0.0),
    ):
        assert attack.correlations(values) @ true / (true @ true) == pytest.approx(slope, abs=0.06)


def of_placebos(away: int, rows: int) -> dict[str, list[dict[str, list[float]]]]:
    """An arm of so many attacks, some with a placebo that excludes chance."""
    limits = [[0.51, 0.55, 0.6]] * away + [[0.45, 0.5, 0.55]] * (rows - away)
    return {"rows": [{"placebo auc": one} for one in limits]}


def test_placebos_are_away_by_chance_as_often_as_is_said(parts) -> None:
    """Drawn binomially in 40 arms of six data sets, 1% or so of all runs differ; of one interval in six, most do."""
    run, expected = parts["run"], json.loads((FOLDER / "expected.json").read_text())["placebos"]

    def differs(misses: float, rng: np.random.Generator) -> bool:
        sizes = [(11, 25), (5, 25), (7, 15), (7, 25), (6, 25), (4, 15)]
        assert sum(arms for arms, _ in sizes) == expected["arms"]
        assert len(sizes) == expected["data_sets"]
        return any(
            run.placebo_differences(
                "x", {str(i): of_placebos(int(rng.binomial(rows, misses)), rows) for i in range(arms)}, expected
            )
            for arms, rows in sizes
        )

    rng = np.random.default_rng(0)
    assert np.mean([differs(0.05, rng) for _ in range(1000)]) < 0.03
    assert np.mean([differs(0.16, rng) for _ in range(100)]) > 0.9
    assert run.placebo_differences("x", {"tables, DP": of_placebos(5, 25)}, expected) == []
    assert len(run.placebo_differences("x", {"tables, DP": of_placebos(8, 25)}, expected)) == 2

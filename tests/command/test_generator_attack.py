"""Algorithm 1 on the command line: an honest claim stands, a broken one falls, and a stopped run goes on."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from miaudit.command.generator_attack import answer_of
from miaudit.dp.verdict import Claim, LowerBound, judge
from miaudit.synthesis.generators.recipe import Recipe

Run = Callable[..., tuple[int, str, str]]
RECORDS = 60
EPSILON = 0.5
FAST: dict[str, Any] = {"extractors": ["nearness"], "classifiers": ["logistic"]}


def configured(folder: Path, **changes: Any) -> Path:
    """Write a table whose record 7 is like no other, and a configuration that attacks it."""
    rng = np.random.default_rng(0)
    rows = ["a,b,c", *(f"0,{int(rng.integers(2))},{'xy'[rng.integers(2)]}" for _ in range(RECORDS))]
    rows[8] = "1,1,z"
    (folder / "t.csv").write_text("\n".join(rows) + "\n")
    columns = [
        {"names": ["a", "b"], "kind": "binary"},
        {"name": "c", "kind": "categorical", "categories": ["x", "y", "z"]},
    ]
    config = {
        "data": {"file": "t.csv"},
        "graph": {"columns": columns, "edges": [["a", "b"]], "isolated": ["c"]},
        "privacy": {"epsilon": EPSILON, "delta": 1e-3, "records": RECORDS},
        "ledger": {"file": "ledger.json", "table": "t", "label": "first", "epsilon": EPSILON, "delta": 1e-3},
        "method": "tables",
        "attack": {"targets": [7], "repeats": 16, "sets": 2, "set_size": 60, **FAST},
        "output_dir": "out",
    }
    (folder / "s.yaml").write_text(yaml.safe_dump(config | changes))
    return folder / "s.yaml"


class Copies:
    """A generator that releases its own records, whatever it was asked to promise."""

    def __init__(self, values: np.ndarray[Any, Any]) -> None:
        self.values = values

    def sample(self, n: int, *, rng: np.random.Generator) -> np.ndarray[Any, Any]:
        return self.values[np.arange(n) % len(self.values)]


def copied(_: Recipe, table: Any, *, rows: Any, **__: Any) -> list[Copies]:
    return [Copies(table.values[own]) for own in np.atleast_2d(rows)]


def test_an_honest_claim_is_not_refuted_and_nothing_is_charged(tmp_path: Path, run: Run) -> None:
    config = configured(tmp_path)
    code, out, _ = run("synthesise", config, "--attack")
    assert code == 0 and out.startswith("Not refuted: (epsilon = 0.5, delta = 0.001)-DP.")
    assert "32 generators, with and without 1 record (row 7)" in out and "Keep both private" in out
    assert not (tmp_path / "ledger.json").exists() and not (tmp_path / "out").exists()
    written = json.loads((tmp_path / "out-attack" / "attack.json").read_text())
    assert written["exit_code"] == 0 and written["generators"] == 32 and written["targets"] == ["row 7"]
    assert written["claim"]["epsilon"] <= EPSILON + 1e-6 and written["bound"]["reachable"] > EPSILON
    assert {row["arm"] for row in written["attacks"]} == {"attack", "placebo"}


def test_a_generator_that_copies_its_records_is_refuted(
    tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The control: the same claim, made by a generator that adds no noise."""
    config = configured(tmp_path)
    monkeypatch.setattr(Recipe, "fit_many", copied)
    code, out, _ = run("synthesise", config, "--attack", "--out", tmp_path / "a")
    assert code == 3 and out.startswith("Refuted: (epsilon = 0.5, delta = 0.001)-DP.")
    found = json.loads((tmp_path / "a" / "attack.json").read_text())
    assert found["bound"]["epsilon_at_least"] > EPSILON
    assert json.loads(run("synthesise", config, "--attack", "--out", tmp_path / "b", "--json")[1])["exit_code"] == 3


def test_a_stopped_run_makes_only_what_is_missing(tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    config = configured(tmp_path)
    made: list[int] = []
    whole = Recipe.fit_many

    def counted(self: Recipe, table: Any, *args: Any, **options: Any) -> Any:
        made.append(1)
        if len(made) == 20:
            raise KeyboardInterrupt
        return whole(self, table, *args, **options)

    monkeypatch.setattr(Recipe, "fit_many", counted)
    assert run("synthesise", config, "--attack")[0] not in (0, 3, 4)
    assert not (tmp_path / "out-attack" / "attack.json").exists()
    code, _, _ = run("synthesise", config, "--attack")
    assert code == 0 and len(made) == 20 + 32 - 19
    assert run("synthesise", config, "--attack", "--overwrite")[0] == 0
    assert len(made) == 20 + 32 - 19  # all kept


def test_without_privacy_or_with_too_few_generators_there_is_no_answer(tmp_path: Path, run: Run) -> None:
    few = {"targets": [7], "repeats": 8, "sets": 1, "set_size": 20, **FAST}
    code, out, _ = run("synthesise", configured(tmp_path, privacy="none", ledger=None, attack=few), "--attack")
    assert code == 4 and out.startswith("Not answered (undeclared): privacy is none")
    privacy = {"epsilon": 5, "delta": 1e-3, "records": RECORDS}
    config = configured(tmp_path, privacy=privacy, ledger=None, attack=few)
    code, out, _ = run("synthesise", config, "--attack", "--overwrite")
    assert code == 4 and out.startswith("Not answered (inconclusive): 16 generators can show epsilon = ")
    assert "raise attack.repeats" in out


def test_a_dry_run_says_how_many_generators_and_writes_nothing(tmp_path: Path, run: Run) -> None:
    code, out, _ = run("synthesise", configured(tmp_path), "--attack", "--dry-run")
    assert code == 0 and out.startswith("32 generators would be made, 16 with and 16 without each of 1 record")
    assert not (tmp_path / "out-attack").exists()


@pytest.mark.parametrize(
    ("changes", "words", "exit_code"),
    [
        ({"attack": {"repeats": 3}}, "at least 8 models with and 8 without each target", 1),
        ({"attack": {"targets": [999]}}, "999", 1),
        ({"attack": {"targets": [7], "outliers": True}}, "leave one out", 1),
        ({"privacy": {"epsilon": 1, "records": 60, "neighbours": "replace-one"}}, "add-or-remove with --attack", 1),
    ],
    ids=["few", "row", "both", "replaced"],
)
def test_what_cannot_be_attacked_is_one_line(
    tmp_path: Path, run: Run, changes: dict[str, Any], words: str, exit_code: int
) -> None:
    code, out, err = run("synthesise", configured(tmp_path, ledger=None, **changes), "--attack")
    assert (code, out) == (exit_code, "") and words in err and len(err.strip().splitlines()) == 1


def test_a_draft_and_earlier_results_are_refused(tmp_path: Path, run: Run) -> None:
    config = configured(tmp_path)
    assert run("synthesise", tmp_path / "t.csv", "--attack")[0] == 2
    (tmp_path / "out-attack").mkdir()
    (tmp_path / "out-attack" / "attack.json").write_text("{}")
    code, _, err = run("synthesise", config, "--attack")
    assert code == 1 and "add --overwrite" in err


def test_the_answer_follows_from_the_verdict_on_the_claim() -> None:
    shown = LowerBound("epsilon", 1.4, 0.95, "runs", delta=1e-3, reachable=3.2)
    codes = {
        value: answer_of(judge(Claim.epsilon_delta(value, 1e-3), shown), 32).exit_code for value in (1.0, 2.0, 5.0)
    }
    assert codes == {1.0: 3, 2.0: 0, 5.0: 4}
    assert answer_of(None, 32).exit_code == 4
    assert answer_of(judge(Claim.epsilon_delta(1.0, 1e-3), None, reasons=["too few"]), 4).exit_code == 4

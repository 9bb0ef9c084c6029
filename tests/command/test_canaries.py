"""``miaudit canaries``: files that are read back as the canaries they are, and one line for each bad input."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import yaml
from typer.testing import CliRunner

from miaudit import cli
from miaudit.collect.records import Records
from miaudit.errors import InputError
from miaudit.evidence import Evidence

SCRIPT = """
import sys
import numpy as np
data, rows = np.load("with.npz"), np.load(sys.argv[1])
x, up = data["x"], data["label"] == "up"
nearest = rows[((x[:, None] - x[rows]) ** 2).sum(axis=2).argmin(axis=1)]
np.save(sys.argv[2] + "/outputs.npy", np.eye(2)[up[nearest].astype(int)])
"""


def run(*arguments: Any) -> Any:
    return CliRunner().invoke(cli.app, [str(one) for one in ("canaries", *arguments)])


@pytest.fixture
def data(tmp_path: Path) -> Path:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(120, 4))
    y = np.where(x[:, 0] > 0, "up", "down")
    np.savez(tmp_path / "data.npz", x=x, label=y, code=(x[:, 0] > 0).astype(int), name=np.arange(120) + 7, rest=x[:, 1])
    return tmp_path / "data.npz"


@pytest.mark.parametrize("ending", [".npz", ".parquet", ".csv"])
def test_what_is_written_is_read_back(data: Path, ending: str, tmp_path: Path) -> None:
    frame = pd.DataFrame({"age": np.arange(80) % 65, "town": ["north", "south"] * 40, "seen": "2024-05-06"})
    frame.assign(who=np.arange(80), sick=np.arange(80) % 3).to_csv(tmp_path / "table.csv", index=False)
    out = tmp_path / f"out{ending}"
    done = run(tmp_path / "table.csv", "--x", "age", "--x", "town", "--x", "seen", "--y", "sick", "--ids", "who",
               "--kind", "mislabelled", "--count", 30, "--out", out)  # fmt: skip
    assert done.exit_code == 0, done.output
    again = Records.load(out, x=["age", "town", "seen"], y="sick", ids="who", canary="canary")
    first = Records.load(tmp_path / "table.csv", x=["age", "town", "seen"], y="sick", ids="who")
    canary = np.asarray(again.canary)
    assert (again.n, canary.sum()) == (80, 30)
    order = np.argsort(np.concatenate([np.asarray(again.ids)[:50].astype(int), np.full(30, 999)]))[:50]
    kept = np.asarray(again.ids)[order].astype(int)
    assert (
        again.x.iloc[order]
        .reset_index(drop=True)
        .astype(str)
        .equals(first.x.iloc[kept].reset_index(drop=True).astype(str))
    )
    np.testing.assert_array_equal(np.asarray(again.y)[order], np.asarray(first.y)[kept])
    assert f"data: {{path: out{ending}, x: [age, town, seen], y: sick, ids: who, canary: canary}}" in done.output


@pytest.mark.long
def test_a_script_learns_the_canaries_of_the_file_and_leaks_them(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(data.parent)
    Path("train.py").write_text(SCRIPT, encoding="utf-8")
    target = {"kind": "command", "command": f"{sys.executable} train.py {{rows}} {{out}}", "outputs": "probabilities"}
    content: dict[str, Any] = {"target": target, "data": {"path": "data.npz", "x": "x", "y": "label"}}
    Path("audit.yaml").write_text(yaml.safe_dump(content), encoding="utf-8")
    done = run("audit.yaml", "--kind", "mislabelled", "--count", 40, "--out", "with.npz")
    assert done.exit_code == 0, done.output
    assert "80 records, and 40 canaries" in done.output
    assert "Left out, since nobody knows what a canary has there: code, name, rest" in done.output
    content["data"] = {"path": "with.npz", "y": "label", "canary": "canary"}
    Path("audit.yaml").write_text(yaml.safe_dump(content), encoding="utf-8")
    done = CliRunner().invoke(cli.app, ["collect", "audit.yaml", "--out", "e.npz"])
    assert done.exit_code == 0, done.output
    evidence = Evidence.load("e.npz")
    assert (evidence.n, evidence.design) == (40, "one-run")
    score = evidence.scores["loss"]
    assert score[evidence.member].min() > score[~evidence.member].max() - 1e-9  # it learned them by heart


def test_a_configurations_own_canaries_are_those_that_are_written(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from miaudit.config import audit as configuration

    monkeypatch.chdir(data.parent)
    content = {
        "target": {"kind": "sklearn", "estimator": "sklearn.tree:DecisionTreeClassifier"},
        "data": {"path": "data.npz", "x": "x", "y": "label"},
        "canaries": {"kind": "hard", "count": 10},
    }
    Path("audit.yaml").write_text(yaml.safe_dump(content), encoding="utf-8")
    assert run("audit.yaml", "--alone", "--out", "alone.npz").exit_code == 0
    made = configuration.read("audit.yaml").campaign(Path()).records  # type: ignore[union-attr]
    np.testing.assert_array_equal(np.load("alone.npz")["x"], made.x[-10:])
    content["canaries"] = {"file": "alone.npz"}
    Path("audit.yaml").write_text(yaml.safe_dump(content), encoding="utf-8")
    again = configuration.read("audit.yaml").campaign(Path()).records  # type: ignore[union-attr]
    np.testing.assert_array_equal(again.x, made.x)
    np.testing.assert_array_equal(again.y, made.y)
    assert isinstance(run("audit.yaml", "--out", "n.npz").exception, InputError)


@pytest.mark.parametrize(
    ("more", "code", "said"),
    [
        (("--kind", "noise", "--count", 5), 1, "for rows that are images add shape: [8, 8]"),
        (("--kind", "noise", "--shape", "a,b", "--count", 5), 1, "--shape: expected whole numbers with commas"),
        (("--kind", "nois", "--count", 5), 1, "did you mean noise?"),
        (("--kind", "mislabelled", "--count", 1), 1, "canaries.count: expected 2 or more, received 1"),
        (("--kind", "mislabelled", "--count", 120), 1, "expected at most 119, of 120 records"),
        (("--kind", "mislabelled"), 1, "canaries.count: expected how many canaries"),
        (("--kind", "mislabelled", "--count", "x"), 2, "--count"),
        (("--count", 5), 2, "--kind is needed"),
        (("--kind", "mislabelled", "--count", 5, "--out", "o.csv"), 1, "which cannot hold x of shape (120, 4)"),
        (("--kind", "mislabelled", "--count", 5, "--out", "o.txt"), 1, "--out: expected a name ending in .npz"),
        (("--kind", "mislabelled", "--count", 5, "--out", "data.npz"), 1, "expected a new file"),
        (("--kind", "mislabelled", "--count", 5, "--out", "data.npz", "--overwrite"), 1, "another file than the data"),
    ],
)
def test_bad_input_is_one_line(
    data: Path, more: tuple[Any, ...], code: int, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(data.parent)
    done = run("data.npz", "--x", "x", "--y", "label", *more)
    if code == 2:
        assert done.exit_code == 2
        assert said in done.output
    else:
        assert isinstance(done.exception, InputError)
        assert said in str(done.exception)
    assert sorted(path.name for path in data.parent.iterdir()) == ["data.npz"]


def test_columns_belong_to_data_and_a_configuration_to_a_target(data: Path, tmp_path: Path) -> None:
    assert "--x is needed" in run(data, "--kind", "mislabelled", "--count", 5).output
    (tmp_path / "other.yaml").write_text("evaluation: {table_path: data.npz}", encoding="utf-8")
    assert "goes with a file of data" in run(tmp_path / "other.yaml", "--x", "x").output
    assert "expected sections target and data" in str(
        run(tmp_path / "other.yaml", "--out", tmp_path / "o.npz").exception
    )

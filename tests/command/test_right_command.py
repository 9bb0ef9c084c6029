"""A file that another command reads: one line that names it, and nothing opened that is code."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from miaudit.command import right_command
from miaudit.errors import InputError

Run = Callable[..., tuple[int, str, str]]
FROZEN = Path(__file__).parents[1] / "frozen" / "files"
ROOT = Path(__file__).parents[2]


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    np.savez("t.npz", score=rng.normal(size=60), member=np.arange(60) % 2)
    shutil.copy(FROZEN / "bundles" / "one-run.zip", "b.zip")
    shutil.copy(ROOT / "examples" / "sklearn" / "audit.yaml", "a.yaml")
    shutil.copy(ROOT / "examples" / "disclosure" / "sklearn.yaml", "d.yaml")
    shutil.copy(ROOT / "examples" / "synthesis" / "synthesise.yaml", "s.yaml")
    shutil.copy(ROOT / "examples" / "synthesis" / "graph.yaml", "g.yaml")
    Path("results").mkdir()
    Path("results/findings.json").write_text('{\n "format": 1,\n "exit_code": 3\n}')
    Path("other.json").write_text("[1, 2]")
    for name in ("m.pkl", "m.pt", "m.onnx", "m.safetensors", "m.joblib", "t.xlsx", "report.html"):
        Path(name).write_bytes(b"cos\nsystem\n(S'touch broken'\ntR.")
    Path("model").mkdir()
    Path("model/config.json").write_text("{}")
    return tmp_path


@pytest.mark.parametrize("command", ["audit", "init"])
@pytest.mark.parametrize(
    ("file", "named"),
    [
        ("a.yaml", "miaudit run a.yaml"),
        ("d.yaml", "miaudit disclosure d.yaml"),
        ("s.yaml", "miaudit synthesise s.yaml"),
        ("g.yaml", "docs/synthesis.md"),
        ("b.zip", "miaudit verify b.zip"),
        ("results", "miaudit report results"),
        ("results/findings.json", "miaudit report results/findings.json"),
        ("other.json", ".jsonl"),
        ("model", "docs/text.md"),
        ("m.onnx", "docs/your_model.md"),
        ("m.safetensors", "docs/your_model.md"),
        ("m.pt", "never unpickled"),
        ("m.pkl", "never opened"),
        ("m.joblib", "never opened"),
        ("t.xlsx", ".csv"),
        ("report.html", "miaudit report ."),
    ],
)
def test_the_line_names_the_command(command: str, file: str, named: str, place: Path, run: Run) -> None:
    before = sorted(place.rglob("*"))
    code, out, err = run(command, file)
    assert (code, out) == (1, "") and err.count("\n") == 1 and named in err
    assert sorted(place.rglob("*")) == before


@pytest.mark.parametrize("command", [("run",), ("run", "--dry-run")])
def test_data_given_to_run_names_audit_and_init(command: tuple[str, ...], place: Path, run: Run) -> None:
    code, _, err = run(command[0], "t.npz", *command[1:])
    assert code == 1 and err.count("\n") == 1
    assert "miaudit audit t.npz" in err and "miaudit init t.npz" in err


def test_a_name_with_blanks_is_typed_as_a_shell_takes_it(place: Path, run: Run) -> None:
    shutil.copy("a.yaml", "my audit.yaml")
    assert "miaudit run 'my audit.yaml'" in run("audit", "my audit.yaml")[2]


def test_what_a_command_reads_passes(place: Path) -> None:
    right_command.check(Path("t.npz"), "audit")
    right_command.check(Path("a.yaml"), "run")
    right_command.check(Path("gone.csv"), "audit")  # which says so itself
    with pytest.raises(InputError, match="findings"):
        right_command.check(Path("results/findings.json"), "run")

"""``--dry-run`` of each kind of target: it counts the trainings and writes nothing."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from frozen import inputs

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    inputs.write(tmp_path)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.long
@pytest.mark.parametrize(
    ("command", "fits"),
    [
        ("run tree.yaml", 17),  # the audited model and 16 shadow models
        ("collect tree.yaml", 17),
        ("run regression.yaml", 5),
        ("run network.yaml", 5),
        ("run own-network.yaml", 5),
        ("run many-runs.yaml", 40),  # one for each record
        ("run as-it-is.yaml", 0),
        ("run weights.yaml", 0),
        ("run logprobs.yaml", 0),
        ("run language.yaml", 1),
        ("disclosure disclosure.yaml", 18),
        ("disclosure disclosure-network.yaml", 30),
    ],
)
def test_a_dry_run_counts_the_trainings_and_writes_nothing(command: str, fits: int, place: Path, run: Run) -> None:
    before = sorted(place.rglob("*"))
    code, out, err = run(*command.split(), "--dry-run")
    assert code == 0, err
    assert f"{fits} fits, " in out
    code_of_the_model = {"run own-network.yaml": "net:build", "run weights.yaml": "net:linear"}.get(command)
    assert (code_of_the_model is not None) == (f"runs code that came with the model: {code_of_the_model}" in err)
    assert sorted(path for path in place.rglob("*") if "__pycache__" not in path.parts) == before

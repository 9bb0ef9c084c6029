"""Folders of results: numbered where nobody asked for one, and never two commands in one."""

from __future__ import annotations

import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from miaudit.command import folders

Run = Callable[..., tuple[int, str, str]]
AUDIT = ("audit", "t.npz", "--design", "one-run", "--no-bounds")


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    member = np.arange(400) % 2 == 0
    np.savez("t.npz", score=np.random.default_rng(0).normal(size=400) + 2 * member, member=member)
    return tmp_path


def test_of_many_at_once_each_has_a_folder_of_its_own() -> None:
    with folders.released():
        with ThreadPoolExecutor(16) as pool:
            found = list(pool.map(lambda _: folders.results(None, Path("r/audit"), overwrite=False), range(40)))
        assert {path.name for path in found} == {"audit", *(f"audit-{n}" for n in range(2, 41))}
        Path("r/audit-7/findings.json").touch()
    assert [path.name for path in Path("r").iterdir()] == ["audit-7"]  # what was not used is gone


def test_a_folder_that_was_asked_for_is_taken_as_it_is() -> None:
    Path("results").mkdir()
    assert folders.results(Path("results"), Path("other"), overwrite=False) == Path("results")
    assert folders.results(None, Path("results"), overwrite=True) == Path("results")
    assert not Path("other").exists()


@pytest.mark.thorough
@pytest.mark.long
def test_a_second_audit_has_the_next_number(place: Path, run: Run) -> None:
    for name in ("audit", "audit-2"):
        code, out, err = run(*AUDIT)
        assert code == 3, err
        assert out.splitlines()[-1].endswith(f"results/{name}/report.html")
    before = (place / "results/audit-2/findings.json").stat().st_mtime_ns
    assert run(*AUDIT, "--overwrite")[0] == 3
    assert sorted(path.name for path in (place / "results").iterdir()) == ["audit", "audit-2", "index.html"]
    assert (place / "results/audit-2/findings.json").stat().st_mtime_ns == before
    code, _, err = run(*AUDIT, "--out", "results/audit")
    assert code == 1 and "holds an earlier audit" in err
    first, second = (json.loads((place / f"results/{n}/findings.json").read_text()) for n in ("audit", "audit-2"))
    assert first.pop("repeat")["command"] != second.pop("repeat")["command"]
    assert first == second


def test_a_command_that_fails_leaves_no_folder(place: Path, run: Run) -> None:
    assert run("audit", "t.npz", "--score", "nothing")[0] == 1
    assert not (place / "results").exists()


@pytest.mark.parametrize("words", [("--out", "t.npz"), ("--out", "t.npz/below")])
def test_a_file_where_a_folder_is_asked_for(words: tuple[str, ...], run: Run) -> None:
    code, _, err = run(*AUDIT, *words)
    assert code == 1 and len(err.splitlines()) == 1
    assert "is a file, not a folder" in err


def test_a_file_where_the_default_would_be(place: Path, run: Run) -> None:
    (place / "results").touch()
    code, _, err = run(*AUDIT)
    assert code == 1 and len(err.splitlines()) == 1
    assert "results is a file, not a folder" in err

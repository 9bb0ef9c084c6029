"""What a commit says: its shard and seed, and the refusal of a shallow clone."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from validity import __main__
from validity.history import NoHistory, Position
from validity.shards import SHARDS

ME = ("-c", "user.name=a", "-c", "user.email=a@b.c", "-c", "commit.gpgsign=false")


def git(root: Path, *arguments: str) -> str:
    done = subprocess.run(["git", "-C", str(root), *ME, *arguments], capture_output=True, text=True, check=True)
    return done.stdout.strip()


def commit(root: Path, **files: str) -> str:
    for name, text in files.items():
        path = root / f"{name}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    git(root, "add", "-A")
    git(root, "commit", "--quiet", "--allow-empty", "-m", "c")
    return git(root, "rev-parse", "HEAD")


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A statistic, a claim of it and a page, in one commit."""
    root = tmp_path / "repository"
    root.mkdir()
    git(root, "init", "--quiet", "--initial-branch", "main")
    commit(root, statistic="1", claim="1", page="1")
    return root


def test_shard_and_seed_are_those_of_the_commit(repository: Path) -> None:
    for _ in range(SHARDS):
        head = commit(repository)
    here = Position.of(repository)
    assert (here.commit, here.count) == (head, SHARDS + 1)
    assert str(here.shard) == "1/12"
    assert here.seed == head[:16]


def test_a_shallow_clone_is_refused_in_one_line(
    repository: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    commit(repository)
    git(tmp_path, "clone", "--quiet", "--depth", "1", f"file://{repository}", "shallow")
    with pytest.raises(NoHistory, match="shallow"):
        Position.of(tmp_path / "shallow")
    assert __main__.main([], tmp_path / "shallow") == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert "this clone is shallow, so the number of commits is unknown: run git fetch --unshallow" in said
    git(tmp_path / "shallow", "fetch", "--quiet", "--unshallow")
    assert Position.of(tmp_path / "shallow").count == 2


def test_what_is_no_repository_is_refused(tmp_path: Path) -> None:
    with pytest.raises(NoHistory, match="git rev-parse"):
        Position.of(tmp_path)


def test_a_named_shard_and_seed_need_no_history(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(__main__, "claim_files", lambda root: [])
    assert __main__.main(["--shard", "3/12", "--seed", "ab"], tmp_path) == 0
    assert __main__.main(["--shard", "3/12"], tmp_path) == 2

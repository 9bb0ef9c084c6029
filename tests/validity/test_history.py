"""What a commit says: its shard and seed, the refusal of a shallow clone, and what an earlier commit has tested."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from validity import __main__, history
from validity.history import NoHistory, Position, already_run
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


SOURCES = {"claim.py": ("claim.py", "statistic.py")}


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


@pytest.mark.long
def test_the_same_shard_of_the_same_source_is_not_run_again(repository: Path) -> None:
    first = git(repository, "rev-parse", "HEAD")
    for k in range(SHARDS):
        assert already_run(repository, Position.of(repository), SOURCES) == {}
        commit(repository, page=f"more {k}")
    assert already_run(repository, Position.of(repository), SOURCES) == {"claim.py": first}


@pytest.mark.long
@pytest.mark.parametrize("changed", ["statistic", "claim"])
def test_a_change_of_what_a_claim_depends_on_runs_every_shard_again(repository: Path, changed: str) -> None:
    for k in range(SHARDS - 1):
        commit(repository, page=f"{k}")
    commit(repository, **{changed: "2"})
    for k in range(SHARDS - 1):
        assert already_run(repository, Position.of(repository), SOURCES) == {}
        commit(repository, page=f"again {k}")
    assert already_run(repository, Position.of(repository), SOURCES) == {}
    commit(repository)
    assert list(already_run(repository, Position.of(repository), SOURCES)) == ["claim.py"]


@pytest.mark.long
@pytest.mark.parametrize("changed", ["statistic", "folder/new"])
def test_what_is_not_committed_is_run(repository: Path, changed: str) -> None:
    for _ in range(SHARDS):
        commit(repository)
    sources = {"claim.py": (*SOURCES["claim.py"], "folder")}
    assert already_run(repository, Position.of(repository), sources)
    path = repository / f"{changed}.py"
    path.parent.mkdir(exist_ok=True)
    path.write_text("3")
    assert already_run(repository, Position.of(repository), sources) == {}


@pytest.mark.long
def test_commits_of_a_merged_branch_ran_no_shard(repository: Path) -> None:
    """The count passes the same remainder on the branch, where CI did not run."""
    git(repository, "checkout", "--quiet", "-b", "branch")
    for k in range(SHARDS - 2):
        commit(repository, page=f"branch {k}")
    git(repository, "checkout", "--quiet", "main")
    git(repository, "merge", "--quiet", "--no-ff", "-m", "m", "branch")
    here = Position.of(repository)
    assert here.count == SHARDS
    commit(repository)  # number 13, the shard of number 1
    assert list(already_run(repository, Position.of(repository), SOURCES)) == ["claim.py"]
    commit(repository)  # number 14, the shard of number 2, which is on the branch
    assert already_run(repository, Position.of(repository), SOURCES) == {}


def test_a_path_is_a_file_or_a_folder() -> None:
    assert history.touches(["a/b.py"], ["a"])
    assert history.touches(["a/b.py"], ["a/b.py"])
    assert not history.touches(["ab/c.py"], ["a"])
    assert not history.touches([], ["a"])

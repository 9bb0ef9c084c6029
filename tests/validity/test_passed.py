"""What has passed is skipped on the same source only, in the same shard, and only where a run was seen to pass."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from validity import __main__, passed
from validity.history import Position
from validity.shards import Shard

SOURCES = ("claim.py", "statistics")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "statistics").mkdir()
    (tmp_path / passed.RECORD).parent.mkdir(parents=True)
    for name in ("claim.py", "statistics/mean.py", "page.py"):
        (tmp_path / name).write_text("1")
    return tmp_path


def test_a_shard_has_passed_on_one_source(root: Path) -> None:
    source = passed.digest(SOURCES, root)
    assert not passed.has_passed(root, "claim.py", source, Shard(3))
    passed.add(root, {"claim.py": source}, Shard(3))
    passed.add(root, {"claim.py": source}, Shard(5))
    assert [passed.has_passed(root, "claim.py", source, Shard(k)) for k in (3, 4, 5)] == [True, False, True]
    assert not passed.has_passed(root, "other.py", source, Shard(3))
    assert not passed.has_passed(root, "claim.py", source, Shard(3, 4))  # of four


@pytest.mark.parametrize("changed", ["claim.py", "statistics/mean.py", "statistics/new.py"])
def test_another_source_gives_up_what_had_passed(root: Path, changed: str) -> None:
    before = passed.digest(SOURCES, root)
    passed.add(root, {"claim.py": before}, Shard(3))
    (root / changed).write_text("2")
    after = passed.digest(SOURCES, root)
    assert not passed.has_passed(root, "claim.py", after, Shard(3))
    passed.add(root, {"claim.py": after}, Shard(4))
    assert not passed.has_passed(root, "claim.py", before, Shard(3))


def test_words_may_be_edited_and_code_may_not(root: Path) -> None:
    place, digests = root / "claim.py", []
    for text in (
        'def f(x):\n    """One."""\n    return x\n',
        'def f(x):\n    """Another.\n\n    Longer."""\n\n    return x  # why\n',
        'def f(x):\n    """One."""\n    return -x\n',
        "def f(x):\n    return x\n",
        'def f(x):\n    "One."\n    "Two."\n    return x\n',
    ):
        place.write_text(text)
        digests.append(passed.digest(SOURCES, root))
    assert digests[0] == digests[1] == digests[3]
    assert len(set(digests)) == 3


def test_what_no_claim_depends_on_changes_nothing(root: Path) -> None:
    before = passed.digest((*SOURCES, "tests/validity"), root)
    (root / "page.py").write_text("2")
    passed.add(root, {"claim.py": before}, Shard(3))  # the record is no source
    assert passed.digest((*SOURCES, "tests/validity"), root) == before


@pytest.mark.parametrize("code", [0, 1])
def test_only_a_run_that_passes_is_recorded(root: Path, code: int, monkeypatch: pytest.MonkeyPatch) -> None:
    runs: list[list[str]] = []
    monkeypatch.setattr(__main__, "claim_files", lambda root: [root / "claim.py"])
    monkeypatch.setattr(__main__, "sources", lambda file, root: SOURCES)
    monkeypatch.setattr(Position, "of", lambda root: Position("a" * 40, 27))
    monkeypatch.setattr(
        __main__.subprocess, "run", lambda command, **_: (runs.append(command), SimpleNamespace(returncode=code))[1]
    )
    assert __main__.main([], root) == code
    assert __main__.main([], root) == code
    assert len(runs) == 1 + bool(code)  # what has passed is skipped, what has failed is not
    named = ["--shard", "3/12", "--seed", "ab"]
    assert __main__.main([*named, "--unseen"], root) == code
    assert len(runs) == 1 + 2 * bool(code)
    assert __main__.main(named, root) == code
    assert len(runs) == 2 + 2 * bool(code)  # a run that is repeated by hand skips nothing
    assert passed.has_passed(root, "claim.py", passed.digest(SOURCES, root), Shard(3)) == (code == 0)


@pytest.mark.parametrize(("names", "code"), [(("claim.py", "other.py"), 0), (("other.py",), 5)])
def test_a_file_without_claims_of_the_shard_is_no_failure_after_others_were_skipped(
    root: Path, names: tuple[str, ...], code: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(__main__, "claim_files", lambda root: [root / name for name in names])
    monkeypatch.setattr(__main__, "sources", lambda file, root: (file.name,))
    monkeypatch.setattr(Position, "of", lambda root: Position("a" * 40, 27))
    monkeypatch.setattr(__main__.subprocess, "run", lambda *_, **__: SimpleNamespace(returncode=5))
    (root / "other.py").write_text("1")
    passed.add(root, {"claim.py": passed.digest(("claim.py",), root)}, Shard(3))
    assert __main__.main([], root) == code  # a whole shard without a claim is a mistake

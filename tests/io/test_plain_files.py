"""What is no plain file, or too large, is refused before it is opened."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from miaudit.errors import InputError
from miaudit.io import plain_files


def test_a_pipe_is_refused_and_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", tmp_path, Path("/dev/zero")):
        with pytest.raises(InputError, match="a: expected a plain file"):
            plain_files.checked(path, "a")
        with pytest.raises(InputError, match="a: expected a plain file"):
            plain_files.read_text(path, "a")


def test_a_sparse_giant_is_refused_and_not_read(tmp_path: Path) -> None:
    path = tmp_path / "ids.txt"
    with path.open("wb") as handle:
        handle.truncate(20_000_000_000)
    with pytest.raises(InputError, match=r"expected at most 100,000,000 bytes, received 20,000,000,000 bytes"):
        plain_files.read_text(path, "ids")
    path.write_text("ä", encoding="utf-8")
    assert plain_files.read_text(path, "ids", 2) == "ä"
    assert plain_files.checked(path, "ids", 2) == path
    with pytest.raises(FileNotFoundError):
        plain_files.checked(tmp_path / "none", "ids")

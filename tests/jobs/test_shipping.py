"""What goes to a cluster: modules and small files of the user's folder, no data, stores, results or hidden folders."""

from __future__ import annotations

from pathlib import Path

import pytest

from miaudit.errors import InputError
from miaudit.jobs import shipping


def folder(place: Path) -> Path:
    for name in ("mine.py", "parts/deep/more.py", "config.yaml", "parts/labels.json"):
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        (place / name).write_text(f"# {name}")
    left = (
        "data.npy",
        "store/model-00000.npy",
        "store/about.json",
        "out/findings.json",
        "out/x.html",
        "env/pyvenv.cfg",
    )
    for name in (*left, "env/lib.py", ".git/config", "__pycache__/mine.pyc", ".secret"):
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        (place / name).write_text(name)
    with (place / "data.npy").open("wb") as handle:
        handle.truncate(shipping.LARGEST_FILE + 1)
    return place


def test_modules_and_small_files_are_copied_and_the_copy_is_removed(tmp_path: Path) -> None:
    with shipping.packed(folder(tmp_path)) as copy:
        assert copy is not None
        found = sorted(str(path.relative_to(copy)) for path in copy.rglob("*") if path.is_file())
        assert found == ["config.yaml", "mine.py", "parts/deep/more.py", "parts/labels.json"]
        assert (copy / "mine.py").read_text() == "# mine.py"
    assert not copy.exists()
    with shipping.packed(None) as none:
        assert none is None


def test_too_much_is_refused_and_the_fullest_folder_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shipping, "LARGEST", 2 << 20)
    many = tmp_path / "pictures"
    many.mkdir()
    (tmp_path / "mine.py").write_text("x = 1")
    for i in range(3):
        (many / f"{i}.png").write_bytes(bytes(shipping.LARGEST_FILE))
    with (
        pytest.raises(
            InputError, match=r"executor: expected at most 2 MB .* received 3 MB in .*, most of it in .*pictures"
        ),
        shipping.packed(tmp_path),
    ):
        pass

"""A release between the ledger and its folder: entered or gone, never entered and gone."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from miaudit.dp.mechanism import GaussianNoise
from miaudit.errors import InputError, OutputError
from miaudit.synthesis.generators import ledger
from miaudit.synthesis.generators.entered_release import EnteredRelease
from miaudit.synthesis.generators.release import Release
from miaudit.synthesis.schema import Column, Schema, Table

RELEASE = Release(Table(Schema((Column("a"),)), np.zeros((3, 1))))


def enter(path: Path, label: str) -> None:
    ledger.spend(path, table="t", label=label, mechanism=GaussianNoise(10.0))


def hidden(folder: Path) -> list[Path]:
    return [path for path in folder.iterdir() if path.is_dir()]


def test_what_is_not_entered_is_removed_and_what_is_stays_until_it_arrived(tmp_path: Path) -> None:
    own = EnteredRelease.of(tmp_path / "l.json", "first")
    with own.held():
        own.write(RELEASE, "synthetic.csv")
        assert own.table is None
    assert not hidden(tmp_path)
    with pytest.raises(RuntimeError), own.held():
        own.write(RELEASE, "synthetic.csv")
        enter(tmp_path / "l.json", "first")
        raise RuntimeError
    left = own.table
    assert left is not None and Release.load(left).table.values.tolist() == [[0.0]] * 3
    with own.held():
        (tmp_path / "out").mkdir()
        own.link_into(tmp_path / "out")
        own.remove()
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["synthetic.csv", "synthetic.json"]
    assert own.table is None and hidden(tmp_path) == [tmp_path / "out"]


def test_a_killed_run_of_another_label_is_swept_unless_it_is_entered(tmp_path: Path) -> None:
    path = tmp_path / "l.json"
    lost, paid, own = (EnteredRelease.of(path, label) for label in ("lost", "paid", "own"))
    enter(path, "paid")
    for one in (lost, paid):
        one.folder.mkdir()
        one.write(RELEASE, "synthetic.parquet")
    with own.held():
        pass
    assert hidden(tmp_path) == [paid.folder] and paid.table is not None


def test_one_label_is_made_by_one_process_at_a_time(tmp_path: Path) -> None:
    own = EnteredRelease.of(tmp_path / "l.json", "first")
    with own.held():
        with pytest.raises(InputError, match=r"ledger.label: expected a release of its own .* wait for it"):
            EnteredRelease.of(tmp_path / "l.json", "first").held().__enter__()
        with EnteredRelease.of(tmp_path / "l.json", "second").held():
            pass


def test_where_nothing_can_be_written_one_line_says_so(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(OutputError, match="cannot be written"):
        EnteredRelease.of(tmp_path / "file" / "l.json", "first").held().__enter__()


def test_a_ledger_behind_a_link_has_one_place(tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "l.json").symlink_to(tmp_path / "l.json")
    found = [EnteredRelease.of(place / "l.json", "a").folder for place in (tmp_path, tmp_path / "other")]
    assert found[0] == found[1]

"""Memberships of sealed coins, written for people who train or score elsewhere."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from miaudit.errors import InputError, MiauditError
from miaudit.io import drawn_members, tables
from miaudit.io.sealed_coins import Coins, Secret


def drawn(coins: int, runs: int = 3) -> Coins:
    """Coins of which not all of the first run fell alike."""
    while True:
        found = Secret.new(coins=coins, runs=runs).drawn(None)
        if len(set(found.of_run(1).tolist())) == 2:
            return found


def test_members_are_written_for_people_who_train_elsewhere(tmp_path: Path) -> None:
    made = drawn(coins=20)
    drawn_members.write_members(tmp_path / "m.csv", made, mode=0o600)
    drawn_members.write_members(tmp_path / "m.npy", made)
    table = np.loadtxt(tmp_path / "m.csv", delimiter=",", skiprows=1)
    assert (tmp_path / "m.csv").read_text().startswith("run1,run2,run3\n")
    assert np.array_equal(table.T, np.load(tmp_path / "m.npy"))
    assert np.array_equal(table[:, 1], made.of_run(2))
    with pytest.raises(InputError, match=r"csv or \.npy"):
        drawn_members.write_members(tmp_path / "m.txt", made)


def test_a_table_gets_its_members_after_the_reveal(tmp_path: Path) -> None:
    made, table = drawn(coins=3, runs=1), tmp_path / "t.csv"
    table.write_text("s,person\n0.5,b\n1.5,a\n2.5,b\n3.5,c\n")
    drawn_members.write_beside(tmp_path / "m.csv", table, made, unit="person")
    held = tables.read_columns(tmp_path / "m.csv", ["s", "member"])
    assert held["member"].astype(bool).tolist() == made.of_run(1)[[0, 1, 0, 2]].tolist()
    assert held["s"].tolist() == [0.5, 1.5, 2.5, 3.5]
    for path, of in ((tmp_path / "m.csv", table), (tmp_path / "n.csv", tmp_path / "m.csv")):
        with pytest.raises(MiauditError, match=r"is there already|without a column member"):
            drawn_members.write_beside(path, of, made, unit="person")

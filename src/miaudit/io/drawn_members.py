"""Memberships of sealed coins, written for people who train or score elsewhere."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from miaudit.errors import InputError, OutputError, one_line
from miaudit.io import atomic, tables
from miaudit.io.sealed_coins import Coins

__all__ = ["write_beside", "write_members"]


def write_members(path: Path, coins: Coins, *, mode: int | None = None) -> None:
    """Write the coins to a .csv, a column of 0 and 1 for each run, or to a .npy (coins,), (runs, coins) of several.

    Raises
    ------
    InputError
        For another ending.
    OutputError
        If the file is there already or cannot be written.
    """
    suffix = tables.require_suffix(path, "--out", (".csv", ".npy")).suffix.lower()
    runs = range(1, coins.commitment.runs + 1)
    memberships = np.stack([coins.of_run(k) for k in runs])

    def write(target: Path) -> None:
        if suffix == ".npy":
            with target.open("wb") as handle:
                np.save(handle, memberships if len(memberships) > 1 else memberships[0], allow_pickle=False)
        else:
            head = ",".join(f"run{k}" for k in runs)
            np.savetxt(target, memberships.T.astype(np.int8), fmt="%d", delimiter=",", header=head, comments="")

    atomic.write_once(path, write, mode=mode)


def write_beside(path: Path, table: Path, coins: Coins, *, run: int = 1, unit: str | None = None) -> None:
    """Write a table again with a column ``member``, the coins of a run; rows stand in the order of the coins.

    Parameters
    ----------
    path, table : .npz, .parquet or .csv
    unit : column of units that have one coin each

    Raises
    ------
    InputError
        For a table that has memberships already, or other numbers of records or units than coins.
    OutputError
        If the file is there already.
    """
    names = tables.column_names(table)
    if "member" in names:
        raise InputError("--beside", "a table without a column member", f"{table}", "audit it as it is, with --coins")
    if path.exists():
        raise OutputError(one_line(f"{path}: is there already, and kept; name another file"))
    wanted, text = list(dict.fromkeys([*names, *([unit] if unit else [])])), names if table.suffix == ".csv" else ()
    columns = tables.read_columns(table, wanted, "--beside", as_text=text, gaps=text)  # as they are written
    records = len(next(iter(columns.values())))
    member = coins.members(run, records=records, unit=None if unit is None else columns[unit])
    tables.write_columns(path, {**columns, "member": member})

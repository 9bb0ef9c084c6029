"""Whole tables without missing values, real and simulated: members, control records and other people come from them."""

from __future__ import annotations

import csv
import importlib.util
from collections.abc import Callable, Mapping
from pathlib import Path

import drafted_tables
import numpy as np
from drafted_tables import category, joined, number

from miaudit.arrays import FloatArray
from miaudit.synthesis import Column, Schema, Table


def bike(data: Path) -> Table:
    """Hours of bicycle hire in Washington: season, time, weather and how many were hired.

    The file ``Bikeshare.csv`` of the package ISLP, in the folder ``bikeshare`` of the data or in the package itself.
    """
    path, package = data / "bikeshare" / "Bikeshare.csv", importlib.util.find_spec("ISLP")
    if not path.is_file() and package is not None and package.origin is not None:
        path = Path(package.origin).parent / "data" / "Bikeshare.csv"
    with path.open(newline="") as file:
        rows = list(csv.DictReader(file))
    parts = [category(name, [row[name] for row in rows]) for name in ("season", "weekday", "workingday", "weathersit")]
    for name, high in (("hr", 23.0), ("day", 366.0), ("casual", 1_000.0), ("registered", 1_000.0)):
        parts.append(number(name, high, np.array([float(row[name]) for row in rows])))
    for name in ("temp", "atemp", "hum", "windspeed"):
        values = np.array([float(row[name]) for row in rows])
        parts.append((Column(name, "continuous", low=0, high=1), values))
    return joined(parts)


def known(table: Table) -> Table:
    """Return the table with a missing category as a category of its own."""
    columns, values = list(table.schema.columns), table.values.copy()
    for j, column in enumerate(columns):
        missing = np.isnan(values[:, j])
        if missing.any():
            values[missing, j] = len(column.categories)
            columns[j] = Column(column.name, "categorical", (*column.categories, "none"))
    return Table(Schema(tuple(columns)), values)


def measured(_: Path) -> Table:
    """30,000 simulated patients whose measurements have many decimals, and heavy tails."""
    rng, n = np.random.default_rng(20261129), 30_000
    age = np.clip(np.rint(rng.gamma(9, 6, n)), 0, 110)
    sick = rng.random(n) < 0.02 + 0.004 * age
    parts = [number("age", 110, age), category("ward", rng.integers(0, 9, n)), category("sick", sick.astype(int))]
    for k in range(5):
        value = 60 + 0.3 * age + 10 * sick + (2 + k) * rng.standard_t(4, n)
        parts.append((Column(f"measurement {k + 1}", "continuous", low=-1e4, high=1e4), np.clip(value, -1e4, 1e4)))
    return joined(parts)


def whole_numbers(_: Path) -> Table:
    """30,000 records of six whole numbers about 50, so that equal records, and records one apart, are common."""
    values: FloatArray = np.rint(np.random.default_rng(20261130).normal(50, 5, (30_000, 6)))
    return joined([number(f"count {k + 1}", 100, column) for k, column in enumerate(values.T)])


TABLES: Mapping[str, Callable[[Path], Table]] = {
    "adult": drafted_tables.adult,
    "acs": lambda data: known(drafted_tables.acs(data)),
    "bike": bike,
    "world": drafted_tables.world,
    "measured": measured,
    "whole numbers": whole_numbers,
}
REAL = ("adult", "acs", "bike")

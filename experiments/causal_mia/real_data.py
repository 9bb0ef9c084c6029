"""Real records as arrays: the data sets beside the checkout, and those that scikit-learn ships."""

from __future__ import annotations

import csv
import gzip
import importlib.util
import json
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

Labelled = tuple[np.ndarray, np.ndarray]


def log_likelihood(target: Any, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """The loss attack: log probability of the label, higher for members."""
    column = np.searchsorted(target.classes_, y)
    return np.log(np.clip(target.predict_proba(x)[np.arange(len(x)), column], 1e-12, 1.0))


@cache
def adult(folder: Path) -> tuple[np.ndarray, np.ndarray, tuple[int, ...]]:
    """Twelve columns of Adult, words as codes, the label (income above 50,000), and which columns are words."""
    with gzip.open(folder / "adult" / "adult.data.gz", "rt") as file:
        table = np.array([row.strip().split(", ") for row in file if row.strip()], dtype=object)
    codes, columns = [], []
    for j in (0, 1, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12):
        numeric = table[0, j].isdigit()
        codes += [] if numeric else [len(columns)]
        words = np.unique(table[:, j].astype(str), return_inverse=True)[1]
        columns.append(table[:, j].astype(float) if numeric else words)
    return np.column_stack(columns).astype(float), (table[:, 14] == ">50K").astype(int), tuple(codes)


@cache
def acs(folder: Path) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, list[str]]:
    """People of Connecticut: columns, an income above the median of 2018, years, columns without holes, their names.

    In the last but one array holes are medians of 2018; a column for each that has holes, and the label, follow.
    """
    with np.load(folder / "acs_ct_income" / "acs_ct_income.npz") as data:
        x, income, years = data["x"].astype(float), data["income"], data["year"]
        names = list(data["columns"].astype(str))
    first = years == 2018
    y = (income > np.median(income[first])).astype(int)
    missing, holes = np.isnan(x), np.isnan(x[first]).any(axis=0)
    full = np.column_stack([np.where(missing, np.nanmedian(x[first], axis=0), x), missing[:, holes], y])
    names += [f"{name} missing" for name, hole in zip(names, holes, strict=True) if hole]
    return x, y, years, full.astype(float), [*names, "label"]


@cache
def bike(folder: Path) -> Labelled:
    """Hours of bicycle hire in Washington, with season, time, weather and wind; the log of how many were hired.

    The file ``Bikeshare.csv`` of the package ISLP, in the folder ``bikeshare`` of the data or in the package itself.
    """
    path, package = folder / "bikeshare" / "Bikeshare.csv", importlib.util.find_spec("ISLP")
    if not path.is_file() and package is not None and package.origin is not None:
        path = Path(package.origin).parent / "data" / "Bikeshare.csv"
    with path.open(newline="") as file:
        rows = list(csv.DictReader(file))
    numbers = ("season", "day", "hr", "holiday", "weekday", "workingday", "temp", "atemp", "hum", "windspeed")
    weather = np.unique([row["weathersit"] for row in rows], return_inverse=True)[1]
    x = np.array([[float(row[name]) for name in numbers] for row in rows])
    return np.column_stack([x, weather]), np.log1p([float(row["bikers"]) for row in rows])


@cache
def office(folder: Path, features: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Features of pictures (of SURF shares of visual words, not their number), labels and the names of domains."""
    with np.load(folder / "office_caltech10" / f"office_caltech10_{features}.npz") as data:
        x, y, domain = data["x"].astype(float), data["y"], data["domains"].astype(str)[data["domain"]]
    if features == "surf":
        x /= np.maximum(x.sum(axis=1, keepdims=True), 1.0)
    return x, y, domain


@cache
def mnist(folder: Path) -> Labelled:
    with np.load(folder / "mnist" / "mnist.npz") as data:
        return data["x_train"].reshape(60_000, -1), data["y_train"].astype(int)


@cache
def cifar(folder: Path) -> Labelled:
    """Pictures of 32 x 32 as means over squares of 4 x 4 pixels, on [0, 1]; labels."""
    with np.load(folder / "cifar10" / "cifar10_12k.npz") as data:
        x, y = (np.concatenate([data[f"{what}_{part}"] for part in ("train", "test")]) for what in "xy")
    squares = x.reshape(len(x), 8, 4, 8, 4, 3).mean(axis=(2, 4), dtype=float)
    return squares.reshape(len(x), -1) / 255.0, y.astype(int)


@cache
def location(folder: Path) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Published scores of Location-30: score (minus the loss), member, label, and how many places were visited."""
    with np.load(folder / "location30" / "location30.npz") as data:
        x, y = np.unpackbits(data["x_packed"], axis=1)[:, : int(data["n_features"])], data["y"].astype(int)
    with np.load(folder / "mia_scores_location30" / "location30_mia_scores.npz") as data:
        rows = data["target_row"].astype(int)
        score, member = -data["target_loss"].astype(float), data["target_member"].astype(bool)
    return score, member, y[rows], x[rows].sum(axis=1).astype(float)


@cache
def wikimia(folder: Path) -> tuple[list[str], np.ndarray]:
    """Texts of 32 words, and whether each is of an event before 2017."""
    rows = [json.loads(line) for line in (folder / "wikimia" / "wikimia_32.jsonl").read_text().splitlines()]
    return [row["input"] for row in rows], np.array([row["label"] == 1 for row in rows])

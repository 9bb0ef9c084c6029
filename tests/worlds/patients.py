"""Patients of a table, all columns independent."""

from __future__ import annotations

import numpy as np
import polars as pl


def patients(n: int, rng: np.random.Generator) -> pl.DataFrame:
    columns = {
        "age": rng.integers(18, 90, n),
        "job": rng.choice(list("abcdef"), n),
        "income": np.round(np.exp(rng.normal(10, 0.5, n)), 2),
        "bmi": np.round(rng.normal(25, 4, n), 1),
        "city": rng.choice([f"c{i}" for i in range(30)], n),
        "dose": np.round(rng.gamma(2, 2, n), 2),
    }
    return pl.DataFrame(columns)

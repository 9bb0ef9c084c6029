"""Write the tiny data of the example: a private table of a clinic that does not exist, and simulated public records.

Run it once: ``python examples/synthesis/make_data.py``. Nothing is downloaded.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl

HERE = Path(__file__).parent


def patients(n: int, rng: np.random.Generator) -> pl.DataFrame:
    """Draw records: person -> conditions -> signs, with some answers missing."""

    def chance(logits: np.ndarray) -> np.ndarray:
        return rng.random(n) < 1 / (1 + np.exp(-logits))

    age = np.clip(np.round(rng.normal(52, 17, n)), 18, 95)
    smoker = chance(-0.6 - 0.01 * (age - 50))
    district = rng.choice(["north", "south", "harbour"], n, p=[0.5, 0.3, 0.2])
    heart = chance(-2.2 + 0.05 * (age - 50) + 0.7 * smoker)
    lung = chance(-2.4 + 1.6 * smoker + 0.8 * (district == "harbour"))
    breath = np.array(["never", "sometimes", "often"])[
        np.minimum(2, chance(-1.2 + 1.2 * heart + 1.8 * lung).astype(int) + chance(-2 + 2 * lung))
    ]
    visits = np.clip(np.round(rng.gamma(2, 1 + heart + lung + 0.01 * age)), 0, 30)
    answered = rng.random(n) < 0.9
    return pl.DataFrame(
        {
            "age": age,
            "smoker": np.where(smoker, "yes", "no"),
            "district": district,
            "heart_disease": heart.astype(int),
            "lung_disease": lung.astype(int),
            "breathless": [str(text) if known else None for text, known in zip(breath, answered, strict=True)],
            "visits": visits,
        }
    )


if __name__ == "__main__":
    patients(2050, np.random.default_rng(0)).write_csv(HERE / "patients.csv")
    patients(1000, np.random.default_rng(1)).write_csv(HERE / "simulated.csv")

"""What the steps of a right implementation release, and the claims that it keeps."""

from __future__ import annotations

import numpy as np

from miaudit.dp.mechanism import GaussianNoise, PoissonSubsampled, Repeated
from miaudit.dp.released_steps import Released

STEPS = 9
CLAIM = Repeated(GaussianNoise(3.0), STEPS)  # mu = 1
SAMPLED = Repeated(PoissonSubsampled(GaussianNoise(1.0), 0.2), 40)


def released(
    rng: np.random.Generator, *, m: int = 1_000, steps: int = STEPS, noise: float = 3.0, rate: float = 1.0
) -> Released:
    """A right implementation, by arrays."""
    coins = rng.random(m) < 0.5
    joined = (rng.random((steps, m)) < rate) & coins
    return Released(joined + noise * rng.normal(size=(steps, m)), coins, joined)

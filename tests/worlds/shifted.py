"""Two populations a known distance apart: the log-odds of membership are linear in the covariates, and known."""

from __future__ import annotations

import numpy as np

from miaudit import Evidence


def world(
    n1: int, n0: int, d: int, shift: float, seed: int = 0, unit: np.ndarray | None = None
) -> tuple[Evidence, np.ndarray]:
    """Members N(shift u, 1), non-members N(0, 1) with a unit vector u; also the true log-odds in the pooled sample."""
    rng = np.random.default_rng(seed)
    member = np.r_[np.ones(n1, bool), np.zeros(n0, bool)]
    u = np.full(d, 1 / np.sqrt(d))
    x = rng.normal(size=(n1 + n0, d)) + shift * member[:, None] * u
    truth = shift * (x @ u) - shift**2 / 2 + np.log(n1 / n0)
    evidence = Evidence(score=rng.normal(size=n1 + n0), member=member, covariates=x, design="zero-run", unit=unit)
    return evidence, truth

"""A world where nothing is memorised, and a trait that nobody measured decides both membership and the score."""

from __future__ import annotations

import numpy as np

from miaudit import Evidence

FloatArray = np.ndarray


def draw(factor: float, n: int, rng: np.random.Generator, *, covariates: int = 1) -> tuple[Evidence, FloatArray]:
    """Return evidence, and the odds of membership (n,) given the covariates alone.

    Members have the trait more often, by just the factor that multiplies their odds with it and divides them without.
    Among non-members the factor has mean 1, so that the odds given the covariates are right on average. The score is
    that of the trait, whose upper part no covariate tells.
    """
    x = rng.normal(size=(n, covariates))
    odds = np.exp(0.7 * x[:, 0])
    member = rng.random(n) < odds / (1 + odds)
    trait = rng.random(n) < np.where(member, factor, 1.0) / (1 + factor)
    score = np.where(trait, 2.0, 0.0) + 0.2 * x[:, 0] + 0.3 * rng.normal(size=n)
    names = tuple(f"x{i}" for i in range(covariates))
    return Evidence(score=score, member=member, covariates=x, covariate_names=names, design="zero-run"), odds

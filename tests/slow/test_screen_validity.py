"""Bounds on a screened line where membership goes with a product of covariates.

8,000 rows to learn from and 10,000 to audit, thinning, a one-sided level of 5%. The attack knows the true log-odds, or
guesses by the product alone, and nothing leaks; the line alone is the control.
"""

from __future__ import annotations

from concurrent.futures import Executor
from math import sqrt

import numpy as np
import pytest
from scipy import special

from miaudit import Evidence
from miaudit.causal import propensity
from miaudit.dp import zero_run
from validity.claims import Claims

pytestmark = pytest.mark.slow

LEVEL, TRAINING, AUDITED, TRUTH = 0.05, 8000, 10_000, 0.66


def bounds(
    d: int, product: float, attack: str, audits: int, seed: int | np.random.Generator, level: float = LEVEL
) -> list[tuple[float, float]]:
    """Bounds on mu by the line and by the screened line."""
    found = []
    for rng in np.random.default_rng(seed).spawn(audits):
        beta = 0.5 * rng.normal(size=d) / sqrt(d)
        train, audited = (_draw(beta, product, attack, n, rng) for n in (TRAINING, AUDITED))
        pair = []
        for screened in (False, True):
            learned = propensity.fit(audited, train=train, screened=screened, rng=rng)
            pair.append(zero_run.mu_lower_bound(audited, learned, guesses=500, confidence=1 - level, rng=rng).value)
        found.append((pair[0], pair[1]))
    return found


def _draw(beta: np.ndarray, product: float, attack: str, n: int, rng: np.random.Generator) -> Evidence:
    x = rng.normal(size=(n, len(beta)))
    both = x[:, 0] * x[:, 1]
    logit = x @ beta + product * both
    member = rng.random(n) < special.expit(logit)
    score = {"logit": logit, "product": both, "gaussian": TRUTH * member + rng.normal(size=n)}[attack]
    return Evidence(score=score, member=member, covariates=x, design="zero-run")


@pytest.mark.validity
@pytest.mark.parametrize(("product", "attack"), [(0.5, "logit"), (0.08, "product"), (0.3, "product")])
def test_a_product_shift_without_a_leak_shows_nothing(claim: Claims, product: float, attack: str) -> None:
    """Far above the threshold of the screen, and near it, where a product enters about every other time."""

    def replicate(rng: np.random.Generator, size: float = product) -> dict[str, bool]:
        ((line, screened),) = bounds(10, size, attack, 1, rng)
        return {"line": line > 0, "screened": screened > 0}

    claim(replicate, holds={"screened": LEVEL})
    claim(lambda rng: replicate(rng, 0.5), fails={"line": LEVEL})


def test_what_the_screen_costs_and_gains(pool: Executor) -> None:
    """Mean bounds on a leak of 0.66 at p = 0.025; a linear shift of 10 and of 50 covariates, and a product shift."""
    for d, product, least in ((10, 0.0, 0.34), (50, 0.0, 0.29), (10, 0.5, 0.34)):
        parts = pool.map(bounds, [d] * 2, [product] * 2, ["gaussian"] * 2, [8] * 2, [3, 4], [0.025] * 2)
        line, screened = np.array([pair for part in parts for pair in part]).T
        print(f"\nd {d}, product {product}: line {line.mean():.3f}, screened {screened.mean():.3f} of {TRUTH}")
        assert least < screened.mean() < TRUTH
        assert product or screened.mean() > line.mean() - 0.03

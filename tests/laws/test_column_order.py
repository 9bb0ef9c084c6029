"""The order of covariates decides nothing: with columns moved, evidence gets the same verdict and the same numbers."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import special

import miaudit as ma
from miaudit import Evidence, Plan

N = 1200


def products(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, tuple[int, ...]]:
    x = rng.normal(size=(N, 14))
    return x, x[:, 11] * x[:, 13], ()


def band(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, tuple[int, ...]]:
    x = rng.uniform(size=(N, 4))
    return x, 2.0 * ((x[:, 1] > 0.4) & (x[:, 1] < 0.6)), ()


def corner(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, tuple[int, ...]]:
    x = rng.normal(size=(N, 4))
    return x, 2.5 * ((x[:, 0] > 0.5) & (x[:, 2] > 0.5)), ()


def levels(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, tuple[int, ...]]:
    site = rng.integers(0, 20, N)
    return np.c_[site, rng.normal(size=(N, 3))], rng.normal(size=20)[site], (0,)


def wave(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, tuple[int, ...]]:
    x = rng.uniform(-3, 3, size=(N, 4))
    return x, 1.5 * np.sin(4 * x[:, 0]) * np.sign(x[:, 3]), ()  # a forest may refute this one


@pytest.mark.thorough
@pytest.mark.parametrize("world", [products, band, corner, levels, wave])
def test_columns_in_another_order_give_the_same_verdict(world) -> None:
    rng = np.random.default_rng(0)
    x, pull, codes = world(rng)
    member = rng.random(N) < special.expit(pull)
    score = pull + rng.normal(size=N)
    names = [f"c{i}" for i in range(x.shape[1])]
    results = []
    for order in (np.arange(x.shape[1]), np.random.default_rng(1).permutation(x.shape[1])):
        evidence = Evidence(
            score=score,
            member=member,
            covariates=x[:, order],
            covariate_names=tuple(names[i] for i in order),
            design="zero-run",
        )
        plan = Plan(categories=tuple(names[i] for i in codes), fpr_targets=(0.1,), bounds=None)
        results.append(ma.audit(evidence, plan=plan, rng=np.random.default_rng(2)))
    one, other = results
    assert one.verdict.status == other.verdict.status
    assert one.overlap is not None and other.overlap is not None and one.overlap.fit is not None
    assert one.overlap.status == other.overlap.status
    assert one.overlap.fit.rejected == other.overlap.fit.rejected
    assert one.overlap.fit.z == pytest.approx(other.overlap.fit.z, abs=1e-3)
    for first, second in zip(one.metrics, other.metrics, strict=True):
        assert (first.name, first.estimator) == (second.name, second.estimator)
        for end in ("value", "low", "high"):
            assert getattr(first, end) == pytest.approx(getattr(second, end), abs=1e-4), (first, second)

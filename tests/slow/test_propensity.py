"""Whether the learning curve rises where it should, and replicates spread as far as the propensity errs."""

from __future__ import annotations

import numpy as np
import pytest

from miaudit.causal import propensity
from validity.claims import Claims
from worlds.shifted import world

pytestmark = pytest.mark.slow


def rises(d: int, shift: float, rng: np.random.Generator) -> dict[str, bool]:
    evidence, _ = world(1000, 1000, d, shift, int(rng.integers(2**32)))
    return {"rising": propensity.learning_curve(evidence, rng=rng).rising}


@pytest.mark.validity
@pytest.mark.parametrize("shift", [0.0, 0.3, 0.7, 1.5])
def test_the_curve_seldom_rises_where_rows_suffice(claim: Claims, shift: float) -> None:
    claim(lambda rng: rises(5, shift, rng), holds={"rising": 0.05})
    claim(lambda rng: rises(200, 0.7, rng), fails={"rising": 0.05})


@pytest.mark.parametrize("shift", [0.7, 1.5])
def test_the_curve_rises_where_a_bound_would_be_invalid(shift: float) -> None:
    curves = [
        propensity.learning_curve(world(1000, 1000, 200, shift, s)[0], rng=np.random.default_rng(s)) for s in range(10)
    ]
    assert all(curve.rising for curve in curves)


@pytest.mark.parametrize(("d", "shift"), [(5, 0.3), (50, 0.3), (50, 0.7)])
def test_two_standard_deviations_contain_the_truth_without_shrinkage(d: int, shift: float) -> None:
    inside = []
    for seed in range(8):
        evidence, truth = world(1000, 1000, d, shift, seed)
        point = propensity.fit(evidence, strength=1.0, rng=np.random.default_rng(seed))
        drawn = propensity.bootstrap(
            evidence, replicates=100, folds=point.folds, strength=1.0, rng=np.random.default_rng(seed)
        )
        spread = np.log(drawn / (1 - drawn)).std(axis=0)
        inside.append(np.mean(np.abs(point.logit - truth) <= 2 * spread))
    assert np.mean(inside) > 0.88

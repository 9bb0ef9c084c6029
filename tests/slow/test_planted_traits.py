"""Sensitivity analyses of worlds whose unmeasured trait is known: the factor is not above its own.

The factor belongs to a lower confidence limit, so it may be above that of the trait in 2.5% of audits. The control is a
trait that is weaker than the one that was planted.
"""

from __future__ import annotations

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

from miaudit import Plan
from validity.claims import Claims, Replicate
from worlds import coverage, planted_trait

pytestmark = [pytest.mark.slow, pytest.mark.validity]

N = 2000
MOST = 0.025
CHANCE = {"auc": 0.5, "tpr_at_fpr_0.1": 0.1, "tpr_at_fpr_0.01": 0.01, "advantage": 0.0}


def factor(metric: str, planted: float, rng: np.random.Generator) -> float:
    """The largest factor at which the lower limit stays above what no leak gives; 1 where it is not above it at all."""
    evidence, _ = planted_trait.draw(planted, N, rng, covariates=3)
    plan = Plan(bounds=None, limits={metric: CHANCE[metric] + 1e-9})
    with threadpool_limits(1):
        found = coverage.audit(evidence, plan, rng)
    if found.sensitivity is None or found.verdict.status != "flagged":
        return 1.0
    return found.sensitivity.limits[0].size


def is_above(metric: str, planted: float, claimed: float) -> Replicate:
    return lambda rng: {"above": factor(metric, planted, rng) > claimed}


@pytest.mark.parametrize("metric", sorted(CHANCE))
@pytest.mark.parametrize("planted", [1.3, 2.0])
def test_the_factor_is_not_above_that_of_the_trait(claim: Claims, metric: str, planted: float) -> None:
    claim(is_above(metric, planted, planted), holds={"above": MOST})
    claim(is_above("auc", 2.0, 1.3), fails={"above": MOST})

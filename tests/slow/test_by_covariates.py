"""How often an audit names kinds of records wrongly: where nothing differs, and the limits of groups that do.

``--replicates 400 -s`` prints the rates.
"""

from __future__ import annotations

import numpy as np
import pytest

from miaudit.causal import heterogeneity
from miaudit.causal.record_kinds import Labelled, divide
from miaudit.metrics.classical import Sample
from validity.claims import Claims, outside, outside_half
from worlds import leaking_kinds
from worlds.leaking_kinds import World

pytestmark = [pytest.mark.slow, pytest.mark.validity]

N = 1000


def naive(world: World) -> bool:
    """The control: the records that chose the groups measure them too."""
    evidence, covariates = world.evidence, world.covariates
    percentile = (np.argsort(np.argsort(evidence.score)) + 0.5) / evidence.n - 0.5
    kinds = divide(covariates, Labelled(percentile, evidence.member, np.full(evidence.n, 0.5)))
    first, last = (Sample.of(evidence.take(kinds[i].rows(covariates))).auc(0.95) for i in (0, -1))
    apart = (first.value or 0.0) - (last.value or 0.0)
    return bool(apart > np.hypot((first.value or 0.0) - first.low, last.high - (last.value or 0.0)))


@pytest.mark.parametrize("follows", [True, False])
def test_nothing_is_established_where_nothing_differs(claim: Claims, follows: bool) -> None:
    def replicate(rng: np.random.Generator) -> dict[str, bool]:
        world = leaking_kinds.world("none", N, rng, follows=follows)
        result = heterogeneity.measure(world.evidence, categories=("site",), rng=rng)
        slopes = any(outside(one.low, 0.0, one.high) for one in result.slopes)
        return {"difference or slope": result.established or slopes, "the same records choose": naive(world)}

    claim(replicate, holds={"difference or slope": 0.05}, fails={"the same records choose": 0.05})


@pytest.mark.parametrize("effect", ["step", "product", "level", "line"])
def test_limits_hold_for_all_groups_at_once(claim: Claims, effect: str) -> None:
    def replicate(rng: np.random.Generator) -> dict[str, bool]:
        world = leaking_kinds.world(effect, N, rng, follows=False)
        result = heterogeneity.measure(world.evidence, categories=("site",), rng=rng)
        groups = [(one.auc, world.auc(one.kind, rng)) for one in result.kinds if one.auc is not None]
        missed = [any(miss(auc.low, truth, auc.high) for auc, truth in groups) for miss in (outside, outside_half)]
        limits = result.difference
        assert limits is not None
        apart = groups[0][1] - groups[-1][1]
        return {
            "groups": missed[0],
            "difference": outside(limits.low, apart, limits.high),
            "half of the groups' limits": missed[1],
        }

    claim(replicate, holds={"groups": 0.065, "difference": 0.05}, fails={"half of the groups' limits": 0.05})

"""Limits of the causal TPR at an FPR, at the edges: too few effective non-members, and blocks of ties."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from miaudit import Evidence
from miaudit.causal import effects
from miaudit.causal import propensity as propensities
from miaudit.causal.estimators import Comparison
from miaudit.causal.tpr_limits import _Point
from miaudit.metrics.roc import Roc
from worlds.confounded import Confounded

BIG = Confounded(shift=0.8, effect=0.5)


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def test_a_level_that_effective_nonmembers_cannot_resolve() -> None:
    evidence, p = Confounded(shift=1.0).draw(400, 400, rng(8))
    effective = Comparison.of(evidence, p).effective_nonmembers
    assert 3.69 / effective > 3.69 / 400
    below, above = 3.5 / effective, 4.0 / effective
    found = effects.tpr_at_fpr(evidence, p, fpr=below, rng=rng())
    assert found.value is None
    assert found.low == 0.0
    assert found.high > BIG.tpr(below)
    assert "effective" in found.note
    assert effects.tpr_at_fpr(evidence, p, fpr=above, rng=rng()).value is not None


@pytest.mark.parametrize("below", [0, 3])
@pytest.mark.parametrize("accused", [0, 20])
def test_a_tie_block_that_holds_nearly_all_nonmembers_leaves_the_level_uncertain(below: int, accused: int) -> None:
    """At its threshold (nearly) all are accused: a variance of nothing, or of rounding error."""
    member = np.arange(400) < 200
    score = np.where(member, 1.0, 0.0)
    score[200 : 200 + accused], score[400 - below :] = 1.0, -1.0
    score[:100] = 0.0
    pi = rng(15).uniform(0.4, 0.6, 400)
    evidence, p = Evidence(score=score, member=member), propensities.Propensity.given(pi)
    even = SimpleNamespace(values=np.full(400, 0.5), odds=np.ones(400), features=None)
    found = effects.tpr_at_fpr(evidence, p, fpr=0.3, rng=rng())
    classical = effects.tpr_at_fpr(evidence, even, fpr=0.3, rng=rng())
    assert found.value == pytest.approx(classical.value, abs=0.03)
    assert found.high - found.low > 0.9 * (classical.high - classical.low)
    rate = effects.fpr_at_threshold(evidence, p, threshold=-1.0, rng=rng())
    assert (rate.value, rate.high) == (1.0, 1.0)
    assert rate.low < 0.99


def test_perfect_scores_of_two_values_have_limits() -> None:
    member = np.arange(400) < 200
    pi = propensities.Propensity.given(rng(16).uniform(0.3, 0.7, 400))
    found = effects.tpr_at_fpr(Evidence(score=member.astype(float), member=member), pi, fpr=0.1, rng=rng())
    assert found.value == 1
    assert 0.97 < found.low < 1


@pytest.mark.parametrize("nonmembers", [10, 30, 49, 107])
def test_the_threshold_of_a_rate_is_the_score_that_reaches_it_exactly(nonmembers: int) -> None:
    """The k-th largest non-member's at k / n, whatever the last digit of either number is."""
    score = rng(17).permutation(nonmembers + 5) * 1.0
    member = np.arange(nonmembers + 5) < 5
    curve = Roc.of(score, member, np.full(nonmembers + 5, 0.1))
    outside = np.sort(score[~member])[::-1]
    for k in range(1, nonmembers):
        assert _Point.of(curve, k / nonmembers).threshold == outside[k - 1]

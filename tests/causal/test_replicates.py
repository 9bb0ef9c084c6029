"""Paired differences of two attacks: DeLong's paired variance, and a simulator whose attacks are equally good."""

import statistics

import numpy as np
import pytest
from scipy import stats

import miaudit as ma
from miaudit.causal import replicates
from miaudit.errors import InputError


def scored(rng, n, gap, noise=0.0, common=None):
    member = np.arange(n) % 2 == 0
    common = rng.normal(size=n) if common is None else common
    return ma.Evidence(score=common + noise * rng.normal(size=n) + gap * member, member=member)


def delong_variance(first, second):
    """Sampling variance of the difference of two paired AUCs (DeLong et al. 1988), by loops over placements."""
    parts = []
    for evidence in (first, second):
        y1, y0 = evidence.score[evidence.member], evidence.score[~evidence.member]
        psi = (y1[:, None] > y0[None, :]) + 0.5 * (y1[:, None] == y0[None, :])
        parts.append((psi.mean(axis=1), psi.mean(axis=0)))
    inside, outside = parts[0][0] - parts[1][0], parts[0][1] - parts[1][1]
    return inside.var(ddof=1) / len(inside) + outside.var(ddof=1) / len(outside)


def test_the_interval_of_the_auc_is_that_of_delong():
    rng = np.random.default_rng(0)
    common = rng.normal(size=800)
    first, second = scored(rng, 800, 1.0, 0.5, common), scored(rng, 800, 0.6, 0.5, common)
    found = replicates.difference(first, second, replicates=1000, rng=rng)["auc"]
    assert found.value == pytest.approx(first_auc(first) - first_auc(second))
    half = stats.norm.ppf(0.975) * delong_variance(first, second) ** 0.5
    assert (found.high - found.low) / 2 == pytest.approx(half, rel=0.1)


def first_auc(evidence):
    return stats.mannwhitneyu(evidence.score[evidence.member], evidence.score[~evidence.member]).statistic / (
        evidence.n_members * evidence.n_nonmembers
    )


def test_pairing_matters():
    """The same noise in both attacks cancels: independent intervals would see nothing."""
    rng = np.random.default_rng(1)
    common = rng.normal(size=600)
    first, second = scored(rng, 600, 0.7, 0.02, common), scored(rng, 600, 0.5, 0.02, common)
    found = replicates.difference(first, second, replicates=300, rng=rng)["auc"]
    assert found.low > 0
    alone = np.sqrt(2 * delong_variance(first, scored(rng, 600, 0.0)))
    assert found.value < 1.96 * alone


def test_equal_attacks_differ_by_nothing():
    rng = np.random.default_rng(2)
    one = scored(rng, 200, 1.0)
    found = replicates.difference(one, one, fpr_targets=(0.1,), replicates=100, rng=rng)
    assert all((e.value, e.low, e.high) == (0.0, 0.0, 0.0) for e in found.values())


def test_weights_of_nonmembers_count():
    rng = np.random.default_rng(3)
    first, second = scored(rng, 400, 1.0), scored(rng, 400, 0.0)
    odds = np.where(np.arange(400) < 200, 1.0, 1e-9)
    weighted = replicates.difference(first, second, odds=odds, replicates=100, rng=rng)["auc"].value
    kept = np.flatnonzero((odds == 1) | first.member)
    assert weighted == pytest.approx(first_auc(first.take(kept)) - first_auc(second.take(kept)), abs=1e-6)


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.parametrize(("name", "targets"), [("auc", ()), ("tpr_at_fpr_0.05", (0.05,))])
def test_of_equally_good_attacks_few_win(name, targets):
    """One-sided at 5%: at most about 5% of challengers that are no better may win; 4 standard errors are allowed."""
    wins = 0
    for seed in range(80):
        rng = np.random.default_rng([seed, 7])
        common = rng.normal(size=300)
        first, second = scored(rng, 300, 1.0, 0.7, common), scored(rng, 300, 1.0, 0.7, common)
        found = replicates.difference(first, second, fpr_targets=targets, confidence=0.9, replicates=120, rng=rng)[name]
        wins += found.low > 0
    assert wins / 80 <= 0.05 + 4 * (0.05 * 0.95 / 80) ** 0.5


def test_limits_are_the_outer_ones_of_percentiles_and_of_a_normal_law():
    sample = [0.1, 0.2, 0.4]
    half = stats.norm.ppf(0.95) * statistics.stdev(sample)
    low, high = replicates._outer_limits(0.2, np.array(sample), 0.9)
    assert (low, high) == (pytest.approx(0.2 - half), pytest.approx(0.2 + half))
    far, _ = replicates._outer_limits(0.5, np.array(sample), 0.9)
    assert far == pytest.approx(0.11)  # the percentile: a tenth of the way from the least to the middle
    assert replicates._outer_limits(0.0, np.array([-5.0, 0.0, 5.0]), 0.9) == (-1.0, 1.0)


@pytest.mark.parametrize(("top", "resolved"), [(True, False), (False, True)])
def test_a_heavy_unit_above_the_threshold_leaves_few_alarms(top, resolved):
    """Ten of 200 non-members are one unit. At 5% it makes up all alarms if it has the highest scores: one alarm."""
    score, member = np.arange(400.0), np.arange(400) < 200
    unit = np.r_[np.arange(200), 200 + np.maximum(np.arange(200) - 9, 0)]
    score[200:] = -score[200:] if top else score[200:]
    evidence = ma.Evidence(score=score, member=member, unit=unit)
    assert replicates.resolves(evidence, 0.05, np.ones(400)) is resolved
    assert replicates.resolves(evidence.replace(unit=None), 0.05, np.ones(400))  # the control


def test_other_records_are_refused():
    rng = np.random.default_rng(4)
    one = scored(rng, 100, 1.0)
    with pytest.raises(InputError, match="same records"):
        replicates.difference(one, scored(rng, 102, 1.0), rng=rng)
    with pytest.raises(InputError, match="other memberships"):
        replicates.difference(one, ma.Evidence(score=one.score, member=~one.member), rng=rng)
    with pytest.raises(InputError, match="at least 10"):
        replicates.difference(scored(rng, 12, 1.0), scored(rng, 12, 1.0), rng=rng)

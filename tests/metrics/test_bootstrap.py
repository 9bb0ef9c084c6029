"""The fast bootstrap draws from the same law as the loop that sorts every replicate again."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from miaudit import Evidence
from miaudit.metrics import bootstrap
from miaudit.metrics.classical import Sample
from miaudit.metrics.roc import Roc
from worlds import twins
from worlds.clusters import Clusters
from worlds.scores import WORLDS

TARGETS = (0.03, 0.1, 0.5)
COUNT = 1500


def sample_of(name: str, n1: int = 120, n0: int = 160) -> Sample:
    score, member = WORLDS[name].draw(n1, n0, np.random.default_rng(1))
    return Sample.of(Evidence(score=score, member=member))


def same_law(a: np.ndarray, b: np.ndarray) -> float:
    """The p-value of two samples, rounded so that equal values on either side of a rounding error stay equal."""
    return float(stats.ks_2samp(np.round(a, 10), np.round(b, 10)).pvalue)


@pytest.mark.thorough
@pytest.mark.long
@pytest.mark.parametrize("name", ["null", "gaussian", "rounded", "near_perfect", "constant"])
def test_replicates_have_the_law_of_the_loop(name: str) -> None:
    sample = sample_of(name)
    fast = bootstrap.replicates(sample, TARGETS, COUNT, rng=np.random.default_rng(2))
    auc, tpr, _ = twins.bootstrap_loop(sample.score, sample.member, TARGETS, COUNT, np.random.default_rng(3))
    assert same_law(fast.auc, auc) > 0.01
    for i in range(len(TARGETS)):
        assert same_law(fast.tpr[:, i], tpr[:, i]) > 0.01


@pytest.mark.thorough
@pytest.mark.long
def test_the_comparison_notices_another_law() -> None:
    """Control: a bootstrap of nine tenths of the members, and one that breaks ties."""
    sample = sample_of("gaussian")
    fast = bootstrap.replicates(sample, TARGETS, COUNT, rng=np.random.default_rng(2))
    kept = np.r_[np.arange(70), np.arange(120, 280)]
    fewer = twins.bootstrap_loop(sample.score[kept], sample.member[kept], TARGETS, COUNT, np.random.default_rng(3))
    assert same_law(fast.auc, fewer[0]) < 1e-6
    tied = sample_of("rounded")
    with_ties = bootstrap.replicates(tied, TARGETS, COUNT, rng=np.random.default_rng(2))
    broken = tied.score + np.where(tied.member, 1e-9, 0)
    without = twins.bootstrap_loop(broken, tied.member, TARGETS, COUNT, np.random.default_rng(3))
    assert same_law(with_ties.auc, without[0]) < 1e-6


@pytest.mark.long
@pytest.mark.parametrize("name", ["gaussian", "rounded", "perfect", "constant"])
def test_one_replicate_is_the_curve_of_the_records_drawn(name: str) -> None:
    """Number by number: the counts of a replicate, spelt out as records, through the primitive."""
    sample = sample_of(name, 40, 50)
    ranked = bootstrap._Ranked.of(sample)
    rng = np.random.default_rng(4)
    for _ in range(50):
        members = np.bincount(rng.integers(0, 40, 40), minlength=40)
        nonmembers = np.bincount(rng.integers(0, 50, 50), minlength=50)
        auc, tpr, excess, difference = ranked.metrics(members, nonmembers, TARGETS)
        rows = np.r_[np.repeat(ranked.inside, members), np.repeat(ranked.outside, nonmembers)]
        roc = Roc.of(sample.score[rows], sample.member[rows])
        assert auc == pytest.approx(roc.auc, abs=1e-12)
        np.testing.assert_allclose(tpr, roc.tpr_at(np.array(TARGETS)), atol=1e-12)
        score, member = sample.score[rows], sample.member[rows]
        assert difference == pytest.approx(score[member].mean() - score[~member].mean(), abs=1e-12)
        gaps = []
        for threshold in sample.roc.threshold[1:]:
            now = np.mean(score[member] >= threshold) - np.mean(score[~member] >= threshold)
            then = np.mean(sample.score[sample.member] >= threshold) - np.mean(
                sample.score[~sample.member] >= threshold
            )
            gaps.append(now - then)
        assert excess == pytest.approx(max(0.0, *gaps), abs=1e-12)


def test_a_replicate_of_every_record_once_is_the_sample() -> None:
    sample = sample_of("rounded")
    auc, tpr, excess, difference = bootstrap._Ranked.of(sample).metrics(np.ones(120, int), np.ones(160, int), TARGETS)
    assert auc == pytest.approx(sample.roc.auc, abs=1e-12)
    np.testing.assert_allclose(tpr, sample.roc.tpr_at(np.array(TARGETS)), atol=1e-12)
    assert excess == 0
    assert difference == pytest.approx(sample.difference(0.95).value, abs=1e-12)


def test_a_target_that_is_a_whole_number_of_nonmembers_uses_them_all() -> None:
    outside = np.arange(100.0)[::-1]
    sample = Sample.of(Evidence.from_pair(outside + 0.5, outside))
    _, tpr, _, _ = bootstrap._Ranked.of(sample).metrics(np.ones(100, int), np.ones(100, int), (0.29, 0.58))
    assert tpr.tolist() == pytest.approx([0.30, 0.59])


@pytest.mark.thorough
@pytest.mark.long
@pytest.mark.parametrize("mixed", [False, True])
def test_replicates_of_units_have_the_law_of_the_loop_over_units(mixed: bool) -> None:
    score, member, unit = Clusters(40, 4, 0.8, 1.0, varying=True, mixed=mixed).draw(np.random.default_rng(5))
    sample = Sample.of(Evidence(score=score, member=member, unit=unit))
    fast = bootstrap.replicates(sample, (0.1,), 700, rng=np.random.default_rng(6))
    slow = twins.unit_bootstrap_loop(score, member, unit, 700, np.random.default_rng(7))
    assert same_law(fast.auc, slow) > 0.01
    records = bootstrap.replicates(
        Sample.of(Evidence(score=score, member=member)), (0.1,), 700, rng=np.random.default_rng(6)
    )
    if not mixed:
        assert same_law(records.auc, slow) < 1e-6  # control


@pytest.mark.long
def test_the_lower_limit_of_the_advantage_is_not_fooled_by_its_own_search() -> None:
    excluded = plain = 0
    for seed in range(20):
        score, member = WORLDS["null"].draw(400, 400, np.random.default_rng(seed))
        sample = Sample.of(Evidence(score=score, member=member))
        drawn = bootstrap.replicates(sample, (0.1,), 200, rng=np.random.default_rng(seed))
        excluded += bootstrap.estimates(sample, drawn, (0.1,), 0.95)["advantage"].low > 0
        _, _, best = twins.bootstrap_loop(score, member, (0.1,), 60, np.random.default_rng(seed))
        plain += bool(np.quantile(best, 0.025) > 0)
    assert excluded <= 2
    assert plain == 20  # control: percentiles of a maximum are never near 0


def by_hand(
    score: np.ndarray, member: np.ndarray, rows: np.ndarray, targets: tuple[float, ...]
) -> tuple[float, np.ndarray, float, float]:
    """The metrics of a replicate that is spelt out as records."""
    roc = Roc.of(score[rows], member[rows])
    inside, outside = score[rows][member[rows]], score[rows][~member[rows]]
    gaps = [
        np.mean(inside >= at) - np.mean(outside >= at) - np.mean(score[member] >= at) + np.mean(score[~member] >= at)
        for at in np.unique(score)
    ]
    return roc.auc, roc.tpr_at(np.array(targets)), max(0.0, *gaps), inside.mean() - outside.mean()


@pytest.mark.parametrize("name", ["gaussian", "rounded"])
def test_replicates_of_records_are_those_of_the_same_draws_by_hand(name: str) -> None:
    sample, steps = sample_of(name, 30, 40), []
    found = bootstrap.replicates(sample, TARGETS, 6, rng=np.random.default_rng(9), progress=steps.append)
    assert steps == [1, 2, 3, 4, 5, 6]
    order = np.argsort(-sample.score, kind="stable")
    inside, outside = order[sample.member[order]], order[~sample.member[order]]
    rng = np.random.default_rng(9)
    for b in range(6):
        rows = np.r_[inside[rng.integers(0, 30, 30, np.int32)], outside[rng.integers(0, 40, 40, np.int32)]]
        auc, tpr, excess, difference = by_hand(sample.score, sample.member, rows, TARGETS)
        assert found.auc[b] == pytest.approx(auc, abs=1e-12)
        np.testing.assert_allclose(found.tpr[b], tpr, atol=1e-12)
        assert found.excess[b] == pytest.approx(excess, abs=1e-12)
        assert found.difference[b] == pytest.approx(difference, abs=1e-12)


def test_replicates_of_units_are_those_of_the_same_draws_by_hand() -> None:
    """Whole units are drawn, among those of members only, of non-members only, and of both classes."""
    rng = np.random.default_rng(10)
    unit = np.repeat(np.arange(30), rng.integers(1, 5, 30))
    member = np.where(unit < 10, True, np.where(unit < 22, False, rng.random(len(unit)) < 0.5))
    score = np.round(rng.normal(size=len(unit)) + member, 1)
    sample = Sample.of(Evidence(score=score, member=member, unit=unit))
    found = bootstrap.replicates(sample, (0.1, 0.4), 6, rng=np.random.default_rng(11))
    pure = [member[unit == u].mean() for u in range(30)]
    strata = [np.flatnonzero([one == share for one in pure]) for share in (1.0, 0.0)]
    strata.append(np.setdiff1d(np.arange(30), np.concatenate(strata)))
    assert all(len(stratum) > 1 for stratum in strata)
    rng = np.random.default_rng(11)
    for b in range(6):
        units = np.concatenate([stratum[rng.integers(0, len(stratum), len(stratum))] for stratum in strata])
        rows = np.concatenate([np.flatnonzero(unit == u) for u in units])
        auc, tpr, excess, difference = by_hand(score, member, rows, (0.1, 0.4))
        assert found.auc[b] == pytest.approx(auc, abs=1e-12)
        np.testing.assert_allclose(found.tpr[b], tpr, atol=1e-12)
        assert found.excess[b] == pytest.approx(excess, abs=1e-12)
        assert found.difference[b] == pytest.approx(difference, abs=1e-12)


def test_estimates_are_percentiles_and_the_excess_is_taken_off_the_advantage() -> None:
    sample, spread = sample_of("gaussian"), np.linspace(-0.1, 0.1, 1001)
    tpr, ate = float(sample.roc.tpr_at(0.1)), sample.difference(0.9).value
    drawn = bootstrap.Replicates(0.7 + spread, (tpr + spread)[:, None], spread + 0.1, ate + spread)
    found = bootstrap.estimates(sample, drawn, (0.1,), 0.9)
    assert (found["tpr_at_fpr_0.1"].low, found["tpr_at_fpr_0.1"].high) == pytest.approx((tpr - 0.09, tpr + 0.09))
    assert (found["ate"].low, found["ate"].high) == pytest.approx((ate - 0.09, ate + 0.09))
    best = found["advantage"]
    assert best.low == pytest.approx(best.value - 0.19)  # the 95th percentile of an excess from 0 to 0.2
    assert best.high == sample.advantage(0.9).high
    accuracy = found["balanced_accuracy"]
    assert [accuracy.value, accuracy.low, accuracy.high] == pytest.approx(
        [(1 + x) / 2 for x in (best.value, best.low, best.high)]
    )
    auc, deviation = sample.roc.auc, float((0.7 + spread).std(ddof=1))
    half = 1.6448536 * deviation / (auc * (1 - auc))
    logit = np.log(auc / (1 - auc))
    assert [found["auc"].low, found["auc"].high] == pytest.approx(1 / (1 + np.exp(-logit + np.array([half, -half]))))
    far = bootstrap.Replicates(0.7 + spread, (tpr + spread + 0.3)[:, None], spread + 2.0, ate + spread)
    beyond = bootstrap.estimates(sample, far, (0.1,), 0.9)
    assert beyond["tpr_at_fpr_0.1"].low == tpr  # an interval holds its value
    assert beyond["advantage"].low == 0.0


def test_equal_generators_give_equal_replicates_and_others_do_not() -> None:
    sample = sample_of("gaussian")
    first, again, other = (bootstrap.replicates(sample, TARGETS, 50, rng=np.random.default_rng(s)) for s in (1, 1, 2))
    np.testing.assert_array_equal(first.tpr, again.tpr)
    np.testing.assert_array_equal(first.auc, again.auc)
    assert (first.auc != other.auc).any()


@pytest.mark.parametrize("name", WORLDS)
def test_estimates_enclose_their_values_and_have_the_usual_names(name: str) -> None:
    sample = sample_of(name)
    drawn = bootstrap.replicates(sample, (0.001, 0.1), 100, rng=np.random.default_rng(8))
    found = bootstrap.estimates(sample, drawn, (0.001, 0.1), 0.95)
    assert set(found) == {"tpr_at_fpr_0.001", "tpr_at_fpr_0.1", "auc", "advantage", "balanced_accuracy", "ate"}
    assert found["tpr_at_fpr_0.001"].value is None
    assert found["tpr_at_fpr_0.001"].low == 0
    for metric, estimate in found.items():
        if estimate.value is not None and metric != "ate":
            assert 0 <= estimate.low <= estimate.value <= estimate.high <= 1

"""Influence of records: against the jackknife, closed forms and a paired bootstrap."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

import miaudit as ma
from miaudit.metrics import definition
from miaudit.metrics.classical import Sample, delong_variance
from miaudit.metrics.influence import Shared


def sample(score, member, unit=None):
    return Sample.of(ma.Evidence(score=score, member=member, unit=unit))


def drawn(seed, n=200, ties=0):
    """Scores with heavy tails, of which some are equal if ``ties`` levels are asked for."""
    rng = np.random.default_rng(seed)
    member = rng.random(n) < 0.4
    score = rng.standard_t(2.5, size=n) + 0.8 * member
    return (np.round(score * ties) / ties if ties else score), member


def same(n):
    return Shared(np.arange(n), np.arange(n), np.zeros(n, dtype=bool))


def left_out(name, score, member):
    """The estimate without each record in turn (the jackknife)."""
    rows = np.arange(len(score))
    return np.array(
        [definition.of(name).estimate(sample(score[rows != i], member[rows != i]), confidence=0.95).value for i in rows]
    )


@pytest.mark.parametrize("ties", [0, 1])
@pytest.mark.parametrize("name", ["auc", "ate"])
def test_the_influence_is_that_of_the_jackknife(name, ties):
    """Exactly: leaving a record of a class of n out moves the estimate by n / (n - 1) of its influence."""
    score, member = drawn(3, ties=ties)
    one = sample(score, member)
    value = definition.of(name).estimate(one, confidence=0.95).value
    size = np.where(member, member.sum(), (~member).sum())
    influence = definition.of(name).influence(one)
    np.testing.assert_allclose(value - left_out(name, score, member), influence * size / (size - 1), atol=1e-12)
    assert abs(influence.sum()) < 1e-12


@pytest.mark.parametrize("ties", [0, 1])
def test_the_influence_of_members_on_a_tpr_is_that_of_the_jackknife(ties):
    score, member = drawn(4, ties=ties)
    one, n1 = sample(score, member), np.count_nonzero(member)
    influence = one.influence_on_tpr(0.1)
    moved = float(one.roc.tpr_at(0.1)) - left_out("tpr_at_fpr_0.1", score, member)
    np.testing.assert_allclose(moved[member], influence[member] * n1 / (n1 - 1), atol=1e-12)
    assert abs(influence[member].sum()) < 1e-12 and abs(influence[~member].sum()) < 1e-12


@pytest.mark.parametrize(("fpr", "wide"), [(0.7, 1.0), (0.4, 0.8)])
def test_the_slope_of_the_curve_is_taken_between_half_the_rate_and_twice_it_and_at_most_1(fpr, wide):
    score, member = drawn(5, 61)
    one, n0 = sample(score, member), np.count_nonzero(~member)
    slope = float(one.roc.tpr_at(wide) - one.roc.tpr_at(fpr / 2)) / (wide - fpr / 2)
    assert slope > 0
    allowed = fpr * n0
    place = np.argsort(np.argsort(-score[~member]))  # from the highest down
    accused = np.clip(allowed - place, 0, 1)
    np.testing.assert_allclose(one.influence_on_tpr(fpr)[~member], -slope * (accused - fpr) / n0, atol=1e-12)


def test_the_influence_of_non_members_on_a_tpr_moves_the_threshold():
    """Closed form of the law of the estimate: its sum of squares is the variance of a TPR at an estimated threshold.

    Of Gaussian scores with a gap that is T(1 - T) / n1 + (slope of the curve)^2 a (1 - a) / n0, and so is the variance
    over samples. The slope is that of a chord, here 9% less than that of the tangent. Without the threshold's part, the
    control, the sum falls short by far.
    """
    gap, a, n = 1.5, 0.1, 4000
    tau = stats.norm.isf(a)
    tpr, slope = stats.norm.sf(tau - gap), stats.norm.pdf(tau - gap) / stats.norm.pdf(tau)
    chord = (stats.norm.sf(stats.norm.isf(2 * a) - gap) - stats.norm.sf(stats.norm.isf(a / 2) - gap)) / (1.5 * a)
    exact, stated = (tpr * (1 - tpr) / (n / 2) + k**2 * a * (1 - a) / (n / 2) for k in (slope, chord))
    assert chord == pytest.approx(0.91 * slope, rel=0.02)
    member = np.arange(n) % 2 == 0
    values, squares, inside = [], [], []
    for seed in range(400):
        one = sample(np.random.default_rng(seed).normal(size=n) + gap * member, member)
        influence = one.influence_on_tpr(a)
        values.append(float(one.roc.tpr_at(a)))
        squares.append(float(influence @ influence))
        inside.append(float(influence[member] @ influence[member]))
    assert np.mean(squares) == pytest.approx(stated, rel=0.03)
    assert np.var(values) == pytest.approx(exact, rel=0.2)  # of 400 samples: a standard error of 7%
    assert np.mean(inside) < 0.7 * exact


@pytest.mark.parametrize("ties", [0, 1])
def test_the_variance_of_the_auc_is_that_of_delong(ties):
    score, member = drawn(5, n=3000, ties=ties)
    one = sample(score, member)
    influence = one.influence_on_auc()
    assert influence @ influence == pytest.approx(delong_variance(one.roc), rel=2e-3)


def paired_bootstrap(name, first, second, member, other, unit, seed=0, replicates=600):
    """Correlation of both estimates over resamples of the units: the slow twin."""
    rng = np.random.default_rng(seed)
    rows_of = [np.flatnonzero(unit == u) for u in np.unique(unit)]
    estimate = definition.of(name).estimate
    pairs = []
    for _ in range(replicates):
        rows = np.concatenate([rows_of[k] for k in rng.integers(len(rows_of), size=len(rows_of))])
        pairs.append(
            [estimate(sample(s[rows], m[rows]), confidence=0.95).value for s, m in ((first, member), (second, other))]
        )
    return np.corrcoef(np.array(pairs).T)[0, 1]


@pytest.mark.thorough
@pytest.mark.parametrize("name", ["auc", "tpr_at_fpr_0.1", "ate"])
@pytest.mark.parametrize(("kind", "each"), [("same", 1), ("opposite", 1), ("same", 3), ("opposite", 3)])
def test_the_correlation_is_that_of_a_paired_bootstrap(name, kind, each):
    """Also of units with several records; ignoring them is the control."""
    rng = np.random.default_rng(7)
    n = 900
    unit = np.repeat(np.arange(n // each), each)
    hard = rng.standard_t(4, size=n // each)[unit]
    member = (rng.permutation(n // each) < n // each // 2)[unit]
    other = member if kind == "same" else ~member
    first, second = (hard + rng.normal(size=n) + 0.7 * m for m in (member, other))
    influence = definition.of(name).influence
    one, two = influence(sample(first, member)), influence(sample(second, other))
    found = Shared(unit, unit, np.zeros(n // each, dtype=bool)).correlation(one, two)
    truth = paired_bootstrap(name, first, second, member, other, unit)
    assert found == pytest.approx(truth, abs=0.12)
    assert np.sign(found) == (1 if kind == "same" else -1)
    if each > 1:
        assert abs(found) > abs(same(n).correlation(one, two)) + 0.05


def test_records_of_one_audit_only_have_no_part_in_the_other():
    """Closed form: of n independent records each, k of them shared with equal influence, the correlation is k / n."""
    rng = np.random.default_rng(0)
    n, k = 4000, 1000
    influence = rng.normal(size=2 * n - k)
    before, after = np.arange(n), np.arange(n - k, 2 * n - k)
    shared = Shared(before, after, np.zeros(2 * n - k, dtype=bool))
    assert shared.both == k
    assert shared.correlation(influence[before], influence[after]) == pytest.approx(k / n, abs=0.03)
    assert same(n).correlation(influence[before], influence[before]) == 1
    assert same(n).correlation(influence[before], -influence[before]) == -1


def test_what_cannot_be_told_apart_counts_as_opposed():
    influence = np.array([2.0, -1.0, -1.0])
    codes = np.array([0, 1, 1])
    ambiguous = Shared(codes, codes, np.array([False, True]))
    assert ambiguous.correlation(influence, influence) == pytest.approx((4 - 2) / 6)
    assert ambiguous.both == 1
    none = Shared(np.zeros(3, dtype=int), np.zeros(3, dtype=int), np.array([True]))
    assert none.correlation(influence, influence) == -1


@pytest.mark.parametrize(
    "score",
    [np.r_[np.zeros(50), np.ones(50)], np.zeros(100), np.r_[np.ones(50), np.zeros(50)]],
    ids=["separated", "constant", "inverted"],
)
def test_without_influence_the_errors_count_as_opposed(score):
    member = np.arange(100) >= 50
    influence = sample(score, member).influence_on_auc()
    assert same(100).correlation(influence, influence) == -1
    noisy = sample(score + np.random.default_rng(0).normal(size=100), member).influence_on_auc()
    assert same(100).correlation(noisy, influence) == same(100).correlation(influence, noisy) == -1
    assert same(100).correlation(noisy, noisy) == pytest.approx(1)  # control


def test_one_unit_that_holds_everything_leaves_nothing_known():
    score, member = drawn(6)
    one = sample(score, member).influence_on_auc()
    whole = Shared(np.zeros(len(one), dtype=int), np.zeros(len(one), dtype=int), np.zeros(1, dtype=bool))
    assert whole.correlation(one, one) == -1

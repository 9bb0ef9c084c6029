"""Limits against scipy, slow twins and closed forms; coverage is measured in test_coverage and tests/slow."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import special, stats

from miaudit import Evidence
from miaudit.metrics import classical
from miaudit.metrics.classical import Sample
from miaudit.metrics.roc import Roc
from worlds import twins
from worlds.scores import WORLDS


@pytest.mark.parametrize("trials", [1, 7, 100, 5000])
@pytest.mark.parametrize("confidence", [0.6, 0.95, 0.999])
def test_binomial_limits_agree_with_scipy(trials: int, confidence: float) -> None:
    for successes in sorted({0, 1, trials // 3, trials - 1, trials}):
        test = stats.binomtest(successes, trials)
        exact = test.proportion_ci(confidence, method="exact")
        assert classical.clopper_pearson(successes, trials, confidence) == pytest.approx(tuple(exact), abs=1e-10)
        wilson = test.proportion_ci(confidence, method="wilson")
        assert classical.wilson_limits(successes / trials, trials, confidence) == pytest.approx(
            tuple(wilson), abs=1e-10
        )


def test_student_limits_agree_with_scipy() -> None:
    low, high = stats.t.interval(0.9, 7, loc=3, scale=2)
    assert classical.student_limits(3, 2, 7, 0.9) == pytest.approx((low, high), rel=1e-10)


# -- the mixture ------------------------------------------------------------------------------------------------------


@pytest.mark.long
@pytest.mark.parametrize("name", WORLDS)
@pytest.mark.parametrize(("n1", "n0", "alpha"), [(60, 90, 0.1), (150, 80, 0.05), (40, 60, 0.3), (60, 90, 0.02)])
def test_limits_of_a_tpr_agree_with_the_definition(name: str, n1: int, n0: int, alpha: float) -> None:
    score, member = WORLDS[name].draw(n1, n0, np.random.default_rng(4))
    low, high = classical.tpr_limits(Roc.of(score, member), alpha, 0.95)
    assert (low[0], high[0]) == pytest.approx(twins.mixture_limits(score, member, alpha, 0.95), abs=1e-7)


def test_the_twin_notices_a_wrong_law() -> None:
    """Control: with another level, or without the half, the twin disagrees."""
    score, member = WORLDS["gaussian"].draw(60, 90, np.random.default_rng(4))
    low, high = classical.tpr_limits(Roc.of(score, member), 0.1, 0.95)
    other = twins.mixture_limits(score, member, 0.12, 0.95)
    assert abs(low[0] - other[0]) > 1e-3
    plain = stats.beta.ppf(0.025, 0.5 + float(Roc.of(score, member).tpr_at(0.1)) * 60, 0.5 + 60)
    assert abs(low[0] - plain) > 1e-2
    assert high[0] > low[0]


@pytest.mark.long
@settings(max_examples=200, deadline=None, derandomize=True)
@given(data=st.data())
def test_the_quantile_of_a_mixture_inverts_its_cdf(data: st.DataObject) -> None:
    trials = data.draw(st.integers(1, 100_000))
    hits = np.array(data.draw(st.lists(st.integers(0, trials), min_size=1, max_size=8)), dtype=float)
    raw = np.array(data.draw(st.lists(st.floats(1e-6, 1), min_size=len(hits), max_size=len(hits))))
    mass, level = raw / raw.sum(), data.draw(st.sampled_from([0.0005, 0.025, 0.5, 0.975, 0.9995]))
    for at_zero in (True, False):
        x = classical.beta_mixture_quantile(mass, hits, trials, level, at_zero=at_zero)
        assert 0 <= x <= 1

        def cdf(at: float, at_zero: bool = at_zero) -> float:
            parts = stats.beta.cdf(at, hits + 0.5, trials - hits + 0.5)
            pinned = np.where(hits <= 0, 1.0, parts) if at_zero else np.where(hits >= trials, 0.0, parts)
            return float(mass @ pinned)

        if x == 0.0:
            assert at_zero
            assert float(mass[hits == 0].sum()) >= level * (1 - 1e-12)
        elif x == 1.0:
            assert not at_zero
            assert 1 - float(mass[hits == trials].sum()) <= level * (1 + 1e-12)
        else:
            slack = 1e-8 * min(x, 1 - x) + 1e-14
            assert cdf(x - slack) - 1e-9 <= level <= cdf(min(x + slack, 1 - 1e-17)) + 1e-9


@pytest.mark.parametrize("level", [0.025, 0.5, 0.975])
@pytest.mark.parametrize("trials", [1, 40, 2000.5])
def test_the_quantile_of_a_mixture_is_that_of_scipys_laws(trials: float, level: float) -> None:
    mass, share = np.array([0.01, 0.2, 0.7, 0.08, 0.01]), np.array([0.0, 0.1, 0.4, 0.75, 1.0])
    hits = share * trials
    parts = [stats.beta(h + 0.5, trials - h + 0.5) for h in hits]

    def below(x: float, at_zero: bool) -> float:
        pinned = [1.0, *(one.cdf(x) for one in parts[1:])] if at_zero else [*(one.cdf(x) for one in parts[:-1]), 0.0]
        return float(mass @ pinned)

    for at_zero in (True, False):
        x = classical.beta_mixture_quantile(mass, hits, trials, level, at_zero=at_zero)
        assert below(x, at_zero) == pytest.approx(level, abs=1e-8)
    assert classical.beta_mixture_quantile(mass, hits, trials, 0.01, at_zero=True) == 0.0
    assert classical.beta_mixture_quantile(mass, hits, trials, 0.99, at_zero=False) == 1.0


@pytest.mark.parametrize("variance", [0.002, 0.0005, 0.05])
def test_limits_of_a_tpr_at_an_uncertain_level_by_their_definition(variance: float) -> None:
    """The level from a Beta law of mean 0.1 and that variance, cut off at one trial; hits as the curve has them."""
    roc = Roc.of(*WORLDS["gaussian"].draw(300, 400, np.random.default_rng(7)))
    trials = 150.0
    low, high = classical.tpr_limits_uncertain_level(roc, 0.1, 0.9, variance, trials)
    nu = max(0.1 * 0.9 / variance - 1, 1.0)
    level = stats.beta.ppf((np.arange(4000) + 0.5) / 4000, 0.1 * nu, 0.9 * nu)
    hits = np.mean(roc.hits_between(level * 400), axis=0) / 300 * trials

    def below(x: float, at_zero: bool) -> float:
        parts = special.betainc(hits + 0.5, trials - hits + 0.5, x)
        pinned = np.where(hits <= 0, 1.0, parts) if at_zero else np.where(hits >= trials, 0.0, parts)
        return float(pinned.mean())

    if low > 0:
        assert below(low, True) == pytest.approx(0.05, abs=2e-3)
    assert below(high, False) == pytest.approx(0.95, abs=2e-3)


@pytest.mark.parametrize(("n", "p"), [(5, 0.5), (300, 0.01), (100_000, 0.3)])
def test_nodes_hold_the_binomial_law(n: int, p: float) -> None:
    counts, mass = classical.binomial_nodes(n, p, 10**6)
    expected = stats.binom.pmf(counts, n, p)
    assert 1 - expected.sum() < 1e-8
    np.testing.assert_allclose(mass, expected / expected.sum(), rtol=1e-7)
    assert (counts[0] >= 0, counts[-1] <= n) == (True, True)
    strided, _ = classical.binomial_nodes(n, p, 50)
    assert len(strided) <= 100


def test_strides_change_nothing_that_matters() -> None:
    score, member = WORLDS["gaussian"].draw(50_000, 50_000, np.random.default_rng(5))
    roc = Roc.of(score, member)
    coarse = np.array(classical.tpr_limits(roc, (0.01, 0.1), 0.95))
    fine = np.array(classical.tpr_limits(roc, (0.01, 0.1), 0.95, most_nodes=1_000_000))
    assert np.abs(coarse - fine).max() < 2e-4
    assert (np.abs(coarse - fine).max(axis=0) < 0.02 * (fine[1] - fine[0])).all()


def test_wider_confidence_gives_wider_limits_and_more_records_narrower_ones() -> None:
    world = WORLDS["gaussian"]
    widths = []
    for n in (500, 2000, 8000):
        roc = Roc.of(*world.draw(n, n, np.random.default_rng(6)))
        limits = [classical.tpr_limits(roc, 0.05, c) for c in (0.8, 0.95, 0.99)]
        lows, highs = [low[0] for low, _ in limits], [high[0] for _, high in limits]
        assert lows == sorted(lows, reverse=True)
        assert highs == sorted(highs)
        widths.append(highs[1] - lows[1])
    assert widths == sorted(widths, reverse=True)


# -- resolution -------------------------------------------------------------------------------------------------------


def test_the_resolution_is_3690_nonmembers_for_a_tenth_of_a_percent() -> None:
    assert classical.resolution(0.95) == 3.69
    assert classical.nonmembers_needed(0.001, 0.95) == 3690
    # With fewer, the chance that no non-member at all lies above the true threshold is more than 2.5%.
    assert (1 - 0.001) ** 3690 < 0.025 < (1 - 0.001) ** 3680


@pytest.mark.parametrize("confidence", [0.8, 0.9, 0.95, 0.99])
def test_below_the_resolution_there_is_an_upper_limit_only(confidence: float) -> None:
    needed = classical.nonmembers_needed(0.01, confidence)
    assert needed == pytest.approx(-np.log((1 - confidence) / 2) / 0.01, abs=1.1)
    inside = 100 + np.arange(500.0)  # every member above every non-member
    for n0, resolved in ((needed - 1, False), (needed, True)):
        score = np.r_[inside, np.arange(n0) / n0]
        sample = Sample.of(Evidence(score=score, member=np.arange(len(score)) < 500))
        found = sample.tpr_at_fpr(0.01, confidence)
        assert found.resolved is resolved
        if resolved:
            assert found.value == 1.0
            assert found.low > 0.9
        else:
            assert found.value is None
            assert found.low == 0.0
            assert found.step_value is None
            assert f"needs {needed:,} non-members" in found.note
        assert found.high == 1.0


def test_the_resolution_of_units_counts_units() -> None:
    score = np.r_[np.zeros(100) + 5, np.linspace(0, 1, 4000)]
    unit = np.r_[np.arange(100), 100 + np.arange(4000) // 10]
    evidence = Evidence(score=score, member=np.arange(4100) < 100, unit=unit)
    found = Sample.of(evidence).tpr_at_fpr(0.001, 0.95)
    assert found.value is None
    assert "units of non-members" in found.note
    assert Sample.of(evidence.replace(unit=None)).tpr_at_fpr(0.001, 0.95).resolved  # control


# -- AUC --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", WORLDS)
def test_delong_agrees_with_the_matrix_of_pairs(name: str) -> None:
    score, member = WORLDS[name].draw(43, 61, np.random.default_rng(7))
    assert classical.delong_variance(Roc.of(score, member)) == pytest.approx(
        twins.delong_by_pairs(score, member), rel=1e-9, abs=1e-15
    )


def test_separated_scores_have_the_exact_limit() -> None:
    low, high = classical.auc_limits(1.0, 0.0, 50, 80, 0.95)
    assert (low, high) == (pytest.approx(0.025 ** (1 / 50)), 1.0)
    assert classical.auc_limits(0.0, 0.0, 50, 80, 0.95) == (0.0, pytest.approx(1 - 0.025 ** (1 / 50)))
    for confidence in (0.9, 0.99):
        assert classical.auc_limits(1.0, 0.0, 9, 7, confidence)[0] == pytest.approx(((1 - confidence) / 2) ** (1 / 7))


def test_the_exact_limit_is_attained() -> None:
    """A world that separates in exactly 2.5% of samples: a share p of non-members beats every member."""
    n, tail = 30, 0.025
    auc = tail ** (1 / n)  # every non-member lies below all members with probability auc, above all of them otherwise
    rng = np.random.default_rng(8)
    separated = float(np.mean((rng.random((200_000, n)) < auc).all(axis=1)))
    assert separated == pytest.approx(tail, abs=0.001)
    assert classical.auc_limits(1.0, 0.0, n, n, 0.95)[0] == pytest.approx(auc)


@pytest.mark.parametrize("shift", [0.0, 1.0])
@pytest.mark.parametrize("few", [2, 3, 5, 9, 20])
def test_few_records_of_a_class_do_not_know_their_own_variance(few: int, shift: float) -> None:
    """A few members among 500 non-members: the control, normal limits, is too sure of the variance of so few."""
    rng, audits = np.random.default_rng(few), 1500
    truth, missed, naive = float(stats.norm.cdf(shift / np.sqrt(2))), 0, 0
    member = np.arange(500 + few) < few
    for _ in range(audits):
        roc = Roc.of(rng.normal(size=500 + few) + shift * member, member)
        auc, variance = roc.auc, classical.delong_variance(roc)
        missed += classical.auc_limits(auc, variance, few, 500, 0.95)[0] > truth
        naive += classical.auc_limits(auc, variance, 1000, 1000, 0.95)[0] > truth
    assert missed <= 0.035 * audits
    assert naive > 0.035 * audits or few > 5


def test_logit_limits_are_the_delta_method() -> None:
    low, high = classical.auc_limits(0.9, 0.0004, 100, 100, 0.95)
    half = 1.959963984540054 * 0.02 / (0.9 * 0.1)
    assert np.log(high / (1 - high)) - np.log(9) == pytest.approx(half)
    assert np.log(9) - np.log(low / (1 - low)) == pytest.approx(half)


# -- advantage --------------------------------------------------------------------------------------------------------


def test_the_lower_limit_of_the_advantage_is_the_kolmogorov_quantile() -> None:
    score, member = WORLDS["near_perfect"].draw(400, 900, np.random.default_rng(9))
    roc = Roc.of(score, member)
    low, high = classical.advantage_limits(roc, 0.95)
    # scipy's asymptotic one-sided quantile: P(sqrt(mn / (m + n)) D+ > x) = exp(-2 x^2).
    x = np.sqrt(-np.log(0.025) / 2)
    assert roc.advantage - low == pytest.approx(x / np.sqrt(400 * 900 / 1300))
    exact = stats.ks_2samp(score[~member], score[member], alternative="greater", method="asymp").statistic
    assert roc.advantage == pytest.approx(exact)
    assert low < roc.advantage <= high <= 1


def test_the_kolmogorov_quantile_holds_for_small_samples_too() -> None:
    """The exact one-sided law of the statistic at the null, from scipy."""
    for n in (5, 20, 100):
        x = np.sqrt(np.log(1 / 0.025) / 2 * 2 / n)
        d = np.ceil(x * n - 1e-9) / n  # the smallest value that the statistic can take there
        first = np.arange(n, dtype=float)
        shifted = np.r_[first[: n - round(d * n)], first[n - round(d * n) :]] + 0.5 - round(d * n)
        found = stats.ks_2samp(shifted, first, alternative="greater", method="exact")
        assert found.statistic == pytest.approx(d)
        assert found.pvalue <= 0.025


def test_an_auc_of_0_is_one_of_1_turned_round() -> None:
    for confidence in (0.9, 0.99):
        low, high = classical.auc_limits(1.0, 0.0, 20, 50, confidence)
        assert (low, high) == (pytest.approx(((1 - confidence) / 2) ** (1 / 20)), 1.0)
        assert classical.auc_limits(0.0, 0.0, 20, 50, confidence) == (0.0, pytest.approx(1 - low))


@pytest.mark.parametrize(("members", "exact"), [(2, True), (9, True), (10, False), (29, False), (30, False)])
def test_limits_of_an_auc_of_few_records_by_their_definition(members: int, exact: bool) -> None:
    """Student's below thirty records of a class, and below ten at least Clopper and Pearson's."""
    auc, variance = 0.7, 0.0001
    quantile = stats.t.isf(0.025, members - 1) if members < 30 else stats.norm.isf(0.025)
    half = quantile * np.sqrt(variance) / (auc * (1 - auc))
    expected = special.expit(special.logit(auc) + np.array([-half, half]))
    if exact:
        wide = classical.clopper_pearson(auc * members, members, 0.95)
        expected = min(expected[0], wide[0]), max(expected[1], wide[1])
    assert classical.auc_limits(auc, variance, members, 50, 0.95) == pytest.approx(tuple(expected))
    assert classical.auc_limits(auc, variance, 50, members, 0.95) == pytest.approx(tuple(expected))


def test_one_record_or_no_variance_leaves_the_exact_slack() -> None:
    slack = 1 - 0.025 ** (1 / 8)
    assert classical.auc_limits(0.5, 0.0, 8, 90, 0.95) == pytest.approx((max(0.0, 0.5 - slack), min(1.0, 0.5 + slack)))
    assert classical.auc_limits(0.5, 0.01, 1, 90, 0.95) == (0.0, 1.0)


def test_the_smallest_rate_is_at_most_1() -> None:
    assert classical.smallest_fpr(3.69, 0.95) == 1.0
    assert classical.smallest_fpr(2, 0.95) == 1.0
    assert classical.smallest_fpr(7.38, 0.95) == 0.5


def test_what_separates_fully_is_never_bounded_below_1_from_above() -> None:
    score = np.r_[100 + np.arange(50.0), np.arange(30.0)]
    for fpr in (0.05, 0.4):  # not resolved, and resolved
        low, high = classical.tpr_limits(Roc.of(score, np.arange(80) < 50), fpr, 0.95)
        assert high[0] == 1.0
    assert low[0] > 0.9
    turned = classical.tpr_limits(Roc.of(-score, np.arange(80) < 50), 0.4, 0.95)
    assert turned[0][0] == 0.0
    assert turned[1][0] < 0.1


@pytest.mark.parametrize("fpr", [0.02, 0.1])
def test_limits_of_units_are_widened_for_the_few_that_are_accused(fpr: float) -> None:
    """The variance of the level: that of records at least, measured and widened by 2/sqrt(units), at most dependent."""
    rng = np.random.default_rng(8)
    unit = np.r_[np.repeat(np.arange(150), 2), 200 + rng.integers(0, 260, 600)]
    member = np.arange(900) < 300
    shift = np.r_[rng.normal(size=200), 0.3 * rng.normal(size=260)]
    score = rng.normal(size=900) + shift[unit] + member
    sample = Sample.of(Evidence(score=score, member=member, unit=unit))
    found = sample.tpr_at_fpr(fpr, 0.9)
    assert sample.units is not None
    assert found.resolved
    threshold = np.sort(score[~member])[::-1][round(fpr * 600) - 1]
    accused = score >= threshold
    code = np.unique(unit, return_inverse=True)[1]
    hits, sizes = np.bincount(code[accused & ~member]), np.bincount(code[~member], minlength=code.max() + 1)
    hits = np.r_[hits, np.zeros(len(sizes) - len(hits))]
    present = np.count_nonzero(sizes)
    measured = ((hits - hits.sum() / 600 * sizes) ** 2).sum() / 600**2 * present / (present - 1)
    widened = max(fpr * (1 - fpr) / 600, measured * (1 + 2 / np.sqrt(np.count_nonzero(hits))))
    variance = min(fpr * (1 - fpr) / sample.units.effective_nonmembers, widened)
    trials = sample.units.independent_trials(accused, members=True)
    expected = classical.tpr_limits_uncertain_level(sample.roc, fpr, 0.9, variance, trials)
    assert (found.low, found.high) == pytest.approx(expected)

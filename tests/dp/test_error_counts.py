"""Exact tests of error counts."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import integrate, stats

from dp.test_multi_run import LEVEL, bound, claim, exact_error
from miaudit.dp import error_counts, multi_run
from miaudit.dp.multi_run import ClopperPearson, Counts, Joint, Split
from miaudit.dp.tradeoff import EpsilonDelta, Gaussian, TradeOff
from miaudit.errors import InputError


@pytest.mark.long
def test_the_joint_test_uses_the_error_that_splitting_leaves() -> None:
    errors = {m: exact_error("mu", 0.0, m, 0.7, 14, 14) for m in (Joint(), ClopperPearson())}
    assert errors[Joint()] > 0.03
    assert errors[ClopperPearson()] < 0.02
    joint = [bound("mu", 0.0, Joint(), tp, 14, 2, 14) for tp in range(15)]
    split = [bound("mu", 0.0, ClopperPearson(), tp, 14, 2, 14) for tp in range(15)]
    assert all(a >= b for a, b in zip(joint, split, strict=True))
    assert joint[12] > split[12] + 0.15


@pytest.mark.long
@pytest.mark.parametrize("counts", [(9, 12, 2, 15), (12, 12, 0, 15), (11, 12, 7, 15), (1, 12, 0, 15)])
@pytest.mark.parametrize("weaker", [Gaussian(0.0), Gaussian(0.9), EpsilonDelta(0.8), EpsilonDelta(0.5, 0.1)])
def test_the_joint_p_value_is_that_of_its_definition(counts: tuple[int, int, int, int], weaker: TradeOff) -> None:
    """Slow twin: the extreme outcomes listed one by one, and a dense search of the plausible rates on the curve."""
    tp, n1, fp, n0 = counts
    family = error_counts.order_of(weaker)
    lax = stats.norm.sf(stats.norm.isf(LEVEL) / math.sqrt(2))

    def place(i: int, j: int) -> float:
        low = stats.beta.ppf(lax, i, n1 - i + 1) if i else 0.0
        high = stats.beta.isf(lax, j + 1, n0 - j) if j < n0 else 1.0
        return float(family.of_points(low, high))

    observed = place(tp, fp)
    found = multi_run.p_value(weaker, true_positives=tp, members=n1, false_positives=fp, nonmembers=n0)
    if observed <= 0:
        assert found == 1.0
        return
    extreme = [(i, j) for i in range(n1 + 1) for j in range(n0 + 1) if place(i, j) >= observed - 1e-12]
    fpr = np.linspace(1e-6, 1 - 1e-6, 20_001)
    fpr = np.append(fpr, (1 - getattr(weaker, "delta", 0)) / (1 + math.exp(getattr(weaker, "epsilon", 0))))
    lows, highs = (stats.beta.ppf(2.5e-7, [tp, max(fp, 1e-300)], [n1 - tp + 1, n0 - fp + 1]), [1.0, 1.0])
    if tp < n1:
        highs[0] = stats.beta.isf(2.5e-7, tp + 1, n1 - tp)
    highs[1] = stats.beta.isf(2.5e-7, fp + 1, n0 - fp)
    tpr = weaker.tpr_at_fpr(fpr)
    plausible = (fpr >= lows[1]) & (fpr <= highs[1]) & (tpr >= lows[0])
    fpr, tpr = fpr[plausible], np.minimum(tpr[plausible], highs[0])
    if not len(fpr):
        assert found == 1e-6
        return
    truth = max(sum(stats.binom.pmf(i, n1, tpr) * stats.binom.pmf(j, n0, fpr) for i, j in extreme))
    assert found == pytest.approx(truth + 1e-6, rel=2e-4)


@pytest.mark.parametrize(("parameter", "delta"), [("epsilon", 0.0), ("epsilon", 1e-3), ("mu", 0.0)])
def test_a_bound_is_where_its_p_value_meets_the_error(parameter: str, delta: float) -> None:
    for method in (Joint(), ClopperPearson()):
        value = bound(parameter, delta, method, 70, 100, 20, 110)
        counts = {"true_positives": 70, "members": 100, "false_positives": 20, "nonmembers": 110, "method": method}
        assert multi_run.p_value(claim(parameter, value - 1e-6, delta), **counts) <= LEVEL
        assert multi_run.p_value(claim(parameter, value + 1e-4, delta), **counts) > LEVEL


def test_clopper_pearson_by_hand() -> None:
    low = stats.binomtest(70, 100).proportion_ci(0.95, method="exact").low
    high = stats.binomtest(20, 110).proportion_ci(0.95, method="exact").high
    delta = 0.01
    by_hand = max(math.log((low - delta) / high), math.log((1 - high - delta) / (1 - low)))
    assert bound("epsilon", delta, ClopperPearson(), 70, 100, 20, 110) == pytest.approx(by_hand, rel=1e-9)
    by_hand = stats.norm.ppf(low) - stats.norm.ppf(high)
    assert bound("mu", 0.0, ClopperPearson(), 70, 100, 20, 110) == pytest.approx(by_hand, rel=1e-9)


def test_the_rank_test_is_an_average_over_a_beta_law() -> None:
    counts = Counts(60, 100, 7, 80)
    order = error_counts.Family("mu")
    test = error_counts.rank_test(Joint(), counts, order, 0.01)
    for weaker in (Gaussian(0.5), Gaussian(1.5), EpsilonDelta(1.0, 0.01), EpsilonDelta(4.0)):

        def integrand(a: float, weaker: TradeOff = weaker) -> float:
            return float(stats.beta.pdf(a, 8, 73) * stats.binom.sf(59, 100, weaker.tpr_at_fpr(a)))

        truth, _ = integrate.quad(integrand, 0, 1, points=[0.02, 0.05, 0.1, 0.2, 0.4], limit=500, epsabs=1e-13)
        assert test.p_value(weaker) == pytest.approx(truth, rel=1e-5, abs=1e-12)


def test_ranks_are_exact_where_nothing_leaks() -> None:
    """Under the null the members above a rank follow the negative hypergeometric law: P(p <= level) is known."""
    n1, n0, j = 40, 50, 4
    tp = np.arange(n1 + 1)
    mass = stats.nhypergeom(n1 + n0, n1, j + 1).pmf(tp)  # members seen before the (j + 1)-th non-member
    ps = [error_counts.rank_test(Joint(), Counts(int(k), n1, j, n0), error_counts.Family("mu"), 0.05) for k in tp]
    p = np.array([test.p_value(Gaussian(0.0)) for test in ps])
    for level in (0.01, 0.05, 0.2):
        assert mass[p <= level].sum() <= level + 1e-9
    np.testing.assert_allclose(p, np.cumsum(mass[::-1])[::-1], rtol=1e-6, atol=2e-15)


@pytest.mark.parametrize(
    "changes",
    [
        {"true_positives": 11},
        {"true_positives": -1},
        {"members": 0},
        {"false_positives": 2.5},
        {"nonmembers": math.nan},
        {"members": "10"},
        {"delta": 1.0},
        {"confidence": 95},
        {"method": "exact"},
        {"threshold": Split()},
        {"true_positives": None},
    ],
)
def test_bad_counts_and_options_are_refused(changes) -> None:
    good = {"true_positives": 8, "members": 10, "false_positives": 2, "nonmembers": 10}
    with pytest.raises(InputError):
        multi_run.epsilon_lower_bound(**{**good, **changes})


@pytest.mark.parametrize(
    "family", [error_counts.Family("mu"), error_counts.Family("epsilon", 0.0), error_counts.Family("epsilon", 0.05)]
)
def test_points_lie_on_the_curve_of_their_parameter(family: error_counts.Family) -> None:
    tpr, fpr = np.array([0.9, 0.5, 0.3, 0.97, 0.2]), np.array([0.2, 0.1, 0.05, 0.6, 0.1])
    found = family.of_points(tpr, fpr)
    for value, t, a in zip(found, tpr, fpr, strict=True):
        assert value > 0
        assert float(family.claim(value).tpr_at_fpr(a)) == pytest.approx(t)
        assert family.of_point(t, a) == pytest.approx(value)
    assert (family.of_points(np.array([0.3]), np.array([0.3]))[0] > 0) is np.False_

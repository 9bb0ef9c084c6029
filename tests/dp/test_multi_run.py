"""Bounds from many runs: exact coverage by enumeration, slow twins, and what is refused."""

from __future__ import annotations

import math
from functools import cache

import numpy as np
import pytest
from scipy import integrate, optimize, stats

from miaudit import Evidence
from miaudit.dp import error_counts, multi_run
from miaudit.dp.multi_run import Bonferroni, ClopperPearson, Counts, Exploratory, Joint, Method, Split, Threshold
from miaudit.dp.tradeoff import EpsilonDelta, Gaussian, TradeOff
from miaudit.errors import DesignError, InputError
from worlds.multi_run import WORLDS, audits

LEVEL = 0.05


@cache
def bound(parameter: str, delta: float, method: Method, tp: int, n1: int, fp: int, n0: int) -> float:
    counts = {"true_positives": tp, "members": n1, "false_positives": fp, "nonmembers": n0, "method": method}
    if parameter == "mu":
        return multi_run.mu_lower_bound(**counts).value
    return multi_run.epsilon_lower_bound(delta=delta, **counts).value


def claim(parameter: str, value: float, delta: float) -> TradeOff:
    return Gaussian(value) if parameter == "mu" else EpsilonDelta(value, delta)


def exact_error(parameter: str, delta: float, method: Method, value: float, n1: int, n0: int) -> float:
    """Largest probability over the claim's curve that a bound exceeds the truth, summed over all outcomes."""
    above = np.array(
        [[bound(parameter, delta, method, tp, n1, fp, n0) > value for fp in range(n0 + 1)] for tp in range(n1 + 1)]
    )
    fpr = np.linspace(0, 1, 801)
    tpr = claim(parameter, value, delta).tpr_at_fpr(fpr)
    p = stats.binom.pmf(np.arange(n1 + 1)[None, :], n1, tpr[:, None])
    q = stats.binom.pmf(np.arange(n0 + 1)[None, :], n0, fpr[:, None])
    return float(np.max(np.einsum("ri,ij,rj->r", p, above, q)))


@pytest.mark.parametrize(("n1", "n0"), [(14, 14), (6, 20), (1, 1)])
@pytest.mark.parametrize(("parameter", "delta"), [("epsilon", 0.0), ("epsilon", 0.1), ("mu", 0.0)])
@pytest.mark.parametrize("method", [Joint(), ClopperPearson()], ids=["joint", "clopper-pearson"])
def test_no_mechanism_makes_a_bound_fail_too_often(
    method: Method, parameter: str, delta: float, n1: int, n0: int
) -> None:
    """Every outcome is enumerated: no simulation error, and rates on the whole curve of each claim."""
    for value in (0.0, 0.2, 0.7, 1.3, 2.5):
        assert exact_error(parameter, delta, method, value, n1, n0) <= LEVEL + 1e-9, value


def test_the_joint_test_uses_the_error_that_splitting_leaves() -> None:
    errors = {m: exact_error("mu", 0.0, m, 0.7, 14, 14) for m in (Joint(), ClopperPearson())}
    assert errors[Joint()] > 0.03
    assert errors[ClopperPearson()] < 0.02
    joint = [bound("mu", 0.0, Joint(), tp, 14, 2, 14) for tp in range(15)]
    split = [bound("mu", 0.0, ClopperPearson(), tp, 14, 2, 14) for tp in range(15)]
    assert all(a >= b for a, b in zip(joint, split, strict=True))
    assert joint[12] > split[12] + 0.15


def test_a_bound_that_pays_half_fails() -> None:
    """Control: limits that each take the whole error, instead of half of it, exceed the truth too often."""

    def careless(tp: int, fp: int, n: int) -> float:
        low, high = error_counts.limits(Counts(tp, n, fp, n), 0.2)
        return float(error_counts.Family("mu").of_points(low, high))

    n, fpr = 30, 0.3
    above = np.array([[careless(tp, fp, n) > 0.7 for fp in range(n + 1)] for tp in range(n + 1)])
    p = stats.binom.pmf(np.arange(n + 1), n, Gaussian(0.7).tpr_at_fpr(fpr))
    assert float(p @ above @ stats.binom.pmf(np.arange(n + 1), n, fpr)) > LEVEL


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


def test_both_directions_of_the_claim_count() -> None:
    """An attack that recognises some non-members for certain leaks as much as one that recognises members."""
    for method in (Joint(), ClopperPearson()):
        members = bound("epsilon", 0.0, method, 40, 100, 1, 100)
        nonmembers = bound("epsilon", 0.0, method, 99, 100, 60, 100)
        assert members == pytest.approx(nonmembers, rel=1e-3)
        assert members > 1


def test_the_best_possible_attack_reaches_what_an_exact_test_can() -> None:
    """With no error at all the joint test is the binomial one: g(a)^n (1 - a)^n = error, at the worst a."""
    found = multi_run.epsilon_lower_bound(true_positives=50, members=50, false_positives=0, nonmembers=50)
    fpr = np.linspace(0, 0.2, 200_001)
    by_hand = optimize.brentq(
        lambda e: np.max((EpsilonDelta(e).tpr_at_fpr(fpr) * (1 - fpr)) ** 50) - (LEVEL - 1e-6), 0.1, 10
    )
    assert found.value == pytest.approx(by_hand, abs=1e-4)
    assert found.reachable == pytest.approx(found.value)
    assert found.p_value is not None
    assert found.p_value < 1e-5
    assert (found.correct, found.guesses, found.canaries) == (100, 100, 100)


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


def evidence(design: str | None = "multi-run", **fields) -> Evidence:
    rng = np.random.default_rng(3)
    member = np.arange(400) < 200
    return Evidence(score=rng.normal(size=400) + 2 * member, member=member, design=design, **fields)


@pytest.mark.parametrize(
    "rule", [Threshold(1.0), Split(), Split(0.2), Bonferroni(), Bonferroni((0.99,)), Exploratory()]
)
@pytest.mark.parametrize("method", [Joint(), ClopperPearson()])
def test_every_rule_gives_a_sound_record(rule, method: Method) -> None:
    for found in (
        multi_run.epsilon_lower_bound(
            evidence(), delta=1e-3, threshold=rule, method=method, rng=np.random.default_rng(0)
        ),
        multi_run.mu_lower_bound(evidence(), threshold=rule, method=method, rng=np.random.default_rng(0)),
    ):
        assert 0 < found.value <= found.reachable < math.inf
        assert found.exploratory == isinstance(rule, Exploratory)
        assert 0 < found.p_value < 0.01
        assert found.assumptions
        assert found.corrections or isinstance(rule, Threshold)


def test_the_same_seed_gives_the_same_bound_and_the_order_of_records_does_not_matter() -> None:
    ev = evidence()
    one, two = (multi_run.mu_lower_bound(ev, rng=np.random.default_rng(5)) for _ in range(2))
    assert one == two
    shuffled = ev.take(np.random.default_rng(1).permutation(ev.n))
    assert multi_run.mu_lower_bound(shuffled, rng=np.random.default_rng(9)).value == pytest.approx(one.value)


@pytest.mark.parametrize("name", ["nothing leaks", "Laplace"])
def test_unpaid_choice_of_the_threshold_fails(name: str) -> None:
    """Control (erratum B19): the uncorrected maximum over thresholds claims too much in far more than 5% of audits."""
    world = WORLDS[name]
    found = audits(world, "epsilon", Exploratory(), Joint(), n=60, replicates=150, seed=4)
    assert np.mean(found > world.epsilon) > 0.15
    paid = audits(world, "epsilon", Bonferroni(), Joint(), n=60, replicates=150, seed=4)
    assert np.mean(paid > world.epsilon) <= 0.05 + 3 * math.sqrt(0.05 * 0.95 / 150)


@pytest.mark.parametrize(
    ("design", "said"), [("one-run", "dp.one_run"), ("zero-run", "dp.zero_run"), (None, "declare the design")]
)
def test_other_designs_are_refused(design: str | None, said: str) -> None:
    for ask in (multi_run.epsilon_lower_bound, multi_run.mu_lower_bound):
        with pytest.raises(DesignError, match=said):
            ask(evidence(design), rng=np.random.default_rng(0))


def test_one_record_of_each_unit_counts() -> None:
    unit = np.repeat(np.arange(100), 4)
    found = multi_run.mu_lower_bound(evidence(unit=unit), rng=np.random.default_rng(0))
    assert found.canaries == 100
    assert any("100 units" in text for text in found.corrections)
    alone = multi_run.mu_lower_bound(evidence(), rng=np.random.default_rng(0))
    assert found.value < alone.value
    copies = Evidence(
        score=np.repeat([0.0, 1.0, 0.0, 1.0], 50),
        member=np.repeat([True, True, False, False], 50),
        unit=np.repeat(np.arange(4), 50),
        design="multi-run",
    )
    assert multi_run.mu_lower_bound(copies, rng=np.random.default_rng(0)).value == 0


@pytest.mark.parametrize(
    "scores",
    [([0.0] * 50, [0.0] * 50), ([1.0], [0.0]), ([1.0] * 50, [0.0] * 50), ([0.0] * 50, [1.0] * 50), ([1.0, 0.0], [0.0])],
)
@pytest.mark.parametrize("rule", [Bonferroni(), Split(), Threshold(0.5), Exploratory()])
def test_tied_perfect_and_tiny_evidence(scores, rule) -> None:
    ev = Evidence.from_pair(*scores, design="multi-run")
    if isinstance(rule, Split) and min(ev.n_members, ev.n_nonmembers) < 2:
        with pytest.raises(InputError, match="split"):
            multi_run.mu_lower_bound(ev, threshold=rule, rng=np.random.default_rng(0))
        return
    for method in (Joint(), ClopperPearson()):
        found = multi_run.epsilon_lower_bound(ev, threshold=rule, method=method, rng=np.random.default_rng(0))
        assert 0 <= found.value < math.inf
        if scores == ([1.0] * 50, [0.0] * 50):
            assert found.value > 0.8
        else:
            assert found.value == 0


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


@pytest.mark.parametrize("rule", ["split", 0.5, Split])
def test_unknown_rules_are_refused(rule) -> None:
    with pytest.raises(InputError, match="Bonferroni"):
        multi_run.mu_lower_bound(evidence(), threshold=rule, rng=np.random.default_rng(0))


def test_options_check_themselves() -> None:
    for make in (
        lambda: Split(0.0),
        lambda: Split(True),
        lambda: Bonferroni(()),
        lambda: Bonferroni((1.5,)),
        lambda: Threshold(math.nan),
    ):
        with pytest.raises(InputError):
            make()
    with pytest.raises(InputError, match="rng"):
        multi_run.mu_lower_bound(evidence())
    with pytest.raises(InputError, match="both"):
        multi_run.mu_lower_bound(evidence(), members=3, rng=np.random.default_rng(0))


@pytest.mark.parametrize("confidence", [1 - 1e-9, 1 - 1e-12, 1 - 1e-15])
def test_confidences_next_to_one_have_bounds_too(confidence: float) -> None:
    counts = {"true_positives": 90, "members": 100, "false_positives": 1, "nonmembers": 100}
    sure = multi_run.epsilon_lower_bound(**counts, confidence=confidence).value  # type: ignore[arg-type]
    usual = multi_run.epsilon_lower_bound(**counts).value  # type: ignore[arg-type]
    assert 0 < sure < usual

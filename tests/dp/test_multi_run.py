"""Bounds from many runs: exact coverage by enumeration, slow twins, and what is refused."""

from __future__ import annotations

import math
from functools import cache

import numpy as np
import pytest
from scipy import optimize, stats

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


@pytest.mark.long
@pytest.mark.parametrize(("n1", "n0"), [(14, 14), (6, 20), (1, 1)])
@pytest.mark.parametrize(("parameter", "delta"), [("epsilon", 0.0), ("epsilon", 0.1), ("mu", 0.0)])
@pytest.mark.parametrize("method", [Joint(), ClopperPearson()], ids=["joint", "clopper-pearson"])
def test_no_mechanism_makes_a_bound_fail_too_often(
    method: Method, parameter: str, delta: float, n1: int, n0: int
) -> None:
    """Every outcome is enumerated: no simulation error, and rates on the whole curve of each claim."""
    for value in (0.0, 0.2, 0.7, 1.3, 2.5):
        assert exact_error(parameter, delta, method, value, n1, n0) <= LEVEL + 1e-9, value


def test_a_bound_that_pays_half_fails() -> None:
    """Control: limits that each take the whole error, instead of half of it, exceed the truth too often."""

    def careless(tp: int, fp: int, n: int) -> float:
        low, high = error_counts.limits(Counts(tp, n, fp, n), 0.2)
        return float(error_counts.Family("mu").of_points(low, high))

    n, fpr = 30, 0.3
    above = np.array([[careless(tp, fp, n) > 0.7 for fp in range(n + 1)] for tp in range(n + 1)])
    p = stats.binom.pmf(np.arange(n + 1), n, Gaussian(0.7).tpr_at_fpr(fpr))
    assert float(p @ above @ stats.binom.pmf(np.arange(n + 1), n, fpr)) > LEVEL


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


@pytest.mark.parametrize(("n1", "n0"), [(60, 90), (90, 60)])
@pytest.mark.parametrize("digits", [8, 0])
def test_the_chosen_threshold_is_the_best_of_all_by_smoothed_rates(n1: int, n0: int, digits: int) -> None:
    """Every threshold by brute force: the parameter at the limits of both rates, at the lax level of the joint test."""
    rng = np.random.default_rng(11)
    score = np.round(np.r_[rng.normal(size=n1) + 1.2, rng.normal(size=n0)], digits)
    inside, outside = score[:n1], score[n1:]
    lax = stats.norm.cdf(stats.norm.ppf(LEVEL) / math.sqrt(2))
    tried = []
    for at in np.unique(inside):
        true, false = np.count_nonzero(inside >= at), np.count_nonzero(outside >= at)
        hits, alarms = (true + 0.5) / (n1 + 1) * n1, (false + 0.5) / (n0 + 1) * n0
        low = stats.beta.ppf(lax, hits, n1 - hits + 1)
        high = stats.beta.isf(lax, alarms + 1, n0 - alarms)
        tried.append((stats.norm.ppf(low) - stats.norm.ppf(high), true, false))
    _, true, false = max(tried)
    ev = Evidence(score=score, member=np.arange(n1 + n0) < n1, design="multi-run")
    found = multi_run.mu_lower_bound(ev, threshold=Exploratory(), rng=np.random.default_rng(0))
    assert found.correct == true + n0 - false
    assert found.value == bound("mu", 0.0, Joint(), true, n1, false, n0)


def test_the_same_seed_gives_the_same_bound_and_the_order_of_records_does_not_matter() -> None:
    ev = evidence()
    one, two = (multi_run.mu_lower_bound(ev, rng=np.random.default_rng(5)) for _ in range(2))
    assert one == two
    shuffled = ev.take(np.random.default_rng(1).permutation(ev.n))
    assert multi_run.mu_lower_bound(shuffled, rng=np.random.default_rng(9)).value == pytest.approx(one.value)


@pytest.mark.thorough
@pytest.mark.long
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

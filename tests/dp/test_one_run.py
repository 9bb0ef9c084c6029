from __future__ import annotations

import math
import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from dp import one_run_twins as twins
from miaudit import Evidence
from miaudit.dp import one_run, selection
from miaudit.dp.ranking import Ranking
from miaudit.dp.schedule import gaussian_accuracy
from miaudit.dp.selection import Bonferroni, Exploratory, Fixed, Hedged, Pilot, Schedule
from miaudit.dp.tradeoff import Custom, EpsilonDelta, Gaussian
from miaudit.errors import DesignError, InputError

COUNTS = [(416, 500, 10_000), (20, 20, 1_000), (30, 40, 40), (6, 10, 100), (97, 100, 100), (160, 300, 1_000), (1, 1, 1)]


def mu_of(c: int, r: int, m: int, confidence: float = 0.975) -> float:
    return one_run.mu_lower_bound(correct=c, guesses=r, canaries=m, confidence=confidence).value


def epsilon_of(c: int, r: int, m: int, delta: float = 0.0, confidence: float = 0.95) -> float:
    return one_run.epsilon_lower_bound(correct=c, guesses=r, canaries=m, delta=delta, confidence=confidence).value


# -- second truths ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("c", "r", "m"), COUNTS)
@pytest.mark.parametrize("level", [0.025, 0.3])
def test_mu_equals_the_plain_recursion(c: int, r: int, m: int, level: float) -> None:
    plain = twins.last_rejected(lambda mu: twins.f_dp_rejects(twins.quick_gaussian_inverse(mu), c, r, m, level))
    assert mu_of(c, r, m, 1 - level) == pytest.approx(plain, abs=1e-6)


@pytest.mark.parametrize(("c", "r", "m"), COUNTS)
@pytest.mark.parametrize("delta", [0.0, 1e-5, 1e-3])
def test_epsilon_equals_the_plain_convolution(c: int, r: int, m: int, delta: float) -> None:
    for epsilon in (0.0, 0.3, 2.0, 9.0):
        found = one_run.epsilon_p_value(epsilon, correct=c, guesses=r, canaries=m, delta=delta)
        assert found == pytest.approx(twins.steinke_p_value(epsilon, c, r, m, delta), rel=1e-9, abs=1e-290)
    plain = twins.last_rejected(lambda e: twins.steinke_p_value(e, c, r, m, delta) <= 0.05)
    assert epsilon_of(c, r, m, delta) == pytest.approx(plain, abs=1e-6)


@pytest.mark.long
@given(st.data())
@settings(max_examples=150, deadline=None, derandomize=True)
def test_any_count_gives_what_the_plain_forms_give(data: st.DataObject) -> None:
    m = data.draw(st.integers(1, 60))
    r = data.draw(st.integers(1, m))
    c = data.draw(st.integers(0, r))
    level = data.draw(st.floats(0.001, 0.9))
    parameter = data.draw(st.floats(0, 4))
    found = one_run.rejects(parameter, correct=c, guesses=r, canaries=m, level=level)
    # Within rounding of the boundary the two may differ; a hair to either side they may not.
    near = {
        twins.f_dp_rejects(twins.gaussian_inverse(parameter), c, r, m, level * step) for step in (1 - 1e-9, 1 + 1e-9)
    }
    assert found in near
    delta = data.draw(st.sampled_from([0.0, 1e-3, 0.2]))
    p = one_run.epsilon_p_value(parameter, correct=c, guesses=r, canaries=m, delta=delta)
    assert p == pytest.approx(twins.steinke_p_value(parameter, c, r, m, delta), rel=1e-9, abs=1e-12)


def test_pure_epsilon_is_the_exact_binomial_limit() -> None:
    limit = stats.binomtest(90, 100, alternative="greater").proportion_ci(0.95, method="exact").low
    assert epsilon_of(90, 100, 1_000) == pytest.approx(math.log(limit / (1 - limit)), abs=1e-6)
    assert epsilon_of(90, 100, 10**6) == epsilon_of(90, 100, 1_000)  # without delta, silent records cost nothing


@pytest.mark.parametrize(("epsilon", "delta"), [(1.0, 0.0), (0.5, 1e-3), (3.0, 0.05)])
def test_a_trade_off_function_of_the_library_agrees_with_the_formula(epsilon: float, delta: float) -> None:
    for c in (60, 75, 90, 100):
        plain = twins.f_dp_rejects(twins.epsilon_delta_inverse(epsilon, delta), c, 100, 400, 0.05)
        assert one_run.rejects(EpsilonDelta(epsilon, delta), correct=c, guesses=100, canaries=400, level=0.05) == plain


@pytest.mark.long
def test_mu_as_a_number_as_a_trade_off_function_and_as_a_users_function_agree() -> None:
    counts = {"correct": 416, "guesses": 500, "canaries": 10_000}
    own = Custom(lambda a: stats.norm.cdf(stats.norm.ppf(1 - np.asarray(a)) - 0.43))
    for level in (0.02, 0.03):
        assert one_run.rejects(Gaussian(0.43), level=level, **counts) == one_run.rejects(0.43, level=level, **counts)
    assert one_run.p_value(own, **counts) == pytest.approx(one_run.p_value(0.43, **counts), rel=1e-3)
    family = one_run.lower_bound(Gaussian, parameter="mu", confidence=0.975, **counts)
    assert family.value == pytest.approx(mu_of(416, 500, 10_000), abs=1e-6)
    assert family.p_value == pytest.approx(one_run.p_value(0.0, **counts), rel=1e-6)


def test_the_p_value_of_silence_is_the_smallest_rejected_level() -> None:
    for c, r, m in COUNTS:
        p = one_run.p_value(0.0, correct=c, guesses=r, canaries=m)
        if p < 1:
            assert twins.f_dp_rejects(lambda y: y, c, r, m, min(1.0, p * (1 + 1e-9)))
        assert not twins.f_dp_rejects(lambda y: y, c, r, m, p * (1 - 1e-9))
        assert p >= stats.binom.sf(c - 1, r, 0.5) * (1 - 1e-9)  # at mu = 0 the count is exactly binomial
    assert one_run.p_value(0.0, correct=10_000, guesses=10_000, canaries=10_000) == 1e-300  # below it: 2^-10000


def test_the_p_value_is_where_rejection_starts() -> None:
    counts = {"correct": 80, "guesses": 100, "canaries": 1_000}
    for tradeoff in (0.3, EpsilonDelta(0.7, 1e-4)):
        p = one_run.p_value(tradeoff, **counts)
        assert one_run.rejects(tradeoff, level=p, **counts)
        assert not one_run.rejects(tradeoff, level=p * (1 - 1e-6), **counts)


@pytest.mark.parametrize(
    ("c", "r", "m", "delta", "level", "steinke", "f_dp"),
    [
        (800, 1_000, 10_000, 1e-5, 0.05, 1.2507917769, 1.7119094013),
        (416, 500, 10_000, 1e-5, 0.025, 1.3502155656, 1.7137668802),
        (97, 100, 1_000, 1e-4, 0.05, 2.3954924285, 3.3455867815),
        (100, 100, 100, 1e-3, 0.05, 3.2023036590, 6.1486320401),
    ],
)
def test_an_independent_tool_gives_the_same_bounds(
    c: int, r: int, m: int, delta: float, level: float, steinke: float, f_dp: float
) -> None:
    """Values of jax-privacy 2.0.0, whose f-DP bound is an epsilon: delta(epsilon) of a Gaussian mechanism."""
    assert epsilon_of(c, r, m, delta, 1 - level) == pytest.approx(steinke, abs=1e-5)
    assert Gaussian(mu_of(c, r, m, 1 - level)).epsilon_at(delta) == pytest.approx(f_dp, abs=1e-5)


# -- the linear program -----------------------------------------------------------------------------------------------


# -- published and derived figures ------------------------------------------------------------------------------------


def test_the_example_counts_of_section_10() -> None:
    assert mu_of(416, 500, 10_000) == pytest.approx(0.4366, abs=5e-5)


def mean_mu(mu: float, guesses: int) -> float:
    """Mean bound of a perfect attack on mu-GDP among 10,000 records, over 2,000 binomial counts."""
    draws = np.random.default_rng(0).binomial(guesses, gaussian_accuracy(mu, guesses / 10_000), 2_000)
    return float(np.mean([mu_of(int(c), guesses, 10_000) for c in draws]))


@pytest.mark.long
@pytest.mark.parametrize(
    ("mu", "guesses", "printed", "within"),
    [
        (0.66, 10_000, 0.20, 0.01),
        (0.66, 500, 0.43, 0.015),
        (0.66, 25, 0.26, 0.03),
        (1.0, 500, 0.71, 0.03),
        (2.0, 1_000, 1.37, 0.015),
        (3.0, 2_000, 1.92, 0.015),
    ],
)
def test_what_a_perfect_gaussian_attack_can_show(mu: float, guesses: int, printed: float, within: float) -> None:
    """Erratum B10; a control: an attack on a mu that is a fifth smaller shows less than that."""
    assert mean_mu(mu, guesses) == pytest.approx(printed, abs=within)
    assert mean_mu(0.8 * mu, guesses) < printed - within


def test_gaussian_accuracy_by_simulation() -> None:
    rng = np.random.default_rng(0)
    sign = rng.choice([-1, 1], 400_000)
    statistic = rng.normal(sign * 0.33)
    surest = np.argsort(-np.abs(statistic))[:20_000]
    assert np.mean(np.sign(statistic[surest]) == sign[surest]) == pytest.approx(
        gaussian_accuracy(0.66, 0.05), abs=0.009
    )


# -- laws -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("c", "r", "m"), COUNTS)
def test_the_value_itself_is_rejected_and_a_little_more_is_not(c: int, r: int, m: int) -> None:
    mu, epsilon = mu_of(c, r, m), epsilon_of(c, r, m, 1e-5)
    counts = {"correct": c, "guesses": r, "canaries": m}
    if mu > 0:
        assert one_run.rejects(mu, level=0.025, **counts)
    assert not one_run.rejects(mu + 1e-6, level=0.025, **counts)
    if epsilon > 0:
        assert one_run.epsilon_p_value(epsilon, delta=1e-5, **counts) <= 0.05
    assert one_run.epsilon_p_value(epsilon + 1e-6, delta=1e-5, **counts) > 0.05


def test_bounds_rise_with_correct_guesses_and_fall_with_confidence_and_delta() -> None:
    by_count = [mu_of(c, 200, 2_000) for c in range(0, 201, 10)]
    assert by_count == sorted(by_count) and by_count[0] == 0 < by_count[-1]
    by_delta = [epsilon_of(90, 100, 1_000, delta) for delta in (0.0, 1e-6, 1e-4, 1e-3, 0.1)]
    assert by_delta == sorted(by_delta, reverse=True) and by_delta[-1] == 0
    by_confidence = [mu_of(90, 100, 1_000, confidence) for confidence in (0.5, 0.9, 0.99, 0.9999)]
    assert by_confidence == sorted(by_confidence, reverse=True)


@pytest.mark.parametrize(
    ("c", "r", "m"), [(0, 1, 1), (1, 1, 1), (0, 50, 50), (25, 50, 50), (50, 50, 50), (0, 10, 10**6)]
)
def test_tiny_perfect_and_hopeless_counts(c: int, r: int, m: int) -> None:
    for bound in (
        one_run.mu_lower_bound(correct=c, guesses=r, canaries=m),
        one_run.epsilon_lower_bound(correct=c, guesses=r, canaries=m),
        one_run.epsilon_lower_bound(correct=c, guesses=r, canaries=m, delta=1e-6),
    ):
        assert math.isfinite(bound.value) and bound.value >= 0
        assert bound.p_value is not None and 0 < bound.p_value <= 1
        assert bound.reachable is not None and bound.value <= bound.reachable
        assert (bound.value > 0) == (c == r == 50)
        assert (bound.p_value <= 0.05) == (bound.value > 0)


def test_an_effective_number_of_canaries_is_rounded_up() -> None:
    found = one_run.mu_lower_bound(correct=90, guesses=100, canaries=999.2, confidence=0.975)
    assert found.value == mu_of(90, 100, 1_000)
    assert found.canaries == 999.2


def test_a_function_that_ends_in_nan_is_not_rejected_by_it() -> None:
    """Erratum B16: a NaN must never read as an answer, least of all as a rejection."""

    class Broken:
        def fpr_at_tpr(self, tpr: float) -> float:
            return math.nan

    assert not one_run.rejects(Broken(), correct=50, guesses=60, canaries=100, level=0.05)  # type: ignore[arg-type]


def test_a_family_that_ends_bounds_no_further() -> None:
    found = one_run.lower_bound(lambda x: EpsilonDelta(x), correct=100, guesses=100, canaries=100, largest=0.5)
    assert found.value == 0.5


@pytest.mark.parametrize(
    ("change", "argument"),
    [
        ({"correct": 11}, "correct"),
        ({"correct": -1}, "correct"),
        ({"correct": math.nan}, "correct"),
        ({"correct": 5.5}, "correct"),
        ({"guesses": 0, "correct": 0}, "guesses"),
        ({"guesses": 101}, "guesses"),
        ({"guesses": math.nan}, "guesses"),
        ({"canaries": 0}, "canaries"),
        ({"canaries": 9.0}, "guesses"),
        ({"canaries": math.nan}, "canaries"),
        ({"canaries": math.inf}, "canaries"),
        ({"confidence": 1.0}, "confidence"),
        ({"confidence": 0}, "confidence"),
        ({"confidence": 95}, "confidence"),
        ({"confidence": math.nan}, "confidence"),
    ],
)
def test_bad_counts_are_refused_in_one_line(change: dict[str, float], argument: str) -> None:
    counts = {"correct": 8, "guesses": 10, "canaries": 100, **change}
    for function in (one_run.mu_lower_bound, one_run.epsilon_lower_bound):
        with pytest.raises(InputError, match=rf"^{argument}: expected [^\n]+, received [^\n]+; [^\n]+$"):
            function(**counts)  # type: ignore[operator]


@pytest.mark.parametrize("delta", [-1e-9, 1.0, math.nan, "0.1"])
def test_bad_delta_is_refused(delta: float) -> None:
    with pytest.raises(InputError, match=r"^delta: "):
        one_run.epsilon_lower_bound(correct=8, guesses=10, canaries=100, delta=delta)


@pytest.mark.parametrize("level", [0, 1, math.nan, True, "0.05"])
def test_bad_level_is_refused(level: float) -> None:
    with pytest.raises(InputError, match=r"^level: "):
        one_run.rejects(0.5, correct=8, guesses=10, canaries=100, level=level)


@pytest.mark.parametrize("claim", [-0.1, math.nan, math.inf, True])
def test_bad_claims_are_refused(claim: float) -> None:
    with pytest.raises(InputError, match=r"^tradeoff: "):
        one_run.rejects(claim, correct=8, guesses=10, canaries=100, level=0.05)
    if claim is not True:
        with pytest.raises(InputError, match=r"^epsilon: "):
            one_run.epsilon_p_value(claim, correct=8, guesses=10, canaries=100)
    with pytest.raises(InputError, match=r"^largest: "):
        one_run.lower_bound(Gaussian, correct=8, guesses=10, canaries=100, largest=-1)


# -- from evidence ----------------------------------------------------------------------------------------------------


def gaussian(n: int, mu: float, seed: int, **fields: object) -> Evidence:
    rng = np.random.default_rng(seed)
    member = rng.random(n) < 0.5
    return Evidence(score=rng.normal(mu * member), member=member, **{"design": "one-run", **fields})


OPTIONS = [None, 200, Fixed(200), Pilot(), Bonferroni(), Schedule(), Hedged(), Exploratory()]


@pytest.mark.long
@pytest.mark.parametrize("option", OPTIONS, ids=repr)
@pytest.mark.parametrize(("parameter", "delta"), [("mu", 0.0), ("epsilon", 0.0), ("epsilon", 1e-5)])
def test_a_strong_attack_is_seen_under_every_option(option: object, parameter: str, delta: float) -> None:
    evidence = gaussian(4_000, 3.0, 1)
    rng = np.random.default_rng(0)
    found = one_run.audit(evidence, parameter=parameter, delta=delta, guesses=option, rng=rng)  # type: ignore[arg-type]
    limit = 3.0 if parameter == "mu" else 30.0
    assert 0.8 < found.value < limit
    assert (found.parameter, found.delta, found.confidence) == (parameter, delta, 0.95)
    assert found.p_value is not None and found.p_value < (1e-2 if delta else 1e-6)
    assert found.reachable is not None and found.reachable >= found.value
    assert one_run.FAIR_COINS in found.assumptions
    assert found.exploratory == isinstance(option, Exploratory)
    fixed = isinstance(option, int | Fixed)
    assert (one_run.GUESSES_FIRST in found.assumptions) == fixed
    assert bool(found.corrections) != fixed


def test_the_same_generator_gives_the_same_bound_and_the_score_direction_matters() -> None:
    evidence = gaussian(3_000, 2.0, 3)
    first, second = (one_run.audit(evidence, rng=np.random.default_rng(5)) for _ in range(2))
    assert first == second
    turned = evidence.replace(score=-evidence.score)
    assert one_run.audit(turned, rng=np.random.default_rng(5)).value == 0  # control: lower is not more member-like


@pytest.mark.parametrize("option", OPTIONS, ids=repr)
def test_constant_scores_show_nothing(option: object) -> None:
    evidence = gaussian(2_000, 0.0, 4).replace(score=np.zeros(2_000))
    found = one_run.audit(evidence, guesses=option, confidence=0.999, rng=np.random.default_rng(0))  # type: ignore[arg-type]
    assert found.value == 0


@pytest.mark.parametrize("option", [None, Pilot(), Bonferroni(), Schedule(), Hedged(), Exploratory(), 2])
def test_two_records_are_enough_to_say_nothing(option: object) -> None:
    evidence = Evidence(score=[0.0, 1.0], member=[False, True], design="one-run")
    found = one_run.audit(evidence, guesses=option, rng=np.random.default_rng(0))  # type: ignore[arg-type]
    assert found.value == 0


@pytest.mark.parametrize(
    ("design", "instead"), [("multi-run", r"dp\.multi_run"), ("zero-run", r"dp\.zero_run"), (None, "declare design=")]
)
def test_other_designs_are_refused_and_told_where_to_go(design: str | None, instead: str) -> None:
    with pytest.raises(DesignError, match=instead):
        one_run.audit(gaussian(100, 1.0, 0, design=design), rng=np.random.default_rng(0))


def test_one_record_of_each_unit_is_kept() -> None:
    base = gaussian(300, 3.0, 6)
    ten = np.repeat(np.arange(300), 10)
    copied = base.take(ten).replace(unit=ten)
    found = one_run.audit(copied, guesses=300, rng=np.random.default_rng(0))
    alone = one_run.audit(base, guesses=300, rng=np.random.default_rng(0))
    assert (found.value, found.canaries) == (alone.value, 300)
    assert "one record of each of 300 units" in found.corrections[0]
    uncorrected = one_run.audit(base.take(ten), guesses=3_000, rng=np.random.default_rng(0))
    assert uncorrected.value > found.value  # control: copies taken for records


def test_sizes_that_no_coin_gives_are_balanced_and_said() -> None:
    evidence = Evidence.from_pair(np.arange(900.0), np.arange(100.0), design="one-run")
    found = one_run.audit(evidence, guesses=100, rng=np.random.default_rng(0))
    assert found.canaries == 200
    assert "from 900 to 100" in found.corrections[0]
    all_of_them = one_run.audit(evidence, guesses=1_000, rng=np.random.default_rng(0))
    assert all_of_them.guesses == 200 and "instead of 1,000" in all_of_them.corrections[1]
    within = Evidence.from_pair(np.arange(530.0), np.arange(470.0), design="one-run")
    assert one_run.audit(within, guesses=100, rng=np.random.default_rng(0)).corrections == ()


def test_a_fixed_split_that_was_no_coin_shows_nothing_by_itself() -> None:
    """560 members and 440 others by design, scores of noise: guessing "member" throughout is right 56% of the time."""
    member = np.arange(1000) < 560
    found, uncut = [], []
    for seed in range(40):
        rng = np.random.default_rng(seed)
        evidence = Evidence(score=rng.normal(size=1000), member=member, design="one-run")
        found.append(one_run.audit(evidence, parameter="epsilon", rng=rng).value)
        score, inside = evidence.score, evidence.member
        ways = [selection.one_sided(Ranking.of(score), inside, one_run.epsilon_lower_bound, guess=True, rng=rng)]
        uncut.append(selection.choose(None, ways, confidence=0.95, rng=rng, gain=selection.CLEARLY).value)
    assert np.mean(np.array(found) > 0) <= 0.15  # 5% and three standard errors
    assert np.mean(np.array(uncut) > 0) > 0.5  # the control: the records as they are


@pytest.mark.parametrize(
    ("options", "argument"),
    [
        ({"guesses": 0}, "count"),
        ({"guesses": 101}, "guesses"),
        ({"guesses": "pilot"}, "guesses"),
        ({"guesses": True}, "guesses"),
        ({"guesses": 2.5}, "guesses"),
        ({"parameter": "rho"}, "parameter"),
        ({"parameter": "mu", "delta": 0.1}, "delta"),
        ({"parameter": "epsilon", "delta": 1.0}, "delta"),
        ({"confidence": math.nan}, "confidence"),
    ],
)
def test_bad_options_are_refused(options: dict[str, object], argument: str) -> None:
    with pytest.raises(InputError, match=f"^{argument}: "):
        one_run.audit(gaussian(100, 1.0, 0), rng=np.random.default_rng(0), **options)  # type: ignore[arg-type]


def test_several_scores_are_refused() -> None:
    base = gaussian(100, 1.0, 0)
    two = base.replace(score={"a": base.score, "b": base.score})
    with pytest.raises(InputError, match="score"):
        one_run.audit(two, rng=np.random.default_rng(0))


# -- speed ------------------------------------------------------------------------------------------------------------


def test_a_million_canaries_take_no_noticeable_time() -> None:
    start = time.process_time()
    assert 0.11 < mu_of(30_000, 50_000, 10**6) < 0.12
    assert epsilon_of(30_000, 50_000, 10**6, 1e-8) > 0.37
    assert time.process_time() - start < 1.0

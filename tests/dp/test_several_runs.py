from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from scipy import stats

from miaudit import Evidence
from miaudit.dp import one_run, several_runs
from miaudit.dp.selection import Bonferroni, Fixed, Pilot, Schedule
from miaudit.dp.several_runs import Anytime, AtLeast
from miaudit.errors import DesignError, InputError

P = 0.025


def at_least_by_cases(several: int, needed: int, t: float) -> float:
    """P(Bin(K, t) >= j), by adding up all outcomes."""
    return math.fsum(
        t ** sum(hits) * (1 - t) ** (several - sum(hits))
        for hits in itertools.product((0, 1), repeat=several)
        if sum(hits) >= needed
    )


def gaussian_runs(several: int, m: int, mu: float, rng: np.random.Generator) -> list[Evidence]:
    coins = rng.random((several, m)) < 0.5
    return [Evidence(score=rng.normal(mu * c), member=c, design="one-run") for c in coins]


# -- second truths ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("several", "needed"), [(1, 1), (2, 2), (2, 1), (4, 4), (7, 5), (8, 7), (12, 11)])
@pytest.mark.parametrize("confidence", [0.5, 0.95, 0.975, 0.999])
def test_the_level_is_that_of_all_outcomes_added_up(several: int, needed: int, confidence: float) -> None:
    t = several_runs.level(several, at_least=needed, confidence=confidence)
    assert at_least_by_cases(several, needed, t) == pytest.approx(1 - confidence, rel=1e-9)


def test_all_of_seven_and_all_but_one_of_eight() -> None:
    assert [AtLeast().of(k) for k in (1, 2, 7, 8, 16)] == [1, 2, 7, 7, 15]
    assert several_runs.level(4, confidence=0.975) == pytest.approx(P**0.25)


@pytest.mark.parametrize("needed", [1, 3, 5])
def test_the_p_value_is_the_smallest_level_of_the_whole(needed: int) -> None:
    p_values = [0.31, 0.02, 0.5, 0.11, 0.07]
    found = several_runs.p_value(p_values, at_least=needed)
    assert found == pytest.approx(at_least_by_cases(5, needed, sorted(p_values)[needed - 1]), rel=1e-9)
    assert several_runs.p_value([0.3, 0.4]) == pytest.approx(0.16)


def test_the_bound_is_the_last_of_the_runs_that_have_to_refute() -> None:
    counts = [(80, 100, 1_000), (90, 100, 1_000), (70, 100, 1_000)]
    for needed in (1, 2, 3):
        t = several_runs.level(3, at_least=needed, confidence=0.975)
        each = sorted(
            one_run.mu_lower_bound(correct=c, guesses=r, canaries=m, confidence=1 - t).value for c, r, m in counts
        )
        found = several_runs.mu_lower_bound(counts, confidence=0.975, at_least=needed)
        assert found.value == each[-needed]
        assert (found.confidence, found.parameter, found.correct) == (0.975, "mu", None)


def test_one_run_is_the_test_of_one_run() -> None:
    one = one_run.mu_lower_bound(correct=416, guesses=500, canaries=10_000, confidence=0.975)
    found = several_runs.mu_lower_bound([(416, 500, 10_000)], confidence=0.975)
    assert (found.value, found.p_value) == (one.value, pytest.approx(one.p_value))
    other = one_run.epsilon_lower_bound(correct=90, guesses=100, canaries=1_000, delta=1e-5)
    assert several_runs.epsilon_lower_bound([(90, 100, 1_000)], delta=1e-5).value == other.value


# -- run by run -------------------------------------------------------------------------------------------------------


def largest_by_walk(refuted: list[float], way: Anytime, confidence: float) -> float:
    """The slow way: the wealth of each parameter of a fine grid, run by run, until the first that is not refuted."""
    best = 0.0
    for parameter in np.arange(0.0, 3.0, 0.001)[1:]:
        wealth, reached = 1.0, False
        for value in refuted:
            wealth *= 1 - way.stake + (way.stake / way.level if value >= parameter else 0.0)
            reached = reached or wealth >= 1 / (1 - confidence) * (1 - 1e-9)
        if not reached:
            break
        best = float(parameter)
    return best


def test_wealth_is_that_of_a_plain_walk() -> None:
    rng = np.random.default_rng(3)
    for several in (3, 6, 8, 12):
        for way in (Anytime(), Anytime(level=0.3, stake=0.7)):
            for _ in range(10):
                refuted = rng.uniform(0.0, 2.5, several).tolist()
                assert way.largest(refuted, 0.975) == pytest.approx(largest_by_walk(refuted, way, 0.975), abs=0.002)


def test_as_many_runs_as_it_takes_at_least() -> None:
    assert Anytime().fewest(0.975) == 6
    assert Anytime().largest([1.0] * 5, 0.975) == 0.0
    assert Anytime().largest([1.0] * 6, 0.975) == 1.0
    assert Anytime().largest([1.0] * 6 + [0.0] * 9, 0.975) == 1.0  # what was shown once stands


# -- validity ---------------------------------------------------------------------------------------------------------


def randomised_response(epsilon: float, r: int, size: tuple[int, ...], rng: np.random.Generator) -> np.ndarray:
    """Counts of right guesses of the mechanism that is exactly epsilon-DP: each coin comes out right so often."""
    return rng.binomial(r, 1 / (1 + math.exp(-epsilon)), size)


def bounds_of(r: int, confidence: float) -> np.ndarray:
    """Bounds on epsilon (r + 1,) by the number of right guesses."""
    return np.array(
        [
            one_run.epsilon_lower_bound(correct=c, guesses=r, canaries=r, confidence=confidence).value
            for c in range(r + 1)
        ]
    )


@pytest.mark.parametrize("several", [1, 2, 4, 8])
def test_false_alarms_at_the_boundary(several: int) -> None:
    """40,000 audits each of a mechanism whose truth the bound can reach; the control takes the best run, unpaid."""
    epsilon, r, rng = 1.0, 400, np.random.default_rng(several)
    counts = randomised_response(epsilon, r, (40_000, several), rng)
    t, needed = several_runs.level(several, confidence=1 - P), AtLeast().of(several)
    found = np.sort(bounds_of(r, 1 - t)[counts], axis=1)[:, several - needed]
    above = np.mean(found > epsilon)
    assert above <= P + 4 * math.sqrt(P / 40_000)
    exact = stats.binom.sf(needed - 1, several, np.mean(bounds_of(r, 1 - t)[counts] > epsilon))
    assert above == pytest.approx(exact, abs=0.004)  # the closed form of independent runs
    unpaid = np.mean(bounds_of(r, 1 - P)[counts].max(axis=1) > epsilon)
    assert several == 1 or unpaid > 1.3 * P


def test_false_alarms_of_looking_at_any_time() -> None:
    epsilon, r, rng = 1.0, 400, np.random.default_rng(9)
    counts = randomised_response(epsilon, r, (40_000, 30), rng)
    hits = bounds_of(r, 0.5)[counts] > epsilon
    way = Anytime()
    wealth = np.cumsum(np.log(1 - way.stake + np.where(hits, way.stake / way.level, 0.0)), axis=1)
    assert np.mean(wealth.max(axis=1) >= math.log(1 / P)) <= P + 4 * math.sqrt(P / 40_000)


@pytest.mark.long
def test_several_runs_show_more_than_one() -> None:
    """experiments/validity/one_run.md has 1.66 at 95% by 4 runs of 10,000 canaries at mu = 2; here at 97.5%."""
    rng = np.random.default_rng(1)
    means = {}
    for several in (1, 2, 4):
        found = [
            several_runs.audit(gaussian_runs(several, 10_000, 2.0, rng), confidence=0.975, rng=rng) for _ in range(12)
        ]
        means[several] = float(np.mean([bound.value for bound in found]))
        assert all(bound.value < 2.0 for bound in found)
    assert means[1] == pytest.approx(1.30, abs=0.06)
    assert means[2] == pytest.approx(1.47, abs=0.07)
    assert means[4] == pytest.approx(1.60, abs=0.06)


def chosen_by_hand(run: Evidence, level: float) -> tuple[float, int]:
    """The rule in a plain loop: the share of guesses and the order that promise the largest bound on all labels."""
    best, found = 0.0, (0.0025, 0)
    ascending = np.argsort(run.score)
    centre, n = float(np.median(run.score)), run.n
    far = np.argsort(-np.abs(run.score - centre))
    ends = np.ravel(np.column_stack([ascending[::-1][: n // 2], ascending[: n // 2]]))
    upper = np.zeros(n, bool)
    upper[ascending[n // 2 :]] = True
    orders = [
        (far, run.score > centre),
        (ends, upper),
        (ascending[::-1], np.ones(n, bool)),
        (ascending, np.zeros(n, bool)),
    ]
    for order, (rows, guess) in enumerate(orders):
        promised = []
        for share in Schedule().fractions:
            r = max(1, round(share * n))
            c = int((run.member[rows[:r]] == guess[rows[:r]]).sum())
            expected = math.floor(r * ((c + 0.5) / (r + 1) - 0.125 / math.sqrt(r)))
            value = one_run.mu_lower_bound(correct=expected, guesses=r, canaries=n, confidence=1 - level).value
            promised.append((value, share))
        value, share = max(promised, key=lambda pair: pair[0])
        if value > 1.2 * best or not order:
            best, found = value, (share, order)
    return found


def test_the_first_of_three_runs_or_more_chooses_and_is_not_audited() -> None:
    rng = np.random.default_rng(11)
    runs = gaussian_runs(4, 1_000, 2.0, rng)
    level = several_runs.level(3, confidence=0.95)
    share, order = chosen_by_hand(runs[0], level)
    assert order == 0
    guesses = round(share * 1_000)
    each = [one_run.audit(run, guesses=guesses, confidence=1 - level, rng=rng).value for run in runs[1:]]
    found = several_runs.audit(runs, rng=rng)
    assert found.value == min(each)
    assert f"run 1 chose {guesses:,} guesses of 1,000" in found.corrections[0]
    assert "all 3 audited runs refute it at level 0.368" in found.method
    silent = runs[0].replace(score=rng.normal(size=1_000))  # a first run that shows nothing is no reason for 0
    assert several_runs.audit([silent, *runs[1:]], rng=rng).value > 0.3


def test_one_order_can_be_the_best_for_all_runs() -> None:
    """Leakage on one side only: run 1 sees it, and the others are guessed from above."""
    rng = np.random.default_rng(12)
    runs = []
    for _ in range(3):
        member = rng.random(4_000) < 0.5
        score = rng.normal(size=4_000) + 5 * (member & (rng.random(4_000) < 0.05))
        runs.append(Evidence(score=score - np.exp(-score), member=member, design="one-run"))
    found = several_runs.audit(runs, rng=rng)
    assert "members only" in found.corrections[0] or "both ends" in found.corrections[0]
    assert found.value > several_runs.audit(runs, guesses=4_000, rng=rng).value


def test_of_two_runs_the_first_is_audited_by_the_default_and_the_second_as_it_chose() -> None:
    rng = np.random.default_rng(13)
    runs = gaussian_runs(2, 1_000, 2.0, rng)
    level = math.sqrt(0.05)
    share, _ = chosen_by_hand(runs[0], level)
    first = one_run.audit(runs[0], confidence=1 - level, rng=rng).value
    second = one_run.audit(runs[1], guesses=round(share * 1_000), confidence=1 - level, rng=rng).value
    assert several_runs.audit(runs, rng=rng).value == min(first, second)


def test_run_by_run_each_is_audited_as_those_before_it_chose() -> None:
    rng = np.random.default_rng(14)
    runs = gaussian_runs(8, 1_000, 2.0, rng)
    assert several_runs.audit(runs[:1], at_least=Anytime(), rng=rng).value == 0
    found = several_runs.audit(runs, at_least=Anytime(), confidence=0.975, rng=rng)
    assert found.value > 1.0
    assert several_runs.audit(runs[:6], at_least=Anytime(), confidence=0.975, rng=rng).value == 0  # five are audited
    later = [run.replace(member=~run.member) for run in runs[4:]]  # what comes later changes no earlier bound
    ranked = [several_runs.RankedRuns.of(r, rng=np.random.default_rng(0)) for r in (runs, [*runs[:4], *later])]
    one, other = (each.of_each(confidence=0.975, at_least=Anytime()) for each in ranked)
    assert [bound.value for bound in one[:3]] == [bound.value for bound in other[:3]]


@pytest.mark.long
def test_no_pilot_in_several_runs_and_no_schedule_above_level_two_fifths() -> None:
    rng = np.random.default_rng(15)
    runs = gaussian_runs(4, 400, 1.0, rng)
    with pytest.raises(InputError, match=r"guesses: expected .* received a pilot; leave it out"):
        several_runs.audit(runs, guesses=Pilot(), rng=rng)
    several_runs.audit(runs, guesses=Schedule(), confidence=0.975, rng=rng)  # .3976 of each
    several_runs.audit(runs, guesses=Schedule(), at_least=Anytime(0.4), rng=rng)  # the limit itself
    with pytest.raises(InputError, match=r"a schedule at level 0\.473 of each of 4 runs"):
        several_runs.audit(runs, guesses=Schedule(), confidence=0.95, rng=rng)
    with pytest.raises(InputError, match=r"a schedule at level 0\.5"):
        several_runs.audit(runs, guesses=Schedule(), at_least=Anytime(), rng=rng)
    several_runs.audit(runs[:1], guesses=Pilot(), rng=rng)


@pytest.mark.parametrize(
    ("several", "at_least", "apart", "all_before"),
    [(2, None, False, False), (3, None, True, False), (2, Anytime(), True, False), (3, Anytime(), True, True)],
)
def test_which_run_chose_and_whether_it_is_audited_is_said(
    several: int, at_least: Anytime | None, apart: bool, all_before: bool
) -> None:
    rng = np.random.default_rng(21)
    found = several_runs.audit(gaussian_runs(several, 300, 1.0, rng), at_least=at_least, rng=rng)
    (said,) = [text for text in found.corrections if text.startswith("run 1 chose")]
    assert ("and is not audited itself" in said) == apart
    assert ("each later run was audited as all runs before it chose" in said) == all_before
    fixed = several_runs.audit(gaussian_runs(several, 300, 1.0, rng), guesses=100, at_least=at_least, rng=rng)
    assert not any("run 1 chose" in text for text in fixed.corrections)


# -- what is refused --------------------------------------------------------------------------------------------------


def test_runs_that_are_no_runs_of_each_other_are_refused() -> None:
    rng = np.random.default_rng(5)
    one, other = gaussian_runs(2, 600, 1.0, rng)
    fresh = rng.normal(size=600)
    with pytest.raises(InputError, match="equal ones in runs 1 and 2"):
        several_runs.audit([one, one], rng=rng)
    for coins in (one.member, ~one.member):
        with pytest.raises(InputError, match=r"correlation of -?1\.00"):
            several_runs.audit([one, Evidence(score=fresh, member=coins, design="one-run")], rng=rng)
    with pytest.raises(InputError, match="600 records, as the first"):
        several_runs.audit([one, gaussian_runs(1, 500, 1.0, rng)[0]], rng=rng)
    for design in (None, "zero-run", "multi-run"):
        with pytest.raises(DesignError, match="run 2"):
            several_runs.audit([one, Evidence(score=other.score, member=other.member, design=design)], rng=rng)


def test_shadow_models_with_exact_halves_are_no_runs() -> None:
    """Two of four models that hold each record exactly twice: a correlation of -1/3."""
    rng = np.random.default_rng(6)
    pairs = np.array([[a in pair for a in range(4)] for pair in itertools.combinations(range(4), 2)])
    coins = pairs[rng.integers(0, 6, 1_000)].T
    runs = [Evidence(score=rng.normal(1.0 * c), member=c, design="one-run") for c in coins]
    with pytest.raises(InputError, match=r"correlation of -0\.3"):
        several_runs.audit(runs, rng=rng)


def test_units_share_a_coin_and_are_no_sign_of_copies() -> None:
    rng = np.random.default_rng(7)
    unit = np.repeat(np.arange(40), 25)
    refused = 0
    for _ in range(40):
        coins = (rng.random((2, 40)) < 0.5)[:, unit]
        runs = [Evidence(score=rng.normal(size=1_000), member=c, unit=unit, design="one-run") for c in coins]
        try:
            several_runs.require_independent(runs)
        except InputError:
            refused += 1
    assert refused == 0


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: several_runs.mu_lower_bound([]), "for each run|of each run"),
        (lambda: several_runs.mu_lower_bound([(1, 2)]), "of each run"),
        (lambda: several_runs.mu_lower_bound([(90, 100, 1_000)] * 2, at_least=3), "at most the 2 runs audited"),
        (lambda: several_runs.mu_lower_bound([(90, 100, 1_000)] * 2, at_least=0), "from 1 up"),
        (lambda: several_runs.level(0), "from 1 up"),
        (lambda: several_runs.level(2, confidence=1.5), "confidence"),
        (lambda: several_runs.p_value([0.1, 1.2]), "from 0 to 1"),
        (lambda: Anytime(level=1.0), "strictly between"),
        (lambda: several_runs.mu_lower_bound([(101, 100, 1_000)]), "correct"),
    ],
)
def test_bad_input_is_one_line(call, words: str) -> None:
    with pytest.raises(InputError, match=words) as refused:
        call()
    assert "\n" not in str(refused.value)


@pytest.mark.long
@pytest.mark.parametrize("guesses", [None, Fixed(400), Bonferroni(), Schedule()])
def test_every_way_to_settle_guesses_stays_below_its_level(guesses) -> None:
    """One run of eight is tested at .47, and of sixteen at .70: levels at which nobody tests a single run."""
    rng, mu, t = np.random.default_rng(8), 1.0, several_runs.level(16, confidence=1 - P)
    assert t > 0.69
    above = 0
    for run in gaussian_runs(200, 400, mu, rng):
        above += one_run.audit(run, guesses=guesses, confidence=1 - t, rng=rng).value > mu
    assert above / 200 <= t + 3 * math.sqrt(t * (1 - t) / 200)


@pytest.mark.parametrize("name", ["level", "stake"])
@pytest.mark.parametrize("value", [0, 1, -0.1, 1.5, True, "0.5"])
def test_a_level_or_a_stake_outside_0_and_1_is_refused(name: str, value: object) -> None:
    with pytest.raises(InputError, match=name):
        Anytime(**{name: value})

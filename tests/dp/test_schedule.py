"""Schedules and hedged ones: beside a plain walk, at the boundary of what is true, and against unpaid choices."""

from __future__ import annotations

import math
from functools import partial

import numpy as np
import pytest
from scipy import stats

from miaudit import Evidence
from miaudit.dp import one_run, schedule
from miaudit.dp.ranking import Ranking
from miaudit.dp.selection import CountTest, Hedged, Pilot, Schedule, choose
from miaudit.errors import InputError

mu_bound = one_run.mu_lower_bound
epsilon_bound = one_run.count_bound("epsilon")
P = 0.025


def chosen(option: object, right: np.ndarray, bound=mu_bound, confidence: float = 1 - P):
    rng = np.random.default_rng(0)
    return choose(option, [CountTest.of(right, bound)], confidence=confidence, rng=rng)


def falling(n: int, seed: int, top: float) -> np.ndarray:
    return np.random.default_rng(seed).random(n) < np.linspace(top, 0.5, n)


def plain_walk(right: np.ndarray, hedged: Hedged, mus: np.ndarray) -> float:
    """Go up through parameters; each is refuted by its own number of guesses at a part of P, or by one of the few."""
    n, c = len(right), np.cumsum(right)
    most, rest = (1 - hedged.part) * P, hedged.part * P
    own = schedule.steps(tuple(sorted({max(1, round(f * n)) for f in hedged.fractions})), n, mu_bound, 1 - most)
    few = [max(1, round(f * n)) for f in hedged.few]
    last = 0.0
    for mu in mus:
        r = [count for start, count in own if start <= mu][-1]
        tests = [(r, most)] + [(count, rest / len(few)) for count in few]
        if not any(one_run.rejects(mu, correct=int(c[k - 1]), guesses=k, canaries=n, level=at) for k, at in tests):
            return last
        last = float(mu)
    raise AssertionError("the walk has no end")


@pytest.mark.parametrize("hedged", [Hedged(), Hedged(few=(0.005, 0.02), part=0.1)])
@pytest.mark.parametrize(("top", "seed"), [(0.98, 0), (0.9, 1), (0.75, 2)])
def test_a_hedged_schedule_is_a_plain_walk(top: float, seed: int, hedged: Hedged) -> None:
    right = falling(600, seed, top)
    found = chosen(hedged, right)
    assert plain_walk(right, hedged, np.arange(0, 3, 0.01)) == pytest.approx(found.value, abs=0.011)
    assert found.confidence == 1 - P
    assert found.value <= found.reachable
    assert f"{1 - hedged.part:.0%} of the level" in found.corrections[-1]


def test_it_is_the_default_at_every_number_of_records() -> None:
    for n in (50, 1_000):
        right = falling(n, 3, 0.9)
        assert chosen(None, right) == chosen(Hedged(few=(0.0025, 0.01, 0.05, 0.2, 1.0), part=0.4), right)


def test_a_layout_is_shared_by_numbers_with_the_same_two_digits() -> None:
    """Scaled to each number of records; below 100 it is laid out exactly."""
    counts = [tuple(sorted({max(1, round(f * n)) for f in Schedule().fractions})) for n in (1_200, 1_247)]
    first, second = (schedule.steps(of, n, mu_bound, 0.95) for of, n in zip(counts, (1_200, 1_247), strict=True))
    assert [start for start, _ in first] == [start for start, _ in second]
    assert [b / a for (_, a), (_, b) in zip(first, second, strict=True)] == pytest.approx([1.04] * len(first), abs=0.1)
    assert [schedule._two_digits(n) for n in (7, 99, 100, 109, 1_999)] == [7, 99, 100, 100, 1_900]


def test_its_p_value_is_where_nothing_leaks_is_refuted() -> None:
    right = falling(1_000, 1, 0.75)
    found = chosen(Hedged(), right)
    counts = np.cumsum(right)
    steps = schedule.steps(tuple(max(1, round(f * 1_000)) for f in Hedged().fractions), 1_000, mu_bound, 1 - 0.6 * P)
    each = [(steps[0][1], 0.6), *((r, 0.08) for r in (2, 10, 50, 200, 1_000))]
    smallest = [one_run.p_value(0.0, correct=int(counts[r - 1]), guesses=r, canaries=1_000) / part for r, part in each]
    assert found.p_value == pytest.approx(min(1.0, *smallest))


@pytest.mark.long
def test_it_sees_a_few_strong_canaries_to_which_a_schedule_is_blind() -> None:
    few = np.r_[np.ones(100, bool), np.random.default_rng(0).random(9_900) < 0.5]
    assert chosen(Schedule(), few).value < 0.1
    assert chosen(Hedged(), few).value > 0.5
    assert chosen(Hedged(), few).guesses == 100


def test_at_the_boundary_it_keeps_its_level_and_unpaid_tests_do_not() -> None:
    """Randomised response is exactly epsilon-DP, and every count is at its boundary there; 20,000 audits."""
    epsilon, m, rng = 1.0, 1_000, np.random.default_rng(5)
    own, few = Schedule().fractions, [2, 10, 50, 200, 1_000]
    counts = sorted({max(1, round(f * m)) for f in own} | {*few})
    blocks = np.diff(counts, prepend=0)
    right = np.cumsum(rng.binomial(blocks, 1 / (1 + math.exp(-epsilon)), (20_000, len(counts))), axis=1)
    at = {count: right[:, i] for i, count in enumerate(counts)}

    def above(level: float, part: float) -> float:
        """Share of audits whose bound is above the truth; a walk passes it where the truth's own tests refute it."""
        step = schedule.steps(tuple(max(1, round(f * m)) for f in own), m, epsilon_bound, 1 - level)
        tests = [([r for start, r in step if start <= epsilon][-1], level), *((r, part) for r in few)]
        refuted = np.zeros(len(right), dtype=bool)
        for r, error in tests:
            table = [one_run.epsilon_p_value(epsilon, correct=c, guesses=r, canaries=m) <= error for c in range(r + 1)]
            refuted |= np.array(table)[at[r]]
        return float(refuted.mean())

    paid = above(0.6 * P, 0.08 * P)
    assert 0.3 * P < paid <= P + 3 * math.sqrt(P / 20_000)
    assert above(P, P) > P + 3 * math.sqrt(P / 20_000)  # the control: the same six, each at the whole level


def test_a_number_of_guesses_that_the_mechanism_chooses_is_not_valid() -> None:
    """The control of what was tried: r from the scores, so by the mechanism; each of two states would be within P.

    With chance ``released[i]`` bits of a random r[i] records come out, right with probability accuracy[i]. The truth is
    the larger of the two kinks of the trade-off function, and the audit makes the r[i] guesses that the scores show.
    """
    m, mu, r, accuracy, released = 100_000, 0.5, (2_000, 100_000), (0.8745, 0.7925), (0.0196, 0.0208)
    right = np.cumsum([x * n / m * q for x, n, q in zip(released, r, accuracy, strict=True)])
    wrong = np.cumsum([x * n / m * (1 - q) for x, n, q in zip(released, r, accuracy, strict=True)])
    assert (stats.norm.ppf(right) - stats.norm.ppf(wrong)).max() <= mu
    alarms = []
    for x, n, q in zip(released, r, accuracy, strict=True):
        low, high = n // 2, n
        while low < high:
            middle = (low + high) // 2
            refuted = one_run.rejects(mu, correct=middle, guesses=n, canaries=m, level=P)
            low, high = (low, middle) if refuted else (middle + 1, high)
        alarms.append(x * stats.binom.sf(low - 1, n, q))
    assert max(alarms) < P
    assert sum(alarms) > 1.2 * P


def test_the_bound_is_above_the_truth_where_its_tests_refute_it() -> None:
    """What the boundary counts as a false alarm is a bound above the truth, in audits from the first guess on."""
    epsilon, m = 1.0, 200
    wrong = []
    for seed in range(300):
        right = np.random.default_rng(seed).random(m) < 1 / (1 + math.exp(-epsilon))
        wrong.append(chosen(Hedged(), right, epsilon_bound, 0.9).value > epsilon)
    assert np.mean(wrong) <= 0.1 + 3 * math.sqrt(0.09 / 300)


@pytest.mark.long
@pytest.mark.parametrize(("mu", "gain"), [(0.66, 1.03), (2.0, 0.97)])
def test_it_shows_as_much_as_a_pilot_or_more(mu: float, gain: float) -> None:
    """1,000 canaries; experiments/validity/one_run.md has the whole table."""
    means = []
    for option in (Pilot(), Hedged()):
        values = []
        for seed in range(80):
            rng = np.random.default_rng(seed)
            member = rng.random(1_000) < 0.5
            evidence = Evidence(score=rng.normal(mu * member), member=member, design="one-run")
            values.append(one_run.audit(evidence, guesses=option, confidence=1 - P, rng=rng).value)
        means.append(np.mean(values))
    assert means[1] > gain * means[0]


def test_lopsided_scores_are_guessed_from_both_ends_and_even_ones_by_distance() -> None:
    rng = np.random.default_rng(0)
    member = rng.random(2_000) < 0.5
    score = rng.normal(2.0 * member)
    assert not Ranking.of(score).lopsided
    assert not Ranking.of(np.zeros(50)).lopsided
    found = []
    for values in (score, -np.exp(-1.5 * score)):
        evidence = Evidence(score=values, member=member, design="one-run")
        found.append(one_run.audit(evidence, guesses=Hedged(), rng=np.random.default_rng(1)).value)
    assert Ranking.of(-np.exp(-1.5 * score)).lopsided
    assert found[1] > 0.9 * found[0]


@pytest.mark.parametrize(
    ("given", "named"),
    [({"part": 0.0}, "part"), ({"part": True}, "part"), ({"few": ()}, "few"), ({"few": (2.0,)}, "few")],
)
def test_bad_hedges_are_refused(given: dict[str, object], named: str) -> None:
    with pytest.raises(InputError, match=f"^{named}: expected"):
        Hedged(**given)


@pytest.mark.parametrize("n", [1, 2, 7])
def test_a_handful_of_records_shows_nothing_and_breaks_nothing(n: int) -> None:
    assert chosen(Hedged(), np.ones(n, bool)).value == pytest.approx(0, abs=0.5)


def test_steps_depend_on_no_label_and_rise() -> None:
    steps = schedule.steps((10, 50, 200), 1_000, partial(mu_bound), 0.95)
    starts = [start for start, _ in steps]
    assert starts[0] == 0 and starts == sorted(set(starts))

from __future__ import annotations

from functools import partial

import numpy as np
import pytest

from miaudit import Evidence
from miaudit.dp import one_run
from miaudit.dp.ranking import Ranking
from miaudit.dp.selection import (
    CLEARLY,
    PAPERS_SIX,
    Bonferroni,
    CountBound,
    CountTest,
    Exploratory,
    Fixed,
    Pilot,
    Schedule,
    by_turns,
    choose,
    one_sided,
    two_sided,
)
from miaudit.errors import InputError

mu_bound = one_run.mu_lower_bound


def falling(n: int, seed: int, top: float = 0.98, bound: CountBound = mu_bound) -> CountTest:
    """Guesses whose accuracy falls from ``top`` to one half along the order."""
    rng = np.random.default_rng(seed)
    return CountTest.of(rng.random(n) < np.linspace(top, 0.5, n), bound)


def chosen(option: object, ranking: CountTest, confidence: float = 0.95, seed: int = 0):
    return choose(option, [ranking], confidence=confidence, rng=np.random.default_rng(seed), gain=CLEARLY)


def test_fixed_counts_the_first_guesses() -> None:
    ranking = falling(1_000, 0)
    found = chosen(Fixed(100), ranking)
    assert found == mu_bound(correct=int(ranking.correct[:100].sum()), guesses=100, canaries=1_000)
    assert found == chosen(100, ranking)


def test_bonferroni_is_the_best_of_parts_of_the_level() -> None:
    ranking = falling(1_000, 1)
    parts = {
        r: mu_bound(correct=int(ranking.correct[:r].sum()), guesses=r, canaries=1_000, confidence=1 - 0.05 / 3)
        for r in (10, 100, 500)
    }
    found = chosen(Bonferroni(counts=(500, 10, 100, 100)), ranking)
    assert found.value == max(part.value for part in parts.values())
    assert found.p_value == pytest.approx(3 * min(part.p_value for part in parts.values()))
    assert found.confidence == 0.95
    assert "divided by 3" in found.corrections[0]


def test_exploratory_is_more_than_bonferroni_and_says_so() -> None:
    ranking = falling(1_000, 2)
    paid, unpaid = chosen(Bonferroni(), ranking), chosen(Exploratory(), ranking)
    assert unpaid.value > paid.value
    assert unpaid.exploratory and not paid.exploratory
    assert "nothing was paid" in unpaid.corrections[0]


def test_one_candidate_costs_nothing() -> None:
    ranking = falling(1_000, 3)
    assert chosen(Bonferroni(counts=(100,)), ranking).value == chosen(Fixed(100), ranking).value
    assert chosen(Schedule(fractions=(0.1,)), ranking).value == chosen(Fixed(100), ranking).value


def test_a_pilot_never_audits_the_labels_that_it_saw() -> None:
    """Flip every label of the pilot: the choice may change, the counts of the audited records may not."""
    ranking = falling(2_000, 4)
    option = Pilot(fractions=(0.1,))
    found = chosen(option, ranking)
    pilot = np.zeros(2_000, bool)
    pilot[np.random.default_rng(0).permutation(2_000)[:400]] = True
    flipped = CountTest("flipped", ranking.places, ranking.correct ^ pilot, mu_bound)
    assert chosen(option, flipped).value == found.value
    audited = ranking.correct[~pilot][: found.guesses]
    assert (found.guesses, found.canaries, found.correct) == (160, 1_600, int(audited.sum()))
    others = CountTest("all", ranking.places, ranking.correct ^ ~pilot, mu_bound)
    assert chosen(option, others).value != found.value  # control


def test_a_pilot_finds_the_ranking_that_works() -> None:
    good, useless = falling(5_000, 5), falling(5_000, 6, top=0.5)
    for rankings in ([good, useless], [useless, good]):
        found = choose(Pilot(), rankings, confidence=0.95, rng=np.random.default_rng(0), gain=CLEARLY)
        assert found.value > 0.5
    alone = choose(Fixed(500), [useless, good], confidence=0.95, rng=np.random.default_rng(0), gain=CLEARLY)
    assert alone.value < 0.2  # control: the other options take the first


@pytest.mark.long
@pytest.mark.parametrize("kind", ["losses", "confidences", "members only", "a few"])
def test_a_pilot_does_well_where_scores_are_skewed(kind: str) -> None:
    """Heavy tails on the wrong side, and leakage on one side only; control: distance from the median alone."""
    values, plain = [], []
    for seed in range(8):
        rng = np.random.default_rng(seed)
        member = rng.random(10_000) < 0.5
        noise = rng.normal(size=10_000)
        few = rng.random(10_000) < 0.005
        score = {
            "losses": -np.exp(noise - 0.66 * member),
            "confidences": np.exp(noise + 0.66 * member),
            "members only": noise + 5 * (member & (rng.random(10_000) < 0.05)),
            "a few": noise + 6 * few * np.where(member, 1, -1),
        }[kind]
        evidence = Evidence(score=score, member=member, design="one-run")
        values.append(one_run.audit(evidence, confidence=0.975, rng=rng).value)
        plain.append(one_run.audit(evidence, guesses=10_000, confidence=0.975, rng=rng).value)
    assert np.mean(values) > {"losses": 0.33, "confidences": 0.33, "members only": 0.25, "a few": 0.2}[kind]
    assert np.mean(plain) < 0.25


@pytest.mark.long
@pytest.mark.parametrize(
    ("mu", "pilot", "bonferroni", "schedule"),
    [(0.66, 0.422, 0.401, 0.430), (2.0, 1.281, 1.225, 1.354)],
)
def test_the_table_of_section_9(mu: float, pilot: float, bonferroni: float, schedule: float) -> None:
    """Two columns with few repetitions; tests/slow has all four. Control: the options differ where they should."""
    found = {option: [] for option in (Pilot(), Bonferroni(), Schedule())}
    for seed in range(12):
        rng = np.random.default_rng(seed)
        member = rng.random(10_000) < 0.5
        evidence = Evidence(score=rng.normal(mu * member), member=member, design="one-run")
        for option, values in found.items():
            values.append(one_run.audit(evidence, guesses=option, confidence=0.975, rng=rng).value)
    means = [np.mean(values) for values in found.values()]
    assert means == pytest.approx([pilot, bonferroni, schedule], abs=0.06)
    assert means[2] > means[1]


@pytest.mark.long
def test_a_schedule_is_blind_to_a_few_strong_canaries() -> None:
    few = CountTest.of(np.r_[np.ones(50, bool), np.random.default_rng(0).random(9_950) < 0.5], mu_bound)
    assert chosen(Schedule(), few).value < 0.1
    assert chosen(Bonferroni(), few).value > 0.5


def gaussian(mu: float, n: int, seed: int) -> CountTest:
    rng = np.random.default_rng(seed)
    member = rng.random(n) < 0.5
    return two_sided(Ranking.of(rng.normal(mu * member)), member, mu_bound, rng=rng)


def test_bonferroni_goes_on_to_a_guess_at_every_record() -> None:
    """An attack that is right nearly everywhere, among few records; the control stops at the paper's tenth of them."""
    strong = [gaussian(3.0, 1_000, seed) for seed in range(40)]
    means = [np.mean([chosen(o, r, 0.975).value for r in strong]) for o in (Bonferroni(), Bonferroni(PAPERS_SIX))]
    assert means[0] > 1.25
    assert means[1] < 0.95
    all_right = CountTest.of(np.ones(1_000, bool), mu_bound)
    assert chosen(Bonferroni(), all_right).guesses == 1_000


@pytest.mark.long
@pytest.mark.parametrize("confidence", [0.999, 0.95, 0.6, 0.45, 0.3, 0.1, 0.02])
@pytest.mark.parametrize("n", [200, 2_000])
def test_a_schedule_walks_as_far_as_its_guesses_reach_at_any_confidence(n: int, confidence: float) -> None:
    every = chosen(Schedule(), CountTest.of(np.ones(n, bool), mu_bound), confidence)
    counts = {max(1, round(fraction * n)) for fraction in Schedule().fractions}
    alone = [mu_bound(correct=c, guesses=c, canaries=n, confidence=confidence).value for c in counts]
    assert every.value == every.reachable == pytest.approx(max(alone), abs=1e-6)


@pytest.mark.long
@pytest.mark.parametrize("confidence", [0.45, 0.3])
def test_below_even_confidence_a_schedule_shows_more_of_a_stronger_attack_and_keeps_its_level(
    confidence: float,
) -> None:
    """Control: the best of the same numbers of guesses, unpaid, is above the truth too often."""
    means, above = [], {"schedule": 0, "unpaid": 0}
    for mu in (1.0, 2.0, 3.0):
        means.append(np.mean([chosen(Schedule(), gaussian(mu, 500, s), confidence).value for s in range(20)]))
    assert means[0] > 0.6 and means[1] > means[0] + 0.5 and means[2] > means[1] + 0.5
    for seed in range(300):
        nothing = gaussian(0.0, 500, seed)
        above["schedule"] += chosen(Schedule(), nothing, confidence).value > 0
        above["unpaid"] += chosen(Exploratory(fractions=Schedule().fractions), nothing, confidence).value > 0
    limit = 1 - confidence + 3 * np.sqrt(confidence * (1 - confidence) / 300)
    assert above["schedule"] / 300 <= limit
    assert above["unpaid"] / 300 > limit


def test_a_schedule_ties_guesses_to_parameters_before_labels() -> None:
    """The walk passes through every parameter below the bound, each tested with its own number of guesses."""
    first, second = chosen(Schedule(), falling(5_000, 7)), chosen(Schedule(), falling(5_000, 8, top=0.6))
    assert first.corrections == second.corrections
    assert first.guesses != second.guesses


def test_thinned_records_are_not_guessed_but_their_size_counts() -> None:
    ranking = falling(1_000, 9)
    kept = np.random.default_rng(1).random(1_000) < 0.5
    thinned = CountTest("thinned", ranking.places, ranking.correct, mu_bound, kept, np.full(1_000, 0.5))
    found = chosen(Fixed(100), thinned)
    first = ranking.correct[kept][:100]
    assert (found.correct, found.guesses, found.canaries) == (int(first.sum()), 100, 500)
    # Fewer kept than guesses: the number of guesses stays, the missing ones count as wrong.
    all_of_them = chosen(Fixed(600), thinned)
    assert (all_of_them.correct, all_of_them.guesses) == (int(ranking.correct[kept].sum()), 600)
    piloted = chosen(Pilot(), thinned)
    assert piloted.canaries == 400


@pytest.mark.parametrize("make", [Bonferroni, Exploratory, Pilot, Schedule])
@pytest.mark.parametrize("fractions", [(), (0.0,), (1.1,), (float("nan"),), ("0.1",), (True,)])
def test_bad_fractions_are_refused(make: type, fractions: tuple[float, ...]) -> None:
    with pytest.raises(InputError, match=r"^fractions: "):
        make(fractions=fractions)


@pytest.mark.parametrize("count", [0, -1, 1.5, True, "3", float("nan")])
def test_bad_counts_are_refused(count: int) -> None:
    with pytest.raises(InputError, match=r"^count: "):
        Fixed(count)
    with pytest.raises(InputError, match=r"^counts: "):
        Bonferroni(counts=(count,))


@pytest.mark.parametrize("share", [0, 1, -0.1, float("nan"), "0.2", True])
def test_bad_shares_are_refused(share: float) -> None:
    with pytest.raises(InputError, match=r"^share: "):
        Pilot(share=share)


def test_more_guesses_than_records_and_no_ranking_are_refused() -> None:
    with pytest.raises(InputError, match=r"^guesses: "):
        chosen(Fixed(11), falling(10, 0))
    with pytest.raises(InputError, match=r"^guesses: "):
        chosen(Bonferroni(counts=(5, 11)), falling(10, 0))
    with pytest.raises(InputError, match=r"^rankings: "):
        choose(None, [], confidence=0.95, rng=np.random.default_rng(0))
    for bad in ([], [[1, 0]], [0.5, 1.0]):
        with pytest.raises(InputError, match=r"^correct: "):
            CountTest.of(bad, mu_bound)


def test_the_papers_sweep_is_the_one_of_erratum_b6() -> None:
    assert [round(10_000 * fraction) for fraction in PAPERS_SIX] == [1000, 500, 200, 100, 50, 25]


def test_any_bound_on_counts_can_be_chosen_for() -> None:
    epsilon = partial(one_run.epsilon_lower_bound, delta=1e-6)
    found = chosen(None, falling(2_000, 1, bound=epsilon), confidence=0.9)
    assert (found.parameter, found.delta, found.confidence) == ("epsilon", 1e-6, 0.9)


def test_orders_put_the_surest_first_and_ties_at_random() -> None:
    rng = np.random.default_rng(0)
    score, member = np.array([0.0, 1.0, 2.0, 10.0, -3.0]), np.array([0, 1, 0, 1, 1], bool)
    ranking = Ranking.of(score)
    both = two_sided(ranking, member, mu_bound, rng=rng)
    assert both.places.tolist()[:2] == [3, 4]  # 9 and 4 away from the median, 1
    assert both.correct[[0, 2, 3, 4]].tolist() == [True, False, True, False]
    by_rank = by_turns(ranking, member, mu_bound, rng=rng)
    assert set(by_rank.places.tolist()[:2]) == {3, 4}
    up, down = (one_sided(ranking, member, mu_bound, guess=guess, rng=rng) for guess in (True, False))
    assert up.places.tolist() == down.places.tolist()[::-1] == [3, 2, 1, 0, 4]
    assert (up.correct == member).all() and (down.correct == ~member).all()
    tied = {two_sided(Ranking.of(np.zeros(6)), np.ones(6, bool), mu_bound, rng=rng).places[0] for _ in range(100)}
    assert tied == set(range(6))


@pytest.mark.parametrize("ones", [400, 500, 600])
def test_scores_of_two_values_are_guessed_on_both_sides(ones: int) -> None:
    member = np.arange(1_000) < ones
    found = two_sided(Ranking.of(np.where(member, 2.0, -5.0)), member, mu_bound, rng=np.random.default_rng(0))
    assert found.correct.all()
    assert 0.3 < member[found.places[:100]].mean() < 0.7


def test_guesses_at_ties_are_fair_coins() -> None:
    rng = np.random.default_rng(0)
    score, member = np.zeros(1_000), np.ones(1_000, bool)
    share = np.mean([two_sided(Ranking.of(score), member, mu_bound, rng=rng).correct.mean() for _ in range(50)])
    assert share == pytest.approx(0.5, abs=0.01)

"""Whether audits keep their level against mechanisms that are made to mislead a choice of the number of guesses.

The worlds are worst mixtures of patterns, whose true mu is known in closed form (``worlds/patterns.py``). The control
is what miaudit did before: a pilot in each run, which chooses on the scores of the run that it audits.
"""

from __future__ import annotations

import math

import numpy as np
import pytest

from miaudit import Evidence
from miaudit.dp import one_run, schedule, several_runs
from miaudit.dp.selection import Fixed, Hedged, Pilot, numbers_of
from miaudit.dp.several_runs import Anytime
from validity.claims import Claims
from worlds import one_run as worlds
from worlds import patterns

pytestmark = pytest.mark.slow
P, MU = 0.05, 0.5


def pilots_in_each_run(world: patterns.Patterns, several: int, *, each: int) -> float:
    """The twin of what several runs did before: a pilot in every run, and all of them have to refute.

    Runs are independent, so this is the power of the chance in one of them, which is known from runs of every pattern.
    """
    confidence = 1 - several_runs.level(several, confidence=1 - P)
    return patterns.above(world, one(Pilot(), confidence), each=each, seed=several) ** several


def exceeds(world: patterns.Patterns, several: int, audit, rng: np.random.Generator) -> dict[str, bool]:
    """Whether a bound from several runs exceeds the truth."""
    return {"bound > truth": audit([world.run(rng) for _ in range(several)], rng) > world.mu}


def by_default(runs: list[Evidence], rng: np.random.Generator) -> float:
    return several_runs.audit(runs, confidence=1 - P, rng=rng).value


def at_any_time(runs: list[Evidence], rng: np.random.Generator) -> float:
    return several_runs.audit(runs, confidence=1 - P, at_least=Anytime(), rng=rng).value


@pytest.mark.validity
@pytest.mark.parametrize(("several", "records"), [(7, 10_000), (4, 10_000), (2, 10_000)])
def test_several_runs_keep_their_level_against_a_mechanism_made_against_pilots(
    claim: Claims, several: int, records: int
) -> None:
    world = patterns.against_pilots(records, MU, several_runs.level(several, confidence=1 - P))
    claim(lambda rng: exceeds(world, several, by_default, rng), holds={"bound > truth": P})
    best_of_runs(claim)


def test_a_pilot_in_each_of_seven_runs_does_not() -> None:
    """The control; of two or four runs of so few records a pilot is misled too seldom. Error of the chance: .005."""
    world = patterns.against_pilots(10_000, MU, several_runs.level(7, confidence=1 - P))
    assert pilots_in_each_run(world, 7, each=800) > 1.25 * P


@pytest.mark.validity
def test_runs_that_are_looked_at_any_time_keep_it_too(claim: Claims) -> None:
    world = patterns.against_pilots(10_000, MU, Anytime().level)
    claim(lambda rng: exceeds(world, 8, at_any_time, rng), holds={"bound > truth": P})
    best_of_runs(claim)


def best_of_runs(claim: Claims) -> None:
    """The control: the best of eight runs of a mechanism that releases all bits in 4% of its runs, unpaid."""
    world = worlds.world_named("all bits, chance 0.04", "mu")
    option = Fixed(world.guesses)

    def replicate(rng: np.random.Generator) -> dict[str, bool]:
        runs = [Evidence(score=s, member=m, design="one-run") for s, m in (world.draw(rng) for _ in range(8))]
        return {"best of eight": max(one(option)(run, rng) for run in runs) > world.truth}

    claim(replicate, fails={"best of eight": P})


def of_hedged(records: int, mu: float) -> list[tuple[float, float]]:
    """Shares of guesses and levels of the tests that a hedged schedule makes of one mu."""
    option = Hedged()
    most, each = option.confidences(1 - P, len(option.few))
    counts = tuple(sorted(set(numbers_of(option.fractions, records))))
    steps = schedule.steps(counts, records, one_run.mu_lower_bound, most)
    own = [guesses for start, guesses in steps if start <= mu][-1]
    return [(own / records, 1 - most), *((share, 1 - each) for share in option.few)]


def one(option: object, confidence: float = 1 - P):
    return lambda run, rng: one_run.audit(run, guesses=option, confidence=confidence, rng=rng).value


@pytest.mark.parametrize("records", [10_000, 100_000])
def test_one_run_keeps_its_level_at_worst_mixtures_and_a_pilot_does_not(records: int) -> None:
    each = 40 if records == 10_000 else 25
    made_for_it = patterns.worst(records, MU, of_hedged(records, MU))
    made_for_pilots = patterns.against_pilots(records, MU, P)
    error = 3 * P * math.sqrt(0.25 / each / 3)  # of a stratified mean of chances below P in all
    hedged = [patterns.above(world, one(None), each=each, seed=5) for world in (made_for_it, made_for_pilots)]
    pilot = patterns.above(made_for_pilots, one(Pilot()), each=each, seed=6)
    print(f"\n{records:,} records: hedged {hedged}, pilot {pilot:.4f}")
    # Far below the level, since a walk has to pass every parameter below the truth with other numbers of guesses.
    assert max(hedged) <= P + error
    if records == 100_000:
        assert pilot > P + error  # the control

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
from miaudit.dp.selection import Hedged, Pilot, numbers_of
from miaudit.dp.several_runs import Anytime
from worlds import patterns

pytestmark = pytest.mark.slow
P, MU = 0.05, 0.5


def pilots_in_each_run(world: patterns.Patterns, several: int, *, each: int) -> float:
    """The twin of what several runs did before: a pilot in every run, and all of them have to refute.

    Runs are independent, so this is the power of the chance in one of them, which is known from runs of every pattern.
    """
    confidence = 1 - several_runs.level(several, confidence=1 - P)
    return patterns.above(world, one(Pilot(), confidence), each=each, seed=several) ** several


def exceeded(world: patterns.Patterns, several: int, audit, audits: int, seed: int) -> float:
    count = 0
    for child in np.random.default_rng(seed).spawn(audits):
        count += audit([world.run(child) for _ in range(several)], child) > world.mu
    return count / audits


def by_default(runs: list[Evidence], rng: np.random.Generator) -> float:
    return several_runs.audit(runs, confidence=1 - P, rng=rng).value


def at_any_time(runs: list[Evidence], rng: np.random.Generator) -> float:
    return several_runs.audit(runs, confidence=1 - P, at_least=Anytime(), rng=rng).value


@pytest.mark.parametrize(("several", "records"), [(7, 10_000), (4, 10_000), (2, 10_000)])
def test_several_runs_keep_their_level_against_a_mechanism_made_against_pilots(several: int, records: int) -> None:
    world = patterns.against_pilots(records, MU, several_runs.level(several, confidence=1 - P))
    audits = 200
    found = exceeded(world, several, by_default, audits, seed=several)
    assert found <= P + 3 * math.sqrt(P * (1 - P) / audits), found
    pilots = pilots_in_each_run(world, several, each=800)
    print(f"\n{several} runs of {records:,}: first chooses {found:.3f} ({audits} audits), pilots {pilots:.3f}")
    # The control; of two or four runs of so few records a pilot is misled too seldom. Error of the chance: about .005.
    assert several < 7 or pilots > 1.25 * P, pilots


def test_runs_that_are_looked_at_any_time_keep_it_too() -> None:
    world = patterns.against_pilots(10_000, MU, Anytime().level)
    found = exceeded(world, 8, at_any_time, 150, seed=3)
    print(f"\nanytime, 8 runs: {found:.3f}")
    assert found <= P + 3 * math.sqrt(P * (1 - P) / 150), found


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

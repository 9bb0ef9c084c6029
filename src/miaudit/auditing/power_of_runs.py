"""What several runs of the same training will show, beside what any one run can: before there is data."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np

from miaudit.auditing.planned_guesses import PlannedGuesses
from miaudit.auditing.power import TRUE_MUS
from miaudit.causal.progress import stage
from miaudit.dp import one_run, schedule
from miaudit.dp.ceiling import one_run_ceiling
from miaudit.dp.earlier_runs import pessimistic
from miaudit.dp.selection import Option, Pilot, Schedule, numbers_of
from miaudit.dp.several_runs import SCHEDULE_UP_TO, Anytime, AtLeast
from miaudit.errors import InputError
from miaudit.errors.checks import check_confidence

__all__ = ["SeveralRunsReach", "reach"]

NUMBERS = (1, 2, 4, 8)
_AUDITS = 200  # simulated; the mean of a bound is then known to about 2%
_MOST_RUNS = 40  # after which nobody waits for a claim to fall
_SHARE = 0.8  # of the truth, that is claimed


@dataclass(frozen=True)
class SeveralRunsReach:
    """What the best attack on Gaussian noise of a known mu shows on average, by the number of runs.

    Attributes
    ----------
    mu : of the algorithm
    ceiling : proven limit of the mean of min(bound, ``mu``) of one run (:func:`miaudit.dp.ceiling.one_run_ceiling`)
    runs, shown : numbers of runs, and the mean lower bound on mu of so many; those in which the option is refused are
        left out
    claim : four fifths of ``mu``
    falls_after : median number of runs after which that claim is refuted, looked at after each; None beyond 40, and
        where the option is refused
    """

    mu: float
    ceiling: float
    runs: tuple[int, ...]
    shown: tuple[float, ...]
    claim: float
    falls_after: int | None


@stage("several runs")
def reach(
    canaries: int,
    *,
    true_mus: Sequence[float] = TRUE_MUS,
    numbers: Sequence[int] = NUMBERS,
    confidence: float = 0.95,
    guesses: Option | int | None = None,
    rng: np.random.Generator,
) -> tuple[SeveralRunsReach, ...]:
    """Return what several runs of so many canaries each show, for algorithms of known mu.

    Counts of right guesses are simulated: 200 audits of each number of runs. As ``miaudit audit`` does by default, the
    first of three runs or more chooses the number of guesses and is not audited, or ``guesses`` says how they are
    settled; here the best of the numbers is taken instead.

    Parameters
    ----------
    canaries : int from 10, members and others together, of each run
    true_mus : above 0
    numbers : of runs, each from 1
    confidence : in (0.5, 1), one-sided
    guesses : int, an option of :mod:`miaudit.dp.selection`, or None
        A pilot is refused in several runs, and a schedule where each of them is tested above level .4.

    Examples
    --------
    >>> (found,) = reach(10_000, true_mus=[2.0], numbers=[1, 4], rng=np.random.default_rng(0))
    >>> one, four = found.shown
    >>> one < four, one < found.ceiling, found.falls_after
    (True, True, 6)
    """
    if isinstance(canaries, bool) or not isinstance(canaries, int) or canaries < 10:
        raise InputError("canaries", "a whole number from 10", repr(canaries), "members and non-members of one run")
    check_confidence(confidence)
    return tuple(
        _of(mu, canaries, tuple(numbers), confidence, guesses, child)
        for mu, child in zip(true_mus, rng.spawn(len(true_mus)), strict=True)
    )


def _of(
    mu: float,
    canaries: int,
    numbers: tuple[int, ...],
    confidence: float,
    guesses: Option | int | None,
    rng: np.random.Generator,
) -> SeveralRunsReach:
    shown = {
        number: math.fsum(_bounds(mu, canaries, number, confidence, guesses, rng)) / _AUDITS
        for number in numbers
        if _offered(guesses, number, AtLeast().level_of_each(number, confidence))
    }
    claim = _SHARE * mu
    ceiling = one_run_ceiling(mu, canaries, confidence=confidence)
    after = None
    if _offered(guesses, _MOST_RUNS, Anytime().level):
        chosen = guesses is None
        run = _Run.chosen(mu, canaries, Anytime().level) if chosen else _Run.of(mu, canaries, Anytime().level, guesses)
        after = _falls_after(claim, run, confidence, rng, aside=int(chosen))
    return SeveralRunsReach(mu, ceiling, tuple(shown), tuple(shown.values()), claim, after)


def _offered(guesses: Option | int | None, number: int, level: float) -> bool:
    """Whether an audit of so many runs takes an option, with each run tested at a level."""
    if number == 1:
        return True
    return not isinstance(guesses, Pilot) and not (isinstance(guesses, Schedule) and level > SCHEDULE_UP_TO)


def _bounds(
    mu: float,
    canaries: int,
    number: int,
    confidence: float,
    guesses: Option | int | None,
    rng: np.random.Generator,
) -> list[float]:
    """Return simulated bounds of so many runs."""
    way = AtLeast()
    if guesses is not None or number == 1:
        run = _Run.of(mu, canaries, way.level_of_each(number, confidence), guesses)
        return [way.largest(run.drawn(number, rng), confidence) for _ in range(_AUDITS)]
    audited = max(2, number - 1)
    level = way.level_of_each(audited, confidence)
    run = _Run.chosen(mu, canaries, level)
    if number == 2:
        first = _Run.of(mu, canaries, level, None)
        return [min(*first.drawn(1, rng), *run.drawn(1, rng)) for _ in range(_AUDITS)]
    return [way.largest(run.drawn(audited, rng), confidence) for _ in range(_AUDITS)]


def _falls_after(claim: float, run: _Run, confidence: float, rng: np.random.Generator, *, aside: int) -> int | None:
    """Median number of runs until the wealth against a claim has reached its mark, with those that only choose."""
    way = Anytime()
    steps = np.array([[bound >= claim for bound in run.drawn(_MOST_RUNS, rng)] for _ in range(_AUDITS)])
    reached = way.wealth(steps).cumsum(axis=1) >= way.mark(confidence)
    first = np.where(reached.any(axis=1), reached.argmax(axis=1) + 1, _MOST_RUNS + 1)
    median = int(np.median(first)) + aside
    return median if median <= _MOST_RUNS else None


@dataclass(frozen=True)
class _Run:
    """One-run audits at a level: how many guesses are right, and the bound that each count gives."""

    guesses: int
    accuracy: float
    audited: int
    confidence: float

    @classmethod
    def of(cls, mu: float, canaries: int, level: float, guesses: Option | int | None) -> _Run:
        """Choose the number of guesses whose expected count gives the largest bound."""
        planned = PlannedGuesses.of(guesses, canaries, 1 - level)
        n = planned.audited
        runs = [cls(r, schedule.gaussian_accuracy(mu, r / n), n, confidence) for r, confidence in planned.tests]
        return max(runs, key=lambda run: run._bound(round(run.guesses * run.accuracy)))

    @classmethod
    def chosen(cls, mu: float, canaries: int, level: float) -> _Run:
        """Choose the number of guesses as a first run chooses it for the others, on the counts that it expects."""
        counts = numbers_of(Schedule().fractions, canaries)
        runs = [cls(r, schedule.gaussian_accuracy(mu, r / canaries), canaries, 1 - level) for r in counts]
        return max(runs, key=lambda run: run._bound(pessimistic(round(run.guesses * run.accuracy), run.guesses)))

    def drawn(self, number: int, rng: np.random.Generator) -> list[float]:
        """Bounds of so many independent runs."""
        return [self._bound(int(right)) for right in rng.binomial(self.guesses, self.accuracy, size=number)]

    def _bound(self, right: int) -> float:
        return _bound_of(right, self.guesses, self.audited, self.confidence)


@cache
def _bound_of(right: int, guesses: int, audited: int, confidence: float) -> float:
    bound = one_run.count_bound("mu")
    return bound(correct=right, guesses=guesses, canaries=audited, confidence=confidence).value

"""What several runs of the same training will show, beside what any one run can: before there is data."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np

from miaudit.auditing.power import TRUE_MUS
from miaudit.dp import one_run, selection
from miaudit.dp.ceiling import one_run_ceiling
from miaudit.dp.several_runs import Anytime, AtLeast
from miaudit.errors import InputError, check_confidence

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
    ceiling : what no audit of one run can exceed on average (:func:`miaudit.dp.ceiling.one_run_ceiling`)
    runs, shown : numbers of runs, and the mean lower bound on mu of so many
    claim : four fifths of ``mu``
    falls_after : median number of runs after which that claim is refuted, looked at after each; None beyond 40
    """

    mu: float
    ceiling: float
    runs: tuple[int, ...]
    shown: tuple[float, ...]
    claim: float
    falls_after: int | None


def reach(
    canaries: int,
    *,
    true_mus: Sequence[float] = TRUE_MUS,
    numbers: Sequence[int] = NUMBERS,
    confidence: float = 0.95,
    rng: np.random.Generator,
) -> tuple[SeveralRunsReach, ...]:
    """Return what several runs of so many canaries each show, for algorithms of known mu.

    Counts of right guesses are simulated: 200 audits of each number of runs. As ``miaudit audit`` does by default, a
    fifth of each run is a pilot that chooses the number of guesses; here the best number is taken instead.

    Parameters
    ----------
    canaries : int from 10, members and others together, of each run
    true_mus : above 0
    numbers : of runs, each from 1
    confidence : in (0.5, 1), one-sided

    Examples
    --------
    >>> (found,) = reach(10_000, true_mus=[2.0], numbers=[1, 4], rng=np.random.default_rng(0))
    >>> one, four = found.shown
    >>> one < four, one < found.ceiling, found.falls_after
    (True, True, 5)
    """
    if isinstance(canaries, bool) or not isinstance(canaries, int) or canaries < 10:
        raise InputError("canaries", "a whole number from 10", repr(canaries), "members and non-members of one run")
    check_confidence(confidence)
    audited = canaries - round(selection.Pilot().share * canaries)
    return tuple(
        _of(mu, audited, canaries, tuple(numbers), confidence, child)
        for mu, child in zip(true_mus, rng.spawn(len(true_mus)), strict=True)
    )


def _of(
    mu: float, audited: int, canaries: int, numbers: tuple[int, ...], confidence: float, rng: np.random.Generator
) -> SeveralRunsReach:
    means = []
    for number in numbers:
        way = AtLeast()
        run = _Run.of(mu, audited, way.level_of_each(number, confidence))
        bounds = [way.largest(run.drawn(number, rng), confidence) for _ in range(_AUDITS)]
        means.append(math.fsum(bounds) / _AUDITS)
    claim = _SHARE * mu
    ceiling = one_run_ceiling(mu, canaries, confidence=confidence)
    return SeveralRunsReach(
        mu, ceiling, numbers, tuple(means), claim, _falls_after(claim, mu, audited, confidence, rng)
    )


def _falls_after(claim: float, mu: float, audited: int, confidence: float, rng: np.random.Generator) -> int | None:
    """Median number of runs until the wealth against a claim has reached its mark."""
    way = Anytime()
    run = _Run.of(mu, audited, way.level)
    steps = np.array([[bound >= claim for bound in run.drawn(_MOST_RUNS, rng)] for _ in range(_AUDITS)])
    reached = way.wealth(steps).cumsum(axis=1) >= way.mark(confidence)
    first = np.where(reached.any(axis=1), reached.argmax(axis=1) + 1, _MOST_RUNS + 1)
    median = int(np.median(first))
    return median if median <= _MOST_RUNS else None


@dataclass(frozen=True)
class _Run:
    """One-run audits at a level: how many guesses are right, and the bound that each count gives."""

    guesses: int
    accuracy: float
    audited: int
    level: float

    @classmethod
    def of(cls, mu: float, audited: int, level: float) -> _Run:
        """Choose the number of guesses whose expected count gives the largest bound."""
        ways = [max(1, round(fraction * audited)) for fraction in selection.Pilot().fractions]
        runs = [cls(r, selection.gaussian_accuracy(mu, r / audited), audited, level) for r in ways]
        return max(runs, key=lambda run: run._bound(round(run.guesses * run.accuracy)))

    def drawn(self, number: int, rng: np.random.Generator) -> list[float]:
        """Bounds of so many independent runs."""
        return [self._bound(int(right)) for right in rng.binomial(self.guesses, self.accuracy, size=number)]

    def _bound(self, right: int) -> float:
        return _bound_of(right, self.guesses, self.audited, self.level)


@cache
def _bound_of(right: int, guesses: int, audited: int, level: float) -> float:
    bound = one_run.count_bound("mu")
    return bound(correct=right, guesses=guesses, canaries=audited, confidence=1 - level).value

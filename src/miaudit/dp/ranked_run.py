"""One run whose records were included by fair coins, in each of the orders in which an audit may guess at them."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from miaudit.arrays import BoolArray, IntArray
from miaudit.dp.ranking import Ranking
from miaudit.dp.selection import (
    CLEARLY,
    CountBound,
    CountTest,
    Fixed,
    Hedged,
    Option,
    Pilot,
    RankedTest,
    by_turns,
    choose,
    one_sided,
    two_sided,
)
from miaudit.dp.verdict import LowerBound
from miaudit.errors import DesignError
from miaudit.evidence import Evidence
from miaudit.metrics.trials import one_of_each

__all__ = ["UNFAIR", "IndependentRun", "RankedRun"]

UNFAIR = 2  # standard deviations; a fixed split of 56 to 44 in 1,000 records is 3.8 of them, and no coin


@dataclass(frozen=True, eq=False)
class IndependentRun(ABC):
    """One run whose records were included by fair coins, in whatever form its scores are held.

    Attributes
    ----------
    notes : what was left out, in words
    bound : lower bound from counts
    before : number of records before any were left out
    generators : one for the ties of each order, and one for a pilot
    """

    notes: tuple[str, ...]
    bound: CountBound
    before: int
    generators: tuple[np.random.Generator, ...]

    @property
    @abstractmethod
    def records(self) -> int:
        """Return the number of independent records."""

    @property
    def rows(self) -> IntArray:
        """Return the positions (n,) of all records."""
        return np.arange(self.records)

    @abstractmethod
    def orders_for(self, guesses: object) -> tuple[RankedTest, ...]:
        """Return the orders that an option of :mod:`miaudit.dp.selection` uses or chooses from."""

    def lower_bound(self, guesses: Option | int | None, confidence: float) -> LowerBound:
        """Return the lower bound with as many guesses as an option of :mod:`miaudit.dp.selection` says.

        Parameters
        ----------
        guesses : int, an option, or None for the default; of sorted counts no pilot
        confidence : in (0, 1), one-sided
        """
        option = Fixed(guesses) if isinstance(guesses, int) and not isinstance(guesses, bool) else guesses
        notes = self.notes
        if isinstance(option, Fixed) and self.records < option.count <= self.before:
            fewer = f"{self.records:,} guesses instead of {option.count:,}, one at every record that was left"
            option, notes = Fixed(self.records), (*notes, fewer)
        rng, rows = self.generators[4], self.rows
        bound = choose(option, self.orders_for(option), confidence=confidence, rng=rng, gain=CLEARLY, rows=rows)
        return replace(bound, corrections=(*notes, *bound.corrections))


@dataclass(frozen=True, eq=False)
class RankedRun(IndependentRun):
    """Independent records of one run, and four orders of guesses.

    Attributes
    ----------
    ranking : the scores, sorted
    member : bools (n,)
    """

    ranking: Ranking
    member: BoolArray

    @classmethod
    def of(cls, evidence: Evidence, bound: CountBound, rng: np.random.Generator) -> RankedRun:
        """Rank evidence of design "one-run" with one score.

        Parameters
        ----------
        evidence, bound : what is audited, and the lower bound from counts
        rng : draws the record of a unit, the records left out for balance, and the order of ties

        Raises
        ------
        DesignError
            For evidence of another design, or of none that was declared.
        """
        _require_one_run(evidence)
        ranking, member, notes = _independent_records(evidence, rng)
        return cls(notes, bound, evidence.n, tuple(rng.spawn(5)), ranking, member)

    @property
    def records(self) -> int:
        """Return the number of independent records."""
        return len(self.member)

    @cached_property
    def both_sides(self) -> CountTest:
        """Guesses on both sides of the median score, the farthest first."""
        return two_sided(self.ranking, self.member, self.bound, rng=self.generators[0])

    @cached_property
    def in_turn(self) -> CountTest:
        """Guesses from both ends of the scores in turn."""
        return by_turns(self.ranking, self.member, self.bound, rng=self.generators[1])

    @cached_property
    def every_order(self) -> tuple[CountTest, ...]:
        """All four orders: both sides, by turns, members only, non-members only."""
        above, below = self.generators[2:4]
        return (
            self.both_sides,
            self.in_turn,
            one_sided(self.ranking, self.member, self.bound, guess=True, rng=above),
            one_sided(self.ranking, self.member, self.bound, guess=False, rng=below),
        )

    @cached_property
    def right(self) -> tuple[IntArray, ...]:
        """Return for each order how many of the first 1, 2, ..., n guesses are right (n,)."""
        return tuple(np.cumsum(test.correct[test.places]) for test in self.every_order)

    def orders_for(self, guesses: object) -> tuple[CountTest, ...]:
        """Return the orders that an option of :mod:`miaudit.dp.selection` uses or chooses from."""
        if isinstance(guesses, Pilot):
            return self.every_order
        if guesses is None or isinstance(guesses, Hedged):
            return (self.in_turn if self.ranking.lopsided else self.both_sides,)
        return (self.both_sides,)


def _require_one_run(evidence: Evidence) -> None:
    needs = "a one-run bound needs evidence whose inclusion was randomised within one run (design 'one-run')"
    if evidence.design == "multi-run":
        raise DesignError(f"{needs}, received 'multi-run'; use dp.multi_run, which needs no more than independent runs")
    if evidence.design == "zero-run":
        raise DesignError(f"{needs}, received 'zero-run'; use dp.zero_run, which corrects for how members were chosen")
    if evidence.design is None:
        raise DesignError(f"{needs}, received none; declare design='one-run' if an auditor tossed fair coins")
    if evidence.inclusion is not None and (evidence.inclusion != 0.5).any():
        raise DesignError(
            "a one-run bound needs fair coins, received records with other chances of inclusion; miaudit.audit thins "
            "them to fair coins first"
        )


def cut(larger: int, smaller: int) -> str:
    """Say that records of the larger class were left out, where the numbers of both could be no fair coins."""
    return (
        f"the larger class was cut at random from {larger:,} to {smaller:,} records: the counts are more than "
        f"{UNFAIR} standard deviations from a fair coin's, and equal halves only approximate one"
    )


def _independent_records(evidence: Evidence, rng: np.random.Generator) -> tuple[Ranking, BoolArray, tuple[str, ...]]:
    """Return ranked scores and membership of one record per unit, balanced where they could be no fair coins."""
    notes: list[str] = []
    rows = np.arange(evidence.n)
    if evidence.unit_codes is not None:
        rows = one_of_each(evidence.unit_codes, rng)
        notes.append(f"one record of each of {len(rows):,} units, drawn at random of {evidence.n:,} records")
    member = evidence.member[rows]
    sides = [rows[member], rows[~member]]
    larger, smaller = sorted(map(len, sides), reverse=True)
    if larger - smaller > UNFAIR * math.sqrt(len(rows)):
        sides = [rng.permutation(side)[:smaller] for side in sides]
        rows = np.sort(np.concatenate(sides))
        notes.append(cut(larger, smaller))
    return Ranking(evidence.score, evidence.ascending).take(rows), evidence.member[rows], tuple(notes)

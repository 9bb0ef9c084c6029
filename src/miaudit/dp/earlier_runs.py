"""How many guesses an audit of a run makes, and in what order, chosen on all labels of earlier runs.

The coins of a run are fresh whatever happened in the runs before it. So a number of guesses that follows from earlier
runs alone is a constant for that run, and its one-run test keeps its level (experiments/methods.md, section 7). A
number that follows from the scores of the same run does not: the mechanism writes them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from miaudit.dp.ranked_run import RankedRun
from miaudit.dp.selection import CLEARLY, GUESSES_FIRST, Schedule, numbers_of
from miaudit.dp.verdict import LowerBound

__all__ = ["Choice"]

CHOSEN_BEFORE = "the number of guesses and their order were chosen on earlier runs"


@dataclass(frozen=True)
class Choice:
    """A share of the records to guess at, and an order of the guesses.

    Attributes
    ----------
    fraction : in (0, 1], of the records
    order : place among :attr:`miaudit.dp.ranked_run.RankedRun.every_order`
    """

    fraction: float
    order: int

    @classmethod
    def on(cls, earlier: Sequence[RankedRun], confidence: float) -> Choice:
        """Choose what promises the largest bound, at the confidence of one run, from all labels of earlier runs.

        The share of right guesses is taken a little pessimistic, and a later order has to promise 1.2 times as much as
        an earlier one: the best of several looks better than it is.
        """
        best, chosen = -1.0, cls(1.0, 0)
        for order in range(len(earlier[0].every_order)):
            promised = [(_promised(earlier, order, share, confidence), share) for share in Schedule().fractions]
            value, share = max(promised, key=lambda pair: pair[0])
            if value > max(best, 0.0) * CLEARLY or best < 0:
                best, chosen = value, cls(share, order)
        return chosen

    def lower_bound(self, run: RankedRun, confidence: float) -> LowerBound:
        """Return the lower bound of a later run."""
        test = run.every_order[self.order]
        (guesses,) = numbers_of((self.fraction,), run.records)
        bound = test.bound(np.arange(run.records), guesses, confidence)
        assumptions = tuple(CHOSEN_BEFORE if text == GUESSES_FIRST else text for text in bound.assumptions)
        return replace(bound, assumptions=assumptions, corrections=(*run.notes, *bound.corrections))

    def in_words(self, run: RankedRun) -> str:
        """Say what was chosen, by the records of a run."""
        (guesses,) = numbers_of((self.fraction,), run.records)
        return f"{guesses:,} guesses of {run.records:,} ({run.every_order[self.order].name})"


def pessimistic(right: int, made: int, guesses: int | None = None) -> int:
    """Return right guesses to expect of so many, a little fewer than in proportion to those of earlier runs.

    Examples
    --------
    >>> pessimistic(90, 100), pessimistic(90, 100, 1_000)
    (88, 883)
    """
    share = (right + 0.5) / (made + 1) - 0.125 / math.sqrt(made)
    return math.floor((made if guesses is None else guesses) * min(1.0, max(0.0, share)))


def _promised(earlier: Sequence[RankedRun], order: int, share: float, confidence: float) -> float:
    """Return the bound that a share of the records as guesses lets expect of the next run."""
    right = guessed = 0
    for run in earlier:
        (guesses,) = numbers_of((share,), run.records)
        right, guessed = right + int(run.right[order][guesses - 1]), guessed + guesses
    (guesses,) = numbers_of((share,), earlier[-1].records)
    bound, expected = earlier[-1].bound, pessimistic(right, guessed, guesses)
    return bound(correct=expected, guesses=guesses, canaries=earlier[-1].records, confidence=confidence).value

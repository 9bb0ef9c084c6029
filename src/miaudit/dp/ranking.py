"""The orders in which an audit guesses, all of them from one sort of the scores.

Guesses are made in falling order of how sure they are: from the highest score down, from the lowest up, or from the
farthest from the middle. Each such order follows from the scores in ascending order in O(n), so that scores are sorted
once however many orders are tried. Equally sure guesses stand in random order, of one number for each record drawn in
the order of the records: what is drawn does not depend on how many scores are equal.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from miaudit.arrays import BoolArray, FloatArray, IndexArray

BOTH_SIDES = "both sides of the median score, the farthest first"
BOTH_ENDS = "both ends of the scores in turn"
LOPSIDED = 2.0  # Gaussian scores stay near 1; losses and their exponentials are beyond it
_LARGE = 64  # records of a block of equal scores, from which it is sorted by itself


@dataclass(frozen=True, eq=False)
class Ranking:
    """Scores sorted once.

    Attributes
    ----------
    score : finite floats (n,), higher is more member-like
    ascending : ints (n,), rows from the lowest score to the highest; equal scores in any order

    Examples
    --------
    >>> ranking = Ranking.of(np.array([0.3, -2.0, 1.0, 0.1]))
    >>> ranking.highest_first(np.random.default_rng(0)), ranking.outermost_first(0.0, np.random.default_rng(0))
    (array([2, 0, 3, 1]), array([1, 2, 0, 3]))
    """

    score: FloatArray
    ascending: IndexArray

    @classmethod
    def of(cls, score: FloatArray) -> Ranking:
        """Sort scores (n,)."""
        return cls(score, np.argsort(score))

    def take(self, rows: IndexArray) -> Ranking:
        """Return the ranking of some of the records, named by their rows in ascending order; O(n)."""
        if len(rows) == len(self.score):
            return self
        selected = np.zeros(len(self.score), dtype=np.bool_)
        selected[rows] = True
        place = np.cumsum(selected) - 1  # of a record among those that are kept
        return Ranking(self.score[rows], place[self.ascending[selected[self.ascending]]])

    @cached_property
    def ordered(self) -> FloatArray:
        """The scores (n,) in ascending order."""
        return self.score[self.ascending]

    @cached_property
    def _level(self) -> BoolArray:
        """Whether the i-th score and the next are equal (n - 1,)."""
        return np.asarray(self.ordered[1:] == self.ordered[:-1])

    @cached_property
    def centre(self) -> float:
        """The median; where many scores equal it, the middle of the gap beside them that splits most evenly.

        With two values only, and one more of one of them, the median is that one and would leave half the records
        without a guess.
        """
        n, ordered = len(self.ordered), self.ordered
        centre = float(np.median(ordered[(n - 1) // 2 : n // 2 + 1]))
        first, after = np.searchsorted(ordered, centre, side="left"), np.searchsorted(ordered, centre, side="right")
        if first > n - after:
            return (centre + float(ordered[first - 1])) / 2
        if n - after > first:
            return (centre + float(ordered[after])) / 2
        return centre

    @property
    def lopsided(self) -> bool:
        """Whether scores are more than twice as far apart on one side of the middle as on the other.

        From the last tenth to the last four tenths on either side.
        """
        n = len(self.ordered)
        if not n:
            return False
        near, far = 4 * n // 10, n // 10
        below = float(self.ordered[near] - self.ordered[far])
        above = float(self.ordered[n - 1 - far] - self.ordered[n - 1 - near])
        return max(below, above) > LOPSIDED * min(below, above)

    def highest_first(self, rng: np.random.Generator) -> IndexArray:
        """Return rows (n,) from the highest score to the lowest; equal scores in random order."""
        return _drawn(self.ascending[::-1], self._level[::-1], rng)

    def lowest_first(self, rng: np.random.Generator) -> IndexArray:
        """Return rows (n,) from the lowest score to the highest; equal scores in random order."""
        return _drawn(self.ascending, self._level, rng)

    def outermost_first(self, centre: float, rng: np.random.Generator) -> IndexArray:
        """Return rows (n,) from the score farthest from ``centre`` to the nearest; equally far ones in random order."""
        below = int(np.searchsorted(self.ordered, centre))
        rows = np.concatenate([self.ascending[:below], self.ascending[below:][::-1]])
        near = -np.abs(self.score[rows] - centre)  # two ascending runs, which a stable sort merges in O(n)
        merged = np.argsort(near, kind="stable")
        near = near[merged]
        return _drawn(rows[merged], near[1:] == near[:-1], rng)


def ends_in_turn(ascending: IndexArray, rng: np.random.Generator) -> IndexArray:
    """Return rows (n,) from both ends of an order (n,) inwards, which end comes first drawn at random each time."""
    n = len(ascending)
    half, tie_breaks = n // 2, rng.random(n)
    low, high = ascending[:half], ascending[::-1][:half]
    first, second = tie_breaks[high], tie_breaks[low]
    high_first = (first < second) | ((first == second) & (high < low))
    rows = np.empty(n, dtype=np.intp)
    rows[0 : 2 * half : 2] = np.where(high_first, high, low)
    rows[1 : 2 * half : 2] = np.where(high_first, low, high)
    rows[2 * half :] = ascending[half : n - half]
    return rows


def _drawn(rows: IndexArray, level: BoolArray, rng: np.random.Generator) -> IndexArray:
    """Return rows (n,) with those of a level in random order; ``level`` says whether each equals the next (n - 1,).

    One number is drawn for each record; of two equal numbers the record with the lower row stands first.
    """
    tie_breaks = rng.random(len(rows))
    if not level.any():
        return rows
    rows = rows.copy()
    edges = np.flatnonzero(np.diff(level, prepend=False, append=False))  # where blocks start, and their last places
    starts, stops = edges[::2], edges[1::2] + 1
    large = stops - starts >= _LARGE
    for start, stop in zip(starts[large].tolist(), stops[large].tolist(), strict=True):
        rows[start:stop] = _by_number(rows[start:stop], tie_breaks)
    starts, sizes = starts[~large], (stops - starts)[~large]
    block = np.repeat(np.arange(len(starts)), sizes)
    places = np.arange(len(block)) + np.repeat(starts - np.cumsum(sizes) + sizes, sizes)
    tied = rows[places]
    rows[places] = tied[np.lexsort((tied, tie_breaks[tied], block))]
    return rows


def _by_number(rows: IndexArray, drawn: FloatArray) -> IndexArray:
    number = drawn[rows]
    order = np.argsort(number)
    number = number[order]
    if (number[1:] == number[:-1]).any():  # of ten million numbers of 53 bits, two in one of two hundred audits
        order = np.lexsort((rows, drawn[rows]))
    return np.asarray(rows[order])

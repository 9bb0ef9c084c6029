"""Thinning to fair coins (Theorem Z): zero-run evidence becomes one-run evidence.

A record is dropped at random with a probability that depends on its label, so that membership of the kept ones is a
fair coin given the covariates, or nearly one where the log-odds are known within an interval only. The theorem, its
proof and what it gains over the paper's tampering are in ``docs/zero_run.md``.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from miaudit.arrays import BoolArray, FloatArray, IntArray
from miaudit.causal.crossfit import expit
from miaudit.dp.bounds import LowerBound
from miaudit.dp.selection import CountBound, Order
from miaudit.errors import InputError


@dataclass(frozen=True)
class SeedStable:
    """Many sets of coins: a claim falls if at least three quarters of them refute it at three quarters of the level.

    The share of coin sets that refute a true claim at 3/4 of the level is at most 3/4 of the level on average, so by
    Markov's inequality it is 3/4 or more with at most the level's probability. Costs about 0.025 in mu.

    Attributes
    ----------
    sets : number of coin sets, 4 or more
    """

    sets: int = 40

    def __post_init__(self) -> None:
        if isinstance(self.sets, bool) or not isinstance(self.sets, int) or self.sets < 4:
            raise InputError("sets", "a whole number from 4 up", repr(self.sets), "40 is the default")

    @property
    def share_of_level(self) -> float:
        """Level of each coin set, as a share of the whole."""
        return 0.75

    def settle(self, bounds: list[float]) -> float:
        """Return the largest value that at least three quarters of the bounds reach."""
        needed = math.ceil(0.75 * len(bounds))
        return sorted(bounds, reverse=True)[needed - 1]


def keeping_probability(member: BoolArray, guess: IntArray, low: FloatArray, high: FloatArray) -> FloatArray:
    """Probability (n,) in (0, 1] with which Theorem Z keeps each record.

    Parameters
    ----------
    member : array (n,) of bool
    guess : array (n,), +1 for a guess "member", -1 for "non-member"
    low, high : arrays (n,), bounds on the log-odds of membership; equal where they are known

    Returns
    -------
    array (n,)
        After a guess "member": min(1, e^-high) of members and min(1, e^high) of non-members. After a guess
        "non-member" the same with ``low``. With known log-odds it depends on the label alone.

    Examples
    --------
    >>> at = np.log([3.0])
    >>> [keeping_probability(np.array([a]), np.array([1]), at, at).round(3).item() for a in (True, False)]
    [0.333, 1.0]
    """
    logit = np.where(guess > 0, high, low)
    return np.asarray(np.exp(np.minimum(0.0, np.where(member, -logit, logit))))


def coins_worth(low: FloatArray, high: FloatArray) -> FloatArray:
    """Return s_i of Theorem Z (n,) in (0, 1]: how much of a fair coin each record is; their sum is M.

    1 for a record whose interval holds 0, else twice the chance of its unlikelier label at the end nearer to 0.

    Examples
    --------
    >>> coins_worth(np.array([-0.1, np.log(3)]), np.array([0.1, np.log(3)])).tolist()
    [1.0, 0.5]
    """
    return 2 * expit(-np.maximum(0.0, np.maximum(low, -high)))


@dataclass(frozen=True, eq=False)
class Guessed:
    """Records in the order in which they are guessed, surest first, with log-odds that lie between two bounds.

    Attributes
    ----------
    member : array (m,) of bool
    guess : array (m,), +1 member or -1 non-member
    low, high : arrays (m,), bounds on the log-odds of membership
    """

    member: BoolArray
    guess: IntArray
    low: FloatArray
    high: FloatArray

    @property
    def correct(self) -> BoolArray:
        """Which guesses are right (m,)."""
        return np.asarray((self.guess > 0) == self.member)

    @property
    def effective(self) -> float:
        """M of Theorem Z: the number of fair coins that the records are worth, 0 to m."""
        return float(coins_worth(self.low, self.high).sum())

    def take(self, rows: IntArray) -> Guessed:
        """Return some of the records, in the order given."""
        return Guessed(self.member[rows], self.guess[rows], self.low[rows], self.high[rows])

    def kept(self, rng: np.random.Generator) -> IntArray:
        """Toss the coins once: positions of the kept records, ascending, so surest first."""
        coins = rng.random(len(self.member))
        return np.flatnonzero(coins < keeping_probability(self.member, self.guess, self.low, self.high))


@dataclass(frozen=True, eq=False)
class SeedStableTest:
    """A one-run test on many sets of coins (:class:`SeedStable`).

    Attributes
    ----------
    order : of the records and the guesses
    records : in that order
    coins : sets of positions that were kept, ascending
    stable : the rule
    one_run : bound from counts
    """

    order: Order
    records: Guessed
    coins: tuple[IntArray, ...]
    stable: SeedStable
    one_run: CountBound

    @classmethod
    def of(
        cls, order: Order, records: Guessed, stable: SeedStable, one_run: CountBound, rng: np.random.Generator
    ) -> SeedStableTest:
        """Toss every set of coins."""
        return cls(order, records, tuple(records.kept(rng) for _ in range(stable.sets)), stable, one_run)

    def bound(self, rows: IntArray, guesses: int, confidence: float) -> LowerBound:
        """Return what at least three quarters of the coin sets show."""
        whole, inner = self.canaries(rows), 1 - self.stable.share_of_level * (1 - confidence)
        found = [
            self.one_run(correct=right, guesses=guesses, canaries=max(whole, guesses), confidence=inner)
            for right in self._right(rows, guesses)
        ]
        middle = sorted(found, key=lambda bound: bound.value, reverse=True)[math.ceil(0.75 * len(found)) - 1]
        p_values = sorted(1.0 if bound.p_value is None else bound.p_value for bound in found)
        return replace(
            middle,
            value=self.stable.settle([bound.value for bound in found]),
            confidence=confidence,
            p_value=min(1.0, p_values[math.ceil(0.75 * len(found)) - 1] / self.stable.share_of_level),
            corrections=(*middle.corrections, f"{len(found)} sets of coins, of which three quarters must agree"),
        )

    def share_right(self, rows: IntArray, guesses: int) -> tuple[int, int]:
        """Return right and made guesses among the first kept ones of the first set of coins."""
        kept = rows[np.isin(rows, self.coins[0])][:guesses]
        return int(np.count_nonzero(self.records.correct[kept])), len(kept)

    def foreseen(self, rows: IntArray, guesses: int, share: float, confidence: float) -> float:
        """Return the bound if this share of the guesses were right."""
        whole, inner = self.canaries(rows), 1 - self.stable.share_of_level * (1 - confidence)
        right = math.floor(share * guesses)
        return self.one_run(correct=right, guesses=guesses, canaries=max(whole, guesses), confidence=inner).value

    def canaries(self, rows: IntArray) -> int:
        """Return the effective number of fair coins, rounded up."""
        return max(1, math.ceil(self.records.take(rows).effective - 1e-9))

    def _right(self, rows: IntArray, guesses: int) -> Iterator[int]:
        inside = np.zeros(len(self.records.member), dtype=np.bool_)
        inside[rows] = True
        for kept in self.coins:
            yield int(np.count_nonzero(self.records.correct[kept[inside[kept]][:guesses]]))

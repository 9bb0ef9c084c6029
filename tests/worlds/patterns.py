"""Mechanisms made against an audit that chooses its number of guesses from the scores of the run that it audits.

With some chance the bits of a random share of the records come out, each right with some accuracy, and else nothing:
a pattern. A pattern that is released more often than the level breaks a claim at its own number of guesses. Several
patterns, each released seldom enough, keep the claim together, and a choice on the scores finds whichever was released.
The true mu of such a mixture is known in closed form, and the chances of release that break an audit most often are the
solution of a linear program.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import optimize, stats

from miaudit import Evidence
from miaudit.dp import one_run
from miaudit.dp.selection import TEN


@dataclass(frozen=True)
class Patterns:
    """A mixture of patterns.

    Attributes
    ----------
    records : of a run
    shares : of the records whose bits a pattern releases
    accuracies : of those bits
    chances : of release
    """

    records: int
    shares: tuple[float, ...]
    accuracies: tuple[float, ...]
    chances: tuple[float, ...]

    @property
    def mu(self) -> float:
        """The smallest mu of Gaussian DP that the mixture satisfies: the largest over the kinks of its trade-off.

        Given the other records, a run shows which pattern was released, and one bit of a record if it is among the
        chosen ones: right with the accuracy, so likelihood ratios are those of the accuracies.
        """
        order = np.argsort(self.accuracies)[::-1]
        mass = np.array(self.chances)[order] * np.array(self.shares)[order]
        right = np.cumsum(mass * np.array(self.accuracies)[order])
        wrong = np.cumsum(mass * (1 - np.array(self.accuracies)[order]))
        return float((stats.norm.ppf(right) - stats.norm.ppf(wrong)).max())

    def run(self, rng: np.random.Generator, pattern: int | None = None) -> Evidence:
        """Draw a run; of one pattern, or of the mixture."""
        if pattern is None:
            pattern = int(np.searchsorted(np.cumsum(self.chances), rng.random(), side="right"))
        member = rng.random(self.records) < 0.5
        score = rng.normal(scale=1e-3, size=self.records)
        if pattern < len(self.shares):
            rows = rng.permutation(self.records)[: round(self.shares[pattern] * self.records)]
            right = rng.random(len(rows)) < self.accuracies[pattern]
            score[rows] += np.where(right == member[rows], 1.0, -1.0)
        return Evidence(score=score, member=member, design="one-run")


def against_pilots(records: int, mu: float, level: float) -> Patterns:
    """Return the worst mixture against a pilot: its ten numbers of guesses among four fifths of the records."""
    return worst(records, mu, [(share, level) for share in TEN], audited=0.8)


def worst(
    records: int, mu: float, tests: Sequence[tuple[float, float]], *, audited: float = 1.0, sure: float = 1.5
) -> Patterns:
    """Return the mixture with a mu of at most ``mu`` that is refuted at it most often, each pattern by one test.

    Parameters
    ----------
    records : of a run
    mu : of the claim
    tests : pairs of a share of the records as guesses, and the level of that one-run test
    audited : share of the records that an audit guesses among, all but a pilot's
    sure : standard deviations by which a pattern's right guesses exceed the fewest that refute
    """
    left = round(audited * records)
    shares, accuracies, power = [], [], []
    for share, level in tests:
        guesses = round(share * left)
        fewest = fewest_to_refute(mu, guesses, left, level)
        if fewest is None:
            continue
        accuracy = fewest / guesses + sure * math.sqrt(fewest / guesses * (1 - fewest / guesses) / guesses)
        if accuracy < 0.999:
            shares.append(share)
            accuracies.append(accuracy)
            power.append(float(stats.binom.sf(fewest - 1, guesses, accuracy)))
    q, a = np.array(accuracies), np.array(shares)
    odds = np.linspace(0, float(np.log(q / (1 - q)).max()), 4_001)
    allowed = stats.norm.cdf(mu / 2 - odds / mu) - np.exp(odds) * stats.norm.cdf(-mu / 2 - odds / mu)
    sticks = a * np.maximum(q - np.exp(odds)[:, None] * (1 - q), 0)
    found = optimize.linprog(
        -np.array(power),
        A_ub=np.vstack([sticks, np.ones(len(a))]),
        b_ub=np.r_[allowed, 1.0],
        bounds=(0, 1),
        method="highs",
    )
    used = found.x > 1e-3  # the tolerance of the program is no probability
    chances: NDArray[np.float64] = found.x[used]
    for _ in range(60):  # the grid of odds lets a little too much through
        made = Patterns(records, tuple(a[used]), tuple(q[used]), tuple(chances))
        if made.mu <= mu:
            return made
        chances = chances * 0.999
    raise AssertionError(made.mu)


def above(world: Patterns, audit: Callable[[Evidence, np.random.Generator], float], *, each: int, seed: int) -> float:
    """Return the chance that an audit of one run exceeds the true mu, from so many runs of every pattern.

    Runs of a pattern count as often as it is released, so that rare ones need no long simulation; where nothing is
    released an audit is not taken to exceed anything, which can only favour what is tested.
    """
    chance = 0.0
    for pattern, released in enumerate(world.chances):
        children = np.random.default_rng((seed, pattern)).spawn(each)
        exceeded = [audit(world.run(child, pattern), child) > world.mu for child in children]
        chance += released * float(np.mean(exceeded))
    return chance


def fewest_to_refute(mu: float, guesses: int, records: int, level: float) -> int | None:
    """Return the fewest right guesses at which a one-run test refutes mu; None where all of them do not."""
    low, high = guesses // 2, guesses + 1
    while low < high:
        middle = (low + high) // 2
        refuted = middle > guesses or one_run.rejects(
            mu, correct=middle, guesses=guesses, canaries=records, level=level
        )
        low, high = (low, middle) if refuted else (middle + 1, high)
    return low if low <= guesses else None

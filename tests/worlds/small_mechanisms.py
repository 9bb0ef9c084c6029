"""Random mechanisms on two or three bits, small enough to enumerate every label, output and coin (Theorem Z)."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from miaudit.dp.zero_run.independent_guesses import coins_worth, keeping_probability

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Mechanism:
    """Laws of an output given labels, and an attack: for each output an order of the records and a guess at each.

    Attributes
    ----------
    law : array (2, ..., 2, outputs), the probability of each output given the m labels
    order : array (outputs, m), guess : array (outputs, m), +1 or -1
    logit, low, high : arrays (m,), true log-odds of membership, and an interval that holds them
    """

    law: FloatArray
    order: IntArray
    guess: IntArray
    logit: FloatArray
    low: FloatArray
    high: FloatArray

    @classmethod
    def draw(cls, rng: np.random.Generator, *, known: bool) -> Mechanism:
        m, outputs = int(rng.integers(2, 4)), int(rng.integers(2, 6))
        law = rng.dirichlet(np.full(outputs, rng.choice([0.3, 1.0, 5.0])), size=(2,) * m)
        if rng.random() < 0.5:  # close to a common law, so that the mechanism is private to some degree
            law = 0.2 * law + 0.8 * rng.dirichlet(np.ones(outputs))
        logit = rng.normal(size=m) * rng.choice([0.3, 1.0, 2.0])
        wide = np.zeros((2, m)) if known else rng.exponential(0.7, size=(2, m))
        order = np.array([rng.permutation(m) for _ in range(outputs)])
        guess = rng.choice([-1, 1], size=(outputs, m))
        return cls(law, order, guess, logit, logit - wide[0], logit + wide[1])

    @classmethod
    def randomised_response(cls, m: int, epsilon: float) -> Mechanism:
        """Each of m fair bits on its own, and an attack that believes what it is told."""
        q = 1 / (1 + math.exp(-epsilon))
        told = np.array(list(itertools.product((0, 1), repeat=m)))
        law = np.empty((2,) * m + (len(told),))
        for labels in itertools.product((0, 1), repeat=m):
            law[labels] = np.where(told == labels, q, 1 - q).prod(axis=1)
        even = np.zeros(m)
        return cls(law, np.tile(np.arange(m), (len(told), 1)), 2 * told - 1, even, even, even)

    @property
    def m(self) -> int:
        return len(self.logit)

    def pairs(self):
        """Yield the laws of the output at every two label vectors that differ in one place, both ways round."""
        for labels in itertools.product((0, 1), repeat=self.m):
            for i in range(self.m):
                other = list(labels)
                other[i] = 1 - other[i]
                yield self.law[labels], self.law[tuple(other)]

    def power(self) -> tuple[FloatArray, FloatArray]:
        """Vertices (FPR, TPR) of 1 - f, the largest ROC curve: the concave hull over all pairs and directions."""
        points = [(0.0, 0.0), (1.0, 1.0)]
        for p, q in self.pairs():
            falling = np.argsort(-p / np.maximum(q, 1e-300), kind="stable")
            points += list(zip(np.cumsum(q[falling]), np.cumsum(p[falling]), strict=True))
        hull: list[tuple[float, float]] = []
        for point in sorted(points):
            while len(hull) > 1 and _turns_left(hull[-2], hull[-1], point):
                hull.pop()
            hull.append(point)
        x, y = np.array(hull).T
        return x, np.minimum(1.0, y)

    def delta(self, epsilon: float) -> float:
        """Smallest delta of (epsilon, delta)-DP."""
        return max(float(np.maximum(0, p - math.exp(epsilon) * q).sum()) for p, q in self.pairs())

    def law_of_count(self, r: int, *, thinned: bool = True) -> FloatArray:
        """Exact probabilities (r + 1,) of each number of right guesses among the first r kept records."""
        p = np.zeros(r + 1)
        pi = 1 / (1 + np.exp(-self.logit))
        for labels in itertools.product((0, 1), repeat=self.m):
            member = np.array(labels, dtype=bool)
            prior = np.prod(np.where(member, pi, 1 - pi))
            for output, chance in enumerate(self.law[labels]):
                guess = self.guess[output]
                keep = keeping_probability(member, guess, self.low, self.high) if thinned else np.ones(self.m)
                right = ((guess > 0) == member)[self.order[output]]
                for coins in itertools.product((False, True), repeat=self.m):
                    kept = np.array(coins)
                    toss = np.prod(np.where(kept, keep, 1 - keep))
                    count = int(right[kept[self.order[output]]][:r].sum())
                    p[count] += prior * chance * toss
        return p

    @property
    def worth(self) -> float:
        """M of Theorem Z."""
        return float(coins_worth(self.low, self.high).sum())


def _turns_left(a: tuple[float, float], b: tuple[float, float], c: tuple[float, float]) -> bool:
    return (b[0] - a[0]) * (c[1] - a[1]) - (b[1] - a[1]) * (c[0] - a[0]) >= 0


def excess(mechanism: Mechanism, r: int, *, thinned: bool = True, canaries: float | None = None) -> float:
    """Largest amount by which a constraint of Theorem Z is broken, over all sets of counts; 0 or less if it holds."""
    p = mechanism.law_of_count(r, thinned=thinned)
    x, y = mechanism.power()
    m = mechanism.worth if canaries is None else canaries
    worst = -math.inf
    for size in range(1, r + 1):
        for counts in itertools.combinations(range(1, r + 1), size):
            k = np.array(counts)
            left = float(k @ p[k])
            right = m * float(np.interp(float((r - k + 1) @ p[k - 1]) / m, x, y))
            worst = max(worst, left - right)
    return worst

"""Generators whose leakage is known: nothing, everything, or an exact epsilon; and one that releases probabilities."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from miaudit.synthesis.schema import Table


@dataclass(frozen=True)
class Marginals:
    """Independent columns with the shares of the training table; each training adds noise of its own to the log odds.

    That noise is what retraining a network does: every set tells which model it came from, and hardly which record.
    """

    noise: float = 0.0
    probabilities: bool = False

    def __call__(self, table: Table, *, rng: np.random.Generator) -> Any:
        share = np.clip(table.values.mean(axis=0), 0.01, 0.99)
        odds = np.log(share) - np.log1p(-share) + self.noise * rng.standard_normal(share.shape)
        return Drawing(1 / (1 + np.exp(-odds)), self.probabilities)


@dataclass(frozen=True)
class Drawing:
    share: np.ndarray
    probabilities: bool = False

    def sample(self, n: int, *, rng: np.random.Generator) -> np.ndarray:
        if self.probabilities:  # as a decoder that is asked for its probabilities
            return np.clip(self.share * (1 + 0.01 * rng.standard_normal((n, len(self.share)))), 0, 1)
        return (rng.random((n, len(self.share))) < self.share).astype(float)


@dataclass(frozen=True)
class Resampling:
    """Training records, drawn with replacement."""

    def __call__(self, table: Table, *, rng: np.random.Generator) -> Any:
        return Copies(table.values)


@dataclass(frozen=True)
class Copies:
    values: np.ndarray

    def sample(self, n: int, *, rng: np.random.Generator) -> np.ndarray:
        return self.values[rng.integers(len(self.values), size=n)]


@dataclass(frozen=True)
class Telltale:
    """Randomised response on whether one record was learned, shown in the first column of every set: exactly epsilon-DP
    in that record, and no attack can be right with a probability above e^epsilon / (1 + e^epsilon)."""

    target: tuple[float, ...]
    epsilon: float

    def __call__(self, table: Table, *, rng: np.random.Generator) -> Any:
        learned = bool((table.values == np.asarray(self.target)).all(axis=1).any())
        truthful = rng.random() < 1 / (1 + math.exp(-self.epsilon))
        share = np.full(len(self.target), 0.5)
        share[0] = 0.9 if learned == truthful else 0.1
        return Drawing(share)


@dataclass(frozen=True)
class NoisyMarginals:
    """Shares from counts with Gaussian noise: exactly 1 / ``noise``-Gaussian-DP for one record of ``columns`` bits.

    Every count changes by at most 1, all of them by at most sqrt(columns) together, and n is public.
    """

    noise: float
    records: int

    def __call__(self, table: Table, *, rng: np.random.Generator) -> Any:
        columns = table.values.shape[1]
        counts = table.values.sum(axis=0) + self.noise * math.sqrt(columns) * rng.standard_normal(columns)
        return Drawing(np.clip(counts / self.records, 0.0, 1.0))

"""Differences between defences on the same records, with limits that hold for all of them together."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import special, stats

from miaudit.arrays import BoolArray, FloatArray, IndexArray, IntArray
from miaudit.errors import InputError

LEAST = 20  # records of a class below which no limits are given
_DRAWS = 20_000
_BLOCK = 1 << 22


@dataclass(frozen=True)
class PairedDifference:
    """A difference with simultaneous limits: with the family's confidence, all intervals of one family hold at once.

    Attributes
    ----------
    first, second : places in what was compared; ``value`` is first less second
    low, high : limits
    """

    first: int
    second: int
    value: float
    low: float
    high: float


@dataclass(frozen=True, eq=False)
class PairedFamily:
    """Means or AUCs of the same records under several defences, with the covariance between them.

    Attributes
    ----------
    values : array (d,)
    influence : array (d, u), what each independent record or unit adds to each value, zero on average
    freedom : degrees of freedom of their variances
    smallest : standard error below which no difference is believed: what one record could change
    """

    values: FloatArray
    influence: FloatArray
    freedom: float
    smallest: float

    @classmethod
    def aucs(cls, scores: FloatArray, member: BoolArray, units: IntArray | None = None) -> PairedFamily:
        """AUCs of scores (d, n), higher for members; their covariance is DeLong's (1988), by units where there are any.

        Raises
        ------
        InputError
            With fewer than 20 members or non-members (as units).

        Examples
        --------
        >>> member = np.arange(40) < 20
        >>> PairedFamily.aucs(np.stack([member + 0.0, np.zeros(40)]), member).values.tolist()
        [1.0, 0.5]
        """
        n1, n0 = int(member.sum()), int((~member).sum())
        influence = np.empty(scores.shape)
        values = np.empty(len(scores))
        for i, score in enumerate(scores):
            everywhere = stats.rankdata(score)
            above = (everywhere[member] - stats.rankdata(score[member])) / n0
            below = 1 - (everywhere[~member] - stats.rankdata(score[~member])) / n1
            values[i] = above.mean()
            influence[i, member] = (above - values[i]) / n1
            influence[i, ~member] = (below - values[i]) / n0
        counts = [n1, n0]
        if units is not None:
            counts = [len(np.unique(units[side])) for side in (member, ~member)]
        if min(counts) < LEAST:
            received = f"{counts[0]} and {counts[1]}"
            raise InputError("records", f"{LEAST} members and {LEAST} non-members or more", received, "audit more")
        smallest = 0.5 / min(counts)
        return cls(values, _by_unit(influence, units), min(counts) - 1.0, smallest)

    @classmethod
    def means(cls, values: FloatArray, units: IntArray | None = None) -> PairedFamily:
        """Mean over records of values (d, n) in [0, 1]."""
        n = values.shape[1] if units is None else len(np.unique(units))
        if n < LEAST:
            raise InputError("records", f"{LEAST} records or more", str(n), "audit more")
        mean = values.mean(axis=1)
        influence = (values - mean[:, None]) / values.shape[1]
        return cls(mean, _by_unit(influence, units), n - 1.0, 1 / n)

    def against(self, reference: int, confidence: float, *, rng: np.random.Generator) -> list[PairedDifference]:
        """Each other value less the reference's: one family, as of Dunnett (1955)."""
        others = [i for i in range(len(self.values)) if i != reference]
        return self._differences([(i, reference) for i in others], confidence, rng)

    def pairs(self, chosen: list[int], confidence: float, *, rng: np.random.Generator) -> list[PairedDifference]:
        """All differences between the chosen ones: one family, as of Tukey (1949)."""
        pairs = [(a, b) for i, a in enumerate(chosen) for b in chosen[i + 1 :]]
        return self._differences(pairs, confidence, rng)

    def _differences(
        self, pairs: list[tuple[int, int]], confidence: float, rng: np.random.Generator
    ) -> list[PairedDifference]:
        if not pairs:
            return []
        first, second = (np.array([pair[side] for pair in pairs]) for side in (0, 1))
        apart = self.influence[first] - self.influence[second]
        count = self.influence.shape[1]
        error = np.maximum(np.sqrt((apart**2).sum(axis=1) * count / (count - 1)), self.smallest)
        width = self._critical(first, second, error, confidence, rng) * error
        value = self.values[first] - self.values[second]
        return [
            PairedDifference(int(a), int(b), float(v), float(v - w), float(v + w))
            for a, b, v, w in zip(first, second, value, width, strict=True)
        ]

    def _critical(
        self,
        first: IndexArray,
        second: IndexArray,
        error: FloatArray,
        confidence: float,
        rng: np.random.Generator,
    ) -> float:
        """Quantile of the largest absolute standardised difference under their joint law (max-T), by simulation.

        It is stretched from the normal to Student's law, and lies between one interval's quantile and Bonferroni's.
        """
        covariance = self.influence @ self.influence.T
        values, vectors = np.linalg.eigh(covariance)
        root = vectors * np.sqrt(np.maximum(values, 0.0))
        largest = np.empty(_DRAWS)
        step = max(1, _BLOCK // len(first))
        for start in range(0, _DRAWS, step):
            stop = min(start + step, _DRAWS)
            normal = rng.normal(size=(stop - start, len(root))) @ root.T
            largest[start:stop] = (np.abs(normal[:, first] - normal[:, second]) / error).max(axis=1)
        single = float(special.ndtri((1 + confidence) / 2))
        bonferroni = float(special.ndtri(1 - (1 - confidence) / 2 / len(first)))
        critical = min(max(float(np.quantile(largest, confidence)), single), bonferroni)
        return float(special.stdtrit(self.freedom, float(special.ndtr(critical))))


def _by_unit(influence: FloatArray, units: IntArray | None) -> FloatArray:
    if units is None:
        return influence
    _, code = np.unique(units, return_inverse=True)
    return np.stack([np.bincount(code, weights=row) for row in influence])

"""Fidelity: distances of marginals and pairs from real records, compared with those of two real samples."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from miaudit.arrays import FloatArray, IntArray
from miaudit.findings.fidelity import Fidelity, Marginal, Pair, PairPlot
from miaudit.synthesis.schema import Column, Table, check_alike

__all__ = ["Fidelity", "fidelity"]

_BINS, _PAIR_BINS = 10, 5
_MOST_LEVELS = 12  # of a column in a pair; rarer ones are one level
_MISSING, _OTHER = "missing", "other"


def fidelity(
    synthetic: Table,
    real: Table,
    held_out: Table,
    *,
    most_pairs: int = 500,
    plotted: int = 10,
    rng: np.random.Generator,
) -> Fidelity:
    """Compare shares of levels and of pairs of levels of a synthetic table with real records.

    Parameters
    ----------
    synthetic : Table
    real : Table of real records, for example those it was made from
    held_out : Table of other real records of the same population: what they differ by is the floor
    most_pairs : pairs of columns that are compared; if there are more, so many are chosen at random
    plotted : columns chosen at random for the pair plot
    rng : draws equally many rows of each table, and pairs and columns where there are too many

    Raises
    ------
    InputError
        For tables with different schemas, or without rows.

    Notes
    -----
    A total variation distance is half the sum of absolute differences of shares; numbers are cut at the deciles of the
    real records (quintiles for pairs), and a missing value is a level of its own.

    Examples
    --------
    >>> from miaudit.synthesis.schema import Schema
    >>> rng = np.random.default_rng(0)
    >>> schema = Schema((Column("a"), Column("b")))
    >>> def draw(n):
    ...     a = rng.random(n) < 0.5
    ...     return Table(schema, np.c_[a, np.where(rng.random(n) < 0.9, a, ~a)])
    >>> alone = Table(schema, rng.integers(0, 2, size=(4000, 2)))  # the right marginals, no association
    >>> result = fidelity(alone, draw(4000), draw(4000), rng=rng)
    >>> {name: round(value, 2) for name, value in result.summary.items()}
    {'marginal_distance': 0.01, 'marginal_floor': 0.01, 'pair_distance': 0.41, 'pair_floor': 0.01,
    'association_error': 0.78}
    """
    check_alike(synthetic=synthetic, real=real, held_out=held_out)
    tables = (real, synthetic, held_out)
    size = min(map(len, tables))
    samples = [table.values[rng.permutation(len(table))[:size]] for table in tables]
    names = synthetic.schema.names
    levels = [
        Levels.of(column, real.column(column.name), _PAIR_BINS, _MOST_LEVELS) for column in synthetic.schema.columns
    ]
    codes = [np.stack([own.codes(values[:, j]) for j, own in enumerate(levels)], axis=1) for values in samples]
    pairs = tuple(_pair(names, codes, levels, i, j) for i, j in _some_pairs(len(names), most_pairs, rng))
    columns = tuple(sorted(int(j) for j in rng.permutation(len(names))[:plotted]))
    return Fidelity(_marginals(real, samples), pairs, size, _plot(names, codes[:2], levels, columns))


def _marginals(real: Table, samples: Sequence[FloatArray]) -> tuple[Marginal, ...]:
    """Compare the levels of each column in the samples, at the bins of the real records."""
    marginals = []
    for j, column in enumerate(real.schema.columns):
        levels = Levels.of(column, real.column(column.name), _BINS, None)
        marginals.append(
            Marginal(column.name, *_distances([levels.codes(values[:, j]) for values in samples], levels.count))
        )
    return tuple(marginals)


@dataclass(frozen=True, eq=False)
class Levels:
    """Coding of a column as levels 0, 1, ...: categories or bins of numbers, and one for missing.

    Attributes
    ----------
    names : of the levels, the last one "missing"
    edges : of the bins of a continuous column, else None
    code_of : level of each category, for a column that has categories, else None
    """

    names: tuple[str, ...]
    edges: FloatArray | None
    code_of: IntArray | None

    @property
    def count(self) -> int:
        """Number of levels."""
        return len(self.names)

    @classmethod
    def of(cls, column: Column, values: FloatArray, bins: int, most: int | None) -> Levels:
        """Learn levels from real values (n,): at most ``bins`` of numbers, and ``most`` of categories."""
        known = values[~np.isnan(values)]
        if column.kind == "continuous":
            cuts = np.unique(np.quantile(known, np.linspace(0, 1, bins + 1)[1:-1])) if len(known) else np.empty(0)
            names = [f"up to {cut:.4g}" for cut in cuts] + [f"above {cuts[-1]:.4g}" if len(cuts) else "any"]
            return cls((*names, _MISSING), cuts, None)
        labels = [str(category) for category in column.categories]
        if most is None or len(labels) <= most:
            return cls((*labels, _MISSING), None, np.arange(len(labels)))
        counts = np.bincount(known.astype(np.int64), minlength=len(labels))
        frequent = np.sort(np.argsort(-counts, kind="stable")[: most - 1])
        code_of = np.full(len(labels), most - 1)
        code_of[frequent] = np.arange(most - 1)
        return cls((*(labels[i] for i in frequent), _OTHER, _MISSING), None, code_of)

    def codes(self, values: FloatArray) -> IntArray:
        """Return the level (n,) of each value (n,)."""
        missing = np.isnan(values)
        present = np.where(missing, 0.0, values)
        if self.edges is not None:
            codes = np.searchsorted(self.edges, present, side="left")
        else:
            assert self.code_of is not None  # noqa: S101 - one of the two is there
            codes = self.code_of[present.astype(np.int64)]
        return np.where(missing, self.count - 1, codes).astype(np.int64)


def _distances(codes: Sequence[IntArray], levels: int) -> tuple[float, float]:
    """Return total variation distances of the second and third sample of codes from the first."""
    shares = [np.bincount(part, minlength=levels) / len(part) for part in codes]
    return _variation(shares[1], shares[0]), _variation(shares[2], shares[0])


def _variation(p: FloatArray, q: FloatArray) -> float:
    return float(np.abs(p - q).sum() / 2)


def _some_pairs(d: int, most: int, rng: np.random.Generator) -> list[tuple[int, int]]:
    count = d * (d - 1) // 2
    if count <= most:
        return list(combinations(range(d), 2))
    left, right = np.triu_indices(d, 1)
    return [(int(left[k]), int(right[k])) for k in np.sort(rng.choice(count, size=most, replace=False))]


def _joint(codes: IntArray, levels: Sequence[Levels], i: int, j: int) -> FloatArray:
    rows, across = levels[i].count, levels[j].count
    counts = np.bincount(codes[:, i] * across + codes[:, j], minlength=rows * across)
    return np.asarray(counts / len(codes)).reshape(rows, across)


def _pair(names: Sequence[str], codes: Sequence[IntArray], levels: Sequence[Levels], i: int, j: int) -> Pair:
    real, synthetic, other = (_joint(part, levels, i, j) for part in codes)
    floor = _variation(other.ravel(), real.ravel())
    return Pair(
        names[i], names[j], _variation(synthetic.ravel(), real.ravel()), floor, cramers_v(real), cramers_v(synthetic)
    )


def cramers_v(joint: FloatArray) -> float:
    """Return Cramer's V of joint shares (a, b): 0 if independent, 1 if one determines the other.

    Examples
    --------
    >>> cramers_v(np.array([[0.5, 0.0], [0.0, 0.5]])), cramers_v(np.full((2, 3), 1 / 6))
    (1.0, 0.0)
    """
    rows, columns = joint.sum(axis=1), joint.sum(axis=0)
    observed = joint[rows > 0][:, columns > 0]
    least = min(observed.shape) - 1
    if least < 1:
        return 0.0
    expected = np.outer(rows[rows > 0], columns[columns > 0])
    return float(min(math.sqrt(max(((observed - expected) ** 2 / expected).sum(), 0.0) / least), 1.0))


def _plot(
    names: Sequence[str], codes: Sequence[IntArray], levels: Sequence[Levels], columns: tuple[int, ...]
) -> PairPlot:
    def joints(part: IntArray) -> tuple[tuple[tuple[float, ...], ...], ...]:
        shares = (_joint(part, levels, i, j) for i, j in combinations(columns, 2))
        return tuple(tuple(tuple(round(float(share), 6) for share in row) for row in joint) for joint in shares)

    return PairPlot(
        tuple(names[j] for j in columns), tuple(levels[j].names for j in columns), joints(codes[0]), joints(codes[1])
    )

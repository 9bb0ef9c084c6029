"""Exact permutation test of whether covariates identify members, for designs that assigned membership at random.

Under random assignment every permutation of the memberships was as likely as the actual one. The statistic of the
actual memberships is then one of many equally likely values, whatever the number, tails, gaps and dependence of the
covariates, and for every sample size. Records that were assigned together are permuted together: the records of a unit
on one side are one piece.

The statistic says how well a ridge regression on ranks, squares of ranks, levels and products of the covariates
predicts memberships that it has not seen (five folds). It needs no classifier, and one product of matrices serves many
permutations.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy import special

from miaudit.arrays import BoolArray, FloatArray, IntArray
from miaudit.causal import covariates
from miaudit.causal.covariates import Encoding, Table
from miaudit.causal.duplicates import Repeats, content_codes
from miaudit.errors import InputError
from miaudit.errors.checks import check_generator
from miaudit.evidence import Evidence
from miaudit.metrics.classical import Estimate, Sample

__all__ = ["PERMUTATIONS", "AloneTest", "alone"]

PERMUTATIONS = 3999  # p-values from 1/4,000
MOST_PIECES = 20_000  # in a test, selected at random where there are more
FOLDS = 5
FEWEST = 2 * FOLDS  # pieces of each side
_ENOUGH = 20  # permutations at least as large as the truth: then the p-value is known (Besag and Clifford 1991)
_BATCH = 100
_LEVELS = 40  # distinct values of a column up to which each has a feature of its own
_MOST_LEVELS = 300  # of all columns together
_MOST_PRODUCTS = 300
_ROWS_PER_PRODUCT = 50
_SHRINK = 10.0  # ridge per feature: for effects of the size that matters here
_FEWEST_OF_A_LEVEL = 2
_MOST_OF_A_KIND = 10  # equal rows on average, above which the covariates are coarse, not households


@dataclass(frozen=True)
class AloneTest:
    """How well covariates alone identify members, and whether chance explains it.

    Attributes
    ----------
    auc : cross-fitted AUC of the covariates alone, with its interval
    p_value : probability of a statistic as large if memberships were assigned at random; exact
    pieces : number of independent assignments in the test
    """

    auc: Estimate
    p_value: float
    pieces: int


def alone(evidence: Evidence, encoding: Encoding, *, confidence: float, rng: np.random.Generator) -> AloneTest:
    """Measure how well covariates, or texts, alone identify members, and test whether chance explains it.

    Parameters
    ----------
    evidence : with covariates (n, d) or texts; runs are permuted each by itself
    encoding : how covariates become numbers; levels of declared categories have a feature each
    confidence : of the interval of the AUC
    rng : draws folds and permutations

    Raises
    ------
    InputError
        Without covariates, with constant ones only, or with fewer than ten members or non-members (units).

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> x, coins = rng.normal(size=(500, 2)), rng.random(500) < 0.5
    >>> fair = Evidence(score=x[:, 0], member=coins, covariates=x)
    >>> alone(fair, covariates.Numbers(), confidence=0.95, rng=rng).p_value > 0.01
    True
    >>> selected = fair.replace(member=x[:, 0] + rng.normal(size=500) > 0)
    >>> alone(selected, covariates.Numbers(), confidence=0.95, rng=rng).p_value
    0.00025
    """
    check_generator(rng)
    fold_rng, permute_rng = rng.spawn(2)
    pieces = _Pieces.of(evidence).selected(fold_rng)
    member, stratum = pieces.member, pieces.run
    fewest = int(min(np.count_nonzero(member), np.count_nonzero(~member)))
    if fewest < FEWEST:
        allowed, hint = f"at least {FEWEST} members and {FEWEST} non-members (units)", "collect more records"
        raise InputError("evidence", allowed, f"{fewest}", hint)
    x = features(covariates.table_of(pieces.evidence, encoding), encoding)
    folded = _Folds.of(_centred(_mean(x, pieces.piece), stratum), stratum, fold_rng)
    y = _centred(member.astype(np.float64)[:, None], stratum)
    p_value = _p_value(folded, y[:, 0], stratum, permute_rng)
    auc = Sample.of(Evidence(score=folded.predicted(y)[:, 0], member=member)).auc(confidence)
    return AloneTest(auc, p_value, len(member))


# -- pieces ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class _Pieces:
    """Records that were assigned together.

    A piece is the records of one unit on one side. Units that nobody declared are recognised by equal rows that are
    hardly ever on both sides: these are pieces too, unless the covariates are so coarse that many records share a row.

    Attributes
    ----------
    evidence : the records
    piece : array (n,), the number of each record's piece, from 0 without gaps
    record_run : array (n,), the number of each record's run
    """

    evidence: Evidence
    piece: IntArray
    record_run: IntArray

    @classmethod
    def of(cls, evidence: Evidence) -> _Pieces:
        """Number the pieces and the runs of all records."""
        run = np.zeros(evidence.n, np.int64)
        if evidence.run is not None:
            run = np.unique(evidence.run, return_inverse=True)[1].astype(np.int64)
        code = evidence.unit_codes
        if code is None:
            code = _households(evidence)
        return cls(evidence, np.unique(2 * code + evidence.member, return_inverse=True)[1].astype(np.int64), run)

    def selected(self, rng: np.random.Generator) -> _Pieces:
        """Return at most ``MOST_PIECES`` of them, selected at random."""
        count = int(self.piece.max()) + 1
        if count <= MOST_PIECES:
            return self
        chosen = np.zeros(count, np.bool_)
        chosen[rng.permutation(count)[:MOST_PIECES]] = True
        rows = chosen[self.piece]
        piece = np.unique(self.piece[rows], return_inverse=True)[1]
        return _Pieces(self.evidence.take(rows), piece, self.record_run[rows])

    @property
    def member(self) -> BoolArray:
        """Membership (m,) of each piece."""
        return self.evidence.member[self._first]

    @property
    def run(self) -> IntArray:
        """Run (m,) of each piece."""
        return self.record_run[self._first]

    @cached_property
    def _first(self) -> IntArray:
        """The first record (m,) of each piece."""
        return np.unique(self.piece, return_index=True)[1]


def _households(evidence: Evidence) -> IntArray:
    """Return the records (n,) by number, or their equal rows where these show units that nobody declared."""
    every = np.arange(evidence.n, dtype=np.int64)
    described = evidence.covariates if evidence.covariates is not None else evidence.text
    if described is None or evidence.run is not None:
        return every
    kind = content_codes(described)
    if evidence.n > _MOST_OF_A_KIND * (int(kind.max()) + 1):
        return every
    return kind if Repeats.of(described, evidence.member).forbids("zero-run") else every


def _mean(x: FloatArray, piece: IntArray) -> FloatArray:
    """Average the features of each piece (m, p)."""
    size = np.bincount(piece)
    order = np.argsort(piece, kind="stable")
    if size.max() == 1:
        return x[order]
    starts = np.cumsum(size) - size
    return np.asarray(np.add.reduceat(x[order], starts, axis=0) / size[:, None])


def _centred(x: FloatArray, stratum: IntArray) -> FloatArray:
    """Subtract the mean of each stratum from every column (m, p)."""
    centred = np.array(x, dtype=np.float64)
    for own in _rows_of(stratum):
        centred[own] -= centred[own].mean(axis=0)
    return centred


def _rows_of(stratum: IntArray) -> Iterator[IntArray]:
    for one in np.unique(stratum):
        yield np.flatnonzero(stratum == one)


# -- features ---------------------------------------------------------------------------------------------------------


def features(table: Table, encoding: Encoding) -> FloatArray:
    """Return standardised features (n, p) of the covariates; they do not depend on membership.

    A column has its normal scores and their squares. A declared category, or a column of at most 40 values, has one
    feature for each level as well. Products of two columns follow where records are many and columns few. The result
    does not depend on the order of the columns.
    """
    x, coded = _numbers(table, encoding)
    ranked: list[FloatArray] = []
    levels: list[tuple[int, BoolArray]] = []
    for j in range(x.shape[1]):
        values, place, count = np.unique(x[:, j], return_inverse=True, return_counts=True)
        if len(values) == 1:
            continue
        if not coded[j]:
            ranked.append(special.ndtri((np.cumsum(count) - (count - 1) / 2 - 0.5) / len(x))[place])
        if coded[j] or 2 < len(values) <= _LEVELS:
            levels += [(int(count[k]), place == k) for k in range(len(values)) if count[k] >= _FEWEST_OF_A_LEVEL]
    z = np.column_stack(ranked) if ranked else np.empty((len(x), 0))
    if len(levels) > _MOST_LEVELS:
        rarest = sorted((size for size, _ in levels), reverse=True)[_MOST_LEVELS - 1]
        levels = [one for one in levels if one[0] > rarest] or levels[:_MOST_LEVELS]
    parts = [z, z**2, *(own[:, None].astype(np.float64) for _, own in levels)]
    first, second = np.triu_indices(z.shape[1], 1)
    if len(first) <= min(_MOST_PRODUCTS, len(x) / _ROWS_PER_PRODUCT):
        parts.append(z[:, first] * z[:, second])
    columns = np.hstack(parts)
    columns = columns - columns.mean(axis=0)
    spread = columns.std(axis=0)
    varies = spread > 1e-9
    if not varies.any():
        raise InputError("evidence.covariates", "a column that varies", "none", "add covariates that vary")
    return np.asarray(columns[:, varies] / spread[varies])


def _numbers(table: Table, encoding: Encoding) -> tuple[FloatArray, list[bool]]:
    """Return columns of numbers (n, d), and which of them are declared codes."""
    coded: set[int] = set()
    match encoding:
        case covariates.Numbers() if table.numbers is not None:
            x = table.numbers
        case covariates.Categories(columns=columns) if table.numbers is not None:
            x, coded = table.numbers, set(columns)
        case _:
            x = covariates.fit(encoding, table, seed=0)(table)
            return x, [False] * x.shape[1]
    return x, [column in coded for column in table.columns]


# -- the statistic ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class _Folds:
    """Features of each fold, and the ridge regressions on the others."""

    rows: tuple[IntArray, ...]
    x: tuple[FloatArray, ...]
    inverse: tuple[FloatArray, ...]
    gram: tuple[FloatArray, ...]

    @classmethod
    def of(cls, x: FloatArray, stratum: IntArray, rng: np.random.Generator) -> _Folds:
        fold = np.empty(len(x), np.int64)
        for own in _rows_of(stratum):
            fold[own] = rng.permutation(len(own)) % FOLDS
        rows = tuple(np.flatnonzero(fold == k) for k in range(FOLDS))
        parts = tuple(np.ascontiguousarray(x[own]) for own in rows)
        gram = tuple(part.T @ part for part in parts)
        whole = sum(gram) + _SHRINK * x.shape[1] * np.eye(x.shape[1])
        return cls(rows, parts, tuple(np.linalg.inv(whole - own) for own in gram), gram)

    def learned(self, y: FloatArray) -> tuple[list[FloatArray], list[FloatArray]]:
        """Return X'y of each fold and the coefficients learned from the others, of memberships (m, B)."""
        own = [part.T @ y[rows] for part, rows in zip(self.x, self.rows, strict=True)]
        whole = sum(own)
        return own, [inverse @ (whole - part) for inverse, part in zip(self.inverse, own, strict=True)]

    def statistic(self, y: FloatArray) -> FloatArray:
        """Return how far predictions agree with centred memberships (m, B) that they have not seen (B,)."""
        own, learned = self.learned(y)
        agree = sum((g * b).sum(axis=0) for g, b in zip(own, learned, strict=True))
        size = sum(((c @ b) * b).sum(axis=0) for c, b in zip(self.gram, learned, strict=True))
        return np.asarray(agree / np.sqrt(np.maximum(size, 1e-300)))

    def predicted(self, y: FloatArray) -> FloatArray:
        """Return predictions (m, B) of memberships that they have not seen."""
        predictions = np.empty_like(y)
        for part, rows, learned in zip(self.x, self.rows, self.learned(y)[1], strict=True):
            predictions[rows] = part @ learned
        return predictions


def _p_value(folded: _Folds, y: FloatArray, stratum: IntArray, rng: np.random.Generator) -> float:
    """Return the p-value of centred memberships (m,) among their permutations within strata.

    Notes
    -----
    The search stops at the h-th permutation that is at least as large as the truth. If this is the l-th of all, h / l
    is a p-value (Besag and Clifford 1991). If N permutations have only g < h such, the p-value is (g + 1) / (N + 1).
    """
    truth = float(folded.statistic(y[:, None])[0])
    slack = 1e-9 * max(1.0, abs(truth))
    larger = 0
    for start in range(0, PERMUTATIONS, _BATCH):
        count = min(_BATCH, PERMUTATIONS - start)
        permuted = np.empty((count, len(y)))
        for own in _rows_of(stratum):
            permuted[:, own] = rng.permuted(np.broadcast_to(y[own], (count, len(own))), axis=1)
        hits = np.flatnonzero(folded.statistic(permuted.T) >= truth - slack)
        if larger + len(hits) >= _ENOUGH:
            return _ENOUGH / (start + int(hits[_ENOUGH - larger - 1]) + 1)
        larger += len(hits)
    return (larger + 1) / (PERMUTATIONS + 1)

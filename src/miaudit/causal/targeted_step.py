"""One more step of a stack's log-odds, along what its held-out residuals still show.

See experiments/methods.md, section 12.

Of the records outside a fold, the strongest of all intervals of one covariate, rectangles of two, and products of two
normal scores is added to the log-odds, while it is stronger than chance allows. The fold itself is predicted by what
was chosen and fitted without it. At the end the stack weighs the step as it weighs its learners.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy import special

from miaudit.arrays import BoolArray, FloatArray, IntArray
from miaudit.causal import boxes, logistic
from miaudit.causal.basis import normal_scores, product_scores
from miaudit.causal.boxes import Candidate, Scan
from miaudit.causal.cores import at_once

__all__ = ["along", "step"]

_MOST = 5  # directions of one fold
_CLIP = 6.0  # of products
_LEVEL = 0.05
_RIDGE = 1.0
_NOTHING = 1e-6


def step(
    x: FloatArray, member: BoolArray, logit: FloatArray, fold: IntArray, independent: float = 1.0
) -> tuple[FloatArray, int]:
    """Return what to add to held-out log-odds, and how many directions all folds took.

    Parameters
    ----------
    x : array (n, d), covariates
    member : array (n,)
    logit : array (n,), log-odds of membership by models that did not see the record
    fold : array (n,), numbered from 0
    independent : independent records for each record, at most 1; fewer than 1 where records of one unit repeat

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> x = rng.uniform(size=(2000, 2))
    >>> band = (x[:, 0] > 0.4) & (x[:, 0] < 0.5)
    >>> member = rng.random(2000) < np.where(band, 0.9, 0.5)
    >>> added, directions = step(x, member, np.zeros(2000), np.arange(2000) % 5)
    >>> directions >= 5, bool(added[band].mean() - added[~band].mean() > 1.5)
    (True, True)
    """
    residuals = _Residuals(x, member, logit, fold, independent)
    added, directions = np.zeros(len(x)), 0
    folds = np.unique(fold).tolist()
    for k, (values, count) in zip(folds, at_once(residuals.of_fold, folds), strict=True):
        added[fold == k] = values
        directions += count
    return added, directions


def along(logit: FloatArray, member: BoolArray, direction: FloatArray) -> FloatArray:
    """Return log-odds (n,) moved by a + b f along a direction f (n,), where a and b are fitted to membership.

    Examples
    --------
    >>> member = np.repeat([True, False, True, False], [30, 10, 20, 20])
    >>> moved = along(np.zeros(80), member, np.repeat([1.0, 0.0], 40))
    >>> bool(abs(moved[0] - np.log(3)) < 1e-3), bool(abs(moved[-1]) < 1e-3)
    (True, True)
    """
    columns = logistic.with_ones(direction[:, None])
    return logit + columns @ _fitted(columns, logit, member, _NOTHING)


@dataclass(frozen=True, eq=False)
class _Residuals:
    """Held-out log-odds with the bins and normal scores of the covariates."""

    x: FloatArray
    member: BoolArray
    logit: FloatArray
    fold: IntArray
    independent: float

    @cached_property
    def scan(self) -> Scan:
        return Scan.of(self.x)

    @cached_property
    def scores(self) -> FloatArray:
        return normal_scores(self.x)

    @cached_property
    def first_rectangles(self) -> list[Candidate]:
        """The strongest rectangle outside each fold, before any step: one histogram by folds serves them all."""
        residual, variance = self._binomial(self.member, self.logit)
        return boxes.rectangles(self.scan.wide, residual, variance, self.fold)

    def of_fold(self, k: int) -> tuple[FloatArray, int]:
        """Return what to add to the log-odds of a fold (m,), by directions of all other records, and their number."""
        rows = self.fold != k
        columns, beta, logit = np.ones((len(rows), 1)), np.zeros(1), self.logit
        for _ in range(_MOST):
            direction = self._strongest(k, rows, logit, first=columns.shape[1] == 1)
            if direction is None:
                break
            columns = np.column_stack([columns, direction])
            beta = _fitted(columns[rows], self.logit[rows], self.member[rows], _RIDGE / self.independent)
            logit = self.logit + columns @ beta
        taken = columns.shape[1] - 1
        return columns[~rows] @ beta if taken else np.zeros(int((~rows).sum())), taken

    def _strongest(self, k: int, rows: BoolArray, logit: FloatArray, *, first: bool) -> FloatArray | None:
        """Return the direction (n,) that is the farthest above its limit on some rows; None where none is above."""
        residual, variance = self._binomial(self.member[rows], logit[rows])
        rectangle = self.first_rectangles[k] if first and self.x.shape[1] > 1 else None
        above, box = self.scan.of_rows(rows).strongest(residual, variance, rectangle)
        z = np.triu(np.abs(product_scores(self.scores[rows], residual, variance, least=_NOTHING)))
        i, j = np.unravel_index(int(np.argmax(z)), z.shape)
        d = self.x.shape[1]
        above_by_product = float(z[i, j] + special.ndtri(_LEVEL / (d * (d + 1) / 2)))
        if max(above, above_by_product) <= 0:
            return None
        if above_by_product > above:
            return np.clip(self.scores[:, i] * self.scores[:, j], -_CLIP, _CLIP)
        return box.holds(self.x).astype(np.float64)

    def _binomial(self, member: BoolArray, logit: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return residuals (n,) and their variance (n,), as if only the independent records were there."""
        residual, variance = _binomial(member, logit)
        return self.independent * residual, self.independent * variance


def _binomial(member: BoolArray, logit: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return membership less its probability (n,), and its variance (n,)."""
    p = logistic.expit(logit)
    return member - p, p * (1 - p)


def _fitted(columns: FloatArray, offset: FloatArray, member: BoolArray, ridge: float) -> FloatArray:
    """Return the coefficients (p,) of columns (n, p), the first of ones, beside an offset (n,); Newton's method."""
    beta, penalty = np.zeros(columns.shape[1]), np.r_[0.0, np.full(columns.shape[1] - 1, ridge)]
    for _ in range(40):
        residual, variance = _binomial(member, offset + columns @ beta)
        curvature = (columns * variance[:, None]).T @ columns + np.diag(penalty)
        change = np.linalg.solve(curvature, columns.T @ residual - penalty * beta)
        beta = beta + change
        if np.abs(change).max() < 1e-8:
            break
    return beta

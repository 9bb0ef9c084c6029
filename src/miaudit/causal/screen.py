"""A line in the covariates, enlarged by the splines and products that its training rows call for.

The score test of each candidate shows whether the line misses it: z = sum r c / sqrt(sum w c^2), with the residuals r
and weights w of the line, where c is the part of the candidate that the columns of the line do not explain. The
strongest enters as long as it passes Bonferroni's 5% over all candidates. The others are then tested again beside it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy
from numpy.typing import NDArray
from scipy import special

from miaudit.arrays import BoolArray, FloatArray, IntArray
from miaudit.causal import covariates, crossfit, logistic
from miaudit.causal.basis import Basis
from miaudit.causal.covariates import Encoding, Part, Table
from miaudit.errors import InputError
from miaudit.metrics.trials import kish_share

LEVEL = 0.05  # of all candidates together
MOST = 15  # functions that may enter
_LEAST_LEFT = 0.01  # of a candidate's weighted sum of squares that the line's columns do not explain
_CLIP = 6.0  # of products of normal scores
# Of the limit: a resample tests only candidates this near. If it tested all, two or three would enter by chance, since
# its z has the noise of two samples (experiments/validity/zero_run.md).
_WITHIN = 1.5
_NUMBERS = 2**22  # of candidates that are held together
_ROUNDING = 1e-9


@dataclass(frozen=True, eq=False)
class Candidates:
    """Splines of each column's normal scores, and products of two columns' scores, learned without labels.

    Attributes
    ----------
    basis : of the training rows
    pairs : array (k, 2), positions in the basis of the two factors of a product; for a spline the second is -1
    """

    basis: Basis
    pairs: IntArray

    @classmethod
    def of(cls, x: FloatArray, names: Sequence[str]) -> Candidates:
        """Learn them from training rows x (n, d)."""
        basis, _ = Basis.fitted(x, names)
        alone = np.arange(basis.sorts[0] + basis.sorts[1])
        first, second = np.triu_indices(len(basis.factors), 1)
        products = np.column_stack([basis.factors[first], basis.factors[second]])
        return cls(basis, np.vstack([np.column_stack([alone, np.full(len(alone), -1)]), products]))

    def of_rows(self, main: FloatArray, chosen: IntArray) -> FloatArray:
        """Return some functions (n, k) of rows of the basis (n, p)."""
        first, second = self.pairs[chosen].T
        products = main[:, first]
        both = second >= 0
        products[:, both] = np.clip(products[:, both] * main[:, second[both]], -_CLIP, _CLIP)
        return np.asarray(products)

    def named(self, chosen: IntArray) -> tuple[str, ...]:
        """Name some functions in words."""
        names = self.basis.names
        return tuple(
            f"a spline of {names[i].removesuffix(', curved')}" if j < 0 else f"a product of {names[i]} and {names[j]}"
            for i, j in self.pairs[chosen]
        )


@dataclass(frozen=True, eq=False)
class Screen:
    """The functions that entered, and those that resamples of the training rows test again.

    Attributes
    ----------
    candidates : all that were tested
    limit : |z| that a function must exceed (Bonferroni)
    chosen : array (k,), those that entered, the strongest first
    near : array (s,), those that may enter in a resample
    """

    candidates: Candidates
    limit: float
    chosen: IntArray
    near: IntArray

    @classmethod
    def of(cls, x: FloatArray, member: BoolArray, names: Sequence[str], *, independent: float = 1.0) -> Screen:
        """Screen training rows.

        Parameters
        ----------
        x : array (n, d), features of the line, whose splines and products are the candidates
        member : array (n,)
        names : of the features
        independent : share of the rows that count as independent, in (0, 1]
        """
        candidates = Candidates.of(x, names)
        count = len(candidates.pairs)
        limit = -float(special.ndtri(LEVEL / 2 / max(1, count)) / np.sqrt(independent))
        main, y = candidates.basis(x), member.astype(np.float64)
        pool, chosen = np.arange(count), np.empty(0, dtype=np.int64)
        z, design = np.zeros(count), logistic.with_ones(x)
        while len(pool):
            fitted = Fitted.of(design, y)
            scores = fitted.scores(candidates, main, pool)
            z[pool] = scores
            pool = pool[np.abs(scores) > limit]
            if not len(pool) or len(chosen) == MOST:
                break
            best = pool[np.argmax(np.abs(z[pool]))]
            chosen, pool = np.append(chosen, best), pool[pool != best]
            design = np.column_stack([design, candidates.of_rows(main, np.array([best]))])
        others = np.setdiff1d(np.arange(count), chosen)
        if len(chosen):
            z[others] = Fitted.of(design, y).scores(candidates, main, others)
        return cls(candidates, limit, chosen, others[np.abs(z[others]) > limit - _WITHIN])

    def __call__(self, x: FloatArray) -> FloatArray:
        """Return the functions that entered (n, k) of any rows (n, d)."""
        return self.candidates.of_rows(self.candidates.basis(x), self.chosen)

    def after(self, encoder: Callable[[Table], FloatArray]) -> Callable[[Table], FloatArray]:
        """Return an encoder whose features are those of another, and the functions that entered."""

        def features(table: Table) -> FloatArray:
            line = encoder(table)
            return np.hstack([line, self(line)])

        return features

    def rescreen(
        self, member: BoolArray, rows: tuple[FloatArray, FloatArray], penalty: FloatArray, beta: FloatArray
    ) -> Again:
        """Return the screen of resamples of the training rows.

        Parameters
        ----------
        member : array (n,), of the training rows
        rows : the columns, ones first, of training rows (n, p) and of the rows whose log-odds are needed (m, p)
        penalty, beta : arrays (p,), of the model of all training rows
        """
        design, beyond = rows
        width = design.shape[1] - len(self.chosen)
        p = logistic.expit(design @ beta)
        fitted = Fitted(design, member - p, p * (1 - p))
        products, wanted = (
            self.candidates.of_rows(self.candidates.basis(part[:, 1:width]), self.near) for part in (design, beyond)
        )
        near, solved = fitted.beyond(products)
        covariance = scipy.linalg.inv((design * fitted.weight[:, None]).T @ design + np.diag(penalty + _ROUNDING))
        gram = (near * fitted.weight[:, None]).T @ near
        shrunken = gram + _ROUNDING * np.trace(gram) * np.eye(len(gram))
        return Again(
            self.limit,
            width,
            covariance,
            design,
            beyond,
            near,
            wanted - beyond @ solved,
            shrunken,
            member.astype(float),
        )

    @property
    def added(self) -> tuple[str, ...]:
        """Name what entered, in words."""
        return self.candidates.named(self.chosen)


@dataclass(frozen=True, eq=False)
class Fitted:
    """A logistic model of training rows: columns (n, p), residuals and weights (n,)."""

    design: FloatArray
    residual: FloatArray
    weight: FloatArray

    @classmethod
    def of(cls, design: FloatArray, y: FloatArray) -> Fitted:
        """Fit it, hardly shrunken."""
        penalty = logistic.penalty_of(design, logistic.STRENGTHS[-1])
        beta, _ = logistic.minimise(design, y, penalty, np.zeros(design.shape[1]), tolerance=1e-6)
        p = logistic.expit(design @ beta)
        return cls(design, y - p, p * (1 - p))

    def beyond(self, functions: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the part of functions (n, k) that the columns do not explain, and coefficients (p, k) of the rest."""
        weighted = self.design * self.weight[:, None]
        gram = weighted.T @ self.design
        shrunken = gram + _ROUNDING * np.trace(gram) * np.eye(len(gram))
        solved = scipy.linalg.solve(shrunken, weighted.T @ functions, assume_a="pos")
        return functions - self.design @ solved, solved

    def scores(self, candidates: Candidates, main: FloatArray, numbers: IntArray) -> FloatArray:
        """Return z (k,) of some candidates, by number; 0 where the columns explain nearly all of one."""
        scores = np.empty(len(numbers))
        size = max(1, _NUMBERS // len(main))
        for first in range(0, len(numbers), size):
            part = slice(first, first + size)
            products = candidates.of_rows(main, numbers[part])
            left, _ = self.beyond(products)
            own, whole = (
                self.weight @ one**2 for one in (left, products - np.average(products, axis=0, weights=self.weight))
            )
            z = (self.residual @ left) / np.sqrt(np.where(own > 0, own, np.inf))
            scores[part] = np.where(own > _LEAST_LEFT * whole, z, 0.0)
        return scores


def enlarging(encoding: Encoding, classifier: Any = None) -> Callable[[Part, FloatArray], Screen]:
    """Return the function that screens the training rows of a part, for the features of an encoding.

    Raises
    ------
    InputError
        For a classifier: only the logistic model can be enlarged.
    """
    if classifier is not None:
        raise InputError("screened", "the logistic model", "a classifier", "leave one of the two out")

    def enlarge(part: Part, x: FloatArray) -> Screen:
        names = covariates.names_of(encoding, part.table, x.shape[1])
        return Screen.of(x, part.member, names, independent=kish_share(part.code))

    return enlarge


# -- resamples --------------------------------------------------------------------------------------------------------


def spread(
    n: int,
    parts: Sequence[Part],
    models: Sequence[crossfit.Model],
    counts: NDArray[np.uint16],
    rng: np.random.Generator,
) -> FloatArray:
    """Return standard errors (n,) of log-odds over resamples (k, rows), each screened again."""
    errors = np.empty(n)
    for part, model in zip(parts, models, strict=True):
        replicates = crossfit.replicates_of(model, part, counts, 1, rng)
        size = max(1, _NUMBERS // len(part.member))
        blocks = [replicates(slice(first, first + size))(slice(None)) for first in range(0, len(counts), size)]
        errors[part.held_out] = np.concatenate(blocks).std(axis=0, ddof=1)
    return errors


@dataclass(frozen=True, eq=False)
class Again:
    """The screen of resamples, to first order about the model of all training rows.

    A function of the model leaves the model of a resample if its Wald statistic is within the limit. Another candidate
    enters by its score statistic. Either moves the other coefficients by one Newton step.

    Attributes
    ----------
    limit : of |z|
    first : position of the first function among the model's columns
    covariance : array (p, p), of the model's coefficients
    beyond : array (m, p), the model's columns of the rows whose log-odds are needed
    design, near : arrays (n, p), (n, s), the model's columns of training rows, and the part of the
        candidates that these do not explain
    gram : array (s, s), of candidates
    near_beyond : array (m, s), the same part of the candidates for the rows whose log-odds are needed
    y : array (n,), labels
    """

    limit: float
    first: int
    covariance: FloatArray
    design: FloatArray
    beyond: FloatArray
    near: FloatArray
    near_beyond: FloatArray
    gram: FloatArray
    y: FloatArray

    def __call__(self, counts: NDArray[Any], betas: FloatArray) -> FloatArray:
        """Return the change of the log-odds (k, m) of resamples, from coefficients (k, p) without a new screen."""
        steps = np.zeros_like(betas)
        for k in np.flatnonzero((np.abs(self._wald(betas)) < self.limit).any(axis=1)):
            steps[k] = self._left_out(betas[k])
        moved = steps @ self.beyond.T
        if self.near.shape[1]:
            residual = counts * (self.y - logistic.expit(betas @ self.design.T))
            scores = residual @ self.near
            entered = np.zeros_like(scores)
            for k in np.flatnonzero((np.abs(scores) > self.limit * np.sqrt(np.diag(self.gram))).any(axis=1)):
                entered[k] = self._entered(scores[k])
            some = np.flatnonzero(entered.any(axis=0))
            moved += entered[:, some] @ self.near_beyond[:, some].T
        return np.asarray(moved)

    def _wald(self, betas: FloatArray) -> FloatArray:
        return np.asarray(betas[..., self.first :] / np.sqrt(np.diag(self.covariance))[self.first :])

    def _left_out(self, beta: FloatArray) -> FloatArray:
        """Return the step (p,) that leaves out functions, the weakest first, until all others pass."""
        out: list[int] = []
        step, spread = np.zeros_like(beta), np.diag(self.covariance)
        while len(out) < len(beta) - self.first:
            z = np.abs((beta + step)[self.first :]) / np.sqrt(spread[self.first :])
            z[[i - self.first for i in out]] = np.inf
            weakest = int(np.argmin(z))
            if z[weakest] >= self.limit:
                break
            out.append(weakest + self.first)
            gain = scipy.linalg.solve(self.covariance[np.ix_(out, out)], self.covariance[out], assume_a="pos")
            step = -beta[out] @ gain
            spread = np.maximum(np.diag(self.covariance) - (self.covariance[:, out] * gain.T).sum(axis=1), _ROUNDING)
        return step

    def _entered(self, score: FloatArray) -> FloatArray:
        """Return coefficients (s,) of the candidates that enter, the strongest first, 0 of the others."""
        chosen: list[int] = []
        left, spread = score, np.diag(self.gram)
        coefficients = np.zeros_like(score)
        while len(chosen) < MOST:
            fresh = spread > _LEAST_LEFT * np.diag(self.gram)
            z = np.where(fresh, np.abs(left) / np.sqrt(np.where(fresh, spread, 1.0)), 0.0)
            best = int(np.argmax(z))
            if z[best] <= self.limit:
                break
            chosen.append(best)
            across = self.gram[np.ix_(chosen, chosen)]
            effects = scipy.linalg.solve(across, np.column_stack([score[chosen], self.gram[chosen]]), assume_a="pos")
            coefficients[chosen] = effects[:, 0]
            left = score - self.gram[:, chosen] @ effects[:, 0]
            spread = np.diag(self.gram) - (self.gram[:, chosen] * effects[:, 1:].T).sum(axis=1)
        return coefficients

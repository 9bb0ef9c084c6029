"""A basis of functions of covariates for logistic models: splines of ranks, indicators of levels, and products."""

# ruff: noqa: PLC0415 - scipy.stats loads when used

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import special

from miaudit.arrays import BoolArray, FloatArray, IntArray
from miaudit.causal import logistic
from miaudit.causal.boxes import Box, Scan

_KNOTS = (0.05, 0.275, 0.5, 0.725, 0.95)  # quantiles of a column's normal scores
_LEVELS = range(3, 41)  # an undeclared column of so many whole numbers may be a code as well as an amount
_FEWEST_IN_LEVEL = 2  # rows; a level with fewer is pooled with the other rare ones
_FEW_LEVELS = 12  # up to so many, products with each level are tried
_PRODUCTS = 15
_LEAST_SCORE = 3.0  # |z| of a product beyond the main effects
_CLIP = 6.0  # of products of normal scores
_FIRST_RIDGE = 40.0  # of the main effects whose residuals test the products
_ROUNDING = 1e-9
_MOST_CORNERS = 4
_RIDGE_OF_CORNERS = 0.01  # few records are in a corner, and a penalty would leave a part of it


def normal_scores(x: FloatArray) -> FloatArray:
    """Return the normal scores of the ranks of each column (n, d), of mean 0 and variance 1; 0 where it is constant."""
    from scipy.stats import rankdata

    s = special.ndtri((rankdata(x, axis=0) - 0.5) / len(x))
    spread = s.std(axis=0)
    return np.asarray((s - s.mean(axis=0)) / np.where(spread > 0, spread, 1.0))


@dataclass(frozen=True, eq=False)
class Scale:
    """One column as normal scores of its ranks among the training rows.

    Attributes
    ----------
    ordered : array (n,), the training values, ascending
    knots : array (k,), distinct, of the spline
    """

    ordered: FloatArray
    knots: FloatArray

    @classmethod
    def of(cls, levels: FloatArray, counts: IntArray) -> tuple[Scale, FloatArray]:
        """Learn ranks and knots from the distinct training values (k,) and their numbers, and score these values."""
        ordered, last = np.repeat(levels, counts), np.cumsum(counts)
        scale = cls(ordered, np.empty(0))
        scores = scale._of_ranks(2 * last - counts)
        return cls(ordered, np.unique(np.quantile(np.repeat(scores, counts), _KNOTS))), scores

    def scores(self, values: FloatArray) -> FloatArray:
        """Return the normal scores (n,) of mid-ranks, held inside those of the training rows."""
        levels, place = np.unique(values, return_inverse=True)  # to search for ascending values is several times faster
        left, right = (np.searchsorted(self.ordered, levels, side=side) for side in ("left", "right"))
        return self._of_ranks(left + right)[place]

    def _of_ranks(self, twice: IntArray) -> FloatArray:
        n = len(self.ordered)
        return np.asarray(special.ndtri(np.clip(twice / (2 * n), 0.5 / n, 1 - 0.5 / n)))

    def bends(self, z: FloatArray) -> FloatArray:
        """Return the curved part (n, knots - 2) of the natural cubic spline of normal scores (n,)."""
        if len(self.knots) < 3:
            return np.empty((len(z), 0))
        t, last = self.knots, self.knots[-1]
        above = np.maximum(z - t[:, None], 0)
        cubes = above * above * above
        slopes = (cubes[:-1] - cubes[-1]) / (last - t[:-1, None])
        return np.asarray((slopes[:-1] - slopes[-1]).T)


@dataclass(frozen=True, eq=False)
class Columns:
    """The columns that are amounts, and the columns whose levels get an indicator each.

    Attributes
    ----------
    amounts : (column, scale) of each amount
    codes : (column, levels, whether rare ones were pooled) of each column of levels
    """

    amounts: tuple[tuple[int, Scale], ...]
    codes: tuple[tuple[int, FloatArray, bool], ...]

    @classmethod
    def of(cls, x: FloatArray, declared: Sequence[int]) -> tuple[Columns, list[FloatArray]]:
        """Sort the columns of training rows (n, d), and return the normal scores (n,) of each amount with them."""
        amounts: list[tuple[int, Scale]] = []
        codes: list[tuple[int, FloatArray, bool]] = []
        scores: list[FloatArray] = []
        for column in range(x.shape[1]):
            levels, place, counts = np.unique(x[:, column], return_inverse=True, return_counts=True)
            if len(levels) < 2:
                continue
            whole = len(levels) in _LEVELS and np.array_equal(levels, np.rint(levels))
            if column not in declared:
                scale, of_levels = Scale.of(levels, counts)
                amounts.append((column, scale))
                scores.append(of_levels[place])
            if column in declared or whole:
                common = counts >= _FEWEST_IN_LEVEL
                codes.append((column, levels[common], not bool(common.all())))
        return cls(tuple(amounts), tuple(codes)), scores

    def scores(self, x: FloatArray) -> list[FloatArray]:
        """Return the normal scores (n,) of each amount, of any rows (n, d)."""
        return [scale.scores(x[:, column]) for column, scale in self.amounts]

    def functions(
        self, x: FloatArray, scores: Sequence[FloatArray], names: Sequence[str]
    ) -> tuple[FloatArray, tuple[str, ...], tuple[int, int, int]]:
        """Return the functions (n, p) of rows (n, d) with their normal scores, their names, and the counts by sort."""
        curved = [scale.bends(z) for (_, scale), z in zip(self.amounts, scores, strict=True)]
        levels = []
        labels = [names[column] for column, _ in self.amounts]
        for (column, _), part in zip(self.amounts, curved, strict=True):
            labels += [f"{names[column]}, curved"] * part.shape[1]
        for column, common, pooled in self.codes:
            levels.append(x[:, column][:, None] == common)
            labels += [f"{names[column]} = {level:g}" for level in common]
            if pooled:
                levels.append(~levels[-1].any(axis=1, keepdims=True))
                labels.append(f"{names[column]}: rare levels")
        parts = [np.column_stack(scores) if scores else np.empty((len(x), 0)), *curved, *levels]
        sorts = len(scores), sum(part.shape[1] for part in curved), sum(part.shape[1] for part in levels)
        return np.hstack(parts).astype(np.float64), tuple(labels), sorts


@dataclass(frozen=True, eq=False)
class Basis:
    """Functions of covariates, learned from training rows without their labels.

    Attributes
    ----------
    columns : how each column enters
    names : names of the functions, for sentences
    sorts : how many functions there are of each sort: normal scores, bends, indicators
    centre, spread : arrays (p,), of the training rows
    """

    columns: Columns
    names: tuple[str, ...]
    sorts: tuple[int, int, int]
    centre: FloatArray
    spread: FloatArray

    @classmethod
    def fitted(cls, x: FloatArray, names: Sequence[str], declared: Sequence[int] = ()) -> tuple[Basis, FloatArray]:
        """Learn the basis of covariates, and return it with its functions of them (n, p), standardised.

        Parameters
        ----------
        x : array (n, d), training rows
        names : of the columns
        declared : positions of the columns that are codes and not amounts

        Examples
        --------
        >>> basis, main = Basis.fitted(np.array([[1.0, 0], [2, 1], [3, 2], [4, 1]] * 5), ["pay", "site"])
        >>> basis.sorts, main.shape
        ((2, 4, 7), (20, 13))
        """
        columns, scores = Columns.of(x, declared)
        raw, labels, sorts = columns.functions(x, scores, names)
        basis = cls(columns, labels, sorts, raw.mean(axis=0), _spread(raw))
        return basis, (raw - basis.centre) / basis.spread

    def __call__(self, x: FloatArray) -> FloatArray:
        """Return the functions (n, p), standardised as the training rows are; normal scores first."""
        raw, _, _ = self.columns.functions(x, self.columns.scores(x), [str(i) for i in range(x.shape[1])])
        return (raw - self.centre) / self.spread

    @property
    def factors(self) -> IntArray:
        """Positions of the functions whose products are tested: normal scores, and the levels of columns with few."""
        positions, at = list(range(self.sorts[0])), self.sorts[0] + self.sorts[1]
        for _, levels, pooled in self.columns.codes:
            if len(levels) <= _FEW_LEVELS:
                positions += range(at, at + len(levels))
            at += len(levels) + pooled
        return np.array(positions, dtype=np.int64)

    @property
    def sources(self) -> tuple[frozenset[int], ...]:
        """The column of the covariates that each function is of."""
        amounts = [column for column, _ in self.columns.amounts]
        bends = [column for column, scale in self.columns.amounts for _ in range(max(len(scale.knots) - 2, 0))]
        levels = [column for column, common, pooled in self.columns.codes for _ in range(len(common) + pooled)]
        return tuple(frozenset([column]) for column in (*amounts, *bends, *levels))

    @property
    def ridge(self) -> FloatArray:
        """Relative penalty (p,) of each function: a tenth for normal scores."""
        penalties = np.ones(sum(self.sorts))
        penalties[: self.sorts[0]] = 0.1
        return penalties


@dataclass(frozen=True, eq=False)
class Products:
    """Products of two functions of a basis, chosen by how well they predict membership beyond the main effects.

    Attributes
    ----------
    pairs : array (k, 2) of positions in the basis
    centre, spread : arrays (k,), of the training rows
    """

    pairs: IntArray
    centre: FloatArray
    spread: FloatArray

    @classmethod
    def of(
        cls,
        main: FloatArray,
        basis: Basis,
        member: BoolArray,
        *,
        most: int = _PRODUCTS,
        least: float = _LEAST_SCORE,
        independent: float = 1.0,
    ) -> Products:
        """Choose products by their score statistic, orthogonal to the main effects.

        Parameters
        ----------
        main : array (n, p), the basis on training rows
        member : array (n,)
        most : number of products
        least : |z| that a product must exceed
        independent : as in :meth:`Design.fitted`
        """
        factors = basis.factors
        first, second = np.triu_indices(len(factors), 1)
        if not len(first):
            return cls(np.empty((0, 2), dtype=np.int64), np.empty(0), np.empty(0))
        fitted = _main_effects(main, basis, member, independent)
        strength = np.abs(product_scores(main[:, factors], member - fitted, fitted * (1 - fitted))[first, second])
        strength *= np.sqrt(independent)
        strongest = np.argsort(-strength, kind="stable")[:most]
        strongest = strongest[strength[strongest] > least]
        pairs = np.column_stack([factors[first[strongest]], factors[second[strongest]]])
        products = cls(pairs, np.zeros(len(pairs)), np.ones(len(pairs)))(main)
        return cls(pairs, products.mean(axis=0), _spread(products))

    def __call__(self, main: FloatArray) -> FloatArray:
        """Return the products (n, k) of rows of the basis (n, p), standardised as the training rows are."""
        products = np.clip(main[:, self.pairs[:, 0]] * main[:, self.pairs[:, 1]], -_CLIP, _CLIP)
        return np.asarray((products - self.centre) / self.spread)


def _main_effects(main: FloatArray, basis: Basis, member: BoolArray, independent: float) -> FloatArray:
    """Return the probabilities (n,) of membership by a shrunken logistic model of the basis (n, p)."""
    ones, penalty = logistic.with_ones(main), np.r_[0.0, _FIRST_RIDGE / independent * basis.ridge]
    beta, _ = logistic.minimise(ones, member.astype(np.float64), penalty, np.zeros(ones.shape[1]), tolerance=1e-4)
    return logistic.expit(ones @ beta)


def product_scores(s: FloatArray, residual: FloatArray, weight: FloatArray, *, least: float = _ROUNDING) -> FloatArray:
    """Return the score statistic z (k, k) of the product of each two columns s (n, k).

    With residuals r, binomial variances w and a product p less its weighted mean c, z is sum r (p - c) over the root of
    sum w (p - c)^2; matrix products give these sums for all products at once.
    """
    total = weight.sum()
    summed = (residual[:, None] * s).T @ s
    first, second = ((weight[:, None] * s**k).T @ s**k for k in (1, 2))
    centre = first / total
    variance = second - total * centre**2
    return np.asarray(
        (summed - residual.sum() * centre) / np.sqrt(np.where(variance > least * total, variance, np.inf))
    )


def _spread(columns: FloatArray) -> FloatArray:
    """Return the standard deviation (p,) of each column; infinite where it is rounding error."""
    spread = columns.std(axis=0)
    return np.where(spread > _ROUNDING, spread, np.inf)


@dataclass(frozen=True, eq=False)
class Corners:
    """Ranges of one covariate or of two in which membership is not what all smooth functions say.

    Attributes
    ----------
    boxes : these ranges
    centre, spread : arrays (k,) of their indicators among the training rows
    """

    boxes: tuple[Box, ...]
    centre: FloatArray
    spread: FloatArray

    @classmethod
    def of(
        cls, x: FloatArray, member: BoolArray, smooth: FloatArray, ridge: FloatArray, independent: float = 1.0
    ) -> tuple[Corners, FloatArray]:
        """Take the strongest box while it is stronger than chance allows; return the indicators (n, k) with them.

        Parameters
        ----------
        x : array (n, d), training rows
        member : array (n,)
        smooth : array (n, p), functions of the covariates that are there already, and ridge (p,) their penalties
        independent : as in :meth:`Design.fitted`
        """
        features, boxes, beta = smooth, list[Box](), np.zeros(smooth.shape[1] + 1)
        scan = Scan.of(x)
        while len(boxes) < _MOST_CORNERS:
            ones, penalty = logistic.with_ones(features), _FIRST_RIDGE / independent * np.r_[0.0, ridge]
            start = np.r_[beta, np.zeros(ones.shape[1] - len(beta))]
            beta, _ = logistic.minimise(ones, member.astype(np.float64), penalty, start, tolerance=1e-3)
            p = logistic.expit(ones @ beta)
            above, box = scan.strongest(independent * (member - p), independent * p * (1 - p))
            if above <= 0:
                break
            boxes.append(box)
            inside = box.holds(x)
            features = np.column_stack([features, (inside - inside.mean()) / inside.std()])
            ridge = np.r_[ridge, _RIDGE_OF_CORNERS]
        raw = _indicators(boxes, x)
        corners = cls(tuple(boxes), raw.mean(axis=0), _spread(raw))
        return corners, features[:, smooth.shape[1] :]

    def __call__(self, x: FloatArray) -> FloatArray:
        """Return the indicators (n, k) of rows x (n, d), standardised as the training rows are."""
        return np.asarray((_indicators(self.boxes, x) - self.centre) / self.spread)


def _indicators(boxes: Sequence[Box], x: FloatArray) -> FloatArray:
    return np.stack([box.holds(x) for box in boxes], axis=1).astype(np.float64) if boxes else np.empty((len(x), 0))


@dataclass(frozen=True, eq=False)
class Design:
    """A basis, and products and corners that help to predict membership: the features of one fold's linear models."""

    basis: Basis
    products: Products
    corners: Corners

    @classmethod
    def fitted(
        cls,
        x: FloatArray,
        member: BoolArray,
        names: Sequence[str],
        declared: Sequence[int] = (),
        *,
        independent: float = 1.0,
    ) -> tuple[Design, FloatArray]:
        """Learn the design from training rows x (n, d) and their labels (n,), and return it with their features (n, p).

        Parameters
        ----------
        declared : positions of codes
        independent : independent records for each record, at most 1; fewer than 1 where records of one unit repeat
        """
        basis, main = Basis.fitted(x, names, declared)
        products = Products.of(main, basis, member, independent=independent)
        smooth = np.hstack([main, products(main)])
        corners, of_corners = Corners.of(x, member, smooth, _penalties(basis, products), independent)
        return cls(basis, products, corners), np.hstack([smooth, of_corners])

    def __call__(self, x: FloatArray) -> FloatArray:
        """Return the features (n, p) of rows x (n, d)."""
        main = self.basis(x)
        return np.hstack([main, self.products(main), self.corners(x)])

    @property
    def sources(self) -> tuple[frozenset[int], ...]:
        """The columns of the covariates that each feature is of."""
        main = self.basis.sources
        products = (main[first] | main[second] for first, second in self.products.pairs)
        corners = (frozenset(column for column, _, _ in box.sides) for box in self.corners.boxes)
        return (*main, *products, *corners)

    @property
    def ridge(self) -> FloatArray:
        """Relative penalty (p,) of each feature."""
        corners = np.full(len(self.corners.boxes), _RIDGE_OF_CORNERS)
        return np.concatenate([_penalties(self.basis, self.products), corners])


def _penalties(basis: Basis, products: Products) -> FloatArray:
    return np.concatenate([basis.ridge, np.ones(len(products.pairs))])

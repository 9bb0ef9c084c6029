"""Stacks of cross-fitted models: of membership (the propensity), and of the score among the non-members.

No single model is right for all real shifts. A line misses products, a basis misses jumps, and boosting alone is wrong
nearly everywhere (docs/zero_run_in_depth.md). It combines their held-out log-odds in one logistic line, which also
calibrates them.
"""

# ruff: noqa: PLC0415 - scikit-learn and scipy.optimize load when used
from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import scipy
from numpy.typing import ArrayLike, NDArray

from miaudit.arrays import BoolArray, Float32Array, FloatArray, IntArray
from miaudit.causal import covariates, crossfit, logistic
from miaudit.causal.basis import Design
from miaudit.causal.column_order import by_content
from miaudit.causal.cores import at_once, grown
from miaudit.causal.covariates import Categories, Encoding, Numbers, Table
from miaudit.errors import InputError

PENALTIES = (1000.0, 200.0, 40.0, 8.0)  # of the basis, times the share of the training rows
MOST_LOG_ODDS = 7.0
_LARGEST_SHARE = 2.0  # of one learner
_BOOSTED: dict[str, Any] = {
    "max_iter": 100,
    "learning_rate": 0.1,
    "max_leaf_nodes": 8,
    "min_samples_leaf": 20,
    "l2_regularization": 5.0,
    "early_stopping": False,
}
_FEW_BINS, _MOST_BINS = (
    63,
    255,
)  # regressions are twice as quick with the few; a propensity of few is refuted less often
_TREES, _LEAF = 40, 4
_MOST_TRIED = 12  # covariates at a split of a tree that regresses the score
_FEWEST = 10  # non-members among which a score is regressed
_RIDGES = np.logspace(-1, 4, 21)
MOST_LEARNED = 100_000  # training rows: with more the models would gain little
_BLOCK = 20_000  # records whose features are computed at a time


@dataclass(frozen=True, eq=False)
class Folds:
    """Covariates, membership and the folds that all models share.

    Attributes
    ----------
    x : array (n, d), finite
    member : array (n,)
    fold : array (n,), in which each record is held out; units whole
    training_rows : array (m,), ascending: records that models may learn from; units whole
    designs : by fold, learned from the training rows outside it
    features : by fold an array (m, p): functions of the covariates of the training rows
    seed : of trees
    names : of the covariates; none where they are components of texts or of many columns
    independent : independent records for each record, at most 1; fewer than 1 where records of one unit repeat
    """

    x: FloatArray
    member: BoolArray
    fold: IntArray
    training_rows: IntArray
    designs: Mapping[int, Design]
    features: Mapping[int, FloatArray]
    seed: int
    names: tuple[str, ...] = ()
    independent: float = 1.0

    @classmethod
    def of(
        cls,
        x: FloatArray,
        member: BoolArray,
        fold: IntArray,
        *,
        names: Sequence[str],
        declared: Sequence[int] = (),
        training_rows: IntArray | None = None,
        independent: float = 1.0,
        seed: int,
    ) -> Folds:
        """Learn the design of each fold on the other records; ``declared`` are positions of codes."""
        rows = np.arange(len(x)) if training_rows is None else training_rows
        near, label, place = x[rows], member[rows], fold[rows]

        def design_of(k: int) -> tuple[Design, FloatArray]:
            out = place == k
            design, inside = Design.fitted(near[~out], label[~out], names, declared, independent=independent)
            features = np.empty((len(rows), inside.shape[1]))
            features[~out], features[out] = inside, design(near[out])
            return design, features

        numbers = np.unique(fold).tolist()
        fitted = dict(zip(numbers, at_once(design_of, numbers), strict=True))
        designs = {k: design for k, (design, _) in fitted.items()}
        features = {k: columns for k, (_, columns) in fitted.items()}
        return cls(x, member, fold, rows, designs, features, seed, tuple(names), independent)

    @classmethod
    def of_table(
        cls,
        table: Table,
        encoding: Encoding,
        member: BoolArray,
        fold: IntArray,
        *,
        training_rows: IntArray | None = None,
        independent: float = 1.0,
        seed: int,
    ) -> Folds:
        """Use numeric columns as they are, and texts and condensed columns as the encoding's components of all rows.

        Only the products are fitted to membership.
        """
        if isinstance(encoding, Numbers | Categories) and table.numbers is not None:
            coded = encoding.columns if isinstance(encoding, Categories) else ()
            declared = [i for i, column in enumerate(table.columns) if column in coded]
            return cls.of(
                table.numbers,
                member,
                fold,
                names=table.names,
                declared=declared,
                training_rows=training_rows,
                independent=independent,
                seed=seed,
            )
        x = covariates.fit(encoding, table, seed=seed)(table)
        names = [f"component {i + 1}" for i in range(x.shape[1])]
        return replace(
            cls.of(x, member, fold, names=names, training_rows=training_rows, independent=independent, seed=seed),
            names=(),
        )

    @cached_property
    def sorted_x(self) -> FloatArray:
        """The covariates (n, d) for trees: columns sorted by content, so that their order has no effect."""
        return self.x[:, by_content(self.x)]

    @property
    def learns_scores(self) -> bool:
        """Whether the training rows of each fold have enough non-members for a regression of the score."""
        outside, place = ~self.member[self.training_rows], self.fold[self.training_rows]
        return bool(min(np.count_nonzero(outside & (place != k)) for k in np.unique(self.fold)) >= _FEWEST)

    def of_rows(self, rows: NDArray[Any]) -> Folds:
        """Return some of the records (indices or a mask) with their features."""
        place = np.full(len(self.x), -1)
        place[self.training_rows] = np.arange(len(self.training_rows))
        there = place[rows]
        selected = np.flatnonzero(there >= 0)
        features = {k: columns[there[selected]] for k, columns in self.features.items()}
        return replace(
            self,
            x=self.x[rows],
            member=self.member[rows],
            fold=self.fold[rows],
            training_rows=selected,
            features=features,
        )

    def held_out(self, k: int) -> Iterator[tuple[IntArray, FloatArray]]:
        """Yield the records of a fold and their features, in blocks."""
        mine = self.fold[self.training_rows] == k
        yield self.training_rows[mine], self.features[k][mine]
        others = self.fold == k
        others[self.training_rows] = False
        rest = np.flatnonzero(others)
        for first in range(0, len(rest), _BLOCK):
            rows = rest[first : first + _BLOCK]
            yield rows, self.designs[k](self.x[rows])


def log_odds(folds: Folds, others: Mapping[str, FloatArray]) -> tuple[FloatArray, dict[str, float]]:
    """Learn the log-odds of membership of each record from the other folds, by the stack.

    Parameters
    ----------
    folds : the records
    others : held-out log-odds (n,) of further learners by name: the line in the raw columns, words

    Returns
    -------
    log-odds (n,) within 7 of zero, and the share of each learner, 0 to 2
    """
    bent = np.empty((len(PENALTIES), len(folds.x)))
    boosted = np.empty(len(folds.x))
    # the longest pieces first, so that no core waits for a long last one
    pieces = [(learn, into, k) for learn, into in ((_boosted, boosted), (_bent, bent)) for k in folds.designs]
    at_once(lambda piece: piece[0](folds, piece[2], piece[1]), pieces)
    losses = logistic.log_loss(bent, folds.member.astype(np.float64)).mean(axis=1)
    candidates = {**others, "basis": bent[int(np.argmin(losses))], "boosting": boosted}
    logit, shares = combined(np.column_stack(list(candidates.values())), folds.member)
    return logit, dict(zip(candidates, shares.tolist(), strict=True))


def combined(held: FloatArray, member: BoolArray) -> tuple[FloatArray, FloatArray]:
    """Weigh held-out log-odds (n, k): return the log-odds (n,), within 7 of zero, and the learners' shares (k,)."""
    shares = weigh(held, member)
    return np.clip(shares[0] + held @ shares[1:], -MOST_LOG_ODDS, MOST_LOG_ODDS), shares[1:]


def weigh(held: FloatArray, member: BoolArray) -> FloatArray:
    """Return the intercept and the share of each learner, (1 + k,), with the least log-loss; shares are in [0, 2].

    Parameters
    ----------
    held : array (n, k), held-out log-odds
    member : array (n,)

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> logit = rng.normal(size=20000)
    >>> member = rng.random(20000) < logistic.expit(logit)
    >>> weigh(np.column_stack([2 * logit, rng.normal(size=20000)]), member).round(1) + 0.0
    array([0. , 0.5, 0. ])
    """
    from scipy.optimize import minimize

    x, y = logistic.with_ones(held), member.astype(np.float64)

    def loss(b: FloatArray) -> tuple[float, FloatArray]:
        eta = x @ b
        return float(logistic.log_loss(eta, y).mean()), np.asarray(x.T @ (logistic.expit(eta) - y) / len(y))

    start = np.r_[0.0, np.full(held.shape[1], 1 / held.shape[1])]
    bounds = [(None, None)] + [(0.0, _LARGEST_SHARE)] * held.shape[1]
    return np.asarray(minimize(loss, start, jac=True, method="L-BFGS-B", bounds=bounds).x)


def _bent(folds: Folds, k: int, held: FloatArray) -> None:
    """Fill in the held-out log-odds (penalties, n) of a fold by ridge regressions on the basis."""
    y, rows = folds.member[folds.training_rows].astype(np.float64), folds.fold[folds.training_rows] != k
    inside, target = logistic.with_ones(folds.features[k][rows]), y[rows]
    beta, curvature, losses = np.zeros(inside.shape[1]), None, []
    for penalty in PENALTIES:
        ridge = np.r_[0.0, penalty / folds.independent * float(rows.mean()) * folds.designs[k].ridge]
        beta, curvature = logistic.minimise(inside, target, ridge, beta, curvature=curvature, tolerance=1e-4)
        losses.append(beta)
    for out, features in folds.held_out(k):
        held[:, out] = (logistic.with_ones(features) @ np.column_stack(losses)).T


def _boosted(folds: Folds, k: int, held: FloatArray) -> None:
    """Fill in the held-out log-odds (n,) of a fold by boosted trees."""
    from sklearn.ensemble import HistGradientBoostingClassifier

    out, rows = folds.fold == k, folds.fold[folds.training_rows] != k
    x, member = folds.sorted_x[folds.training_rows][rows], folds.member[folds.training_rows][rows]
    leaf = round(_BOOSTED["min_samples_leaf"] / folds.independent)
    penalty = _BOOSTED["l2_regularization"] / folds.independent
    options = {**_BOOSTED, "min_samples_leaf": leaf, "l2_regularization": penalty}
    trees = HistGradientBoostingClassifier(**options, random_state=folds.seed)
    held[out] = crossfit.raw_logit(trees.fit(x, member), folds.sorted_x[out])


def _regression_options(folds: Folds) -> dict[str, Any]:
    """Return options of regressions: few bins, but many where these give each value of a column its own bin.

    Half the trees at twice the rate predict scores as well (experiments/methods.md, section 9).
    """
    levels = [len(np.unique(column)) for column in folds.x[folds.training_rows].T]
    many = any(_FEW_BINS < count <= _MOST_BINS for count in levels)
    bins = _MOST_BINS if many else _FEW_BINS
    return {**_BOOSTED, "max_iter": 50, "learning_rate": 0.2, "max_bins": bins, "random_state": folds.seed}


# -- the score among the non-members ----------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class _Ridge:
    """Ridge regressions of any targets on the same features, by one decomposition of their moments.

    Attributes
    ----------
    centre, scale : arrays (p,)
    energy : array (p,) of eigenvalues, not negative; axes : array (p, p)
    """

    centre: FloatArray
    scale: FloatArray
    energy: FloatArray
    axes: FloatArray

    @classmethod
    def of(cls, features: FloatArray, relative: FloatArray) -> _Ridge:
        """Decompose features (m, p), whose penalties are ``relative`` (p,) to each other."""
        scale, centre = 1 / np.sqrt(relative), features.mean(axis=0)
        scaled = (features - centre) * scale
        # Of the moments: a tenth of the time of the singular values.
        energy, axes = scipy.linalg.eigh(scaled.T @ scaled)
        return cls(centre, scale, np.maximum(energy, 0.0), axes)

    def fit(self, features: FloatArray, target: FloatArray) -> tuple[float, FloatArray]:
        """Return intercept and slopes (p,) at the best penalty by generalised cross-validation (Golub et al. 1979)."""
        mean = float(target.mean())
        moment = self.axes.T @ (self.scale * (features.T @ (target - mean)))
        total, best = float(((target - mean) ** 2).sum()), (np.inf, moment)
        for penalty in _RIDGES:
            slope = moment / (self.energy + penalty)
            residual = total - float(slope @ (2 * moment - self.energy * slope))
            freedom = float((self.energy / (self.energy + penalty)).sum()) + 1
            loss = residual / (1 - freedom / len(target)) ** 2
            if loss < best[0]:
                best = loss, slope
        slopes = self.scale * (self.axes @ best[1])
        return mean - float(self.centre @ slopes), slopes


@dataclass(frozen=True, eq=False)
class _Learned:
    """The parts of a fold's regressions that do not depend on the function of the score.

    Attributes
    ----------
    inside : array (m,), positions of the non-members among the training rows
    ridge : of their features
    leaves, beyond : arrays (trees, m) and (trees, held out), the leaf of each record
    """

    inside: IntArray
    ridge: _Ridge
    leaves: IntArray
    beyond: IntArray

    @classmethod
    def of(cls, folds: Folds, k: int, score: FloatArray) -> _Learned:
        """Learn from the ranks of the score, which all its monotone functions share."""
        from scipy.stats import rankdata
        from sklearn.tree import ExtraTreeRegressor

        inside = np.flatnonzero(~folds.member[folds.training_rows] & (folds.fold[folds.training_rows] != k))
        rows = folds.training_rows[inside]
        few = min(folds.x.shape[1], _MOST_TRIED)
        near, far = (folds.sorted_x[some].astype(np.float32) for some in (rows, folds.fold == k))
        tree = ExtraTreeRegressor(min_samples_leaf=_LEAF, max_features=few)
        trees = grown(tree, _TREES, near, rankdata(score[rows]), seed=folds.seed)
        ridge = _Ridge.of(folds.features[k][inside], folds.designs[k].ridge)

        def leaves(rows: Float32Array) -> IntArray:
            return np.stack([tree.apply(rows, check_input=False) for tree in trees]).astype(np.int32)

        return cls(inside, ridge, leaves(near), leaves(far))

    def of_trees(self, target: FloatArray) -> FloatArray:
        """Return the mean over the trees of the target's (m,) mean in the leaf of each record held out."""
        sums = np.zeros(self.beyond.shape[1])
        for leaf, there in zip(self.leaves, self.beyond, strict=True):
            count = np.bincount(leaf)
            sums += (np.bincount(leaf, weights=target) / np.maximum(count, 1))[there]
        return sums / len(self.leaves)


@dataclass(frozen=True, eq=False)
class Regressed:
    """The law of a non-member's score by regression: the mean of any function of the score, but not a curve.

    A function of the score is regressed on the covariates among the non-members of the other folds: a ridge regression
    on the basis, boosting, and extremely randomised trees that were grown on the score's ranks, in the non-negative
    combination that fits held-out non-members best.

    Attributes
    ----------
    folds : the records
    score : array (n,); only the non-members' values are read
    how : the model in words

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> x = rng.normal(size=(1000, 2))
    >>> member = rng.random(1000) < 0.5
    >>> folds = Folds.of(x, member, np.arange(1000) % 5, names=["u", "v"], seed=0)
    >>> mean = Regressed(folds, x[:, 0] + rng.normal(size=1000)).mean
    >>> bool(np.corrcoef(mean, x[:, 0])[0, 1] > 0.95)
    True
    """

    folds: Folds
    score: FloatArray
    how: str = "ridge on a basis, boosting and trees, stacked"

    @property
    def n(self) -> int:
        """Number of records."""
        return len(self.score)

    @cached_property
    def _learned(self) -> dict[int, _Learned]:
        numbers = list(self.folds.designs)
        return dict(zip(numbers, at_once(lambda k: _Learned.of(self.folds, k, self.score), numbers), strict=True))

    @property
    def mean(self) -> FloatArray:
        """E[Y(0) | x] of each record (n,), in units of the score."""
        return self._regressed(self.score)

    def expected(self, function: Callable[[FloatArray], FloatArray]) -> FloatArray:
        """Return E[function(Y(0)) | x] of each record (n,), by a regression of its own."""
        return self._regressed(function(self.score))

    def exceedance(self, threshold: float) -> FloatArray:
        """Return P(Y(0) >= t | x) of each record (n,)."""
        return self.expected(lambda y: (y >= threshold).astype(np.float64))

    def weighted_exceedance(self, weight: ArrayLike, thresholds: ArrayLike) -> FloatArray:  # noqa: ARG002
        """Refuse a curve, which would need a regression for each of its points."""
        raise InputError(
            "outcome",
            "LocationScale or a regressor for a curve or a threshold that is searched",
            "Regression",
            "use method='hajek' for it: an outcome model adds little to a curve",
        )

    @cached_property
    def _done(self) -> dict[bytes, FloatArray]:
        return {}

    def _regressed(self, target: FloatArray) -> FloatArray:
        """Return E[target | x, non-member] of each record (n,); of the same values of non-members only once."""
        key = hashlib.sha256(target[~self.folds.member].tobytes()).digest()
        if key not in self._done:
            self._done[key] = self._regression(target)
            self._done[key].flags.writeable = False
        return self._done[key]

    def _regression(self, target: FloatArray) -> FloatArray:
        """Return E[target | x, non-member] of each record (n,), within the range of the target (n,)."""
        from scipy.optimize import nnls
        from sklearn.ensemble import HistGradientBoostingRegressor

        folds, predictions, outsiders = self.folds, np.empty((3, self.n)), ~self.folds.member
        options = _regression_options(folds)

        def fill(k: int) -> None:
            out, mine = folds.fold == k, self._learned[k]
            rows = folds.training_rows[mine.inside]
            values = target[rows]
            intercept, slopes = mine.ridge.fit(folds.features[k][mine.inside], values)
            for some, features in folds.held_out(k):
                predictions[0, some] = intercept + features @ slopes
            trees = HistGradientBoostingRegressor(**options)
            predictions[1, out] = trees.fit(folds.sorted_x[rows], values).predict(folds.sorted_x[out])
            predictions[2, out] = mine.of_trees(values)

        self._learned  # noqa: B018 (learned before the threads use it)
        at_once(fill, folds.designs)
        centre = float(target[outsiders].mean())
        shares, _ = nnls((predictions[:, outsiders] - centre).T, target[outsiders] - centre)
        return np.clip(centre + shares @ (predictions - centre), target[outsiders].min(), target[outsiders].max())

"""Models that are stacked, cross-fitted: of membership (the propensity), and of the score among the non-members.

No single model is right for all real shifts: a line misses products, a basis misses jumps, boosting alone is wrong
nearly everywhere (docs/propensity.md has the table). The stack takes their held-out log-odds into one logistic line,
which calibrates as well.
"""

# ruff: noqa: PLC0415 - scikit-learn and scipy.optimize load when used
from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import linalg
from threadpoolctl import threadpool_limits

from miaudit.arrays import BoolArray, FloatArray, IntArray
from miaudit.causal import covariates, crossfit
from miaudit.causal.basis import Design
from miaudit.causal.covariates import Categories, Encoding, Numbers, Table
from miaudit.errors import InputError

PENALTIES = (1000.0, 200.0, 40.0, 8.0)  # of the basis, times the share of the records that are learned from
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
_TREES, _LEAF = 40, 4
_MOST_TRIED = 12  # covariates at a split of a tree that regresses the score
_FEWEST = 10  # non-members that a score is regressed among
_RIDGES = np.logspace(-1, 4, 21)


@dataclass(frozen=True, eq=False)
class Folds:
    """Covariates, membership and the folds that all models share.

    Attributes
    ----------
    x : array (n, d), finite
    member : array (n,)
    fold : array (n,), in which each record is held out; units whole
    features : by fold an array (n, p): functions of the covariates, made on the other records
    ridge : by fold an array (p,), the relative penalty of each feature
    seed : of trees
    """

    x: FloatArray
    member: BoolArray
    fold: IntArray
    features: Mapping[int, FloatArray]
    ridge: Mapping[int, FloatArray]
    seed: int

    @classmethod
    def of(
        cls,
        x: FloatArray,
        member: BoolArray,
        fold: IntArray,
        *,
        names: Sequence[str],
        declared: Sequence[int] = (),
        seed: int,
    ) -> Folds:
        """Make the basis of each fold on the other records; ``declared`` are positions of codes."""
        features, ridge = {}, {}
        for k in np.unique(fold).tolist():
            out = fold == k
            design, inside = Design.fitted(x[~out], member[~out], names, declared)
            features[k], ridge[k] = np.empty((len(x), inside.shape[1])), design.ridge
            features[k][~out], features[k][out] = inside, design(x[out])
        return cls(x, member, fold, features, ridge, seed)

    @classmethod
    def of_table(cls, table: Table, encoding: Encoding, member: BoolArray, fold: IntArray, *, seed: int) -> Folds:
        """Take columns as they are; texts, and columns that are condensed, as the encoding's components of all rows.

        Nothing is fitted to membership but the products.
        """
        if isinstance(encoding, Numbers | Categories) and table.numbers is not None:
            coded = encoding.columns if isinstance(encoding, Categories) else ()
            declared = [i for i, column in enumerate(table.columns) if column in coded]
            return cls.of(table.numbers, member, fold, names=table.names, declared=declared, seed=seed)
        x = covariates.fit(encoding, table, seed=seed)(table)
        return cls.of(x, member, fold, names=[f"component {i + 1}" for i in range(x.shape[1])], seed=seed)

    @property
    def learns_scores(self) -> bool:
        """Whether each fold leaves non-members to learn a score from, as one of a single unit does not."""
        left = [np.count_nonzero(~self.member & (self.fold != k)) for k in np.unique(self.fold)]
        return bool(min(left) >= _FEWEST)

    def of_rows(self, rows: NDArray[Any]) -> Folds:
        """Take some of the records (indices or a mask) with their features."""
        features = {k: made[rows] for k, made in self.features.items()}
        return replace(self, x=self.x[rows], member=self.member[rows], fold=self.fold[rows], features=features)


# -- membership -------------------------------------------------------------------------------------------------------


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
    found = {**others, "basis": _bent(folds), "boosting": _boosted(folds)}
    held = np.column_stack(list(found.values()))
    shares = weigh(held, folds.member)
    logit = np.clip(shares[0] + held @ shares[1:], -MOST_LOG_ODDS, MOST_LOG_ODDS)
    return logit, dict(zip(found, shares[1:].tolist(), strict=True))


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
    >>> member = rng.random(20000) < crossfit.expit(logit)
    >>> weigh(np.column_stack([2 * logit, rng.normal(size=20000)]), member).round(1) + 0.0
    array([0. , 0.5, 0. ])
    """
    from scipy.optimize import minimize

    x, y = crossfit.with_ones(held), member.astype(np.float64)

    def loss(b: FloatArray) -> tuple[float, FloatArray]:
        eta = x @ b
        return float(crossfit.log_loss(eta, y).mean()), np.asarray(x.T @ (crossfit.expit(eta) - y) / len(y))

    start = np.r_[0.0, np.full(held.shape[1], 1 / held.shape[1])]
    bounds = [(None, None)] + [(0.0, _LARGEST_SHARE)] * held.shape[1]
    return np.asarray(minimize(loss, start, jac=True, method="L-BFGS-B", bounds=bounds).x)


def _bent(folds: Folds) -> FloatArray:
    """Return the held-out log-odds (n,) of a ridge regression on the basis, at the penalty that is best for all."""
    y = folds.member.astype(np.float64)
    held = np.empty((len(PENALTIES), len(y)))
    for k, features in folds.features.items():
        out = folds.fold == k
        inside, outside = (crossfit.with_ones(features[rows]) for rows in (~out, out))
        beta, share = np.zeros(inside.shape[1]), float((~out).mean())
        for i, penalty in enumerate(PENALTIES):
            ridge = np.r_[0.0, penalty * share * folds.ridge[k]]
            beta, _ = crossfit.minimise(inside, y[~out], ridge, beta, tolerance=1e-4)
            held[i, out] = outside @ beta
    losses = crossfit.log_loss(held, y).mean(axis=1)
    return np.asarray(held[int(np.argmin(losses))])


def _boosted(folds: Folds) -> FloatArray:
    from sklearn.ensemble import HistGradientBoostingClassifier

    held = np.empty(len(folds.x))
    with threadpool_limits(1):  # threads of boosting that wait for each other on busy cores cost many times as much
        for k in folds.features:
            out = folds.fold == k
            trees = HistGradientBoostingClassifier(**_BOOSTED, random_state=folds.seed)
            held[out] = crossfit.raw_logit(trees.fit(folds.x[~out], folds.member[~out]), folds.x[out])
    return held


# -- the score among the non-members ----------------------------------------------------------------------------------


def regression(folds: Folds, target: FloatArray) -> FloatArray:
    """Regress a function of the score on the covariates among the non-members of the other folds.

    A ridge regression on the basis, boosting and extremely randomised trees, in the non-negative combination that fits
    held-out non-members best.

    Parameters
    ----------
    folds : the records
    target : array (n,); only the non-members' values are read

    Returns
    -------
    array (n,), E[target | x, non-member] of each record, within the range of the target

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> x = rng.normal(size=(1000, 2))
    >>> member = rng.random(1000) < 0.5
    >>> folds = Folds.of(x, member, np.arange(1000) % 5, names=["u", "v"], seed=0)
    >>> found = regression(folds, x[:, 0] + rng.normal(size=1000))
    >>> bool(np.corrcoef(found, x[:, 0])[0, 1] > 0.95)
    True
    """
    from scipy.optimize import nnls
    from sklearn.ensemble import ExtraTreesRegressor, HistGradientBoostingRegressor

    x, found, outsiders = folds.x, np.empty((3, len(target))), ~folds.member
    few = min(x.shape[1], _MOST_TRIED)
    with threadpool_limits(1):
        for k, made in folds.features.items():
            out = folds.fold == k
            rows = ~out & outsiders
            boosted = HistGradientBoostingRegressor(**_BOOSTED, random_state=folds.seed)
            trees = ExtraTreesRegressor(_TREES, min_samples_leaf=_LEAF, max_features=few, random_state=folds.seed)
            found[0, out] = _ridge(made[rows], target[rows], folds.ridge[k], made[out])
            found[1, out] = boosted.fit(x[rows], target[rows]).predict(x[out])
            found[2, out] = trees.fit(x[rows].astype(np.float32), target[rows]).predict(x[out].astype(np.float32))
    centre = float(target[outsiders].mean())
    shares, _ = nnls((found[:, outsiders] - centre).T, target[outsiders] - centre)
    return np.clip(centre + shares @ (found - centre), target[outsiders].min(), target[outsiders].max())


def _ridge(inside: FloatArray, target: FloatArray, relative: FloatArray, outside: FloatArray) -> FloatArray:
    """Predict by a ridge regression whose penalty is the best by generalised cross-validation (Golub et al. 1979)."""
    scale = 1 / np.sqrt(relative)
    scaled, mean = inside * scale, float(target.mean())
    centre = scaled.mean(axis=0)
    scaled -= centre
    energy, axes = linalg.eigh(scaled.T @ scaled)  # of the moments: a tenth of the time of the singular values
    energy = np.maximum(energy, 0.0)
    moment = axes.T @ (scaled.T @ (target - mean))
    total, best = float(((target - mean) ** 2).sum()), (np.inf, moment)
    for penalty in _RIDGES:
        slope = moment / (energy + penalty)
        residual = total - float(slope @ (2 * moment - energy * slope))
        freedom = float((energy / (energy + penalty)).sum()) + 1
        loss = residual / (1 - freedom / len(target)) ** 2
        if loss < best[0]:
            best = loss, slope
    return np.asarray(mean + (outside * scale - centre) @ (axes @ best[1]))


@dataclass(frozen=True, eq=False)
class Regressed:
    """The law of a non-member's score as far as regressions of it go: any mean, and no curve.

    Attributes
    ----------
    folds : the records
    score : array (n,)
    how : what to say about the model
    """

    folds: Folds
    score: FloatArray
    how: str = "ridge on a basis, boosting and trees, stacked"

    @property
    def n(self) -> int:
        """Number of records."""
        return len(self.score)

    @property
    def mean(self) -> FloatArray:
        """E[Y(0) | x] of each record (n,), in units of the score."""
        return regression(self.folds, self.score)

    def expected(self, function: Callable[[FloatArray], FloatArray]) -> FloatArray:
        """Return E[function(Y(0)) | x] of each record (n,), by a regression of its own."""
        return regression(self.folds, function(self.score))

    def exceedance(self, threshold: float) -> FloatArray:
        """Return P(Y(0) >= t | x) of each record (n,)."""
        return self.expected(lambda y: (y >= threshold).astype(np.float64))

    def weighted_exceedance(self, weight: ArrayLike, thresholds: ArrayLike) -> FloatArray:  # noqa: ARG002
        """Refuse: a curve would take a regression for each of its points."""
        raise InputError(
            "outcome",
            "LocationScale or a regressor for a curve or a threshold that is searched",
            "Regression",
            "use method='hajek' for it: an outcome model adds little to a curve",
        )

"""Classifiers of synthetic sets, all from one matrix of inner products, computed once for all trainings on the sets.

Support vector machines and neighbours need the matrix only; the principal components that the others need are learned
from the training sets' part of it.
"""

# ruff: noqa: PLC0415 - scikit-learn loads when used
from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np

from miaudit.arrays import BoolArray, Float32Array, FloatArray, IndexArray
from miaudit.errors import InputError
from miaudit.synthesis.retraining_attack.features import check_name

Classifier = Literal["kernel", "svc", "random forest", "knn", "logistic"]

CLASSIFIERS: tuple[Classifier, ...] = get_args(Classifier)

_COMPONENTS = 50  # principal components for the random forest and the logistic regression, at most
_TREES = 60
_NEIGHBOURS = 5
_RAW = 2_000  # columns up to which a random forest splits on the features themselves
_BLOCK = 2_048  # columns that are standardised at a time
_ODDS_LIMIT = 12.0


@dataclass(frozen=True, eq=False)
class InnerProducts:
    """What classifiers see of m sets.

    Attributes
    ----------
    gram : float64 (m, m), inner products of standardised features, divided by their number: the mean of its diagonal
        is about 1. Columns are centred and scaled without a look at any label; constant ones are left out
    raw : float32 (m, k) of the features themselves where they are few enough for a random forest, or None
    columns : number of features behind the matrix; 0 if all are constant
    """

    gram: FloatArray
    raw: Float32Array | None
    columns: int

    @classmethod
    def of(cls, values: Float32Array, scaled_by: IndexArray | None = None) -> InnerProducts:
        """Compute the inner products of the features (m, k) of sets; those at ``scaled_by`` alone scale, or all."""
        m = len(values)
        gram, used = np.zeros((m, m)), 0
        for start in range(0, values.shape[1], _BLOCK):
            part = values[:, start : start + _BLOCK]
            known = part if scaled_by is None else part[scaled_by]
            spread = known.std(axis=0)
            keep = spread > 1e-6 * np.maximum(np.abs(known).max(axis=0), 1e-6)
            scaled = (part[:, keep] - known[:, keep].mean(axis=0)) / spread[keep]
            gram += scaled @ scaled.T
            used += int(np.count_nonzero(keep))
        return cls(gram / max(used, 1), values if values.shape[1] <= _RAW else None, used)

    @classmethod
    def joined(cls, parts: Sequence[InnerProducts]) -> InnerProducts:
        """The matrix of all features of the parts together, without computing it again."""
        used = sum(part.columns for part in parts)
        gram = sum((part.gram * part.columns for part in parts), np.zeros_like(parts[0].gram)) / max(used, 1)
        raws = [part.raw for part in parts if part.raw is not None]
        small = len(raws) == len(parts) and sum(raw.shape[1] for raw in raws) <= _RAW
        return cls(gram, np.concatenate(raws, axis=1) if small else None, used)

    @property
    def squared_distances(self) -> FloatArray:
        """Squared distances (m, m) between sets."""
        own = np.diag(self.gram)
        return np.maximum(own[:, None] + own - 2 * self.gram, 0.0)


@dataclass(frozen=True, eq=False)
class Components:
    """Principal components of the training sets, and where both kinds of sets lie on them.

    Attributes
    ----------
    train, test : float64 (sets, components)
    """

    train: FloatArray
    test: FloatArray

    @classmethod
    def of(cls, products: InnerProducts, train: IndexArray, test: IndexArray, most: int = _COMPONENTS) -> Components:
        """Learn them from the training sets alone."""
        from scipy import linalg

        inner = products.gram[np.ix_(train, train)]
        across = products.gram[np.ix_(test, train)]
        row_means, mean = inner.mean(axis=0), inner.mean()
        centred = inner - row_means - row_means[:, None] + mean
        n = len(train)
        size = min(most, n - 1)
        value, vector = linalg.eigh(centred, subset_by_index=(n - size, n - 1))
        keep = value > 1e-10 * max(float(value[-1]), 1e-300)
        value, vector = value[keep][::-1], vector[:, keep][:, ::-1]
        root = np.sqrt(value)
        moved = across - across.mean(axis=1, keepdims=True) - row_means + mean
        return cls(vector * root, moved @ vector / np.maximum(root, 1e-300))


@dataclass(frozen=True, eq=False)
class Fold:
    """Which sets a classifier learns from and which it judges; what several classifiers and label vectors share.

    Parameters
    ----------
    products : the sets
    train, test : positions among them
    """

    products: InnerProducts
    train: IndexArray
    test: IndexArray
    components: Components

    @classmethod
    def of(cls, products: InnerProducts, train: IndexArray, test: IndexArray) -> Fold:
        """Learn the principal components of a fold."""
        return cls(products, train, test, Components.of(products, train, test))


def log_odds(fold: Fold, classifier: Classifier, member: BoolArray, *, rng: np.random.Generator) -> FloatArray:
    """Learn membership on the training sets of a fold, and judge its test sets.

    Parameters
    ----------
    fold : the sets
    classifier : name
        "kernel", a linear support vector machine; "svc", one with a Gaussian kernel of width 1 / number of features;
        "random forest"; "knn", five nearest neighbours; "logistic", an L2 logistic regression.
    member : array (m,) of bool, of all sets; only the values of training sets are read
    rng : for the random forest

    Returns
    -------
    array (test,)
        Higher is more member-like, and at least 0 is called a member: the decision function of a support vector
        machine, log odds of the others. Zero everywhere if no feature varies.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> member = np.arange(60) % 2 == 0
    >>> values = rng.normal(size=(60, 3)).astype(np.float32) + 3 * member[:, None].astype(np.float32)
    >>> fold = Fold.of(InnerProducts.of(values), np.arange(40), np.arange(40, 60))
    >>> [bool(((log_odds(fold, name, member, rng=rng) >= 0) == member[40:]).mean() > 0.9) for name in CLASSIFIERS]
    [True, True, True, True, True]
    """
    if check_name("classifier", classifier, CLASSIFIERS) and fold.products.columns == 0:
        return np.zeros(len(fold.test))
    y = member[fold.train]
    if y.all() or not y.any():
        raise InputError("member", "members and non-members to learn from", "one kind only", "train more models")
    if classifier == "knn":
        return _neighbours(fold, y)
    if classifier in ("kernel", "svc"):
        return _support_vectors(fold, y, gaussian=classifier == "svc")
    return _forest(fold, y, rng) if classifier == "random forest" else _logistic(fold, y)


def _support_vectors(fold: Fold, y: BoolArray, *, gaussian: bool) -> FloatArray:
    from sklearn.svm import SVC

    kernel = np.exp(-fold.products.squared_distances) if gaussian else fold.products.gram
    model = SVC(kernel="precomputed", C=1.0, cache_size=100)
    model.fit(kernel[np.ix_(fold.train, fold.train)], y)
    return np.asarray(model.decision_function(kernel[np.ix_(fold.test, fold.train)]), dtype=np.float64)


def _neighbours(fold: Fold, y: BoolArray) -> FloatArray:
    """Log odds from the five nearest training sets, with half a vote for either side."""
    k = min(_NEIGHBOURS, len(y))
    distances = fold.products.squared_distances[np.ix_(fold.test, fold.train)]
    nearest_rows = np.argpartition(distances, k - 1, axis=1)[:, :k]
    votes = y[nearest_rows].sum(axis=1)
    return np.asarray(np.log(votes + 0.5) - np.log(k - votes + 0.5))


def _forest(fold: Fold, y: BoolArray, rng: np.random.Generator) -> FloatArray:
    from sklearn.ensemble import RandomForestClassifier

    seed = int(rng.integers(2**31))
    model = RandomForestClassifier(_TREES, min_samples_leaf=2, random_state=seed, n_jobs=1)
    raw = fold.products.raw
    train, test = (fold.components.train, fold.components.test) if raw is None else (raw[fold.train], raw[fold.test])
    p = np.clip(model.fit(train, y).predict_proba(test)[:, 1], 1e-5, 1 - 1e-5)
    return np.asarray(np.log(p) - np.log1p(-p))


def _logistic(fold: Fold, y: BoolArray) -> FloatArray:
    from sklearn.linear_model import LogisticRegression

    model = LogisticRegression(C=1.0, max_iter=500)
    decision = model.fit(fold.components.train, y).decision_function(fold.components.test)
    return np.clip(np.asarray(decision, dtype=np.float64), -_ODDS_LIMIT, _ODDS_LIMIT)

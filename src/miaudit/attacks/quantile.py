"""Quantile regression: how unusual a statistic is among similar non-members (Bertran et al. 2023).

No shadow models: regressions learn, from non-members, the quantiles of the statistic given features, and a record far
above the quantiles of its like is taken for a member.
"""

# ruff: noqa: PLC0415 - scikit-learn loads when used
from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy import special
from threadpoolctl import threadpool_limits

from miaudit.arrays import FloatArray, IntArray
from miaudit.errors import InputError

__all__ = ["ConditionalQuantiles", "cross_fitted", "score"]

LEVELS = (0.5, 0.75, 0.9, 0.97)
# Fewer non-members above the highest quantile than this, and its regression follows single records.
_LEAST_ABOVE = 5
_SMALLEST_GAP = 1e-3  # between neighbouring quantiles, as a share of the spread of the statistic


@dataclass(frozen=True, eq=False)
class ConditionalQuantiles:
    """Regressions of the quantiles of a statistic among non-members.

    Attributes
    ----------
    models : one fitted regressor for each level
    levels : increasing, in (0, 1)
    smallest_gap : least distance between neighbouring quantiles, in units of the statistic
    """

    models: tuple[Any, ...]
    levels: tuple[float, ...]
    smallest_gap: float

    @classmethod
    def fit(
        cls,
        statistic: ArrayLike,
        features: ArrayLike,
        *,
        levels: tuple[float, ...] = LEVELS,
        regressor: Callable[[float], Any] | None = None,
        rng: np.random.Generator,
    ) -> ConditionalQuantiles:
        """Fit to the statistics of non-members.

        Parameters
        ----------
        statistic : array (m,) of non-members, higher for members
        features : array (m, d), what is known of a record without its membership; NaN is a value of its own
        levels : increasing, two or more, in (0, 1)
        regressor : from a level to a scikit-learn regressor of that quantile; by default gradient boosting
        rng : generator of the regressors' seeds

        Raises
        ------
        InputError
            For fewer than five non-members above the highest level, NaN or infinite statistics, shapes that disagree.
        """
        if len(levels) < 2 or not all(0 < q < 1 for q in levels) or (np.diff(levels) <= 0).any():
            allowed = "two or more increasing numbers in (0, 1)"
            raise InputError("levels", allowed, repr(levels), f"{LEVELS} is the default")
        y = _statistic(statistic, "reference")
        x = _features(features, "reference_features", len(y))
        needed = int(np.ceil(_LEAST_ABOVE / (1 - levels[-1]) - 1e-9))
        if len(y) < needed:
            allowed = f"{needed} non-members or more for a quantile of {levels[-1]:g}"
            raise InputError("reference", allowed, f"{len(y)}", "pass more non-members, or lower levels")
        seeds = rng.integers(0, 2**31, len(levels))
        build = regressor or _boosting
        with threadpool_limits(1):  # threads of boosting that wait for each other on busy cores cost ten times as much
            models = tuple(_seeded(build(q), int(seed)).fit(x, y) for q, seed in zip(levels, seeds, strict=True))
        spread = float(np.subtract(*np.quantile(y, [0.9, 0.1]))) or float(np.std(y)) or 1.0
        return cls(models, tuple(levels), _SMALLEST_GAP * spread)

    def score(self, statistic: ArrayLike, features: ArrayLike) -> FloatArray:
        """Return each statistic's place among quantiles of similar non-members, as a normal score (n,).

        At the quantile of level q the score is exactly Phi^-1(q), so that a threshold of Phi^-1(1 - alpha) is the
        paper's test at FPR alpha; in between and outside it is linear in the statistic, and so without ties.
        """
        y = _statistic(statistic, "target")
        x = _features(features, "features", len(y))
        # Regressions of different levels may cross: sorting them makes each closer to its quantile.
        with threadpool_limits(1):
            knots = np.sort(np.stack([np.asarray(m.predict(x), dtype=np.float64) for m in self.models]), axis=0)
        for k in range(1, len(knots)):
            knots[k] = np.maximum(knots[k], knots[k - 1] + self.smallest_gap)
        z = special.ndtri(np.asarray(self.levels))
        slope = np.diff(z)[:, None] / np.diff(knots, axis=0)
        overall = (z[-1] - z[0]) / (knots[-1] - knots[0])
        result = z[0] + np.minimum(y - knots[0], 0.0) * overall + np.maximum(y - knots[-1], 0.0) * overall
        for k in range(len(slope)):
            result += slope[k] * np.clip(y - knots[k], 0.0, knots[k + 1] - knots[k])
        return np.asarray(result)


def score(
    target: ArrayLike,
    features: ArrayLike,
    reference: ArrayLike,
    reference_features: ArrayLike,
    *,
    levels: tuple[float, ...] = LEVELS,
    regressor: Callable[[float], Any] | None = None,
    rng: np.random.Generator,
) -> FloatArray:
    """Score records by quantiles learned from other non-members.

    Parameters
    ----------
    target : array (n,), the target model's statistic of each record, higher for members
    features : array (n, d), what is known of a record without its membership
    reference : array (m,), the same statistic of other records, none of them a member
    reference_features : array (m, d)
    levels, regressor, rng : as in :meth:`ConditionalQuantiles.fit`

    Returns
    -------
    array (n,), any real, higher is more member-like: standard-normal scores of a non-member, if the quantiles are right

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> x = rng.normal(size=(1200, 1))
    >>> member = np.arange(1200) < 300
    >>> statistic = 4 * x[:, 0] + rng.normal(size=1200) + 3 * member
    >>> found = score(statistic[:600], x[:600], statistic[600:], x[600:], rng=rng)
    >>> bool(np.median(found[:300]) > 1.5), bool(abs(np.median(found[300:])) < 0.5)
    (True, True)
    """
    fitted = ConditionalQuantiles.fit(reference, reference_features, levels=levels, regressor=regressor, rng=rng)
    return fitted.score(target, features)


def cross_fitted(
    target: ArrayLike,
    features: ArrayLike,
    member: ArrayLike,
    *,
    folds: int = 5,
    unit_codes: IntArray | None = None,
    levels: tuple[float, ...] = LEVELS,
    regressor: Callable[[float], Any] | None = None,
    rng: np.random.Generator,
) -> FloatArray:
    """Score known members and non-members, each by quantiles of non-members of the other folds.

    Members are dealt into the folds as well: were they scored by quantiles of all non-members, and non-members by those
    of fewer, the two would differ without any leakage.

    Parameters
    ----------
    target : array (n,)
    features : array (n, d)
    member : array (n,) of bool
    folds : int, 2 to 50
    unit_codes : array (n,) of int from 0, optional; records of one unit stay in one fold
    levels, regressor, rng : as in :meth:`ConditionalQuantiles.fit`

    Returns
    -------
    array (n,), as in :func:`score`

    Raises
    ------
    InputError
        As :meth:`ConditionalQuantiles.fit`, whose smallest number of non-members holds for every training part.

    Examples
    --------
    >>> rng = np.random.default_rng(1)
    >>> x, member = rng.normal(size=(1000, 1)), np.arange(1000) < 500
    >>> found = cross_fitted(4 * x[:, 0] + rng.normal(size=1000) + 3 * member, x, member, folds=2, rng=rng)
    >>> bool(np.median(found[member]) > np.median(found[~member]) + 1)
    True
    """
    y = _statistic(target, "target")
    x, inside = _features(features, "features", len(y)), np.asarray(member)
    if inside.dtype.kind != "b" or inside.shape != y.shape:
        raise InputError.of_array("member", f"True or False of shape {y.shape}", inside, "pass one")
    if not 2 <= folds <= 50:
        raise InputError("folds", "2 to 50", str(folds), "5 is the default")
    codes = np.arange(len(y)) if unit_codes is None else np.asarray(unit_codes)
    fold = (rng.permutation(int(codes.max()) + 1) % folds)[codes]
    scores = np.empty(len(y))
    for k, child in enumerate(rng.spawn(folds)):
        held = fold == k
        if not held.any():
            continue
        rest = ~held & ~inside
        fitted = ConditionalQuantiles.fit(y[rest], x[rest], levels=levels, regressor=regressor, rng=child)
        scores[held] = fitted.score(y[held], x[held])
    return scores


def _boosting(level: float) -> Any:
    """Return a small gradient-boosting regressor of a quantile; quantiles near 1 rest on few records."""
    from sklearn.ensemble import HistGradientBoostingRegressor

    return HistGradientBoostingRegressor(
        loss="quantile",
        quantile=level,
        max_iter=80,
        learning_rate=0.1,
        max_leaf_nodes=8,
        min_samples_leaf=20,
        early_stopping=False,
    )


def _seeded(model: Any, seed: int) -> Any:
    return model.set_params(random_state=seed) if "random_state" in model.get_params() else model


def _statistic(values: ArrayLike, name: str) -> FloatArray:
    array = np.asarray(values)
    if array.dtype.kind not in "iuf" or array.ndim != 1 or not array.size:
        raise InputError.of_array(name, "numbers of shape (n,)", array, "pass one column")
    result = array.astype(np.float64)
    bad = ~(np.abs(result) <= 1e150)
    if bad.any():
        row = int(np.argmax(bad))
        raise InputError(name, "finite numbers", f"NaN, infinity or larger than 1e150, first in row {row}", "repair it")
    return result


def _features(values: ArrayLike, name: str, n: int) -> FloatArray:
    array = np.asarray(values)
    if array.ndim == 1:
        array = array[:, None]
    if array.dtype.kind not in "biuf" or array.ndim != 2 or len(array) != n or not array.shape[1]:
        allowed = f"numbers of shape ({n}, d), a row for each record"
        raise InputError.of_array(name, allowed, array, "code categories as numbers")
    result = array.astype(np.float64)
    if np.isinf(result).any():
        raise InputError(name, "finite numbers or NaN", "infinity", "repair these rows")
    return result

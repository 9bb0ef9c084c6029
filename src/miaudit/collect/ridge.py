"""Ridge regression as a target with a closed form: one more training record is a rank-one update, not a new fit."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy import linalg

from miaudit.arrays import FloatArray
from miaudit.collect import runs
from miaudit.errors import InputError
from miaudit.evidence import Evidence
from miaudit.models.inclusion import coins


@dataclass(frozen=True, eq=False, repr=False)
class Ridge:
    """The minimiser w of ||y - A w||^2 + penalty ||w||^2, factorised once; make it with :meth:`fit`.

    The smaller system is factorised: n x n (dual) where there are fewer records than columns, else d x d.

    Attributes
    ----------
    features : array (n, d), A
    penalty : positive
    coefficients : array (d,), w
    factor : array (k, k), k = min(n, d)
        Lower Cholesky factor of A A' + penalty I (dual) or of A' A + penalty I (primal).

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> a, y = rng.normal(size=(30, 50)), rng.normal(size=30)
    >>> model = Ridge.fit(a[1:], y[1:], penalty=2.0)
    >>> without, included = model.residual(a[:1], y[:1]), model.residual_included(a[:1], y[:1])
    >>> refit = Ridge.fit(a, y, penalty=2.0)
    >>> bool(np.allclose(included, refit.residual(a[:1], y[:1]))), bool(abs(included[0]) < abs(without[0]))
    (True, True)
    """

    features: FloatArray
    penalty: float
    coefficients: FloatArray
    factor: FloatArray

    @classmethod
    def fit(cls, features: ArrayLike, targets: ArrayLike, *, penalty: float) -> Ridge:
        """Fit; O(n d min(n, d)) time.

        Parameters
        ----------
        features : array (n, d), finite; there is no intercept
        targets : array (n,), finite
        penalty : positive number
            On the **sum** of squared errors, not on their mean (causal-mia G.1; errata A6).

        Raises
        ------
        InputError
            For shapes that do not match, numbers that are not finite, or a penalty that is not positive.
        """
        a = _matrix(features, "features")
        y = _vector(targets, "targets", len(a))
        if not (math.isfinite(penalty) and penalty > 0):
            raise InputError("penalty", "a positive number", str(penalty), "without a penalty there is no closed form")
        dual = len(a) < a.shape[1]
        system = a @ a.T if dual else a.T @ a
        system[np.diag_indices_from(system)] += penalty
        factor = linalg.cholesky(system, lower=True, overwrite_a=True, check_finite=False)
        right = y if dual else a.T @ y
        solved = linalg.cho_solve((factor, True), right, check_finite=False)
        return cls(a, float(penalty), a.T @ solved if dual else solved, factor)

    @property
    def is_dual(self) -> bool:
        """Whether the n x n system was factorised, because there are fewer records than columns."""
        return bool(len(self.features) < self.features.shape[1])

    def predict(self, features: ArrayLike) -> FloatArray:
        """Predictions (m,) at features (m, d)."""
        x = self._rows(features)
        return np.asarray(x @ self.coefficients)

    def residual(self, features: ArrayLike, targets: ArrayLike) -> FloatArray:
        """Target less prediction (m,), of the model as fitted."""
        x = self._rows(features)
        return np.asarray(_vector(targets, "targets", len(x)) - x @ self.coefficients)

    def leverage(self, features: ArrayLike) -> FloatArray:
        """Leverage x' (A' A + penalty I)^-1 x of records outside the fit (m,), at least 0."""
        x = self._rows(features)
        if not self.is_dual:
            return _squared_columns(linalg.solve_triangular(self.factor, x.T, lower=True, check_finite=False))
        inside = linalg.solve_triangular(self.factor, self.features @ x.T, lower=True, check_finite=False)
        outside = np.einsum("ij,ij->i", x, x) - _squared_columns(inside)
        return np.asarray(np.maximum(outside, 0.0) / self.penalty)

    def residual_included(self, features: ArrayLike, targets: ArrayLike) -> FloatArray:
        """Residual (m,) of each record under the model fitted on all records **and that one**.

        By the Sherman-Morrison formula it is the residual without it, divided by one plus the leverage: inclusion can
        only shrink it, which is what a membership attack sees.
        """
        return self.residual(features, targets) / (1.0 + self.leverage(features))

    def predict_including(self, features: ArrayLike, targets: ArrayLike, at: ArrayLike) -> FloatArray:
        """Predictions (m, k) at k points of the m models that are each fitted on all records and one more.

        Parameters
        ----------
        features : array (m, d); targets : array (m,)
            The records that are added, one to each model.
        at : array (k, d)
            Where the models predict.

        Examples
        --------
        >>> rng = np.random.default_rng(0)
        >>> a, y = rng.normal(size=(30, 4)), rng.normal(size=30)
        >>> after = Ridge.fit(a[2:], y[2:], penalty=1.0).predict_including(a[:2], y[:2], at=a[5:8])
        >>> kept = np.arange(30) != 1  # the first of the two was added
        >>> bool(np.allclose(after[0], Ridge.fit(a[kept], y[kept], penalty=1.0).predict(a[5:8])))
        True
        """
        x, z = self._rows(features), self._rows(at)
        step = self.residual(x, targets) / (1.0 + self.leverage(x))
        return np.asarray((z @ self.coefficients)[None, :] + step[:, None] * (self._solve(x) @ z.T))

    def _solve(self, x: FloatArray) -> FloatArray:
        """Rows of X (A' A + penalty I)^-1 (m, d)."""
        if not self.is_dual:
            return np.asarray(linalg.cho_solve((self.factor, True), x.T, check_finite=False).T)
        inside = linalg.cho_solve((self.factor, True), self.features @ x.T, check_finite=False)
        return (x - inside.T @ self.features) / self.penalty

    def _rows(self, features: ArrayLike) -> FloatArray:
        x = _matrix(features, "features")
        if x.shape[1] != self.features.shape[1]:
            raise InputError(
                "features", f"{self.features.shape[1]} columns, as in the fit", str(x.shape[1]), "pass the same columns"
            )
        return x


def multi_run(
    features: ArrayLike,
    targets: ArrayLike,
    *,
    records: int | ArrayLike,
    base: ArrayLike,
    penalty: float,
    rng: np.random.Generator,
    inclusion: float = 0.5,
    source: str = "",
) -> Evidence:
    """Multi-run evidence (causal-mia, Algorithm 1) against ridge regression, from one fit instead of one a record.

    Equal, up to rounding, to :func:`miaudit.collect.runs.multi_run` with a function that refits: with an equal ``rng``
    the memberships are drawn first and alike.

    Parameters
    ----------
    features : array (N, d); targets : array (N,)
        The rows that ``records`` and ``base`` point to.
    penalty : positive number, see :meth:`Ridge.fit`
    records, base, rng, inclusion : as in :func:`miaudit.collect.runs.multi_run`; ``base`` is needed

    Returns
    -------
    Evidence with the design "multi-run" and the score -residual^2 / 2: the half squared error, negated, so that higher
    is more member-like (errata A5, A6).

    Raises
    ------
    InputError
        For rows that are not there or in both sets, shapes that do not match, or draws of one class only.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> a, y = rng.normal(size=(300, 150)), rng.normal(size=300)
    >>> evidence = multi_run(a, y, records=200, base=np.arange(200, 300), penalty=10.0, rng=rng)
    >>> evidence.design, bool(evidence.score[evidence.member].mean() > evidence.score[~evidence.member].mean())
    ('multi-run', True)
    """
    x = _matrix(features, "features")
    y = _vector(targets, "targets", len(x))
    evaluated = runs.row_indices(records, "records", len(x))
    fixed = runs.base_indices(base, evaluated, len(x))
    member = coins(len(evaluated), inclusion=inclusion, rng=rng)
    model = Ridge.fit(x[fixed], y[fixed], penalty=penalty)
    residual = model.residual(x[evaluated], y[evaluated])
    inside = evaluated[member]
    residual[member] = model.residual_included(x[inside], y[inside])
    return Evidence(score=-(residual**2) / 2, member=member, design="multi-run", source=source)


def _squared_columns(values: FloatArray) -> FloatArray:
    return np.asarray(np.einsum("ij,ij->j", values, values))


def _matrix(values: ArrayLike, name: str) -> FloatArray:
    array = np.asarray(values, dtype=np.float64)
    if array.ndim != 2 or not array.size:
        raise InputError(
            name, "a two-dimensional array (records, columns)", f"shape {array.shape}", "pass one row each"
        )
    _finite(array, name)
    return array


def _vector(values: ArrayLike, name: str, n: int) -> FloatArray:
    array = np.asarray(values, dtype=np.float64)
    if array.shape != (n,):
        raise InputError(name, f"one number for each of {n} records", f"shape {array.shape}", "pass one value each")
    _finite(array, name)
    return array


def _finite(array: FloatArray, name: str) -> None:
    if not np.isfinite(array).all():
        raise InputError(name, "finite numbers", "NaN or infinity", "drop or repair these records")

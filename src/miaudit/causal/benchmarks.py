"""What each covariate would change if it had not been measured: the yardstick of a sensitivity analysis.

Nobody knows how strong an unmeasured trait is. So it is compared with the traits that were measured (Cinelli and
Hazlett 2020). Without a covariate the log-odds of membership are projected on functions of the others. This is one step
of the fit without it, from the log-odds as they are, and costs one decomposition for all covariates.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from miaudit.arrays import FloatArray
from miaudit.causal.logistic import expit, with_ones

__all__ = ["Benchmark", "without_each"]

SHARE = 0.9  # of the records, whose odds change by at most the factor that is reported
_RIDGE = 1.0


@dataclass(frozen=True, eq=False)
class Benchmark:
    """The odds of membership without one covariate.

    Attributes
    ----------
    column : its position
    factor : by which leaving it out changes the odds of nine records in ten at most, 1 or more
    logit : array (n,), the log-odds without it
    """

    column: int
    factor: float
    logit: FloatArray


def without_each(
    logit: FloatArray, features: FloatArray, relative: FloatArray, sources: Sequence[frozenset[int]]
) -> Iterator[Benchmark]:
    """Yield the log-odds without each covariate, in the order of their columns.

    Parameters
    ----------
    logit : array (n,), log-odds of membership with all covariates
    features : array (n, p), functions of the covariates
    relative : array (p,), their penalties relative to each other
    sources : p sets, the columns that each function is of

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> x = rng.normal(size=(4000, 2))
    >>> own = [frozenset([0]), frozenset([1])]
    >>> without = without_each(1.5 * x[:, 0] + 0.1 * x[:, 1], x, np.ones(2), own)
    >>> [round(one.factor, 1) for one in without]
    [12.2, 1.2]
    """
    from scipy import linalg  # noqa: PLC0415 - loads when used

    x = with_ones(features)
    p = expit(logit)
    weight = p * (1 - p)
    curvature = (x * weight[:, None]).T @ x
    curvature[np.diag_indices_from(curvature)] += np.r_[0.0, _RIDGE * relative] + 1e-9 * len(logit)
    inverse = linalg.inv(curvature, check_finite=False)
    beta = inverse @ (x.T @ (weight * logit))
    for column in sorted(frozenset().union(*sources)):
        left_out = 1 + np.flatnonzero([column in source for source in sources])
        # The least squares with these coefficients at 0 (Lagrange): the others take over what they can.
        own = inverse[np.ix_(left_out, left_out)]
        moved = x @ (inverse[:, left_out] @ linalg.solve(own, beta[left_out], assume_a="pos"))
        factor = float(np.exp(np.quantile(np.abs(moved), SHARE)))
        yield Benchmark(column, factor, logit - moved)

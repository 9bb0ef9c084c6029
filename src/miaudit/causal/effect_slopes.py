"""The best linear predictor of a membership effect: how it changes with each covariate, the others kept equal.

The effect is one on a fixed outcome of each record, and the line is that of members. With memberships that chance
decided, or with weights w = pi / (1 - pi), it is the difference of two least-squares lines: of the members' outcomes,
and of the weighted non-members' (Semenova and Chernozhukov 2021, with residuals from an outcome model in the place of
outcomes; either weights or outcome model may be wrong).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import special

from miaudit.arrays import BoolArray, FloatArray, IntArray
from miaudit.causal.basis import normal_scores
from miaudit.causal.record_kinds import Covariates, LevelName

__all__ = ["Features", "Slope", "slopes"]

MOST_FEATURES = 30
_FEWEST_OF_A_LEVEL = 30  # records of a class; rarer levels are pooled
_DRAWS = 4000  # of the largest of several standardised errors
_ALIKE = 1e-6  # share of a feature's variance that the features before it have to leave


@dataclass(frozen=True)
class Slope:
    """How much an effect changes with one covariate, the others kept equal; ``step`` says what the change is for.

    ``low`` and ``high`` hold for all slopes together.
    """

    step: str
    value: float
    low: float
    high: float
    standard_error: float


@dataclass(frozen=True, eq=False)
class Features:
    """Columns (n, p) of which an effect is a line, and what one step of each is."""

    values: FloatArray
    steps: tuple[str, ...]

    @classmethod
    def of(cls, covariates: Covariates, member: BoolArray, level_name: LevelName) -> Features:
        """Take normal scores of the ranks of amounts, and indicators of levels beside the most frequent one."""
        columns: list[NDArray[Any]] = []
        steps: list[str] = []
        for index, name in enumerate(covariates.names):
            values = covariates.values[:, index]
            levels = np.unique(values)
            if len(levels) > 2 and index not in covariates.categories:
                columns.append(normal_scores(values[:, None])[:, 0])
                steps.append(f"{name}: from its median to its 84th percentile")
            elif len(levels) > 1:
                indicators = _indicators(values, member)
                base = level_name(name, indicators[0])
                columns += [column for _, column in indicators[1]]
                steps += [f"{name}: {_level(name, level, level_name)} in place of {base}" for level, _ in indicators[1]]
        chosen = _independent(columns)
        values = np.column_stack([columns[i] for i in chosen]) if chosen else np.empty((len(member), 0))
        return cls(values.astype(np.float64), tuple(steps[i] for i in chosen))


def slopes(
    features: Features,
    outcome: FloatArray,
    member: BoolArray,
    weight: FloatArray,
    unit_codes: IntArray | None,
    *,
    confidence: float,
    rng: np.random.Generator,
) -> tuple[Slope, ...]:
    """Estimate the best linear predictor of the effect, with limits that hold for all slopes together.

    Parameters
    ----------
    features : (n, p)
    outcome : array (n,), the outcome of each record less what is expected of one like it without membership
    member : array (n,)
    weight : array (n,), of non-members; 1 where chance decided about all alike
    unit_codes : array (n,), whose records may depend on each other; None where none do
    confidence : of all limits together, in (0, 1)
    rng : draws the largest standardised error: a multiplier bootstrap with normal multipliers of the influence values

    Returns
    -------
    tuple of Slope, in units of the outcome for one step

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> x, member = rng.normal(size=4000), rng.random(4000) < 0.5
    >>> features = Features.of(Covariates(x[:, None], ("age",)), member, lambda name, level: str(level))
    >>> outcome = rng.normal(size=4000) + (1 + 0.5 * x) * member
    >>> line = slopes(features, outcome, member, np.ones(4000), None, confidence=0.95, rng=rng)
    >>> line[0].step, 0.3 < line[0].low < line[0].high < 0.7
    ('age: from its median to its 84th percentile', True)
    """
    p = features.values.shape[1]
    if not p:
        return ()
    x = np.column_stack([np.ones(len(member)), features.values])
    members, inside = _line(x[member], outcome[member], np.ones(int(member.sum())))
    others, outside = _line(x[~member], outcome[~member], weight[~member])
    influence = np.zeros((len(member), p + 1))
    influence[member], influence[~member] = inside, -outside
    if unit_codes is not None:
        total = np.zeros((int(unit_codes.max()) + 1, p + 1))
        np.add.at(total, unit_codes, influence)
        influence = total
    value, covariance = (members - others)[1:], (influence.T @ influence)[1:, 1:]
    error = np.sqrt(np.diag(covariance))
    times = largest_error(covariance / np.outer(error, error), confidence, rng=rng)
    return tuple(
        Slope(step, float(v), float(v - times * e), float(v + times * e), float(e))
        for step, v, e in zip(features.steps, value, error, strict=True)
    )


def largest_error(correlation: FloatArray, confidence: float, *, rng: np.random.Generator) -> float:
    """Return how many standard errors all of several correlated normal errors (p, p) keep to, with this probability.

    Examples
    --------
    >>> round(largest_error(np.eye(1), 0.95, rng=np.random.default_rng(0)), 1)
    2.0
    """
    root = np.linalg.cholesky(correlation + 1e-9 * np.eye(len(correlation)))
    largest = np.abs(rng.normal(size=(_DRAWS, len(correlation))) @ root.T).max(axis=1)
    return max(float(np.quantile(largest, confidence)), float(special.ndtri((1 + confidence) / 2)))


def _line(x: FloatArray, y: FloatArray, weight: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return weighted least squares (p,) and its influence values (n, p), with residuals as if left out (HC3)."""
    weighted = x * weight[:, None]
    inverse = np.linalg.inv(weighted.T @ x)
    line = inverse @ (weighted.T @ y)
    pull = np.minimum(np.einsum("ij,jk,ik->i", weighted, inverse, x), 0.9)  # one heavy record may determine its own fit
    return line, ((y - x @ line) / (1 - pull))[:, None] * (weighted @ inverse)


def _indicators(values: FloatArray, member: BoolArray) -> tuple[float, list[tuple[float | None, NDArray[Any]]]]:
    """Return the most frequent level, and an indicator of each other one; rare ones share that of None."""
    levels, place, counts = np.unique(values, return_inverse=True, return_counts=True)
    base = int(np.argmax(counts))
    sizes = np.minimum(*(np.bincount(place[rows], minlength=len(levels)) for rows in (member, ~member)))
    common = [k for k in range(len(levels)) if k != base and sizes[k] >= _FEWEST_OF_A_LEVEL]
    rare = np.isin(place, [k for k in range(len(levels)) if k != base and k not in common])
    each: list[tuple[float | None, NDArray[Any]]] = [(float(levels[k]), place == k) for k in common]
    enough = min(np.count_nonzero(rare & member), np.count_nonzero(rare & ~member)) >= _FEWEST_OF_A_LEVEL
    return float(levels[base]), [*each, (None, rare)] if enough else each


def _level(name: str, level: float | None, level_name: Callable[[str, float], str]) -> str:
    return "another level" if level is None else level_name(name, level)


def _independent(columns: list[NDArray[Any]]) -> list[int]:
    """Return the columns that those before them do not determine."""
    left: list[int] = []
    basis = [np.ones(len(columns[0]))] if columns else []
    for index, column in enumerate(columns):
        values = np.asarray(column, dtype=np.float64)
        span = np.column_stack(basis)
        rest = values - span @ np.linalg.lstsq(span, values, rcond=None)[0]
        if float(rest @ rest) > _ALIKE * float(((values - values.mean()) ** 2).sum()) > 0:
            left.append(index)
            basis.append(values)
    return left

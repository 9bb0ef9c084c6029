"""RMIA: likelihood ratios against those of population records (Zarifzadeh, Liu and Shokri, 2024).

All inputs are log-probabilities of the true class, at most 0: the negative of the loss. Logarithms keep the digits of
probabilities that round to 1, which a ratio of probabilities loses.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from miaudit.arrays import BoolArray, FloatArray
from miaudit.errors import InputError

__all__ = ["Tuned", "offline", "online", "tune"]

GAMMA = 2.0
GRID = tuple(round(0.1 * step, 1) for step in range(11))
_BLOCK = 2**16


def online(
    target: ArrayLike,
    shadow: ArrayLike,
    included: ArrayLike,
    population: ArrayLike,
    population_shadow: ArrayLike,
    *,
    gamma: float = GAMMA,
) -> FloatArray:
    """Return the share of the population that each record dominates; p(x) from models with and without it.

    x dominates z where [p(x | target) / p(x)] / [p(z | target) / p(z)] >= gamma (the paper's LR and score), with
    p(x) = (p_in + p_out) / 2, the mean probabilities of the reference models on each side.

    Parameters
    ----------
    target : array (n,), log-probability of the true class under the target model, at most 0
    shadow : array (n, M) or memory map, the same under M reference models
    included : array (n, M) of bool, whether model j was trained on record i; one model on each side of each record
    population : array (m,), log-probabilities of population records that the target model did not learn
    population_shadow : array (m, M), the same under the reference models, none of which learned them
    gamma : 1 or more; the paper's default is 2

    Returns
    -------
    array (n,) in (0, 1); higher is more member-like
        (dominated records + position in the gap to the next one) / (m + 1): the printed share, without its ties.
        The ratio of z does not depend on x, so within one target model the score is a rising function of x's own ratio,
        and gamma and the population set its scale, not the order of the records.

    Raises
    ------
    InputError
        For log-probabilities above 0, NaN or infinite, shapes that disagree, records without a model on a side.

    Examples
    --------
    >>> included = np.array([[True, False], [True, False]])
    >>> shadow = np.log([[0.9, 0.3], [0.9, 0.3]])
    >>> population, population_shadow = np.log([0.5, 0.4]), np.log([[0.5, 0.5], [0.5, 0.5]])
    >>> online(np.log([0.9, 0.3]), shadow, included, population, population_shadow, gamma=1).round(2).tolist()
    [0.76, 0.23]
    """
    _check_gamma(gamma)
    x, z, log_in, log_out, log_z = _references(target, shadow, included, population, population_shadow)
    _require_models(log_in, "learned it")
    _require_models(log_out, "did not learn it")
    return _dominated(x - (np.logaddexp(log_in, log_out) - math.log(2)), z - log_z, gamma)


def offline(
    target: ArrayLike,
    shadow: ArrayLike,
    included: ArrayLike | None,
    population: ArrayLike,
    population_shadow: ArrayLike,
    *,
    a: float | None = None,
    gamma: float = GAMMA,
) -> FloatArray:
    """Return RMIA from models without the record: p(x) = ((1 + a) p_out(x) + 1 - a) / 2 (Appendix B.2).

    Parameters
    ----------
    target, shadow, population, population_shadow, gamma : as in :func:`online`
    included : array (n, M) of bool, or None where no reference model learned any record
    a : in [0, 1], how p_in is extrapolated from p_out; by default by :func:`tune`, which sees reference models only

    Returns
    -------
    array (n,) in (0, 1), as in :func:`online`; higher is more member-like

    Raises
    ------
    InputError
        As :func:`online`; each record needs one model that did not learn it.

    Examples
    --------
    >>> shadow = np.log([[0.3], [0.3]])
    >>> offline(np.log([0.9, 0.2]), shadow, None, np.log([0.5]), np.log([[0.5]]), a=0.3).round(2).tolist()
    [0.55, 0.21]
    """
    _check_gamma(gamma)
    x, z, _, log_out, log_z = _references(target, shadow, included, population, population_shadow)
    _require_models(log_out, "did not learn it")
    share = tune(shadow, included).a if a is None else a
    _check_a(share)
    return _dominated(x - _offline_log_p(log_out, share), z - _offline_log_p(log_z, share), gamma)


@dataclass(frozen=True)
class Tuned:
    """The value of ``a`` with the best attack on the reference models.

    Attributes
    ----------
    a : the chosen value
    auc : mean AUC over the reference models, for each value of ``grid``
    grid : the values tried
    models : number of reference models that stood in for the target
    """

    a: float
    auc: tuple[float, ...]
    grid: tuple[float, ...]
    models: int


def tune(shadow: ArrayLike, included: ArrayLike | None, *, grid: tuple[float, ...] = GRID) -> Tuned:
    """Choose ``a`` of offline RMIA with each reference model as the target in turn; the target is not used.

    A model's own records are its members, and the other models that left a record out give its p_out. The value with
    the largest mean AUC wins, the smaller one at a tie. Gamma is not tuned: it leaves the order of records as it is.

    Parameters
    ----------
    shadow : array (n, M) of log-probabilities, at most 0
    included : array (n, M) of bool
    grid : values of ``a`` in [0, 1]

    Raises
    ------
    InputError
        If no reference model has both members and non-members whose p_out the others know: then pass ``a``.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> included = rng.random((400, 8)) < 0.5
    >>> hard = rng.gamma(1.0, 1.0, 400)[:, None]
    >>> log_p = -hard * np.where(included, 0.2, 1.0) * rng.gamma(4.0, 0.25, (400, 8))
    >>> tune(log_p, included).models
    8
    """
    for a in grid:
        _check_a(a)
    log_p = _log_probabilities(shadow, "shadow", 2)
    inside = _inclusion(included, log_p.shape)
    if not grid:
        raise InputError("grid", "one value or more", "none", "leave it out")
    distance = np.expm1(log_p)  # p - 1, exact near 1
    count = inside.shape[1] - inside.sum(axis=1)
    total = np.sum(distance, axis=1, where=~inside)
    aucs = []
    for j in range(log_p.shape[1]):
        left_out = ~inside[:, j]
        known = count - left_out > 0
        member = inside[known, j]
        if member.all() or not member.any():
            continue
        mean = (total - distance[:, j] * left_out)[known] / (count - left_out)[known]
        mean = np.clip(mean, -1.0, 0.0)  # a difference of sums may round to just above 0
        own = log_p[known, j]
        sides = [(own[side], mean[side]) for side in (member, ~member)]
        aucs.append([_auc(*(x - _log_from_distance(out, a) for x, out in sides)) for a in grid])
    if not aucs:
        allowed = "reference models with members and non-members among these records, to tune it on"
        raise InputError("a", allowed, "none", "pass a, for example 0.3")
    mean_auc = np.mean(aucs, axis=0)
    return Tuned(grid[int(np.argmax(mean_auc))], tuple(float(v) for v in mean_auc), tuple(grid), len(aucs))


def _references(
    target: ArrayLike,
    shadow: ArrayLike,
    included: ArrayLike | None,
    population: ArrayLike,
    population_shadow: ArrayLike,
) -> tuple[FloatArray, ...]:
    """Return target (n,) and population (m,), and the log mean probabilities of the reference models.

    These are of the models with each record and without it (n,), NaN where there are none, and of the population (m,).
    """
    x, others = _log_probabilities(target, "target", 1), _rows_for(shadow, "shadow", len(np.asarray(target)))
    z = _log_probabilities(population, "population", 1)
    others_z = _rows_for(population_shadow, "population_shadow", len(z))
    log_in, log_out = _log_means(others, _inclusion(included, others.shape), "shadow")
    nobody = np.broadcast_to(np.False_, others_z.shape)
    return x, z, log_in, log_out, _log_means(others_z, nobody, "population_shadow")[1]


def _require_models(log_p: FloatArray, what: str) -> None:
    missing = np.isnan(log_p)
    if missing.any():
        received = f"none for record {int(np.argmax(missing))}"
        hint = "draw the inclusion so that each record is in half of the models"
        raise InputError("included", f"for each record a reference model that {what}", received, hint)


def _log_means(log_p: NDArray[np.generic], included: BoolArray, name: str) -> tuple[FloatArray, FloatArray]:
    """Return log mean probabilities (n,) over the models of each side, in blocks; NaN without models."""
    n, models = log_p.shape
    sides = np.full((2, n), np.nan)
    size = max(1, _BLOCK // models)
    for start in range(0, n, size):
        rows = slice(start, min(n, start + size))
        block = _log_probabilities(np.asarray(log_p[rows], dtype=np.float64), name, 2, first=start)
        inside = np.ascontiguousarray(included[rows])
        for side, taken in enumerate((inside, ~inside)):
            count = taken.sum(axis=1)
            largest = np.where(taken, block, -np.inf).max(axis=1)
            # Relative to the largest, neither tiny probabilities nor differences from 1 are lost.
            base = np.where(count > 0, largest, 0.0)
            below = np.expm1(np.minimum(block - base[:, None], 0.0))
            mean = np.einsum("ij,ij->i", below, taken.astype(np.float64)) / np.maximum(count, 1)
            sides[side, rows] = np.where(count > 0, base + np.log1p(mean), np.nan)
    return sides[0], sides[1]


def _dominated(ratio: FloatArray, population: FloatArray, gamma: float) -> FloatArray:
    """Return the share of the population (m,) at least log gamma below each log ratio (n,): O(n log m)."""
    z, x = np.sort(population), ratio - math.log(gamma)
    m = len(z)
    at = np.searchsorted(z, x, side="right")
    below, above = z[np.maximum(at - 1, 0)], z[np.minimum(at, m - 1)]
    gap = np.where((at > 0) & (at < m), above - below, 1.0)
    inside = (x - below) / gap
    over = (x - below) / (1 + np.maximum(x - below, 0.0))
    under = 1 / (1 + np.maximum(above - x, 0.0))
    part = np.where(at == 0, under, np.where(at == m, over, inside))
    return np.asarray((at + part) / (m + 1))


def _offline_log_p(log_out: FloatArray, a: float) -> FloatArray:
    return log_out if a == 1 else _log_from_distance(np.expm1(log_out), a)


def _log_from_distance(distance: FloatArray, a: float) -> FloatArray:
    """Return log of ((1 + a) p + 1 - a) / 2 from p - 1; exact where p rounds to 1."""
    nearest = float(np.nextafter(-1.0, 0.0))  # a probability below 1e-16 is taken as 1e-16: its logarithm is finite
    return np.asarray(np.log1p(np.maximum((1 + a) / 2 * distance, nearest)))


def _auc(members: FloatArray, nonmembers: FloatArray) -> float:
    """Return the area under the ROC curve; ties count one half."""
    inside, outside = np.sort(members), np.sort(nonmembers)
    below = np.searchsorted(outside, inside, side="left")
    equal = outside[np.minimum(below, len(outside) - 1)] == inside
    upto = below
    if equal.any():
        upto = below.copy()
        upto[equal] = np.searchsorted(outside, inside[equal], side="right")
    return float((below.sum() + upto.sum()) / (2.0 * len(inside) * len(outside)))


def _log_probabilities(values: ArrayLike, name: str, dimensions: int, first: int = 0) -> FloatArray:
    array = np.asarray(values)
    if array.dtype.kind not in "iuf" or array.ndim != dimensions or not array.size:
        shape = "(records,)" if dimensions == 1 else "(records, models)"
        raise InputError.of_array(name, f"numbers of shape {shape}", array, "pass log-probabilities")
    result = array.astype(np.float64, copy=False)
    bad = ~((result <= 0) & np.isfinite(result)).reshape(len(result), -1).all(axis=1)
    if bad.any():
        received = f"NaN, infinity or a number above 0, first in row {first + int(np.argmax(bad))}"
        raise InputError(name, "finite log-probabilities, at most 0", received, "pass the negative of the loss")
    return result


def _rows_for(values: ArrayLike, name: str, records: int) -> NDArray[np.generic]:
    array = np.asarray(values)
    if array.dtype.kind not in "iuf" or array.ndim != 2 or not array.shape[1] or len(array) != records:
        hint = "transpose it" if array.ndim == 2 and array.shape[1] == records else "pass a column for each model"
        raise InputError.of_array(name, f"numbers of shape ({records}, models), a row for each record", array, hint)
    return array


def _inclusion(included: ArrayLike | None, shape: tuple[int, ...]) -> BoolArray:
    if included is None:
        return np.broadcast_to(np.False_, shape)
    array = np.asarray(included)
    if array.dtype.kind != "b" or array.shape != shape:
        allowed = f"True or False of shape {shape}, a row for each record"
        raise InputError.of_array("included", allowed, array, "pass which models were trained on which records")
    return array


def _check_gamma(gamma: float) -> None:
    if not (gamma >= 1 and math.isfinite(gamma)):
        raise InputError("gamma", "a number from 1 up", repr(gamma), "2 is the default")


def _check_a(a: float) -> None:
    if not 0 <= a <= 1:
        raise InputError("a", "a number in [0, 1]", repr(a), "leave it out to tune it on the reference models")

"""Likelihood-ratio attacks on what a model discloses: probabilities, one confidence or a set of labels.

Each fits the law of the disclosed value, for each record, over shadow models that learnt it and over those that did not
(uncertainty-mia, Section II-B and Eq. 10): a Dirichlet law of the confidence vector, its Beta marginal of the true
label's confidence, independent labels for a decision set. One target model or several at once can be scored.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from miaudit.arrays import BoolArray, FloatArray
from miaudit.attacks import dirichlet_fit
from miaudit.errors import InputError

__all__ = ["confidence_vector", "decision_set", "true_label"]

# Below this many models on a side a law of the record's own cannot be fitted at all.
LEAST = 2
_SHAPES = {(1, 2): "(n,) or (n, T)", (2,): "(n, M)", (2, 3): "(n, K) or (n, T, K)", (3,): "(n, M, K)"}  # by dimensions
_ROUNDING = 1e-3  # probabilities of float16 outputs sum to one no better


def confidence_vector(
    target: ArrayLike,
    shadow: ArrayLike,
    included: ArrayLike,
    *,
    used: ArrayLike | None = None,
    smoothing: float = dirichlet_fit.SMOOTHING,
) -> FloatArray:
    """Return log f_in(p) - log f_out(p) of two Dirichlet laws at the target's confidence vector (Eqs. 10, 25).

    Parameters
    ----------
    target : array (n, K), or (n, T, K) for T target models at once
        Probabilities of all classes, not logits; the same columns as ``shadow``.
    shadow : array (n, M, K)
        Probabilities that M shadow models give to the same records.
    included : array (n, M) of bool
        Whether model j was trained on record i; at least two models on each side of each record.
    used : array (n, M) of bool, optional
        Which models count for which record, so that others can be held out; by default all do.
    smoothing : in (0, 1 / K)
        Probabilities below it, zeros included, are raised to it: a Dirichlet law has no place for a 0. Much of what
        tells members of an overfitted network is in tiny probabilities, so a larger one costs power.

    Returns
    -------
    array (n,) or (n, T) of float64, any real; higher is more member-like

    Raises
    ------
    InputError
        For values that are no probabilities, K = 1, wrong shapes, or fewer than two models on a side.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> included = np.tile(np.arange(64) % 2 == 0, (50, 1))
    >>> alpha = np.where(included[..., None], [8.0, 1.0, 1.0], [4.0, 3.0, 3.0])
    >>> gamma = rng.gamma(alpha)
    >>> shadow = gamma / gamma.sum(axis=2, keepdims=True)
    >>> ratio = confidence_vector(np.tile([[[0.8, 0.1, 0.1], [0.4, 0.3, 0.3]]], (50, 1, 1)), shadow, included)
    >>> bool((ratio[:, 0] > 0).all()), bool((ratio[:, 1] < 0).all())
    (True, True)
    """
    others = _probabilities(shadow, "shadow", (3,))
    own = _probabilities(target, "target", (2, 3))
    sides = _sides(included, used, others.shape)
    _same(own, others)
    return _dirichlet_ratio(own, others, sides, smoothing)


def true_label(
    target: ArrayLike,
    shadow: ArrayLike,
    included: ArrayLike,
    *,
    used: ArrayLike | None = None,
    smoothing: float = dirichlet_fit.SMOOTHING,
) -> FloatArray:
    """Return the log ratio of two Beta laws at the target's confidence in the true label (Eqs. 10, 33; E3).

    Parameters
    ----------
    target : array (n,), or (n, T) for T target models at once, in [0, 1]
    shadow : array (n, M), in [0, 1]
    included, used : arrays (n, M) of bool, as in :func:`confidence_vector`
    smoothing : in (0, 1 / 2), as in :func:`confidence_vector` with two classes: the true one and all others

    Returns
    -------
    array (n,) or (n, T) of float64, any real; higher is more member-like

    Raises
    ------
    InputError
        As :func:`confidence_vector`.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> included = np.tile(np.arange(64) % 2 == 0, (50, 1))
    >>> shadow = np.where(included, rng.beta(8, 2, (50, 64)), rng.beta(4, 6, (50, 64)))
    >>> ratio = true_label(np.tile([0.9, 0.3], (50, 1)), shadow, included)
    >>> bool((ratio[:, 0] > 0).all()), bool((ratio[:, 1] < 0).all())
    (True, True)
    """
    others = _share(shadow, "shadow", (2,))
    own = _share(target, "target", (1, 2))
    sides = _sides(included, used, others.shape)
    pair, two = (np.stack([p, 1 - p], axis=-1) for p in (own, others))
    _same(pair, two)
    return _dirichlet_ratio(pair, two, sides, smoothing)


def decision_set(
    target: ArrayLike, shadow: ArrayLike, included: ArrayLike, *, used: ArrayLike | None = None
) -> FloatArray:
    """Return the log ratio of the probabilities of a set of labels: the sum of a Bernoulli ratio per label.

    Rates of a label over models are (count + 1/2) / (models + 1), so none is 0 or 1. Labels are taken for independent
    given membership; a set's size ties them a little, which costs this attack a little power and never its validity.

    Parameters
    ----------
    target : array (n, K) of bool, or (n, T, K) for T target models at once
        Which labels the target's set holds.
    shadow : array (n, M, K) of bool
    included, used : arrays (n, M) of bool, as in :func:`confidence_vector`

    Returns
    -------
    array (n,) or (n, T) of float64, any real; higher is more member-like
        Exactly 0 where all shadow models on both sides, equal in number, and the target give the same set.

    Raises
    ------
    InputError
        Unless both are True and False, of shapes that agree, K is 2 or more and each side has two models.

    Examples
    --------
    >>> shadow = np.array([[[True, False], [True, False], [True, True], [True, True]]])
    >>> decision_set([[True, False]], shadow, [[True, True, False, False]]).round(3).tolist()
    [1.609]
    """
    others, own = _sets(shadow, "shadow", (3,)), _sets(target, "target", (2, 3))
    sides = _sides(included, used, others.shape)
    _same(own, others)
    held = own if own.ndim == 3 else own[:, None]
    total = np.zeros(held.shape[:2])
    for side, sign in zip(sides, (1.0, -1.0), strict=True):
        rate = (np.einsum("nmk,nm->nk", others, side, dtype=np.float64) + 0.5) / (side.sum(axis=1)[:, None] + 1)
        total += sign * np.where(held, np.log(rate)[:, None], np.log1p(-rate)[:, None]).sum(axis=2)
    return total if own.ndim == 3 else total[:, 0]


def sets_of(probabilities: ArrayLike, threshold: float) -> BoolArray:
    """Return which labels have a probability of at least ``threshold`` (Eq. 5), in the shape given.

    Parameters
    ----------
    probabilities : array (..., K)
    threshold : q, in [0, 1]

    Examples
    --------
    >>> sets_of([[0.7, 0.2, 0.1]], 0.2).tolist()
    [[True, True, False]]
    """
    if not 0 <= threshold <= 1:
        raise InputError("threshold", "a number in [0, 1]", repr(threshold), "0.2 keeps labels of 20% and more")
    return np.asarray(np.asarray(probabilities) >= threshold)


def _dirichlet_ratio(
    own: FloatArray, others: FloatArray, sides: tuple[BoolArray, BoolArray], smoothing: float
) -> FloatArray:
    classes = others.shape[-1]
    if not 0 < smoothing < 1 / classes:
        raise InputError("smoothing", f"a number in (0, {1 / classes:.3g})", repr(smoothing), "leave it out")
    log_p = np.log(dirichlet_fit.smooth(own, smoothing))
    log_p = log_p if own.ndim == 3 else log_p[:, None]
    ratio = np.zeros(log_p.shape[:2])
    for side, sign in zip(sides, (1.0, -1.0), strict=True):
        alpha = dirichlet_fit.fit(others, side, smoothing=smoothing).alpha
        density = dirichlet_fit.log_normaliser(alpha)[:, None] + np.einsum("nk,ntk->nt", alpha - 1, log_p)
        ratio += sign * density
    return np.asarray(ratio if own.ndim == 3 else ratio[:, 0])


# -- the door ----------------------------------------------------------------------------------------------------------


def _probabilities(values: ArrayLike, name: str, dimensions: tuple[int, ...]) -> FloatArray:
    p = _share(values, name, dimensions)
    _require_classes(p.shape[-1], name)
    gap = np.abs(p.sum(axis=-1) - 1)
    if gap.max() > _ROUNDING:
        where = int(np.argwhere(gap > _ROUNDING)[0][0])
        received = f"a sum of {p.sum(axis=-1)[gap > _ROUNDING][0]:.4g}, first in record {where}"
        raise InputError(name, "probabilities that sum to 1 over the classes", received, "apply softmax to logits")
    return np.asarray(p / p.sum(axis=-1, keepdims=True))


def _share(values: ArrayLike, name: str, dimensions: tuple[int, ...]) -> FloatArray:
    array = np.asarray(values)
    if array.dtype.kind not in "iuf" or array.ndim not in dimensions or not array.size:
        allowed = _SHAPES[dimensions]
        raise InputError.of_array(name, f"probabilities of shape {allowed}", array, "pass a row for each record")
    p = array.astype(np.float64)
    outside = ~((p >= 0) & (p <= 1 + _ROUNDING))
    if outside.any():
        where = int(np.argwhere(outside)[0][0])
        received = f"{p[outside][0]:.4g}, first in record {where}"
        raise InputError(name, "probabilities, from 0 to 1", received, "apply softmax to logits")
    return np.minimum(p, 1.0)


def _sets(values: ArrayLike, name: str, dimensions: tuple[int, ...]) -> BoolArray:
    array = np.asarray(values)
    if array.dtype.kind != "b" or array.ndim not in dimensions or not array.size:
        allowed = _SHAPES[dimensions]
        raise InputError.of_array(
            name, f"True or False of shape {allowed}", array, "sets_of makes sets of probabilities"
        )
    _require_classes(array.shape[-1], name)
    return array


def _require_classes(classes: int, name: str) -> None:
    if classes < 2:
        raise InputError(name, "two classes or more", "K = 1", "one class is always certain and discloses nothing")


def _sides(included: ArrayLike, used: ArrayLike | None, shape: tuple[int, ...]) -> tuple[BoolArray, BoolArray]:
    """Return the models with and without each record (n, M), among those that count."""
    inside = _matrix(included, "included", shape)
    count = np.ones_like(inside) if used is None else _matrix(used, "used", shape)
    sides = inside & count, ~inside & count
    fewest = min(int(side.sum(axis=1).min()) for side in sides)
    if fewest < LEAST:
        received = f"{fewest} on one side of a record"
        raise InputError("included", f"{LEAST} models or more with and without each record", received, "train more")
    return sides


def _matrix(values: ArrayLike, name: str, shape: tuple[int, ...]) -> BoolArray:
    array = np.asarray(values)
    if array.dtype.kind != "b" or array.shape != shape[:2]:
        turn = array.ndim == 2 and array.T.shape == shape[:2]
        hint = "transpose it" if turn else "pass a row for each record and a column for each model"
        raise InputError.of_array(name, f"True or False of shape {shape[:2]}", array, hint)
    return array


def _same(own: NDArray[np.generic], others: NDArray[np.generic]) -> None:
    if (own.shape[0], own.shape[-1]) != (others.shape[0], others.shape[-1]):
        n, models, classes = others.shape
        allowed = f"{n} records and {classes} classes, as in shadow"
        raise InputError("target", allowed, f"shape {own.shape}", f"pass ({n}, {classes}) for {models} shadow models")

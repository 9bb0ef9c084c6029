"""Label-only attacks, from the share of augmented copies of a record on which a model is right.

The augmentation attacks of Choquette-Choo et al. 2021, Section 4.1. Only predicted labels are needed, so
hiding confidences does not stop them. k copies give at most 2^k scores: the order within a count is settled by which
copies are right, and what remains tied is tied for the metrics, too.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from miaudit.arrays import BoolArray, FloatArray
from miaudit.attacks.shadow_classifier import fit_membership, log_odds
from miaudit.errors import InputError

# Copies that two prior models would add to each side of a record: with the rates of all records, no rate is 0 or 1.
_PRIOR_MODELS = 2.0


def score(correct: ArrayLike) -> FloatArray:
    """Return the share of a record's copies on which the target is right, without shadow models.

    Records with equally many right copies are ordered by how hard these copies are: those on which fewer of all records
    are right count more. Membership has no part in that.

    Parameters
    ----------
    correct : array (n, k) of bool, the first copy usually the record itself

    Returns
    -------
    array (n,) in [0, 1]; higher is more member-like

    Raises
    ------
    InputError
        Unless ``correct`` is a matrix of True and False.

    Examples
    --------
    >>> score([[True, True], [True, False], [False, True], [True, False]]).round(3).tolist()
    [1.0, 0.467, 0.533, 0.467]
    """
    right = _correctness(correct, "correct", 2)
    k = right.shape[1]
    hardness = 1 - right.mean(axis=0)
    total = hardness.sum()
    weight = 0.5 * hardness / total if total > 0 else np.full(k, 0.5 / k)  # together they weigh less than one copy
    return np.asarray((right.sum(axis=1) + right @ weight) / (k + 0.5), dtype=np.float64)


def calibrated(correct: ArrayLike, shadow: ArrayLike, included: ArrayLike) -> FloatArray:
    """Return the log-likelihood ratio of the number of right copies, calibrated on shadow models.

    c log(p_in / p_out) + (k - c) log((1 - p_in) / (1 - p_out)), with p_in and p_out the rates at which shadow models
    that did and did not learn the record are right on its copies, drawn towards the rates of all records.

    Parameters
    ----------
    correct : array (n, k) of bool
    shadow : array (n, M, k) of bool
    included : array (n, M) of bool, whether model j was trained on record i

    Returns
    -------
    array (n,), any real; higher is more member-like

    Raises
    ------
    InputError
        For wrong shapes or types, or where no model learned, or left out, any record.

    Examples
    --------
    >>> shadow = np.array([[[True, True], [False, True]], [[True, True], [False, False]]])
    >>> calibrated([[True, True], [False, False]], shadow, [[True, False], [True, False]]).round(2).tolist()
    [1.87, -4.97]
    """
    right = _correctness(correct, "correct", 2)
    others = _correctness(shadow, "shadow", 3)
    n, k = right.shape
    if (others.shape[0], others.shape[2]) != (n, k):
        raise InputError("shadow", f"shape ({n}, M, {k})", f"shape {others.shape}", "ask about the same copies")
    inside = _correctness(included, "included", 2)
    if inside.shape != others.shape[:2]:
        raise InputError("included", f"shape {others.shape[:2]}", f"shape {inside.shape}", "a row for each record")
    if inside.all() or not inside.any():
        raise InputError("included", "models that learned a record, and others", "one kind only", "train more models")
    hits = np.count_nonzero(others, axis=2).astype(np.float64)
    p_in, p_out = _rate(hits, inside, k), _rate(hits, ~inside, k)
    count = right.sum(axis=1)
    log_ratio = count * np.log(p_in / p_out) + (k - count) * np.log((1 - p_in) / (1 - p_out))
    return np.asarray(log_ratio, dtype=np.float64)


def learned(correct: ArrayLike, shadow_correct: ArrayLike, shadow_member: ArrayLike) -> FloatArray:
    """Return log-odds of membership from the pattern of right copies, learned on shadow models (the paper).

    Parameters
    ----------
    correct : array (n, k) of bool, the target model's
    shadow_correct : array (m, k) of bool, of shadow models on records of any kind
    shadow_member : array (m,) of bool, whether the shadow model was trained on the row's record

    Returns
    -------
    array (n,), any real; higher is more member-like

    Examples
    --------
    >>> shadow_correct = [[True, True], [True, False], [False, True]] * 9
    >>> learned([[True, True], [False, True]], shadow_correct, [True, False, False] * 9).round(2).tolist()
    [2.73, -3.46]
    """
    right, others = _correctness(correct, "correct", 2), _correctness(shadow_correct, "shadow_correct", 2)
    if others.shape[1] != right.shape[1]:
        allowed = f"{right.shape[1]} copies, as the target"
        raise InputError("shadow_correct", allowed, f"{others.shape[1]}", "use the same augmentations")
    inside = _correctness(shadow_member, "shadow_member", 1)
    if len(inside) != len(others) or inside.all() or not inside.any():
        allowed, received = (
            f"members and non-members, {len(others)} rows",
            f"{int(inside.sum())} members of {len(inside)}",
        )
        raise InputError("shadow_member", allowed, received, "pass one for each shadow row")
    return log_odds(fit_membership(_pattern(others), inside), _pattern(right))


def _pattern(correct: BoolArray) -> FloatArray:
    """Return the copies, their share that is right, and whether all are right."""
    return np.column_stack([correct, correct.mean(axis=1), correct.all(axis=1)]).astype(np.float64)


def _rate(hits: FloatArray, taken: BoolArray, k: int) -> FloatArray:
    """Return each record's rate of right copies (n,) over some models, shrunk towards that of all records."""
    models = taken.sum(axis=1)
    total = np.sum(hits, axis=1, where=taken)
    overall = (total.sum() + 0.5) / (models.sum() * k + 1)
    return np.asarray((total + _PRIOR_MODELS * k * overall) / ((models + _PRIOR_MODELS) * k))


def _correctness(values: ArrayLike, name: str, dimensions: int) -> BoolArray:
    array = np.asarray(values)
    if array.dtype.kind != "b" or array.ndim != dimensions or not array.size:
        shape = {1: "(m,)", 2: "(n, k)", 3: "(n, M, k)"}[dimensions]
        raise InputError.of_array(name, f"True or False of shape {shape}", array, "compare predictions and labels")
    return array

"""Outputs of a model as one array of float32, and the labels that they are about: both checked."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from miaudit.arrays import BoolArray, Float32Array, FloatArray
from miaudit.attacks import multi_label
from miaudit.attacks.signals import PROBABILITY_FLOOR
from miaudit.errors import InputError
from miaudit.io import declared_kind

_LARGEST = np.finfo(np.float32).max
_TOLERANCE = 1e-3  # what rounding to a few digits, or in half precision, may leave


def adds_up(values: NDArray[Any]) -> BoolArray:
    """Whether each row (n,) of numbers (n, C) holds probabilities: from 0 to 1 that add up to 1, within 0.001.

    Examples
    --------
    >>> adds_up(np.array([[0.25, 0.75], [-1e-8, 1.0], [0.5, 0.6], [np.nan, 1.0]])).tolist()
    [True, True, False, False]
    """
    inside = ((values >= -_TOLERANCE) & (values <= 1 + _TOLERANCE)).all(axis=1)
    valid: BoolArray = inside & (abs(values.sum(axis=1, dtype=np.float64) - 1) <= _TOLERANCE)
    return valid


def checked_outputs(values: ArrayLike, n: int, name: str) -> Float32Array:
    """Return outputs as float32 (n, C), or say what is wrong with them: shape, type, NaN or infinity."""
    array = np.asarray(values)
    if array.ndim != 2 or len(array) != n or not array.shape[1] or array.dtype.kind not in "iuf":
        allowed = f"numbers of shape ({n}, columns)"
        raise InputError.of_array(f"outputs of {name}", allowed, array, "return one row for each record")
    with np.errstate(invalid="ignore"):
        finite = not array.size or bool(array.min() >= -_LARGEST and array.max() <= _LARGEST)  # NaN is neither
    if not finite:
        bad = ~(abs(array) <= _LARGEST).all(axis=1)
        received = f"NaN or infinity in {int(bad.sum())} of {n} records, the first {int(np.flatnonzero(bad)[0])}"
        raise InputError(f"outputs of {name}", "finite numbers", received, "train more gently, or drop these records")
    return np.ascontiguousarray(array, dtype=np.float32)


def check_kind(
    kind: str, outputs: NDArray[Any], name: str, labels: NDArray[Any] | None = None, member: BoolArray | None = None
) -> tuple[str, ...]:
    """Refuse outputs (n, C) of a kind that their numbers contradict for certain; return notes on what else they may be.

    Parameters
    ----------
    kind : of :data:`miaudit.models.protocol.Kind`; predictions and signals may be any numbers
    labels, member : as of :func:`miaudit.io.declared_kind.check_logits`
    """
    several = kind == "multi-label"
    if kind != "logits" and not several:
        return ()
    argument = f"outputs of {name}"
    return declared_kind.check_logits(outputs, labels, member=member, argument=argument, several=several)


def logits_of(probabilities: NDArray[Any], labels: int, name: str) -> FloatArray:
    """Return the logits of probabilities: their logarithms (n, C), or the log-odds (n, L) of so many labels.

    Raises
    ------
    InputError
        For rows that do not add up to 1, and numbers that are not probabilities.
    """
    if labels:
        check_label_columns(probabilities.shape[1], labels, name)
        return multi_label.log_odds(probabilities)
    bad = ~adds_up(probabilities)
    if bad.any():
        received, step = f"others in row {int(np.flatnonzero(bad)[0])}", declared_kind.step_for(probabilities)
        raise InputError(f"outputs of {name}", "probabilities that add up to 1", received, step)
    return np.asarray(np.log(np.maximum(probabilities.astype(np.float64), PROBABILITY_FLOOR)))


def label_count(y: ArrayLike) -> int:
    """Return how many labels each record has, of labels (n, L), and 0 of one class or number for each (n,).

    Examples
    --------
    >>> label_count([[0, 1, 1], [1, 0, 0]]), label_count([2, 0])
    (3, 0)
    """
    labels = np.asarray(y)
    return labels.shape[1] if labels.ndim == 2 else 0


def check_label_columns(width: int, labels: int, name: str) -> None:
    """Refuse outputs of another width than there are labels.

    Raises
    ------
    InputError
        If they differ.
    """
    if width != labels:
        allowed = f"{labels} columns, one for each label of data.y"
        raise InputError(f"outputs of {name}", allowed, str(width), "name the labels in the order of the columns")


def class_count(y: ArrayLike) -> int:
    """Return the number of classes of labels 0, 1, ...: the largest label plus one.

    Raises
    ------
    InputError
        For labels that are no whole numbers, or negative.
    """
    labels = np.asarray(y)
    if labels.dtype.kind not in "iub" or labels.ndim != 1 or not labels.size:
        allowed = "whole numbers (n,), classes 0, 1, 2, ..."
        raise InputError.of_array("labels", allowed, labels, "number the classes")
    if int(labels.min()) < 0:
        raise InputError("labels", "classes from 0 up", str(int(labels.min())), "number the classes from 0")
    return int(labels.max()) + 1

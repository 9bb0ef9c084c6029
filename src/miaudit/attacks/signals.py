"""Signals of one record from a classifier's logits or probabilities and the record's label.

Every function takes logits, shape (n, classes), and labels, shape (n,), and returns one number for each record,
computed without overflow. Names follow the field: a ``loss`` or an ``entropy`` is lower for members; ``member_scores``
turns every signal so that higher means more member-like.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from miaudit.arrays import FloatArray, IndexArray
from miaudit.errors import InputError
from miaudit.errors.entry_points import Offered
from miaudit.io import declared_kind
from miaudit.io.labels import one_each


class Signal(NamedTuple):
    """A function of logits (n, classes) and labels (n,), and the sign that makes higher mean more member-like."""

    function: Callable[[FloatArray, IndexArray], FloatArray]
    sign: float = 1.0


# A probability of exactly 0 has no logarithm. This is below every positive float32, so it only breaks exact zeros.
PROBABILITY_FLOOR = 1e-45
_SUM_TOLERANCE = 1e-3
_LARGEST = 1e150


def loss(logits: FloatArray, labels: IndexArray) -> FloatArray:
    """Cross-entropy -log p_y (n,), 0 upwards; lower for members.

    Examples
    --------
    >>> loss(np.array([[1000.0, 0.0], [0.0, 0.0]]), np.array([1, 0])).round(4).tolist()
    [1000.0, 0.6931]
    """
    # From the log-odds, a loss far below the rounding error of 1 keeps its digits.
    return np.asarray(np.logaddexp(0.0, -logit_confidence(logits, labels)))


def logit_confidence(logits: FloatArray, labels: IndexArray) -> FloatArray:
    """Logit-scaled confidence log(p_y / (1 - p_y)) (n,), any real; higher for members; nearly Gaussian (erratum C4).

    Computed as z_y - log sum over other classes of exp(z), so that it stays exact where p_y rounds to 1.

    Examples
    --------
    >>> logit_confidence(np.array([[800.0, 0.0], [-3.0, -3.0]]), np.array([0, 1])).tolist()
    [800.0, 0.0]
    """
    own, others = _split(logits, labels)
    return np.asarray(own - special.logsumexp(others, axis=1))


def margin(logits: FloatArray, labels: IndexArray) -> FloatArray:
    """Margin z_y - max over other classes of z (n,), any real; higher for members.

    Examples
    --------
    >>> margin(np.array([[2.0, 0.5, 1.5]]), np.array([0])).tolist()
    [0.5]
    """
    own, others = _split(logits, labels)
    return np.asarray(own - others.max(axis=1))


def entropy(logits: FloatArray, labels: IndexArray) -> FloatArray:  # noqa: ARG001 - one signature for all signals
    """Shannon entropy of the predicted probabilities in nats (n,), 0 to log(classes); lower for members.

    Examples
    --------
    >>> entropy(np.array([[0.0, 0.0], [900.0, 0.0]]), np.array([0, 1])).round(4).tolist()
    [0.6931, 0.0]
    """
    log_p, _ = _log_softmax(logits)
    return np.asarray(0.0 - (np.exp(log_p) * log_p).sum(axis=1))


def modified_entropy(logits: FloatArray, labels: IndexArray) -> FloatArray:
    """Modified entropy of Song and Mittal 2021, Eq. (8) (n,), 0 upwards; lower for members; it knows the label.

    -(1 - p_y) log p_y - sum over other classes k of p_k log(1 - p_k)

    Examples
    --------
    >>> modified_entropy(np.array([[0.0, 0.0]]), np.array([0])).round(4).tolist()
    [0.6931]
    """
    rows = np.arange(len(logits))
    log_p, top = _log_softmax(logits)
    p = np.exp(log_p)
    # As in log p, only the largest class may round to 1: there, sum the others.
    log_rest = np.log1p(-np.minimum(p, 0.75))
    log_rest[rows, top] = -np.logaddexp(0.0, logit_confidence(logits, top))
    terms = -p * log_rest
    terms[rows, labels] = -np.exp(log_rest[rows, labels]) * log_p[rows, labels]
    return np.asarray(terms.sum(axis=1))


BUILT_IN = {
    "loss": Signal(loss, -1.0),
    "logit_confidence": Signal(logit_confidence),
    "margin": Signal(margin),
    "entropy": Signal(entropy, -1.0),
    "modified_entropy": Signal(modified_entropy, -1.0),
}
SIGNALS = Offered("miaudit.signals", Signal, BUILT_IN)


def member_scores(
    *,
    labels: ArrayLike,
    logits: ArrayLike | None = None,
    probabilities: ArrayLike | None = None,
    names: Iterable[str] = ("loss",),
) -> dict[str, FloatArray]:
    """Compute signals by name, each turned so that higher means more member-like.

    Parameters
    ----------
    labels : array (n,) of int, 0 to classes - 1
    logits : array (n, classes), or
    probabilities : array (n, classes), rows adding up to 1 within 1e-3
        Exactly one of the two.
    names : iterable of str, from :data:`SIGNALS`

    Raises
    ------
    InputError
        For unknown names, labels outside the classes, rows that do not add up, NaN or infinite numbers.

    Examples
    --------
    >>> member_scores(probabilities=[[0.5, 0.5]], labels=[1], names=["loss", "margin"])
    {'loss': array([-0.693...]), 'margin': array([0.])}
    """
    wanted = {name: SIGNALS.named(name, "signal") for name in names}
    if (logits is None) == (probabilities is None):
        raise InputError("outputs", "logits or probabilities", "both or none", "pass exactly one of the two")
    z = _matrix(logits, "logits") if logits is not None else _log_probabilities(_matrix(probabilities, "probabilities"))
    y = _checked_labels(labels, z.shape)
    return {name: signal.sign * signal.function(z, y) for name, signal in wanted.items()}


def _split(logits: FloatArray, labels: IndexArray) -> tuple[FloatArray, FloatArray]:
    """Return each record's own logit (n,) and those of the other classes (n, classes - 1)."""
    n, classes = logits.shape
    keep = np.ones((n, classes), dtype=bool)
    keep[np.arange(n), labels] = False
    return logits[~keep], logits[keep].reshape(n, classes - 1)


def _log_softmax(logits: FloatArray) -> tuple[FloatArray, IndexArray]:
    """Return log p (n, classes) and the largest class (n,), whose log p keeps its digits where p rounds to 1."""
    log_p: FloatArray = special.log_softmax(logits, axis=1)
    top = logits.argmax(axis=1)
    log_p[np.arange(len(logits)), top] = -np.logaddexp(0.0, -logit_confidence(logits, top))
    return log_p, top


def _matrix(values: ArrayLike | None, name: str) -> FloatArray:
    array = np.asarray(values)
    if array.dtype.kind not in "iuf" or array.ndim != 2 or array.shape[1] < 2:
        allowed = "numbers of shape (records, classes) with two classes or more"
        raise InputError.of_array(name, allowed, array, "pass one row for each record and one column for each class")
    result = array.astype(np.float64)
    bad = ~(np.abs(result) <= _LARGEST)  # NaN fails too
    if bad.any():
        row = int(np.argwhere(bad)[0][0])
        received = f"NaN, infinity or larger, first in row {row}"
        raise InputError(name, f"finite numbers up to {_LARGEST:g}", received, "drop or repair these rows")
    return result


def _log_probabilities(p: FloatArray) -> FloatArray:
    total = p.sum(axis=1)
    bad = (np.abs(total - 1) > _SUM_TOLERANCE) | ((p < 0) | (p > 1 + _SUM_TOLERANCE)).any(axis=1)
    if bad.any():
        row, allowed = int(np.argmax(bad)), "rows of numbers in [0, 1] that add up to 1 within 0.001"
        received = f"row {row}, which adds up to {total[row]:.6g}"
        raise InputError("probabilities", allowed, received, declared_kind.step_for(p))
    return np.log(np.maximum(p, PROBABILITY_FLOOR))


def _checked_labels(labels: ArrayLike, shape: tuple[int, ...]) -> IndexArray:
    array = one_each(np.asarray(labels))
    if array.ndim != 1 or len(array) != shape[0]:
        raise InputError("labels", f"{shape[0]} labels, one for each record", f"shape {array.shape}", "pass one column")
    if array.dtype.kind == "f" and np.isfinite(array).all() and (array == np.floor(array)).all():
        array = array.astype(np.int64)
    if array.dtype.kind not in "iu":
        raise InputError("labels", "whole numbers", f"values of type {array.dtype}", "code the classes as 0, 1, ...")
    if len(array) and (array.min() < 0 or array.max() >= shape[1]):
        allowed = f"classes 0 to {shape[1] - 1}, as in the outputs"
        received = f"values from {array.min()} to {array.max()}"
        raise InputError("labels", allowed, received, "count classes from 0, and pass an output column for each")
    return array.astype(np.intp)

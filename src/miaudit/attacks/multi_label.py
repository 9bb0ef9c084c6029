"""Signals of one record whose model gives several labels at once: log-odds of each label, and which of them it has.

Every function takes logits z (n, L), where label j has probability p_j = 1 / (1 + exp(-z_j)) by itself, and labels
(n, L) of 0 and 1, and returns one number for each record. Labels are independent given the record, as in every model
that is trained by binary cross-entropies. Such a model is a classifier of 2^L classes, the label vectors, of which
v has the logit sum_j v_j z_j; each signal here is that of :mod:`miaudit.attacks.signals` on these classes, computed
without listing them: the tests do list them. With one label it is that of two classes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from miaudit.arrays import FloatArray, IndexArray
from miaudit.attacks import signals
from miaudit.attacks.signals import PROBABILITY_FLOOR, Signal
from miaudit.errors import InputError, nearest

__all__ = [
    "SIGNALS",
    "entropy",
    "log_odds",
    "logit_confidence",
    "loss",
    "margin",
    "member_scores",
    "modified_entropy",
]

_CERTAIN = 30.0  # beyond it -log p_j is exp(-s) to the last digit


def loss(logits: FloatArray, labels: IndexArray) -> FloatArray:
    """Sum of the binary cross-entropies (n,), -log P of the whole label vector, 0 upwards; lower for members.

    Examples
    --------
    >>> loss(np.array([[0.0, 0.0], [50.0, -1000.0]]), np.array([[1, 0], [1, 1]])).round(4).tolist()
    [1.3863, 1000.0]
    """
    return np.asarray(np.logaddexp(0.0, -_signed(logits, labels)).sum(axis=1))


def logit_confidence(logits: FloatArray, labels: IndexArray) -> FloatArray:
    """Log-odds log(P / (1 - P)) of the whole label vector (n,), any real; higher for members.

    P is the probability of the vector that the record has among all 2^L, the product of those of its labels, so this
    is the logit-scaled confidence of LiRA for these classes. The sum of the signed logits is another number: the
    log-odds against the one vector in which every label is the other one. With the loss l = -log P it is
    -l - log(1 - exp(-l)), of which log l is added up from the labels where l itself would round to 0.

    Examples
    --------
    >>> logit_confidence(np.array([[2.0], [-800.0]]), np.array([[1], [0]])).tolist()
    [2.0, 800.0]
    >>> logit_confidence(np.zeros((1, 2)), np.array([[1, 0]])).round(4).tolist()  # one of four, equally likely
    [-1.0986]
    """
    signed = _signed(logits, labels)
    each = np.logaddexp(0.0, -signed)
    total = each.sum(axis=1)
    logs = np.where(signed > _CERTAIN, -signed, np.log(np.maximum(each, np.finfo(np.float64).tiny)))
    with np.errstate(invalid="ignore", divide="ignore"):
        share = np.where(total > 0, np.log(-np.expm1(-total) / total), 0.0)  # of 1 - exp(-l) in l
    return np.asarray(-(total + special.logsumexp(logs, axis=1) + share))


def margin(logits: FloatArray, labels: IndexArray) -> FloatArray:
    """Logit of the record's own label vector less that of the likeliest other one (n,); higher for members.

    Where every label is the likelier one, the next vector differs in the least certain label; else the likeliest
    vector differs in all labels that are wrong.

    Examples
    --------
    >>> margin(np.array([[2.0, 0.5], [2.0, 0.5]]), np.array([[1, 1], [0, 1]])).tolist()
    [0.5, -2.0]
    """
    signed = _signed(logits, labels)
    least = signed.min(axis=1)
    return np.asarray(np.where(least > 0, least, np.minimum(signed, 0.0).sum(axis=1)))


def entropy(logits: FloatArray, labels: IndexArray) -> FloatArray:
    """Shannon entropy of the label vector in nats, the sum over labels (n,), 0 to L log 2; lower for members.

    Examples
    --------
    >>> entropy(np.array([[0.0, 0.0], [900.0, 0.0]]), np.zeros((2, 2), dtype=int)).round(4).tolist()
    [1.3863, 0.6931]
    """
    return _over_labels(signals.entropy, logits, labels)


def modified_entropy(logits: FloatArray, labels: IndexArray) -> FloatArray:
    """Modified entropy (Song and Mittal 2021) of each label as two classes, summed (n,); lower for members.

    The one signal that is not that of the 2^L classes: there it is no sum over labels.

    Examples
    --------
    >>> modified_entropy(np.zeros((1, 2)), np.array([[1, 0]])).round(4).tolist()
    [1.3863]
    """
    return _over_labels(signals.modified_entropy, logits, labels)


SIGNALS = {
    "loss": Signal(loss, -1.0),
    "logit_confidence": Signal(logit_confidence),
    "margin": Signal(margin),
    "entropy": Signal(entropy, -1.0),
    "modified_entropy": Signal(modified_entropy, -1.0),
}


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
    labels : array (n, L) of 0 and 1, or true and false; (n,) of one label
    logits : array (n, L), the log-odds of each label, or
    probabilities : array (n, L), of each label by itself
        Exactly one of the two.
    names : iterable of str, from :data:`SIGNALS`

    Raises
    ------
    InputError
        For unknown names, labels that are not 0 and 1, other shapes, NaN or infinite numbers.

    Examples
    --------
    >>> member_scores(probabilities=[[0.5, 0.5]], labels=[[1, 0]], names=["loss", "margin"])
    {'loss': array([-1.386...]), 'margin': array([0.])}
    """
    wanted = {}
    for name in names:
        if name not in SIGNALS:
            hint = nearest(name, SIGNALS) or "the others need classes"
            allowed = f"one of {', '.join(SIGNALS)}, for several labels"
            raise InputError("signal", allowed, repr(name), hint)
        wanted[name] = SIGNALS[name]
    if (logits is None) == (probabilities is None):
        raise InputError("outputs", "logits or probabilities", "both or none", "pass exactly one of the two")
    z = log_odds(np.asarray(probabilities)) if logits is None else np.asarray(logits, dtype=np.float64)
    y = checked_labels(labels)
    if z.shape != y.shape:
        received = f"shape {z.shape} beside labels of shape {y.shape}"
        raise InputError("logits", "a column for each label", received, "check which labels the model gives")
    if not np.isfinite(z).all():
        bad = int(np.argwhere(~np.isfinite(z))[0][0])
        received = f"NaN or infinity, first in row {bad}"
        raise InputError("logits", "finite numbers", received, "drop or repair these rows")
    return {name: signal.sign * signal.function(z, y) for name, signal in wanted.items()}


def log_odds(probabilities: ArrayLike, others: ArrayLike | None = None) -> FloatArray:
    """Return the log-odds (n, L) of probabilities (n, L) of labels, 0 as 1e-45.

    Parameters
    ----------
    others : array (n, L), the probabilities of not having the labels, where they are known to more digits

    Raises
    ------
    InputError
        For what is no probability.

    Examples
    --------
    >>> log_odds(np.array([[0.5, 0.75, 1.0]])).round(4).tolist()
    [[0.0, 1.0986, 103.6163]]
    """
    p = np.asarray(probabilities, dtype=np.float64)
    bad = ~((p >= 0) & (p <= 1))  # NaN too
    if p.ndim != 2 or bad.any():
        at = f", first in row {int(np.argwhere(bad)[0][0])}" if bad.any() else ""
        received = f"shape {p.shape}{' with others' + at if at else ''}"
        hint = "if these are logits, say so"
        raise InputError("probabilities", "numbers from 0 to 1, one for each label", received, hint)
    rest = 1.0 - p if others is None else np.asarray(others, dtype=np.float64)
    return np.asarray(np.log(np.maximum(p, PROBABILITY_FLOOR)) - np.log(np.maximum(rest, PROBABILITY_FLOOR)))


def checked_labels(labels: ArrayLike, name: str = "labels") -> IndexArray:
    """Return labels as an array (n, L) of whole numbers 0 and 1; one label may be (n,).

    Raises
    ------
    InputError
        For another shape or other values.
    """
    array = np.asarray(labels)
    array = array[:, None] if array.ndim == 1 else array
    if array.ndim != 2 or not array.shape[1] or array.dtype.kind not in "biuf":
        allowed = "0 and 1 of shape (records, labels)"
        raise InputError.of_array(name, allowed, array, "pass one column for each label")
    bad = ~np.isin(array, (0, 1))
    if bad.any():
        row, column = map(int, np.argwhere(bad)[0])
        received = f"{array[row, column]} in row {row}, column {column}"
        raise InputError(name, "0 and 1, whether a record has each label", received, "name classes by one column alone")
    return array.astype(np.intp)


def _signed(logits: FloatArray, labels: IndexArray) -> FloatArray:
    """Log-odds of each label as the record has it (n, L)."""
    return np.asarray(np.where(labels == 1, logits, -logits))


def _over_labels(
    function: Callable[[FloatArray, IndexArray], FloatArray], logits: FloatArray, labels: IndexArray
) -> FloatArray:
    """Sum over labels of a signal of two classes."""
    both = np.stack([np.zeros(logits.size), logits.ravel()], axis=1)
    sums: FloatArray = function(both, labels.ravel()).reshape(logits.shape).sum(axis=1)
    return sums

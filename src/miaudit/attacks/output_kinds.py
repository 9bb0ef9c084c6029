"""Signals by the kind of outputs that they are computed from: of classes, of several labels, or predictions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from numpy.typing import ArrayLike, NDArray

from miaudit.arrays import FloatArray
from miaudit.attacks import multi_label, signals
from miaudit.attacks.regression import squared_error
from miaudit.errors import InputError

__all__ = ["LOGITS", "MULTI_LABEL", "PREDICTIONS", "member_scores"]

LOGITS, MULTI_LABEL, PREDICTIONS = "logits", "multi-label", "predictions"


def _of_classes(outputs: NDArray[Any], labels: ArrayLike, names: list[str]) -> dict[str, FloatArray]:
    return signals.member_scores(labels=labels, logits=outputs, names=names)


def _of_labels(outputs: NDArray[Any], labels: ArrayLike, names: list[str]) -> dict[str, FloatArray]:
    return multi_label.member_scores(labels=labels, logits=outputs, names=names)


def _of_predictions(outputs: NDArray[Any], labels: ArrayLike, names: list[str]) -> dict[str, FloatArray]:
    return {name: -squared_error(outputs, labels) for name in names}


_BY_KIND: Mapping[str, Callable[[NDArray[Any], ArrayLike, list[str]], dict[str, FloatArray]]] = {
    LOGITS: _of_classes,
    MULTI_LABEL: _of_labels,
    PREDICTIONS: _of_predictions,
}


def member_scores(kind: str, outputs: NDArray[Any], labels: ArrayLike, names: Iterable[str]) -> dict[str, FloatArray]:
    """Compute signals by name from outputs of a kind, each turned so that higher means more member-like.

    Parameters
    ----------
    kind : "logits" (n, C) with labels (n,), "multi-label" log-odds (n, L) with labels (n, L) of 0 and 1, or
        "predictions" (n, k) with values (n,) or (n, k), whose only signal is the squared error, whatever its name

    Raises
    ------
    InputError
        For another kind, and as the signals of that kind do.

    Examples
    --------
    >>> import numpy as np
    >>> member_scores("predictions", np.array([[2.0]]), np.array([5.0]), ["loss"])
    {'loss': array([-9.])}
    """
    if kind not in _BY_KIND:
        raise InputError("kind", f"one of {', '.join(_BY_KIND)}", repr(kind), "signals are scores already")
    return _BY_KIND[kind](outputs, labels, list(names))

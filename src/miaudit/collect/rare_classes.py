"""Classes and labels that are so rare that some of the models learn no record of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from miaudit.arrays import BoolArray
from miaudit.attacks.signals import PROBABILITY_FLOOR

_MOST_NAMED = 8


def said(y: NDArray[Any], included: BoolArray, names: Sequence[str] = ()) -> str:
    """Say which classes or labels are so rare that models learn no record of them; empty where none is.

    Parameters
    ----------
    y : array (n,) of classes, or (n, L) of 0 and 1 for each of several labels
    included : array (M, n) of bool, which records each model learns
    names : what the classes 0, 1, ... are called

    Examples
    --------
    >>> said(np.array([[1, 0], [0, 1], [1, 0]]), np.array([[True, False, True], [True, True, False]]))
    'rare labels: 1 of 2 models learn no record of label 2 (1 of 3)'
    """
    if not len(included):
        return ""
    several, classes = y.ndim == 2, np.unique(y)
    holders = y.T == 1 if several else y == classes[:, None]
    called = [f"label {j + 1}" if several else names[j] if names else classes[j] for j in range(len(holders))]
    without = np.array([~included[:, own].any(axis=1) for own in holders])
    rare = np.flatnonzero(without.any(axis=1))
    if not len(rare):
        return ""
    shown = [f"{called[i]} ({np.count_nonzero(holders[i])} of {len(y):,})" for i in rare[:_MOST_NAMED]]
    listed = ", ".join(shown) + (", ..." if len(rare) > _MOST_NAMED else "")
    message = f"{int(without.any(axis=0).sum())} of {len(included)} models learn no record of {listed}"
    if several:
        return f"rare labels: {message}"
    return f"rare classes: {message}, and their probability of such a class counts as {PROBABILITY_FLOOR:g}"

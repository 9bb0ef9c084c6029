"""The orders of guesses written out plainly: each sorts the scores again, with random numbers as the second key."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Guesses = tuple[NDArray[np.intp], NDArray[np.bool_]]
"""Rows in falling order of confidence, and the guess of each record."""


def falling(confidence: Floats, rng: np.random.Generator) -> NDArray[np.intp]:
    return np.lexsort((rng.random(len(confidence)), -confidence))


def centre(score: Floats) -> float:
    """The median; where many scores equal it, the middle of the gap beside them that splits most evenly."""
    middle = float(np.median(score))
    below, above = score[score < middle], score[score > middle]
    if len(below) > len(above):
        return (middle + float(below.max())) / 2
    if len(above) > len(below):
        return (middle + float(above.min())) / 2
    return middle


def two_sided(score: Floats, rng: np.random.Generator) -> Guesses:
    offset = score - centre(score)
    guess = np.where(offset == 0, rng.random(len(score)) < 0.5, offset > 0)
    return falling(np.abs(offset), rng), guess


def by_turns(score: Floats, rng: np.random.Generator) -> Guesses:
    ranks = np.empty(len(score))
    ranks[falling(-score, rng)] = np.arange(len(score))
    return two_sided(ranks, rng)


def members(score: Floats, rng: np.random.Generator) -> Guesses:
    return falling(score, rng), np.ones(len(score), dtype=np.bool_)


def nonmembers(score: Floats, rng: np.random.Generator) -> Guesses:
    return falling(-score, rng), np.zeros(len(score), dtype=np.bool_)

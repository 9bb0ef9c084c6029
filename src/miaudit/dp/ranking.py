"""Records in falling order of an attack's confidence, with a guess at each, made from scores and never from labels."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from miaudit.arrays import BoolArray, FloatArray, IntArray
from miaudit.errors import InputError


@dataclass(frozen=True, eq=False)
class Order:
    """Records in falling order of the attack's confidence, and the guess at each; never made from labels.

    Attributes
    ----------
    name : how the guesses are made, in words
    places : array (m,), record numbers, the surest guess first
    guess : array (m,), +1 member or -1 non-member, of the i-th in order
    """

    name: str
    places: IntArray
    guess: IntArray


@dataclass(frozen=True, eq=False)
class Ranking:
    """Records in falling order of the attack's confidence, and whether its guess at each is right.

    The order and the guesses may use scores and covariates, never labels.

    Attributes
    ----------
    name : how the guesses are made, in words
    places : ints (n,), record numbers, the surest guess first
    correct : bools (n,), of record i (not of the i-th in order)
    kept : bools (n,), records that thinning left (statistics.md, section 7); None for all
    """

    name: str
    places: IntArray
    correct: BoolArray
    kept: BoolArray | None = None

    @classmethod
    def of(cls, correct: ArrayLike) -> Ranking:
        """Return the ranking of correctness indicators (n,) that already are in falling order of confidence."""
        indicators = np.asarray(correct)
        if indicators.ndim != 1 or not len(indicators) or not np.isin(indicators, (0, 1)).all():
            raise InputError(
                "correct", "an array (n,) of bool", f"an array of shape {indicators.shape}", "one entry per guess"
            )
        return cls("as given", np.arange(len(indicators)), indicators.astype(bool))


def two_sided(score: FloatArray, member: BoolArray, *, rng: np.random.Generator, by_rank: bool = False) -> Ranking:
    """Guess "member" above the median score and "non-member" below it, the farthest first; ties in random order.

    Parameters
    ----------
    score : (n,), higher is more member-like
    member : (n,)
    by_rank : whether distance is counted in records, so that both ends take turns, instead of in score
    """
    position = _ranks(score, rng) if by_rank else score
    offset = position - _centre(position)
    guess = np.where(offset == 0, rng.random(len(score)) < 0.5, offset > 0)
    name = "both ends of the scores in turn" if by_rank else "both sides of the median score, the farthest first"
    return Ranking(name, _falling(np.abs(offset), rng), guess == member)


def one_sided(score: FloatArray, member: BoolArray, *, guess: bool, rng: np.random.Generator) -> Ranking:
    """Guess "member" from the highest score down (``guess=True``), or "non-member" from the lowest up."""
    name = "members only, the highest scores first" if guess else "non-members only, the lowest scores first"
    return Ranking(name, _falling(score if guess else -score, rng), member == guess)


def _falling(confidence: FloatArray, rng: np.random.Generator) -> IntArray:
    return np.lexsort((rng.random(len(confidence)), -confidence))


def _centre(score: FloatArray) -> float:
    """Return the median; where many scores equal it, the middle of the gap beside them that splits most evenly.

    With two values only, and one more of one of them, the median is that one and would leave half the records without
    a guess.
    """
    centre = float(np.median(score))
    below, above = score[score < centre], score[score > centre]
    if len(below) > len(above):
        return (centre + float(below.max())) / 2
    if len(above) > len(below):
        return (centre + float(above.min())) / 2
    return centre


def _ranks(score: FloatArray, rng: np.random.Generator) -> FloatArray:
    ranks = np.empty(len(score))
    ranks[_falling(-score, rng)] = np.arange(len(score))
    return ranks

"""Numbers of guesses that are tied to parameters beforehand, and the walk up through the parameters that are refuted.

Nothing here sees a label or a score: steps follow from the number of canaries and the confidence, so that a walk tests
every parameter once, as if its number of guesses had been fixed. A number of guesses that follows from the scores would
not do: a mechanism of Gaussian DP could choose it, run by run, for whatever is least expected (docs/bounds.md).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import lru_cache

import numpy as np
from scipy.special.cython_special import ndtr

from miaudit.dp.verdict import LowerBound

_NEAR = 2  # places among the numbers of guesses
_STRENGTHS = np.geomspace(0.05, 12.8, 53)  # of Gaussian attacks; the last errs once in 10^10 guesses


def steps(
    counts: tuple[int, ...], canaries: int, bound: Callable[..., LowerBound], confidence: float
) -> tuple[tuple[float, int], ...]:
    """Return (parameter, guesses): from each parameter up, the guesses that serve a perfect Gaussian attack best.

    Uses the number of records and the confidence, never a label or a score. From 100 canaries on it is laid out for the
    next number below with two digits, and scaled: audits of 1,213 and of 1,247 records share the layout of 1,200.
    """
    rounded = _two_digits(canaries)
    scaled = tuple(max(1, round(count * rounded / canaries)) for count in counts)
    whole = dict(zip(scaled, counts, strict=True))
    return tuple((start, whole[count]) for start, count in _laid_out(tuple(whole), rounded, bound, confidence))


def _two_digits(number: int) -> int:
    """Return the largest number of two significant digits that is not above a number."""
    unit = int(10 ** max(0, len(str(number)) - 2))
    return number // unit * unit


@lru_cache(maxsize=64)
def _laid_out(
    counts: tuple[int, ...], canaries: int, bound: Callable[..., LowerBound], confidence: float
) -> tuple[tuple[float, int], ...]:
    def value(correct: int, guesses: int) -> float:
        return bound(correct=correct, guesses=guesses, canaries=max(canaries, guesses), confidence=confidence).value

    plan: list[tuple[float, int]] = []
    near = range(len(counts))
    for mu in _STRENGTHS:
        values = {}
        for count in (counts[place] for place in near):
            values[count] = value(round(count * gaussian_accuracy(float(mu), count / max(canaries, count))), count)
        best = max(values, key=lambda count: values[count])
        if values[best] > 0:  # the best number moves by a few places between strengths
            place = counts.index(best)
            near = range(max(0, place - _NEAR), min(len(counts), place + _NEAR + 1))
        if not plan and values[best] > 0:
            plan.append((0.0, best))
        elif plan and best != plan[-1][1] and values[best] > plan[-1][0]:
            # A step has to end where its guesses, all of them right, still reach: from there nothing could walk on.
            start = min(values[best], value(plan[-1][1], plan[-1][1]))
            if start > plan[-1][0]:
                plan.append((start, best))
            else:
                plan[-1] = (plan[-1][0], best)
    return tuple(plan) or ((0.0, counts[-1]),)


def walk(found: Sequence[tuple[float, LowerBound]]) -> LowerBound:
    """Return the last parameter before the first that its own test does not reject."""
    for i, (start, bound) in enumerate(found):
        end = found[i + 1][0] if i + 1 < len(found) else math.inf
        if bound.value < end:
            return replace(bound, value=max(start, bound.value))
    raise AssertionError("the last step has no end")  # pragma: no cover


def gaussian_accuracy(mu: float, fraction: float) -> float:
    """Share of correct guesses of a perfect attack on mu-GDP among a fraction of the records, the surest.

    A statistic is N(mu/2, 1) for members and N(-mu/2, 1) for non-members; guesses are its sign, sure where it is large.

    Examples
    --------
    >>> round(gaussian_accuracy(0.66, 0.05), 3), round(gaussian_accuracy(1.0, 1.0), 3)
    (0.832, 0.691)
    """
    low, high = 0.0, 12.0 + mu
    for _ in range(60):
        threshold = (low + high) / 2
        if ndtr(mu / 2 - threshold) + ndtr(-mu / 2 - threshold) > fraction:
            low = threshold
        else:
            high = threshold
    right, wrong = ndtr(mu / 2 - low), ndtr(-mu / 2 - low)
    return float(right / (right + wrong))

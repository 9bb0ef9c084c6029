"""Runs with coins of their own and the noise of one: scores of records with equal coins are equal to the last digit."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np

from miaudit.arrays import BoolArray, FloatArray
from miaudit.errors import InputError
from miaudit.evidence import Evidence
from miaudit.metrics.digits import many_digits

__all__ = ["require_own_noise"]

_FEWEST = 20  # equal scores
_SHARE = 0.25  # of all records, where scores have many digits: half are expected of shared noise
_AGREE, _DIFFER = 0.75, 0.25  # of records with equal coins, and with different ones: 1 and 0 are expected


def require_own_noise(runs: Sequence[Evidence]) -> None:
    """Refuse runs that share their noise: far more scores are equal than rounding and saturation explain.

    Only values that no other record has in either run count. Scores that many records share (labels, a confidence of
    1, rounded losses) are equal in honest runs too.

    Parameters
    ----------
    runs : evidence of the same records in each, with one score

    Raises
    ------
    InputError
        It names two runs.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> noise, coins = rng.normal(size=100), rng.random((2, 100)) < 0.5
    >>> runs = [Evidence(score=noise + c, member=c, design="one-run") for c in coins]
    >>> require_own_noise(runs)
    Traceback (most recent call last):
    miaudit.errors.InputError: runs: expected noise of its own in each, received 51 of 100 scores equal in runs 1 and 2; train each run anew, with a seed of its own
    """  # noqa: E501 - the message is one line
    for (i, one), (j, other) in itertools.combinations(enumerate(runs, start=1), 2):
        if one.n != other.n:
            continue
        equal = one.score == other.score
        if np.count_nonzero(equal) < _FEWEST:
            continue
        if equal.all():
            received = f"equal ones in runs {i} and {j}"
            raise InputError("runs", "scores of a model of its own for each", received, "score each run")
        alone = _alone(one.score) & _alone(other.score)
        if _shared(equal, alone, one.member == other.member, bool(np.mean(many_digits(one.score)) > 0.5)):
            received = f"{np.count_nonzero(equal):,} of {one.n:,} scores equal in runs {i} and {j}"
            hint = "train each run anew, with a seed of its own"
            raise InputError("runs", "noise of its own in each", received, hint)


def _shared(equal: BoolArray, alone: BoolArray, same_coin: BoolArray, fine: bool) -> bool:
    """Whether scores (n,) of two runs are equal as shared noise makes them."""
    count = int(np.count_nonzero(equal & alone))
    if count < _FEWEST:
        return False
    if fine and count >= _SHARE * len(equal):
        return True
    agree, differ = (equal[alone & own] for own in (same_coin, ~same_coin))
    return len(differ) >= _FEWEST and agree.mean() >= _AGREE and differ.mean() <= _DIFFER


def _alone(score: FloatArray) -> BoolArray:
    """Which records (n,) have a score that no other record has."""
    place, count = np.unique(score, return_inverse=True, return_counts=True)[1:]
    return np.asarray(count[place] == 1)

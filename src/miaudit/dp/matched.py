"""Lower bounds from the design "matched": which of two strings of one law was trained on was a fair coin.

For each unit one decoy b is drawn, and the true string and decoy b are put in a random order. Given the two strings,
and the other K - 1 decoys, the place of the true string is a fair coin, independent over the units, and the model is a
function of the places: to change a place is to **replace** a string. So every one-run test holds as it is, for
neighbours that differ by the replacement of a record.

A mechanism that is private when a record is **added or removed** is private, with twice the parameter, when one is
replaced. So half of a bound on mu, or on pure epsilon, holds for neighbours by adding or removing. At delta > 0 halving
is wrong: (h, delta) for adding or removing gives (2 h, (1 + e^h) delta) for replacing, and the bound is the largest h
of which that claim is refuted.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from typing import Any

import numpy as np

from miaudit.arrays import BoolArray, FloatArray
from miaudit.dp import one_run
from miaudit.dp.ranked_run import RankedRun
from miaudit.dp.ranking import Ranking
from miaudit.dp.selection import CountBound, Option
from miaudit.dp.verdict import LowerBound, Neighbours, Parameter
from miaudit.errors.checks import check_confidence, check_delta
from miaudit.evidence import Evidence
from miaudit.metrics.matched_scores import Candidates, standardised

__all__ = ["Pairs", "add_or_remove_bound", "bounds", "pairs", "replace_bound"]

SAME_LAW = (
    "each true string was drawn from the same known law as its decoys, independently of the other units and of "
    "everything else in the training, and the scores never use which string is true"
)
_LARGEST_HALF = 300.0  # beyond it e^h is no longer a number to compute with


@dataclass(frozen=True, eq=False)
class Pairs:
    """A true string beside one decoy for each unit, in random order.

    Attributes
    ----------
    score : floats (n,), z of the string in the first place less z of the string in the second
    first : bools (n,), whether the true string is in the first place: fair coins
    """

    score: FloatArray
    first: BoolArray

    def ranked(self, bound: CountBound, rng: np.random.Generator) -> RankedRun:
        """Return the pairs as one run whose coins are fair; nothing is left out."""
        return RankedRun((), bound, len(self.first), tuple(rng.spawn(5)), Ranking.of(self.score), self.first)


def pairs(evidence: Evidence, rng: np.random.Generator) -> Pairs:
    """Draw a decoy for each unit, and the order of the two strings.

    Parameters
    ----------
    evidence : of the design "matched", with one score
    rng : draws decoys and orders
    """
    candidates = Candidates.of(evidence)
    decoys = rng.permuted(candidates.decoys, axis=1)
    inside, outside = standardised(candidates.true, decoys)
    first = rng.random(len(inside)) < 0.5
    ahead = inside[:, 0] - outside[:, 0]
    return Pairs(np.where(first, ahead, -ahead), first)


def bounds(
    evidence: Evidence,
    *,
    delta: float = 1e-5,
    guesses: Option | int | None = None,
    confidence: float = 0.95,
    rng: np.random.Generator,
) -> tuple[LowerBound, LowerBound, LowerBound, LowerBound]:
    """Return lower bounds on mu and epsilon for adding or removing a record, then on both for replacing one.

    Parameters
    ----------
    evidence : of the design "matched", with one score
    delta : float in [0, 1), of the bounds on epsilon
    guesses : as in :func:`miaudit.dp.one_run.audit`
    confidence : float in (0, 1), one-sided, of each bound
    rng : draws decoys, orders and ties; all four bounds are of the same pairs

    Raises
    ------
    DesignError
        For evidence of another design.
    InputError
        For several scores, and for options outside their range.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> evidence = Evidence.matched(true=rng.normal(3.0, size=2_000), decoys=rng.normal(size=(2_000, 20)))
    >>> [f"{b.parameter} {b.changes} {b.value:.2f}" for b in bounds(evidence, rng=rng)]
    ['mu add or remove 0.98', 'epsilon add or remove 2.34', 'mu replace 1.96', 'epsilon replace 5.37']
    """
    check_confidence(confidence)
    chosen = pairs(evidence, rng)
    shared = rng.spawn(1)[0]

    def bound(parameter: Parameter, kind: Any) -> LowerBound:
        run = chosen.ranked(
            kind(parameter, check_delta(delta) if parameter == "epsilon" else 0.0), copy.deepcopy(shared)
        )
        return run.lower_bound(guesses, confidence)

    mu, epsilon = (bound(parameter, replace_bound) for parameter in ("mu", "epsilon"))
    half_mu, half_epsilon = (bound(parameter, add_or_remove_bound) for parameter in ("mu", "epsilon"))
    return half_mu, half_epsilon, mu, epsilon


@lru_cache(maxsize=64)  # one object per delta, so that what is worked out for it beforehand can be remembered
def replace_bound(parameter: Parameter, delta: float = 0.0) -> CountBound:
    """Return the bound from counts of right guesses, for neighbours that differ by the replacement of a record."""
    return partial(_of_replacing, one_run.count_bound(parameter, delta))


@lru_cache(maxsize=64)
def add_or_remove_bound(parameter: Parameter, delta: float = 0.0) -> CountBound:
    """Return the bound from counts of right guesses, for neighbours that differ by adding or removing a record.

    Examples
    --------
    >>> half = add_or_remove_bound("epsilon", 1e-5)(correct=196, guesses=200, canaries=1_000, confidence=0.975)
    >>> whole = replace_bound("epsilon", 1e-5)(correct=196, guesses=200, canaries=1_000, confidence=0.975)
    >>> half.value < whole.value / 2
    True
    """
    if parameter == "mu" or not delta:
        return partial(_half, one_run.count_bound(parameter, delta))
    return partial(_of_epsilon, check_delta(delta))


def _of_replacing(of_counts: CountBound, **counts: Any) -> LowerBound:
    return _about_pairs(of_counts(**counts), "replace-one")


def _half(of_counts: CountBound, **counts: Any) -> LowerBound:
    whole = of_counts(**counts)
    reachable = None if whole.reachable is None else whole.reachable / 2
    halved = replace(whole, value=whole.value / 2, reachable=reachable, method=f"{whole.method}, half of it")
    return _about_pairs(halved, "add-or-remove")


def _of_epsilon(delta: float, *, correct: int, guesses: int, canaries: float, confidence: float) -> LowerBound:
    """The largest h of which (2 h, (1 + e^h) delta) for replacing is refuted."""
    whole = one_run.epsilon_lower_bound(
        correct=correct, guesses=guesses, canaries=canaries, delta=delta, confidence=confidence
    )
    c, r, m = one_run.check_counts(correct, guesses, canaries)
    value, reachable = (_largest_half(right, r, m, delta, 1 - confidence) for right in (c, r))
    p_value = _p_value_of_replacing(0.0, c, r, m, delta)
    method = f"{whole.method} of (2 epsilon, (1 + e^epsilon) delta) for replacing"
    changed = replace(whole, value=value, reachable=reachable, p_value=p_value, method=method)
    return _about_pairs(changed, "add-or-remove")


@lru_cache(maxsize=65_536)
def _largest_half(c: int, r: int, m: int, delta: float, level: float) -> float:
    return one_run.last_rejected(lambda h: _p_value_of_replacing(h, c, r, m, delta) <= level, _LARGEST_HALF)


def _p_value_of_replacing(half: float, c: int, r: int, m: int, delta: float) -> float:
    """Bound on the probability of so many right guesses where adding or removing is (half, delta)-private."""
    wide = (1 + math.exp(half)) * delta
    return 1.0 if wide >= 1 else one_run.epsilon_p_value(2 * half, correct=c, guesses=r, canaries=m, delta=wide)


def _about_pairs(bound: LowerBound, neighbours: Neighbours) -> LowerBound:
    others: Sequence[str] = [text for text in bound.assumptions if text != one_run.FAIR_COINS]
    return replace(bound, neighbours=neighbours, assumptions=(SAME_LAW, *others))

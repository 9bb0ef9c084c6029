"""Thresholds of many runs: fixed beforehand, chosen on a part of the trials, paid for, or labelled exploratory."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import special

from miaudit.arrays import FloatArray
from miaudit.dp.error_counts import Counts, Family, lower_limit, upper_limit
from miaudit.errors import InputError


@dataclass(frozen=True)
class Threshold:
    """A threshold fixed before the scores were seen: a score of at least ``value`` is called a member."""

    value: float

    def __post_init__(self) -> None:
        _require(_is_number(self.value), "threshold", "a finite number", self.value, "it is compared with the scores")


@dataclass(frozen=True)
class Split:
    """The best threshold on a random share of the trials of each class, measured on the others."""

    share: float = 0.5

    def __post_init__(self) -> None:
        inside = _is_number(self.share) and 0.05 <= self.share <= 0.95
        _require(inside, "share", "a number in [0.05, 0.95]", self.share, "0.5 is the default")


@dataclass(frozen=True)
class Bonferroni:
    """Thresholds at fixed quantiles of the non-members' scores, each tested at its share of the error (the default).

    ``quantiles`` in [0, 1]: 0.99 is the threshold that about 1% of the non-members exceed, 1 lies above them all.
    """

    quantiles: tuple[float, ...] = (0.1, 0.3, 0.5, 0.7, 0.9, 0.95, 0.99, 1.0)

    def __post_init__(self) -> None:
        object.__setattr__(self, "quantiles", tuple(self.quantiles))
        inside = bool(self.quantiles) and all(_is_number(q) and 0 <= q <= 1 for q in self.quantiles)
        _require(inside, "quantiles", "numbers in [0, 1]", self.quantiles, "0.99 is an FPR of about 1%")

    def ranks(self, nonmembers: int) -> list[int]:
        """Return how many non-members lie above each threshold, in rising order."""
        return sorted({min(math.floor((1 - q) * nonmembers + 1e-9), nonmembers - 1) for q in self.quantiles})


@dataclass(frozen=True)
class Exploratory:
    """The best of all thresholds, uncorrected: its error is not what it says, and the bound is labelled so."""


ThresholdRule = Threshold | Split | Bonferroni | Exploratory


def check_rule(rule: object) -> ThresholdRule:
    """Return a rule for thresholds, if it is one."""
    if not isinstance(rule, Threshold | Split | Bonferroni | Exploratory):
        allowed = "Bonferroni(), Split(), Threshold(value) or Exploratory()"
        raise InputError("threshold", allowed, repr(rule), "the default is Bonferroni()")
    return rule


def at_threshold(value: float, inside: FloatArray, outside: FloatArray) -> Counts:
    """Count the errors of a threshold."""
    true, false = int(np.count_nonzero(inside >= value)), int(np.count_nonzero(outside >= value))
    return Counts(true, len(inside), false, len(outside))


def best_threshold(inside: FloatArray, outside: FloatArray, family: Family, level: float, scale: float) -> float:
    """Return the threshold with the largest bound to be expected from ``scale`` times as many trials.

    Bounds rise with true and fall with false positives, so the best threshold is a member's score, and the lowest
    among members between whom no non-member lies.
    """
    n1, n0 = len(inside), len(outside)
    values = np.sort(inside)
    false = n0 - np.searchsorted(np.sort(outside), values)
    first = np.r_[True, (values[1:] > values[:-1]) & (false[1:] < false[:-1])]
    values, true, false = values[first], n1 - np.flatnonzero(first), false[first]
    tpr, fpr = (true + 0.5) / (n1 + 1), (false + 0.5) / (n0 + 1)
    lax = float(special.ndtr(special.ndtri(min(level, 0.4)) / math.sqrt(2)))
    low = lower_limit(scale * n1 * tpr, scale * n1, lax)
    high = upper_limit(scale * n0 * fpr, scale * n0, lax)
    expected = family.of_points(low, high)
    return float(values[int(np.argmax(expected))])


def halves(values: FloatArray, share: float, rng: np.random.Generator) -> tuple[FloatArray, FloatArray]:
    """Divide scores at random: a share of them to choose on, and the others."""
    if len(values) < 2:
        allowed = "at least two members and two non-members to split"
        raise InputError("evidence", allowed, "one of a kind", "use Bonferroni() or Threshold(value)")
    size = min(max(round(share * len(values)), 1), len(values) - 1)
    shuffled = rng.permutation(values)
    return shuffled[:size], shuffled[size:]


def above_ranks(
    ranks: Sequence[int], inside: FloatArray, outside: FloatArray, rng: np.random.Generator
) -> list[Counts]:
    """Count members above the (rank + 1)-th largest non-members, ties broken by one coin per record."""
    coins_in, coins_out = rng.random(len(inside)), rng.random(len(outside))
    order = np.lexsort((coins_out, outside))
    found = []
    for rank in ranks:
        place = order[-(rank + 1)]
        above = np.count_nonzero(inside > outside[place])
        level = inside == outside[place]
        tied = np.count_nonzero(coins_in[level] > coins_out[place]) if level.any() else 0
        found.append(Counts(int(above + tied), len(inside), rank, len(outside)))
    return found


def _is_number(value: object) -> bool:
    return isinstance(value, int | float | np.number) and not isinstance(value, bool) and math.isfinite(value)


def _require(condition: bool, argument: str, allowed: str, received: object, next_step: str) -> None:
    if not condition:
        raise InputError(argument, allowed, repr(received), next_step)

"""Kinds of records: groups that one or two conditions on covariates describe, chosen where an effect differs most."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from miaudit.arrays import BoolArray, FloatArray, IndexArray

__all__ = ["Condition", "Covariates", "Kind", "Labelled", "divide"]

FEWEST_OF_A_CLASS = 50  # members, and non-members, of the learning records in a kind
_LEAST_SHARE = 0.05  # of the learning records of a class
_MOST_CONDITIONS = 600  # whose pairs are tried: a product of matrices of this size
_MOST_CUTS = 15  # of one covariate
_MOST_LEVELS = 20  # of one category
_GAPS = " missing"  # as evidence names the column of missing values

LevelName = Callable[[str, float], str]


@dataclass(frozen=True, eq=False)
class Covariates:
    """Covariates (n, d) with their names; those at ``categories`` are codes whose order says nothing."""

    values: FloatArray
    names: tuple[str, ...]
    categories: frozenset[int] = frozenset()

    def take(self, rows: BoolArray) -> Covariates:
        """Return some rows, given as a mask (n,)."""
        return Covariates(self.values[rows], self.names, self.categories)


@dataclass(frozen=True)
class Condition:
    """What one covariate of a record has to be: above or at most a value, or at a level or at another one.

    ``cut`` is the value or the level.
    """

    covariate: str
    relation: Literal["above", "at most", "=", "other than"]
    cut: float

    def holds(self, values: FloatArray) -> BoolArray:
        """Say of each value (n,) of the covariate whether the condition holds.

        Examples
        --------
        >>> Condition("age", "above", 63.0).holds(np.array([63.0, 64.0])).tolist()
        [False, True]
        """
        match self.relation:
            case "above":
                return np.asarray(values > self.cut)
            case "at most":
                return np.asarray(values <= self.cut)
            case "=":
                return np.asarray(values == self.cut)
            case _:
                return np.asarray(values != self.cut)

    @property
    def opposite(self) -> Condition:
        """The condition that holds where this one does not."""
        pairs: Mapping[str, Literal["above", "at most", "=", "other than"]]
        pairs = {"above": "at most", "at most": "above", "=": "other than", "other than": "="}
        return Condition(self.covariate, pairs[self.relation], self.cut)

    def in_words(self, level_name: LevelName) -> str:
        """Write the condition, with what the file calls a level."""
        if self.relation in ("above", "at most"):
            return f"{self.covariate} {self.relation} {_number(self.cut)}"
        if self.covariate.endswith(_GAPS) and self.cut in (0.0, 1.0):
            missing = (self.cut == 1.0) == (self.relation == "=")
            return f"{self.covariate.removesuffix(_GAPS)} {'missing' if missing else 'not missing'}"
        return f"{self.covariate} {self.relation} {level_name(self.covariate, self.cut)}"


@dataclass(frozen=True)
class Kind:
    """Records for which one or two conditions hold, and the effect that the learning records predict for them.

    ``predicted`` is the mean effect of membership on a record's percentile, from -1 to 1.
    """

    conditions: tuple[Condition, ...]
    predicted: float

    def rows(self, covariates: Covariates) -> BoolArray:
        """Say of each record (n,) whether it is of this kind."""
        chosen = np.ones(len(covariates.values), dtype=np.bool_)
        for one in self.conditions:
            chosen &= one.holds(covariates.values[:, covariates.names.index(one.covariate)])
        return chosen

    def in_words(self, level_name: LevelName) -> str:
        """Write the kind as a phrase, such as "age above 63 and visits at most 3"."""
        return " and ".join(one.in_words(level_name) for one in _without_repetition(self.conditions))


@dataclass(frozen=True, eq=False)
class Labelled:
    """What the learning records say of an effect: outcomes (n,) less their mean, memberships and propensities (n,)."""

    outcome: FloatArray
    member: BoolArray
    propensity: FloatArray

    @property
    def sums(self) -> FloatArray:
        """Terms (4, n): product of residuals, square of the residual membership, members, non-members.

        The ratio of the sums of the first two is the effect in any set of records, weighted by how well it can be seen
        (the residual-on-residual regression of Robinson 1988 and of Nie and Wager 2021).
        """
        residual = self.member - self.propensity
        middle = float(residual @ self.outcome / max(float(residual @ residual), 1e-12))
        product = residual * (self.outcome - self.propensity * middle)
        return np.stack([product, residual**2, self.member.astype(float), (~self.member).astype(float)])


def divide(covariates: Covariates, labelled: Labelled) -> tuple[Kind, ...]:
    """Divide records into at most four kinds whose effects differ most, by one condition and one more on each side.

    Every pair of conditions is tried, so an effect that only a product of two covariates shows is seen as well. Each
    kind has at least 50 members and 50 non-members, and one in twenty of each class. A second condition has to explain
    more than chance does.

    Returns
    -------
    tuple of Kind, from the largest predicted effect to the smallest; one kind without conditions where the covariates
    allow no division

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> x, member = rng.normal(size=(2000, 2)), rng.random(2000) < 0.5
    >>> outcome = rng.normal(size=2000) + 2.0 * member * (x[:, 0] > 1)
    >>> kinds = divide(Covariates(x, ("age", "visits")), Labelled(outcome, member, np.full(2000, 0.5)))
    >>> kinds[0].conditions[0].covariate, kinds[0].predicted > 1
    ('age', True)
    """
    sums = labelled.sums
    fewest = np.maximum(FEWEST_OF_A_CLASS, _LEAST_SHARE * sums[2:].sum(axis=1))
    conditions = _conditions(covariates)
    if not conditions:
        return (Kind((), _effect(sums.sum(axis=1))),)
    columns = [covariates.names.index(one.covariate) for one in conditions]
    holds = np.stack([c.holds(covariates.values[:, k]) for c, k in zip(conditions, columns, strict=True)], axis=1)
    inside = holds.astype(np.float64)
    total = sums.sum(axis=1)
    gain = _gain(sums @ inside, total, fewest)
    if not np.isfinite(gain).any():
        return (Kind((), _effect(total)),)
    if len(conditions) > _MOST_CONDITIONS:
        best = np.sort(np.argsort(-gain, kind="stable")[:_MOST_CONDITIONS])
        conditions, inside, gain = [conditions[i] for i in best], inside[:, best], gain[best]
    return _best(conditions, inside, sums, fewest, gain)


def _best(
    conditions: Sequence[Condition], inside: FloatArray, sums: FloatArray, fewest: FloatArray, gain: FloatArray
) -> tuple[Kind, ...]:
    """Choose the first condition and one for each side of it by what all together gain."""
    once = sums @ inside
    both = np.stack([inside.T @ (term[:, None] * inside) for term in sums])  # of each pair, first by second
    by_chance = _by_chance(sums, len(conditions))
    where, gain_where = _second(both, once, fewest, by_chance)
    elsewhere, gain_elsewhere = _second(once[:, None, :] - both, sums.sum(axis=1)[:, None] - once, fewest, by_chance)
    first = int(np.argmax(gain + gain_where + gain_elsewhere))
    rows = inside[:, first] > 0
    sides = ((conditions[first], rows, where[first]), (conditions[first].opposite, ~rows, elsewhere[first]))
    kinds: list[Kind] = []
    for one, of_side, second in sides:
        further = () if second < 0 else ((conditions[second], inside[:, second] > 0),)
        kinds += _parts(one, of_side, further, sums)
    return tuple(sorted(kinds, key=lambda kind: -kind.predicted))


def _parts(
    condition: Condition, rows: BoolArray, further: Sequence[tuple[Condition, BoolArray]], sums: FloatArray
) -> Iterator[Kind]:
    """Yield one side of the first condition, or its two parts by a further condition with the rows where it holds."""
    if not further:
        yield Kind((condition,), _effect(sums[:, rows].sum(axis=1)))
    for second, holds in further:
        yield Kind((condition, second), _effect(sums[:, rows & holds].sum(axis=1)))
        yield Kind((condition, second.opposite), _effect(sums[:, rows & ~holds].sum(axis=1)))


def _by_chance(sums: FloatArray, count: int) -> float:
    """Return about what the best of several conditions explains where nothing differs: twice log(count) of the noise.

    A second condition that explains no more is left out. It would give small groups that say little: with it, a step
    that is found in 1.00 of worlds with 2,000 records was found in .78, and a line in .30 in place of .55.
    """
    return 2 * math.log(count) * float((sums[0] ** 2).sum() / sums[1].sum())


def _second(both: FloatArray, side: FloatArray, fewest: FloatArray, by_chance: float) -> tuple[IndexArray, FloatArray]:
    """Return the best second condition on one side of each first one (c,), -1 for none, and what it gains (c,).

    A gain counts as far as it exceeds what chance gives.
    """
    gain = _gain(both, side[:, :, None], fewest)
    best = np.argmax(gain, axis=1)
    added = np.take_along_axis(gain, best[:, None], axis=1)[:, 0] - by_chance
    return np.where(added > 0, best, -1), np.maximum(added, 0.0)


def _gain(part: FloatArray, whole: FloatArray, fewest: FloatArray) -> FloatArray:
    """Return what dividing sums (4, ...) into two parts explains; minus infinity where one has too few of a class."""
    whole = whole.reshape(whole.shape + (1,) * (part.ndim - whole.ndim))
    rest = whole - part
    least = fewest.reshape((2,) + (1,) * (part.ndim - 1))
    enough = (part[2:] >= least).all(axis=0) & (rest[2:] >= least).all(axis=0)
    explained = _explained(part) + _explained(rest) - _explained(whole)
    return np.where(enough, explained, -np.inf)


def _explained(sums: FloatArray) -> FloatArray:
    return np.asarray(sums[0] ** 2 / np.maximum(sums[1], 1e-9))


def _effect(sums: FloatArray) -> float:
    return float(sums[0] / max(float(sums[1]), 1e-9))


def _conditions(covariates: Covariates) -> list[Condition]:
    """Return a condition for each cut of an amount, and for each level of a category or of a column of two values."""
    conditions: list[Condition] = []
    for column, name in enumerate(covariates.names):
        values = covariates.values[:, column]
        levels, counts = np.unique(values, return_counts=True)
        if len(levels) == 2:
            conditions.append(Condition(name, "=", float(levels[1])))
        elif column in covariates.categories:
            common = levels[np.argsort(-counts, kind="stable")[:_MOST_LEVELS]]
            conditions += [Condition(name, "=", float(level)) for level in common]
        elif len(levels) > 2:
            conditions += [Condition(name, "at most", cut) for cut in _cuts(values, levels)]
    return conditions


def _cuts(values: FloatArray, levels: FloatArray) -> list[float]:
    """Return values that divide a column at its quantiles, each the shortest number between two of its values."""
    wanted = np.quantile(values, np.arange(1, _MOST_CUTS + 1) / (_MOST_CUTS + 1))
    below = np.unique(np.searchsorted(levels, wanted, side="right") - 1)
    return [_between(float(levels[i]), float(levels[i + 1])) for i in below.tolist() if 0 <= i < len(levels) - 1]


def _between(low: float, high: float) -> float:
    """Return the number with the fewest digits from ``low`` on and below ``high``.

    Examples
    --------
    >>> _between(62.83, 63.21), _between(4.0, 5.0), _between(-0.0231, -0.0228)
    (63.0, 4.0, -0.023)
    """
    start = -math.floor(math.log10(max(high - low, 1e-300)))
    for digits in range(start - 1, start + 18):
        rounded = math.ceil(low * 10.0**digits - 1e-9) / 10.0**digits
        if low <= rounded < high:
            return rounded
    return low


def _number(value: float) -> str:
    return f"{value:.0f}" if float(value).is_integer() and abs(value) < 1e15 else f"{value:.6g}"


def _without_repetition(conditions: Sequence[Condition]) -> list[Condition]:
    """Leave out a condition that another one of the same covariate implies."""
    left: list[Condition] = []
    for one in conditions:
        same = [other for other in conditions if other.covariate == one.covariate and other != one]
        implied = any(
            (other.relation == "=" and one.relation == "other than")
            or (other.relation == one.relation == "above" and other.cut > one.cut)
            or (other.relation == one.relation == "at most" and other.cut < one.cut)
            for other in same
        )
        if not implied:
            left.append(one)
    return left

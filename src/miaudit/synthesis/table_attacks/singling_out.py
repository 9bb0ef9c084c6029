"""Singling out: predicates from the synthetic table that are true of exactly one record.

"The only person with this job, of this age and in this region" names somebody. Predicates are learned from the
synthetic table alone (Giomi et al., PETS 2023, section 5.1; Cohen and Nissim 2020) and then put to the members and to
as many control records: a table that gives nothing away isolates as many of the one as of the other.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from scipy import special

from miaudit.arrays import BoolArray, FloatArray, IntArray
from miaudit.errors import InputError
from miaudit.metrics.classical import Estimate
from miaudit.metrics.trials import one_of_each
from miaudit.metrics.units import Units
from miaudit.synthesis.schema import Column, Table, check_alike
from miaudit.synthesis.table_attacks.success_rates import Comparison, Rate, compare
from miaudit.synthesis.table_attacks.suggested_conditions import Condition, Suggested

Mode = Literal["univariate", "multivariate"]

_TRIES = 100  # draws for each multivariate predicate that is wanted
_FEWEST_AT_ONCE, _AT_ONCE = 64, 1 << 29  # draws, and pairs of a condition and a record (64 MB of bits)
_MOST_COLUMNS = 8


@dataclass(frozen=True)
class Predicate:
    """Conjunction of conditions."""

    conditions: tuple[Condition, ...]

    def text(self, columns: Sequence[Column]) -> str:
        """Return the predicate in words, with the columns of the schema."""
        return " and ".join(_text(condition, columns[condition.column]) for condition in self.conditions)


@dataclass(frozen=True, eq=False)
class Index:
    """A table sorted by each column, for a fast search of matching rows.

    Attributes
    ----------
    columns : array (d, n), the values
    order : array (d, n) of int, rows by ascending value of each column, those without one last
    ordered : array (d, n), the values in that order
    known : array (d,) of int, rows with a value

    Examples
    --------
    >>> from miaudit.synthesis.schema import Column, Schema
    >>> table = Table(Schema((Column("a"), Column("b", "continuous", low=0, high=9))), [[0, 5], [1, 5], [1, 7]])
    >>> Index.of(table).matches(Predicate((Condition(0, "=", 1), Condition(1, "<=", 5)))).tolist()
    [1]
    """

    columns: FloatArray
    order: IntArray
    ordered: FloatArray
    known: IntArray

    @classmethod
    def of(cls, table: Table) -> Index:
        """Sort the table; O(d n log n)."""
        columns = np.ascontiguousarray(table.values.T)
        order = np.argsort(columns, axis=1, kind="stable")
        known = (~np.isnan(columns)).sum(axis=1)
        return cls(columns, order, np.take_along_axis(columns, order, axis=1), known)

    def matches(self, predicate: Predicate) -> IntArray:
        """Return the matching rows of a predicate, in no particular order."""
        spans = [self._span(condition) for condition in predicate.conditions]
        best = min(range(len(spans)), key=lambda i: spans[i][1] - spans[i][0])
        first, last = spans[best]
        rows = self.order[predicate.conditions[best].column, first:last]
        for i, condition in enumerate(predicate.conditions):
            if i != best and len(rows):
                rows = rows[condition.holds(self.columns[condition.column, rows])]
        return rows

    def _span(self, condition: Condition) -> tuple[int, int]:
        """Return the range of matching rows in the order of a condition's column."""
        j, known = condition.column, int(self.known[condition.column])
        if condition.operator == "missing":
            return known, self.order.shape[1]
        values = self.ordered[j, :known]
        left = int(np.searchsorted(values, condition.value, "left"))
        right = int(np.searchsorted(values, condition.value, "right"))
        return {"=": (left, right), "<=": (0, right), ">=": (left, known)}[condition.operator]


@dataclass(frozen=True, eq=False)
class SinglingOut:
    """Results of the predicates of one mode.

    Attributes
    ----------
    comparison : predicates that single out a member, against those that single out a record of as many controls
    predicates : the learned predicates, all of which were put to the records
    score : array (n1 + n0,); for each member and then each control record the number of predicates that are true of it
        and of no other of all these records (of no record of another unit). Which are members plays no part in it
    """

    comparison: Comparison
    predicates: tuple[Predicate, ...]
    score: FloatArray


def singling_out(
    synthetic: Table,
    members: Table,
    control: Table,
    *,
    mode: Mode = "multivariate",
    attempts: int = 2000,
    columns: int = 6,
    confidence: float = 0.95,
    units: Units | None = None,
    rng: np.random.Generator,
) -> SinglingOut:
    """Learn predicates from the synthetic table and count the records that they single out.

    Parameters
    ----------
    synthetic, members, control : tables with one schema
    mode : "univariate" (extremes and unique values of one column) or "multivariate" (several columns that together are
        true of exactly one synthetic record)
    attempts : predicates that are put to the records; fewer where the table hardly suggests as many
    columns : of a multivariate predicate, 2 or more
    confidence, units : as in :func:`miaudit.synthesis.table_attacks.inference.attribute_inference`
    rng : chooses predicates, and as many of the larger class as the smaller one has

    Raises
    ------
    InputError
        For tables with different schemas or without rows, an unknown mode, or fewer than 2 columns.

    Notes
    -----
    A predicate isolates more or fewer records as the population grows, so members and controls are compared in equal
    numbers. Predicates overlap, hence their outcomes are not independent: the interval of the difference is the wider
    of Newcombe's over predicates and the jackknife's over records. With units one record of each, drawn at random, is
    put to the predicates: these are independent, and a household of equal records can be singled out.

    Examples
    --------
    >>> from miaudit.synthesis.schema import Column, Schema
    >>> rng = np.random.default_rng(0)
    >>> schema = Schema(tuple(Column(name, "continuous", low=-9, high=9) for name in "abcd"))
    >>> draw = lambda n: Table(schema, rng.normal(size=(n, 4)))
    >>> members, control, independent = draw(500), draw(500), draw(500)
    >>> result = singling_out(members, members, control, mode="univariate", rng=rng)  # "synthetic": the real ones
    >>> result.comparison.members.value, result.comparison.control.value < 0.01, result.comparison.leaks
    (1.0, True, True)
    >>> singling_out(independent, members, control, rng=rng).comparison.leaks
    False
    """
    check_alike(synthetic=synthetic, members=members, control=control)
    _check(mode, attempts, columns)
    learn, draw = rng.spawn(2)
    learned = (
        _univariate(synthetic, attempts, learn)
        if mode == "univariate"
        else _multivariate(synthetic, attempts, columns, learn)
    )
    everyone = Table(synthetic.schema, np.concatenate([members.values, control.values]))
    population = _population(units, len(members), len(control), draw)
    tally = _Tally.of(learned, everyone, population, len(members), None if units is None else units.code)
    name, size = f"singling out, {mode}", np.count_nonzero(population) // 2
    if not learned or not size:
        why = "the synthetic table suggests no predicate" if size else "every unit holds records of both classes"
        return SinglingOut(_no_comparison(name, why, confidence), (), tally.score)
    note = f"{len(learned):,} predicates, put to {size:,} members and as many control records"
    note += f" ({attempts:,} were wanted; the table suggests no more)" if len(learned) < attempts else ""
    note += "" if units is None else ", one of each unit"
    return SinglingOut(tally.comparison(name, confidence, note), tuple(learned), tally.score)


def _no_comparison(name: str, why: str, confidence: float) -> Comparison:
    """Return the comparison of predicates that could not be made."""
    nothing, unknown = Rate.counted(0, 0, confidence), Estimate(None, -1.0, 1.0, confidence, why)
    return Comparison(name, nothing, nothing, unknown, unknown, None, note=why)


def _population(units: Units | None, n1: int, n0: int, rng: np.random.Generator) -> BoolArray:
    """Choose (n1 + n0,) as many members as control records to which predicates are put; of each unit one at most."""
    inside, outside = np.arange(n1), np.arange(n1, n1 + n0)
    if units is not None:
        alone = one_of_each(units.code, rng)
        inside, outside = alone[alone < n1], alone[alone >= n1]
    size = min(len(inside), len(outside))
    population = np.zeros(n1 + n0, dtype=np.bool_)
    for rows in (inside, outside):
        population[rows[rng.permutation(len(rows))[:size]]] = True
    return population


# -- predicates from the synthetic table ------------------------------------------------------------------------------


def _univariate(synthetic: Table, attempts: int, rng: np.random.Generator) -> list[Predicate]:
    """Return predicates on one column: extremes, values that occur once, single missing values."""
    conditions = []
    for j, column in enumerate(synthetic.schema.columns):
        values = synthetic.values[:, j]
        missing = np.isnan(values)
        if np.count_nonzero(missing) == 1:
            conditions.append(Condition(j, "missing", math.nan))
        known, counts = np.unique(values[~missing], return_counts=True)
        if len(known) and column.kind in ("continuous", "ordinal"):
            conditions += [Condition(j, "<=", float(known[0])), Condition(j, ">=", float(known[-1]))]
        conditions += [Condition(j, "=", float(value)) for value in known[counts == 1]]
    order = rng.permutation(len(conditions))[:attempts]
    return [Predicate((conditions[i],)) for i in order]


def _multivariate(synthetic: Table, attempts: int, columns: int, rng: np.random.Generator) -> list[Predicate]:
    """Return predicates on some columns of a synthetic record, each true of that record alone."""
    suggested = Suggested.of(synthetic)
    n, d = suggested.number.shape
    width, tries = min(columns, d), _TRIES * attempts
    size = max(_FEWEST_AT_ONCE, min(_AT_ONCE // (n * width), attempts))
    seen: dict[tuple[int, ...], bool] = {}
    for _ in range(-(-tries // size)):
        rows = rng.integers(n, size=(size, 1))
        chosen = np.sort(rng.permuted(np.tile(np.arange(d), (size, 1)), axis=1)[:, :width], axis=1)
        tried = dict.fromkeys(map(tuple, suggested.number[rows, chosen].tolist()))
        new = [one for one in tried if one not in seen]
        if not new:
            break  # the table hardly suggests any more
        seen.update(zip(new, suggested.single(np.array(new)).tolist(), strict=True))
        if sum(seen.values()) >= attempts:
            break
    alone = [one for one, single in seen.items() if single]
    return [Predicate(suggested.conditions(np.array(one))) for one in alone[:attempts]]


# -- what they single out ---------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class _Tally:
    """Outcomes of the predicates, and each record's contribution.

    ``inside`` and ``outside`` say of each predicate (q,) whether it singles out one of the members and of the control
    records in the ``population``; ``effect`` (n,) is what the rate of its class would change by, times q, without a
    record.
    """

    inside: BoolArray
    outside: BoolArray
    effect: FloatArray
    is_member: BoolArray
    population: BoolArray
    score: FloatArray

    @classmethod
    def of(
        cls,
        predicates: Sequence[Predicate],
        everyone: Table,
        population: BoolArray,
        n1: int,
        units: IntArray | None,
    ) -> _Tally:
        n = len(everyone)
        code = np.arange(n) if units is None else units
        is_member = np.arange(n) < n1
        effect, score = np.zeros(n), np.zeros(n)
        outcomes = np.zeros((2, len(predicates)), dtype=np.bool_)
        index, largest = Index.of(everyone), int(np.bincount(code).max())
        for q, predicate in enumerate(predicates):
            rows = index.matches(predicate)
            if 0 < len(rows) <= largest and (code[rows] == code[rows[0]]).all():
                score[rows] += 1
            rows = rows[population[rows]]
            for k, part in enumerate((rows[is_member[rows]], rows[~is_member[rows]])):
                outcomes[k, q] = len(part) == 1
                if len(part) in (1, 2):  # without it none is left, or one alone
                    effect[part] += -1 if len(part) == 1 else 1
        return cls(outcomes[0], outcomes[1], effect, is_member, population, score)

    def comparison(self, name: str, confidence: float, note: str) -> Comparison:
        """Return rates with intervals that account for overlapping predicates."""
        plain = compare(name, self.inside, self.outside, confidence=confidence, note=note)
        variance = sum(self._jackknife(self.population & part) for part in (self.is_member, ~self.is_member))

        def at(level: float) -> Estimate:
            interval = plain.difference if plain.at is None else plain.at(level)
            half = float(special.ndtri((1 + level) / 2)) * math.sqrt(variance)
            middle = interval.value or 0.0
            low, high = max(min(interval.low, middle - half), -1.0), min(max(interval.high, middle + half), 1.0)
            return Estimate(middle, low, high, level)

        difference = at(confidence)
        value, low, high = difference.value or 0.0, difference.low, difference.high
        room = 1 - plain.control.value
        risk = (
            Estimate(value / room, low / room, min(high / room, 1.0), confidence)
            if room > 0
            else Estimate(None, -math.inf, 1.0, confidence, "every predicate singles out a control record too")
        )
        return replace(plain, difference=difference, risk=risk, at=at)

    def _jackknife(self, rows: BoolArray) -> float:
        """Return the jackknife variance of one class's rate over records."""
        changes = self.effect[rows] / len(self.inside)
        n = len(changes)
        return float(((changes - changes.mean()) ** 2).sum()) * (n - 1) / n


def _text(condition: Condition, column: Column) -> str:
    if condition.operator == "missing":
        return f"{column.name} is missing"
    value = f"{condition.value:g}" if column.kind == "continuous" else str(column.categories[int(condition.value)])
    return f"{column.name} {condition.operator} {value}"


def _check(mode: str, attempts: int, columns: int) -> None:
    if mode not in ("univariate", "multivariate"):
        raise InputError("mode", "'univariate' or 'multivariate'", repr(mode), "multivariate is the default")
    if attempts < 1:
        raise InputError("attempts", "1 or more predicates", str(attempts), "2000 is the default")
    if not 2 <= columns <= max(_MOST_COLUMNS, 2):
        raise InputError("columns", f"2 to {_MOST_COLUMNS} columns of a predicate", str(columns), "6 is the default")

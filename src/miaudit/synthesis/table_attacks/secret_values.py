"""Inference of a secret by the value of the secret: a rare value can leak where the average shows nothing.

Of a secret that 99 of 100 people do not have, nearly all guesses are right, for members and strangers alike. What
matters is how often the hundredth is found. The values are compared each by itself and only inform.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from miaudit.arrays import BoolArray, FloatArray
from miaudit.findings import table as table_findings
from miaudit.metrics.units import Units
from miaudit.synthesis.schema import Column, Table
from miaudit.synthesis.table_attacks.inference import Inference, Outcome
from miaudit.synthesis.table_attacks.success_rates import Comparison, compare

__all__ = ["OfValue", "by_value"]

_FEWEST = 20  # attacked records with a value; those with rarer ones are compared together
_MOST = 30  # values of a secret, the most frequent ones; the others are compared together
_PARTS = 5  # ranges of a number, with equal numbers of synthetic records
_OTHERS = "rarer values together"


@dataclass(frozen=True, eq=False)
class OfValue:
    """The guesses about the records that have one value of a secret, or one of a range of values."""

    secret: str
    value: str
    comparison: Comparison

    def shown(self) -> table_findings.SecretValue:
        """Return the plain values for the findings."""
        one, difference = self.comparison, self.comparison.difference
        return table_findings.SecretValue(
            self.secret,
            self.value,
            one.members.shown(),
            one.control.shown(),
            difference.value or 0.0,
            difference.low,
            difference.high,
            one.detectable,
        )


def by_value(
    inferred: Inference,
    synthetic: Table,
    pool: Table,
    members: int,
    secrets: Sequence[str],
    confidence: float,
    units: Units | None = None,
) -> tuple[OfValue, ...]:
    """Compare the guesses about members with those about control records for each value of each secret.

    Parameters
    ----------
    inferred : the guesses about the records of the pool
    synthetic : Table, which the ranges of numbers are taken from
    pool : Table (n rows) of attacked members and then control records
    members : number of attacked members
    secrets : names of the secrets
    confidence : of all intervals of a secret together (Bonferroni)
    units : of the n records, where several are of one unit

    Examples
    --------
    >>> from miaudit.synthesis.schema import Schema
    >>> from miaudit.synthesis.table_attacks.inference import attribute_inference
    >>> rng = np.random.default_rng(0)
    >>> schema = Schema((Column("age", "continuous", low=-9, high=9), Column("ill"), Column("sex")))
    >>> draw = lambda n: Table(schema, np.c_[rng.normal(size=n), rng.random(n) < 0.05, rng.random(n) < 0.5])
    >>> members, control = draw(2000), draw(2000)
    >>> inferred = attribute_inference(members, members, control, secrets=["ill"], rng=rng)  # the table is the members
    >>> pool = Table(schema, np.r_[members.values, control.values])
    >>> [(one.value, round(one.comparison.difference.value, 2)) for one in
    ...  by_value(inferred, members, pool, 2000, ["ill"], 0.95)]
    [('0', 0.05), ('1', 0.99)]
    """
    compared: list[OfValue] = []
    for outcome in inferred.outcomes:
        if outcome.secret in secrets:
            column = pool.schema.column(outcome.secret)
            groups = list(_groups(column, synthetic.column(column.name), pool.column(column.name)))
            compared += _compared(outcome, groups, members, confidence, units)
    return tuple(compared)


def _compared(
    outcome: Outcome, groups: Sequence[tuple[str, BoolArray]], members: int, confidence: float, units: Units | None
) -> Iterator[OfValue]:
    each = 1 - (1 - confidence) / max(len(groups), 1)
    for value, rows in groups:
        inside, outside = outcome.right[:members][rows[:members]], outcome.right[members:][rows[members:]]
        if len(inside) and len(outside):
            own = None if units is None else units.take(rows)
            yield OfValue(
                outcome.secret,
                value,
                compare(f"{outcome.secret}: {value}", inside, outside, confidence=each, units=own),
            )


def _groups(column: Column, released: FloatArray, pool: FloatArray) -> Iterator[tuple[str, BoolArray]]:
    """Yield values, or ranges of them, and which records (n,) have them; by the pool, never by who is a member."""
    if column.kind == "continuous":
        known = released[~np.isnan(released)]
        edges = np.unique(np.quantile(known, np.linspace(0, 1, _PARTS + 1)[1:-1])) if len(known) else np.empty(0)
        part = np.where(np.isnan(pool), -1, np.searchsorted(edges, pool))
        names = _ranges(edges)
    else:
        part = np.nan_to_num(pool, nan=-1.0).astype(np.int64)
        names = [str(category) for category in column.categories]
    counts = np.bincount(part[part >= 0], minlength=len(names))
    order = [code for code in np.argsort(-counts, kind="stable").tolist() if counts[code]]
    alone = [code for code in order[:_MOST] if counts[code] >= _FEWEST]
    for code in alone:
        yield names[code], part == code
    others = np.isin(part, [code for code in order if code not in alone])
    if others.any():
        yield _OTHERS, others


def _ranges(edges: FloatArray) -> list[str]:
    """Name the ranges between edges (k,): k + 1 of them, each with its upper end."""
    ends = [f"{edge:.6g}" for edge in edges]
    if not ends:
        return ["all"]
    between = [f"above {low} to {high}" for low, high in pairwise(ends)]
    return [f"up to {ends[0]}", *between, f"above {ends[-1]}"]

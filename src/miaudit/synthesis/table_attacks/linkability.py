"""Linkability: two parts of one record joined through the synthetic table.

One party knows some columns of a record, another knows others. Each looks up the synthetic records nearest to what it
knows; if they find the same one, they take their two records for one person (Giomi et al., PETS 2023, section 5.2).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from miaudit.arrays import FloatArray, IntArray
from miaudit.errors import InputError
from miaudit.metrics.units import Units
from miaudit.synthesis.schema import Schema, Table
from miaudit.synthesis.table_attacks.closest_record import Metric, nearest_in_groups
from miaudit.synthesis.table_attacks.success_rates import Comparison, Rate, compare


@dataclass(frozen=True, eq=False)
class Linkability:
    """Linked records, members against control records.

    Attributes
    ----------
    comparison : records whose two parts share one of the ``k`` nearest synthetic records
    parts : the names of the columns of the two parties
    k : neighbours that a party looks at
    score : array (n1 + n0,), members first; minus the number of neighbours at which the parts are linked, from -1
        (the nearest of both is the same) to -(k + 1) (none of k is)
    """

    comparison: Comparison
    parts: tuple[tuple[str, ...], tuple[str, ...]]
    k: int
    score: FloatArray


def linkability(
    synthetic: Table,
    members: Table,
    control: Table,
    *,
    parts: tuple[Sequence[str], Sequence[str]] | None = None,
    k: int = 10,
    metric: Metric | None = None,
    confidence: float = 0.95,
    units: Units | None = None,
    rng: np.random.Generator,
) -> Linkability:
    """Find the nearest synthetic records of both parts of each record, and compare them.

    Parameters
    ----------
    synthetic, members, control : tables with one schema
    parts : names of the columns that each party knows; default a random half of the columns each
    k : neighbours, at most the rows of the synthetic table
    metric, confidence, units : as in :func:`miaudit.synthesis.table_attacks.inference.attribute_inference`
    rng : breaks ties among equally near synthetic records, for each party on its own, and draws default parts

    Raises
    ------
    InputError
        For unknown, shared or no columns, k out of range, or tables with different schemas.

    Notes
    -----
    ``by_chance`` is what two parties that pick k synthetic records blindly would reach.

    Examples
    --------
    >>> from miaudit.synthesis.schema import Column
    >>> rng = np.random.default_rng(0)
    >>> schema = Schema(tuple(Column(name, "continuous", low=-9, high=9) for name in "abcd"))
    >>> draw = lambda n: Table(schema, rng.normal(size=(n, 4)))
    >>> members, control = draw(300), draw(300)
    >>> result = linkability(members, members, control, k=1, rng=rng)  # the "synthetic" table is the real one
    >>> result.comparison.members.value, result.comparison.control.value < 0.1
    (1.0, True)
    """
    positions = _positions(synthetic.schema, parts, rng)
    metric = metric or Metric.of(control)
    everyone = Table(synthetic.schema, np.concatenate([members.values, control.values]))
    left, right = nearest_in_groups(metric, everyone, synthetic, positions, k=k, rng=rng)
    linked_at = _linked_at(left.index, right.index)
    linked = linked_at <= k
    n1 = len(members)
    names = tuple(tuple(synthetic.schema.names[j] for j in part) for part in positions)
    comparison = compare(
        "linkability",
        linked[:n1],
        linked[n1:],
        confidence=confidence,
        by_chance=Rate.counted(round(_blind(k, len(synthetic)) * len(everyone)), len(everyone), confidence),
        note=f"{_listed(names[0])} against {_listed(names[1])}; one of {k} nearest synthetic records in common",
        units=units,
    )
    return Linkability(comparison, (names[0], names[1]), k, -linked_at.astype(np.float64))


def _blind(k: int, synthetic: int) -> float:
    """Return the chance that two parties that pick k of the synthetic records blindly have one in common."""
    return float(1 - np.prod(1 - k / (synthetic - np.arange(k)))) if synthetic >= 2 * k else 1.0


def _linked_at(left: IntArray, right: IntArray) -> IntArray:
    """Return the smallest number of neighbours at which two rankings (n, k) meet; k + 1 if none."""
    n, k = left.shape
    ranks = np.full(n, k + 1, dtype=np.int64)
    for i in range(k):
        for j in range(k):
            np.minimum(ranks, np.where(left[:, i] == right[:, j], max(i, j) + 1, k + 1), out=ranks)
    return ranks


def _positions(
    schema: Schema, parts: tuple[Sequence[str], Sequence[str]] | None, rng: np.random.Generator
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    if parts is None:
        d = len(schema)
        if d < 2:
            raise InputError("parts", "a table with two columns or more", f"{d}", "leave linkability out")
        order = [int(j) for j in rng.permutation(d)]
        return tuple(sorted(order[: d // 2])), tuple(sorted(order[d // 2 :]))
    if isinstance(parts, str) or len(parts) != 2 or not all(parts):
        raise InputError("parts", "two lists of columns", repr(parts)[:60], "write (['age', 'sex'], ['income'])")
    left, right = (tuple(schema.position(name) for name in part) for part in parts)
    shared = set(left) & set(right)
    if shared:
        raise InputError("parts", "columns that the parties do not share", schema.names[min(shared)], "list each once")
    return left, right


def _listed(names: Sequence[str], most: int = 4) -> str:
    shown = ", ".join(names[:most])
    return shown if len(names) <= most else f"{shown} and {len(names) - most} more"

"""Positive control of a table audit: copies of one per cent of the "members", planted where labels mean nothing.

The copies are planted as they are, and once more with one cell changed.

An audit that would not see copied members must not reassure. Planted beside the true labels, what the table itself
gives away helps to pass this test. So the labels are permuted first: then only the planted copies set the two sides
apart, and the control measures the power of the comparison.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy import special

from miaudit.arrays import BoolArray, FloatArray, IntArray
from miaudit.findings.table import PositiveControl
from miaudit.metrics.trials import one_of_each
from miaudit.metrics.units import Units
from miaudit.synthesis.table_attacks.success_rates import compare, members_needed

SHARE = 0.01
REPETITIONS = 10
NEEDED = 9
MOST = 20  # times as many records; above it, more records are not advised
_CONFIDENCE = 0.95
_POWER = 0.95  # with it nine of ten repetitions are seen in 91% of audits

Plant = Callable[[IntArray, np.random.Generator], BoolArray]


def planted_control(
    kind: IntArray,
    in_table: BoolArray,
    members: int,
    *,
    confidence: float,
    units: Units | None = None,
    rng: np.random.Generator,
) -> PositiveControl:
    """Plant copies of "members" under permuted labels, and count how often the comparison of copies sees them.

    Parameters
    ----------
    kind : array (n,) of int, equal for equal records; members first, then control records
    in_table : array (n,) of bool, whether the table holds a copy of the record
    members : number of members
    confidence : of the comparison of copies that raises concern
    units : of the records; labels are then permuted among units, and one record of each chosen unit is planted
    rng : permutes labels and chooses what is planted

    Notes
    -----
    Nine of ten repetitions seen show a power of at least 0.61 (95% confidence, :func:`shown_power`).

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> planted_control(np.arange(4000), np.zeros(4000, bool), 2000, confidence=0.95, rng=rng).seen
    10
    >>> planted_control(np.arange(400), np.zeros(400, bool), 200, confidence=0.95, rng=rng).seen
    0
    """

    def plant(rows: IntArray, _: np.random.Generator) -> BoolArray:
        return np.asarray(np.isin(kind, kind[rows]))

    return _repeated(plant, in_table, members, confidence, units, rng)


def planted_changes(
    visible: BoolArray,
    near: BoolArray,
    members: int,
    *,
    confidence: float,
    units: Units | None = None,
    rng: np.random.Generator,
) -> PositiveControl:
    """Plant copies of which one cell, in a column chosen at random, has another value; as :func:`planted_control`.

    Parameters
    ----------
    visible : array (n, d) of bool, whether a copy with another value in that column would be seen
    near : array (n,) of bool, whether the table holds the record but for one column
    members, confidence, units, rng : as of :func:`planted_control`

    Examples
    --------
    >>> rng, none = np.random.default_rng(0), np.zeros(4000, bool)
    >>> planted_changes(np.ones((4000, 3), bool), none, 2000, confidence=0.95, rng=rng).seen
    10
    >>> planted_changes(np.zeros((4000, 3), bool), none, 2000, confidence=0.95, rng=rng).seen
    0
    """

    def plant(rows: IntArray, rng: np.random.Generator) -> BoolArray:
        hit = np.zeros(len(near), dtype=np.bool_)
        hit[rows] = visible[rows, rng.integers(0, visible.shape[1], len(rows))]
        return hit

    return _repeated(plant, near, members, confidence, units, rng, changed=1)


def _repeated(
    plant: Plant,
    in_table: BoolArray,
    members: int,
    confidence: float,
    units: Units | None,
    rng: np.random.Generator,
    changed: int = 0,
) -> PositiveControl:
    """Permute labels, plant, and compare, ten times."""
    seen = copies = 0
    excess = rate = 0.0
    for _ in range(REPETITIONS):
        inside = _permuted(len(in_table), members, units, rng)
        rows = np.flatnonzero(inside)
        if units is not None:
            rows = rows[one_of_each(np.unique(units.code[rows], return_inverse=True)[1], rng)]
        copies = max(1, round(SHARE * len(rows)))
        planted = rows[rng.permutation(len(rows))[:copies]]
        copied = in_table | plant(planted, rng)
        new = copied & ~in_table
        excess += float(new[inside].mean() - new[~inside].mean()) / REPETITIONS
        rate += float(copied[~inside].mean()) / REPETITIONS
        seen += _seen(copied, inside, units, confidence)
    return PositiveControl(
        copies=copies,
        share=SHARE,
        excess=excess,
        rate=min(rate, 1.0),
        repetitions=REPETITIONS,
        seen=seen,
        needed=NEEDED,
        found=seen >= NEEDED,
        changed=changed,
    )


def shown_power(seen: int, repetitions: int = REPETITIONS) -> float:
    """Power that so many detections show at least, with 95% confidence (one-sided, Clopper-Pearson).

    Examples
    --------
    >>> round(shown_power(9), 2), round(shown_power(10), 2), shown_power(0)
    (0.61, 0.74, 0.0)
    """
    return float(special.betaincinv(seen, repetitions - seen + 1, 1 - _CONFIDENCE)) if seen else 0.0


def enough_members(control: PositiveControl, members: int, others: int, confidence: float) -> int | None:
    """Members, with control records in proportion, of which planted copies would be seen; None if no number would do.

    Planted copies add little where the table holds the records anyway, or have many equals.
    """
    if control.excess <= 0:
        return None
    of = {"rate": control.rate, "ratio": others / members, "level": (1 - confidence) / 2, "power": _POWER}
    rounded = min(1.0, control.share * members / control.copies)  # one copy is more than 1% of a few members
    needed = members_needed(control.excess * rounded, **of)
    return None if needed is None or needed > MOST * members else needed


def _permuted(n: int, members: int, units: Units | None, rng: np.random.Generator) -> BoolArray:
    """Return permuted labels (n,) of bool; the records of a unit have one label."""
    if units is None:
        return np.asarray(rng.permutation(n) < members)
    inside, outside = (_records(units, units.member == side) for side in (True, False))
    coins = rng.random(units.count) < 0.5
    labels = np.where((inside > 0) & (outside > 0), coins, inside > 0)
    if labels.all() or not labels.any():
        labels[0] = not labels[0]
    return np.asarray(labels[rng.permutation(units.count)][units.code])


def _records(units: Units, rows: BoolArray) -> FloatArray:
    return np.bincount(units.code[rows], minlength=units.count).astype(np.float64)


def _seen(copied: BoolArray, inside: BoolArray, units: Units | None, confidence: float) -> bool:
    """Return whether the comparison of copies sees an excess on one side."""
    permuted = None
    if units is not None:
        order = np.concatenate([np.flatnonzero(inside), np.flatnonzero(~inside)])
        permuted = Units.of(units.code[order], inside[order])
    return compare("copies", copied[inside], copied[~inside], units=permuted).exceeds(0.0, confidence)

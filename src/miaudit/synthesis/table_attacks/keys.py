"""Columns that number records, such as a patient's identifier: left out of every attack, which they would hide.

A copy of a person under a new identifier is still a copy. Whether a column is a key follows from the synthetic table
and from the pool of members and control records together. A rule for each file would see who is a member.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from miaudit.arrays import FloatArray
from miaudit.synthesis.schema import Table

__all__ = ["WithoutKeys", "is_key"]

_FEWEST = 20  # records; fewer may all be different by chance
_KNOWN = 0.5  # share of the records that a key names at least
_COLUMNS = 2  # that an attack needs
_EQUAL_PAIRS = 5  # expected by chance: with probability exp(-5) there is none


@dataclass(frozen=True, eq=False)
class WithoutKeys:
    """A synthetic table, members and control records without the columns that are keys, and their names.

    ``shared`` counts the members and the control records whose key the synthetic table holds, for each key.
    """

    synthetic: Table
    members: Table
    control: Table
    keys: tuple[str, ...]

    shared: Mapping[str, tuple[int, int]] = field(default_factory=dict)

    @classmethod
    def of(cls, synthetic: Table, members: Table, control: Table, keep: Collection[str] = ()) -> WithoutKeys:
        """Leave out the keys, but those of ``keep``; nothing where fewer than two columns would be left.

        Examples
        --------
        >>> from miaudit.synthesis.schema import Column, Schema
        >>> ages, jobs = Column("age", "continuous", low=0, high=99), Column("job", "categorical", ("cook", "clerk"))
        >>> schema = Schema((Column("key", "continuous", low=0, high=999), ages, jobs))
        >>> row = np.arange(30.0)
        >>> tables = [Table(schema, np.c_[row + first, row % 7, row % 2]) for first in (900, 0, 30)]
        >>> WithoutKeys.of(*tables).keys, WithoutKeys.of(*tables, keep=["key"]).keys
        (('key',), ())
        """
        pool = np.concatenate([members.values, control.values])
        names = synthetic.schema.names
        keys = [j for j, name in enumerate(names) if name not in keep and is_key(synthetic.values[:, j], pool[:, j])]
        if not keys or len(names) - len(keys) < _COLUMNS:
            return cls(synthetic, members, control, ())
        shared = {names[j]: (_held(members, synthetic, j), _held(control, synthetic, j)) for j in keys}
        released, inside, outside = (table.without(shared) for table in (synthetic, members, control))
        return cls(released, inside, outside, tuple(shared), shared)


def is_key(released: NDArray[Any], pool: NDArray[Any]) -> bool:
    """Return whether a column names its records.

    Its values are whole numbers or texts, and all different in the pool of members and control records. Numbers are
    all different in the synthetic table too, or lie so close together in the pool that chance would have made some of
    them equal: a generator that takes a key for a measurement repeats numbers. Numbers may also count the rows of each
    file: each value of a range once or twice.

    Parameters
    ----------
    released : array (m,) of the synthetic table's values, numbers or texts; missing are NaN, or None
    pool : array (n,) of those of members and control records

    Examples
    --------
    >>> is_key(np.arange(50), np.arange(100)), is_key(np.arange(50) % 20, np.arange(100))
    (True, True)
    >>> is_key(np.arange(50) % 20, np.arange(100) ** 3), is_key(np.arange(50), np.arange(100) % 30)
    (False, False)
    >>> is_key(np.arange(50), np.r_[:50, :40]), is_key(np.arange(50) / 10, np.arange(100) / 10)
    (True, False)
    """
    ours, theirs = _known(released), _known(pool)
    if len(theirs) < max(_FEWEST, _KNOWN * len(pool)):
        return False
    texts = theirs.dtype.kind != "f"
    if not (texts or (theirs == np.rint(theirs)).all()):
        return False
    values, counts = np.unique(theirs, return_counts=True)
    if counts.max() == 1 and (texts or _close_together(values)):
        return True
    different = len(ours) >= max(_FEWEST, _KNOWN * len(released)) and len(np.unique(ours)) == len(ours)
    if texts or not different or not (ours == np.rint(ours)).all():
        return False
    return bool(counts.max() == 1 or (counts.max() == 2 and values[-1] - values[0] == len(values) - 1))


def _close_together(values: FloatArray) -> bool:
    """Whether as many numbers of the same range, drawn at random, would hardly all differ (n,)."""
    pairs = len(values) * (len(values) - 1) / 2
    return bool(pairs > _EQUAL_PAIRS * (values[-1] - values[0] + 1))


def _known(values: NDArray[Any]) -> NDArray[Any]:
    """Return numbers as floats, texts as objects, without missing ones."""
    if values.dtype.kind in "OUST":
        return np.array([text for text in values.tolist() if text is not None], dtype=np.str_)
    numbers: FloatArray = values.astype(np.float64)
    return numbers[~np.isnan(numbers)]


def _held(records: Table, synthetic: Table, column: int) -> int:
    return int(np.count_nonzero(np.isin(records.values[:, column], synthetic.values[:, column])))

"""One record of each unit, for tests that need independent trials.

Which one is a matter of chance; what is easily overlooked is **how often** a unit comes to be represented. A propensity
that was learned from records says how a record drawn from all of them is likely to be a member. If members have five
records each and non-members one, it is five times too large for one record of each unit.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from miaudit.arrays import IntArray
from miaudit.evidence import one_of_each


def sizes(code: NDArray[Any]) -> IntArray:
    """Return the size of the unit of each record (n,), from unit codes (n,) that count from 0."""
    return np.asarray(np.bincount(code)[code])


def equal_sizes(code: NDArray[Any]) -> bool:
    """Return whether all units have the same number of records."""
    number = np.bincount(code)
    number = number[number > 0]
    return bool((number == number[0]).all())


def independent_share(code: NDArray[Any]) -> float:
    """Return Kish's effective share of records if those of a unit are all alike, in (0, 1].

    Examples
    --------
    >>> independent_share(np.array([0, 0, 1, 1])), round(independent_share(np.array([0, 0, 0, 1])), 2)
    (0.5, 0.4)
    """
    number = np.bincount(code).astype(np.float64)
    return float(number.sum() / (number @ number))


def drawn_alike(code: NDArray[Any], rng: np.random.Generator, *, of: IntArray | None = None) -> IntArray:
    """Draw at most one record of each unit, every record with the same chance; ascending rows.

    A unit of k records is represented with probability k / K, where K is the size of the largest one. What was learned
    from all records, such as a propensity, then holds for the drawn ones as it stands. Where all units are equally
    large each is represented, and the draw is that of :func:`miaudit.evidence.one_of_each`.

    Parameters
    ----------
    code : array (n,), unit of each record, counted from 0
    rng : draws records and units
    of : array (n,), sizes of the units, where these records are only a part; default: as counted here

    Examples
    --------
    >>> code = np.repeat(np.arange(1100), [5] * 100 + [1] * 1000)
    >>> rows = drawn_alike(code, np.random.default_rng(0))
    >>> int((code[rows] < 100).sum()), 150 < int((code[rows] >= 100).sum()) < 250
    (100, True)
    """
    number = sizes(code) if of is None else of
    rows = one_of_each(np.asarray(code, dtype=np.int64), rng)
    if (number == number[0]).all():
        return rows
    return np.asarray(rows[rng.random(len(rows)) * number.max() < number[rows]])

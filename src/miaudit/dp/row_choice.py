"""How many guesses, for tests that need to know which records were guessed and not only how many were right.

The options are those of :mod:`miaudit.dp.guesses`; so are the rules: a pilot's labels are revealed and its records
leave the audit, a sweep is paid for, and only ``Exploratory`` does without.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np

from miaudit.arrays import IntArray
from miaudit.dp.bounds import LowerBound
from miaudit.dp.guesses import Bonferroni, Exploratory, Fixed, Pilot, Schedule, check, settled
from miaudit.errors import InputError


@dataclass(frozen=True, eq=False)
class Order:
    """Records in falling order of the attack's confidence, and the guess at each; never made from labels.

    Attributes
    ----------
    name : how the guesses are made, in words
    places : array (m,), record numbers, the surest guess first
    guess : array (m,), +1 member or -1 non-member, of the i-th in order
    """

    name: str
    places: IntArray
    guess: IntArray


class RowTest(Protocol):
    """A test of ranked records; ``rows`` are their positions in falling order of confidence."""

    def bound(self, rows: IntArray, guesses: int, confidence: float) -> LowerBound:
        """Return the bound of the first so many guesses among these rows."""
        ...

    def share_right(self, rows: IntArray, guesses: int) -> tuple[int, int]:
        """Return right and made guesses, at most so many, among these rows."""
        ...

    def foreseen(self, rows: IntArray, guesses: int, share: float, confidence: float) -> float:
        """Return about what the bound would be if this share of the guesses were right; looks at no label."""
        ...

    def canaries(self, rows: IntArray) -> int:
        """Return the number of which fractions are taken; depends on covariates only."""
        ...

    @property
    def order(self) -> Order:
        """Return the order of the records and the guesses."""
        ...


def choose_rows(option: Any, tests: Sequence[RowTest], *, confidence: float, rng: np.random.Generator) -> LowerBound:
    """Return the bound of a test over ranked records, the number of guesses chosen as the option says.

    Parameters
    ----------
    option : Fixed, Pilot, Bonferroni or Exploratory; an int means Fixed, None means Pilot()
    tests : of the same records in different orders; a pilot chooses among them, every other option uses the first
    confidence : in (0, 1), one-sided
    rng : draws the pilot

    Raises
    ------
    InputError
        For more guesses than records, for ``Schedule`` (it ties counts to parameters), or another option.
    """
    test = tests[0]
    n = len(test.order.places)
    rows = np.arange(n)
    match option:
        case None | Pilot():
            return _piloted(option or Pilot(), tests, rows, confidence, rng)
        case Fixed(count):
            return test.bound(rows, _at_most(count, n), confidence)
        case int() if not isinstance(option, bool):
            return test.bound(rows, _at_most(Fixed(option).count, n), confidence)
        case Bonferroni() | Exploratory():
            return _swept(option, test, rows, confidence)
        case Schedule():
            raise InputError(
                "guesses", "Fixed, Pilot, Bonferroni or Exploratory for this test", "Schedule", "use thinning with it"
            )
    check(option)
    raise AssertionError(f"{option!r} passed the check")  # pragma: no cover


def _at_most(count: int, n: int) -> int:
    if count > n:
        raise InputError("guesses", f"at most the {n:,} records audited", f"{count:,}", "make fewer guesses")
    return count


def _numbers(fractions: tuple[float, ...], counts: tuple[int, ...], test: RowTest, rows: IntArray) -> list[int]:
    if counts:
        return sorted({_at_most(count, len(rows)) for count in counts})
    whole = test.canaries(rows)
    return sorted({min(len(rows), max(1, round(fraction * whole))) for fraction in fractions})


def _swept(option: Bonferroni | Exploratory, test: RowTest, rows: IntArray, confidence: float) -> LowerBound:
    counts = _numbers(option.fractions, option.counts, test, rows)
    paid = len(counts) if isinstance(option, Bonferroni) else 1
    found = [test.bound(rows, count, 1 - (1 - confidence) / paid) for count in counts]
    best = max(found, key=lambda bound: bound.value)
    smallest = min((bound.p_value for bound in found if bound.p_value is not None), default=None)
    listed = ", ".join(f"{count:,}" for count in counts)
    text = f"best of {len(counts)} numbers of guesses ({listed}), the level divided by {len(counts)}"
    if isinstance(option, Exploratory):
        text = f"exploratory: best of {len(counts)} numbers of guesses ({listed}), and nothing was paid for that"
    reachable = max((bound.reachable for bound in found if bound.reachable is not None), default=None)
    return replace(
        settled(best, text),
        confidence=confidence,
        p_value=None if smallest is None else min(1.0, paid * smallest),
        reachable=reachable,
        exploratory=isinstance(option, Exploratory),
    )


def _piloted(
    option: Pilot, tests: Sequence[RowTest], rows: IntArray, confidence: float, rng: np.random.Generator
) -> LowerBound:
    n = len(rows)
    revealed = round(option.share * n)
    if not 1 <= revealed < n:
        found = tests[0].bound(rows, n, confidence)
        return settled(found, "too few records for a pilot: a guess at every one of them")
    best, chosen, left, count = -1.0, tests[0], rows, 1
    shown = np.zeros(n, dtype=np.bool_)
    shown[rng.permutation(n)[:revealed]] = True
    for test in tests:
        pilot = shown[test.order.places]
        seen, rest = rows[pilot], rows[~pilot]
        for fraction in option.fractions:
            guesses = _numbers((fraction,), (), test, rest)[0]
            right, made = test.share_right(seen, _numbers((fraction,), (), test, seen)[0])
            share = (right + 0.5) / (made + 1) - 0.125 / math.sqrt(max(1, made))
            value = test.foreseen(rest, guesses, min(1.0, max(0.0, share)), confidence) if made else 0.0
            if value > best:
                best, chosen, left, count = value, test, rest, guesses
    text = (
        f"{count:,} guesses ({chosen.order.name}) chosen on {revealed:,} records drawn at random, "
        f"whose labels were revealed for it; the other {n - revealed:,} were audited"
    )
    return settled(chosen.bound(left, count, confidence), text)

"""What an option for the number of guesses will test, before there is data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from miaudit.dp.selection import Bonferroni, Exploratory, Fixed, Hedged, Option, Pilot, Schedule, numbers_of
from miaudit.errors import InputError

__all__ = ["PlannedGuesses"]


@dataclass(frozen=True)
class PlannedGuesses:
    """Numbers of guesses of a one-run audit, each with the confidence at which it is tested.

    The best of them on expected counts stands for what the audit will choose.

    Attributes
    ----------
    audited : canaries that are audited; fewer than all where a pilot takes some
    tests : pairs of a number of guesses and a confidence

    Examples
    --------
    >>> PlannedGuesses.of(Pilot(fractions=(0.1, 1.0)), 1_000, 0.95)
    PlannedGuesses(audited=800, tests=((80, 0.95), (800, 0.95)))
    """

    audited: int
    tests: tuple[tuple[int, float], ...]

    @classmethod
    def of(cls, option: Option | int | None, canaries: int, confidence: float) -> PlannedGuesses:
        """Return what an option of :mod:`miaudit.dp.selection` tests among so many canaries."""
        if isinstance(option, Fixed | int):
            return cls(canaries, _at(confidence, [option if isinstance(option, int) else option.count], canaries))
        match option:
            case Bonferroni() | Exploratory():
                counts = sorted(set(option.counts or numbers_of(option.fractions, canaries)))
                paid = len(counts) if isinstance(option, Bonferroni) else 1
                return cls(canaries, _at(1 - (1 - confidence) / paid, counts, canaries))
            case Schedule():
                return cls(canaries, _at(confidence, numbers_of(option.fractions, canaries), canaries))
            case Pilot():
                return cls._piloted(option, canaries, confidence)
        hedged = option or Hedged()
        few = sorted(set(numbers_of(hedged.few, canaries)))
        most, each = hedged.confidences(confidence, len(few))
        own = _at(most, numbers_of(hedged.fractions, canaries), canaries)
        return cls(canaries, (*own, *_at(each, few, canaries)))

    @classmethod
    def _piloted(cls, pilot: Pilot, canaries: int, confidence: float) -> PlannedGuesses:
        revealed = round(pilot.share * canaries)
        if not 1 <= revealed < canaries:
            return cls(canaries, ((canaries, confidence),))
        left = canaries - revealed
        return cls(left, _at(confidence, numbers_of(pilot.fractions, left), left))


def _at(confidence: float, counts: Sequence[int], canaries: int) -> tuple[tuple[int, float], ...]:
    if max(counts) > canaries:
        raise InputError("guesses", f"at most the {canaries:,} records", f"{max(counts):,}", "make fewer guesses")
    return tuple((count, confidence) for count in counts)

"""Checks of plain values: numbers, whole numbers, confidences, generators."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, TypeGuard

from miaudit.errors import InputError

if TYPE_CHECKING:
    import numpy as np

__all__ = ["check_confidence", "check_delta", "check_generator", "finite", "is_number", "is_whole", "positive"]


def is_number(value: object) -> TypeGuard[int | float]:
    """Whether a value is a number: true and false are none, though Python counts with them."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def is_whole(value: object) -> TypeGuard[int]:
    """Whether a value is a whole number; true and false are none."""
    return isinstance(value, int) and not isinstance(value, bool)


def check_generator(rng: np.random.Generator | None) -> np.random.Generator:
    """Return a generator, or refuse what is none: a seed is enough for ``miaudit.audit`` and ``audit_model`` alone.

    Examples
    --------
    >>> check_generator(0)  # type: ignore[arg-type]
    Traceback (most recent call last):
    miaudit.errors.InputError: rng: expected a numpy.random.Generator, received 0; pass rng=numpy.random.default_rng(0)
    """
    if not (hasattr(rng, "spawn") and hasattr(rng, "permutation")):
        given: object = rng
        seed = given if is_whole(given) and given >= 0 else "seed"
        received, hint = repr(rng)[:60], f"pass rng=numpy.random.default_rng({seed})"
        raise InputError("rng", "a numpy.random.Generator", received, hint)
    return rng  # type: ignore[return-value]


def check_confidence(confidence: object, above: float = 0.0) -> float:
    """Return a confidence, or refuse one that is not ``above`` a number and below 1."""
    allowed, hint = f"a number in ({above:g}, 1)", "write 0.95 for 95%"
    number = finite("confidence", confidence, allowed, hint)
    if not above < number < 1:
        raise InputError("confidence", allowed, repr(confidence), hint)
    return number


def check_delta(delta: object) -> float:
    """Return a delta, or refuse one outside [0, 1)."""
    allowed, hint = "a number in [0, 1)", "1e-5 is usual, 0 is pure epsilon"
    number = finite("delta", delta, allowed, hint)
    if not 0 <= number < 1:
        raise InputError("delta", allowed, repr(delta), hint)
    return number


def whole(name: str, value: object, next_step: str, *, low: int | None = 1, high: int | None = None) -> int:
    """Return a value as a whole number within limits, or refuse it; 100.0 is one, true and "100" are not.

    Examples
    --------
    >>> whole("runs", 0, "four are usual", high=1000)
    Traceback (most recent call last):
    miaudit.errors.InputError: runs: expected a whole number from 1 to 1,000, received 0; four are usual
    """
    limits = "" if low is None else f" from {low:,} up" if high is None else f" from {low:,} to {high:,}"
    number = finite(name, value, f"a whole number{limits}", next_step)
    below, above = low is not None and number < low, high is not None and number > high
    if number != math.floor(number) or below or above:
        raise InputError(name, f"a whole number{limits}", repr(value)[:60], next_step)
    return int(value)  # type: ignore[call-overload, no-any-return]  # of any length


def finite(name: str, value: object, allowed: str, hint: str) -> float:
    """Return a value as a finite number, or refuse it: words, truth values and infinity are none."""
    try:
        number = float(value)  # type: ignore[arg-type]  # refused below if it is none
    except (TypeError, ValueError, OverflowError):
        raise InputError(name, allowed, repr(value)[:60], hint) from None
    if isinstance(value, bool | str) or not math.isfinite(number):
        raise InputError(name, allowed, repr(value)[:60], hint)
    return number


def positive(name: str, value: object, hint: str) -> float:
    """Return a value as a finite number above 0, or refuse it.

    Examples
    --------
    >>> positive("clip", 0, "take it from the training")
    Traceback (most recent call last):
    miaudit.errors.InputError: clip: expected a finite number above 0, received 0; take it from the training
    """
    number = finite(name, value, "a finite number above 0", hint)
    if number <= 0:
        raise InputError(name, "a finite number above 0", repr(value)[:60], hint)
    return number

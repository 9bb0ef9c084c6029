"""The deviation of noise by impulses: all draws are 0 but those of one call, which are 1."""

from __future__ import annotations

import math
from typing import Protocol

import numpy as np

from miaudit.arrays import FloatArray
from miaudit.errors import InputError

__all__ = ["ROUNDING", "Response", "deviation"]

ROUNDING = 1e-3  # relative, of a standard deviation that is the difference of two float32 runs
_MOST_SINGLE = 4_096  # numbers of one call that are replaced one by one


class Response(Protocol):
    """How far each coordinate moves if the draws of one call are 1: all of them, or the number at one place alone.

    With ``signs`` the draws are +1 and -1 in a fixed irregular order.
    """

    def __call__(self, *, signs: bool = False, place: int | None = None) -> FloatArray:
        """Return the change (P,) of each coordinate, 0 or more."""
        ...


def deviation(respond: Response, *, size: int, claimed: float, call: str) -> FloatArray:
    """Return the standard deviation (P,) that one call adds to each coordinate, 0 where it is rounding.

    Parameters
    ----------
    respond : runs with an impulse in this call
    size : how many numbers the call returns
    claimed : the standard deviation that is expected, above 0; rounding is measured by it
    call : what the call is named in an error

    Raises
    ------
    InputError
        For numbers that are mixed: one of them reaches several coordinates, beside others.

    Examples
    --------
    >>> def respond(*, signs=False, place=None):  # coordinate 0 gets both numbers of the call, coordinate 1 gets none
    ...     numbers = np.array([1.0, -1.0 if signs else 1.0])
    ...     return np.abs([numbers.sum() if place is None else 1.0, 0.0])
    >>> deviation(respond, size=2, claimed=1.0, call="call 1").round(4).tolist()
    [1.4142, 0.0]
    """
    plain, signed = respond(), respond(signs=True)
    if float(np.abs(plain - signed).max()) <= 10 * ROUNDING * max(plain.max(), signed.max(), claimed):
        return np.where(plain > ROUNDING * claimed, plain, 0.0)
    squares = np.zeros_like(plain)
    for place in range(size if size <= _MOST_SINGLE else 0):
        single = respond(place=place)
        single[single <= ROUNDING * claimed / math.sqrt(size)] = 0.0
        if np.count_nonzero(single) > 1:
            break
        squares += single**2
    else:
        if size <= _MOST_SINGLE:
            return np.asarray(np.sqrt(squares))
    hint = "add independent noise at each coordinate, replay a smaller model, or check the noise by a step audit"
    received = f"{call}, with {size:,} numbers that are mixed"
    raise InputError("step", "draws that reach one coordinate each", received, hint)

"""What a generator of private tables receives in place of randomness when it is replayed: draws that are replaced."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from miaudit.arrays import FloatArray
from miaudit.dp.replay import Draws
from miaudit.errors import InputError
from miaudit.errors.checks import finite, positive

__all__ = ["Call", "History", "Query", "QueryDraws", "UnlikeHistoryError"]

Law = Literal["normal", "Laplace"]


class UnlikeHistoryError(Exception):
    """A query that is not the one at this place of the history, although all answers were the same until then."""


@dataclass(frozen=True, eq=False)
class Query:
    """One query of a generator.

    Attributes
    ----------
    choice : whether it is a private choice by scores, and not a noisy answer
    name : as the generator states it, such as the columns of a table
    values : (cells,) of the answer, or (candidates,) scores
    scale : the stated deviation of normal noise or scale of Laplace noise, None if none is stated; of a choice what
        scores are divided by
    """

    choice: bool
    name: str
    values: FloatArray
    scale: float | None

    def named(self, number: int) -> str:
        """Return how a sentence names the query that has this number among all, counted from 1."""
        return f"{'Choice' if self.choice else 'Answer'} {number}" + (f" ({self.name})" if self.name else "")


@dataclass(frozen=True)
class Call:
    """One call of a random generator: the law, how many numbers, and the scales that it was called with."""

    law: Law
    size: int
    scales: tuple[float, ...]


@dataclass(eq=False)
class History:
    """What one run of a generator has released: its queries, the noisy answers and the choices."""

    queries: list[Query] = field(default_factory=list)
    released: list[Any] = field(default_factory=list)


class QueryDraws(Draws):
    """Replaced draws of a generator, whose answers are pinned to a history.

    ``normal(loc, scale, size)``, ``standard_normal(size)`` and ``laplace(loc, scale, size)`` have the arguments of a
    NumPy generator. ``choose(scores, scale)`` makes a private choice. The generator passes each noisy answer through
    ``answer(name, values, scale)``, and goes on with what it returns.

    Parameters
    ----------
    history : of one run, which all others follow
    rng : in the run that writes the history, the source of its noise; else None
    impulse, signs, place : as of :class:`miaudit.dp.replay.Draws`

    Attributes
    ----------
    queries : those of this run, in their order
    calls : of the random generator, in their order

    Examples
    --------
    >>> history = History()
    >>> first = QueryDraws(history, rng=np.random.default_rng(0))
    >>> noisy = first.answer("age", np.array([7.0, 5.0]) + first.normal(0.0, 2.0, 2), 2.0)
    >>> again = QueryDraws(history)
    >>> pinned = again.answer("age", np.array([7.0, 4.0]) + again.normal(0.0, 2.0, 2), 2.0)
    >>> bool((pinned == noisy).all()), again.queries[0].values
    (True, array([7., 4.]))
    """

    def __init__(
        self,
        history: History,
        *,
        rng: np.random.Generator | None = None,
        impulse: int | None = None,
        signs: bool = False,
        place: int | None = None,
    ) -> None:
        super().__init__(impulse, signs=signs, place=place)
        self.queries: list[Query] = []
        self.calls: list[Call] = []
        self._history, self._rng = history, rng

    def normal(
        self, loc: ArrayLike = 0.0, scale: ArrayLike = 1.0, size: int | Sequence[int] | None = None
    ) -> FloatArray:
        """Return ``loc + scale * z`` with the replaced standard normal draws z."""
        return self._replaced("normal", loc, scale, size)

    def laplace(
        self, loc: ArrayLike = 0.0, scale: ArrayLike = 1.0, size: int | Sequence[int] | None = None
    ) -> FloatArray:
        """Return ``loc + scale * z`` with the replaced draws z of a Laplace law of scale 1."""
        return self._replaced("Laplace", loc, scale, size)

    def standard_normal(self, size: int | Sequence[int] | None = None, *, source: bytes | None = None) -> FloatArray:
        """Return replaced standard normal draws; the state of a generator (``source``) is not compared here."""
        del source
        return self._replaced("normal", 0.0, 1.0, size)

    def choose(self, scores: ArrayLike, scale: float = 1.0, name: str = "") -> int:
        """Return a position, with a probability in proportion to exp(score / scale); pinned to the history."""
        values = _numbers(f"choice {name}".strip(), scores)
        divisor = positive("scale", scale, "pass what scores are divided by")
        position = 0 if self._rng is None else int(np.argmax(values / divisor + self._rng.gumbel(size=len(values))))
        return int(self._asked(Query(True, name, values, divisor), position))

    def answer(self, name: str, values: ArrayLike, scale: float | None = None) -> FloatArray:
        """Return what the generator goes on with in place of a noisy answer, in the shape of ``values``.

        Parameters
        ----------
        name : of the query, such as the columns of a table
        values : the answer with its noise
        scale : the deviation or Laplace scale of the noise as the accountant has it; None if none is stated
        """
        query = Query(False, name, _numbers(f"answer {name}", values), None if scale is None else _scale(scale))
        return np.array(self._asked(query, np.array(values, dtype=np.float64)), dtype=np.float64)

    def _replaced(self, law: Law, loc: ArrayLike, scale: ArrayLike, size: int | Sequence[int] | None) -> FloatArray:
        shape = np.broadcast_shapes(np.shape(loc), np.shape(scale)) if size is None else size
        values = super().standard_normal(shape)
        if self._rng is not None:
            values = np.asarray(getattr(self._rng, law.lower())(size=values.shape))
        self.calls.append(Call(law, values.size, tuple(np.unique(np.asarray(scale, dtype=np.float64)).tolist())))
        return np.asarray(np.asarray(loc) + np.asarray(scale) * values)

    def _asked(self, query: Query, released: Any) -> Any:
        """Enter a query, and return the history's answer, which is written here in the first run."""
        at = len(self.queries)
        if self._rng is not None:
            self._history.queries.append(query)
            self._history.released.append(released)
        elif at >= len(self._history.queries):
            raise UnlikeHistoryError(f"the generator asks one query more, {query.named(at + 1)}")
        else:
            _compare(self._history.queries[at], query, at + 1)
        self.queries.append(query)
        return self._history.released[at]


def _scale(scale: float) -> float:
    allowed, hint = "a finite number, 0 or more", "pass the deviation, the Laplace scale, or what scores are divided by"
    number = finite("scale", scale, allowed, hint)
    if number < 0:
        raise InputError("scale", allowed, repr(scale), hint)
    return number


def _numbers(name: str, values: ArrayLike) -> FloatArray:
    try:
        flat = np.asarray(values, dtype=np.float64).ravel()
    except (TypeError, ValueError):
        raise InputError(name, "an array of numbers", repr(values)[:60], "pass counts, or scores") from None
    if not flat.size or not np.isfinite(flat).all():
        received = "an empty one" if not flat.size else "one with NaN or infinity"
        raise InputError(name, "an array of finite numbers", received, "replay a table that the generator can take")
    return flat


def _compare(expected: Query, query: Query, number: int) -> None:
    """Refuse a query that is not the one of the history; its values may differ, nothing else."""
    name, what = expected.named(number), "candidates" if expected.choice else "cells"
    if (query.choice, query.name) != (expected.choice, expected.name):
        raise UnlikeHistoryError(f"in place of {name} the generator asks {query.named(number)}")
    if query.values.size != expected.values.size:
        raise UnlikeHistoryError(f"{name} has {query.values.size:,} {what} instead of {expected.values.size:,}")
    if query.scale != expected.scale:
        scales = [f"the scale {each:g}" if each is not None else "no scale" for each in (query.scale, expected.scale)]
        raise UnlikeHistoryError(f"{name} has {scales[0]} instead of {scales[1].removeprefix('the scale ')}")

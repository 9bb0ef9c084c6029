"""Progress of an audit: stages of known shares, the pieces of a stage, and how much of all the work is done.

The work is spread over many modules. A front door opens :func:`reported`. On the way :func:`stage` says what begins,
and :func:`piece` that one piece of it is finished. Without a front door both do nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import NamedTuple

__all__ = ["TOTAL", "Stage", "piece", "reported", "stage"]

TOTAL = 1000  # parts that all the work is reported in


class Stage(NamedTuple):
    """What a stage of the work costs.

    Attributes
    ----------
    cost : in any unit, the same for all stages; not negative
    pieces : how many pieces it has, at least 1
    """

    cost: float
    pieces: int = 1


class _Work:
    """How far the work is. It never goes back, and is less than all until it ends."""

    def __init__(self, stages: Mapping[str, Stage], progress: Callable[[int, int], None]) -> None:
        self._order = {name: i for i, name in enumerate(stages)}
        self._pieces = [max(1, one.pieces) for one in stages.values()]
        self._costs = [one.cost for one in stages.values()]
        self._progress, self._current, self._finished, self._reported = progress, -1, 0, 0

    def begin(self, name: str, instead_of: Sequence[str]) -> bool:
        """Return whether a stage begins: it does not where it is over, or where a later one is at work."""
        place = self._order.get(name, -1)
        if place <= self._current:
            return False
        for skipped in (*range(self._current + 1, place), *(self._order[other] for other in instead_of)):
            self._costs[skipped] = 0.0
        self._current, self._finished = place, 0
        self._tell(0.0)
        return True

    def end(self, name: str) -> None:
        """Count a stage as done; one that began within it may be at work for longer."""
        if self._order[name] == self._current:
            self._tell(1.0)

    def piece(self) -> None:
        """Count one more piece of the present stage."""
        self._finished += 1
        if self._current >= 0:
            self._tell(min(1.0, self._finished / self._pieces[self._current]))

    def _tell(self, share: float) -> None:
        """Report the stages before the present one, and a share of it."""
        done = sum(self._costs[: self._current]) + share * self._costs[self._current]
        parts = min(TOTAL - 1, int(TOTAL * done / max(sum(self._costs), 1e-300)))
        if parts > self._reported:
            self._reported = parts
            self._progress(parts, TOTAL)


_work: ContextVar[_Work | None] = ContextVar("work", default=None)


@contextmanager
def reported(stages: Mapping[str, Stage], progress: Callable[[int, int], None] | None) -> Iterator[None]:
    """Report the stages of the work within, in this thread; work inside reported work is a part of it.

    Parameters
    ----------
    stages : in the order in which they begin; one that never does is no longer counted once a later one begins
    progress : function of the parts that are done and of ``TOTAL``, which is reported when the work ends; or None

    Examples
    --------
    >>> seen = []
    >>> with reported({"fit": Stage(3.0, 2), "test": Stage(1.0)}, lambda done, of: seen.append(done)):
    ...     with stage("fit"):
    ...         piece()
    ...     with stage("test"):
    ...         pass
    >>> seen
    [375, 750, 999, 1000]
    """
    if progress is None or _work.get() is not None:
        yield
        return
    token = _work.set(_Work(stages, progress))
    try:
        yield
    finally:
        _work.reset(token)
    progress(TOTAL, TOTAL)


@contextmanager
def stage(name: str, *, instead_of: Sequence[str] = ()) -> Iterator[None]:
    """Say that a stage begins, and at the end that it is done; within a later stage it is a part of that one.

    ``instead_of`` names later stages that will not come: what is done is then a larger share of the work.
    """
    work = _work.get()
    began = work is not None and work.begin(name, instead_of)
    yield
    if work is not None and began:
        work.end(name)


def piece() -> None:
    """Say that one piece of the present stage is finished."""
    work = _work.get()
    if work is not None:
        work.piece()

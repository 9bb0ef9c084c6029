"""What became of a job: its value or its problem, and whether it is tried again."""

from __future__ import annotations

import traceback
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from threadpoolctl import threadpool_limits

from miaudit.errors import MiauditError, one_line
from miaudit.jobs import resources
from miaudit.jobs.resources import Resources

Task = Callable[[Any, Any], Any]

DIED = "a worker process died (killed, or out of memory)"


@dataclass(frozen=True)
class Outcome:
    """What became of one job: its number in the order given, and its value, or in one line what went wrong."""

    number: int
    value: Any = None
    problem: str = ""
    where: str = ""  # the traceback
    losses: int = 0  # how often it ran again, since its process or node was lost


def attempt(task: Task, shared: Any, number: int, job: Any, each: Resources) -> Outcome:
    """Do one job here; an error becomes its outcome."""
    try:
        with threadpool_limits(each.threads), resources.with_threads(each.threads):
            return Outcome(number, task(shared, job))
    except MiauditError as error:
        return Outcome(number, problem=one_line(str(error)), where=traceback.format_exc())
    except Exception as error:  # a job may raise anything
        problem = one_line(f"{type(error).__name__}: {error}")[:300]
        return Outcome(number, problem=problem, where=traceback.format_exc())


def too_long(number: int, each: Resources, where: str = "") -> Outcome:
    """The outcome of a job that was ended at its time limit."""
    return Outcome(number, problem=f"took longer than timeout, {each.timeout:g} s, and was ended", where=where)


class Tries:
    """Which outcomes are final: a job that failed or took too long has as many further tries as it is given."""

    def __init__(self, each: Resources) -> None:
        self._each, self._failed = each, Counter[int]()

    def again(self, outcome: Outcome) -> bool:
        """Whether the job has another try."""
        self._failed[outcome.number] += bool(outcome.problem)
        return bool(outcome.problem) and self._failed[outcome.number] <= self._each.retries

    def final(self, outcome: Outcome) -> Outcome:
        """The outcome, with the number of tries in its problem."""
        if not outcome.problem or not self._each.retries:
            return outcome
        return replace(outcome, problem=f"{outcome.problem} (after {self._each.retries + 1} attempts)")

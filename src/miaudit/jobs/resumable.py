"""Many jobs that can be taken up again: kept results are read, missing ones made, and failures named at the end."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from miaudit.errors import MiauditError, one_line
from miaudit.jobs import executor as execution

_NAMED = 3  # failed jobs spelt out in a message


class Kept(Protocol):
    """A folder that this process holds alone, in which results are kept one by one, by the number of their job."""

    @property
    def folder(self) -> Path:
        """Where they are."""
        ...

    def finished(self, total: int) -> Mapping[int, Any]:
        """Return the results that are there and whole, of so many jobs."""
        ...

    def keep(self, number: int, result: Any) -> Any:
        """Write a result, whole or not at all; return what stands for it."""
        ...


@dataclass(frozen=True)
class Progress:
    """How far the work is: models that are there (some from before), that failed, of how many, and seconds left."""

    finished: int
    reused: int
    failed: int
    total: int
    seconds_left: float

    def __str__(self) -> str:
        if self.reused == self.total:
            return f"all {self.total} models are there from before: nothing left to train"
        failed = f", {self.failed} failed" if self.failed else ""
        return f"{self.finished} of {self.total} models{failed}, {duration(self.seconds_left)} left"


class JobsFailedError(MiauditError):
    """Some models or runs failed; the others finished, and are kept where there is a store.

    Attributes
    ----------
    failed : tuple, one record for each that failed, which says in words what went wrong
    """

    def __init__(self, failed: Sequence[Any], total: int, store: Path | None, what: str) -> None:
        self.failed = tuple(failed)
        shown = "; ".join(str(one) for one in self.failed[:_NAMED])
        more = f"; and {len(failed) - _NAMED} more" if len(failed) > _NAMED else ""
        if store is None:
            named = "" if what == "generators" else " (shadow.store in a configuration file)"
            kept = f"give store={named} to keep what finishes"
        elif len(failed) == total:
            kept = "none finished: mend the cause and run again"
        else:
            kept = f"the {total - len(failed)} others are kept in {store}: run again to repeat only these"
        super().__init__(one_line(f"{len(failed)} of {total} {what} failed: {shown}{more}; {kept}"))


def batches(total: int, at_once: int) -> list[range]:
    """Return the numbers of jobs that are done together: always the same ones, so that a resumed run fits alike."""
    return [range(start, min(start + at_once, total)) for start in range(0, total, at_once)]


def finish(
    task: Callable[[Any, list[Any]], Sequence[Any]],
    shared: Any,
    jobs: Sequence[Any],
    *,
    place: Kept | None,
    what: str,
    failure: Callable[[int, str], Any],
    at_once: int = 1,
    executor: str | execution.Local | execution.Ray = "local",
    workers: int = 1,
    progress: Callable[[Progress], None] | None = None,
) -> dict[int, Any]:
    """Do all jobs whose results are not kept from before; a run that is killed loses those in flight and no others.

    Parameters
    ----------
    task : function of ``shared`` and of a batch of jobs, that returns a result for each, or a text that says why not
    shared, executor, workers : as of :func:`miaudit.jobs.executor.outcomes`
    jobs : what is different in each; small
    place : where results are kept at once, by this process; None: in memory
    what : the jobs in one word, for the error ("runs")
    failure : from the number of a job and what went wrong to a record of it
    at_once : jobs that are done together
    progress : called in this process at the beginning and after each job

    Returns
    -------
    dict from the number of each job to its result, or to what stands for it where it is kept

    Raises
    ------
    JobsFailedError
        If jobs failed; it names them, after all others have finished, and has the first traceback as a note.
    """
    done = {} if place is None else dict(place.finished(len(jobs)))
    missing = [batch for batch in batches(len(jobs), at_once) if any(number not in done for number in batch)]
    reused, start, failed, first = len(done), time.monotonic(), dict[int, Any](), ""

    def tell() -> None:
        if progress is not None:
            new = len(done) - reused + len(failed)
            left = (time.monotonic() - start) / new * (len(jobs) - reused - new) if new else math.nan
            progress(Progress(len(done), reused, len(failed), len(jobs), left))

    tell()
    sent = [[jobs[number] for number in batch] for batch in missing]
    for outcome in execution.outcomes(task, shared, sent, executor=executor, workers=workers):
        first = first or outcome.where
        batch = missing[outcome.number]
        for number, result in zip(
            batch, [outcome.problem] * len(batch) if outcome.problem else outcome.value, strict=True
        ):
            if number in done:  # from before, made again beside another of its batch
                continue
            if isinstance(result, str):
                failed[number] = failure(number, result)
            else:
                done[number] = result if place is None else place.keep(number, result)
            tell()
    if failed:
        folder = None if place is None else place.folder
        error = JobsFailedError([failed[number] for number in sorted(failed)], len(jobs), folder, what)
        if first:
            error.add_note(first)
        raise error
    return done


def counted(progress: Callable[[int, int], None] | None) -> Callable[[Progress], None] | None:
    """Tell a function of (finished jobs, all jobs) after each job."""
    if progress is None:
        return None

    def tell(state: Progress) -> None:
        if state.finished + state.failed > state.reused:
            progress(state.finished, state.total)

    return tell


def duration(seconds: float) -> str:
    """Write a time to wait in words."""
    if not math.isfinite(seconds):
        return "unknown time"
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"

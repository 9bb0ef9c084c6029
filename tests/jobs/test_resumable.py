"""The loop of resumable jobs: what is kept is not done again, what fails is named, and who waits is told."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from miaudit.errors import MiauditError
from miaudit.jobs import executor, resumable
from miaudit.jobs.resumable import JobsFailedError, Progress, batches, counted, duration, finish


@dataclass(frozen=True)
class Shelf:
    """Results in memory, as a folder would keep them."""

    results: dict[int, int] = field(default_factory=dict)
    kept: list[int] = field(default_factory=list)
    folder: Path = Path("shelf")

    def finished(self, total: int) -> dict[int, int]:
        return {number: result for number, result in self.results.items() if number < total}

    def keep(self, number: int, result: int) -> int:
        self.results[number] = result
        self.kept.append(number)
        return result


def squares(done: list[int], jobs: list[int]) -> list[int | str]:
    """Squares, and a complaint for each negative number; nobody does a batch with a hundred."""
    done += jobs
    if 100 in jobs:
        raise ArithmeticError("too large")
    return [job**2 if job >= 0 else f"{job} is negative" for job in jobs]


def run(done: list[int], jobs: list[int], **options):
    return finish(squares, done, jobs, what="squares", failure=lambda number, problem: (number, problem), **options)


@pytest.mark.parametrize("at_once", [1, 2, 3, 10])
def test_every_job_is_done_once_whatever_the_batch(at_once: int) -> None:
    done: list[int] = []
    assert run(done, [3, 1, 2, 5], place=None, at_once=at_once) == {0: 9, 1: 1, 2: 4, 3: 25}
    assert done == [3, 1, 2, 5]
    assert [number for batch in batches(7, at_once) for number in batch] == list(range(7))


def test_what_is_kept_is_not_done_again_and_never_kept_twice() -> None:
    shelf, done = Shelf({1: 1, 2: 4}), list[int]()
    assert run(done, [3, 1, 2, 5], place=shelf) == {0: 9, 1: 1, 2: 4, 3: 25}
    assert (done, shelf.kept) == ([3, 5], [0, 3])
    again = Shelf({1: -1})  # the batch is done as a whole, and its kept result stays as it is
    done.clear()
    assert run(done, [3, 1, 2, 5], place=again, at_once=2)[1] == -1
    assert (done, again.kept) == ([3, 1, 2, 5], [0, 2, 3])


def test_failures_are_named_in_order_after_all_others_have_finished() -> None:
    shelf = Shelf()
    with pytest.raises(JobsFailedError, match=r"2 of 4 squares failed.*the 2 others are kept in shelf") as at:
        run([], [-7, 100, 2, 3], place=shelf)
    assert at.value.failed == ((0, "-7 is negative"), (1, "ArithmeticError: too large"))
    assert "Traceback" in at.value.__notes__[0]
    assert shelf.results == {2: 4, 3: 9}
    with pytest.raises(JobsFailedError, match="none finished: mend the cause"):
        run([], [-1], place=Shelf())
    with pytest.raises(JobsFailedError, match="give store= "):
        run([], [-1], place=None)


@dataclass(frozen=True)
class Failed:
    number: int
    problem: str

    def __str__(self) -> str:
        return f"model {self.number} (seed {7 * self.number}): {self.problem}"


def told(problems: list[str]) -> str:
    return str(JobsFailedError([Failed(i, one) for i, one in enumerate(problems)], 40, Path("store"), "models"))


def test_what_fails_alike_is_told_once_with_the_first_log() -> None:
    same = [f"exit code 3: no file /tmp/miaudit-fit-a{i}b/x; log: store/logs/fit-{i}.log" for i in range(30)]
    assert told(same) == (
        "30 of 40 models failed: model 0 (seed 0): exit code 3: no file /tmp/miaudit-fit-a0b/x; "
        "log: store/logs/fit-0.log (29 more alike: model 1, model 2, model 3, ...); "
        "the 10 others are kept in store: run again to repeat only these"
    )
    said = told(["exit code 3", "exit code 4", "exit code 3", "timeout", "exit code 5", "exit code 6", "exit code 6"])
    assert "model 0 (seed 0): exit code 3 (1 more alike: model 2); model 1 (seed 7): exit code 4; model 3" in said
    assert "timeout; and 3 more; the 33 others" in said


def test_who_waits_is_told_before_the_first_job_and_after_each() -> None:
    states: list[Progress] = []
    numbers: list[tuple[int, int]] = []
    run([], [3, 1, 2], place=Shelf({1: 1}), progress=states.append)
    assert [(state.finished, state.reused, state.total) for state in states] == [(1, 1, 3), (2, 1, 3), (3, 1, 3)]
    assert math.isnan(states[0].seconds_left) and states[-1].seconds_left == 0
    assert str(states[0]) == "1 of 3 models, unknown time left"
    run([], [3, 1, 2], place=Shelf({1: 1}), progress=counted(lambda done, total: numbers.append((done, total))))
    assert numbers == [(2, 3), (3, 3)]
    assert counted(None) is None
    assert str(Progress(2, 2, 0, 2, math.nan)) == "all 2 models are there from before: nothing left to train"
    assert [duration(seconds) for seconds in (5, 600, 7200, math.inf)] == [
        "5 seconds",
        "10 minutes",
        "2 hours",
        "unknown time",
    ]


class Lossy:
    """An executor whose jobs are lost now and then, or whose cluster is."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, ends: int | None = None) -> None:
        def outcomes(task, shared, jobs, **options):
            for number, job in enumerate(jobs):
                if number == ends:
                    raise executor.ClusterLostError("the head of the Ray cluster at h:1 is lost; log: l")
                yield executor.Outcome(number, task(shared, job), losses=number % 2)

        monkeypatch.setattr(resumable.execution, "outcomes", outcomes)


def twice(shared, batch):
    return [np.array([2.0 * job]) for job in batch]


def done_with(place: Any) -> dict[int, Any]:
    return resumable.finish(twice, None, range(6), place=place, what="fits", failure=lambda number, problem: problem)


def test_fits_that_ran_again_are_reported_once(monkeypatch, caplog) -> None:
    Lossy(monkeypatch)
    assert len(done_with(None)) == 6
    (record,) = caplog.records
    expected = "3 of 6 fits ran again, since a process or a node was lost: number 1, 3, 5; each counts once"
    assert record.getMessage() == expected


def test_a_lost_cluster_is_one_line_and_the_next_run_goes_on(monkeypatch, tmp_path: Path) -> None:
    Lossy(monkeypatch, ends=4)
    with (
        resumable.Store.alone(tmp_path, {"seed": "0"}, "fit") as place,
        pytest.raises(MiauditError, match=r"head .* is lost; log: l; 4 of 6 fits are finished, and they are kept in"),
    ):
        done_with(place)
    with pytest.raises(MiauditError, match="4 of 6 fits are finished, and none of them is kept: give store="):
        done_with(None)
    Lossy(monkeypatch, ends=2)  # the two that are left, and then none
    with resumable.Store.alone(tmp_path, {"seed": "0"}, "fit") as place:
        assert sorted(done_with(place)) == list(range(6))

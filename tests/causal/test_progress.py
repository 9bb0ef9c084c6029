"""Progress: the share of all the work that is done, which never falls and is the whole only at the end."""

from __future__ import annotations

import pytest

from miaudit.causal import cores
from miaudit.causal.progress import TOTAL, Stage, piece, reported, stage

STAGES = {"fit": Stage(6.0, 3), "test": Stage(2.0, 2), "draw": Stage(2.0)}


def shares(work: object, stages: dict[str, Stage] | None = None) -> list[int]:
    seen: list[int] = []

    def told(done: int, total: int) -> None:
        assert total == TOTAL
        seen.append(done)

    with reported(STAGES if stages is None else stages, told):
        work()  # type: ignore[operator]
    assert seen == sorted(set(seen)) and seen[-1] == TOTAL and max(seen[:-1], default=0) < TOTAL
    return seen


def test_a_stage_counts_as_its_cost_and_a_piece_as_its_part() -> None:
    def work() -> None:
        with stage("fit"):
            for _ in range(3):
                piece()
        with stage("test"):
            piece()
        with stage("draw"):
            pass

    assert shares(work) == [200, 400, 600, 700, 800, 999, TOTAL]


def test_more_pieces_than_expected_never_pass_the_end_of_their_stage() -> None:
    def work() -> None:
        with stage("fit"):
            for _ in range(50):
                piece()

    assert shares(work)[-2] == 600


def test_what_never_comes_is_no_longer_counted() -> None:
    def work() -> None:
        with stage("fit"):
            pass
        with stage("draw"):
            pass

    assert shares(work) == [600, 750, 999, TOTAL]

    def ruled_out() -> None:
        with stage("fit"):
            pass
        with stage("test", instead_of=["draw"]):
            piece()

    assert shares(ruled_out) == [600, 750, 875, 999, TOTAL]


def test_a_stage_that_comes_again_is_a_part_of_the_one_at_work() -> None:
    def work() -> None:
        with stage("fit"):
            pass
        with stage("test"), stage("fit"):
            piece()
            piece()

    assert shares(work) == [600, 700, 800, TOTAL]


def test_a_stage_within_another_takes_over() -> None:
    def work() -> None:
        with stage("fit"):
            piece()
            with stage("test"):
                piece()

    assert shares(work) == [200, 600, 700, 800, TOTAL]


def test_work_within_reported_work_is_a_part_of_it() -> None:
    inner: list[int] = []

    def work() -> None:
        with reported({"own": Stage(1.0)}, lambda done, _: inner.append(done)), stage("fit"):
            piece()

    assert shares(work) == [200, 600, TOTAL]
    assert inner == []


def test_without_a_front_door_nothing_happens() -> None:
    with reported(STAGES, None), stage("fit"):
        piece()
    with stage("nothing that is known"):
        piece()


def test_an_error_is_not_the_end_of_the_work() -> None:
    seen: list[int] = []
    with pytest.raises(ZeroDivisionError), reported(STAGES, lambda done, _: seen.append(done)), stage("fit"):
        piece()
        raise ZeroDivisionError
    assert seen == [200]
    piece()  # and the work of another is not told any more
    assert seen == [200]


@pytest.mark.parametrize("number", [1, 2])
def test_each_piece_on_a_core_counts(number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cores, "available", lambda: number)

    def work() -> None:
        with stage("fit"):
            assert cores.at_once(lambda k: k, range(3)) == [0, 1, 2]

    assert shares(work) == [200, 400, 600, TOTAL]

"""Replaced draws: what a generator receives, what is pinned, and where a run leaves its history."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from miaudit.dp.query_draws import Call, History, QueryDraws, UnlikeHistoryError
from miaudit.errors import InputError


def history() -> History:
    own = History()
    draws = QueryDraws(own, rng=np.random.default_rng(0))
    draws.answer("age", np.array([[7.0, 5.0]]) + draws.normal(0.0, 2.0, (1, 2)), 2.0)
    draws.choose([0.0, 1.0, 50.0], 1.0, "pair")
    return own


def test_the_first_run_has_noise_and_others_follow_it() -> None:
    own = history()
    draws = QueryDraws(own)
    exact = np.array([[7.0, 4.0]]) + draws.normal(0.0, 2.0, (1, 2))
    assert exact.tolist() == [[7.0, 4.0]]
    pinned = draws.answer("age", exact, 2.0)
    assert pinned.shape == (1, 2) and (pinned == own.released[0]).all() and (pinned != [[7.0, 5.0]]).all()
    assert draws.choose([50.0, 1.0, 0.0], 1.0, "pair") == 2 == own.released[1]
    assert [query.values.tolist() for query in draws.queries] == [[7.0, 4.0], [50.0, 1.0, 0.0]]


def test_the_pinned_answer_is_a_copy() -> None:
    own = history()
    for _ in range(2):
        QueryDraws(own).answer("age", [[0.0, 0.0]], 2.0)[:] = 99.0
    assert (QueryDraws(own).answer("age", [[0.0, 0.0]], 2.0) < 20).all()


def test_calls_are_noted_with_their_law_and_scale() -> None:
    draws = QueryDraws(History(), impulse=1)
    assert draws.normal(1.0, 2.0, 3).tolist() == [1.0, 1.0, 1.0]
    assert draws.laplace(0.0, [1.0, 4.0]).tolist() == [1.0, 4.0]
    assert draws.standard_normal() == 0.0
    assert draws.calls == [Call("normal", 3, (2.0,)), Call("Laplace", 2, (1.0, 4.0)), Call("normal", 1, (1.0,))]


@pytest.mark.parametrize(
    ("law", "deviation"), [("normal", 3.0), ("laplace", 3.0 * np.sqrt(2))], ids=["normal", "Laplace"]
)
def test_the_first_run_draws_the_stated_law(law: str, deviation: float) -> None:
    draws = QueryDraws(History(), rng=np.random.default_rng(0))
    numbers = getattr(draws, law)(0.0, 3.0, 40_000)
    assert numbers.std() == pytest.approx(deviation, rel=0.02)


def test_the_first_run_chooses_by_the_exponential_mechanism() -> None:
    rng = np.random.default_rng(0)
    positions = [QueryDraws(History(), rng=rng).choose([0.0, 2.0], 2.0) for _ in range(4_000)]
    assert np.mean(positions) == pytest.approx(np.e / (1 + np.e), abs=0.025)


@pytest.mark.parametrize(
    ("run", "message"),
    [
        (lambda draws: draws.answer("sex", [1.0, 2.0], 2.0), r"in place of Answer 1 \(age\) .* Answer 1 \(sex\)"),
        (lambda draws: draws.choose([1.0, 2.0], 2.0, "age"), r"asks Choice 1 \(age\)"),
        (lambda draws: draws.answer("age", [1.0, 2.0, 3.0], 2.0), r"Answer 1 \(age\) has 3 cells instead of 2"),
        (lambda draws: draws.answer("age", [1.0, 2.0], 1.9), "has the scale 1.9 instead of 2"),
        (lambda draws: draws.answer("age", [1.0, 2.0]), "has no scale instead of 2"),
        (lambda draws: (draws.answer("age", [1.0, 2.0], 2.0), draws.choose([1.0], 1.0, "pair")), "1 candidates"),
        (
            lambda draws: (
                draws.answer("age", [1.0, 2.0], 2.0),
                draws.choose([1.0, 2.0, 3.0], 1.0, "pair"),
                draws.answer("more", [1.0]),
            ),
            r"one query more, Answer 3 \(more\)",
        ),
    ],
    ids=["name", "kind", "cells", "scale", "no scale", "candidates", "more"],
)
def test_a_run_that_leaves_its_history_says_where(run: Any, message: str) -> None:
    with pytest.raises(UnlikeHistoryError, match=message):
        run(QueryDraws(history()))


@pytest.mark.parametrize(
    ("run", "message"),
    [
        (lambda draws: draws.answer("age", []), "answer age: expected an array of finite numbers, received an empty"),
        (lambda draws: draws.answer("age", [np.nan]), "NaN or infinity"),
        (lambda draws: draws.answer("age", "words"), "answer age: expected an array of numbers"),
        (lambda draws: draws.choose([np.inf]), "choice: expected"),
        (lambda draws: draws.choose([1.0], 0.0), "scale: expected a finite number above 0"),
        (lambda draws: draws.answer("age", [1.0], -1.0), "scale: expected a finite number"),
        (lambda draws: draws.poisson(3), "a step that uses poisson"),
    ],
    ids=["empty", "nan", "words", "infinite", "no scale", "negative scale", "poisson"],
)
def test_bad_input_is_refused(run: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        run(QueryDraws(History(), rng=np.random.default_rng(0)))

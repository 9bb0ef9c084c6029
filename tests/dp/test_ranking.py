"""Every order of guesses from one sort is, row by row, that of a sort of its own with the same random numbers."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import miaudit as ma
from dp import ranking_twins as twins
from miaudit.dp import one_run, ranked_run, selection
from miaudit.dp.ranking import Ranking

WAYS: dict[str, tuple[Callable[..., selection.CountTest], Callable[..., twins.Guesses]]] = {
    "two-sided": (selection.two_sided, twins.two_sided),
    "by turns": (selection.by_turns, twins.by_turns),
    "members": (partial(selection.one_sided, guess=True), twins.members),
    "non-members": (partial(selection.one_sided, guess=False), twins.nonmembers),
}
_RNG = np.random.default_rng(0)
SCORES = {
    "distinct": _RNG.normal(size=1_001),
    "rounded": _RNG.normal(size=1_000).round(1),
    "few values": _RNG.integers(0, 3, 1_000).astype(float),
    "two values": (_RNG.random(999) < 0.6).astype(float),
    "constant": np.full(300, 0.1),
    "half constant": np.where(_RNG.random(1_000) < 0.5, 0.0, _RNG.normal(size=1_000)),
    "symmetric": np.r_[-np.arange(200.0), np.arange(200.0), 0.0, -0.0],
    "far from zero": 1e16 + 2 * _RNG.integers(0, 40, 500),  # differences from the median are rounded
    "large and small": np.r_[-1e150, 1e150, _RNG.normal(size=7) * 1e-300],
    "two": np.array([1.0, 1.0]),
    "one": np.array([3.0]),
}


class Coarse:
    """A generator whose numbers often are equal, as those of 53 bits are once in a while."""

    def __init__(self, seed: int) -> None:
        self._rng = np.random.default_rng(seed)

    def random(self, size: int) -> np.ndarray:
        return self._rng.integers(0, 4, size) / 4


@pytest.mark.parametrize("generator", [np.random.default_rng, Coarse])
@pytest.mark.parametrize("name", SCORES)
@pytest.mark.parametrize("way", WAYS)
def test_an_order_is_that_of_its_own_sort(way: str, name: str, generator: Any) -> None:
    ours, plain = WAYS[way]
    score, ones = SCORES[name], np.ones(len(SCORES[name]), dtype=np.bool_)
    rng, again = generator(5), generator(5)
    found = ours(Ranking.of(score), ones, one_run.mu_lower_bound, rng=rng)
    rows, guess = plain(score, again)
    assert found.places.tolist() == rows.tolist()
    assert found.correct.tolist() == guess.tolist()
    assert rng.random(1) == again.random(1)  # as many numbers were drawn


@given(st.lists(st.sampled_from([-2.0, -0.0, 0.0, 1e-9, 1.0, 1.5, 7.0]), min_size=1, max_size=200), st.integers(0, 99))
@settings(max_examples=60, deadline=None)
def test_ties_of_every_size(values: list[float], seed: int) -> None:
    score = np.array(values)
    for ours, plain in WAYS.values():
        found = ours(Ranking.of(score), score > 0, one_run.mu_lower_bound, rng=np.random.default_rng(seed))
        assert found.places.tolist() == plain(score, np.random.default_rng(seed))[0].tolist()


def test_numbers_of_another_draw_give_another_order_of_ties() -> None:
    """The control: the law of equal orders is no law of orders that nothing is drawn for."""
    score = SCORES["constant"]
    ours = Ranking.of(score).highest_first(np.random.default_rng(5))
    assert ours.tolist() != twins.members(score, np.random.default_rng(6))[0].tolist()


@pytest.mark.parametrize("name", SCORES)
def test_a_part_keeps_the_order_of_the_whole(name: str) -> None:
    score = SCORES[name]
    rows = np.flatnonzero(np.random.default_rng(1).random(len(score)) < 0.4)
    if not len(rows):
        rows = np.array([0])
    part = Ranking.of(score).take(rows)
    assert part.score.tolist() == score[rows].tolist()
    assert sorted(part.ascending.tolist()) == list(range(len(rows)))
    assert part.ordered.tolist() == np.sort(score[rows]).tolist()


@pytest.mark.parametrize("name", [name for name in SCORES if len(SCORES[name]) > 1])
def test_the_centre_is_that_of_the_scores(name: str) -> None:
    assert Ranking.of(SCORES[name]).centre == twins.centre(SCORES[name])


@pytest.mark.long
@pytest.mark.parametrize("score", ["distinct", "rounded", "two values"])
@pytest.mark.parametrize("unit", [None, 2])
def test_bounds_are_those_of_sorting_each_time(score: str, unit: int | None, monkeypatch: pytest.MonkeyPatch) -> None:
    """The whole audit, beside one with the twins' orders; units of two records, and halves that are no coins, too."""
    values = SCORES[score]
    member = np.random.default_rng(2).random(len(values)) < (0.5 if unit is None else 0.7)
    of_units = None if unit is None else np.arange(len(values)) // unit
    evidence = ma.Evidence(score=values + 0.8 * member, member=member, unit=of_units, design="one-run")
    found = ma.audit(evidence, rng=0).to_json()

    def plain(way: str) -> Callable[..., selection.CountTest]:
        def test(ranking: Ranking, member: Any, bound: Any, *, rng: Any, guess: bool = True) -> selection.CountTest:
            name = ("members" if guess else "non-members") if way == "one-sided" else way
            ours, twin = WAYS[name]
            rows, guesses = twin(ranking.score, rng)
            said = ours(ranking, member, bound, rng=np.random.default_rng(0)).name
            return selection.CountTest(said, rows, guesses == member, bound)

        return test

    for attribute, way in (("two_sided", "two-sided"), ("by_turns", "by turns"), ("one_sided", "one-sided")):
        monkeypatch.setattr(ranked_run, attribute, plain(way))
    assert ma.audit(evidence, rng=0).to_json() == found


def test_an_audit_sorts_its_scores_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sorts of all records: one of the scores; a stable one merges two sorted runs, for each parameter."""
    n, sorts, plain = 3_000, [], np.argsort

    def counted(values: Any, *args: Any, **options: Any) -> Any:
        if len(values) == n:
            sorts.append(options.get("kind"))
        return plain(values, *args, **options)

    monkeypatch.setattr(np, "argsort", counted)
    rng = np.random.default_rng(0)
    evidence = ma.Evidence(score=rng.normal(size=n), member=rng.random(n) < 0.5, design="one-run")
    ma.audit(evidence, rng=0)
    assert sorts == [None, "stable", "stable"]

"""Bounds from pairs: replacing, adding or removing, and what must not be scored."""

from __future__ import annotations

import math

import numpy as np
import pytest

from miaudit.dp import matched, one_run
from miaudit.dp.selection import Fixed
from miaudit.dp.verdict import LowerBound
from miaudit.errors import DesignError
from miaudit.evidence import Evidence


def leaking(rng: np.random.Generator, shift: float, n: int = 600, k: int = 10) -> Evidence:
    return Evidence.matched(true=rng.normal(shift, size=n), decoys=rng.normal(size=(n, k)))


def named(bounds: tuple[LowerBound, ...]) -> dict[tuple[str, str | None], LowerBound]:
    return {(one.parameter, one.neighbours): one for one in bounds}


def test_pairs_hold_the_true_string_first_by_a_fair_coin() -> None:
    rng = np.random.default_rng(0)
    chosen = matched.pairs(leaking(rng, 8.0, n=2000), rng)
    assert abs(chosen.first.mean() - 0.5) < 0.05
    assert (chosen.first == (chosen.score > 0)).mean() > 0.99  # a leak that large is right nearly always


def test_the_bounds_are_those_of_one_run_on_the_same_pairs() -> None:
    rng = np.random.default_rng(1)
    evidence = leaking(rng, 2.0)
    found = named(matched.bounds(evidence, guesses=Fixed(100), confidence=0.975, rng=np.random.default_rng(5)))
    chosen = matched.pairs(evidence, np.random.default_rng(5))
    order = np.argsort(-np.abs(chosen.score - np.median(chosen.score)))[:100]
    correct = int(((chosen.score > np.median(chosen.score)) == chosen.first)[order].sum())
    whole = one_run.mu_lower_bound(correct=correct, guesses=100, canaries=600, confidence=0.975)
    assert found["mu", "replace-one"].value == whole.value > 0
    assert found["mu", "add-or-remove"].value == whole.value / 2


@pytest.mark.parametrize(("correct", "delta"), [(190, 1e-5), (199, 1e-4), (150, 1e-6), (110, 1e-3)])
def test_adding_or_removing_is_the_largest_half_whose_claim_is_refuted(correct: int, delta: float) -> None:
    counts = {"correct": correct, "guesses": 200, "canaries": 1000}
    bound = matched.add_or_remove_bound("epsilon", delta)(**counts, confidence=0.975)
    refuted = [
        h
        for h in np.arange(0, 6, 0.002)
        if one_run.epsilon_p_value(2 * h, delta=min(1 - 1e-12, (1 + math.exp(h)) * delta), **counts) <= 0.025
    ]
    expected = max(refuted, default=0.0)
    assert bound.value == pytest.approx(expected, abs=0.0021)
    half = one_run.epsilon_lower_bound(**counts, delta=delta, confidence=0.975).value / 2
    assert bound.value < half or half == 0.0  # halving would claim too much


def test_pure_epsilon_is_halved() -> None:
    counts = {"correct": 190, "guesses": 200, "canaries": 1000}
    bound = matched.add_or_remove_bound("epsilon", 0.0)(**counts, confidence=0.975)
    assert bound.value == one_run.epsilon_lower_bound(**counts, confidence=0.975).value / 2


def test_nothing_is_shown_where_nothing_leaks_and_a_foreign_string_would_show_it() -> None:
    """The second decoy column is each record's neighbour's true string, which the model was trained on."""
    above = {"sound": 0, "foreign": 0}
    for seed in range(30):
        rng = np.random.default_rng(seed)
        contexts, memory = rng.normal(size=(300, 1)), rng.normal(size=(300, 4))
        sound = Evidence.matched(true=(contexts + memory)[:, 0], decoys=(contexts + memory)[:, 1:])
        above["sound"] += matched.bounds(sound, confidence=0.975, rng=rng)[2].value > 0
        trained = rng.normal(size=300) + 3  # trained strings score high beside any context
        foreign = Evidence.matched(true=rng.normal(size=300), decoys=trained[:, None])
        above["foreign"] += (
            matched.bounds(foreign.replace(score=-foreign.score), confidence=0.975, rng=rng)[2].value > 0
        )
    assert above["sound"] <= 4
    assert above["foreign"] == 30


def test_another_design_is_refused() -> None:
    rng = np.random.default_rng(0)
    with pytest.raises(DesignError, match="matched"):
        matched.bounds(Evidence(score=[0.0, 1.0], member=[0, 1], design="one-run"), rng=rng)

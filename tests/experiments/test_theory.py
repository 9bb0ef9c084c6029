"""experiments/causal_synthesis/theory.py: the convex generators against second truths, and the counterexamples."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pytest
from scipy import optimize

FOLDER = Path(__file__).parents[2] / "experiments" / "causal_synthesis"
MODULES = ("convex", "theory", "kept")
PARENTS = np.array([[False, False, False], [True, False, False], [True, True, False]])


def test_newton_finds_what_a_general_minimiser_finds(parts) -> None:
    convex, rng = parts["convex"], np.random.default_rng(0)
    counts = rng.integers(0, 9, size=(1, 8)).astype(float)
    model = convex.Conditionals.associational(3)
    theta = model.fit(counts, np.array([0.7]))
    rows = convex.records(3)
    for t in range(3):
        x, y = np.c_[np.ones(8), np.delete(rows, t, axis=1)], rows[:, t]

        def loss(beta: np.ndarray, x=x, y=y) -> float:
            return float(counts[0] @ np.logaddexp(0, (1 - 2 * y) * (x @ beta)) + 0.35 * beta @ beta)

        slow = optimize.minimize(loss, np.zeros(3), method="BFGS", options={"gtol": 1e-8})
        assert np.allclose(theta[t][0], slow.x, atol=1e-5)


def test_the_law_of_a_dependency_network_is_what_drawing_in_turn_settles_at(parts) -> None:
    """By simulation; and conditionals that agree with one another have the joint law that they come from."""
    convex, rng = parts["convex"], np.random.default_rng(1)
    world = parts["theory"].World.drawn(3, (1.0, 2.0), rng)
    assert world.law.sum() == pytest.approx(1)
    model = convex.Conditionals.associational(3)
    theta = model.fit(rng.integers(0, 30, size=(1, 8)).astype(float), np.array([1.0]))
    state = np.zeros((20_000, 3))
    for _ in range(15):
        for t in range(3):
            on = theta[t][0, 0] + np.delete(state, t, axis=1) @ theta[t][0, 1:]
            state[:, t] = rng.random(len(state)) < 1 / (1 + np.exp(-on))
    assert np.abs(convex.counted(state) / len(state) - model.law(theta)[0]).max() < 0.012


def test_sensitivity_is_at_most_what_is_proven_and_the_bound_is_no_larger_than_it_must_be(parts) -> None:
    convex = parts["convex"]
    model, rng = convex.Conditionals.causal(PARENTS), np.random.default_rng(2)
    counts = rng.integers(0, 5, size=8).astype(float)
    counts[0] = 0
    ridge = np.full(8, 50.0)
    moved = convex.distances(model.fit(counts + np.eye(8), ridge), model.fit(counts[None], ridge[:1]))
    assert moved.max() <= model.lipschitz / 50
    assert moved.max() > 0.2 * model.lipschitz / 50


def test_the_linear_counterexample_is_what_simulated_minimisers_say(parts) -> None:
    """Ordinary least squares on 200,000 records, and on those with the worst record added."""
    width, n, rng = 0.1, 200_000, np.random.default_rng(3)
    said = parts["theory"].linear(width)
    x1 = rng.uniform(-1, 1, n)
    x2 = x1 + rng.uniform(-width, width, n)

    def fit(y: np.ndarray, *given: np.ndarray) -> np.ndarray:
        x = np.stack([np.ones(len(y)), *given], axis=1)
        return np.linalg.solve(x.T @ x, x.T @ y)

    root, effect, cause = fit(x1), fit(x2, x1), fit(x1, x2)
    a, b = 1.0, 1 + width
    worst = (a - root[0]) ** 2 + (b - effect @ [1, a]) ** 2
    assert worst == pytest.approx(said["largest causal loss"], rel=0.02)
    spread = (x1 - cause[0] - cause[1] * x2) ** 2 + (x2 - effect[0] - effect[1] * x1) ** 2
    assert 0.9 < spread.max() / said["largest associational loss"] < 1.02
    more1, more2 = np.append(x1, a), np.append(x2, b)
    moved = n * np.linalg.norm(np.r_[fit(more1) - root, fit(more2, more1) - effect])
    assert moved == pytest.approx(said["causal sensitivity, n times"], rel=0.02)
    assert said["associational sensitivity, n times"] < said["causal sensitivity, n times"]


@pytest.mark.long
def test_every_table_of_two_columns_knows_no_direction(parts) -> None:
    """Also by brute force: one table after the other, each neighbour trained alone."""
    found = parts["theory"].every_table(3, 0.1)
    assert found["tables"] == 20
    assert found["causal"] == pytest.approx(found["reversed"], abs=1e-9)
    assert found["associational"] > found["causal"]
    model = parts["convex"].Conditionals.causal(np.array([[False, False], [True, False]]))
    largest = 0.0
    for a in range(4):
        for b in range(a, 4):
            for c in range(b, 4):
                counts = np.bincount([a, b, c], minlength=4).astype(float)
                for s in range(4):
                    one = model.fit(counts[None], np.array([0.3]))
                    other = model.fit((counts + np.eye(4)[s])[None], np.array([0.4]))
                    largest = max(
                        largest,
                        float(np.linalg.norm(np.concatenate([u - v for u, v in zip(one, other, strict=True)], 1))),
                    )
    assert found["causal"] == pytest.approx(largest, abs=1e-9)


def test_assumption_1_is_what_it_says_by_loops(parts) -> None:
    theory, convex, rng = parts["theory"], parts["convex"], np.random.default_rng(4)
    model, rows, seen = convex.Conditionals.causal(PARENTS), convex.records(3), set()
    for _ in range(40):
        own, every = rng.random(8), rng.random(8)
        own = own[[0, 0, 2, 2, 4, 4, 6, 6]]  # the causal model of x2 ignores x3
        at = {tuple(row): i for i, row in enumerate(rows.astype(int).tolist())}
        holds = False
        for free in (0, 1):
            pairs = [(a, b) for a in (0, 1) for b in (0, 1)]
            left = max(own[at[(a, b, free)]] - every[at[(a, b, free)]] for a, b in pairs)
            right = min(max(every[at[(a, b, c)]] for c in (0, 1)) - every[at[(a, b, free)]] for a, b in pairs)
            holds = holds or left <= right
        assert theory.assumption(own, every, model, 1) == holds
        seen.add(holds)
        if holds:
            assert own.max() <= every.max()  # the paper's lemma, for a column alone
    assert seen == {True, False}


@pytest.mark.slow
@pytest.mark.long
def test_the_tiny_form_is_kept_and_compared(parts, tmp_path, monkeypatch, capsys) -> None:
    theory = parts["theory"]
    command = ["theory.py", "--form", "tiny", "--out", str(tmp_path)]
    monkeypatch.setattr(sys, "argv", command)
    assert theory.main() == 0
    first = (tmp_path / "theory.json").read_text()
    monkeypatch.setattr(theory, "worlds", lambda *_: pytest.fail("made twice"))
    monkeypatch.setattr(theory, "_attack", lambda *_: pytest.fail("made twice"))
    assert theory.main() == 0
    assert (tmp_path / "theory.json").read_text() == first
    assert capsys.readouterr().out.count("| causal: largest loss |") == 2
    found = json.loads(first)
    found["adversary"]["causal: largest loss"]["DP"]["bound"] = 5.0
    found["linear"]["0.1"]["largest associational loss"] = 2.0
    found["worlds"]["ordinary, 50 records"]["causal"]["of what the last step needs"][-1] = 1.5
    expected = json.loads((FOLDER / "expected.json").read_text())["theory"]
    assert len(theory.differences(found, expected)) == 3

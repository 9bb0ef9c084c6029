"""A step along held-out residuals finds bands, corners and products, and does little where all is right."""

import numpy as np
import pytest
from scipy import optimize, special

from miaudit.causal import logistic, stack, targeted_step


def band(x):
    return special.logit(np.where((x[:, 0] > 0.4) & (x[:, 0] < 0.6), 0.88, 0.41))


def corner(x):
    return special.logit(np.where((x[:, 0] > 0.7) & (x[:, 1] > 0.7), 0.95, 0.45))


def product(x):
    return 30 * (x[:, 0] - 0.5) * (x[:, 1] - 0.5)


def drawn_world(truth, seed, n=3000):
    rng = np.random.default_rng(seed)
    x = rng.uniform(size=(n, 4))
    return x, rng.random(n) < special.expit(truth(x)), np.arange(n) % 5


@pytest.mark.parametrize("truth", [band, corner, product])
def test_a_step_comes_near_the_log_odds_of_what_nothing_knows(truth):
    x, member, fold = drawn_world(truth, 0)
    start = np.full(len(x), special.logit(member.mean()))
    added, directions = targeted_step.step(x, member, start, fold)
    right = truth(x)
    assert directions >= 5
    assert np.mean((start + added - right) ** 2) < 0.35 * np.mean((start - right) ** 2)


@pytest.mark.parametrize("truth", [band, corner, product])
def test_a_step_predicts_held_out_records_better(truth):
    x, member, fold = drawn_world(truth, 1)
    start = np.full(len(x), special.logit(member.mean()))
    added, _ = targeted_step.step(x, member, start, fold)
    before, after = (logistic.log_loss(logit, member.astype(float)).mean() for logit in (start, start + added))
    assert after < before - 0.01


@pytest.mark.long
def test_log_odds_that_are_right_hardly_move():
    """Chance makes a step in some fold of many samples; weighed as a learner it is worth next to nothing."""
    moves, missed = [], []
    for seed in range(20):
        x, member, fold = drawn_world(band, seed, 1500)
        right, flat = band(x), np.full(1500, special.logit(member.mean()))
        for start, changes in ((right, moves), (flat, missed)):
            held = np.column_stack([start, targeted_step.step(x, member, start, fold)[0]])
            share = stack.weigh(held, member)[2] if held[:, 1].any() else 0.0
            changes.append(np.std(share * held[:, 1]))
    assert np.mean(moves) < 0.08  # of a log-odds whose standard deviation is 1
    assert np.mean(missed) > 0.6  # the control


def test_a_record_is_moved_by_others_alone():
    """Another membership of one fold changes what the other folds get, and not what it gets itself."""
    x, member, fold = drawn_world(band, 2)
    start = np.zeros(len(x))
    flipped = member.copy()
    flipped[fold == 0] = ~flipped[fold == 0]
    one, other = (targeted_step.step(x, labels, start, fold)[0] for labels in (member, flipped))
    np.testing.assert_allclose(one[fold == 0], other[fold == 0])
    assert not np.allclose(one[fold == 1], other[fold == 1])


def test_one_column_is_enough():
    x, member, fold = drawn_world(band, 3)
    added, directions = targeted_step.step(x[:, :1], member, np.zeros(len(x)), fold)
    assert directions >= 5
    assert np.isfinite(added).all()


def test_the_fit_along_a_direction_is_that_of_a_general_optimiser():
    rng = np.random.default_rng(0)
    logit, direction = rng.normal(size=500), rng.normal(size=500)
    member = rng.random(500) < special.expit(0.3 + logit + 0.7 * direction)

    def loss(b):
        return logistic.log_loss(logit + b[0] + b[1] * direction, member.astype(float)).sum()

    best = optimize.minimize(loss, [0.0, 0.0], method="Nelder-Mead", options={"xatol": 1e-8, "fatol": 1e-10}).x
    np.testing.assert_allclose(
        targeted_step.along(logit, member, direction), logit + best[0] + best[1] * direction, atol=1e-5
    )


def test_copies_of_a_record_are_no_news():
    """Records of one person agree: counted as independent, they add directions that no other person shows."""
    x, member, fold = drawn_world(lambda x: np.zeros(len(x)), 3, n=400)
    copies = [np.repeat(one, 5, axis=0) for one in (x, member, np.zeros(400), fold)]
    assert targeted_step.step(*copies)[1] > 10
    assert targeted_step.step(*copies, independent=0.2)[1] == targeted_step.step(x, member, np.zeros(400), fold)[1]

"""Runs that share their noise are refused with their numbers; honest runs with equal scores are not."""

import numpy as np
import pytest

from miaudit import Evidence, Plan, audit
from miaudit.dp import several_runs
from miaudit.dp.shared_noise import require_own_noise
from miaudit.errors import InputError


def runs_of(scores, coins):
    return [Evidence(score=y, member=c, design="one-run") for y, c in zip(scores, coins, strict=True)]


def coins_of(rng, runs=3, n=400):
    return rng.random((runs, n)) < 0.5


def nearest(rng, n=400):
    """Minus the distance to the nearest training record: many are equal in honest runs, as neighbours are the same."""
    x, coins = rng.normal(size=(n, 2)), coins_of(rng, 2, n)
    far = np.sqrt(((x[:, None] - x[None]) ** 2).sum(axis=2))
    return [-far[:, c].min(axis=1) for c in coins], coins


HONEST = {
    "noise of its own": lambda c, rng: c + rng.normal(size=c.shape),
    "labels": lambda c, rng: (rng.random(c.shape) < 0.9) * 1.0,
    "saturated": lambda c, rng: np.minimum(rng.normal(size=c.shape) + c, -0.5),
    "rounded, and stable": lambda c, rng: np.round(
        np.tile(rng.normal(size=c.shape[1]) * 9, (len(c), 1)) + rng.normal(0, 0.1, c.shape), 1
    ),
}


@pytest.mark.parametrize("kind", HONEST)
def test_honest_runs_pass(kind):
    rng = np.random.default_rng(0)
    coins = coins_of(rng)
    require_own_noise(runs_of(HONEST[kind](coins, rng), coins))


def test_nearest_neighbours_pass():
    scores, coins = nearest(np.random.default_rng(1))
    assert np.count_nonzero(scores[0] == scores[1]) > 60  # many are equal
    require_own_noise(runs_of(scores, coins))


@pytest.mark.parametrize("gap", [0.3, 1.0])
@pytest.mark.parametrize("digits", [None, 2])
def test_fresh_coins_with_the_noise_of_another_run_are_refused(gap, digits):
    rng = np.random.default_rng(2)
    coins = coins_of(rng)
    noise = rng.normal(size=(3, 400)) * (1 if digits is None else 100)
    noise[2] = noise[0]
    scores = gap * (1 if digits is None else 100) * coins + noise
    scores = scores if digits is None else np.round(scores, digits)
    with pytest.raises(InputError, match=r"2\d\d of 400 scores equal in runs 1 and 3"):
        require_own_noise(runs_of(scores, coins))


def test_scores_that_saturate_hide_no_shared_noise():
    rng = np.random.default_rng(3)
    coins = coins_of(rng)
    scores = np.minimum(rng.normal(size=400) + coins, 0.3)
    with pytest.raises(InputError, match="equal in runs 1 and 2"):
        require_own_noise(runs_of(scores, coins))


@pytest.mark.parametrize("design", ["one-run", None])
def test_an_audit_refuses_them_with_bounds_and_without(design):
    rng = np.random.default_rng(4)
    coins, noise = coins_of(rng, 2), rng.normal(size=400)
    shared = Evidence.of_runs([Evidence(score=noise + c, member=c, design=design) for c in coins])
    for plan in (Plan(), Plan(bounds=None)):
        with pytest.raises(InputError, match="noise of its own in each"):
            audit(shared, plan=plan, rng=0)
    own = Evidence.of_runs([Evidence(score=rng.normal(size=400) + c, member=c, design=design) for c in coins])
    assert audit(own, plan=Plan(bounds=None), rng=0).counts.members > 0  # the control


def test_bounds_in_python_refuse_them_too():
    rng = np.random.default_rng(5)
    coins, noise = coins_of(rng, 2), rng.normal(size=400)
    with pytest.raises(InputError, match="noise of its own in each"):
        several_runs.audit(runs_of(noise + coins, coins), rng=rng)


def test_honest_runs_are_never_refused():
    rng = np.random.default_rng(6)
    for _ in range(200):
        coins = coins_of(rng, 2, 100)
        require_own_noise(runs_of(coins + rng.normal(size=coins.shape), coins))
        scores, coins = nearest(rng, 60)
        require_own_noise(runs_of(scores, coins))


def test_twenty_equal_scores_that_are_a_quarter_are_enough():
    rng = np.random.default_rng(7)
    for n, equal, refused in ((80, 20, True), (80, 19, False), (84, 20, False)):
        coins = np.tile(np.arange(n) % 2 == 0, (2, 1))
        coins[1, :2] = ~coins[1, :2]
        scores = rng.normal(size=(2, n))
        scores[1, -equal:] = scores[0, -equal:]
        if refused:
            with pytest.raises(InputError, match=f"{equal} of {n} scores equal in runs 1 and 2"):
                require_own_noise(runs_of(scores, coins))
        else:
            require_own_noise(runs_of(scores, coins))


def test_rounded_scores_are_refused_where_equal_coins_decide_what_is_equal():
    """Few digits: of equal coins three in four scores must be equal, of different ones at most one in four."""
    n = 160
    coins = np.stack([np.arange(n) % 2 == 0, np.arange(n) < n // 2])
    same = np.flatnonzero(coins[0] == coins[1])
    other = np.flatnonzero(coins[0] != coins[1])
    for agreeing, differing, refused in ((60, 20, True), (59, 20, False), (60, 21, False)):
        scores = np.stack([np.arange(n) * 1.0, np.arange(n) + 1000.0])
        kept = np.r_[same[:agreeing], other[:differing]]
        scores[1, kept] = scores[0, kept]
        if refused:
            with pytest.raises(InputError, match="noise of its own"):
                require_own_noise(runs_of(scores, coins))
        else:
            require_own_noise(runs_of(scores, coins))

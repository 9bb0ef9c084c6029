from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from miaudit import Evidence
from miaudit.dp.released_steps import Released, Sampled, Steps, Summed, check_sampling, evidence, strange_noise
from miaudit.errors import InputError
from worlds.steps import CLAIM, SAMPLED, released


def test_scores_of_a_sampled_step_are_its_log_likelihood_ratio() -> None:
    rng = np.random.default_rng(6)
    run = released(rng, m=50, steps=40, noise=1.0, rate=0.2)
    inside = 0.2 * stats.norm.pdf(run.sums, 1.0) + 0.8 * stats.norm.pdf(run.sums)
    by_hand = np.log(inside / stats.norm.pdf(run.sums)).sum(0)
    np.testing.assert_allclose(Sampled().scores(run, Steps.of(SAMPLED)), by_hand, rtol=1e-9)
    np.testing.assert_allclose(Summed().scores(run, Steps.of(SAMPLED)), run.sums.sum(0))


def test_evidence_goes_wherever_one_run_evidence_goes() -> None:
    found = evidence(released(np.random.default_rng(7)), CLAIM)
    assert isinstance(found, Evidence)
    assert found.design == "one-run"


def test_sampling_is_compared_with_the_claim() -> None:
    rng = np.random.default_rng(11)
    steps = Steps.of(SAMPLED)
    check_sampling(released(rng, steps=40, rate=0.2), steps)
    with pytest.raises(InputError, match="canaries in all batches"):
        check_sampling(released(rng, steps=40, rate=0.25), steps)
    run = released(rng, steps=40, rate=0.2)
    assert run.joined is not None
    stray = run.joined.copy()
    stray[3, np.flatnonzero(~run.coins)[0]] = True
    with pytest.raises(InputError, match="left out by the coins"):
        check_sampling(Released(run.sums, run.coins, stray), steps)
    fixed = np.zeros((40, 1_000), dtype=bool)  # each batch of one size: no spread over steps
    inside = np.flatnonzero(run.coins)
    for row in fixed:
        row[rng.permutation(inside)[: len(inside) // 5]] = True
    with pytest.raises(InputError, match="canaries in each batch"):
        check_sampling(Released(run.sums, run.coins, fixed), steps)


def test_no_check_of_the_description_errs_on_right_steps() -> None:
    rng = np.random.default_rng(12)
    for _ in range(50):
        run = released(rng, m=200, steps=40, noise=1.0, rate=0.2)
        check_sampling(run, Steps.of(SAMPLED))
        assert strange_noise(run, Steps.of(SAMPLED)) == ()


def test_a_step_without_noise_is_named() -> None:
    rng = np.random.default_rng(13)
    run = released(rng)
    sums = run.sums.copy()
    sums[4] = run.coins + 0.5 * rng.normal(size=1_000)
    assert "the noise of step 5 is" in " ".join(strange_noise(Released(sums, run.coins), Steps.of(CLAIM)))


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"coins": np.ones(100, dtype=bool)}, "canaries on both sides"),
        ({"coins": np.arange(100) % 2}, "array (m,) of bool"),
        ({"sums": np.zeros((3, 99))}, "one column for each canary"),
        ({"sums": np.zeros((3, 100))}, "sums that steps released"),
        ({"sums": np.full((3, 100), math.nan)}, "did the training diverge"),
        ({"joined": np.zeros((2, 100), dtype=bool)}, "one row for each step"),
        ({"again": np.ones((2, 100))}, "one row for each step"),
    ],
)
def test_what_steps_cannot_have_released_is_refused(change: dict[str, np.ndarray], word: str) -> None:
    rng = np.random.default_rng(14)
    right = {"sums": rng.normal(size=(3, 100)), "coins": rng.random(100) < 0.5}
    with pytest.raises(InputError) as told:
        Released(**{**right, **change})
    assert word in str(told.value)

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from miaudit.dp import accounting, one_run, several_runs, step_audit
from miaudit.dp.mechanism import GaussianNoise, LaplaceNoise, PoissonSubsampled, Repeated
from miaudit.dp.step_audit import AgainstRerun, Released, SameBatch, Sampled
from miaudit.errors import InputError
from worlds.steps import CLAIM, SAMPLED, STEPS, released

# -- right implementations ---------------------------------------------------------------------------------------------


def test_right_steps_show_most_of_a_claim_and_four_runs_more() -> None:
    rng = np.random.default_rng(0)
    one = [step_audit.audit(released(rng), CLAIM, rng=rng) for _ in range(12)]
    four = [step_audit.audit([released(rng) for _ in range(4)], CLAIM, rng=rng) for _ in range(6)]
    assert not any(found.refuted or found.strange for found in [*one, *four])
    assert 0.5 < np.mean([found.share for found in one]) < np.mean([found.share for found in four]) < 1
    assert one[0].claimed_mu == pytest.approx(1.0)
    assert one[0].upper.value == pytest.approx(accounting.upper_bound(CLAIM, delta=1e-5).value)
    assert one[0].exit_code == 0


def test_less_noise_than_claimed_is_refuted_and_said() -> None:
    rng = np.random.default_rng(1)
    found = step_audit.audit(released(rng, noise=1.0), CLAIM, rng=rng)
    assert found.refuted
    assert found.exit_code == 3
    assert found.share > 1
    assert found.noise_seen == pytest.approx(1 / 3, rel=0.05)
    assert "times what is claimed" in " ".join(found.strange)
    assert "Concern: refuted" in str(found)


def test_the_verdict_is_that_of_the_one_run_test_of_the_claims_tradeoff() -> None:
    """Second truth: the same counts, tested by hand."""
    run = released(np.random.default_rng(2), noise=1.5)
    found = step_audit.audit(run, CLAIM, statistics=[Sampled()], rng=np.random.default_rng(3))
    lower = found.lower
    assert lower.correct is not None and lower.guesses is not None
    assert found.p_value == pytest.approx(
        one_run.p_value(1.0, correct=lower.correct, guesses=lower.guesses, canaries=1_000)
    )
    assert found.refuted == (lower.value > 1.0)
    alone = one_run.audit(step_audit.evidence(run, CLAIM), guesses=lower.guesses, rng=np.random.default_rng(3))
    assert alone.value == pytest.approx(lower.value, abs=0.05)  # but for ties and canaries left out for balance


@pytest.mark.long
def test_a_claim_without_a_mu_is_likened_to_the_one_that_it_meets_at_a_rate_of_5_percent() -> None:
    run = released(np.random.default_rng(18), m=200, steps=40, noise=1.0, rate=0.2)
    found = step_audit.audit(run, SAMPLED, statistics=[Sampled()], rng=np.random.default_rng(0))
    missed = float(accounting.tradeoff(SAMPLED)(0.05))
    assert found.claimed_mu == pytest.approx(float(stats.norm.isf(0.05) + stats.norm.isf(missed)))


def test_the_level_is_shared_between_statistics() -> None:
    """The first has four fifths of it, the others share the rest: a p-value is divided by its share."""
    rng = np.random.default_rng(6)
    noise, coins = 3 * rng.normal(size=(STEPS, 600)), rng.random(600) < 0.5
    known = Released(coins + noise, coins, again=noise + 0.5 * rng.normal(size=noise.shape))
    for statistics, shares in (
        ([Sampled()], [1.0]),
        ([Sampled(), AgainstRerun()], [0.8, 0.2]),
        ([Sampled(), SameBatch(1), AgainstRerun()], [0.8, 0.1, 0.1]),
        ([AgainstRerun(), Sampled(), SameBatch(1)], [0.8, 0.1, 0.1]),
    ):
        found = step_audit.audit(known, CLAIM, statistics=statistics, rng=np.random.default_rng(7))
        paid = [p / share for (_, p), share in zip(found.of_statistics, shares, strict=True)]
        assert found.p_value == pytest.approx(min(1.0, *paid))
        assert found.refuted == (found.p_value <= 0.05)
        assert found.lower.confidence == 0.95
        assert any("share the rest" in text for text in found.lower.corrections) == (len(statistics) > 1)


def test_several_runs_are_combined_as_several_runs_are() -> None:
    rng = np.random.default_rng(4)
    runs = [released(rng) for _ in range(3)]
    found = step_audit.audit(runs, CLAIM, at_least=2, rng=np.random.default_rng(5))
    each = several_runs.level(3, at_least=2, confidence=0.95)
    assert f"at level {each:.3g}" in " ".join(found.lower.corrections)
    assert found.runs == 3


# -- wrong ones --------------------------------------------------------------------------------------------------------


@pytest.mark.long
def test_noise_drawn_once_cancels_in_the_plain_sum_alone() -> None:
    rng = np.random.default_rng(8)
    coins = rng.random(2_000) < 0.5
    joined = (rng.random((40, 2_000)) < 0.2) & coins
    sign = np.where(np.arange(40) % 2 == 0, 1.0, -1.0)[:, None]
    run = Released(joined + 2 * sign * rng.normal(size=2_000), coins)
    claim = Repeated(PoissonSubsampled(GaussianNoise(2.0), 0.2), 40)
    found = step_audit.audit(run, claim, rng=rng)
    assert found.refuted
    assert "not drawn anew" in " ".join(found.strange)
    assert not step_audit.audit(run, claim, statistics=[Sampled()], rng=rng).refuted  # what the sum is for


@pytest.mark.long
def test_batches_that_come_again_are_seen_by_the_statistic_for_them() -> None:
    rng = np.random.default_rng(9)
    claim = Repeated(PoissonSubsampled(GaussianNoise(2.0), 0.1), 300)
    coins = rng.random(2_000) < 0.5
    place = rng.integers(0, 10, 2_000)
    joined = (np.arange(300)[:, None] % 10 == place) & coins
    run = Released(joined + 2 * rng.normal(size=(300, 2_000)), coins, joined)
    assert step_audit.audit(run, claim, sampling=False, rng=rng).refuted
    assert not step_audit.audit(run, claim, statistics=[Sampled()], sampling=False, rng=rng).refuted
    with pytest.raises(InputError, match=r"batches that each canary is in.*no Poisson samples"):
        step_audit.audit(run, claim, rng=rng)


def test_a_known_seed_is_seen_against_a_second_training() -> None:
    rng = np.random.default_rng(10)
    noise = 3 * rng.normal(size=(STEPS, 1_000))
    coins = rng.random(1_000) < 0.5
    known = Released(coins + noise, coins, again=noise)
    assert step_audit.audit(known, CLAIM, rng=rng).refuted
    fresh = Released(coins + noise, coins, again=3 * rng.normal(size=(STEPS, 1_000)))
    assert not step_audit.audit(fresh, CLAIM, rng=rng).refuted
    with pytest.raises(InputError, match="train again from the same seeds"):
        step_audit.audit(released(rng), CLAIM, statistics=[AgainstRerun()], rng=rng)


# -- what is refused ---------------------------------------------------------------------------------------------------


def test_claims_and_runs_that_do_not_fit_are_refused() -> None:
    rng = np.random.default_rng(15)
    run = released(rng)
    with pytest.raises(InputError, match="the 20 steps of the claim"):
        step_audit.audit(run, Repeated(GaussianNoise(3.0), 20), rng=rng)
    with pytest.raises(InputError, match="steps of DP-SGD"):
        step_audit.audit(run, Repeated(LaplaceNoise(3.0), STEPS), rng=rng)
    with pytest.raises(InputError, match="at least one training"):
        step_audit.audit([], CLAIM, rng=rng)
    with pytest.raises(InputError, match="equal ones in runs 1 and 2"):
        step_audit.audit([run, run], CLAIM, rng=rng)
    copied = Released(run.coins + 3 * rng.normal(size=(STEPS, 1_000)), run.coins)
    with pytest.raises(InputError, match="memberships have a correlation"):
        step_audit.audit([run, copied], CLAIM, rng=rng)
    with pytest.raises(InputError, match="at most the 2 runs"):
        step_audit.audit([run, released(rng)], CLAIM, at_least=3, rng=rng)
    with pytest.raises(InputError, match="period"):
        step_audit.audit(run, CLAIM, statistics=[SameBatch(period=10)], rng=rng)


@pytest.mark.parametrize("confidence", [0.0, 1.0, 95])
def test_a_confidence_outside_0_and_1_is_refused(confidence: float) -> None:
    rng = np.random.default_rng(19)
    with pytest.raises(InputError, match="confidence"):
        step_audit.audit(released(rng, m=100), CLAIM, confidence=confidence, rng=rng)


def test_too_little_evidence_is_no_answer() -> None:
    rng = np.random.default_rng(17)
    strong = Repeated(GaussianNoise(1.0), STEPS)  # mu = 3
    one = step_audit.audit(released(rng, noise=1.0), strong, rng=rng)
    assert not one.testable
    assert one.exit_code == 4
    assert "take more runs" in str(one)
    four = step_audit.audit([released(rng, noise=1.0) for _ in range(4)], strong, rng=rng)
    assert four.testable
    assert four.exit_code == 0


def test_few_canaries_still_find_a_gross_leak() -> None:
    rng = np.random.default_rng(16)
    weak = Repeated(GaussianNoise(9.0), STEPS)
    assert step_audit.audit(released(rng, m=100, noise=0.2), weak, rng=rng).refuted

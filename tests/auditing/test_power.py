"""Planning: what it promises is what audits of simulated scores then see."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import special

from miaudit import Evidence
from miaudit.auditing import power
from miaudit.auditing.planned_guesses import PlannedGuesses
from miaudit.dp import multi_run, one_run
from miaudit.dp.verdict import Claim
from miaudit.errors import InputError
from miaudit.metrics.classical import Sample


def share_detected(n: int, fpr: float, tpr: float, against: float, runs: int) -> float:
    """Audit Gaussian scores of a known TPR from scratch and count the lower limits above ``against``."""
    rng = np.random.default_rng(11)
    shift = special.ndtri(tpr) - special.ndtri(fpr)
    member = np.arange(2 * n) < n
    hits = 0
    for _ in range(runs):
        sample = Sample.of(Evidence(score=rng.normal(size=2 * n) + shift * member, member=member))
        hits += sample.tpr_at_fpr(fpr, 0.95).low > against
    return hits / runs


@pytest.mark.thorough
@pytest.mark.long
@pytest.mark.parametrize(("n", "fpr"), [(1000, 0.01), (3000, 0.1), (4000, 0.001)])
def test_the_promised_power_is_what_audits_have(n: int, fpr: float) -> None:
    found = power.at_fpr(fpr, members=n, nonmembers=n, rng=np.random.default_rng(0))
    assert found.smallest_tpr is not None
    assert abs(share_detected(n, fpr, found.smallest_tpr, fpr, 300) - 0.8) < 0.08
    # The control: halfway to chance, the audit has lost most of its power.
    assert share_detected(n, fpr, (found.smallest_tpr + fpr) / 2, fpr, 300) < 0.65


@pytest.mark.thorough
@pytest.mark.long
def test_the_normal_form_takes_over_smoothly() -> None:
    few = power.at_fpr(0.1, members=2000, nonmembers=1999, rng=np.random.default_rng(0)).smallest_tpr
    many = power.at_fpr(0.1, members=2000, nonmembers=2001, rng=np.random.default_rng(0)).smallest_tpr
    assert few is not None
    assert many is not None
    assert abs(few - many) < 0.1 * (few - 0.1)


@pytest.mark.long
def test_below_the_resolution_there_is_no_smallest_tpr() -> None:
    found = power.at_fpr(0.001, members=3689, nonmembers=3689, rng=np.random.default_rng(0))
    assert found.smallest_tpr is None
    assert not found.resolvable
    assert found.nonmembers_needed == 3690
    assert power.at_fpr(0.001, members=3690, nonmembers=3690, rng=np.random.default_rng(0)).resolvable
    assert 0.001 < found.clear_from < 0.05


@pytest.mark.thorough
@pytest.mark.long
def test_records_needed_is_the_inverse() -> None:
    n = power.records_needed(0.01, 0.02, rng=np.random.default_rng(0))
    found = power.at_fpr(0.01, members=n, nonmembers=n, rng=np.random.default_rng(0))
    assert found.smallest_tpr is not None
    assert abs(found.smallest_tpr - 0.02) < 0.002
    assert power.records_needed(0.01, 0.015, rng=np.random.default_rng(0)) > n
    assert power.records_needed(0.01, 0.03, threshold=0.02, rng=np.random.default_rng(0)) > n


def test_smallest_auc_against_simulation() -> None:
    n, runs, rng = 300, 400, np.random.default_rng(5)
    auc = power.smallest_auc(n, n)
    shift = np.sqrt(2) * special.ndtri(auc)
    member = np.arange(2 * n) < n
    hits = 0
    for _ in range(runs):
        hits += Sample.of(Evidence(score=rng.normal(size=2 * n) + shift * member, member=member)).auc(0.95).low > 0.5
    assert abs(hits / runs - 0.8) < 0.06


@pytest.mark.long
def test_wishes_that_cannot_be() -> None:
    rng = np.random.default_rng(0)
    for options in ({"fpr": 0.01, "tpr": 0.01}, {"fpr": 0.01, "tpr": 0.005}, {"fpr": 0.1, "tpr": 0.100001}):
        with pytest.raises(InputError, match="tpr"):
            power.records_needed(**options, rng=rng)


def gaussian_run(n: int, mu: float, design: str, seed: int) -> Evidence:
    """One run of Gaussian noise with the best attack: scores are N(mu, 1) for members and N(0, 1) for others."""
    rng = np.random.default_rng(seed)
    member = rng.random(2 * n) < 0.5 if design == "one-run" else np.arange(2 * n) < n
    return Evidence(score=rng.normal(size=2 * n) + mu * member, member=member, design=design)


def bound_of(evidence: Evidence, parameter: str, delta: float = 1e-5):
    rng = np.random.default_rng(1)
    if evidence.design == "one-run":
        return one_run.audit(evidence, parameter=parameter, delta=delta if parameter == "epsilon" else 0, rng=rng)
    if parameter == "mu":
        return multi_run.mu_lower_bound(evidence, rng=rng)
    return multi_run.epsilon_lower_bound(evidence, delta=delta, rng=rng)


@pytest.mark.long
@pytest.mark.parametrize(("design", "n"), [("one-run", 2000), ("multi-run", 500)])
@pytest.mark.parametrize("parameter", ["mu", "epsilon"])
def test_typical_bounds_are_those_of_audits(design: str, n: int, parameter: str) -> None:
    found = power.reach(design, members=n, nonmembers=n)
    for typical in found.typical[1:]:
        mean = np.mean([bound_of(gaussian_run(n, typical.mu, design, seed), parameter).value for seed in range(12)])
        promised = typical.mu_shown if parameter == "mu" else typical.epsilon_shown
        # With many runs the best of eight thresholds is a little better than the best one beforehand.
        assert -0.15 < mean / promised - 1 < (0.3 if design == "multi-run" else 0.15)
        assert promised < (typical.mu if parameter == "mu" else typical.epsilon)
        # The control: an algorithm that leaks half as much does not show it.
        half = np.mean([bound_of(gaussian_run(n, typical.mu / 2, design, seed), parameter).value for seed in range(4)])
        assert half < 0.7 * promised


@pytest.mark.parametrize(("design", "n"), [("one-run", 2000), ("multi-run", 500)])
@pytest.mark.parametrize("parameter", ["mu", "epsilon"])
def test_an_attack_without_errors_comes_close_to_the_largest_bound(design: str, n: int, parameter: str) -> None:
    found = power.reach(design, members=n, nonmembers=n)
    perfect = bound_of(gaussian_run(n, 60.0, design, 0), parameter)
    largest = found.mu if parameter == "mu" else found.epsilon
    # Where coins do not fall in equal halves, guesses on both sides of the median cannot all be right.
    assert perfect.reachable == pytest.approx(largest, rel=1e-6) if design == "one-run" else perfect.reachable
    assert (0.88 if design == "one-run" else 0.95) * largest < perfect.value <= largest


def test_one_run_numbers_by_hand() -> None:
    found = power.reach("one-run", members=50, nonmembers=50, delta=0.0)
    assert found.audited == 100
    own = {1, 2, 4, 5, 7, 10, 14, 20, 28, 40, 60, 100}
    few = (1, 5, 20, 100)  # .25% and 1% of a hundred records are one guess: four numbers share two fifths of the level
    best = max(-np.log((at * 0.05) ** (-1 / r) - 1) for at, tried in ((0.6, own), (0.1, few)) for r in tried)
    assert found.epsilon == pytest.approx(best, abs=1e-5)  # q^r = 5%, epsilon = logit q
    assert found.typical[0].epsilon is None
    few = power.reach("one-run", members=1, nonmembers=1)
    assert (few.audited, few.mu, few.epsilon) == (2, 0.0, 0.0)
    lopsided = power.reach("one-run", members=50, nonmembers=5000, delta=0.0)
    assert lopsided.audited == 100  # the larger class is cut


@pytest.mark.long
@pytest.mark.parametrize(("design", "n"), [("one-run", 1000), ("multi-run", 200)])
@pytest.mark.parametrize("claim", [Claim.gaussian(0.5), Claim.epsilon_delta(1.0, 1e-5)])
def test_the_counts_of_a_refutation_refute_and_fewer_do_not(design: str, n: int, claim: Claim) -> None:
    found = power.refutation(claim, design, members=n, nonmembers=n)
    assert found.refutable
    assert found.accuracy == found.correct / found.guesses
    if design == "one-run":
        planned = PlannedGuesses.of(None, 2 * n, 0.95)
        at = min(confidence for guesses, confidence in planned.tests if guesses == found.guesses)  # the schedule's
        size = {"guesses": found.guesses, "canaries": 2 * n, "confidence": at}
        by_counts = one_run.mu_lower_bound if claim.parameter == "mu" else one_run.epsilon_lower_bound
        more = {} if claim.parameter == "mu" else {"delta": claim.delta}
        assert by_counts(correct=found.correct, **size, **more).value > claim.value
        assert by_counts(correct=found.correct - 3, **size, **more).value <= claim.value
    runs = 8
    seen = [bound_of(gaussian_run(n, found.true_mu, design, seed), claim.parameter).value for seed in range(runs)]
    assert abs(np.mean(seen) / claim.value - 1) < 0.35


def test_what_cannot_be_refuted() -> None:
    for claim in (Claim.gaussian(3.0), Claim.epsilon_delta(30.0, 1e-5)):
        found = power.refutation(claim, "one-run", members=1000, nonmembers=1000)
        assert (found.refutable, found.correct, found.true_mu) == (False, None, None)
        assert found.reachable < claim.value
    with pytest.raises(InputError, match="zero-run"):
        power.reach("zero-run", members=10, nonmembers=10)
    with pytest.raises(InputError, match="members"):
        power.reach("one-run", members=0, nonmembers=10)
    with pytest.raises(InputError, match="delta"):
        power.reach("one-run", members=10, nonmembers=10, delta=1.0)

"""Laws that every metric obeys in every world, however small, tied, perfect or void."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from miaudit import Evidence
from miaudit.io.numeric import LARGEST
from miaudit.metrics.classical import Estimate, Sample
from miaudit.metrics.definition import estimates
from miaudit.metrics.definition import names as metric_names
from miaudit.metrics.roc import Roc
from worlds.scores import WORLDS

TARGETS = (0.001, 0.01, 0.05, 0.25, 0.9)
SIZES = ((1, 1), (1, 2), (2, 1), (2, 2), (1, 40), (40, 1), (7, 5), (90, 140))
RATES = [*(f"tpr_at_fpr_{a:g}" for a in TARGETS), "auc", "advantage", "balanced_accuracy"]
CASES = [(name, sizes) for name in WORLDS for sizes in SIZES]
RISING: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "shift": lambda y: y * 0.5 - 64,
    "exp": lambda y: np.exp(y / 4),
    "cube": lambda y: y**3 + y,
    "ranks": lambda y: np.unique(y, return_inverse=True)[1].astype(float),
}


def evidence_of(name: str, sizes: tuple[int, int], seed: int = 0) -> Evidence:
    score, member = WORLDS[name].draw(*sizes, np.random.default_rng(seed))
    return Evidence(score=score, member=member)


def found(evidence: Evidence, confidence: float = 0.95) -> dict[str, Estimate]:
    return estimates(Sample.of(evidence), metric_names(TARGETS), confidence)


def same(a: Estimate, b: Estimate) -> bool:
    if (a.value is None) != (b.value is None):
        return False
    return np.allclose([a.value or 0, a.low, a.high], [b.value or 0, b.low, b.high], atol=1e-9)


@pytest.mark.long
@pytest.mark.parametrize(("name", "sizes"), CASES)
@pytest.mark.parametrize("confidence", [0.6, 0.95, 0.9999])
def test_every_rate_lies_between_its_limits_and_in_its_range(
    name: str, sizes: tuple[int, int], confidence: float
) -> None:
    by_name = found(evidence_of(name, sizes), confidence)
    assert set(by_name) == {*RATES, "ate"}
    for metric in RATES:
        estimate = by_name[metric]
        assert 0 <= estimate.low <= estimate.high <= 1
        assert estimate.confidence == confidence
        if estimate.value is None:
            assert estimate.low == 0
            assert metric.startswith("tpr")
            assert "upper limit only" in estimate.note
        else:
            assert estimate.low <= estimate.value <= estimate.high
            if metric.startswith("tpr"):
                assert estimate.step_value <= estimate.value + 1e-12
    assert by_name["balanced_accuracy"].value >= 0.5
    effect = by_name["ate"]
    assert effect.low <= effect.value <= effect.high


@pytest.mark.long
@pytest.mark.parametrize(("name", "sizes"), CASES)
@pytest.mark.parametrize("transform", RISING)
def test_a_rising_transform_of_the_score_changes_no_rate(name: str, sizes: tuple[int, int], transform: str) -> None:
    evidence = evidence_of(name, sizes)
    moved = RISING[transform](evidence.score)
    # A transform in floating point could merge neighbours; then it would not be strictly rising.
    assert len(np.unique(moved)) == len(np.unique(evidence.score))
    before, after = found(evidence), found(evidence.replace(score=moved))
    for metric in RATES:
        assert same(before[metric], after[metric]), metric


def test_a_falling_transform_does() -> None:
    evidence = evidence_of("gaussian", (90, 140))
    before, after = found(evidence), found(evidence.replace(score=-evidence.score))
    assert not same(before["auc"], after["auc"])  # control of the laws above


@pytest.mark.parametrize(("name", "sizes"), CASES)
def test_the_order_of_the_rows_does_not_matter(name: str, sizes: tuple[int, int]) -> None:
    evidence = evidence_of(name, sizes)
    before = found(evidence)
    after = found(evidence.take(np.random.default_rng(1).permutation(evidence.n)))
    for metric, estimate in before.items():
        if np.isfinite(estimate.low):
            assert same(estimate, after[metric]), metric


@pytest.mark.long
@pytest.mark.parametrize(("name", "sizes"), CASES)
def test_swapping_the_classes_mirrors_the_auc(name: str, sizes: tuple[int, int]) -> None:
    evidence = evidence_of(name, sizes)
    before = found(evidence)["auc"]
    swapped = found(evidence.replace(member=~evidence.member))
    negated = found(evidence.replace(score=-evidence.score))["auc"]
    for after in (swapped["auc"], negated):
        assert after.value == pytest.approx(1 - before.value, abs=1e-12)
        assert (after.low, after.high) == pytest.approx((1 - before.high, 1 - before.low), abs=1e-9)
    both = found(evidence.replace(member=~evidence.member, score=-evidence.score))
    assert both["advantage"].value == pytest.approx(found(evidence)["advantage"].value, abs=1e-12)
    assert swapped["ate"].value == pytest.approx(-found(evidence)["ate"].value, abs=1e-12)


@pytest.mark.parametrize(("name", "sizes"), CASES)
def test_duplicates_of_every_record_leave_the_values(name: str, sizes: tuple[int, int]) -> None:
    evidence = evidence_of(name, sizes)
    twice = evidence.take(np.repeat(np.arange(evidence.n), 3))
    before, after = Roc.of(evidence.score, evidence.member), Roc.of(twice.score, twice.member)
    np.testing.assert_allclose(before.fpr, after.fpr, atol=1e-12)
    np.testing.assert_allclose(before.tpr, after.tpr, atol=1e-12)
    assert before.auc == pytest.approx(after.auc, abs=1e-12)
    assert found(evidence)["advantage"].value == pytest.approx(found(twice)["advantage"].value, abs=1e-12)
    for alpha in (0.003, 0.123, 0.456):
        assert float(before.tpr_at(alpha)) == pytest.approx(float(after.tpr_at(alpha)), abs=1e-9)


@pytest.mark.long
@settings(max_examples=100, deadline=None, derandomize=True)
@given(
    score=st.lists(st.sampled_from([-2.0, -0.5, 0.0, 0.1, 3.0]), min_size=2, max_size=25),
    seed=st.integers(0, 2**32 - 1),
)
def test_a_weight_is_a_number_of_copies(score: list[float], seed: int) -> None:
    rng = np.random.default_rng(seed)
    y, member, times = np.array(score), rng.random(len(score)) < 0.5, rng.integers(0, 4, len(score))
    assume(times[member].sum() > 0 and times[~member].sum() > 0)
    weighted = Roc.of(y, member, times.astype(float))
    copied = Roc.of(np.repeat(y, times), np.repeat(member, times))
    assert weighted.auc == pytest.approx(copied.auc, abs=1e-12)
    assert weighted.advantage == pytest.approx(copied.advantage, abs=1e-12)
    grid = rng.random(20)
    np.testing.assert_allclose(weighted.tpr_at(grid), copied.tpr_at(grid), atol=1e-9)
    for alpha in grid.tolist():
        assert weighted.step_tpr_at(alpha) == pytest.approx(copied.step_tpr_at(alpha), abs=1e-9)


@pytest.mark.long
@settings(max_examples=150, deadline=None, derandomize=True)
@given(
    inside=st.lists(st.floats(-LARGEST, LARGEST), min_size=1, max_size=30),
    outside=st.lists(st.floats(-LARGEST, LARGEST), min_size=1, max_size=30),
    confidence=st.floats(0.5, 0.99999),
)
def test_no_finite_scores_break_a_rate(inside: list[float], outside: list[float], confidence: float) -> None:
    score = np.array([*inside, *outside])
    sample = Sample.of(Evidence(score=score, member=np.arange(len(score)) < len(inside)))
    for estimate in (
        sample.auc(confidence),
        sample.advantage(confidence),
        sample.balanced_accuracy(confidence),
        *(sample.tpr_at_fpr(a, confidence) for a in TARGETS),
    ):
        assert 0 <= estimate.low <= estimate.high <= 1
        assert estimate.value is None or estimate.low <= estimate.value <= estimate.high


@pytest.mark.parametrize("scale", [1e-70, 1.0, 1e70, 1e80, LARGEST])
def test_the_average_effect_scales_with_the_score(scale: float) -> None:
    evidence = evidence_of("perfect", (40, 30))
    plain, scaled = found(evidence)["ate"], found(evidence.replace(score=evidence.score / 2 * scale))["ate"]
    assert np.array([scaled.value, scaled.low, scaled.high]) / scale * 2 == pytest.approx(
        np.array([plain.value, plain.low, plain.high])
    )


@pytest.mark.long
@pytest.mark.parametrize("name", WORLDS)
def test_tpr_and_its_limits_rise_with_the_fpr(name: str) -> None:
    score, member = WORLDS[name].draw(300, 900, np.random.default_rng(2))
    sample = Sample.of(Evidence(score=score, member=member))
    grid = np.linspace(0.005, 0.99, 60)
    estimates = [sample.tpr_at_fpr(float(a), 0.95) for a in grid]
    assert all(e.value is not None for e in estimates)
    for values in ([e.value for e in estimates], [e.low for e in estimates], [e.high for e in estimates]):
        assert (np.diff(values) > -1e-3).all()

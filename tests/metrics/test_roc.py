"""The counting primitive against scikit-learn, a brute-force twin and the definition of ties (erratum A4)."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import roc_auc_score, roc_curve

from miaudit.metrics.roc import Roc, histogram
from worlds import twins
from worlds.scores import WORLDS


@pytest.mark.parametrize("name", WORLDS)
@pytest.mark.parametrize("weighted", [False, True])
def test_agrees_with_scikit_learn(name: str, weighted: bool) -> None:
    rng = np.random.default_rng(1)
    score, member = WORLDS[name].draw(300, 170, rng)
    weight = rng.random(470) * 3 if weighted else None
    roc = Roc.of(score, member, weight)
    fpr, tpr, threshold = roc_curve(member, score, sample_weight=weight, drop_intermediate=False)
    np.testing.assert_allclose(roc.fpr, fpr, atol=1e-12)
    np.testing.assert_allclose(roc.tpr, tpr, atol=1e-12)
    np.testing.assert_array_equal(roc.threshold, threshold)
    assert roc.auc == pytest.approx(roc_auc_score(member, score, sample_weight=weight), abs=1e-12)
    assert roc.advantage == pytest.approx(np.max(tpr - fpr), abs=1e-12)
    inner = np.array([0.003, 0.0123, 0.1234, 0.777])
    np.testing.assert_allclose(roc.tpr_at(inner), np.interp(inner, fpr, tpr), atol=1e-12)
    for alpha in inner:
        assert roc.step_tpr_at(float(alpha)) == pytest.approx(tpr[fpr <= alpha].max(), abs=1e-12)


def test_a_wrong_weight_is_noticed() -> None:
    """Control of the comparison above."""
    rng = np.random.default_rng(2)
    score, member = WORLDS["gaussian"].draw(300, 170, rng)
    weight = np.exp(score)
    right = roc_auc_score(member, score, sample_weight=weight)
    assert abs(Roc.of(score, member).auc - right) > 0.01
    assert abs(Roc.of(score, member, weight).auc - right) < 1e-12


@pytest.mark.long
@settings(max_examples=150, deadline=None, derandomize=True)
@given(
    inside=st.lists(st.integers(-4, 4), min_size=1, max_size=12),
    outside=st.lists(st.integers(-4, 4), min_size=1, max_size=12),
)
def test_agrees_with_counting_every_pair(inside: list[int], outside: list[int]) -> None:
    score = np.array([*inside, *outside], dtype=float)
    member = np.arange(len(score)) < len(inside)
    roc = Roc.of(score, member)
    for threshold, hits, alarms in zip(roc.threshold, roc.true_positive, roc.false_positive, strict=True):
        assert hits == twins.counts_at_or_above(score, member, threshold)
        assert alarms == twins.counts_at_or_above(score, ~member, threshold)
    assert sorted(set(score), reverse=True) == roc.threshold[1:].tolist()
    assert roc.auc == pytest.approx(twins.auc_by_pairs(score, member), abs=1e-12)
    for quarters in range(4 * len(outside) + 1):
        fewest, most = roc.hits_between(quarters / 4)
        slow = twins.members_above_boundary(score, member, quarters / 4)
        assert (float(fewest), float(most)) == pytest.approx(slow, abs=1e-9)
    assert bool(set(inside) & set(outside)) == roc.has_ties
    assert roc.threshold[roc.blocks_of(score)].tolist() == score.tolist()


def test_ties_count_one_half_and_interpolate() -> None:
    roc = Roc.of([1.0, 1.0, 0.0, 0.0], [True, False, True, False])
    assert roc.auc == 0.5
    assert float(roc.tpr_at(0.25)) == 0.25  # a randomised threshold inside the upper block
    assert roc.step_tpr_at(0.25) == 0.0  # without one, nobody may be accused
    assert roc.step_tpr_at(0.5) == 0.5


@pytest.mark.parametrize("alpha", [0.29, 0.3, 0.58, 0.7])
def test_a_target_that_is_a_whole_number_of_nonmembers_uses_them_all(alpha: float) -> None:
    """alpha * n0 may round to just below the integer it stands for: 0.29 * 100 is 28.999..."""
    outside = np.arange(100.0)[::-1]
    inside = outside + 0.5
    roc = Roc.of(np.r_[inside, outside], np.arange(200) < 100)
    assert float(roc.tpr_at(alpha)) == pytest.approx(roc.step_tpr_at(alpha), abs=1e-12)


def test_the_curve_starts_and_ends_in_the_corners() -> None:
    for world in WORLDS.values():
        roc = Roc.of(*world.draw(20, 30, np.random.default_rng(3)))
        assert (roc.fpr[0], roc.tpr[0], roc.fpr[-1], roc.tpr[-1]) == (0, 0, 1, 1)
        assert math.isinf(roc.threshold[0])
        assert (np.diff(roc.fpr) >= 0).all()
        assert (np.diff(roc.tpr) >= 0).all()
        assert float(roc.tpr_at(1.0)) == 1.0


def test_shares_add_up_and_edges_are_round_and_hide_records() -> None:
    rng = np.random.default_rng(0)
    values, member = rng.normal(3, 2, 1000), np.arange(1000) < 400
    found = histogram(values, member)
    assert sum(found.members) == pytest.approx(1, abs=1e-4)
    assert sum(found.nonmembers) == pytest.approx(1, abs=1e-4)
    steps = np.diff(found.edges)
    assert np.allclose(steps, steps[0])
    assert f"{steps[0]:.12g}".lstrip("0.").rstrip("0")[0] in "125"
    assert 30 <= len(steps) <= 80
    assert not np.isin(values, found.edges).any()
    counts, _ = np.histogram(np.clip(values[member], found.edges[0], found.edges[-1]), found.edges)
    assert np.allclose(found.members, counts / 400, atol=1e-6)


@pytest.mark.parametrize("constant", [0.0, 0.3, -5.0, 1e12, 1e-12])
def test_values_that_are_all_equal_have_one_bin(constant: float) -> None:
    noise = constant * 1e-15 * np.arange(10)
    found = histogram(constant + noise, np.arange(10) < 5)
    assert len(found.members) <= 2
    assert (sum(found.members), sum(found.nonmembers)) == (1.0, 1.0)
    assert all(np.diff(found.edges) > 0)


@pytest.mark.parametrize("scale", [1e-20, 1e-6, 1.0, 1e20])
def test_the_unit_does_not_matter(scale: float) -> None:
    values, member = np.random.default_rng(1).normal(size=400), np.arange(400) < 200
    assert len(histogram(scale * values, member).edges) == len(histogram(values, member).edges)


def test_one_far_value_does_not_flatten_the_rest() -> None:
    values = np.r_[np.random.default_rng(1).normal(size=999), 1e14]
    found = histogram(values, np.arange(1000) < 500)
    assert max(found.members) < 0.3


@pytest.mark.parametrize("scale", [5e-324, 1e-320, 1e-310, 1e-300, 1e-292, 1e-280, 1e150])
def test_a_histogram_of_scores_at_the_edge_of_float64(scale: float) -> None:
    values = np.array([0.0, 1.0, 0.0, 1.0, 1.0, -1.0]) * scale
    found = histogram(values, np.array([True, False] * 3))
    assert np.isfinite(found.edges).all()
    assert (np.diff(found.edges) > 0).all()
    assert sum(found.members) == pytest.approx(1)
    assert sum(found.nonmembers) == pytest.approx(1)


def test_ties_are_of_a_member_and_a_non_member() -> None:
    assert Roc.of([1.0, 1.0, 2.0, 3.0], [True, False, True, False]).has_ties
    assert not Roc.of([1.0, 1.0, 2.0, 2.0], [True, True, False, False]).has_ties


def test_hits_stay_on_the_curve() -> None:
    roc = Roc.of([4.0, 3.0, 3.0, 2.0, 1.0], [True, True, False, True, False])
    low, high = roc.hits_between([-1.0, 0.0, 0.5, 1.0, 2.0, 7.0])
    assert low.tolist() == [0.0, 0.0, 1.5, 2.0, 3.0, 3.0]
    assert high.tolist() == [1.0, 1.0, 1.5, 3.0, 3.0, 3.0]
